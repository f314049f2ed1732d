#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/ledger/report.hpp>
#include <ripieno/accounting/plot/axis.hpp>
#include <ripieno/accounting/plot/privacy_page.hpp>
#include <ripieno/accounting/plot/privacy_plot.hpp>
#include <ripieno/accounting/plot/svg.hpp>
#include <ripieno/version.hpp>
#include <vector>

namespace ripieno::plot {
namespace {

using ledger::Analysis;
using ledger::ProfilePoint;

// The drawing is made for white paper, so it stays on a sheet of it in the dark.
constexpr const char* k_style = R"(
:root { color-scheme: light dark; --text: #1f2933; --quiet: #52606d; --ground: #ffffff; --line: #d5dbe1; --mark: #0b5cad;
  --alarm: #b91c1c; --alarm-ground: #fef2f2; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e7eb; --quiet: #a7b1bc; --ground: #14181d; --line: #39424d;
  --mark: #7cb8f5; --alarm: #fca5a5; --alarm-ground: #3b1518; } }
body { margin: 2rem auto; max-width: 72rem; padding: 0 1.2rem; background: var(--ground); color: var(--text);
  font: 1rem/1.5 Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .2rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
.quiet { color: var(--quiet); } .verdict { font-size: 1.5rem; color: var(--mark); font-weight: bold; margin: .8rem 0; }
.alarm { color: var(--alarm); background: var(--alarm-ground); padding: .6rem 1rem; border-left: .3rem solid; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .8rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; } th { color: var(--quiet); font-weight: normal; }
figure { margin: 1.5rem 0; background: #ffffff; border: 1px solid var(--line); border-radius: .4rem; }
figure svg { display: block; width: 100%; height: auto; } li { margin: .35rem 0; } code { overflow-wrap: anywhere; }
@media print { :root { --text: #000000; --quiet: #333333; --ground: #ffffff; --line: #999999; --mark: #000000;
  --alarm: #000000; --alarm-ground: #ffffff; } body { margin: 0; max-width: none; font-size: 10pt; }
  figure, tr, li { break-inside: avoid; } h2 { break-after: avoid; } th, td { padding: .15rem .4rem; } }
)";

std::string element(std::string_view name, std::string_view text) {
  const std::string tag(name);
  return "<" + tag + ">" + escaped(text) + "</" + tag + ">";
}

std::string row(std::string_view cell, std::span<const std::string> texts) {
  std::string html = "<tr>";
  for (const std::string& text : texts) html += element(cell, text);
  return html + "</tr>\n";
}

std::string table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<div class=\"scroll\"><table>\n<thead>" + row("th", head) + "</thead>\n<tbody>\n";
  for (const std::vector<std::string>& texts : rows) html += row("td", texts);
  return html + "</tbody></table></div>\n";
}

std::string list(std::string_view title, const std::vector<std::string>& sentences) {
  if (sentences.empty()) return {};
  std::string html = element("h2", title) + "\n<ul>\n";
  for (const std::string& sentence : sentences) html += element("li", sentence) + "\n";
  return html + "</ul>\n";
}

std::string heading(const Analysis& analysis) {
  const ledger::FileHeader& data = analysis.ledgers.front().header;
  const std::size_t runs = analysis.ledgers.size();
  return element("h1", "Privacy loss of " + grouped(analysis.steps) + " training steps" +
                           (runs > 1 ? " in " + std::to_string(runs) + " runs" : "")) +
         "\n<p class=\"quiet\">Dataset <code>" + escaped(data.dataset_id) + "</code>, " + grouped(data.num_examples) +
         " examples; neighbours: " + escaped(analysis.adjacency) + "</p>\n";
}

std::string verdict(const Analysis& analysis, std::span<const double> deltas) {
  const std::vector<ledger::EpsilonAtDelta> found = epsilons(analysis, deltas);
  std::string html;
  if (!analysis.is_private) {
    html +=
        "<p class=\"alarm\"><strong>Not private:</strong> see the warnings. The figures hold for secret, nonzero noise "
        "only.</p>\n";
  }
  html += "<p class=\"verdict\">ε ≤ " + ledger::shown_upper(found.front().epsilon.upper) +
          " at δ = " + format_double(found.front().delta) + "</p>\n";
  std::vector<std::vector<std::string>> rows;
  for (const ledger::EpsilonAtDelta& at : found) {
    rows.push_back({format_double(at.delta), ledger::shown_upper(at.epsilon.upper),
                    ledger::shown_lower(at.epsilon.lower), ledger::shown_upper(at.epsilon_rdp)});
  }
  return html + table({"δ", "ε at most", "and at least", "by Rényi accounting"}, rows) +
         "<p class=\"quiet\">Method: " + escaped(analysis.schedule.releases.method(deltas.front())) +
         ". Rounding tail " + format_rounded_up(analysis.schedule.tail, 3) + ", included in δ.</p>\n";
}

// Attack figures would mislead where someone can recompute the noise.
std::string attacks(const Analysis& analysis, std::span<const ProfilePoint> profile) {
  if (!analysis.is_private || analysis.steps == 0 || profile.empty()) return {};
  std::vector<std::vector<std::string>> rows;
  for (const ledger::AttackBound& bound : ledger::attack_bounds(profile)) {
    rows.push_back({format_double(bound.false_positive_rate), format_rounded_up(bound.true_positive_rate, 4)});
  }
  return element("h2", "Against an attacker who guesses whether one example was used") +
         "\n<p>The true-positive rate exceeds the false-positive rate by at most " +
         ledger::shown_upper(profile.front().delta) + ".</p>\n" +
         table({"at a false-positive rate of", "a true-positive rate of at most"}, rows);
}

std::string steps_text(const ledger::Segment& segment) {
  if (segment.charged() == 0) return "none";
  const std::int64_t first = segment.header.first_step;
  return grouped(first) + " to " + grouped(first + segment.charged() - 1) + (segment.torn_records > 0 ? " (torn)" : "");
}

std::string segments(const Analysis& analysis) {
  std::string html = element("h2", "What was recorded") + "\n";
  for (const ledger::Ledger& ledger : analysis.ledgers) {
    html += "<p><code>" + escaped(ledger.name) + "</code>, " + grouped(ledger.charged()) +
            " steps; chain intact, head <code>" + escaped(ledger::hash_text(ledger.head)) + "</code></p>\n";
    std::vector<std::vector<std::string>> rows;
    for (const ledger::Segment& segment : ledger.segments) {
      const PrivacyPlan& plan = segment.header.plan;
      rows.push_back({std::to_string(segment.header.index), steps_text(segment), format_double(plan.noise_multiplier()),
                      format_double(plan.sample_rate()), format_double(plan.expected_batch()),
                      format_double(plan.clipping_norm()), format_rounded_up(plan.rho(), 3),
                      std::to_string(plan.world_size()),
                      segment.header.nonce_hash.substr(0, 8) + (plan.secure_seed() ? "" : " FIXED SEED")});
    }
    html += table({"segment", "steps", "noise multiplier", "sample rate", "expected batch", "clipping norm", "ρ",
                   "ranks", "keys"},
                  rows);
  }
  return html;
}

}  // namespace

std::string privacy_html(const Analysis& analysis, std::span<const double> deltas,
                         std::span<const ProfilePoint> profile) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<title>Privacy loss of a training run</title>\n<style>" +
         std::string(k_style) + "</style>\n</head>\n<body>\n" + heading(analysis) + verdict(analysis, deltas) +
         list("Warnings", analysis.warnings) + "<figure>\n" + privacy_svg(analysis, deltas, profile) + "</figure>\n" +
         attacks(analysis, profile) + segments(analysis) +
         list("What the figures take for granted", analysis.assumptions) + "<p class=\"quiet\">ripieno-privacy " +
         k_version + "</p>\n</body>\n</html>\n";
}

}  // namespace ripieno::plot
