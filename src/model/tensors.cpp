#include "model/tensors.h"

#include <utility>

namespace tw::model {

Tensors::Tensors(TensorSource source, Keep keep) : source_(std::move(source)), keep_(keep) {}

const std::vector<float>& Tensors::operator()(const std::string& name) {
  if (keep_ == Keep::All) {
    std::lock_guard lock(mutex_);
    const auto found = all_.find(name);
    return found != all_.end() ? found->second : all_.emplace(name, source_(name)).first->second;
  }
  std::vector<float>* slot = nullptr;
  {
    std::lock_guard lock(mutex_);
    slot = &latest_[std::this_thread::get_id()];
  }
  std::vector<float>().swap(*slot);  // before the next one is made
  *slot = source_(name);
  return *slot;
}

}  // namespace tw::model
