#include "onnx/transposes.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.h"
#include "onnx/lower.h"
#include "onnx/net.h"
#include "onnx/replace.h"

namespace tw::onnx {
namespace {

// Axes of a value in a wanted order; kUnit: an axis of extent 1 that the value does not have. Axes that are
// not listed have extent 1.
using Order = Ints;
constexpr std::int64_t kUnit = -1;
constexpr int kDeepest = 400;  // nodes between two transposes

Dims ordered(const Dims& dims, const Order& order) {
  Dims out;
  for (const std::int64_t a : order) out.push_back(a == kUnit ? 1 : dims.at(static_cast<std::size_t>(a)));
  return out;
}

// Without moving an element: the axes longer than 1 stand in order.
bool only_names(const Dims& dims, const Order& order) {
  std::int64_t last = -1;
  for (const std::int64_t a : order) {
    if (a == kUnit || dims[static_cast<std::size_t>(a)] == 1) continue;
    if (a < last) return false;
    last = a;
  }
  return true;
}

Order long_axes(const Dims& dims) {
  Order out;
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != 1) out.push_back(static_cast<std::int64_t>(i));
  return out;
}

// Axes of a reshape's operand and result that are the same elements: [2,12] and [2,3,4] are {0},{0} and
// {1},{1,2}. Axes of extent 1 do not count.
struct Group {
  Order from, to;
};
std::vector<Group> groups_of(const Dims& from, const Dims& to) {
  const Order a = long_axes(from), b = long_axes(to);
  std::vector<Group> groups;
  for (std::size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    Group group;
    std::int64_t left = 1, right = 1;
    do {
      const bool more = group.from.empty() || left < right;
      Order& axes = more ? group.from : group.to;
      const Order& all = more ? a : b;
      std::size_t& at = more ? i : k;
      if (at == all.size()) return {};
      (more ? left : right) *= (more ? from : to)[static_cast<std::size_t>(all[at])];
      axes.push_back(all[at++]);
    } while (left != right);
    groups.push_back(std::move(group));
  }
  return groups;
}

// Axes that a reshape made of one must stay together.
std::optional<Order> through_reshape(const Dims& from, const Dims& to, const Order& order) {
  const std::vector<Group> groups = groups_of(from, to);
  Order rest, out;
  for (const std::int64_t a : order)
    if (a != kUnit && to[static_cast<std::size_t>(a)] != 1) rest.push_back(a);
  for (auto at = rest.begin(); at != rest.end();) {
    const auto group = std::ranges::find_if(groups, [&](const Group& g) { return g.to.front() == *at; });
    if (group == groups.end() || rest.end() - at < std::ssize(group->to) ||
        !std::equal(group->to.begin(), group->to.end(), at))
      return {};
    out.insert(out.end(), group->from.begin(), group->from.end());
    at += std::ssize(group->to);
  }
  return out;
}

class Cancelling {
 public:
  Cancelling(const Model& model, Facts& facts, const std::function<bool(std::size_t)>& on_device)
      : net_(model, facts), facts_(facts) {
    for (std::size_t i = 0; i < model.nodes.size(); ++i)
      if (on_device(i)) device_.insert(model.nodes[i].outputs.begin(), model.nodes[i].outputs.end());
    for (const Value& v : model.outputs) outputs_.insert(v.name);
  }

  void visit(const Node& node) {
    const auto order = order_of(node);
    if (order && device_.contains(node.outputs[0]) && !given(node.inputs[0]) &&
        possible(node.inputs[0], *order)) {
      const std::string x = source_of(make(node.inputs[0], *order, node)), out = node.outputs[0];
      const Dims dims = facts_.dims.at(out);
      if (facts_.dims.at(x) == dims && !outputs_.contains(out))
        same_[out] = x;
      else
        Replacement(node, facts_, nodes_).reshape(x, out, dims);
    } else {
      nodes_.push_back(node);
    }
  }

  std::vector<Node> take() {
    for (Node& node : nodes_)
      for (std::string& name : node.inputs)
        for (auto found = same_.find(name); found != same_.end(); found = same_.find(name))
          name = found->second;
    return std::move(nodes_);
  }

 private:
  std::optional<Order> order_of(const Node& node) const {
    if (!node.domain.empty() || node.op_type != "Transpose") return {};
    Order order(net_.dims(node.inputs[0]).size());
    std::iota(order.rbegin(), order.rend(), 0);
    const auto* perm = node.attribute<Ints>("perm");
    return perm == nullptr || perm->empty() ? order : *perm;
  }

  // What an operand of a pointwise function is asked for: its axes count from the right.
  Order aligned(const Order& order, const std::string& result, const std::string& operand) const {
    const auto shift = static_cast<std::int64_t>(net_.dims(result).size() - net_.dims(operand).size());
    Order out;
    for (const std::int64_t a : order) out.push_back(a < shift ? kUnit : a - shift);
    return out;
  }

  // The order of a transpose's or reshape's operand whose elements follow each other as in the wanted order
  // of its result.
  std::optional<Order> before(const Node& node, const Order& order) const {
    if (const auto perm = order_of(node)) {
      Order out = order;
      for (std::int64_t& a : out) a = a == kUnit ? kUnit : perm->at(static_cast<std::size_t>(a));
      return out;
    }
    if (!is_reshape(node)) return {};
    return through_reshape(net_.dims(node.inputs[0]), net_.dims(node.outputs[0]), order);
  }

  bool given(const std::string& name) const { return facts_.constant(name) || !device_.contains(name); }

  std::int64_t join_axis(const Node& node) const {
    return axis_of(number(node, "axis", 0), net_.dims(node.outputs[0]).size());
  }

  bool possible(const std::string& name, const Order& order) {
    const auto [known, fresh] = possible_.try_emplace({name, order}, false);
    if (fresh && depth_ < kDeepest) {
      ++depth_;
      known->second = can_be_made(name, order);
      --depth_;
    }
    return known->second;
  }

  bool can_be_made(const std::string& name, const Order& order) {
    if (only_names(net_.dims(name), order)) return true;
    if (given(name)) return is_floating(facts_.elements.at(name));
    const Node& node = *net_.producer(name);
    if (const auto next = before(node, order)) return possible(node.inputs[0], *next);
    if (node.domain.empty() && node.op_type == "Concat")
      return std::ranges::find(order, join_axis(node)) != order.end() &&
             std::ranges::all_of(node.inputs, [&](const auto& n) { return possible(n, order); });
    if (!is_pointwise(node)) return false;
    return std::ranges::all_of(
        node.inputs, [&](const auto& n) { return n.empty() || possible(n, aligned(order, name, n)); });
  }

  // A value with the extents ordered(dims, order).
  std::string make(const std::string& name, const Order& order, const Node& at) {
    const auto [made, fresh] = made_.try_emplace({name, order});
    if (fresh) made->second = build(name, order, at);
    return made->second;
  }

  std::string build(const std::string& name, const Order& order, const Node& at) {
    const Dims dims = net_.dims(name), wanted = ordered(dims, order);
    Replacement r(at, facts_, nodes_);
    const std::string path = r.fresh(r.out() + ".of" + std::to_string(made_.size()));
    if (facts_.constant(name)) return turned_constant(name, order, r, path);
    if (only_names(dims, order)) return reshaped(name, wanted, r, path);
    if (given(name)) return turned(name, order, r, path);
    const Node& node = *net_.producer(name);
    if (const auto next = before(node, order))
      return reshaped(make(node.inputs[0], *next, at), wanted, r, path);
    Node copy = node;
    const bool join = node.op_type == "Concat";
    for (std::string& input : copy.inputs)
      if (!input.empty()) input = make(input, join ? order : aligned(order, name, input), at);
    copy.outputs = {path};
    if (join) copy.attributes["axis"] = std::ranges::find(order, join_axis(node)) - order.begin();
    append(nodes_, facts_, std::move(copy), wanted);
    facts_.elements[path] = facts_.elements.at(name);
    return path;
  }

  // One reshape instead of several in a row, none where they undo each other.
  const std::string& source_of(const std::string& name) const {
    const auto found = reshaped_.find(name);
    return found == reshaped_.end() ? name : found->second;
  }
  std::string reshaped(const std::string& name, const Dims& wanted, Replacement& r, const std::string& path) {
    const std::string x = source_of(name);
    if (facts_.dims.at(x) == wanted) return x;
    const std::string made = r.reshape(x, path, wanted);
    reshaped_[made] = x;
    return made;
  }

  std::string turned(const std::string& name, const Order& order, Replacement& r, const std::string& path) {
    const Dims dims = net_.dims(name);
    Ints perm;
    for (std::size_t a = 0; a < dims.size(); ++a)  // axes of extent 1 first
      if (std::ranges::find(order, static_cast<std::int64_t>(a)) == order.end())
        perm.push_back(static_cast<std::int64_t>(a));
    std::ranges::copy_if(order, std::back_inserter(perm), [](std::int64_t a) { return a != kUnit; });
    return r.reshape(r.transpose(name, path + ".turned", perm), path, ordered(dims, order));
  }

  std::string turned_constant(const std::string& name, const Order& order, Replacement& r,
                              const std::string& path) {
    const Tensor& x = facts_.constants.at(name);
    Tensor out = x;
    out.dims = ordered(x.dims, order);
    Ints steps(x.dims.size(), 1);
    for (std::size_t a = x.dims.size(); a-- > 1;) steps[a - 1] = steps[a] * x.dims[a];
    Ints index(order.size(), 0);
    for (std::size_t i = 0; i < x.floats.size(); ++i) {
      std::int64_t from = 0;
      for (std::size_t a = 0; a < order.size(); ++a)
        if (order[a] != kUnit) from += index[a] * steps[static_cast<std::size_t>(order[a])];
      out.floats[i] = x.floats[static_cast<std::size_t>(from)];
      for (std::size_t a = order.size(); a-- > 0;) {
        if (++index[a] < out.dims[a]) break;
        index[a] = 0;
      }
    }
    return r.constant(path.substr(r.out().size()), std::move(out));
  }

  Net net_;
  Facts& facts_;
  std::vector<Node> nodes_;
  int depth_ = 0;
  std::set<std::string> device_, outputs_;
  std::map<std::string, std::string> reshaped_;  // made here: of what
  std::map<std::string, std::string> same_;      // results that are a value that there is
  std::map<std::pair<std::string, Order>, bool> possible_;
  std::map<std::pair<std::string, Order>, std::string> made_;
};

}  // namespace

void cancel_transposes(Model& model, Facts& facts, const std::function<bool(std::size_t)>& on_device) {
  Cancelling cancelling(model, facts, on_device);
  for (const Node& node : model.nodes) cancelling.visit(node);
  model.nodes = cancelling.take();
  drop_dead(model);
}

}  // namespace tw::onnx
