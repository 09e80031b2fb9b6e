#include "import/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/parallel.h"
#include "import/problems.h"

namespace tw::import {
namespace {

// Tensors that a model asks for: their shape and the first parameter that needs them.
struct Need {
  std::vector<std::uint64_t> shape;
  std::string parameter;
};
std::map<std::string, Need> needs_of(const Weights& weights) {
  std::map<std::string, Need> needs;
  for (const auto& [parameter, source] : weights.sources) {
    for (const Piece& piece : source.pieces) needs.try_emplace(piece.tensor, Need{piece.shape, parameter});
    // A class token is a vector, alone or with leading ones.
    if (!source.class_token.empty())
      needs.try_emplace(source.class_token, Need{{weights.shapes.at(parameter).back()}, parameter});
  }
  return needs;
}

bool same_shape(const std::vector<std::uint64_t>& stored, const std::vector<std::uint64_t>& wanted) {
  if (wanted.size() > 1) return stored == wanted;
  const std::size_t ones = stored.size() - std::min<std::size_t>(stored.size(), 1);
  return !stored.empty() && stored.back() == wanted.back() &&
         std::all_of(stored.begin(), stored.begin() + static_cast<std::ptrdiff_t>(ones),
                     [](std::uint64_t extent) { return extent == 1; });
}

const StoredTensor* find(const Checkpoint& checkpoint, const std::string& name) {
  const auto found = checkpoint.tensors.find(name);
  return found == checkpoint.tensors.end() ? nullptr : &checkpoint.at(found->second);
}

std::uint32_t layers_of(std::span<const Parameter> parameters) {
  static const std::string kLayer = "vit.encoder.layer";
  std::uint32_t layers = 0;
  for (const Parameter& p : parameters) {
    std::uint32_t layer = 0;
    if (!p.name.starts_with(kLayer)) continue;
    const auto result = std::from_chars(p.name.data() + kLayer.size(), p.name.data() + p.name.size(), layer);
    if (result.ec == std::errc()) layers = std::max(layers, layer + 1);
  }
  return layers;
}

std::vector<float> read_all(const Checkpoint& checkpoint, const Place& place) {
  const StoredTensor& tensor = checkpoint.at(place);
  return read_values(checkpoint.files[place.file].file, tensor, 0, tensor.elements);
}

// A bias that the model has no parameter for.
void check_zero(const Checkpoint& checkpoint, const std::string& name, std::vector<std::string>& problems) {
  const auto found = checkpoint.tensors.find(name);
  if (found == checkpoint.tensors.end()) return;
  const std::string text = printable(name);
  if (!is_floating(checkpoint.at(found->second).dtype))
    problems.push_back(fmt::format("\"{}\": not floating-point", text));
  else if (!std::ranges::all_of(read_all(checkpoint, found->second), [](float x) { return x == 0; }))
    problems.push_back(fmt::format("\"{}\" is not zero, and the model has no such parameter", text));
}

}  // namespace

Weights open_weights(const std::filesystem::path& path, std::span<const Parameter> parameters) {
  Weights out{open_checkpoint(path), {}, {}};
  std::vector<std::string> names;
  for (const auto& [name, place] : out.checkpoint.tensors) names.push_back(name);
  const bool class_token =
      std::ranges::find(parameters, "vit.embedding.norm.scale", &Parameter::name) != parameters.end();
  const Naming naming = detect_naming(names, class_token);
  if (!naming.problem.empty()) refuse(path, {naming.problem});
  for (const Parameter& p : parameters) {
    out.sources[p.name] = source_of(naming, p);
    out.shapes[p.name] = p.shape;
  }

  std::vector<std::string> problems;
  const auto needs = needs_of(out);
  for (const auto& [name, need] : needs) {
    const StoredTensor* tensor = find(out.checkpoint, name);
    const std::string text = printable(name);
    if (tensor == nullptr)
      problems.push_back(fmt::format("\"{}\" is missing (for {})", text, need.parameter));
    else if (!same_shape(tensor->shape, need.shape))
      problems.push_back(fmt::format("\"{}\" has shape [{}], expected [{}]", text,
                                     fmt::join(tensor->shape, ","), fmt::join(need.shape, ",")));
    else if (!is_floating(tensor->dtype))
      problems.push_back(
          fmt::format("\"{}\" has dtype {}, expected a floating-point one", text, name_of(tensor->dtype)));
  }
  const std::uint32_t layers = layers_of(parameters);
  for (const std::string& name : names)
    if (!needs.contains(name) && name != must_be_zero(naming) && !ignorable(naming, name, layers))
      problems.push_back(fmt::format("\"{}\" is unknown: no parameter of the model", printable(name)));
  if (const std::string zero = must_be_zero(naming); !zero.empty())
    check_zero(out.checkpoint, zero, problems);
  if (!problems.empty()) refuse(path, problems);
  return out;
}

Scan scan_weights(const Weights& weights, unsigned threads) {
  std::vector<std::string> names;
  for (const auto& [name, need] : needs_of(weights)) names.push_back(name);
  std::vector<ValueScan> scans(names.size());
  parallel_for(names.size(), 1, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t n = begin; n < end; ++n)
      scans[n].add(read_all(weights.checkpoint, weights.checkpoint.tensors.at(names[n])));
  });
  Scan out;
  std::vector<std::string> problems;
  for (std::size_t n = 0; n < names.size(); ++n) {
    if (const std::string problem = scans[n].problem(); !problem.empty())
      problems.push_back(in_quotes(names[n]) + " " + problem);
    out.add(scans[n], names[n]);
  }
  if (!problems.empty()) refuse(weights.checkpoint.path, problems);
  return out;
}

namespace {

struct Columns {  // of the parameter that a piece fills
  std::uint64_t first = 0, stride = 0;
};

void transpose(const std::vector<float>& rows, std::uint64_t count, Columns columns,
               std::vector<float>& out) {
  constexpr std::uint64_t kBlock = 32;  // 4 KiB of each side: both stay in the first cache
  const std::uint64_t in = rows.size() / count;
  for (std::uint64_t r0 = 0; r0 < count; r0 += kBlock)
    for (std::uint64_t i0 = 0; i0 < in; i0 += kBlock)
      for (std::uint64_t i = i0; i < std::min(in, i0 + kBlock); ++i)
        for (std::uint64_t r = r0; r < std::min(count, r0 + kBlock); ++r)
          out[i * columns.stride + columns.first + r] = rows[r * in + i];
}

// [out, channel, y, x] -> rows (y, x, channel), columns out.
void place_patches(const std::vector<float>& stored, const std::vector<std::uint64_t>& shape,
                   std::vector<float>& out) {
  const std::uint64_t width = shape[0], channels = shape[1], height = shape[2], side = shape[3];
  for (std::uint64_t o = 0; o < width; ++o)
    for (std::uint64_t c = 0; c < channels; ++c)
      for (std::uint64_t y = 0; y < height; ++y)
        for (std::uint64_t x = 0; x < side; ++x)
          out[((y * side + x) * channels + c) * width + o] =
              stored[((o * channels + c) * height + y) * side + x];
}

}  // namespace

std::vector<float> values_of(const Weights& weights, const std::string& parameter) {
  const Source& source = weights.sources.at(parameter);
  const tensor::Shape& shape = weights.shapes.at(parameter);
  std::vector<float> out(tensor::elements(shape));
  Columns columns{0, shape.back()};
  for (const Piece& piece : source.pieces) {
    const Place& place = weights.checkpoint.tensors.at(piece.tensor);
    const StoredTensor& tensor = weights.checkpoint.at(place);
    const std::uint64_t row = tensor.elements / piece.shape.front();
    const std::vector<float> stored = read_values(weights.checkpoint.files[place.file].file, tensor,
                                                  piece.first_row * row, piece.rows * row);
    switch (piece.order) {
      case Order::Same:
        std::ranges::copy(stored, out.begin() + static_cast<std::ptrdiff_t>(columns.first));
        break;
      case Order::Transposed:
        transpose(stored, piece.rows, columns, out);
        break;
      case Order::Patches:
        place_patches(stored, piece.shape, out);
        break;
    }
    columns.first += piece.rows;
  }
  if (!source.class_token.empty()) {
    const std::vector<float> token =
        read_all(weights.checkpoint, weights.checkpoint.tensors.at(source.class_token));
    for (std::size_t i = 0; i < token.size(); ++i) out[i] += token[i];
  }
  if (source.repeated)
    for (std::size_t at = shape.back(); at < out.size(); at += shape.back())
      std::copy_n(out.begin(), shape.back(), out.begin() + static_cast<std::ptrdiff_t>(at));
  return out;
}

}  // namespace tw::import
