#pragma once

#include <cstdint>
#include <ripieno/accounting/base/json.hpp>
#include <ripieno/accounting/mechanisms/sensitivity.hpp>
#include <string>
#include <vector>

namespace ripieno::accounting::test {

/// One strategy over one number of steps in tests/data/mf_strategies.json.
struct ReferenceEntry {
  std::string name;
  Strategy strategy;
  std::int64_t steps;
  Json json;
};

inline Strategy reference_strategy(const Json& json, std::vector<double> coefficients) {
  const std::string kind = json.at("kind");
  if (kind == "identity") return IdentityStrategy{};
  if (kind == "lambda_cgd") return LambdaCgdStrategy{json.at("lambda"), json.at("normalized")};
  if (kind == "bsr") return BsrStrategy{json.at("bandwidth"), json.at("alpha"), json.at("beta")};
  if (kind == "bisr") {
    const std::vector<double> inverse = json.value("inverse", std::vector<double>{});
    return BisrStrategy{json.at("bandwidth"), json.at("normalized"), json.at("momentum"), inverse};
  }
  // Those that the reference optimised: their coefficients are taken as given.
  return BandMfStrategy{std::move(coefficients)};
}

inline std::vector<ReferenceEntry> reference_entries() {
  std::vector<ReferenceEntry> entries;
  const Json file = read_json(RIPIENO_TEST_DATA "/mf_strategies.json");
  for (const Json& json : file.at("entries")) {
    entries.push_back(
        {json.at("name"), reference_strategy(json.at("strategy"), json.at("coefficients")), json.at("n"), json});
  }
  return entries;
}

}  // namespace ripieno::accounting::test
