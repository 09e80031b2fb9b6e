// The walk over the graph, one operator at a time (compiler.md 7.1). Internal to plan/.
#pragma once
#include <map>
#include <optional>
#include <span>

#include "base/progress.h"
#include "plan/convert.h"

namespace tw::plan {

class Walk {
 public:
  Walk(Draft& draft, const graph::Graph& graph, Progress& progress);
  void run();

 private:
  // What a region's operators still need of each value: index of the last operator that reads its storage.
  struct Region {
    std::vector<std::size_t> last_use;  // by value id
    std::vector<std::uint32_t> uses;    // operators and region results that name the value
    std::vector<bool> escapes;          // results of the region
    std::map<std::size_t, ValueId>
        fused_add;  // operator index of an Add -> its only consumer's result (a GELU)
  };
  tensor::Precision input_precision(ValueId id) const;
  Region analyse(std::span<const graph::Op> ops, std::span<const ValueId> results) const;
  void region(std::span<const graph::Op> ops, std::span<const ValueId> results);
  void op(const graph::Op& op, std::size_t index, const Region& region);
  void gemm(const graph::Op& op);
  void add(const graph::Op& op, std::size_t index, const Region& region);
  void gelu(const graph::Op& op);
  void layer_norm(const graph::Op& op);
  void attention(const graph::Op& op);
  void general(const graph::Op& op);
  void view(const graph::Op& op);
  void repeat(const graph::Op& op, std::size_t index, const Region& region);
  TensorId carry_in(ValueId value, std::size_t index, const Region& region, const std::string& part);
  void carry_out(const std::vector<TensorId>& carried, const std::vector<ValueId>& yields);
  void outputs();

  const Held& value(ValueId id);   // makes the home of a parameter that is read as rows
  Held general_value(ValueId id);  // the same; parameters in F32
  Held vector_parameter(ValueId id, tensor::Precision precision);
  bool is_weight(ValueId id) const;  // a parameter matrix
  TensorId weight_home(ValueId id);
  TensorId parameter(const std::string& name, const std::vector<std::string>& members,
                     tensor::TensorType type);
  std::vector<std::string> members_of(ValueId id) const;
  std::string name_of_parameter(ValueId id) const;
  void hold(ValueId id, TensorId tensor, bool owned);
  void finish(const graph::Op& op, TensorId tensor);
  void finish(const graph::Op& op, Held held);

  Draft& draft_;
  const graph::Graph& graph_;
  Progress& progress_;
  std::vector<std::optional<Held>> values_;
  std::map<ValueId, TensorId> weights_;  // matrix homes
  std::map<ValueId, Held> singles_;      // F32 homes of parameters that are read as rows
  struct Iterated {
    std::uint32_t sequence = 0, count = 0;
  };
  std::map<ValueId, Iterated> iterated_;  // body arguments bound to sequences
  std::map<ValueId, ValueId> invariant_;  // body arguments bound to outer values
  struct PendingAdd {
    ValueId x, bias;
  };
  std::map<ValueId, PendingAdd> pending_;  // Add results that a GELU fuses
};

}  // namespace tw::plan
