#include <ATen/ATen.h>
#include <malloc.h>

#include <algorithm>
#include <map>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/framework/clipping/bookkeeping_engine.hpp>
#include <ripieno/framework/clipping/bookkeeping_step.hpp>
#include <ripieno/framework/clipping/coefficients.hpp>
#include <ripieno/framework/clipping/graph_check.hpp>
#include <ripieno/framework/clipping/graph_plan.hpp>
#include <ripieno/framework/clipping/graph_synthetic.hpp>
#include <ripieno/framework/clipping/graph_trace.hpp>

namespace ripieno {
namespace {

using namespace bookkeeping;

void append_shape(std::string& text, const at::Tensor& tensor, std::size_t first_dim) {
  text += c10::toString(tensor.scalar_type());
  for (std::size_t d = first_dim; d < static_cast<std::size_t>(tensor.dim()); ++d)
    text += 'x' + std::to_string(tensor.sizes()[d]);
  text += ';';
}

/// What plans hold for, apart from the graph: the type of the closure, shapes and dtypes.
std::string inputs_key(const LossFn& loss, const PyTree& params, std::span<const at::Tensor> batch) {
  std::string key = loss.target_type().name();
  for (const at::Tensor& leaf : params.leaves()) append_shape(key, leaf, 0);
  for (const at::Tensor& tensor : batch) append_shape(key, tensor, 1);
  return key;
}

[[noreturn]] void refuse_varying_graph(std::string_view why) {
  throw UsageError("the autograd graph of the loss is not the one that made-up examples give", why, "use engine loop");
}

using Tensors = std::vector<at::Tensor>;

Tensors narrowed(std::span<const at::Tensor> batch, std::int64_t begin, std::int64_t size) {
  Tensors part;
  for (const at::Tensor& tensor : batch) part.push_back(tensor.narrow(0, begin, size));
  return part;
}

Tensors selected(std::span<const at::Tensor> batch, const at::Tensor& examples) {
  Tensors part;
  for (const at::Tensor& tensor : batch) part.push_back(tensor.index_select(0, examples));
  return part;
}

/// What is known of a microbatch of n examples, made up part by part. Sums of s contributions, added up k times in
/// their own dtype, pass each contribution through s + k - 2 <= s k - 1 roundings: no more than the plan counts for one
/// sum of all (rho).
class Parts {
 public:
  explicit Parts(std::int64_t n) : n_(n) {}

  /// `examples`: int64, where the part's examples are in the microbatch. Examples that are added again are overwritten.
  void add(const at::Tensor& examples, MicrobatchResult part) {
    if (!whole_.losses.defined()) {
      if (examples.numel() == n_) {
        whole_ = std::move(part);
        return;
      }
      make_room(part);
    }
    if (whole_.sum.empty())
      whole_.sum = std::move(part.sum);
    else
      for (std::size_t leaf = 0; leaf < part.sum.size(); ++leaf) whole_.sum[leaf].add_(part.sum[leaf]);
    whole_.losses.index_copy_(0, examples, part.losses);
    whole_.norms.index_copy_(0, examples, part.norms);
    whole_.group_norms.resize(part.group_norms.size());
    for (std::size_t group = 0; group < part.group_norms.size(); ++group) {
      if (!whole_.group_norms[group].defined()) whole_.group_norms[group] = at::empty_like(whole_.norms);
      whole_.group_norms[group].index_copy_(0, examples, part.group_norms[group]);
    }
    whole_.finite.index_copy_(0, examples, part.finite);
  }

  MicrobatchResult finish() { return std::move(whole_); }

 private:
  void make_room(const MicrobatchResult& part) {
    whole_.losses = at::empty({n_}, part.losses.options());
    whole_.norms = at::empty({n_}, part.norms.options());
    whole_.finite = at::empty({n_}, part.finite.options());
  }

  std::int64_t n_;
  MicrobatchResult whole_;
};

class BookkeepingEngine final : public ClippingEngine {
 public:
  explicit BookkeepingEngine(const EngineLimits& limits) : limits_(limits) {}

  [[nodiscard]] std::string_view name() const override { return "bookkeeping"; }

  MicrobatchResult clip(const LossFn& loss, const PyTree& params, std::span<const at::Tensor> batch,
                        const ClippingRule& rule) override {
    return clip_by_leaf(loss, params, batch, rule, [](std::size_t, const at::Tensor&) {}, {});
  }

  MicrobatchResult clip_by_leaf(const LossFn& loss, const PyTree& params, std::span<const at::Tensor> batch,
                                const ClippingRule& rule, const OnLeafSum& on_leaf,
                                std::span<const at::Tensor> room) override {
    const std::int64_t n = check_batch(batch);
    ClipSettings settings{.rule = rule, .stored = stored_dtype(params)};
    Plans& plans = plans_[inputs_key(loss, params, batch)];
    if (plans.empty()) learn(plans, loss, params, batch, settings.stored);
    const Plan& any_plan = plans.begin()->second;

    Parts parts(n);
    Tensors postponed;
    settings.max_spread = limits_.max_spread;
    settings.form = limits_.max_spread > 1 ? GradientForm::in_factors : GradientForm::stored;
    const std::int64_t at_once = examples_at_once(any_plan, settings.form);
    // Of several parts each adds to every leaf, and so do postponed examples, which stored gradients never leave.
    const bool leaves_end_early = n <= at_once && settings.form == GradientForm::stored;
    if (leaves_end_early) settings.on_leaf = on_leaf;
    settings.room = room;  // of the first part, to whose sums the others add
    for (std::int64_t begin = 0; begin < n; begin += at_once) {
      const std::int64_t size = std::min(at_once, n - begin);
      ClippedGraph clipped = clip_part(plans, loss, params, narrowed(batch, begin, size), settings);
      const at::Tensor examples = at::arange(begin, begin + size, clipped.postponed.options().dtype(at::kLong));
      postponed.push_back(examples.masked_select(clipped.postponed));
      parts.add(examples, std::move(clipped.result));
      settings.room = {};
    }

    settings.form = GradientForm::exactly_stored;
    settings.on_leaf = {};
    for (const at::Tensor& examples : at::cat(postponed).split(examples_at_once(any_plan, settings.form)))
      if (examples.numel() > 0)
        parts.add(examples, clip_part(plans, loss, params, selected(batch, examples), settings).result);
    MicrobatchResult result = parts.finish();
    if (!leaves_end_early)
      for (std::size_t leaf = 0; leaf < result.sum.size(); ++leaf) on_leaf(leaf, result.sum[leaf]);
    return result;
  }

 private:
  using Plans = std::map<std::string, Plan>;  // by signature of the graph

  /// How many examples' gradients fit into the memory budget.
  [[nodiscard]] std::int64_t examples_at_once(const Plan& plan, GradientForm form) const {
    std::int64_t bytes = form == GradientForm::in_factors ? plan.example_bytes : plan.example_bytes_in_full;
    if (form == GradientForm::exactly_stored) bytes *= 3;  // float64 beside float32
    return std::max<std::int64_t>(1, limits_.memory_budget / std::max<std::int64_t>(1, bytes));
  }

  /// An example alone is clipped beside a copy of itself that does not count: the graph of one example may have other
  /// views than that of several.
  static ClippedGraph clip_part(Plans& plans, const LossFn& loss, const PyTree& params, const Tensors& batch,
                                ClipSettings settings) {
    if (batch.front().size(0) > 1) return clip_several(plans, loss, params, batch, settings);
    Tensors doubled;
    for (const at::Tensor& tensor : batch) doubled.push_back(at::cat({tensor, tensor}));
    settings.counted = 1;
    ClippedGraph clipped = clip_several(plans, loss, params, doubled, settings);
    for (at::Tensor* tensor :
         {&clipped.result.losses, &clipped.result.norms, &clipped.result.finite, &clipped.postponed})
      *tensor = tensor->narrow(0, 0, 1);
    for (at::Tensor& norms : clipped.result.group_norms) norms = norms.narrow(0, 0, 1);
    return clipped;
  }

  static ClippedGraph clip_several(Plans& plans, const LossFn& loss, const PyTree& params, const Tensors& batch,
                                   const ClipSettings& settings) {
    Graph graph = trace(loss, params, batch, recurrence_of(plans));
    auto plan = plans.find(graph.signature());
    if (plan == plans.end()) {
      // The loss may have changed since it was learnt, as when a layer was switched on. Learning calls it with other
      // parameters, which may leave a bound module's tensors behind: this batch's graph is made again.
      learn(plans, loss, params, batch, settings.stored);
      graph = trace(loss, params, batch, recurrence_of(plans));
      plan = plans.find(graph.signature());
    }
    if (plan == plans.end()) refuse_varying_graph("it changes with the number or the values of the examples");
    require_planned_shapes(graph, plan->second);
    return clip_graph(graph, plan->second, settings);
  }

  /// Makes and checks a plan for the loss as it is now, on made-up examples alone: where some leave too much at zero to
  /// show whose gradient is whose, on others.
  static void learn(Plans& plans, const LossFn& loss, const PyTree& params, std::span<const at::Tensor> batch,
                    at::ScalarType stored) {
    constexpr std::uint64_t draws = 8;
    const GeneratorGuard generator;
    for (std::uint64_t draw = 0;; ++draw) try {
        learn_from(make_up_examples(loss, params, batch, draw), generator, plans, loss, params.paths(), stored);
        malloc_trim(0);  // the check's passes, one for each example, hold more than steps do
        return;
      } catch (const IndistinctExamples&) {
        if (draw + 1 == draws) throw;
      }
  }

  static void learn_from(const MadeUpExamples& examples, const GeneratorGuard& generator, Plans& plans,
                         const LossFn& loss, const std::vector<std::string>& paths, at::ScalarType stored) {
    const auto traced = [&](const Tensors& made_up, Recurrence recurrence) {
      generator.rewind();
      return trace(loss, examples.params, made_up, recurrence);
    };
    Recurrence recurrence = recurrence_of(plans);
    const bool fused = recurrence == Recurrence::fused && has_fused_recurrence(traced(examples.batch, recurrence));
    if (fused) recurrence = Recurrence::written_out;
    Plan plan;
    {
      const Graph two = traced(examples.first(2), recurrence), three = traced(examples.batch, recurrence);
      if (two.signature() != three.signature()) refuse_varying_graph("it changes with the number of examples");
      plan = make_plan(two, three, paths);
    }
    plan.recurrence = recurrence;
    check_plan(loss, examples, plan, stored);
    if (fused) log::info("LSTM layers run step by step: the fused ones do not show what the steps hold");
    const std::string signature = plan.signature;
    plans.insert_or_assign(signature, std::move(plan));
  }

  /// One way for all graphs of a loss, because it is chosen before the graph is known.
  static Recurrence recurrence_of(const Plans& plans) {
    const bool written_out = std::ranges::any_of(
        plans, [](const auto& entry) { return entry.second.recurrence == Recurrence::written_out; });
    return written_out ? Recurrence::written_out : Recurrence::fused;
  }

  /// Every tensor of the graph has the shape that the plan foresees for this number of examples.
  static void require_planned_shapes(const Graph& graph, const Plan& plan) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i)
      if (graph.nodes[i].shape != plan.shapes[i].at(graph.num_examples))
        refuse_varying_graph("a tensor has another shape at " + graph.nodes[i].name);
  }

  EngineLimits limits_;
  std::map<std::string, Plans> plans_;
};

}  // namespace

std::unique_ptr<ClippingEngine> make_bookkeeping_engine(const EngineLimits& limits) {
  return std::make_unique<BookkeepingEngine>(limits);
}

}  // namespace ripieno
