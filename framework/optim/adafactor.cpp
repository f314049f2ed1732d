#include <ripieno/framework/optim/adafactor.hpp>

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <ripieno/framework/core/portable_math.hpp>
#include <ripieno/framework/optim/algorithm.hpp>
#include <ripieno/framework/optim/element_kernels.hpp>
#include <ripieno/framework/optim/matrix_kernels.hpp>
#include <ripieno/framework/optim/parallel.hpp>
#include <utility>
#include <vector>

namespace ripieno::optim {
namespace {

/// A leaf as `count` matrices one behind the other.
struct Matrices {
  std::size_t count, rows, columns;
};

bool factored(const at::Tensor& leaf) { return leaf.dim() >= 2; }

Matrices matrices(const at::Tensor& leaf) {
  const auto rows = static_cast<std::size_t>(leaf.size(-2)), columns = static_cast<std::size_t>(leaf.size(-1));
  const auto size = static_cast<std::size_t>(leaf.numel());
  return {.count = size == 0 ? 0 : size / (rows * columns), .rows = rows, .columns = columns};
}

double renewed(double mean, double beta, double value) { return beta * mean + (1 - beta) * value; }

/// Rows whose sums are made together, whatever the number of threads.
constexpr std::size_t k_rows = 32;

/// Sums over rows and over columns of the squared gradients, in an order that the matrix alone fixes.
struct Sums {
  std::vector<double> of_rows, of_columns;
};

template <class Real>
Sums sums_of_squares(const Real* gradient, const Matrices& shape, const MomentNumbers& numbers) {
  const std::size_t chunks = (shape.rows + k_rows - 1) / k_rows;
  Sums sums{std::vector<double>(shape.rows), std::vector<double>(shape.columns)};
  std::vector<double> parts(chunks * shape.columns);
  const auto sum_chunks = [&](std::size_t first, std::size_t last) {
    for (std::size_t chunk = first; chunk < last; ++chunk) {
      double* const columns = parts.data() + chunk * shape.columns;
      for (std::size_t r = chunk * k_rows; r < std::min(shape.rows, (chunk + 1) * k_rows); ++r) {
        sums.of_rows[r] = add_squares(gradient + r * shape.columns, shape.columns, numbers, columns);
      }
    }
  };
  over_elements(static_cast<std::int64_t>(chunks), sum_chunks, 1);
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    for (std::size_t c = 0; c < shape.columns; ++c) sums.of_columns[c] += parts[chunk * shape.columns + c];
  }
  return sums;
}

/// means[i] = beta means[i] + (1 - beta) sums[i] / count; returns these without the noise's variance.
template <class Real>
std::vector<double> renew_means(Real* means, const std::vector<double>& sums, std::size_t count,
                                const MomentNumbers& numbers) {
  std::vector<double> clean(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double mean = renewed(static_cast<double>(means[i]), numbers.beta2, sums[i] / static_cast<double>(count));
    means[i] = static_cast<Real>(mean);
    clean[i] = without_noise(mean, numbers.noise_variance);
  }
  return clean;
}

template <class Real>
void direct_matrix(const Real* gradient, Real* direction, Real* row_means, Real* column_means, const Matrices& shape,
                   const MomentNumbers& numbers) {
  const Sums sums = sums_of_squares(gradient, shape, numbers);
  std::vector<double> rows = renew_means(row_means, sums.of_rows, shape.columns, numbers);
  const std::vector<double> columns = renew_means(column_means, sums.of_columns, shape.rows, numbers);
  double total = 0;
  for (const double row : rows) total += row;
  for (double& row : rows) row /= total / static_cast<double>(shape.rows);
  const auto scale_rows = [&](std::size_t first, std::size_t last) {
    for (std::size_t r = first; r < last; ++r) {
      const std::size_t begin = r * shape.columns;
      scale_row(gradient + begin, direction + begin, shape.columns, numbers.divisor, rows[r], columns.data());
    }
  };
  over_elements(static_cast<std::int64_t>(shape.rows), scale_rows, k_rows);
}

/// Gradient over the root of the second moment, in a tensor of its own.
at::Tensor direct_leaf(const at::Tensor& gradient, const at::Tensor& row, const at::Tensor& column,
                       const MomentNumbers& numbers) {
  at::Tensor direction = at::empty_like(gradient);
  AT_DISPATCH_FLOATING_TYPES(gradient.scalar_type(), "adafactor", [&] {
    const auto* from = gradient.const_data_ptr<scalar_t>();
    auto* to = direction.mutable_data_ptr<scalar_t>();
    auto* rows = row.mutable_data_ptr<scalar_t>();
    auto* columns = column.mutable_data_ptr<scalar_t>();
    if (!factored(gradient)) return direct_vector(from, to, rows, static_cast<std::size_t>(gradient.numel()), numbers);
    const Matrices shape = matrices(gradient);
    const std::size_t size = shape.rows * shape.columns;
    for (std::size_t m = 0; m < shape.count; ++m) {
      direct_matrix(from + m * size, to + m * size, rows + m * shape.rows, columns + m * shape.columns, shape, numbers);
    }
  });
  return direction;
}

double squared_norm(const at::Tensor& tensor) {
  double sum = 0;
  AT_DISPATCH_FLOATING_TYPES(tensor.scalar_type(), "adafactor", [&] {
    sum = sum_of_squares(tensor.const_data_ptr<scalar_t>(), static_cast<std::size_t>(tensor.numel()));
  });
  return sum;
}

class Adafactor final : public Algorithm {
 public:
  explicit Adafactor(AdafactorOptions options) : options_(std::move(options)) {
    check_rate("adafactor", options_.lr);
    check_option("adafactor", "beta1", options_.beta1, options_.beta1 >= 0 && options_.beta1 < 1, "in [0, 1)");
    check_option("adafactor", "decay_rate", options_.decay_rate, options_.decay_rate < 0, "finite and negative");
    check_option("adafactor", "eps", options_.eps, options_.eps > 0, "finite and positive");
    check_option("adafactor", "clip", options_.clip, options_.clip > 0, "finite and positive");
    check_option("adafactor", "weight_decay", options_.weight_decay, options_.weight_decay >= 0,
                 "finite and not negative");
  }

  [[nodiscard]] std::string name() const override { return "adafactor"; }
  [[nodiscard]] std::string use_of_params() const override {
    return options_.weight_decay > 0 ? "weight decay is made of them" : "";
  }
  [[nodiscard]] std::string coupling() const override {
    return "its second moments are means over the rows and columns of whole matrices";
  }
  [[nodiscard]] bool corrects_noise() const override { return options_.noise_bias_correction; }

  [[nodiscard]] OptimizerState init(const PyTree& params) const override {
    OptimizerState state;
    state.slots.emplace("row", params.map([](const at::Tensor& leaf) {
      return at::zeros(factored(leaf) ? leaf.sizes().slice(0, static_cast<std::size_t>(leaf.dim()) - 1) : leaf.sizes(),
                       leaf.options().requires_grad(false));
    }));
    state.slots.emplace("column", params.map([](const at::Tensor& leaf) {
      std::vector<std::int64_t> sizes = factored(leaf) ? leaf.sizes().vec() : std::vector<std::int64_t>{0};
      if (factored(leaf)) sizes.erase(sizes.end() - 2);
      return at::zeros(sizes, leaf.options().requires_grad(false));
    }));
    if (options_.beta1 > 0) state.slots.emplace("mu", arrays_like(params));
    if (options_.noise_bias_correction) state.phi.assign(params.num_leaves(), 0);
    return state;
  }

  void advance(const Step& step, OptimizerState& state) const override {
    const double rate = options_.lr.at(state.step);
    const double beta2 = 1 - portable::pow(static_cast<double>(state.step + 1), options_.decay_rate);
    const std::vector<at::Tensor> rows = state.slots.at("row").leaves();
    const std::vector<at::Tensor> columns = state.slots.at("column").leaves();
    std::vector<at::Tensor> directions;
    double squares = 0;
    double count = 0;
    for (std::size_t i = 0; i < step.leaves.size(); ++i) {
      const Leaf& leaf = step.leaves[i];
      if (options_.noise_bias_correction) state.phi[i] = renewed(state.phi[i], beta2, leaf.noise_variance);
      const double variance = options_.noise_bias_correction ? state.phi[i] : 0;
      directions.push_back(
          direct_leaf(leaf.gradient, rows[i], columns[i],
                      {.divisor = step.divisor, .beta2 = beta2, .eps = options_.eps, .noise_variance = variance}));
      squares += squared_norm(directions.back());
      count += static_cast<double>(leaf.gradient.numel());
    }
    const double clip = count > 0 ? std::max(1.0, std::sqrt(squares / count) / options_.clip) : 1;
    finish(step, directions, {.divisor = clip, .decay = options_.weight_decay, .learning_rate = rate}, state);
    ++state.step;
  }

 private:
  /// Momentum, weight decay and learning rate, which treat each element by itself.
  void finish(const Step& step, const std::vector<at::Tensor>& directions, const Shaping& shaping,
              const OptimizerState& state) const {
    const SgdRule rule{.momentum = options_.beta1, .gradient_share = 1 - options_.beta1};
    const std::vector<at::Tensor> momenta =
        options_.beta1 > 0 ? state.slots.at("mu").leaves() : std::vector<at::Tensor>(directions.size());
    const auto pointer = [](const at::Tensor& tensor, auto none) {
      using Real = decltype(none);
      return tensor.defined() ? tensor.mutable_data_ptr<Real>() : static_cast<Real*>(nullptr);
    };
    for (std::size_t i = 0; i < directions.size(); ++i) {
      const Leaf& leaf = step.leaves[i];
      AT_DISPATCH_FLOATING_TYPES(directions[i].scalar_type(), "adafactor", [&] {
        const Elements<scalar_t> elements{.gradient = directions[i].const_data_ptr<scalar_t>(),
                                          .params = pointer(leaf.params, scalar_t{}),
                                          .slots = {pointer(momenta[i], scalar_t{})},
                                          .updates = pointer(leaf.updates, scalar_t{})};
        over_elements(directions[i].numel(),
                      [&](std::size_t begin, std::size_t end) { step_elements(rule, shaping, elements, begin, end); });
      });
    }
  }

  AdafactorOptions options_;
};

}  // namespace

FunctionalOptimizer adafactor(AdafactorOptions options) {
  return FunctionalOptimizer(std::make_shared<Adafactor>(std::move(options)));
}

}  // namespace ripieno::optim
