// Which storages have zeros in their padding whatever ran before. Runs out of those may carry padding along,
// so that whole panels travel as one piece; all other padding is cleared at its destination.
#include <algorithm>

#include "tile/lowering.h"

namespace tw::tile {
namespace {

using plan::LocalKind;

class Analysis {
 public:
  explicit Analysis(const Lowering& lowering)
      : lowering_(lowering), clean_(lowering.plan.tensors.size(), true) {
    for (std::uint32_t i = 0; i < clean_.size(); ++i)
      padded_.push_back(has_padding(lowering.layout(TensorId(i))));
    for (const TensorId id : lowering.plan.inputs) taint_if(id, padded_[id.value]);
  }

  std::vector<bool> run() {
    do {
      changed_ = false;
      steps(lowering_.plan.steps);
    } while (changed_);
    return clean_;
  }

 private:
  // Padding on an axis other than the last `skip` ones.
  static bool has_padding(const tensor::ResolvedLayout& layout, std::size_t skip = 0) {
    const std::size_t rank = layout.type().shape.size();
    for (std::uint32_t owner = 0; !layout.linear() && owner < layout.owners(); ++owner) {
      const std::vector<tensor::AxisSpan> bounds = layout.bounds(owner);
      for (std::size_t axis = 0; axis + skip < rank; ++axis)
        if (bounds[axis].physical() != bounds[axis].logical()) return true;
    }
    return false;
  }

  bool padded(TensorId id) const { return padded_[id.value]; }
  bool clean(TensorId id) const { return !padded(id) || clean_[lowering_.plan.storage_of(id).value]; }
  void taint_if(TensorId id, bool condition) {
    const std::uint32_t root = lowering_.plan.storage_of(id).value;
    if (!condition || !clean_[root]) return;
    clean_[root] = false;
    changed_ = true;
  }

  void steps(const std::vector<plan::Step>& list) {
    for (const plan::Step& step : list) {
      if (const auto* copy = std::get_if<plan::Copy>(&step.action))
        taint_if(copy->dst, padded(copy->dst) && !copy->clear_padding);
      if (const auto* p = std::get_if<plan::Product>(&step.action))
        taint_if(p->out, padded(p->out) && !(clean(p->left) && clean(p->right)));
      if (const auto* sum = std::get_if<plan::Sum>(&step.action))
        taint_if(sum->out, padded(sum->out) && !clean(sum->partials));
      if (const auto* local = std::get_if<plan::Local>(&step.action)) kernel(*local);
      if (const auto* repeat = std::get_if<plan::Repeat>(&step.action)) steps(repeat->body);
    }
  }

  // A kernel that packs writes zeros wherever its Row source has no logical column (AmpLeft) or no logical
  // row or column (matrices).
  bool pack_writes_zeros(const plan::Local& local) const {
    const tensor::ResolvedLayout& in = lowering_.layout(local.inputs[0]);
    const tensor::Order to = lowering_.layout(local.outputs[0]).type().layout.order.kind;
    if (in.type().layout.order.kind != tensor::Order::Row || to == tensor::Order::Row) return false;
    return !has_padding(in, to == tensor::Order::AmpLeft ? 1 : 2);
  }

  // Packing, casting and GELU keep zeros zeros, and what writes panels of rows writes zeros behind them; so
  // does the sum of equal shapes. Every other kernel may leave padding unwritten or turn zeros into something
  // else; softmax writes zero weights behind the last key.
  void kernel(const plan::Local& local) {
    bool keeps = false;
    switch (local.kind) {
      case LocalKind::Cast:
      case LocalKind::Reorder:
      case LocalKind::Gelu:
        keeps = clean(local.inputs[0]) || pack_writes_zeros(local);
        break;
      case LocalKind::BiasGelu:
      case LocalKind::LayerNorm:
        keeps = pack_writes_zeros(local);
        break;
      case LocalKind::Add:
        keeps = std::ranges::all_of(local.inputs, [&](TensorId id) { return clean(id); }) &&
                lowering_.tensor(local.inputs[0]).type.shape == lowering_.tensor(local.inputs[1]).type.shape;
        break;
      default:
        break;
    }
    for (const TensorId id : local.outputs)
      taint_if(id, padded(id) && !keeps &&
                       !(local.kind == LocalKind::Softmax && id == local.outputs[0] &&
                         !has_padding(lowering_.layout(id), 1)));
  }

  const Lowering& lowering_;
  std::vector<bool> clean_, padded_;
  bool changed_ = true;
};

}  // namespace

std::vector<bool> clean_storages(const Lowering& lowering) { return Analysis(lowering).run(); }

std::vector<tensor::ByteRange> uncovered(std::span<const tensor::ByteRange> ranges,
                                         std::span<const tensor::Run> runs) {
  std::vector<tensor::ByteRange> rest;
  std::size_t next = 0;
  for (tensor::ByteRange r : ranges) {
    while (next < runs.size() && runs[next].dst_offset + runs[next].bytes <= r.begin) ++next;
    for (std::size_t i = next; i < runs.size() && runs[i].dst_offset < r.end && r.begin < r.end; ++i) {
      if (runs[i].dst_offset > r.begin) rest.push_back({r.begin, runs[i].dst_offset});
      r.begin = runs[i].dst_offset + runs[i].bytes;
    }
    if (r.begin < r.end) rest.push_back(r);
  }
  return rest;
}

}  // namespace tw::tile
