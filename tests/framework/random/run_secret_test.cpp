#include <ripieno/framework/random/run_secret.hpp>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <ostream>
#include <regex>

#include <ripieno/accounting/base/error.hpp>

namespace ripieno {
namespace {

template <class T>
concept Printable = requires(std::ostream& stream, const T& value) {
  stream << value;
};

TEST(RunSecret, OfEntropyIsNeverTheSameTwice) {
  const RunSecret a = RunSecret::from_entropy(), b = RunSecret::from_entropy();
  EXPECT_TRUE(a.secure());
  EXPECT_FALSE(a == b);
  EXPECT_NE(a.key("noise"), b.key("noise"));
  EXPECT_NE(a.nonce_hash(), b.nonce_hash());
}

TEST(RunSecret, OfASeedRepeatsAndSaysThatItIsNotSecure) {
  const RunSecret a = RunSecret::insecure(3), b = RunSecret::insecure(3);
  EXPECT_FALSE(a.secure());
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.key("noise"), b.key("noise"));
  EXPECT_NE(a.key("noise"), RunSecret::insecure(4).key("noise"));
  EXPECT_NE(a.nonce_hash(), RunSecret::insecure(4).nonce_hash());
}

TEST(RunSecret, GivesEveryPurposeItsOwnKey) {
  const RunSecret secret = RunSecret::insecure(3);
  const RunKeys keys = make_run_keys(secret);
  EXPECT_EQ(keys.noise, secret.key("noise"));
  EXPECT_EQ(keys.sampling, secret.key("sampling"));
  EXPECT_NE(keys.noise, keys.sampling);
}

TEST(RunSecret, ComesBackFromItsBytes) {
  for (const RunSecret& secret : {RunSecret::from_entropy(), RunSecret::insecure(9)}) {
    const RunSecret restored = RunSecret::deserialise(secret.serialise());
    EXPECT_EQ(restored, secret);
    EXPECT_EQ(restored.key("count"), secret.key("count"));
  }
}

TEST(RunSecret, RefusesBytesThatAreNoSecret) {
  RunSecret::Serialised bytes = RunSecret::insecure(9).serialise();
  EXPECT_THROW((void)RunSecret::deserialise(std::span(bytes).first(bytes.size() - 1)), DataError);
  bytes[0] = std::byte{0};
  EXPECT_THROW((void)RunSecret::deserialise(bytes), DataError);
}

TEST(RunSecret, Invariant_P4_ANewIncarnationChangesEveryKey) {
  for (const RunSecret& first : {RunSecret::from_entropy(), RunSecret::insecure(9)}) {
    const RunSecret second = first.next_incarnation(1), third = first.next_incarnation(2);
    EXPECT_EQ(second.secure(), first.secure());
    for (const char* tag : {"noise", "sampling", "count"}) {
      EXPECT_NE(first.key(tag), second.key(tag));
      EXPECT_NE(first.key(tag), third.key(tag));
      EXPECT_NE(second.key(tag), third.key(tag));
    }
    EXPECT_NE(first.nonce_hash(), second.nonce_hash());
  }
  const RunSecret secret = RunSecret::from_entropy();
  EXPECT_NE(secret.next_incarnation(1).key("noise"), secret.next_incarnation(1).key("noise"))
      << "two resumes from one checkpoint must not repeat noise";
}

TEST(RunSecret, Invariant_P3_PublishesOnlyAHashOfTheNonce) {
  static_assert(!Printable<RunSecret>);
  const RunSecret secret = RunSecret::from_entropy();
  EXPECT_TRUE(std::regex_match(secret.nonce_hash(), std::regex("[0-9a-f]{32}")));
}

TEST(RunSecret, Invariant_P3_StaysOutOfCoreDumps) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool done = exclude_from_core_dumps();
    rlimit limit{};
    ::getrlimit(RLIMIT_CORE, &limit);
    std::string filter;
    std::ifstream("/proc/self/coredump_filter") >> filter;
    ::_exit(done && limit.rlim_cur == 0 && filter.find_first_not_of('0') == std::string::npos ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace ripieno
