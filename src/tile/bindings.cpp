// Host data of parameters, inputs and outputs.
#include <fmt/core.h>

#include "base/error.h"
#include "base/math.h"
#include "base/parallel.h"
#include "tile/lowering.h"

namespace tw::tile {
namespace {

// Shard images one after the other in owner order, each on whole words.
void add_weights(Lowering& lowering, TensorId id) {
  const plan::Tensor& t = lowering.tensor(id);
  const tensor::ResolvedLayout& shards = lowering.layout(id);
  Binding binding;
  binding.tensor = id;
  for (std::uint32_t owner = 0; owner < shards.owners(); ++owner) {
    const auto bytes = up(static_cast<std::uint32_t>(shards.shard_bytes(owner)), 4U);
    if (bytes == 0) continue;
    binding.slices.push_back({lowering.buffer(id, owner), 0, binding.bytes, bytes});
    binding.bytes += bytes;
  }
  const std::size_t members = std::max<std::size_t>(1, t.members.size());
  for (std::size_t m = 0; m < members; ++m) {
    binding.member = static_cast<std::uint32_t>(m);
    binding.name = t.members.empty() ? t.name : t.members[m];
    lowering.program.weights.push_back(binding);
  }
}

// Row-major logical bytes as one owner would hold them.
tensor::ResolvedLayout host_layout(const tensor::TensorType& type) {
  tensor::TensorType host = type;
  host.layout = {};
  return tensor::ResolvedLayout(host);
}

Binding host_binding(Lowering& lowering, TensorId id, bool replicas) {
  const plan::Tensor& t = lowering.tensor(id);
  const tensor::ResolvedLayout& shards = lowering.layout(id);
  const tensor::ResolvedLayout host = host_layout(t.type);
  Binding binding;
  binding.tensor = id;
  binding.name = t.name;
  binding.bytes = tensor::elements(t.type.shape) * bytes_of(t.type.encoding.precision);
  const tensor::CoordMap map = tensor::identity_map(t.type.shape.size());
  for (std::uint32_t owner = 0; owner < shards.owners(); ++owner) {
    if (!lowering.buffer(id, owner).valid()) continue;
    if (!replicas && shards.canonical_owner(owner) != owner) continue;
    for (const tensor::Run& run : tensor::runs(shards, owner, map, host)) {
      if ((run.src_offset | run.dst_offset | run.bytes) % 4 != 0)
        throw Error(ErrorKind::SubWord, fmt::format("host tensor {} ({}) does not split into whole words",
                                                    t.name, to_string(t.type)));
      binding.slices.push_back({lowering.buffer(id, owner), run.dst_offset, run.src_offset, run.bytes});
    }
  }
  return binding;
}

}  // namespace

void add_bindings(Lowering& lowering) {
  for (std::uint32_t i = 0; i < lowering.plan.tensors.size(); ++i) {
    const plan::Tensor& t = lowering.plan.tensors[i];
    if (t.role == plan::Role::Parameter && !t.storage.valid()) add_weights(lowering, TensorId(i));
  }
  for (const TensorId id : lowering.plan.inputs)
    lowering.program.inputs.push_back(host_binding(lowering, id, true));
  for (const TensorId id : lowering.plan.outputs)
    lowering.program.outputs.push_back(host_binding(lowering, id, false));
}

}  // namespace tw::tile
