// New nodes in the place of one. Internal to onnx/.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "onnx/facts.h"

namespace tw::onnx {

using Ints = std::vector<std::int64_t>;

// New nodes go to the end of `nodes`, with the name of `node`; values are called after its output and have
// its element type. `facts` then also knows them. `out` is where a result goes; the name that is returned is
// another one where the model has a value called so.
class Replacement {
 public:
  Replacement(const Node& node, Facts& facts, std::vector<Node>& nodes)
      : node_(node), facts_(facts), nodes_(nodes) {}
  std::string add(const char* op, std::vector<std::string> inputs, const std::string& out, const Dims& dims,
                  std::map<std::string, Attribute> attributes = {});
  std::string constant(const std::string& suffix, Tensor t);
  std::string reshape(const std::string& x, const std::string& out, const Dims& dims);
  std::string transpose(const std::string& x, const std::string& out, const Ints& perm);
  // `count` elements of an axis, from `start` on.
  std::string slice(const std::string& x, const std::string& out, std::int64_t axis, std::int64_t start,
                    std::int64_t count, std::int64_t step = 1);
  const std::string& out() const { return node_.outputs[0]; }
  std::string fresh(std::string name) const;  // that, or another one where the model has a value called so

 private:
  std::string integers(const std::string& out, const char* suffix, Ints values);

  const Node& node_;
  Facts& facts_;
  std::vector<Node>& nodes_;
};

}  // namespace tw::onnx
