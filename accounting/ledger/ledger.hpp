#pragma once

#include <cstdint>
#include <filesystem>
#include <ripieno/accounting/ledger/lines.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ripieno::ledger {

/// A segment and the step records that were found under it.
struct Segment {
  SegmentHeader header;
  std::int64_t records = 0;       ///< whole step records
  std::int64_t torn_records = 0;  ///< steps that the torn remains after them are charged as

  [[nodiscard]] std::int64_t charged() const noexcept { return records + torn_records; }
  /// The step that a record after these would have.
  [[nodiscard]] std::int64_t next_step() const noexcept { return header.first_step + records; }
};

/// What a ledger file holds, its chain verified.
struct Ledger {
  std::string name;  ///< of the file, for messages
  FileHeader header;
  std::vector<Segment> segments;
  ChainHash head{};              ///< of the last whole line
  std::int64_t whole_bytes = 0;  ///< length up to and with the last whole line
  std::int64_t torn_bytes = 0;   ///< what follows it
  std::vector<std::string> warnings;

  /// Step records of all segments, torn ones included.
  [[nodiscard]] std::int64_t charged() const noexcept;
};

/// Parses a whole ledger. DataError names `name` and the line: a hash that does not fit its line anywhere but at the
/// torn end, a step out of order or under another segment, a plan that contradicts the header. A last line that is not
/// whole is charged as a step of the last segment, with a warning; remains that are longer than a step record are
/// charged as the most steps that fit into them. One pass, about 0.5 us a step record.
[[nodiscard]] Ledger parse(std::string_view text, const std::string& name);

/// Reads and parses a file. DataError also when it cannot be read.
[[nodiscard]] Ledger read(const std::filesystem::path& path);

}  // namespace ripieno::ledger
