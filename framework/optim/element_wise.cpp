#include <ripieno/framework/optim/element_wise.hpp>

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/core/device_stream.hpp>
#include <ripieno/framework/optim/device_kernels.hpp>
#include <ripieno/framework/optim/parallel.hpp>
#include <utility>

namespace ripieno::optim {
namespace {

template <class Real>
Real* elements_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr<Real>() : nullptr;
}

template <class Real>
Elements<Real> elements_of(const Leaf& leaf, const std::vector<at::Tensor>& slots) {
  Elements<Real> elements{.gradient = elements_of<Real>(leaf.gradient),
                          .squares = elements_of<Real>(leaf.squares),
                          .params = elements_of<Real>(leaf.params),
                          .updates = elements_of<Real>(leaf.updates)};
  for (std::size_t i = 0; i < slots.size(); ++i) elements.slots[i] = elements_of<Real>(slots[i]);
  return elements;
}

/// f(elements) in the precision of the leaf.
template <class F>
auto dispatch(const Leaf& leaf, const std::vector<at::Tensor>& slots, F f) {
  return leaf.gradient.scalar_type() == at::kDouble ? f(elements_of<double>(leaf, slots))
                                                    : f(elements_of<float>(leaf, slots));
}

void step_leaf(const ElementRule& rule, const Shaping& shaping, const Leaf& leaf,
               const std::vector<at::Tensor>& slots) {
  dispatch(leaf, slots, [&](const auto& elements) {
    if (!leaf.gradient.is_cpu()) {
      const auto size = static_cast<std::size_t>(leaf.gradient.numel());
      return step_on_device(rule, shaping, elements, size, current_stream(leaf.gradient.device()));
    }
    over_elements(leaf.gradient.numel(),
                  [&](std::size_t begin, std::size_t end) { step_elements(rule, shaping, elements, begin, end); });
  });
}

/// Sum of squares of the rule's output, which goes to leaf.updates.
double direct_leaf(const ElementRule& rule, const Shaping& shaping, const Leaf& leaf,
                   const std::vector<at::Tensor>& slots) {
  const auto size = static_cast<std::size_t>(leaf.gradient.numel());
  std::vector<double> sums((size + k_grain - 1) / k_grain);
  dispatch(leaf, slots, [&](const auto& elements) {
    const auto sum_parts = [&](std::size_t first, std::size_t last) {
      for (std::size_t part = first; part < last; ++part) {
        const std::size_t begin = part * k_grain;
        sums[part] = direct_elements(rule, shaping, elements, begin, std::min<std::size_t>(size, begin + k_grain));
      }
    };
    over_elements(static_cast<std::int64_t>(sums.size()), sum_parts, 1);
  });
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

void finish_leaf(const Shaping& shaping, const Leaf& leaf) {
  dispatch(leaf, {}, [&](const auto& elements) {
    over_elements(leaf.gradient.numel(), [&](std::size_t begin, std::size_t end) {
      finish_elements(shaping, elements, leaf.in_place, begin, end);
    });
  });
}

/// The arrays of each slot, leaf by leaf.
std::vector<std::vector<at::Tensor>> arrays(const std::vector<Slot>& slots, const OptimizerState& state,
                                            std::size_t leaves) {
  std::vector<std::vector<at::Tensor>> arrays(leaves);
  for (const Slot& slot : slots) {
    const std::vector<at::Tensor> tensors = state.slots.at(slot.name).leaves();
    for (std::size_t i = 0; i < leaves; ++i) arrays[i].push_back(tensors[i]);
  }
  return arrays;
}

}  // namespace

ElementWise::ElementWise(ElementWiseOptions options) : options_(std::move(options)) {
  check_rate(options_.name, options_.lr);
  check_option(options_.name, "weight_decay", options_.weight_decay, options_.weight_decay >= 0,
               "finite and not negative");
  if (options_.update_rms_clip) {
    check_option(options_.name, "update_rms_clip", *options_.update_rms_clip, *options_.update_rms_clip > 0,
                 "finite and positive");
  }
}

OptimizerState ElementWise::init(const PyTree& params) const {
  OptimizerState state;
  for (const Slot& slot : options_.slots) state.slots.emplace(slot.name, arrays_like(params, slot.initial));
  if (options_.noise) state.phi.assign(params.num_leaves(), 0);
  return state;
}

std::string ElementWise::use_of_params() const {
  return options_.weight_decay > 0 ? "weight decay is made of them" : "";
}

std::string ElementWise::coupling() const {
  return options_.update_rms_clip ? "update_rms_clip takes the root mean square of the whole update" : "";
}

Shaping ElementWise::shaping(std::int64_t step, double divisor) const {
  return {.divisor = divisor,
          .maximize = options_.maximize,
          .penalty = options_.decoupled ? 0 : options_.weight_decay,
          .decay = options_.decoupled ? options_.weight_decay : 0,
          .learning_rate = options_.lr.at(step)};
}

void ElementWise::advance(const Step& step, OptimizerState& state) const {
  Shaping shaping = this->shaping(state.step, step.divisor);
  const auto slots = arrays(options_.slots, state, step.leaves.size());
  std::vector<ElementRule> rules;
  for (std::size_t i = 0; i < step.leaves.size(); ++i) {
    const double variance = options_.noise ? step.leaves[i].noise_variance : 0;
    if (options_.noise) state.phi[i] = options_.noise->decay * state.phi[i] + options_.noise->share * variance;
    rules.push_back(options_.rule(state.step + 1, options_.noise ? state.phi[i] : 0, variance));
  }
  ++state.step;
  if (!options_.update_rms_clip) {
    for (std::size_t i = 0; i < rules.size(); ++i) step_leaf(rules[i], shaping, step.leaves[i], slots[i]);
    return;
  }
  std::vector<Leaf> leaves = step.leaves;
  double squares = 0;
  double count = 0;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (leaves[i].in_place) leaves[i].updates = at::empty_like(leaves[i].gradient);
    squares += direct_leaf(rules[i], shaping, leaves[i], slots[i]);
    count += static_cast<double>(leaves[i].gradient.numel());
  }
  shaping.clip = count > 0 ? std::max(1.0, std::sqrt(squares / count) / *options_.update_rms_clip) : 1;
  for (const Leaf& leaf : leaves) finish_leaf(shaping, leaf);
}

void check_option(const std::string& optimizer, const char* option, double value, bool in_range, const char* range) {
  if (in_range && std::isfinite(value)) return;
  throw UsageError(optimizer + " got " + option + " = " + format_double(value), std::string("it must be ") + range);
}

void check_rate(const std::string& optimizer, const LearningRate& rate) {
  if (!rate.is_set()) throw UsageError(optimizer + " has no learning rate", {}, "set .lr");
  static_cast<void>(rate.at(0));
}

PyTree arrays_like(const PyTree& params, double value) {
  return params.map([value](const at::Tensor& leaf) {
    return at::full_like(leaf.detach(), value, {}, at::MemoryFormat::Contiguous);
  });
}

}  // namespace ripieno::optim
