#include "plan/fuse.h"

#include <algorithm>
#include <array>
#include <optional>

#include "plan/convert.h"
#include "plan/cost.h"
#include "plan/liveness.h"

namespace tw::plan {
namespace {

using tensor::Order;
using tensor::Precision;
using tensor::TensorType;

constexpr std::size_t kTopLevel = SIZE_MAX;

// A step's place: the top level or the body of the Repeat at plan.steps[region], and the index there.
struct Place {
  std::size_t region = kTopLevel, at = 0;
};

std::vector<Step>& steps_of(Plan& plan, std::size_t region) {
  return region == kTopLevel ? plan.steps : std::get<Repeat>(plan.steps[region].action).body;
}
const std::vector<Step>& steps_of(const Plan& plan, std::size_t region) {
  return steps_of(const_cast<Plan&>(plan), region);
}

bool names(const Plan& plan, const std::vector<TensorId>& list, TensorId root) {
  return std::ranges::any_of(list, [&](TensorId id) { return plan.storage_of(id) == root; });
}
bool reads(const Plan& plan, const Step& step, TensorId root) {
  return names(plan, operands(step).reads, root);
}
bool writes(const Plan& plan, const Step& step, TensorId root) {
  return names(plan, operands(step).writes, root);
}
bool mentions(const Plan& plan, const Step& step, TensorId root) {
  if (const auto* repeat = std::get_if<Repeat>(&step.action)) {
    return std::ranges::any_of(repeat->body, [&](const Step& s) { return mentions(plan, s, root); });
  }
  return reads(plan, step, root) || writes(plan, step, root);
}
bool mentioned_between(const Plan& plan, std::size_t region, std::size_t after, std::size_t before,
                       TensorId id) {
  const std::vector<Step>& steps = steps_of(plan, region);
  const TensorId root = plan.storage_of(id);
  return std::any_of(steps.begin() + static_cast<std::ptrdiff_t>(after + 1),
                     steps.begin() + static_cast<std::ptrdiff_t>(before),
                     [&](const Step& s) { return mentions(plan, s, root); });
}
bool written_between(const Plan& plan, std::size_t region, std::size_t after, std::size_t before,
                     TensorId id) {
  const std::vector<Step>& steps = steps_of(plan, region);
  const TensorId root = plan.storage_of(id);
  return std::any_of(steps.begin() + static_cast<std::ptrdiff_t>(after + 1),
                     steps.begin() + static_cast<std::ptrdiff_t>(before), [&](const Step& s) {
                       return std::holds_alternative<Repeat>(s.action) ? mentions(plan, s, root)
                                                                       : writes(plan, s, root);
                     });
}

// Who reads the value that the step at `place` leaves in a tensor's storage: steps of its region, in order,
// and whether somebody else may (the host, another region, the next iteration).
struct Uses {
  std::vector<std::size_t> readers;
  bool escapes = false;
  bool only(std::size_t reader) const { return !escapes && readers == std::vector<std::size_t>{reader}; }
};

Uses uses_of(const Plan& plan, Place place, TensorId id) {
  Uses uses;
  const TensorId root = plan.storage_of(id);
  const std::vector<Step>& steps = steps_of(plan, place.region);
  for (std::size_t i = place.at + 1; i < steps.size(); ++i) {
    if (std::holds_alternative<Repeat>(steps[i].action) && mentions(plan, steps[i], root)) {
      uses.escapes = true;
      return uses;
    }
    if (reads(plan, steps[i], root)) uses.readers.push_back(i);
    if (writes(plan, steps[i], root)) return uses;
  }
  uses.escapes = names(plan, plan.outputs, root);
  if (place.region == kTopLevel) return uses;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    if (i != place.region && mentions(plan, plan.steps[i], root)) uses.escapes = true;
  }
  for (std::size_t i = 0; i < place.at; ++i) {
    if (mentions(plan, steps[i], root)) uses.escapes = true;
  }
  if (reads(plan, steps[place.at], root)) uses.escapes = true;
  return uses;
}

const Local* local_at(const std::vector<Step>& steps, std::size_t at, LocalKind kind) {
  const auto* local = std::get_if<Local>(&steps[at].action);
  return local != nullptr && local->kind == kind ? local : nullptr;
}

bool has_own_storage(const Plan& plan, TensorId id) {
  return !plan.at(id).storage.valid() &&
         std::ranges::none_of(plan.tensors, [&](const Tensor& t) { return t.storage == id; });
}

// F16 in Row order, one owner per element, nothing padded.
bool plain_rows(const TensorType& type) {
  return type.encoding == tensor::Encoding{} && type.layout.order.kind == Order::Row &&
         type.layout.tiling.replicas == 1 && type.layout.tiling.linear_grain == 0 && !has_padding(type);
}
bool whole_rows(const TensorType& type) {
  const auto last = static_cast<std::uint32_t>(type.shape.size() - 1);
  return std::ranges::none_of(type.layout.tiling.axes,
                              [&](const tensor::AxisTiling& a) { return a.axis == last && a.parts > 1; });
}
bool same_geometry(const Plan& plan, TensorId a, TensorId b) {
  return plan.at(a).type == plan.at(b).type && plan.at(a).owners == plan.at(b).owners;
}

// The cast of `source` (F16 rows) to F8 panels in storage of its own, if the step is one.
const Local* cast_to_panels(const Plan& plan, const std::vector<Step>& steps, std::size_t at,
                            TensorId source) {
  const Local* cast = local_at(steps, at, LocalKind::Cast);
  if (cast == nullptr || cast->inputs[0] != source || steps[at].checkpoint.valid()) return nullptr;
  const Tensor& out = plan.at(cast->outputs[0]);
  const bool panels = out.type.encoding.precision == Precision::F8 &&
                      out.type.layout.order.kind == Order::AmpLeft && out.role != Role::Output;
  return panels && has_own_storage(plan, cast->outputs[0]) ? cast : nullptr;
}

void erase_step(std::vector<Step>& steps, std::size_t at) {
  steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(at));
}

// The step of the same operation that wrote the copied value may complete it instead of the copy.
std::optional<std::size_t> completing_step(const Plan& plan, const std::vector<Step>& steps, std::size_t copy,
                                           TensorId source) {
  for (std::size_t i = copy; i-- > 0;) {
    if (!mentions(plan, steps[i], plan.storage_of(source))) continue;
    const std::vector<TensorId> written = operands(steps[i]).writes;
    const bool free = steps[i].path == steps[copy].path && !steps[i].checkpoint.valid();
    if (free && std::ranges::find(written, source) != written.end()) return i;
    return std::nullopt;
  }
  return std::nullopt;
}

// A copy of whole plain rows that keeps their coordinates.
const Copy* plain_copy(const Plan& plan, const Step& step) {
  const auto* copy = std::get_if<Copy>(&step.action);
  if (copy == nullptr || copy->map != tensor::identity_map(plan.at(copy->dst).type.shape.size()))
    return nullptr;
  const Tensor& source = plan.at(copy->src);
  return source.members.empty() && plain_rows(source.type) && whole_rows(source.type) ? copy : nullptr;
}

// cast(copy(x)) of plain rows, where the cast's panels are only copied on.
struct CopiedCast {
  std::size_t cast = 0;  // index of the cast; the copy stands at the place
  TensorId panels;       // the cast's result
  std::optional<std::size_t> completing;
};
std::optional<CopiedCast> copied_cast(const Plan& plan, Place place) {
  const std::vector<Step>& steps = steps_of(plan, place.region);
  const Copy* copy = plain_copy(plan, steps[place.at]);
  if (copy == nullptr) return {};
  const Uses copied = uses_of(plan, place, copy->dst);
  if (copied.readers.size() != 1 || copied.escapes) return {};
  CopiedCast found{.cast = copied.readers[0], .panels = {}, .completing = {}};
  const Local* cast = cast_to_panels(plan, steps, found.cast, copy->dst);
  if (cast == nullptr) return {};
  found.panels = cast->outputs[0];
  if (mentioned_between(plan, place.region, place.at, found.cast, found.panels)) return {};
  const Uses moved = uses_of(plan, {place.region, found.cast}, found.panels);
  const bool only_copied = std::ranges::all_of(
      moved.readers, [&](std::size_t i) { return std::holds_alternative<Copy>(steps[i].action); });
  if (moved.escapes || !only_copied) return {};
  found.completing = completing_step(plan, steps, place.at, copy->src);
  if (steps[place.at].checkpoint.valid() && !found.completing) return {};
  return found;
}

// Gives the completion of an operation from its last copy to the step that wrote what was copied.
void move_checkpoint(std::vector<Step>& steps, std::size_t copy, std::optional<std::size_t> completing,
                     TensorId source) {
  if (!steps[copy].checkpoint.valid()) return;
  steps[copy].checkpoint = {};
  steps[*completing].checkpoint = source;
}

// Casts x on its own owners into panels; the copy goes.
std::optional<Plan> early_cast(const Plan& plan, Place place) {
  const std::optional<CopiedCast> found = copied_cast(plan, place);
  if (!found) return {};
  Plan next = plan;
  std::vector<Step>& steps = steps_of(next, place.region);
  const TensorId x = std::get<Copy>(steps[place.at].action).src;
  const TensorType& source = plan.at(x).type;
  Tensor& out = next.tensors[found->panels.value];
  TensorType type = source;
  type.encoding = out.type.encoding;
  type.layout.order = out.type.layout.order;
  type.layout.tiling.axes.push_back(axis_tiling(static_cast<std::uint32_t>(source.shape.size() - 1), 1, 1,
                                                tensor::mu_of(Precision::F8), tensor::Padding::Zero));
  out.type = std::move(type);
  out.owners = plan.at(x).owners;
  move_checkpoint(steps, place.at, found->completing, x);
  steps[place.at] = steps[found->cast];
  std::get<Local>(steps[place.at].action).inputs = {x};
  erase_step(steps, found->cast);
  ++next.fusions.early_casts;
  return next;
}

// copy(copy(x)) of plain rows: every reader copies from x (compiler.md 4.3).
std::optional<Plan> compose_copies(const Plan& plan, Place place) {
  const std::vector<Step>& steps = steps_of(plan, place.region);
  const Copy* copy = plain_copy(plan, steps[place.at]);
  if (copy == nullptr || !plain_rows(plan.at(copy->dst).type)) return {};
  const Uses uses = uses_of(plan, place, copy->dst);
  if (uses.readers.empty() || uses.escapes) return {};
  for (const std::size_t reader : uses.readers) {
    const auto* next = std::get_if<Copy>(&steps[reader].action);
    if (next == nullptr || next->src != copy->dst || plan.storage_of(next->dst) == plan.storage_of(copy->src))
      return {};
  }
  if (written_between(plan, place.region, place.at, uses.readers.back(), copy->src)) return {};
  const std::optional<std::size_t> completing = completing_step(plan, steps, place.at, copy->src);
  if (steps[place.at].checkpoint.valid() && !completing) return {};

  Plan next = plan;
  std::vector<Step>& list = steps_of(next, place.region);
  for (const std::size_t reader : uses.readers) std::get<Copy>(list[reader].action).src = copy->src;
  move_checkpoint(list, place.at, completing, copy->src);
  erase_step(list, place.at);
  ++next.fusions.copies;
  return next;
}

// cast(kernel(x)): the kernel writes the panels.
std::optional<Plan> f8_output(const Plan& plan, Place place) {
  const std::vector<Step>& steps = steps_of(plan, place.region);
  const auto* producer = std::get_if<Local>(&steps[place.at].action);
  constexpr std::array kinds{LocalKind::Gelu, LocalKind::BiasGelu, LocalKind::LayerNorm};
  if (producer == nullptr || std::ranges::find(kinds, producer->kind) == kinds.end()) return {};
  const TensorId x = producer->inputs[0], result = producer->outputs[0];
  const TensorType& type = plan.at(x).type;
  if (!plain_rows(type) || !whole_rows(type) || type.shape.back() % 4 != 0 || !same_geometry(plan, x, result))
    return {};
  const Uses uses = uses_of(plan, place, result);
  if (uses.readers.empty() || !uses.only(uses.readers[0])) return {};
  const std::size_t reader = uses.readers[0];
  const Local* cast = cast_to_panels(plan, steps, reader, result);
  if (cast == nullptr || mentioned_between(plan, place.region, place.at, reader, cast->outputs[0])) return {};

  Plan next = plan;
  std::vector<Step>& list = steps_of(next, place.region);
  std::get<Local>(list[place.at].action).outputs = cast->outputs;
  if (list[place.at].checkpoint.valid()) list[place.at].checkpoint = cast->outputs[0];
  erase_step(list, reader);
  ++next.fusions.f8_outputs;
  return next;
}

// Statistics of whole rows: one part, on the owners of x.
TensorType statistics_type(const TensorType& x) {
  TensorType type{.shape = x.shape, .encoding = {Precision::F32, 0}, .layout = x.layout};
  type.shape.back() = 2;
  type.shape.insert(type.shape.begin(), 1);
  for (tensor::AxisTiling& axis : type.layout.tiling.axes) ++axis.axis;
  return type;
}

// layernorm(add(a, b)), nobody else reads the sum.
std::optional<Plan> add_norm(const Plan& plan, Place place, std::size_t reader) {
  const std::vector<Step>& steps = steps_of(plan, place.region);
  const auto& add = std::get<Local>(steps[place.at].action);
  for (const TensorId id : add.inputs) {
    if (written_between(plan, place.region, place.at, reader, id)) return {};
  }
  Plan next = plan;
  std::vector<Step>& list = steps_of(next, place.region);
  auto& norm = std::get<Local>(list[reader].action);
  norm.kind = LocalKind::AddLayerNorm;
  norm.inputs = {add.inputs[0], add.inputs[1], norm.inputs[1], norm.inputs[2]};
  erase_step(list, place.at);
  ++next.fusions.add_norms;
  return next;
}

// The same with the sum needed elsewhere: its moments come with it, the norm only applies them.
std::optional<Plan> add_moments(const Plan& plan, Place place, std::size_t reader) {
  const TensorId sum = std::get<Local>(steps_of(plan, place.region)[place.at].action).outputs[0];
  if (plan.at(sum).type.shape.back() % 4 != 0) return {};
  Plan next = plan;
  Tensor statistics;
  std::vector<Step>& list = steps_of(next, place.region);
  auto& norm = std::get<Local>(list[reader].action);
  statistics.name = plan.at(norm.outputs[0]).name + ".statistics";
  statistics.type = statistics_type(plan.at(sum).type);
  statistics.owners = plan.at(sum).owners;
  statistics.role = Role::Scratch;
  const TensorId id(static_cast<std::uint32_t>(next.tensors.size()));
  next.tensors.push_back(std::move(statistics));
  norm.kind = LocalKind::Apply;
  norm.inputs = {sum, id, norm.inputs[1], norm.inputs[2]};
  auto& add = std::get<Local>(list[place.at].action);
  add.kind = LocalKind::AddMoments;
  add.outputs = {sum, id};
  ++next.fusions.added_moments;
  return next;
}

// moments(add(a, b)) of column parts: the sum stays, its readers come after.
std::optional<Plan> add_part_moments(const Plan& plan, Place place, std::size_t reader) {
  const std::vector<Step>& steps = steps_of(plan, place.region);
  const TensorId statistics = std::get<Local>(steps[reader].action).outputs[0];
  if (!has_own_storage(plan, statistics) ||
      mentioned_between(plan, place.region, place.at, reader, statistics))
    return {};
  Plan next = plan;
  std::vector<Step>& list = steps_of(next, place.region);
  auto& add = std::get<Local>(list[place.at].action);
  add.kind = LocalKind::AddMoments;
  add.outputs.push_back(statistics);
  erase_step(list, reader);
  ++next.fusions.added_moments;
  return next;
}

std::optional<Plan> add_statistics(const Plan& plan, Place place) {
  const std::vector<Step>& steps = steps_of(plan, place.region);
  const Local* add = local_at(steps, place.at, LocalKind::Add);
  if (add == nullptr) return {};
  const TensorId sum = add->outputs[0];
  if (!plain_rows(plan.at(sum).type) || !same_geometry(plan, add->inputs[0], sum) ||
      !same_geometry(plan, add->inputs[1], sum))
    return {};
  const Uses uses = uses_of(plan, place, sum);
  for (const std::size_t reader : uses.readers) {
    const auto* local = std::get_if<Local>(&steps[reader].action);
    if (local == nullptr || local->inputs[0] != sum) continue;
    if (local->kind == LocalKind::Moments && !steps[reader].checkpoint.valid())
      return add_part_moments(plan, place, reader);
    if (local->kind == LocalKind::LayerNorm && plan.at(local->outputs[0]).type == plan.at(sum).type)
      return uses.only(reader) ? add_norm(plan, place, reader) : add_moments(plan, place, reader);
  }
  return {};
}

// Cycles that a call takes and what its rows cost: compiler.md 7.3 weighs a byte of the table with 16 cycles.
// The coarse estimate of the rows knows fragments only, but each source that a destination turns to takes a
// source control, a neutral one and a pointer.
double score(const Metrics& m) {
  constexpr double kCyclesPerByte = 16, kBytesPerSource = 12;
  return m.cycles + kCyclesPerByte *
                        (static_cast<double>(m.row_bytes) + kBytesPerSource * static_cast<double>(m.sources));
}

// Whether a replaces b.
bool pays(const Metrics& a, const Metrics& b) {
  return a.cycles < b.cycles && a.total_bytes <= b.total_bytes && score(a) < score(b);
}

class Fuser {
 public:
  Fuser(const Device& device, Plan plan)
      : device_(device), plan_(std::move(plan)), metrics_(estimate(device, plan_)) {}

  Plan run() {
    // Only the steps inside a Repeat change, so that its index at the top level stays until the top's turn.
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      if (std::holds_alternative<Repeat>(plan_.steps[i].action)) region(i);
    }
    region(kTopLevel);
    return std::move(plan_);
  }

 private:
  void region(std::size_t region) {
    bool changed = true;
    while (changed) {
      changed = false;
      for (std::size_t at = 0; at < steps_of(plan_, region).size(); ++at) {
        for (const auto rule : {early_cast, compose_copies, f8_output, add_statistics})
          changed |= accept(rule(plan_, {region, at}));
      }
    }
  }

  bool accept(std::optional<Plan> candidate) {
    if (!candidate) return false;
    const Metrics metrics = estimate(device_, *candidate);
    if (!pays(metrics, metrics_)) return false;
    plan_ = std::move(*candidate);
    metrics_ = metrics;
    return true;
  }

  const Device& device_;
  Plan plan_;
  Metrics metrics_;
};

template <class Fn>
void for_each_id(std::vector<Step>& steps, Fn&& fn) {
  for (Step& step : steps) {
    if (step.checkpoint.valid()) fn(step.checkpoint);
    if (auto* copy = std::get_if<Copy>(&step.action)) fn(copy->dst), fn(copy->src);
    if (auto* sum = std::get_if<Sum>(&step.action)) fn(sum->partials), fn(sum->out);
    if (auto* p = std::get_if<Product>(&step.action)) fn(p->left), fn(p->right), fn(p->out);
    if (auto* local = std::get_if<Local>(&step.action)) {
      for (TensorId& id : local->inputs) fn(id);
      for (TensorId& id : local->outputs) fn(id);
    }
    if (auto* repeat = std::get_if<Repeat>(&step.action)) for_each_id(repeat->body, fn);
  }
}

// Removes the tensors that no step names any more.
void drop_unused(Plan& plan) {
  std::vector<bool> used(plan.tensors.size(), false);
  const auto use = [&](TensorId id) {
    for (; id.valid(); id = plan.at(id).storage) used[id.value] = true;
  };
  for_each_id(plan.steps, use);
  for (const std::vector<TensorId>* list : {&plan.inputs, &plan.outputs}) std::ranges::for_each(*list, use);
  for (std::uint32_t i = 0; i < plan.tensors.size(); ++i) {
    if (plan.tensors[i].role == Role::Parameter) use(TensorId(i));
  }
  std::vector<TensorId> place(plan.tensors.size());
  std::vector<Tensor> kept;
  for (std::uint32_t i = 0; i < plan.tensors.size(); ++i) {
    if (!used[i]) continue;
    place[i] = TensorId(static_cast<std::uint32_t>(kept.size()));
    kept.push_back(std::move(plan.tensors[i]));
  }
  const auto move = [&](TensorId& id) { id = place[id.value]; };
  for (Tensor& t : kept) {
    if (t.storage.valid()) move(t.storage);
  }
  for_each_id(plan.steps, move);
  for (std::vector<TensorId>* list : {&plan.inputs, &plan.outputs}) std::ranges::for_each(*list, move);
  plan.tensors = std::move(kept);
}

}  // namespace

Plan fuse(const Device& device, Plan plan) {
  Plan fused = Fuser(device, std::move(plan)).run();
  drop_unused(fused);
  return fused;
}

}  // namespace tw::plan
