// One call as Chrome trace events: the device, then each chosen tile. The slices of a track follow each other
// without gap, and all tracks end at the same cycle.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/version.h"
#include "kernel/kernel.h"
#include "report/memory.h"
#include "report/report.h"
#include "report/timeline.h"
#include "target/topology.h"

namespace tw::report {
namespace {
using json = nlohmann::ordered_json;

std::uint32_t program_of(const Report& r) {
  return std::ranges::find(r.areas, "program", &Area::kind)->begin;
}

// Events as one JSON text. Times are cycles here, whole nanoseconds there: what touches here touches there.
class Events {
 public:
  explicit Events(const Device& device) : clock_hz_(device.clock_hz) {}

  void name(const char* what, std::size_t track, const std::string& text) {
    add({{"name", what}, {"ph", "M"}, {"pid", 0}, {"tid", track}, {"args", {{"name", text}}}});
  }
  // Begin and end as events of their own: a reader that adds a duration to a time misses the next slice by a
  // rounding.
  void slice(std::size_t track, const char* category, const std::string& text, std::uint64_t begin,
             std::uint64_t cycles, json args) {
    if (cycles == 0) return;
    args["cycles"] = cycles;
    json event = {{"name", text},
                  {"cat", category},
                  {"ph", "B"},
                  {"pid", 0},
                  {"tid", track},
                  {"ts", microseconds(nanoseconds(begin))},
                  {"args", std::move(args)}};
    add(event);
    event.erase("args");
    event["ph"] = "E";
    event["ts"] = microseconds(nanoseconds(begin + cycles));
    add(event);
  }
  void counter(const std::string& text, std::uint64_t at, json args) {
    add({{"name", text},
         {"ph", "C"},
         {"pid", 0},
         {"ts", microseconds(nanoseconds(at))},
         {"args", std::move(args)}});
  }
  // An arrow from a slice around cycle `from` of one track to the slice around `to` of another.
  void flow(const std::string& text, std::size_t sender, std::uint64_t from, std::size_t receiver,
            std::uint64_t to, const json& args) {
    flow_end("s", text, sender, from, args);
    flow_end("f", text, receiver, to, args);
    ++flows_;
  }
  std::string text(const json& other) const {
    return "{\"traceEvents\":[\n" + text_ + "\n],\"displayTimeUnit\":\"ns\",\"otherData\":" + dump(other) +
           "}\n";
  }

 private:
  static std::string dump(const json& j) { return j.dump(-1, ' ', false, json::error_handler_t::replace); }
  void flow_end(const char* kind, const std::string& text, std::size_t track, std::uint64_t at,
                const json& args) {
    json event = {{"name", text},
                  {"cat", "words"},
                  {"ph", kind},
                  {"id", flows_},
                  {"pid", 0},
                  {"tid", track},
                  {"ts", microseconds(nanoseconds(at))}};
    if (*kind == 'f') event["bp"] = "e";  // the slice around it, not the next one
    event["args"] = args;
    add(event);
  }
  void add(const json& event) {
    if (!text_.empty()) text_ += ",\n";
    text_ += dump(event);
  }
  std::uint64_t nanoseconds(std::uint64_t cycles) const {
    return static_cast<std::uint64_t>(std::llround(1e9 * static_cast<double>(cycles) / clock_hz_));
  }
  static double microseconds(std::uint64_t ns) { return static_cast<double>(ns) / 1000; }

  double clock_hz_;
  std::string text_;
  std::uint64_t flows_ = 0;
};

class Track {
 public:
  Track(const Report& r, const package::Package& p, std::uint32_t tile, std::size_t id, Events& events)
      : r_(r),
        tile_(tile),
        id_(id),
        events_(events),
        walk_(walk_of_call(p.image, tile, program_of(r), r.file)),
        live_(live_bytes(r.lists[r.tiles[tile].list], r.steps.size())) {
    events_.name("thread_name", id, "tile " + std::to_string(tile));
  }

  // What the tile does from cycle `now` until all meet.
  void until(const Meeting& meeting, std::uint64_t now, const std::string& operation) {
    std::vector<Work> work;
    const Stretch stretch = next_meeting(walk_, meeting, tile_, r_.file, &work);
    std::uint64_t at = now;
    for (const Work& w : work) {
      const json args = w.kind == Work::Kernel ? json{{"operation", operation}} : json::object();
      events_.slice(id_, category(w.kind), name(w), at, w.cycles, args);
      at += w.cycles;
    }
    events_.slice(id_, "waiting", "waiting", at, meeting.cycles - stretch.cycles, json::object());
  }
  void exchange(const std::string& operation, std::uint64_t now, std::uint64_t cycles, json args) {
    events_.slice(id_, "exchange", operation, now, cycles, std::move(args));
  }
  std::uint32_t tile() const { return tile_; }
  std::size_t id() const { return id_; }
  void count(const std::vector<std::uint32_t>& points, std::uint64_t now) {
    if (points.empty()) return;
    const Live live =
        live_[*std::ranges::max_element(points, {}, [&](std::uint32_t p) { return live_[p].bytes(); })];
    if (live == shown_) return;
    shown_ = live;
    events_.counter("live bytes of tile " + std::to_string(tile_), now,
                    {{"standard", live.standard}, {"interleaved", live.interleaved}});
  }

 private:
  static const char* category(Work::Kind kind) {
    return kind == Work::Kernel ? "kernel" : kind == Work::RowSetup ? "row setup" : "supervisor";
  }
  static std::string name(const Work& w) {
    if (w.kind == Work::Supervisor) return "supervisor";
    if (w.kind == Work::Kernel) return kernel::find(static_cast<kernel::Code>(w.code))->name;
    return static_cast<kernel::Helper>(w.code) == kernel::Helper::PatchRow ? "patch row" : "patch Repeat";
  }

  const Report& r_;
  std::uint32_t tile_;
  std::size_t id_;
  Events& events_;
  TileWalk walk_;
  std::vector<Live> live_;
  std::optional<Live> shown_;
};

class Trace {
 public:
  Trace(const Report& r, const package::Package& p, const std::vector<std::uint32_t>& tiles)
      : r_(r), events_(r.device), order_(steps_of_call(r.steps, r.file)) {
    events_.name("process_name", 0, r.file);
    events_.name("thread_name", 0, "device");
    for (std::size_t i = 0; i < tiles.size(); ++i) tracks_.emplace_back(r, p, tiles[i], i + 1, events_);
  }

  std::string run() {
    for (const Meeting& m : r_.meetings) {
      count(next_points());
      compute(m);
      if (m.phase >= r_.phases.size()) continue;
      count({r_.phases[m.phase].step});
      exchange(r_.phases[m.phase], m.phase);
    }
    return events_.text({{"tool", std::string("tilewright ") + kVersion}, {"cycles", now_}});
  }

 private:
  // Points (0: upload, otherwise step index + 1) that begin together, up to the next meeting; a phase begins
  // by itself.
  std::vector<std::uint32_t> next_points() {
    std::vector<std::uint32_t> out;
    if (at_ == 0) out.push_back(0);
    while (at_ < order_.size()) {
      const std::uint32_t step = order_[at_++];
      if (r_.steps[step].kind == package::StepKind::Exchange) break;
      out.push_back(step + 1);
      if (r_.steps[step].kind == package::StepKind::Checkpoint) break;
    }
    return out;
  }
  // The counter shows the fullest of `points`.
  void count(const std::vector<std::uint32_t>& points) {
    for (Track& t : tracks_) t.count(points, now_);
  }
  void compute(const Meeting& m) {
    const std::string operation = m.phase < r_.phases.size() ? step_name(r_.phases[m.phase])
                                  : m.phase == Meeting::kEnd ? "behind the last phase"
                                                             : "checkpoint";
    events_.slice(0, "compute", "compute", now_, m.cycles,
                  {{"operation", operation}, {"latest_tile", m.latest_tile}});
    for (Track& t : tracks_) t.until(m, now_, operation);
    now_ += m.cycles;
  }
  void exchange(const Phase& p, std::uint32_t index) {
    const std::uint64_t cycles = std::uint64_t{p.horizon} + r_.device.phase_constant;
    const json args = {{"phase", index}, {"step", p.step}};
    events_.slice(0, "exchange", step_name(p), now_, cycles, args);
    for (Track& t : tracks_) t.exchange(step_name(p), now_, cycles, args);
    for (const Track& receiver : tracks_)
      for (const Track& sender : tracks_)
        if (sender.tile() != receiver.tile()) flow(sender, receiver, index);
    now_ += cycles;
  }
  // From when the first word that the receiver takes leaves, to when it arrives, both by the tile's own clock
  // from the start of its row, behind the phase constant. Clocks start at different times: no arrow points
  // back.
  void flow(const Track& sender, const Track& receiver, std::uint32_t phase) {
    const Window* first = nullptr;
    std::uint64_t words = 0;
    for (const Window& w : r_.rows[receiver.tile()][phase].windows) {
      if (w.source != sender.tile()) continue;
      if (first == nullptr) first = &w;
      words += w.words;
    }
    if (words == 0) return;
    const std::uint64_t row = now_ + r_.device.phase_constant;
    const int travel = topology::tau(PhysId(sender.tile()), PhysId(receiver.tile())) + 1;  // hardware.md 2.2
    const auto arrives = std::int64_t{first->begin};
    const std::int64_t leaves = std::clamp<std::int64_t>(arrives - travel, 0, arrives);
    events_.flow("words", sender.id(), row + static_cast<std::uint64_t>(leaves), receiver.id(),
                 row + first->begin, {{"phase", phase}, {"words", words}});
  }
  const std::string& step_name(const Phase& p) const { return r_.steps[p.step - 1].name; }

  const Report& r_;
  Events events_;
  std::vector<std::uint32_t> order_;
  std::size_t at_ = 0;  // in `order_`
  std::vector<Track> tracks_;
  std::uint64_t now_ = 0;
};

}  // namespace

std::string to_trace(const Report& report, const package::Package& package,
                     const std::vector<std::uint32_t>& tiles) {
  return Trace(report, package, tiles).run();
}

}  // namespace tw::report
