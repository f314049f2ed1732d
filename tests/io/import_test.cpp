// Importers against what numpy, h5py and the encoders of other libraries wrote.

#include <png.h>
#include <turbojpeg.h>

#include <map>
#include <ripieno/io/import_hdf5.hpp>
#include <ripieno/io/import_images.hpp>
#include <ripieno/io/import_npy.hpp>
#include <ripieno/io/import_shards.hpp>
#include <ripieno/io/import_table.hpp>
#include <ripieno/io/import_text.hpp>
#include <ripieno/io/manifest.hpp>
#include <ripieno/io/shard_set.hpp>
#include <ripieno/io/verify.hpp>
#include <set>

#include "support.hpp"

namespace ripieno::io::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class ImportTest : public ::testing::Test {
 protected:
  ImportTarget target(std::int64_t shards = 1) const {
    ImportTarget target{.out = folder_ / "out", .spec = {}};
    target.spec.name = "set";
    target.spec.num_shards = shards;
    return target;
  }
  fs::path import(std::unique_ptr<ExampleSource> source, std::int64_t shards = 1) const {
    const fs::path manifest = import_examples(std::move(source), target(shards));
    const std::vector<fs::path> paths{manifest};
    verify(paths);
    return manifest;
  }
  // The raw bytes of one dataset of a single shard.
  template <class T>
  std::vector<T> stored(const std::optional<StoredArray>& array, const fs::path& shard) const {
    const OpenFile file = open_regular_file(shard);
    std::vector<T> values(array->bytes / sizeof(T));
    read_at(file.fd.get(), array->offset, std::as_writable_bytes(std::span(values)), shard);
    return values;
  }
  fs::path only_shard() const { return folder_ / "out/set-00000-of-00001.h5"; }
  ShardInfo info() const { return inspect_shard(only_shard()); }

  TemporaryFolder folder_;
};

// ---- NumPy

TEST_F(ImportTest, NumpyArraysOfEveryTypeAndByteOrder) {
  run_python(folder_, R"(
import numpy as np, pathlib, sys
folder = pathlib.Path(sys.argv[1])
for name in ["bool", "u1", "i1", "<u2", ">i2", "<i4", ">u4", "<i8", "<f2", ">f4", "<f8", ">f8"]:
    np.save(folder / ("x" + name.strip("<>") + ".npy"), (np.arange(24) % 2 * 3 + 1).reshape(4, 2, 3).astype(name))
np.save(folder / "y.npy", np.array([0, 2, 1, 2]))
)",
             folder_.path().string());
  const std::map<std::string, std::pair<DType, float>> cases{
      {"bool", {DType::u8, 1}}, {"u1", {DType::u8, 4}},  {"i1", {DType::i8, 4}},  {"u2", {DType::i32, 4}},
      {"i2", {DType::i32, 4}},  {"i4", {DType::i32, 4}}, {"u4", {DType::i64, 4}}, {"i8", {DType::i64, 4}},
      {"f2", {DType::f16, 4}},  {"f4", {DType::f32, 4}}, {"f8", {DType::f32, 4}}};
  for (const auto& [name, expected] : cases) {
    fs::remove_all(folder_ / "out");
    const ShardSet set =
        ShardSet::open(import(open_npy(folder_ / ("x" + name + ".npy"), folder_ / "y.npy")), {.verify = Verify::full});
    EXPECT_EQ(set.stored_dtype(), expected.first) << name;
    EXPECT_THAT(set.example_shape(), ElementsAre(2, 3));
    EXPECT_EQ(set.num_classes(), 3);
    std::vector<float> x(6);
    set.gather_x(std::vector<std::int64_t>{3}, x);
    const float scale = expected.first == DType::u8 ? 1.0F / 255.0F : 1.0F;
    EXPECT_EQ(x[0], 1 * scale) << name;
    EXPECT_EQ(x[1], expected.second * scale) << name;
  }
}

TEST_F(ImportTest, LabelsOfAnyShapeAndFloatingTargets) {
  run_python(folder_, R"(
import numpy as np, pathlib, sys
folder = pathlib.Path(sys.argv[1])
np.save(folder / "x.npy", np.zeros((3, 2), np.float32))
np.save(folder / "y.npy", np.arange(12, dtype=np.float64).reshape(3, 2, 2) / 4)
)",
             folder_.path().string());
  import(open_npy(folder_ / "x.npy", folder_ / "y.npy"));
  EXPECT_EQ(info().y->dtype, DType::f32);
  EXPECT_THAT(info().label_shape(), ElementsAre(2, 2));
  EXPECT_EQ(stored<float>(info().y, only_shard())[11], 2.75F);
}

TEST_F(ImportTest, WrongNumpyFilesAreNamed) {
  run_python(folder_, R"(
import numpy as np, pathlib, sys
folder = pathlib.Path(sys.argv[1])
np.save(folder / "y.npy", np.arange(4))
np.save(folder / "fortran.npy", np.asfortranarray(np.zeros((4, 3))))
np.save(folder / "complex.npy", np.zeros((4, 3), complex))
np.save(folder / "text.npy", np.array(["a", "b"]))
np.save(folder / "short.npy", np.zeros((3, 3)))
np.save(folder / "huge.npy", np.array([1 << 63], np.uint64))
np.savez(folder / "zip.npy", np.zeros(3))
)",
             folder_.path().string());
  const auto error = [&](const std::string& name) {
    return data_error([&] { import(open_npy(folder_ / name, folder_ / "y.npy")); });
  };
  EXPECT_THAT(error("fortran.npy"), HasSubstr("is in Fortran order"));
  EXPECT_THAT(error("complex.npy"), HasSubstr("complex.npy: the elements are not numbers"));
  EXPECT_THAT(error("text.npy"), HasSubstr("the elements are not numbers"));
  EXPECT_THAT(error("short.npy"), HasSubstr("differ in length (3 examples and 4 labels)"));
  fs::rename(folder_ / "zip.npy.npz", folder_ / "zip.npy");
  EXPECT_THAT(error("zip.npy"), HasSubstr("an NPZ archive"));
  std::string cut = read_text(folder_ / "short.npy");
  write_text(folder_ / "cut.npy", cut.substr(0, cut.size() - 1));
  EXPECT_THAT(error("cut.npy"), HasSubstr("is truncated"));
  write_text(folder_ / "y.npy", read_text(folder_ / "huge.npy"));
  EXPECT_THAT(data_error([&] { import(open_npy(folder_ / "huge.npy", folder_ / "y.npy")); }),
              AllOf(HasSubstr("an integer does not fit"), Not(HasSubstr("9223372036854775808"))));
}

// ---- tables

constexpr const char* k_schema = R"({"columns": [
  {"name": "age", "type": "number", "mean": 40, "std": 10, "missing": 40},
  {"name": "work", "type": "category", "values": ["private, or so", "state"]},
  {"name": "serial", "type": "id"}, {"name": "note", "type": "ignore"},
  {"name": "income", "type": "label", "values": ["low", "high"]}]})";

class TableTest : public ImportTest {
 protected:
  TableTest() { write_text(folder_ / "schema.json", k_schema); }
  std::string error(const std::string& csv) {
    write_text(folder_ / "t.csv", csv);
    return data_error([&] { import(open_table({folder_ / "t.csv"}, ',', folder_ / "schema.json")); });
  }
};

TEST_F(TableTest, ColumnsBecomeWhatTheSchemaSays) {
  write_text(
      folder_ / "a.csv",
      "\xef\xbb\xbfserial,income,age,work,note\r\n7,high,50,\"private, or so\",\"two\nlines, \"\"quoted\"\"\"\r\n"
      "\r\n8,low,,state,\r\n");
  write_text(folder_ / "b.csv", "age,work,income,note,serial\n-3.5e1,state,high,,18446744073709551615");
  const ShardSet set =
      ShardSet::open(import(open_table({folder_ / "a.csv", folder_ / "b.csv"}, ',', folder_ / "schema.json")));
  std::vector<float> x(9);
  std::vector<std::int64_t> y(3);
  const std::vector<std::int64_t> ids{0, 1, 2};
  set.gather_x(ids, x);
  set.gather_y(ids, y);
  EXPECT_THAT(x, ElementsAre(1, 1, 0, 0, 0, 1, -7.5F, 0, 1));
  EXPECT_THAT(y, ElementsAre(1, 0, 1));
  EXPECT_THAT(set.class_names(), ElementsAre("low", "high"));
  EXPECT_THAT(stored<std::uint64_t>(info().id, only_shard()), ElementsAre(7, 8, 18446744073709551615ULL));
}

TEST_F(TableTest, Invariant_P1_FaultsAreNamedByLineAndColumnButNotValue) {
  const std::string header = "age,work,income,note,serial\n";
  const auto expect = [&](const std::string& line, const std::string& fault) {
    EXPECT_THAT(error(header + "50,state,low,,1\n" + line), AllOf(HasSubstr(fault), Not(HasSubstr("4711"))));
  };
  expect("4711x,state,low,,2", "line 3: column 'age' is not a number");
  expect("50,4711,low,,2", "column 'work' holds a value that the schema does not list");
  expect("50,state,4711,,2", "column 'income' holds a value");
  expect("50,state,low,,-4711", "column 'serial' is not an unsigned integer");
  expect("50,state,low,2", "line 3 has 4 fields");
  expect("inf,state,low,,2", "example 1 is not finite");
  expect("50,\"state,low,,2\n", "line 3 opens a quote");
  expect("50,state,low,,1", "have the same id");
  EXPECT_THAT(error("age,work,income,serial\n"), HasSubstr("no column 'note'"));
  EXPECT_THAT(error("age,work,income,note,serial,extra\n"), HasSubstr("column 'extra' is not in the schema"));
  EXPECT_THAT(error(header), HasSubstr("no record"));
  EXPECT_THAT(error(""), HasSubstr("is empty"));
}

TEST_F(TableTest, SchemasThatMakeNoSenseAreRefused) {
  const auto refused = [&](const std::string& columns, const std::string& fault) {
    write_text(folder_ / "schema.json", "{\"columns\": [" + columns + "]}");
    EXPECT_THAT(data_error([&] { static_cast<void>(read_table_schema(folder_ / "schema.json")); }), HasSubstr(fault));
  };
  refused(R"({"name": "a", "type": "number"})", "what to predict is not clear");
  refused(R"({"name": "a", "type": "label", "classes": 2})", "no feature");
  refused(R"({"name": "a", "type": "nubmer"})", "unknown type 'nubmer'");
  refused(R"({"name": "a", "type": "number", "sdt": 2})", "unknown key 'sdt'");
  refused(R"({"name": "a", "type": "category"})", "a category without values");
  refused(R"({"name": "a", "type": "number", "std": 0})", "unusable mean or std");
  refused(R"({"name": "a", "type": "number"}, {"name": "a", "type": "target"})", "is listed twice");
}

// ---- images

void write_png(const fs::path& path, int height, int width, const std::vector<std::uint8_t>& rgb) {
  fs::create_directories(path.parent_path());
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(height);
  image.width = static_cast<png_uint_32>(width);
  image.format = PNG_FORMAT_RGB;
  ASSERT_NE(png_image_write_to_file(&image, path.c_str(), 0, rgb.data(), 0, nullptr), 0) << image.message;
}

void write_jpeg(const fs::path& path, int height, int width, const std::vector<std::uint8_t>& rgb) {
  fs::create_directories(path.parent_path());
  const tjhandle encoder = tjInitCompress();
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  ASSERT_EQ(tjCompress2(encoder, rgb.data(), width, 0, height, TJPF_RGB, &bytes, &size, TJSAMP_444, 95, 0), 0);
  write_text(path, std::string(reinterpret_cast<char*>(bytes), size));
  tjFree(bytes);
  tjDestroy(encoder);
}

TEST_F(ImportTest, ImagesChannelByChannelAndClassesByFolder) {
  const std::vector<std::uint8_t> rgb{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};  // 2x2
  write_png(folder_ / "in/cat/a.PNG", 2, 2, rgb);
  write_jpeg(folder_ / "in/dog/b.jpg", 2, 2, std::vector<std::uint8_t>(12, 100));
  write_text(folder_ / "in/dog/notes.txt", "no image");
  const fs::path manifest = import(open_images({.root = folder_ / "in"}));
  const auto x = stored<std::uint8_t>(info().x, only_shard());
  EXPECT_THAT(std::vector(x.begin(), x.begin() + 12), ElementsAre(1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12));
  for (std::size_t i = 12; i < 24; ++i) EXPECT_NEAR(x[i], 100, 2);
  EXPECT_THAT(info().class_names, ElementsAre("cat", "dog"));
  EXPECT_THAT(stored<std::int64_t>(info().y, only_shard()), ElementsAre(0, 1));
}

TEST_F(ImportTest, ImagesOfOtherSizesAreScaledOrNamed) {
  write_png(folder_ / "in/a/1.png", 2, 2, std::vector<std::uint8_t>(12, 50));
  // Left half 0, right half 200: the mean survives, and no value lies outside.
  std::vector<std::uint8_t> halves;
  for (int i = 0; i < 4 * 8; ++i) halves.insert(halves.end(), 3, i % 8 < 4 ? 0 : 200);
  write_png(folder_ / "in/a/2.png", 4, 8, halves);
  EXPECT_THAT(data_error([&] { import(open_images({.root = folder_ / "in"})); }), HasSubstr("2.png is 4x8"));
  fs::remove_all(folder_ / "out");
  import(open_images({.root = folder_ / "in", .channels = 1, .height = 2, .width = 4}));
  const auto x = stored<std::uint8_t>(info().x, only_shard());
  EXPECT_THAT(std::vector(x.begin(), x.begin() + 8), ::testing::Each(50));
  int sum = 0;
  for (std::size_t i = 8; i < 16; ++i) sum += x[i];
  EXPECT_NEAR(sum / 8.0, 100, 1.5);
  EXPECT_LT(x[8], 10);
  EXPECT_GT(x[11], 190);
}

TEST_F(ImportTest, DamagedImagesAreNamed) {
  write_png(folder_ / "in/a/1.png", 2, 2, std::vector<std::uint8_t>(12, 50));
  write_jpeg(folder_ / "in/a/2.jpg", 16, 16, std::vector<std::uint8_t>(768, 50));
  const auto error = [&] {
    return data_error([&] { import(open_images({.root = folder_ / "in", .height = 2, .width = 2})); });
  };
  const std::string jpeg = read_text(folder_ / "in/a/2.jpg");
  write_text(folder_ / "in/a/2.jpg", jpeg.substr(0, 200));
  EXPECT_THAT(error(), HasSubstr("2.jpg: damaged JPEG"));
  write_text(folder_ / "in/a/2.jpg", "");
  EXPECT_THAT(error(), HasSubstr("2.jpg: not an image (it is empty)"));
  write_text(folder_ / "in/a/2.jpg", jpeg);
  const std::string png = read_text(folder_ / "in/a/1.png");
  write_text(folder_ / "in/a/1.png", png.substr(0, png.size() - 20));
  EXPECT_THAT(error(), HasSubstr("1.png: damaged PNG"));
  write_png(folder_ / "in/3.png", 2, 2, std::vector<std::uint8_t>(12, 50));
  EXPECT_THAT(error(), HasSubstr("3.png belongs to no class"));
}

// ---- text

TEST_F(ImportTest, LinesOfTextAreSequencesOfBytes) {
  fs::create_directories(folder_ / "in");
  write_text(folder_ / "in/a.txt", "one\r\n\nthree\xff\n");
  write_text(folder_ / "in/b.txt", "last line without an end");
  const TextImport text{.root = folder_ / "in", .length = 9};
  import(open_text(text));
  const auto offsets = stored<std::int64_t>(info().sequence_offsets, only_shard());
  EXPECT_THAT(offsets, ElementsAre(0, 3, 9, 18));
  const auto values = stored<char>(info().sequence_values, only_shard());
  EXPECT_EQ(std::string(values.begin(), values.end()), "onethree\xfflast line");
  EXPECT_EQ(info().vocab_size, 257);
  EXPECT_EQ(info().pad_id, 256);
  EXPECT_EQ(info().tokenizer, "bytes");
  EXPECT_FALSE(info().y);
}

TEST_F(ImportTest, WindowsPredictTheNextByte) {
  write_text(folder_ / "in.txt", "abcdefgh");
  import(open_text({.root = folder_ / "in.txt", .unit = TextUnit::window, .length = 3}));
  EXPECT_EQ(info().num_examples, 2);
  const auto x = stored<char>(info().x, only_shard());
  EXPECT_EQ(std::string(x.begin(), x.end()), "abcdef");
  EXPECT_THAT(stored<std::int32_t>(info().y, only_shard()), ElementsAre('b', 'c', 'd', 'e', 'f', 'g'));
}

TEST_F(ImportTest, FilesOfTextWithAClassEach) {
  fs::create_directories(folder_ / "in/ham");
  fs::create_directories(folder_ / "in/spam");
  write_text(folder_ / "in/ham/1", "dear\nfriend");
  write_text(folder_ / "in/spam/1", "win!");
  import(open_text({.root = folder_ / "in", .unit = TextUnit::file, .class_folders = true}));
  EXPECT_THAT(stored<std::int64_t>(info().sequence_offsets, only_shard()), ElementsAre(0, 11, 15));
  EXPECT_THAT(stored<std::int64_t>(info().y, only_shard()), ElementsAre(0, 1));
  EXPECT_THAT(info().class_names, ElementsAre("ham", "spam"));
}

// ---- foreign HDF5

TEST_F(ImportTest, ForeignHdf5ChunkedCompressedAndOfOtherTypes) {
  run_python(folder_, R"(
import h5py, numpy as np, pathlib, sys
folder = pathlib.Path(sys.argv[1])
x = np.arange(5 * 6).reshape(5, 6) / 8
with h5py.File(folder / "foreign.h5", "w") as f:
    f.create_dataset("train/images", data=x.astype(">f8"), chunks=(2, 4), compression="gzip", fletcher32=True)
    f.create_dataset("train/labels", data=np.array([3, 1, 0, 2, 3], ">u2"))
    f.create_dataset("never", (5, 6), "f4")
    f["elsewhere"] = h5py.ExternalLink("other.h5", "/x")
    holes = f.create_dataset("holes", (5, 6), "f4", chunks=(1, 6))
    holes[3] = 1
    f.create_dataset("words", data=np.array([b"a", b"b"]))
with h5py.File(folder / "other.h5", "w") as f:
    f["x"] = x
)",
             folder_.path().string());
  const fs::path file = folder_ / "foreign.h5";
  const ShardSet set = ShardSet::open(import(open_hdf5(file, "train/images", "/train/labels"), 2));
  std::vector<float> x(30);
  std::vector<std::int64_t> y(5);
  const std::vector<std::int64_t> ids{0, 1, 2, 3, 4};
  set.gather_x(ids, x);
  set.gather_y(ids, y);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(x[i], static_cast<float>(i) / 8);
  EXPECT_THAT(y, ElementsAre(3, 1, 0, 2, 3));
  const auto error = [&](const std::string& name) {
    return data_error([&] { static_cast<void>(open_hdf5(file, name, "train/labels")); });
  };
  EXPECT_THAT(error("images"), AllOf(HasSubstr("dataset 'images' is not there"), HasSubstr("train/images")));
  EXPECT_THAT(error("never"), HasSubstr("was never written"));
  EXPECT_THAT(error("elsewhere"), HasSubstr("lies in another file"));
  EXPECT_THAT(error("holes"), HasSubstr("has holes (1 of its 5 chunks"));
  EXPECT_THAT(error("words"), HasSubstr("does not hold numbers"));
  EXPECT_THAT(data_error([&] { static_cast<void>(open_hdf5(bad_shard("vds_missing_source.h5"), "x", "x")); }),
              HasSubstr("is virtual"));
  EXPECT_THAT(data_error([&] { static_cast<void>(open_hdf5(bad_shard("chunk_bomb.h5"), "x", "x")); }),
              HasSubstr("was never written"));
  EXPECT_THAT(data_error([&] { static_cast<void>(open_hdf5(bad_shard("unknown_filter.h5"), "x", "x")); }),
              HasSubstr("needs filter 32999"));
}

// ---- shards

TEST_F(ImportTest, ReshardingKeepsExamplesAndIdentity) {
  const fs::path manifest = write_small(folder_ / "source");
  const auto find = [](const fs::path& path) { return inspect_shards(read_manifest(path)); };
  ImportTarget to = target(5);
  to.spec.dataset_id = small_spec().dataset_id;
  const ShardSet before = ShardSet::open(manifest);
  const ShardSet after = ShardSet::open(import_examples(open_shards(find(manifest)), to));
  EXPECT_EQ(after.num_shards(), 5);
  EXPECT_EQ(after.dataset_id(), before.dataset_id());
  std::vector<std::int64_t> ids(k_small_examples);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i);
  std::vector<float> a(ids.size() * k_small_numel), b(a.size());
  before.gather_x(ids, a);
  after.gather_x(ids, b);
  EXPECT_EQ(a, b);
}

TEST_F(ImportTest, PartsOfASplitAreDisjointAndComplete) {
  const auto shards = inspect_shards(read_manifest(write_small(folder_ / "source")));
  const auto rows_of = [](const ExampleBlock& block) {
    std::multiset<std::string> rows;
    for (std::size_t at = 0; at < block.x.size(); at += k_small_numel) {
      rows.emplace(reinterpret_cast<const char*>(block.x.data()) + at, k_small_numel);
    }
    return rows;
  };
  const std::vector<std::int64_t> counts{50, 30, 20};
  std::multiset<std::string> dealt;
  for (std::size_t part = 0; part < counts.size(); ++part) {
    ExampleBlock block;
    const auto first = open_part(shards, counts, part, 5);
    first->read(1, block);
    const auto rest = open_part(shards, counts, part, 5);
    rest->skip(1);
    rest->read(counts[part] - 1, block);
    dealt.merge(rows_of(block));
  }
  ExampleBlock all;
  const auto whole = open_shards(shards);
  while (all.count < k_small_examples) whole->read(k_small_examples - all.count, all);
  const std::multiset<std::string> expected = rows_of(all);
  EXPECT_EQ(dealt, expected);
}

}  // namespace
}  // namespace ripieno::io::test
