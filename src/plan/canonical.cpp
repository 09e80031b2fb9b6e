#include "plan/canonical.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <tuple>

#include "base/capacity.h"
#include "base/error.h"
#include "base/math.h"

namespace tw::plan {
namespace {

using tensor::AxisTiling;
using tensor::Order;
using tensor::Padding;
using tensor::TensorType;

constexpr std::uint64_t kChunkBytes = 16384;  // coarse boundary chunk of the default policy
constexpr std::uint64_t kVectorChunk = 256;   // bytes of a vector home's shard

std::uint32_t linear_grain(std::uint64_t elements, std::uint32_t element_bytes) {
  std::uint32_t grain = 8 / element_bytes;
  while (grain > 1 && elements % grain != 0) grain /= 2;
  return grain;
}

TensorType linear_type(const tensor::Shape& shape, tensor::Precision precision, std::uint32_t grain,
                       std::uint32_t owners) {
  TensorType type{.shape = shape, .encoding = {precision, 0}, .layout = {}};
  type.layout.tiling.tile_count = owners;
  type.layout.tiling.linear_grain = grain;
  return type;
}

std::uint32_t row_owners(const tensor::Shape& shape, std::uint32_t tiles, Policy policy,
                         tensor::Precision precision) {
  const std::uint32_t rows = shape[shape.size() - 2];
  if (policy == Policy::Capacity) return std::min(rows, tiles);
  const std::uint64_t row_bytes = tensor::elements(shape) / rows * tensor::bytes_of(precision);
  const std::uint64_t cap = std::max<std::uint64_t>(1, kChunkBytes / row_bytes);
  const auto wanted = static_cast<std::uint32_t>(std::min<std::uint64_t>(std::bit_floor(cap), rows));
  return cd(rows, std::max(wanted, cd(rows, tiles)));
}

// A parameter of which one shard per iteration is already more than a tile.
void check_home(const Device& device, const tensor::Shape& shape, tensor::Precision precision,
                std::uint64_t shard, std::uint64_t owners, std::uint32_t copies) {
  CapacityDetail d;
  d.needed_bytes = shard * copies;
  d.available_bytes = data_budget(device) - kSupportReservation;
  if (d.needed_bytes <= d.available_bytes) return;
  d.missing_bytes = d.needed_bytes - d.available_bytes;
  d.failing_tiles = static_cast<std::uint32_t>(owners);
  d.live = {{fmt::format("one shard for each of {} iterations", copies), "parameter",
             tensor::to_string(shape), tensor::name_of(precision), d.needed_bytes, 0, 0, -1}};
  if (copies > 1) d.suggestions = {{"half the layers (--layers)", d.needed_bytes / 2}};
  throw does_not_fit(ErrorKind::Capacity, std::move(d));
}

struct HomeLoad {
  std::uint32_t tensor = 0;
  std::vector<std::uint64_t> bytes;  // per owner, all members
  std::uint64_t largest = 0;
};

std::uint64_t peak_with(const std::vector<std::uint64_t>& load, const HomeLoad& home,
                        std::uint32_t rotation) {
  std::vector<std::uint64_t> trial = load;
  for (std::uint32_t o = 0; o < home.bytes.size(); ++o) trial[(o + rotation) % load.size()] += home.bytes[o];
  return *std::max_element(trial.begin(), trial.end());
}

}  // namespace

std::uint64_t data_budget(const Device& device) { return device.loader_end - device.data_base; }
std::uint64_t interleaved_budget(const Device& device) { return device.loader_end - device.interleaved_base; }

tensor::Precision boundary_precision(const tensor::Shape& shape) {
  return shape.back() % 2 == 0 ? tensor::Precision::F16 : tensor::Precision::F32;
}

TensorType canonical_type(const tensor::Shape& shape, std::uint32_t tiles, Policy policy) {
  return canonical_type(shape, tiles, policy, boundary_precision(shape));
}

TensorType canonical_type(const tensor::Shape& shape, std::uint32_t tiles, Policy policy,
                          tensor::Precision precision) {
  if (shape.size() < 2) {
    const std::uint64_t count = tensor::elements(shape);
    const std::uint32_t grain = linear_grain(count, tensor::bytes_of(precision));
    return linear_type(shape, precision, grain,
                       static_cast<std::uint32_t>(std::min<std::uint64_t>(count / grain, tiles)));
  }
  const std::uint32_t owners = row_owners(shape, tiles, policy, precision);
  TensorType type{.shape = shape, .encoding = {precision, 0}, .layout = {}};
  type.layout.tiling.tile_count = owners;
  AxisTiling rows;
  rows.axis = static_cast<std::uint32_t>(shape.size() - 2);
  rows.parts = owners;
  type.layout.tiling.axes = {rows};
  return type;
}

TensorType vector_home(const Device& device, const tensor::Shape& shape, std::uint32_t tiles,
                       std::uint32_t copies, tensor::Precision precision) {
  const std::uint64_t bytes = tensor::bytes_of(precision), count = tensor::elements(shape);
  const std::uint32_t grain = linear_grain(count, tensor::bytes_of(precision));
  const std::uint64_t most = std::min<std::uint64_t>(count / grain, tiles);
  const std::uint64_t limit = data_budget(device) - kSupportReservation;
  const std::uint64_t grains_per_tile = std::max<std::uint64_t>(1, limit / (grain * bytes * copies));
  const std::uint64_t required = cd(cd(count, std::uint64_t{grain}), grains_per_tile);
  const std::uint64_t owners = std::max(std::min(cd(count * bytes, kVectorChunk), most), required);
  if (owners > most) check_home(device, shape, precision, cd(count, most) * bytes, most, copies);
  return linear_type(shape, precision, grain,
                     static_cast<std::uint32_t>(std::max<std::uint64_t>(1, std::min(owners, most))));
}

TensorType matrix_home(const Device& device, const tensor::Shape& shape, tensor::Encoding encoding,
                       tensor::MemoryClass memory, std::uint32_t tiles, std::uint32_t copies) {
  TW_CHECK(shape.size() >= 2, "a matrix home needs a matrix");
  const auto rank = static_cast<std::uint32_t>(shape.size());
  const std::uint32_t row_grain = tensor::mu_of(encoding.precision), col_grain = 16;
  const std::uint32_t row_blocks = cd(shape[rank - 2], row_grain),
                      col_blocks = cd(shape[rank - 1], col_grain);
  // Smallest shard, then fewest bytes over all tiles, then fewest row parts.
  std::tuple<std::uint64_t, std::uint64_t, std::uint32_t, std::uint32_t> best{UINT64_MAX, 0, 0, 0};
  for (std::uint32_t rp = 1; rp <= std::min(row_blocks, tiles); ++rp) {
    const std::uint32_t cp = std::min(col_blocks, tiles / rp);
    const std::uint64_t shard =
        std::uint64_t{cd(row_blocks, rp)} * row_grain * cd(col_blocks, cp) * col_grain;
    best = std::min(best, {shard, shard * rp * cp, rp, cp});
  }
  const auto [shard, total, rp, cp] = best;
  check_home(device, shape, encoding.precision, shard * tensor::bytes_of(encoding.precision),
             std::uint64_t{rp} * cp, copies);
  TensorType type{.shape = shape, .encoding = encoding, .layout = {}};
  type.layout.order.kind = Order::AmpLeftT;
  type.layout.memory = memory;
  type.layout.tiling.tile_count = rp * cp;
  AxisTiling rows, cols;
  rows.axis = rank - 2, rows.parts = rp, rows.block = row_grain, rows.padding = Padding::Zero;
  cols.axis = rank - 1, cols.parts = cp, cols.block = col_grain, cols.padding = Padding::Zero;
  type.layout.tiling.axes = {rows, cols};
  return type;
}

void rotate_homes(Plan& plan) {
  std::vector<HomeLoad> homes;
  for (std::uint32_t i = 0; i < plan.tensors.size(); ++i) {
    const Tensor& tensor = plan.tensors[i];
    if (tensor.role != Role::Parameter) continue;
    const tensor::ResolvedLayout layout(tensor.type);
    HomeLoad home{.tensor = i, .bytes = {}, .largest = 0};
    for (std::uint32_t o = 0; o < layout.owners(); ++o) {
      home.bytes.push_back(layout.shard_bytes(o) * tensor.members.size());
      home.largest = std::max(home.largest, home.bytes.back());
    }
    homes.push_back(std::move(home));
  }
  std::ranges::sort(homes, {}, [](const HomeLoad& h) { return std::pair(~h.largest, h.tensor); });
  std::vector<std::uint64_t> load(plan.tiles, 0);
  for (const HomeLoad& home : homes) {
    std::uint64_t best_peak = UINT64_MAX;
    std::uint32_t best = 0;
    for (std::uint32_t rotation = 0; rotation < plan.tiles; rotation += cd(plan.tiles, 128U)) {
      const std::uint64_t peak = peak_with(load, home, rotation);
      if (peak < best_peak) best_peak = peak, best = rotation;
    }
    plan.tensors[home.tensor].owners.rotation = best;
    for (std::uint32_t o = 0; o < home.bytes.size(); ++o) load[(o + best) % plan.tiles] += home.bytes[o];
  }
}

}  // namespace tw::plan
