#pragma once
// Internal to io: includes hdf5.h.

#include <cstdint>
#include <optional>
#include <ripieno/io/hdf5_handle_internal.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ripieno::io::hdf5 {

/// Reads the attributes of one object. An absent attribute is nullopt or an empty list; one of another type, or longer
/// than anything sensible, is a DataError that names `where` and the attribute.
class AttributeReader {
 public:
  /// `object` stays open for the life of the reader.
  AttributeReader(hid_t object, std::string where) : object_(object), where_(std::move(where)) {}

  [[nodiscard]] bool has(const char* name) const;
  [[nodiscard]] std::optional<std::string> text(const char* name) const;
  [[nodiscard]] std::vector<std::string> texts(const char* name) const;
  [[nodiscard]] std::optional<std::int64_t> integer(const char* name) const;
  [[nodiscard]] std::vector<float> numbers(const char* name) const;

  /// The same, where the attribute must be there.
  [[nodiscard]] std::string required_text(const char* name) const;
  [[nodiscard]] std::int64_t required_integer(const char* name) const;

 private:
  struct Opened;
  [[nodiscard]] Opened open(const char* name, H5T_class_t wanted, const char* kind) const;
  [[noreturn]] void fail(const char* name, const std::string& why) const;

  hid_t object_;
  std::string where_;
};

/// Writers; DataError on failure. Texts are variable-length UTF-8 (h5py reads them as str), integers int64, numbers
/// float32 arrays.
void write_attribute(hid_t object, const char* name, std::string_view value);
void write_attribute(hid_t object, const char* name, std::span<const std::string> values);
void write_attribute(hid_t object, const char* name, std::int64_t value);
void write_attribute(hid_t object, const char* name, std::span<const float> values);

}  // namespace ripieno::io::hdf5
