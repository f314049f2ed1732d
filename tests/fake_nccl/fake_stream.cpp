#include "fake_stream.hpp"

#include <thread>
#include <utility>

namespace ripieno::testing {

FakeStream::FakeStream(int number) : number_(number), queue_(std::make_shared<Queue>()) {
  std::thread([queue = queue_] { run(queue); }).detach();
}

FakeStream::~FakeStream() {
  {
    const std::scoped_lock lock(queue_->mutex);
    queue_->ending = true;
  }
  queue_->changed.notify_one();
}

void FakeStream::enqueue(std::function<void()> work) {
  {
    const std::scoped_lock lock(queue_->mutex);
    queue_->work.push_back(std::move(work));
  }
  queue_->changed.notify_one();
}

void FakeStream::run(const std::shared_ptr<Queue>& queue) {
  std::unique_lock lock(queue->mutex);
  for (;;) {
    queue->changed.wait(lock, [&] { return queue->ending || !queue->work.empty(); });
    if (queue->work.empty()) return;
    const std::function<void()> work = std::move(queue->work.front());
    queue->work.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

void FakeEvent::record(FakeStream& stream) {
  point_ = std::make_shared<Point>();
  stream.enqueue([point = point_] {
    {
      const std::scoped_lock lock(point->mutex);
      point->reached = true;
    }
    point->changed.notify_all();
  });
}

void FakeEvent::hold_up(FakeStream& stream) const {
  if (!point_) return;
  stream.enqueue([point = point_] {
    std::unique_lock lock(point->mutex);
    point->changed.wait(lock, [&] { return point->reached; });
  });
}

bool FakeEvent::done() const {
  if (!point_) return true;
  const std::scoped_lock lock(point_->mutex);
  return point_->reached;
}

}  // namespace ripieno::testing
