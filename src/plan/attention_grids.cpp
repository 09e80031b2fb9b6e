#include "plan/attention_grids.h"

#include <algorithm>

#include "base/math.h"
#include "kernel/kernel.h"

namespace tw::plan {
namespace {

using kernel::Code;
using tensor::MemoryClass;
using tensor::Order;
using tensor::Padding;
using tensor::TensorType;

constexpr std::uint32_t kMostRows = 16, kMostInner = 8;

std::uint32_t inner_block(std::uint32_t inner, const ProductGrid& g) {
  return cd(cd(inner, kPanel), g.inner) * kPanel;
}

TensorType grid_type(tensor::Shape shape, const AttentionShape& s, const ProductGrid& g,
                     tensor::ElementOrder order) {
  TensorType type{.shape = std::move(shape), .encoding = {}, .layout = {}};
  type.layout.order = order;
  type.layout.tiling.tile_count = s.streams * g.rows * g.cols * g.inner;
  return type;
}

// [streams, queries, inner] for every column of the grid.
TensorType left_type(const AttentionShape& s, const ProductGrid& g, std::uint32_t inner) {
  TensorType type = grid_type({s.streams, s.queries, inner}, s, g, kLeftOrder);
  type.layout.tiling.replicas = g.cols;
  type.layout.tiling.axes = {
      axis_tiling(0, s.streams, 1),
      axis_tiling(2, g.inner, s.streams * g.cols, inner_block(inner, g), Padding::Zero),
      axis_tiling(1, g.rows, s.streams * g.cols * g.inner)};
  return type;
}

// Keys [streams, keys, width] or values [streams, keys, cols] for every row of the grid. Wide loads: F16.
TensorType keys_type(const AttentionShape& s, const ProductGrid& g) {
  TensorType type = grid_type({s.streams, s.keys, s.width}, s, g, kRightOrder);
  type.layout.memory = MemoryClass::Interleaved;
  type.layout.tiling.replicas = g.rows;
  type.layout.tiling.axes = {axis_tiling(0, s.streams, 1),
                             axis_tiling(1, g.cols, s.streams, kPanel, Padding::Zero),
                             axis_tiling(2, 1, 1, kPanel, Padding::Zero)};
  return type;
}
TensorType values_type(const AttentionShape& s, const ProductGrid& g) {
  const std::uint32_t block = inner_block(s.keys, g);
  TensorType type = grid_type({s.streams, s.keys, s.values}, s, g,
                              {.kind = Order::BlockMajor, .row_block = block, .col_block = kPanel});
  type.layout.memory = MemoryClass::Interleaved;
  type.layout.tiling.replicas = g.rows;
  type.layout.tiling.axes = {axis_tiling(0, s.streams, 1),
                             axis_tiling(2, g.cols, s.streams, kPanel, Padding::Zero),
                             axis_tiling(1, g.inner, s.streams * g.cols, block, Padding::Zero)};
  return type;
}

// Partial products [inner, streams, queries, cols]; without the leading axis when K is whole.
TensorType out_type(const AttentionShape& s, const ProductGrid& g, std::uint32_t cols) {
  const std::uint32_t lead = g.inner > 1 ? 1 : 0;
  tensor::Shape shape{s.streams, s.queries, cols};
  if (lead > 0) shape.insert(shape.begin(), g.inner);
  TensorType type = grid_type(std::move(shape), s, g, kLeftOrder);
  type.layout.memory = MemoryClass::Interleaved;
  type.layout.tiling.axes = {axis_tiling(lead, s.streams, 1),
                             axis_tiling(lead + 2, g.cols, s.streams, kPanel, Padding::Zero),
                             axis_tiling(lead + 1, g.rows, s.streams * g.cols * g.inner)};
  if (lead > 0) type.layout.tiling.axes.push_back(axis_tiling(0, g.inner, s.streams * g.cols));
  return type;
}

std::vector<ProductGrid> grids(const AttentionShape& s, std::uint32_t tiles, std::uint32_t inner_extent,
                               std::uint32_t most_inner, std::uint32_t cols) {
  std::vector<ProductGrid> list;
  const std::uint32_t each = tiles / s.streams, groups = cd(inner_extent, kPanel);
  for (std::uint32_t rows = 1; rows <= std::min(kMostRows, s.queries); ++rows) {
    for (std::uint32_t inner = 1; inner <= std::min(most_inner, groups); ++inner) {
      if (rows * inner > each || !every_part_filled(groups, inner)) continue;
      list.push_back(
          {.rows = rows, .cols = std::min(cd(cols, kPanel), each / (rows * inner)), .inner = inner});
    }
  }
  return list;
}

// Closed-form price of a product and of the movement to and from it.
struct Priced {
  ProductGrid grid;
  double cycles = 0;
  std::uint64_t bytes = 0, fragments = 0;
};

double exchange(std::uint64_t bytes, std::uint64_t fragments) {
  return std::max(double(bytes) / 4, 3.0 * double(fragments)) + 600;
}

double kernel_cycles(Code code, std::array<std::uint32_t, 8> words,
                     std::span<const std::uint32_t> spec = {}) {
  return static_cast<double>(kernel::find(code)->cycles(kernel::Call{.m = words, .spec = spec}));
}

Priced priced(const AttentionShape& s, const ProductGrid& g, std::uint32_t inner, std::uint32_t cols) {
  constexpr std::array<std::uint32_t, 2> kWide{0, 1};
  const std::uint32_t rows = cd(s.queries, g.rows), k = inner_block(inner, g);
  const std::uint32_t width = cd(cd(cols, kPanel), g.cols) * kPanel;
  const std::uint32_t part_rows = cd(s.queries, s.parts), row_parts = cd(rows, part_rows) + 1;
  const std::uint64_t left = 2ULL * rows * k, right = 2ULL * k * width, out = 2ULL * rows * width;
  const std::uint64_t left_runs = std::uint64_t{row_parts} * (k / kPanel),
                      right_runs = std::uint64_t{k / kPanel} * (width / kPanel);
  // What a query tile receives back.
  const std::uint64_t back_bytes = 2ULL * part_rows * up(cols, kPanel),
                      back_runs =
                          std::uint64_t{cd(cols, kPanel)} * (part_rows < rows ? 2 : cd(part_rows, rows));
  Priced p{.grid = g, .cycles = 0, .bytes = left + right + out, .fragments = left_runs + right_runs};
  p.cycles = exchange(left, left_runs) + exchange(right, right_runs) +
             kernel_cycles(Code::GemmF16, {0, 0, 0, rows, k, width, 0}, kWide) +
             exchange(std::max(out, back_bytes * g.inner), back_runs * g.inner);
  p.fragments += back_runs * g.inner;
  if (g.inner > 1) {
    p.cycles += kernel_cycles(Code::Sum, {0, 0, 0, static_cast<std::uint32_t>(back_bytes / 2), g.inner, 0});
    p.bytes = std::max(p.bytes, out + back_bytes * (g.inner + 1));
  }
  return p;
}

// Undominated grids, those with the fewest cycles, bytes and fragments first, then by bytes.
std::vector<ProductGrid> best_of(std::vector<Priced> all, std::size_t limit) {
  std::vector<Priced> front;
  std::ranges::stable_sort(all, {}, &Priced::cycles);
  for (const Priced& p : all) {
    const bool beaten = std::ranges::any_of(
        front, [&](const Priced& f) { return f.bytes <= p.bytes && f.fragments <= p.fragments; });
    if (!beaten) front.push_back(p);
  }
  std::vector<ProductGrid> chosen;
  const auto take = [&](const Priced& p) {
    if (chosen.size() < limit && std::ranges::find(chosen, p.grid) == chosen.end()) chosen.push_back(p.grid);
  };
  if (front.empty()) return chosen;
  take(front.front());
  take(*std::ranges::min_element(front, {}, &Priced::fragments));
  std::ranges::stable_sort(front, {}, &Priced::bytes);
  for (const Priced& p : front) take(p);
  return chosen;
}

}  // namespace

bool every_part_filled(std::uint32_t groups, std::uint32_t parts) {
  return cd(groups, parts) * (parts - 1) < groups;
}

std::vector<ProductGrid> qk_grids(const AttentionShape& s, std::uint32_t tiles) {
  return grids(s, tiles, s.width, 1, s.keys);
}
std::vector<ProductGrid> pv_grids(const AttentionShape& s, std::uint32_t tiles) {
  return grids(s, tiles, s.keys, kMostInner, s.values);
}

std::vector<AttentionGrids> attention_grids(const AttentionShape& s, std::uint32_t tiles, std::size_t limit) {
  if (tiles / s.streams < 2) return {};
  std::vector<Priced> qk, pv;
  for (const ProductGrid& g : qk_grids(s, tiles)) qk.push_back(priced(s, g, s.width, s.keys));
  for (const ProductGrid& g : pv_grids(s, tiles)) pv.push_back(priced(s, g, s.keys, s.values));
  const std::vector<ProductGrid> first = best_of(std::move(qk), 4);
  const std::vector<ProductGrid> second = best_of(std::move(pv), limit / first.size());
  std::vector<AttentionGrids> pairs;
  for (const ProductGrid& a : first) {
    for (const ProductGrid& b : second) pairs.push_back({.qk = a, .pv = b});
  }
  return pairs;
}

TensorId emit_on_grids(Draft& draft, const Held& q, const Held& k, const Held& v, const AttentionShape& s,
                       float scale, const AttentionGrids& grids) {
  const TensorId queries = pack_queries(draft, q, s);
  const TensorId q_left = draft.add("q.left", left_type(s, grids.qk, s.width), Role::Operand);
  draft.copy_panels(q_left, queries);
  const TensorId keys = pack_keys(draft, "k", k, s, kRightOrder);
  const TensorId k_right = draft.add("k", keys_type(s, grids.qk), Role::Operand);
  draft.copy_panels(k_right, keys);
  const TensorId products = draft.add("qk", out_type(s, grids.qk, s.keys), Role::Scratch);
  draft.step(Product{.left = q_left, .right = k_right, .out = products, .right_transposed = true});

  const TensorId scores = draft.add("scores", query_type(s, s.keys, kPanel, kLeftOrder), Role::Scratch);
  draft.copy_panels(scores, products);
  const Probabilities p = emit_softmax(draft, "", scores, s, scale);
  const TensorId p_left = draft.add("weights.left", left_type(s, grids.pv, s.keys), Role::Operand);
  draft.copy_panels(p_left, p.weights);

  const TensorType values = values_type(s, grids.pv);
  const tensor::ElementOrder packed{.kind = Order::BlockMajor, .row_block = kKeyBlock, .col_block = kPanel};
  const TensorId v_packed = pack_keys(draft, "v", v, s, packed);
  const TensorId v_right = draft.add("v", values, Role::Operand);
  draft.copy_panels(v_right, v_packed);
  const bool split = grids.pv.inner > 1;
  const TensorId partials = draft.add(split ? "partials" : "pv.grid", out_type(s, grids.pv, s.values),
                                      split ? Role::Partials : Role::Scratch);
  draft.step(Product{.left = p_left, .right = v_right, .out = partials, .k_parts = grids.pv.inner});
  // The rows' statistics stay where they are: the products come to them.
  const TensorId pv = draft.add("pv", query_type(s, s.values, kPanel, kLeftOrder), Role::Scratch);
  if (split) {
    draft.step(Sum{.partials = partials, .out = pv});
  } else {
    draft.copy_panels(pv, partials);
  }
  const TensorId out = draft.add("result", query_type(s, s.values, kPanel, {}), Role::Activation);
  draft.local({.kind = LocalKind::Merge, .inputs = {pv, p.state}, .outputs = {out}});
  return out;
}

}  // namespace tw::plan
