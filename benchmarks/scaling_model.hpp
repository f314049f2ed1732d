#pragma once

#include <string>
#include <vector>

/// What one run of bench-comm measured, in seconds.
struct CommMeasurement {
  int ranks = 1;
  double small_s = 0;  ///< allreduce of the 64 bytes of a step's status
  double large_s = 0;  ///< allreduce of `large_bytes`
  double large_bytes = 0;
  double step_s = 0;        ///< a whole step of the benchmark's model
  double empty_step_s = 0;  ///< the same without examples
  double step_bytes = 0;    ///< its gradient
};

/// Time of a step on W ranks: fixed + compute / W + 2 ceil(log2 W) latency + 2 (W - 1) / W bytes / bandwidth, where
/// every rank does the fixed part (noise, update) and the examples are shared out, for an allreduce by recursive
/// halving and doubling (Thakur, Rabenseifner, Gropp: "Optimization of collective communication operations in MPICH",
/// 2005).
struct ScalingModel {
  double latency_s = 0;
  double bandwidth = 0;  ///< bytes a second
  double fixed_s = 0;    ///< what every rank does, whatever it drew
  double compute_s = 0;  ///< of the whole batch on one rank

  [[nodiscard]] double allreduce_s(int ranks, double bytes) const;
  [[nodiscard]] double step_s(int ranks, double bytes) const;
};

/// Latency and bandwidth from the measurement on two ranks, the rest from that on one.
[[nodiscard]] ScalingModel fit(const std::vector<CommMeasurement>& measurements);

/// Reads measurements, one line each, and prints model, measurement and what 16 to 4096 ranks would take.
void print_scaling(const std::string& path);
/// Adds a line.
void append_measurement(const std::string& path, const CommMeasurement& measurement);
