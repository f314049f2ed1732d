#include <algorithm>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/noise/noise_rows.hpp>
#include <string>

namespace ripieno {
namespace {

using namespace accounting;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Up to the last entry that is not zero.
std::int64_t bandwidth(const std::vector<double>& column) {
  std::int64_t bands = std::ssize(column);
  while (bands > 1 && column[index(bands - 1)] == 0) --bands;
  return bands;
}

}  // namespace

NoiseRows::NoiseRows(const Encoder& encoder, PastRows past, std::int64_t num_parameters, std::int64_t memory_budget)
    : encoder_(encoder), norms_(encoder.noise_row_norms()) {
  choose_form();
  const std::int64_t wanted = buffers_of_form();
  const bool too_large = num_parameters > 0 && wanted > memory_budget / num_parameters / std::int64_t{sizeof(float)};
  constexpr double k_cheap = 1;  // deviates: the memory of a buffer is worth half as much time again, not more
  regenerates_ = past == PastRows::regenerated ||
                 (past == PastRows::automatic && wanted > 0 && (too_large || mean_regenerated() <= k_cheap));
  num_buffers_ = regenerates_ ? 0 : wanted;
}

void NoiseRows::choose_form() {
  const Strategy& strategy = encoder_.strategy();
  if (std::holds_alternative<DenseStrategy>(strategy)) {
    form_ = Form::dense_window;
    bands_ = encoder_.steps();
    return;
  }
  column_ = coefficients(strategy, encoder_.steps());
  inverse_ = inverse_coefficients(strategy, encoder_.steps());
  if (std::holds_alternative<BltStrategy>(strategy)) {
    form_ = Form::decaying;
  } else if (bandwidth(inverse_) <= bandwidth(column_)) {
    form_ = Form::white_window;
    bands_ = bandwidth(inverse_);
  } else {
    form_ = Form::noise_window;
    bands_ = bandwidth(column_);
  }
}

std::int64_t NoiseRows::buffers_of_form() const {
  if (const auto* blt = std::get_if<BltStrategy>(&encoder_.strategy())) return std::ssize(blt->weights);
  return bands_ - 1;
}

double NoiseRows::mean_regenerated() const {
  const auto steps = static_cast<double>(encoder_.steps());
  const double further = form_ == Form::white_window ? static_cast<double>(bands_ - 1) : steps - 1;
  // The first rows have fewer before them.
  return further - further * (further + 1) / (2 * steps);
}

void NoiseRows::check_step(std::int64_t step) const {
  if (step >= 0 && step < encoder_.steps()) return;
  throw UsageError("no row of noise for step " + std::to_string(step),
                   "the strategy covers " + std::to_string(encoder_.steps()) + " steps",
                   "make it for as many steps as training takes");
}

double NoiseRows::norm(std::int64_t step) const {
  check_step(step);
  return norms_[index(step)];
}

NoiseRow NoiseRows::row(std::int64_t step) const {
  check_step(step);
  return regenerates_ ? regenerated_row(step) : stored_row(step);
}

NoiseRow NoiseRows::stored_row(std::int64_t step) const {
  NoiseRow row;
  if (const auto* blt = std::get_if<BltStrategy>(&encoder_.strategy())) {
    for (std::size_t b = 0; b < blt->weights.size(); ++b)
      row.kept.push_back({static_cast<std::int64_t>(b), -blt->weights[b]});
    row.decays = blt->decays;
    return row;
  }
  const bool dense = form_ == Form::dense_window;
  row.keeps_white = form_ == Form::white_window;
  const double diagonal = encoder_.entry(step, step);
  const double scale = dense ? 1 : column_[0] / diagonal;  // of a row, where columns of C are scaled
  row.fresh = row.keeps_white ? scale * inverse_[0] : 1 / diagonal;
  for (std::int64_t i = 1; i < bands_ && i <= step; ++i) {
    const double factor = row.keeps_white ? scale * inverse_[index(i)] : -encoder_.entry(step, step - i) / diagonal;
    row.kept.push_back({(step - i) % (bands_ - 1), factor});
  }
  if (bands_ > 1) row.slot = step % (bands_ - 1);  // of the row that no later one needs
  return row;
}

NoiseRow NoiseRows::regenerated_row(std::int64_t step) const {
  const std::vector<double> factors = inverse_row(step);
  NoiseRow row;
  row.fresh = factors.back();
  for (std::int64_t s = 0; s < step; ++s) {
    if (factors[index(s)] != 0) row.regenerated.push_back({s, factors[index(s)]});
  }
  return row;
}

std::vector<double> NoiseRows::inverse_row(std::int64_t step) const {
  std::vector<double> row(index(step) + 1);
  if (form_ != Form::dense_window) {
    const double scale = column_[0] / encoder_.entry(step, step);
    for (std::int64_t s = 0; s <= step; ++s) row[index(s)] = scale * inverse_[index(step - s)];
    return row;
  }
  // row C = the unit row: from right to left.
  row.back() = 1 / encoder_.entry(step, step);
  for (std::int64_t s = step - 1; s >= 0; --s) {
    double sum = 0;
    for (std::int64_t i = s + 1; i <= step; ++i) sum += row[index(i)] * encoder_.entry(i, s);
    row[index(s)] = -sum / encoder_.entry(s, s);
  }
  return row;
}

}  // namespace ripieno
