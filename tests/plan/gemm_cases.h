// One dense product as a plan of its own, by a candidate of choice.
#pragma once
#include <algorithm>

#include "plan/canonical.h"
#include "plan/gemm.h"

namespace tw::plan_test {

struct GemmCase {
  std::uint32_t batch = 1, rows = 10, inner = 200, cols = 48, tiles = 32;
  tensor::Precision precision = tensor::Precision::F8;
};

inline plan::Plan emitted_gemm(const GemmCase& p, const plan::GemmCandidate& candidate) {
  const plan::Options options{
      .tiles = p.tiles, .precision = p.precision, .policy = plan::Policy::Capacity, .threads = 1};
  const Device device = c600();
  plan::Draft draft(device, options);
  draft.path = "fc";
  const TensorId x = draft.add("x", plan::canonical_type({p.batch, p.rows, p.inner}, p.tiles, options.policy),
                               draft.all_tiles(), plan::Role::Input, true);
  const TensorId w = draft.add("w",
                               plan::matrix_home(device, {p.inner, p.cols},
                                                 {p.precision, p.precision == tensor::Precision::F8 ? -4 : 0},
                                                 tensor::MemoryClass::Standard, p.tiles, 1),
                               draft.all_tiles(), plan::Role::Parameter, true);
  draft.edit(w).members = {"w"};
  const TensorId result = plan::emit_gemm(draft, plan::whole(draft, x, false), w, candidate);
  draft.edit(result).role = plan::Role::Output;
  draft.plan.inputs = {x};
  draft.plan.outputs = {result};
  return std::move(draft.plan);
}

}  // namespace tw::plan_test
