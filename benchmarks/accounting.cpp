// How long one exact epsilon takes, next to the Renyi bound at the best real order on the same settings, in one run.
// With --json: the settings with time and interval, for benchmarks/peers/accounting.py.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <ripieno/accounting/engine/calibrate.hpp>
#include <ripieno/accounting/engine/composition.hpp>
#include <vector>

namespace {

using namespace ripieno::accounting;

struct Setting {
  const char* name;
  SubsampledGaussian steps;
  double delta;
};

constexpr Setting k_settings[] = {
    {"sigma 1, q 0.01, 1000 steps", {1, 0.01, 1000}, 1e-5},
    {"sigma 1.1, q 256/60000, 14063 steps", {1.1, 256.0 / 60000, 14063}, 1e-5},
    {"sigma 0.8, q 0.004, 10^4 steps", {0.8, 0.004, 10000}, 1e-6},
    {"sigma 0.5, q 0.1, 100 steps", {0.5, 0.1, 100}, 1e-5},
    {"sigma 10, q 0.5, 1000 steps", {10, 0.5, 1000}, 1e-5},
    {"sigma 1, q 0.01, 1000 steps, delta 1e-12", {1, 0.01, 1000}, 1e-12},
    {"sigma 4, q 0.00033, 10^4 steps, delta 1e-18", {4, 0.00033, 10000}, 1e-18},
    {"sigma 1.5, q 0.02, 5000 steps", {1.5, 0.02, 5000}, 1e-6},
    {"sigma 2, q 0.01, 10^6 steps", {2, 0.01, 1000000}, 1e-7},
    {"early: sigma 1, q 0.01, 2 steps", {1, 0.01, 2}, 1e-5},
    {"early: sigma 1, q 0.01, 5 steps", {1, 0.01, 5}, 1e-5},
    {"early: sigma 1, q 0.01, 20 steps", {1, 0.01, 20}, 1e-5},
    {"near-atomic: sigma 1, q 0.001, 10 steps", {1, 0.001, 10}, 1e-7},
    {"near-atomic: sigma 0.3, q 0.001, 1000 steps", {0.3, 0.001, 1000}, 1e-5},
    {"near-atomic: sigma 0.7, q 1e-5, 10^5 steps, delta 1e-3", {0.7, 1e-5, 100000}, 1e-3},
    {"sigma 0.65, q 0.002, 2000 steps, delta 1e-12", {0.65, 0.002, 2000}, 1e-12},
    {"sigma 1, q 1e-5, 10^6 steps, delta 1e-9", {1, 1e-5, 1000000}, 1e-9},
    {"sigma 1, q 1, 100 steps", {1, 1, 100}, 1e-5},
};

// CPU time, so that a busy machine disturbs less.
double thread_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

template <class Work>
double median_us(const Work& work) {
  std::vector<double> times;
  double total = 0;
  while (times.size() < 3 || (times.size() < 51 && total < 2e5)) {
    const double start = thread_us();
    work();
    times.push_back(thread_us() - start);
    total += times.back();
  }
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

void print_json() {
  std::printf("[");
  const char* separator = "";
  for (const auto& [name, steps, delta] : k_settings) {
    const Composition composition = compose({&steps, 1});
    Interval epsilon;
    const double us = median_us([&] { epsilon = epsilon_at(composition, delta).value; });
    std::printf(
        "%s\n {\"name\": \"%s\", \"noise_multiplier\": %.17g, \"sample_rate\": %.17g, \"steps\": %lld, \"delta\": "
        "%.17g, "
        "\"epsilon_lower\": %.17g, \"epsilon\": %.17g, \"seconds\": %.3g}",
        separator, name, steps.noise_multiplier, steps.sample_rate, static_cast<long long>(steps.steps), delta,
        epsilon.lower, epsilon.upper, us * 1e-6);
    separator = ",";
  }
  std::printf("\n]\n");
}

// A run's epsilon so far, as a trainer that logs it asks for: after every 70th of 14063 steps, the last segment of the
// ledger growing.
void print_epsilon_so_far(const char* name, std::vector<SubsampledGaussian> schedule) {
  std::vector<double> times;
  for (std::int64_t steps = 1; steps <= 14063; steps += 70) {
    schedule.back().steps = steps;
    const double start = thread_us();
    static_cast<void>(epsilon_at(compose(schedule), 1e-5));
    times.push_back(thread_us() - start);
  }
  std::ranges::sort(times);
  std::printf("epsilon so far, %s: median %.0f us, 95 %% within %.0f us, most %.0f us\n", name, times[times.size() / 2],
              times[times.size() * 95 / 100], times.back());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--json") == 0) {
    print_json();
    return 0;
  }
  if (argc > 1) {
    std::fprintf(stderr, "usage: bench-accounting [--json]\n");
    return 2;
  }
  std::printf("%-46s %12s %12s %8s %10s\n", "setting", "exact [us]", "Renyi [us]", "ratio", "width");
  std::vector<double> ordinary;
  for (const auto& [name, steps, delta] : k_settings) {
    const Composition composition = compose({&steps, 1});
    Interval epsilon;
    double renyi = 0;
    const double exact_us = median_us([&] { epsilon = epsilon_at(composition, delta).value; });
    const double renyi_us = median_us([&] { renyi = epsilon_rdp(composition, delta); });
    std::printf("%-46s %12.1f %12.1f %8.2f %10.1e   epsilon %.8g, Renyi %.8g\n", name, exact_us, renyi_us,
                exact_us / renyi_us, (epsilon.upper - epsilon.lower) / epsilon.upper, epsilon.upper, renyi);
    if (exact_us < 1000) ordinary.push_back(exact_us);
  }
  std::ranges::sort(ordinary);
  double noise = 0;
  const double calibration_us = median_us([&] { noise = calibrate_noise_multiplier(2, 1e-5, 256.0 / 60000, 14063); });
  std::printf("median of what takes less than 1 ms: %.1f us; calibration %.0f us (noise multiplier %.9g)\n",
              ordinary.empty() ? NAN : ordinary[ordinary.size() / 2], calibration_us, noise);
  constexpr double rate = 256.0 / 60000;
  print_epsilon_so_far("one plan", {{1.1, rate, 1}});
  std::vector<SubsampledGaussian> amended;
  for (int stage = 0; stage < 10; ++stage) amended.push_back({1.3 - 0.02 * stage, rate, 500});
  amended.push_back({1.4, rate, 1});
  print_epsilon_so_far("after ten other plans", amended);
}
