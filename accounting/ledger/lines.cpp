#include <algorithm>
#include <charconv>
#include <cstring>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/sha256.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/ledger/lines.hpp>
#include <ripieno/version.hpp>

namespace ripieno::ledger {
namespace {

constexpr std::string_view k_hash_key = R"(,"hash":")";
constexpr std::string_view k_line_end = R"("})";
constexpr std::string_view k_step_start = R"({"seg":)";
constexpr std::string_view k_step_key = R"(,"step":)";
constexpr const char* k_format = "ripieno";
constexpr int k_version_of_format = 1;

int hex_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

/// A JSON object's text without its closing brace, where the hash field goes.
std::string open_object(const Json& json) {
  std::string text = json.dump();
  text.pop_back();
  return text;
}

Json parse_object(std::string_view text, const std::string& where) {
  try {
    return Json::parse(std::string(text) + "}");
  } catch (const nlohmann::json::parse_error&) {
    throw DataError(where + ": not a ledger line", "the JSON is broken although its hash is right");
  }
}

bool take(std::string_view& text, std::string_view prefix) noexcept {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

/// A number without sign or leading zeros.
bool take(std::string_view& text, std::int64_t& number) noexcept {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || text.front() == '-' || (text.front() == '0' && end != text.data() + 1)) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

void refuse_unknown_keys(const Json& json, std::initializer_list<std::string_view> known, const std::string& where) {
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(known, key) == known.end()) {
      throw DataError(where + ": unknown key '" + key + "'", "its meaning for privacy is not known here",
                      "use the version of Ripieno that wrote it");
    }
  }
}

}  // namespace

ChainHash chain_hash(const ChainHash& previous, std::string_view text) noexcept {
  const Sha256::Digest digest = Sha256().update(std::span<const std::uint8_t>(previous)).update(text).finish();
  ChainHash hash;
  std::copy_n(digest.begin(), hash.size(), hash.begin());
  return hash;
}

std::string hash_text(const ChainHash& hash) { return to_hex(hash); }

std::string seal_line(std::string_view text, const ChainHash& hash) {
  std::string line;
  line.reserve(text.size() + k_hash_field_size + 1);
  line.append(text).append(k_hash_key).append(hash_text(hash)).append(k_line_end).push_back('\n');
  return line;
}

std::optional<ChainHash> stated_hash(std::string_view line) noexcept {
  if (line.size() < k_hash_field_size) return {};
  const std::string_view field = line.substr(line.size() - k_hash_field_size);
  if (!field.starts_with(k_hash_key) || !field.ends_with(k_line_end)) return {};
  ChainHash hash;
  const char* digits = field.data() + k_hash_key.size();
  for (std::size_t i = 0; i < hash.size(); ++i) {
    const int high = hex_value(digits[2 * i]);
    const int low = hex_value(digits[2 * i + 1]);
    if (high < 0 || low < 0) return {};
    hash[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return hash;
}

std::string header_text(const FileHeader& header) {
  Json json;
  json["ledger"] = k_format;
  json["version"] = k_version_of_format;
  json["dataset_id"] = header.dataset_id;
  json["num_examples"] = header.num_examples;
  return open_object(json);
}

FileHeader read_header(std::string_view text, const std::string& where) {
  const Json json = parse_object(text, where);
  if (json_value<std::string>(json, "ledger", where) != k_format ||
      json_value<int>(json, "version", where) != k_version_of_format) {
    throw DataError(where + ": not a ledger of version " + std::to_string(k_version_of_format), {},
                    "use the version of Ripieno that wrote it");
  }
  refuse_unknown_keys(json, {"ledger", "version", "dataset_id", "num_examples"}, where);
  return {.dataset_id = json_value<std::string>(json, "dataset_id", where),
          .num_examples = json_value<std::int64_t>(json, "num_examples", where)};
}

std::string segment_text(const SegmentHeader& segment) {
  Json json;
  json["segment"] = segment.index;
  json["first_step"] = segment.first_step;
  json["torn_bytes"] = segment.torn_bytes;
  json["nonce_hash"] = segment.nonce_hash;
  if (!segment.pattern.empty()) json["pattern"] = segment.pattern;
  json["plan_hash"] = segment.plan.hash();
  json["plan"] = segment.plan.to_json();
  json["build"] = segment.build;
  return open_object(json);
}

SegmentHeader read_segment(std::string_view text, const std::string& where) {
  const Json json = parse_object(text, where);
  refuse_unknown_keys(
      json, {"segment", "first_step", "torn_bytes", "nonce_hash", "pattern", "plan_hash", "plan", "build"}, where);
  SegmentHeader segment{.index = json_value<std::int64_t>(json, "segment", where),
                        .plan = PrivacyPlan::from_json(json_value<Json>(json, "plan", where), where + ": plan"),
                        .nonce_hash = json_value<std::string>(json, "nonce_hash", where),
                        .first_step = json_value<std::int64_t>(json, "first_step", where),
                        .pattern = json.contains("pattern") ? json_value<std::string>(json, "pattern", where) : "",
                        .torn_bytes = json_value<std::int64_t>(json, "torn_bytes", where),
                        .build = json_value<Json>(json, "build", where)};
  if (json_value<std::string>(json, "plan_hash", where) != segment.plan.hash()) {
    throw DataError(where + ": the plan is not the one that its hash names");
  }
  if (segment.plan.has_pattern() == segment.pattern.empty()) {
    throw DataError(where + ": the segment " + (segment.pattern.empty() ? "lacks" : "has") + " a participation pattern",
                    "its plan says otherwise");
  }
  if (segment.first_step < 0) throw DataError(where + ": first_step is negative");
  return segment;
}

std::string step_text(const StepRecord& record) {
  std::string text(k_step_start);
  text.append(std::to_string(record.segment)).append(k_step_key).append(std::to_string(record.step));
  return text;
}

std::optional<StepRecord> read_step(std::string_view text) noexcept {
  StepRecord record;
  const bool ok = take(text, k_step_start) && !text.empty() && take(text, record.segment) && take(text, k_step_key) &&
                  !text.empty() && take(text, record.step) && text.empty();
  if (!ok) return {};
  return record;
}

Json this_build() { return {{"version", k_version}, {"build_type", k_build_type}, {"compiler", k_compiler}}; }

}  // namespace ripieno::ledger
