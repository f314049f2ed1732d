#include <algorithm>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/io/hdf5_attributes_internal.hpp>

namespace ripieno::io::hdf5 {
namespace {

// Far above any list of class names or channels, and small enough to allocate for a file that lies.
constexpr hssize_t k_max_elements = 1 << 16;
constexpr std::size_t k_max_text_bytes = 1 << 16;

Type utf8_type(std::size_t size) {
  Type type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.get(), size);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  return type;
}

void write(hid_t object, const char* name, hid_t stored, hid_t memory, const Space& space, const void* data) {
  const Attribute attribute(H5Acreate2(object, name, stored, space.get(), H5P_DEFAULT, H5P_DEFAULT));
  if (!attribute || H5Awrite(attribute.get(), memory, data) < 0) {
    throw DataError(std::string("cannot write attribute '") + name + "'", last_error());
  }
}

Space list_space(std::size_t count) {
  const hsize_t dims[] = {count};
  return Space(H5Screate_simple(1, dims, nullptr));
}

}  // namespace

struct AttributeReader::Opened {
  Attribute attribute;
  Type type;
  std::size_t count = 0;
};

void AttributeReader::fail(const char* name, const std::string& why) const {
  throw DataError(where_ + ": attribute '" + name + "' is unusable", why);
}

bool AttributeReader::has(const char* name) const {
  const htri_t exists = H5Aexists(object_, name);
  if (exists < 0) throw DataError(where_ + ": corrupt metadata", last_error(), "copy or import the file again");
  return exists > 0;
}

AttributeReader::Opened AttributeReader::open(const char* name, H5T_class_t wanted, const char* kind) const {
  Opened opened{Attribute(H5Aopen(object_, name, H5P_DEFAULT)), {}, 0};
  if (!opened.attribute) fail(name, last_error());
  opened.type = Type(H5Aget_type(opened.attribute.get()));
  const Space space(H5Aget_space(opened.attribute.get()));
  const hssize_t count = space ? H5Sget_simple_extent_npoints(space.get()) : -1;
  if (!opened.type || count < 0) fail(name, last_error());
  if (H5Tget_class(opened.type.get()) != wanted) fail(name, std::string("it is not ") + kind);
  if (count > k_max_elements) fail(name, "it has " + std::to_string(count) + " elements");
  opened.count = static_cast<std::size_t>(count);
  return opened;
}

std::vector<std::string> AttributeReader::texts(const char* name) const {
  if (!has(name)) return {};
  const Opened opened = open(name, H5T_STRING, "text");
  std::vector<std::string> texts(opened.count);
  if (opened.count == 0) return texts;
  if (H5Tis_variable_str(opened.type.get()) > 0) {
    std::vector<char*> pointers(opened.count, nullptr);
    const Type memory = utf8_type(H5T_VARIABLE);
    H5Tset_cset(memory.get(), H5Tget_cset(opened.type.get()));
    if (H5Aread(opened.attribute.get(), memory.get(), static_cast<void*>(pointers.data())) < 0) {
      fail(name, last_error());
    }
    for (std::size_t i = 0; i < pointers.size(); ++i) {
      if (pointers[i] == nullptr) continue;
      texts[i] = pointers[i];
      H5free_memory(pointers[i]);
    }
    return texts;
  }
  const std::size_t size = H5Tget_size(opened.type.get());
  if (size == 0 || size > k_max_text_bytes) fail(name, "a text of " + std::to_string(size) + " bytes");
  std::vector<char> buffer(size * opened.count);
  if (H5Aread(opened.attribute.get(), opened.type.get(), buffer.data()) < 0) fail(name, last_error());
  for (std::size_t i = 0; i < opened.count; ++i) {
    const char* const begin = buffer.data() + i * size;
    texts[i].assign(begin, std::find(begin, begin + size, '\0'));
  }
  return texts;
}

std::optional<std::string> AttributeReader::text(const char* name) const {
  if (!has(name)) return std::nullopt;
  std::vector<std::string> values = texts(name);
  if (values.size() != 1) fail(name, "one text is expected");
  return std::move(values.front());
}

std::optional<std::int64_t> AttributeReader::integer(const char* name) const {
  if (!has(name)) return std::nullopt;
  const Opened opened = open(name, H5T_INTEGER, "an integer");
  if (opened.count != 1) fail(name, "one integer is expected");
  std::int64_t value = 0;
  if (H5Aread(opened.attribute.get(), H5T_NATIVE_INT64, &value) < 0) fail(name, last_error());
  return value;
}

std::vector<float> AttributeReader::numbers(const char* name) const {
  if (!has(name)) return {};
  const Opened opened = open(name, H5T_FLOAT, "a floating-point number");
  std::vector<float> values(opened.count);
  if (opened.count != 0 && H5Aread(opened.attribute.get(), H5T_NATIVE_FLOAT, values.data()) < 0) {
    fail(name, last_error());
  }
  return values;
}

std::string AttributeReader::required_text(const char* name) const {
  std::optional<std::string> value = text(name);
  if (!value) fail(name, "missing");
  return *std::move(value);
}

std::int64_t AttributeReader::required_integer(const char* name) const {
  const std::optional<std::int64_t> value = integer(name);
  if (!value) fail(name, "missing");
  return *value;
}

void write_attribute(hid_t object, const char* name, std::string_view value) {
  const std::string terminated(value);
  const char* const pointer = terminated.c_str();
  const Type type = utf8_type(H5T_VARIABLE);
  write(object, name, type.get(), type.get(), Space(H5Screate(H5S_SCALAR)), static_cast<const void*>(&pointer));
}

void write_attribute(hid_t object, const char* name, std::span<const std::string> values) {
  std::vector<const char*> pointers;
  for (const std::string& value : values) pointers.push_back(value.c_str());
  const Type type = utf8_type(H5T_VARIABLE);
  write(object, name, type.get(), type.get(), list_space(values.size()), static_cast<const void*>(pointers.data()));
}

void write_attribute(hid_t object, const char* name, std::int64_t value) {
  write(object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, Space(H5Screate(H5S_SCALAR)), &value);
}

void write_attribute(hid_t object, const char* name, std::span<const float> values) {
  write(object, name, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, list_space(values.size()), values.data());
}

}  // namespace ripieno::io::hdf5
