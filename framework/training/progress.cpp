#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ripieno/framework/training/progress.hpp>

namespace ripieno {
namespace {

constexpr auto k_terminal_period = std::chrono::milliseconds(200);
constexpr auto k_line_period = std::chrono::seconds(10);
constexpr int k_bar_width = 24;

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  char text[32];
  if (whole >= 3600) {
    std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", static_cast<long>(whole / 3600),
                  static_cast<long>(whole / 60 % 60), static_cast<long>(whole % 60));
  } else {
    std::snprintf(text, sizeof text, "%ld:%02ld", static_cast<long>(whole / 60), static_cast<long>(whole % 60));
  }
  return text;
}

}  // namespace

Progress::Progress(std::string label, std::int64_t total, bool enabled)
    : label_(std::move(label)),
      total_(std::max<std::int64_t>(total, 1)),
      enabled_(enabled),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      next_(start_ + (terminal_ ? Clock::duration(k_terminal_period) : Clock::duration(k_line_period))) {}

bool Progress::due() const { return enabled_ && Clock::now() >= next_; }

void Progress::update(std::int64_t done, std::string_view note) {
  if (!due()) return;
  next_ = Clock::now() + (terminal_ ? Clock::duration(k_terminal_period) : Clock::duration(k_line_period));
  draw(done, note);
}

void Progress::finish(std::string_view note) {
  if (!enabled_) return;
  draw(total_, note);
  if (terminal_) std::fputc('\n', stderr);
}

void Progress::draw(std::int64_t done, std::string_view note) {
  const double elapsed_s = std::chrono::duration<double>(Clock::now() - start_).count();
  const double fraction = static_cast<double>(done) / static_cast<double>(total_);
  std::string line = label_ + ' ' + std::to_string(done) + '/' + std::to_string(total_);
  if (terminal_) {
    const int filled = static_cast<int>(fraction * k_bar_width);
    line += " [" + std::string(static_cast<std::size_t>(filled), '#') +
            std::string(static_cast<std::size_t>(k_bar_width - filled), '.') + ']';
  }
  line += "  " + clock_text(elapsed_s);
  if (done > 0 && done < total_) line += " elapsed, " + clock_text(elapsed_s * (1 - fraction) / fraction) + " left";
  line.append("  ").append(note);
  const std::size_t width = line.size();
  if (terminal_) {
    if (width < drawn_width_) line.append(drawn_width_ - width, ' ');
    drawn_width_ = width;
    std::fprintf(stderr, "\r%s", line.c_str());
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  std::fflush(stderr);
}

}  // namespace ripieno
