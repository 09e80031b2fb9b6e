#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "plan/draft.h"
#include "plan/liveness.h"
#include "plan/plan.h"
#include "plan/price.h"

namespace tw::plan {
namespace {

using tensor::Order;
using tensor::Precision;
using tensor::ResolvedLayout;

// Direction in which an order packs a 32-byte panel; a copy may not change it.
enum class Packing : std::uint8_t { Columns, Rows };
Packing packing_of(Order order) {
  return order == Order::AmpLeftT || order == Order::BlockMajor || order == Order::AccOutT ? Packing::Rows
                                                                                           : Packing::Columns;
}

class Verifier {
 public:
  explicit Verifier(const Plan& plan) : plan_(plan), layouts_(plan) {}

  std::vector<std::string> run() {
    for (std::uint32_t i = 0; i < plan_.tensors.size(); ++i) tensor(TensorId(i));
    if (!problems_.empty()) return problems_;  // layouts are not to be trusted
    steps(plan_.steps, 1, false);
    for (const TensorId id : plan_.inputs) host(id, Role::Input);
    for (const TensorId id : plan_.outputs) {
      host(id, Role::Output);
      expect(defined_.contains(plan_.storage_of(id).value), "output " + name(id) + " is never written");
    }
    for (std::uint32_t i = 0; i < plan_.tensors.size(); ++i) {
      if (plan_.tensors[i].role != Role::Partials) continue;
      expect(produced_[i] == consumed_[i] && produced_[i] <= 1,
             name(TensorId(i)) + ": partials not consumed once");
    }
    return problems_;
  }

 private:
  void expect(bool good, const std::string& problem) {
    if (!good) problems_.push_back(where_.empty() ? problem : where_ + ": " + problem);
  }
  const std::string& name(TensorId id) const { return plan_.at(id).name; }
  const tensor::TensorType& type(TensorId id) const { return plan_.at(id).type; }

  void tensor(TensorId id) {
    const Tensor& t = plan_.at(id);
    try {
      const ResolvedLayout& layout = layouts_(id);
      std::set<std::uint32_t> tiles;
      for (std::uint32_t o = 0; o < layout.owners(); ++o) tiles.insert(t.owners.tile_of(o));
      expect(tiles.size() == layout.owners(), t.name + ": two shards on one tile");
      expect(tiles.empty() || *tiles.rbegin() < plan_.tiles, t.name + ": an owner beyond the tile limit");
      expect(names_.insert(t.name).second, t.name + ": name is not unique");
      if (t.storage.valid()) {
        const TensorId root = t.storage;
        expect(root.value < plan_.tensors.size() && root != id, t.name + ": bad storage");
        const ResolvedLayout& other = layouts_(root);
        expect(plan_.at(root).owners == t.owners && layout.owners() == other.owners(),
               t.name + ": shares storage of a tensor with other owners");
        for (std::uint32_t o = 0; o < std::min(layout.owners(), other.owners()); ++o) {
          expect(layout.shard_bytes(o) == other.shard_bytes(o), t.name + ": shares storage of another size");
        }
      }
      expect((t.role == Role::Parameter) == !t.members.empty(), t.name + ": members belong to parameters");
    } catch (const Error& error) {
      expect(false, t.name + ": " + error.what());
    }
  }

  void host(TensorId id, Role role) {
    expect(plan_.at(id).role == role && type(id).layout.order.kind == Order::Row,
           name(id) + ": bad host binding");
  }

  void steps(const std::vector<Step>& list, std::uint32_t count, bool nested) {
    for (const Step& step : list) {
      where_ = step.path;
      if (const auto* repeat = std::get_if<Repeat>(&step.action)) {
        expect(!nested, "nested Repeat");
        expect(repeat->count > 0, "Repeat without iterations");
        steps(repeat->body, repeat->count, true);
        where_.clear();
        continue;
      }
      mentions(step, count, nested);
      if (const auto* copy = std::get_if<Copy>(&step.action)) check(*copy);
      if (const auto* product = std::get_if<Product>(&step.action)) check(*product);
      if (const auto* sum = std::get_if<Sum>(&step.action)) check(*sum);
      if (const auto* local = std::get_if<Local>(&step.action)) check(*local);
      where_.clear();
    }
  }

  void mentions(const Step& step, std::uint32_t count, bool nested) {
    const Operands ops = operands(step);
    for (const TensorId id : ops.reads) {
      expect(id.value < plan_.tensors.size(), "reads no tensor");
      const Tensor& t = plan_.at(id);
      const bool given = t.role == Role::Input || t.role == Role::Parameter;
      expect(given || defined_.contains(plan_.storage_of(id).value),
             "reads " + t.name + " before it is written");
      if (t.members.size() > 1)
        expect(nested && count <= t.members.size(), t.name + " read outside its Repeat");
      if (t.role == Role::Partials) ++consumed_[id.value];
    }
    for (const TensorId id : ops.writes) {
      const Role role = plan_.at(id).role, root = plan_.at(plan_.storage_of(id)).role;
      expect(role != Role::Parameter && root != Role::Parameter && root != Role::Input, "writes " + name(id));
      defined_.insert(plan_.storage_of(id).value);
      const auto* copy = std::get_if<Copy>(&step.action);
      const bool ragged = copy != nullptr && !copy->clear_padding && has_padding(type(id));
      if (ragged) {
        ragged_.insert(id.value);
      } else {
        ragged_.erase(id.value);
      }
      if (role == Role::Partials) ++produced_[id.value];
    }
    if (step.checkpoint.valid()) {
      expect(std::ranges::find(ops.writes, step.checkpoint) != ops.writes.end(),
             "checkpoint of an unwritten tensor");
    }
  }

  void check(const Copy& copy) {
    const tensor::TensorType &dst = type(copy.dst), &src = type(copy.src);
    const std::string pair = name(copy.src) + " -> " + name(copy.dst);
    if (dst.encoding != src.encoding) {
      expect(false, pair + ": a copy cannot cast");
      return;
    }
    expect(plan_.storage_of(copy.dst) != plan_.storage_of(copy.src), pair + ": a copy onto itself");
    const bool flat = dst.layout.order.kind == Order::Row && src.layout.order.kind == Order::Row;
    expect(flat || packing_of(dst.layout.order.kind) == packing_of(src.layout.order.kind),
           pair + ": orders pack in different directions");
    if (copy.map.axes.size() != src.shape.size()) {
      expect(false, pair + ": map of another rank");
      return;
    }
    expect(!copy.move_padding || copy.map == tensor::identity_map(dst.shape.size()),
           pair + ": padding moves with an identity map only");
    if (!inside(copy, dst.shape, src.shape)) {
      expect(false, pair + ": map leaves the source");
      return;
    }
    expect(copy.clear_padding || !copy.move_padding,
           pair + ": padding that moves must be cleared where it does not");
    const MovedTypes moved = moved_types(plan_, copy);
    const ResolvedLayout to(moved.dst), from(moved.src);
    for (const std::uint32_t owner : sample(to.owners())) words(to, owner, copy, from, pair);
  }

  // Largest source coordinate that the map can give, per axis.
  static bool inside(const Copy& copy, const tensor::Shape& dst, const tensor::Shape& src) {
    for (std::size_t axis = 0; axis < src.size(); ++axis) {
      std::uint64_t largest = copy.map.axes[axis].offset;
      for (const tensor::CoordTerm& term : copy.map.axes[axis].terms) {
        if (term.axis >= dst.size()) return false;
        largest += std::uint64_t{std::min((dst[term.axis] - 1) / term.div, term.mod - 1)} * term.mul;
      }
      if (largest >= src[axis]) return false;
    }
    return true;
  }

  // Few owners: all; else the first and last ones and some between (tails of every axis stand in the last).
  static std::vector<std::uint32_t> sample(std::uint32_t owners) {
    std::vector<std::uint32_t> list;
    const std::uint32_t step = owners <= 64 ? 1 : owners / 13;
    for (std::uint32_t o = 0; o < owners; o += step) list.push_back(o);
    if (owners > 0 && list.back() != owners - 1) list.push_back(owners - 1);
    return list;
  }

  void words(const ResolvedLayout& dst, std::uint32_t owner, const Copy& copy, const ResolvedLayout& src,
             const std::string& pair) {
    for (const tensor::Run& run : tensor::runs(dst, owner, copy.map, src)) {
      if ((run.bytes | run.src_offset | run.dst_offset) % 4 == 0) continue;
      expect(false, fmt::format("{}: owner {} has a sub-word run ({} bytes from {} to {})", pair, owner,
                                run.bytes, run.src_offset, run.dst_offset));
      return;
    }
    if (!copy.clear_padding && !copy.move_padding) return;
    expect(copy.clear_padding || tensor::padding_ranges(dst, owner).empty(),
           pair + ": padding left unwritten");
  }

  bool same_owners(TensorId a, TensorId b) const {
    const std::uint32_t owners = type(a).layout.tiling.tile_count;
    if (owners != type(b).layout.tiling.tile_count) return false;
    for (std::uint32_t o = 0; o < owners; ++o) {
      if (plan_.at(a).owners.tile_of(o) != plan_.at(b).owners.tile_of(o)) return false;
    }
    return true;
  }

  // Span of an axis from the end (0 = last) of an owner's shard.
  tensor::AxisSpan span(TensorId id, std::uint32_t owner, std::size_t from_end) {
    const std::vector<tensor::AxisSpan> bounds = layouts_(id).bounds(owner);
    return bounds[bounds.size() - 1 - from_end];
  }

  void check(const Product& p) {
    const tensor::TensorType &left = type(p.left), &right = type(p.right), &out = type(p.out);
    expect(left.layout.order.kind == Order::AmpLeft, name(p.left) + " is no left operand");
    const Order wanted = p.right_transposed ? Order::AmpRight : Order::BlockMajor;
    expect(right.layout.order.kind == wanted, name(p.right) + " is no right operand");
    for (const TensorId id : {p.left, p.right}) {
      expect(!ragged_.contains(id.value), "the product consumes unwritten padding of " + name(id));
    }
    expect(left.encoding == right.encoding && left.encoding.precision != Precision::F32,
           "operand encodings differ");
    expect(left.encoding.precision != Precision::F16 || p.right_transposed ||
               right.layout.memory == tensor::MemoryClass::Interleaved || right.shape.size() > 2,
           name(p.right) + ": an F16 weight must be interleaved");
    expect(out.encoding.precision == Precision::F16 && out.layout.order.kind == Order::AmpLeft,
           "bad product result");
    expect(p.k_parts == 1 || out.shape.at(0) == p.k_parts, "partials do not match k_parts");
    if (!same_owners(p.left, p.out) || !same_owners(p.right, p.out)) {
      expect(false, "product operands live on different tiles");
      return;
    }
    const std::size_t right_k = p.right_transposed ? 0 : 1, right_n = 1 - right_k;
    for (std::uint32_t o = 0; o < out.layout.tiling.tile_count; ++o) {
      const tensor::AxisSpan k = span(p.left, o, 0), m = span(p.left, o, 1);
      const tensor::AxisSpan n = span(p.out, o, 0), rk = span(p.right, o, right_k),
                             rn = span(p.right, o, right_n);
      const bool block = p.right_transposed || right.layout.order.row_block == rk.physical();
      if (m == span(p.out, o, 1) && k == rk && n == rn && block && k.physical() > 0) continue;
      expect(false, fmt::format("owner {}: product shards do not match", o));
      return;
    }
  }

  void check(const Sum& sum) {
    const tensor::TensorType &partials = type(sum.partials), &out = type(sum.out);
    expect(partials.encoding == out.encoding && out.encoding.precision == Precision::F16,
           "sum of another precision");
    expect(partials.layout.order == out.layout.order, "sum changes the order");
    tensor::Shape shape(partials.shape.begin() + 1, partials.shape.end());
    expect(shape == out.shape, "sum changes the shape");
    for (std::uint32_t o = 0; o < layouts_(sum.out).owners(); ++o) {
      if (layouts_(sum.out).shard_elements(o) % 8 == 0) continue;
      expect(false, "sum of a length that is no multiple of 8");
      return;
    }
  }

  void check(const Local& local);
  void same_rectangles(TensorId a, TensorId b, bool physical);
  void whole_rows(TensorId id);
  void activation_result(TensorId x, TensorId out);
  void statistics(TensorId x, TensorId out);
  void merge(const Local& local);
  void general(const Local& local);

  const Plan& plan_;
  Layouts layouts_;
  std::vector<std::string> problems_;
  std::string where_;
  std::set<std::string> names_;
  std::set<std::uint32_t> defined_;
  std::set<std::uint32_t> ragged_;  // tensors whose padding was never written
  std::map<std::uint32_t, int> produced_, consumed_;
};

// One block gives F16 rows; an online merge keeps an F32 accumulator of width + 2 (compiler.md 3.5).
void Verifier::merge(const Local& local) {
  if (local.inputs.size() != (local.initial ? 2U : 3U) || local.outputs.size() != 1) {
    expect(false, "merge has a wrong number of operands");
    return;
  }
  const TensorId pv = local.inputs[0], out = local.outputs[0];
  expect(type(pv).layout.order.kind == Order::AmpLeft && type(out).layout.order.kind == Order::Row,
         "merge makes rows of panels");
  if (local.final) same_rectangles(pv, out, true);
  const std::uint32_t width = type(pv).shape.back();
  auto accumulator = [&](TensorId id) {
    expect(type(id).shape.back() == width + 2 && type(id).encoding.precision == Precision::F32,
           name(id) + " has no room for the running maximum and denominator");
    expect(same_owners(pv, id), name(id) + " stands on other owners");
  };
  if (!local.final) accumulator(out);
  if (!local.initial) accumulator(local.inputs[2]);
}

void Verifier::same_rectangles(TensorId a, TensorId b, bool physical) {
  if (type(a).shape != type(b).shape || !same_owners(a, b)) {
    expect(false, fmt::format("{} and {} differ in shape or owners", name(a), name(b)));
    return;
  }
  if (layouts_(a).linear() || layouts_(b).linear()) {
    expect(type(a).layout == type(b).layout, fmt::format("{} and {} differ in layout", name(a), name(b)));
    return;
  }
  for (std::uint32_t o = 0; o < layouts_(a).owners(); ++o) {
    const auto x = layouts_(a).bounds(o), y = layouts_(b).bounds(o);
    for (std::size_t axis = 0; axis < x.size(); ++axis) {
      const bool equal = x[axis].start == y[axis].start && x[axis].logical_end == y[axis].logical_end;
      if (equal && (!physical || x[axis] == y[axis])) continue;
      expect(false, fmt::format("{} and {} differ in the shard of owner {}", name(a), name(b), o));
      return;
    }
  }
}

void Verifier::whole_rows(TensorId id) {
  expect(type(id).layout.order.kind == Order::Row, name(id) + " is not in Row order");
  const tensor::AxisSpan last = span(id, 0, 0);
  expect(last.physical() == type(id).shape.back(), name(id) + " does not hold whole rows");
}

// F16 like x, or F8 panels of x's rows: zeros up to the next 32 columns.
void Verifier::activation_result(TensorId x, TensorId out) {
  if (type(out).encoding.precision != Precision::F8) {
    same_rectangles(x, out, true);
    expect(type(out).encoding == tensor::Encoding{}, name(out) + " is not F16");
    return;
  }
  same_rectangles(x, out, false);
  expect(type(x).layout.order.kind == Order::Row && type(out).layout.order.kind == Order::AmpLeft,
         name(out) + ": F8 results are panels of rows");
  for (std::uint32_t o = 0; o < layouts_(out).owners(); ++o) {
    const std::vector<tensor::AxisSpan> from = layouts_(x).bounds(o), to = layouts_(out).bounds(o);
    bool good = from.back().physical() == from.back().logical() && from.back().logical() % 4 == 0;
    for (std::size_t axis = 0; axis + 1 < from.size(); ++axis) good &= from[axis] == to[axis];
    if (good) continue;
    expect(false, name(out) + ": rows that no kernel writes as F8 panels");
    return;
  }
}

void Verifier::statistics(TensorId x, TensorId out) {
  expect(type(out).encoding.precision == Precision::F32 && type(out).shape.back() == 2, "bad statistics");
  expect(span(x, 0, 0).physical() % 4 == 0, "moments of a width that is no multiple of 4");
}

void Verifier::check(const Local& local) {
  const auto inputs = [&](std::size_t count, std::size_t results) {
    const bool good = local.inputs.size() == count && local.outputs.size() == results;
    expect(good, std::string(name_of(local.kind)) + " has a wrong number of operands");
    return good;
  };
  for (const TensorId id : local.inputs)
    expect(same_owners(id, local.outputs.at(0)), name(id) + " is elsewhere");
  const TensorId out = local.outputs.at(0);
  const auto order = [&](TensorId id) { return type(id).layout.order.kind; };
  const auto half = [&](TensorId id) {
    expect(type(id).encoding == tensor::Encoding{}, name(id) + " is not F16");
  };
  switch (local.kind) {
    case LocalKind::Cast:
      if (!inputs(1, 1)) return;
      same_rectangles(local.inputs[0], out, false);
      expect(type(out).encoding != type(local.inputs[0]).encoding, "cast to the same encoding");
      expect(order(out) == order(local.inputs[0]) ||
                 (order(out) == Order::AmpLeft && order(local.inputs[0]) == Order::Row),
             "cast that changes the order");
      return;
    case LocalKind::Reorder: {
      if (!inputs(1, 1)) return;
      same_rectangles(local.inputs[0], out, false);
      half(out), half(local.inputs[0]);
      const bool pack =
          order(local.inputs[0]) == Order::Row &&
          (order(out) == Order::AmpLeft || order(out) == Order::AmpRight || order(out) == Order::BlockMajor);
      const bool unpack = order(out) == Order::Row && (order(local.inputs[0]) == Order::AmpLeft ||
                                                       order(local.inputs[0]) == Order::BlockMajor);
      expect(pack || unpack, "no kernel for this reorder");
      return;
    }
    case LocalKind::Add:
      if (!inputs(2, 1)) return;
      same_rectangles(local.inputs[0], out, true);
      expect(type(local.inputs[0]).layout.order == type(out).layout.order, "add changes the order");
      half(out), half(local.inputs[0]), half(local.inputs[1]);
      for (std::uint32_t o = 0; o < layouts_(out).owners(); ++o) {
        const std::uint64_t n = layouts_(out).shard_elements(o),
                            nb = layouts_(local.inputs[1]).shard_elements(o);
        if (nb > 0 && n % nb == 0) continue;
        expect(false, "second operand of add does not repeat in the first");
        return;
      }
      return;
    case LocalKind::Gelu:
      if (!inputs(1, 1)) return;
      activation_result(local.inputs[0], out);
      half(local.inputs[0]);
      return;
    case LocalKind::BiasGelu:
    case LocalKind::LayerNorm:
      if (!inputs(local.kind == LocalKind::LayerNorm ? 3 : 2, 1)) return;
      activation_result(local.inputs[0], out);
      for (const TensorId id : local.inputs) half(id), whole_rows(id);
      return;
    case LocalKind::AddLayerNorm:
      if (!inputs(4, 1)) return;
      for (const TensorId id : {local.inputs[0], local.inputs[1]}) same_rectangles(id, out, true);
      for (const TensorId id : local.inputs) half(id), whole_rows(id);
      half(out);
      return;
    case LocalKind::AddMoments:
      if (!inputs(2, 2)) return;
      for (const TensorId id : local.inputs) same_rectangles(id, out, true), half(id);
      half(out);
      expect(order(out) == Order::Row && order(local.inputs[0]) == Order::Row &&
                 order(local.inputs[1]) == Order::Row,
             "add_moments works on rows");
      statistics(out, local.outputs[1]);
      return;
    case LocalKind::Moments:
      if (!inputs(1, 1)) return;
      half(local.inputs[0]);
      statistics(local.inputs[0], out);
      return;
    case LocalKind::Apply:
      if (!inputs(4, 1)) return;
      same_rectangles(local.inputs[0], out, true);
      expect(type(local.inputs[1]).encoding.precision == Precision::F32, "bad statistics");
      expect(layouts_(local.inputs[1]).bounds(0)[0].physical() == type(local.inputs[1]).shape[0],
             "statistics not gathered");
      return;
    case LocalKind::Softmax:
      if (!inputs(1, 2)) return;
      same_rectangles(local.inputs[0], out, true);
      expect(order(out) == Order::AmpLeft && order(local.inputs[0]) == Order::AmpLeft,
             "softmax works on panels");
      expect(type(local.outputs[1]).encoding.precision == Precision::F32, "softmax state is F32");
      expect(span(out, 0, 0).logical() == type(out).shape.back(), "softmax needs whole rows of keys");
      expect(local.scale > 0, "softmax without a scale");
      return;
    case LocalKind::Merge:
      merge(local);
      return;
    default:
      general(local);
  }
}

// Same rows on the same owners; F32 unless the kernel has a form in F16.
void Verifier::general(const Local& local) {
  const TensorId out = local.outputs.at(0), x = local.inputs.at(0);
  const LocalKind kind = local.kind;
  const std::size_t operands = kind == LocalKind::Join                                  ? local.inputs.size()
                               : kind == LocalKind::Binary                              ? 2
                               : kind == LocalKind::NormRows || kind == LocalKind::Rope ? 3
                                                                                        : 1;
  expect(local.inputs.size() == operands && local.outputs.size() == 1,
         std::string(name_of(kind)) + " has a wrong number of operands");
  for (const TensorId id : local.inputs) {
    expect(type(id).layout.order.kind == Order::Row && type(id).encoding == type(out).encoding,
           name(id) + " differs from the result in order or precision");
  }
  const Precision wanted = kind == LocalKind::Rope ? Precision::F16 : Precision::F32;
  expect(kind == LocalKind::Unary || type(out).encoding.precision == wanted,
         name(out) + " has a precision that no kernel writes");
  if (kind != LocalKind::Reduce && kind != LocalKind::Join) same_rectangles(x, out, true);
  if (kind == LocalKind::Join) return;
  for (std::uint32_t o = 0; o < layouts_(out).owners(); ++o) {
    for (std::size_t i = 1; i < local.inputs.size(); ++i) {
      const std::uint64_t n = layouts_(x).shard_elements(o), nb = layouts_(local.inputs[i]).shard_elements(o);
      if (nb > 0 && n % nb == 0) continue;
      expect(false, name(local.inputs[i]) + " does not repeat in " + name(x));
      return;
    }
  }
  if (kind != LocalKind::Unary && kind != LocalKind::Binary) whole_rows(x);
}

}  // namespace

std::vector<std::string> verify(const Plan& plan) { return Verifier(plan).run(); }

}  // namespace tw::plan
