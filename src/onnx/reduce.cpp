// Operators along axes: reductions, softmax, normalisations, running sums.
#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/call.h"

namespace tw::onnx {

namespace {

// Axes to reduce, ascending; none: the input passes.
struct Axes {
  std::vector<bool> reduced;
  bool nothing = false;
};
Axes axes_of(const Call& call, const Tensor& x) {
  Axes out{std::vector<bool>(x.dims.size(), false), false};
  const auto* list = call.list("axes", 1);
  if (list == nullptr || list->empty()) {
    out.nothing = call.attribute("noop_with_empty_axes", std::int64_t{0}) != 0;
    out.reduced.assign(x.dims.size(), true);
    return out;
  }
  for (const std::int64_t a : *list) out.reduced[call.axis(a, x.dims.size())] = true;
  return out;
}

// x with the reduced axes last, as rows; their common shape without and with the reduced axes as 1.
struct Rows {
  const Tensor* x;
  Tensor moved;
  Dims dims;
  std::int64_t rows = 1, length = 1;
};
void order_rows(const Call& call, const Tensor& x, const std::vector<bool>& reduced, Rows& out) {
  const bool keep = call.attribute("keepdims", std::int64_t{1}) != 0;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < x.dims.size(); ++i) {
    if (reduced[i]) continue;
    order.push_back(i);
    out.rows *= x.dims[i];
  }
  for (std::size_t i = 0; i < x.dims.size(); ++i) {
    if (!reduced[i] || keep) out.dims.push_back(reduced[i] ? 1 : x.dims[i]);
    if (!reduced[i]) continue;
    order.push_back(i);
    out.length *= x.dims[i];
  }
  const bool moves = !std::is_sorted(order.begin(), order.end());
  if (moves) out.moved = permute(call, x, order);
  out.x = moves ? &out.moved : &x;
}

enum class Kind { Sum, Mean, Max, Min, Prod, L1, L2, SumSquare, LogSum, LogSumExp };

// In double: the order of summation then does not show in FP32.
template <Kind K>
float reduce_row(const float* x, std::int64_t n) {
  if constexpr (K == Kind::Max || K == Kind::Min) {
    float best =
        K == Kind::Max ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
    for (std::int64_t i = 0; i < n; ++i) {
      if (std::isnan(x[i])) return x[i];
      best = K == Kind::Max ? std::max(best, x[i]) : std::min(best, x[i]);
    }
    return best;
  }
  double sum = K == Kind::Prod ? 1 : 0, largest = 0;
  if constexpr (K == Kind::LogSumExp) largest = reduce_row<Kind::Max>(x, n);
  if (std::isinf(largest)) return static_cast<float>(largest);
  for (std::int64_t i = 0; i < n; ++i) {
    const double v = x[i];
    if constexpr (K == Kind::Prod) {
      sum *= v;
    } else if constexpr (K == Kind::L1) {
      sum += std::fabs(v);
    } else if constexpr (K == Kind::L2 || K == Kind::SumSquare) {
      sum += v * v;
    } else if constexpr (K == Kind::LogSumExp) {
      sum += std::exp(v - largest);
    } else {
      sum += v;
    }
  }
  if constexpr (K == Kind::Mean) sum /= static_cast<double>(n);
  if constexpr (K == Kind::L2) sum = std::sqrt(sum);
  if constexpr (K == Kind::LogSum || K == Kind::LogSumExp) sum = std::log(sum) + largest;
  return static_cast<float>(sum);
}

template <Kind K>
std::int64_t reduce_row(Element element, const std::int64_t* x, std::int64_t n) {
  const bool is_unsigned = element == Element::UInt64;
  if constexpr (K == Kind::Max || K == Kind::Min) {
    std::int64_t best = n > 0 ? x[0] : 0;
    for (std::int64_t i = 1; i < n; ++i) {
      const bool less =
          is_unsigned ? static_cast<std::uint64_t>(x[i]) < static_cast<std::uint64_t>(best) : x[i] < best;
      if (x[i] != best && less == (K == Kind::Min)) best = x[i];
    }
    return best;
  }
  std::uint64_t sum = K == Kind::Prod ? 1 : 0;
  double real = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto v = static_cast<std::uint64_t>(x[i]);
    real += to_double(element, x[i]) * (K == Kind::L2 ? to_double(element, x[i]) : 1.0);
    if constexpr (K == Kind::Prod) {
      sum *= v;
    } else if constexpr (K == Kind::L1) {
      sum += x[i] < 0 && !is_unsigned ? 0 - v : v;
    } else if constexpr (K == Kind::SumSquare) {
      sum += v * v;
    } else {
      sum += v;
    }
  }
  if constexpr (K == Kind::Mean) return n == 0 ? 0 : truncate(real / static_cast<double>(n));
  if constexpr (K == Kind::L2) return truncate(std::sqrt(real));
  if constexpr (K == Kind::LogSum || K == Kind::LogSumExp) return 0;  // refused before
  return static_cast<std::int64_t>(sum);
}

template <Kind K>
Results reduce(const Call& call) {
  const Tensor& x = call.input(0);
  const Axes axes = axes_of(call, x);
  if (axes.nothing) return one(x);
  Rows rows;
  order_rows(call, x, axes.reduced, rows);
  if (K == Kind::LogSum || K == Kind::LogSumExp) call.floats(0);
  Tensor out = call.make(x.element, rows.dims);
  ranges(rows.rows, rows.length, call.limits.threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      if (is_floating(x.element)) {
        out.floats[r] = reduce_row<K>(rows.x->floats.data() + r * rows.length, rows.length);
      } else {
        out.ints[r] =
            wrap(x.element, reduce_row<K>(x.element, rows.x->ints.data() + r * rows.length, rows.length));
      }
    }
  });
  return one(std::move(out));
}

template <bool Largest>
Results arg(const Call& call) {
  const Tensor& x = call.input(0);
  const std::size_t axis = call.axis(call.attribute("axis", std::int64_t{0}), x.dims.size());
  const bool last = call.attribute("select_last_index", std::int64_t{0}) != 0;
  std::vector<bool> reduced(x.dims.size(), false);
  reduced[axis] = true;
  Rows rows;
  order_rows(call, x, reduced, rows);
  call.require(rows.length > 0, "an axis without elements");
  Tensor out = call.make(Element::Int64, rows.dims);
  const auto find = [&](const auto& values) {
    for (std::int64_t r = 0; r < rows.rows; ++r) {
      const auto* v = values.data() + r * rows.length;
      std::int64_t best = 0;
      for (std::int64_t i = 1; i < rows.length; ++i)
        if ((Largest ? v[i] > v[best] : v[i] < v[best]) || (last && v[i] == v[best])) best = i;
      out.ints[r] = best;
    }
  };
  is_floating(x.element) ? find(rows.x->floats) : find(rows.x->ints);
  return one(std::move(out));
}

// One softmax over `extent` elements that stand `step` apart.
void softmax_row(const float* x, float* y, std::int64_t extent, std::int64_t step, bool log) {
  float largest = -std::numeric_limits<float>::infinity();
  for (std::int64_t i = 0; i < extent; ++i) largest = std::max(largest, x[i * step]);
  double sum = 0;
  for (std::int64_t i = 0; i < extent; ++i) {
    const float e = std::exp(x[i * step] - largest);
    if (!log) y[i * step] = e;
    sum += e;
  }
  const auto total = static_cast<float>(sum);
  const float log_total = std::log(total);
  for (std::int64_t i = 0; i < extent; ++i)
    y[i * step] = log ? x[i * step] - largest - log_total : y[i * step] / total;
}

template <bool Log>
Results softmax(const Call& call) {
  const Tensor& x = call.floats(0);
  const bool flattens = call.opset < 13;  // everything from the axis on is one row
  const std::size_t rank = x.dims.size();
  Around a;
  if (rank > 0) {
    const std::int64_t axis = call.attribute("axis", std::int64_t{flattens ? 1 : -1});
    a = around(x.dims, flattens && rank == 1 ? 0 : call.axis(axis, rank));
    if (flattens) a = {a.outer, a.extent * a.inner, 1};
  }
  Tensor out = call.make(x.element, x.dims);
  if (out.size() == 0) return one(std::move(out));
  ranges(a.outer * a.inner, a.extent * 8, call.limits.threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t at = r / a.inner * a.extent * a.inner + r % a.inner;
      softmax_row(x.floats.data() + at, out.floats.data() + at, a.extent, a.inner, Log);
    }
  });
  return one(std::move(out));
}

Tensor full(const Call& call, std::size_t i, const Dims& dims) { return expand(call, call.floats(i), dims); }

Results layer_norm(const Call& call) {
  const Tensor& x = call.floats(0);
  const std::size_t axis = call.axis(call.attribute("axis", std::int64_t{-1}), x.dims.size());
  const Dims inner_dims(x.dims.begin() + static_cast<std::ptrdiff_t>(axis), x.dims.end());
  const double epsilon = call.attribute("epsilon", 1e-5F);
  const std::int64_t n = call.size_of(inner_dims), rows = n == 0 ? 0 : x.size() / n;
  const Tensor scale = full(call, 1, inner_dims), bias = call.has(2) ? full(call, 2, inner_dims) : Tensor{};
  Dims row_dims = x.dims;
  for (std::size_t i = axis; i < row_dims.size(); ++i) row_dims[i] = 1;
  Results out;
  out.push_back(call.make(x.element, x.dims));
  for (int i = 0; i < 2; ++i) out.push_back(call.make(Element::Float, row_dims));
  ranges(rows, n * 2, call.limits.threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* in = x.floats.data() + r * n;
      double mean = 0, variance = 0;
      for (std::int64_t i = 0; i < n; ++i) mean += in[i];
      mean /= static_cast<double>(n);
      for (std::int64_t i = 0; i < n; ++i) variance += (in[i] - mean) * (in[i] - mean);
      const double factor = 1.0 / std::sqrt(variance / static_cast<double>(n) + epsilon);
      for (std::int64_t i = 0; i < n; ++i) {
        const double y = (in[i] - mean) * factor * scale.floats[i];
        out[0].floats[r * n + i] = static_cast<float>(bias.floats.empty() ? y : y + bias.floats[i]);
      }
      out[1].floats[r] = static_cast<float>(mean);
      out[2].floats[r] = static_cast<float>(factor);
    }
  });
  return out;
}

// Channels are axis 1; f(channel, first, n) for each run of elements of one channel.
template <typename F>
void each_channel(const Call& call, const Tensor& x, F f) {
  call.require(x.dims.size() >= 2, "an input of fewer than two axes");
  const Around a = around(x.dims, 1);
  for (std::int64_t o = 0; o < a.outer; ++o)
    for (std::int64_t c = 0; c < a.extent; ++c) f(c, (o * a.extent + c) * a.inner, a.inner);
}

const std::vector<float>& channel_values(const Call& call, std::size_t i, const Tensor& x) {
  const Tensor& t = call.floats(i);
  if (x.dims.size() < 2 || t.dims != Dims{x.dims[1]})
    call.fail("input " + std::to_string(i) + " is not one value per channel");
  return t.floats;
}

Results batch_norm(const Call& call) {
  const Tensor& x = call.floats(0);
  if (call.attribute("training_mode", std::int64_t{0}) != 0) call.refuse("training is not supported");
  const auto &scale = channel_values(call, 1, x), &bias = channel_values(call, 2, x);
  const auto &mean = channel_values(call, 3, x), &variance = channel_values(call, 4, x);
  const double epsilon = call.attribute("epsilon", 1e-5F);
  Tensor out = call.make(x.element, x.dims);
  each_channel(call, x, [&](std::int64_t c, std::int64_t first, std::int64_t n) {
    const double factor = scale[c] / std::sqrt(variance[c] + epsilon);
    for (std::int64_t i = first; i < first + n; ++i)
      out.floats[i] = static_cast<float>((x.floats[i] - static_cast<double>(mean[c])) * factor + bias[c]);
  });
  return one(std::move(out));
}

Results instance_norm(const Call& call) {
  const Tensor& x = call.floats(0);
  const auto &scale = channel_values(call, 1, x), &bias = channel_values(call, 2, x);
  const double epsilon = call.attribute("epsilon", 1e-5F);
  Tensor out = call.make(x.element, x.dims);
  each_channel(call, x, [&](std::int64_t c, std::int64_t first, std::int64_t n) {
    double mean = 0, variance = 0;
    for (std::int64_t i = first; i < first + n; ++i) mean += x.floats[i];
    mean /= static_cast<double>(n);
    for (std::int64_t i = first; i < first + n; ++i) variance += (x.floats[i] - mean) * (x.floats[i] - mean);
    const double factor = scale[c] / std::sqrt(variance / static_cast<double>(n) + epsilon);
    for (std::int64_t i = first; i < first + n; ++i)
      out.floats[i] = static_cast<float>((x.floats[i] - mean) * factor + bias[c]);
  });
  return one(std::move(out));
}

Results cum_sum(const Call& call) {
  const Tensor& x = call.input(0);
  const double at = scalar(call, call.ints(1));
  const Around a = around(x.dims, call.axis(truncate(at), x.dims.size()));
  const bool exclusive = call.attribute("exclusive", std::int64_t{0}) != 0;
  const bool reverse = call.attribute("reverse", std::int64_t{0}) != 0;
  Tensor out = call.make(x.element, x.dims);
  const auto run = [&](const auto& in, auto& values, auto zero, auto store) {
    for (std::int64_t r = 0; r < a.outer * a.inner; ++r) {
      auto sum = zero;
      for (std::int64_t k = 0; k < a.extent; ++k) {
        const std::int64_t i = reverse ? a.extent - 1 - k : k;
        const std::int64_t at_i = (r / a.inner * a.extent + i) * a.inner + r % a.inner;
        if (exclusive) values[at_i] = store(sum);
        sum += static_cast<decltype(zero)>(in[at_i]);
        if (!exclusive) values[at_i] = store(sum);
      }
    }
  };
  if (is_floating(x.element)) {
    run(x.floats, out.floats, 0.0, [](double v) { return static_cast<float>(v); });
  } else {
    run(x.ints, out.ints, std::uint64_t{0},
        [&](std::uint64_t v) { return wrap(x.element, static_cast<std::int64_t>(v)); });
  }
  return one(std::move(out));
}

constexpr Operator kOperators[] = {
    {"ReduceSum", reduce<Kind::Sum>},
    {"ReduceMean", reduce<Kind::Mean>},
    {"ReduceMax", reduce<Kind::Max>},
    {"ReduceMin", reduce<Kind::Min>},
    {"ReduceProd", reduce<Kind::Prod>},
    {"ReduceL1", reduce<Kind::L1>},
    {"ReduceL2", reduce<Kind::L2>},
    {"ReduceSumSquare", reduce<Kind::SumSquare>},
    {"ReduceLogSum", reduce<Kind::LogSum>},
    {"ReduceLogSumExp", reduce<Kind::LogSumExp>},
    {"ArgMax", arg<true>},
    {"ArgMin", arg<false>},
    {"Softmax", softmax<false>},
    {"LogSoftmax", softmax<true>},
    {"LayerNormalization", layer_norm},
    {"BatchNormalization", batch_norm},
    {"InstanceNormalization", instance_norm},
    {"CumSum", cum_sum},
};

}  // namespace

std::span<const Operator> reduce_operators() { return kOperators; }

}  // namespace tw::onnx
