// Prices of single steps (compiler.md 5.4, 5.5) for estimates and candidate ranking. Internal to plan/.
#pragma once
#include <memory>
#include <vector>

#include "plan/cost.h"
#include "plan/plan.h"
#include "target/device.h"

namespace tw::plan {

// Resolved layouts of a plan's tensors, made on first use.
class Layouts {
 public:
  explicit Layouts(const Plan& plan) : plan_(plan) {}
  const tensor::ResolvedLayout& operator()(TensorId id);

 private:
  const Plan& plan_;
  std::vector<std::unique_ptr<tensor::ResolvedLayout>> cache_;
};

struct Price {
  double exchange = 0;  // one barrier of the whole device; 0: none
  double local = 0;     // cycles on every owner tile of `where`
  TensorId where;
  std::uint64_t fragments = 0;  // runs sent or received by the busiest tile, the larger
  std::uint64_t phases = 0;
  std::uint64_t sources = 0;  // of a Copy: owners that one destination receives from
};
Price price_of(const Plan& plan, const Step& step, Layouts& layouts);  // not for Repeat

// Cycles of a Local on its largest shard (owner 0).
double local_cycles(const Plan& plan, const Local& local, Layouts& layouts);
double product_cycles(const Plan& plan, const Product& product, Layouts& layouts);

// Physical extents of the largest shard: all axes but the last multiplied, the last, and its logical width.
struct ShardSize {
  std::uint32_t rows = 0, cols = 0, logical_cols = 0;
};
ShardSize shard_size(const tensor::ResolvedLayout& layout);

// estimate() with every shard as large as owner 0's: an upper bound that is quick enough for ranking.
Metrics estimate_quickly(const Plan& plan);

}  // namespace tw::plan
