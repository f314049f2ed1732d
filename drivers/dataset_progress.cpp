#include "dataset_progress.hpp"

#include <unistd.h>

#include <iostream>
#include <ripieno/accounting/base/log.hpp>
#include <utility>

namespace ripieno {

ProgressLine::ProgressLine(std::string what)
    : what_(std::move(what)),
      rewrites_(::isatty(STDERR_FILENO) == 1 && log::level() <= log::Level::info),
      start_(Clock::now()),
      last_(start_) {}

ProgressLine::~ProgressLine() {
  if (rewrites_ && !shown_.empty()) std::cerr << "\r\x1b[K" << std::flush;
}

std::string ProgressLine::text(double fraction) const {
  std::string text = what_ + " " + std::to_string(static_cast<int>(100 * fraction)) + " %";
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const double done = fraction - first_fraction_;
  if (seconds < 2 || !(done > 0)) return text;
  const auto left = static_cast<long>(seconds / done * (1 - fraction)) + 1;
  return text + ", about " + (left < 120 ? std::to_string(left) + " s" : std::to_string(left / 60) + " min") + " left";
}

void ProgressLine::update(double fraction) {
  if (first_fraction_ < 0) first_fraction_ = fraction;
  if (!rewrites_) {
    constexpr std::chrono::seconds k_quiet{30};
    if (Clock::now() - last_ < k_quiet) return;
    last_ = Clock::now();
    log::info(text(fraction));
    return;
  }
  std::string line = text(fraction);
  if (line == shown_) return;
  shown_ = std::move(line);
  std::cerr << "\r\x1b[K" << shown_ << std::flush;
}

io::ImportProgress ProgressLine::import() {
  return
      [this](std::int64_t done, std::int64_t total) { update(static_cast<double>(done) / static_cast<double>(total)); };
}

}  // namespace ripieno
