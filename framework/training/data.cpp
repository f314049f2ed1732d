#include <map>
#include <optional>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/training/data.hpp>
#include <ripieno/io/stage.hpp>

namespace ripieno {
namespace {

namespace fs = std::filesystem;

/// The values of --field by name.
std::map<std::string, std::string> field_names(const TrainConfig& config) {
  std::map<std::string, std::string> names;
  for (const std::string& text : config.fields) {
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    if (equals == std::string::npos || (name != "x" && name != "y" && name != "eval.x" && name != "eval.y")) {
      throw UsageError("--field " + text, "NAME=DATASET is expected, NAME one of x, y, eval.x, eval.y");
    }
    if (!names.emplace(name, text.substr(equals + 1)).second) throw UsageError("--field " + name + " is given twice");
  }
  return names;
}

/// Which datasets of a foreign file hold examples and labels: `prefix` x and y, or else x and y.
io::FieldMap field_map(const std::map<std::string, std::string>& names, const std::string& prefix) {
  const auto find = [&](const std::string& name) {
    if (const auto at = names.find(prefix + name); at != names.end()) return at->second;
    const auto at = names.find(name);
    return at == names.end() ? name : at->second;
  };
  return {.x = find("x"), .y = find("y")};
}

std::shared_ptr<const io::ShardSet> open(const fs::path& path, const TrainConfig& config,
                                         const std::optional<io::FieldMap>& fields) {
  const io::Verify depth = config.verify == "full"   ? io::Verify::full
                           : config.verify == "open" ? io::Verify::open
                                                     : io::Verify::automatic;
  if (config.stage_to && fields) {
    throw UsageError("--stage-to with --field", "a foreign file is not staged", "copy it, or import it once");
  }
  const fs::path source = config.stage_to ? io::stage_dataset(path, *config.stage_to) : path;
  return std::make_shared<const io::ShardSet>(
      io::ShardSet::open(source, {.verify = depth, .access = io::parse_access(config.io), .fields = fields}));
}

}  // namespace

std::shared_ptr<const io::ShardSet> open_train_data(const TrainConfig& config) {
  const auto names = field_names(config);
  return open(config.data, config, names.empty() ? std::nullopt : std::optional(field_map(names, "")));
}

std::shared_ptr<const io::ShardSet> open_eval_data(const TrainConfig& config) {
  const auto names = field_names(config);
  const fs::path& path = *config.eval_data;
  std::error_code ignored;
  // A dataset of the product's own has no names to give: it may be used beside a foreign training set.
  const bool own = names.empty() || path.extension() == ".json" || fs::is_directory(path, ignored);
  return open(path, config, own ? std::nullopt : std::optional(field_map(names, "eval.")));
}

}  // namespace ripieno
