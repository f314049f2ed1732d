#include <algorithm>
#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/ledger/pairing.hpp>
#include <ripieno/accounting/mechanisms/matrix_factorisation.hpp>
#include <ripieno/accounting/mechanisms/random_allocation.hpp>
#include <ripieno/accounting/mechanisms/sampling.hpp>
#include <ripieno/accounting/mechanisms/strategy_json.hpp>
#include <vector>

namespace ripieno {
namespace {

using accounting::Encoder;
using accounting::Process;
using Rows = std::span<const Encoder::Release>;

std::int64_t number_of(Rows rows) {
  std::int64_t count = 0;
  for (const auto& [begin, end] : rows) count += end - begin;
  return count;
}

/// How often the step released most often was.
std::int64_t most_repeats(Rows rows) {
  std::int64_t most = 0;
  for (const auto& [at, ignored] : rows) {
    most = std::max<std::int64_t>(
        most, std::ranges::count_if(rows, [at = at](const auto& r) { return r.begin <= at && at < r.end; }));
  }
  return most;
}

/// Releases of the part that had most; part p has the steps p, p + parts, ...
std::int64_t most_rounds(Rows rows, std::int64_t parts) {
  std::vector<std::int64_t> rounds(static_cast<std::size_t>(parts));
  for (const auto& [begin, end] : rows) {
    for (std::int64_t step = begin; step < end; ++step) ++rounds[static_cast<std::size_t>(step % parts)];
  }
  return *std::ranges::max_element(rounds);
}

Encoder encoder_of(const Pairing& pairing, Rows rows) {
  return Encoder(pairing.strategy.value_or(accounting::IdentityStrategy{}), pairing.sampling.steps())
      .publishing({rows.begin(), rows.end()});
}

/// Without amplification by sampling: one Gaussian of the sensitivity that the participation pattern allows.
Process unamplified(const Pairing& pairing, Rows rows) {
  const Encoder encoder = encoder_of(pairing, rows);
  const SamplerKind kind = pairing.sampling.sampler().kind;
  const bool periodic = kind == SamplerKind::sequential || kind == SamplerKind::balls_in_bins;
  const double sensitivity = periodic ? accounting::periodic_sensitivity(encoder, pairing.sampling.period()).value
                                      : accounting::sensitivity(encoder, pairing.sampling.schema()).value;
  return accounting::gaussian(pairing.noise_multiplier / sensitivity);
}

/// Independent noise. Whole-horizon samplers are charged for their horizon, however little of it was released; a step
/// that was released r times over one draw is one release with noise smaller by sqrt(r), and then so may all be.
Process with_independent_noise(const Pairing& pairing, Rows rows) {
  const SamplingSchedule& sampling = pairing.sampling;
  const double z = pairing.noise_multiplier;
  const double z_of_repeats = z / std::sqrt(static_cast<double>(most_repeats(rows)));
  switch (sampling.sampler().kind) {
    case SamplerKind::poisson:
      return poisson(accounting::gaussian(z), sampling.draw_rate()) * number_of(rows);
    case SamplerKind::truncated_poisson:
      // The larger of two neighbours has one example more than this one, at most.
      return accounting::truncated_poisson(accounting::gaussian(z), sampling.draw_rate(), sampling.num_examples() + 1,
                                           sampling.sampler().max_batch) *
             number_of(rows);
    case SamplerKind::cyclic_poisson:
      return poisson(accounting::gaussian(z), sampling.draw_rate()) * most_rounds(rows, sampling.sampler().parts);
    case SamplerKind::balls_in_bins: {
      const std::int64_t epochs = (sampling.steps() + sampling.period() - 1) / sampling.period();
      return accounting::balls_in_bins(z_of_repeats, sampling.period(), epochs * sampling.period());
    }
    case SamplerKind::k_out_of_t:
      return accounting::k_out_of_t(z_of_repeats, sampling.participations(), sampling.steps(),
                                    accounting::Allocation::block);
    case SamplerKind::min_separated:
    case SamplerKind::sequential:
      return unamplified(pairing, rows);
  }
  throw UsageError("a sampler has no accounting");
}

}  // namespace

void check_pairing(const Pairing& pairing) {
  if (!pairing.strategy) return;
  const std::string noise = "mf:" + accounting::strategy_name(*pairing.strategy);
  if (pairing.sampling.steps_are_independent()) {
    throw UsageError(
        noise + " cannot be used with the sampler " + sampler_name(pairing.sampling.sampler().kind),
        "an example may be in any number of steps, and all of them would count without amplification",
        "use --sampler sequential, balls-in-bins, cyclic-poisson (bands up to its parts), min-separated or "
        "k-out-of-t; or --mechanism gaussian");
  }
  if (pairing.noise_multiplier > 0) (void)released(pairing, pairing.sampling.steps());
}

Process released(const Pairing& pairing, Rows rows) {
  if (number_of(rows) == 0) return {};
  if (pairing.noise_multiplier == 0) return accounting::gaussian(0) * number_of(rows);
  if (!pairing.strategy) return with_independent_noise(pairing, rows);
  if (pairing.sampling.sampler().kind != SamplerKind::cyclic_poisson) return unamplified(pairing, rows);
  return accounting::mf_gaussian_cyclic_poisson(pairing.noise_multiplier, encoder_of(pairing, rows),
                                                pairing.sampling.sampler().parts, pairing.sampling.draw_rate());
}

Process released(const Pairing& pairing, std::int64_t records) {
  std::vector<Encoder::Release> rows = {{0, std::min(records, pairing.sampling.steps())}};
  if (!pairing.has_pattern()) rows.front().end = records;
  return released(pairing, rows);
}

std::vector<Encoder::Release> joined(Rows stretches) {
  std::vector<Encoder::Release> rows;
  for (const Encoder::Release& stretch : stretches) {
    if (stretch.begin == stretch.end) continue;
    if (!rows.empty() && rows.back().end == stretch.begin) {
      rows.back().end = stretch.end;
    } else {
      rows.push_back(stretch);
    }
  }
  return rows;
}

}  // namespace ripieno
