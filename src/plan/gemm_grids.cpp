#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/math.h"
#include "kernel/kernel.h"
#include "plan/canonical.h"
#include "plan/gemm.h"

namespace tw::plan {
namespace {

using kernel::Code;
using tensor::MemoryClass;
using tensor::Precision;

struct Grid {
  std::uint32_t rows, cols, inner;     // parts
  std::uint32_t lr, lc, lk;            // largest shard: rows, 16-column blocks, K groups
  std::array<std::uint64_t, 4> score;  // compute, communication, temporary bytes, unused tiles (3.2)
};

bool dominates(const std::array<std::uint64_t, 4>& a, const std::array<std::uint64_t, 4>& b) {
  bool better = false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] > b[i]) return false;
    better = better || a[i] < b[i];
  }
  return better;
}

// Tile counts that grids may be sized for: all of them and the powers of two below (3.1).
std::vector<std::uint32_t> offered_counts(std::uint32_t tiles) {
  std::vector<std::uint32_t> counts{tiles};
  for (std::uint32_t power = 1; power < tiles; power *= 2) counts.push_back(power);
  return counts;
}

Grid scored(const GemmProblem& p, std::uint32_t rows, std::uint32_t cols, std::uint32_t inner,
            std::uint32_t tiles) {
  Grid g{.rows = rows,
         .cols = cols,
         .inner = inner,
         .lr = cd(p.rows, rows),
         .lc = cd(cd(p.cols, 16U), cols),
         .lk = cd(cd(p.inner, p.micro()), inner),
         .score = {}};
  const std::uint64_t lr = g.lr, lc = g.lc, lk = g.lk, eb = tensor::bytes_of(p.precision);
  const std::uint64_t left = p.outer * lr * lk * p.micro() * eb, right = 16 * lc * lk * p.micro() * eb;
  const std::uint64_t partial = p.outer * lr * lc * 32;
  g.score = {lc * lk * (4 * p.outer * lr + 160), lc * lk + lr * lk + lr * lc * (inner - 1),
             std::max(left + right + partial, (inner > 1 ? 4 : 2) * partial), tiles - rows * cols * inner};
  return g;
}

bool fits(const Device& device, const GemmProblem& p, const Grid& g) {
  const std::uint64_t right = 16ULL * g.lc * g.lk * p.micro() * tensor::bytes_of(p.precision);
  const std::uint64_t partial = std::uint64_t{p.outer} * g.lr * g.lc * 32;
  return g.score[2] <= data_budget(device) && right + partial <= interleaved_budget(device);
}

std::vector<Grid> frontier(const Device& device, const GemmProblem& p, std::uint32_t tiles) {
  const std::uint32_t k_groups = cd(p.inner, p.micro()), col_groups = cd(p.cols, 16U);
  std::vector<Grid> kept;
  for (std::uint32_t inner = 1; inner <= std::min(k_groups, tiles); ++inner) {
    if ((inner - 1) * cd(k_groups, inner) >= k_groups) continue;  // an all-padding last part
    std::vector<Grid> front;
    std::set<std::tuple<std::uint32_t, std::uint32_t>> seen;
    for (const std::uint32_t offered : offered_counts(tiles)) {
      for (std::uint32_t cols = 1; cols <= std::min(col_groups, offered / inner); ++cols) {
        const std::uint32_t rows = std::min(p.rows, offered / (inner * cols));
        if (rows == 0 || 2 * rows * cols * inner < offered || !seen.insert({rows, cols}).second) continue;
        const Grid g = scored(p, rows, cols, inner, tiles);
        if (!fits(device, p, g)) continue;
        if (std::ranges::any_of(front, [&](const Grid& f) { return dominates(f.score, g.score); })) continue;
        std::erase_if(front, [&](const Grid& f) { return dominates(g.score, f.score); });
        front.push_back(g);
      }
    }
    kept.insert(kept.end(), front.begin(), front.end());
  }
  return kept;
}

double exchange(double bytes, double fragments) { return std::max(bytes / 4, 3 * fragments) + 600; }

double kernel_cycles(Code code, std::array<std::uint32_t, 8> words,
                     std::span<const std::uint32_t> spec = {}) {
  return static_cast<double>(kernel::find(code)->cycles(kernel::Call{.m = words, .spec = spec}));
}

// Closed-form prices of one candidate: good enough to drop what can never be chosen.
void price(const GemmProblem& p, const Grid& g, GemmCandidate& c) {
  const std::uint64_t eb = tensor::bytes_of(p.precision);
  const std::uint32_t rows = p.outer * g.lr, width = g.lk * p.micro(), cols = 16 * g.lc;
  const std::uint64_t left = std::uint64_t{rows} * width * eb,
                      staged = c.early_cast ? 0 : 2ULL * rows * width;
  const std::uint64_t right = std::uint64_t{cols} * width * eb, partial = 2ULL * rows * cols;
  const std::uint32_t out_rows = p.outer * cd(p.rows, c.rows * c.result_rows);
  const std::uint32_t out_blocks = cd(cd(p.cols, 16U), c.cols * c.result_cols);
  const std::uint64_t result = 32ULL * out_rows * out_blocks;
  const double left_runs = c.early_cast ? double(p.outer) * g.lr * g.lk : rows;
  double fragments = left_runs + double(g.lc) * 16;
  const bool wide = c.right == MemoryClass::Interleaved;
  const std::array<std::uint32_t, 2> spec{0, wide ? 1U : 0U};
  const Code gemm = p.precision == Precision::F8 ? Code::GemmF8 : Code::GemmF16;
  c.cycles = exchange(double(c.early_cast ? left : staged), left_runs) + exchange(double(right), g.lc) +
             kernel_cycles(gemm, {0, 0, 0, rows, width, cols, 0}, spec);
  if (!c.early_cast) {
    c.cycles += p.precision == Precision::F8
                    ? kernel_cycles(Code::PackRowToF8Left, {0, 0, rows, width, width, width, 0})
                    : kernel_cycles(Code::PackRowToLeft, {0, 0, rows, width, width, width});
  }
  std::uint64_t reduce = result;
  if (c.inner > 1) {
    const double runs = double(out_blocks) * p.outer * (c.inner - 1);
    fragments += runs;
    reduce = result * (c.inner + 1);
    c.cycles += exchange(std::max(double(result) * (c.inner - 1), double(partial)), runs) +
                kernel_cycles(Code::Sum, {0, 0, 0, static_cast<std::uint32_t>(result / 2), c.inner, 0});
  }
  c.cycles += exchange(double(result), double(out_rows) * out_blocks);
  c.bytes = std::max({staged + left, left + right + partial, partial + reduce, 2 * result});
  c.row_bytes = static_cast<std::uint64_t>(36 * fragments);
}

void expand(const GemmProblem& p, const Grid& g, Policy policy, std::vector<GemmCandidate>& out) {
  GemmCandidate c{.rows = g.rows, .cols = g.cols, .inner = g.inner};
  const auto push = [&](const GemmCandidate& candidate) {
    for (const bool early : {false, true}) {
      if (early && (policy == Policy::Default || p.precision != Precision::F8)) continue;
      for (const MemoryClass right : {MemoryClass::Interleaved, MemoryClass::Standard}) {
        if (right == MemoryClass::Standard && p.precision != Precision::F8) continue;  // F16 needs wide loads
        GemmCandidate one = candidate;
        one.early_cast = early;
        one.right = right;
        price(p, g, one);
        out.push_back(one);
      }
    }
  };
  push(c);
  if (c.inner == 1) return;
  if (g.rows > 1 && g.cols > 1) {
    c.rows_fast = true;
    push(c);
    c.rows_fast = false;
  }
  const std::uint32_t col_groups = cd(p.cols, 16U);
  for (std::uint32_t rr = 1; rr <= std::min(p.rows / g.rows, g.inner); ++rr) {
    const std::uint32_t rc = std::min(g.inner / rr, col_groups / g.cols);
    if (g.inner % rr != 0 || rc == 0 || (rr == 1 && rc == 1)) continue;
    c.result_rows = rr, c.result_cols = rc;
    push(c);
  }
}

// Family B: every divisor of the tile count as columns (compiler.md 3.3). Shards are balanced in 16-column
// blocks; output blocks of 32, 64 or 128 would only make the largest one larger, one kernel call takes all
// its columns.
constexpr std::array<std::uint32_t, 4> kSteps{64, 128, 256, 512};

void price_steps(const GemmProblem& p, GemmCandidate& c) {
  const std::uint64_t eb = tensor::bytes_of(p.precision);
  const std::uint32_t rows = p.outer * cd(p.rows, c.rows), blocks = cd(cd(p.cols, 16U), c.cols),
                      cols = 16 * blocks;
  const std::uint64_t left = std::uint64_t{rows} * c.k_step * eb,
                      staged = c.early_cast ? 0 : 2ULL * rows * c.k_step;
  const std::uint64_t right = std::uint64_t{cols} * c.k_step * eb, result = 2ULL * rows * cols;
  const double groups = double(c.k_step) / p.micro(), left_runs = c.early_cast ? rows * groups : rows;
  const std::array<std::uint32_t, 2> spec{1, c.right == MemoryClass::Interleaved ? 1U : 0U};
  const bool f8 = p.precision == Precision::F8;
  double step = exchange(double(c.early_cast ? left : staged), left_runs) +
                exchange(double(right), blocks * groups) +
                kernel_cycles(f8 ? Code::GemmF8 : Code::GemmF16, {0, 0, 0, rows, c.k_step, cols, 0}, spec);
  if (!c.early_cast) {
    step += f8 ? kernel_cycles(Code::PackRowToF8Left, {0, 0, rows, c.k_step, c.k_step, c.k_step, 0})
               : kernel_cycles(Code::PackRowToLeft, {0, 0, rows, c.k_step, c.k_step, c.k_step});
  }
  const double steps = double(p.inner) / c.k_step;
  c.cycles = steps * step + exchange(double(result), double(rows) * blocks);
  c.bytes = std::max(result + left + right + staged, 2 * result);
  c.row_bytes = static_cast<std::uint64_t>(36 * steps * (left_runs + blocks * groups));
}

// Cast orders and memory classes of one grid and step.
void add_steps(const Device& device, const GemmProblem& p, GemmCandidate c, Policy policy,
               std::vector<GemmCandidate>& out) {
  const bool f8 = p.precision == Precision::F8;
  for (const bool early : {false, true}) {
    if (early && (policy == Policy::Default || !f8)) continue;
    for (const MemoryClass right : {MemoryClass::Interleaved, MemoryClass::Standard}) {
      if (right == MemoryClass::Standard && !f8) continue;  // F16 needs wide loads
      c.right = right, c.early_cast = early;
      price_steps(p, c);
      if (c.bytes <= interleaved_budget(device)) out.push_back(c);
    }
  }
}

}  // namespace

std::vector<GemmCandidate> gemm_candidates(const Device& device, const GemmProblem& problem,
                                           std::uint32_t tiles, Policy policy) {
  std::vector<GemmCandidate> candidates;
  for (const Grid& g : frontier(device, problem, tiles)) expand(problem, g, policy, candidates);
  return candidates;
}

std::vector<GemmCandidate> step_candidates(const Device& device, const GemmProblem& problem,
                                           std::uint32_t tiles, Policy policy) {
  std::vector<GemmCandidate> candidates;
  for (std::uint32_t cols = 1; cols <= std::min(tiles, cd(problem.cols, 16U)); ++cols) {
    if (tiles % cols != 0) continue;
    for (const std::uint32_t k_step : kSteps) {
      if (k_step < problem.inner)
        add_steps(device, problem,
                  {.rows = std::min(problem.rows, tiles / cols), .cols = cols, .k_step = k_step}, policy,
                  candidates);
    }
  }
  return candidates;
}

GridNeed least_need(const GemmProblem& p, std::uint32_t tiles) {
  const std::uint32_t k_groups = cd(p.inner, p.micro()), col_groups = cd(p.cols, 16U);
  const std::uint64_t eb = tensor::bytes_of(p.precision);
  GridNeed best;
  for (std::uint32_t inner = 1; inner <= std::min(k_groups, tiles); ++inner) {
    for (std::uint32_t cols = 1; cols <= std::min(col_groups, tiles / inner); ++cols) {
      const std::uint32_t rows = std::min(p.rows, tiles / (inner * cols));
      const Grid g = scored(p, rows, cols, inner, tiles);
      const std::uint64_t width = std::uint64_t{g.lk} * p.micro() * eb;
      const GridNeed need{p.outer * g.lr * width, 16 * g.lc * width,
                          std::uint64_t{p.outer} * g.lr * g.lc * 32, rows * cols * inner};
      if (best.grid_tiles == 0 || need.total() < best.total()) best = need;
    }
  }
  return best;
}

}  // namespace tw::plan
