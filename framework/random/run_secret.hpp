#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <ripieno/framework/random/key.hpp>

namespace ripieno {

/// The secret behind every random draw of a run (invariant P3): 256 bits, and the 128-bit nonce of this incarnation of
/// the run. Wiped when it goes out of scope; there is no way to print one. Whoever holds it can undo the privacy of the
/// run, so it travels only over MPI and in files of mode 0600.
class RunSecret {
 public:
  static constexpr std::size_t k_serialised_size = 1 + 32 + 16;
  using Serialised = std::array<std::byte, k_serialised_size>;

  /// Secret and nonce from the operating system's entropy. Throws std::system_error where there is none.
  [[nodiscard]] static RunSecret from_entropy();
  /// Secret and nonce of a public number, so that a test repeats bit by bit. The run is not private.
  [[nodiscard]] static RunSecret insecure(std::uint64_t seed);
  /// Inverse of `serialise`. Throws DataError when the bytes are not a secret.
  [[nodiscard]] static RunSecret deserialise(std::span<const std::byte> bytes);

  RunSecret(const RunSecret&) = default;
  RunSecret& operator=(const RunSecret&) = default;
  ~RunSecret();

  /// The same secret with a fresh nonce, for a resume that may repeat steps (invariant P4): every key changes.
  /// `incarnation` counts the ledger segments before this one; an insecure secret takes its new nonce from it, a secure
  /// one from entropy. Throws as `from_entropy`.
  [[nodiscard]] RunSecret next_incarnation(std::uint64_t incarnation) const;

  /// False for a secret made of a seed: the ledger says so and no guarantee is claimed.
  [[nodiscard]] bool secure() const { return secure_; }
  /// Key of one purpose in this incarnation: "noise", "sampling", ...
  [[nodiscard]] Key key(std::string_view tag) const;
  /// 32 hexadecimal digits that name the incarnation; may be published.
  [[nodiscard]] std::string nonce_hash() const;
  /// The bytes to send or store. The caller keeps them as secret as this object and wipes them.
  [[nodiscard]] Serialised serialise() const;

  friend bool operator==(const RunSecret&, const RunSecret&) = default;

 private:
  RunSecret() = default;

  Key secret_;
  std::array<std::uint8_t, 16> nonce_{};
  bool secure_ = false;
};

/// The two keys that a training loop needs; `auto [noise_key, sampling_key] = runtime.run_keys()`.
struct RunKeys {
  Key noise;
  Key sampling;
};
[[nodiscard]] RunKeys make_run_keys(const RunSecret& secret);

/// Keeps this process's memory and registers out of core dumps, which would hold keys (invariant P3). Returns false
/// where the system does not allow it. Debuggers and the cross-memory transport of MPI still work.
bool exclude_from_core_dumps() noexcept;

}  // namespace ripieno
