// FP32 reference of a graph on a BLAS, nothing quantised (models.md C.2), and the checks of C.3.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tw::ref {

using Host = std::function<const std::vector<float>&(const std::string&)>;
using Operands = std::vector<const std::vector<float>*>;  // row-major values of an operation's inputs

struct Options {
  unsigned threads = 0;
  // Called before each operation (Repeat bodies per iteration, else 0). An operand may be replaced by other
  // values of its shape, which must hold until the next call.
  std::function<void(const graph::Op&, std::uint32_t iteration, Operands&)> operands = {};
  // Called after each operation (Repeat bodies per iteration): (path, iteration or 0, result values).
  std::function<void(const std::string&, std::uint32_t, const std::vector<float>&)> checkpoint = {};
};
std::vector<std::vector<float>> run(const graph::Graph& graph, const Host& host, const Options& options = {});

// Minimum over embeddings (rows of length `width`) of the cosine in double; NaN when a norm is zero or a
// value is not finite.
double minimum_cosine(std::span<const float> actual, std::span<const float> expected, std::size_t width);
double max_abs_error(std::span<const float> actual, std::span<const float> expected);

// Seconds a BLAS needs for products of these extents (m, n, k, count), all threads: the yardstick of
// goals.md.
struct Extent {
  std::uint32_t m, n, k, count;
  std::string path;  // of the operation
  std::uint64_t macs() const { return std::uint64_t{m} * n * k * count; }
};
std::vector<Extent> products(const graph::Graph& graph);  // every GEMM and attention product
double blas_seconds(std::span<const Extent> extents, unsigned threads);

}  // namespace tw::ref
