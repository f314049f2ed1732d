#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <ripieno/accounting/mechanisms/matrix_factorisation.hpp>
#include <ripieno/framework/noise/gaussian_noise.hpp>
#include <ripieno/framework/noise/noise_rows.hpp>
#include <utility>
#include <vector>

namespace ripieno {

struct MFGaussianNoiseOptions {
  /// Encoder C of the noise; the number of steps is part of it.
  accounting::Strategy strategy = accounting::IdentityStrategy{};
  std::int64_t n_steps = 0;
  /// As in GaussianNoiseOptions, for the white noise before it is correlated: what the accountant sees is this over the
  /// sensitivity of C. The scope is always after_sum.
  double noise_multiplier = std::numeric_limits<double>::quiet_NaN();
  std::optional<Key> key = std::nullopt;
  double rho = 0;
  std::function<void(std::int64_t step)> guard = {};
  int threads = 1;
  int world_size = 1;
  PastRows past_rows = PastRows::automatic;
  /// Bytes of buffers that `automatic` may take on this rank.
  std::int64_t memory_budget = std::int64_t{4} << 30;
};

/// Where correlated noise stands: all that later rows need of earlier ones. Holds keys where rows are made again.
struct MFNoiseState {
  /// Rows before `end` that were made under another key, before a run went on after a crash.
  struct EarlierRows {
    std::int64_t end = 0;
    Key key;
    friend bool operator==(const EarlierRows&, const EarlierRows&) = default;
  };

  std::int64_t step = 0;  ///< the next row
  std::uint64_t key_fingerprint = 0;
  std::vector<double> bounds{};  ///< max_norm of the first step, or those of its groups: they must not change
  std::int64_t begin = 0;        ///< parameter index of the buffers' first column
  at::Tensor buffers{};          ///< float32 [buffers, parameters]
  std::vector<EarlierRows> earlier{};

  /// The state of a run that goes on under a new key, `previous` being the one that made its noise so far.
  [[nodiscard]] MFNoiseState under_new_key(const Key& previous, std::uint64_t new_fingerprint) const;
  friend bool operator==(const MFNoiseState& a, const MFNoiseState& b);
};

/// The Gaussian mechanism of matrix factorisation (DP-FTRL): row t of C^-1 Z is added to the sum of step t, Z white
/// noise of standard deviation noise_multiplier * max_norm * (1 + rho). Element i of Z's row t is the deviate at
/// position i of stream (key, t), so that any slice of the parameters can be noised anywhere, with the same bits on any
/// number of ranks and threads. A row is made block by block in the cache: the sum and the buffers cross the memory
/// once.
///
/// Rows are rounded to float32 before they are added or kept; the arithmetic that makes them is in double.
class MFGaussianNoise {
 public:
  /// `num_parameters`: elements this rank makes noise for; decides on buffers. UsageError naming the option that is
  /// missing or makes no sense.
  MFGaussianNoise(MFGaussianNoiseOptions options, std::int64_t num_parameters);

  /// The same noise, of which this rank makes that for `num_parameters` parameters only. What is kept of earlier rows
  /// is decided by all parameters together, so that a state can be cut up for any number of ranks.
  [[nodiscard]] MFGaussianNoise for_part(std::int64_t num_parameters) const;

  /// The state of step 0, for parameters [begin, begin + num_parameters). On the meta device it has shapes alone.
  [[nodiscard]] MFNoiseState init(std::int64_t begin = 0, at::Device device = at::kCPU) const;

  /// The noised tree and the state of the next step. UsageError as GaussianNoise's; for bounds that are not those of
  /// the first step, a step beyond the last, or a state of other buffers. Not collective.
  [[nodiscard]] std::pair<Noised<PyTree>, MFNoiseState> operator()(const Clipped<PyTree>& clipped,
                                                                   MFNoiseState state) const;
  std::pair<Noised<PyTree>, MFNoiseState> operator()(const Noised<PyTree>&, MFNoiseState) const = delete;

  /// Adds the same noise in place to the part of a flattened sum that starts with parameter `position`, and renews that
  /// part of the buffers; returns its standard deviation. Once all parts are done, `finish_step_` moves the state on.
  /// flat: contiguous float32 or float64 on the CPU.
  double apply_(const at::Tensor& flat, double max_norm, MFNoiseState& state, std::int64_t position = 0) const;
  /// The same for int64 multiples of `lattice_step`: each element of the row is rounded to whole steps.
  double apply_on_lattice_(const at::Tensor& units, double lattice_step, double max_norm, MFNoiseState& state,
                           std::int64_t position = 0) const;
  void finish_step_(MFNoiseState& state) const;

  /// Standard deviation of the noise of one step.
  [[nodiscard]] double stddev(double max_norm, std::int64_t step) const;
  [[nodiscard]] std::int64_t num_buffers() const { return rows_.num_buffers(); }
  [[nodiscard]] std::uint64_t key_fingerprint() const { return white_.key_fingerprint(); }

 private:
  class Slice;
  friend class SecondMomentMFNoise;

  /// The call, where white noise has deviation `white_stddev` instead of what the options say.
  [[nodiscard]] std::pair<Noised<PyTree>, MFNoiseState> noised(const Clipped<PyTree>& clipped, MFNoiseState state,
                                                               std::optional<double> white_stddev) const;

  /// Buffers of one's own unless the caller gave them away.
  void check_state(const MFNoiseState& state, std::int64_t position, std::int64_t size) const;
  void latch(MFNoiseState& state, const std::vector<double>& bounds) const;
  /// At `position`, from white noise of deviation `base`.
  template <class T>
  void add_row_(std::span<T> values, double base, double lattice_step, MFNoiseState& state,
                std::int64_t position) const;
  void add_to_leaf_(const at::Tensor& leaf, double base, MFNoiseState& state, std::int64_t position) const;
  [[nodiscard]] const Key& key_of_row(std::int64_t row, const MFNoiseState& state) const;

  MFGaussianNoiseOptions options_;
  GaussianNoise white_;
  NoiseRows rows_;
  std::int64_t num_parameters_;
};

/// auto [noise_fn, state] = mf_gaussian_noise(params, {.strategy = ..., .n_steps = 1000, .noise_multiplier = 8, .key =
/// noise_key}); `like` gives the number of parameters.
[[nodiscard]] std::pair<MFGaussianNoise, MFNoiseState> mf_gaussian_noise(const PyTree& like,
                                                                         MFGaussianNoiseOptions options);

}  // namespace ripieno
