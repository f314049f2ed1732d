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
#include <ripieno/accounting/ledger/ledger.hpp>
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
  std::int64_t end_step;
  std::function<io::LedgerWriter()> open_ledger;
};

RunSecret new_secret(const TrainConfig& config) {
  return config.insecure_seed ? RunSecret::insecure(*config.insecure_seed) : RunSecret::from_entropy();
}

Start start_afresh(const TrainConfig& config, const PrivacyPlan& plan, const TrainingState& initial) {
  claim_output(config.out);
  const RunSecret secret = new_secret(config);
  return {initial, secret, plan.steps(), [&plan, path = config.out / "ledger.jsonl", nonce = secret.nonce_hash()] {
            return io::LedgerWriter::create(path, plan, {.nonce_hash = nonce});
          }};
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

bool stopped_cleanly(const ledger::Ledger& book, const Checkpoint& checkpoint, const PrivacyPlan& plan,
                     const std::string& setup) {
  const ledger::Segment& last = book.segments.back();
  return book.torn_bytes == 0 && last.next_step() == checkpoint.state.step() &&
         last.header.nonce_hash == checkpoint.secret.nonce_hash() && last.header.plan == plan &&
         checkpoint.setup == setup;
}

Start go_on(const TrainConfig& config, const PrivacyPlan& plan, const TrainingState& initial,
            const std::string& setup) {
  const std::filesystem::path path = config.out / "ledger.jsonl";
  const ledger::Ledger book = ledger::read(path);
  check_contract(book, plan, config);
  const std::optional<Checkpoint> checkpoint =
      CheckpointFolder(config.out / "checkpoints", config.keep).newest(initial);
  if (checkpoint) check_ledger_covers(path, book, *checkpoint);
  const TrainingState& state = checkpoint ? checkpoint->state : initial;
  const std::int64_t room = std::max<std::int64_t>(0, plan.max_records() - book.charged());
  const std::int64_t end_step = std::min(plan.steps(), state.step() + room);
  if (end_step < plan.steps()) {
    log::warning("training will end at step " + std::to_string(end_step) + " of " + std::to_string(plan.steps()) +
                 ": lost steps have used up what the plan may record (--reserve-steps makes room for such)");
  }

  if (checkpoint && stopped_cleanly(book, *checkpoint, plan, setup)) {
    log::info("resuming at step " + std::to_string(state.step()) + ", after a clean stop");
    return {state, checkpoint->secret, end_step,
            [&plan, path, nonce = checkpoint->secret.nonce_hash(), step = state.step()] {
              return io::LedgerWriter::continue_segment(path, plan, nonce, step);
            }};
  }
  const auto segments = static_cast<std::int64_t>(book.segments.size());
  log::info("resuming at step " + std::to_string(state.step()) + " under fresh keys; the ledger counts " +
            std::to_string(book.charged()) + " steps, lost ones included");
  const bool keeps_secret = checkpoint && checkpoint->secret.secure() == plan.secure_seed();
  const RunSecret secret =
      (keeps_secret ? checkpoint->secret : new_secret(config)).next_incarnation(static_cast<std::uint64_t>(segments));
  return {state, secret, end_step, [&plan, path, nonce = secret.nonce_hash(), step = state.step()] {
            return io::LedgerWriter::append_segment(path, plan, {.nonce_hash = nonce, .first_step = step});
          }};
}

Start choose_start(const TrainConfig& config, const PrivacyPlan& plan, const TrainingState& initial,
                   const std::string& setup) {
  const bool resumes = config.resume != "never" && std::filesystem::exists(config.out / "ledger.jsonl") &&
                       !std::filesystem::exists(config.out / "result.json");
  return resumes ? go_on(config, plan, initial, setup) : start_afresh(config, plan, initial);
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
  RunSecret::Serialised secret{};
  std::array<std::int64_t, 4> numbers{};
  TrainingState state = initial;
  if (start) {
    secret = start->secret.serialise();
    state = start->state;
    const double norm = state.clipping ? state.clipping->clipping_norms.front() : 0;
    numbers = {state.step(), state.optimizer.step, start->end_step, std::bit_cast<std::int64_t>(norm)};
  }
  communicator.broadcast(secret, 0);
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
  Beginning beginning{std::move(state), RunSecret::deserialise(secret), std::move(ledger), numbers[2]};
  ::explicit_bzero(secret.data(), secret.size());
  return beginning;
}

}  // namespace ripieno
