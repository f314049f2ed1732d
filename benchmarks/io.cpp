// Poisson batches of normalised float32 rows, drawn and gathered from mapped shards, as a ratio to the gather and
// conversion alone of such a batch from an array in memory. One thread; processor time; the two run in turn within each
// round, so that a busy machine hurts both alike; the figures are medians over the rounds. The page cache is warm.
//   bench-io [--rounds N]    default 11
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <random>
#include <ripieno/framework/random/coins.hpp>
#include <ripieno/framework/random/key.hpp>
#include <ripieno/io/convert.hpp>
#include <ripieno/io/dataset_writer.hpp>
#include <ripieno/io/shard_set.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace ripieno;
using Ids = std::vector<std::int64_t>;
namespace fs = std::filesystem;

struct Setting {
  const char* name;
  std::vector<std::int64_t> example_shape;
  std::int64_t num_examples;
  std::vector<double> sample_rates;
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
    out_.resize(numel_);
    for (std::int64_t id = 0; id < setting_.num_examples; ++id) shards.gather_x(std::span(&id, 1), out_);  // maps all
    for (const double rate : setting_.sample_rates) measure(shards, rate);
  }

 private:
  /// Seconds of processor time for one batch, and for drawing it alone.
  struct Cost {
    double all_s = 0, draw_s = 0, examples = 0;
  };

  void measure(const io::ShardSet& shards, double sample_rate) {
    const io::RowConverter convert(io::DType::u8, {.scale = 1.0F / 255.0F, .mean = {}, .std = {}}, numel_);
    const auto from_memory = [&](const Ids& ids) {
      const auto* const rows = reinterpret_cast<const std::byte*>(memory_.data());
      for (std::size_t i = 0; i < ids.size(); ++i) {
        convert(rows + static_cast<std::size_t>(ids[i]) * numel_, out_.data() + i * numel_);
      }
    };
    const auto from_shards = [&](const Ids& ids) {
      shards.prefetch(ids);
      shards.gather_x(ids, std::span(out_).first(ids.size() * numel_));
    };
    out_.assign(static_cast<std::size_t>(2 * sample_rate * static_cast<double>(setting_.num_examples)) * numel_, 0);
    std::vector<double> ratios, rates, draws;
    for (int round = 0; round < rounds_; ++round) {
      Cost memory, stream;
      // Each has a draw of its own: the rows are not in the processor's caches.
      const auto measure_memory = [&] { memory = cost(sample_rate, from_memory); };
      if (round % 2 == 0) measure_memory();
      stream = cost(sample_rate, from_shards);
      if (round % 2 != 0) measure_memory();
      rates.push_back(stream.examples / stream.all_s);
      ratios.push_back(rates.back() * (memory.all_s - memory.draw_s) / memory.examples);
      draws.push_back(stream.draw_s / stream.all_s);
    }
    std::printf("%-10s q %-6g %8.0f examples/s   %5.1f %% of memory; the draw is %4.1f %%\n", setting_.name,
                sample_rate, median(rates), 100 * median(ratios), 100 * median(draws));
  }

  template <class Gather>
  Cost cost(double sample_rate, Gather gather) {
    const double start = cpu_seconds();
    const Ids ids = ids_with_heads(key(1), step_++, 0, setting_.num_examples, sample_rate);
    const double drawn = cpu_seconds();
    gather(ids);
    return {.all_s = cpu_seconds() - start, .draw_s = drawn - start, .examples = static_cast<double>(ids.size())};
  }

  Setting setting_;
  int rounds_;
  std::size_t numel_ = 1;
  std::vector<std::uint8_t> memory_;
  std::vector<float> out_;
  fs::path manifest_;
  std::mt19937_64 engine_{1};
  std::uint64_t step_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const bool has_rounds = argc == 3 && std::string_view(argv[1]) == "--rounds";
  const int rounds = has_rounds ? std::max(1, std::atoi(argv[2])) : 11;
  std::string folder = (fs::temp_directory_path() / "ripieno-bench-io-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  const std::vector<Setting> settings{{"28x28", {28, 28}, 400000, {0.001, 0.01, 0.1}},
                                      {"3x32x32", {3, 32, 32}, 100000, {0.001, 0.01, 0.1}},
                                      {"3x224x224", {3, 224, 224}, 2000, {0.01, 0.1}}};
  for (const Setting& setting : settings) Bench(folder, setting, rounds).run();
  fs::remove_all(folder);
}
