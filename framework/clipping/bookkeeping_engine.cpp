#include <ATen/ATen.h>

#include <map>
#include <ripieno/accounting/base/error.hpp>
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

class BookkeepingEngine final : public ClippingEngine {
 public:
  [[nodiscard]] std::string_view name() const override { return "bookkeeping"; }

  MicrobatchResult clip(const LossFn& loss, const PyTree& params, std::span<const at::Tensor> batch,
                        double clipping_norm) override {
    const at::ScalarType stored = stored_dtype(params);
    Plans& plans = plans_[inputs_key(loss, params, batch)];
    if (plans.empty()) learn(plans, loss, params, batch, stored);
    Graph graph = trace(loss, params, batch);
    if (!plans.contains(graph.signature())) {
      // The loss may have changed since it was learnt, as when a layer was switched on. Learning calls it with other
      // parameters, which may leave a bound module's tensors behind: this batch's graph is made again.
      learn(plans, loss, params, batch, stored);
      graph = trace(loss, params, batch);
    }
    const auto plan = plans.find(graph.signature());
    if (plan == plans.end()) refuse_varying_graph("it changes with the number or the values of the examples");
    require_planned_shapes(graph, plan->second);
    return clip_graph(graph, plan->second, clipping_norm, stored);
  }

 private:
  using Plans = std::map<std::string, Plan>;  // by signature of the graph

  /// Makes and checks a plan for the loss as it is now, on made-up examples alone.
  static void learn(Plans& plans, const LossFn& loss, const PyTree& params, std::span<const at::Tensor> batch,
                    at::ScalarType stored) {
    const GeneratorGuard generator;
    const MadeUpExamples examples = make_up_examples(loss, params, batch);
    generator.rewind();
    const Graph two = trace(loss, examples.params, examples.first(2));
    generator.rewind();
    const Graph three = trace(loss, examples.params, examples.batch);
    const std::string signature = three.signature();
    if (two.signature() != signature) refuse_varying_graph("it changes with the number of examples");
    Plan plan = make_plan(two, three, params.paths());
    check_plan(loss, examples, plan, stored);
    plans.insert_or_assign(signature, std::move(plan));
  }

  /// Every tensor of the graph has the shape that the plan foresees for this number of examples.
  static void require_planned_shapes(const Graph& graph, const Plan& plan) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i)
      if (graph.nodes[i].shape != plan.shapes[i].at(graph.num_examples))
        refuse_varying_graph("a tensor has another shape at " + graph.nodes[i].name);
  }

  std::map<std::string, Plans> plans_;
};

}  // namespace

std::unique_ptr<ClippingEngine> make_bookkeeping_engine() { return std::make_unique<BookkeepingEngine>(); }

}  // namespace ripieno
