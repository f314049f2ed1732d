#include <ripieno/framework/models/arguments.hpp>

#include <algorithm>
#include <charconv>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <sstream>
#include <system_error>

namespace ripieno::models {
namespace {

constexpr std::int64_t k_largest_size = std::int64_t{1} << 24;

std::string suggestion(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string guess = nearest(word, candidates);
  return guess.empty() ? "" : "did you mean '" + guess + "'?";
}

bool parse_size(const std::string& text, std::int64_t& size) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, size);
  return error == std::errc() && stop == end && size >= 1 && size <= k_largest_size;
}

}  // namespace

Arguments::Arguments(const ModelSpec& spec, const std::vector<std::string>& known) : spec_(spec) {
  for (const auto& [name, unused] : spec.args) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw UsageError("model " + spec.name + " has no argument '" + name + "'",
                     known.empty() ? "it takes none" : "it takes " + join(known), suggestion(name, known));
  }
}

std::string Arguments::value(std::string_view name, const std::string& default_value) const {
  const auto found = spec_.args.find(std::string(name));
  return found == spec_.args.end() ? default_value : found->second;
}

std::string Arguments::choice(std::string_view name, const std::vector<std::string>& choices) const {
  std::string chosen = value(name, choices.front());
  if (std::find(choices.begin(), choices.end(), chosen) == choices.end()) {
    throw UsageError("model " + spec_.name + " cannot take " + std::string(name) + "=" + chosen,
                     std::string(name) + " is one of " + join(choices), suggestion(chosen, choices));
  }
  return chosen;
}

bool Arguments::flag(std::string_view name, bool default_value) const {
  return choice(name, default_value ? std::vector<std::string>{"true", "false"}
                                    : std::vector<std::string>{"false", "true"}) == "true";
}

std::int64_t Arguments::size(std::string_view name, std::int64_t default_value) const {
  const std::string text = value(name, std::to_string(default_value));
  std::int64_t size = 0;
  if (!parse_size(text, size)) {
    throw UsageError("model " + spec_.name + " cannot take " + std::string(name) + "=" + text,
                     "it must be a whole number from 1 to " + std::to_string(k_largest_size));
  }
  return size;
}

std::vector<std::int64_t> Arguments::sizes(std::string_view name, const std::string& default_value) const {
  const std::string text = value(name, default_value);
  std::vector<std::int64_t> sizes;
  std::istringstream list(text + ",");
  for (std::string entry; std::getline(list, entry, ',');) {
    std::int64_t size = 0;
    if (!parse_size(entry, size)) {
      throw UsageError("model " + spec_.name + " cannot take " + std::string(name) + "=" + text,
                       "it must be whole numbers from 1 to " + std::to_string(k_largest_size) + " with commas between",
                       "as in " + std::string(name) + "=" + default_value);
    }
    sizes.push_back(size);
  }
  return sizes;
}

}  // namespace ripieno::models
