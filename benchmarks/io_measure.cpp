// One way of reading Poisson batches from a dataset, measured: what benchmarks/io_peers.py calls.
//   bench-io-measure MANIFEST SAMPLE_RATE METHOD SEED warm|cold
// METHOD: stream (draw, prefetch and gather), memory (draw, and the same gather from an array), memcpy (draw, and the
// rows copied as they are), pread (draw, and one read a row). Prints examples a second of processor time and of wall
// time: warm over as many draws as take a twentieth of a second; cold over one, after a thousandth of the examples that
// bring in the program itself and, for the stream, the labels.
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

/// Room for rows as they are delivered: float32, or int64 where the files hold tokens.
struct Rows {
  std::vector<float> numbers;
  std::vector<std::int64_t> tokens;
};

bool holds_tokens(const io::ShardSet& set) { return set.stored_dtype() == io::DType::i32; }

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

/// Converts one row to its place.
using ConvertRow = std::function<void(const std::byte* row, std::size_t place, Rows& out)>;

ConvertRow row_converter(const io::ShardSet& set) {
  const auto numel = static_cast<std::size_t>(set.example_numel());
  if (holds_tokens(set)) {
    return [numel](const std::byte* row, std::size_t place, Rows& out) {
      const auto* const tokens = reinterpret_cast<const std::int32_t*>(row);
      std::copy(tokens, tokens + numel, out.tokens.begin() + static_cast<std::ptrdiff_t>(place * numel));
    };
  }
  return
      [numel, convert = std::make_shared<io::RowConverter>(set.stored_dtype(), set.shard(0).normalisation, numel)](
          const std::byte* row, std::size_t place, Rows& out) { (*convert)(row, out.numbers.data() + place * numel); };
}

using Reader = std::function<void(const Ids& ids, Rows& out)>;

Reader stream_reader(const io::ShardSet& set) {
  return [&set](const Ids& ids, Rows& out) {
    const std::size_t elements = ids.size() * static_cast<std::size_t>(set.example_numel());
    set.prefetch(ids);
    if (holds_tokens(set)) {
      set.gather_tokens(ids, set.example_numel(), std::span(out.tokens).first(elements));
    } else {
      set.gather_x(ids, std::span(out.numbers).first(elements));
    }
  };
}

Reader pread_reader(const io::ShardSet& set) {
  const auto files = std::make_shared<std::vector<io::OpenFile>>();
  for (std::int64_t i = 0; i < set.num_shards(); ++i) files->push_back(io::open_regular_file(set.shard(i).path));
  return [files, &set, convert = row_converter(set)](const Ids& ids, Rows& out) {
    std::vector<std::byte> row(row_bytes(set));
    for_each_place(set, ids, [&](std::size_t i, std::int64_t shard, std::uint64_t offset) {
      io::read_at((*files)[static_cast<std::size_t>(shard)].fd.get(), offset, row, set.shard(shard).path);
      convert(row.data(), i, out);
    });
  };
}

Reader memory_reader(const io::ShardSet& set, bool converts) {
  const auto all = std::make_shared<std::vector<std::byte>>(load(set));
  const std::size_t bytes = row_bytes(set);
  return [=, convert = row_converter(set), tokens = holds_tokens(set)](const Ids& ids, Rows& out) {
    auto* const copies =
        tokens ? reinterpret_cast<std::byte*>(out.tokens.data()) : reinterpret_cast<std::byte*>(out.numbers.data());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::byte* const row = all->data() + static_cast<std::size_t>(ids[i]) * bytes;
      if (converts) {
        convert(row, i, out);
      } else {
        std::memcpy(copies + i * bytes, row, bytes);
      }
    }
  };
}

Reader reader(const io::ShardSet& set, const std::string& method) {
  if (method == "stream") return stream_reader(set);
  if (method == "pread") return pread_reader(set);
  if (method == "memory") return memory_reader(set, true);
  if (method == "memcpy") return memory_reader(set, false);
  throw UsageError("unknown method " + method, {}, "use stream, memory, memcpy or pread");
}

void measure(const io::ShardSet& set, double rate, const std::string& method, std::uint64_t seed, bool warm) {
  const auto read = reader(set, method);
  const auto most = static_cast<std::size_t>(2 * rate * static_cast<double>(set.num_examples()) + 64);
  Rows out;
  const std::size_t elements = most * static_cast<std::size_t>(set.example_numel());
  if (holds_tokens(set)) {
    out.tokens.assign(elements, 0);
  } else {
    out.numbers.assign(elements, 0.0F);
  }
  if (warm) {  // maps the pages, as all steps but the first find them
    Ids all(static_cast<std::size_t>(set.num_examples()));
    std::iota(all.begin(), all.end(), 0);
    for (std::size_t i = 0; i < all.size(); i += most) {
      const Ids some(all.begin() + static_cast<std::ptrdiff_t>(i),
                     all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), i + most)));
      read(some, out);
    }
  }
  const Key draw_key = key(seed);
  if (!warm) read(ids_with_heads(fold_in(draw_key, "first"), 0, 0, set.num_examples(), 0.001), out);
  const double cpu = cpu_seconds();
  const auto wall = std::chrono::steady_clock::now();
  double examples = 0;
  std::uint64_t step = 0;
  do {
    const Ids ids = ids_with_heads(draw_key, step++, 0, set.num_examples(), rate);
    read(ids, out);
    examples += static_cast<double>(ids.size());
  } while (warm && cpu_seconds() - cpu < 0.05);
  const double cpu_s = cpu_seconds() - cpu;
  const double wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - wall).count();
  std::printf("%.1f %.1f\n", examples / cpu_s, examples / wall_s);
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
