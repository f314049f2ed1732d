#include <cmath>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/ledger/report.hpp>
#include <ripieno/accounting/mechanisms/strategy_json.hpp>
#include <sstream>

namespace ripieno::ledger {
namespace {

constexpr int k_shown_digits = 6;
constexpr std::size_t k_line_width = 100;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

std::string method(const Analysis& analysis, std::span<const double> deltas) {
  return deltas.empty() ? "none" : analysis.schedule.releases.method(deltas.front());
}

Json segment_json(const Segment& segment) {
  const PrivacyPlan& plan = segment.header.plan;
  Json json;
  json["segment"] = segment.header.index;
  json["first_step"] = segment.header.first_step;
  json["steps"] = segment.charged();
  json["torn"] = segment.torn_records;
  json["noise_multiplier"] = plan.noise_multiplier();
  json["sample_rate"] = plan.sample_rate();
  json["nonce_hash"] = segment.header.nonce_hash;
  json["plan_hash"] = plan.hash();
  json["plan"] = plan.to_json();
  json["build"] = segment.header.build;
  return json;
}

Json ledger_json(const Ledger& ledger) {
  Json json;
  json["file"] = ledger.name;
  json["head"] = hash_text(ledger.head);
  json["steps"] = ledger.charged();
  json["segments"] = Json::array();
  for (const Segment& segment : ledger.segments) json["segments"].push_back(segment_json(segment));
  return json;
}

std::string clipping_text(const PrivacyPlan& plan) {
  const std::string norm = "clipping norm " + format_double(plan.clipping_norm());
  switch (plan.clipping()) {
    case ClippingKind::fixed:
      return norm;
    case ClippingKind::adaptive:
      return "adaptive " + norm + " at first, gradients noised with " + format_double(plan.gradient_noise_multiplier());
    case ClippingKind::per_layer:
      return norm + " in equal parts to layers";
    case ClippingKind::automatic:
      return "automatic " + norm;
  }
  return norm;
}

/// How examples were drawn and noise correlated, where it is not Poisson sampling with independent noise.
std::string mechanism_text(const PrivacyPlan& plan) {
  const PlanOptions& options = plan.options();
  if (!options.strategy && options.sampler.kind == SamplerKind::poisson) return {};
  const std::string noise =
      options.strategy ? "noise correlated by mf:" + accounting::strategy_name(*options.strategy) : "independent noise";
  return "    sampler " + sampler_name(options.sampler.kind) + ", " + noise + "\n";
}

void print_segment(std::ostream& out, const Segment& segment) {
  const PrivacyPlan& plan = segment.header.plan;
  out << "  segment " << segment.header.index << ": ";
  if (segment.charged() == 0) {
    out << "no step";
  } else {
    out << "steps " << segment.header.first_step << " to " << segment.header.first_step + segment.charged() - 1 << " ("
        << segment.charged() << (segment.torn_records > 0 ? ", the last one torn but charged" : "") << ")";
  }
  out << ", noise multiplier " << format_double(plan.noise_multiplier()) << ", " << clipping_text(plan)
      << "\n    sample rate " << format_double(plan.sample_rate()) << " (expected batch "
      << format_double(plan.expected_batch()) << "), rho " << format_rounded_up(plan.rho(), 3) << ", "
      << plan.world_size() << (plan.world_size() == 1 ? " rank" : " ranks") << ", keys "
      << segment.header.nonce_hash.substr(0, 8) << (plan.secure_seed() ? "" : " from a FIXED SEED") << "\n"
      << mechanism_text(plan);
}

void print_ledger(std::ostream& out, const Ledger& ledger) {
  out << "Ledger " << ledger.name << "\n  dataset " << ledger.header.dataset_id << ", " << ledger.header.num_examples
      << " examples; chain intact, head " << hash_text(ledger.head) << "\n";
  for (const Segment& segment : ledger.segments) print_segment(out, segment);
}

void print_list(std::ostream& out, const char* title, const std::vector<std::string>& sentences) {
  if (sentences.empty()) return;
  out << "\n" << title << "\n";
  for (const std::string& sentence : sentences) out << wrapped("  - ", sentence);
}

void print_verdict(std::ostream& out, const Analysis& analysis, const EpsilonAtDelta& row) {
  if (!analysis.is_private) {
    out << "  NOT PRIVATE: see the warnings. The figures hold for secret, nonzero noise only.\n";
  }
  out << "  epsilon <= " << shown_upper(row.epsilon.upper) << " at delta " << format_double(row.delta) << "  (at least "
      << shown_lower(row.epsilon.lower);
  if (std::isfinite(row.epsilon_rdp) || !std::isfinite(row.epsilon.upper)) {
    out << "; by Renyi accounting, which other tools print: " << shown_upper(row.epsilon_rdp);
  }
  out << ")\n";
}

/// Attack figures would mislead where someone can recompute the noise.
bool tells_attacks(const Analysis& analysis, std::span<const ProfilePoint> profile) {
  return analysis.is_private && analysis.steps > 0 && !profile.empty();
}

void print_attacks(std::ostream& out, std::span<const ProfilePoint> profile) {
  out << "\nAgainst an attacker who guesses whether one example was used\n"
      << "  true-positive rate exceeds the false-positive rate by at most " << shown_upper(profile.front().delta)
      << "\n";
  for (const AttackBound& bound : attack_bounds(profile)) {
    out << "  at false-positive rate " << format_double(bound.false_positive_rate)
        << " the true-positive rate is at most " << format_rounded_up(bound.true_positive_rate, 4) << "\n";
  }
}

Json attacks_json(std::span<const ProfilePoint> profile) {
  Json json = {{"advantage", profile.front().delta}, {"bounds", Json::array()}};
  for (const AttackBound& bound : attack_bounds(profile)) {
    json["bounds"].push_back(
        {{"false_positive_rate", bound.false_positive_rate}, {"true_positive_rate", bound.true_positive_rate}});
  }
  return json;
}

}  // namespace

std::string shown_upper(double value) { return format_rounded_up(value, k_shown_digits); }

std::string shown_lower(double value) {
  if (!(value > 0) || !std::isfinite(value)) return format_double(value);
  return format_rounded_up(-value, k_shown_digits).substr(1);
}

std::string wrapped(const std::string& lead, const std::string& text) {
  std::istringstream words(text);
  std::string result = lead;
  std::size_t column = lead.size();
  bool first = true;
  for (std::string word; words >> word; first = false) {
    if (!first && column + 1 + word.size() > k_line_width) {
      result.append("\n").append(lead.size(), ' ');
      column = lead.size();
    } else if (!first) {
      result.push_back(' ');
      ++column;
    }
    result.append(word);
    column += word.size();
  }
  result.push_back('\n');
  return result;
}

Json report_json(const Analysis& analysis, std::span<const double> deltas, std::span<const ProfilePoint> profile) {
  const std::vector<EpsilonAtDelta> rows = epsilons(analysis, deltas);
  const std::vector<accounting::SubsampledGaussian>& mechanisms = analysis.schedule.releases.mechanisms();
  const bool uniform = mechanisms.size() == 1;
  Json json;
  json["private"] = analysis.is_private;
  if (!rows.empty()) {
    json["epsilon"] = number(rows.front().epsilon.upper);
    json["epsilon_lower"] = number(rows.front().epsilon.lower);
    json["epsilon_rdp"] = number(rows.front().epsilon_rdp);
    json["delta"] = rows.front().delta;
  }
  json["noise_multiplier"] = uniform ? Json(mechanisms.front().noise_multiplier) : Json(nullptr);
  json["sample_rate"] = uniform ? Json(mechanisms.front().sample_rate) : Json(nullptr);
  json["steps"] = analysis.steps;
  json["adjacency"] = analysis.adjacency;
  json["method"] = method(analysis, deltas);
  json["rounding_tail"] = analysis.schedule.tail;
  json["results"] = Json::array();
  for (const EpsilonAtDelta& row : rows) {
    json["results"].push_back({{"delta", row.delta},
                               {"epsilon", number(row.epsilon.upper)},
                               {"epsilon_lower", number(row.epsilon.lower)},
                               {"epsilon_rdp", number(row.epsilon_rdp)}});
  }
  if (tells_attacks(analysis, profile)) json["attacks"] = attacks_json(profile);
  json["dataset_id"] = analysis.ledgers.front().header.dataset_id;
  json["num_examples"] = analysis.ledgers.front().header.num_examples;
  json["ledgers"] = Json::array();
  for (const Ledger& ledger : analysis.ledgers) json["ledgers"].push_back(ledger_json(ledger));
  json["warnings"] = analysis.warnings;
  json["assumptions"] = analysis.assumptions;
  return json;
}

std::string report_text(const Analysis& analysis, std::span<const double> deltas,
                        std::span<const ProfilePoint> profile) {
  std::ostringstream out;
  for (const Ledger& ledger : analysis.ledgers) print_ledger(out, ledger);
  out << "\nPrivacy loss of " << (analysis.ledgers.size() > 1 ? "all of them together, " : "") << analysis.steps
      << " steps (adjacency: " << analysis.adjacency << ")\n";
  for (const EpsilonAtDelta& row : epsilons(analysis, deltas)) print_verdict(out, analysis, row);
  out << wrapped("  ", "Method: " + method(analysis, deltas) + ". Rounding tail " +
                           format_rounded_up(analysis.schedule.tail, 3) + ", included in delta.");
  if (tells_attacks(analysis, profile)) print_attacks(out, profile);
  print_list(out, "Warnings", analysis.warnings);
  print_list(out, "Assumed", analysis.assumptions);
  return out.str();
}

}  // namespace ripieno::ledger
