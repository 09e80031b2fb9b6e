#include <algorithm>

#include "plan/cost.h"
#include "plan/price.h"

namespace tw::plan {
namespace {

class Breakdown {
 public:
  explicit Breakdown(const Plan& plan) : plan_(plan), layouts_(plan) {}

  std::vector<OperationEstimate> run() {
    region(plan_.steps, 1);
    if (!out_.empty()) out_.back().cycles += pending_;
    return std::move(out_);
  }

 private:
  void region(const std::vector<Step>& steps, double count) {
    for (const Step& step : steps) {
      if (const auto* repeat = std::get_if<Repeat>(&step.action)) {
        region(repeat->body, count * repeat->count);
        continue;
      }
      const Price price = price_of(plan_, step, layouts_);
      pending_ += count * price.local;
      if (price.exchange <= 0) continue;
      add(step.path, pending_ + count * price.exchange);
      pending_ = 0;
    }
  }

  void add(const std::string& path, double cycles) {
    auto it =
        std::find_if(out_.begin(), out_.end(), [&](const OperationEstimate& o) { return o.path == path; });
    if (it == out_.end()) it = out_.insert(out_.end(), {path, 0});
    it->cycles += cycles;
  }

  const Plan& plan_;
  Layouts layouts_;
  double pending_ = 0;
  std::vector<OperationEstimate> out_;
};

}  // namespace

std::vector<OperationEstimate> estimate_by_operation(const Plan& plan) { return Breakdown(plan).run(); }

}  // namespace tw::plan
