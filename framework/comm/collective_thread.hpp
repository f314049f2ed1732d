#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

namespace ripieno {

/// One thread that makes collective calls in the order in which they were posted, the same on every rank, while the
/// poster does something else. Nobody else may make collective calls until the last future is ready.
class CollectiveThread {
 public:
  CollectiveThread();
  /// Waits for what was posted.
  ~CollectiveThread();
  CollectiveThread(const CollectiveThread&) = delete;
  CollectiveThread& operator=(const CollectiveThread&) = delete;

  /// The future holds what `call` throws.
  [[nodiscard]] std::future<void> post(std::function<void()> call);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<void()>> calls_;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace ripieno
