#include <exception>
#include <mutex>
#include <ripieno/framework/comm/operation.hpp>
#include <utility>

namespace ripieno {
namespace {

/// Diagnostics of the whole process, like the logger's prefix: never part of a result.
struct Operations {
  std::mutex mutex;
  std::list<OperationScope::Note> open;
  std::string failed;
};

Operations& operations() {
  static Operations* const instance = new Operations;  // never destroyed: a watchdog thread may ask during exit
  return *instance;
}

std::string describe(const std::list<OperationScope::Note>& notes) {
  std::optional<std::int64_t> step;
  std::string names;
  for (const auto& note : notes) {
    if (note.step) step = note.step;
    if (!names.empty()) names += ", ";
    names += note.name;
  }
  return step ? "step " + std::to_string(*step) + ", " + names : names;
}

}  // namespace

OperationScope::OperationScope(std::string name, std::optional<std::int64_t> step)
    : exceptions_at_start_(std::uncaught_exceptions()) {
  Operations& all = operations();
  const std::scoped_lock lock(all.mutex);
  // Not while an exception is on its way or being handled: cleaning up must not hide where it came from.
  if (exceptions_at_start_ == 0 && !std::current_exception()) all.failed.clear();
  note_ = all.open.insert(all.open.end(), Note{std::move(name), step});
}

OperationScope::~OperationScope() {
  Operations& all = operations();
  const std::scoped_lock lock(all.mutex);
  if (std::uncaught_exceptions() > exceptions_at_start_ && all.failed.empty()) all.failed = describe(all.open);
  all.open.erase(note_);
}

std::string current_operation() {
  Operations& all = operations();
  const std::scoped_lock lock(all.mutex);
  return describe(all.open);
}

std::optional<std::int64_t> current_step() {
  Operations& all = operations();
  const std::scoped_lock lock(all.mutex);
  for (auto note = all.open.rbegin(); note != all.open.rend(); ++note) {
    if (note->step) return note->step;
  }
  return std::nullopt;
}

std::string failed_operation() {
  Operations& all = operations();
  const std::scoped_lock lock(all.mutex);
  return all.failed;
}

}  // namespace ripieno
