#include <gtest/gtest.h>

#include "base/error.h"
#include "support.h"

namespace tw::plan {
namespace {

using namespace test;

TEST(Copy, FollowsItsMap) {
  Maker m;
  const TensorId x = m.input("x", {2, 5, 12});
  const TensorId sliced = m.output({2, 5, 6}), split = m.output({6, 5, 4}), merged = m.output({2, 5, 12});
  m.step(Copy{sliced, x, tensor::slice_map(3, 2, 3)});
  m.step(Copy{split, x, tensor::split_heads_map(3, 4)});
  m.step(Copy{merged, split, tensor::merge_heads_map(3, 4)});
  const auto actual = m.run();
  const Values& in = m.data["x"];
  for (std::size_t b = 0; b < 2; ++b)
    for (std::size_t r = 0; r < 5; ++r) {
      for (std::size_t c = 0; c < 6; ++c)
        EXPECT_EQ(actual[0][(b * 5 + r) * 6 + c], in[(b * 5 + r) * 12 + 3 + c]);
      for (std::size_t c = 0; c < 12; ++c)
        EXPECT_EQ(actual[1][((b * 3 + c / 4) * 5 + r) * 4 + c % 4], in[(b * 5 + r) * 12 + c]);
    }
  EXPECT_EQ(actual[2], in);
}

TEST(Copy, RejectsMapsThatLeaveTheSource) {
  Maker m;
  const TensorId x = m.input("x", {2, 4});
  m.step(Copy{m.output({2, 4}), x, tensor::slice_map(2, 1, 1)});
  EXPECT_THROW(m.run(), InternalError);
}

// acc <- acc + member, in place, three times; the Repeat reads one member per iteration.
TEST(Repeat, RunsInPlaceWithOneMemberPerIteration) {
  Maker m;
  const TensorId x = m.input("x", {1, 2});
  m.data["x"] = {1, 2};
  const TensorId carried = m.add("carried", {1, 2}, Role::Carried);
  const TensorId member = m.add("bias", {1, 2}, Role::Parameter);
  m.plan.tensors[member.value].members = {"b0", "b1", "b2"};
  m.data["b0"] = {10, 20}, m.data["b1"] = {100, 200}, m.data["b2"] = {1000, 2000};
  const TensorId sum = m.add("sum", {1, 2}, Role::Activation);
  m.plan.tensors[sum.value].storage = carried;
  m.step(Copy{carried, x, tensor::identity_map(2)});
  Local add;
  add.kind = LocalKind::Add;
  add.inputs = {carried, member};
  add.outputs = {sum};
  Repeat repeat;
  repeat.count = 3;
  repeat.body.push_back({add, "loop.add", sum});
  m.step(std::move(repeat), "loop");
  m.plan.outputs = {carried};
  std::vector<std::string> seen;
  ExactOptions options;
  options.checkpoint = [&](const std::string& path, std::uint32_t i, TensorId id, const Values& values) {
    seen.push_back(fmt::format("{} {} {} {}", path, i, m.plan.at(id).name, values[0]));
  };
  const auto out =
      run_exact(m.plan, [&](const std::string& n) -> const Values& { return m.data.at(n); }, options);
  EXPECT_EQ(out[0], (Values{1111, 2222}));
  EXPECT_EQ(seen,
            (std::vector<std::string>{"loop.add 0 sum 11", "loop.add 1 sum 111", "loop.add 2 sum 1111"}));
}

TEST(Inputs, AreEncodedToTheirFormat) {
  Maker m;
  const TensorId x = m.input("x", {1, 3}, 1.0F, {}, {Precision::F8, -4}), y = m.input("y", {1, 2});
  m.data["x"] = {0.1F, 15.5F, 1};
  m.data["y"] = {0.1F, 2049};
  m.plan.outputs = {x, y};
  const auto out = m.run();
  EXPECT_EQ(out[0], (Values{0.1015625F, 15, 1}));  // models.md A.1.4
  EXPECT_EQ(out[1], (Values{numeric::f16_to_f32(0x2e66), 2048}));
  m.data["y"] = {70000, 0};
  EXPECT_THROW(m.run(), Error);
  m.data["y"] = {1};
  EXPECT_THROW(m.run(), Error);
}

}  // namespace
}  // namespace tw::plan
