#pragma once

#include <cstdint>
#include <ripieno/accounting/base/host_device.hpp>

namespace ripieno::chacha {

/// One 32-bit lane. A vector policy has the same members over a vector type.
struct ScalarLane {
  using Word = std::uint32_t;
  static RIPIENO_HOST_DEVICE Word splat(std::uint32_t x) { return x; }
  template <int n>
  static RIPIENO_HOST_DEVICE Word rotate_left(Word x) {
    return (x << n) | (x >> (32 - n));
  }
};

template <class Lane, int a, int b, int c, int d>
RIPIENO_HOST_DEVICE void quarter_round(typename Lane::Word (&x)[16]) {
  x[a] += x[b];
  x[d] = Lane::template rotate_left<16>(x[d] ^ x[a]);
  x[c] += x[d];
  x[b] = Lane::template rotate_left<12>(x[b] ^ x[c]);
  x[a] += x[b];
  x[d] = Lane::template rotate_left<8>(x[d] ^ x[a]);
  x[c] += x[d];
  x[b] = Lane::template rotate_left<7>(x[b] ^ x[c]);
}

/// The ChaCha20 block function (RFC 8439, section 2.3) on one block per lane: words 12 to 15 of the state are
/// `counter_low`, `counter_high`, `nonce_low`, `nonce_high`. `between_rounds(i)` is called before double round i, so
/// that a caller may overlap other work.
template <class Lane, class Work>
RIPIENO_HOST_DEVICE void block(const std::uint32_t (&key)[8], typename Lane::Word counter_low,
                               typename Lane::Word counter_high, std::uint32_t nonce_low, std::uint32_t nonce_high,
                               typename Lane::Word (&x)[16], Work between_rounds) {
  const std::uint32_t sigma[4] = {0x61707865u, 0x3320646eu, 0x79622d32u, 0x6b206574u};
  RIPIENO_UNROLL
  for (int i = 0; i < 4; ++i) x[i] = Lane::splat(sigma[i]);
  RIPIENO_UNROLL
  for (int i = 0; i < 8; ++i) x[4 + i] = Lane::splat(key[i]);
  x[12] = counter_low;
  x[13] = counter_high;
  x[14] = Lane::splat(nonce_low);
  x[15] = Lane::splat(nonce_high);
  RIPIENO_NO_UNROLL
  for (int i = 0; i < 10; ++i) {
    between_rounds(i);
    quarter_round<Lane, 0, 4, 8, 12>(x);
    quarter_round<Lane, 1, 5, 9, 13>(x);
    quarter_round<Lane, 2, 6, 10, 14>(x);
    quarter_round<Lane, 3, 7, 11, 15>(x);
    quarter_round<Lane, 0, 5, 10, 15>(x);
    quarter_round<Lane, 1, 6, 11, 12>(x);
    quarter_round<Lane, 2, 7, 8, 13>(x);
    quarter_round<Lane, 3, 4, 9, 14>(x);
  }
  RIPIENO_UNROLL
  for (int i = 0; i < 4; ++i) x[i] += Lane::splat(sigma[i]);
  RIPIENO_UNROLL
  for (int i = 0; i < 8; ++i) x[4 + i] += Lane::splat(key[i]);
  x[12] += counter_low;
  x[13] += counter_high;
  x[14] += Lane::splat(nonce_low);
  x[15] += Lane::splat(nonce_high);
}

/// One block, one lane. `counter` fills state words 12 and 13, `nonce` words 14 and 15, low word first.
RIPIENO_HOST_DEVICE void block(const std::uint32_t (&key)[8], std::uint64_t counter, std::uint64_t nonce,
                               std::uint32_t (&out)[16]) {
  block<ScalarLane>(key, static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32),
                    static_cast<std::uint32_t>(nonce), static_cast<std::uint32_t>(nonce >> 32), out, [](int) {});
}

}  // namespace ripieno::chacha
