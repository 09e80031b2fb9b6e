#include "plan/price.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/math.h"
#include "kernel/kernel.h"
#include "numeric/formats.h"
#include "plan/draft.h"

namespace tw::plan {
namespace {

using kernel::Code;
using tensor::MemoryClass;
using tensor::Order;
using tensor::Precision;
using tensor::ResolvedLayout;

constexpr double kBytesPerCycle = 4;   // exchange, each direction
constexpr double kPhaseCycles = 600;   // global sync of a phase
constexpr double kFragmentCycles = 3;  // receive controls of a run
constexpr double kCopyCycles = 288;    // local part of a copy: call, then 8 bytes per cycle
constexpr double kClearCycles = 11;    // padding clear: launch, then 48 bytes per cycle
constexpr std::uint64_t kMessageBytes = 16592;

double cycles(Code code, std::array<std::uint32_t, 8> words, std::span<const std::uint32_t> spec = {}) {
  const kernel::Kernel* kernel = kernel::find(code);
  TW_CHECK(kernel != nullptr && kernel->cycles != nullptr, "kernel without a cost formula");
  return static_cast<double>(kernel->cycles(kernel::Call{.m = words, .spec = spec}));
}

std::uint32_t elements32(const ResolvedLayout& layout) {
  return static_cast<std::uint32_t>(layout.shard_elements(0));
}

// Owner ranges of equal length as a copy inside the tiles needs: same rectangles on the same tiles.
bool stays_on_tile(const Tensor& dst, const Tensor& src, const tensor::CoordMap& map) {
  return dst.owners == src.owners && dst.type == src.type &&
         map == tensor::identity_map(dst.type.shape.size());
}

struct Traffic {
  std::uint64_t bytes = 0, fragments = 0;  // busiest tile, either direction
  std::uint64_t sources = 0;               // of the first destination
};

Traffic traffic(const ResolvedLayout& dst, const tensor::CoordMap& map, const ResolvedLayout& src) {
  std::uint64_t received = 0;
  std::set<std::uint32_t> sources;
  for (const tensor::Run& run : tensor::runs(dst, 0, map, src)) {
    received += cd(std::uint64_t{run.bytes}, kMessageBytes);
    sources.insert(run.src_owner);
  }
  const std::uint64_t distinct = dst.owners() / std::max(1U, dst.type().layout.tiling.replicas);
  const std::uint64_t bytes = dst.max_shard_bytes();
  const std::uint64_t sent =
      std::min(src.max_shard_bytes(), cd(bytes * distinct, std::uint64_t{src.owners()}));
  return {.bytes = std::max(bytes, sent),
          .fragments = std::max(received, cd(received * distinct, std::uint64_t{src.owners()})),
          .sources = sources.size()};
}

double exchange_cycles(const Traffic& t) {
  return std::max(static_cast<double>(t.bytes) / kBytesPerCycle,
                  kFragmentCycles * static_cast<double>(t.fragments)) +
         kPhaseCycles;
}

Price price_copy(const Plan& plan, const Copy& copy, Layouts& layouts) {
  const double bytes = static_cast<double>(layouts(copy.dst).max_shard_bytes());
  Price price{
      .exchange = 0, .local = kCopyCycles + bytes / 8, .where = copy.dst, .fragments = 0, .phases = 0};
  if (stays_on_tile(plan.at(copy.dst), plan.at(copy.src), copy.map)) return price;
  Traffic t;
  bool clears = copy.clear_padding;
  if (copy.move_padding) {
    const MovedTypes moved = moved_types(plan, copy);
    t = traffic(ResolvedLayout(moved.dst), copy.map, ResolvedLayout(moved.src));
    clears = clears && has_padding(moved.dst);
  } else {
    t = traffic(layouts(copy.dst), copy.map, layouts(copy.src));
  }
  if (clears) price.local += kClearCycles + bytes / 48;
  price.exchange = exchange_cycles(t);
  price.fragments = t.fragments;
  price.sources = t.sources;
  price.phases = 1;
  return price;
}

Price price_sum(const Plan& plan, const Sum& sum, Layouts& layouts) {
  const ResolvedLayout& out = layouts(sum.out);
  const ResolvedLayout& partials = layouts(sum.partials);
  const std::uint32_t parts = plan.at(sum.partials).type.shape[0];
  tensor::CoordMap map;
  map.axes.push_back({});
  for (const tensor::CoordAxis& axis : tensor::identity_map(plan.at(sum.out).type.shape.size()).axes) {
    map.axes.push_back(axis);
  }
  const std::uint64_t runs = tensor::runs(out, 0, map, partials).size();
  const std::uint64_t bytes = out.max_shard_bytes() * (parts - 1);
  Traffic t{.bytes = std::max(bytes, partials.max_shard_bytes()), .fragments = runs * (parts - 1)};
  t.fragments = std::max(t.fragments, cd(t.fragments * out.owners(), std::uint64_t{partials.owners()}));
  const double kernel = cycles(Code::Sum, {0, 0, 0, elements32(out), parts, 0, 0, 0});
  return {.exchange = exchange_cycles(t),
          .local = kernel,
          .where = sum.out,
          .fragments = t.fragments,
          .phases = 1};
}

double cast_cycles(const ResolvedLayout& in, const ResolvedLayout& out) {
  const ShardSize from = shard_size(in), to = shard_size(out);
  const Precision source = in.type().encoding.precision, target = out.type().encoding.precision;
  if (source == Precision::F8) return cycles(Code::CastF8ToF16, {0, 0, elements32(in), 0});
  if (target == Precision::F32) return cycles(Code::CastF16ToF32, {0, 0, elements32(in)});
  if (source == Precision::F32) return cycles(Code::CastF32ToF16, {0, 0, elements32(in)});
  TW_CHECK(target == Precision::F8, "cast between equal precisions");
  const bool to_left = out.type().layout.order.kind == Order::AmpLeft;
  if (to_left && in.type().layout.order.kind == Order::Row) {
    return cycles(Code::PackRowToF8Left, {0, 0, from.rows, from.cols, from.logical_cols, to.cols, 0});
  }
  if (to_left && in.type().layout.order.kind == Order::AmpLeft) {
    return cycles(Code::RepackF8Left, {0, 0, from.rows, from.cols, to.cols, 0});
  }
  return cycles(Code::CastF16ToF8, {0, 0, elements32(in), 0});
}

double reorder_cycles(const ResolvedLayout& in, const ResolvedLayout& out) {
  const ShardSize from = shard_size(in), to = shard_size(out);
  const std::vector<tensor::AxisSpan> span = out.bounds(0);
  const std::size_t rank = span.size();
  double matrices = 1;  // AmpRight and BlockMajor kernels work on one matrix
  for (std::size_t axis = 0; axis + 2 < rank; ++axis) matrices *= span[axis].physical();
  const std::uint32_t drows = rank > 1 ? span[rank - 2].physical() : 1;
  const std::uint32_t rows = rank > 1 ? span[rank - 2].logical() : 1;
  switch (out.type().layout.order.kind) {
    case Order::AmpLeft:
      return cycles(Code::PackRowToLeft, {0, 0, from.rows, from.cols, from.logical_cols, to.cols});
    case Order::AmpRight:
      return matrices *
             cycles(Code::PackRowToRight, {0, 0, rows, from.cols, from.logical_cols, drows, to.cols});
    case Order::BlockMajor:
      return matrices * cycles(Code::PackRowToBlock, {0, 0, rows, from.cols, from.logical_cols, drows,
                                                      to.cols, out.type().layout.order.row_block});
    case Order::Row:
      break;
    default:
      TW_CHECK(false, "no kernel for this reorder");
  }
  if (in.type().layout.order.kind == Order::AmpLeft) {
    return cycles(Code::UnpackLeft, {0, 0, from.rows, from.cols, to.logical_cols, to.cols});
  }
  TW_CHECK(in.type().layout.order.kind == Order::BlockMajor, "no kernel for this reorder");
  const std::vector<tensor::AxisSpan> source = in.bounds(0);
  return matrices *
         cycles(Code::UnpackBlock, {0, 0, rows, to.logical_cols, to.cols, source[rank - 2].physical(),
                                    from.cols, in.type().layout.order.row_block});
}

}  // namespace

const ResolvedLayout& Layouts::operator()(TensorId id) {
  if (cache_.size() < plan_.tensors.size()) cache_.resize(plan_.tensors.size());
  std::unique_ptr<ResolvedLayout>& slot = cache_.at(id.value);
  if (!slot) slot = std::make_unique<ResolvedLayout>(plan_.at(id).type);
  return *slot;
}

ShardSize shard_size(const ResolvedLayout& layout) {
  if (layout.linear()) return {.rows = 1, .cols = elements32(layout), .logical_cols = elements32(layout)};
  const std::vector<tensor::AxisSpan> span = layout.bounds(0);
  ShardSize size{.rows = 1, .cols = span.back().physical(), .logical_cols = span.back().logical()};
  for (std::size_t axis = 0; axis + 1 < span.size(); ++axis) size.rows *= span[axis].physical();
  return size;
}

double product_cycles(const Plan& plan, const Product& product, Layouts& layouts) {
  const ShardSize left = shard_size(layouts(product.left)), out = shard_size(layouts(product.out));
  const tensor::TensorType& right = plan.at(product.right).type;
  const std::array<std::uint32_t, 2> spec{product.accumulate ? 1U : 0U,
                                          right.layout.memory == MemoryClass::Interleaved ? 1U : 0U};
  const Code code = right.encoding.precision == Precision::F8 ? Code::GemmF8 : Code::GemmF16;
  return cycles(code, {0, 0, 0, out.rows, left.cols, out.cols, 0}, spec);
}

namespace {

double general_cycles(const Local& local, Layouts& layouts) {
  const ResolvedLayout& in = layouts(local.inputs.at(0));
  const std::uint32_t n = elements32(in);
  const ShardSize x = shard_size(in);
  const bool single = in.type().encoding.precision == Precision::F32;
  const std::array<std::uint32_t, 2> spec{local.function, single ? 1U : 0U};
  switch (local.kind) {
    case LocalKind::Unary:
      return cycles(Code::Unary, {0, 0, n}, spec);
    case LocalKind::Binary:
      return cycles(Code::Binary, {0, 0, 0, n, elements32(layouts(local.inputs.at(1)))},
                    std::array{local.function, local.swapped ? 1U : 0U});
    case LocalKind::Reduce:
      return cycles(Code::Reduce, {0, 0, x.rows, x.cols}, spec);
    case LocalKind::SoftmaxRows:
      return cycles(Code::SoftmaxRows, {0, 0, x.rows, x.cols});
    case LocalKind::NormRows:
      return cycles(Code::NormRows, {0, 0, 0, 0, x.rows, x.cols},
                    std::array{std::bit_cast<std::uint32_t>(local.epsilon)});
    case LocalKind::Rope: {
      const std::uint32_t rows = shard_size(layouts(local.inputs.at(1))).rows;
      return cycles(Code::Rope, {0, 0, 0, 0, x.rows / std::max(1U, rows), rows, x.cols},
                    std::array{local.interleaved ? 1U : 0U});
    }
    case LocalKind::Join: {
      double sum = 0;
      for (const TensorId id : local.inputs) {
        const std::vector<tensor::AxisSpan> span = layouts(id).bounds(0);
        const std::uint32_t words = span[1].physical() * span[2].physical();
        sum += cycles(Code::CopyStrided32, {0, 0, words, span[0].physical(), words * 4, words * 4});
      }
      return sum;
    }
    default:
      fail_check("LocalKind", "unknown local kernel");
  }
}

}  // namespace

double local_cycles(const Plan& plan, const Local& local, Layouts& layouts) {
  const ResolvedLayout& in = layouts(local.inputs.at(0));
  const ResolvedLayout& out = layouts(local.outputs.at(0));
  const std::array<std::uint32_t, 1> epsilon{std::bit_cast<std::uint32_t>(local.epsilon)};
  const ShardSize x = shard_size(in);
  const bool to_f8 = out.type().encoding.precision == Precision::F8;
  switch (local.kind) {
    case LocalKind::Cast:
      return cast_cycles(in, out);
    case LocalKind::Reorder:
      return reorder_cycles(in, out);
    case LocalKind::Add:
      return cycles(Code::Add, {0, 0, 0, elements32(out), elements32(layouts(local.inputs.at(1)))});
    case LocalKind::Gelu:
      if (to_f8) return cycles(Code::GeluF8, {0, 0, x.rows, x.cols});
      return cycles(Code::Gelu, {0, 0, elements32(out)});
    case LocalKind::BiasGelu:
      return cycles(to_f8 ? Code::BiasGeluF8 : Code::BiasGelu, {0, 0, 0, x.rows, x.cols});
    case LocalKind::LayerNorm:
      return cycles(to_f8 ? Code::LayerNormF8 : Code::LayerNorm, {0, 0, 0, 0, x.rows, x.cols}, epsilon);
    case LocalKind::AddLayerNorm:
      return cycles(Code::AddLayerNorm, {0, 0, 0, 0, 0, x.rows, x.cols}, epsilon);
    case LocalKind::AddMoments:
      return cycles(Code::AddMoments, {0, 0, 0, 0, x.rows, x.cols});
    case LocalKind::Moments:
      return cycles(Code::Moments, {0, 0, x.rows, x.cols});
    case LocalKind::Apply: {
      const std::uint32_t parts = plan.at(local.inputs.at(1)).type.shape[0];
      return cycles(Code::Apply, {0, 0, 0, 0, 0, x.rows, x.cols, parts}, epsilon);
    }
    case LocalKind::Softmax: {
      const std::array<std::uint32_t, 1> scale{numeric::f32_to_f16(local.scale)};
      return cycles(Code::Softmax, {0, 0, 0, x.rows, x.logical_cols, x.cols, local.split ? 1U : 0U, 0},
                    scale);
    }
    case LocalKind::Merge: {
      const std::array<std::uint32_t, 1> mode{(local.initial ? 1U : 0U) | (local.final ? 2U : 0U)};
      return cycles(Code::Merge, {0, 0, 0, 0, x.rows, x.logical_cols, x.cols}, mode);
    }
    default:
      return general_cycles(local, layouts);
  }
  fail_check("LocalKind", "unknown local kernel");
}

Price price_of(const Plan& plan, const Step& step, Layouts& layouts) {
  if (const auto* copy = std::get_if<Copy>(&step.action)) return price_copy(plan, *copy, layouts);
  if (const auto* sum = std::get_if<Sum>(&step.action)) return price_sum(plan, *sum, layouts);
  if (const auto* product = std::get_if<Product>(&step.action)) {
    return {.exchange = 0, .local = product_cycles(plan, *product, layouts), .where = product->out};
  }
  const auto* local = std::get_if<Local>(&step.action);
  TW_CHECK(local != nullptr, "a Repeat has no price of its own");
  return {.exchange = 0, .local = local_cycles(plan, *local, layouts), .where = local->outputs.at(0)};
}

}  // namespace tw::plan
