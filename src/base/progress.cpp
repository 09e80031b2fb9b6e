#include "base/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace tw {
using Clock = std::chrono::steady_clock;

Progress::Progress(ProgressMode mode) {
  terminal_ = isatty(2) != 0;
  enabled_ = mode != ProgressMode::Never;
  stage_start_ = last_print_ = Clock::now();
}

Progress::~Progress() { finish(); }

void Progress::stage(const std::string& name, std::uint64_t total) {
  std::lock_guard lock(mutex_);
  name_ = name;
  total_ = total;
  done_ = 0;
  stage_start_ = Clock::now();
  print(false);
}

void Progress::advance(std::uint64_t units) {
  std::lock_guard lock(mutex_);
  done_ += units;
  print(false);
}

void Progress::finish() {
  std::lock_guard lock(mutex_);
  if (drawn_) fmt::print(stderr, "\r\x1b[K");
  drawn_ = false;
}

void Progress::print(bool force) {
  if (!enabled_ || name_.empty()) return;
  const auto now = Clock::now();
  const auto interval = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10000);
  if (!force && now - last_print_ < interval) return;
  last_print_ = now;
  const double seconds = std::chrono::duration<double>(now - stage_start_).count();
  const double part =
      total_ != 0 ? std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_)) : 0;
  if (!terminal_) {
    if (total_ != 0) {
      fmt::print(stderr, "{}: {:.0f} % ({:.0f} s)\n", name_, 100 * part, seconds);
    } else {
      fmt::print(stderr, "{}: {:.0f} s\n", name_, seconds);
    }
    return;
  }
  const auto filled = static_cast<std::size_t>(part * 30);
  const std::string eta = part > 0.02 ? fmt::format(", {:.0f} s left", seconds * (1 - part) / part) : "";
  fmt::print(stderr, "\r\x1b[K{:<12} [{}{}] {:3.0f} %  {:.1f} s{}", name_, std::string(filled, '#'),
             std::string(30 - filled, '.'), 100 * part, seconds, eta);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace tw
