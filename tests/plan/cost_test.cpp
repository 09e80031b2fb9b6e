// The estimator on plans small enough to work out by hand (compiler.md 5.5, 5.6, 6).
#include "plan/cost.h"

#include <gtest/gtest.h>

#include "plan/draft.h"

namespace tw::plan {
namespace {

constexpr std::uint32_t kTiles = 4;

// Plans of [1,8,64] F16 tensors (1,024 bytes), one owner each.
class Hand {
 public:
  Hand() { plan.tiles = kTiles; }
  TensorId tensor(std::uint32_t tile, Role role = Role::Activation,
                  tensor::MemoryClass memory = tensor::MemoryClass::Standard) {
    Tensor t;
    t.name = "t" + std::to_string(plan.tensors.size());
    t.type.shape = {1, 8, 64};
    t.type.layout.memory = memory;
    t.owners = {.rotation = tile, .domain = kTiles, .list = {}};
    t.role = role;
    if (role == Role::Parameter) t.members = {t.name};
    plan.tensors.push_back(t);
    return TensorId(static_cast<std::uint32_t>(plan.tensors.size() - 1));
  }
  static Step copy(TensorId dst, TensorId src) {
    return {Copy{.dst = dst, .src = src, .map = tensor::identity_map(3)}, "copy", {}};
  }
  static Step add(TensorId out, TensorId a, TensorId b) {
    return {Local{.kind = LocalKind::Add, .inputs = {a, b}, .outputs = {out}}, "add", {}};
  }
  Metrics metrics() const { return estimate(c600(), plan); }
  Plan plan;
};

constexpr double kExchange = 1024 / 4 + 600;   // one run of 1,024 bytes, one phase
constexpr double kCopyLocal = 288 + 1024 / 8;  // local part of the copy on its receiver
constexpr double kAdd = 504 + 18 * 22;         // 512 elements: 504 + 18 * cd(512, 24)

TEST(Cost, CopyIsABarrierAndLocalWork) {
  Hand h;
  const TensorId x = h.tensor(0, Role::Input), y = h.tensor(1);
  h.plan.steps = {Hand::copy(y, x)};
  EXPECT_DOUBLE_EQ(h.metrics().cycles, kExchange + kCopyLocal);
  EXPECT_EQ(h.metrics().row_bytes, 4U * (1 + 9 * 1));
}

TEST(Cost, CopyOnOneTileNeedsNoExchange) {
  Hand h;
  const TensorId x = h.tensor(2, Role::Input), y = h.tensor(2);
  h.plan.steps = {Hand::copy(y, x)};
  EXPECT_DOUBLE_EQ(h.metrics().cycles, kCopyLocal);
  EXPECT_EQ(h.metrics().row_bytes, 0U);
}

TEST(Cost, WorkBeforeABarrierOverlapsAcrossTiles) {
  Hand h;
  const TensorId x = h.tensor(0, Role::Input), z = h.tensor(3, Role::Input), s = h.tensor(0), r = h.tensor(3);
  const TensorId y = h.tensor(1);
  h.plan.steps = {Hand::add(s, x, x), Hand::add(r, z, z), Hand::copy(y, s)};
  EXPECT_DOUBLE_EQ(h.metrics().cycles, kAdd + kExchange + kCopyLocal);
}

// n iterations: prefix + mid + (n - 1) (between + mid) + tail, where the tail of one iteration (tile 1) and
// the prefix of the next (tile 0) overlap.
TEST(Cost, RepeatOverlapsTailAndPrefix) {
  Hand h;
  const TensorId x = h.tensor(0, Role::Input), s = h.tensor(0), y = h.tensor(1);
  h.plan.steps = {Step{Repeat{.count = 3, .body = {Hand::add(s, x, x), Hand::copy(y, s)}}, "repeat", {}}};
  EXPECT_DOUBLE_EQ(h.metrics().cycles,
                   kAdd + kExchange + 2 * (std::max(kAdd, kCopyLocal) + kExchange) + kCopyLocal);
}

TEST(Cost, RepeatWithoutBarriersMultiplies) {
  Hand h;
  const TensorId x = h.tensor(0, Role::Input), s = h.tensor(0);
  h.plan.steps = {Step{Repeat{.count = 5, .body = {Hand::add(s, x, x)}}, "repeat", {}}};
  EXPECT_DOUBLE_EQ(h.metrics().cycles, 5 * kAdd);
}

TEST(Memory, TensorsDieAfterTheirLastUse) {
  Hand h;
  const TensorId x = h.tensor(0, Role::Input), a = h.tensor(0), b = h.tensor(0), c = h.tensor(0);
  h.plan.steps = {Hand::add(a, x, x), Hand::add(b, a, a), Hand::add(c, b, b)};
  EXPECT_EQ(h.metrics().total_bytes, 2048U);
}

TEST(Memory, OutputsAndParametersStay) {
  Hand h;
  const TensorId p = h.tensor(0, Role::Parameter), x = h.tensor(0, Role::Input);
  h.plan.tensors[p.value].members = {"a", "b", "c"};
  const TensorId o = h.tensor(0, Role::Output), b = h.tensor(0), c = h.tensor(0);
  h.plan.steps = {Hand::add(o, x, x), Hand::add(b, x, p), Hand::add(c, b, b)};
  EXPECT_EQ(h.metrics().total_bytes, (3U + 1 + 1 + 1) * 1024);  // members, output, b, and x or c
  EXPECT_EQ(h.metrics().max_standard_allocation, 3 * 1024U);
}

TEST(Memory, ClassMaximaNeedNotCoincide) {
  Hand h;
  const TensorId x = h.tensor(0, Role::Input),
                 w = h.tensor(0, Role::Activation, tensor::MemoryClass::Interleaved);
  const TensorId y = h.tensor(0), z = h.tensor(1);
  h.plan.steps = {Hand::add(w, x, x), Hand::add(y, w, w), Hand::copy(z, y)};
  const Metrics m = h.metrics();
  EXPECT_EQ(m.interleaved_bytes, 1024U);
  EXPECT_EQ(m.standard_bytes, 1024U);
  EXPECT_EQ(m.total_bytes, 2048U);
  EXPECT_EQ(m.peak_tile, 0U);
}

TEST(Memory, SharedStorageCountsOnce) {
  Hand h;
  const TensorId x = h.tensor(0, Role::Input), a = h.tensor(0), b = h.tensor(0);
  h.plan.tensors[b.value].storage = a;
  h.plan.steps = {Hand::add(a, x, x), Hand::add(b, a, x)};
  EXPECT_EQ(h.metrics().total_bytes, 2048U);
}

// Written before the Repeat and read in its middle: needed in every iteration, so also beside what the body
// makes after the read.
TEST(Memory, OuterValuesLiveOverTheWholeRepeat) {
  Hand h;
  const TensorId x = h.tensor(0, Role::Input), a = h.tensor(0), b = h.tensor(0), c = h.tensor(0),
                 d = h.tensor(0);
  h.plan.steps = {
      Hand::add(a, x, x),
      Step{
          Repeat{.count = 2, .body = {Hand::add(b, a, a), Hand::add(c, b, b), Hand::add(d, c, c)}}, "r", {}}};
  EXPECT_EQ(h.metrics().total_bytes, 3072U);  // a, c, d
}

}  // namespace
}  // namespace tw::plan
