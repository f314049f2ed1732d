#include <algorithm>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/training/argument_reader.hpp>

namespace ripieno {

ArgumentReader::ArgumentReader(std::string option, std::string owner,
                               const std::map<std::string, std::string>& arguments)
    : option_(std::move(option)), owner_(std::move(owner)), arguments_(arguments) {}

const std::string* ArgumentReader::given(const std::string& key) {
  if (std::ranges::find(known_, key) == known_.end()) known_.push_back(key);
  const auto found = arguments_.find(key);
  return found == arguments_.end() ? nullptr : &found->second;
}

void ArgumentReader::refuse_missing(const std::string& key) const {
  throw UsageError(owner_ + " needs " + option_ + " " + key + "=...");
}

void ArgumentReader::finish() const {
  for (const auto& [key, value] : arguments_) {
    if (std::ranges::find(known_, key) != known_.end()) continue;
    const std::string guess = nearest(key, known_);
    throw UsageError(owner_ + " has no argument '" + key + "'",
                     known_.empty() ? "it takes none" : "it takes " + join(known_),
                     guess.empty() ? "" : "did you mean '" + guess + "'?");
  }
}

}  // namespace ripieno
