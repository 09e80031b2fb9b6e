// One call as Chrome trace events. All tiles wait for each other at every phase, so a phase begins when the
// busiest tile's kernels are over.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/version.h"
#include "report/memory.h"
#include "report/report.h"

namespace tw::report {
namespace {
using json = nlohmann::ordered_json;

constexpr std::uint32_t kMaxIterations = 4096;

class Trace {
 public:
  Trace(const Report& report, const std::vector<std::uint32_t>& tiles) : r_(report), tiles_(tiles) {
    fullest_.assign(tiles_.size(), 0);
    for (const std::uint32_t t : tiles_)
      live_.push_back(live_bytes(r_.lists[r_.tiles[t].list], r_.steps.size()));
    for (std::size_t p = 0; p <= r_.phases.size(); ++p) {
      KernelCycles& most = most_.emplace_back();
      for (const auto& kernels : r_.kernels) {
        most.first = std::max(most.first, kernels[p].first);
        most.later = std::max(most.later, kernels[p].later);
      }
    }
  }

  std::string run() {
    name("process_name", 0, r_.file);
    name("thread_name", 0, "phases of the device");
    for (std::size_t i = 0; i < tiles_.size(); ++i)
      name("thread_name", i + 1, "tile " + std::to_string(tiles_[i]));
    for (std::size_t s = 0; s < r_.steps.size(); ++s) {
      if (r_.steps[s].kind != package::StepKind::RepeatBegin) {
        step(s, false);
        continue;
      }
      s = repeat(s);
    }
    kernels(r_.phases.size(), false, "behind the last phase");
    const json out = {{"traceEvents", events_},
                      {"displayTimeUnit", "ns"},
                      {"otherData", {{"tool", std::string("tilewright ") + kVersion}, {"cycles", now_}}}};
    return out.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  }

 private:
  // All iterations of the Repeat that begins at step `begin`; returns its last step.
  std::size_t repeat(std::size_t begin) {
    std::size_t end = begin + 1;
    while (end < r_.steps.size() && r_.steps[end].kind != package::StepKind::RepeatEnd) ++end;
    const std::uint32_t first_phase = phase_;
    if (r_.steps[begin].count > kMaxIterations)
      throw Error(ErrorKind::File, r_.file + ": a Repeat of " + std::to_string(r_.steps[begin].count) +
                                       " iterations is too long for a trace");
    for (std::uint32_t i = 0; i < std::max(r_.steps[begin].count, 1U); ++i) {
      phase_ = first_phase;
      for (std::size_t s = begin + 1; s < end; ++s) step(s, i > 0);
    }
    return end;
  }

  void step(std::size_t s, bool later) {
    const std::uint32_t point = static_cast<std::uint32_t>(s) + 1;
    if (r_.steps[s].kind != package::StepKind::Exchange) return look_at(point);
    kernels(phase_, later, r_.steps[s].name);
    look_at(point);
    count_live();
    const std::uint64_t cycles = std::uint64_t{r_.phases[phase_].horizon} + r_.device.phase_constant;
    for (std::size_t track = 0; track <= tiles_.size(); ++track)
      slice(track, track == 0 ? r_.steps[s].name : "exchange", cycles, {{"phase", phase_}, {"step", point}});
    now_ += cycles;
    ++phase_;
  }

  void kernels(std::size_t phase, bool later, const std::string& operation) {
    auto cycles_of = [&](const KernelCycles& k) { return later ? k.later : k.first; };
    const std::uint64_t most = cycles_of(most_[phase]);
    count_live();
    if (most == 0) return;
    slice(0, "kernels", most, {{"operation", operation}});
    for (std::size_t i = 0; i < tiles_.size(); ++i) {
      const std::uint64_t own = cycles_of(r_.kernels[tiles_[i]][phase]);
      if (own > 0) slice(i + 1, "kernels", own, {{"operation", operation}});
    }
    now_ += most;
  }

  double microseconds(std::uint64_t cycles) const {
    return 1e6 * static_cast<double>(cycles) / r_.device.clock_hz;
  }

  void slice(std::size_t track, const std::string& text, std::uint64_t cycles, json args) {
    args["cycles"] = cycles;
    events_.push_back({{"name", text},
                       {"ph", "X"},
                       {"pid", 0},
                       {"tid", track},
                       {"ts", microseconds(now_)},
                       {"dur", microseconds(cycles)},
                       {"args", std::move(args)}});
  }

  // Steps between two phases begin together: the counter shows the fullest of them.
  void look_at(std::uint32_t point) {
    for (std::size_t i = 0; i < tiles_.size(); ++i)
      if (fullest_[i] == 0 || live_[i][point].bytes() > live_[i][fullest_[i]].bytes()) fullest_[i] = point;
  }
  void count_live() {
    for (std::size_t i = 0; i < tiles_.size(); ++i) {
      if (fullest_[i] == 0) continue;
      const Live& live = live_[i][std::exchange(fullest_[i], 0)];
      events_.push_back({{"name", "live bytes of tile " + std::to_string(tiles_[i])},
                         {"ph", "C"},
                         {"pid", 0},
                         {"ts", microseconds(now_)},
                         {"args", {{"standard", live.standard}, {"interleaved", live.interleaved}}}});
    }
  }

  void name(const char* what, std::size_t track, const std::string& text) {
    events_.push_back({{"name", what}, {"ph", "M"}, {"pid", 0}, {"tid", track}, {"args", {{"name", text}}}});
  }

  const Report& r_;
  std::vector<std::uint32_t> tiles_;
  std::vector<std::vector<Live>> live_;
  std::vector<std::uint32_t> fullest_;  // of each tile since the counter was written; 0: none
  std::vector<KernelCycles> most_;      // of all tiles, per phase
  std::uint32_t phase_ = 0;
  std::uint64_t now_ = 0;  // cycles
  json events_ = json::array();
};

}  // namespace

std::string to_trace(const Report& report, const std::vector<std::uint32_t>& tiles) {
  return Trace(report, tiles).run();
}

}  // namespace tw::report
