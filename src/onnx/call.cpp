#include "onnx/call.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/parallel.h"

namespace tw::onnx {

const Tensor& Call::input(std::size_t i) const {
  if (!has(i)) fail("input " + std::to_string(i) + " is missing");
  return *inputs_[i];
}

const Tensor& Call::floats(std::size_t i) const {
  const Tensor& t = input(i);
  if (!is_floating(t.element))
    fail("input " + std::to_string(i) + " is " + name_of(t.element) + ", not floating");
  return t;
}

const Tensor& Call::ints(std::size_t i) const {
  const Tensor& t = input(i);
  if (!is_integer(t.element))
    fail("input " + std::to_string(i) + " is " + name_of(t.element) + ", no integer");
  return t;
}

std::int64_t Call::attribute(const char* key, std::int64_t otherwise) const {
  const auto* value = node.attribute<std::int64_t>(key);
  return value != nullptr ? *value : otherwise;
}

float Call::attribute(const char* key, float otherwise) const {
  const auto* value = node.attribute<float>(key);
  return value != nullptr ? *value : otherwise;
}

std::string Call::attribute(const char* key, const char* otherwise) const {
  const auto* value = node.attribute<std::string>(key);
  return value != nullptr ? *value : otherwise;
}

const std::vector<std::int64_t>* Call::list(const char* key, std::size_t i) const {
  return has(i) ? &ints(i).ints : list(key);
}

void Call::fail(const std::string& what) const { throw Error(ErrorKind::Shape, title(node) + ": " + what); }
void Call::refuse(const std::string& what) const {
  throw Error(ErrorKind::UnsupportedOp, title(node) + ": " + what);
}

std::size_t Call::axis(std::int64_t axis, std::size_t rank) const {
  const auto n = static_cast<std::int64_t>(rank);
  if (axis < -n || axis >= n) fail("axis " + std::to_string(axis) + " of " + std::to_string(n));
  return static_cast<std::size_t>(axis < 0 ? axis + n : axis);
}

std::int64_t Call::size_of(const Dims& dims) const {
  if (dims.size() > kMostAxes) fail("a shape of " + std::to_string(dims.size()) + " axes");
  std::int64_t count = 0;
  if (!count_elements(dims, count) || count > limits.elements)
    fail("shape " + to_string(dims) + " is not possible");
  return count;
}

Tensor Call::make(Element element, Dims dims) const {
  const auto count = static_cast<std::size_t>(size_of(dims));
  Tensor out{element, std::move(dims), {}, {}};
  if (is_floating(element)) {
    out.floats.resize(count);
  } else if (is_integer(element)) {
    out.ints.resize(count);
  } else {
    fail("elements of type " + name_of(element));
  }
  return out;
}

bool Call::work(double multiply_adds) const {
  if (limits.work > 0 && multiply_adds > static_cast<double>(limits.work)) fail("more work than allowed");
  return !limits.shapes_only;
}

Results one(Tensor t) {
  Results out;
  out.push_back(std::move(t));
  return out;
}

Around around(const Dims& dims, std::size_t axis) {
  Around a;
  for (std::size_t i = 0; i < dims.size(); ++i)
    (i < axis ? a.outer : i == axis ? a.extent : a.inner) *= dims[i];
  return a;
}

std::vector<std::int64_t> strides_of(const Dims& dims) {
  std::vector<std::int64_t> strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

namespace {

Dims broadcast_dims(const Call& call, std::span<const Dims* const> shapes) {
  std::size_t rank = 0;
  for (const Dims* d : shapes) rank = std::max(rank, d->size());
  Dims out(rank, 1);
  for (const Dims* d : shapes) {
    for (std::size_t i = 0; i < d->size(); ++i) {
      std::int64_t& o = out[rank - d->size() + i];
      const std::int64_t extent = (*d)[i];
      if (extent != 1 && o != 1 && o != extent)
        call.fail("shapes " + to_string(out) + " and " + to_string(*d) + " do not match");
      if (extent != 1) o = extent;
    }
  }
  return out;
}

}  // namespace

Broadcast broadcast(const Call& call, std::span<const Dims* const> shapes) {
  Broadcast b;
  b.dims = broadcast_dims(call, shapes);
  b.size = call.size_of(b.dims);
  b.strides.resize(shapes.size());
  const std::size_t rank = b.dims.size();
  std::vector<std::vector<std::int64_t>> full(shapes.size(), std::vector<std::int64_t>(rank, 0));
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    const Dims& d = *shapes[s];
    const auto strides = strides_of(d);
    for (std::size_t i = 0; i < d.size(); ++i)
      if (d[i] != 1) full[s][rank - d.size() + i] = strides[i];
  }
  // Innermost first, then turned around.
  for (std::size_t i = rank; i-- > 0;) {
    if (b.dims[i] == 1) continue;
    bool merges = !b.extents.empty();
    for (std::size_t s = 0; merges && s < shapes.size(); ++s)
      merges = full[s][i] == b.strides[s].back() * b.extents.back();
    if (merges) {
      b.extents.back() *= b.dims[i];
      continue;
    }
    b.extents.push_back(b.dims[i]);
    for (std::size_t s = 0; s < shapes.size(); ++s) b.strides[s].push_back(full[s][i]);
  }
  if (b.extents.empty()) {
    b.extents.push_back(1);
    for (auto& s : b.strides) s.push_back(0);
  }
  std::reverse(b.extents.begin(), b.extents.end());
  for (auto& s : b.strides) std::reverse(s.begin(), s.end());
  return b;
}

void ranges(std::int64_t n, std::int64_t cost, unsigned threads,
            const std::function<void(std::int64_t, std::int64_t)>& fn) {
  if (n <= 0) return;
  constexpr std::int64_t kGrain = 1 << 16;  // element operations worth a hand-over to another thread
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, cost));
  if (n <= grain) return fn(0, n);
  parallel_for(static_cast<std::size_t>(n), static_cast<std::size_t>(grain), threads,
               [&](std::size_t begin, std::size_t end) {
                 fn(static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end));
               });
}

void each_row(const Broadcast& b, unsigned threads,
              const std::function<void(std::int64_t, std::int64_t, const std::int64_t*)>& fn) {
  if (b.size == 0) return;
  const std::int64_t row = b.extents.back();
  const std::size_t inputs = b.strides.size(), axes = b.extents.size();
  ranges(b.size, 1, threads, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> offsets(inputs);
    while (begin < end) {
      std::int64_t rest = begin;
      std::fill(offsets.begin(), offsets.end(), 0);
      for (std::size_t a = axes; a-- > 0;) {
        for (std::size_t s = 0; s < inputs; ++s) offsets[s] += rest % b.extents[a] * b.strides[s][a];
        rest /= b.extents[a];
      }
      const std::int64_t n = std::min(end - begin, row - begin % row);
      fn(begin, n, offsets.data());
      begin += n;
    }
  });
}

std::int64_t truncate(double v) {
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (std::isnan(v)) return 0;
  if (v >= kLimit) return std::numeric_limits<std::int64_t>::max();
  if (v <= -kLimit) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(v);
}

double to_double(Element element, std::int64_t v) {
  return element == Element::UInt64 ? static_cast<double>(static_cast<std::uint64_t>(v))
                                    : static_cast<double>(v);
}

double scalar(const Call& call, const Tensor& t) {
  if (t.size() != 1) call.fail("an input of shape " + to_string(t.dims) + " where one value is needed");
  return is_floating(t.element) ? t.floats[0] : to_double(t.element, t.ints[0]);
}

namespace {

// Copies in the result's order; strides of the source per axis of the result, which may be negative.
template <typename T>
void gather_rows(const Dims& dims, const std::vector<std::int64_t>& strides, const std::vector<T>& in,
                 std::vector<T>& out, unsigned threads) {
  if (out.empty()) return;
  if (dims.empty()) {
    out[0] = in[0];
    return;
  }
  const std::size_t last = dims.size() - 1;
  const std::int64_t row = dims[last], step = strides[last];
  ranges(static_cast<std::int64_t>(out.size()) / row, row, threads,
         [&](std::int64_t begin, std::int64_t end) {
           for (std::int64_t r = begin; r < end; ++r) {
             std::int64_t rest = r, from = 0;
             for (std::size_t a = last; a-- > 0;) {
               from += rest % dims[a] * strides[a];
               rest /= dims[a];
             }
             const T* source = in.data() + from;
             T* target = out.data() + r * row;
             if (step == 1) {
               std::copy_n(source, row, target);
             } else {
               for (std::int64_t i = 0; i < row; ++i) target[i] = source[i * step];
             }
           }
         });
}

Tensor strided(const Call& call, const Tensor& x, Dims dims, const std::vector<std::int64_t>& strides) {
  Tensor out = call.make(x.element, std::move(dims));
  is_floating(x.element) ? gather_rows(out.dims, strides, x.floats, out.floats, call.limits.threads)
                         : gather_rows(out.dims, strides, x.ints, out.ints, call.limits.threads);
  return out;
}

}  // namespace

Tensor permute(const Call& call, const Tensor& x, const std::vector<std::size_t>& order) {
  Dims dims;
  std::vector<std::int64_t> strides;
  const auto from = strides_of(x.dims);
  for (const std::size_t axis : order) {
    dims.push_back(x.dims[axis]);
    strides.push_back(from[axis]);
  }
  return strided(call, x, std::move(dims), strides);
}

Tensor expand(const Call& call, const Tensor& x, const Dims& dims) {
  std::vector<std::int64_t> strides(dims.size(), 0);
  const auto from = strides_of(x.dims);
  call.require(dims.size() >= x.dims.size(), "a result of fewer axes than its input");
  const std::size_t shift = dims.size() - x.dims.size();
  for (std::size_t i = 0; i < x.dims.size(); ++i) {
    if (x.dims[i] != 1 && x.dims[i] != dims[shift + i])
      call.fail("shape " + to_string(x.dims) + " does not expand to " + to_string(dims));
    if (x.dims[i] != 1) strides[shift + i] = from[i];
  }
  return strided(call, x, dims, strides);
}

}  // namespace tw::onnx
