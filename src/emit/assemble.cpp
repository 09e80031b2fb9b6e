#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/math.h"
#include "base/parallel.h"
#include "emit/control.h"
#include "emit/cycles.h"
#include "emit/emit.h"

namespace tw::emit {
namespace {

void push_word(std::vector<std::uint8_t>& bytes, std::uint32_t w) {
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<std::uint8_t>(w >> (8 * i)));
}

std::vector<std::uint8_t> to_bytes(const std::vector<std::uint32_t>& words) {
  std::vector<std::uint8_t> bytes;
  bytes.reserve(4 * words.size());
  for (const std::uint32_t w : words) push_word(bytes, w);
  return bytes;
}

std::uint32_t read_word(const std::vector<std::uint8_t>& bytes, std::size_t at) {
  return bytes[at] | bytes[at + 1] << 8 | bytes[at + 2] << 16 |
         static_cast<std::uint32_t>(bytes[at + 3]) << 24;
}

std::vector<std::uint8_t> relocated(const TileRows& rows, std::uint32_t base) {
  std::vector<std::uint8_t> bytes = rows.bytes;
  for (const std::uint32_t at : rows.fixups) {
    const std::uint32_t value = read_word(bytes, at) + base;
    for (int i = 0; i < 4; ++i) bytes[at + i] = static_cast<std::uint8_t>(value >> (8 * i));
  }
  return bytes;
}

class Blobs {
 public:
  explicit Blobs(std::vector<std::vector<std::uint8_t>>& out) : out_(out) {}
  std::uint32_t add(std::vector<std::uint8_t> bytes) {
    auto [it, fresh] = index_.try_emplace(bytes, static_cast<std::uint32_t>(out_.size()));
    if (fresh) out_.push_back(std::move(bytes));
    return it->second;
  }

 private:
  std::vector<std::vector<std::uint8_t>>& out_;
  std::map<std::vector<std::uint8_t>, std::uint32_t> index_;
};

std::uint32_t size32(const std::vector<std::uint8_t>& bytes) {
  return static_cast<std::uint32_t>(bytes.size());
}

}  // namespace

std::uint32_t row_base(const Device& device, std::uint32_t code_bytes) {
  return device.code_base + up(code_bytes + device.fetch_guard, device.element_bytes);
}

std::uint32_t code_bytes(const Device& device, const tile::Program& program) {
  const Runtime runtime = make_runtime(device, program);
  const HostPlan host = host_plan(program, {});
  ControlContext context{device, program, runtime, host, nullptr, nullptr, 0, {}, {}, {}, {}};
  fill_slots(context);
  const auto work = tile_work(device, program);
  std::vector<std::uint32_t> words(work.size());
  parallel_for(work.size(), 16, 0, [&](std::size_t begin, std::size_t end) {
    for (std::size_t t = begin; t < end; ++t)
      words[t] =
          static_cast<std::uint32_t>(tile_program(context, static_cast<std::uint32_t>(t), work[t]).size());
  });
  return runtime.program - device.code_base + 4 * *std::max_element(words.begin(), words.end());
}

RowTables row_tables(const Device& device, const tile::Program& program,
                     const std::vector<exchange::Rows>& rows) {
  std::vector<std::uint32_t> iterations;
  for (const tile::Phase& p : program.phases) iterations.push_back(p.iterations);
  RowTables tables;
  tables.tiles = build_rows(device, rows, iterations);
  for (const TileRows& t : tables.tiles) {
    tables.bytes.push_back(size32(t.bytes));
    tables.max_bytes = std::max(tables.max_bytes, size32(t.bytes));
    tables.mean_bytes += size32(t.bytes);
  }
  tables.mean_bytes /= static_cast<double>(tables.tiles.size());
  return tables;
}

Image assemble(const Device& device, const tile::Program& program, const tile::Addresses& addresses,
               const std::vector<exchange::Rows>& rows, const RowTables& tables, std::uint32_t code_bytes,
               std::uint32_t row_bytes) {
  const std::uint32_t base = row_base(device, code_bytes);
  TW_CHECK(base + row_bytes <= device.interleaved_base,
           "code and exchange rows end beyond executable memory");
  const Runtime runtime = make_runtime(device, program);
  const HostPlan host = host_plan(program, addresses);
  ControlContext context{device, program, runtime, host, &addresses, &tables.tiles, base, {}, {}, {}, {}};
  fill_slots(context);
  const auto work = tile_work(device, program);

  std::vector<std::vector<std::uint8_t>> programs(work.size()), row_images(work.size());
  parallel_for(work.size(), 16, 0, [&](std::size_t begin, std::size_t end) {
    for (std::size_t t = begin; t < end; ++t) {
      programs[t] = to_bytes(tile_program(context, static_cast<std::uint32_t>(t), work[t]));
      row_images[t] = relocated(tables.tiles[t], base);
    }
  });

  Image out;
  out.image.target = device.name;
  out.image.memory_base = device.memory_base;
  out.image.memory_end = device.memory_end;
  out.image.bindings = host.bindings;
  out.image.initialize = host.initialize;
  out.image.inputs = host.inputs;
  out.image.outputs = host.outputs;
  Blobs blobs(out.image.blobs);
  const std::uint32_t launch = blobs.add(to_bytes({0, runtime.entry}));
  const std::uint32_t state = blobs.add(std::vector<std::uint8_t>(16, 0));
  const std::uint32_t code = blobs.add(runtime.bytes);
  for (std::size_t t = 0; t < work.size(); ++t) {
    TW_CHECK(runtime.program - device.code_base + programs[t].size() <= code_bytes,
             "the program exceeds its reservation");
    TW_CHECK(row_images[t].size() + device.fetch_guard <= row_bytes, "the row table exceeds its reservation");
    const std::uint32_t program_size = size32(programs[t]), rows_size = size32(row_images[t]);
    package::TileImage tile;
    tile.entry = runtime.entry;
    tile.segments = {
        {device.load_base, 8, launch, package::kRead},
        {device.runtime_state, 16, state, package::kRead | package::kWrite},
        {device.code_base, size32(runtime.bytes), code, package::kRead | package::kExecute},
        {runtime.program, program_size, blobs.add(std::move(programs[t])),
         package::kRead | package::kExecute},
        {base, rows_size, blobs.add(std::move(row_images[t])),
         package::kRead | package::kWrite | package::kExecute},
    };
    out.image.tiles.push_back(std::move(tile));
  }
  out.symbols = runtime.symbols;
  out.symbols.push_back(
      {UINT32_MAX, runtime.program, code_bytes - (runtime.program - device.code_base), "program"});
  out.symbols.push_back({UINT32_MAX, base, row_bytes, "rows"});
  const ScheduledCycles cycles = scheduled_cycles(context, work, rows);
  out.scheduled_cycles = cycles.total;
  out.phase_ends = cycles.phases;
  // Ten times the scheduled cycles, with room for the fixed cost of an empty program (decisions.md 14).
  out.image.step_limit = 10 * static_cast<std::uint64_t>(cycles.total) + 100000;
  return out;
}

}  // namespace tw::emit
