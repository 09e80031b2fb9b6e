// A Plan under construction: adds tensors and steps with unique names. Candidates are built in scratch drafts
// by the same functions that build the final plan, so what was priced is what is emitted.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "plan/build.h"
#include "plan/plan.h"
#include "target/device.h"

namespace tw::plan {

class Draft {
 public:
  Draft(const Device& device, const Options& options);
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  const Device& device;
  const Options& options;
  Plan plan;
  std::string path;  // operation that new steps belong to; prefix of new tensor names
  // Bytes of a tile that are free for one operator's operands and results; UINT64_MAX: not known yet.
  std::uint64_t operator_room = UINT64_MAX;

  std::uint32_t tiles() const { return options.tiles; }
  tensor::OwnerMap all_tiles() const;  // ordinal = tile
  const Tensor& at(TensorId id) const { return plan.at(id); }
  Tensor& edit(TensorId id) { return plan.tensors[id.value]; }

  // Named "<path>/<part>", or `part` alone when `absolute`; a repeated name gets "#2", ...
  TensorId add(const std::string& part, tensor::TensorType type, tensor::OwnerMap owners, Role role,
               bool absolute = false);
  TensorId add(const std::string& part, tensor::TensorType type, Role role);  // on all_tiles()
  TensorId import(const Tensor& tensor);  // a tensor of another draft, as an input of this one
  TensorId share(const std::string& part, TensorId storage);  // same type and storage

  void step(std::variant<Copy, Product, Sum, Local, Repeat> action);
  // Copies with padding flags worked out: clears what the copy leaves unwritten.
  void copy(TensorId dst, TensorId src, const tensor::CoordMap& map);
  void copy(TensorId dst, TensorId src);
  // A copy between panel orders whose source padding holds zeros.
  void copy_panels(TensorId dst, TensorId src);
  void local(Local local);
  void checkpoint(TensorId tensor);  // marks the last step

  void enter(std::vector<Step>* region) { steps_ = region; }
  void leave() { steps_ = &plan.steps; }
  std::vector<Step>& steps() { return *steps_; }

 private:
  std::set<std::string> names_;
  std::vector<Step>* steps_;
};

// True when some shard of the type holds padding.
bool has_padding(const tensor::TensorType& type);

}  // namespace tw::plan
