#include <ripieno/framework/noise/gaussian_noise.hpp>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/base/types.hpp>
#include <ripieno/framework/core/device_stream.hpp>
#include <ripieno/framework/noise/noise_checks.hpp>
#include <ripieno/framework/random/normal.hpp>
#include <ripieno/framework/random/normal_device.hpp>
#include <span>
#include <string>
#include <vector>

namespace ripieno {
namespace {

using noise_detail::check_flat;
using noise_detail::check_lattice;
using noise_detail::check_leaf;
using noise_detail::NoiseDevices;

// Deviates made at once, to be added while they are in the cache.
constexpr std::size_t k_block = 65536;

void check_options(const GaussianNoiseOptions& options) {
  if (!options.key) {
    throw UsageError("gaussian_noise has no key", {}, "set .key, as from runtime.run_keys()");
  }
  if (std::isnan(options.noise_multiplier)) {
    throw UsageError("gaussian_noise has no noise_multiplier", "it is missing or not a number",
                     "set .noise_multiplier, 0 for no noise");
  }
  static_cast<void>(NoiseMultiplier(options.noise_multiplier));
  if (!(options.rho >= 0 && std::isfinite(options.rho))) {
    throw UsageError("rho is " + format_double(options.rho), "the rounding allowance is finite and not negative");
  }
  if (options.threads < 1) {
    throw UsageError("gaussian_noise got threads = " + std::to_string(options.threads), "at least one makes the noise");
  }
  if (options.world_size < 1) {
    throw UsageError("gaussian_noise got world_size = " + std::to_string(options.world_size),
                     "there is at least one rank");
  }
}

/// Where noise comes from: a stream of deviates and the threads that make them.
struct Source {
  const Key& key;
  std::uint64_t step;
  int threads;
};

/// inout[i] += the deviate at position + i, made as a Deviate.
template <class Deviate, class T>
void add_in_blocks(std::span<T> inout, const Source& source, std::uint64_t position, double stddev) {
  std::vector<Deviate> noise(std::min(k_block, inout.size()));
  for (std::size_t begin = 0; begin < inout.size(); begin += k_block) {
    const std::size_t size = std::min(k_block, inout.size() - begin);
    fill_normal(std::span(noise).first(size), source.key, source.step, position + begin, stddev, source.threads);
    for (std::size_t i = 0; i < size; ++i) inout[begin + i] += noise[i];
  }
}

/// The same bits as on the CPU.
void add_noise_on_device_(const at::Tensor& leaf, const Source& source, std::uint64_t position, double stddev) {
  const auto size = static_cast<std::size_t>(leaf.numel());
  cuda::Stream* const stream = current_stream(leaf.device());
  if (leaf.scalar_type() == at::kFloat) {
    add_normal_on_device(leaf.mutable_data_ptr<float>(), size, source.key, source.step, position, stddev, stream);
  } else {
    add_normal_on_device(leaf.mutable_data_ptr<double>(), size, source.key, source.step, position, stddev, stream);
  }
}

/// On Torch's threads, which are awake after its last operation and would be in the way of others.
void add_noise_on_processor_(std::span<float> leaf, const Source& source, std::uint64_t position, double stddev) {
  constexpr std::int64_t tile = 128;  // of the stream: cut elsewhere, one would be made twice
  const std::int64_t tiles = (std::ssize(leaf) + tile - 1) / tile;
  const std::int64_t share = std::max<std::int64_t>((tiles + source.threads - 1) / source.threads, 128);
  at::parallel_for(0, tiles, share, [&](std::int64_t begin, std::int64_t end) {
    const auto first = static_cast<std::size_t>(begin * tile);
    const std::size_t last = std::min(static_cast<std::size_t>(end * tile), leaf.size());
    add_normal(leaf.subspan(first, last - first), source.key, source.step, position + first, stddev);
  });
}

// leaf: contiguous; element 0 takes the deviate at `position`.
void add_noise_(const at::Tensor& leaf, const Source& source, std::uint64_t position, double stddev) {
  const auto size = static_cast<std::size_t>(leaf.numel());
  if (!leaf.is_cpu()) return add_noise_on_device_(leaf, source, position, stddev);
  if (leaf.scalar_type() == at::kFloat) {
    add_noise_on_processor_(std::span(leaf.mutable_data_ptr<float>(), size), source, position, stddev);
  } else {
    add_in_blocks<double>(std::span(leaf.mutable_data_ptr<double>(), size), source, position, stddev);
  }
}

/// A copy of the tree with noise of deviation `stddev_of(path)` in each leaf; the tree itself where all are zero.
template <class F>
PyTree with_noise(const PyTree& tree, const Source& source, F stddev_of) {
  const std::vector<std::string> paths = tree.paths();
  std::vector<at::Tensor> leaves = tree.leaves();
  std::uint64_t position = 0;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const double deviation = stddev_of(paths[i]);
    if (deviation > 0) {
      leaves[i] = leaves[i].detach().clone(at::MemoryFormat::Contiguous);
      add_noise_(leaves[i], source, position, deviation);
    }
    position += static_cast<std::uint64_t>(leaves[i].numel());
  }
  return tree.with_leaves(leaves);
}

template <class F>
void check_leaves(const PyTree& tree, F stddev_of) {
  const std::vector<std::string> paths = tree.paths();
  const std::vector<at::Tensor> leaves = tree.leaves();
  for (std::size_t i = 0; i < leaves.size(); ++i)
    check_leaf(leaves[i], paths[i], stddev_of(paths[i]), NoiseDevices::cpu_and_cuda);
}

double sum_of_bounds(const Clipped<PyTree>& clipped) {
  return clipped.group_norms() ? clipped.group_norms()->sum() : clipped.max_norm();
}

}  // namespace

GaussianNoise::GaussianNoise(GaussianNoiseOptions options) : options_(std::move(options)) { check_options(options_); }

std::pair<Noised<PyTree>, GaussianNoiseState> GaussianNoise::operator()(const Clipped<PyTree>& clipped,
                                                                        const GaussianNoiseState& state) const {
  check_extent(clipped.extent());
  if (clipped.group_norms()) {
    const double bounds = sum_of_bounds(clipped);
    check_leaves(clipped.tree(),
                 [&](const std::string& path) { return shared_stddev(clipped.group_norms()->at(path), bounds); });
    authorise(state.step);
    return {noised_share(clipped, bounds, state.step, *options_.key), next_state(state)};
  }
  const double deviation = stddev(clipped.max_norm());
  const auto same = [deviation](const std::string&) { return deviation; };
  check_leaves(clipped.tree(), same);
  authorise(state.step);
  const Source source{*options_.key, static_cast<std::uint64_t>(state.step), options_.threads};
  return {Noised<PyTree>(with_noise(clipped.tree(), source, same), clipped.max_norm(), deviation, key_fingerprint(),
                         clipped.extent()),
          next_state(state)};
}

std::pair<NoisedPair<PyTree>, GaussianNoiseState> GaussianNoise::operator()(const ClippedPair<PyTree>& clipped,
                                                                            const GaussianNoiseState& state) const {
  const double bounds = sum_of_bounds(clipped.first) + sum_of_bounds(clipped.second);
  for (const Clipped<PyTree>* sum : {&clipped.first, &clipped.second}) {
    check_extent(sum->extent());
    check_leaves(sum->tree(), [&](const std::string& path) {
      return shared_stddev(sum->group_norms() ? sum->group_norms()->at(path) : sum->max_norm(), bounds);
    });
  }
  authorise(state.step);
  return {{noised_share(clipped.first, bounds, state.step, fold_in(*options_.key, "first of a pair")),
           noised_share(clipped.second, bounds, state.step, fold_in(*options_.key, "second of a pair"))},
          next_state(state)};
}

double GaussianNoise::shared_stddev(double bound, double all_bounds) const {
  constexpr double k_rounded_up = 1 + 0x1p-50;
  return stddev(std::sqrt(bound) * std::sqrt(all_bounds) * k_rounded_up);
}

Noised<PyTree> GaussianNoise::noised_share(const Clipped<PyTree>& clipped, double all_bounds, std::int64_t step,
                                           const Key& key) const {
  const Source source{key, static_cast<std::uint64_t>(step), options_.threads};
  if (!clipped.group_norms()) {
    const double deviation = shared_stddev(clipped.max_norm(), all_bounds);
    PyTree noisy = with_noise(clipped.tree(), source, [deviation](const std::string&) { return deviation; });
    return {std::move(noisy), clipped.max_norm(), deviation, fingerprint(key), clipped.extent()};
  }
  const auto deviation_of = [&](double bound) { return shared_stddev(bound, all_bounds); };
  PyTree noisy = with_noise(clipped.tree(), source,
                            [&](const std::string& path) { return deviation_of(clipped.group_norms()->at(path)); });
  if (options_.noise_multiplier == 0)
    return {std::move(noisy), clipped.max_norm(), 0, fingerprint(key), clipped.extent()};
  std::vector<double> deviations;
  for (const double bound : clipped.group_norms()->ordered_values()) deviations.push_back(deviation_of(bound));
  return {std::move(noisy), clipped, clipped.group_norms()->with_values(deviations), fingerprint(key)};
}

GaussianNoiseState GaussianNoise::next_state(const GaussianNoiseState& state) const {
  return {.step = state.step + 1, .key_fingerprint = key_fingerprint()};
}

double GaussianNoise::apply_(const at::Tensor& flat, double max_norm, std::int64_t step, std::int64_t position) const {
  authorise(step);
  return add_unguarded_(flat, max_norm, step, position);
}

double GaussianNoise::add_unguarded_(const at::Tensor& flat, double max_norm, std::int64_t step,
                                     std::int64_t position) const {
  check_flat(flat);
  const double deviation = stddev(max_norm);
  check_leaf(flat, "", deviation, NoiseDevices::cpu_and_cuda);
  if (deviation > 0) {
    const Source source{*options_.key, static_cast<std::uint64_t>(step), options_.threads};
    add_noise_(flat, source, static_cast<std::uint64_t>(position), deviation);
  }
  return deviation;
}

double GaussianNoise::apply_on_lattice_(const at::Tensor& units, double lattice_step, double max_norm,
                                        std::int64_t step, std::int64_t position) const {
  authorise(step);
  return add_on_lattice_unguarded_(units, lattice_step, max_norm, step, position);
}

double GaussianNoise::add_on_lattice_unguarded_(const at::Tensor& units, double lattice_step, double max_norm,
                                                std::int64_t step, std::int64_t position) const {
  check_lattice(units);
  const double deviation = stddev(max_norm);
  if (deviation > 0) {
    const Source source{*options_.key, static_cast<std::uint64_t>(step), options_.threads};
    const std::span values(units.mutable_data_ptr<std::int64_t>(), static_cast<std::size_t>(units.numel()));
    add_in_blocks<std::int32_t>(values, source, static_cast<std::uint64_t>(position), deviation / lattice_step);
  }
  return deviation;
}

PreparedNoise GaussianNoise::prepare(std::int64_t numel, at::ScalarType dtype, double max_norm,
                                     std::int64_t step) const {
  at::Tensor noise = at::zeros({numel}, dtype);
  add_unguarded_(noise, max_norm, step, 0);
  return {std::move(noise), [noise = *this, step] { noise.authorise(step); }};
}

PreparedNoise GaussianNoise::prepare_on_lattice(std::int64_t numel, double lattice_step, double max_norm,
                                                std::int64_t step) const {
  at::Tensor noise = at::zeros({numel}, at::kLong);
  add_on_lattice_unguarded_(noise, lattice_step, max_norm, step, 0);
  return {std::move(noise), [noise = *this, step] { noise.authorise(step); }};
}

double GaussianNoise::stddev(double max_norm) const {
  if (!(max_norm >= 0 && std::isfinite(max_norm))) {
    throw UsageError("max_norm is " + format_double(max_norm), "noise needs a finite bound that is not negative");
  }
  const double deviation = options_.noise_multiplier * max_norm * (1 + options_.rho);
  const bool vanished = deviation == 0 && options_.noise_multiplier > 0 && max_norm > 0;
  if (vanished || !std::isfinite(deviation)) {
    throw UsageError("noise_multiplier " + format_double(options_.noise_multiplier) + " times max_norm " +
                         format_double(max_norm) + " is outside the range of double",
                     {}, "choose a clipping norm nearer to 1");
  }
  return deviation;
}

void GaussianNoise::check_extent(Extent extent) const {
  if (options_.world_size == 1) return;
  const std::string ranks = std::to_string(options_.world_size);
  if (extent == Extent::local && options_.scope != NoiseScope::per_rank) {
    throw UsageError("noise of one rank's sum out of " + ranks,
                     "every rank would add the same noise, and their total would have " + ranks +
                         " times its standard deviation, not sqrt(" + ranks + ") times, known to any of them",
                     "call sum_gradients first, or set .scope = NoiseScope::per_rank and .key = fold_in(key, rank)");
  }
  if (extent == Extent::global && options_.scope == NoiseScope::per_rank) {
    throw UsageError("noise of its own on each rank for the sum over all " + ranks,
                     "the ranks' models would drift apart", "leave .scope out and share one key");
  }
}

void GaussianNoise::authorise(std::int64_t step) const {
  if (step < 0) throw UsageError("step " + std::to_string(step) + " cannot be noised", "steps count from 0");
  if (options_.guard) options_.guard(step);
}

std::pair<GaussianNoise, GaussianNoiseState> gaussian_noise(GaussianNoiseOptions options) {
  GaussianNoise noise(std::move(options));
  const GaussianNoiseState state{.step = 0, .key_fingerprint = noise.key_fingerprint()};
  return {std::move(noise), state};
}

}  // namespace ripieno
