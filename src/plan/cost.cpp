#include "plan/cost.h"

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "plan/liveness.h"
#include "plan/price.h"

namespace tw::plan {
namespace {

constexpr std::uint64_t kAlignment = 8;

// One region's timeline (compiler.md 5.6): work before the first barrier and after the last one is kept per
// tile, so that neighbouring regions overlap there.
struct Timeline {
  explicit Timeline(std::uint32_t tiles) : prefix(tiles, 0), tail(tiles, 0) {}
  std::vector<double> prefix, tail;
  double middle = 0;
  bool synchronised = false;

  void work(const Tensor& where, double cycles) {
    std::vector<double>& lane = synchronised ? tail : prefix;
    for (std::uint32_t o = 0; o < where.type.layout.tiling.tile_count; ++o) {
      lane[where.owners.tile_of(o)] += cycles;
    }
  }
  void barrier(double cycles) {
    if (synchronised) middle += *std::ranges::max_element(tail);
    middle += cycles;
    synchronised = true;
    std::ranges::fill(tail, 0.0);
  }
  void repeat(const Timeline& body, std::uint32_t count) {
    std::vector<double>& lane = synchronised ? tail : prefix;
    for (std::size_t t = 0; t < lane.size(); ++t) lane[t] += body.prefix[t] * (body.synchronised ? 1 : count);
    if (!body.synchronised) return;
    double between = 0;
    for (std::size_t t = 0; t < tail.size(); ++t) between = std::max(between, body.tail[t] + body.prefix[t]);
    barrier(body.middle + (count - 1) * (between + body.middle));
    tail = body.tail;
  }
  double total() const {
    return *std::ranges::max_element(prefix) + middle + *std::ranges::max_element(tail);
  }
};

struct Walked {
  std::uint64_t rows = 0;     // bytes of exchange rows, coarse (6.1)
  std::uint64_t sources = 0;  // of the copies' destinations
};

void compose(const Plan& plan, const std::vector<Step>& steps, Layouts& layouts, Timeline& line,
             Walked& walked) {
  for (const Step& step : steps) {
    if (const auto* repeat = std::get_if<Repeat>(&step.action)) {
      Timeline body(plan.tiles);
      compose(plan, repeat->body, layouts, body, walked);
      line.repeat(body, repeat->count);
      continue;
    }
    const Price price = price_of(plan, step, layouts);
    if (price.phases > 0) line.barrier(price.exchange);
    line.work(plan.at(price.where), price.local);
    walked.rows += 4 * (price.phases + 9 * price.fragments);
    walked.sources += price.sources;
  }
}

// Temporary bytes of a step on an owner of its output (Standard): a Sum receives the parts that are
// elsewhere.
std::uint64_t scratch_bytes(const Plan& plan, const Step& step, Layouts& layouts) {
  if (const auto* sum = std::get_if<Sum>(&step.action)) {
    return layouts(sum->out).max_shard_bytes() * plan.at(sum->partials).type.shape[0];
  }
  if (const auto* local = std::get_if<Local>(&step.action)) {
    if (local->kind == LocalKind::Softmax && local->split) {
      return 24ULL * shard_size(layouts(local->inputs[0])).rows;
    }
  }
  return 0;
}

class Memory {
 public:
  Memory(const Plan& plan, Layouts& layouts, bool exact)
      : plan_(plan),
        layouts_(layouts),
        exact_(exact),
        standard_(plan.tiles, 0),
        interleaved_(plan.tiles, 0) {}

  Metrics walk() {
    const std::vector<FlatStep> steps = flatten(plan_);
    const std::vector<Interval> live = intervals(plan_, steps);
    tails_ = access_tails(plan_, steps);
    std::vector<std::vector<std::uint32_t>> starts(steps.size() + 1), ends(steps.size() + 1);
    for (std::uint32_t i = 0; i < live.size(); ++i) {
      if (!live[i].used()) continue;
      starts[live[i].first].push_back(i);
      ends[std::min<std::size_t>(live[i].last, steps.size())].push_back(i);
    }
    for (std::uint32_t at = 0; at < steps.size(); ++at) {
      for (const std::uint32_t i : starts[at]) add(i, 1, at);
      const std::uint64_t scratch = scratch_bytes(plan_, *steps[at].step, layouts_);
      if (scratch > 0) add_scratch(operands(*steps[at].step).writes.at(0), scratch, at);
      for (const std::uint32_t i : ends[at]) add(i, -1, at);
    }
    return metrics_;
  }

 private:
  void add(std::uint32_t index, int sign, std::uint32_t at) {
    const Tensor& tensor = plan_.tensors[index];
    const tensor::ResolvedLayout& layout = layouts_(TensorId(index));
    const bool wide = tensor.type.layout.memory == tensor::MemoryClass::Interleaved;
    const std::uint64_t copies = std::max<std::size_t>(1, tensor.members.size());
    const std::uint64_t largest = up(layout.max_shard_bytes() + tails_[index], kAlignment) * copies;
    if (!wide) metrics_.max_standard_allocation = std::max(metrics_.max_standard_allocation, largest);
    for (std::uint32_t o = 0; o < layout.owners(); ++o) {
      const std::uint64_t bytes =
          exact_ ? up(layout.shard_bytes(o) + tails_[index], kAlignment) * copies : largest;
      const std::uint32_t tile = tensor.owners.tile_of(o);
      std::uint64_t& slot = (wide ? interleaved_ : standard_)[tile];
      slot = sign > 0 ? slot + bytes : slot - bytes;
      if (sign > 0) note(tile, 0, at);
    }
  }
  void add_scratch(TensorId out, std::uint64_t bytes, std::uint32_t at) {
    metrics_.max_standard_allocation = std::max(metrics_.max_standard_allocation, bytes);
    const Tensor& tensor = plan_.at(out);
    for (std::uint32_t o = 0; o < tensor.type.layout.tiling.tile_count; ++o) {
      note(tensor.owners.tile_of(o), bytes, at);
    }
  }
  void note(std::uint32_t tile, std::uint64_t scratch, std::uint32_t at) {
    const std::uint64_t standard = standard_[tile] + scratch, total = standard + interleaved_[tile];
    metrics_.standard_bytes = std::max(metrics_.standard_bytes, standard);
    metrics_.interleaved_bytes = std::max(metrics_.interleaved_bytes, interleaved_[tile]);
    if (total <= metrics_.total_bytes) return;
    metrics_.total_bytes = total;
    metrics_.peak_tile = tile;
    metrics_.peak_step = at;
  }

  const Plan& plan_;
  Layouts& layouts_;
  bool exact_;
  std::vector<std::uint64_t> standard_, interleaved_;
  std::vector<std::uint32_t> tails_;
  Metrics metrics_;
};

Metrics measure(const Plan& plan, bool exact) {
  Layouts layouts(plan);
  Metrics metrics = Memory(plan, layouts, exact).walk();
  Timeline line(plan.tiles);
  Walked walked;
  compose(plan, plan.steps, layouts, line, walked);
  metrics.cycles = line.total();
  metrics.row_bytes = walked.rows;
  metrics.sources = walked.sources;
  return metrics;
}

}  // namespace

Metrics estimate(const Device&, const Plan& plan) { return measure(plan, true); }
Metrics estimate_quickly(const Plan& plan) { return measure(plan, false); }

}  // namespace tw::plan
