#include <ripieno/accounting/ledger/assumptions.hpp>

namespace ripieno::ledger {
namespace {

std::string neighbours(const SamplingSchedule& sampling) {
  const std::string rest =
      " A person who contributed several examples is protected less. The number of examples, the sample rate and the "
      "expected batch size are public.";
  if (sampling.sampler().kind != SamplerKind::sequential) {
    return "Neighbouring data sets differ by one example, added or removed." + rest;
  }
  return "Neighbouring data sets differ by one example whose gradients are zero in one of them (zero-out); an example "
         "replaced by another costs twice the sensitivity, and nothing is said about adding or removing one, which "
         "would move others to other batches." +
         rest;
}

std::string draws(const SamplingSchedule& sampling) {
  const std::string one_rank = ", and each example belongs to one rank.";
  switch (sampling.sampler().kind) {
    case SamplerKind::poisson:
      return "Each step drew every example independently with the sample rate" + one_rank;
    case SamplerKind::truncated_poisson:
      return "Each step drew every example independently with the sample rate and kept a random " +
             std::to_string(sampling.sampler().max_batch) + " of a larger draw" + one_rank;
    case SamplerKind::cyclic_poisson:
      return "Example i was drawn only at steps equal to i modulo " + std::to_string(sampling.sampler().parts) +
             ", there independently with one chance" + one_rank;
    case SamplerKind::balls_in_bins:
      return "Each example fell into one of " + std::to_string(sampling.period()) +
             " batches at random, the same in every epoch" + one_rank;
    case SamplerKind::min_separated:
      return "Two participations of an example are at least " + std::to_string(sampling.sampler().separation) +
             " steps apart" + one_rank;
    case SamplerKind::k_out_of_t:
      return "Each example took part in one random step of each of " + std::to_string(sampling.participations()) +
             " blocks of steps" + one_rank;
    case SamplerKind::sequential:
      return "Batches came in a fixed order that does not depend on the data, each example every " +
             std::to_string(sampling.period()) + " steps" + one_rank;
  }
  return {};
}

}  // namespace

std::vector<std::string> assumptions_for(const SamplingSchedule& sampling, bool correlated) {
  return {
      neighbours(sampling),
      draws(sampling),
      correlated ? "The noise is an ideal real-valued Gaussian, correlated by exact arithmetic, on a floating-point "
                   "sum. Rounding "
                   "of the sum is covered (rho); the finite precision of the noise itself is not analysed."
                 : "The noise is an ideal real-valued Gaussian on a floating-point sum. Rounding of the sum is covered "
                   "(rho); the "
                   "finite precision of the noise itself is not analysed.",
      "The bits of an example's gradient do not depend on the other examples in its microbatch.",
      "The run secret, from the operating system's entropy, stayed secret: whoever has it can recompute noise and "
      "draws.",
      "The schedule was fixed beforehand or by public means, not chosen by looking at what earlier steps released.",
      "Only what these ledgers record is counted. Tuning runs and other uses of the data have ledgers of their own.",
      "The file is complete. Its chain of hashes shows changed and missing lines but not an end that was cut off: "
      "compare "
      "the head with the one in result.json or in the model.",
  };
}

}  // namespace ripieno::ledger
