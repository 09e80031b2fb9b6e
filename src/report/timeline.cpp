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

constexpr std::size_t kMaxMeetings = 1U << 18;

// Of equally late tiles the lowest.
void later(Meeting& a, const Meeting& b) {
  if (std::pair(b.cycles, a.latest_tile) > std::pair(a.cycles, b.latest_tile)) a = b;
}

}  // namespace

std::vector<Meeting> expected_meetings(const std::vector<package::Step>& steps, const std::string& file) {
  std::vector<Meeting> out;
  std::uint32_t phase = 0, iterations = 1;
  std::size_t body = 0;  // first meeting of the open Repeat
  for (const package::Step& s : steps) {
    if (s.kind == package::StepKind::RepeatBegin) {
      iterations = std::max(s.count, 1U);
      body = out.size();
    } else if (s.kind == package::StepKind::Exchange) {
      out.push_back({phase++});
    } else if (s.kind == package::StepKind::Checkpoint) {
      out.push_back({Meeting::kCheckpoint});
    } else if (s.kind == package::StepKind::RepeatEnd) {
      const std::vector<Meeting> once(out.begin() + static_cast<std::ptrdiff_t>(body), out.end());
      if (once.size() * std::uint64_t{iterations} > kMaxMeetings)
        throw Error(ErrorKind::File,
                    fmt::format("{}: a Repeat of {} iterations is too long to follow", file, iterations));
      for (; iterations > 1; --iterations) out.insert(out.end(), once.begin(), once.end());
    }
  }
  out.push_back({Meeting::kEnd});
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

// The stretches of one tile, added up by the phase that follows.
class Adder {
 public:
  explicit Adder(std::size_t phases) { call_.kernel_cycles.assign(phases + 1, 0); }

  void add(const Stretch& stretch, const std::vector<Work>& work) {
    cycles_ += stretch.kernel_cycles;
    for (const Work& w : work)
      if (w.kind == Work::Kernel) add(kernels_[w.code], 1, w.cycles, w.macs);
  }
  void close(std::uint32_t phase) {
    call_.kernel_cycles[phase] += std::exchange(cycles_, 0);
    for (const auto& [code, use] : std::exchange(kernels_, {}))
      add(all_[{phase, code}], use.calls, use.cycles, use.macs);
  }
  void row(std::uint32_t phase, const TileMemory& memory, std::uint32_t address, std::uint32_t tile) {
    if (phase == call_.rows.size()) call_.rows.push_back(read_row(memory, address, tile));
  }
  TileCall finish() {
    for (auto& [key, use] : all_) {
      std::tie(use.phase, use.code) = key;
      use.cycles_max = use.cycles;
      call_.kernels.push_back(use);
    }
    return std::move(call_);
  }

 private:
  static void add(KernelUse& use, std::uint64_t calls, std::uint64_t cycles, std::uint64_t macs) {
    use.calls += calls;
    use.cycles += cycles;
    use.macs += macs;
  }

  TileCall call_;
  std::uint64_t cycles_ = 0;  // since the phase before
  std::map<std::uint16_t, KernelUse> kernels_;
  std::map<std::pair<std::uint32_t, std::uint16_t>, KernelUse> all_;
};

// `latest`: its meetings become those of this tile where it is later.
TileCall follow_tile(TileWalk walk, std::uint32_t tile, const Report& report, std::vector<Meeting>& latest) {
  const auto phases = static_cast<std::uint32_t>(report.phases.size());
  Adder adder(phases);
  std::vector<Work> work;
  for (Meeting& m : latest) {
    work.clear();
    const Stretch s = next_meeting(walk, m, tile, report.file, &work);
    later(m, {m.phase, s.cycles, tile});
    adder.add(s, work);
    if (m.phase == Meeting::kCheckpoint) continue;
    adder.close(std::min(m.phase, phases));
    if (m.phase < phases) adder.row(m.phase, walk.memory(), s.row, tile);
  }
  return adder.finish();
}

}  // namespace

std::vector<TileCall> follow_call(const package::DeviceImage& image, std::uint32_t program, unsigned threads,
                                  Report& report) {
  report.meetings = expected_meetings(report.steps, report.file);
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
