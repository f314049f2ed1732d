#pragma once

#include <filesystem>
#include <memory>
#include <ripieno/io/example_source.hpp>
#include <vector>

namespace ripieno::io {

/// Reads a pair of IDX files, plain or gzip. `images`: any rank >= 1 and type, one row an example; `labels`: rank 1,
/// u8, i8 or i32. norm_scale becomes 1/255 for u8, else 1; with num_classes 0 it becomes one more than the largest
/// label. DataError names file and fault.
[[nodiscard]] std::unique_ptr<ExampleSource> open_idx(const std::filesystem::path& images,
                                                      const std::filesystem::path& labels);

struct FashionMnistImport {
  std::filesystem::path from;   ///< folder with train-images-idx3-ubyte, t10k-..., each with or without .gz
  std::filesystem::path out;    ///< gets train.json (privacy unit example) and test.json (public)
  std::int64_t num_shards = 4;  ///< of each
  bool force = false;           ///< replace what is there
};

/// Imports both splits of Fashion-MNIST; returns the two manifests' paths, train first.
std::vector<std::filesystem::path> import_fashion_mnist(const FashionMnistImport& import,
                                                        const ImportProgress& progress = {});

}  // namespace ripieno::io
