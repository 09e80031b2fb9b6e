// plan::fuse on plans of a few steps: when it rewrites, when it must not, and that results stay the same.
#include "plan/fuse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "graphs.h"
#include "plan/convert.h"
#include "plan/cost.h"
#include "plan/exact.h"

namespace tw::plan {
namespace {

using tensor::Order;
using tensor::Padding;
using tensor::Precision;
using tensor::TensorType;

const Options kOptions{.tiles = 64};

// A plan by hand. Activations are [batch, rows, width] in F16 rows; owners hold equal numbers of rows, whole
// or (more owners than rows) of one image.
struct Sketch {
  Draft draft{c600(), kOptions};
  std::uint32_t batch = 1, rows = 16, width = 32;
  int names = 0;

  TensorType row_type(std::uint32_t owners) const {
    TensorType type{.shape = {batch, rows, width}, .encoding = {}, .layout = {}};
    type.layout.tiling.tile_count = owners;
    type.layout.tiling.axes = {axis_tiling(1, std::min(owners, rows), 1)};
    if (owners > rows) type.layout.tiling.axes.push_back(axis_tiling(0, owners / rows, rows));
    return type;
  }
  TensorType panel_type(std::uint32_t owners) const {
    TensorType type = row_type(owners);
    type.encoding = {Precision::F8, -4};
    type.layout.order.kind = Order::AmpLeft;
    type.layout.tiling.axes.push_back(axis_tiling(2, 1, 1, 32, Padding::Zero));
    return type;
  }
  TensorId add(TensorType type, Role role = Role::Activation) {
    draft.path = "op";
    return draft.add("t" + std::to_string(names++), std::move(type), role);
  }
  TensorId row(std::uint32_t owners) { return add(row_type(owners)); }
  TensorId input(std::uint32_t owners) {
    const TensorId id = add(row_type(owners), Role::Input);
    draft.plan.inputs.push_back(id);
    return id;
  }
  TensorId vector(std::uint32_t owners) {
    TensorType type{.shape = {1, 1, width}, .encoding = {}, .layout = {}};
    type.layout.tiling.tile_count = type.layout.tiling.replicas = owners;
    const TensorId id = add(type, Role::Input);
    draft.plan.inputs.push_back(id);
    return id;
  }
  void local(LocalKind kind, std::vector<TensorId> in, std::vector<TensorId> out) {
    draft.local({.kind = kind, .inputs = std::move(in), .outputs = std::move(out), .epsilon = 1e-6F});
  }
  TensorId norm(TensorId x, std::uint32_t owners) {
    const TensorId scale = vector(owners), bias = vector(owners), out = row(owners);
    local(LocalKind::LayerNorm, {x, scale, bias}, {out});
    return out;
  }
  TensorId cast(TensorId x, std::uint32_t owners) {
    const TensorId out = add(panel_type(owners), Role::Operand);
    local(LocalKind::Cast, {x}, {out});
    return out;
  }
  TensorId copy(TensorId x, std::uint32_t owners) {
    const TensorId out = row(owners);
    draft.copy(out, x);
    return out;
  }
  // Makes the first step the one that needs most bytes, so that a few bytes of statistics do not matter.
  void peak_first() {
    rows *= 8;
    const TensorId big = input(16);
    draft.copy(row(16), big);
    rows /= 8;
  }
  // The host reads the values.
  void output_rows(TensorId x, std::uint32_t owners = 16) {
    const TensorId out = add(row_type(owners), Role::Output);
    draft.copy(out, x);
    draft.plan.outputs.push_back(out);
  }
  void output_panels(TensorId panels, std::uint32_t owners = 4) {
    const TensorId moved = add(panel_type(owners), Role::Operand);
    draft.copy_panels(moved, panels);
    TensorType wide = draft.at(moved).type;
    wide.encoding = {};
    const TensorId halves = add(wide), rows16 = row(owners);
    local(LocalKind::Cast, {moved}, {halves});
    local(LocalKind::Reorder, {halves}, {rows16});
    output_rows(rows16, std::min(rows, 16U));
  }
};

std::vector<Values> results(const Plan& plan) {
  std::map<std::string, std::vector<float>> data;
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const Tensor& t : plan.tensors) {
    if (t.role != Role::Input) continue;
    std::vector<float>& values = data[t.name];
    random.seed(static_cast<unsigned>(t.name.size() * 131 + static_cast<unsigned char>(t.name.back())));
    values.resize(tensor::elements(t.type.shape));
    for (float& v : values) v = normal(random);
  }
  return run_exact(plan, [&](const std::string& name) -> const std::vector<float>& { return data.at(name); });
}

const std::vector<Step>& inner(const Plan& plan) {
  for (const Step& step : plan.steps) {
    if (const auto* repeat = std::get_if<Repeat>(&step.action)) return repeat->body;
  }
  return plan.steps;
}
std::size_t count(const Plan& plan, LocalKind kind) {
  std::size_t n = 0;
  for (const std::vector<Step>* list : {&plan.steps, &inner(plan)}) {
    for (const Step& step : *list) {
      const auto* local = std::get_if<Local>(&step.action);
      n += local != nullptr && local->kind == kind ? 1 : 0;
    }
    if (list == &inner(plan)) break;
  }
  return n;
}

// Fuses, and holds what must hold of every fused plan.
Plan fused(const Sketch& s) {
  const Plan& before = s.draft.plan;
  EXPECT_TRUE(verify(before).empty()) << verify(before).front();
  const Plan after = fuse(c600(), before);
  const std::vector<std::string> problems = verify(after);
  EXPECT_TRUE(problems.empty()) << problems.front();
  EXPECT_EQ(results(before), results(after));
  const Metrics was = estimate(c600(), before), is = estimate(c600(), after);
  EXPECT_LE(is.cycles, was.cycles);
  EXPECT_LE(is.total_bytes, was.total_bytes);
  return after;
}
std::uint32_t rewrites(const Plan& plan) {
  const Fusions& f = plan.fusions;
  return f.copies + f.early_casts + f.f8_outputs + f.add_norms + f.added_moments;
}

// A norm on 16 owners, its result copied to 8 and cast there.
void copied_cast(Sketch& s) {
  s.width = 256;
  const TensorId y = s.norm(s.input(16), 16), canonical = s.copy(y, 8);
  s.draft.checkpoint(canonical);
  s.output_panels(s.cast(canonical, 8), 16);
}

TEST(EarlyCast, GoesBeforeTheCopyAndReplacesIt) {
  Sketch s;
  copied_cast(s);
  const Plan after = fused(s);
  EXPECT_EQ(after.fusions.early_casts, 1U);
  EXPECT_EQ(after.steps.size() + 1, s.draft.plan.steps.size());
  EXPECT_LT(after.tensors.size(), s.draft.plan.tensors.size());  // the copy's tensor is gone
  const auto& norm = after.steps[0];
  EXPECT_EQ(std::get<Local>(norm.action).kind, LocalKind::LayerNorm);
  EXPECT_EQ(norm.checkpoint, std::get<Local>(norm.action).outputs[0]);  // completes the operation now
  const auto& cast = std::get<Local>(after.steps[1].action);
  EXPECT_EQ(cast.kind, LocalKind::Cast);
  EXPECT_EQ(after.at(cast.outputs[0]).type.layout.tiling.tile_count, 16U);
  EXPECT_NE(print(after).find("early casts=1"), std::string::npos);
}

// Both images' rows on one tile, as canonical tensors hold them; the operand on one tile would turn to 64
// sources in place of 32, which costs more than 16 cycles per byte of the table.
void two_images(Sketch& s, bool cast) {
  s.batch = 2;
  s.rows = 32;
  s.width = 256;
  const TensorId canonical = s.copy(s.norm(s.input(64), 64), 32);
  if (cast) {
    s.output_panels(s.cast(canonical, 32), 1);
  } else {
    s.output_rows(s.copy(canonical, 1), 1);
  }
}

TEST(EarlyCast, NotWhereTheTableWouldGrowTooMuch) {
  Sketch s;
  two_images(s, true);
  EXPECT_EQ(rewrites(fused(s)), 0U);
}

TEST(Copies, NotWhereTheTableWouldGrowTooMuch) {
  Sketch s;
  two_images(s, false);
  EXPECT_EQ(fused(s).fusions.copies, 1U);  // only the last copy of the same rows, to the host's tensor
}

// One image: a copy on the way from 16 to 4 owners.
Sketch& copied_twice(Sketch& s, bool shared, bool overwritten) {
  s.width = 256;
  const TensorId y = s.norm(s.input(16), 16), between = s.copy(y, 8);
  s.draft.checkpoint(between);
  const TensorId other = s.input(16);
  if (overwritten) s.local(LocalKind::Add, {other, other}, {y});
  const TensorId sum = s.row(4), moved = s.copy(between, 4);
  s.local(LocalKind::Add, {moved, moved}, {sum});
  if (shared) s.local(LocalKind::Gelu, {between}, {s.row(8)});
  s.output_rows(sum, 4);
  if (overwritten) s.output_rows(y);
  return s;
}

TEST(Copies, OfACopyComesFromItsSource) {
  Sketch s;
  const Plan after = fused(copied_twice(s, false, false));
  EXPECT_EQ(after.fusions.copies, 1U);
  EXPECT_EQ(after.steps.size() + 1, s.draft.plan.steps.size());
  EXPECT_TRUE(after.steps[0].checkpoint.valid());
  EXPECT_EQ(std::get<Copy>(after.steps[1].action).src, after.steps[0].checkpoint);
}

TEST(Copies, AnotherReaderOfTheCopy) {
  Sketch s;
  EXPECT_EQ(fused(copied_twice(s, true, false)).fusions.copies, 0U);
}

TEST(Copies, SourceOverwrittenBetween) {
  Sketch s;
  EXPECT_EQ(fused(copied_twice(s, false, true)).fusions.copies, 0U);
}

TEST(EarlyCast, AnotherReaderOfTheCopy) {
  Sketch s;
  s.width = 256;
  const TensorId canonical = s.copy(s.norm(s.input(16), 16), 8);
  s.output_panels(s.cast(canonical, 8), 16);
  s.output_rows(canonical);
  EXPECT_EQ(rewrites(fused(s)), 0U);
}

TEST(EarlyCast, WriteBetweenCopyAndCast) {
  Sketch s;
  s.width = 256;
  const TensorId canonical = s.copy(s.norm(s.input(16), 16), 8), other = s.input(8);
  s.local(LocalKind::Add, {other, other}, {canonical});
  s.output_panels(s.cast(canonical, 8), 16);
  EXPECT_EQ(rewrites(fused(s)), 0U);
}

TEST(EarlyCast, CopyThatMovesCoordinates) {
  Sketch s;
  s.rows = 16;
  s.width = 256;
  const TensorId y = s.norm(s.input(16), 16);
  s.rows = 8;
  const TensorId part = s.row(8);
  s.draft.copy(part, y, tensor::slice_map(3, 1, 4));
  s.output_panels(s.cast(part, 8), 8);
  EXPECT_EQ(rewrites(fused(s)), 0U);
}

TEST(EarlyCast, RepeatBetweenCopyAndCast) {
  Sketch s;
  s.width = 256;
  const TensorId canonical = s.copy(s.norm(s.input(16), 16), 8);
  Repeat repeat{.count = 2, .body = {}};
  s.draft.enter(&repeat.body);
  s.output_panels(s.cast(canonical, 8), 16);
  s.draft.leave();
  s.draft.step(std::move(repeat));
  EXPECT_EQ(rewrites(fused(s)), 0U);
}

TEST(EarlyCast, InsideARepeat) {
  Sketch s;
  s.width = 256;
  const TensorId x = s.input(16);
  Repeat repeat{.count = 3, .body = {}};
  s.draft.enter(&repeat.body);
  s.output_panels(s.cast(s.copy(s.norm(x, 16), 8), 8), 16);
  s.draft.leave();
  s.draft.step(std::move(repeat));
  EXPECT_EQ(fused(s).fusions.early_casts, 1U);
}

// The copy spreads the rows for the cast: 11 + 10 cycles per element on one tile against one row on each
// of 16.
TEST(EarlyCast, NotCheaper) {
  Sketch s;
  s.width = 66;
  const TensorId y = s.norm(s.input(1), 1);
  s.output_panels(s.cast(s.copy(y, 16), 16));
  EXPECT_EQ(rewrites(fused(s)), 0U);
}

// x -> kernel -> cast on the same owners.
void cast_of(Sketch& s, LocalKind kind, std::uint32_t owners, std::uint32_t width) {
  s.width = width;
  const TensorId x = s.input(owners);
  TensorId y = s.row(owners);
  if (kind == LocalKind::LayerNorm) {
    s.local(kind, {x, s.vector(owners), s.vector(owners)}, {y});
  } else if (kind == LocalKind::BiasGelu) {
    s.local(kind, {x, s.vector(owners)}, {y});
  } else {
    s.local(kind, {x}, {y});
  }
  s.draft.checkpoint(y);
  s.output_panels(s.cast(y, owners));
}
std::uint32_t rewrites_of_cast(LocalKind kind, std::uint32_t owners, std::uint32_t width) {
  Sketch s;
  cast_of(s, kind, owners, width);
  return rewrites(fused(s));
}

// Widths at which the formulas of compiler.md 5.4 favour the fused kernel, worked in docs/costs.md.
TEST(F8Output, ProducerWritesThePanels) {
  const std::tuple<LocalKind, std::uint32_t, std::uint32_t> cases[] = {
      {LocalKind::Gelu, 16, 192},     {LocalKind::Gelu, 16, 180},    {LocalKind::LayerNorm, 16, 32},
      {LocalKind::LayerNorm, 16, 44}, {LocalKind::BiasGelu, 8, 160}, {LocalKind::BiasGelu, 8, 148}};
  for (const auto& [kind, owners, width] : cases) {
    Sketch s;
    cast_of(s, kind, owners, width);
    const Plan after = fused(s);
    EXPECT_EQ(after.fusions.f8_outputs, 1U) << name_of(kind) << width;
    EXPECT_EQ(after.steps.size() + 1, s.draft.plan.steps.size());
    const auto& producer = std::get<Local>(after.steps[0].action);
    EXPECT_EQ(producer.kind, kind);
    EXPECT_EQ(after.at(producer.outputs[0]).type.encoding.precision, Precision::F8);
    EXPECT_EQ(after.steps[0].checkpoint, producer.outputs[0]);
  }
}

TEST(F8Output, NotCheaper) {
  EXPECT_EQ(rewrites_of_cast(LocalKind::LayerNorm, 16, 1152), 0U);
  EXPECT_EQ(rewrites_of_cast(LocalKind::BiasGelu, 8, 4304), 0U);
  EXPECT_EQ(rewrites_of_cast(LocalKind::Gelu, 4, 192), 0U);  // four rows of 192
}

TEST(F8Output, WidthWithoutKernel) { EXPECT_EQ(rewrites_of_cast(LocalKind::Gelu, 16, 190), 0U); }

TEST(F8Output, AnotherReader) {
  Sketch s;
  cast_of(s, LocalKind::Gelu, 16, 192);
  s.output_rows(std::get<Local>(s.draft.plan.steps[0].action).outputs[0]);
  EXPECT_EQ(rewrites(fused(s)), 0U);
}

TEST(F8Output, WriteBetween) {
  Sketch s;
  s.width = 192;
  const TensorId x = s.input(16), y = s.row(16), z = s.row(16);
  s.local(LocalKind::Gelu, {x}, {y});
  s.draft.copy(z, y);
  s.local(LocalKind::Add, {z, z}, {y});  // overwrites what the cast reads
  s.output_panels(s.cast(y, 16));
  const Plan after = fused(s);
  EXPECT_EQ(after.fusions.f8_outputs, 0U);
}

TEST(F8Output, RepeatBetween) {
  Sketch s;
  s.width = 192;
  const TensorId x = s.input(16), y = s.row(16);
  s.local(LocalKind::Gelu, {x}, {y});
  Repeat repeat{.count = 2, .body = {}};
  s.draft.enter(&repeat.body);
  s.output_panels(s.cast(y, 16));
  s.draft.leave();
  s.draft.step(std::move(repeat));
  EXPECT_EQ(rewrites(fused(s)), 0U);
}

// The next iteration reads the GELU's result before it is made anew.
TEST(F8Output, ValueLivesIntoTheNextIteration) {
  Sketch s;
  s.width = 192;
  const TensorId x = s.input(16), y = s.row(16);
  s.draft.copy(y, x);
  Repeat repeat{.count = 2, .body = {}};
  s.draft.enter(&repeat.body);
  s.output_rows(y);
  s.local(LocalKind::Gelu, {x}, {y});
  s.output_panels(s.cast(y, 16));
  s.draft.leave();
  s.draft.step(std::move(repeat));
  EXPECT_EQ(fused(s).fusions.f8_outputs, 0U);
}

// a + b on one row per tile, then the norm of the sum.
struct Summed {
  Sketch s;
  TensorId a, b, sum;
  explicit Summed(std::uint32_t width, bool in_place = false) {
    s.width = width;
    s.peak_first();
    a = s.copy(s.input(16), 16);
    b = s.input(16);
    sum = in_place ? s.draft.share("sum", a) : s.row(16);
    s.local(LocalKind::Add, {a, b}, {sum});
    s.draft.checkpoint(sum);
  }
};

TEST(AddNorm, DeadSum) {
  for (const bool in_place : {false, true}) {
    Summed t(32, in_place);
    t.s.output_rows(t.s.norm(t.sum, 16));
    const Plan after = fused(t.s);
    EXPECT_EQ(after.fusions.add_norms, 1U);
    EXPECT_EQ(count(after, LocalKind::Add), 0U);
    EXPECT_EQ(count(after, LocalKind::AddLayerNorm), 1U);
  }
}

// 132 + 2760 + 4098 + 1386 = 8376 against 1368 + 6735 = 8103 cycles for a row of 1152.
TEST(AddNorm, NotCheaper) {
  Summed t(1152);
  t.s.output_rows(t.s.norm(t.sum, 16));
  EXPECT_EQ(rewrites(fused(t.s)), 0U);
}

TEST(AddNorm, WriteToASourceBetween) {
  Summed t(32);
  t.s.local(LocalKind::Add, {t.b, t.b}, {t.a});
  t.s.output_rows(t.s.norm(t.sum, 16));
  t.s.output_rows(t.a);
  EXPECT_EQ(rewrites(fused(t.s)), 0U);
}

TEST(AddNorm, OtherGeometry) {  // a bias, repeated for every row
  Sketch s;
  s.rows = 32;
  const TensorId x = s.input(16), sum = s.row(16);
  s.local(LocalKind::Add, {x, s.vector(16)}, {sum});
  s.output_rows(s.norm(sum, 16));
  EXPECT_EQ(rewrites(fused(s)), 0U);
}

TEST(AddMoments, LiveSum) {
  for (const bool in_place : {false, true}) {
    Summed t(2304, in_place);
    t.s.output_rows(t.s.norm(t.sum, 16));
    t.s.output_rows(t.sum);
    const Plan after = fused(t.s);
    EXPECT_EQ(after.fusions.added_moments, 1U);
    EXPECT_EQ(count(after, LocalKind::AddMoments), 1U);
    EXPECT_EQ(count(after, LocalKind::Apply), 1U);
    EXPECT_EQ(count(after, LocalKind::LayerNorm), 0U);
  }
}

// 504 + 18 * 2 + ... against the fixed cost of two kernels: only wide rows gain.
TEST(AddMoments, NotCheaper) {
  Summed t(32);
  t.s.output_rows(t.s.norm(t.sum, 16));
  t.s.output_rows(t.sum);
  EXPECT_EQ(rewrites(fused(t.s)), 0U);
}

TEST(AddMoments, SumCarriedIntoTheNextIteration) {
  for (const std::uint32_t width : {32U, 2304U}) {
    Sketch s;
    s.width = width;
    s.peak_first();
    const TensorId x = s.copy(s.input(16), 16), b = s.input(16), sum = s.draft.share("sum", x);
    Repeat repeat{.count = 3, .body = {}};
    s.draft.enter(&repeat.body);
    s.local(LocalKind::Add, {x, b}, {sum});
    s.output_rows(s.norm(sum, 16));
    s.draft.leave();
    s.draft.step(std::move(repeat));
    const Plan after = fused(s);
    EXPECT_EQ(after.fusions.add_norms, 0U);
    EXPECT_EQ(after.fusions.added_moments, width == 2304 ? 1U : 0U);
  }
}

TEST(AddMoments, SumOverwrittenBeforeTheNorm) {
  Summed t(2304);
  t.s.output_rows(t.sum);
  t.s.draft.copy(t.sum, t.b);
  t.s.output_rows(t.s.norm(t.sum, 16));
  EXPECT_EQ(rewrites(fused(t.s)), 0U);
}

// Statistics of column parts on the tiles that hold them: the moments come with the sum.
TEST(AddMoments, ColumnParts) {
  Sketch s;
  s.rows = 4;
  s.width = 64;
  s.peak_first();
  const std::uint32_t parts = 4;
  TensorType type = s.row_type(1);
  type.layout.tiling.tile_count = 16;
  type.layout.tiling.axes = {axis_tiling(2, parts, 1), axis_tiling(1, 4, parts)};
  TensorType vector{.shape = {1, 1, s.width}, .encoding = {}, .layout = {}};
  vector.layout.tiling.tile_count = 16;
  vector.layout.tiling.replicas = 4;
  vector.layout.tiling.axes = {axis_tiling(2, parts, 1)};
  TensorType statistics{.shape = {parts, 1, 4, 2}, .encoding = {Precision::F32, 0}, .layout = {}};
  statistics.layout.tiling.tile_count = 16;
  TensorType gathered = statistics;
  statistics.layout.tiling.axes = {axis_tiling(0, parts, 1), axis_tiling(2, 4, parts)};
  gathered.layout.tiling.replicas = parts;
  gathered.layout.tiling.axes = {axis_tiling(2, 4, parts)};
  const TensorId a = s.add(type, Role::Input), b = s.add(type, Role::Input),
                 scale = s.add(vector, Role::Input), bias = s.add(vector, Role::Input), sum = s.add(type),
                 own = s.add(statistics), all = s.add(gathered), out = s.add(type);
  for (const TensorId id : {a, b, scale, bias}) s.draft.plan.inputs.push_back(id);
  s.local(LocalKind::Add, {a, b}, {sum});
  s.local(LocalKind::Moments, {sum}, {own});
  s.draft.copy(all, own);
  s.local(LocalKind::Apply, {sum, all, scale, bias}, {out});
  s.output_rows(out, 4);
  const Plan after = fused(s);
  EXPECT_EQ(after.fusions.added_moments, 1U);
  EXPECT_EQ(count(after, LocalKind::Moments), 0U);
  EXPECT_EQ(count(after, LocalKind::AddMoments), 1U);
}

// A model: what fusing leaves is a plan of the same outputs; its norms feed products that cast early.
TEST(Fuse, EncoderOfFewTiles) {
  const plan_test::VitShape shape{
      .batch = 2, .tokens = 12, .patch = 40, .width = 64, .hidden = 128, .heads = 2, .layers = 2};
  Progress quiet;
  const Plan plan =
      build(c600(), plan_test::Vit(shape).build(), {.tiles = 24, .policy = Policy::Capacity}, quiet);
  EXPECT_TRUE(verify(plan).empty());
  EXPECT_EQ(fuse(c600(), plan).steps.size(), plan.steps.size());  // nothing is left to do
}

}  // namespace
}  // namespace tw::plan
