#include <ripieno/accounting/ledger/ledger.hpp>
#include <ripieno/framework/training/odometer.hpp>
#include <utility>

namespace ripieno {
namespace {

void add_segment(Schedule& schedule, const PrivacyPlan& plan, std::int64_t records) {
  add_steps(schedule, plan.noise_multiplier(), plan.sample_rate(), records, plan.rounding_tail(records));
}

}  // namespace

Odometer::Odometer(const std::filesystem::path& ledger, PrivacyPlan plan) : plan_(std::move(plan)) {
  for (const ledger::Segment& segment : ledger::read(ledger).segments) {
    if (segment.header.plan == plan_) continue;
    add_segment(earlier_, segment.header.plan, segment.charged());
    earlier_records_ += segment.charged();
  }
}

double Odometer::epsilon(std::int64_t records) const {
  Schedule all = earlier_;
  add_segment(all, plan_, records - earlier_records_);
  return epsilon_of_schedule(all, plan_.delta()).upper;
}

}  // namespace ripieno
