#include <ATen/ATen.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/framework/training/checkpoint.hpp>
#include <ripieno/framework/training/tensor_arrays.hpp>
#include <ripieno/io/tensor_file.hpp>
#include <sstream>

namespace ripieno {
namespace {

constexpr const char* k_format = "ripieno-checkpoint 2";

std::filesystem::path file_name(std::int64_t step) {
  std::string digits = std::to_string(step);
  digits.insert(0, 12 - std::min<std::size_t>(12, digits.size()), '0');
  return "step-" + digits + ".h5";
}

std::string secret_text(const RunSecret& secret) {
  RunSecret::Serialised bytes = secret.serialise();
  const std::string text = to_hex({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  ::explicit_bzero(bytes.data(), bytes.size());
  return text;
}

template <class Number>
Number number_in(const std::string& text, const std::string& where) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw DataError(where + " is damaged", "'" + text + "' is no number");
  return value;
}

std::int64_t integer(const std::string& text, const std::string& where) { return number_in<std::int64_t>(text, where); }
double number(const std::string& text, const std::string& where) { return number_in<double>(text, where); }

std::string slot_prefix(const std::string& slot) { return "optimizer." + slot + "."; }
std::string phi_name(std::size_t leaf) { return "optimizer_phi_" + std::to_string(leaf); }

/// Names the arrays and numbers of an optimizer's state: "mu, nu" or "nu, and phi".
std::string contents(const optim::OptimizerState& state) {
  std::vector<std::string> names;
  for (const auto& [name, tree] : state.slots) names.push_back(name);
  if (!state.phi.empty()) names.emplace_back("and phi");
  return names.empty() ? "nothing" : join(names);
}

/// Arrays and numbers of the optimizer; its step is left as in `like`. UsageError for another optimizer: an older
/// checkpoint would not fit either.
optim::OptimizerState take_optimizer(const optim::OptimizerState& like, io::TensorFile& file,
                                     const std::string& where) {
  const auto stored = file.attributes.find("optimizer");
  if (stored != file.attributes.end() && stored->second != contents(like)) {
    throw UsageError(where + " is of another optimizer", "it holds " + stored->second + ", not " + contents(like),
                     "resume with the --optimizer, --momentum and --ema that the run began with");
  }
  optim::OptimizerState state = like;
  for (auto& [name, tree] : state.slots) tree = take_tree(slot_prefix(name), tree, file, where);
  for (std::size_t i = 0; i < state.phi.size(); ++i) {
    const auto found = file.attributes.find(phi_name(i));
    if (found == file.attributes.end())
      throw DataError(where + " does not fit the optimizer", "it lacks " + phi_name(i));
    state.phi[i] = number(found->second, where);
  }
  return state;
}

std::string key_text(const Key& key) {
  return to_hex({reinterpret_cast<const std::uint8_t*>(key.words.data()), sizeof key.words});
}

Key key_of(const std::string& text, const std::string& where) {
  const std::vector<std::uint8_t> bytes = from_hex(text);
  Key key;
  if (bytes.size() != sizeof key.words) throw DataError(where + " is damaged", "it holds no key where one should be");
  std::memcpy(key.words.data(), bytes.data(), bytes.size());
  return key;
}

constexpr const char* k_buffers = "noise-buffers";  // a key of a tree holds no dot

void add_noise_tensors(const MFNoiseState& noise, TensorArrays& tensors) {
  if (noise.buffers.numel() > 0) tensors.add("", PyTree{{k_buffers, noise.buffers}});
}

/// Bounds as numbers, and keys of rows that were made before a resume, one after the other.
void add_noise_attributes(const MFNoiseState& noise, std::map<std::string, std::string>& attributes) {
  std::vector<std::string> bounds;
  for (const double bound : noise.bounds) bounds.push_back(format_double(bound));
  attributes.emplace("noise_bounds", join(bounds, " "));
  for (std::size_t i = 0; i < noise.earlier.size(); ++i) {
    const std::string name = "noise_earlier_" + std::to_string(i);
    attributes.emplace(name + "_end", std::to_string(noise.earlier[i].end));
    attributes.emplace(name + "_key", key_text(noise.earlier[i].key));
  }
}

MFNoiseState take_noise(const MFNoiseState& like, std::int64_t step, io::TensorFile& file, const std::string& where) {
  MFNoiseState noise = like;
  noise.step = step;
  if (like.buffers.numel() > 0) {
    noise.buffers = take_tree("", PyTree{{k_buffers, like.buffers}}, file, where)[k_buffers];
  }
  std::istringstream bounds(file.attributes.contains("noise_bounds") ? file.attributes.at("noise_bounds") : "");
  for (std::string bound; bounds >> bound;) noise.bounds.push_back(number(bound, where));
  for (std::size_t i = 0;; ++i) {
    const std::string name = "noise_earlier_" + std::to_string(i);
    const auto end = file.attributes.find(name + "_end"), key = file.attributes.find(name + "_key");
    if (end == file.attributes.end() || key == file.attributes.end()) return noise;
    noise.earlier.push_back({.end = integer(end->second, where), .key = key_of(key->second, where)});
  }
}

Checkpoint read_checkpoint(const std::filesystem::path& path, const TrainingState& like) {
  io::TensorFile file = io::read_tensor_file(path);
  const std::string where = path.string();
  const auto text = [&](const char* name) {
    const auto found = file.attributes.find(name);
    if (found == file.attributes.end()) throw DataError(where + " is damaged", std::string("it lacks ") + name);
    return found->second;
  };
  if (text("format") != k_format) throw DataError(where + " is no checkpoint", "its format is " + text("format"));
  const std::vector<std::uint8_t> secret = from_hex(text("secret"));
  const std::vector<std::uint8_t> pattern = from_hex(text("pattern"));
  Checkpoint checkpoint{.state = like,
                        .secret = RunSecret::deserialise(std::as_bytes(std::span(secret))),
                        .pattern = RunSecret::deserialise(std::as_bytes(std::span(pattern))),
                        .setup = text("setup"),
                        .ledger_head = text("ledger_head"),
                        .ledger_bytes = integer(text("ledger_bytes"), where)};
  checkpoint.state.params = take_tree("params.", like.params, file, where);
  checkpoint.state.optimizer = take_optimizer(like.optimizer, file, where);
  checkpoint.state.optimizer.step = integer(text("optimizer_step"), where);
  checkpoint.state.noise.step = integer(text("step"), where);
  if (like.correlated) {
    checkpoint.state.correlated = take_noise(*like.correlated, checkpoint.state.noise.step, file, where);
  }
  if (auto& clipping = checkpoint.state.clipping) {
    clipping->step = checkpoint.state.noise.step;
    // A run that was amended to adaptive clipping has none, and one with other limits may have one outside them.
    if (file.attributes.contains("clipping_norm")) {
      clipping->clipping_norms = {std::clamp(number(text("clipping_norm"), where), clipping->rule.clipping_norm_min,
                                             clipping->rule.clipping_norm_max)};
    }
  }
  return checkpoint;
}

}  // namespace

CheckpointFolder::CheckpointFolder(std::filesystem::path folder, int keep) : folder_(std::move(folder)), keep_(keep) {
  if (keep < 1) throw UsageError("--keep is " + std::to_string(keep), "at least one checkpoint must stay");
  struct stat here {};
  struct stat run {};
  const std::filesystem::path parent = folder_.has_parent_path() ? folder_.parent_path() : ".";
  if (::stat(folder_.c_str(), &here) == 0 && ::stat(parent.c_str(), &run) == 0 && here.st_dev != run.st_dev)
    throw UsageError(folder_.string() + " is on another file system than " + parent.string(),
                     "a checkpoint gets its name in one step, which no two file systems share",
                     "link the whole output folder to where the space is");
}

void CheckpointFolder::write(const Checkpoint& checkpoint, const io::StagingFolder& staging,
                             io::WritePace& pace) const {
  std::filesystem::create_directories(folder_);
  TensorArrays tensors;
  tensors.add("params.", checkpoint.state.params);
  const optim::OptimizerState& optimizer = checkpoint.state.optimizer;
  for (const auto& [name, tree] : optimizer.slots) tensors.add(slot_prefix(name), tree);
  const std::filesystem::path path = folder_ / file_name(checkpoint.state.step());
  std::map<std::string, std::string> attributes{{"format", k_format},
                                                {"step", std::to_string(checkpoint.state.step())},
                                                {"optimizer", contents(checkpoint.state.optimizer)},
                                                {"optimizer_step", std::to_string(checkpoint.state.optimizer.step)},
                                                {"secret", secret_text(checkpoint.secret)},
                                                {"pattern", secret_text(checkpoint.pattern)},
                                                {"setup", checkpoint.setup},
                                                {"ledger_head", checkpoint.ledger_head},
                                                {"ledger_bytes", std::to_string(checkpoint.ledger_bytes)}};
  for (std::size_t i = 0; i < optimizer.phi.size(); ++i) {
    attributes.emplace(phi_name(i), format_double(optimizer.phi[i]));
  }
  if (checkpoint.state.clipping)
    attributes.emplace("clipping_norm", format_double(checkpoint.state.clipping->clipping_norms.front()));
  if (checkpoint.state.correlated) {
    add_noise_tensors(*checkpoint.state.correlated, tensors);
    add_noise_attributes(*checkpoint.state.correlated, attributes);
  }
  staging.publish(path, io::Overwrite::replace, [&](const std::filesystem::path& made) {
    io::write_tensor_file(made, attributes, tensors.arrays(), io::Readers::owner_only, io::Overwrite::refuse, &pace);
  });
  const std::vector<std::filesystem::path> all = files();
  for (std::size_t i = static_cast<std::size_t>(keep_); i < all.size(); ++i) std::filesystem::remove(all[i]);
}

std::optional<Checkpoint> CheckpointFolder::newest(const TrainingState& like) const {
  for (const std::filesystem::path& path : files()) {
    try {
      return read_checkpoint(path, like);
    } catch (const DataError& e) {
      log::warning(std::string(e.what()) + "; trying an older checkpoint");
    }
  }
  return std::nullopt;
}

std::vector<std::filesystem::path> CheckpointFolder::files() const {
  std::vector<std::filesystem::path> found;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-") && name.ends_with(".h5")) found.push_back(entry.path());
  }
  std::ranges::sort(found, std::greater<>());
  return found;
}

}  // namespace ripieno
