#include "plan/walk.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "plan/attention.h"
#include "plan/block.h"
#include "plan/canonical.h"
#include "plan/select.h"

namespace tw::plan {
namespace {

using graph::Op;
using graph::OpKind;

constexpr std::size_t kEnd = SIZE_MAX;

bool is_view(OpKind kind) {
  return kind == OpKind::SplitHeads || kind == OpKind::MergeHeads || kind == OpKind::Slice;
}

std::size_t flat_width(const tensor::Shape& shape) { return tensor::elements(shape); }

}  // namespace

Walk::Walk(Draft& draft, const graph::Graph& graph, Progress& progress)
    : draft_(draft), graph_(graph), progress_(progress), values_(graph.values.size()) {}

void Walk::run() {
  for (std::uint32_t i = 0; i < graph_.values.size(); ++i) {
    const graph::Value& value = graph_.values[i];
    if (value.kind != graph::ValueKind::Host) continue;
    const TensorId id =
        draft_.add(value.name, canonical_type(value.shape, draft_.tiles(), draft_.options.policy),
                   draft_.all_tiles(), Role::Input, true);
    draft_.plan.inputs.push_back(id);
    hold(ValueId(i), id, false);
  }
  region(graph_.ops, graph_.outputs);
  outputs();
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
    if (x.size() < 2 || flat_width(bias) != x.back() || bias.back() != x.back()) continue;
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
    case OpKind::LayerNorm: {
      const Held x = value(op.inputs[0]), scale = value(op.inputs[1]), bias = value(op.inputs[2]);
      finish(op, emit_layer_norm(draft_, x, scale, bias, op.epsilon));
      break;
    }
    case OpKind::SplitHeads:
    case OpKind::MergeHeads:
    case OpKind::Slice:
      view(op);
      break;
    case OpKind::Attention: {
      const Held q = value(op.inputs[0]), k = value(op.inputs[1]), v = value(op.inputs[2]);
      if (q.shape.size() != 3) {
        throw Error(ErrorKind::UnsupportedOp,
                    fmt::format("{}: attention needs [streams, rows, width]", op.path));
      }
      finish(op, emit_attention(draft_, q, k, v, op.scale, choose_attention(draft_, q, k, v, op.scale)));
      break;
    }
    case OpKind::Rope:
    case OpKind::Unary:
    case OpKind::Binary:
    case OpKind::Softmax:
    case OpKind::Reduce:
    case OpKind::Reshape:
    case OpKind::Transpose:
    case OpKind::Expand:
    case OpKind::Concat:
      throw Error(ErrorKind::UnsupportedOp, fmt::format("{}: no plan for {}", op.path, name_of(op.kind)));
    case OpKind::Repeat:
      repeat(op, index, region);
      break;
  }
  progress_.advance();
}

void Walk::gemm(const Op& op) {
  const Held x = value(op.inputs[0]);
  if (x.shape.size() < 2) throw Error(ErrorKind::UnsupportedOp, op.path + ": product of a vector");
  const TensorId home = weight_home(op.inputs[1]);
  finish(op, emit_gemm(draft_, x, home, choose_gemm(draft_, x, home)));
}

void Walk::add(const Op& op, std::size_t index, const Region& region) {
  Held a = value(op.inputs[0]), b = value(op.inputs[1]);
  ValueId a_id = op.inputs[0], b_id = op.inputs[1];
  const auto dies = [&](ValueId id, const Held& held) {
    return held.owned && held.direct(draft_) && region.last_use[id.value] == index &&
           !region.escapes[op.results[0].value];
  };
  const bool equal = a.shape == b.shape;
  if (tensor::elements(b.shape) > tensor::elements(a.shape) || (equal && !dies(a_id, a) && dies(b_id, b))) {
    std::swap(a, b);
    std::swap(a_id, b_id);
  }
  if (a.shape != graph_.at(op.results[0]).shape) {
    throw Error(ErrorKind::UnsupportedOp, op.path + ": both operands of an Add are broadcast");
  }
  if (a.shape.size() < 2) throw Error(ErrorKind::UnsupportedOp, op.path + ": Add of vectors");
  // A yield may only overwrite the carried storage, which `dies` allows when nothing reads it later.
  const bool yields = region.escapes[op.results[0].value] && region.last_use[a_id.value] == index &&
                      a.owned && a.direct(draft_) &&
                      draft_.at(draft_.plan.storage_of(a.tensor)).role == Role::Carried;
  finish(op, emit_add(draft_, a, b, dies(a_id, a) || yields));
}

void Walk::gelu(const Op& op) {
  const auto fused = pending_.find(op.inputs[0]);
  if (fused == pending_.end()) {
    finish(op, emit_gelu(draft_, value(op.inputs[0])));
    return;
  }
  const Held x = value(fused->second.x), bias = value(fused->second.bias);
  finish(op, emit_bias_gelu(draft_, x, bias));
}

void Walk::view(const Op& op) {
  const Held source = value(op.inputs[0]);
  const tensor::Shape& shape = graph_.at(op.results[0]).shape;
  tensor::CoordMap map;
  if (op.kind == OpKind::Slice) {
    map = tensor::slice_map(source.shape.size(), op.axis, op.start);
  } else if (op.kind == OpKind::SplitHeads) {
    map = tensor::split_heads_map(op.heads, shape.back());
  } else {
    map = tensor::merge_heads_map(op.heads, source.shape.back());
  }
  Held held{
      .tensor = source.tensor, .view = tensor::compose(source.view, map), .shape = shape, .owned = false};
  const Tensor& under = draft_.at(source.tensor);
  const bool boundary = under.role == Role::Input || under.role == Role::Parameter ||
                        under.type == canonical_type(under.type.shape, draft_.tiles(), draft_.options.policy);
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
    const Held held = value(id);
    TensorId tensor = canonical(draft_, held);
    const Tensor& t = draft_.at(tensor);
    const bool shared =
        std::ranges::any_of(draft_.plan.tensors, [&](const Tensor& o) { return o.storage == tensor; });
    if (t.role != Role::Activation || t.storage.valid() || shared) {
      tensor = draft_.add(name, t.type, draft_.all_tiles(), Role::Output, true);
      draft_.path = name;
      draft_.copy(tensor, held.tensor, held.view);
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
  const std::vector<std::string> members = members_of(id);
  TW_CHECK(!members.empty(), "value used before its operator: " + graph_.at(id).name);
  const tensor::TensorType type = vector_home(draft_.device, graph_.at(id).shape, draft_.tiles(),
                                              static_cast<std::uint32_t>(members.size()));
  hold(id, parameter(name_of_parameter(id), members, type), false);
  return *slot;
}

TensorId Walk::weight_home(ValueId id) {
  if (const auto outer = invariant_.find(id); outer != invariant_.end()) return weight_home(outer->second);
  if (const auto known = weights_.find(id); known != weights_.end()) return known->second;
  const std::vector<std::string> members = members_of(id);
  const tensor::Shape& shape = graph_.at(id).shape;
  if (members.empty() || shape.size() != 2) {
    throw Error(ErrorKind::UnsupportedOp,
                fmt::format("{}: the right operand of a product must be a parameter matrix, not {} {}",
                            draft_.path, graph_.at(id).name, tensor::to_string(shape)));
  }
  const bool f8 = draft_.options.precision == tensor::Precision::F8;
  const tensor::Encoding encoding{draft_.options.precision, f8 ? draft_.options.fp8_scale : 0};
  const tensor::TensorType type = matrix_home(draft_.device, shape, encoding, tensor::MemoryClass::Standard,
                                              draft_.tiles(), static_cast<std::uint32_t>(members.size()));
  return weights_[id] = parameter(name_of_parameter(id), members, type);
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

void Walk::finish(const Op& op, TensorId tensor) {
  draft_.checkpoint(tensor);
  hold(op.results[0], tensor, true);
}

}  // namespace tw::plan
