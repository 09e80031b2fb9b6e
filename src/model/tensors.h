// Values of a model's tensors by name: where they come from, and how many of them are kept.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "model/model.h"

namespace tw::model {

// Makes the row-major values of one tensor. Thread safe.
using TensorSource = std::function<std::vector<float>(const std::string& name)>;

// Draws host inputs and parameters (decisions.md 10); constants have their own values. Error{Usage} for other
// names.
TensorSource random_source(const Model& model, std::uint64_t seed);
// One tensor's values: the generator itself.
std::vector<float> random_tensor(const std::string& name, const tensor::Shape& shape, std::uint64_t seed);

// References to values of a source. Thread safe.
class Tensors {
 public:
  enum class Keep {
    All,    // made once; references hold as long as this
    Latest  // of each thread: a reference holds until the same thread asks for the next
  };
  explicit Tensors(TensorSource source, Keep keep = Keep::All);
  const std::vector<float>& operator()(const std::string& name);

 private:
  TensorSource source_;
  Keep keep_;
  std::mutex mutex_;
  std::map<std::string, std::vector<float>> all_;
  std::map<std::thread::id, std::vector<float>> latest_;
};

}  // namespace tw::model
