#pragma once

#include <cstdint>
#include <ripieno/accounting/mechanisms/encoder.hpp>
#include <vector>

namespace ripieno {

/// How earlier rows are at hand when the next row of correlated noise is made.
enum class PastRows {
  automatic,    ///< regenerated where that takes at most one deviate more a row on average, or memory is short
  stored,       ///< in buffers of one float32 a parameter
  regenerated,  ///< their white noise is made again from the key: no memory
};

/// What a row of correlated noise is made of.
struct NoiseRow {
  struct Term {
    std::int64_t source = 0;  ///< a buffer, or a row of white noise
    double factor = 0;
  };

  double fresh = 1;               ///< factor of the row's own white noise
  std::vector<Term> kept;         ///< from buffers
  std::vector<Term> regenerated;  ///< from earlier white noise
  std::int64_t slot = -1;         ///< buffer that then takes this row, or its white noise; none below 0
  bool keeps_white = false;       ///< which of both
  std::vector<double> decays;     ///< buffer b then becomes decays[b] times itself plus the row
};

/// The rows C^-1 Z of a strategy's noise one after the other, in as many buffers as its form needs:
/// - with a banded C: as many as C has further bands, for rows of noise;
/// - with a banded C^-1: as many as that has further bands, for white noise;
/// - for a buffered linear Toeplitz C: its own;
/// - else one for each step but the last;
/// or in none, where white noise is made again.
class NoiseRows {
 public:
  /// `memory_budget`: bytes of buffers that `automatic` may take for `num_parameters` parameters.
  NoiseRows(const accounting::Encoder& encoder, PastRows past, std::int64_t num_parameters, std::int64_t memory_budget);

  [[nodiscard]] std::int64_t num_buffers() const { return num_buffers_; }
  /// UsageError outside [0, steps of the encoder).
  [[nodiscard]] NoiseRow row(std::int64_t step) const;
  /// The standard deviation of a row's elements over that of white noise.
  [[nodiscard]] double norm(std::int64_t step) const;

 private:
  enum class Form { white_window, noise_window, decaying, dense_window };

  void choose_form();
  [[nodiscard]] std::int64_t buffers_of_form() const;
  [[nodiscard]] double mean_regenerated() const;
  void check_step(std::int64_t step) const;
  [[nodiscard]] NoiseRow stored_row(std::int64_t step) const;
  [[nodiscard]] NoiseRow regenerated_row(std::int64_t step) const;
  [[nodiscard]] std::vector<double> inverse_row(std::int64_t step) const;

  accounting::Encoder encoder_;
  Form form_ = Form::white_window;
  std::vector<double> column_, inverse_;  // of Toeplitz strategies, before columns are scaled
  std::int64_t bands_ = 1;                // of the form's matrix, C or its inverse
  std::vector<double> norms_;
  bool regenerates_ = false;
  std::int64_t num_buffers_ = 0;
};

}  // namespace ripieno
