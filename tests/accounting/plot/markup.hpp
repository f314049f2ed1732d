#pragma once

#include <stack>
#include <string>

namespace ripieno::plot {

/// Whether every element of an SVG or HTML text that is opened is closed, in order; `meta` and `!DOCTYPE` have no end.
inline bool is_well_formed(const std::string& text) {
  std::stack<std::string> open;
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    const std::size_t end = text.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = text.substr(at + 1, end - at - 1);
    if (tag.back() == '/' || tag.starts_with("meta ") || tag.starts_with("!DOCTYPE")) continue;
    if (tag.front() != '/') {
      open.push(tag.substr(0, tag.find(' ')));
    } else if (open.empty() || open.top() != tag.substr(1)) {
      return false;
    } else {
      open.pop();
    }
  }
  return open.empty();
}

}  // namespace ripieno::plot
