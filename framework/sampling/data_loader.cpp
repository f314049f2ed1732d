#include <ripieno/framework/sampling/data_loader.hpp>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/sampling/dataset.hpp>

namespace ripieno {

namespace {

void check_rows(const at::Tensor& tensor, std::int64_t rows, const char* what) {
  if (!tensor.defined() || tensor.dim() < 1 || tensor.size(0) != rows) {
    throw UsageError(std::string(what) + " changed the number of examples of a batch",
                     "the first dimension must have one row per drawn example");
  }
}

}  // namespace

/// Makes batches, in its own thread where asked, and hands them over in order.
class DataLoader::Prefetcher {
 public:
  Prefetcher(Shard shard, std::shared_ptr<const Sampler> sampler, DataLoaderOptions options)
      : shard_(std::move(shard)),
        sampler_(std::move(sampler)),
        options_(std::move(options)),
        next_step_(options_.first_step) {
    check();
    if (options_.prefetch > 0) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  [[nodiscard]] bool done() const { return next_step_ == sampler_->n_steps(); }

  Batch next() {
    if (done()) throw UsageError("no batch after the last of " + std::to_string(sampler_->n_steps()) + " steps");
    Batch batch = options_.prefetch > 0 ? take() : make(next_step_, sampler_->ids(next_step_));
    ++next_step_;
    return batch;
  }

 private:
  void check() const {
    if (shard_.dataset == nullptr) throw UsageError("a loader of no dataset");
    if (sampler_ == nullptr) throw UsageError("a loader without a sampler");
    if (sampler_->range() != shard_.range) {
      throw UsageError("sampler and loader are of different shards", "each example belongs to one rank",
                       "make both from the same shard");
    }
    if (shard_.range.end > shard_.dataset->num_examples()) throw UsageError("the shard goes beyond its dataset");
    if (options_.first_step < 0 || options_.first_step > sampler_->n_steps()) {
      throw UsageError("no first step " + std::to_string(options_.first_step),
                       "the sampler has " + std::to_string(sampler_->n_steps()) + " steps");
    }
    if (options_.memory_budget < 0) throw UsageError("a memory budget of " + std::to_string(options_.memory_budget));
    if (options_.prefetch < 0) throw UsageError("prefetch of " + std::to_string(options_.prefetch) + " batches");
  }

  [[nodiscard]] Batch make(std::int64_t step, std::vector<std::int64_t> ids) const {
    const at::NoGradGuard no_grad;
    const auto rows = static_cast<std::int64_t>(ids.size());
    auto [x, y] = shard_.dataset->gather(ids);
    check_rows(x, rows, "the dataset");
    check_rows(y, rows, "the dataset");
    if (options_.augmentation) x = (*options_.augmentation)(x, ids, step);
    if (options_.transform) {
      x = options_.transform(std::move(x));
      check_rows(x, rows, "the transform");
    }
    // What a transform makes of sequences has a shape of its own.
    std::vector<std::int64_t> lengths = options_.transform ? std::vector<std::int64_t>() : shard_.dataset->lengths(ids);
    return {.x = std::move(x), .y = std::move(y), .ids = std::move(ids), .step = step, .lengths = std::move(lengths)};
  }

  static std::int64_t bytes_of(const Batch& batch) {
    return static_cast<std::int64_t>(batch.x.nbytes() + batch.y.nbytes());
  }

  Batch take() {
    std::unique_lock lock(mutex_);
    waits_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !ready_.empty() || failure_ != nullptr; });
    if (ready_.empty()) std::rethrow_exception(failure_);
    Batch batch = std::move(ready_.front());
    ready_.pop_front();
    ready_bytes_ -= bytes_of(batch);
    waits_ = false;
    changed_.notify_all();
    return batch;
  }

  void run(const std::stop_token& stop) {
    try {
      produce(stop);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      changed_.notify_all();
    }
  }

  /// Draws one step ahead of reading, so that the dataset can start on the next examples.
  void produce(const std::stop_token& stop) {
    const std::int64_t end = sampler_->n_steps();
    const auto draw = [&](std::int64_t step) {
      std::vector<std::int64_t> ids;
      if (step < end) {
        ids = sampler_->ids(step);
        shard_.dataset->prefetch(ids);
      }
      return ids;
    };
    std::vector<std::int64_t> ids = draw(options_.first_step);
    for (std::int64_t step = options_.first_step; step < end; ++step) {
      if (!wait_for_room(stop)) return;
      std::vector<std::int64_t> following = draw(step + 1);
      Batch batch = make(step, std::exchange(ids, std::move(following)));
      const std::lock_guard lock(mutex_);
      last_bytes_ = bytes_of(batch);
      ready_bytes_ += last_bytes_;
      ready_.push_back(std::move(batch));
      changed_.notify_all();
    }
  }

  /// False when the loader is being destroyed.
  bool wait_for_room(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    return changed_.wait(lock, stop, [&] { return has_room(); }) && !stop.stop_requested();
  }

  /// For one more batch, of about the last one's size; the one that is waited for always has room.
  [[nodiscard]] bool has_room() const {
    if (ready_.size() >= static_cast<std::size_t>(options_.prefetch)) return false;
    return ready_bytes_ + last_bytes_ <= options_.memory_budget || (waits_ && ready_.empty());
  }

  const Shard shard_;
  const std::shared_ptr<const Sampler> sampler_;
  const DataLoaderOptions options_;
  std::int64_t next_step_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Batch> ready_;
  std::int64_t ready_bytes_ = 0;  // of the batches in ready_
  std::int64_t last_bytes_ = 0;   // of the batch made last
  bool waits_ = false;            // a caller, for the next batch
  std::exception_ptr failure_;
  std::jthread thread_;  // last, so that it ends before what it uses
};

DataLoader::DataLoader(Shard shard, std::shared_ptr<const Sampler> sampler, DataLoaderOptions options)
    : prefetcher_(std::make_unique<Prefetcher>(std::move(shard), std::move(sampler), std::move(options))) {}

DataLoader::DataLoader(DataLoader&&) noexcept = default;
DataLoader& DataLoader::operator=(DataLoader&&) noexcept = default;
DataLoader::~DataLoader() = default;

bool DataLoader::done() const { return prefetcher_->done(); }
Batch DataLoader::next() { return prefetcher_->next(); }
DataLoader::Iterator DataLoader::begin() { return Iterator(*this); }

}  // namespace ripieno
