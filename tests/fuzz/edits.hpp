#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace ripieno::fuzz {

/// What is done to a valid file. An input of the fuzzer is a byte that chooses the file and then such edits, eight
/// bytes each: small inputs that stay near validity, where the deep code is.
struct Edit {
  enum class Kind : std::uint8_t {
    set_byte,         ///< value's low byte
    set_word,         ///< value, four bytes, little-endian
    add,              ///< value, as a signed byte, to a byte
    set_interesting,  ///< eight bytes: 0, all ones, 2^31, 2^63, the file's size, …
    copy,             ///< value % 64 bytes from further on
    erase,            ///< value % 64 bytes
    insert,           ///< value % 64 bytes, copies of the one there
    truncate,         ///< the file ends here
  };
  std::uint32_t position = 0;  ///< taken modulo the file's size; 24 bits
  Kind kind = Kind::set_byte;
  std::uint32_t value = 0;
};

inline constexpr std::size_t k_edit_bytes = 8;

[[nodiscard]] std::vector<Edit> decode_edits(std::span<const std::uint8_t> bytes);
[[nodiscard]] std::vector<std::uint8_t> encode_edits(std::span<const Edit> edits);
/// The file with the edits done to it in order.
[[nodiscard]] std::string apply_edits(std::string file, std::span<const Edit> edits);
/// Adds, removes or changes one edit. Positions are mostly below `metadata_bytes`, where a file's structure is.
void mutate_edits(std::vector<Edit>& edits, std::size_t metadata_bytes, std::mt19937& random);

}  // namespace ripieno::fuzz
