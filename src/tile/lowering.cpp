#include "tile/lowering.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "base/parallel.h"

namespace tw::tile {
namespace {

using plan::Role;
using tensor::MemoryClass;
using tensor::Order;

constexpr std::uint32_t kPackedAlignment = 32, kRowAlignment = 8;

// Tensors that a step of the plan names.
template <class Fn>
void for_each_tensor(const std::vector<plan::Step>& steps, Fn&& fn) {
  for (const plan::Step& step : steps) {
    if (const auto* copy = std::get_if<plan::Copy>(&step.action)) {
      fn(copy->dst), fn(copy->src);
    } else if (const auto* product = std::get_if<plan::Product>(&step.action)) {
      fn(product->left), fn(product->right), fn(product->out);
    } else if (const auto* sum = std::get_if<plan::Sum>(&step.action)) {
      fn(sum->partials), fn(sum->out);
    } else if (const auto* local = std::get_if<plan::Local>(&step.action)) {
      for (const TensorId id : local->inputs) fn(id);
      for (const TensorId id : local->outputs) fn(id);
    } else if (const auto* repeat = std::get_if<plan::Repeat>(&step.action)) {
      for_each_tensor(repeat->body, fn);
    }
  }
}

// Largest element size of a product that reads the tensor as its left operand; 0: none (compiler.md 3.8).
void mark_left(const plan::Plan& plan, const std::vector<plan::Step>& steps,
               std::vector<std::uint32_t>& tails) {
  for (const plan::Step& step : steps) {
    if (const auto* product = std::get_if<plan::Product>(&step.action)) {
      const auto eb = tensor::bytes_of(plan.at(product->left).type.encoding.precision);
      std::uint32_t& tail = tails[plan.storage_of(product->left).value];
      tail = std::max(tail, 8 * eb);
    } else if (const auto* repeat = std::get_if<plan::Repeat>(&step.action)) {
      mark_left(plan, repeat->body, tails);
    }
  }
}

Placed place_owners(const plan::Tensor& t, std::uint32_t tiles) {
  Placed p;
  p.layout = std::make_unique<tensor::ResolvedLayout>(t.type);
  const std::uint32_t owners = p.layout->owners();
  p.canonical.resize(owners);
  p.next_on.assign(owners, kNone);
  for (std::uint32_t o = 0; o < owners; ++o) {
    p.canonical[o] = p.layout->canonical_owner(o);
    tiles = std::max(tiles, t.owners.tile_of(o) + 1);
  }
  p.first_on.assign(tiles, kNone);
  for (std::uint32_t o = owners; o-- > 0;) {
    std::uint32_t& first = p.first_on[t.owners.tile_of(o)];
    p.next_on[o] = first;
    first = o;
  }
  return p;
}

}  // namespace

Arg scalar(std::uint32_t value) {
  TW_CHECK(value < (1U << 20), "a scalar argument has 20 bits");
  return {BufferId{}, value};
}
Arg at(BufferId buffer, std::uint64_t offset) { return {buffer, static_cast<std::uint32_t>(offset)}; }

Lowering::Lowering(const plan::Plan& p, unsigned n) : plan(p), threads(n) {
  placed_.resize(plan.tensors.size());
  parallel_for(plan.tensors.size(), 1, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) placed_[i] = place_owners(plan.tensors[i], plan.tiles);
  });
  add_buffers();
  clean_ = clean_storages(*this);
}

// One buffer per storage root and owner with a shard, in that order.
void Lowering::add_buffers() {
  const std::size_t n = plan.tensors.size();
  std::vector<bool> used(n, false);
  std::vector<std::uint32_t> tails(n, 0), alignment(n, kRowAlignment);
  std::vector<bool> interleaved(n, false), first(n, false), last(n, false);
  const auto use = [&](TensorId id) { used[plan.storage_of(id).value] = true; };
  for_each_tensor(plan.steps, use);
  for (const TensorId id : plan.inputs) use(id), first[plan.storage_of(id).value] = true;
  for (const TensorId id : plan.outputs) use(id), last[plan.storage_of(id).value] = true;
  mark_left(plan, plan.steps, tails);
  for (std::uint32_t i = 0; i < n; ++i) {
    const plan::Tensor& t = plan.tensors[i];
    const std::uint32_t root = plan.storage_of(TensorId(i)).value;
    if (t.type.layout.order.kind != Order::Row) alignment[root] = kPackedAlignment;
    if (t.type.layout.memory == MemoryClass::Interleaved) interleaved[root] = true;
    if (t.role == Role::Parameter) use(TensorId(i)), first[root] = last[root] = true;
    if (t.role == Role::Input) first[root] = true;
    if (t.role == Role::Output) last[root] = true;
    TW_CHECK(layout(TensorId(i)).owners() == layout(TensorId(root)).owners(),
             "shared storage has equal owners");
  }
  buffers_.resize(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    const plan::Tensor& t = plan.tensors[i];
    if (t.storage.valid() || !used[i]) continue;
    const tensor::ResolvedLayout& shards = layout(TensorId(i));
    for (std::uint32_t owner = 0; owner < shards.owners(); ++owner) {
      Buffer b;
      b.tile = tile_of(TensorId(i), owner);
      b.bytes = up(static_cast<std::uint32_t>(shards.shard_bytes(owner)), 8U);
      b.tail = tails[i];
      b.alignment = alignment[i];
      b.memory = interleaved[i] ? MemoryClass::Interleaved : MemoryClass::Standard;
      b.members = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(t.members.size()));
      b.first = first[i] ? 0 : kForever;  // settled by set_lifetimes
      b.last = last[i] ? kForever : 0;
      b.pinned = first[i] || last[i];
      b.tensor = TensorId(i);
      buffers_[i].push_back(b.bytes == 0 ? BufferId{} : add_buffer(b));
    }
  }
}

BufferId Lowering::add_buffer(Buffer buffer) {
  program.buffers.push_back(buffer);
  return BufferId(static_cast<std::uint32_t>(program.buffers.size() - 1));
}

BufferId Lowering::add_scratch(TensorId serves, TileId tile, std::uint32_t bytes) {
  Buffer b;
  b.tile = tile;
  b.bytes = up(bytes, 8U);
  b.first = kForever;
  b.tensor = serves;
  return add_buffer(b);
}

std::uint32_t Lowering::owner_on(TensorId id, TileId tile, std::uint32_t hint) const {
  const Placed& p = placed(id);
  if (hint < p.layout->owners() && tile_of(id, hint) == tile) return hint;
  const std::uint32_t owner = tile.value < p.first_on.size() ? p.first_on[tile.value] : kNone;
  TW_CHECK(owner != kNone, fmt::format("{} has no shard on tile {}", tensor(id).name, tile.value));
  return owner;
}

View Lowering::view(TensorId id, std::uint32_t owner) const {
  const tensor::ResolvedLayout& shards = layout(id);
  View v;
  v.buffer = buffer(id, owner);
  if (shards.linear()) {
    v.cols = v.logical_cols = static_cast<std::uint32_t>(shards.shard_elements(owner));
    return v;
  }
  const std::vector<tensor::AxisSpan> bounds = shards.bounds(owner);
  const std::size_t rank = bounds.size();
  v.first = bounds[0].physical();
  for (std::size_t axis = 0; axis + 2 < rank; ++axis) v.outer *= bounds[axis].physical();
  if (rank >= 2) v.rows = bounds[rank - 2].physical(), v.logical_rows = bounds[rank - 2].logical();
  v.cols = bounds[rank - 1].physical(), v.logical_cols = bounds[rank - 1].logical();
  return v;
}

void Lowering::call(TileId tile, kernel::Code code, std::vector<std::uint32_t> spec,
                    std::span<const Arg> args) {
  Call c;
  c.tile = tile;
  c.spec =
      specs_.try_emplace({code, std::move(spec)}, static_cast<std::uint32_t>(specs_.size())).first->second;
  std::copy(args.begin(), args.end(), c.args.begin());
  for (const Arg& arg : args)
    TW_CHECK(!arg.buffer.valid() || inside_repeat || program.buffers[arg.buffer.value].members == 1,
             "a Repeat sequence is used outside its Repeat");
  pending_.push_back(c);
}

void Lowering::fill(TileId tile, BufferId buffer, std::uint32_t begin, std::uint32_t end) {
  const Arg args[] = {at(buffer, begin), scalar(end - begin)};
  call(tile, kernel::Code::Fill, {}, args);
}

void Lowering::separate(BufferId a, BufferId b) {
  if (a != b) program.separate.emplace_back(std::min(a, b), std::max(a, b));
}

void Lowering::flush() {
  if (pending_.empty()) return;
  std::stable_sort(pending_.begin(), pending_.end(),
                   [](const Call& a, const Call& b) { return a.tile < b.tile; });
  Step step;
  step.first_call = static_cast<std::uint32_t>(program.calls.size());
  step.call_count = static_cast<std::uint32_t>(pending_.size());
  program.calls.insert(program.calls.end(), pending_.begin(), pending_.end());
  pending_.clear();
  add_step(step);
}

void Lowering::add_step(Step step) {
  step.path = path_;
  program.steps.push_back(step);
}

void Lowering::set_path(const std::string& path) {
  const auto [it, added] = paths_.try_emplace(path, static_cast<std::uint32_t>(paths_.size()));
  if (added) program.paths.push_back(path);
  path_ = it->second;
}

void Lowering::order_specs() {
  std::vector<std::uint32_t> place(specs_.size());
  for (const auto& [spec, provisional] : specs_) {
    place[provisional] = static_cast<std::uint32_t>(program.specs.size());
    program.specs.push_back(spec);
  }
  for (Call& c : program.calls) c.spec = place[c.spec];
}

void Lowering::finish() {
  order_specs();
  std::sort(program.separate.begin(), program.separate.end());
  program.separate.erase(std::unique(program.separate.begin(), program.separate.end()),
                         program.separate.end());
  set_lifetimes(program);
}

}  // namespace tw::tile
