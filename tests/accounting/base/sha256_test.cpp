#include <gtest/gtest.h>

#include <ripieno/accounting/base/sha256.hpp>
#include <ripieno/accounting/base/sha256_compress.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <string>
#include <vector>

namespace ripieno {
namespace {

std::string hash_of(std::string_view text) { return to_hex(sha256(text)); }

std::vector<std::uint8_t> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

// FIPS 180-4 and the example values of NIST.
TEST(Sha256, MatchesThePublishedVectors) {
  EXPECT_EQ(hash_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash_of(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnHowTheTextIsCut) {
  std::string text;
  for (int i = 0; i < 300; ++i) text.push_back(static_cast<char>(i * 7));
  for (std::size_t length = 0; length <= text.size(); ++length) {
    const std::string_view whole = std::string_view(text).substr(0, length);
    Sha256 in_pieces;
    for (std::size_t at = 0; at < length; at += 1 + at % 67) in_pieces.update(whole.substr(at, 1 + at % 67));
    ASSERT_EQ(in_pieces.finish(), sha256(whole)) << length;
  }
}

// RFC 4231, cases 1, 2, 3 and 6.
TEST(HmacSha256, MatchesThePublishedVectors) {
  const auto hmac = [](const std::vector<std::uint8_t>& key, const std::vector<std::uint8_t>& message) {
    return to_hex(hmac_sha256(key, message));
  };
  EXPECT_EQ(hmac(std::vector<std::uint8_t>(20, 0x0b), bytes_of("Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hmac(bytes_of("Jefe"), bytes_of("what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hmac(std::vector<std::uint8_t>(20, 0xaa), std::vector<std::uint8_t>(50, 0xdd)),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  EXPECT_EQ(
      hmac(std::vector<std::uint8_t>(131, 0xaa), bytes_of("Test Using Larger Than Block-Size Key - Hash Key First")),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Sha256, TheProcessorsInstructionsDoWhatThePortableCodeDoes) {
  using namespace sha256_detail;
  if (!has_instructions()) GTEST_SKIP() << "this processor has none";
  std::vector<std::uint8_t> blocks(64 * 5);
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<std::uint8_t>(i * i + 7 * i);
  State portable{1, 2, 3, 0x80000000, 0xffffffff, 6, 7, 8};
  State fast = portable;
  compress_portable(portable, blocks.data(), 5);
  compress_with_instructions(fast, blocks.data(), 5);
  EXPECT_EQ(fast, portable);
}

}  // namespace
}  // namespace ripieno
