#include <ripieno/accounting/ledger/analysis.hpp>
#include <ripieno/framework/training/odometer.hpp>

namespace ripieno {

Odometer::Odometer(const std::filesystem::path& ledger) : book_(ledger::read(ledger)) {}

double Odometer::epsilon(std::int64_t records) const {
  ledger::Ledger book = book_;
  book.segments.back().records += records - book.charged();
  const Schedule schedule = ledger::schedule_of_first({&book, 1}, records);
  return epsilon_of_schedule(schedule, book.segments.back().header.plan.delta()).upper;
}

}  // namespace ripieno
