#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <array>
#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/clipping/graph_synthetic.hpp>

namespace ripieno::bookkeeping {
namespace {

constexpr std::int64_t k_examples = 3;

struct Style {
  bool moved_params, normal_floats, mixed_integers;
};

constexpr std::array<Style, 8> k_styles{{{true, true, true},
                                         {true, true, false},
                                         {true, false, true},
                                         {true, false, false},
                                         {false, true, true},
                                         {false, true, false},
                                         {false, false, true},
                                         {false, false, false}}};

at::Tensor normal(at::IntArrayRef shape, const at::Tensor& like, at::Generator& generator) {
  return at::randn(shape, generator, at::TensorOptions().dtype(at::kDouble)).to(like.options().requires_grad(false));
}

/// Moved by a fraction of what a usual initialisation draws, so that activations keep their size in deep models.
at::Tensor moved(const at::Tensor& leaf, at::Generator& generator) {
  if (!leaf.is_floating_point()) return leaf;
  const double fan_in =
      leaf.dim() >= 2 ? static_cast<double>(leaf.numel() / std::max<std::int64_t>(leaf.size(0), 1)) : 16;
  return leaf.detach() + normal(leaf.sizes(), leaf, generator) * (0.3 / std::sqrt(std::max(fan_in, 1.0)));
}

/// Rows of one batch tensor, [4, …]: three examples and a replacement for the third.
at::Tensor rows_like(const at::Tensor& tensor, const Style& style, at::Generator& generator) {
  std::vector<std::int64_t> shape = tensor.sizes().vec();
  shape[0] = k_examples + 1;
  const at::TensorOptions options = tensor.options().requires_grad(false);
  if (tensor.is_floating_point()) {
    const at::Tensor values = normal(shape, tensor, generator);
    return style.normal_floats ? values : values.sigmoid();
  }
  if (!style.mixed_integers) return at::zeros(shape, options);
  const at::Tensor position = at::ones(shape, at::kLong).view({shape[0], -1}).cumsum(1);
  const at::Tensor example = at::arange(shape[0], at::kLong).unsqueeze(1);
  return (position + example).remainder(2).view(shape).to(options);
}

MadeUpExamples make_up(const PyTree& params, std::span<const at::Tensor> batch, const Style& style,
                       std::uint64_t draw) {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(/*seed=*/20'240'229 + draw);
  MadeUpExamples made;
  made.params =
      params.map([&](const at::Tensor& leaf) { return style.moved_params ? moved(leaf, generator) : leaf.detach(); });
  for (const at::Tensor& tensor : batch) {
    const at::Tensor rows = rows_like(tensor, style, generator);
    made.batch.push_back(rows.narrow(0, 0, k_examples).clone());
    made.replaced.push_back(at::cat({rows.narrow(0, 0, k_examples - 1), rows.narrow(0, k_examples, 1)}));
    made.spoiled.push_back(made.batch.back().clone());
    if (tensor.is_floating_point()) made.spoiled.back()[k_examples - 1] = std::numeric_limits<double>::quiet_NaN();
  }
  return made;
}

bool loss_is_finite(const LossFn& loss, const MadeUpExamples& examples) {
  const at::NoGradGuard no_grad;
  return loss(examples.params, examples.batch).isfinite().all().item<bool>();
}

std::vector<at::Tensor> narrowed(const std::vector<at::Tensor>& batch, std::int64_t begin, std::int64_t length) {
  std::vector<at::Tensor> rows;
  for (const at::Tensor& tensor : batch) rows.push_back(tensor.narrow(0, begin, length));
  return rows;
}

at::Generator default_generator() { return at::globalContext().defaultGenerator(at::kCPU); }

at::Tensor generator_state() {
  at::Generator generator = default_generator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

}  // namespace

std::vector<at::Tensor> MadeUpExamples::first(std::int64_t n) const { return narrowed(batch, 0, n); }

std::vector<at::Tensor> MadeUpExamples::only(std::int64_t example) const { return narrowed(batch, example, 1); }

MadeUpExamples make_up_examples(const LossFn& loss, const PyTree& params, std::span<const at::Tensor> batch,
                                std::uint64_t draw) {
  std::string reason = "its value is not finite";
  for (const Style& style : k_styles) {
    MadeUpExamples examples = make_up(params, batch, style, draw);
    try {
      if (loss_is_finite(loss, examples)) return examples;
    } catch (const std::exception& error) {
      const std::string_view text = error.what();
      reason = text.substr(0, text.find('\n'));
    }
  }
  throw UsageError("the loss cannot be examined on three made-up examples of the batch's shapes and dtypes", reason,
                   "let the loss take any number of examples, and any values, or use engine loop");
}

GeneratorGuard::GeneratorGuard() : state_(generator_state()) {}

GeneratorGuard::~GeneratorGuard() { rewind(); }

void GeneratorGuard::rewind() const {
  at::Generator generator = default_generator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state_);
}

bool GeneratorGuard::moved() const { return !generator_state().equal(state_); }

}  // namespace ripieno::bookkeeping
