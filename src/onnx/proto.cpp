#include "onnx/proto.h"

#include <fmt/core.h>
#include <onnx/onnx_pb.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>

#include "import/files.h"
#include "import/problems.h"
#include "numeric/formats.h"

namespace tw::onnx {

namespace {

static_assert(std::endian::native == std::endian::little);

// External data may be shared by tensors, but a small file must not ask for the same gigabytes again and
// again.
constexpr std::uint64_t kMostTimesRead = 4;

// The formats of ONNX with 8 bits: E exponent bits, FNUZ ones with a bias one larger and 0x80 as the only
// NaN.
float decode_f8(Element element, std::uint8_t code) {
  const bool fnuz = element == Element::Float8E4M3FNUZ || element == Element::Float8E5M2FNUZ;
  const bool e4 = element == Element::Float8E4M3FN || element == Element::Float8E4M3FNUZ;
  const int mantissa_bits = e4 ? 3 : 2, bias = (e4 ? 7 : 15) + (fnuz ? 1 : 0);
  const int mantissa = code & ((1 << mantissa_bits) - 1), exponent = (code & 0x7F) >> mantissa_bits;
  const float sign = (code & 0x80) != 0 ? -1.0F : 1.0F;
  if (fnuz && code == 0x80) return NAN;
  if (element == Element::Float8E4M3FN && (code & 0x7F) == 0x7F) return NAN;
  if (element == Element::Float8E5M2 && exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
  const int leading = exponent == 0 ? 0 : 1 << mantissa_bits;
  return sign * std::ldexp(static_cast<float>(leading + mantissa),
                           (exponent == 0 ? 1 : exponent) - bias - mantissa_bits);
}

template <typename T>
T at(const char* data, std::size_t i) {
  T v;
  std::memcpy(&v, data + i * sizeof(T), sizeof(T));
  return v;
}

template <typename T, typename Out>
void widen(const char* data, std::vector<Out>& out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<Out>(at<T>(data, i));
}

float float_of_bits(Element element, std::uint16_t bits) {
  if (element == Element::Float16) return numeric::f16_to_f32(bits);
  if (element == Element::BFloat16) return std::bit_cast<float>(std::uint32_t{bits} << 16);
  return decode_f8(element, static_cast<std::uint8_t>(bits));
}

void decode_floats(Element element, const char* data, std::vector<float>& out) {
  switch (element) {
    case Element::Float:
      if (!out.empty()) std::memcpy(out.data(), data, out.size() * sizeof(float));
      break;
    case Element::Double:
      widen<double>(data, out);
      break;
    case Element::Float16:
    case Element::BFloat16:
      for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = float_of_bits(element, at<std::uint16_t>(data, i));
      break;
    default:
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = float_of_bits(element, at<std::uint8_t>(data, i));
  }
}

void decode_ints(Element element, const char* data, std::vector<std::int64_t>& out) {
  switch (bytes_of(element)) {
    case 1:
      widen<std::uint8_t>(data, out);
      break;
    case 2:
      widen<std::uint16_t>(data, out);
      break;
    case 4:
      widen<std::uint32_t>(data, out);
      break;
    default:
      widen<std::int64_t>(data, out);
  }
  for (std::int64_t& v : out) v = wrap(element, v);
}

// The field of TensorProto that holds the values of a type when they are not raw.
std::int64_t typed_size(const ::onnx::TensorProto& proto, Element element) {
  switch (element) {
    case Element::Float:
      return proto.float_data_size();
    case Element::Double:
      return proto.double_data_size();
    case Element::Int64:
      return proto.int64_data_size();
    case Element::UInt32:
    case Element::UInt64:
      return proto.uint64_data_size();
    default:
      return proto.int32_data_size();
  }
}

void take_typed(const ::onnx::TensorProto& proto, Tensor& out) {
  for (int i = 0; i < static_cast<int>(out.floats.size()); ++i) {
    const auto k = static_cast<std::size_t>(i);
    if (out.element == Element::Float) {
      out.floats[k] = proto.float_data(i);
    } else if (out.element == Element::Double) {
      out.floats[k] = static_cast<float>(proto.double_data(i));
    } else {
      out.floats[k] = float_of_bits(out.element, static_cast<std::uint16_t>(proto.int32_data(i)));
    }
  }
  for (int i = 0; i < static_cast<int>(out.ints.size()); ++i) {
    const bool wide = out.element == Element::UInt32 || out.element == Element::UInt64;
    const std::int64_t v = out.element == Element::Int64 ? proto.int64_data(i)
                           : wide                        ? static_cast<std::int64_t>(proto.uint64_data(i))
                                                         : proto.int32_data(i);
    out.ints[static_cast<std::size_t>(i)] = wrap(out.element, v);
  }
}

std::string type_name(int type) {
  const bool named = type >= 0 && type <= static_cast<int>(Element::Float8E5M2FNUZ);
  return named ? name_of(static_cast<Element>(type)) : std::to_string(type);
}

bool to_number(const std::string& text, std::uint64_t& out) {
  const auto end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, out);
  return result.ec == std::errc() && result.ptr == end;
}

}  // namespace

std::optional<std::string> TensorReader::external(const ::onnx::TensorProto& proto, std::uint64_t bytes,
                                                  const std::string& what) {
  std::string location;
  std::uint64_t offset = 0, length = bytes;
  for (const auto& entry : proto.external_data()) {
    bool good = true;
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") good = to_number(entry.value(), offset);
    if (entry.key() == "length") good = to_number(entry.value(), length);
    if (!good) {
      problem(fmt::format("{}: external data with {} '{}', which is no byte count", what, entry.key(),
                          import::printable(entry.value())));
      return std::nullopt;
    }
  }
  if (length != bytes) {
    problem(fmt::format("{}: needs {} bytes, its external data has length {}", what, bytes, length));
    return std::nullopt;
  }
  if (const std::string why = import::path_problem(location, "the model's folder"); !why.empty()) {
    problem(fmt::format("{}: external data in {}", what, why));
    return std::nullopt;
  }
  return read_range(location, offset, bytes, what);
}

std::optional<std::string> TensorReader::read_range(const std::string& location, std::uint64_t offset,
                                                    std::uint64_t bytes, const std::string& what) {
  const std::filesystem::path path = folder_ / location;
  const std::string name = import::printable(location);
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    problem(fmt::format("{}: its external data file '{}' is missing", what, name));
    return std::nullopt;
  }
  const std::uint64_t size = std::filesystem::file_size(path, error);
  if (error || offset > size || bytes > size - offset) {
    problem(fmt::format("{}: external data of {} bytes at {} of '{}', which has {} bytes", what, bytes,
                        offset, name, size));
    return std::nullopt;
  }
  file_bytes_[location] = size;
  std::uint64_t total = 0;
  for (const auto& [file, file_size] : file_bytes_) total += file_size;
  if (bytes > kMostTimesRead * total - std::min(external_read_, kMostTimesRead * total)) {
    problem(fmt::format("{}: the tensors together ask for more than {} times the external data", what,
                        kMostTimesRead));
    return std::nullopt;
  }
  external_read_ += bytes;
  std::string data(bytes, '\0');
  std::ifstream in(path, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(offset));
  if (!in.read(data.data(), static_cast<std::streamsize>(bytes))) {
    problem(fmt::format("{}: its external data file '{}' cannot be read", what, name));
    return std::nullopt;
  }
  return data;
}

std::optional<Tensor> TensorReader::read(::onnx::TensorProto& proto, const std::string& what) {
  Tensor out;
  const int type = proto.data_type();
  out.element = type < 0 || type > 255 ? Element::Undefined : static_cast<Element>(type);
  out.dims.assign(proto.dims().begin(), proto.dims().end());
  std::int64_t count = 0;
  if (out.dims.size() > kMostAxes) {
    problem(
        fmt::format("{}: a shape of {} axes, at most {} are supported", what, out.dims.size(), kMostAxes));
    return std::nullopt;
  }
  if (bytes_of(out.element) == 0) {
    problem(fmt::format("{}: elements of type {}, which are not supported", what, type_name(type)));
    return std::nullopt;
  }
  if (!count_elements(out.dims, count)) {
    problem(fmt::format("{}: shape {} is negative or too large", what, to_string(out.dims)));
    return std::nullopt;
  }
  if (proto.has_segment()) {
    problem(fmt::format("{}: a segment of a tensor, which is not supported", what));
    return std::nullopt;
  }
  const std::uint64_t bytes = static_cast<std::uint64_t>(count) * bytes_of(out.element);
  const bool is_external = proto.data_location() == ::onnx::TensorProto_DataLocation_EXTERNAL;
  const bool raw = is_external || proto.has_raw_data();
  std::string data;
  if (is_external) {
    std::optional<std::string> found = external(proto, bytes, what);
    if (!found) return std::nullopt;
    data = std::move(*found);
  } else if (raw) {
    data = std::move(*proto.mutable_raw_data());
    proto.clear_raw_data();
    if (data.size() != bytes) {
      problem(fmt::format("{}: shape {} needs {} bytes, it has {}", what, to_string(out.dims), bytes,
                          data.size()));
      return std::nullopt;
    }
  } else if (typed_size(proto, out.element) != count) {
    problem(fmt::format("{}: shape {} needs {} values, it has {}", what, to_string(out.dims), count,
                        typed_size(proto, out.element)));
    return std::nullopt;
  }
  const auto elements = static_cast<std::size_t>(count);
  is_floating(out.element) ? out.floats.resize(elements) : out.ints.resize(elements);
  if (!raw) {
    take_typed(proto, out);
  } else if (is_floating(out.element)) {
    decode_floats(out.element, data.data(), out.floats);
  } else {
    decode_ints(out.element, data.data(), out.ints);
  }
  return out;
}

}  // namespace tw::onnx
