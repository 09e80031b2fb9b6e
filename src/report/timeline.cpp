#include "report/timeline.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "report/row.h"

namespace tw::report {
namespace {

constexpr std::size_t kMaxSteps = 1U << 18;  // of a call that has Repeats

// Of equally late tiles the lowest.
void later(Meeting& a, const Meeting& b) {
  if (std::pair(b.cycles, a.latest_tile) > std::pair(a.cycles, b.latest_tile)) a = b;
}

}  // namespace

std::vector<std::uint32_t> steps_of_call(const std::vector<package::Step>& steps, const std::string& file) {
  std::vector<std::uint32_t> out;
  std::uint32_t iterations = 1;
  std::size_t body = 0;  // where that of the open Repeat begins
  for (std::uint32_t s = 0; s < steps.size(); ++s) {
    out.push_back(s);
    if (steps[s].kind == package::StepKind::RepeatBegin) {
      iterations = std::max(steps[s].count, 1U);
      body = out.size();
    } else if (steps[s].kind == package::StepKind::RepeatEnd) {
      const std::vector<std::uint32_t> once(out.begin() + static_cast<std::ptrdiff_t>(body), out.end());
      if (out.size() + once.size() * std::uint64_t{iterations - 1} > kMaxSteps)
        throw Error(ErrorKind::File,
                    fmt::format("{}: a Repeat of {} iterations is too long to follow", file, iterations));
      for (; iterations > 1; --iterations) out.insert(out.end(), once.begin(), once.end());
    }
  }
  return out;
}

TileWalk walk_of_call(const package::DeviceImage& image, std::uint32_t tile, std::uint32_t program,
                      const std::string& file) {
  TileWalk walk(image, tile, program);
  const std::size_t batches = image.initialize.size() + image.inputs.size();
  for (std::size_t b = 0; b < batches; ++b)
    if (walk.next().barrier != Barrier::Host)
      throw Error(ErrorKind::File,
                  fmt::format("{}: the program of tile {} does not come to host batch {}", file, tile, b));
  return walk;
}

Stretch next_meeting(TileWalk& walk, const Meeting& expected, std::uint32_t tile, const std::string& file,
                     std::vector<Work>* work) {
  const Stretch s = walk.next(work);
  const bool good = expected.phase == Meeting::kEnd ? s.barrier == Barrier::Host || s.barrier == Barrier::End
                    : expected.phase == Meeting::kCheckpoint ? s.barrier == Barrier::Other
                                                             : s.barrier == Barrier::Exchange;
  if (!good)
    throw Error(ErrorKind::File,
                fmt::format("{}: the program of tile {} does not run the phases that the side section names",
                            file, tile));
  return s;
}

namespace {

// The barriers of a call in order; `cycles` and `latest_tile` still zero.
std::vector<Meeting> expected_meetings(const Report& report) {
  std::vector<std::uint32_t> phase_of(report.steps.size());
  for (std::uint32_t p = 0; p < report.phases.size(); ++p) phase_of[report.phases[p].step - 1] = p;
  std::vector<Meeting> out;
  for (const std::uint32_t s : steps_of_call(report.steps, report.file)) {
    if (report.steps[s].kind == package::StepKind::Exchange) out.push_back({phase_of[s]});
    if (report.steps[s].kind == package::StepKind::Checkpoint) out.push_back({Meeting::kCheckpoint});
  }
  out.push_back({Meeting::kEnd});
  return out;
}

// `latest`: its meetings become those of this tile where it is later.
TileCall follow_tile(TileWalk walk, std::uint32_t tile, const Report& report, std::vector<Meeting>& latest) {
  const auto phases = static_cast<std::uint32_t>(report.phases.size());
  TileCall call;
  call.kernel_cycles.assign(phases + 1, 0);
  std::map<std::pair<std::uint32_t, std::uint16_t>, KernelUse> uses;
  std::vector<Work> work;
  for (Meeting& m : latest) {
    const Stretch s = next_meeting(walk, m, tile, report.file, &work);
    later(m, {m.phase, s.cycles, tile});
    if (m.phase == Meeting::kCheckpoint) continue;  // its work counts for the phase that follows
    const std::uint32_t phase = std::min(m.phase, phases);
    for (const Work& w : work) {
      if (w.kind != Work::Kernel) continue;
      KernelUse& use = uses[{phase, w.code}];
      use.calls += 1;
      use.cycles += w.cycles;
      use.macs += w.macs;
      call.kernel_cycles[phase] += w.cycles;
    }
    work.clear();
    if (phase < phases && phase == call.rows.size())
      call.rows.push_back(read_row(walk.memory(), s.row, tile));
  }
  for (auto& [key, use] : uses) {
    std::tie(use.phase, use.code) = key;
    call.kernels.push_back(use);
  }
  return call;
}

}  // namespace

std::vector<TileCall> follow_call(const package::DeviceImage& image, std::uint32_t program, unsigned threads,
                                  Report& report) {
  report.meetings = expected_meetings(report);
  const std::vector<Meeting> expected = report.meetings;
  std::vector<TileCall> calls(image.tiles.size());
  std::mutex mutex;
  parallel_for(image.tiles.size(), 8, threads, [&](std::size_t begin, std::size_t end) {
    std::vector<Meeting> latest = expected;
    for (std::size_t t = begin; t < end; ++t) {
      const auto tile = static_cast<std::uint32_t>(t);
      calls[t] = follow_tile(walk_of_call(image, tile, program, report.file), tile, report, latest);
    }
    const std::lock_guard lock(mutex);
    for (std::size_t m = 0; m < latest.size(); ++m) later(report.meetings[m], latest[m]);
  });
  return calls;
}

}  // namespace tw::report
