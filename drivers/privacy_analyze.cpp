#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/base/types.hpp>
#include <ripieno/accounting/cli/options.hpp>
#include <ripieno/accounting/ledger/curves.hpp>
#include <ripieno/accounting/ledger/report.hpp>
#include <ripieno/accounting/ledger/siblings.hpp>
#include <ripieno/accounting/plot/privacy_page.hpp>
#include <ripieno/accounting/plot/privacy_plot.hpp>

#include "privacy_commands.hpp"

namespace ripieno::privacy {
namespace {

using ledger::ProfilePoint;

struct Request {
  std::vector<std::string> paths;
  std::vector<double> deltas;
  std::optional<std::string> plot;
  std::optional<std::string> html;
  std::optional<std::string> curve;
  bool json = false;
};

bool parse(std::span<const std::string> arguments, Request& request) {
  cli::Options options(
      "ripieno-privacy analyze",
      "What the runs behind one or several ledgers cost. Several must be over the same data; their costs "
      "are composed.",
      dependencies());
  options.example(k_analyze_example);
  options.positional("LEDGER", request.paths, "a run's ledger.jsonl", 1);
  options.group("figures").add("delta", request.deltas, "D", "a delta to report epsilon for; by default the plan's");
  options.group("output")
      .add("json", request.json, "", "print JSON")
      .add("plot", request.plot, "FILE.svg", "draw epsilon against steps, delta against epsilon, the trade-off curve")
      .add("html", request.html, "FILE.html",
           "write the whole analysis, with that drawing, as one page for a browser or a printer")
      .add("curve", request.curve, "FILE.csv",
           "write delta against epsilon and, beside it, the least false-negative rate beta of an attack against its "
           "false-positive rate alpha");
  return options.parse(arguments);
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) throw DataError("cannot write " + path);
}

/// One row a point of the profile; alphas from 0 to 1, closer together near 0.
std::string curve_csv(std::span<const ProfilePoint> profile) {
  std::string text = "epsilon,delta,alpha,beta\n";
  const auto last = static_cast<double>(profile.size()) - 1;
  for (std::size_t i = 0; i < profile.size(); ++i) {
    const double alpha = std::pow(static_cast<double>(i) / last, 3);
    text += format_double(profile[i].epsilon) + "," + format_double(profile[i].delta) + "," + format_double(alpha) +
            "," + format_double(ledger::tradeoff(profile, alpha)) + "\n";
  }
  return text;
}

ledger::Analysis analysis_of(const Request& request) {
  std::vector<ledger::Ledger> ledgers;
  for (const std::string& path : request.paths) ledgers.push_back(ledger::read(path));
  ledger::Analysis analysis = ledger::analyse(std::move(ledgers));
  for (std::string& warning : ledger::warnings_about_siblings(analysis))
    analysis.warnings.push_back(std::move(warning));
  return analysis;
}

/// Fine enough for a figure where one is asked for; otherwise for a few numbers.
std::vector<ProfilePoint> profile_for(const Request& request, const Schedule& schedule) {
  const double least_delta = *std::ranges::min_element(request.deltas) * 1e-6;
  const bool draws = request.plot || request.html || request.curve;
  return ledger::privacy_profile(schedule, least_delta, ledger::affordable_points(schedule, 121, draws ? 16 : 4));
}

}  // namespace

int run_analyze(std::span<const std::string> arguments) {
  Request request;
  if (!parse(arguments, request)) return 0;
  for (const double delta : request.deltas) {
    if (!(Delta(delta).value() > 0)) throw UsageError("--delta is 0", "no Gaussian noise has an epsilon there");
  }
  const ledger::Analysis analysis = analysis_of(request);
  if (request.deltas.empty() && analysis.default_delta > 0) request.deltas.push_back(analysis.default_delta);
  if (request.deltas.empty() && (request.plot || request.html || request.curve)) {
    throw UsageError("--plot, --html and --curve need a delta", "the plan names none", "give --delta");
  }
  std::vector<ProfilePoint> profile;
  if (!request.deltas.empty()) profile = profile_for(request, analysis.schedule);
  if (request.curve) write_file(*request.curve, curve_csv(profile));
  if (request.plot) write_file(*request.plot, plot::privacy_svg(analysis, request.deltas, profile));
  if (request.html) write_file(*request.html, plot::privacy_html(analysis, request.deltas, profile));
  if (request.json) {
    print_json(ledger::report_json(analysis, request.deltas, profile));
  } else {
    std::cout << ledger::report_text(analysis, request.deltas, profile);
  }
  return 0;
}

}  // namespace ripieno::privacy
