#include <fmt/core.h>
#include <fmt/ranges.h>

#include <utility>

#include "plan/plan.h"

namespace tw::plan {
namespace {

std::string name(const Plan& plan, TensorId id) { return fmt::format("%{} {}", id.value, plan.at(id).name); }

std::string names(const Plan& plan, const std::vector<TensorId>& ids) {
  std::vector<std::string> list;
  for (const TensorId id : ids) list.push_back(name(plan, id));
  return fmt::format("{}", fmt::join(list, ", "));
}

std::string text(const tensor::CoordMap& map) {
  std::string out;
  for (const tensor::CoordAxis& axis : map.axes) {
    out += out.empty() ? "[" : ", ";
    out += fmt::format("{}", axis.offset);
    for (const tensor::CoordTerm& term : axis.terms) {
      out += fmt::format("+d{}", term.axis);
      if (term.div != 1) out += fmt::format("/{}", term.div);
      if (term.mod != UINT32_MAX) out += fmt::format("%{}", term.mod);
      if (term.mul != 1) out += fmt::format("*{}", term.mul);
    }
  }
  return out + "]";
}

std::string text(const Plan& plan, const Copy& c) {
  return fmt::format("copy {} <- {} {}{}{}", name(plan, c.dst), name(plan, c.src),
                     c.map == tensor::identity_map(plan.at(c.dst).type.shape.size()) ? "" : text(c.map),
                     c.clear_padding ? " clear" : "", c.move_padding ? " panels" : "");
}
std::string text(const Plan& plan, const Product& p) {
  return fmt::format("product {} <- {} x {}{} parts={}{}", name(plan, p.out), name(plan, p.left),
                     name(plan, p.right), p.right_transposed ? "^T" : "", p.k_parts,
                     p.accumulate ? " accumulate" : "");
}
std::string text(const Plan& plan, const Sum& s) {
  return fmt::format("sum {} <- {}", name(plan, s.out), name(plan, s.partials));
}
std::string text(const Plan& plan, const Local& l) {
  std::string out =
      fmt::format("{} {} <- {}", name_of(l.kind), names(plan, l.outputs), names(plan, l.inputs));
  if (l.epsilon != 0) out += fmt::format(" epsilon={}", l.epsilon);
  if (l.scale != 0) out += fmt::format(" scale={}", l.scale);
  if (l.split) out += " split";
  return out;
}

void print(const Plan& plan, const std::vector<Step>& steps, const std::string& indent, std::string& out) {
  for (const Step& step : steps) {
    if (const auto* repeat = std::get_if<Repeat>(&step.action)) {
      out += fmt::format("{}repeat {} {{  # {}\n", indent, repeat->count, step.path);
      print(plan, repeat->body, indent + "  ", out);
      out += indent + "}\n";
      continue;
    }
    std::string line;
    if (const auto* copy = std::get_if<Copy>(&step.action)) line = text(plan, *copy);
    if (const auto* product = std::get_if<Product>(&step.action)) line = text(plan, *product);
    if (const auto* sum = std::get_if<Sum>(&step.action)) line = text(plan, *sum);
    if (const auto* local = std::get_if<Local>(&step.action)) line = text(plan, *local);
    out += fmt::format("{}{}{}\n", indent, line, step.checkpoint.valid() ? "  # " + step.path : "");
  }
}

}  // namespace

const char* name_of(Role role) {
  switch (role) {
    case Role::Input:
      return "input";
    case Role::Parameter:
      return "parameter";
    case Role::Output:
      return "output";
    case Role::Activation:
      return "activation";
    case Role::Carried:
      return "carried";
    case Role::Operand:
      return "operand";
    case Role::Partials:
      return "partials";
    case Role::Scratch:
      return "scratch";
  }
  return "?";
}

const char* name_of(LocalKind kind) {
  switch (kind) {
    case LocalKind::Cast:
      return "cast";
    case LocalKind::Reorder:
      return "reorder";
    case LocalKind::Add:
      return "add";
    case LocalKind::Gelu:
      return "gelu";
    case LocalKind::BiasGelu:
      return "bias_gelu";
    case LocalKind::LayerNorm:
      return "layernorm";
    case LocalKind::AddLayerNorm:
      return "add_layernorm";
    case LocalKind::AddMoments:
      return "add_moments";
    case LocalKind::Moments:
      return "moments";
    case LocalKind::Apply:
      return "apply";
    case LocalKind::Softmax:
      return "softmax";
    case LocalKind::Merge:
      return "merge";
    case LocalKind::Unary:
      return "unary";
    case LocalKind::Binary:
      return "binary";
    case LocalKind::Reduce:
      return "reduce";
    case LocalKind::SoftmaxRows:
      return "softmax_rows";
    case LocalKind::NormRows:
      return "norm_rows";
    case LocalKind::Rope:
      return "rope";
    case LocalKind::Join:
      return "join";
  }
  return "?";
}

std::string print(const Plan& plan) {
  std::string out = fmt::format("plan tiles={} cycles={:.0f} tensor bytes={}\n", plan.tiles,
                                plan.estimated_cycles, plan.estimated_tensor_bytes);
  out += fmt::format("fusions copies={} early casts={} F8 outputs={} add_layernorm={} add_moments={}\n",
                     plan.fusions.copies, plan.fusions.early_casts, plan.fusions.f8_outputs,
                     plan.fusions.add_norms, plan.fusions.added_moments);
  for (std::uint32_t i = 0; i < plan.tensors.size(); ++i) {
    const Tensor& t = plan.tensors[i];
    out += fmt::format("  %{} {} {} {}", i, name_of(t.role), t.name, tensor::to_string(t.type));
    if (t.owners.rotation != 0) out += fmt::format(" rotation={}", t.owners.rotation);
    if (t.storage.valid()) out += fmt::format(" in %{}", t.storage.value);
    if (t.members.size() > 1) out += fmt::format(" members={}", t.members.size());
    out += "\n";
  }
  print(plan, plan.steps, "  ", out);
  return out;
}

}  // namespace tw::plan
