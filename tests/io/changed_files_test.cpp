// Files that change while they are in use: an error, never a signal and never other data.

#include <sys/stat.h>
#include <unistd.h>

#include <numeric>
#include <ripieno/io/page_guard.hpp>
#include <ripieno/io/shard_set.hpp>

#include "support.hpp"

namespace ripieno::io::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t k_examples = 1000;  // several pages a shard

class ChangedFiles : public ::testing::Test {
 protected:
  ChangedFiles() : set_(ShardSet::open(write_several_pages())), ids_(k_examples) {
    std::iota(ids_.begin(), ids_.end(), 0);
  }

  fs::path write_several_pages() const {
    const auto x = random_values<std::uint8_t>(k_examples * k_small_numel, 0, 255);
    return write_dataset(folder_.path(), small_spec(), bytes_of(x), random_labels(k_examples, 7));
  }

  std::vector<float> gather() const {
    std::vector<float> out(ids_.size() * k_small_numel);
    set_.gather_x(ids_, out);
    return out;
  }
  std::string change_error() const {
    return data_error([this] { set_.check_unchanged(); });
  }

  TemporaryFolder folder_;
  const fs::path shard_ = folder_ / "small-00001-of-00003.h5";
  ShardSet set_;
  std::vector<std::int64_t> ids_;
};

TEST_F(ChangedFiles, UntouchedOnesPass) { EXPECT_NO_THROW(set_.check_unchanged()); }

TEST_F(ChangedFiles, AReplacedFileIsNamedAndTheOldDataStay) {
  const std::vector<float> before = gather();
  fs::copy_file(folder_ / "small-00000-of-00003.h5", folder_ / "new.h5");
  fs::rename(folder_ / "new.h5", shard_);
  EXPECT_THAT(change_error(), AllOf(HasSubstr(shard_.string()), HasSubstr("another file has taken its place")));
  EXPECT_EQ(gather(), before);
}

TEST_F(ChangedFiles, ACutFileIsAnErrorAndNotASignal) {
  fs::resize_file(shard_, 1024);
  EXPECT_THAT(change_error(), AllOf(HasSubstr(shard_.string()), HasSubstr("1024 bytes, at the start")));
  EXPECT_THAT(data_error([this] { gather(); }), AllOf(HasSubstr(shard_.string()), HasSubstr("changed while in use")));
  std::vector<std::int64_t> labels(ids_.size());
  EXPECT_THAT(data_error([&] { set_.gather_y(ids_, labels); }), HasSubstr(shard_.string()));
  // The other shards are still readable, and so is the guard itself.
  const std::vector<std::int64_t> first{0, 1, 2};
  std::vector<float> out(3 * k_small_numel);
  EXPECT_NO_THROW(set_.gather_x(first, out));
  EXPECT_THROW(gather(), DataError);
}

TEST_F(ChangedFiles, AnExtendedFileIsNamed) {
  std::ofstream(shard_, std::ios::app | std::ios::binary) << 'x';
  EXPECT_THAT(change_error(), HasSubstr("changed while in use"));
}

TEST_F(ChangedFiles, ATouchedFileIsNamed) {
  fs::last_write_time(shard_, fs::file_time_type::clock::now() + std::chrono::seconds(5));
  EXPECT_THAT(change_error(), HasSubstr("its modification time is another"));
}

TEST_F(ChangedFiles, ARemovedFileIsNamed) {
  fs::remove(shard_);
  EXPECT_THAT(change_error(), AllOf(HasSubstr(shard_.string()), HasSubstr("changed while in use")));
}

TEST(PageGuard, LeavesForeignFaultsToThemselves) {
  EXPECT_DEATH(
      {
        install_page_guard();
        ::raise(SIGBUS);
        ::raise(SIGBUS);  // the first one puts the handler back that was there before
      },
      "");
}

}  // namespace
}  // namespace ripieno::io::test
