#include <algorithm>
#include <limits>
#include <map>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/ledger/analysis.hpp>
#include <ripieno/accounting/ledger/assumptions.hpp>

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

/// Those of all samplers and mechanisms that ran, each once.
std::vector<std::string> assumptions_of(const std::vector<Ledger>& ledgers) {
  std::vector<std::string> all;
  for (const Ledger& ledger : ledgers) {
    for (const Segment& segment : ledger.segments) {
      const PrivacyPlan& plan = segment.header.plan;
      for (const std::string& sentence :
           assumptions_for(plan.pairing().sampling, plan.options().strategy.has_value())) {
        if (std::ranges::find(all, sentence) == all.end()) all.push_back(sentence);
      }
    }
  }
  return all.empty() ? standing_assumptions() : all;
}

/// Neighbours must be the same for all releases that compose.
std::string common_adjacency(const std::vector<Ledger>& ledgers) {
  std::string adjacency;
  for (const Ledger& ledger : ledgers) {
    for (const Segment& segment : ledger.segments) {
      const std::string& other = segment.header.plan.adjacency();
      if (adjacency.empty()) adjacency = other;
      if (adjacency == other) continue;
      throw PrivacyError("the ledgers hold runs under adjacency " + adjacency + " and " + other,
                         "their losses do not compose", "analyse them apart");
    }
  }
  return adjacency.empty() ? "add-remove" : adjacency;
}

}  // namespace

Schedule schedule_of_first(std::span<const Ledger> ledgers, std::int64_t most_steps) {
  std::vector<Stretch> stretches;
  for (const Ledger& ledger : ledgers) {
    for (const Segment& segment : ledger.segments) {
      const SegmentHeader& header = segment.header;
      const std::int64_t taken = std::min(most_steps, segment.charged());
      stretches.push_back({&header.plan, header.first_step, taken, header.pattern});
      most_steps -= taken;
    }
  }
  return schedule_of(stretches);
}

Analysis analyse(std::vector<Ledger> ledgers) {
  if (ledgers.empty()) throw UsageError("no ledger to analyse");
  check_same_data(ledgers);
  Analysis analysis;
  analysis.adjacency = common_adjacency(ledgers);
  analysis.schedule = schedule_of_first(ledgers, std::numeric_limits<std::int64_t>::max());
  analysis.assumptions = assumptions_of(ledgers);
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
  return assumptions_for(SamplingSchedule({}, 1, 1, 1), /*correlated=*/false);
}

}  // namespace ripieno::ledger
