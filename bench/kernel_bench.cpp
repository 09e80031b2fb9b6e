// Speed of the host functions on shapes of the models, one SRAM image per thread. `rate` is multiply-adds per
// second of the matrix products, elements per second of the others. SGEMM (OpenBLAS) is the yardstick.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "kernel/kernel.h"
#include "numeric/formats.h"

#if __has_include(<cblas.h>)
#include <cblas.h>
#define TW_BENCH_SGEMM 1
#endif

namespace {

using namespace tw;

constexpr std::uint32_t kBase = 0x4C000, kBytes = 0xE8000 - kBase;

// Every half of the image is a moderate number, every byte a finite F143 code.
std::vector<std::uint8_t> image() {
  std::vector<std::uint8_t> bytes(kBytes);
  std::mt19937 rng(1);
  std::normal_distribution<float> normal(0, 1);
  for (std::size_t i = 0; i < kBytes; i += 2) {
    std::uint16_t h = numeric::f32_to_f16(normal(rng));
    if ((h & 0xFF) == 0x80) h ^= 1;
    if ((h >> 8) == 0x80) h ^= 0x100;
    std::memcpy(&bytes[i], &h, 2);
  }
  return bytes;
}

void repeat(benchmark::State& state, kernel::Code code, std::vector<std::uint32_t> m,
            const std::vector<std::uint32_t>& spec, double work) {
  std::vector<std::uint8_t> sram = image();
  const kernel::Kernel& k = *kernel::find(code);
  kernel::Call call;
  std::ranges::copy(m, call.m.begin());
  call.spec = spec;
  if (const std::string problem = k.validate(call); !problem.empty()) state.SkipWithError(problem.c_str());
  for (auto _ : state) {
    kernel::Effects effects;
    k.run(sram.data(), kBase, call, effects);
    benchmark::DoNotOptimize(effects);
  }
  state.counters["rate"] =
      benchmark::Counter(work * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

void gemm(benchmark::State& state, kernel::Code code) {
  const auto rows = static_cast<std::uint32_t>(state.range(0)),
             k = static_cast<std::uint32_t>(state.range(1)),
             columns = static_cast<std::uint32_t>(state.range(2));
  repeat(state, code, {0x58800, 0x70000, 0xA8000, rows, k, columns, code == kernel::Code::GemmF8 ? 56U : 0U},
         {0, 1}, 1.0 * rows * k * columns);
}
void shapes(benchmark::internal::Benchmark* b) {
  for (const auto& shape : {std::vector<std::int64_t>{8, 768, 64},
                            {16, 384, 192},
                            {32, 128, 128},
                            {82, 192, 160},
                            {122, 160, 128},
                            {160, 384, 64},
                            {160, 128, 192}})
    b->Args(shape);
  b->ArgNames({"rows", "k", "columns"})->UseRealTime()->Threads(1)->Threads(2);
}
BENCHMARK_CAPTURE(gemm, f8, kernel::Code::GemmF8)->Apply(shapes);
BENCHMARK_CAPTURE(gemm, f16, kernel::Code::GemmF16)->Apply(shapes);

#ifdef TW_BENCH_SGEMM
void sgemm(benchmark::State& state) {
  const auto rows = static_cast<int>(state.range(0)), k = static_cast<int>(state.range(1)),
             columns = static_cast<int>(state.range(2));
  openblas_set_num_threads(1);
  const std::vector<float> a(static_cast<std::size_t>(rows) * k, 1),
      b(static_cast<std::size_t>(k) * columns, 1);
  std::vector<float> c(static_cast<std::size_t>(rows) * columns);
  for (auto _ : state) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, columns, k, 1, a.data(), k, b.data(),
                columns, 0, c.data(), columns);
    benchmark::ClobberMemory();
  }
  state.counters["rate"] = benchmark::Counter(
      1.0 * rows * k * columns * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(sgemm)->Apply(shapes);
#endif

// One tile's share of a SigLIP layer: 7 query rows of 729 keys, 729 rows of 1152, and so on.
void other(benchmark::State& state, kernel::Code code, std::vector<std::uint32_t> m,
           std::vector<std::uint32_t> spec, double work) {
  repeat(state, code, std::move(m), spec, work);
}
using kernel::Code;
using Words = std::vector<std::uint32_t>;
BENCHMARK_CAPTURE(other, softmax, Code::Softmax, Words{0x60000, 0x70000, 0x90000, 7, 729, 768, 1, 0x91000},
                  Words{0x2F8B}, 7.0 * 729);
BENCHMARK_CAPTURE(other, merge, Code::Merge, Words{0x60000, 0x70000, 0x90000, 0, 7, 72, 80}, Words{3},
                  7.0 * 72);
BENCHMARK_CAPTURE(other, gelu, Code::Gelu, Words{0x60000, 0x70000, 4304}, Words{}, 4304.0);
BENCHMARK_CAPTURE(other, bias_gelu, Code::BiasGelu, Words{0x60000, 0x70000, 0x90000, 1, 4304}, Words{},
                  4304.0);
BENCHMARK_CAPTURE(other, layer_norm, Code::LayerNorm, Words{0x60000, 0x70000, 0x90000, 0x92000, 1, 1152},
                  Words{0x358637BD}, 1152.0);
BENCHMARK_CAPTURE(other, add, Code::Add, Words{0x60000, 0x70000, 0x90000, 1152, 1152}, Words{}, 1152.0);
BENCHMARK_CAPTURE(other, sum, Code::Sum, Words{0x60000, 0x70000, 0x90000, 2208, 4, 1}, Words{}, 4.0 * 2208);
BENCHMARK_CAPTURE(other, cast_f16_to_f8, Code::CastF16ToF8, Words{0x60000, 0x70000, 8320, 60}, Words{},
                  8320.0);
BENCHMARK_CAPTURE(other, repack_f8_left, Code::RepackF8Left, Words{0x60000, 0x70000, 82, 192, 192, 60},
                  Words{}, 82.0 * 192);
BENCHMARK_CAPTURE(other, pack_row_to_block, Code::PackRowToBlock,
                  Words{0x60000, 0x70000, 64, 72, 72, 64, 80, 64}, Words{}, 64.0 * 80);
BENCHMARK_CAPTURE(other, unpack_left, Code::UnpackLeft, Words{0x60000, 0x70000, 7, 80, 72, 72}, Words{},
                  7.0 * 72);

}  // namespace

BENCHMARK_MAIN();
