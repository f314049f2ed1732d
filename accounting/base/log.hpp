#pragma once

#include <string>
#include <string_view>

namespace ripieno::log {

enum class Level { debug, info, warning, error, off };

/// Messages below this level are dropped. Default: info.
void set_level(Level level) noexcept;
[[nodiscard]] Level level() noexcept;

/// Put before each line as `[prefix] `; the MPI runtime sets "rank r host". Empty (the default) prints no brackets.
void set_prefix(std::string prefix);
/// Who speaks: the executable's name in "NAME: warning: ...". Default "ripieno".
void set_program(std::string name);
/// When true, only errors are printed: what every rank but rank 0 uses.
void set_errors_only(bool errors_only) noexcept;

/// One line on stderr, written in one piece. Thread-safe.
void debug(std::string_view text);
void info(std::string_view text);
void warning(std::string_view text);
void error(std::string_view text);

}  // namespace ripieno::log
