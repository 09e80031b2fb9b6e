#include "ref/blas.h"

#include <cblas.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/parallel.h"
#include "ref/ref.h"

namespace tw::ref {

void set_blas_threads(unsigned threads) {
  openblas_set_num_threads(static_cast<int>(threads == 0 ? default_threads() : threads));
}

const char* missed_blas_kernels() {
#ifdef __x86_64__
  if (std::getenv("OPENBLAS_CORETYPE") != nullptr || std::string_view(openblas_get_corename()) != "Prescott")
    return nullptr;
  if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq"))
    return "SkylakeX";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
  return nullptr;
}

void sgemm(const float* a, const float* b, float* c, std::size_t m, std::size_t n, std::size_t k,
           bool b_transposed) {
  const auto size = [](std::size_t v) { return static_cast<blasint>(v); };
  cblas_sgemm(CblasRowMajor, CblasNoTrans, b_transposed ? CblasTrans : CblasNoTrans, size(m), size(n),
              size(k), 1.0F, a, size(k), b, size(b_transposed ? k : n), 0.0F, c, size(n));
}

namespace {

void add_products(const graph::Graph& graph, const std::vector<graph::Op>& ops, std::uint32_t times,
                  std::vector<Extent>& out) {
  for (const graph::Op& op : ops) {
    const auto shape = [&](std::size_t i) -> const tensor::Shape& { return graph.at(op.inputs[i]).shape; };
    if (op.kind == graph::OpKind::Gemm) {
      const tensor::Shape& y = graph.at(op.results[0]).shape;
      const std::uint32_t k = shape(0).back();
      const auto weights = static_cast<std::uint32_t>(tensor::elements(shape(1)) / k / y.back());
      const auto rows = static_cast<std::uint32_t>(tensor::elements(y) / y.back() / weights);
      out.push_back({rows, y.back(), k, times * weights, op.path});
    } else if (op.kind == graph::OpKind::Attention) {
      out.push_back({shape(0)[1], shape(1)[1], shape(0)[2], times * shape(0)[0], op.path});
      out.push_back({shape(0)[1], shape(2)[2], shape(1)[1], times * shape(0)[0], op.path});
    } else if (op.kind == graph::OpKind::Repeat) {
      const graph::Repeat& repeat = graph.repeats[op.repeat];
      add_products(graph, repeat.body, times * repeat.count, out);
    }
  }
}

// Below this many multiply-adds many equal products run one per thread, as attention heads do.
constexpr std::uint64_t kSmallProduct = 100'000'000;
constexpr std::uint32_t kRepetitions = 8;  // at most so many are run, the rest is scaled

double time_extent(const Extent& extent, unsigned threads) {
  const std::size_t m = extent.m, n = extent.n, k = extent.k;
  const bool small = m * n * k < kSmallProduct && extent.count > 1;
  const std::uint32_t runs = std::min(extent.count, kRepetitions * (small ? threads : 1));
  const std::vector<float> a(m * k, 0.5F), b(k * n, 0.25F);
  std::vector<std::vector<float>> c(small ? runs : 1, std::vector<float>(m * n));
  set_blas_threads(small ? 1 : threads);
  const auto start = std::chrono::steady_clock::now();
  if (small) {
    parallel_for(runs, 1, threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) sgemm(a.data(), b.data(), c[i].data(), m, n, k, false);
    });
  } else {
    for (std::uint32_t i = 0; i < runs; ++i) sgemm(a.data(), b.data(), c[0].data(), m, n, k, false);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return seconds.count() * extent.count / runs;
}

}  // namespace

std::vector<Extent> products(const graph::Graph& graph) {
  std::vector<Extent> out;
  add_products(graph, graph.ops, 1, out);
  return out;
}

double blas_seconds(std::span<const Extent> extents, unsigned threads) {
  if (threads == 0) threads = default_threads();
  double seconds = 0;
  for (const Extent& extent : extents) seconds += time_extent(extent, threads);
  return seconds;
}

}  // namespace tw::ref
