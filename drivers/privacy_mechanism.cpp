#include <algorithm>
#include <array>
#include <functional>
#include <iostream>
#include <optional>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/base/types.hpp>
#include <ripieno/accounting/cli/options.hpp>
#include <ripieno/accounting/engine/mechanisms.hpp>
#include <ripieno/accounting/ledger/report.hpp>
#include <ripieno/accounting/mechanisms/matrix_factorisation.hpp>
#include <ripieno/accounting/mechanisms/monte_carlo.hpp>
#include <ripieno/accounting/mechanisms/random_allocation.hpp>
#include <ripieno/accounting/mechanisms/sampling.hpp>

#include "privacy_commands.hpp"

namespace ripieno::privacy {
namespace {

using accounting::Process;

struct Request {
  std::string kind, strategy = "identity", adjacency = "zero-out";
  double noise_multiplier = 0, delta = 0;
  std::optional<double> sample_rate, lambda;
  std::optional<std::int64_t> steps, num_examples, batch, workers, participations, bins, group, bandwidth;
  std::int64_t min_separation = 1;
  std::int64_t draws = 1'000'000;
  double alpha = 1, beta = 0;
  bool as_is = false;
  std::vector<double> coefficients, weights, decays;
  bool json = false;
};

/// What a mechanism is worth, and on what that rests.
struct Answer {
  accounting::Interval epsilon;
  std::string method, adjacency;
  std::optional<accounting::Sensitivity> sensitivity{};
  double failure_probability = 0;  ///< over random draws of the accountant; 0 where it makes none
};

template <class T>
T needed(const Request& request, const std::optional<T>& value, const char* option) {
  if (value) return *value;
  throw UsageError("--kind " + request.kind + " needs --" + option, "", "see --help");
}

std::int64_t steps(const Request& request) { return needed(request, request.steps, "steps"); }

Answer answer(const Process& process, double delta, std::string adjacency = "add-remove") {
  return {process.epsilon_at(delta), process.method(delta), std::move(adjacency)};
}

Answer poisson(const Request& r) {
  const Process step =
      accounting::poisson(accounting::gaussian(r.noise_multiplier), needed(r, r.sample_rate, "sample-rate"));
  return answer(accounting::for_group(step * steps(r), r.group.value_or(1)), r.delta);
}

Answer truncated_poisson(const Request& r) {
  return answer(
      accounting::truncated_poisson(accounting::gaussian(r.noise_multiplier), needed(r, r.sample_rate, "sample-rate"),
                                    needed(r, r.num_examples, "num-examples"), needed(r, r.batch, "batch")) *
          steps(r),
      r.delta);
}

Answer parallel_poisson(const Request& r) {
  return answer(accounting::parallel_poisson(accounting::gaussian(r.noise_multiplier),
                                             needed(r, r.sample_rate, "sample-rate"), needed(r, r.workers, "workers")) *
                    steps(r),
                r.delta);
}

Answer without_replacement(const Request& r) {
  const accounting::ReplaceOne process =
      accounting::without_replacement(accounting::gaussian(r.noise_multiplier),
                                      needed(r, r.num_examples, "num-examples"), needed(r, r.batch, "batch")) *
      steps(r);
  return {process.epsilon_at(r.delta), process.method(r.delta), "replace-one"};
}

Answer k_out_of_t(const Request& r) {
  return answer(accounting::k_out_of_t(r.noise_multiplier, needed(r, r.participations, "participations"), steps(r),
                                       accounting::Allocation::total),
                r.delta);
}

Answer ordered_batches(const Request& r) {
  const auto adjacency =
      r.adjacency == "zero-out" ? accounting::Adjacency::zero_out : accounting::Adjacency::replace_one;
  return answer(
      accounting::ordered_batches(r.noise_multiplier, needed(r, r.participations, "participations"), adjacency),
      r.delta, r.adjacency);
}

accounting::Strategy strategy_of(const Request& r) {
  if (r.strategy == "identity") return accounting::IdentityStrategy{};
  if (r.strategy == "bsr") return accounting::BsrStrategy{needed(r, r.bandwidth, "bandwidth"), r.alpha, r.beta};
  if (r.strategy == "bisr") {
    return accounting::BisrStrategy{needed(r, r.bandwidth, "bandwidth"), !r.as_is, r.beta, {}};
  }
  if (r.strategy == "lambda-cgd") return accounting::LambdaCgdStrategy{needed(r, r.lambda, "lambda"), !r.as_is};
  if (r.strategy == "band-mf") return accounting::BandMfStrategy{r.coefficients};
  return accounting::BltStrategy{r.weights, r.decays};
}

Answer drawn(const accounting::LossSampler& loss, const Request& r) {
  const accounting::ConfidentEpsilon found = accounting::monte_carlo_epsilon(loss, r.delta, {.draws = r.draws});
  return {.epsilon = {0, found.epsilon},
          .method = "Monte Carlo, " + std::to_string(r.draws) + " draws",
          .adjacency = "add-remove",
          .failure_probability = found.failure_probability};
}

Answer balls_in_bins(const Request& r) {
  const std::int64_t bins = needed(r, r.bins, "bins");
  if (r.strategy == "identity") return answer(accounting::balls_in_bins(r.noise_multiplier, bins, steps(r)), r.delta);
  const accounting::Encoder encoder(strategy_of(r), steps(r));
  return drawn(accounting::balls_in_bins_loss(r.noise_multiplier, encoder, bins), r);
}

Answer min_separated(const Request& r) {
  const accounting::Encoder encoder(strategy_of(r), steps(r));
  const double rate = needed(r, r.sample_rate, "sample-rate");
  return drawn(accounting::min_separated_loss(r.noise_multiplier, encoder, r.min_separation, rate), r);
}

Answer matrix_factorisation(const Request& r) {
  const accounting::Encoder encoder(strategy_of(r), steps(r));
  const accounting::ParticipationSchema schema{r.min_separation, r.participations};
  // Under replace-one a gradient moves by up to two clipping norms.
  const double z = r.adjacency == "zero-out" ? r.noise_multiplier : r.noise_multiplier / 2;
  Answer result = answer(accounting::mf_gaussian(z, encoder, schema), r.delta, r.adjacency);
  result.sensitivity = accounting::sensitivity(encoder, schema);
  return result;
}

Answer cyclic_poisson(const Request& r) {
  const accounting::Encoder encoder(strategy_of(r), steps(r));
  return answer(accounting::mf_gaussian_cyclic_poisson(r.noise_multiplier, encoder, needed(r, r.bins, "bins"),
                                                       needed(r, r.sample_rate, "sample-rate")),
                r.delta);
}

struct Kind {
  const char* name;
  Answer (*answer)(const Request&);
};

constexpr std::array<Kind, 10> k_kinds = {{{"poisson", poisson},
                                           {"truncated-poisson", truncated_poisson},
                                           {"parallel-poisson", parallel_poisson},
                                           {"without-replacement", without_replacement},
                                           {"k-out-of-t", k_out_of_t},
                                           {"balls-in-bins", balls_in_bins},
                                           {"ordered-batches", ordered_batches},
                                           {"matrix-factorisation", matrix_factorisation},
                                           {"cyclic-poisson", cyclic_poisson},
                                           {"min-separated", min_separated}}};

void add_strategy(cli::Group& group, Request& r) {
  group.add_choice("strategy", r.strategy, {"identity", "bsr", "bisr", "lambda-cgd", "band-mf", "blt"},
                   "encoder of correlated noise: noise is its inverse times white noise");
  group.add("min-separation", r.min_separation, "B", "an example's participations are B steps apart or more")
      .add("bandwidth", r.bandwidth, "P", "coefficients of bsr, of the inverse of bisr")
      .add("alpha", r.alpha, "A", "weight decay of the workload of bsr, in (beta, 1]")
      .add("beta", r.beta, "M", "momentum of the workload of bsr and bisr, in [0, 1)")
      .add("lambda", r.lambda, "L", "of lambda-cgd, in [0, 1)")
      .add("as-is", r.as_is, "", "do not scale the columns of bisr and lambda-cgd to norm 1")
      .add("coefficient", r.coefficients, "C", "of band-mf, once for each band")
      .add("weight", r.weights, "W", "of blt, once for each buffer")
      .add("decay", r.decays, "D", "of blt, once for each buffer");
}

bool parse(std::span<const std::string> arguments, Request& r) {
  cli::Options options("ripieno-privacy mechanism",
                       "Epsilon of a training run by how batches are made and noise is correlated. Steps that are not "
                       "Poisson samples with independent noise must not be given to the command epsilon.",
                       dependencies());
  options.example(k_mechanism_example);
  options.example(
      "ripieno-privacy mechanism --kind matrix-factorisation --strategy lambda-cgd --lambda 0.9 --noise-multiplier 8 "
      "--steps 1000 --min-separation 100 --delta 1e-5");
  cli::Group& group = options.group("mechanism");
  std::vector<std::string> names;
  for (const Kind& kind : k_kinds) names.emplace_back(kind.name);
  group
      .add_choice(
          "kind", r.kind, names,
          "poisson: each step draws each example with chance Q, add/remove (with --group: a group of examples "
          "more or less); truncated-poisson: and keeps at most --batch of them; parallel-poisson: --workers draw "
          "from the same data, each for itself; without-replacement: a random --batch of --num-examples, "
          "replace-one, noise over replace-one sensitivity; k-out-of-t: each example is in --participations "
          "random steps of all; balls-in-bins: each example has one of --bins for good; ordered-batches: fixed or "
          "shuffled order, --participations epochs, no amplification; matrix-factorisation: correlated noise; "
          "cyclic-poisson: a banded strategy, data dealt into --bins parts, each step a Poisson sample of one; "
          "min-separated: a banded strategy, each example free to take part does so with chance Q and then rests "
          "for --min-separation steps. balls-in-bins with a strategy and min-separated are bounded from random "
          "draws, with a chance of 1e-6 that is not part of delta")
      .required()
      .add("noise-multiplier", r.noise_multiplier, "S",
           "standard deviation of the (white) noise over the clipping norm")
      .required()
      .add("delta", r.delta, "D", "delta of (epsilon, delta)")
      .required()
      .add("steps", r.steps, "T", "number of noisy steps")
      .add("sample-rate", r.sample_rate, "Q", "probability with which a step draws an example (of its part)")
      .add("num-examples", r.num_examples, "N", "examples in the data, the larger of two neighbours")
      .add("batch", r.batch, "B", "examples in a batch, the most where it varies")
      .add("participations", r.participations, "K", "times an example takes part, the most where it varies")
      .add("bins", r.bins, "N", "bins or parts that the data are dealt into")
      .add("workers", r.workers, "W", "workers over the same data")
      .add("draws", r.draws, "N", "random draws, where the bound is made from such")
      .add("group", r.group, "K", "examples that belong together, as one user's")
      .add_choice(
          "adjacency", r.adjacency, {"zero-out", "replace-one"},
          "of ordered-batches and matrix-factorisation: one example's gradients become zero, or those of another "
          "example. Add/remove holds for neither in a fixed order, since all later examples move");
  add_strategy(options.group("matrix factorisation"), r);
  options.group("output").add("json", r.json, "", "print JSON");
  return options.parse(arguments);
}

void print_text(const Request& r, const Answer& a) {
  std::cout << r.kind << ", noise multiplier " << format_double(r.noise_multiplier) << " (adjacency: " << a.adjacency
            << ")\n";
  if (a.sensitivity) {
    std::cout << "  sensitivity of the encoder " << (a.sensitivity->is_exact ? "" : "at most ")
              << ledger::shown_upper(a.sensitivity->value) << "\n";
  }
  std::cout << "  epsilon <= " << ledger::shown_upper(a.epsilon.upper) << " at delta " << format_double(r.delta);
  if (a.epsilon.lower > 0) std::cout << "  (at least " << ledger::shown_lower(a.epsilon.lower) << ")";
  std::cout << "\n  by " << a.method << "\n";
  if (a.failure_probability > 0) {
    std::cout << "  wrong with a chance of " << format_double(a.failure_probability)
              << " over the accountant's own draws, which no delta contains\n";
  }
}

Json to_json(const Request& r, const Answer& a) {
  Json json = {{"epsilon", number(a.epsilon.upper)},
               {"epsilon_lower", number(a.epsilon.lower)},
               {"delta", r.delta},
               {"noise_multiplier", r.noise_multiplier},
               {"kind", r.kind},
               {"adjacency", a.adjacency},
               {"method", a.method}};
  if (a.sensitivity) {
    json["sensitivity"] = a.sensitivity->value;
    json["sensitivity_is_exact"] = a.sensitivity->is_exact;
  }
  if (a.failure_probability > 0) json["failure_probability"] = a.failure_probability;
  return json;
}

}  // namespace

int run_mechanism(std::span<const std::string> arguments) {
  Request request;
  if (!parse(arguments, request)) return 0;
  static_cast<void>(NoiseMultiplier(request.noise_multiplier));
  static_cast<void>(Delta(request.delta));
  const auto kind = std::ranges::find(k_kinds, request.kind, [](const Kind& k) { return std::string(k.name); });
  const Answer found = kind->answer(request);
  if (request.json) {
    print_json(to_json(request, found));
  } else {
    print_text(request, found);
  }
  return 0;
}

}  // namespace ripieno::privacy
