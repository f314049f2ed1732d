#include <cstring>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/framework/training/collectively.hpp>
#include <ripieno/framework/training/ledger.hpp>
#include <ripieno/io/ledger_writer.hpp>
#include <utility>

namespace ripieno {
namespace {

void check_same_plan(const Communicator& communicator, const PrivacyPlan& plan) {
  std::string reference = plan.hash();
  communicator.broadcast(std::as_writable_bytes(std::span(reference)), 0);
  collectively(communicator, [&] {
    if (plan.hash() != reference) {
      throw PrivacyError("this rank's privacy plan is not that of rank 0", "all ranks must run under one plan",
                         "give every rank the same options and data");
    }
  });
}

}  // namespace

Ledger::Ledger(const Communicator& communicator, std::filesystem::path path, const PrivacyPlan& plan,
               const std::string& nonce_hash)
    : Ledger(communicator, plan, [&] {
        return io::LedgerWriter::create(
            path, plan, {.nonce_hash = nonce_hash, .pattern = plan.has_pattern() ? nonce_hash : std::string()});
      }) {}

Ledger::Ledger(const Communicator& communicator, const PrivacyPlan& plan, const std::function<io::LedgerWriter()>& open)
    : communicator_(&communicator) {
  check_same_plan(communicator, plan);
  collectively(communicator, [&] {
    if (communicator.rank() != 0) return;
    writer_ = std::make_unique<io::LedgerWriter>(open());
    staging_ = &writer_->staging();
  });
}

Ledger::Ledger(Ledger&&) noexcept = default;
Ledger::~Ledger() = default;

void Ledger::begin(std::int64_t step) noexcept {
  if (!writer_) return;
  try {
    writer_->begin(step);
  } catch (...) {
    failure_ = std::current_exception();
  }
}

void Ledger::wait(std::int64_t step) const {
  if (failure_) std::rethrow_exception(failure_);
  if (writer_) writer_->wait(step);
}

void Ledger::record(std::int64_t step) {
  collectively(*communicator_, [&] {
    begin(step);
    wait(step);
  });
  confirm(step);
}

void Ledger::require_recorded(std::int64_t step) const {
  if (step == recorded_) return;
  throw PrivacyError("no noise for step " + std::to_string(step), "the ledger does not hold its record",
                     "call ledger.record(step) at the start of the step");
}

std::string Ledger::head() const { return writer_ ? writer_->head() : std::string(); }
std::int64_t Ledger::bytes() const { return writer_ ? writer_->length() : 0; }
std::int64_t Ledger::records() const { return writer_ ? writer_->records() : 0; }

}  // namespace ripieno
