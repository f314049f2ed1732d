#include <ripieno/accounting/cli/value.hpp>

#include <algorithm>
#include <charconv>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>

namespace ripieno::cli {
namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& text, const std::string& wanted) {
  throw UsageError(name + " is '" + text + "'", "must be " + wanted);
}

template <class T>
void read_number(const std::string& name, const std::string& text, T& out, const char* wanted) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  if (text.starts_with('+')) ++begin;
  const auto [stop, error] = std::from_chars(begin, end, out);
  if (error == std::errc::result_out_of_range) refuse(name, text, std::string(wanted) + " that fits its type");
  if (error != std::errc{} || stop != end) refuse(name, text, wanted);
}

}  // namespace

void read_value(const std::string& name, const std::string& text, bool& out) {
  if (text == "true" || text == "yes" || text == "on" || text == "1") {
    out = true;
  } else if (text == "false" || text == "no" || text == "off" || text == "0") {
    out = false;
  } else {
    refuse(name, text, "true or false");
  }
}

void read_value(const std::string& name, const std::string& text, int& out) {
  read_number(name, text, out, "an integer");
}
void read_value(const std::string& name, const std::string& text, std::int64_t& out) {
  read_number(name, text, out, "an integer");
}
void read_value(const std::string& name, const std::string& text, std::uint64_t& out) {
  read_number(name, text, out, "a non-negative integer");
}
void read_value(const std::string& name, const std::string& text, double& out) {
  read_number(name, text, out, "a number");
}
void read_value(const std::string&, const std::string& text, std::string& out) { out = text; }
void read_value(const std::string&, const std::string& text, std::filesystem::path& out) { out = text; }

std::string value_text(bool value) { return value ? "true" : "false"; }
std::string value_text(int value) { return std::to_string(value); }
std::string value_text(std::int64_t value) { return std::to_string(value); }
std::string value_text(std::uint64_t value) { return std::to_string(value); }
std::string value_text(double value) { return format_double(value); }
std::string value_text(const std::string& value) { return value; }
std::string value_text(const std::filesystem::path& value) { return value.string(); }

Value bind_choice(std::string& target, std::vector<std::string> choices) {
  Value value = bind_value(target);
  value.read = [&target, choices = std::move(choices)](const std::string& name, const std::string& text) {
    if (std::ranges::find(choices, text) == choices.end()) refuse(name, text, "one of " + join(choices));
    target = text;
  };
  return value;
}

}  // namespace ripieno::cli
