#include "sim/machine.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/digest.h"
#include "base/error.h"
#include "base/parallel.h"
#include "sim/exchange_unit.h"
#include "sim/host.h"
#include "sim/loader.h"
#include "sim/supervisor.h"
#include "sim/tile.h"

namespace tw::sim {
namespace {

constexpr std::size_t kGrain = 16;
constexpr std::uint64_t kHugePageThreshold = 64U << 20;

// Rendezvous of boot code and host phases; a sync 3 without a row stands only in boot code.
bool at_host(Stop stop) {
  return stop == Stop::Internal || stop == Stop::External || stop == Stop::Host || stop == Stop::Halted;
}

const char* name_of(Stop stop) {
  static constexpr std::array kNames = {"running",      "an internal sync", "an exchange", "an external sync",
                                        "a host batch", "a checkpoint",     "completion",  "a fault"};
  return kNames[static_cast<std::size_t>(stop)];
}

}  // namespace

struct Machine::State {
  Device device;
  const package::DeviceImage& image;
  Options options;
  Memory memory;
  Context context;
  std::vector<Tile> tiles;
  ExchangeUnit exchange;
  std::vector<std::uint32_t> slots;
  std::function<void(std::uint32_t)> on_trap;
  std::optional<Fault> fault;  // the machine is dead
  bool initialized = false;
  bool waiting = false;  // every tile stands at a host batch of the next call

  // Of the running call.
  CallResult result;
  std::uint64_t release = 0;              // cycle of the last common release
  std::uint64_t busy = 0;                 // summed over tiles
  bool host_edge = true;                  // the last rendezvous belongs to the host
  bool in_body = false;                   // between the last input batch and the first output batch
  std::uint64_t body = 0, body_busy = 0;  // time there that stands between two rendezvous of the host
  std::uint32_t traps = 0;

  State(const Device& d, const package::DeviceImage& i, const Options& o)
      : device(d),
        image((check_image(d, i), i)),
        options(o),
        memory(d.tiles, d.memory_base, d.memory_end, loaded_bytes(i) > kHugePageThreshold),
        context{device, memory, options, i.step_limit},
        tiles(d.tiles),
        exchange(context, tiles),
        slots(arena_slots(i)) {}

  CallResult call(std::initializer_list<const std::vector<package::HostBatch>*> lists, HostData& data,
                  Progress* progress);
  void begin_call();
  bool advance();
  std::optional<Stop> rendezvous();
  void account(Stop stop);
  void run_exchange();
  bool run_host(std::span<const package::HostBatch* const> batches, std::size_t& next, const HostData& data);
  void finish();
  bool die(Fault f) {
    f.phase = result.stats.exchange_phases;
    fault = f;
    return false;
  }
};

void Machine::State::begin_call() {
  result = {};
  release = busy = body = body_busy = 0;
  host_edge = true;
  traps = 0;
  for (Tile& t : tiles) t.time = t.instructions = t.fp8_clips = t.macs = 0;
}

// Every tile to its next rendezvous; false: the fault with the lowest cycle, then tile, is recorded.
bool Machine::State::advance() {
  parallel_for(tiles.size(), kGrain, options.threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t t = begin; t < end; ++t)
      if (tiles[t].stop != Stop::Halted) run_supervisor(context, tiles[t]);
  });
  const Tile* first = nullptr;
  for (const Tile& t : tiles)
    if (t.stop == Stop::Faulted && (first == nullptr || t.fault->cycle < first->fault->cycle)) first = &t;
  return first == nullptr || die(*first->fault);
}

// What all tiles stand at; nullopt: they do not agree, which is a fault of the lowest tile of the minority.
std::optional<Stop> Machine::State::rendezvous() {
  const auto key = [](const Tile& t) { return std::pair(t.stop, t.stop == Stop::Trap ? t.trap_code : 0); };
  const auto others = static_cast<std::size_t>(
      std::count_if(tiles.begin(), tiles.end(), [&](const Tile& t) { return key(t) != key(tiles[0]); }));
  if (others == 0) return tiles[0].stop;
  const auto odd =
      std::find_if(tiles.begin(), tiles.end(), [&](const Tile& t) { return key(t) != key(tiles[0]); });
  const Tile& blamed = 2 * others <= tiles.size() ? *odd : tiles[0];
  const Tile& majority = 2 * others <= tiles.size() ? tiles[0] : *odd;
  die({FaultKind::BarrierMismatch, blamed.id, blamed.pc, blamed.time, 0,
       fmt::format("the tile stands at {}, tile {} at {}", name_of(blamed.stop), majority.id,
                   name_of(majority.stop))});
  return std::nullopt;
}

// The time since the last release; stretches between two host rendezvous are host time (decisions.md 12, 13).
void Machine::State::account(Stop stop) {
  std::uint64_t latest = release;
  for (const Tile& t : tiles) latest = std::max(latest, t.time);
  std::uint64_t worked = 0;
  for (const Tile& t : tiles) worked += t.time - release;
  if (!(host_edge && at_host(stop))) {
    result.stats.cycles += latest - release;
    busy += worked;
  } else if (in_body) {
    body += latest - release;
    body_busy += worked;
  } else {
    result.stats.host_cycles += latest - release;
  }
  host_edge = at_host(stop);
  release = latest;
}

void Machine::State::run_exchange() {
  const ExchangeUnit::Result phase = exchange.run();
  if (phase.fault) {
    Fault f = *phase.fault;
    f.cycle += release;
    die(f);
    return;
  }
  const std::uint64_t cycles = phase.horizon + std::uint64_t{device.phase_constant};
  release += cycles;
  CallStats& s = result.stats;
  s.cycles += cycles;
  s.exchange_cycles += cycles;
  s.messages += phase.messages;
  s.words_moved += phase.words;
  ++s.exchange_phases;
  s.phase_ends.push_back(s.cycles);
}

bool Machine::State::run_host(std::span<const package::HostBatch* const> batches, std::size_t& next,
                              const HostData& data) {
  const package::HostBatch& batch = *batches[next++];
  if (auto f = run_batch(context, tiles, batch, slots, data)) return die(*f);
  std::uint32_t longest = 0;
  for (const package::HostPiece& p : batch.pieces) longest = std::max(longest, p.bytes / 4);
  result.stats.host_cycles += longest;  // one word per cycle and tile at best; not part of `cycles`
  return true;
}

void Machine::State::finish() {
  CallStats& s = result.stats;
  // Without an exchange phase all that the program does stands between two rendezvous of the host.
  (s.exchange_phases == 0 ? s.cycles : s.host_cycles) += body;
  if (s.exchange_phases == 0) busy += body_busy;
  s.compute_cycles = busy / tiles.size();
  s.sync_cycles = s.cycles - s.compute_cycles - s.exchange_cycles;
  for (const Tile& t : tiles) {
    s.fp8_clips += t.fp8_clips;
    s.macs += t.macs;
  }
  result.fault = fault;
}

CallResult Machine::State::call(std::initializer_list<const std::vector<package::HostBatch>*> lists,
                                HostData& data, Progress* progress) {
  std::vector<const package::HostBatch*> batches;
  for (const auto* list : lists)
    for (const package::HostBatch& b : *list) batches.push_back(&b);
  begin_call();
  const std::size_t inputs = lists.size() > 1 ? (*lists.begin())->size() : SIZE_MAX;
  std::size_t next = 0;
  while (!fault) {
    if (!waiting && !advance()) break;
    waiting = false;
    const std::optional<Stop> stop = rendezvous();
    if (!stop) break;
    in_body = next == inputs;
    account(*stop);
    if (*stop == Stop::Halted) {
      if (next < batches.size())
        die({FaultKind::HostLimit, 0, tiles[0].pc, release, 0,
             fmt::format("completed before host batch {}", next)});
      break;
    }
    if (*stop == Stop::Host) {
      if (next == batches.size()) {
        waiting = true;
        break;
      }
      if (!run_host(batches, next, data)) break;
    } else if (*stop == Stop::Exchange) {
      run_exchange();
      if (progress != nullptr) progress->advance();
    } else if (*stop == Stop::Trap) {
      if (on_trap) on_trap(traps);
      ++traps;
    }
    for (Tile& t : tiles) t.time = release;
    if (release > context.step_limit)
      die({FaultKind::StepLimit, 0, tiles[0].pc, release, 0,
           fmt::format("more than {} cycles in one call", context.step_limit)});
  }
  finish();
  return std::move(result);
}

Machine::Machine(const Device& device, const package::DeviceImage& image, const Options& options)
    : state_(std::make_unique<State>(device, image, options)) {}
Machine::~Machine() = default;

namespace {

// Host data of all bindings of one kind, in binding order; sizes must be the bindings'.
HostData sources(const package::DeviceImage& image, package::BindingKind kind,
                 const std::vector<std::vector<std::uint8_t>>& given) {
  HostData data{std::vector<const std::vector<std::uint8_t>*>(image.bindings.size(), nullptr),
                std::vector<std::vector<std::uint8_t>*>(image.bindings.size(), nullptr)};
  std::size_t next = 0;
  for (std::size_t b = 0; b < image.bindings.size(); ++b) {
    if (image.bindings[b].kind != kind) continue;
    if (next == given.size() || given[next].size() != image.bindings[b].bytes)
      throw Error(ErrorKind::Shape, fmt::format("'{}' needs {} bytes of data", image.bindings[b].name,
                                                image.bindings[b].bytes));
    data.sources[b] = &given[next++];
  }
  if (next != given.size()) throw Error(ErrorKind::Shape, "more data than bindings");
  return data;
}

}  // namespace

CallResult Machine::initialize(const std::vector<std::vector<std::uint8_t>>& weights, std::uint32_t calls) {
  State& s = *state_;
  TW_CHECK(!s.initialized, "a machine is initialised once");
  HostData data = sources(s.image, package::BindingKind::Weight, weights);
  s.initialized = true;
  load_image(s.context, s.image, calls, s.tiles);
  return s.call({&s.image.initialize}, data, nullptr);
}

CallResult Machine::run(const std::vector<std::vector<std::uint8_t>>& inputs, Progress* progress) {
  State& s = *state_;
  TW_CHECK(s.initialized, "initialize() comes before run()");
  HostData data = sources(s.image, package::BindingKind::Input, inputs);
  std::vector<std::vector<std::uint8_t>> outputs;
  for (const package::Binding& b : s.image.bindings)
    if (b.kind == package::BindingKind::Output) outputs.emplace_back(b.bytes, std::uint8_t{0});
  std::size_t next = 0;
  for (std::size_t b = 0; b < s.image.bindings.size(); ++b)
    if (s.image.bindings[b].kind == package::BindingKind::Output) data.sinks[b] = &outputs[next++];
  CallResult result = s.call({&s.image.inputs, &s.image.outputs}, data, progress);
  result.outputs = std::move(outputs);
  return result;
}

void Machine::on_trap(std::function<void(std::uint32_t)> callback) { state_->on_trap = std::move(callback); }

std::vector<std::uint8_t> Machine::read(std::uint32_t tile, std::uint32_t address,
                                        std::uint32_t bytes) const {
  TW_CHECK(tile < state_->tiles.size() && state_->memory.contains(address, bytes),
           "read outside the machine");
  const std::uint8_t* p = state_->memory.at(tile, address);
  return {p, p + bytes};
}

std::uint64_t Machine::written_map_digest() const {
  std::uint64_t digest = 0;
  for (const Tile& t : state_->tiles) digest = xxh3_64(state_->memory.mark_bytes(t.id), digest);
  return digest;
}

bool Machine::halted() const {
  return state_->initialized && std::all_of(state_->tiles.begin(), state_->tiles.end(),
                                            [](const Tile& t) { return t.stop == Stop::Halted; });
}

}  // namespace tw::sim
