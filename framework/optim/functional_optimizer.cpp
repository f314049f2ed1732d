#include <ripieno/framework/optim/functional_optimizer.hpp>

#include <ATen/ATen.h>

#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/optim/algorithm.hpp>
#include <utility>
#include <vector>

namespace ripieno::optim {
namespace {

at::Tensor operand(const at::Tensor& tensor, at::ScalarType dtype) {
  return (tensor.requires_grad() ? tensor.detach() : tensor).to(dtype).contiguous();
}

/// Checks the trees of one step against the gradient.
class Checks {
 public:
  Checks(const Algorithm& algorithm, const PyTree& gradient)
      : optimizer_(algorithm.name()), gradient_(gradient), leaves_(gradient.leaves()) {
    if (!leaves_.empty()) device_ = leaves_.front().device();
    if (!device_.is_cpu() && !algorithm.coupling().empty()) {
      throw UsageError(optimizer_ + " cannot update tensors on " + device_.str(), algorithm.coupling(),
                       "move them to the CPU first");
    }
    require_fit(gradient, "gradient");
  }

  /// `what`: as in "parameters".
  void require_fit(const PyTree& tree, const std::string& what) const {
    check_same_structure(gradient_, tree, "the gradient and the " + what);
    const std::vector<at::Tensor> leaves = tree.leaves();
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const bool real = leaves[i].scalar_type() == at::kFloat || leaves[i].scalar_type() == at::kDouble;
      if (!real || leaves[i].device() != device_) {
        throw UsageError(optimizer_ + " cannot update leaf '" + gradient_.paths()[i] + "'",
                         "it takes float32 and float64 tensors, all on one device");
      }
      if (leaves[i].sizes() != leaves_[i].sizes()) {
        throw UsageError("leaf '" + gradient_.paths()[i] + "' of the " + what + " has another shape than the gradient");
      }
    }
  }

  [[nodiscard]] at::Device device() const { return device_; }

 private:
  std::string optimizer_;
  const PyTree& gradient_;
  std::vector<at::Tensor> leaves_;
  at::Device device_ = at::kCPU;
};

/// The arrays of the state must be those that init makes for such parameters.
void require_state(const Algorithm& algorithm, const PyTree& like, at::Device device, const OptimizerState& state) {
  const auto refuse = [&](const std::string& why) {
    throw UsageError("the state does not fit " + algorithm.name(), why, "start from init(params)");
  };
  const OptimizerState expected = algorithm.init(like);
  if (expected.phi.size() != state.phi.size()) refuse("it counts the noise of other leaves");
  if (expected.slots.size() != state.slots.size()) refuse("it holds other arrays");
  for (const auto& [name, tree] : expected.slots) {
    const auto found = state.slots.find(name);
    if (found == state.slots.end()) refuse("it lacks " + name);
    check_same_structure(tree, found->second, "the gradient and the optimizer's " + name);
    const std::vector<at::Tensor> like_leaves = tree.leaves();
    const std::vector<at::Tensor> leaves = found->second.leaves();
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (leaves[i].sizes() != like_leaves[i].sizes()) refuse(name + " has another shape than the gradient");
      if (leaves[i].scalar_type() != like_leaves[i].scalar_type()) refuse(name + " has another dtype");
      if (!leaves[i].is_contiguous()) refuse(name + " is not contiguous");
      if (leaves[i].device() != device) refuse(name + " is on " + leaves[i].device().str());
    }
  }
}

/// The dtype of each leaf's arithmetic.
std::vector<at::ScalarType> arithmetic(const PyTree& gradient, const OptimizerState& state, const PyTree* params) {
  const PyTree& decides = !state.slots.empty() ? state.slots.begin()->second : params != nullptr ? *params : gradient;
  std::vector<at::ScalarType> dtypes;
  for (const at::Tensor& leaf : decides.leaves()) dtypes.push_back(leaf.scalar_type());
  return dtypes;
}

}  // namespace

FunctionalOptimizer::FunctionalOptimizer(std::shared_ptr<const Algorithm> algorithm)
    : algorithm_(std::move(algorithm)) {}

OptimizerState FunctionalOptimizer::init(const PyTree& params) const { return algorithm_->init(params); }

Step FunctionalOptimizer::operands(const Gradient& gradient, const State& state, const PyTree* params,
                                   double divisor) const {
  const std::string name = algorithm_->name();
  if (divisor == 0 || !std::isfinite(divisor)) {
    throw UsageError("a gradient cannot be divided by " + format_double(divisor));
  }
  if (params == nullptr && !algorithm_->use_of_params().empty()) {
    throw UsageError(name + " got no parameters", algorithm_->use_of_params(), "call update(gradient, state, params)");
  }
  if (gradient.squares() != nullptr && !algorithm_->takes_squares()) {
    throw UsageError(name + " cannot take a pair of gradient and squares",
                     "it has no second moment that they could feed",
                     "use adadelta, adam, adamw, ademamix, radam or rmsprop, or release the gradient alone");
  }
  const Checks checks(*algorithm_, gradient.tree());
  if (params != nullptr) checks.require_fit(*params, "parameters");
  if (gradient.squares() != nullptr) checks.require_fit(*gradient.squares(), "squares");
  const std::vector<at::ScalarType> dtypes = arithmetic(gradient.tree(), state, params);

  const std::vector<std::string> paths = gradient.tree().paths();
  const auto leaves_of = [](const PyTree* tree) {
    return tree != nullptr ? tree->leaves() : std::vector<at::Tensor>();
  };
  const std::vector<at::Tensor> gradients = gradient.tree().leaves(), parameters = leaves_of(params),
                                squares = leaves_of(gradient.squares());
  if (dtypes.size() != gradients.size()) throw UsageError("the state of " + name + " was made for another model");
  Step step{.leaves = std::vector<Leaf>(gradients.size()), .divisor = divisor};
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    Leaf& leaf = step.leaves[i];
    leaf.gradient = operand(gradients[i], dtypes[i]);
    if (!parameters.empty()) leaf.params = operand(parameters[i], dtypes[i]);
    if (!squares.empty()) leaf.squares = operand(squares[i], dtypes[i]);
    if (!algorithm_->corrects_noise()) continue;
    const std::optional<double> stddev = gradient.noise_stddev(paths[i]);
    if (!stddev) {
      throw UsageError(name + " cannot correct for the noise in leaf '" + paths[i] + "'",
                       "its standard deviation is not known", "leave noise_bias_correction out");
    }
    leaf.noise_variance = (*stddev / divisor) * (*stddev / divisor);
  }
  std::vector<at::Tensor> likes;  // without memory, so that an initial state costs nothing
  for (const Leaf& leaf : step.leaves) {
    likes.push_back(at::empty(leaf.gradient.sizes(), leaf.gradient.options().device(at::kMeta)));
  }
  require_state(*algorithm_, gradient.tree().with_leaves(likes), checks.device(), state);
  return step;
}

Updated<OptimizerState> FunctionalOptimizer::update(Gradient gradient, const State& state) const {
  return updated(gradient, state, nullptr);
}

Updated<OptimizerState> FunctionalOptimizer::update(Gradient gradient, const State& state, const PyTree& params) const {
  return updated(gradient, state, &params);
}

Updated<OptimizerState> FunctionalOptimizer::updated(const Gradient& gradient, const State& state,
                                                     const PyTree* params) const {
  Step step = operands(gradient, state, params, 1);
  std::vector<at::Tensor> updates;
  for (Leaf& leaf : step.leaves) leaf.updates = updates.emplace_back(at::empty_like(leaf.gradient));
  State next = copied(state);
  algorithm_->advance(step, next);
  return {.updates = gradient.tree().with_leaves(updates), .state = std::move(next)};
}

void FunctionalOptimizer::step_(const PyTree& params, Gradient gradient, State& state, double divisor) const {
  Step step = operands(gradient, state, &params, divisor);
  const std::vector<at::Tensor> parameters = params.leaves();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].is_contiguous() || parameters[i].scalar_type() != step.leaves[i].gradient.scalar_type()) {
      throw UsageError("parameter '" + params.paths()[i] + "' is not contiguous, or of another dtype than the state",
                       "it is updated in place", "call contiguous() on it");
    }
    step.leaves[i].in_place = true;
  }
  algorithm_->advance(step, state);
}

PyTree FunctionalOptimizer::published(const PyTree& params, const State& state) const {
  return algorithm_->published(params, state);
}

std::string FunctionalOptimizer::name() const { return algorithm_->name(); }
std::string FunctionalOptimizer::coupling() const { return algorithm_->coupling(); }

}  // namespace ripieno::optim
