#include <fstream>
#include <iterator>
#include <numeric>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/ledger/ledger.hpp>

namespace ripieno::ledger {
namespace {

// More than one line ever holds, that of a segment with a matrix of 1024 rows included.
constexpr std::size_t k_longest_torn_remains = 1 << 24;

class Parser {
 public:
  Parser(std::string_view text, const std::string& name) : text_(text) { ledger_.name = name; }

  Ledger run() {
    while (position_ < text_.size() && take_line()) {
    }
    ledger_.whole_bytes = static_cast<std::int64_t>(position_);
    if (position_ < text_.size()) take_torn_end();
    if (line_number_ == 0) fail("no ledger header", "the file is empty or torn inside its first line");
    return std::move(ledger_);
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& why, const std::string& advice = {}) const {
    throw DataError(place() + ": " + what, why, advice);
  }

  std::string place() const { return ledger_.name + " line " + std::to_string(line_number_ + 1); }

  /// Reads the line, or the torn remains and the segment line that follows on them, at `position_`. False at a torn
  /// end.
  bool take_line() {
    const std::size_t end = text_.find('\n', position_);
    if (end == std::string_view::npos) return false;
    if (verified(end)) {
      accept(end);
      return true;
    }
    return take_line_after_torn_remains(end);
  }

  /// Whether the bytes from `position_` to `end` carry the right hash at their end.
  bool verified(std::size_t end) const {
    const std::string_view line = text_.substr(position_, end - position_);
    const auto stated = stated_hash(line);
    return stated && *stated == chain_hash(ledger_.head, line.substr(0, line.size() - k_hash_field_size));
  }

  /// A writer that found a torn end left it in place; the hash of its segment line covers both.
  bool take_line_after_torn_remains(std::size_t first_end) {
    std::size_t begin = first_end + 1;
    for (std::size_t end = text_.find('\n', begin);
         end != std::string_view::npos && end - position_ <= k_longest_torn_remains; end = text_.find('\n', begin)) {
      if (text_.substr(begin, end - begin).find(k_segment_start) != std::string_view::npos && verified(end)) {
        accept(end);
        return true;
      }
      begin = end + 1;
    }
    if (first_end + 1 == text_.size()) return false;  // a last line that is terminated and yet broken
    fail("the chain of hashes is broken", "this line or one before it was changed, removed or written twice",
         "restore the file from a copy; steps that it no longer proves must be counted as released");
  }

  void accept(std::size_t end) {
    const std::string_view line = text_.substr(position_, end - position_);
    const std::string_view content = line.substr(0, line.size() - k_hash_field_size);
    if (line_number_ == 0) {
      ledger_.header = read_header(content, place());
    } else if (const auto step = read_step(content)) {
      accept_step(*step);
    } else {
      accept_segment(content);
    }
    ledger_.head = *stated_hash(line);
    position_ = end + 1;
    ++line_number_;
  }

  void accept_step(const StepRecord& record) {
    if (ledger_.segments.empty()) fail("a step before any segment", "its schedule is unknown");
    Segment& segment = ledger_.segments.back();
    if (record.segment != segment.header.index) {
      fail("a step of segment " + std::to_string(record.segment),
           "segment " + std::to_string(segment.header.index) + " is open");
    }
    if (record.step != segment.next_step()) {
      fail("step " + std::to_string(record.step) + " is out of order or written twice",
           "the next step of segment " + std::to_string(record.segment) + " is " + std::to_string(segment.next_step()));
    }
    ++segment.records;
  }

  void accept_segment(std::string_view content) {
    const std::size_t start = content.rfind(k_segment_start);
    if (start == std::string_view::npos) fail("neither a segment nor a step", "its hash is right, its form is not");
    SegmentHeader header = read_segment(content.substr(start), place());
    if (static_cast<std::int64_t>(start) != header.torn_bytes) {
      fail("the segment follows on " + std::to_string(start) + " torn bytes",
           "it says " + std::to_string(header.torn_bytes));
    }
    if (header.index != static_cast<std::int64_t>(ledger_.segments.size()) + 1) {
      fail("segment " + std::to_string(header.index) + " is out of order",
           "after segment " + std::to_string(ledger_.segments.size()));
    }
    if (header.plan.dataset_id() != ledger_.header.dataset_id ||
        header.plan.num_examples() != ledger_.header.num_examples) {
      fail("the segment is over dataset " + header.plan.dataset_id() + " of " +
               std::to_string(header.plan.num_examples()) + " examples",
           "the ledger is over " + ledger_.header.dataset_id + " of " + std::to_string(ledger_.header.num_examples));
    }
    if (start > 0) charge_torn(content.substr(0, start));
    ledger_.segments.push_back({.header = std::move(header)});
  }

  void take_torn_end() {
    const std::string_view remains = text_.substr(position_);
    ledger_.torn_bytes = static_cast<std::int64_t>(remains.size());
    if (line_number_ > 0) charge_torn(remains);
  }

  void charge_torn(std::string_view remains) {
    if (ledger_.segments.empty()) {
      ledger_.warnings.push_back(place() + " is torn; no segment had begun, so it was no step");
      return;
    }
    Segment& segment = ledger_.segments.back();
    const std::int64_t steps = most_steps_in(remains, segment);
    segment.torn_records += steps;
    ledger_.warnings.push_back(place() + " is torn; it is charged as " +
                               (steps == 1 ? "one step" : std::to_string(steps) + " steps") + " of segment " +
                               std::to_string(segment.header.index));
  }

  /// A writer tears one line at most, so this is one, unless a fault of the disk damaged more.
  static std::int64_t most_steps_in(std::string_view remains, const Segment& segment) {
    if (remains.starts_with(k_segment_start)) return 1;
    const std::string text = step_text({.segment = segment.header.index, .step = segment.next_step()});
    const std::size_t record_size = text.size() + k_hash_field_size + 1;  // later ones are no shorter
    return static_cast<std::int64_t>((remains.size() + record_size - 1) / record_size);
  }

  std::string_view text_;
  std::size_t position_ = 0;
  std::size_t line_number_ = 0;  // lines accepted
  Ledger ledger_;
};

}  // namespace

std::int64_t Ledger::charged() const noexcept {
  return std::accumulate(segments.begin(), segments.end(), std::int64_t{0},
                         [](std::int64_t sum, const Segment& segment) { return sum + segment.charged(); });
}

Ledger parse(std::string_view text, const std::string& name) { return Parser(text, name).run(); }

Ledger read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw DataError("cannot read " + path.string(), "no such file, or no permission");
  std::string text(static_cast<std::size_t>(file.tellg()), '\0');
  file.seekg(0);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file && !text.empty()) throw DataError("cannot read " + path.string(), "the read stopped early");
  return parse(text, path.string());
}

}  // namespace ripieno::ledger
