#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <ripieno/io/dtype.hpp>
#include <ripieno/io/shard_info.hpp>
#include <span>
#include <string>
#include <vector>

namespace ripieno::io {

/// What a new dataset is. The defaults suit u8 images in [0, 1].
struct DatasetSpec {
  std::string name = "dataset";  ///< also the name of its files: NAME.json, NAME-00000-of-00004.h5
  std::string dataset_name;      ///< as the shards carry it; empty: `name`
  std::string split = "train";
  std::string dataset_id;  ///< empty: a random uuid
  PrivacyUnit privacy_unit = PrivacyUnit::example;
  std::string provenance;
  std::optional<std::string>
      created;  ///< ISO 8601; nullopt: now, UTC. Given together with dataset_id, files are byte-identical

  DType dtype = DType::u8;                  ///< of x
  std::vector<std::int64_t> example_shape;  ///< without the example dimension; {} for one number an example
  Normalisation normalisation;
  std::int64_t num_classes = 0;          ///< 0: unknown
  std::vector<std::string> class_names;  ///< none, or num_classes of them

  std::int64_t num_examples = 0;
  std::int64_t num_shards = 1;
  /// Refuse NaN, infinity and labels out of range, which no reader accepts under full verification.
  bool check_values = true;
};

/// Writes a dataset in format `dpshard` 1, examples in id order and in pieces of any size. Under their final names
/// there are either all shards and the manifest, or no manifest: what an interrupted import leaves behind opens as
/// nothing.
class DatasetWriter {
 public:
  /// Creates `folder` when it is missing. UsageError for a spec that makes no sense; DataError when output exists.
  DatasetWriter(std::filesystem::path folder, DatasetSpec spec);
  /// Removes the temporary files of a dataset that was not finished.
  ~DatasetWriter();
  DatasetWriter(const DatasetWriter&) = delete;
  DatasetWriter& operator=(const DatasetWriter&) = delete;

  /// The next examples: `x` holds their raw little-endian elements of type `spec.dtype`, row-major; `y` one label each.
  /// UsageError for sizes that do not fit; DataError, naming the example, for values refused by `check_values`.
  void append(std::span<const std::byte> x, std::span<const std::int64_t> y);
  /// Makes everything durable and puts the manifest in place, last. Returns its path. UsageError unless all examples
  /// came.
  std::filesystem::path finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A whole dataset from memory, in one call. `spec.num_examples` is taken from `y`. Returns the manifest's path.
std::filesystem::path write_dataset(const std::filesystem::path& folder, DatasetSpec spec, std::span<const std::byte> x,
                                    std::span<const std::int64_t> y);

}  // namespace ripieno::io
