#include <zlib.h>

#include <ripieno/accounting/base/sha256.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/io/idx.hpp>
#include <ripieno/io/import_idx.hpp>
#include <ripieno/io/shard_set.hpp>

#include "support.hpp"

namespace ripieno::io::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const fs::path k_fashion_mnist = "/usr/share/datasets/fashion-mnist";

std::string idx(char type, const std::vector<std::uint32_t>& dims, const std::string& elements) {
  std::string text{'\0', '\0', type, static_cast<char>(dims.size())};
  for (const std::uint32_t dim : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(dim >> shift);
  }
  return text + elements;
}

void write_gzip(const fs::path& path, const std::string& text) {
  gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
  gzclose(file);
}

class Idx : public ::testing::Test {
 protected:
  // Twelve images of two bytes with labels 0 1 2 0 1 2 ...
  Idx() {
    for (int i = 0; i < 24; ++i) pixels_ += static_cast<char>(10 * i);
    for (int i = 0; i < 12; ++i) classes_ += static_cast<char>(i % 3);
    write_text(images_, idx(8, {12, 1, 2}, pixels_));
    write_text(labels_, idx(8, {12}, classes_));
  }

  fs::path import(const std::string& name = "set") const {
    ImportTarget target{.out = folder_ / "out", .spec = {}};
    target.spec.name = name;
    target.spec.num_shards = 2;
    return import_examples(open_idx(images_, labels_), target);
  }
  std::string import_error() const {
    const std::string error = data_error([this] { import(); });
    EXPECT_FALSE(fs::exists(folder_ / "out/set.json"));
    return error;
  }

  TemporaryFolder folder_;
  fs::path images_ = folder_ / "images";
  fs::path labels_ = folder_ / "labels";
  std::string pixels_, classes_;
};

TEST_F(Idx, ImportsPlainFiles) {
  const ShardSet set = ShardSet::open(import(), {.verify = Verify::full});
  EXPECT_EQ(set.num_examples(), 12);
  EXPECT_EQ(set.num_classes(), 3);
  EXPECT_EQ(set.num_shards(), 2);
  EXPECT_EQ(set.privacy_unit(), PrivacyUnit::example);
  EXPECT_THAT(set.example_shape(), ElementsAre(1, 2));
  std::vector<float> x(4);
  std::vector<std::int64_t> y(2);
  const std::vector<std::int64_t> ids{11, 4};
  set.gather_x(ids, x);
  set.gather_y(ids, y);
  constexpr float k_scale = 1.0F / 255.0F;
  EXPECT_THAT(x, ElementsAre(220 * k_scale, 230 * k_scale, 80 * k_scale, 90 * k_scale));
  EXPECT_THAT(y, ElementsAre(2, 1));
}

TEST_F(Idx, ImportsCompressedFiles) {
  write_gzip(images_, idx(8, {12, 1, 2}, pixels_));
  write_gzip(labels_, idx(8, {12}, classes_));
  EXPECT_EQ(ShardSet::open(import(), {.verify = Verify::full}).num_examples(), 12);
}

TEST_F(Idx, TurnsBigEndianElementsRound) {
  write_text(images_, idx(12, {2, 1}, std::string("\x01\x02\x03\x04\xff\xff\xff\xfe", 8)));
  IdxReader reader(images_);
  std::vector<std::int32_t> values(2);
  reader.read(std::as_writable_bytes(std::span(values)));
  reader.expect_end();
  EXPECT_THAT(values, ElementsAre(0x01020304, -2));
}

TEST_F(Idx, NamesABadMagicNumber) {
  write_text(images_, "\x89PNG and so on");
  EXPECT_THAT(import_error(), HasSubstr("images: not an IDX file (bad magic number)"));
}

TEST_F(Idx, NamesAnUnknownElementType) {
  write_text(images_, idx(14, {12, 1, 2}, std::string(192, 'x')));
  EXPECT_THAT(import_error(), HasSubstr("IDX element type 14 is not supported"));
}

TEST_F(Idx, NamesAnEmptyFile) {
  write_text(labels_, "");
  EXPECT_THAT(import_error(), HasSubstr("labels: not an IDX file (it is empty)"));
}

TEST_F(Idx, NamesATruncatedHeader) {
  write_text(images_, idx(8, {12, 1, 2}, "").substr(0, 9));
  EXPECT_THAT(import_error(), HasSubstr("images: the file is truncated"));
}

TEST_F(Idx, NamesATruncatedFile) {
  write_text(images_, idx(8, {12, 1, 2}, pixels_.substr(1)));
  EXPECT_THAT(import_error(), HasSubstr("images: the file is truncated (it ends before"));
}

TEST_F(Idx, NamesATruncatedCompressedFile) {
  write_gzip(images_, idx(8, {12, 1, 2}, pixels_));
  const std::string whole = read_text(images_);
  write_text(images_, whole.substr(0, whole.size() - 12));
  EXPECT_THAT(import_error(), HasSubstr("images: the file is truncated"));
}

TEST_F(Idx, NamesADamagedCompressedFile) {
  write_gzip(images_, idx(8, {12, 1, 2}, pixels_));
  std::string bytes = read_text(images_);
  bytes[bytes.size() - 6] ^= 1;  // its checksum
  write_text(images_, bytes);
  EXPECT_THAT(import_error(), HasSubstr("images: cannot unpack the file"));
}

TEST_F(Idx, NamesTrailingBytes) {
  write_text(images_, idx(8, {12, 1, 2}, pixels_ + "x"));
  EXPECT_THAT(import_error(), HasSubstr("images: bytes after the last element"));
}

TEST_F(Idx, NamesCountsThatDiffer) {
  write_text(labels_, idx(8, {11}, classes_.substr(1)));
  EXPECT_THAT(import_error(), HasSubstr("differ in length (12 images and 11 labels)"));
}

TEST_F(Idx, RefusesAClaimedSizeBeforeAllocating) {
  write_text(images_, idx(8, {0xffffffff, 0xffffffff}, "x"));
  EXPECT_THAT(import_error(), HasSubstr("announces [4294967295, 4294967295], more than the file can hold"));
  write_gzip(images_, idx(8, {12, 1u << 30}, "x"));
  EXPECT_THAT(import_error(), HasSubstr("more than the file can hold"));
}

TEST_F(Idx, RefusesImagesAsLabels) {
  write_text(labels_, idx(8, {12, 1}, classes_));
  EXPECT_THAT(import_error(), HasSubstr("does not hold labels (one integer an example is expected, not [12, 1])"));
}

// ---- the real files (Debian package dataset-fashion-mnist)

std::string digest(const std::vector<std::int64_t>& labels) {
  std::vector<std::uint8_t> bytes(labels.begin(), labels.end());
  return to_hex(sha256(std::span<const std::uint8_t>(bytes)));
}

TEST(FashionMnist, ImportsBothSplits) {
  ASSERT_TRUE(fs::exists(k_fashion_mnist)) << "install dataset-fashion-mnist (scripts/setup --tests)";
  const TemporaryFolder folder;
  std::int64_t last = 0;
  const auto manifests = import_fashion_mnist({.from = k_fashion_mnist, .out = folder.path(), .num_shards = 4},
                                              [&](std::int64_t done, std::int64_t total) {
                                                EXPECT_GT(done, last);
                                                EXPECT_EQ(total, 70000);
                                                last = done;
                                              });
  EXPECT_EQ(last, 70000);
  ASSERT_THAT(manifests, ElementsAre(folder / "train.json", folder / "test.json"));
  const ShardSet train = ShardSet::open(manifests[0], {.verify = Verify::full});
  const ShardSet test = ShardSet::open(manifests[1], {.verify = Verify::full});
  EXPECT_EQ(train.num_examples(), 60000);
  EXPECT_EQ(test.num_examples(), 10000);
  EXPECT_EQ(train.privacy_unit(), PrivacyUnit::example);
  EXPECT_EQ(test.privacy_unit(), PrivacyUnit::public_data);
  EXPECT_NE(train.dataset_id(), test.dataset_id());
  EXPECT_THAT(train.example_shape(), ElementsAre(28, 28));
  EXPECT_EQ(train.num_classes(), 10);
  EXPECT_EQ(train.class_names().at(9), "Ankle boot");

  std::vector<std::int64_t> ids(60000);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i);
  std::vector<std::int64_t> labels(ids.size());
  train.gather_y(ids, labels);
  EXPECT_THAT(std::vector(labels.begin(), labels.begin() + 8), ElementsAre(9, 0, 0, 3, 0, 2, 7, 2));
  EXPECT_EQ(digest(labels), "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7");
  ids.resize(10000);
  labels.resize(10000);
  test.gather_y(ids, labels);
  EXPECT_EQ(digest(labels), "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9");
}

TEST(FashionMnist, NamesTheFileThatIsMissing) {
  const TemporaryFolder folder;
  EXPECT_THAT(
      data_error([&] { import_fashion_mnist({.from = folder.path(), .out = folder / "out", .num_shards = 1}); }),
      HasSubstr("no train-images-idx3-ubyte[.gz] in"));
}

}  // namespace
}  // namespace ripieno::io::test
