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

/// What a new dataset is. The defaults suit u8 images in [0, 1] with one class each.
struct DatasetSpec {
  std::string name = "dataset";  ///< also the name of its files: NAME.json, NAME-00000-of-00004.h5
  std::string dataset_name;      ///< as the shards carry it; empty: `name`
  std::string split = "train";
  std::string dataset_id;  ///< empty: a random uuid
  PrivacyUnit privacy_unit = PrivacyUnit::example;
  std::string provenance;
  std::optional<std::string>
      created;  ///< ISO 8601; nullopt: now, UTC. Given together with dataset_id, files are byte-identical
  /// Names the source and everything that shapes what is written. With it the writer can be killed and go on where it
  /// was (`Existing::resume`).
  std::string import_source;

  DType dtype = DType::u8;                  ///< of x
  std::vector<std::int64_t> example_shape;  ///< without the example dimension; {} for one number an example
  bool sequences = false;                   ///< examples are lists of different lengths; example_shape is {} then
  Normalisation normalisation;
  std::int64_t vocab_size = 0;  ///< x holds tokens [0, vocab_size); 0: it holds numbers
  std::int64_t pad_id = 0;
  std::string tokenizer;

  bool labels = true;                        ///< false: no y, for sequences alone
  DType label_dtype = DType::i64;            ///< i32, i64 or f32
  std::vector<std::int64_t> label_shape;     ///< {}: one number an example
  std::int64_t num_classes = 0;              ///< 0: unknown
  std::vector<std::string> class_names;      ///< none, or num_classes of them
  std::optional<std::int64_t> ignore_index;  ///< a label that may lie outside the classes

  bool ids = false;       ///< each example comes with a u64 that names it, or the person behind it
  bool checksums = true;  ///< a CRC-32C of each example, checked when it is first delivered

  std::int64_t num_examples = 0;
  std::int64_t num_shards = 1;
  /// Refuse NaN, infinity and labels out of range, which no reader accepts under full verification.
  bool check_values = true;
};

/// Examples in a row, as raw little-endian elements of the types in the DatasetSpec.
struct Examples {
  std::int64_t count = 0;
  std::span<const std::byte> x;                ///< [count, example_shape], or all sequences one after the other
  std::span<const std::int64_t> lengths = {};  ///< of the sequences; empty for examples of one shape
  std::span<const std::byte> y = {};           ///< [count, label_shape]; empty without labels
  std::span<const std::uint64_t> ids = {};     ///< [count]; empty without ids
};

/// What to do with output of the same name.
enum class Existing {
  refuse,   ///< DataError
  resume,   ///< go on after the shards that are there, if they are of the same source; DataError for anything else
  replace,  ///< remove it first, the manifest before the shards
};

/// Writes a dataset in format `dpshard` 1, examples in id order and in pieces of any size. A file has its final name
/// only when it is whole and durable, and the manifest comes last: what an interrupted import leaves behind opens as
/// nothing.
class DatasetWriter {
 public:
  /// Creates `folder` when it is missing, and removes what a writer that was killed left behind. UsageError for a spec
  /// that makes no sense; DataError for output that exists, or while another process writes the same dataset.
  DatasetWriter(std::filesystem::path folder, DatasetSpec spec, Existing existing = Existing::refuse);
  /// Removes what is not whole, and whole shards too unless `import_source` is given.
  ~DatasetWriter();
  DatasetWriter(const DatasetWriter&) = delete;
  DatasetWriter& operator=(const DatasetWriter&) = delete;

  /// The next example to come: 0, or where an earlier writer got to.
  [[nodiscard]] std::int64_t next_example() const noexcept;
  /// The next examples. UsageError for sizes that do not fit; DataError, naming the example, for values refused by
  /// `check_values`.
  void append(const Examples& examples);
  /// The same for examples of one shape and one int64 label each.
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
