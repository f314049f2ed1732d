#include <ripieno/framework/random/key.hpp>

#include <gtest/gtest.h>

#include <ostream>
#include <set>
#include <string>

#include <ripieno/accounting/base/text.hpp>

namespace ripieno {
namespace {

std::string hex_of(const Key& key) {
  std::vector<std::uint8_t> bytes;
  for (const std::uint32_t word : key.words) {
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<std::uint8_t>(word >> shift));
  }
  return to_hex(bytes);
}

template <class T>
concept Foldable = requires(const Key& key, T value) {
  fold_in(key, value);
};
template <class T>
concept Printable = requires(std::ostream& stream, const T& value) {
  stream << value;
};

// The expected digits come from Python's hmac and hashlib: the message of an integer is 'i' and 16 bytes of two's
// complement, little end first, that of a string 's' and its bytes.
TEST(Key, FoldsValuesByHmac) {
  EXPECT_EQ(hex_of(fold_in(Key{}, "noise", 7, -1)), "a81471c0dd20e8cea58967295526b3420c15ebdf6bfee7e3d950888a3d6f2111");
}

TEST(Key, OfASeedIsPinned) {
  EXPECT_EQ(hex_of(key(5)), "edadeafffc30609d916ba81b953ad93193c1d245a936e6dd7b789005177e580f");
}

TEST(Key, FingerprintIsPinnedAndDiffersFromTheKey) {
  const Key folded = fold_in(Key{}, "noise");
  EXPECT_EQ(fingerprint(folded), 0xf33646d57d901c88);
  EXPECT_NE(static_cast<std::uint32_t>(fingerprint(folded)), folded.words[0]);
}

TEST(Key, AnIntegerCountsByValueAndNotByType) {
  const Key base = key(1);
  EXPECT_EQ(fold_in(base, 7), fold_in(base, std::uint8_t{7}));
  EXPECT_EQ(fold_in(base, 7), fold_in(base, std::uint64_t{7}));
  EXPECT_NE(fold_in(base, -1), fold_in(base, ~std::uint64_t{0}));
  EXPECT_EQ(fold_in(base, std::string("tag")), fold_in(base, "tag"));
}

TEST(Key, DifferentSequencesGiveDifferentKeys) {
  const Key base = key(1);
  const Key keys[] = {base,
                      fold_in(base, 0),
                      fold_in(base, 1),
                      fold_in(base, -1),
                      fold_in(base, "0"),
                      fold_in(base, ""),
                      fold_in(base, "ab"),
                      fold_in(base, "a", "b"),
                      fold_in(base, "b", "a"),
                      fold_in(base, 0, 0),
                      fold_in(base, 0, 1),
                      fold_in(base, 1, 0),
                      key(0),
                      key(2)};
  std::set<std::string> distinct;
  std::set<std::uint64_t> prints;
  for (const Key& each : keys) {
    distinct.insert(hex_of(each));
    prints.insert(fingerprint(each));
  }
  EXPECT_EQ(distinct.size(), std::size(keys));
  EXPECT_EQ(prints.size(), std::size(keys));
}

TEST(Key, RefusesDataOfUnclearEncodingAtCompileTime) {
  static_assert(Foldable<int> && Foldable<std::uint64_t> && Foldable<const char*> && Foldable<std::string>);
  static_assert(!Foldable<bool> && !Foldable<float> && !Foldable<double> && !Foldable<char> &&
                !Foldable<std::nullptr_t>);
}

TEST(Key, Invariant_P3_CannotBePrinted) { static_assert(!Printable<Key>); }

TEST(Key, Invariant_P3_IsWipedOnDestruction) {
  alignas(Key) unsigned char storage[sizeof(Key)];
  Key* made = new (storage) Key(key(1));
  ASSERT_NE(made->words[0], 0u);
  made->~Key();
  for (const unsigned char byte : storage) EXPECT_EQ(byte, 0);
}

}  // namespace
}  // namespace ripieno
