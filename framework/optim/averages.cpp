#include <ripieno/framework/optim/averages.hpp>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/core/device_stream.hpp>
#include <ripieno/framework/core/portable_math.hpp>
#include <ripieno/framework/optim/algorithm.hpp>
#include <ripieno/framework/optim/device_kernels.hpp>
#include <ripieno/framework/optim/element_kernels.hpp>
#include <ripieno/framework/optim/parallel.hpp>
#include <utility>
#include <vector>

namespace ripieno::optim {
namespace {

PyTree clones(const PyTree& params) {
  return params.map([](const at::Tensor& leaf) { return leaf.detach().clone(at::MemoryFormat::Contiguous); });
}

template <class Real>
Real* elements(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr<Real>() : nullptr;
}

/// average = (1 - weight) average + weight (params + updates)
void take_in(const at::Tensor& average, const at::Tensor& params, const at::Tensor& updates, double weight) {
  AT_DISPATCH_FLOATING_TYPES(average.scalar_type(), "average", [&] {
    if (!average.is_cpu()) {
      return average_on_device(elements<scalar_t>(average), elements<scalar_t>(params), elements<scalar_t>(updates),
                               weight, static_cast<std::size_t>(average.numel()), current_stream(average.device()));
    }
    over_elements(average.numel(), [&](std::size_t begin, std::size_t end) {
      average_elements(elements<scalar_t>(average), elements<scalar_t>(params), elements<scalar_t>(updates), weight,
                       begin, end);
    });
  });
}

void interpolate(const at::Tensor& z, const at::Tensor& x, const Leaf& leaf, double weight) {
  AT_DISPATCH_FLOATING_TYPES(z.scalar_type(), "schedule_free", [&] {
    if (!z.is_cpu()) {
      return interpolate_on_device(elements<scalar_t>(z), elements<scalar_t>(x), elements<scalar_t>(leaf.params),
                                   elements<scalar_t>(leaf.updates), weight, static_cast<std::size_t>(z.numel()),
                                   current_stream(z.device()));
    }
    over_elements(z.numel(), [&](std::size_t begin, std::size_t end) {
      interpolate_elements(elements<scalar_t>(z), elements<scalar_t>(x), elements<scalar_t>(leaf.params),
                           elements<scalar_t>(leaf.updates), weight, begin, end);
    });
  });
}

/// An optimizer around another.
class Wrapper : public Algorithm {
 public:
  explicit Wrapper(const FunctionalOptimizer& base) : base_(base.algorithm()) {}

  [[nodiscard]] std::string use_of_params() const override { return "they are averaged"; }
  [[nodiscard]] std::string coupling() const override { return base_->coupling(); }
  [[nodiscard]] bool takes_squares() const override { return base_->takes_squares(); }
  [[nodiscard]] bool corrects_noise() const override { return base_->corrects_noise(); }
  [[nodiscard]] bool averages() const override { return true; }

 protected:
  [[nodiscard]] const Algorithm& base() const { return *base_; }

 private:
  std::shared_ptr<const Algorithm> base_;
};

class ScheduleFree final : public Wrapper {
 public:
  ScheduleFree(const FunctionalOptimizer& base, ScheduleFreeOptions options) : Wrapper(base), options_(options) {}

  [[nodiscard]] std::string name() const override { return "schedule_free(" + base().name() + ")"; }

  [[nodiscard]] OptimizerState init(const PyTree& params) const override {
    OptimizerState state = base().init(params);
    state.slots.emplace("z", clones(params));
    state.slots.emplace("x", clones(params));
    return state;
  }

  void advance(const Step& step, OptimizerState& state) const override {
    const std::vector<at::Tensor> z = state.slots.at("z").leaves();
    const std::vector<at::Tensor> x = state.slots.at("x").leaves();
    Step inner = step;
    for (std::size_t i = 0; i < z.size(); ++i) {
      inner.leaves[i].params = z[i];
      inner.leaves[i].updates = at::Tensor();
      inner.leaves[i].in_place = true;
    }
    base().advance(inner, state);
    const std::int64_t averaged = state.step - options_.warmup;
    const double weight = averaged > 1 ? 1 / static_cast<double>(averaged) : 1;
    for (std::size_t i = 0; i < z.size(); ++i) {
      take_in(x[i], z[i], {}, weight);
      interpolate(z[i], x[i], step.leaves[i], options_.beta);
    }
  }

  [[nodiscard]] PyTree published(const PyTree& /*params*/, const OptimizerState& state) const override {
    return state.slots.at("x");
  }

 private:
  ScheduleFreeOptions options_;
};

class Averaged final : public Wrapper {
 public:
  Averaged(const FunctionalOptimizer& base, AverageOptions options) : Wrapper(base), options_(options) {}

  [[nodiscard]] std::string name() const override { return "averaged(" + base().name() + ")"; }

  [[nodiscard]] OptimizerState init(const PyTree& params) const override {
    OptimizerState state = base().init(params);
    state.slots.emplace("average", clones(params));
    return state;
  }

  void advance(const Step& step, OptimizerState& state) const override {
    base().advance(step, state);
    const std::vector<at::Tensor> averages = state.slots.at("average").leaves();
    const double weight = weight_of(state.step - options_.after);
    for (std::size_t i = 0; i < averages.size(); ++i) {
      take_in(averages[i], step.leaves[i].params, step.leaves[i].updates, weight);
    }
  }

  [[nodiscard]] PyTree published(const PyTree& /*params*/, const OptimizerState& state) const override {
    return state.slots.at("average");
  }

 private:
  /// Of the parameters after step n of the average, counted from 1.
  [[nodiscard]] double weight_of(std::int64_t n) const {
    if (n <= 1) return 1;
    if (options_.decay == 1) return 1 / static_cast<double>(n);
    return (1 - options_.decay) / (1 - portable::pow(options_.decay, n));
  }

  AverageOptions options_;
};

void check_base(const FunctionalOptimizer& base, const char* wrapper) {
  if (!base.algorithm()->averages()) return;
  throw UsageError(std::string(wrapper) + " cannot average " + base.name(), "that keeps an average already",
                   "choose one of the two");
}

void check_steps(const char* wrapper, const char* option, std::int64_t steps) {
  check_option(wrapper, option, static_cast<double>(steps), steps >= 0, "not negative");
}

}  // namespace

FunctionalOptimizer schedule_free(const FunctionalOptimizer& base, ScheduleFreeOptions options) {
  check_base(base, "schedule_free");
  check_option("schedule_free", "beta", options.beta, options.beta >= 0 && options.beta <= 1, "in [0, 1]");
  check_steps("schedule_free", "warmup", options.warmup);
  return FunctionalOptimizer(std::make_shared<ScheduleFree>(base, options));
}

FunctionalOptimizer averaged(const FunctionalOptimizer& base, AverageOptions options) {
  check_base(base, "averaged");
  check_option("averaged", "decay", options.decay, options.decay > 0 && options.decay <= 1, "in (0, 1]");
  check_steps("averaged", "after", options.after);
  return FunctionalOptimizer(std::make_shared<Averaged>(base, options));
}

}  // namespace ripieno::optim
