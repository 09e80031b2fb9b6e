#include "plan/walk.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "plan/attention.h"
#include "plan/block.h"
#include "plan/canonical.h"
#include "plan/general.h"
#include "plan/roles.h"
#include "plan/select.h"

namespace tw::plan {
namespace {

using graph::Op;
using graph::OpKind;

constexpr std::size_t kEnd = SIZE_MAX;

bool is_view(OpKind kind) {
  switch (kind) {
    case OpKind::SplitHeads:
    case OpKind::MergeHeads:
    case OpKind::Slice:
    case OpKind::Reshape:
    case OpKind::Transpose:
    case OpKind::Expand:
      return true;
    default:
      return false;
  }
}

// Work on F32 rows.
bool is_general(OpKind kind) {
  return kind == OpKind::Unary || kind == OpKind::Binary || kind == OpKind::Softmax ||
         kind == OpKind::Reduce || kind == OpKind::Concat;
}

// F16 rows of whole words, as the kernels of a model's own operations need them.
bool half_rows(const tensor::Shape& shape) {
  return shape.size() >= 2 && boundary_precision(shape) == tensor::Precision::F16;
}

std::size_t flat_width(const tensor::Shape& shape) { return tensor::elements(shape); }

// Source coordinate of a view's coordinate.
tensor::CoordMap map_of(const Op& op, const tensor::Shape& source, const tensor::Shape& shape) {
  switch (op.kind) {
    case OpKind::Slice:
      return tensor::stepped_slice_map(source.size(), op.axis, op.start, op.step);
    case OpKind::SplitHeads:
      return tensor::split_heads_map(op.heads, shape.back());
    case OpKind::MergeHeads:
      return tensor::merge_heads_map(op.heads, source.back());
    case OpKind::Transpose:
      return tensor::transpose_map(op.permutation);
    default:
      return tensor::expand_map(source, shape.size());
  }
}

}  // namespace

Walk::Walk(Draft& draft, const graph::Graph& graph, Progress& progress)
    : draft_(draft), graph_(graph), progress_(progress), values_(graph.values.size()) {}

void Walk::run() {
  for (std::uint32_t i = 0; i < graph_.values.size(); ++i) {
    const graph::Value& value = graph_.values[i];
    if (value.kind != graph::ValueKind::Host) continue;
    const TensorId id = draft_.add(
        value.name,
        canonical_type(value.shape, draft_.tiles(), draft_.options.policy, input_precision(ValueId(i))),
        draft_.all_tiles(), Role::Input, true);
    draft_.plan.inputs.push_back(id);
    hold(ValueId(i), id, false);
  }
  region(graph_.ops, graph_.outputs);
  outputs();
}

// F32 where nothing but general operations reads it.
tensor::Precision Walk::input_precision(ValueId id) const {
  const auto reads = [&](const std::vector<ValueId>& list) {
    return std::ranges::find(list, id) != list.end();
  };
  bool general = !reads(graph_.outputs);
  for (const Op& op : graph_.ops) {
    if (reads(op.inputs)) general = general && is_general(op.kind);
    if (op.kind != OpKind::Repeat) continue;
    const graph::Repeat& repeat = graph_.repeats.at(op.repeat);
    general = general && !reads(repeat.carried_in) && !reads(repeat.invariant_in);
  }
  return general ? tensor::Precision::F32 : boundary_precision(graph_.at(id).shape);
}

Walk::Region Walk::analyse(std::span<const Op> ops, std::span<const ValueId> results) const {
  Region r;
  r.last_use.assign(graph_.values.size(), 0);
  r.uses.assign(graph_.values.size(), 0);
  r.escapes.assign(graph_.values.size(), false);
  const auto use = [&](ValueId id, std::size_t at) {
    r.last_use[id.value] = std::max(r.last_use[id.value], at);
    ++r.uses[id.value];
  };
  for (const ValueId id : results) use(id, kEnd), r.escapes[id.value] = true;
  for (std::size_t i = ops.size(); i-- > 0;) {
    const Op& op = ops[i];
    for (const ValueId id : op.inputs) use(id, i);
    if (op.kind == OpKind::Repeat) {
      const graph::Repeat& repeat = graph_.repeats.at(op.repeat);
      for (const ValueId id : repeat.carried_in) use(id, i);
      for (const ValueId id : repeat.invariant_in) use(id, i);
    }
    if (is_view(op.kind)) {  // reading the view reads its source
      std::size_t& source = r.last_use[op.inputs[0].value];
      source = std::max(source, r.last_use[op.results[0].value]);
    }
  }
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Op& op = ops[i];
    if (op.kind != OpKind::Add || r.uses[op.results[0].value] != 1 || r.escapes[op.results[0].value])
      continue;
    const tensor::Shape& x = graph_.at(op.inputs[0]).shape;
    const tensor::Shape& bias = graph_.at(op.inputs[1]).shape;
    if (!half_rows(x) || flat_width(bias) != x.back() || bias.back() != x.back()) continue;
    for (std::size_t j = i + 1; j < ops.size(); ++j) {
      if (ops[j].kind != OpKind::Gelu || ops[j].inputs[0] != op.results[0]) continue;
      r.fused_add[i] = ops[j].results[0];
      for (const ValueId id : op.inputs) r.last_use[id.value] = std::max(r.last_use[id.value], j);
    }
  }
  return r;
}

void Walk::region(std::span<const Op> ops, std::span<const ValueId> results) {
  const Region r = analyse(ops, results);
  for (std::size_t i = 0; i < ops.size(); ++i) op(ops[i], i, r);
}

void Walk::op(const Op& op, std::size_t index, const Region& region) {
  draft_.path = op.path;
  switch (op.kind) {
    case OpKind::Gemm:
      gemm(op);
      break;
    case OpKind::Add:
      if (region.fused_add.contains(index)) {
        pending_[op.results[0]] = {.x = op.inputs[0], .bias = op.inputs[1]};
      } else {
        add(op, index, region);
      }
      break;
    case OpKind::Gelu:
      gelu(op);
      break;
    case OpKind::LayerNorm:
      layer_norm(op);
      break;
    case OpKind::SplitHeads:
    case OpKind::MergeHeads:
    case OpKind::Slice:
    case OpKind::Reshape:
    case OpKind::Transpose:
    case OpKind::Expand:
      view(op);
      break;
    case OpKind::Attention:
      attention(op);
      break;
    case OpKind::Rope:
    case OpKind::Unary:
    case OpKind::Binary:
    case OpKind::Softmax:
    case OpKind::Reduce:
    case OpKind::Concat:
      general(op);
      break;
    case OpKind::Repeat:
      repeat(op, index, region);
      break;
  }
  progress_.advance();
}

void Walk::gemm(const Op& op) {
  const Held x = value(op.inputs[0]);
  if (x.shape.size() < 2) throw Error(ErrorKind::UnsupportedOp, op.path + ": product of a vector");
  if (!is_weight(op.inputs[1])) {
    finish(op, emit_matmul(draft_, x, value(op.inputs[1]), graph_.at(op.results[0]).shape));
    return;
  }
  const TensorId home = weight_home(op.inputs[1]);
  finish(op, emit_gemm(draft_, x, home, choose_gemm(draft_, x, home)));
}

void Walk::layer_norm(const Op& op) {
  const Held x = value(op.inputs[0]);
  if (half_rows(x.shape)) {
    const Held scale = value(op.inputs[1]), bias = value(op.inputs[2]);
    finish(op, emit_layer_norm(draft_, x, scale, bias, op.epsilon));
  } else {
    const Held scale = general_value(op.inputs[1]), bias = general_value(op.inputs[2]);
    finish(op, emit_norm_rows(draft_, x, scale, bias, op.epsilon));
  }
}

void Walk::attention(const Op& op) {
  const Held q = value(op.inputs[0]), k = value(op.inputs[1]), v = value(op.inputs[2]);
  if (q.shape.size() != 3)
    throw Error(ErrorKind::UnsupportedOp, op.path + ": attention needs [streams, rows, width]");
  finish(op, emit_attention(draft_, q, k, v, op.scale, choose_attention(draft_, q, k, v, op.scale)));
}

void Walk::general(const Op& op) {
  const tensor::Shape& shape = graph_.at(op.results[0]).shape;
  const auto in = [&](std::size_t i) { return general_value(op.inputs[i]); };
  switch (op.kind) {
    case OpKind::Rope: {
      const Held x = value(op.inputs[0]), cosine = value(op.inputs[1]), sine = value(op.inputs[2]);
      finish(op, emit_rope(draft_, x, cosine, sine, op.interleaved));
      break;
    }
    case OpKind::Unary:
      finish(op, emit_unary(draft_, in(0), op.unary));
      break;
    case OpKind::Binary:
      finish(op, emit_binary(draft_, in(0), in(1), shape, op.binary));
      break;
    case OpKind::Softmax:
      finish(op, emit_softmax_rows(draft_, in(0)));
      break;
    case OpKind::Reduce:
      finish(op, emit_reduce(draft_, in(0), op.reduction));
      break;
    default: {
      std::vector<Held> parts;
      for (const ValueId id : op.inputs) parts.push_back(general_value(id));
      finish(op, emit_join(draft_, parts, op.axis, shape));
    }
  }
}

void Walk::add(const Op& op, std::size_t index, const Region& region) {
  const tensor::Shape& shape = graph_.at(op.results[0]).shape;
  const auto repeats = [&](ValueId x, ValueId y) {  // y in x
    return graph_.at(x).shape == shape &&
           (graph_.at(y).shape == shape || is_suffix(graph_.at(y).shape, shape));
  };
  if (!half_rows(shape) || !(repeats(op.inputs[0], op.inputs[1]) || repeats(op.inputs[1], op.inputs[0]))) {
    const Held x = general_value(op.inputs[0]), y = general_value(op.inputs[1]);
    finish(op, emit_binary(draft_, x, y, shape, numeric::Binary::Add));
    return;
  }
  Held a = value(op.inputs[0]), b = value(op.inputs[1]);
  ValueId a_id = op.inputs[0], b_id = op.inputs[1];
  const auto dies = [&](ValueId id, const Held& held) {
    return held.owned && held.direct(draft_) && region.last_use[id.value] == index &&
           !region.escapes[op.results[0].value];
  };
  const bool equal = a.shape == b.shape;
  if (a.shape != shape || (equal && !dies(a_id, a) && dies(b_id, b))) {
    std::swap(a, b);
    std::swap(a_id, b_id);
  }
  // A yield may only overwrite the carried storage, which `dies` allows when nothing reads it later.
  const bool yields = region.escapes[op.results[0].value] && region.last_use[a_id.value] == index &&
                      a.owned && a.direct(draft_) &&
                      draft_.at(draft_.plan.storage_of(a.tensor)).role == Role::Carried;
  finish(op, emit_add(draft_, a, b, dies(a_id, a) || yields));
}

void Walk::gelu(const Op& op) {
  const auto fused = pending_.find(op.inputs[0]);
  if (fused == pending_.end()) {
    const Held x = value(op.inputs[0]);
    if (half_rows(x.shape)) {
      finish(op, emit_gelu(draft_, x));
    } else {
      finish(op, emit_unary(draft_, x, numeric::Unary::GeluTanh));
    }
    return;
  }
  const Held x = value(fused->second.x), bias = value(fused->second.bias);
  finish(op, emit_bias_gelu(draft_, x, bias));
}

void Walk::view(const Op& op) {
  const Held source = value(op.inputs[0]);
  const tensor::Shape& shape = graph_.at(op.results[0]).shape;
  Held held;
  if (op.kind == OpKind::Reshape) {
    held = reshaped(draft_, source, shape);
    held.owned = false;
  } else {
    held = seen_through(draft_, source, map_of(op, source.shape, shape), shape);
  }
  const Tensor& under = draft_.at(held.tensor);
  const bool boundary = under.role == Role::Input || under.role == Role::Parameter ||
                        under.type == canonical_type(under.type.shape, draft_.tiles(), draft_.options.policy,
                                                     under.type.encoding.precision);
  if (!boundary) held = whole(draft_, canonical(draft_, held), true);  // attention results come home here
  values_[op.results[0].value] = std::move(held);
}

TensorId Walk::carry_in(ValueId id, std::size_t index, const Region& region, const std::string& part) {
  const Held source = value(id);
  const tensor::TensorType type = canonical_type(source.shape, draft_.tiles(), draft_.options.policy);
  if (source.owned && source.direct(draft_) && region.last_use[id.value] == index &&
      region.uses[id.value] == 1 && draft_.at(source.tensor).type == type &&
      draft_.at(source.tensor).owners == draft_.all_tiles() && !draft_.at(source.tensor).storage.valid()) {
    draft_.edit(source.tensor).role = Role::Carried;
    return source.tensor;
  }
  return gather(draft_, part, source, type, draft_.all_tiles(), Role::Carried);
}

void Walk::carry_out(const std::vector<TensorId>& carried, const std::vector<ValueId>& yields) {
  std::vector<TensorId> sources;
  for (std::size_t i = 0; i < carried.size(); ++i) {
    const Held held = value(yields[i]);
    TensorId source = canonical(draft_, held);
    const TensorId root = draft_.plan.storage_of(source);
    const bool other = root != carried[i] && std::ranges::find(carried, root) != carried.end();
    if (other)
      source = gather(draft_, "yield", held, draft_.at(source).type, draft_.all_tiles(), Role::Activation);
    sources.push_back(source);
  }
  for (std::size_t i = 0; i < carried.size(); ++i) {
    if (draft_.plan.storage_of(sources[i]) != carried[i]) draft_.copy(carried[i], sources[i]);
  }
}

void Walk::repeat(const Op& op, std::size_t index, const Region& region_uses) {
  const graph::Repeat& repeat = graph_.repeats.at(op.repeat);
  std::vector<TensorId> carried;
  std::size_t argument = 0;
  for (std::size_t i = 0; i < repeat.carried_in.size(); ++i, ++argument) {
    carried.push_back(carry_in(repeat.carried_in[i], index, region_uses, fmt::format("carried{}", i)));
  }
  argument = 0;
  for (const TensorId id : carried) hold(repeat.arguments.at(argument++), id, true);
  for (const ValueId outer : repeat.invariant_in) {
    const ValueId inner = repeat.arguments.at(argument++);
    invariant_[inner] = outer;
    if (values_[outer.value]) {
      values_[inner.value] = values_[outer.value];
      values_[inner.value]->owned = false;
    }
  }
  for (const std::uint32_t sequence : repeat.iterated) {
    iterated_[repeat.arguments.at(argument++)] = {.sequence = sequence, .count = repeat.count};
  }
  Repeat body{.count = repeat.count, .body = {}};
  draft_.enter(&body.body);
  region(repeat.body, repeat.yields);
  draft_.path = op.path;
  carry_out(carried, repeat.yields);
  draft_.leave();
  draft_.step(std::move(body));
  for (std::size_t i = 0; i < op.results.size(); ++i) hold(op.results[i], carried[i], true);
}

void Walk::outputs() {
  for (const ValueId id : graph_.outputs) {
    const std::string& name = graph_.at(id).name;
    const TensorId rows = canonical(draft_, value(id));
    TensorId tensor = rows;
    const Tensor& t = draft_.at(rows);
    const bool shared =
        std::ranges::any_of(draft_.plan.tensors, [&](const Tensor& o) { return o.storage == tensor; });
    if (t.role != Role::Activation || t.storage.valid() || shared) {
      tensor = draft_.add(name, t.type, draft_.all_tiles(), Role::Output, true);
      draft_.path = name;
      draft_.copy(tensor, rows);
    } else {
      draft_.edit(tensor).role = Role::Output;
      draft_.edit(tensor).name = name;
    }
    draft_.plan.outputs.push_back(tensor);
  }
}

const Held& Walk::value(ValueId id) {
  std::optional<Held>& slot = values_[id.value];
  if (slot) return *slot;
  if (const auto outer = invariant_.find(id); outer != invariant_.end()) {
    slot = value(outer->second);
    slot->owned = false;
    return *slot;
  }
  TW_CHECK(!pending_.contains(id), "a fused Add has another reader");
  slot = vector_parameter(id, boundary_precision(graph_.at(id).shape));
  return *slot;
}

Held Walk::vector_parameter(ValueId id, tensor::Precision precision) {
  const std::vector<std::string> members = members_of(id);
  TW_CHECK(!members.empty(), "value used before its operator: " + graph_.at(id).name);
  const tensor::TensorType type = vector_home(draft_.device, graph_.at(id).shape, draft_.tiles(),
                                              static_cast<std::uint32_t>(members.size()), precision);
  const TensorId home = parameter(name_of_parameter(id), members, type);
  draft_.edit(home).origin = id;
  return whole(draft_, home, false);
}

Held Walk::general_value(ValueId id) {
  if (const auto outer = invariant_.find(id); outer != invariant_.end()) return general_value(outer->second);
  if (members_of(id).empty()) return value(id);
  const auto [slot, fresh] = singles_.try_emplace(id);
  if (fresh) slot->second = vector_parameter(id, tensor::Precision::F32);
  return slot->second;
}

bool Walk::is_weight(ValueId id) const {
  if (const auto outer = invariant_.find(id); outer != invariant_.end()) return is_weight(outer->second);
  return !members_of(id).empty() && graph_.at(id).shape.size() == 2;
}

TensorId Walk::weight_home(ValueId id) {
  if (const auto outer = invariant_.find(id); outer != invariant_.end()) return weight_home(outer->second);
  if (const auto known = weights_.find(id); known != weights_.end()) return known->second;
  const std::vector<std::string> members = members_of(id);
  const tensor::Shape& shape = graph_.at(id).shape;
  const std::string name = name_of_parameter(id);
  const tensor::TensorType type =
      matrix_home(draft_.device, shape, operand_encoding(draft_.options, name), tensor::MemoryClass::Standard,
                  draft_.tiles(), static_cast<std::uint32_t>(members.size()));
  return weights_[id] = parameter(name, members, type);
}

TensorId Walk::parameter(const std::string& name, const std::vector<std::string>& members,
                         tensor::TensorType type) {
  const TensorId id = draft_.add(name, std::move(type), draft_.all_tiles(), Role::Parameter, true);
  draft_.edit(id).members = members;
  return id;
}

std::vector<std::string> Walk::members_of(ValueId id) const {
  if (graph_.at(id).kind == graph::ValueKind::Parameter) return {graph_.at(id).name};
  const auto found = iterated_.find(id);
  if (found == iterated_.end()) return {};
  const graph::Sequence& sequence = graph_.sequences.at(found->second.sequence);
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < found->second.count; ++i)
    names.push_back(graph_.at(sequence.members.at(i)).name);
  return names;
}

std::string Walk::name_of_parameter(ValueId id) const {
  const auto found = iterated_.find(id);
  return found == iterated_.end() ? graph_.at(id).name : graph_.sequences.at(found->second.sequence).name;
}

void Walk::hold(ValueId id, TensorId tensor, bool owned) {
  values_[id.value] = whole(draft_, tensor, owned);
  if (!draft_.at(tensor).origin.valid()) draft_.edit(tensor).origin = id;
}

void Walk::finish(const Op& op, TensorId tensor) { finish(op, whole(draft_, tensor, true)); }

void Walk::finish(const Op& op, Held held) {
  draft_.checkpoint(held.tensor);
  if (!draft_.at(held.tensor).origin.valid()) draft_.edit(held.tensor).origin = op.results[0];
  values_[op.results[0].value] = std::move(held);
}

}  // namespace tw::plan
