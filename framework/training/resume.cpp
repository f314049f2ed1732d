#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/log.hpp>
#include <ripieno/accounting/base/text.hpp>
#include <ripieno/accounting/ledger/analysis.hpp>
#include <ripieno/framework/core/flat.hpp>
#include <ripieno/framework/training/checkpoint.hpp>
#include <ripieno/framework/training/collectively.hpp>
#include <ripieno/framework/training/inputs.hpp>
#include <ripieno/framework/training/resume.hpp>
#include <ripieno/io/ledger_writer.hpp>

namespace ripieno {
namespace {

/// What rank 0 decides.
struct Start {
  TrainingState state;
  RunSecret secret;
  RunSecret pattern;
  std::int64_t end_step;
  std::function<io::LedgerWriter()> open_ledger;
};

RunSecret new_secret(const TrainConfig& config) {
  return config.insecure_seed ? RunSecret::insecure(*config.insecure_seed) : RunSecret::from_entropy();
}

/// What a ledger calls the participation pattern whose draws are of this incarnation.
std::string pattern_name(const PrivacyPlan& plan, const RunSecret& incarnation) {
  return plan.has_pattern() ? incarnation.nonce_hash() : std::string();
}

Start start_afresh(const TrainConfig& config, const PrivacyPlan& plan, const TrainingState& initial) {
  claim_output(config.out);
  const RunSecret secret = new_secret(config);
  const io::SegmentStart start{.nonce_hash = secret.nonce_hash(), .pattern = pattern_name(plan, secret)};
  return {initial, secret, secret, plan.steps(),
          [&plan, path = config.out / "ledger.jsonl", start] { return io::LedgerWriter::create(path, plan, start); }};
}

/// Refuses another contract than the run began with, unless --amend-plan allows it.
void check_contract(const ledger::Ledger& book, const PrivacyPlan& plan, const TrainConfig& config) {
  if (book.header.dataset_id != plan.dataset_id() || book.header.num_examples != plan.num_examples()) {
    throw PrivacyError("cannot resume " + book.name,
                       "it is over dataset " + book.header.dataset_id + " of " +
                           std::to_string(book.header.num_examples) + " examples, this data is " + plan.dataset_id() +
                           " of " + std::to_string(plan.num_examples()),
                       "give the data that the run began with, or choose a new --out");
  }
  if (book.segments.empty()) return;
  const std::vector<std::string> differences = plan_differences(book.segments.back().header.plan, plan);
  if (differences.empty()) return;
  if (!config.amend_plan) {
    throw PrivacyError("cannot resume " + book.name + " under another plan", join(differences),
                       "give the options that the run began with, choose a new --out, or give --amend-plan: what was "
                       "spent stays counted");
  }
  if (plan.has_pattern() || book.segments.back().header.plan.has_pattern()) {
    throw PrivacyError("the plan of " + book.name + " cannot be amended",
                       "its noise or draws belong together over the whole run: " + join(differences),
                       "give the options that the run began with, or choose a new --out");
  }
  if (config.target_epsilon) {
    throw PrivacyError("--target-epsilon cannot amend " + book.name,
                       "it would be calibrated as if the steps under the first plan had cost nothing",
                       "give --noise-multiplier; `ripieno-privacy analyze` tells what is spent");
  }
  log::warning("the plan is amended: " + join(differences) + "; epsilon composes the steps under both plans");
}

/// The ledger's beginning must be the ledger that the checkpoint saw: its chain is verified, so the hash of the line
/// that ends there tells.
void check_ledger_covers(const std::filesystem::path& path, const ledger::Ledger& book, const Checkpoint& checkpoint) {
  std::string line_end(ledger::k_hash_field_size + 1, '\0');
  const auto size = static_cast<std::int64_t>(line_end.size());
  if (checkpoint.ledger_bytes >= size && checkpoint.ledger_bytes <= book.whole_bytes) {
    std::ifstream file(path, std::ios::binary);
    file.seekg(checkpoint.ledger_bytes - size);
    file.read(line_end.data(), size);
    const auto hash = ledger::stated_hash(std::string_view(line_end).substr(0, ledger::k_hash_field_size));
    if (file && line_end.back() == '\n' && hash && ledger::hash_text(*hash) == checkpoint.ledger_head) return;
  }
  throw PrivacyError("ledger " + path.string() + " is not the one that the checkpoint of step " +
                         std::to_string(checkpoint.state.step()) + " was written with",
                     "records are missing or were replaced",
                     "put the whole ledger back; without it no epsilon is right");
}

/// Called once the run is this process's: its former owner may have finished it since the decision to resume.
void check_unfinished(const std::filesystem::path& out) {
  if (!std::filesystem::exists(out / "result.json")) return;
  throw DataError(out.string() + " is finished", "another process wrote its result just now", "nothing is left to do");
}

bool stopped_cleanly(const ledger::Ledger& book, const Checkpoint& checkpoint, const PrivacyPlan& plan,
                     const std::string& setup) {
  const ledger::Segment& last = book.segments.back();
  return book.torn_bytes == 0 && last.next_step() == checkpoint.state.step() &&
         last.header.nonce_hash == checkpoint.secret.nonce_hash() && last.header.plan == plan &&
         checkpoint.setup == setup;
}

/// Under correlated noise, a norm or a rounding allowance of another size would not fit the rows that are there.
void check_same_noise(const ledger::Ledger& book, const PrivacyPlan& plan) {
  if (!plan.options().strategy || book.segments.empty()) return;
  const double before = book.segments.back().header.plan.noise_stddev();
  if (before == plan.noise_stddev()) return;
  throw PrivacyError("cannot resume " + book.name + " on so many ranks",
                     "rounding in their sums needs noise of standard deviation " + format_double(plan.noise_stddev()) +
                         ", and the noise of earlier rows had " + format_double(before),
                     "resume on about as many ranks as before, or begin with --reduction reproducible");
}

/// The ledger with a further segment from `first_step` to `end_step`, as the accountant would see it.
Schedule schedule_up_to(const ledger::Ledger& book, const PrivacyPlan& plan, const std::string& pattern,
                        std::int64_t first_step, std::int64_t end_step) {
  ledger::Ledger longer = book;
  longer.segments.push_back({.header = {.index = std::ssize(book.segments) + 1,
                                        .plan = plan,
                                        .nonce_hash = {},
                                        .first_step = first_step,
                                        .pattern = pattern,
                                        .build = {}},
                             .records = end_step - first_step});
  return ledger::schedule_of_first({&longer, 1}, longer.charged());
}

/// The step at which a run must end that goes on from `first_step`: it may record as many steps as planned, and where
/// lost ones are no mere number, what all of them cost may not exceed what the plan costs undisturbed. PrivacyError
/// where that cannot be computed.
std::int64_t last_end_step(const ledger::Ledger& book, const PrivacyPlan& plan, const std::string& pattern,
                           std::int64_t first_step) {
  const std::int64_t room = std::max<std::int64_t>(0, plan.max_records() - book.charged());
  std::int64_t end = std::min(plan.steps(), first_step + room);
  if (!plan.has_pattern()) return end;
  const double planned = epsilon_of_plan(plan, plan.max_records(), plan.delta()).upper * (1 + 1e-9);
  const auto affordable = [&](std::int64_t end_step) {
    const Schedule all = schedule_up_to(book, plan, pattern, first_step, end_step);
    return epsilon_of_schedule(all, plan.delta()).upper <= planned;
  };
  if (affordable(end)) return end;
  std::int64_t low = first_step;
  while (end - low > 1) {
    const std::int64_t middle = low + (end - low) / 2;
    (affordable(middle) ? low : end) = middle;
  }
  return low;
}

void warn_of_early_end(const PrivacyPlan& plan, std::int64_t end_step) {
  if (end_step == plan.steps()) return;
  log::warning("training will end at step " + std::to_string(end_step) + " of " + std::to_string(plan.steps()) +
               ": lost steps have used up what the plan may " +
               (plan.has_pattern() ? "spend" : "record (--reserve-steps makes room for such)"));
}

Start go_on(const TrainConfig& config, const PrivacyPlan& plan, const TrainingState& initial,
            const std::string& setup) {
  const std::filesystem::path path = config.out / "ledger.jsonl";
  const ledger::Ledger book = ledger::read(path);
  check_contract(book, plan, config);
  const std::optional<Checkpoint> checkpoint =
      CheckpointFolder(config.out / "checkpoints", config.keep).newest(initial);
  if (checkpoint) check_ledger_covers(path, book, *checkpoint);
  TrainingState state = checkpoint ? checkpoint->state : initial;
  check_same_noise(book, plan);
  const auto segments = static_cast<std::int64_t>(book.segments.size());
  const bool keeps_secret = checkpoint && checkpoint->secret.secure() == plan.secure_seed();
  const bool clean = checkpoint && !book.segments.empty() && stopped_cleanly(book, *checkpoint, plan, setup);
  const RunSecret secret = clean ? checkpoint->secret
                                 : (keeps_secret ? checkpoint->secret : new_secret(config))
                                       .next_incarnation(static_cast<std::uint64_t>(segments));
  const RunSecret pattern = checkpoint && plan.has_pattern() ? checkpoint->pattern : secret;
  const io::SegmentStart start{
      .nonce_hash = secret.nonce_hash(), .first_step = state.step(), .pattern = pattern_name(plan, pattern)};
  const std::int64_t end_step = last_end_step(book, plan, start.pattern, state.step());
  warn_of_early_end(plan, end_step);
  if (clean) {
    log::info("resuming at step " + std::to_string(state.step()) + ", after a clean stop");
    return {state, secret, pattern, end_step, [&plan, path, start] {
              return io::LedgerWriter::continue_segment(path, plan, start.nonce_hash, start.first_step);
            }};
  }
  log::info("resuming at step " + std::to_string(state.step()) + " under fresh keys; the ledger counts " +
            std::to_string(book.charged()) + " steps, lost ones included");
  if (checkpoint && state.correlated) {
    const Key previous = make_run_keys(checkpoint->secret).noise;
    state.correlated = state.correlated->under_new_key(previous, fingerprint(make_run_keys(secret).noise));
  }
  return {state, secret, pattern, end_step, [&plan, path, out = config.out, start] {
            return io::LedgerWriter::append_segment(path, plan, start, [&out] { check_unfinished(out); });
          }};
}

Start choose_start(const TrainConfig& config, const PrivacyPlan& plan, const TrainingState& initial,
                   const std::string& setup) {
  const bool resumes = config.resume != "never" && std::filesystem::exists(config.out / "ledger.jsonl") &&
                       !std::filesystem::exists(config.out / "result.json");
  return resumes ? go_on(config, plan, initial, setup) : start_afresh(config, plan, initial);
}

/// Collective. What correlated noise keeps beside its buffers, from rank 0.
void broadcast_noise(const Communicator& communicator, MFNoiseState& noise, std::int64_t step) {
  std::array<std::int64_t, 2> sizes{std::ssize(noise.bounds), std::ssize(noise.earlier)};
  communicator.broadcast(std::as_writable_bytes(std::span(sizes)), 0);
  noise.step = step;
  noise.bounds.resize(static_cast<std::size_t>(sizes[0]));
  noise.earlier.resize(static_cast<std::size_t>(sizes[1]));
  communicator.broadcast(std::as_writable_bytes(std::span(noise.bounds)), 0);
  for (MFNoiseState::EarlierRows& rows : noise.earlier) {
    communicator.broadcast(std::as_writable_bytes(std::span(&rows.end, 1)), 0);
    communicator.broadcast(std::as_writable_bytes(std::span(rows.key.words)), 0);
  }
}

void broadcast_tensors(const Communicator& communicator, const PyTree& tree) {
  for (const at::Tensor& leaf : tree.leaves()) {
    communicator.broadcast({static_cast<std::byte*>(leaf.data_ptr()), leaf.nbytes()}, 0);
  }
}

}  // namespace

Beginning begin_run(const Runtime& runtime, const TrainConfig& config, const PrivacyPlan& plan,
                    const TrainingState& initial, const std::string& setup) {
  exclude_from_core_dumps();
  const Communicator& communicator = runtime.communicator();
  std::optional<Start> start;
  collectively(communicator, [&] {
    if (communicator.rank() == 0) start.emplace(choose_start(config, plan, initial, setup));
  });
  Ledger ledger(communicator, plan, [&] { return start->open_ledger(); });

  // Rank 0 has read the checkpoint; the others get it over MPI.
  std::array<RunSecret::Serialised, 2> secrets{};
  std::array<std::int64_t, 4> numbers{};
  TrainingState state = initial;
  if (start) {
    secrets = {start->secret.serialise(), start->pattern.serialise()};
    state = start->state;
    const double norm = state.clipping ? state.clipping->clipping_norms.front() : 0;
    numbers = {state.step(), state.optimizer.step, start->end_step, std::bit_cast<std::int64_t>(norm)};
  }
  for (RunSecret::Serialised& secret : secrets) communicator.broadcast(secret, 0);
  communicator.broadcast(std::as_writable_bytes(std::span(numbers)), 0);
  broadcast_tensors(communicator, state.params);
  if (!config.shard_state) {
    for (const auto& [name, tree] : state.optimizer.slots) broadcast_tensors(communicator, tree);
    communicator.broadcast(std::as_writable_bytes(std::span(state.optimizer.phi)), 0);
  }
  state.noise.step = numbers[0];
  state.optimizer.step = numbers[1];
  if (state.clipping) {
    state.clipping->step = numbers[0];
    state.clipping->clipping_norms = {std::bit_cast<double>(numbers[3])};
  }
  if (state.correlated) {
    broadcast_noise(communicator, *state.correlated, numbers[0]);
    if (!config.shard_state) broadcast_tensors(communicator, PyTree(state.correlated->buffers));
  }
  Beginning beginning{std::move(state), RunSecret::deserialise(secrets[0]), RunSecret::deserialise(secrets[1]),
                      std::move(ledger), numbers[2]};
  for (RunSecret::Serialised& secret : secrets) ::explicit_bzero(secret.data(), secret.size());
  return beginning;
}

}  // namespace ripieno
