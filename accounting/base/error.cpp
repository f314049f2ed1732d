#include <ripieno/accounting/base/error.hpp>

namespace ripieno {
namespace {

std::string sentence(std::string_view what, std::string_view why, std::string_view advice) {
  std::string text(what);
  if (!why.empty()) text.append(" (").append(why).append(")");
  if (!advice.empty()) text.append("; ").append(advice);
  return text;
}

}  // namespace

Error::Error(ExitCode code, std::string_view what, std::string_view why, std::string_view advice)
    : std::runtime_error(sentence(what, why, advice)), code_(code) {}

}  // namespace ripieno
