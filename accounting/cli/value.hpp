#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ripieno::cli {

/// A variable that texts are read into: what an option writes to.
struct Value {
  /// Reads one text. UsageError, which begins with `name`, when it is no such value.
  std::function<void(const std::string& name, const std::string& text)> read;
  /// Empties a list before its first text; nothing otherwise.
  std::function<void()> clear;
  /// The texts that would give the present value: none for an unset optional, one a list element.
  std::function<std::vector<std::string>()> texts;
  bool is_flag = false;  ///< `--name` alone means true
  bool is_list = false;  ///< may be given several times
};

/// Readers of single values.
void read_value(const std::string& name, const std::string& text, bool& out);
void read_value(const std::string& name, const std::string& text, int& out);
void read_value(const std::string& name, const std::string& text, std::int64_t& out);
void read_value(const std::string& name, const std::string& text, std::uint64_t& out);
void read_value(const std::string& name, const std::string& text, double& out);
void read_value(const std::string& name, const std::string& text, std::string& out);
void read_value(const std::string& name, const std::string& text, std::filesystem::path& out);

/// Their inverse.
[[nodiscard]] std::string value_text(bool value);
[[nodiscard]] std::string value_text(int value);
[[nodiscard]] std::string value_text(std::int64_t value);
[[nodiscard]] std::string value_text(std::uint64_t value);
[[nodiscard]] std::string value_text(double value);
[[nodiscard]] std::string value_text(const std::string& value);
[[nodiscard]] std::string value_text(const std::filesystem::path& value);

/// `target` must outlive the result; its present content is the default.
template <class T>
[[nodiscard]] Value bind_value(T& target) {
  return {.read = [&target](const std::string& name, const std::string& text) { read_value(name, text, target); },
          .clear = [] {},
          .texts = [&target] { return std::vector{value_text(target)}; },
          .is_flag = std::is_same_v<T, bool>};
}

template <class T>
[[nodiscard]] Value bind_value(std::optional<T>& target) {
  return {.read =
              [&target](const std::string& name, const std::string& text) {
                T value{};
                read_value(name, text, value);
                target = value;
              },
          .clear = [] {},
          .texts = [&target] { return target ? std::vector{value_text(*target)} : std::vector<std::string>{}; }};
}

template <class T>
[[nodiscard]] Value bind_value(std::vector<T>& target) {
  return {.read =
              [&target](const std::string& name, const std::string& text) {
                T value{};
                read_value(name, text, value);
                target.push_back(value);
              },
          .clear = [&target] { target.clear(); },
          .texts =
              [&target] {
                std::vector<std::string> texts;
                for (const T& value : target) texts.push_back(value_text(value));
                return texts;
              },
          .is_list = true};
}

/// One of `choices`, anything else is a UsageError that lists them.
[[nodiscard]] Value bind_choice(std::string& target, std::vector<std::string> choices);

}  // namespace ripieno::cli
