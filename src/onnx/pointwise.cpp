// Operators of one element each: functions, arithmetic, casts.
#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/call.h"

namespace tw::onnx {

namespace {

template <typename F>
Results map_floats(const Call& call, const Tensor& x, F f) {
  Tensor out = call.make(x.element, x.dims);
  ranges(out.size(), 8, call.limits.threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) out.floats[i] = f(x.floats[i]);
  });
  return one(std::move(out));
}

template <typename F>
Results map_ints(const Call& call, const Tensor& x, F f) {
  Tensor out = call.make(x.element, x.dims);
  for (std::size_t i = 0; i < x.ints.size(); ++i) out.ints[i] = wrap(x.element, f(x.ints[i]));
  return one(std::move(out));
}

// Two's complement without overflow.
std::int64_t negate(std::int64_t v) { return static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(v)); }

template <float (*F)(float)>
Results function(const Call& call) {
  return map_floats(call, call.floats(0), F);
}

template <float (*F)(float), std::int64_t (*I)(std::int64_t)>
Results function(const Call& call) {
  const Tensor& x = call.input(0);
  return is_floating(x.element) ? map_floats(call, x, F) : map_ints(call, call.ints(0), I);
}

float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }
float reciprocal(float x) { return 1.0F / x; }
float relu(float x) { return x < 0 ? 0.0F : x; }
float softplus(float x) { return std::max(x, 0.0F) + std::log1p(std::exp(-std::fabs(x))); }
float softsign(float x) { return x / (1.0F + std::fabs(x)); }
float sign(float x) { return x > 0 ? 1.0F : x < 0 ? -1.0F : x; }
float hard_swish(float x) { return x * std::clamp(x / 6.0F + 0.5F, 0.0F, 1.0F); }
float round_even(float x) { return std::nearbyint(x); }
float absolute(float x) { return std::fabs(x); }
float negative(float x) { return -x; }
float square_root(float x) { return std::sqrt(x); }
float exponential(float x) { return std::exp(x); }
float logarithm(float x) { return std::log(x); }
float error_function(float x) { return std::erf(x); }
float tangent_h(float x) { return std::tanh(x); }
float sine(float x) { return std::sin(x); }
float cosine(float x) { return std::cos(x); }
float tangent(float x) { return std::tan(x); }
float arc_tangent(float x) { return std::atan(x); }
float floor_of(float x) { return std::floor(x); }
float ceil_of(float x) { return std::ceil(x); }
std::int64_t int_relu(std::int64_t v) { return std::max<std::int64_t>(v, 0); }
std::int64_t int_absolute(std::int64_t v) { return v < 0 ? negate(v) : v; }
std::int64_t int_sign(std::int64_t v) { return (v > 0) - (v < 0); }

Results leaky_relu(const Call& call) {
  const float alpha = call.attribute("alpha", 0.01F);
  return map_floats(call, call.floats(0), [=](float x) { return x < 0 ? alpha * x : x; });
}

Results elu(const Call& call) {
  const float alpha = call.attribute("alpha", 1.0F);
  return map_floats(call, call.floats(0), [=](float x) { return x < 0 ? alpha * std::expm1(x) : x; });
}

Results selu(const Call& call) {
  const float alpha = call.attribute("alpha", 1.67326319217681884765625F);
  const float gamma = call.attribute("gamma", 1.05070102214813232421875F);
  return map_floats(call, call.floats(0),
                    [=](float x) { return gamma * (x > 0 ? x : alpha * std::expm1(x)); });
}

Results celu(const Call& call) {
  const float alpha = call.attribute("alpha", 1.0F);
  return map_floats(call, call.floats(0), [=](float x) {
    return std::max(x, 0.0F) + std::min(0.0F, alpha * std::expm1(x / alpha));
  });
}

Results thresholded_relu(const Call& call) {
  const float alpha = call.attribute("alpha", 1.0F);
  return map_floats(call, call.floats(0), [=](float x) { return x > alpha ? x : 0.0F; });
}

Results hard_sigmoid(const Call& call) {
  const float alpha = call.attribute("alpha", 0.2F), beta = call.attribute("beta", 0.5F);
  return map_floats(call, call.floats(0), [=](float x) { return std::clamp(alpha * x + beta, 0.0F, 1.0F); });
}

Results clip(const Call& call) {
  const Tensor& x = call.input(0);
  for (std::size_t i = 1; i < 3; ++i)
    call.require(!call.has(i) || call.input(i).element == x.element, "a bound of another type");
  if (!is_floating(x.element)) {
    std::int64_t low = std::numeric_limits<std::int64_t>::min(),
                 high = std::numeric_limits<std::int64_t>::max();
    if (call.has(1)) scalar(call, call.input(1)), low = call.input(1).ints[0];
    if (call.has(2)) scalar(call, call.input(2)), high = call.input(2).ints[0];
    return map_ints(call, call.ints(0), [=](std::int64_t v) { return std::min(std::max(v, low), high); });
  }
  float low = call.attribute("min", std::numeric_limits<float>::lowest());
  float high = call.attribute("max", std::numeric_limits<float>::max());
  if (call.has(1)) low = static_cast<float>(scalar(call, call.input(1)));
  if (call.has(2)) high = static_cast<float>(scalar(call, call.input(2)));
  return map_floats(call, x, [=](float v) { return v < low ? std::min(low, high) : v > high ? high : v; });
}

template <typename T, typename F>
void zip(const Broadcast& b, const std::vector<T>& x, const std::vector<T>& y, std::vector<T>& out,
         unsigned threads, F f) {
  const std::int64_t sx = b.strides[0].back(), sy = b.strides[1].back();
  each_row(b, threads, [&](std::int64_t first, std::int64_t n, const std::int64_t* offsets) {
    const T *px = x.data() + offsets[0], *py = y.data() + offsets[1];
    T* po = out.data() + first;
    if (sx == 1 && sy == 1) {
      for (std::int64_t i = 0; i < n; ++i) po[i] = f(px[i], py[i]);
    } else if (sx == 1 && sy == 0) {
      const T v = *py;
      for (std::int64_t i = 0; i < n; ++i) po[i] = f(px[i], v);
    } else {
      for (std::int64_t i = 0; i < n; ++i) po[i] = f(px[i * sx], py[i * sy]);
    }
  });
}

// F: an operation with () for floats and for integers of a type.
template <typename F>
Tensor arithmetic(const Call& call, const Tensor& x, const Tensor& y, F f) {
  if (call.node.attribute<std::int64_t>("broadcast") != nullptr && call.opset < 7)
    call.refuse("broadcasting as before opset 7 is not supported");
  if (x.element != y.element) call.fail("types " + name_of(x.element) + " and " + name_of(y.element));
  const Dims* shapes[] = {&x.dims, &y.dims};
  const Broadcast b = broadcast(call, shapes);
  Tensor out = call.make(x.element, b.dims);
  if (is_floating(x.element)) {
    zip(b, x.floats, y.floats, out.floats, call.limits.threads, [&](float a, float c) { return f(a, c); });
  } else {
    const Element e = x.element;
    zip(b, x.ints, y.ints, out.ints, call.limits.threads,
        [&, e](std::int64_t a, std::int64_t c) { return wrap(e, f(e, a, c)); });
  }
  return out;
}

std::uint64_t u(std::int64_t v) { return static_cast<std::uint64_t>(v); }
std::int64_t s(std::uint64_t v) { return static_cast<std::int64_t>(v); }

struct Add {
  float operator()(float a, float b) const { return a + b; }
  std::int64_t operator()(Element, std::int64_t a, std::int64_t b) const { return s(u(a) + u(b)); }
};
struct Sub {
  float operator()(float a, float b) const { return a - b; }
  std::int64_t operator()(Element, std::int64_t a, std::int64_t b) const { return s(u(a) - u(b)); }
};
struct Mul {
  float operator()(float a, float b) const { return a * b; }
  std::int64_t operator()(Element, std::int64_t a, std::int64_t b) const { return s(u(a) * u(b)); }
};
struct Div {
  const Call* call;
  float operator()(float a, float b) const { return a / b; }
  std::int64_t operator()(Element e, std::int64_t a, std::int64_t b) const {
    if (b == 0) call->fail("division of an integer by 0");
    if (e == Element::UInt64) return s(u(a) / u(b));
    return b == -1 ? negate(a) : a / b;
  }
};
struct Max {
  float operator()(float a, float b) const { return a > b || std::isnan(a) ? a : b; }
  std::int64_t operator()(Element e, std::int64_t a, std::int64_t b) const {
    return e == Element::UInt64 ? s(std::max(u(a), u(b))) : std::max(a, b);
  }
};
struct Min {
  float operator()(float a, float b) const { return a < b || std::isnan(a) ? a : b; }
  std::int64_t operator()(Element e, std::int64_t a, std::int64_t b) const {
    return e == Element::UInt64 ? s(std::min(u(a), u(b))) : std::min(a, b);
  }
};
struct Modulo {  // of the divisor's sign as in Python, with fmod of the dividend's
  const Call* call;
  bool fmod;
  float operator()(float a, float b) const {
    if (!fmod) call->fail("of floating numbers needs fmod=1");
    return std::fmod(a, b);
  }
  std::int64_t operator()(Element e, std::int64_t a, std::int64_t b) const {
    if (b == 0) call->fail("division of an integer by 0");
    if (e == Element::UInt64) return s(u(a) % u(b));
    if (b == -1) return 0;
    const std::int64_t rest = a % b;
    return !fmod && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
};

template <typename F>
Results binary(const Call& call) {
  return one(arithmetic(call, call.input(0), call.input(1), F{}));
}
Results divide(const Call& call) { return one(arithmetic(call, call.input(0), call.input(1), Div{&call})); }
Results modulo(const Call& call) {
  return one(arithmetic(call, call.input(0), call.input(1),
                        Modulo{&call, call.attribute("fmod", std::int64_t{0}) != 0}));
}

template <typename F>
Tensor fold(const Call& call) {
  Tensor out = call.input(0);
  for (std::size_t i = 1; i < call.count(); ++i) out = arithmetic(call, out, call.input(i), F{});
  return out;
}
template <typename F>
Results variadic(const Call& call) {
  return one(fold<F>(call));
}
Results mean(const Call& call) {
  call.floats(0);
  Tensor out = fold<Add>(call);
  for (float& v : out.floats) v /= static_cast<float>(call.count());
  return one(std::move(out));
}

std::int64_t int_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return truncate(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  std::uint64_t result = 1, factor = u(base);
  for (auto e = u(exponent); e != 0; e >>= 1) {
    if ((e & 1) != 0) result *= factor;
    factor *= factor;
  }
  return s(result);
}

// The result has the type of the base.
struct Power {
  float operator()(float a, float b) const { return b == 2.0F ? a * a : std::pow(a, b); }
  std::int64_t operator()(Element, std::int64_t a, std::int64_t b) const { return int_power(a, b); }
};

Tensor converted(const Call& call, const Tensor& x, Element to) {
  Tensor out = call.make(to, x.dims);
  for (std::int64_t i = 0; i < x.size(); ++i) {
    if (is_floating(to)) {
      out.floats[i] = round_to(to, is_floating(x.element)         ? x.floats[i]
                                   : x.element == Element::UInt64 ? static_cast<float>(u(x.ints[i]))
                                                                  : static_cast<float>(x.ints[i]));
    } else if (!is_floating(x.element)) {
      out.ints[i] = wrap(to, x.ints[i]);
    } else if (to == Element::Bool) {
      out.ints[i] = x.floats[i] != 0;
    } else if (to == Element::UInt64 && x.floats[i] >= 0x1p63F) {
      out.ints[i] = s(x.floats[i] < 0x1p64F ? static_cast<std::uint64_t>(x.floats[i]) : ~std::uint64_t{0});
    } else {
      out.ints[i] = wrap(to, truncate(x.floats[i]));
    }
  }
  return out;
}

Results power(const Call& call) {
  const Tensor &x = call.input(0), &y = call.input(1);
  if (x.element == y.element) return one(arithmetic(call, x, y, Power{}));
  if (is_integer(x.element) && is_integer(y.element)) {
    Tensor exponent = y;
    exponent.element = x.element;
    return one(arithmetic(call, x, exponent, Power{}));
  }
  const Tensor base = converted(call, x, Element::Float), exponent = converted(call, y, Element::Float);
  return one(converted(call, arithmetic(call, base, exponent, Power{}), x.element));
}

Results cast_to(const Call& call, Element to) {
  const Tensor& x = call.input(0);
  if (bytes_of(to) == 0 || (is_floating(to) && bytes_of(to) == 1))
    call.refuse("to " + name_of(to) + " is not supported");
  return one(converted(call, x, to));
}
Results cast(const Call& call) {
  const std::int64_t to = call.attribute("to", std::int64_t{0});
  return cast_to(call, to < 0 || to > 255 ? Element::Undefined : static_cast<Element>(to));
}
Results cast_like(const Call& call) { return cast_to(call, call.input(1).element); }

Results prelu(const Call& call) {
  const Tensor &x = call.floats(0), &slope = call.floats(1);
  Tensor view = slope;
  if (call.opset < 7 && slope.dims.size() == 1 && x.dims.size() > 2)
    view.dims.resize(x.dims.size() - 1, 1);  // per channel
  const Tensor full = expand(call, view, x.dims);
  Tensor out = call.make(x.element, x.dims);
  for (std::size_t i = 0; i < out.floats.size(); ++i)
    out.floats[i] = x.floats[i] < 0 ? full.floats[i] * x.floats[i] : x.floats[i];
  return one(std::move(out));
}

constexpr Operator kOperators[] = {
    {"Abs", function<absolute, int_absolute>},
    {"Neg", function<negative, negate>},
    {"Relu", function<relu, int_relu>},
    {"Sign", function<sign, int_sign>},
    {"Sqrt", function<square_root>},
    {"Reciprocal", function<reciprocal>},
    {"Exp", function<exponential>},
    {"Log", function<logarithm>},
    {"Erf", function<error_function>},
    {"Tanh", function<tangent_h>},
    {"Sigmoid", function<sigmoid>},
    {"Softplus", function<softplus>},
    {"Softsign", function<softsign>},
    {"HardSwish", function<hard_swish>},
    {"Sin", function<sine>},
    {"Cos", function<cosine>},
    {"Tan", function<tangent>},
    {"Atan", function<arc_tangent>},
    {"Floor", function<floor_of>},
    {"Ceil", function<ceil_of>},
    {"Round", function<round_even>},
    {"LeakyRelu", leaky_relu},
    {"Elu", elu},
    {"Selu", selu},
    {"Celu", celu},
    {"ThresholdedRelu", thresholded_relu},
    {"PRelu", prelu},
    {"HardSigmoid", hard_sigmoid},
    {"Clip", clip},
    {"Add", binary<Add>},
    {"Sub", binary<Sub>},
    {"Mul", binary<Mul>},
    {"Div", divide},
    {"Mod", modulo},
    {"Pow", power},
    {"Max", variadic<Max>},
    {"Min", variadic<Min>},
    {"Sum", variadic<Add>},
    {"Mean", mean},
    {"Cast", cast},
    {"CastLike", cast_like},
};

}  // namespace

std::span<const Operator> pointwise_operators() { return kOperators; }

}  // namespace tw::onnx
