#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <ripieno/accounting/base/json.hpp>
#include <ripieno/accounting/ledger/plan.hpp>
#include <string>
#include <string_view>

namespace ripieno::ledger {

// A ledger is a text file, one JSON object a line, each ending in `,"hash":"<32 hexadecimal digits>"}`: the first 128
// bits of SHA-256 over the hash of the line before (16 bytes; zeros before the first line) and the text of this line up
// to `,"hash"`. The first line names the data, a segment line holds the whole schedule of the steps that follow it, and
// a step line `{"seg":2,"step":1017,"hash":"..."}` stays under 80 bytes. Nothing that depends on the data is written.

using ChainHash = std::array<std::uint8_t, 16>;

/// Bytes that follow a line's text: `,"hash":"` + 32 digits + `"}`.
inline constexpr std::size_t k_hash_field_size = 9 + 32 + 2;
/// How a segment line begins, even after the remains of a torn line.
inline constexpr std::string_view k_segment_start = R"({"segment":)";

[[nodiscard]] ChainHash chain_hash(const ChainHash& previous, std::string_view text) noexcept;
/// `text` with its hash field and the newline.
[[nodiscard]] std::string seal_line(std::string_view text, const ChainHash& hash);
[[nodiscard]] std::string hash_text(const ChainHash& hash);
/// The hash that the line (without newline) states; none when it does not end in a hash field.
[[nodiscard]] std::optional<ChainHash> stated_hash(std::string_view line) noexcept;

/// First line of the file.
struct FileHeader {
  std::string dataset_id;
  std::int64_t num_examples = 0;
};

/// One uninterrupted run over one plan and one set of keys.
struct SegmentHeader {
  std::int64_t index = 0;  ///< 1 for the first
  PrivacyPlan plan;
  std::string nonce_hash;       ///< 32 hexadecimal digits that identify the run's keys
  std::int64_t first_step = 0;  ///< steps of the segment are consecutive from here
  /// Where the plan has a participation pattern: 32 hexadecimal digits, the same in all segments that go on with it.
  std::string pattern{};
  std::int64_t torn_bytes = 0;  ///< length of the torn record that this line follows on; charged as a step
  Json build;                   ///< version, build type and compiler of the writer
};

struct StepRecord {
  std::int64_t segment = 0;
  std::int64_t step = 0;

  friend bool operator==(const StepRecord&, const StepRecord&) = default;
};

/// Texts of lines, without the hash field.
[[nodiscard]] std::string header_text(const FileHeader& header);
[[nodiscard]] std::string segment_text(const SegmentHeader& segment);
[[nodiscard]] std::string step_text(const StepRecord& record);

/// Readers of such texts. The first two throw DataError, which names `where`, for a missing or contradictory field.
[[nodiscard]] FileHeader read_header(std::string_view text, const std::string& where);
[[nodiscard]] SegmentHeader read_segment(std::string_view text, const std::string& where);
/// None when the text is not exactly what `step_text` writes.
[[nodiscard]] std::optional<StepRecord> read_step(std::string_view text) noexcept;

/// Version, build type and compiler of this program.
[[nodiscard]] Json this_build();

}  // namespace ripieno::ledger
