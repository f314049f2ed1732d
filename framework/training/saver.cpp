#include <sys/resource.h>
#include <unistd.h>

#include <ripieno/framework/training/device_state.hpp>
#include <ripieno/framework/training/saver.hpp>

namespace ripieno {
namespace {

/// Leaves the cores to the steps; once the steps wait for the checkpoint, nobody else wants them. On Linux a thread has
/// a nice value of its own.
void make_way_for_steps() {
  constexpr int k_nice = 10;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), k_nice);
}

}  // namespace

CheckpointSaver::CheckpointSaver(const TrainConfig& config, RunSecret secret, RunSecret pattern, std::string setup,
                                 bool writes)
    : folder_(config.out / "checkpoints", config.keep),
      period_(config.checkpoint_every),
      secret_(std::move(secret)),
      pattern_(std::move(pattern)),
      setup_(std::move(setup)),
      writes_(writes),
      last_time_(Clock::now()) {}

CheckpointSaver::~CheckpointSaver() {
  if (!writing_.valid()) return;
  pace_->hurry();
  writing_.wait();
}

bool CheckpointSaver::due(std::int64_t steps_done) const {
  if (!writes_) return false;
  if (period_.steps > 0) return steps_done % period_.steps == 0;
  return period_.seconds > 0 && std::chrono::duration<double>(Clock::now() - last_time_).count() >= period_.seconds;
}

void CheckpointSaver::save(const TrainingState& state, const Ledger& ledger) {
  if (!writes_) return;
  wait();
  last_time_ = Clock::now();
  Checkpoint checkpoint{.state = host_copy(state),
                        .secret = secret_,
                        .pattern = pattern_,
                        .setup = setup_,
                        .ledger_head = ledger.head(),
                        .ledger_bytes = ledger.bytes()};
  pace_ = std::make_unique<io::WritePace>();
  writing_ = std::async(std::launch::async, [this, &staging = ledger.staging(), checkpoint = std::move(checkpoint)] {
    make_way_for_steps();
    const auto start = Clock::now();
    folder_.write(checkpoint, staging, *pace_);
    const double taken_s = std::chrono::duration<double>(Clock::now() - start).count();
    longest_write_s_ = std::max(longest_write_s_.load(), taken_s);
  });
}

bool CheckpointSaver::writing() const {
  return writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

void CheckpointSaver::wait() {
  if (!writing_.valid()) return;
  pace_->hurry();
  writing_.get();
}

}  // namespace ripieno
