#include "place/search.h"

#include <algorithm>

namespace tw::place {
namespace {

// Aligned starts lo, lo + alignment, .., hi.
struct Starts {
  std::uint32_t lo, hi;
};
using Domain = std::vector<Starts>;

struct Variable {
  Domain domain;
  std::uint64_t starts = 0;  // number of starts in `domain`
  bool assigned = false;
};

class Search {
 public:
  Search(const Device& device, const Problem& problem, const Legal& legal, const Partners& partners)
      : device_(device), problem_(problem), partners_(partners) {
    const std::size_t n = problem.requests.size();
    variables_.resize(n);
    address_.resize(n);
    is_partner_.assign(n, false);
    for (std::size_t i = 0; i < n; ++i) {
      const Request& r = problem.requests[i];
      for (const Range& range : legal.of(r)) add_starts(r, range.begin, range.end, variables_[i].domain);
      variables_[i].starts = count(r, variables_[i].domain);
    }
  }

  std::optional<std::vector<std::uint32_t>> run() {
    std::vector<Frame> stack;
    for (;;) {
      if (stack.size() == variables_.size()) return address_;
      const std::uint32_t chosen = most_constrained();
      stack.push_back({chosen, candidates(chosen), 0, {}});
      variables_[chosen].assigned = true;
      while (!advance(stack.back())) {
        variables_[stack.back().request].assigned = false;
        stack.pop_back();
        if (stack.empty() || exhausted()) return std::nullopt;
        undo(stack.back());
      }
    }
  }

 private:
  struct Saved {
    std::uint32_t request;
    Domain domain;
    std::uint64_t starts;
  };
  struct Frame {
    std::uint32_t request;
    std::vector<std::uint32_t> tries;
    std::size_t next;
    std::vector<Saved> saved;  // domains that the current try changed
  };

  bool exhausted() const { return nodes_ >= kSearchNodes || operations_ >= kSearchFilterOperations; }

  static std::uint64_t count(const Request& r, const Domain& domain) {
    std::uint64_t sum = 0;
    for (const Starts& s : domain) sum += (s.hi - s.lo) / r.alignment + 1;
    return sum;
  }
  // Starts of r inside the bytes [begin, end).
  static void add_starts(const Request& r, std::uint64_t begin, std::uint64_t end, Domain& out) {
    const std::uint64_t lo = align_up(begin, r.alignment);
    if (lo + r.bytes > end) return;
    const std::uint64_t hi = (end - r.bytes) & ~(std::uint64_t{r.alignment} - 1);
    out.push_back({static_cast<std::uint32_t>(lo), static_cast<std::uint32_t>(hi)});
  }

  // Whether a is to be chosen before b (compiler.md 8.5).
  bool before(std::uint32_t a, std::uint32_t b) const {
    const Request &ra = problem_.requests[a], &rb = problem_.requests[b];
    const Variable &va = variables_[a], &vb = variables_[b];
    if ((va.starts == 0) != (vb.starts == 0)) return va.starts == 0;
    if ((ra.last == kForever) != (rb.last == kForever)) return ra.last == kForever;
    const std::uint64_t freedom_a = va.starts * ra.alignment * std::max(rb.bytes, 1u);
    const std::uint64_t freedom_b = vb.starts * rb.alignment * std::max(ra.bytes, 1u);
    if (freedom_a != freedom_b) return freedom_a < freedom_b;
    if (partners_[a].size() != partners_[b].size()) return partners_[a].size() > partners_[b].size();
    return ra.bytes > rb.bytes;
  }
  std::uint32_t most_constrained() const {
    std::uint32_t best = UINT32_MAX;
    for (std::uint32_t i = 0; i < variables_.size(); ++i)
      if (!variables_[i].assigned && (best == UINT32_MAX || before(i, best))) best = i;
    return best;
  }

  // Domain ends, and every start that begins or ends at an element boundary. Ascending.
  std::vector<std::uint32_t> candidates(std::uint32_t index) const {
    const Request& r = problem_.requests[index];
    std::vector<std::uint32_t> tries;
    for (const Starts& s : variables_[index].domain) {
      tries.push_back(s.lo);
      tries.push_back(s.hi);
      const auto try_start = [&](std::int64_t start) {
        if (start > s.lo && start < s.hi) tries.push_back(static_cast<std::uint32_t>(start));
      };
      for (std::uint64_t edge = element_span(device_, s.lo, 1).end; edge <= std::uint64_t{s.hi} + r.bytes;
           edge = element_span(device_, static_cast<std::uint32_t>(edge), 1).end) {
        try_start(static_cast<std::int64_t>(align_up(edge, r.alignment)));
        try_start((static_cast<std::int64_t>(edge) - r.bytes) & ~(std::int64_t{r.alignment} - 1));
      }
    }
    std::ranges::sort(tries);
    const auto repeated = std::ranges::unique(tries);
    tries.erase(repeated.begin(), repeated.end());
    return tries;
  }

  // Takes the next try that leaves every other domain non-empty.
  bool advance(Frame& frame) {
    while (frame.next < frame.tries.size()) {
      if (exhausted()) return false;
      ++nodes_;
      address_[frame.request] = frame.tries[frame.next++];
      if (filter(frame)) return true;
      undo(frame);
    }
    return false;
  }

  bool filter(Frame& frame) {
    const Request& r = problem_.requests[frame.request];
    const std::uint32_t begin = address_[frame.request];
    const Range bytes{begin, begin + r.bytes}, elements = element_span(device_, begin, r.bytes);
    for (std::uint32_t p : partners_[frame.request]) is_partner_[p] = true;
    bool alive = true;
    for (std::uint32_t i = 0; i < variables_.size() && alive; ++i) {
      if (variables_[i].assigned) continue;
      ++operations_;
      if (is_partner_[i])
        alive = subtract(i, elements, frame);
      else if (lifetimes_meet(r, problem_.requests[i]))
        alive = subtract(i, bytes, frame);
    }
    for (std::uint32_t p : partners_[frame.request]) is_partner_[p] = false;
    return alive;
  }

  // Removes the starts whose bytes touch `taken`; false: none is left.
  bool subtract(std::uint32_t index, Range taken, Frame& frame) {
    const Request& r = problem_.requests[index];
    Variable& v = variables_[index];
    const auto touches = [&](const Starts& s) {
      return s.lo < taken.end && std::uint64_t{s.hi} + r.bytes > taken.begin;
    };
    if (std::ranges::none_of(v.domain, touches)) return true;
    Domain left;
    left.reserve(v.domain.size() + 1);
    for (const Starts& s : v.domain) {
      if (!touches(s)) {
        left.push_back(s);
        continue;
      }
      const std::uint64_t end = std::uint64_t{s.hi} + r.bytes;
      add_starts(r, s.lo, std::min<std::uint64_t>(taken.begin, end), left);
      add_starts(r, std::max(s.lo, taken.end), end, left);
    }
    frame.saved.push_back({index, std::move(v.domain), v.starts});
    v.domain = std::move(left);
    v.starts = count(r, v.domain);
    return v.starts > 0;
  }

  void undo(Frame& frame) {
    for (Saved& s : frame.saved) {
      variables_[s.request].domain = std::move(s.domain);
      variables_[s.request].starts = s.starts;
    }
    frame.saved.clear();
  }

  const Device& device_;
  const Problem& problem_;
  const Partners& partners_;
  std::vector<Variable> variables_;
  std::vector<std::uint32_t> address_;
  std::vector<bool> is_partner_;
  std::uint32_t nodes_ = 0;
  std::uint64_t operations_ = 0;
};

}  // namespace

std::optional<std::vector<std::uint32_t>> address_search(const Device& device, const Problem& problem,
                                                         const Legal& legal, const Partners& partners) {
  return Search(device, problem, legal, partners).run();
}

}  // namespace tw::place
