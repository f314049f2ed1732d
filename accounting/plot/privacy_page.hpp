#pragma once

#include <ripieno/accounting/ledger/curves.hpp>
#include <span>
#include <string>

namespace ripieno::plot {

/// The analysis as one HTML page that needs no other file: the verdict, the drawing of `privacy_svg`, a table of the
/// segments, warnings and assumptions. Legible on light and dark screens and on paper. Arguments as of `privacy_svg`;
/// `deltas` has at least one.
[[nodiscard]] std::string privacy_html(const ledger::Analysis& analysis, std::span<const double> deltas,
                                       std::span<const ledger::ProfilePoint> profile);

}  // namespace ripieno::plot
