#include <ripieno/framework/optim/sgd.hpp>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/optim/sgd_kernel.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ripieno::optim {
namespace {

// Elements that are worth a thread.
constexpr std::int64_t k_grain = 32768;

void check_option(const char* name, double value, bool in_range, const char* range) {
  if (in_range && std::isfinite(value)) return;
  throw UsageError(std::string("sgd got ") + name + " = " + format_double(value), std::string("it must be ") + range);
}

void check_options(const SgdOptions& options) {
  if (!options.lr.is_set()) throw UsageError("sgd has no learning rate", {}, "set .lr");
  static_cast<void>(options.lr.at(0));
  check_option("momentum", options.momentum, options.momentum >= 0 && options.momentum < 1, "in [0, 1)");
  check_option("dampening", options.dampening, options.dampening >= 0 && options.dampening <= 1, "in [0, 1]");
  check_option("weight_decay", options.weight_decay, options.weight_decay >= 0, "finite and not negative");
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0)) {
    throw UsageError("sgd cannot take nesterov", "Nesterov's form needs momentum and no dampening");
  }
}

template <class Real>
SgdStep<Real> step_numbers(const SgdOptions& options, std::int64_t step, double divisor) {
  return {.learning_rate = static_cast<Real>(options.lr.at(step)),
          .divisor = static_cast<Real>(divisor),
          .momentum = static_cast<Real>(options.momentum),
          .gradient_share = static_cast<Real>(1 - options.dampening),
          .weight_decay = static_cast<Real>(options.weight_decay),
          .nesterov = options.nesterov,
          .maximize = options.maximize,
          .first = step == 0};
}

// One leaf. Tensors that a step does not need are undefined; the others are contiguous and of one dtype.
struct Leaf {
  at::Tensor gradient, params, old_momentum, new_momentum, updates, updated_params;
};

template <class Real>
Real* elements_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr<Real>() : nullptr;
}

template <class Real>
void update_leaf(const Leaf& leaf, const SgdStep<Real>& step) {
  const SgdElements<Real> elements{.gradient = elements_of<Real>(leaf.gradient),
                                   .params = elements_of<Real>(leaf.params),
                                   .old_momentum = elements_of<Real>(leaf.old_momentum),
                                   .new_momentum = elements_of<Real>(leaf.new_momentum),
                                   .updates = elements_of<Real>(leaf.updates),
                                   .updated_params = elements_of<Real>(leaf.updated_params)};
  at::parallel_for(0, leaf.gradient.numel(), k_grain, [&](std::int64_t begin, std::int64_t end) {
    sgd_updates(step, elements, static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
  });
}

void update_leaves(const std::vector<Leaf>& leaves, const SgdOptions& options, std::int64_t step, double divisor) {
  const auto in_float = step_numbers<float>(options, step, divisor);
  const auto in_double = step_numbers<double>(options, step, divisor);
  for (const Leaf& leaf : leaves) {
    if (leaf.gradient.scalar_type() == at::kDouble) {
      update_leaf(leaf, in_double);
    } else {
      update_leaf(leaf, in_float);
    }
  }
}

void check_leaf(const at::Tensor& leaf, const std::string& path, at::IntArrayRef shape) {
  const bool real = leaf.scalar_type() == at::kFloat || leaf.scalar_type() == at::kDouble;
  if (!real || !leaf.device().is_cpu()) {
    throw UsageError("sgd cannot update leaf '" + path + "'", "it takes float32 and float64 tensors on the CPU");
  }
  if (leaf.sizes() != shape) {
    throw UsageError("the gradient of leaf '" + path + "' has another shape than the leaf");
  }
}

at::Tensor operand(const at::Tensor& tensor, at::ScalarType dtype) { return tensor.detach().to(dtype).contiguous(); }

// What the step reads, converted where dtypes differ. `params` may be null where weight decay is off.
std::vector<Leaf> read_leaves(const PyTree& gradient, const SgdState& state, const PyTree* params,
                              const SgdOptions& options) {
  const bool has_momentum = options.momentum > 0;
  const bool has_decay = options.weight_decay > 0;
  if (has_decay && params == nullptr) {
    throw UsageError("sgd got no parameters", "weight decay is made of them", "call update(gradient, state, params)");
  }
  if (has_momentum) check_same_structure(gradient, state.momentum, "the gradient and the optimizer's momentum");
  if (params != nullptr) check_same_structure(gradient, *params, "the gradient and the parameters");

  const std::vector<std::string> paths = gradient.paths();
  const std::vector<at::Tensor> gradients = gradient.leaves();
  const std::vector<at::Tensor> momenta = has_momentum ? state.momentum.leaves() : std::vector<at::Tensor>{};
  const std::vector<at::Tensor> parameters = params == nullptr ? std::vector<at::Tensor>{} : params->leaves();
  std::vector<Leaf> leaves(gradients.size());
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    at::ScalarType dtype = gradients[i].scalar_type();
    check_leaf(gradients[i], paths[i], gradients[i].sizes());
    for (const auto* others : {&momenta, &parameters}) {
      if (others->empty()) continue;
      check_leaf((*others)[i], paths[i], gradients[i].sizes());
      dtype = (*others)[i].scalar_type();
    }
    leaves[i].gradient = operand(gradients[i], dtype);
    if (has_momentum) leaves[i].old_momentum = operand(momenta[i], dtype);
    if (has_decay) leaves[i].params = operand(parameters[i], dtype);
  }
  return leaves;
}

}  // namespace

bool operator==(const SgdState& a, const SgdState& b) {
  if (a.step != b.step || !a.momentum.same_structure(b.momentum)) return false;
  const std::vector<at::Tensor> left = a.momentum.leaves();
  const std::vector<at::Tensor> right = b.momentum.leaves();
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left[i].scalar_type() != right[i].scalar_type() || !at::equal(left[i], right[i])) return false;
  }
  return true;
}

Sgd::Sgd(SgdOptions options) : options_(std::move(options)) { check_options(options_); }

SgdState Sgd::init(const PyTree& params) const {
  if (options_.momentum == 0) return {};
  return {.step = 0, .momentum = params.map([](const at::Tensor& leaf) {
            return at::zeros_like(leaf.detach(), at::MemoryFormat::Contiguous);
          })};
}

Updated<SgdState> Sgd::update(Gradient gradient, const State& state) const {
  return updated(gradient.tree, state, nullptr);
}

Updated<SgdState> Sgd::update(Gradient gradient, const State& state, const PyTree& params) const {
  return updated(gradient.tree, state, &params);
}

Updated<SgdState> Sgd::updated(const PyTree& gradient, const State& state, const PyTree* params) const {
  std::vector<Leaf> leaves = read_leaves(gradient, state, params, options_);
  std::vector<at::Tensor> updates;
  std::vector<at::Tensor> momentum;
  for (Leaf& leaf : leaves) {
    leaf.updates = updates.emplace_back(at::empty_like(leaf.gradient));
    if (options_.momentum > 0) leaf.new_momentum = momentum.emplace_back(at::empty_like(leaf.gradient));
  }
  update_leaves(leaves, options_, state.step, 1);
  return {
      .updates = gradient.with_leaves(updates),
      .state = {.step = state.step + 1, .momentum = options_.momentum > 0 ? gradient.with_leaves(momentum) : PyTree{}}};
}

void Sgd::step_(const PyTree& params, Gradient gradient, State& state, double divisor) const {
  if (divisor == 0 || !std::isfinite(divisor)) {
    throw UsageError("a gradient cannot be divided by " + format_double(divisor));
  }
  std::vector<Leaf> leaves = read_leaves(gradient.tree, state, &params, options_);
  const std::vector<at::Tensor> parameters = params.leaves();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!parameters[i].is_contiguous()) {
      throw UsageError("parameter '" + params.paths()[i] + "' is not contiguous", "it is updated in place",
                       "call contiguous() on it");
    }
    leaves[i].updated_params = parameters[i].detach();
    leaves[i].new_momentum = leaves[i].old_momentum;
  }
  update_leaves(leaves, options_, state.step, divisor);
  std::vector<at::Tensor> momentum;
  for (const Leaf& leaf : leaves) momentum.push_back(leaf.new_momentum);
  if (options_.momentum > 0) state.momentum = params.with_leaves(momentum);
  ++state.step;
}

Sgd sgd(SgdOptions options) { return Sgd(std::move(options)); }

}  // namespace ripieno::optim
