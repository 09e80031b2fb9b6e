#include "graph/roll.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/error.h"

namespace tw::graph {
namespace {

constexpr std::size_t kLongestLayer = 512;  // operations
constexpr std::size_t kFewestProducts = 2;
// Operations that a search looks at: a second's work.
constexpr std::size_t kMostWork = 20'000'000;

// `count` layers of `length` operations from operation `start` on.
struct Run {
  std::size_t start = 0, length = 0, count = 0;
  std::size_t end() const { return start + length * count; }
};

// What an operand of a layer is.
struct Operand {
  enum class Kind : std::uint8_t { Local, Carried, Invariant, Iterated } kind = Kind::Local;
  std::size_t index = 0;  // operation of the layer; entry of the lists below
  bool operator==(const Operand&) const = default;
};
struct Carried {
  ValueId in;
  std::size_t yield = 0;  // operation of the layer
};
struct Layers {
  Run run;
  std::vector<std::vector<Operand>> operands;  // by operation of the layer
  std::vector<Carried> carried;
  std::vector<ValueId> invariant;
  std::vector<std::vector<ValueId>> iterated;
};

// A name as text and numbers, in turn.
std::vector<std::string> words(const std::string& name) {
  std::vector<std::string> out{""};
  bool digits = false;
  for (const char c : name) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (digit != digits) out.emplace_back();
    digits = digit;
    out.back() += c;
  }
  return out;
}

// "blocks.{}.mlp_{}" of "blocks.0.mlp_7" and "blocks.1.mlp_19"; the first one where more than numbers
// differs.
std::string common_name(const std::string& a, const std::string& b) {
  const std::vector<std::string> first = words(a), second = words(b);
  std::string out;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const bool number = i % 2 == 1;
    if (first.size() != second.size() || (!number && first[i] != second[i])) return a;
    out += first[i] == second[i] ? first[i] : "{}";
  }
  return out;
}

std::string unique(std::set<std::string>& names, const std::string& name) {
  std::string out = name;
  for (int n = 2; !names.insert(out).second; ++n) out = fmt::format("{}#{}", name, n);
  return out;
}

class Search {
 public:
  explicit Search(const Graph& graph) : graph_(graph), made_(graph.values.size(), kNowhere) {
    for (std::size_t i = 0; i < graph.ops.size(); ++i)
      for (const ValueId id : graph.ops[i].results) made_[id.value] = static_cast<std::ptrdiff_t>(i);
    last_.assign(graph.values.size(), -1);
    for (std::size_t i = 0; i < graph.ops.size(); ++i)
      for (const ValueId id : operands_of(graph.ops[i])) last_[id.value] = static_cast<std::ptrdiff_t>(i);
    for (const ValueId id : graph.outputs) last_[id.value] = static_cast<std::ptrdiff_t>(graph.ops.size());
    number_kinds();
    products_.push_back(0);
    for (const Op& op : graph.ops)
      products_.push_back(products_.back() + (op.kind == OpKind::Gemm && is_parameter(op.inputs[1]) ? 1 : 0));
  }

  // The run that saves most operations; of several, the one that carries least, then the first.
  std::optional<Layers> best() {
    std::optional<Layers> best;
    std::size_t saved = 0;
    std::uint64_t carries = 0;
    const std::size_t n = kind_.size();
    for (std::size_t length = 1; length <= std::min(n / 2, kLongestLayer); ++length) {
      std::size_t same = 0;  // operations from `start` on that equal those one layer later
      for (std::size_t start = n - length; start-- > 0;) {
        same = kind_[start] == kind_[start + length] ? same + 1 : 0;
        if (products_[start + length] - products_[start] < kFewestProducts) continue;
        for (std::size_t count = same / length + 1; count >= 2 && (count - 1) * length >= saved; --count) {
          if (work_ > kMostWork) return best;
          auto layers = layers_of({start, length, count});
          if (!layers) continue;
          const std::uint64_t carried = carried_elements(*layers);
          if ((count - 1) * length == saved && carried > carries) break;
          saved = (count - 1) * length;
          carries = carried;
          best = std::move(layers);
          break;
        }
      }
    }
    return best;
  }

 private:
  static constexpr std::ptrdiff_t kNowhere = -1;  // a parameter or host value

  std::vector<ValueId> operands_of(const Op& op) const {
    std::vector<ValueId> out = op.inputs;
    if (op.kind != OpKind::Repeat) return out;
    const Repeat& repeat = graph_.repeats.at(op.repeat);
    out.insert(out.end(), repeat.carried_in.begin(), repeat.carried_in.end());
    out.insert(out.end(), repeat.invariant_in.begin(), repeat.invariant_in.end());
    return out;
  }

  bool is_parameter(ValueId id) const { return graph_.at(id).kind == ValueKind::Parameter; }

  // Equal numbers: the same operation on operands of the same shapes.
  void number_kinds() {
    const auto key = [&](const Op& op) {
      std::vector<std::pair<Shape, bool>> operands;
      for (const ValueId id : op.inputs) operands.emplace_back(graph_.at(id).shape, is_parameter(id));
      return std::tuple(
          std::tuple(op.kind, op.heads, op.axis, op.start, op.length, op.step, op.unary),
          std::tuple(op.binary, op.reduction, op.shape, op.permutation, op.interleaved, op.scale, op.epsilon),
          std::move(operands));
    };
    std::map<decltype(key(Op{})), std::size_t> numbers;
    for (const Op& op : graph_.ops) {
      const std::size_t fresh = graph_.ops.size() + kind_.size();  // a Repeat equals nothing
      kind_.push_back(op.kind == OpKind::Repeat ? fresh
                                                : numbers.try_emplace(key(op), numbers.size()).first->second);
    }
  }

  std::uint64_t carried_elements(const Layers& layers) const {
    std::uint64_t sum = 0;
    for (const Carried& c : layers.carried) sum += tensor::elements(graph_.at(c.in).shape);
    return sum;
  }

  std::optional<Layers> layers_of(const Run& run) {
    Layers layers{.run = run, .operands = {}, .carried = {}, .invariant = {}, .iterated = {}};
    for (std::size_t j = 0; j < run.length; ++j) {
      work_ += run.count;
      const Op& op = graph_.ops[run.start + j];
      std::vector<Operand> operands;
      for (std::size_t k = 0; k < op.inputs.size(); ++k) {
        const auto operand = operand_of(layers, j, k);
        if (!operand) return {};
        operands.push_back(*operand);
      }
      layers.operands.push_back(std::move(operands));
    }
    const bool good = !layers.carried.empty() && one_place_each(layers) && hands_over(layers);
    return good ? std::optional(std::move(layers)) : std::nullopt;
  }

  // A parameter is a member of one sequence, or invariant.
  static bool one_place_each(const Layers& layers) {
    std::set<ValueId> seen(layers.invariant.begin(), layers.invariant.end());
    for (const std::vector<ValueId>& members : layers.iterated)
      for (const ValueId id : members)
        if (!seen.insert(id).second) return false;
    return true;
  }

  std::optional<Operand> operand_of(Layers& layers, std::size_t j, std::size_t k) const {
    const Run& run = layers.run;
    std::vector<ValueId> values;
    std::vector<std::ptrdiff_t> from;  // maker, counted from its layer's first operation
    for (std::size_t i = 0; i < run.count; ++i) {
      const std::size_t first = run.start + i * run.length;
      values.push_back(graph_.ops[first + j].inputs[k]);
      const std::ptrdiff_t made = made_[values.back().value];
      from.push_back(made == kNowhere ? kNowhere : made - static_cast<std::ptrdiff_t>(first));
    }
    const auto outside = [&](ValueId id) { return made_[id.value] < static_cast<std::ptrdiff_t>(run.start); };
    const bool equal = std::ranges::all_of(values, [&](ValueId id) { return id == values[0]; });
    if (equal && outside(values[0])) return index_of(layers.invariant, values[0], Operand::Kind::Invariant);
    if (std::ranges::all_of(values, [&](ValueId id) { return is_parameter(id); }))
      return index_of(layers.iterated, values, Operand::Kind::Iterated);
    if (std::ranges::any_of(values.begin() + 1, values.end(), [&](ValueId id) { return outside(id); }))
      return {};
    if (std::ranges::any_of(from.begin() + 1, from.end(), [&](std::ptrdiff_t f) { return f != from[1]; }))
      return {};
    if (from[1] >= 0)
      return from[0] == from[1]
                 ? std::optional(Operand{Operand::Kind::Local, static_cast<std::size_t>(from[1])})
                 : std::nullopt;
    const std::ptrdiff_t yield = from[1] + static_cast<std::ptrdiff_t>(run.length);
    if (yield < 0 || !outside(values[0]) || is_parameter(values[0])) return {};
    return carried(layers, {values[0], static_cast<std::size_t>(yield)});
  }

  template <class T>
  static Operand index_of(std::vector<T>& list, const T& entry, Operand::Kind kind) {
    const auto at = std::ranges::find(list, entry);
    const Operand out{kind, static_cast<std::size_t>(at - list.begin())};
    if (at == list.end()) list.push_back(entry);
    return out;
  }

  std::optional<Operand> carried(Layers& layers, const Carried& wanted) const {
    const ValueId result = graph_.ops[layers.run.start + wanted.yield].results[0];
    if (graph_.at(result).shape != graph_.at(wanted.in).shape) return {};
    for (std::size_t i = 0; i < layers.carried.size(); ++i) {
      const Carried& known = layers.carried[i];
      if (known.in == wanted.in && known.yield == wanted.yield) return Operand{Operand::Kind::Carried, i};
      if (known.yield == wanted.yield) return {};
    }
    layers.carried.push_back(wanted);
    return Operand{Operand::Kind::Carried, layers.carried.size() - 1};
  }

  // Behind the last layer only what it hands over is read.
  bool hands_over(const Layers& layers) const {
    const Run& run = layers.run;
    for (std::size_t i = run.start; i < run.end(); ++i) {
      const std::ptrdiff_t last = last_[graph_.ops[i].results[0].value];
      if (last < static_cast<std::ptrdiff_t>(run.end())) continue;
      const bool yields = std::ranges::any_of(
          layers.carried, [&](const Carried& c) { return i == run.end() - run.length + c.yield; });
      if (!yields) return false;
    }
    return true;
  }

  const Graph& graph_;
  std::vector<std::ptrdiff_t> made_, last_;  // by value: its operation, the last one that reads it
  std::vector<std::size_t> kind_;            // by operation
  std::vector<std::size_t> products_;        // of weights, before each operation
  std::size_t work_ = 0;                     // operations looked at
};

class Rolling {
 public:
  Rolling(const Graph& graph, const Layers& layers)
      : graph_(graph), layers_(layers), builder_(graph.model), new_(graph.values.size()) {}

  Graph run() {
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const Value& v = graph_.values[i];
      if (v.kind == ValueKind::Host) new_[i] = builder_.host(v.name, v.shape);
      if (v.kind == ValueKind::Parameter) new_[i] = builder_.parameter(v.name, v.shape);
      if (v.kind == ValueKind::Host || v.kind == ValueKind::Parameter) names_.insert(v.name);
    }
    for (const Op& op : graph_.ops) paths_.insert(op.path);
    for (const Sequence& s : graph_.sequences)
      names_.insert(s.name), builder_.sequence(s.name, renamed(s.members));
    for (std::size_t i = 0; i < layers_.run.start; ++i) copy(graph_.ops[i]);
    roll();
    for (std::size_t i = layers_.run.end(); i < graph_.ops.size(); ++i) copy(graph_.ops[i]);
    return builder_.finish(renamed(graph_.outputs));
  }

 private:
  std::vector<ValueId> renamed(const std::vector<ValueId>& ids) const {
    std::vector<ValueId> out;
    for (const ValueId id : ids) out.push_back(new_[id.value]);
    return out;
  }

  void copy(const Op& op) {
    if (op.kind != OpKind::Repeat) {
      Op same = op;
      same.inputs = renamed(op.inputs);
      new_[op.results[0].value] = builder_.append(std::move(same));
      return;
    }
    const Repeat& repeat = graph_.repeats.at(op.repeat);
    const std::vector<ValueId> arguments = builder_.begin_repeat(
        op.path, repeat.count, renamed(repeat.carried_in), renamed(repeat.invariant_in), repeat.iterated);
    for (std::size_t i = 0; i < arguments.size(); ++i) new_[repeat.arguments[i].value] = arguments[i];
    for (const Op& inner : repeat.body) copy(inner);
    const std::vector<ValueId> results = builder_.end_repeat(renamed(repeat.yields));
    for (std::size_t i = 0; i < results.size(); ++i) new_[op.results[i].value] = results[i];
  }

  const Op& op_of(std::size_t layer, std::size_t j) const {
    return graph_.ops[layers_.run.start + layer * layers_.run.length + j];
  }

  void roll() {
    std::vector<ValueId> carried, invariant = renamed(layers_.invariant);
    std::vector<std::uint32_t> iterated;
    for (const Carried& c : layers_.carried) carried.push_back(new_[c.in.value]);
    for (const std::vector<ValueId>& members : layers_.iterated)
      iterated.push_back(builder_.sequence(
          unique(names_, common_name(graph_.at(members[0]).name, graph_.at(members[1]).name)),
          renamed(members)));
    const std::vector<ValueId> arguments =
        builder_.begin_repeat(unique(paths_, "layers"), static_cast<std::uint32_t>(layers_.run.count),
                              std::move(carried), std::move(invariant), std::move(iterated));
    const std::vector<ValueId> made = body(arguments);
    std::vector<ValueId> yields;
    for (const Carried& c : layers_.carried) yields.push_back(made[c.yield]);
    const std::vector<ValueId> results = builder_.end_repeat(std::move(yields));
    for (std::size_t i = 0; i < results.size(); ++i)
      new_[op_of(layers_.run.count - 1, layers_.carried[i].yield).results[0].value] = results[i];
  }

  std::vector<ValueId> body(const std::vector<ValueId>& arguments) {
    std::set<std::string> paths;
    std::vector<ValueId> made;
    const std::size_t invariant = layers_.carried.size(), iterated = invariant + layers_.invariant.size();
    for (std::size_t j = 0; j < layers_.run.length; ++j) {
      Op op = op_of(0, j);
      op.path = unique(paths, common_name(op.path, op_of(1, j).path));
      for (std::size_t k = 0; k < op.inputs.size(); ++k) {
        const Operand& from = layers_.operands[j][k];
        op.inputs[k] = from.kind == Operand::Kind::Local       ? made[from.index]
                       : from.kind == Operand::Kind::Carried   ? arguments[from.index]
                       : from.kind == Operand::Kind::Invariant ? arguments[invariant + from.index]
                                                               : arguments[iterated + from.index];
      }
      made.push_back(builder_.append(std::move(op)));
    }
    return made;
  }

  const Graph& graph_;
  const Layers& layers_;
  Builder builder_;
  std::vector<ValueId> new_;  // by old value
  std::set<std::string> names_, paths_;
};

}  // namespace

Graph roll_layers(Graph graph) {
  while (const auto layers = Search(graph).best()) graph = Rolling(graph, *layers).run();
  return graph;
}

}  // namespace tw::graph
