#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <ripieno/io/dataset_writer.hpp>
#include <string>
#include <vector>

namespace ripieno::io {

/// Told, now and then, how many of all examples are done.
using ImportProgress = std::function<void(std::int64_t done, std::int64_t total)>;

struct IdxImport {
  std::filesystem::path images;  ///< IDX of any rank >= 1 and type, plain or gzip: one row an example
  std::filesystem::path labels;  ///< IDX of rank 1, u8, i8 or i32
  std::filesystem::path out;     ///< folder
  /// Name, split, privacy unit, shards, classes, provenance. Type, shape and count come from the files; norm_scale too:
  /// 1/255 for u8, else 1. With num_classes 0 it becomes one more than the largest label.
  DatasetSpec spec;
};

/// Imports a pair of IDX files; returns the manifest's path. DataError names file and fault; output is never
/// overwritten.
std::filesystem::path import_idx(const IdxImport& import, const ImportProgress& progress = {});

struct FashionMnistImport {
  std::filesystem::path from;   ///< folder with train-images-idx3-ubyte, t10k-..., each with or without .gz
  std::filesystem::path out;    ///< gets train.json (privacy unit example) and test.json (public)
  std::int64_t num_shards = 4;  ///< of each
};

/// Imports both splits of Fashion-MNIST; returns the two manifests' paths, train first.
std::vector<std::filesystem::path> import_fashion_mnist(const FashionMnistImport& import,
                                                        const ImportProgress& progress = {});

}  // namespace ripieno::io
