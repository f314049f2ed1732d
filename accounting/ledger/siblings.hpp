#pragma once

#include <ripieno/accounting/ledger/analysis.hpp>
#include <string>
#include <vector>

namespace ripieno::ledger {

/// Sentences about ledgers over the same data that lie near the analysed ones and are not among them: *.jsonl files in
/// the folder of each, and files of the same name in the folders beside that one. Only their first lines are read, and
/// what cannot be read is passed over.
[[nodiscard]] std::vector<std::string> warnings_about_siblings(const Analysis& analysis);

}  // namespace ripieno::ledger
