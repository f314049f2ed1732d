#include <ripieno/framework/random/run_secret.hpp>

#include <string.h>  // explicit_bzero
#include <sys/random.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/sha256.hpp>
#include <ripieno/accounting/base/text.hpp>

namespace ripieno {

namespace {

constexpr std::byte k_insecure_mark{0x10}, k_secure_mark{0x11};

void fill_from_entropy(void* target, std::size_t size) {
  auto* next = static_cast<std::byte*>(target);
  while (size > 0) {
    const ssize_t got = ::getrandom(next, size, 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      throw std::system_error(errno, std::generic_category(), "no entropy from the operating system");
    }
    next += got;
    size -= static_cast<std::size_t>(got);
  }
}

std::string_view as_text(const std::array<std::uint8_t, 16>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::array<std::uint8_t, 16> first_half(const Key& key) {
  std::array<std::uint8_t, 16> bytes;
  std::memcpy(bytes.data(), key.words.data(), bytes.size());
  return bytes;
}

}  // namespace

RunSecret RunSecret::from_entropy() {
  RunSecret made;
  fill_from_entropy(made.secret_.words.data(), sizeof made.secret_.words);
  fill_from_entropy(made.nonce_.data(), made.nonce_.size());
  made.secure_ = true;
  return made;
}

RunSecret RunSecret::insecure(std::uint64_t seed) {
  RunSecret made;
  made.secret_ = fold_in(ripieno::key(seed), "run secret");
  made.nonce_ = first_half(fold_in(ripieno::key(seed), "nonce", 0));
  return made;
}

RunSecret RunSecret::next_incarnation(std::uint64_t incarnation) const {
  RunSecret next = *this;
  if (secure_) {
    fill_from_entropy(next.nonce_.data(), next.nonce_.size());
  } else {
    next.nonce_ = first_half(fold_in(secret_, "nonce", incarnation));
  }
  return next;
}

RunSecret::~RunSecret() { ::explicit_bzero(nonce_.data(), nonce_.size()); }

Key RunSecret::key(std::string_view tag) const { return fold_in(secret_, as_text(nonce_), tag); }

std::string RunSecret::nonce_hash() const {
  const Sha256::Digest digest = Sha256().update("ripieno nonce").update(nonce_).finish();
  return to_hex(std::span(digest).first(16));
}

RunSecret::Serialised RunSecret::serialise() const {
  Serialised bytes;
  bytes[0] = secure_ ? k_secure_mark : k_insecure_mark;
  std::memcpy(bytes.data() + 1, secret_.words.data(), sizeof secret_.words);
  std::memcpy(bytes.data() + 1 + sizeof secret_.words, nonce_.data(), nonce_.size());
  return bytes;
}

RunSecret RunSecret::deserialise(std::span<const std::byte> bytes) {
  if (bytes.size() != k_serialised_size || (bytes[0] != k_secure_mark && bytes[0] != k_insecure_mark)) {
    throw DataError("the bytes are not a run secret", {}, "take the checkpoint of the run itself");
  }
  RunSecret made;
  made.secure_ = bytes[0] == k_secure_mark;
  std::memcpy(made.secret_.words.data(), bytes.data() + 1, sizeof made.secret_.words);
  std::memcpy(made.nonce_.data(), bytes.data() + 1 + sizeof made.secret_.words, made.nonce_.size());
  return made;
}

RunKeys make_run_keys(const RunSecret& secret) { return {secret.key("noise"), secret.key("sampling")}; }

bool exclude_from_core_dumps() noexcept {
  const rlimit none{0, 0};
  const bool limited = ::setrlimit(RLIMIT_CORE, &none) == 0;
  // A core pattern that pipes to a program ignores the limit but obeys the filter of memory kinds.
  std::FILE* filter = std::fopen("/proc/self/coredump_filter", "w");
  if (filter == nullptr) return false;
  const bool written = std::fputs("0", filter) >= 0;
  return (std::fclose(filter) == 0) && written && limited;
}

}  // namespace ripieno
