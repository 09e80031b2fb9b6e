// Matrix products.
#include <algorithm>
#include <map>

#include "base/parallel.h"
#include "onnx/call.h"
#include "ref/blas.h"

namespace tw::onnx {

namespace {

std::size_t z(std::int64_t v) { return static_cast<std::size_t>(v); }

// c[m,n] = a[m,k] b[k,n] on the BLAS, whose extents have 32 bits; k = 0 gives zeros.
void product(const Call& call, const float* a, const float* b, float* c, std::int64_t m, std::int64_t n,
             std::int64_t k, bool b_transposed) {
  call.require(std::max({m, n, k}) < (std::int64_t{1} << 31), "a matrix that is too large");
  if (m > 0 && n > 0 && k > 0) ref::sgemm(a, b, c, z(m), z(n), z(k), b_transposed);
}

void int_product(const std::int64_t* a, const std::int64_t* b, std::int64_t* c, std::int64_t m,
                 std::int64_t n, std::int64_t k) {
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t p = 0; p < k; ++p)
      for (std::int64_t j = 0; j < n; ++j)
        c[i * n + j] = static_cast<std::int64_t>(static_cast<std::uint64_t>(c[i * n + j]) +
                                                 static_cast<std::uint64_t>(a[i * k + p]) *
                                                     static_cast<std::uint64_t>(b[p * n + j]));
}

}  // namespace

// Numpy's rules: vectors get an axis that goes away again, the axes before the last two broadcast.
Tensor multiply(const Call& call, const Tensor& a, const Tensor& b) {
  call.require(a.element == b.element, "inputs of two types");
  call.require(!a.dims.empty() && !b.dims.empty(), "an input without axes");
  Dims x = a.dims, y = b.dims;
  if (a.dims.size() == 1) x.insert(x.begin(), 1);
  if (b.dims.size() == 1) y.push_back(1);
  const std::int64_t m = x[x.size() - 2], k = x.back(), n = y.back();
  if (y[y.size() - 2] != k)
    call.fail("shapes " + to_string(a.dims) + " and " + to_string(b.dims) + " do not match");
  x.resize(x.size() - 2);
  y.resize(y.size() - 2);
  const Dims* batches[] = {&x, &y};
  const Broadcast batch = broadcast(call, batches);
  Dims dims = batch.dims;
  if (a.dims.size() > 1) dims.push_back(m);
  if (b.dims.size() > 1) dims.push_back(n);
  Tensor out = call.make(a.element, dims);
  if (!call.work(static_cast<double>(out.size()) * static_cast<double>(k))) return out;
  if (!is_floating(a.element)) {
    each_row(batch, 1, [&](std::int64_t first, std::int64_t count, const std::int64_t* at) {
      for (std::int64_t i = 0; i < count; ++i)
        int_product(a.ints.data() + (at[0] + i * batch.strides[0].back()) * m * k,
                    b.ints.data() + (at[1] + i * batch.strides[1].back()) * k * n,
                    out.ints.data() + (first + i) * m * n, m, n, k);
    });
    for (std::int64_t& v : out.ints) v = wrap(a.element, v);
    return out;
  }
  ref::set_blas_threads(call.limits.threads);
  const bool one_right =
      b.dims.size() <= 2 || b.size() == k * n;  // the rows of all left matrices are one matrix
  if (one_right) {
    product(call, a.floats.data(), b.floats.data(), out.floats.data(), n == 0 ? 0 : out.size() / n, n, k,
            false);
    return out;
  }
  const bool heads = batch.size > 1 && m * n * k < 100'000'000;  // one product per thread
  std::vector<std::int64_t> from_a(z(batch.size)), from_b(z(batch.size));
  each_row(batch, 1, [&](std::int64_t first, std::int64_t count, const std::int64_t* at) {
    for (std::int64_t i = 0; i < count; ++i) {
      from_a[z(first + i)] = (at[0] + i * batch.strides[0].back()) * m * k;
      from_b[z(first + i)] = (at[1] + i * batch.strides[1].back()) * k * n;
    }
  });
  const auto some = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      product(call, a.floats.data() + from_a[i], b.floats.data() + from_b[i],
              out.floats.data() + static_cast<std::int64_t>(i) * m * n, m, n, k, false);
  };
  if (heads) {
    ref::set_blas_threads(1);
    parallel_for(z(batch.size), 1, call.limits.threads, some);
  } else {
    some(0, z(batch.size));
  }
  return out;
}

namespace {

Results matmul(const Call& call) { return one(multiply(call, call.input(0), call.input(1))); }

Results gemm(const Call& call) {
  const Tensor &x = call.floats(0), &w = call.floats(1);
  call.require(x.dims.size() == 2 && w.dims.size() == 2, "needs two matrices");
  Tensor a = call.attribute("transA", std::int64_t{0}) != 0 ? permute(call, x, {1, 0}) : x;
  const bool transposed = call.attribute("transB", std::int64_t{0}) != 0;
  const std::int64_t m = a.dims[0], k = a.dims[1], n = w.dims[transposed ? 0 : 1];
  if (w.dims[transposed ? 1 : 0] != k)
    call.fail("shapes " + to_string(x.dims) + " and " + to_string(w.dims) + " do not match");
  Tensor out = call.make(x.element, {m, n});
  if (!call.work(static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k)))
    return one(std::move(out));
  ref::set_blas_threads(call.limits.threads);
  product(call, a.floats.data(), w.floats.data(), out.floats.data(), m, n, k, transposed);
  const float alpha = call.attribute("alpha", 1.0F), beta = call.attribute("beta", 1.0F);
  if (alpha != 1.0F)
    for (float& v : out.floats) v *= alpha;
  if (call.has(2) && beta != 0.0F) {
    const Tensor c = expand(call, call.floats(2), out.dims);
    for (std::size_t i = 0; i < out.floats.size(); ++i) out.floats[i] += beta * c.floats[i];
  }
  return one(std::move(out));
}

// The labels of an equation: one string per input, and of the result. An ellipsis becomes capital letters
// that no equation may use, as many as the widest input needs.
struct Equation {
  std::vector<std::string> inputs;
  std::string output;
};

constexpr char kEllipsis = '\x01';  // labels of its axes count up from here

Equation parse(const Call& call) {
  std::string text;
  for (const char c : call.attribute("equation", "")) {
    if (c == ' ') continue;
    call.require(
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == ',' || c == '.' || c == '-' || c == '>',
        "the equation has an unknown character");
    text += c;
  }
  const std::size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow);
  Equation e;
  std::size_t at = 0;
  for (std::size_t comma; (comma = left.find(',', at)) != std::string::npos; at = comma + 1)
    e.inputs.push_back(left.substr(at, comma - at));
  e.inputs.push_back(left.substr(at));
  call.require(e.inputs.size() == call.count(), "the equation has not one term per input");
  std::size_t widest = 0;
  const auto spread = [&](std::string& term, std::size_t axes) {
    const std::size_t dots = term.find("...");
    if (dots == std::string::npos) return;
    std::string labels;
    for (std::size_t i = 0; i < axes; ++i)
      labels += static_cast<char>(kEllipsis + static_cast<int>(widest - axes + i));
    term.replace(dots, 3, labels);
  };
  std::vector<std::size_t> axes(e.inputs.size(), 0);
  for (std::size_t i = 0; i < e.inputs.size(); ++i) {
    const std::size_t rank = call.input(i).dims.size(), length = e.inputs[i].size();
    const bool dots = e.inputs[i].find("...") != std::string::npos;
    call.require(dots ? rank + 3 >= length : rank == length,
                 "a term of the equation has not one label per axis");
    axes[i] = dots ? rank + 3 - length : 0;
    widest = std::max(widest, axes[i]);
  }
  for (std::size_t i = 0; i < e.inputs.size(); ++i) spread(e.inputs[i], axes[i]);
  if (arrow != std::string::npos) {
    e.output = text.substr(arrow + 2);
    spread(e.output, widest);
  } else {
    std::map<char, int> uses;
    for (const std::string& term : e.inputs)
      for (const char c : term) ++uses[c];
    for (const auto& [c, n] : uses)
      if (n == 1 || c < 'A') e.output += c;
  }
  for (const std::string* term : {&e.output})
    call.require(term->find_first_of(".,->") == std::string::npos, "the equation is malformed");
  for (const std::string& term : e.inputs)
    call.require(term.find_first_of(".->") == std::string::npos, "the equation is malformed");
  return e;
}

// Two terms without repeated labels or broadcasting, in which every label of one alone is in the result, are
// a product: [batch, m, k] times [batch, k, n]. False: the equation is none.
bool einsum_product(const Call& call, const Equation& e, const std::map<char, std::int64_t>& extents,
                    Tensor& out) {
  if (e.inputs.size() != 2) return false;
  const auto in = [](const std::string& term, char c) { return term.find(c) != std::string::npos; };
  const auto is_plain = [&](std::size_t i) {
    for (std::size_t a = 0; a < e.inputs[i].size(); ++a) {
      const char c = e.inputs[i][a];
      if (e.inputs[i].find(c) != a || call.input(i).dims[a] != extents.at(c)) return false;
      if (!in(e.inputs[1 - i], c) && !in(e.output, c)) return false;
    }
    return true;
  };
  if (!is_plain(0) || !is_plain(1)) return false;
  std::string batch, rows, cols, summed;
  for (const char c : e.inputs[0]) (!in(e.inputs[1], c) ? rows : in(e.output, c) ? batch : summed) += c;
  for (const char c : e.inputs[1])
    if (!in(e.inputs[0], c)) cols += c;
  const auto extent_of = [&](const std::string& labels) {
    std::int64_t n = 1;
    for (const char c : labels) n *= extents.at(c);
    return n;
  };
  const auto ordered = [&](std::size_t i, const std::string& labels) {
    std::vector<std::size_t> order;
    for (const char c : labels) order.push_back(e.inputs[i].find(c));
    return permute(call, call.input(i), order);
  };
  Tensor a = ordered(0, batch + rows + summed), b = ordered(1, batch + summed + cols);
  a.dims = {extent_of(batch), extent_of(rows), extent_of(summed)};
  b.dims = {extent_of(batch), extent_of(summed), extent_of(cols)};
  Tensor product = multiply(call, a, b);
  const std::string labels = batch + rows + cols;
  product.dims.clear();
  for (const char c : labels) product.dims.push_back(extents.at(c));
  std::vector<std::size_t> order;
  for (const char c : e.output) order.push_back(labels.find(c));
  out = permute(call, product, order);
  return true;
}

// One plain loop over all labels; a product of two matrices goes to MatMul.
Results einsum(const Call& call) {
  const Equation e = parse(call);
  std::map<char, std::int64_t> extents;
  for (std::size_t i = 0; i < e.inputs.size(); ++i) {
    const Tensor& x = call.floats(i);
    for (std::size_t a = 0; a < x.dims.size(); ++a) {
      std::int64_t& extent = extents.emplace(e.inputs[i][a], x.dims[a]).first->second;
      if (extent == 1) extent = x.dims[a];
      call.require(x.dims[a] == extent || x.dims[a] == 1, "a label stands for two extents");
    }
  }
  std::string labels = e.output;
  for (std::size_t i = 0; i < labels.size(); ++i)
    call.require(extents.contains(labels[i]) && labels.find(labels[i]) == i,
                 "the equation's result is malformed");
  if (Tensor product; einsum_product(call, e, extents, product)) return one(std::move(product));
  Dims dims;
  for (const char c : labels) dims.push_back(extents[c]);
  Tensor out = call.make(call.input(0).element, dims);
  std::int64_t inner = 1;
  double work = static_cast<double>(out.size());
  for (const auto& [c, extent] : extents) {
    if (e.output.find(c) != std::string::npos) continue;
    labels += c;
    dims.push_back(extent);
    work *= static_cast<double>(extent);
    call.require(work < 0x1p62, "a sum of too many terms");
    inner *= extent;
  }
  if (!call.work(work * static_cast<double>(e.inputs.size()))) return one(std::move(out));
  std::vector<std::vector<std::int64_t>> strides(e.inputs.size(),
                                                 std::vector<std::int64_t>(labels.size(), 0));
  for (std::size_t i = 0; i < e.inputs.size(); ++i) {
    const Dims& shape = call.input(i).dims;
    const auto own = strides_of(shape);
    for (std::size_t a = 0; a < shape.size(); ++a)
      if (shape[a] != 1) strides[i][labels.find(e.inputs[i][a])] += own[a];
  }
  ranges(out.size(), inner, call.limits.threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      double sum = 0;
      for (std::int64_t s = 0; s < inner; ++s) {
        double term = 1;
        for (std::size_t i = 0; i < strides.size(); ++i) {
          std::int64_t rest = o * inner + s, at = 0;
          for (std::size_t a = labels.size(); a-- > 0;) {
            at += rest % dims[a] * strides[i][a];
            rest /= dims[a];
          }
          term *= call.input(i).floats[z(at)];
        }
        sum += term;
      }
      out.floats[z(o)] = static_cast<float>(sum);
    }
  });
  return one(std::move(out));
}

constexpr Operator kOperators[] = {
    {"MatMul", matmul},
    {"Gemm", gemm},
    {"Einsum", einsum},
};

}  // namespace

std::span<const Operator> product_operators() { return kOperators; }

}  // namespace tw::onnx
