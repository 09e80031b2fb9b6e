// Shapes that users report (users.md 4.3) and the kinds of its section 7: every row equals the exact
// interpreter bit for bit and FP32 up to the precision, or is refused for a reason that is true.
#include <fmt/core.h>

#include <cstdlib>
#include <optional>
#include <random>

#include "base/error.h"
#include "encoder.h"

namespace tw::device_test {
namespace {

using plan::Attention;
using plan::Policy;
using tensor::Precision;

constexpr Precision kF8 = Precision::F8, kF16 = Precision::F16;

struct Refusal {
  ErrorKind kind;
  std::string text;  // a piece of the message
};
struct Row {
  std::string name;
  Extents e = {};
  std::uint32_t tiles = 56;
  Precision precision = kF16;
  Policy policy = Policy::Default;
  Attention attention = Attention::Auto;
  std::optional<Refusal> refused = {};
};

std::string text_of(const Row& r) {
  const char* const attention[] = {"auto", "streaming", "materialized"};
  const char* const activation[] = {"tanh GELU", "erf GELU", "quick GELU", "ReLU"};
  const char* const pool[] = {"none", "mean", "class", "attention"};
  return fmt::format(
      "{:<34} | {:>2} | {:>4} | {:>4} | {:>2} x {:<3} | {:>4} | {:>1} | {:<10} | {:<9} | {:>4} | "
      "{:<3} | {:<8} | {:<12}",
      r.name, r.e.batch, r.e.tokens, r.e.width, r.e.heads, r.e.head_width, r.e.hidden, r.e.layers,
      activation[static_cast<int>(r.e.activation)], pool[static_cast<int>(r.e.pool)], r.tiles,
      r.precision == kF8 ? "F8" : "F16", r.policy == Policy::Default ? "default" : "capacity",
      attention[static_cast<int>(r.attention)]);
}

void print(const Row& row, const std::string& verdict) { fmt::print("| {} | {} |\n", text_of(row), verdict); }

Outcome outcome_of(const Row& row) {
  Case c{.graph = Encoder(row.e).build()};
  c.data = trained_like(c.graph);
  c.options.plan.tiles = row.tiles;
  c.options.plan.precision = row.precision;
  c.options.plan.policy = row.policy;
  c.options.plan.attention = row.attention;
  return run(std::move(c));
}

// The weights alone, at their precision and without padding, exceed the memory of all tiles.
void expect_too_large(const Row& row, const Error& error) {
  std::uint64_t bytes = 0;
  for (const graph::Value& v : Encoder(row.e).build().values)
    if (v.kind == graph::ValueKind::Parameter && v.name.ends_with(".weight"))
      bytes += tensor::elements(v.shape) * (row.precision == kF8 ? 1 : 2);
  EXPECT_GT(bytes, std::uint64_t{638976} * row.tiles);
  ASSERT_TRUE(error.capacity);
  EXPECT_GT(error.capacity->needed_bytes, error.capacity->available_bytes);
  for (const Suggestion& s : error.capacity->suggestions)  // a batch of one has no half
    EXPECT_TRUE(row.e.batch > 1 || s.change.find("batch") == std::string::npos) << s.change;
}

void check(const Row& row) {
  SCOPED_TRACE(row.name);
  try {
    const Outcome out = outcome_of(row);
    print(row, fmt::format("{}, cosine {:.6f}", out.bits ? "equal bits" : "OTHER BITS", out.cosine));
    EXPECT_FALSE(row.refused) << "fits, though a refusal was expected";
    EXPECT_TRUE(out.bits);
    EXPECT_GT(out.cosine, row.precision == kF8 ? 0.99 : 0.999);
  } catch (const Error& error) {
    const std::string what = error.what();
    print(row, fmt::format("refused ({}): {}", kind_name(error.kind), what.substr(0, what.find('\n'))));
    if (!row.refused) {
      ADD_FAILURE() << kind_name(error.kind) << ": " << error.what();
      return;
    }
    EXPECT_EQ(kind_name(error.kind), std::string(kind_name(row.refused->kind)));
    if (error.kind == ErrorKind::Capacity) expect_too_large(row, error);
    EXPECT_NE(std::string(error.what()).find(row.refused->text), std::string::npos) << error.what();
  } catch (const InternalError& error) {
    print(row, fmt::format("INTERNAL: {}", error.what()));
    ADD_FAILURE() << error.what();
  }
}

void check_all(const std::vector<Row>& rows) {
  for (const Row& row : rows) check(row);
}

// More streams (batch x heads) than tiles: each stream needs a tile of its own.
Refusal too_many_streams(const Extents& e, std::uint32_t tiles) {
  EXPECT_GT(e.batch * e.heads, tiles);
  return {
      ErrorKind::UnsupportedOp,
      fmt::format("attention has {} streams (batch x heads), more than {} tiles", e.batch * e.heads, tiles)};
}

TEST(Shapes, Reported) {
  const Extents l36{.tokens = 64, .width = 320, .heads = 8, .head_width = 40, .hidden = 256};
  check_all({
      {.name = "L36 heads 8 of 40", .e = l36, .tiles = 64},
      {.name = "L36 heads 8 of 40, F8", .e = l36, .tiles = 64, .precision = kF8},
      {.name = "L36 heads 8 of 40, streaming", .e = l36, .tiles = 64, .attention = Attention::Streaming},
      {.name = "L38 head width 24", .e = {.tokens = 33, .width = 96, .heads = 4, .head_width = 24}},
      {.name = "L38 head width 24, F8",
       .e = {.tokens = 33, .width = 96, .heads = 4, .head_width = 24, .pool = Pool::Attention},
       .precision = kF8},
      {.name = "L38 head width 72", .e = {.tokens = 33, .width = 144, .heads = 2, .head_width = 72}},
      {.name = "L38 head width 88", .e = {.tokens = 33, .width = 176, .heads = 2, .head_width = 88}},
      {.name = "L38 head width 88, F8",
       .e = {.tokens = 33, .width = 176, .heads = 2, .head_width = 88},
       .precision = kF8},
      {.name = "L40 batch 16 on 56",
       .e = {.batch = 16, .tokens = 8, .width = 32, .heads = 2, .head_width = 16}},
      {.name = "L40 batch 16 on 57",
       .e = {.batch = 16, .tokens = 8, .width = 32, .heads = 2, .head_width = 16},
       .tiles = 57},
      {.name = "L40 batch 16, 4 heads on 56",
       .e = {.batch = 16, .tokens = 8, .width = 32, .heads = 4, .head_width = 8},
       .refused = too_many_streams({.batch = 16, .heads = 4}, 56)},
      {.name = "L44 head width 72, F8",
       .e = {.tokens = 49, .width = 144, .heads = 2, .head_width = 72, .pool = Pool::Attention},
       .precision = kF8},
      {.name = "L49 erf GELU",
       .e = {.tokens = 17, .activation = Activation::ErfGelu, .pool = Pool::ClassToken}},
      {.name = "L49 quick GELU",
       .e = {.tokens = 17, .activation = Activation::QuickGelu, .pool = Pool::ClassToken}},
  });
}

TEST(Shapes, ReportedTokens) {
  const Extents l45{.tokens = 729, .width = 64, .heads = 1, .head_width = 72, .hidden = 96};
  check_all({
      {.name = "L45 729 tokens", .e = l45, .tiles = 64},
      {.name = "L45 729 tokens, F8", .e = l45, .tiles = 64, .precision = kF8},
      {.name = "L45 729 tokens, materialized",
       .e = l45,
       .tiles = 64,
       .precision = kF8,
       .attention = Attention::Materialized},
      {.name = "577 tokens, streaming",
       .e = {.tokens = 577, .width = 64, .heads = 2, .head_width = 32, .pool = Pool::ClassToken},
       .tiles = 64,
       .attention = Attention::Streaming},
  });
}

TEST(Shapes, VisionTransformerBase) {
  const Extents base{.tokens = 197,
                     .patch = 96,
                     .width = 768,
                     .heads = 12,
                     .head_width = 64,
                     .hidden = 96,
                     .activation = Activation::ErfGelu,
                     .pool = Pool::ClassToken};
  check_all({{.name = "ViT-B, 197 tokens, F8", .e = base, .tiles = 1472, .precision = kF8},
             {.name = "ViT-B, 197 tokens, capacity", .e = base, .tiles = 1471, .policy = Policy::Capacity}});
}

TEST(Shapes, Ones) {
  check_all({
      {.name = "one token", .e = {.tokens = 1}},
      {.name = "one token, F8, class", .e = {.tokens = 1, .pool = Pool::ClassToken}, .precision = kF8},
      {.name = "one token, materialized", .e = {.tokens = 1}, .attention = Attention::Materialized},
      {.name = "one token, attention pool", .e = {.tokens = 1, .pool = Pool::Attention}},
      {.name = "one head", .e = {.heads = 1, .head_width = 64}},
      {.name = "head width 1", .e = {.heads = 4, .head_width = 1}},
      {.name = "one head of width 1", .e = {.heads = 1, .head_width = 1}},
      {.name = "head width 1, F8", .e = {.heads = 6, .head_width = 1}, .precision = kF8},
      {.name = "MLP 1", .e = {.hidden = 1}},
      {.name = "patch 1", .e = {.patch = 1}},
      {.name = "width 2", .e = {.width = 2, .heads = 2, .head_width = 2, .hidden = 5}},
      {.name = "everything 1",
       .e = {.tokens = 1, .patch = 1, .width = 1, .heads = 1, .head_width = 1, .hidden = 1},
       .tiles = 1},
  });
}

TEST(Shapes, OddHeads) {
  check_all({
      {.name = "head width 3", .e = {.heads = 5, .head_width = 3}},
      {.name = "head width 3, streaming",
       .e = {.heads = 2, .head_width = 3},
       .attention = Attention::Streaming},
      {.name = "head width 3, materialized",
       .e = {.heads = 3, .head_width = 3},
       .attention = Attention::Materialized},
      {.name = "head width 17", .e = {.heads = 2, .head_width = 17}},
      {.name = "head width 17, F8", .e = {.heads = 3, .head_width = 17}, .precision = kF8},
      {.name = "head width 17, pool", .e = {.heads = 3, .head_width = 17, .pool = Pool::Attention}},
      {.name = "head width 17, capacity", .e = {.heads = 3, .head_width = 17}, .policy = Policy::Capacity},
      {.name = "head width 33, batch 3", .e = {.batch = 3, .heads = 3, .head_width = 33}},
      {.name = "7 heads of 9, 2 layers", .e = {.heads = 7, .head_width = 9, .layers = 2}},
  });
}

TEST(Shapes, OddWidths) {
  check_all({
      {.name = "width 37", .e = {.width = 37, .heads = 1, .head_width = 37, .hidden = 74}},
      {.name = "width 37, F8",
       .e = {.width = 37, .heads = 1, .head_width = 37, .hidden = 74},
       .precision = kF8},
      {.name = "width 37, class", .e = {.width = 37, .pool = Pool::ClassToken}},
      {.name = "width 37, attention pool", .e = {.width = 37, .pool = Pool::Attention}},
      {.name = "width 99", .e = {.width = 99, .heads = 3, .head_width = 33, .hidden = 64}},
      {.name = "width 99, batch 5, 3 layers",
       .e = {.batch = 5, .tokens = 9, .width = 99, .heads = 3, .head_width = 33, .hidden = 64, .layers = 3}},
      {.name = "width 97 x 3", .e = {.width = 291, .heads = 3, .head_width = 97, .hidden = 128}},
      {.name = "width 97 x 3, F8, capacity",
       .e = {.width = 291, .heads = 3, .head_width = 97, .hidden = 128, .pool = Pool::ClassToken},
       .precision = kF8,
       .policy = Policy::Capacity},
      {.name = "patch 147 (7 x 7 x 3)", .e = {.patch = 147}},
      {.name = "all odd",
       .e = {.batch = 3,
             .tokens = 7,
             .patch = 27,
             .width = 45,
             .heads = 3,
             .head_width = 15,
             .hidden = 77,
             .activation = Activation::ErfGelu}},
      {.name = "all odd, F8, quick GELU",
       .e = {.batch = 3,
             .tokens = 7,
             .patch = 27,
             .width = 45,
             .heads = 3,
             .head_width = 15,
             .hidden = 77,
             .activation = Activation::QuickGelu,
             .pool = Pool::Attention},
       .precision = kF8},
  });
}

TEST(Shapes, PrimesAndNeighboursOfBlocks) {
  std::vector<Row> rows{
      {.name = "MLP 127", .e = {.hidden = 127}},
      {.name = "MLP 257, F8", .e = {.hidden = 257}, .precision = kF8},
      {.name = "MLP 131, ReLU", .e = {.hidden = 131, .activation = Activation::Relu}},
      {.name = "tokens 61, width 106", .e = {.tokens = 61, .width = 106, .heads = 2, .head_width = 53}},
  };
  for (const std::uint32_t block : {16U, 32U, 64U})
    for (const std::uint32_t extent : {block - 1, block + 1}) {
      rows.push_back({.name = fmt::format("width, tokens, MLP {}", extent),
                      .e = {.tokens = extent,
                            .patch = extent,
                            .width = extent,
                            .heads = 1,
                            .head_width = extent,
                            .hidden = extent}});
      rows.push_back({.name = fmt::format("tokens {}, F8", extent),
                      .e = {.tokens = extent, .hidden = 2 * extent},
                      .precision = kF8,
                      .policy = extent % 4 == 1 ? Policy::Capacity : Policy::Default,
                      .attention = extent % 4 == 1 ? Attention::Streaming : Attention::Materialized});
    }
  check_all(rows);
}

TEST(Shapes, Tiles) {
  std::vector<Row> rows;
  for (const std::uint32_t tiles : {1U, 2U, 3U, 7U, 24U, 57U, 64U}) {
    const Extents e{.tokens = 21, .heads = 1, .head_width = 20, .pool = Pool::ClassToken};
    rows.push_back({.name = fmt::format("{} tiles", tiles), .e = e, .tiles = tiles});
    rows.push_back({.name = fmt::format("{} tiles, F8, capacity", tiles),
                    .e = e,
                    .tiles = tiles,
                    .precision = kF8,
                    .policy = Policy::Capacity});
  }
  rows.push_back(
      {.name = "3 tiles, tokens 100", .e = {.tokens = 100, .heads = 3, .head_width = 8}, .tiles = 3});
  rows.push_back({.name = "2 tiles, 3 heads",
                  .e = {.tokens = 5, .heads = 3, .head_width = 8},
                  .tiles = 2,
                  .refused = too_many_streams({.heads = 3}, 2)});
  check_all(rows);
}

TEST(Shapes, AllTiles) {
  const Extents e{.tokens = 50, .width = 96, .heads = 3, .head_width = 32, .pool = Pool::Attention};
  check_all({{.name = "1471 tiles", .e = e, .tiles = 1471},
             {.name = "1472 tiles, F8", .e = e, .tiles = 1472, .precision = kF8},
             {.name = "1472 tiles, odd width",
              .e = {.tokens = 10, .width = 33, .heads = 3, .head_width = 11},
              .tiles = 1472}});
}

TEST(Shapes, Batches) {
  std::vector<Row> rows;
  for (const std::uint32_t batch : {2U, 3U, 4U, 5U, 7U, 8U, 9U, 11U, 13U, 15U, 16U})
    rows.push_back({.name = fmt::format("batch {}", batch),
                    .e = {.batch = batch,
                          .tokens = 10,
                          .width = 40,
                          .heads = 3,
                          .head_width = 10,
                          .hidden = 48,
                          .pool = batch % 2 == 1 ? Pool::Mean : Pool::Attention},
                    .precision = batch % 3 == 0 ? kF8 : kF16,
                    .policy = batch % 4 == 0 ? Policy::Capacity : Policy::Default});
  check_all(rows);
}

TEST(Shapes, TooLarge) {
  const Extents wide{.tokens = 4, .width = 512, .heads = 1, .head_width = 64, .hidden = 2048};
  check_all(
      {{.name = "2 M weights on a tile", .e = wide, .tiles = 1, .refused = {{ErrorKind::Capacity, "bytes"}}},
       {.name = "2 M weights on 3 tiles, F8",
        .e = wide,
        .tiles = 3,
        .precision = kF8,
        .policy = Policy::Capacity,
        .refused = {{ErrorKind::Capacity, "bytes"}}},
       {.name = "2 M weights on 24 tiles", .e = wide, .tiles = 24}});
}

// Any combination: extents drawn from the kinds of users.md 7. TILEWRIGHT_SHAPES=N draws N instead.
Row drawn(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto one_of = [&](std::initializer_list<std::uint32_t> of) {
    return of.begin()[random() % of.size()];
  };
  const auto extent = [&] {
    return one_of(
        {1, 2, 3, 5, 7, 8, 13, 15, 16, 17, 24, 31, 32, 33, 37, 40, 48, 53, 63, 64, 65, 97, 99, 127, 129});
  };
  Row r{.name = fmt::format("drawn {}", seed)};
  r.e.batch = one_of({1, 1, 1, 2, 3, 4, 5, 8, 16});
  r.e.tokens = extent();
  r.e.patch = extent();
  r.e.width = std::max(extent(), 13U);
  r.e.heads = one_of({1, 1, 2, 3, 4, 5, 6});
  r.e.head_width = one_of({1, 3, 4, 5, 8, 9, 16, 17, 24, 31, 33, 40, 72});
  r.e.hidden = extent();
  r.e.layers = one_of({1, 1, 2, 3});
  r.e.activation = static_cast<Activation>(random() % 4);
  r.e.pool = static_cast<Pool>(random() % 4);
  r.tiles = one_of({1, 2, 3, 7, 16, 24, 56, 57, 64, 100});
  r.precision = random() % 2 == 0 ? kF16 : kF8;
  if (r.e.heads * r.e.head_width < 13) r.precision = kF16;  // else one rounding of F8 decides the cosine
  r.policy = random() % 2 == 0 ? Policy::Default : Policy::Capacity;
  r.attention = static_cast<Attention>(random() % 3);
  if (r.e.batch * r.e.heads > r.tiles) r.refused = too_many_streams(r.e, r.tiles);
  return r;
}

TEST(Shapes, Drawn) {
  const char* const count = std::getenv("TILEWRIGHT_SHAPES");
  const std::uint32_t rows =
      count != nullptr ? static_cast<std::uint32_t>(std::strtoul(count, nullptr, 10)) : 24;
  for (std::uint32_t seed = 1; seed <= rows; ++seed) check(drawn(seed));
}

}  // namespace
}  // namespace tw::device_test
