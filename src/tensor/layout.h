// The tensor format model of compiler.md 2: a TensorType is shape + encoding + layout; a ResolvedLayout is
// the same with every owner's rectangle worked out once. Extents in elements unless a name says bytes.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tw::tensor {

using Shape = std::vector<std::uint32_t>;  // outermost first; rows = axis rank-2, cols = last axis
std::uint64_t elements(const Shape& shape);
std::string to_string(const Shape& shape);  // "[1,729,1152]"

enum class Precision : std::uint8_t { F8, F16, F32 };  // F8 = F143
struct Encoding {
  Precision precision = Precision::F16;
  int scale = 0;  // F8 only: value = code * 2^scale
  bool operator==(const Encoding&) const = default;
};
constexpr std::uint32_t bytes_of(Precision p) { return p == Precision::F8 ? 1 : p == Precision::F16 ? 2 : 4; }
constexpr std::uint32_t mu_of(Precision p) { return 32 / bytes_of(p); }  // elements in 32 bytes
const char* name_of(Precision p);

enum class MemoryClass : std::uint8_t { Standard, Interleaved };

// Element orders, compiler.md 2.3 (index formulas there; outer axes flattened into rows only where it says
// so).
enum class Order : std::uint8_t {
  Row,
  AmpLeft,
  AmpLeftT,
  AmpRight,
  BlockMajor,
  BlockMajorT,
  AccOut,
  AccOutT
};
struct ElementOrder {
  Order kind = Order::Row;
  std::uint32_t row_block = 0, col_block = 0;  // BlockMajor(rb,cb) and its transpose only
  bool operator==(const ElementOrder&) const = default;
};

enum class Padding : std::uint8_t { Reject, Zero };
struct AxisTiling {  // one record of compiler.md 2.2
  std::uint32_t axis = 0, parts = 1, groups = 1, block = 1;
  std::uint32_t pad_multiple = 0;    // 0: block
  std::uint32_t shard_multiple = 1;  // physical width of a shard is rounded up to this
  Padding padding = Padding::Reject;
  std::uint32_t stride = 0;  // owner stride; 0: the running value
  bool operator==(const AxisTiling&) const = default;
};
struct Tiling {
  std::uint32_t tile_count = 1, replicas = 1;
  std::vector<AxisTiling> axes;
  std::uint32_t linear_grain = 0;  // > 0: linear ownership of the flattened order, axes empty
  bool operator==(const Tiling&) const = default;
};
struct Layout {
  ElementOrder order;
  Tiling tiling;
  MemoryClass memory = MemoryClass::Standard;
  bool operator==(const Layout&) const = default;
};
struct TensorType {
  Shape shape;
  Encoding encoding;
  Layout layout;
  bool operator==(const TensorType&) const = default;
};
std::string to_string(const TensorType& type);  // deterministic one-line form for goldens

// Embedding of owner ordinals in tiles: tile = list.empty() ? (ordinal + rotation) mod domain
//                                                            : list[(ordinal + rotation) mod list.size()].
struct OwnerMap {
  std::uint32_t rotation = 0, domain = 1;
  std::vector<std::uint32_t> list;
  std::uint32_t tile_of(std::uint32_t ordinal) const {
    return list.empty() ? (ordinal + rotation) % domain
                        : list[(ordinal + rotation) % static_cast<std::uint32_t>(list.size())];
  }
  bool operator==(const OwnerMap&) const = default;
};

// Extent of a shard on one axis: logical elements [start, logical_end), storage up to physical_end.
struct AxisSpan {
  std::uint32_t start = 0, logical_end = 0, physical_end = 0;
  std::uint32_t logical() const { return logical_end - start; }
  std::uint32_t physical() const { return physical_end - start; }
  bool operator==(const AxisSpan&) const = default;
};

class ResolvedLayout {
 public:
  // Throws Error{Shape} when the type breaks a rule of compiler.md 2.2/2.3 (indivisible axis, counts that do
  // not multiply, order constraint violated by a shard's physical extents, ...).
  explicit ResolvedLayout(const TensorType& type);

  const TensorType& type() const { return type_; }
  std::uint32_t owners() const { return type_.layout.tiling.tile_count; }
  bool linear() const { return type_.layout.tiling.linear_grain > 0; }

  // Rectangle of owner `t`, one span per axis (axes that are not tiled: the whole extent, padded only if an
  // AxisTiling with parts = 1 says so). Linear ownership: use flat_range instead.
  std::vector<AxisSpan> bounds(std::uint32_t t) const;
  struct FlatRange {
    std::uint64_t begin, end;
  };
  FlatRange flat_range(std::uint32_t t) const;  // linear ownership, row-major elements

  std::uint64_t shard_elements(std::uint32_t t) const;  // physical
  std::uint64_t shard_bytes(std::uint32_t t) const {
    return shard_elements(t) * bytes_of(type_.encoding.precision);
  }
  std::uint64_t max_shard_bytes() const;

  // First owner (replica 0) that holds logical coordinate `coord`; replicas are first + 0..replicas-1
  // (replica stride is 1 unless explicit axis strides say otherwise: use replica()).
  std::uint32_t owner_of(std::span<const std::uint32_t> coord) const;
  std::uint32_t replica(std::uint32_t first_owner, std::uint32_t r) const;
  // The replica-0 owner of t's coordinates (t itself when replicas == 1).
  std::uint32_t canonical_owner(std::uint32_t t) const;

  // Element index (not bytes) of a logical or padding coordinate inside the shard of owner t.
  std::uint64_t index_in_shard(std::uint32_t t, std::span<const std::uint32_t> coord) const;

 private:
  std::uint32_t coordinate(std::uint32_t t, std::size_t record) const;
  AxisSpan span_of(std::size_t record, std::uint32_t c) const;
  TensorType type_;
  std::vector<std::uint32_t> strides_;               // resolved owner stride per axis record
  std::vector<std::vector<AxisSpan>> spans_;         // per axis record, per partition
  std::vector<std::vector<std::uint32_t>> part_of_;  // per axis record, per logical coordinate: partition
  std::uint32_t combination(std::uint32_t t) const;
  void check_owners();
  void check_order() const;
  std::vector<std::uint32_t> axis_record_;  // per axis: its record, UINT32_MAX when not tiled
  std::vector<std::uint32_t> owners_of_;  // per combination of coordinates: its `replicas` owners, ascending
};

// Panel family of compiler.md 2.3: same family and same F8/F16 precision means re-tiling by pure exchange.
enum class PanelFamily : std::uint8_t { None, RowsThenColumns, ColumnsThenRows };
PanelFamily family_of(Order order);

}  // namespace tw::tensor
