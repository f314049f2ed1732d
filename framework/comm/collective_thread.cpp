#include <ripieno/framework/comm/collective_thread.hpp>
#include <utility>

namespace ripieno {

CollectiveThread::CollectiveThread() : thread_([this] { run(); }) {}

CollectiveThread::~CollectiveThread() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

std::future<void> CollectiveThread::post(std::function<void()> call) {
  std::packaged_task<void()> task(std::move(call));
  std::future<void> done = task.get_future();
  {
    const std::scoped_lock lock(mutex_);
    calls_.push_back(std::move(task));
  }
  changed_.notify_one();
  return done;
}

void CollectiveThread::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !calls_.empty(); });
    if (calls_.empty()) return;
    std::packaged_task<void()> task = std::move(calls_.front());
    calls_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace ripieno
