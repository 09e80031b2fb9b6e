#include "tools/inputs.h"

#include <cstring>

#include "base/error.h"
#include "import/image.h"
#include "model/tensors.h"
#include "numeric/formats.h"

namespace tw::tools {

Inputs::Inputs(const model::Model& model, const std::vector<std::filesystem::path>& files, std::uint64_t seed)
    : batch_(model.config.batch), name_(model.vision.input) {
  for (const graph::Value& v : model.graph.values) {
    if (v.kind == graph::ValueKind::Host && v.name == name_) shape_ = v.shape;
  }
  TW_CHECK(!shape_.empty(), "the model has no patches input");
  const model::Vision& vision = model.vision;
  for (const auto& file : files) {
    const import::Image full = import::load_image(file);
    const import::Image small =
        import::resize(full, vision.resize, vision.resize,
                       vision.bicubic ? import::Filter::Bicubic : import::Filter::Bilinear);
    images_.push_back(import::patches(small, vision.side, vision.patch, vision.class_row));
  }
  if (images_.empty()) random_ = model::random_tensor(name_, shape_, seed);
}

std::vector<std::size_t> Inputs::key(std::uint32_t call) const {
  std::vector<std::size_t> k;
  for (std::uint32_t b = 0; b < batch_ && !images_.empty(); ++b) {
    k.push_back((std::size_t{call} * batch_ + b) % images_.size());
  }
  return k;
}

std::vector<float> Inputs::values(std::uint32_t call) const {
  if (images_.empty()) return random_;
  std::vector<float> all;
  for (const std::size_t i : key(call)) all.insert(all.end(), images_[i].begin(), images_[i].end());
  TW_CHECK(all.size() == tensor::elements(shape_), "patches do not match the model's input");
  return all;
}

std::vector<std::uint8_t> encode_f16(const std::vector<float>& values) {
  std::vector<std::uint16_t> half(values.size());
  numeric::f32_to_f16(values, half);
  std::vector<std::uint8_t> bytes(2 * half.size());
  std::memcpy(bytes.data(), half.data(), bytes.size());
  return bytes;
}

std::vector<float> decode_f16(const std::vector<std::uint8_t>& bytes) {
  std::vector<std::uint16_t> half(bytes.size() / 2);
  std::memcpy(half.data(), bytes.data(), 2 * half.size());
  std::vector<float> values(half.size());
  numeric::f16_to_f32(half, values);
  return values;
}

}  // namespace tw::tools
