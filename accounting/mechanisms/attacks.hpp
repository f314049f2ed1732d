#pragma once

#include <ripieno/accounting/engine/process.hpp>

namespace ripieno::accounting {

// What epsilon and delta mean to an attacker. The largest difference between true and false positive rate of any
// membership test is Process::advantage, its least false negative rate at a false positive rate Process::beta_at.

/// Lower bound on the error of anyone who guesses whether an example was in the data and holds it likely with `prior`,
/// in (0, 1), beforehand: with p the smaller of prior and 1 - prior, p (1 - delta(ln((1 - p) / p))). Without the
/// release it is p.
[[nodiscard]] double membership_risk(const Process& process, double prior);

/// Upper bound on the chance of reconstructing an example, or an attribute of it, that can be guessed with chance
/// `baseline` without the release: 1 - beta(baseline) (Hayes, Mahloujifar & Balle 2023; Kulynych et al. 2024).
[[nodiscard]] double reconstruction_chance(const Process& process, double baseline);

}  // namespace ripieno::accounting
