#pragma once

#include <filesystem>
#include <ripieno/accounting/engine/audit.hpp>
#include <string>
#include <string_view>

namespace ripieno::ledger {

/// Counts the canaries of an audit. `text` is CSV: the line `included,guess`, then a line for each canary, with 1 or 0
/// for whether a fair coin put it into the data, and 1, 0 or nothing for what the attacker guessed or passed over.
/// DataError names `name` and the line of anything else.
[[nodiscard]] accounting::AuditResult count_canaries(std::string_view text, const std::string& name);

/// The same for a file. DataError also when it cannot be read.
[[nodiscard]] accounting::AuditResult read_canaries(const std::filesystem::path& path);

}  // namespace ripieno::ledger
