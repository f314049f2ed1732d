#include <algorithm>
#include <map>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/ledger/analysis.hpp>

namespace ripieno::ledger {
namespace {

void check_same_data(const std::vector<Ledger>& ledgers) {
  const Ledger& first = ledgers.front();
  for (const Ledger& other : ledgers) {
    if (other.header.dataset_id != first.header.dataset_id) {
      throw PrivacyError("ledgers " + first.name + " and " + other.name + " are over different data",
                         "dataset " + first.header.dataset_id + " and dataset " + other.header.dataset_id,
                         "analyse them apart; where the same people are in both, add their epsilons and deltas");
    }
    if (other.header.num_examples != first.header.num_examples) {
      throw DataError("ledgers " + first.name + " and " + other.name + " disagree on the size of dataset " +
                          first.header.dataset_id,
                      std::to_string(first.header.num_examples) + " and " + std::to_string(other.header.num_examples) +
                          " examples");
    }
  }
}

/// Steps [begin, end) of a segment under one set of keys.
struct KeyUse {
  std::string place;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool secure = true;
};

/// Two releases over one Poisson draw are one release with less noise, and equal noise on two values shows their
/// difference: neither composes as two steps would.
void check_keys(const std::vector<Ledger>& ledgers, std::vector<std::string>& warnings) {
  std::map<std::string, std::vector<KeyUse>> uses;
  for (const Ledger& ledger : ledgers) {
    for (const Segment& segment : ledger.segments) {
      const std::int64_t begin = segment.header.first_step;
      const KeyUse use{.place = "segment " + std::to_string(segment.header.index) + " of " + ledger.name,
                       .begin = begin,
                       .end = begin + segment.charged(),
                       .secure = segment.header.plan.secure_seed()};
      std::vector<KeyUse>& earlier = uses[segment.header.nonce_hash];
      for (const KeyUse& other : earlier) {
        const std::int64_t step = std::max(use.begin, other.begin);
        if (step >= std::min(use.end, other.end)) continue;
        const std::string what = "step " + std::to_string(step) + " was made twice from the same keys, in " +
                                 other.place + " and " + use.place;
        if (use.secure) {
          throw PrivacyError(what, "its releases do not compose like independent steps",
                             "if one file is a copy of the other, give the longer one only");
        }
        warnings.push_back(what);
      }
      earlier.push_back(use);
    }
  }
}

std::string count(std::int64_t n, const std::string& noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

/// All steps at once: adding them to the schedule one segment at a time would sort it anew for each.
Schedule schedule_of(const std::vector<Ledger>& ledgers) {
  std::vector<accounting::SubsampledGaussian> mechanisms;
  double tail = 0;
  for (const Ledger& ledger : ledgers) {
    for (const Segment& segment : ledger.segments) {
      mechanisms.push_back(mechanism_of(segment.header.plan, segment.charged()));
      tail += segment.header.plan.rounding_tail(segment.charged());
    }
  }
  return {.releases = accounting::Process(mechanisms), .tail = tail};
}

void add_segment(const Ledger& ledger, const Segment& segment, Analysis& analysis) {
  const PrivacyPlan& plan = segment.header.plan;
  const std::int64_t charged = segment.charged();
  analysis.steps += charged;
  const std::string place = "segment " + std::to_string(segment.header.index) + " of " + ledger.name;
  if (!plan.secure_seed()) {
    analysis.is_private = false;
    analysis.warnings.push_back(place + " used a fixed seed: its noise can be recomputed, so the run is not private");
  }
  if (plan.noise_multiplier() == 0 && charged > 0) {
    analysis.is_private = false;
    analysis.warnings.push_back(place + " made " + count(charged, "step") +
                                " without noise, so the run is not private");
  }
}

void check_ceiling(const Ledger& ledger, Analysis& analysis) {
  if (ledger.segments.empty()) {
    analysis.warnings.push_back(ledger.name + " holds no segment: nothing was released under it");
    return;
  }
  const std::int64_t ceiling = ledger.segments.back().header.plan.max_records();
  if (ledger.charged() > ceiling) {
    analysis.warnings.push_back(ledger.name + " holds " + count(ledger.charged(), "step") + " where its plan allows " +
                                std::to_string(ceiling) + "; all of them are counted");
  }
}

}  // namespace

Analysis analyse(std::vector<Ledger> ledgers) {
  if (ledgers.empty()) throw UsageError("no ledger to analyse");
  check_same_data(ledgers);
  Analysis analysis;
  analysis.adjacency = "add-remove";
  analysis.schedule = schedule_of(ledgers);
  analysis.assumptions = standing_assumptions();
  check_keys(ledgers, analysis.warnings);
  for (const Ledger& ledger : ledgers) {
    analysis.warnings.insert(analysis.warnings.end(), ledger.warnings.begin(), ledger.warnings.end());
    for (const Segment& segment : ledger.segments) add_segment(ledger, segment, analysis);
    check_ceiling(ledger, analysis);
    if (!ledger.segments.empty()) analysis.default_delta = ledger.segments.back().header.plan.delta();
  }
  analysis.ledgers = std::move(ledgers);
  return analysis;
}

std::vector<EpsilonAtDelta> epsilons(const Analysis& analysis, std::span<const double> deltas) {
  std::vector<EpsilonAtDelta> rows;
  for (const double delta : deltas) {
    rows.push_back({.delta = delta,
                    .epsilon = epsilon_of_schedule(analysis.schedule, delta),
                    .epsilon_rdp = rdp_epsilon_of_schedule(analysis.schedule, delta)});
  }
  return rows;
}

std::vector<std::string> standing_assumptions() {
  return {
      "Neighbouring data sets differ by one example, added or removed. A person who contributed several examples is "
      "protected less. The number of examples, the sample rate and the expected batch size are public.",
      "Each step drew every example independently with the sample rate, and each example belongs to one rank.",
      "The noise is an ideal real-valued Gaussian on a floating-point sum. Rounding of the sum is covered (rho); the "
      "finite precision of the noise itself is not analysed.",
      "The bits of an example's gradient do not depend on the other examples in its microbatch.",
      "The run secret, from the operating system's entropy, stayed secret: whoever has it can recompute noise and "
      "draws.",
      "The schedule was fixed beforehand or by public means, not chosen by looking at what earlier steps released.",
      "Only what these ledgers record is counted. Tuning runs and other uses of the data have ledgers of their own.",
      "The file is complete. Its chain of hashes shows changed and missing lines but not an end that was cut off: "
      "compare "
      "the head with the one in result.json or in the model.",
  };
}

}  // namespace ripieno::ledger
