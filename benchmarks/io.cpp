// Poisson batches of normalised float32 rows gathered from mapped shards, as a ratio to the same gather and conversion
// from an array in memory. One thread; processor time; the two run in turn within each round, so that a busy machine
// hurts both alike; the figures are medians over the rounds. The page cache is warm.
//   bench-io [--rounds N]    default 11
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <numeric>
#include <random>
#include <ripieno/io/convert.hpp>
#include <ripieno/io/dataset_writer.hpp>
#include <ripieno/io/shard_set.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace ripieno;
namespace fs = std::filesystem;

struct Setting {
  const char* name;
  std::vector<std::int64_t> example_shape;
  std::int64_t num_examples;
  double sample_rate;
};

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::vector<std::int64_t> draw(std::int64_t num_examples, double sample_rate, std::mt19937_64& engine) {
  std::bernoulli_distribution drawn(sample_rate);
  std::vector<std::int64_t> ids;
  for (std::int64_t id = 0; id < num_examples; ++id) {
    if (drawn(engine)) ids.push_back(id);
  }
  return ids;
}

// Before the first touch. The page cache has large pages of its own, and memory must not lose by small ones.
void use_huge_pages(void* data, std::size_t size) {
  constexpr std::uintptr_t k_page = 4096;
  const auto begin = (reinterpret_cast<std::uintptr_t>(data) + k_page - 1) / k_page * k_page;
  const auto end = (reinterpret_cast<std::uintptr_t>(data) + size) / k_page * k_page;
  if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

class Bench {
 public:
  Bench(const fs::path& folder, const Setting& setting, int rounds) : setting_(setting), rounds_(rounds) {
    io::DatasetSpec spec;
    spec.example_shape = setting.example_shape;
    spec.normalisation.scale = 1.0F / 255.0F;
    spec.num_shards = 4;
    for (const std::int64_t dim : setting.example_shape) numel_ *= static_cast<std::size_t>(dim);
    memory_.reserve(static_cast<std::size_t>(setting.num_examples) * numel_);
    use_huge_pages(memory_.data(), memory_.capacity());
    memory_.resize(memory_.capacity());
    std::generate(memory_.begin(), memory_.end(), [this] { return static_cast<std::uint8_t>(engine_()); });
    const std::vector<std::int64_t> labels(static_cast<std::size_t>(setting.num_examples), 0);
    manifest_ = io::write_dataset(folder / setting.name, spec, std::as_bytes(std::span(memory_)), labels);
  }

  void run() {
    const io::ShardSet shards = io::ShardSet::open(manifest_);
    const io::RowConverter convert(io::DType::u8, {.scale = 1.0F / 255.0F, .mean = {}, .std = {}}, numel_);
    const auto from_memory = [&](const std::vector<std::int64_t>& ids) {
      const auto* const rows = reinterpret_cast<const std::byte*>(memory_.data());
      for (std::size_t i = 0; i < ids.size(); ++i) {
        convert(rows + static_cast<std::size_t>(ids[i]) * numel_, out_.data() + i * numel_);
      }
    };
    const auto from_shards = [&](const std::vector<std::int64_t>& ids) {
      shards.prefetch(ids);
      shards.gather_x(ids, std::span(out_).first(ids.size() * numel_));
    };
    std::vector<std::int64_t> all(static_cast<std::size_t>(setting_.num_examples));
    std::iota(all.begin(), all.end(), 0);
    out_.resize(numel_);
    for (std::size_t i = 0; i < all.size(); ++i) shards.gather_x(std::span(all).subspan(i, 1), out_);  // maps the pages
    out_.assign(static_cast<std::size_t>(2 * setting_.sample_rate * static_cast<double>(all.size())) * numel_, 0);
    std::vector<double> ratios, rates;
    for (int round = 0; round < rounds_; ++round) {
      double memory_rate = 0;
      double shards_rate = 0;
      // Each has a draw of its own: the rows are not in the processor's caches.
      const auto measure_memory = [&] { memory_rate = rate(from_memory); };
      const auto measure_shards = [&] { shards_rate = rate(from_shards); };
      if (round % 2 == 0) measure_memory();
      measure_shards();
      if (round % 2 != 0) measure_memory();
      ratios.push_back(shards_rate / memory_rate);
      rates.push_back(shards_rate);
    }
    std::printf("%-12s q %-6g %8.0f examples/s   %5.1f %% of memory\n", setting_.name, setting_.sample_rate,
                median(rates), 100 * median(ratios));
  }

 private:
  /// Examples a second of processor time, over one draw.
  template <class Gather>
  double rate(Gather gather) {
    const auto ids = draw(setting_.num_examples, setting_.sample_rate, engine_);
    const double start = cpu_seconds();
    gather(ids);
    return static_cast<double>(ids.size()) / (cpu_seconds() - start);
  }

  Setting setting_;
  int rounds_;
  std::size_t numel_ = 1;
  std::vector<std::uint8_t> memory_;
  std::vector<float> out_;
  fs::path manifest_;
  std::mt19937_64 engine_{1};
};

}  // namespace

int main(int argc, char** argv) {
  const bool has_rounds = argc == 3 && std::string_view(argv[1]) == "--rounds";
  const int rounds = has_rounds ? std::max(1, std::atoi(argv[2])) : 11;
  std::string folder = (fs::temp_directory_path() / "ripieno-bench-io-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  const std::vector<Setting> settings{{"28x28", {28, 28}, 400000, 0.01},
                                      {"28x28-large", {28, 28}, 400000, 0.1},
                                      {"3x32x32", {3, 32, 32}, 100000, 0.01},
                                      {"3x224x224", {3, 224, 224}, 2000, 0.05}};
  for (const Setting& setting : settings) Bench(folder, setting, rounds).run();
  fs::remove_all(folder);
}
