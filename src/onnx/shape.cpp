// Operators that change shapes or move whole blocks: no arithmetic.
#include <algorithm>
#include <cmath>
#include <set>

#include "onnx/call.h"

namespace tw::onnx {

namespace {

Tensor with_dims(const Call& call, const Tensor& x, Dims dims) {
  if (call.size_of(dims) != x.size())
    call.fail("shape " + to_string(x.dims) + " does not fit " + to_string(dims));
  Tensor out = x;
  out.dims = std::move(dims);
  return out;
}

Results constant(const Call& call) {
  const Node& n = call.node;
  if (const auto* t = n.attribute<Tensor>("value")) return one(*t);
  if (const auto* f = n.attribute<float>("value_float")) return one({Element::Float, {}, {*f}, {}});
  if (const auto* i = n.attribute<std::int64_t>("value_int")) return one({Element::Int64, {}, {}, {*i}});
  if (const auto* f = n.attribute<std::vector<float>>("value_floats"))
    return one({Element::Float, {static_cast<std::int64_t>(f->size())}, *f, {}});
  if (const auto* i = n.attribute<std::vector<std::int64_t>>("value_ints"))
    return one({Element::Int64, {static_cast<std::int64_t>(i->size())}, {}, *i});
  call.fail("no value that is supported");
}

Results identity(const Call& call) { return one(call.input(0)); }

Results dropout(const Call& call) {
  if (call.has(2) && scalar(call, call.input(2)) != 0) call.refuse("training is not supported");
  Results out = one(call.input(0));
  if (call.node.outputs.size() > 1) {
    out.push_back(call.make(Element::Bool, call.input(0).dims));
    std::fill(out[1].ints.begin(), out[1].ints.end(), 1);
  }
  return out;
}

Results reshape(const Call& call) {
  const Tensor& x = call.input(0);
  const auto* shape = call.list("shape", 1);
  call.require(shape != nullptr, "no shape");
  const bool allow_zero = call.attribute("allowzero", std::int64_t{0}) != 0;
  Dims dims = *shape;
  std::int64_t* open = nullptr;
  Dims known;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && !allow_zero) {
      if (i >= x.dims.size()) call.fail("extent 0 at axis " + std::to_string(i) + " copies nothing");
      dims[i] = x.dims[i];
    }
    if (dims[i] == -1) {
      call.require(open == nullptr, "two extents of -1");
      open = &dims[i];
    } else {
      known.push_back(dims[i]);
    }
  }
  if (open != nullptr) {
    const std::int64_t rest = call.size_of(known);
    if (rest == 0 || x.size() % rest != 0)
      call.fail("shape " + to_string(x.dims) + " does not fit " + to_string(*shape));
    *open = x.size() / rest;
  }
  return one(with_dims(call, x, std::move(dims)));
}

Results transpose(const Call& call) {
  const Tensor& x = call.input(0);
  const std::size_t rank = x.dims.size();
  std::vector<std::size_t> order(rank);
  for (std::size_t i = 0; i < rank; ++i) order[i] = rank - 1 - i;
  if (const auto* perm = call.list("perm")) {
    call.require(perm->size() == rank, "perm has not one entry per axis");
    std::vector<bool> seen(rank, false);
    for (std::size_t i = 0; i < rank; ++i) {
      order[i] = call.axis((*perm)[i], rank);
      call.require(!seen[order[i]], "perm names an axis twice");
      seen[order[i]] = true;
    }
  }
  return one(permute(call, x, order));
}

Results flatten(const Call& call) {
  const Tensor& x = call.input(0);
  const auto rank = static_cast<std::int64_t>(x.dims.size());
  std::int64_t axis = call.attribute("axis", std::int64_t{1});
  if (axis < 0) axis += rank;
  call.require(axis >= 0 && axis <= rank, "axis outside the shape");
  Dims dims{1, 1};
  for (std::int64_t i = 0; i < rank; ++i) dims[i < axis ? 0 : 1] *= x.dims[i];
  return one(with_dims(call, x, std::move(dims)));
}

// Copies the blocks of `part` into `whole` (or back) that begin at `first` on an axis.
template <typename T, typename U>
void copy_slab(const std::vector<T>& from, const Around& f, std::int64_t from_first, std::vector<U>& to,
               const Around& t, std::int64_t to_first, std::int64_t extent) {
  for (std::int64_t o = 0; o < f.outer; ++o)
    std::copy_n(from.begin() + (o * f.extent + from_first) * f.inner, extent * f.inner,
                to.begin() + (o * t.extent + to_first) * t.inner);
}

Results concat(const Call& call) {
  const Tensor& first = call.input(0);
  const std::size_t axis =
      call.axis(call.attribute("axis", std::int64_t{call.opset < 4 ? 1 : 0}), first.dims.size());
  Dims dims = first.dims;
  dims[axis] = 0;
  for (std::size_t i = 0; i < call.count(); ++i) {
    const Tensor& x = call.input(i);
    call.require(x.element == first.element, "inputs of several types");
    Dims same = x.dims;
    if (same.size() == dims.size()) same[axis] = dims[axis];
    if (same != dims)
      call.fail("shapes " + to_string(first.dims) + " and " + to_string(x.dims) + " do not match");
    dims[axis] += x.dims[axis];
    call.size_of(dims);
  }
  Tensor out = call.make(first.element, dims);
  const Around whole = around(dims, axis);
  std::int64_t at = 0;
  for (std::size_t i = 0; i < call.count(); ++i) {
    const Tensor& x = call.input(i);
    const Around part = around(x.dims, axis);
    is_floating(x.element) ? copy_slab(x.floats, part, 0, out.floats, whole, at, part.extent)
                           : copy_slab(x.ints, part, 0, out.ints, whole, at, part.extent);
    at += part.extent;
  }
  return one(std::move(out));
}

std::vector<std::int64_t> split_sizes(const Call& call, std::int64_t extent) {
  if (const auto* given = call.list("split", 1)) {
    std::int64_t total = 0;
    for (const std::int64_t s : *given) {
      call.require(s >= 0 && s <= extent - total, "split sizes that exceed the axis");
      total += s;
    }
    call.require(total == extent, "split sizes that do not add up to the axis");
    call.require(given->size() == call.node.outputs.size(), "as many split sizes as outputs are needed");
    return *given;
  }
  const auto parts = static_cast<std::int64_t>(call.node.outputs.size());
  const std::int64_t size = (extent + parts - 1) / parts;
  if (call.opset < 18) call.require(extent % parts == 0, "the axis does not divide into the outputs");
  std::vector<std::int64_t> sizes;
  for (std::int64_t left = extent, i = 0; i < parts; ++i) {
    sizes.push_back(std::min(size, left));
    left -= sizes.back();
  }
  return sizes;
}

Results split(const Call& call) {
  const Tensor& x = call.input(0);
  const std::size_t axis = call.axis(call.attribute("axis", std::int64_t{0}), x.dims.size());
  call.require(!call.node.outputs.empty(), "no outputs");
  const Around whole = around(x.dims, axis);
  Results out;
  std::int64_t at = 0;
  for (const std::int64_t size : split_sizes(call, x.dims[axis])) {
    Dims dims = x.dims;
    dims[axis] = size;
    out.push_back(call.make(x.element, dims));
    Around part = whole;
    part.extent = size;
    is_floating(x.element) ? copy_slab(x.floats, whole, at, out.back().floats, part, 0, size)
                           : copy_slab(x.ints, whole, at, out.back().ints, part, 0, size);
    at += size;
  }
  return out;
}

Results squeeze(const Call& call) {
  const Tensor& x = call.input(0);
  const auto* axes = call.list("axes", 1);
  std::vector<bool> gone(x.dims.size(), false);
  for (std::size_t i = 0; axes == nullptr && i < x.dims.size(); ++i) gone[i] = x.dims[i] == 1;
  if (axes != nullptr) {
    for (const std::int64_t a : *axes) {
      const std::size_t i = call.axis(a, x.dims.size());
      call.require(x.dims[i] == 1, "an axis whose extent is not 1");
      gone[i] = true;
    }
  }
  Dims dims;
  for (std::size_t i = 0; i < x.dims.size(); ++i)
    if (!gone[i]) dims.push_back(x.dims[i]);
  return one(with_dims(call, x, std::move(dims)));
}

Results unsqueeze(const Call& call) {
  const Tensor& x = call.input(0);
  const auto* axes = call.list("axes", 1);
  call.require(axes != nullptr, "no axes");
  call.require(axes->size() + x.dims.size() <= kMostAxes, "too many axes");
  std::vector<bool> fresh(x.dims.size() + axes->size(), false);
  for (const std::int64_t a : *axes) {
    const std::size_t i = call.axis(a, fresh.size());
    call.require(!fresh[i], "an axis stands twice");
    fresh[i] = true;
  }
  Dims dims;
  auto next = x.dims.begin();
  for (const bool f : fresh) dims.push_back(f ? 1 : *next++);
  return one(with_dims(call, x, std::move(dims)));
}

Results expand_to(const Call& call) {
  const Tensor& x = call.input(0);
  const Dims& wanted = call.ints(1).ints;
  call.size_of(wanted);
  const Dims* shapes[] = {&x.dims, &wanted};
  return one(expand(call, x, broadcast(call, shapes).dims));
}

Results tile(const Call& call) {
  const Tensor& x = call.input(0);
  const auto& repeats = call.ints(1).ints;
  call.require(repeats.size() == x.dims.size(), "not one repeat per axis");
  Dims dims = x.dims, interleaved_in, interleaved_out;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    call.require(repeats[i] >= 0 && repeats[i] <= call.limits.elements,
                 "a repeat that is negative or too large");
    if (__builtin_mul_overflow(dims[i], repeats[i], &dims[i])) call.fail("a repeat that is too large");
  }
  Tensor out = call.make(x.element, dims);
  if (out.size() == 0) return one(std::move(out));
  // [r, d] per axis; adjacent single extents keep the rank below kMostAxes.
  for (std::size_t i = 0; i < x.dims.size(); ++i) {
    if (repeats[i] != 1) {
      interleaved_in.push_back(1);
      interleaved_out.push_back(repeats[i]);
    }
    interleaved_in.push_back(x.dims[i]);
    interleaved_out.push_back(x.dims[i]);
  }
  Tensor view = x;
  view.dims = interleaved_in;
  Tensor repeated = expand(call, view, interleaved_out);
  repeated.dims = out.dims;
  return one(std::move(repeated));
}

Results shape(const Call& call) {
  const Tensor& x = call.input(0);
  const auto rank = static_cast<std::int64_t>(x.dims.size());
  const auto bound = [&](const char* key, std::int64_t otherwise) {
    const std::int64_t v = call.attribute(key, otherwise);
    return std::clamp<std::int64_t>(v < 0 ? v + rank : v, 0, rank);
  };
  const std::int64_t begin = bound("start", 0), end = std::max(begin, bound("end", rank));
  return one({Element::Int64, {end - begin}, {}, Dims(x.dims.begin() + begin, x.dims.begin() + end)});
}

Results size(const Call& call) { return one({Element::Int64, {}, {}, {call.input(0).size()}}); }

Results constant_of_shape(const Call& call) {
  const auto* value = call.node.attribute<Tensor>("value");
  Tensor out = call.make(value != nullptr ? value->element : Element::Float, call.ints(0).ints);
  if (value != nullptr) {
    call.require(value->size() == 1, "a value of more than one element");
    if (!value->floats.empty()) std::fill(out.floats.begin(), out.floats.end(), value->floats[0]);
    if (!value->ints.empty()) std::fill(out.ints.begin(), out.ints.end(), value->ints[0]);
  }
  return one(std::move(out));
}

Results range(const Call& call) {
  const Tensor &start = call.input(0), &limit = call.input(1), &delta = call.input(2);
  call.require(start.element == limit.element && start.element == delta.element, "inputs of several types");
  const double first = scalar(call, start), step = scalar(call, delta),
               distance = scalar(call, limit) - first;
  call.require(step != 0, "a step of 0");
  const std::int64_t n = std::max<std::int64_t>(0, truncate(std::ceil(distance / step)));
  Tensor out = call.make(start.element, {n});
  for (std::int64_t i = 0; i < n; ++i) {
    if (is_floating(start.element)) {
      out.floats[i] = static_cast<float>(first + static_cast<double>(i) * step);
    } else {
      out.ints[i] = wrap(start.element, truncate(first + static_cast<double>(i) * step));
    }
  }
  return one(std::move(out));
}

// Blocks of the channels to blocks of the image and back (DCR or CRD order of the channel's parts).
template <bool ToSpace>
Results depth_space(const Call& call) {
  const Tensor& x = call.input(0);
  const std::int64_t b = call.attribute("blocksize", std::int64_t{0});
  call.require(x.dims.size() == 4 && b > 0 && b < (1 << 16), "needs a shape of 4 axes and a blocksize");
  const std::int64_t n = x.dims[0], c = x.dims[1], h = x.dims[2], w = x.dims[3];
  Tensor view = x;
  if (ToSpace) {
    call.require(c % (b * b) == 0, "channels that do not divide");
    const bool crd = call.attribute("mode", "DCR") == "CRD";
    view.dims = crd ? Dims{n, c / (b * b), b, b, h, w} : Dims{n, b, b, c / (b * b), h, w};
    Tensor out = permute(
        call, view,
        crd ? std::vector<std::size_t>{0, 1, 4, 2, 5, 3} : std::vector<std::size_t>{0, 3, 4, 1, 5, 2});
    out.dims = {n, c / (b * b), h * b, w * b};
    return one(std::move(out));
  }
  call.require(h % b == 0 && w % b == 0, "extents that do not divide");
  view.dims = {n, c, h / b, b, w / b, b};
  Tensor out = permute(call, view, {0, 3, 5, 1, 2, 4});
  out.dims = {n, c * b * b, h / b, w / b};
  return one(std::move(out));
}

constexpr Operator kOperators[] = {
    {"Constant", constant},
    {"Identity", identity},
    {"Dropout", dropout},
    {"Reshape", reshape},
    {"Transpose", transpose},
    {"Flatten", flatten},
    {"Concat", concat},
    {"Split", split},
    {"Squeeze", squeeze},
    {"Unsqueeze", unsqueeze},
    {"Expand", expand_to},
    {"Tile", tile},
    {"Shape", shape},
    {"Size", size},
    {"ConstantOfShape", constant_of_shape},
    {"Range", range},
    {"DepthToSpace", depth_space<true>},
    {"SpaceToDepth", depth_space<false>},
};

}  // namespace

std::span<const Operator> shape_operators() { return kOperators; }

}  // namespace tw::onnx
