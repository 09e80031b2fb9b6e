// Composition of coordinate maps.
#include "base/error.h"
#include "tensor/traverse.h"

namespace tw::tensor {
namespace {

constexpr std::uint32_t kNone = UINT32_MAX;

[[noreturn]] void not_closed() {
  throw InternalError("compose: the composed coordinate map is not a sum of div/mod/mul terms");
}

// ((x div a.div) mod a.mod) * a.mul, then div b.div, mod b.mod, mul b.mul, as one term of x.
CoordTerm chain(const CoordTerm& a, const CoordTerm& b) {
  CoordTerm t = a;
  if (b.div != 1) {
    if (t.mul % b.div == 0) {
      t.mul /= b.div;
    } else if (b.div % t.mul == 0) {
      const std::uint32_t d = b.div / t.mul;
      if (t.mod != kNone && t.mod % d != 0) not_closed();
      if (t.mod != kNone) t.mod /= d;
      t.div *= d;
      t.mul = 1;
    } else {
      not_closed();
    }
  }
  if (b.mod != kNone) {
    if (b.mod % t.mul != 0) not_closed();
    const std::uint32_t mod = b.mod / t.mul;
    if (t.mod == kNone || (mod < t.mod && t.mod % mod == 0)) {
      t.mod = mod;
    } else if (mod < t.mod) {
      not_closed();
    }
  }
  t.mul *= b.mul;
  return t;
}

// Adds b applied to the coordinate that `inner` computes.
void substitute(CoordAxis& out, const CoordTerm& b, const CoordAxis& inner) {
  if (b.div == 1 && b.mod == kNone) {
    out.offset += inner.offset * b.mul;
    for (const CoordTerm& a : inner.terms) out.terms.push_back(chain(a, b));
    return;
  }
  if (inner.terms.empty()) {
    const std::uint32_t at = inner.offset / b.div;
    out.offset += (b.mod == kNone ? at : at % b.mod) * b.mul;
    return;
  }
  // Under a modulus, what is a multiple of it vanishes; without a division the rest stays.
  std::vector<CoordTerm> rest;
  std::uint32_t offset = inner.offset;
  for (const CoordTerm& a : inner.terms)
    if (b.div != 1 || b.mod == kNone || a.mul % b.mod != 0) rest.push_back(a);
  if (b.div == 1 && b.mod != kNone) offset %= b.mod;
  if (offset != 0 || rest.size() > 1) not_closed();
  if (rest.size() == 1) out.terms.push_back(chain(rest.front(), b));
}

}  // namespace

CoordMap compose(const CoordMap& src_of_middle, const CoordMap& middle_of_dst) {
  CoordMap map;
  for (const CoordAxis& axis : src_of_middle.axes) {
    CoordAxis out;
    out.offset = axis.offset;
    for (const CoordTerm& term : axis.terms) {
      TW_CHECK(term.axis < middle_of_dst.axes.size(), "compose: axis of the middle shape");
      substitute(out, term, middle_of_dst.axes[term.axis]);
    }
    map.axes.push_back(std::move(out));
  }
  return map;
}

}  // namespace tw::tensor
