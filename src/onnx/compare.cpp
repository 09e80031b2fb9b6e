// Comparisons, logic and choice.
#include <cmath>

#include "onnx/call.h"

namespace tw::onnx {

namespace {

template <typename F>
Results compare(const Call& call) {
  const Tensor &x = call.input(0), &y = call.input(1);
  call.require(x.element == y.element, "inputs of two types");
  const Dims* shapes[] = {&x.dims, &y.dims};
  const Broadcast b = broadcast(call, shapes);
  Tensor out = call.make(Element::Bool, b.dims);
  const std::int64_t sx = b.strides[0].back(), sy = b.strides[1].back();
  each_row(b, call.limits.threads, [&](std::int64_t first, std::int64_t n, const std::int64_t* at) {
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t ix = at[0] + i * sx, iy = at[1] + i * sy;
      if (is_floating(x.element)) {
        out.ints[first + i] = F{}(x.floats[ix], y.floats[iy]);
      } else if (x.element == Element::UInt64) {
        out.ints[first + i] =
            F{}(static_cast<std::uint64_t>(x.ints[ix]), static_cast<std::uint64_t>(y.ints[iy]));
      } else {
        out.ints[first + i] = F{}(x.ints[ix], y.ints[iy]);
      }
    }
  });
  return one(std::move(out));
}

struct LogicalXor {
  template <typename T>
  bool operator()(T a, T b) const {
    return (a != 0) != (b != 0);
  }
};

template <typename F>
Results logic(const Call& call) {
  for (std::size_t i = 0; i < 2; ++i)
    call.require(call.input(i).element == Element::Bool, "an input is not BOOL");
  return compare<F>(call);
}

Results logical_not(const Call& call) {
  Tensor out = call.input(0);
  call.require(out.element == Element::Bool, "the input is not BOOL");
  for (std::int64_t& v : out.ints) v = v == 0;
  return one(std::move(out));
}

template <typename F>
Results classify(const Call& call, F f) {
  const Tensor& x = call.floats(0);
  Tensor out = call.make(Element::Bool, x.dims);
  for (std::size_t i = 0; i < x.floats.size(); ++i) out.ints[i] = f(x.floats[i]);
  return one(std::move(out));
}
Results is_nan(const Call& call) {
  return classify(call, [](float x) { return std::isnan(x); });
}
Results is_inf(const Call& call) {
  const bool up = call.attribute("detect_positive", std::int64_t{1}) != 0;
  const bool down = call.attribute("detect_negative", std::int64_t{1}) != 0;
  return classify(call, [=](float x) { return std::isinf(x) && (x > 0 ? up : down); });
}

Results where(const Call& call) {
  const Tensor &condition = call.input(0), &x = call.input(1), &y = call.input(2);
  call.require(condition.element == Element::Bool, "the condition is not BOOL");
  call.require(x.element == y.element, "inputs of two types");
  const Dims* shapes[] = {&condition.dims, &x.dims, &y.dims};
  const Broadcast b = broadcast(call, shapes);
  Tensor out = call.make(x.element, b.dims);
  const auto choose = [&](const auto& vx, const auto& vy, auto& values) {
    each_row(b, call.limits.threads, [&](std::int64_t first, std::int64_t n, const std::int64_t* at) {
      for (std::int64_t i = 0; i < n; ++i)
        values[first + i] = condition.ints[at[0] + i * b.strides[0].back()] != 0
                                ? vx[at[1] + i * b.strides[1].back()]
                                : vy[at[2] + i * b.strides[2].back()];
    });
  };
  is_floating(x.element) ? choose(x.floats, y.floats, out.floats) : choose(x.ints, y.ints, out.ints);
  return one(std::move(out));
}

constexpr Operator kOperators[] = {
    {"Equal", compare<std::equal_to<>>},
    {"Less", compare<std::less<>>},
    {"LessOrEqual", compare<std::less_equal<>>},
    {"Greater", compare<std::greater<>>},
    {"GreaterOrEqual", compare<std::greater_equal<>>},
    {"And", logic<std::logical_and<>>},
    {"Or", logic<std::logical_or<>>},
    {"Xor", logic<LogicalXor>},
    {"Not", logical_not},
    {"IsNaN", is_nan},
    {"IsInf", is_inf},
    {"Where", where},
};

}  // namespace

std::span<const Operator> compare_operators() { return kOperators; }

}  // namespace tw::onnx
