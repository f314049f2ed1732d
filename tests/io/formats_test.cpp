// The Python programs in docs/formats.md are run as they stand there.

#include <ripieno/io/shard_set.hpp>
#include <ripieno/io/verify.hpp>
#include <sstream>

#include "support.hpp"

namespace ripieno::io::test {
namespace {

// The program in docs/formats.md whose first line names it.
std::string documented_program(const std::string& name) {
  const std::string page = read_text(fs::path(RIPIENO_SOURCE_DIR) / "docs/formats.md");
  const std::size_t begin = page.find("```python\n# " + name);
  if (begin == std::string::npos) throw std::runtime_error("docs/formats.md has no program " + name);
  const std::size_t code = page.find('\n', begin) + 1;
  return page.substr(code, page.find("```", code) - code);
}

std::string run_documented(const std::string& name, const std::string& arguments, const TemporaryFolder& scratch) {
  return run_python(scratch, documented_program(name), arguments);
}

void expect_python_agrees(const fs::path& manifest, const std::vector<std::int64_t>& ids) {
  const TemporaryFolder scratch;
  const ShardSet set = ShardSet::open(manifest, {.verify = Verify::full});
  std::string arguments = manifest.string();
  for (const std::int64_t id : ids) arguments.append(" ").append(std::to_string(id));
  std::istringstream lines(run_documented("read_dataset.py", arguments, scratch));
  const auto numel = static_cast<std::size_t>(set.example_numel());
  std::vector<float> x(ids.size() * numel);
  std::vector<std::int64_t> y(ids.size());
  set.gather_x(ids, x);
  set.gather_y(ids, y);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::string line;
    ASSERT_TRUE(std::getline(lines, line)) << "line " << i;
    std::istringstream words(line);
    std::int64_t id = -1, label = -1;
    words >> id >> label;
    EXPECT_EQ(id, ids[i]);
    EXPECT_EQ(label, y[i]);
    for (std::size_t k = 0; k < std::min<std::size_t>(8, numel); ++k) {
      std::string value;
      words >> value;
      EXPECT_EQ(std::strtof(value.c_str(), nullptr), x[i * numel + k]) << line;
    }
  }
}

TEST(FormatsPage, H5pyReadsWhatTheWriterWrites) {
  const TemporaryFolder folder;
  DatasetSpec spec = small_spec();
  spec.normalisation = {.scale = 1.0F / 255.0F, .mean = {0.5F, 0.4F, 0.3F}, .std = {0.2F, 0.3F, 0.4F}};
  expect_python_agrees(write_small(folder.path(), spec), {0, 33, 34, 99});
}

TEST(FormatsPage, H5pyReadsHalves) {
  const TemporaryFolder folder;
  DatasetSpec spec = small_spec();
  spec.dtype = DType::f16;
  spec.example_shape = {4};
  spec.num_shards = 1;
  const auto x = random_values<std::uint16_t>(4 * 20, 0, 0x7bff);  // finite
  expect_python_agrees(write_dataset(folder.path(), spec, bytes_of(x), random_labels(20, 7)), {0, 7, 19});
}

TEST(FormatsPage, TheReaderTakesWhatH5pyWrites) {
  const TemporaryFolder folder;
  run_documented("write_dataset.py", (folder / "images").string(), folder);
  const ShardSet set = ShardSet::open(folder / "images", {.verify = Verify::full});
  EXPECT_EQ(set.num_examples(), 100);
  EXPECT_EQ(set.num_classes(), 5);
  EXPECT_THAT(set.example_shape(), ::testing::ElementsAre(3, 8, 8));
  expect_python_agrees(folder / "images/images.json", {0, 59, 60, 99});
}

TEST(FormatsPage, SequencesGoBothWays) {
  const TemporaryFolder folder;
  run_documented("write_sequences.py", (folder / "text").string(), folder);
  const ShardSet set = ShardSet::open(folder / "text", {.verify = Verify::full});
  EXPECT_EQ(set.vocab_size(), 1000);
  const std::vector<std::int64_t> ids{0, 1, 2, 3};
  EXPECT_THAT(set.lengths(ids), ::testing::ElementsAre(3, 0, 1, 2));
  std::vector<std::int64_t> tokens(12);
  set.gather_tokens(ids, 3, tokens);
  EXPECT_THAT(tokens, ::testing::ElementsAre(5, 6, 7, 0, 0, 0, 900, 0, 0, 1, 2, 0));
  std::vector<float> targets(8);
  set.gather_targets(ids, targets);
  EXPECT_THAT(targets, ::testing::ElementsAre(0.5F, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(run_documented("read_sequences.py", (folder / "text/text.json").string(), folder), "5 6 7\n\n900\n1 2\n");
}

TEST(FormatsPage, AUserBlockBeforeTheSignatureIsReadPast) {
  const TemporaryFolder folder;
  std::string program = documented_program("write_dataset.py");
  const std::string open = "folder / name, \"w\"";
  program.replace(program.find(open), open.size(), open + ", userblock_size=1024");
  write_text(folder / "write.py", program);
  ASSERT_EQ(std::system((python() + " " + (folder / "write.py").string() + " " + (folder / "images").string()).c_str()),
            0);
  expect_python_agrees(folder / "images/images.json", {0, 59, 60, 99});
}

}  // namespace
}  // namespace ripieno::io::test
