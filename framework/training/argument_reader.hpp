#pragma once

#include <map>
#include <optional>
#include <ripieno/accounting/cli/value.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ripieno {

/// KEY=VALUE arguments of one thing that an option names. Each is taken by name; what nobody took is an error.
class ArgumentReader {
 public:
  /// `option`: "--optimizer-arg"; `owner`: "--optimizer adam". `arguments` outlives this.
  ArgumentReader(std::string option, std::string owner, const std::map<std::string, std::string>& arguments);

  /// Into `target`, where the argument is given. UsageError for a value that cannot be read.
  template <class T>
  ArgumentReader& take(const std::string& key, T& target) {
    if (const std::string* const text = given(key)) cli::read_value(option_ + " " + key, *text, target);
    return *this;
  }
  template <class T>
  ArgumentReader& take(const std::string& key, std::optional<T>& target) {
    if (const std::string* const text = given(key)) cli::read_value(option_ + " " + key, *text, target.emplace());
    return *this;
  }
  template <class T>
  [[nodiscard]] T value(const std::string& key, T otherwise) {
    take(key, otherwise);
    return otherwise;
  }
  /// UsageError where the argument is not given.
  template <class T>
  [[nodiscard]] T required(const std::string& key) {
    if (given(key) == nullptr) refuse_missing(key);
    return value<T>(key, {});
  }

  /// UsageError for an argument that nobody took, with the nearest that somebody did.
  void finish() const;

 private:
  /// The text of an argument, which is known from now on; null where it is not given.
  const std::string* given(const std::string& key);
  [[noreturn]] void refuse_missing(const std::string& key) const;

  std::string option_, owner_;
  const std::map<std::string, std::string>& arguments_;
  std::vector<std::string> known_;  // in the order in which they were taken
};

}  // namespace ripieno
