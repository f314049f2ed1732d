#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <utility>

namespace ripieno::optim {

/// A learning rate: a number, or a schedule called with the 0-based step.
///   optim::sgd({.lr = 0.1})
///   optim::sgd({.lr = [](std::int64_t step) { return 0.1 / (1 + step); }})
class LearningRate {
 public:
  LearningRate() = default;
  LearningRate(double constant)  // NOLINT(google-explicit-constructor): a number reads as a learning rate
      : schedule_([constant](std::int64_t) { return constant; }) {}
  template <class Schedule>
  requires std::is_invocable_r_v<double, const Schedule&, std::int64_t> LearningRate(Schedule schedule)
      : schedule_(std::move(schedule)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool is_set() const { return static_cast<bool>(schedule_); }
  /// UsageError when the schedule gives a rate that is negative or not finite at this step.
  [[nodiscard]] double at(std::int64_t step) const;

 private:
  std::function<double(std::int64_t)> schedule_;
};

}  // namespace ripieno::optim
