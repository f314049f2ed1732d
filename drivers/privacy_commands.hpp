#pragma once

#include <ripieno/accounting/base/json.hpp>
#include <span>
#include <string>
#include <vector>

// What the commands of ripieno-privacy share.
namespace ripieno::privacy {

/// What the program was linked with, for --version.
[[nodiscard]] std::vector<std::string> dependencies();
/// The value; null, which JSON has instead of infinity.
[[nodiscard]] Json number(double value);
void print_json(const Json& json);

inline constexpr const char* k_analyze_example =
    "ripieno-privacy analyze run/ledger.jsonl --delta 1e-5 --plot privacy.svg --curve privacy.csv";

inline constexpr const char* k_audit_example =
    "ripieno-privacy audit --canaries canaries.csv --ledger run/ledger.jsonl --delta 1e-5";

inline constexpr const char* k_mechanism_example =
    "ripieno-privacy mechanism --kind balls-in-bins --noise-multiplier 2 --bins 50 --steps 200 --delta 1e-5";

int run_mechanism(std::span<const std::string> arguments);
int run_audit(std::span<const std::string> arguments);
int run_analyze(std::span<const std::string> arguments);

}  // namespace ripieno::privacy
