#include <array>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/mechanisms/strategy_json.hpp>

namespace ripieno::accounting {
namespace {

using Numbers = std::vector<double>;

constexpr std::array<const char*, std::variant_size_v<Strategy>> k_names = {"identity", "bsr", "bisr", "lambda-cgd",
                                                                            "band-mf",  "blt", "dense"};

Json parameters(const IdentityStrategy&) { return Json::object(); }
Json parameters(const BsrStrategy& s) { return {{"bandwidth", s.bandwidth}, {"alpha", s.alpha}, {"beta", s.beta}}; }
Json parameters(const BisrStrategy& s) {
  Json json = {{"bandwidth", s.bandwidth}, {"normalised", s.is_normalised}, {"momentum", s.momentum}};
  if (!s.inverse.empty()) json["inverse"] = s.inverse;
  return json;
}
Json parameters(const LambdaCgdStrategy& s) { return {{"lambda", s.lambda}, {"normalised", s.is_normalised}}; }
Json parameters(const BandMfStrategy& s) { return {{"coefficients", s.coefficients}}; }
Json parameters(const BltStrategy& s) { return {{"weights", s.weights}, {"decays", s.decays}}; }
Json parameters(const DenseStrategy& s) {
  Json rows = Json::array();
  for (std::int64_t row = 0; row < s.size; ++row) {
    for (std::int64_t column = 0; column <= row; ++column) {
      rows.push_back(s.entries[static_cast<std::size_t>(row * s.size + column)]);
    }
  }
  return {{"size", s.size}, {"rows", std::move(rows)}};
}

DenseStrategy dense_of(const Json& json, const std::string& where) {
  DenseStrategy dense{.size = json_value<std::int64_t>(json, "size", where), .entries = {}};
  const auto rows = json_value<Numbers>(json, "rows", where);
  constexpr std::int64_t k_largest = std::int64_t{1} << 20;
  if (dense.size < 1 || dense.size > k_largest || std::ssize(rows) != dense.size * (dense.size + 1) / 2) {
    throw DataError(where + ": the matrix of the strategy is not a triangle of " + std::to_string(dense.size) +
                    " rows");
  }
  dense.entries.resize(static_cast<std::size_t>(dense.size * dense.size));
  std::size_t next = 0;
  for (std::int64_t row = 0; row < dense.size; ++row) {
    for (std::int64_t column = 0; column <= row; ++column) {
      dense.entries[static_cast<std::size_t>(row * dense.size + column)] = rows[next++];
    }
  }
  return dense;
}

Strategy read_strategy(const std::string& name, const Json& json, const std::string& where) {
  const auto real = [&](const char* key) { return json_value<double>(json, key, where); };
  const auto numbers = [&](const char* key) { return json_value<Numbers>(json, key, where); };
  if (name == "identity") return IdentityStrategy{};
  if (name == "bsr")
    return BsrStrategy{json_value<std::int64_t>(json, "bandwidth", where), real("alpha"), real("beta")};
  if (name == "bisr") {
    return BisrStrategy{json_value<std::int64_t>(json, "bandwidth", where), json_value<bool>(json, "normalised", where),
                        real("momentum"), json.contains("inverse") ? numbers("inverse") : Numbers{}};
  }
  if (name == "lambda-cgd") return LambdaCgdStrategy{real("lambda"), json_value<bool>(json, "normalised", where)};
  if (name == "band-mf") return BandMfStrategy{numbers("coefficients")};
  if (name == "blt") return BltStrategy{numbers("weights"), numbers("decays")};
  if (name == "dense") return dense_of(json, where);
  throw DataError(where + ": unknown strategy '" + name + "'", "its meaning for privacy is not known here",
                  "use the version of Ripieno that wrote it");
}

}  // namespace

std::string strategy_name(const Strategy& strategy) { return k_names[strategy.index()]; }

std::vector<std::string> strategy_names() { return {k_names.begin(), k_names.end()}; }

Json strategy_to_json(const Strategy& strategy) {
  Json json = std::visit([](const auto& s) { return parameters(s); }, strategy);
  json["name"] = strategy_name(strategy);
  return json;
}

Strategy strategy_from_json(const Json& json, const std::string& where) {
  Strategy strategy = read_strategy(json_value<std::string>(json, "name", where), json, where);
  if (strategy_to_json(strategy) != json) {
    throw DataError(where + ": the strategy has unknown keys", "their meaning for privacy is not known here",
                    "use the version of Ripieno that wrote it");
  }
  return strategy;
}

}  // namespace ripieno::accounting
