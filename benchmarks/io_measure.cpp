// One way of reading Poisson batches from a dataset, measured: what benchmarks/io_peers.py calls.
//   bench-io-measure MANIFEST SAMPLE_RATE METHOD SEED
// METHOD: stream (draw, prefetch and gather), memory (draw, and the same gather from an array), memcpy (draw, and the
// rows copied as they are), pread (draw, and one read a row). Prints examples a second of processor time and of wall
// time, over one draw.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <numeric>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/random/coins.hpp>
#include <ripieno/framework/random/key.hpp>
#include <ripieno/io/convert.hpp>
#include <ripieno/io/shard_set.hpp>
#include <string>
#include <vector>

namespace {

using namespace ripieno;
using Ids = std::vector<std::int64_t>;

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::size_t row_bytes(const io::ShardSet& set) {
  return static_cast<std::size_t>(set.example_numel()) * io::item_size(set.stored_dtype());
}

/// visit(position, file, offset) for each row.
template <class Visit>
void for_each_place(const io::ShardSet& set, const Ids& ids, Visit visit) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::int64_t shard = 0;
    while (ids[i] >= set.shard(shard).example_offset + set.shard(shard).num_examples) ++shard;
    const auto row = static_cast<std::uint64_t>(ids[i] - set.shard(shard).example_offset);
    visit(i, shard, set.shard(shard).x->offset + row * row_bytes(set));
  }
}

std::vector<std::byte> load(const io::ShardSet& set) {
  std::vector<std::byte> all(static_cast<std::size_t>(set.num_examples()) * row_bytes(set));
  std::size_t done = 0;
  for (std::int64_t i = 0; i < set.num_shards(); ++i) {
    const io::OpenFile file = io::open_regular_file(set.shard(i).path);
    io::read_at(file.fd.get(), set.shard(i).x->offset, std::span(all).subspan(done, set.shard(i).x->bytes),
                set.shard(i).path);
    done += set.shard(i).x->bytes;
  }
  return all;
}

std::function<void(const Ids&, std::span<float>)> reader(const io::ShardSet& set, const std::string& method) {
  const auto numel = static_cast<std::size_t>(set.example_numel());
  const std::size_t bytes = row_bytes(set);
  if (method == "stream") {
    return [&set](const Ids& ids, std::span<float> out) {
      set.prefetch(ids);
      set.gather_x(ids, out);
    };
  }
  const auto convert = std::make_shared<io::RowConverter>(set.stored_dtype(), set.shard(0).normalisation, numel);
  if (method == "pread") {
    auto files = std::make_shared<std::vector<io::OpenFile>>();
    for (std::int64_t i = 0; i < set.num_shards(); ++i) files->push_back(io::open_regular_file(set.shard(i).path));
    return [=, &set](const Ids& ids, std::span<float> out) {
      std::vector<std::byte> row(bytes);
      for_each_place(set, ids, [&](std::size_t i, std::int64_t shard, std::uint64_t offset) {
        io::read_at((*files)[static_cast<std::size_t>(shard)].fd.get(), offset, row, set.shard(shard).path);
        (*convert)(row.data(), out.data() + i * numel);
      });
    };
  }
  const auto all = std::make_shared<std::vector<std::byte>>(load(set));
  if (method == "memcpy") {
    return [=](const Ids& ids, std::span<float> out) {
      for (std::size_t i = 0; i < ids.size(); ++i) {
        std::memcpy(reinterpret_cast<std::byte*>(out.data()) + i * bytes,
                    all->data() + static_cast<std::size_t>(ids[i]) * bytes, bytes);
      }
    };
  }
  if (method != "memory") throw UsageError("unknown method " + method);
  return [=](const Ids& ids, std::span<float> out) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      (*convert)(all->data() + static_cast<std::size_t>(ids[i]) * bytes, out.data() + i * numel);
    }
  };
}

void measure(const io::ShardSet& set, double rate, const std::string& method, std::uint64_t seed, bool warm) {
  const auto read = reader(set, method);
  const auto most = static_cast<std::size_t>(2 * rate * static_cast<double>(set.num_examples()) + 64);
  std::vector<float> out(most * static_cast<std::size_t>(set.example_numel()), 0.0F);
  if (warm) {  // maps the pages, as all steps but the first find them
    Ids all(static_cast<std::size_t>(set.num_examples()));
    std::iota(all.begin(), all.end(), 0);
    for (std::size_t i = 0; i < all.size(); i += most) {
      const Ids some(all.begin() + static_cast<std::ptrdiff_t>(i),
                     all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), i + most)));
      read(some, std::span(out).first(some.size() * static_cast<std::size_t>(set.example_numel())));
    }
  }
  const Key draw_key = key(seed);
  const double cpu = cpu_seconds();
  const auto wall = std::chrono::steady_clock::now();
  const Ids ids = ids_with_heads(draw_key, 0, 0, set.num_examples(), rate);
  read(ids, std::span(out).first(ids.size() * static_cast<std::size_t>(set.example_numel())));
  const double cpu_s = cpu_seconds() - cpu;
  const double wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - wall).count();
  std::printf("%.1f %.1f\n", static_cast<double>(ids.size()) / cpu_s, static_cast<double>(ids.size()) / wall_s);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: bench-io-measure MANIFEST SAMPLE_RATE METHOD SEED warm|cold\n");
    return 2;
  }
  try {
    const io::ShardSet set = io::ShardSet::open(argv[1], {.verify = io::Verify::automatic});
    measure(set, std::atof(argv[2]), argv[3], std::strtoull(argv[4], nullptr, 10), std::string(argv[5]) == "warm");
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
