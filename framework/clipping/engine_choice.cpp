#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/framework/clipping/bookkeeping_engine.hpp>
#include <ripieno/framework/clipping/engine_choice.hpp>
#include <ripieno/framework/clipping/graph_synthetic.hpp>
#include <ripieno/framework/clipping/loop_engine.hpp>
#include <ripieno/framework/clipping/vmap_engine.hpp>
#include <string>

namespace ripieno {
namespace {

// Single examples and a batch take different kernels, and their rounding decides on which side of a ReLU kink an
// element falls: gradients of float32 residual networks differ by up to 0.6 % although both are right. Losses have no
// kinks.
constexpr double k_gradient_tolerance = 0.02;
constexpr double k_loss_tolerance = 1e-3;

double largest(const at::Tensor& values) { return values.numel() == 0 ? 0 : values.abs().max().item<double>(); }

/// What separates the results for finite examples, or nothing.
std::optional<std::string> difference(const MicrobatchResult& result, const MicrobatchResult& oracle) {
  if (!result.finite.cpu().equal(oracle.finite)) return "it disagrees with loop on which examples are finite";
  if (largest(result.norms.cpu() - oracle.norms) > k_gradient_tolerance * largest(oracle.norms))
    return "its norms differ from those of loop";
  double error = 0, scale = 0;
  for (std::size_t leaf = 0; leaf < oracle.sum.size(); ++leaf) {
    error = std::max(error, largest(result.sum[leaf] - oracle.sum[leaf]));
    scale = std::max(scale, largest(oracle.sum[leaf]));
  }
  if (error > k_gradient_tolerance * scale) return "its clipped sum differs from that of loop";
  return std::nullopt;
}

/// The engines on made-up examples: which ones serve this loss?
class Trial {
 public:
  Trial(const LossFn& loss, const PyTree& params, std::span<const at::Tensor> batch, const ClippingRule& rule)
      : loss_(loss), rule_(rule), examples_(bookkeeping::make_up_examples(loss, params, batch)) {
    // The loop comes first: what it refuses (a scalar loss, say) is a mistake that no engine can serve.
    oracle_ = run(*make_loop_engine());
    comparable_ = !generator_.moved() && oracle_.finite.all().item<bool>();
  }

  /// Why the engine cannot be taken, or nothing.
  [[nodiscard]] std::optional<std::string> objection_to(ClippingEngine& engine) const {
    try {
      const MicrobatchResult result = run(engine);
      return comparable_ ? difference(result, oracle_) : std::nullopt;
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    } catch (const std::exception& error) {
      return error.what();
    }
  }

  /// UsageError for a loss that mixes examples: the loop would serve it, but with other values than the user's batch.
  void check_examples_are_independent(const std::string& objection_to_bookkeeping) const {
    if (!comparable_) return;
    const c10::AutoGradMode without_gradients(false);
    const at::Tensor together = loss_(examples_.params, examples_.batch).to(at::kDouble).cpu();
    if (largest(together - oracle_.losses) > k_loss_tolerance * largest(oracle_.losses))
      throw UsageError("the loss of an example depends on the others in its batch",
                       "on made-up examples it is another alone than among others: " + objection_to_bookkeeping,
                       "remove batch normalisation, contrastive terms and batch statistics from the loss");
  }

 private:
  [[nodiscard]] MicrobatchResult run(ClippingEngine& engine) const {
    return engine.clip(loss_, examples_.params, examples_.batch, rule_);
  }

  const bookkeeping::GeneratorGuard generator_;  // first: the trial leaves the random numbers of the training alone
  const LossFn& loss_;
  const ClippingRule& rule_;
  bookkeeping::MadeUpExamples examples_;
  MicrobatchResult oracle_;
  bool comparable_ = false;  ///< two runs give the same: nothing is drawn (dropout), nothing overflows
};

class AutomaticEngine final : public ClippingEngine {
 public:
  explicit AutomaticEngine(const EngineLimits& limits) : limits_(limits) {}

  [[nodiscard]] std::string_view name() const override { return chosen_ ? chosen_->name() : "automatic"; }

  MicrobatchResult clip(const LossFn& loss, const PyTree& params, std::span<const at::Tensor> batch,
                        const ClippingRule& rule) override {
    return chosen(loss, params, batch, rule).clip(loss, params, batch, rule);
  }

  MicrobatchResult clip_by_leaf(const LossFn& loss, const PyTree& params, std::span<const at::Tensor> batch,
                                const ClippingRule& rule, const OnLeafSum& on_leaf,
                                std::span<const at::Tensor> room) override {
    return chosen(loss, params, batch, rule).clip_by_leaf(loss, params, batch, rule, on_leaf, room);
  }

 private:
  ClippingEngine& chosen(const LossFn& loss, const PyTree& params, std::span<const at::Tensor> batch,
                         const ClippingRule& rule) {
    if (!chosen_) chosen_ = choose(Trial(loss, params, batch, rule));
    return *chosen_;
  }

  [[nodiscard]] std::unique_ptr<ClippingEngine> choose(const Trial& trial) const {
    const std::optional<std::string> to_bookkeeping = trial.objection_to(*make_bookkeeping_engine(limits_));
    if (!to_bookkeeping) {
      log::info("clipping engine: bookkeeping");
      return make_bookkeeping_engine(limits_);
    }
    trial.check_examples_are_independent(
        *to_bookkeeping);  // the others would not notice, because they see one example at a time
    const std::string reason = "bookkeeping does not serve this loss: " + *to_bookkeeping;
    const std::optional<std::string> to_vmap = trial.objection_to(*make_vmap_engine(limits_));
    if (!to_vmap) {
      log::info("clipping engine: vmap, per-example gradients in memory; " + reason);
      return make_vmap_engine(limits_);
    }
    log::info("clipping engine: loop, one example at a time; " + reason + "; nor does vmap: " + *to_vmap);
    return make_loop_engine();
  }

  EngineLimits limits_;
  std::unique_ptr<ClippingEngine> chosen_;
};

}  // namespace

std::unique_ptr<ClippingEngine> make_engine(EngineKind kind, const EngineLimits& limits) {
  switch (kind) {
    case EngineKind::automatic:
      return std::make_unique<AutomaticEngine>(limits);
    case EngineKind::bookkeeping:
      return make_bookkeeping_engine(limits);
    case EngineKind::vmap:
      return make_vmap_engine(limits);
    case EngineKind::loop:
      return make_loop_engine();
  }
  throw UsageError("engine is not one of automatic, bookkeeping, vmap, loop");
}

}  // namespace ripieno
