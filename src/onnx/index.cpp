// Operators that pick or place elements by index.
#include <algorithm>

#include "onnx/call.h"

namespace tw::onnx {

namespace {

std::int64_t index_in(const Call& call, std::int64_t index, std::int64_t extent) {
  if (index < -extent || index >= extent)
    call.fail("index " + std::to_string(index) + " of an extent of " + std::to_string(extent));
  return index < 0 ? index + extent : index;
}

// The same action on whichever vector has the elements.
template <typename F>
void on_values(const Tensor& x, Tensor& out, F f) {
  is_floating(x.element) ? f(x.floats, out.floats) : f(x.ints, out.ints);
}

struct Cut {
  std::int64_t start = 0, step = 1, extent = 0;
};
Cut cut_of(const Call& call, std::int64_t start, std::int64_t end, std::int64_t step, std::int64_t extent) {
  call.require(step != 0, "a step of 0");
  const auto from_end = [&](std::int64_t v) { return v < 0 ? v + extent : v; };  // cannot overflow
  Cut cut{0, step, 0};
  if (step > 0) {
    cut.start = std::clamp<std::int64_t>(from_end(start), 0, extent);
    const std::int64_t last = std::clamp<std::int64_t>(from_end(end), 0, extent);
    if (last > cut.start) cut.extent = (last - cut.start - 1) / step + 1;
  } else {
    cut.start = std::clamp<std::int64_t>(from_end(start), -1, extent - 1);
    const std::int64_t last = std::clamp<std::int64_t>(from_end(end), -1, extent - 1);
    if (cut.start > last) cut.extent = (cut.start - last - 1) / -std::max(step, -extent - 1) + 1;
  }
  if (cut.extent <= 1) cut.step = 1;
  return cut;
}

Results slice(const Call& call) {
  const Tensor& x = call.input(0);
  const auto *starts = call.list("starts", 1), *ends = call.list("ends", 2);
  const auto *axes = call.list("axes", 3), *steps = call.has(4) ? &call.ints(4).ints : nullptr;
  call.require(starts != nullptr && ends != nullptr && starts->size() == ends->size(),
               "starts and ends do not match");
  const std::size_t n = starts->size();
  call.require(axes == nullptr || axes->size() == n, "not one axis per start");
  call.require(steps == nullptr || steps->size() == n, "not one step per start");
  call.require(axes != nullptr || n <= x.dims.size(), "more starts than axes");
  std::vector<Cut> cuts(x.dims.size());
  for (std::size_t i = 0; i < x.dims.size(); ++i) cuts[i].extent = x.dims[i];
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t axis = axes != nullptr ? call.axis((*axes)[i], x.dims.size()) : i;
    cuts[axis] = cut_of(call, (*starts)[i], (*ends)[i], steps != nullptr ? (*steps)[i] : 1, x.dims[axis]);
  }
  Dims dims;
  for (const Cut& c : cuts) dims.push_back(c.extent);
  Tensor out = call.make(x.element, dims);
  if (out.size() == 0) return one(std::move(out));
  const auto strides = strides_of(x.dims);
  // The last cut axes that are whole move as one block.
  std::size_t tail = dims.size();
  std::int64_t block = 1;
  while (tail > 0 && cuts[tail - 1].extent == x.dims[tail - 1] && cuts[tail - 1].step == 1)
    block *= dims[--tail];
  on_values(x, out, [&](const auto& in, auto& values) {
    ranges(out.size() / block, block, call.limits.threads, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        std::int64_t rest = b, from = 0;
        for (std::size_t a = tail; a-- > 0;) {
          from += (cuts[a].start + rest % dims[a] * cuts[a].step) * strides[a];
          rest /= dims[a];
        }
        std::copy_n(in.begin() + from, block, values.begin() + b * block);
      }
    });
  });
  return one(std::move(out));
}

Results gather(const Call& call) {
  const Tensor &x = call.input(0), &indices = call.ints(1);
  const std::size_t axis = call.axis(call.attribute("axis", std::int64_t{0}), x.dims.size());
  const Around a = around(x.dims, axis);
  Dims dims(x.dims.begin(), x.dims.begin() + static_cast<std::ptrdiff_t>(axis));
  dims.insert(dims.end(), indices.dims.begin(), indices.dims.end());
  dims.insert(dims.end(), x.dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.dims.end());
  Tensor out = call.make(x.element, dims);
  std::vector<std::int64_t> from = indices.ints;
  for (std::int64_t& i : from) i = index_in(call, i, a.extent);
  const auto n = static_cast<std::int64_t>(from.size());
  on_values(x, out, [&](const auto& in, auto& values) {
    for (std::int64_t o = 0; o < a.outer && out.size() > 0; ++o)
      for (std::int64_t i = 0; i < n; ++i)
        std::copy_n(in.begin() + (o * a.extent + from[i]) * a.inner, a.inner,
                    values.begin() + (o * n + i) * a.inner);
  });
  return one(std::move(out));
}

// Where element i of indices stands in a tensor of shape dims, with its axis coordinate replaced by the
// index.
std::vector<std::int64_t> element_places(const Call& call, const Tensor& indices, const Dims& dims,
                                         std::size_t axis) {
  call.require(indices.dims.size() == dims.size(), "indices of another rank");
  for (std::size_t i = 0; i < dims.size(); ++i)
    call.require(i == axis || indices.dims[i] <= dims[i], "indices with a larger extent than the data");
  const auto strides = strides_of(dims);
  std::vector<std::int64_t> places(indices.ints.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    for (std::size_t a = dims.size(); a-- > 0;) {
      const std::int64_t at = rest % indices.dims[a];
      rest /= indices.dims[a];
      places[i] += (a == axis ? index_in(call, indices.ints[i], dims[a]) : at) * strides[a];
    }
  }
  return places;
}

Results gather_elements(const Call& call) {
  const Tensor &x = call.input(0), &indices = call.ints(1);
  const auto places = element_places(call, indices, x.dims,
                                     call.axis(call.attribute("axis", std::int64_t{0}), x.dims.size()));
  Tensor out = call.make(x.element, indices.dims);
  on_values(x, out, [&](const auto& in, auto& values) {
    for (std::size_t i = 0; i < places.size(); ++i) values[i] = in[places[i]];
  });
  return one(std::move(out));
}

// Reduction of a scatter: what becomes of the present value.
template <typename T>
T combined(const Call& call, const std::string& how, Element element, T present, T update) {
  if (how == "none") return update;
  if constexpr (std::is_same_v<T, std::int64_t>) {
    const auto a = static_cast<std::uint64_t>(present), b = static_cast<std::uint64_t>(update);
    if (how == "add") return wrap(element, static_cast<std::int64_t>(a + b));
    if (how == "mul") return wrap(element, static_cast<std::int64_t>(a * b));
  } else {
    if (how == "add") return present + update;
    if (how == "mul") return present * update;
  }
  if (how == "max") return std::max(present, update);
  if (how == "min") return std::min(present, update);
  call.refuse("reduction '" + how + "' is not supported");
}

Results scatter_elements(const Call& call) {
  const Tensor &x = call.input(0), &indices = call.ints(1), &updates = call.input(2);
  call.require(updates.element == x.element && updates.dims == indices.dims, "updates that do not match");
  const auto places = element_places(call, indices, x.dims,
                                     call.axis(call.attribute("axis", std::int64_t{0}), x.dims.size()));
  const std::string how = call.attribute("reduction", "none");
  Tensor out = x;
  on_values(updates, out, [&](const auto& in, auto& values) {
    for (std::size_t i = 0; i < places.size(); ++i)
      values[places[i]] = combined(call, how, x.element, values[places[i]], in[i]);
  });
  return one(std::move(out));
}

// Blocks of x addressed by the last axis of indices, after `batch` common axes: first element of each, and
// their size.
struct Blocks {
  std::vector<std::int64_t> starts;
  std::int64_t size = 1;
  Dims dims;  // of the indices without the last axis, then of a block
};
Blocks blocks_of(const Call& call, const Tensor& x, const Tensor& indices, std::size_t batch) {
  call.require(!indices.dims.empty(), "indices without axes");
  const std::int64_t depth = indices.dims.back();
  call.require(batch < indices.dims.size() && batch <= x.dims.size(), "more batch axes than axes");
  call.require(depth >= 1 && depth <= static_cast<std::int64_t>(x.dims.size() - batch),
               "indices of too many coordinates");
  for (std::size_t i = 0; i < batch; ++i)
    call.require(x.dims[i] == indices.dims[i], "batch extents that do not match");
  Blocks out;
  const std::size_t first = batch + static_cast<std::size_t>(depth);
  out.dims.assign(indices.dims.begin(), indices.dims.end() - 1);
  for (std::size_t i = first; i < x.dims.size(); ++i) {
    out.dims.push_back(x.dims[i]);
    out.size *= x.dims[i];
  }
  std::int64_t per_batch = 1;
  for (std::size_t i = batch; i + 1 < indices.dims.size(); ++i) per_batch *= indices.dims[i];
  const auto strides = strides_of(x.dims);
  const std::int64_t batch_stride = batch == 0 ? 0 : strides[batch - 1];
  const std::int64_t n = static_cast<std::int64_t>(indices.ints.size()) / depth;
  for (std::int64_t i = 0; i < n; ++i) {
    std::int64_t at = i / per_batch * batch_stride;
    for (std::int64_t k = 0; k < depth; ++k) {
      const std::size_t axis = batch + static_cast<std::size_t>(k);
      at += index_in(call, indices.ints[i * depth + k], x.dims[axis]) * strides[axis];
    }
    out.starts.push_back(at);
  }
  return out;
}

Results gather_nd(const Call& call) {
  const Tensor &x = call.input(0), &indices = call.ints(1);
  const std::int64_t batch = call.attribute("batch_dims", std::int64_t{0});
  call.require(batch >= 0, "batch_dims below 0");
  const Blocks blocks = blocks_of(call, x, indices, static_cast<std::size_t>(batch));
  Tensor out = call.make(x.element, blocks.dims);
  on_values(x, out, [&](const auto& in, auto& values) {
    for (std::size_t i = 0; i < blocks.starts.size() && blocks.size > 0; ++i)
      std::copy_n(in.begin() + blocks.starts[i], blocks.size,
                  values.begin() + static_cast<std::int64_t>(i) * blocks.size);
  });
  return one(std::move(out));
}

Results scatter_nd(const Call& call) {
  const Tensor &x = call.input(0), &indices = call.ints(1), &updates = call.input(2);
  const Blocks blocks = blocks_of(call, x, indices, 0);
  call.require(updates.element == x.element && updates.dims == blocks.dims, "updates that do not match");
  const std::string how = call.attribute("reduction", "none");
  Tensor out = x;
  on_values(updates, out, [&](const auto& in, auto& values) {
    for (std::size_t i = 0; i < blocks.starts.size(); ++i)
      for (std::int64_t k = 0; k < blocks.size; ++k) {
        auto& value = values[blocks.starts[i] + k];
        value = combined(call, how, x.element, value, in[static_cast<std::int64_t>(i) * blocks.size + k]);
      }
  });
  return one(std::move(out));
}

struct Pads {
  std::vector<std::int64_t> before, after;
};
Pads pads_of(const Call& call, std::size_t rank) {
  const auto* list = call.list("pads", 1);
  call.require(list != nullptr, "no pads");
  Pads pads{std::vector<std::int64_t>(rank, 0), std::vector<std::int64_t>(rank, 0)};
  std::vector<std::int64_t> axes;
  if (call.has(3)) {
    axes = call.ints(3).ints;
  } else {
    for (std::size_t i = 0; i < rank; ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  call.require(list->size() == 2 * axes.size(), "not two pads per axis");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t axis = call.axis(axes[i], rank);
    pads.before[axis] = (*list)[i];
    pads.after[axis] = (*list)[axes.size() + i];
  }
  return pads;
}

enum class PadMode { Constant, Edge, Reflect, Wrap };

// The source coordinate of every coordinate of a padded axis; -1: the constant.
std::vector<std::int64_t> sources(const Call& call, std::int64_t extent, std::int64_t before,
                                  std::int64_t after, PadMode mode) {
  const std::int64_t limit = call.limits.elements;
  call.require(before >= -extent && before <= limit && after >= -extent && after <= limit,
               "pads out of range");
  call.require(extent + before + after >= 0, "pads that remove more than there is");
  std::vector<std::int64_t> out(static_cast<std::size_t>(call.size_of({extent + before + after})), -1);
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::int64_t at = static_cast<std::int64_t>(i) - before;
    const bool inside = at >= 0 && at < extent;
    if (!inside && mode == PadMode::Constant) continue;
    call.require(extent > 0, "padding of an axis without elements");
    if (mode == PadMode::Reflect) {
      const std::int64_t period = std::max<std::int64_t>(1, 2 * (extent - 1));
      at = (at % period + period) % period;
      if (at >= extent) at = period - at;
    } else if (mode == PadMode::Wrap) {
      at = (at % extent + extent) % extent;
    }
    out[i] = std::clamp<std::int64_t>(at, 0, extent - 1);
  }
  return out;
}

Results pad(const Call& call) {
  const Tensor& x = call.input(0);
  const std::string name = call.attribute("mode", "constant");
  const PadMode mode = name == "constant"  ? PadMode::Constant
                       : name == "edge"    ? PadMode::Edge
                       : name == "reflect" ? PadMode::Reflect
                       : name == "wrap"
                           ? PadMode::Wrap
                           : (call.refuse("mode '" + name + "' is not supported"), PadMode::Constant);
  const std::size_t rank = x.dims.size();
  const Pads pads = pads_of(call, rank);
  std::vector<std::vector<std::int64_t>> from(rank);
  Dims dims;
  for (std::size_t i = 0; i < rank; ++i) {
    from[i] = sources(call, x.dims[i], pads.before[i], pads.after[i], mode);
    dims.push_back(static_cast<std::int64_t>(from[i].size()));
  }
  Tensor out = call.make(x.element, dims);
  const auto strides = strides_of(x.dims);
  float fill = call.attribute("value", 0.0F);
  std::int64_t int_fill = 0;
  if (call.has(2)) {
    const Tensor& value = call.input(2);
    call.require(value.element == x.element, "a constant of another type");
    scalar(call, value);
    is_floating(x.element) ? static_cast<void>(fill = value.floats[0])
                           : static_cast<void>(int_fill = value.ints[0]);
  }
  for (std::int64_t i = 0; i < out.size(); ++i) {
    std::int64_t rest = i, at = 0;
    bool outside = false;
    for (std::size_t a = rank; a-- > 0;) {
      const std::int64_t s = from[a][static_cast<std::size_t>(rest % dims[a])];
      rest /= dims[a];
      outside = outside || s < 0;
      at += s * strides[a];
    }
    if (is_floating(x.element)) {
      out.floats[i] = outside ? fill : x.floats[at];
    } else {
      out.ints[i] = outside ? int_fill : x.ints[at];
    }
  }
  return one(std::move(out));
}

Results trilu(const Call& call) {
  const Tensor& x = call.input(0);
  call.require(x.dims.size() >= 2, "an input of fewer than two axes");
  const std::int64_t rows = x.dims[x.dims.size() - 2], cols = x.dims.back();
  const double shift = call.has(1) ? scalar(call, call.ints(1)) : 0;
  const bool upper = call.attribute("upper", std::int64_t{1}) != 0;
  Tensor out = x;
  for (std::int64_t i = 0; i < out.size(); ++i) {
    const auto distance = static_cast<double>(i % cols - i / cols % rows);
    if (upper ? distance >= shift : distance <= shift) continue;
    is_floating(x.element) ? static_cast<void>(out.floats[i] = 0) : static_cast<void>(out.ints[i] = 0);
  }
  return one(std::move(out));
}

Results non_zero(const Call& call) {
  const Tensor& x = call.input(0);
  std::vector<std::int64_t> found;
  for (std::int64_t i = 0; i < x.size(); ++i)
    if (is_floating(x.element) ? x.floats[i] != 0 : x.ints[i] != 0) found.push_back(i);
  const auto n = static_cast<std::int64_t>(found.size()), rank = static_cast<std::int64_t>(x.dims.size());
  Tensor out = call.make(Element::Int64, {rank, n});
  const auto strides = strides_of(x.dims);
  for (std::int64_t a = 0; a < rank; ++a)
    for (std::int64_t i = 0; i < n; ++i) out.ints[a * n + i] = found[i] / strides[a] % x.dims[a];
  return one(std::move(out));
}

constexpr Operator kOperators[] = {
    {"Slice", slice},
    {"Gather", gather},
    {"GatherElements", gather_elements},
    {"GatherND", gather_nd},
    {"ScatterElements", scatter_elements},
    {"Scatter", scatter_elements},
    {"ScatterND", scatter_nd},
    {"Pad", pad},
    {"Trilu", trilu},
    {"NonZero", non_zero},
};

}  // namespace

std::span<const Operator> index_operators() { return kOperators; }

}  // namespace tw::onnx
