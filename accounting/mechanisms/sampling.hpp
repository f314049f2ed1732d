#pragma once

#include <cstdint>
#include <ripieno/accounting/engine/process.hpp>

namespace ripieno::accounting {

// Samplers beyond plain Poisson. Each takes a plain Gaussian only: sampling of what is sampled does not compile.

/// Poisson sampling of which a batch of more than `max_batch` examples keeps a uniformly random subset of that size
/// ("truncated Poisson"); `num_examples` is the size of the larger data set. Add/remove. An example that is drawn into
/// a batch with room shifts its sum by one clipping norm; in a full batch it takes the place of another, with chance
/// max_batch / (number drawn), and shifts it by two. How many others were drawn is given away, as in the worst case it
/// is, so that one step is a mixture of two pairs (after Ganesh 2025).
[[nodiscard]] Process truncated_poisson(const GaussianMechanism& mechanism, double sample_rate,
                                        std::int64_t num_examples, std::int64_t max_batch);
Process truncated_poisson(const Process&, double, std::int64_t, std::int64_t) = delete;

/// `workers` each draw their own Poisson sample from the *same* data, so that an example may enter one sum up to
/// `workers` times: Bin(workers, sample_rate) shifts. Not the sharded case, in which each example belongs to one
/// worker: there Poisson sampling of every shard at one rate is Poisson sampling of the whole. Add/remove.
[[nodiscard]] Process parallel_poisson(const GaussianMechanism& mechanism, double sample_rate, std::int64_t workers);
Process parallel_poisson(const Process&, double, std::int64_t) = delete;

/// Releases under replace-one adjacency: neighbours differ in the content of one example. Of a type of its own, since
/// its numbers do not compose with those under add/remove.
class ReplaceOne {
 public:
  explicit ReplaceOne(Process process) : process_(std::move(process)) {}
  [[nodiscard]] Interval epsilon_at(double delta) const { return process_.epsilon_at(delta); }
  [[nodiscard]] Interval delta_at(double epsilon) const { return process_.delta_at(epsilon); }
  [[nodiscard]] Interval beta_at(double alpha) const { return process_.beta_at(alpha); }
  [[nodiscard]] std::string method(double delta) const { return process_.method(delta); }
  [[nodiscard]] std::int64_t steps() const { return process_.steps(); }
  friend ReplaceOne operator*(const ReplaceOne& process, std::int64_t times) {
    return ReplaceOne(process.process_ * times);
  }
  friend ReplaceOne operator|(const ReplaceOne& a, const ReplaceOne& b) { return ReplaceOne(a.process_ | b.process_); }

 private:
  Process process_;
};

/// A uniformly random batch of `batch` of `num_examples` examples, without replacement. Replace-one: the noise
/// multiplier is noise over *replace-one* sensitivity, which is twice the clipping norm. With q = batch / num_examples,
/// and H_a(P, Q) the hockey-stick divergence, all neighbours have at most
///   H_a((1-q) N(0) + q N(1), N(0)) for a >= 1  and  H_a(N(0), (1-q) N(0) + q N(1)) for a < 1
/// (Balle, Barthe & Gaboardi 2018; symmetry gives the second from the first). The pair with exactly this profile
/// dominates for every a at once, and so under composition, unlike the worst pair of one step.
[[nodiscard]] ReplaceOne without_replacement(const GaussianMechanism& mechanism, std::int64_t num_examples,
                                             std::int64_t batch);
ReplaceOne without_replacement(const Process&, std::int64_t, std::int64_t) = delete;

/// Renyi divergence of integer order `order` >= 2 of one such step (Wang, Balle & Kasiviswanathan 2019, theorem 27),
/// which other tools use; to compare with.
[[nodiscard]] double without_replacement_rdp(double noise_multiplier, std::int64_t num_examples, std::int64_t batch,
                                             std::int64_t order);

/// Any mechanism known to be (epsilon, delta)-differentially private, under the adjacency of what it is composed with:
/// randomised response that fails with chance delta dominates it (Kairouz, Oh & Viswanath 2015).
[[nodiscard]] Process epsilon_delta(double epsilon, double delta);
/// A release that does not depend on the data.
[[nodiscard]] Process identity();
/// A release without protection.
[[nodiscard]] GaussianMechanism non_private();

}  // namespace ripieno::accounting
