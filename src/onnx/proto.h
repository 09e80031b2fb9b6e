// Shared by the files that see protobuf: tensors of a file with their raw or external data.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "onnx/model.h"

namespace onnx {
class TensorProto;
}

namespace tw::onnx {

class TensorReader {
 public:
  // External data stands below folder.
  TensorReader(std::filesystem::path folder, std::vector<std::string>& problems)
      : folder_(std::move(folder)), problems_(&problems) {}

  // Takes the data out of proto, so that it is not held twice. `what` names the tensor in problems; nothing:
  // there was one.
  std::optional<Tensor> read(::onnx::TensorProto& proto, const std::string& what);

 private:
  std::optional<std::string> external(const ::onnx::TensorProto& proto, std::uint64_t bytes,
                                      const std::string& what);
  std::optional<std::string> read_range(const std::string& location, std::uint64_t offset,
                                        std::uint64_t bytes, const std::string& what);
  void problem(const std::string& text) { problems_->push_back(text); }

  std::filesystem::path folder_;
  std::vector<std::string>* problems_;
  std::map<std::string, std::uint64_t> file_bytes_;  // of the external files seen
  std::uint64_t external_read_ = 0;
};

}  // namespace tw::onnx
