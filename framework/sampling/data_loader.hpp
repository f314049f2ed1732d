#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>

#include <ripieno/framework/sampling/augmentation.hpp>
#include <ripieno/framework/sampling/batch.hpp>
#include <ripieno/framework/sampling/poisson.hpp>
#include <ripieno/framework/sampling/shard.hpp>

namespace ripieno {

struct DataLoaderOptions {
  std::int64_t first_step = 0;  ///< where a resumed run goes on; costs nothing
  /// Batches made ahead by the loader's thread while the current one is used; 0 makes each when it is asked for.
  int prefetch = 1;
  /// Bytes of batches made ahead; one that is larger is made when it is asked for. Its examples are read from the disk
  /// into the page cache all the same.
  std::int64_t memory_budget = std::int64_t{1} << 30;
  /// Makes x [n, views, ...] of the x [n, ...] of each batch.
  std::optional<Augmentation> augmentation = {};
  /// Applied to every x, after augmentation, in the loader's thread, without autograd, also to the x [0, ...] of an
  /// empty draw. It must treat every example by itself, and keep the first dimension.
  std::function<at::Tensor(at::Tensor x)> transform = {};
};

/// Reads what the sampler draws: one batch a step, first_step ... n_steps - 1, each with the whole draw of this rank.
/// An empty draw is a batch like any other (invariant P7). Movable; not to be used by several threads at once.
class DataLoader {
 public:
  /// UsageError when the sampler draws from another range than the shard's, or an option makes no sense.
  DataLoader(Shard shard, std::shared_ptr<const Sampler> sampler, DataLoaderOptions options = {});
  template <std::derived_from<Sampler> S>
  DataLoader(Shard shard, S sampler, DataLoaderOptions options = {})
      : DataLoader(std::move(shard), std::make_shared<const S>(std::move(sampler)), std::move(options)) {}
  DataLoader(DataLoader&&) noexcept;
  DataLoader& operator=(DataLoader&&) noexcept;
  /// Ends the thread; waits for the batch that it is making.
  ~DataLoader();

  /// True when `next` has returned the last step.
  [[nodiscard]] bool done() const;
  /// The batch of the next step; waits for it. Rethrows what reading, or the transform, threw for that step, and again
  /// if called again. UsageError after the last step.
  [[nodiscard]] Batch next();

  /// Single pass: `for (auto [x, y] : loader)` takes the steps that are left.
  class Iterator;
  [[nodiscard]] Iterator begin();
  [[nodiscard]] std::default_sentinel_t end() const { return std::default_sentinel; }

 private:
  class Prefetcher;
  std::unique_ptr<Prefetcher> prefetcher_;
};

class DataLoader::Iterator {
 public:
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;
  using iterator_concept = std::input_iterator_tag;

  explicit Iterator(DataLoader& loader) : loader_(&loader) { ++*this; }
  [[nodiscard]] Batch& operator*() const { return *batch_; }
  [[nodiscard]] Batch* operator->() const { return &*batch_; }
  Iterator& operator++() {
    batch_.reset();
    if (!loader_->done()) batch_ = loader_->next();
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const Iterator& it, std::default_sentinel_t) { return !it.batch_.has_value(); }

 private:
  DataLoader* loader_;
  mutable std::optional<Batch> batch_;
};

}  // namespace ripieno
