#include <algorithm>
#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/base/types.hpp>
#include <ripieno/accounting/mechanisms/matrix_factorisation.hpp>
#include <string>

namespace ripieno::accounting {
namespace {

double largest_column_norm(const Encoder& encoder) {
  return sensitivity(encoder, {.min_separation = encoder.steps()}).value;
}

double checked_positive(double value, const char* what) {
  if (value > 0 && std::isfinite(value)) return value;
  throw UsageError(std::string(what) + " is " + format_double(value), "must be finite and positive");
}

}  // namespace

Process mf_gaussian(double z, const Encoder& encoder, const ParticipationSchema& schema) {
  return gaussian(NoiseMultiplier(z).value() / sensitivity(encoder, schema).value);
}

Process mf_gaussian_cyclic_poisson(double z, const Encoder& encoder, std::int64_t bands, double sample_rate) {
  if (bands < 1) throw UsageError("there are " + std::to_string(bands) + " bands", "must be 1 or more");
  if (encoder.releases().size() > 1) {
    throw PrivacyError("no guarantee for rows that were published twice under cyclic Poisson sampling",
                       "a resume made other draws for them", "start the run anew");
  }
  for (std::int64_t gap = bands; gap < encoder.steps(); ++gap) {
    if (std::ranges::none_of(encoder.column_products(gap), std::identity{})) continue;
    throw UsageError("the strategy has more than " + std::to_string(bands) + " bands",
                     "columns " + std::to_string(gap) + " steps apart meet", "deal the data into more parts");
  }
  const std::int64_t rounds = (encoder.steps() + bands - 1) / bands;
  return poisson(gaussian(NoiseMultiplier(z).value() / largest_column_norm(encoder)), sample_rate) * rounds;
}

PairedStreams share_noise(double z, PairedStreams streams) {
  checked_positive(z, "the noise multiplier");
  const double c1 = largest_column_norm(streams.first);
  const double first = checked_positive(streams.first_norm, "the norm of the first stream") * c1;
  const double second =
      checked_positive(streams.second_norm, "the norm of the second stream") * largest_column_norm(streams.second);
  streams.first_stddev = z / c1 * std::sqrt(first * (first + second));
  streams.second_stddev = z / c1 * std::sqrt(second * (first + second));
  return streams;
}

Process paired_mf_gaussian(const PairedStreams& streams, const ParticipationSchema& schema) {
  const Stream joint[] = {
      {streams.first, streams.first_norm / checked_positive(streams.first_stddev, "the noise of the first stream")},
      {streams.second,
       streams.second_norm / checked_positive(streams.second_stddev, "the noise of the second stream")}};
  return gaussian(1 / joint_sensitivity(joint, schema).value);
}

}  // namespace ripieno::accounting
