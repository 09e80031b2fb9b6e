#include "emit/host.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "target/topology.h"

namespace tw::emit {
namespace {

package::Binding bind(const tile::Program& program, const tile::Addresses& addresses, const tile::Binding& b,
                      package::BindingKind kind) {
  package::Binding out;
  out.name = b.name;
  out.kind = kind;
  out.bytes = b.bytes;
  out.slices.reserve(b.slices.size());
  for (const tile::BindingSlice& s : b.slices) {
    const tile::Buffer& buffer = program.buffers[s.buffer.value];
    const std::uint32_t base = addresses.of.empty() ? 0 : addresses.of[s.buffer.value];
    out.slices.push_back({topology::physical(buffer.tile).value,
                          base + b.member * buffer.stride() + s.buffer_offset, s.offset, s.bytes});
  }
  std::sort(out.slices.begin(), out.slices.end(), [](const package::Slice& a, const package::Slice& c) {
    return std::tie(a.tile, a.address) < std::tie(c.tile, c.address);
  });
  return out;
}

// Every tile queues its pieces (at most a page each); batch b takes one from every queue.
std::vector<package::HostBatch> batches(const std::vector<package::Binding>& bindings,
                                        package::BindingKind kind, bool to_device) {
  std::vector<std::vector<package::HostPiece>> queues;
  for (std::uint32_t b = 0; b < bindings.size(); ++b) {
    if (bindings[b].kind != kind) continue;
    for (const package::Slice& s : bindings[b].slices) {
      if (s.tile >= queues.size()) queues.resize(s.tile + 1);
      for (std::uint32_t done = 0; done < s.bytes; done += kPageBytes) {
        const std::uint32_t bytes = std::min(kPageBytes, s.bytes - done);
        queues[s.tile].push_back({s.tile, s.address + done, bytes, b, s.offset + done});
      }
    }
  }
  std::size_t count = 0;
  for (const auto& q : queues) count = std::max(count, q.size());
  std::vector<package::HostBatch> result(count);
  for (std::size_t n = 0; n < count; ++n) {
    result[n].to_device = to_device;
    for (const auto& q : queues) {
      if (n < q.size()) result[n].pieces.push_back(q[n]);
    }
  }
  return result;
}

}  // namespace

HostPlan host_plan(const tile::Program& program, const tile::Addresses& addresses) {
  HostPlan host;
  std::map<std::string, int> homes;  // a parameter that is read in two precisions or places has two
  for (const tile::Binding& b : program.weights) {
    package::Binding& binding =
        host.bindings.emplace_back(bind(program, addresses, b, package::BindingKind::Weight));
    if (const int home = ++homes[b.name]; home > 1) binding.name = fmt::format("{} ({})", b.name, home);
  }
  for (const tile::Binding& b : program.inputs)
    host.bindings.push_back(bind(program, addresses, b, package::BindingKind::Input));
  for (const tile::Binding& b : program.outputs)
    host.bindings.push_back(bind(program, addresses, b, package::BindingKind::Output));
  host.initialize = batches(host.bindings, package::BindingKind::Weight, true);
  host.inputs = batches(host.bindings, package::BindingKind::Input, true);
  host.outputs = batches(host.bindings, package::BindingKind::Output, false);
  return host;
}

std::vector<std::uint32_t> pieces_per_tile(const HostPlan& host, std::uint32_t tiles) {
  std::vector<std::uint32_t> count(tiles, 0);
  for (const auto* list : {&host.initialize, &host.inputs, &host.outputs}) {
    for (const package::HostBatch& batch : *list) {
      for (const package::HostPiece& piece : batch.pieces) ++count[piece.tile];
    }
  }
  return count;
}

}  // namespace tw::emit
