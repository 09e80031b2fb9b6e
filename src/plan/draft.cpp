#include "plan/draft.h"

#include <fmt/core.h>

#include "base/error.h"
#include "base/math.h"

namespace tw::plan {

Draft::Draft(const Device& d, const Options& o) : device(d), options(o), steps_(&plan.steps) {
  plan.tiles = o.tiles;
}

tensor::OwnerMap Draft::all_tiles() const { return {.rotation = 0, .domain = options.tiles, .list = {}}; }

TensorId Draft::add(const std::string& part, tensor::TensorType type, tensor::OwnerMap owners, Role role,
                    bool absolute) {
  const std::string wanted = absolute ? part : path + "/" + part;
  std::string name = wanted;
  for (int n = 2; !names_.insert(name).second; ++n) name = fmt::format("{}#{}", wanted, n);
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.type = std::move(type);
  tensor.owners = std::move(owners);
  tensor.role = role;
  plan.tensors.push_back(std::move(tensor));
  return TensorId(static_cast<std::uint32_t>(plan.tensors.size() - 1));
}

TensorId Draft::add(const std::string& part, tensor::TensorType type, Role role) {
  return add(part, std::move(type), all_tiles(), role);
}

TensorId Draft::import(const Tensor& tensor) {
  Tensor copy = tensor;
  copy.storage = {};
  names_.insert(copy.name);
  plan.tensors.push_back(std::move(copy));
  return TensorId(static_cast<std::uint32_t>(plan.tensors.size() - 1));
}

TensorId Draft::share(const std::string& part, TensorId storage) {
  const TensorId id = add(part, at(storage).type, at(storage).owners, Role::Activation);
  edit(id).storage = storage;
  return id;
}

void Draft::step(std::variant<Copy, Product, Sum, Local, Repeat> action) {
  steps_->push_back(Step{.action = std::move(action), .path = path, .checkpoint = {}});
}

void Draft::copy(TensorId dst, TensorId src, const tensor::CoordMap& map) {
  step(Copy{.dst = dst, .src = src, .map = map, .clear_padding = false, .move_padding = false});
}

void Draft::copy(TensorId dst, TensorId src) {
  copy(dst, src, tensor::identity_map(at(dst).type.shape.size()));
}

void Draft::copy_panels(TensorId dst, TensorId src) {
  const bool padded = has_padding(at(dst).type);
  step(Copy{.dst = dst,
            .src = src,
            .map = tensor::identity_map(at(dst).type.shape.size()),
            .clear_padding = padded,
            .move_padding = padded});
}

void Draft::local(Local local) { step(std::move(local)); }

void Draft::checkpoint(TensorId tensor) {
  TW_CHECK(!steps_->empty(), "no step completes " + path);
  steps_->back().checkpoint = tensor;
}

bool has_padding(const tensor::TensorType& type) {
  for (const tensor::AxisTiling& axis : type.layout.tiling.axes) {
    if (axis.padding == tensor::Padding::Reject) continue;
    const std::uint32_t per_group = type.shape[axis.axis] / axis.groups;
    const std::uint32_t multiple = axis.pad_multiple > 0 ? axis.pad_multiple : axis.block;
    if (per_group % multiple != 0 || axis.shard_multiple > 1) return true;
  }
  return false;
}

}  // namespace tw::plan
