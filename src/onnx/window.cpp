// Operators that move a window over spatial axes: convolution and pooling of [N, C, spatial...].
#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/call.h"
#include "ref/blas.h"

namespace tw::onnx {

namespace {

struct Window {
  Dims in, kernel, stride, dilation, before, after, out;
  std::int64_t positions = 1, taps = 1;  // products of out and of kernel
};

constexpr std::int64_t kMost = std::int64_t{1} << 31;  // of a kernel extent, stride, dilation, pad

Dims per_axis(const Call& call, const char* key, std::size_t axes, std::int64_t otherwise,
              std::int64_t least) {
  const auto* list = call.list(key);
  if (list == nullptr) return Dims(axes, otherwise);
  if (list->size() != axes) call.fail(std::string(key) + " has not one entry per spatial axis");
  for (const std::int64_t v : *list)
    if (v < least || v > kMost) call.fail(std::string(key) + " is out of range");
  return *list;
}

void set_pads(const Call& call, Window& w) {
  const std::size_t axes = w.in.size();
  const std::string mode = call.attribute("auto_pad", "NOTSET");
  w.before.assign(axes, 0);
  w.after.assign(axes, 0);
  if (mode == "VALID") return;
  if (mode == "NOTSET" || mode.empty()) {
    const auto* pads = call.list("pads");
    if (pads == nullptr) return;
    call.require(pads->size() == 2 * axes, "pads has not two entries per spatial axis");
    for (std::size_t i = 0; i < axes; ++i) {
      w.before[i] = (*pads)[i];
      w.after[i] = (*pads)[axes + i];
      call.require(w.before[i] >= 0 && w.after[i] >= 0 && w.before[i] < kMost && w.after[i] < kMost,
                   "pads out of range");
    }
    return;
  }
  call.require(mode == "SAME_UPPER" || mode == "SAME_LOWER", "auto_pad is unknown");
  for (std::size_t i = 0; i < axes; ++i) {
    const std::int64_t out = (w.in[i] + w.stride[i] - 1) / w.stride[i],
                       reach = (w.kernel[i] - 1) * w.dilation[i] + 1;
    const std::int64_t total = std::max<std::int64_t>(0, (out - 1) * w.stride[i] + reach - w.in[i]);
    w.before[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    w.after[i] = total - w.before[i];
  }
}

// x: [N, C, spatial...].
Window window_of(const Call& call, const Tensor& x, Dims kernel, bool ceil) {
  call.require(x.dims.size() >= 3, "an input without spatial axes");
  Window w;
  w.in.assign(x.dims.begin() + 2, x.dims.end());
  const std::size_t axes = w.in.size();
  call.require(kernel.size() == axes, "a kernel that has not one extent per spatial axis");
  for (const std::int64_t k : kernel) call.require(k >= 1 && k <= kMost, "a kernel extent out of range");
  w.kernel = std::move(kernel);
  w.stride = per_axis(call, "strides", axes, 1, 1);
  w.dilation = per_axis(call, "dilations", axes, 1, 1);
  set_pads(call, w);
  for (std::size_t i = 0; i < axes; ++i) {
    const std::int64_t room = w.in[i] + w.before[i] + w.after[i] - ((w.kernel[i] - 1) * w.dilation[i] + 1);
    call.require(room >= 0, "a kernel that is larger than its padded input");
    std::int64_t out = (room + (ceil ? w.stride[i] - 1 : 0)) / w.stride[i] + 1;
    if (ceil && (out - 1) * w.stride[i] >= w.in[i] + w.before[i]) --out;  // a window must begin inside
    w.out.push_back(out);
  }
  w.positions = call.size_of(w.out);
  w.taps = call.size_of(w.kernel);
  return w;
}

// Where the window of a position begins on every axis; may be in the padding.
void origin(const Window& w, std::int64_t position, std::vector<std::int64_t>& at) {
  for (std::size_t a = w.out.size(); a-- > 0;) {
    at[a] = position % w.out[a] * w.stride[a] - w.before[a];
    position /= w.out[a];
  }
}

// fn(tap, offset) for every tap of the window at `at` inside the input; offset: from the first element of the
// channel.
template <typename F>
void each_tap(const Window& w, const std::vector<std::int64_t>& at, F fn) {
  const std::size_t last = w.in.size() - 1;
  const std::int64_t rows = w.taps / w.kernel[last];
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int64_t rest = r, offset = 0, stride = w.in[last];
    bool inside = true;
    for (std::size_t a = last; a-- > 0 && inside;) {
      const std::int64_t c = at[a] + rest % w.kernel[a] * w.dilation[a];
      rest /= w.kernel[a];
      inside = c >= 0 && c < w.in[a];
      offset += c * stride;
      stride *= w.in[a];
    }
    if (!inside) continue;
    for (std::int64_t k = 0; k < w.kernel[last]; ++k) {
      const std::int64_t c = at[last] + k * w.dilation[last];
      if (c >= 0 && c < w.in[last]) fn(r * w.kernel[last] + k, offset + c);
    }
  }
}

struct Convolution {
  Window w;
  std::int64_t channels = 0, filters = 0;  // of one group
  std::int64_t pixels = 0;                 // of one input channel
};

// One group of one image: y[filters, positions] from x[channels, pixels], k[filters, channels, taps].
void convolve_columns(const Convolution& c, const float* x, const float* k, float* y, unsigned threads) {
  const std::int64_t depth = c.channels * c.w.taps;
  constexpr std::int64_t kFloats = 1 << 22;  // of the columns held at once
  const std::int64_t chunk =
      std::clamp<std::int64_t>(kFloats / std::max<std::int64_t>(1, depth), 1, c.w.positions);
  std::vector<float> columns(static_cast<std::size_t>(chunk * depth)),
      result(static_cast<std::size_t>(chunk * c.filters));
  for (std::int64_t first = 0; first < c.w.positions; first += chunk) {
    const std::int64_t n = std::min(chunk, c.w.positions - first);
    std::fill(columns.begin(), columns.end(), 0.0F);
    ranges(n, depth, threads, [&](std::int64_t begin, std::int64_t end) {
      std::vector<std::int64_t> at(c.w.in.size());
      for (std::int64_t p = begin; p < end; ++p) {
        origin(c.w, first + p, at);
        float* row = columns.data() + p * depth;
        each_tap(c.w, at, [&](std::int64_t tap, std::int64_t offset) {
          for (std::int64_t ch = 0; ch < c.channels; ++ch)
            row[ch * c.w.taps + tap] = x[ch * c.pixels + offset];
        });
      }
    });
    ref::sgemm(columns.data(), k, result.data(), static_cast<std::size_t>(n),
               static_cast<std::size_t>(c.filters), static_cast<std::size_t>(depth), true);
    for (std::int64_t p = 0; p < n; ++p)
      for (std::int64_t f = 0; f < c.filters; ++f)
        y[f * c.w.positions + first + p] = result[static_cast<std::size_t>(p * c.filters + f)];
  }
}

// The same without columns, for groups too narrow for a product.
void convolve_direct(const Convolution& c, const float* x, const float* k, float* y, unsigned threads) {
  ranges(
      c.w.positions, c.channels * c.w.taps * c.filters, threads, [&](std::int64_t begin, std::int64_t end) {
        std::vector<std::int64_t> at(c.w.in.size());
        for (std::int64_t p = begin; p < end; ++p) {
          origin(c.w, p, at);
          for (std::int64_t f = 0; f < c.filters; ++f) {
            float sum = 0;
            for (std::int64_t ch = 0; ch < c.channels; ++ch) {
              const float *xs = x + ch * c.pixels, *ks = k + (f * c.channels + ch) * c.w.taps;
              each_tap(c.w, at, [&](std::int64_t tap, std::int64_t offset) { sum += xs[offset] * ks[tap]; });
            }
            y[f * c.w.positions + p] = sum;
          }
        }
      });
}

Results conv(const Call& call) {
  const Tensor &x = call.floats(0), &k = call.floats(1);
  call.require(x.dims.size() >= 3 && k.dims.size() == x.dims.size(), "input and filters of different ranks");
  const Dims kernel(k.dims.begin() + 2, k.dims.end());
  if (const auto* shape = call.list("kernel_shape"))
    call.require(*shape == kernel, "kernel_shape is not the shape of the filters");
  const std::int64_t groups = call.attribute("group", std::int64_t{1});
  call.require(groups >= 1 && x.dims[1] % groups == 0 && k.dims[0] % groups == 0,
               "channels that groups do not divide");
  call.require(k.dims[1] == x.dims[1] / groups, "filters of another number of channels");
  Convolution c{window_of(call, x, kernel, false), x.dims[1] / groups, k.dims[0] / groups, 1};
  for (const std::int64_t e : c.w.in) c.pixels *= e;
  Dims dims{x.dims[0], k.dims[0]};
  dims.insert(dims.end(), c.w.out.begin(), c.w.out.end());
  Tensor out = call.make(x.element, dims);
  const bool wanted = call.work(static_cast<double>(out.size()) * static_cast<double>(k.dims[1]) *
                                static_cast<double>(c.w.taps));
  const std::int64_t depth = c.channels * c.w.taps;
  call.require(std::max({c.filters, depth, c.w.positions}) < kMost, "a convolution that is too large");
  if (call.has(2))
    call.require(call.floats(2).dims == Dims{k.dims[0]}, "a bias that is not one value per filter");
  if (out.size() == 0 || !wanted) return one(std::move(out));
  ref::set_blas_threads(call.limits.threads);
  for (std::int64_t i = 0; i < x.dims[0] * groups && depth > 0; ++i) {
    const std::int64_t g = i % groups;
    const float* in = x.floats.data() + i * c.channels * c.pixels;
    const float* filters = k.floats.data() + g * c.filters * depth;
    float* y = out.floats.data() + i * c.filters * c.w.positions;
    (c.filters < 4 ? convolve_direct : convolve_columns)(c, in, filters, y, call.limits.threads);
  }
  if (call.has(2)) {
    const Tensor& bias = call.floats(2);
    for (std::int64_t i = 0; i < out.size(); ++i)
      out.floats[static_cast<std::size_t>(i)] +=
          bias.floats[static_cast<std::size_t>(i / c.w.positions % k.dims[0])];
  }
  return one(std::move(out));
}

Window pool_window(const Call& call, const Tensor& x, Tensor& out) {
  const auto* kernel = call.list("kernel_shape");
  call.require(kernel != nullptr, "no kernel_shape");
  Window w = window_of(call, x, *kernel, call.attribute("ceil_mode", std::int64_t{0}) != 0);
  Dims dims{x.dims[0], x.dims[1]};
  dims.insert(dims.end(), w.out.begin(), w.out.end());
  out = call.make(x.element, dims);
  call.work(static_cast<double>(out.size()) * static_cast<double>(w.taps));
  return w;
}

// fn(channel, position, at): every window of every channel of every image.
template <typename F>
void each_window(const Window& w, std::int64_t channels, unsigned threads, F fn) {
  ranges(channels, w.positions * w.taps, threads, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> at(w.in.size());
    for (std::int64_t c = begin; c < end; ++c) {
      for (std::int64_t p = 0; p < w.positions; ++p) {
        origin(w, p, at);
        fn(c, p, at);
      }
    }
  });
}

std::int64_t pixels_of(const Window& w) {
  std::int64_t n = 1;
  for (const std::int64_t e : w.in) n *= e;
  return n;
}

Results average_pool(const Call& call) {
  const Tensor& x = call.floats(0);
  Tensor out;
  const Window w = pool_window(call, x, out);
  const bool padding_counts = call.attribute("count_include_pad", std::int64_t{0}) != 0;
  const std::int64_t pixels = pixels_of(w);
  each_window(w, x.dims[0] * x.dims[1], call.limits.threads,
              [&](std::int64_t c, std::int64_t p, const std::vector<std::int64_t>& at) {
                double sum = 0;
                std::int64_t n = 0;
                each_tap(w, at, [&](std::int64_t, std::int64_t offset) {
                  sum += x.floats[static_cast<std::size_t>(c * pixels + offset)];
                  ++n;
                });
                if (padding_counts) {
                  n = 1;
                  for (std::size_t a = 0; a < at.size(); ++a) {
                    const std::int64_t room = w.in[a] + w.after[a] - 1 - at[a];
                    n *= std::min(w.kernel[a], room / w.dilation[a] + 1);
                  }
                }
                out.floats[static_cast<std::size_t>(c * w.positions + p)] =
                    n == 0 ? 0.0F : static_cast<float>(sum / static_cast<double>(n));
              });
  return one(std::move(out));
}

// The place of a maximum as MaxPool's second output names it: among all elements, columns first if asked.
std::int64_t place(const Window& w, std::int64_t channel, std::int64_t pixels, std::int64_t offset,
                   bool columns) {
  if (!columns) return channel * pixels + offset;
  std::int64_t result = 0, stride = pixels;
  for (std::size_t a = w.in.size(); a-- > 0;) {
    stride /= w.in[a];
    result += offset % w.in[a] * stride;
    offset /= w.in[a];
  }
  return channel * pixels + result;
}

Results max_pool(const Call& call) {
  const Tensor& x = call.input(0);
  Results results(1);
  const Window w = pool_window(call, x, results[0]);
  Tensor& out = results[0];
  const std::int64_t pixels = pixels_of(w);
  const bool columns = call.attribute("storage_order", std::int64_t{0}) != 0;
  Tensor indices = call.make(Element::Int64, out.dims);
  const auto run = [&](const auto& in, auto& values) {
    using Number = std::remove_cvref_t<decltype(in[0])>;
    each_window(w, x.dims[0] * x.dims[1], call.limits.threads,
                [&](std::int64_t c, std::int64_t p, const std::vector<std::int64_t>& at) {
                  Number best = std::numeric_limits<Number>::lowest();
                  std::int64_t found = 0;
                  each_tap(w, at, [&](std::int64_t, std::int64_t offset) {
                    const Number v = in[static_cast<std::size_t>(c * pixels + offset)];
                    if (v > best || std::isnan(static_cast<float>(v))) best = v, found = offset;
                  });
                  values[static_cast<std::size_t>(c * w.positions + p)] = best;
                  indices.ints[static_cast<std::size_t>(c * w.positions + p)] =
                      place(w, c, pixels, found, columns);
                });
  };
  is_floating(x.element) ? run(x.floats, out.floats) : run(x.ints, out.ints);
  if (call.node.outputs.size() > 1) results.push_back(std::move(indices));
  return results;
}

template <bool Largest>
Results global_pool(const Call& call) {
  const Tensor& x = call.floats(0);
  call.require(x.dims.size() >= 2, "an input of fewer than two axes");
  Dims dims{x.dims[0], x.dims[1]};
  dims.resize(x.dims.size(), 1);
  Tensor out = call.make(x.element, dims);
  const std::int64_t n = out.size() == 0 ? 0 : x.size() / out.size();
  call.require(n > 0 || out.size() == 0, "an input without pixels");
  for (std::int64_t c = 0; c < out.size(); ++c) {
    const float* values = x.floats.data() + c * n;
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += values[i];
    out.floats[static_cast<std::size_t>(c)] =
        Largest ? *std::max_element(values, values + n) : static_cast<float>(sum / static_cast<double>(n));
  }
  return one(std::move(out));
}

constexpr Operator kOperators[] = {
    {"Conv", conv},
    {"AveragePool", average_pool},
    {"MaxPool", max_pool},
    {"GlobalAveragePool", global_pool<false>},
    {"GlobalMaxPool", global_pool<true>},
};

}  // namespace

std::span<const Operator> window_operators() { return kOperators; }

}  // namespace tw::onnx
