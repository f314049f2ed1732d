#include <iostream>
#include <optional>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/base/types.hpp>
#include <ripieno/accounting/cli/options.hpp>
#include <ripieno/accounting/engine/audit.hpp>
#include <ripieno/accounting/ledger/canaries.hpp>
#include <ripieno/accounting/ledger/report.hpp>

#include "privacy_commands.hpp"

namespace ripieno::privacy {
namespace {

struct Request {
  std::string canaries;
  std::vector<std::string> ledgers;
  std::optional<double> epsilon;
  std::optional<double> delta;
  double confidence = 0.95;
  bool json = false;
};

bool parse(std::span<const std::string> arguments, Request& request) {
  cli::Options options("ripieno-privacy audit",
                       "What the guesses of an attacker about canaries, each put into the data by a fair coin, prove "
                       "about epsilon, against what was accounted. The number of guesses must have been chosen "
                       "beforehand.",
                       dependencies());
  options.example(k_audit_example);
  options.group("guesses")
      .add("canaries", request.canaries, "FILE.csv",
           "a line 'included,guess', then one a canary: 1 or 0, and 1, 0 or nothing for a pass")
      .required()
      .add("confidence", request.confidence, "P", "with which the audited bound holds");
  options.group("accounted")
      .add("ledger", request.ledgers, "LEDGER", "of the audited run; its epsilon is compared")
      .add("epsilon", request.epsilon, "E", "the epsilon to compare, instead of a ledger's")
      .add("delta", request.delta, "D", "of both epsilons; by default the plan's");
  options.group("output").add("json", request.json, "", "print JSON");
  if (!options.parse(arguments)) return false;
  if (request.ledgers.empty() == !request.epsilon) {
    throw UsageError("audit needs one of --ledger and --epsilon",
                     request.epsilon ? "both are given" : "neither is given",
                     "give the one that tells the accounted epsilon");
  }
  return true;
}

/// The accounted (epsilon, delta).
ledger::ProfilePoint accounted(const Request& request) {
  if (request.epsilon) {
    if (!request.delta) throw UsageError("--delta is missing", "--epsilon alone says nothing", "see --help");
    return {.epsilon = Epsilon(*request.epsilon).value(), .delta = Delta(*request.delta).value()};
  }
  std::vector<ledger::Ledger> ledgers;
  for (const std::string& path : request.ledgers) ledgers.push_back(ledger::read(path));
  const ledger::Analysis analysis = ledger::analyse(std::move(ledgers));
  const double delta = Delta(request.delta.value_or(analysis.default_delta)).value();
  return {.epsilon = epsilon_of_schedule(analysis.schedule, delta).upper, .delta = delta};
}

}  // namespace

int run_audit(std::span<const std::string> arguments) {
  Request request;
  if (!parse(arguments, request)) return 0;
  const auto [epsilon, delta] = accounted(request);
  const accounting::AuditResult result = ledger::read_canaries(request.canaries);
  const double audited = accounting::audit_epsilon_lower(result, delta, request.confidence);
  const bool consistent = audited <= epsilon;
  if (request.json) {
    print_json({{"epsilon_audited", audited},
                {"confidence", request.confidence},
                {"epsilon", number(epsilon)},
                {"delta", delta},
                {"consistent", consistent},
                {"canaries", result.canaries},
                {"guesses", result.guesses},
                {"correct", result.correct}});
  } else {
    std::cout << result.correct << " of " << result.guesses << " guesses about " << result.canaries
              << " canaries are right\n  epsilon >= " << ledger::shown_lower(audited) << " at delta "
              << format_double(delta) << ", with confidence " << format_double(request.confidence)
              << " (one run; Steinke, Nasr & Jagielski 2023)\n  accounted: epsilon <= " << ledger::shown_upper(epsilon)
              << "\n";
  }
  if (consistent) return 0;
  throw PrivacyError("the audit refutes the accounted epsilon",
                     "at least " + ledger::shown_lower(audited) + " against at most " + ledger::shown_upper(epsilon),
                     "do not publish the model; training, sampling or accounting has a fault, or the guesses saw the "
                     "coins");
}

}  // namespace ripieno::privacy
