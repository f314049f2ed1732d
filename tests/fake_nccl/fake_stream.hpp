#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace ripieno::testing {

/// Work in order on a thread of its own. Work that never ends keeps the thread for the rest of the process.
class FakeStream {
 public:
  explicit FakeStream(int number);
  /// Ends the thread once its queue is empty, without waiting for that.
  ~FakeStream();
  FakeStream(const FakeStream&) = delete;
  FakeStream& operator=(const FakeStream&) = delete;

  void enqueue(std::function<void()> work);
  [[nodiscard]] int number() const { return number_; }

 private:
  struct Queue {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> work;
    bool ending = false;
  };
  static void run(const std::shared_ptr<Queue>& queue);

  int number_;
  std::shared_ptr<Queue> queue_;
};

/// What was last recorded of a stream.
class FakeEvent {
 public:
  void record(FakeStream& stream);
  void hold_up(FakeStream& stream) const;
  [[nodiscard]] bool done() const;

 private:
  struct Point {
    std::mutex mutex;
    std::condition_variable changed;
    bool reached = false;
  };
  std::shared_ptr<Point> point_;  // null before the first record
};

}  // namespace ripieno::testing
