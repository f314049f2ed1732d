#pragma once

#include <ripieno/accounting/base/json.hpp>
#include <ripieno/accounting/mechanisms/strategy.hpp>
#include <string>
#include <vector>

namespace ripieno::accounting {

/// "identity", "bsr", "bisr", "lambda-cgd", "band-mf", "blt" or "dense".
[[nodiscard]] std::string strategy_name(const Strategy& strategy);
[[nodiscard]] std::vector<std::string> strategy_names();

/// Everything that defines the strategy; doubles read back bit for bit. A dense one as the rows of its lower triangle,
/// one behind the other.
[[nodiscard]] Json strategy_to_json(const Strategy& strategy);
/// DataError names `where` for a missing or unknown field. Whether the numbers make sense is for Encoder to say.
[[nodiscard]] Strategy strategy_from_json(const Json& json, const std::string& where);

}  // namespace ripieno::accounting
