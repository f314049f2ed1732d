// Speed of the normal deviates beside Torch's normal_ (not cryptographic, not addressable) and fill_ (the memory), and
// of Poisson draws. All rows of a round run one after the other, so that a busy machine hurts all alike; the figures
// are medians over the rounds, the ratios medians of the ratios within a round.
//   bench-noise [--rounds 11] [--mib 128]
// or of correlated noise by strategy, for a million and a hundred million parameters, on every rank and in slices:
//   mpiexec -n W bench-noise --strategies [--rounds 11]
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ripieno/framework/comm/runtime.hpp>
#include <ripieno/framework/random/coins.hpp>
#include <ripieno/framework/random/kernels.hpp>
#include <ripieno/framework/random/normal.hpp>

#include "noise_strategies.hpp"

namespace {

using namespace ripieno;

struct Row {
  std::string name;
  double count;  // values a run
  std::function<void(std::uint64_t round)> run;
  std::vector<double> seconds = {};
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double time(const Row& row, std::uint64_t round) {
  const auto start = std::chrono::steady_clock::now();
  row.run(round);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void measure(std::vector<Row>& rows, int rounds) {
  for (Row& row : rows) time(row, 0);  // pages and caches
  for (int round = 1; round <= rounds; ++round) {
    for (Row& row : rows) row.seconds.push_back(time(row, static_cast<std::uint64_t>(round)));
  }
}

/// Median over the rounds of (values a second of `row`) / (values a second of `base`).
double ratio(const Row& row, const Row& base) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < row.seconds.size(); ++i) {
    ratios.push_back(row.count / row.seconds[i] / (base.count / base.seconds[i]));
  }
  return median(ratios);
}

template <class T>
std::span<T> values_of(at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<T>(), static_cast<std::size_t>(tensor.numel())};
}

void noise_figures(std::int64_t bytes, int threads, int rounds) {
  at::set_num_threads(threads);
  const Key k = key(1);
  at::Tensor floats = at::zeros({bytes / 4}), doubles = at::zeros({bytes / 8}, at::kDouble);
  at::Tensor integers = at::zeros({bytes / 4}, at::kInt);
  const auto n = static_cast<double>(floats.numel());
  std::vector<Row> rows = {
      {"torch normal_", n, [&](std::uint64_t) { floats.normal_(); }},
      {"torch fill_", n, [&](std::uint64_t) { floats.fill_(1.5); }},
      {"float32", n, [&](std::uint64_t r) { fill_normal(values_of<float>(floats), k, r, 0, 1.5, threads); }},
      {"added to float32", n, [&](std::uint64_t r) { add_normal(values_of<float>(floats), k, r, 0, 1.5, threads); }},
      {"int32", n, [&](std::uint64_t r) { fill_normal(values_of<std::int32_t>(integers), k, r, 0, 0x1p20, threads); }},
      {"float64", n / 2, [&](std::uint64_t r) { fill_normal(values_of<double>(doubles), k, r, 0, 1.5, threads); }}};
  if (threads == 1) {
    for (const random_detail::Kernels* each : random_detail::supported_kernels()) {
      rows.push_back({std::string("float32, ") + each->name, n, [&, each](std::uint64_t r) {
                        const auto size = static_cast<std::uint64_t>(floats.numel());
                        each->fill_float({.key = k.words.data(), .step = r, .first = 0, .last = size}, 1.5,
                                         floats.mutable_data_ptr<float>());
                      }});
    }
  }
  measure(rows, rounds);
  std::printf("\n%d thread%s, %lld MiB       M/s   x torch normal_   x torch fill_\n", threads, threads == 1 ? "" : "s",
              static_cast<long long>(bytes >> 20));
  for (const Row& row : rows) {
    std::printf("%-22s %8.0f %17.2f %15.3f\n", row.name.c_str(), row.count / median(row.seconds) / 1e6,
                ratio(row, rows[0]), ratio(row, rows[1]));
  }
}

void draw_figures(int rounds) {
  const std::int64_t examples = 1'200'000;
  const Key k = key(2);
  at::set_num_threads(1);
  std::printf("\nPoisson draw of %lld examples, 1 thread, ms\n", static_cast<long long>(examples));
  for (const double q : {0.001, 0.01, 0.1}) {
    std::vector<Row> rows = {{"torch", 1, [&](std::uint64_t) { (void)at::rand({examples}).lt(q).nonzero(); }},
                             {"ripieno", 1, [&](std::uint64_t r) { (void)ids_with_heads(k, r, 0, examples, q); }}};
    measure(rows, rounds);
    std::printf("q = %-6g %.2f (torch rand, lt, nonzero: %.2f, %.1f times as long)\n", q, median(rows[1].seconds) * 1e3,
                median(rows[0].seconds) * 1e3, ratio(rows[1], rows[0]));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool strategies = argc > 1 && std::string_view(argv[1]) == "--strategies";
  if (strategies) --argc, ++argv;
  int rounds = 11;
  std::int64_t mib = 128;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string_view(argv[i]) == "--rounds") rounds = std::max(1, std::atoi(argv[i + 1]));
    if (std::string_view(argv[i]) == "--mib") mib = std::max(1, std::atoi(argv[i + 1]));
  }
  if (strategies) {
    const Runtime runtime(argc, argv);
    strategy_figures(runtime.communicator(), 1'000'000, rounds);
    strategy_figures(runtime.communicator(), 100'000'000, std::min(rounds, 3));
    return 0;
  }
  std::printf("instruction set: %s\n", random_detail::fastest_kernels().name);
  for (const int threads : {1, 2}) noise_figures(mib << 20, threads, rounds);
  draw_figures(rounds);
  return 0;
}
