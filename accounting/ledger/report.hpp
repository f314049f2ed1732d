#pragma once

#include <ripieno/accounting/base/json.hpp>
#include <ripieno/accounting/ledger/curves.hpp>
#include <span>
#include <string>

namespace ripieno::ledger {

/// The analysis as JSON. `epsilon` (upper), `epsilon_lower`, `epsilon_rdp` and `delta` stand for the first of `deltas`,
/// `results` for all; `attacks` what follows from `profile`, absent without one; `noise_multiplier` and `sample_rate`
/// are null unless every step had the same. Infinity is null.
[[nodiscard]] Json report_json(const Analysis& analysis, std::span<const double> deltas,
                               std::span<const ProfilePoint> profile = {});

/// The analysis for a reader who decides whether a model may be published. Upper figures are rounded up.
[[nodiscard]] std::string report_text(const Analysis& analysis, std::span<const double> deltas,
                                      std::span<const ProfilePoint> profile = {});

/// "2.3456" rounded up to 6 digits, and rounded down.
[[nodiscard]] std::string shown_upper(double value);
[[nodiscard]] std::string shown_lower(double value);
/// `text` broken into lines of at most 100 characters, the first after `lead`, the others indented as far.
[[nodiscard]] std::string wrapped(const std::string& lead, const std::string& text);

}  // namespace ripieno::ledger
