// Resize and Upsample: one pass per axis, with the weights of the axis worked out once.
#include <algorithm>
#include <cmath>

#include "onnx/call.h"

namespace tw::onnx {

namespace {

// For one element of the result: sources and their weights; no sources: the extrapolation value.
struct Taps {
  std::vector<std::int64_t> at;
  std::vector<double> weights;
};
struct Axis {
  std::int64_t in = 1, out = 1;
  double scale = 1, begin = 0, end = 1;  // begin, end: the region of tf_crop_and_resize
};

struct Modes {
  std::string mode, coordinates, nearest;
  double cubic = -0.75;
  bool excludes_outside = false;
};

double source_of(const Call& call, const Modes& m, const Axis& a, std::int64_t i) {
  const auto x = static_cast<double>(i), in = static_cast<double>(a.in), out = static_cast<double>(a.out);
  if (m.coordinates == "half_pixel") return (x + 0.5) / a.scale - 0.5;
  if (m.coordinates == "pytorch_half_pixel") return a.out > 1 ? (x + 0.5) / a.scale - 0.5 : 0.0;
  if (m.coordinates == "tf_half_pixel_for_nn") return (x + 0.5) / a.scale;
  if (m.coordinates == "align_corners") return a.out > 1 ? x * (in - 1) / (out - 1) : 0.0;
  if (m.coordinates == "asymmetric") return x / a.scale;
  if (m.coordinates == "tf_crop_and_resize") {
    if (a.out == 1) return 0.5 * (a.begin + a.end) * (in - 1);
    return a.begin * (in - 1) + x * (a.end - a.begin) * (in - 1) / (out - 1);
  }
  call.refuse("coordinate_transformation_mode '" + m.coordinates + "' is not supported");
}

double nearest_of(const Call& call, const Modes& m, double x) {
  if (m.nearest == "round_prefer_floor") return std::ceil(x - 0.5);
  if (m.nearest == "round_prefer_ceil") return std::floor(x + 0.5);
  if (m.nearest == "floor") return std::floor(x);
  if (m.nearest == "ceil") return std::ceil(x);
  call.refuse("nearest_mode '" + m.nearest + "' is not supported");
}

// Keys' kernel with the parameter a, four taps around x.
double cubic_weight(double a, double distance) {
  const double d = std::fabs(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

Taps taps_of(const Call& call, const Modes& m, const Axis& a, std::int64_t i) {
  double x = source_of(call, m, a, i);
  call.require(std::isfinite(x), "a scale that is not finite");
  const bool crops = m.coordinates == "tf_crop_and_resize";
  if (crops && (x < 0 || x > static_cast<double>(a.in - 1))) return {};
  x = std::clamp(x, -4.0, static_cast<double>(a.in) + 4.0);
  const auto clamp = [&](std::int64_t v) { return std::clamp<std::int64_t>(v, 0, a.in - 1); };
  if (m.mode == "nearest") return {{clamp(static_cast<std::int64_t>(nearest_of(call, m, x)))}, {1.0}};
  Taps taps;
  if (m.mode == "linear") {
    const auto low = static_cast<std::int64_t>(std::floor(x));
    const double part = x - static_cast<double>(low);
    return {{clamp(low), clamp(low + 1)}, {1 - part, part}};
  }
  const auto low = static_cast<std::int64_t>(std::floor(x));
  double sum = 0;
  for (std::int64_t k = low - 1; k <= low + 2; ++k) {
    const bool outside = k < 0 || k >= a.in;
    taps.at.push_back(clamp(k));
    taps.weights.push_back(outside && m.excludes_outside ? 0.0
                                                         : cubic_weight(m.cubic, x - static_cast<double>(k)));
    sum += taps.weights.back();
  }
  for (double& w : taps.weights) w /= sum;
  return taps;
}

Tensor resize_axis(const Call& call, const Tensor& x, std::size_t axis, const std::vector<Taps>& taps,
                   float outside) {
  Dims dims = x.dims;
  dims[axis] = static_cast<std::int64_t>(taps.size());
  Tensor out = call.make(x.element, dims);
  const Around from = around(x.dims, axis), to = around(dims, axis);
  ranges(to.outer, to.extent * to.inner * 4, call.limits.threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      for (std::int64_t i = 0; i < to.extent; ++i) {
        const Taps& t = taps[static_cast<std::size_t>(i)];
        float* target = out.floats.data() + (o * to.extent + i) * to.inner;
        for (std::int64_t p = 0; p < to.inner; ++p) {
          double sum = t.at.empty() ? outside : 0;
          for (std::size_t k = 0; k < t.at.size(); ++k)
            sum += t.weights[k] *
                   x.floats[static_cast<std::size_t>((o * from.extent + t.at[k]) * from.inner + p)];
          target[p] = static_cast<float>(sum);
        }
      }
    }
  });
  return out;
}

// Extents of the result and scale per axis, from `scales` or `sizes`.
void set_scales(const Call& call, const Tensor* scales, const Tensor* sizes,
                const std::vector<std::size_t>& axes, std::vector<Axis>& all) {
  const bool by_size = sizes != nullptr && sizes->size() > 0;
  call.require(by_size || (scales != nullptr && scales->size() > 0), "neither scales nor sizes");
  const Tensor& given = by_size ? *sizes : *scales;
  call.require(by_size ? is_integer(given.element) : is_floating(given.element),
               "scales or sizes of a wrong type");
  call.require(given.size() == static_cast<std::int64_t>(axes.size()), "not one scale or size per axis");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    Axis& a = all[axes[i]];
    if (by_size) {
      a.out = given.ints[i];
      call.require(a.out >= 0 && a.out <= call.limits.elements, "a size out of range");
      a.scale = a.in == 0 ? 1 : static_cast<double>(a.out) / static_cast<double>(a.in);
    } else {
      a.scale = given.floats[i];
      const double extent = std::floor(static_cast<double>(a.in) * a.scale);
      call.require(a.scale > 0 && extent <= static_cast<double>(call.limits.elements),
                   "a scale out of range");
      a.out = static_cast<std::int64_t>(extent);
    }
  }
}

Tensor resize_with(const Call& call, const Modes& m, std::vector<Axis>& all, float outside) {
  Tensor x = call.floats(0);
  call.require(m.mode == "nearest" || m.mode == "linear" || m.mode == "cubic", "mode is unknown");
  Dims dims;
  for (const Axis& a : all) dims.push_back(a.out);
  Tensor out = call.make(x.element, dims);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Axis& a = all[i];
    if (a.in == a.out && a.scale == 1 && m.coordinates != "tf_crop_and_resize") continue;
    call.require(a.in > 0 || a.out == 0, "an axis without elements");
    std::vector<Taps> taps;
    for (std::int64_t k = 0; k < a.out; ++k) taps.push_back(taps_of(call, m, a, k));
    x = resize_axis(call, x, i, taps, outside);
  }
  return x;
}

Results resize(const Call& call) {
  const Tensor& x = call.floats(0);
  const bool has_roi = call.opset >= 11;
  const Modes m{call.attribute("mode", "nearest"),
                has_roi ? call.attribute("coordinate_transformation_mode", "half_pixel") : "asymmetric",
                has_roi ? call.attribute("nearest_mode", "round_prefer_floor") : "floor",
                call.attribute("cubic_coeff_a", -0.75F),
                call.attribute("exclude_outside", std::int64_t{0}) != 0};
  call.support(call.attribute("antialias", std::int64_t{0}) == 0, "antialias is not supported");
  call.support(call.attribute("keep_aspect_ratio_policy", "stretch") == "stretch",
               "keep_aspect_ratio_policy is not supported");
  std::vector<std::size_t> axes;
  if (const auto* list = call.list("axes")) {
    for (const std::int64_t a : *list) axes.push_back(call.axis(a, x.dims.size()));
  } else {
    for (std::size_t i = 0; i < x.dims.size(); ++i) axes.push_back(i);
  }
  std::vector<Axis> all(x.dims.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i].in = all[i].out = x.dims[i];
  const auto given = [&](std::size_t i) { return call.has(i) ? &call.input(i) : nullptr; };
  set_scales(call, given(has_roi ? 2 : 1), has_roi ? given(3) : nullptr, axes, all);
  if (m.coordinates == "tf_crop_and_resize") {
    const Tensor& roi = call.floats(1);
    call.require(roi.floats.size() == 2 * axes.size(), "roi has not two entries per axis");
    for (std::size_t i = 0; i < axes.size(); ++i) {
      all[axes[i]].begin = roi.floats[i];
      all[axes[i]].end = roi.floats[axes.size() + i];
    }
  }
  return one(resize_with(call, m, all, call.attribute("extrapolation_value", 0.0F)));
}

Results upsample(const Call& call) {
  const Tensor& x = call.floats(0);
  const Modes m{call.attribute("mode", "nearest"), "asymmetric", "floor", -0.75, false};
  std::vector<Axis> all(x.dims.size());
  std::vector<std::size_t> axes;
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].in = all[i].out = x.dims[i];
    axes.push_back(i);
  }
  Tensor scales = call.has(1) ? call.input(1) : Tensor{};
  if (const auto* list = call.node.attribute<std::vector<float>>("scales"); !call.has(1) && list != nullptr)
    scales.floats = *list;
  set_scales(call, &scales, nullptr, axes, all);
  return one(resize_with(call, m, all, 0));
}

constexpr Operator kOperators[] = {
    {"Resize", resize},
    {"Upsample", upsample},
};

}  // namespace

std::span<const Operator> resize_operators() { return kOperators; }

}  // namespace tw::onnx
