// Composition of coordinate maps.
#include "base/error.h"
#include "tensor/traverse.h"

namespace tw::tensor {
namespace {

constexpr std::uint32_t kNone = UINT32_MAX;

// ((x div a.div) mod a.mod) * a.mul, then div b.div, mod b.mod, mul b.mul, as one term of x.
std::optional<CoordTerm> chain(const CoordTerm& a, const CoordTerm& b) {
  CoordTerm t = a;
  if (b.div != 1) {
    if (t.mul % b.div == 0) {
      t.mul /= b.div;
    } else if (b.div % t.mul == 0) {
      const std::uint32_t d = b.div / t.mul;
      if (t.mod != kNone && t.mod % d != 0) return {};
      if (t.mod != kNone) t.mod /= d;
      t.div *= d;
      t.mul = 1;
    } else {
      return {};
    }
  }
  if (b.mod != kNone) {
    if (b.mod % t.mul != 0) return {};
    const std::uint32_t mod = b.mod / t.mul;
    if (t.mod == kNone || (mod < t.mod && t.mod % mod == 0)) {
      t.mod = mod;
    } else if (mod < t.mod) {
      return {};
    }
  }
  t.mul *= b.mul;
  return t;
}

// Adds b applied to the coordinate that `inner` computes; false when that is no sum of terms.
bool substitute(CoordAxis& out, const CoordTerm& b, const CoordAxis& inner) {
  if (b.div == 1 && b.mod == kNone) {
    out.offset += inner.offset * b.mul;
    for (const CoordTerm& a : inner.terms) {
      const std::optional<CoordTerm> term = chain(a, b);
      if (!term) return false;
      out.terms.push_back(*term);
    }
    return true;
  }
  if (inner.terms.empty()) {
    const std::uint32_t at = inner.offset / b.div;
    out.offset += (b.mod == kNone ? at : at % b.mod) * b.mul;
    return true;
  }
  // Under a modulus, what is a multiple of it vanishes; without a division the rest stays.
  std::vector<CoordTerm> rest;
  std::uint32_t offset = inner.offset;
  for (const CoordTerm& a : inner.terms)
    if (b.div != 1 || b.mod == kNone || a.mul % b.mod != 0) rest.push_back(a);
  if (b.div == 1 && b.mod != kNone) offset %= b.mod;
  if (offset != 0 || rest.size() > 1) return false;
  if (rest.empty()) return true;
  const std::optional<CoordTerm> term = chain(rest.front(), b);
  if (term) out.terms.push_back(*term);
  return term.has_value();
}

}  // namespace

std::optional<CoordMap> try_compose(const CoordMap& src_of_middle, const CoordMap& middle_of_dst) {
  CoordMap map;
  for (const CoordAxis& axis : src_of_middle.axes) {
    CoordAxis out;
    out.offset = axis.offset;
    for (const CoordTerm& term : axis.terms) {
      TW_CHECK(term.axis < middle_of_dst.axes.size(), "compose: axis of the middle shape");
      if (!substitute(out, term, middle_of_dst.axes[term.axis])) return {};
    }
    map.axes.push_back(std::move(out));
  }
  return map;
}

CoordMap compose(const CoordMap& src_of_middle, const CoordMap& middle_of_dst) {
  const std::optional<CoordMap> map = try_compose(src_of_middle, middle_of_dst);
  TW_CHECK(map, "the composed coordinate map is not a sum of div/mod/mul terms");
  return *map;
}

}  // namespace tw::tensor
