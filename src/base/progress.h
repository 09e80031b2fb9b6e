// Progress of long work on standard error: a bar on a terminal, a plain line every ten seconds elsewhere,
// nothing when quiet (decisions.md 22). One instance per program, passed by reference.
#pragma once
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace tw {

enum class ProgressMode { Auto, Always, Never };

class Progress {
 public:
  explicit Progress(ProgressMode mode = ProgressMode::Never);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // Starts a named stage of `total` units (0: unknown). Thread safe, like everything here.
  void stage(const std::string& name, std::uint64_t total = 0);
  void advance(std::uint64_t units = 1);
  void finish();  // clears the bar

 private:
  void print(bool force);
  std::mutex mutex_;
  bool enabled_ = false, terminal_ = false, drawn_ = false;
  std::string name_;
  std::uint64_t done_ = 0, total_ = 0;
  std::chrono::steady_clock::time_point stage_start_, last_print_;
};

}  // namespace tw
