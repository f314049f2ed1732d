#include <ripieno/framework/noise/mf_gaussian_noise.hpp>

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/noise/noise_checks.hpp>
#include <ripieno/framework/noise/noise_row_kernel.hpp>
#include <ripieno/framework/random/normal.hpp>
#include <string>
#include <thread>

namespace ripieno {
namespace {

using namespace noise_detail;

constexpr std::size_t k_block = 2048;  // elements that a row is made of at a time; whole tiles of the stream
constexpr std::size_t k_least_share = 16 * k_block;  // of a thread
constexpr double k_largest_lattice_noise = 0x1p46;   // standard deviation in steps: 2^51 is out of reach

GaussianNoiseOptions white_options(const MFGaussianNoiseOptions& options) {
  return {.noise_multiplier = options.noise_multiplier,
          .key = options.key,
          .rho = options.rho,
          .guard = options.guard,
          .threads = options.threads,
          .world_size = options.world_size};
}

/// Calls work(begin, end) on contiguous parts of [0, size), cut at multiples of the block.
template <class Work>
void in_shares(std::size_t size, int threads, const Work& work) {
  const std::size_t shares = std::clamp<std::size_t>(size / k_least_share, 1, static_cast<std::size_t>(threads));
  const std::size_t share = (size / shares / k_block + 1) * k_block;
  std::vector<std::jthread> helpers;
  for (std::size_t i = 1; i < shares; ++i) {
    helpers.emplace_back(
        [&work, begin = std::min(i * share, size), end = std::min((i + 1) * share, size)] { work(begin, end); });
  }
  work(0, std::min(share, size));
}

}  // namespace

MFNoiseState MFNoiseState::under_new_key(const Key& previous, std::uint64_t new_fingerprint) const {
  MFNoiseState next = *this;
  if (step > 0) next.earlier.push_back({.end = step, .key = previous});
  next.key_fingerprint = new_fingerprint;
  return next;
}

bool operator==(const MFNoiseState& a, const MFNoiseState& b) {
  const bool both = a.buffers.defined() == b.buffers.defined();
  return both && a.step == b.step && a.key_fingerprint == b.key_fingerprint && a.bounds == b.bounds &&
         a.begin == b.begin && a.earlier == b.earlier && (!a.buffers.defined() || at::equal(a.buffers, b.buffers));
}

/// Makes one row of noise over parts of the parameters, in scratch memory of its own.
class MFGaussianNoise::Slice {
 public:
  Slice(const MFGaussianNoise& noise, const NoiseRow& row, double base, const MFNoiseState& state)
      : noise_(noise), row_(row), base_(base), state_(state) {}

  /// values: those of parameters `position` and following, at most a block of them.
  template <class T>
  void add(T* values, std::size_t size, std::int64_t position, double lattice_step) {
    make_white(state_.step, size, position, white_);
    start_row(sums_.data(), white_.data(), row_.fresh, size);
    for (const NoiseRow::Term& term : row_.kept) {
      add_term(sums_.data(), buffer(term.source, position), term.factor, size);
    }
    for (const NoiseRow::Term& term : row_.regenerated) {
      make_white(term.source, size, position, past_);
      add_term(sums_.data(), past_.data(), term.factor, size);
    }
    round_row(made_.data(), sums_.data(), size);
    if (row_.slot >= 0) {
      std::copy_n(row_.keeps_white ? white_.data() : made_.data(), size, buffer(row_.slot, position));
    }
    for (std::size_t b = 0; b < row_.decays.size(); ++b) {
      decay_buffer(buffer(static_cast<std::int64_t>(b), position), made_.data(), row_.decays[b], size);
    }
    add_row(values, made_.data(), lattice_step, size);
  }

 private:
  using Block = std::array<float, k_block>;

  void make_white(std::int64_t step, std::size_t size, std::int64_t position, Block& into) const {
    fill_normal(std::span(into).first(size), noise_.key_of_row(step, state_), static_cast<std::uint64_t>(step),
                static_cast<std::uint64_t>(position), base_);
  }
  [[nodiscard]] float* buffer(std::int64_t number, std::int64_t position) const {
    return state_.buffers.mutable_data_ptr<float>() + number * noise_.num_parameters_ + (position - state_.begin);
  }

  const MFGaussianNoise& noise_;
  const NoiseRow& row_;
  double base_;
  const MFNoiseState& state_;
  Block white_{}, past_{}, made_{};
  std::array<double, k_block> sums_{};
};

MFGaussianNoise::MFGaussianNoise(MFGaussianNoiseOptions options, std::int64_t num_parameters)
    : options_(std::move(options)),
      white_(white_options(options_)),
      rows_(accounting::Encoder(options_.strategy, options_.n_steps), options_.past_rows, num_parameters,
            options_.memory_budget),
      num_parameters_(num_parameters) {
  if (num_parameters < 0) throw UsageError("noise for " + std::to_string(num_parameters) + " parameters");
}

MFGaussianNoise MFGaussianNoise::for_part(std::int64_t num_parameters) const {
  if (num_parameters < 0 || num_parameters > num_parameters_) {
    throw UsageError("noise for " + std::to_string(num_parameters) + " parameters",
                     "there are " + std::to_string(num_parameters_), "take a part of these");
  }
  MFGaussianNoise part = *this;
  part.num_parameters_ = num_parameters;
  return part;
}

MFNoiseState MFGaussianNoise::init(std::int64_t begin, at::Device device) const {
  return {.key_fingerprint = key_fingerprint(),
          .begin = begin,
          .buffers = at::zeros({num_buffers(), num_parameters_}, at::TensorOptions(at::kFloat).device(device))};
}

std::pair<Noised<PyTree>, MFNoiseState> MFGaussianNoise::operator()(const Clipped<PyTree>& clipped,
                                                                    MFNoiseState state) const {
  return noised(clipped, std::move(state), std::nullopt);
}

std::pair<Noised<PyTree>, MFNoiseState> MFGaussianNoise::noised(const Clipped<PyTree>& clipped, MFNoiseState state,
                                                                std::optional<double> white_stddev) const {
  white_.check_extent(clipped.extent());
  const std::optional<PerGroup>& groups = clipped.group_norms();
  const double all_bounds = groups ? groups->sum() : clipped.max_norm();
  const std::vector<std::string> paths = clipped.tree().paths();
  const double whole = white_stddev ? *white_stddev * (1 + options_.rho) : white_.stddev(clipped.max_norm());
  const auto base_of = [&](const std::string& path) {
    return groups ? white_.shared_stddev(groups->at(path), all_bounds) : whole;
  };
  const double norm = rows_.norm(state.step);
  std::vector<at::Tensor> leaves = clipped.tree().leaves();
  for (std::size_t i = 0; i < leaves.size(); ++i) check_leaf(leaves[i], paths[i], norm * base_of(paths[i]));
  check_state(state, 0, clipped.tree().numel());
  latch(state, groups ? groups->ordered_values() : std::vector{clipped.max_norm()});
  white_.authorise(state.step);

  if (state.buffers.defined()) state.buffers = state.buffers.clone();
  std::int64_t position = 0;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    leaves[i] = leaves[i].detach().clone(at::MemoryFormat::Contiguous);
    add_to_leaf_(leaves[i], base_of(paths[i]), state, position);
    position += leaves[i].numel();
  }
  PyTree noisy = clipped.tree().with_leaves(leaves);
  finish_step_(state);
  if (!groups) {
    return {Noised<PyTree>(std::move(noisy), clipped.max_norm(), norm * whole, key_fingerprint(), clipped.extent()),
            std::move(state)};
  }
  std::vector<double> deviations;
  for (const double bound : groups->ordered_values())
    deviations.push_back(norm * white_.shared_stddev(bound, all_bounds));
  return {Noised<PyTree>(std::move(noisy), clipped, groups->with_values(deviations), key_fingerprint()),
          std::move(state)};
}

double MFGaussianNoise::apply_(const at::Tensor& flat, double max_norm, MFNoiseState& state,
                               std::int64_t position) const {
  check_flat(flat);
  const double deviation = stddev(max_norm, state.step);
  check_leaf(flat, "", deviation);
  check_state(state, position, flat.numel());
  latch(state, {max_norm});
  white_.authorise(state.step);
  add_to_leaf_(flat, white_.stddev(max_norm), state, position);
  return deviation;
}

double MFGaussianNoise::apply_on_lattice_(const at::Tensor& units, double lattice_step, double max_norm,
                                          MFNoiseState& state, std::int64_t position) const {
  check_lattice(units);
  const double deviation = stddev(max_norm, state.step);
  if (!(deviation / lattice_step <= k_largest_lattice_noise)) {
    throw UsageError("noise of standard deviation " + format_double(deviation / lattice_step) + " lattice steps",
                     "at most 2^46 are exact", "use a strategy with less noise, or another reduction");
  }
  check_state(state, position, units.numel());
  latch(state, {max_norm});
  white_.authorise(state.step);
  if (deviation > 0) {
    add_row_(std::span(units.mutable_data_ptr<std::int64_t>(), static_cast<std::size_t>(units.numel())),
             white_.stddev(max_norm), lattice_step, state, position);
  }
  return deviation;
}

void MFGaussianNoise::finish_step_(MFNoiseState& state) const {
  ++state.step;
  state.key_fingerprint = key_fingerprint();
}

double MFGaussianNoise::stddev(double max_norm, std::int64_t step) const {
  return rows_.norm(step) * white_.stddev(max_norm);
}

void MFGaussianNoise::check_state(const MFNoiseState& state, std::int64_t position, std::int64_t size) const {
  const bool fits = position >= state.begin && position + size <= state.begin + num_parameters_;
  if (!fits) {
    throw UsageError(
        "noise for parameters " + std::to_string(position) + " to " + std::to_string(position + size),
        "the state is of " + std::to_string(num_parameters_) + " from " + std::to_string(state.begin) + " on",
        "make noise and state for the parameters of this rank");
  }
  const bool same = state.buffers.defined() && state.buffers.dim() == 2 && state.buffers.size(0) == num_buffers() &&
                    state.buffers.size(1) == num_parameters_;
  if (!same) {
    throw UsageError("the noise state is of another strategy", "it has other buffers",
                     "take the state that came with this noise, or resume under the same strategy");
  }
}

void MFGaussianNoise::latch(MFNoiseState& state, const std::vector<double>& bounds) const {
  if (state.bounds.empty()) state.bounds = bounds;
  if (state.bounds == bounds) return;
  throw UsageError("the clipping norm changed under correlated noise",
                   "its rows take back noise of earlier ones, which was made for another norm",
                   "clip every step to the same norm");
}

template <class T>
void MFGaussianNoise::add_row_(std::span<T> values, double base, double lattice_step, MFNoiseState& state,
                               std::int64_t position) const {
  const NoiseRow row = rows_.row(state.step);
  in_shares(values.size(), options_.threads, [&](std::size_t begin, std::size_t end) {
    Slice slice(*this, row, base, state);
    for (; begin < end; begin += k_block) {
      slice.add(values.data() + begin, std::min(k_block, end - begin), position + static_cast<std::int64_t>(begin),
                lattice_step);
    }
  });
}

void MFGaussianNoise::add_to_leaf_(const at::Tensor& leaf, double base, MFNoiseState& state,
                                   std::int64_t position) const {
  if (base == 0) return;
  const auto size = static_cast<std::size_t>(leaf.numel());
  if (leaf.scalar_type() == at::kFloat) {
    add_row_(std::span(leaf.mutable_data_ptr<float>(), size), base, 1, state, position);
  } else {
    add_row_(std::span(leaf.mutable_data_ptr<double>(), size), base, 1, state, position);
  }
}

const Key& MFGaussianNoise::key_of_row(std::int64_t row, const MFNoiseState& state) const {
  for (const MFNoiseState::EarlierRows& earlier : state.earlier) {
    if (row < earlier.end) return earlier.key;
  }
  return *options_.key;
}

std::pair<MFGaussianNoise, MFNoiseState> mf_gaussian_noise(const PyTree& like, MFGaussianNoiseOptions options) {
  MFGaussianNoise noise(std::move(options), like.numel());
  MFNoiseState state = noise.init();
  return {std::move(noise), std::move(state)};
}

}  // namespace ripieno
