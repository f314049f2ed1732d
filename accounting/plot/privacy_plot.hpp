#pragma once

#include <ripieno/accounting/ledger/curves.hpp>
#include <span>
#include <string>

namespace ripieno::plot {

/// An SVG document with three panels: epsilon against steps, at up to four of `deltas` and with the segments marked;
/// delta against epsilon; and the trade-off curve, with the diagonal of a blind guess. `profile` is that of the
/// analysis, down to a thousandth of the smallest delta or further.
[[nodiscard]] std::string privacy_svg(const ledger::Analysis& analysis, std::span<const double> deltas,
                                      std::span<const ledger::ProfilePoint> profile);

}  // namespace ripieno::plot
