#include "edits.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace ripieno::fuzz {
namespace {

constexpr std::size_t k_kinds = 8;
constexpr std::size_t k_most_edits = 24;

std::uint64_t interesting(std::uint32_t which, std::uint64_t file_bytes) {
  const std::array<std::uint64_t, 12> values{0,
                                             1,
                                             ~std::uint64_t{0},
                                             std::uint64_t{1} << 31,
                                             (std::uint64_t{1} << 31) - 1,
                                             std::uint64_t{1} << 32,
                                             std::uint64_t{1} << 62,
                                             std::uint64_t{1} << 63,
                                             (std::uint64_t{1} << 63) - 1,
                                             file_bytes,
                                             file_bytes - 1,
                                             file_bytes + 1};
  return values[which % values.size()];
}

void put(std::string& file, std::size_t at, const void* data, std::size_t size) {
  std::memcpy(file.data() + at, data, std::min(size, file.size() - at));
}

void apply(std::string& file, const Edit& edit) {
  if (file.empty()) return;
  const std::size_t at = edit.position % file.size();
  const std::size_t some = std::min<std::size_t>(edit.value % 64, file.size() - at);
  switch (edit.kind) {
    case Edit::Kind::set_byte:
      file[at] = static_cast<char>(edit.value);
      break;
    case Edit::Kind::set_word:
      put(file, at, &edit.value, sizeof edit.value);
      break;
    case Edit::Kind::add:
      file[at] = static_cast<char>(file[at] + static_cast<char>(edit.value));
      break;
    case Edit::Kind::set_interesting: {
      const std::uint64_t value = interesting(edit.value, file.size());
      put(file, at, &value, sizeof value);
      break;
    }
    case Edit::Kind::copy: {
      const std::string piece = file.substr((at + edit.value) % file.size(), some);
      put(file, at, piece.data(), piece.size());
      break;
    }
    case Edit::Kind::erase:
      file.erase(at, some);
      break;
    case Edit::Kind::insert:
      file.insert(at, some, file[at]);
      break;
    case Edit::Kind::truncate:
      file.resize(at);
      break;
  }
}

Edit random_edit(std::size_t metadata_bytes, std::mt19937& random) {
  Edit edit;
  const bool anywhere = random() % 8 == 0;
  edit.position = static_cast<std::uint32_t>(anywhere ? random() : random() % metadata_bytes) & 0xffffffu;
  // Cuts and shifts make most of a file unreadable at once: they are rare.
  edit.kind = static_cast<Edit::Kind>(random() % 10 == 0 ? random() % k_kinds : random() % 4);
  edit.value = static_cast<std::uint32_t>(random() % 4 == 0 ? random() : random() % 256);
  return edit;
}

}  // namespace

std::vector<Edit> decode_edits(std::span<const std::uint8_t> bytes) {
  std::vector<Edit> edits;
  for (; bytes.size() >= k_edit_bytes && edits.size() < k_most_edits; bytes = bytes.subspan(k_edit_bytes)) {
    Edit edit;
    edit.position = bytes[0] | static_cast<std::uint32_t>(bytes[1]) << 8 | static_cast<std::uint32_t>(bytes[2]) << 16;
    edit.kind = static_cast<Edit::Kind>(bytes[3] % k_kinds);
    std::memcpy(&edit.value, bytes.data() + 4, sizeof edit.value);
    edits.push_back(edit);
  }
  return edits;
}

std::vector<std::uint8_t> encode_edits(std::span<const Edit> edits) {
  std::vector<std::uint8_t> bytes;
  for (const Edit& edit : edits) {
    for (int shift = 0; shift < 24; shift += 8) bytes.push_back(static_cast<std::uint8_t>(edit.position >> shift));
    bytes.push_back(static_cast<std::uint8_t>(edit.kind));
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<std::uint8_t>(edit.value >> shift));
  }
  return bytes;
}

std::string apply_edits(std::string file, std::span<const Edit> edits) {
  for (const Edit& edit : edits) apply(file, edit);
  return file;
}

void mutate_edits(std::vector<Edit>& edits, std::size_t metadata_bytes, std::mt19937& random) {
  const std::size_t choice = random() % 8;
  if (edits.empty() || (choice < 4 && edits.size() < k_most_edits)) {
    edits.push_back(random_edit(metadata_bytes, random));
    return;
  }
  Edit& edit = edits[random() % edits.size()];
  if (choice == 4) {
    edits.erase(edits.begin() + static_cast<std::ptrdiff_t>(&edit - edits.data()));
  } else if (choice == 5) {
    edit.position = (edit.position + random() % 17 + 0xfffff8u) & 0xffffffu;
  } else if (choice == 6) {
    edit.value = static_cast<std::uint32_t>(random() % 16);
  } else {
    edit = random_edit(metadata_bytes, random);
  }
}

}  // namespace ripieno::fuzz
