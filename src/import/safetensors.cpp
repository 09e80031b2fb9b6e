#include "import/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/error.h"
#include "import/files.h"
#include "import/problems.h"
#include "numeric/formats.h"

namespace tw::import {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxHeader = 100'000'000;  // models.md D.1
constexpr std::uint64_t kLengthBytes = 8;

struct Format {
  Dtype dtype;
  const char* name;
  std::uint64_t bytes;
  bool floating;
};
constexpr std::array kFormats = {
    Format{Dtype::Bool, "BOOL", 1, false},    Format{Dtype::U8, "U8", 1, false},
    Format{Dtype::I8, "I8", 1, false},        Format{Dtype::I16, "I16", 2, false},
    Format{Dtype::U16, "U16", 2, false},      Format{Dtype::F16, "F16", 2, true},
    Format{Dtype::BF16, "BF16", 2, true},     Format{Dtype::I32, "I32", 4, false},
    Format{Dtype::U32, "U32", 4, false},      Format{Dtype::F32, "F32", 4, true},
    Format{Dtype::I64, "I64", 8, false},      Format{Dtype::U64, "U64", 8, false},
    Format{Dtype::F64, "F64", 8, true},       Format{Dtype::F8E4M3, "F8_E4M3", 1, true},
    Format{Dtype::F8E5M2, "F8_E5M2", 1, true}};

const Format& format_of(Dtype dtype) {
  const auto found = std::ranges::find(kFormats, dtype, &Format::dtype);
  TW_CHECK(found != kFormats.end(), "a dtype without a row in the table");
  return *found;
}

// An entry of the header as it stands there.
struct Entry {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<std::uint64_t>> shape, offsets;
};

// Reads the header's JSON without building a tree: every value has one legal place. Stops at the first that
// stands elsewhere, and at a key that comes twice.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  std::vector<Entry> entries;
  std::string problem;

  bool null() override { return misplaced("null"); }
  bool boolean(bool) override { return misplaced("a boolean"); }
  bool number_integer(number_integer_t value) override { return misplaced(fmt::format("{}", value)); }
  bool number_float(number_float_t, const string_t& text) override { return misplaced(printable(text)); }
  bool binary(binary_t&) override { return misplaced("bytes"); }
  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::Numbers) return misplaced(fmt::format("{}", value));
    numbers()->push_back(value);
    return true;
  }
  bool string(string_t& value) override {
    if (place_ == Place::Metadata) return true;
    if (place_ != Place::Tensor || field_ != "dtype") return misplaced("a string");
    entries.back().dtype = value;
    return true;
  }
  bool start_object(std::size_t) override {
    if (place_ == Place::Outside) {
      place_ = Place::Header;
    } else if (place_ == Place::Header) {
      place_ = entry_is_metadata_ ? Place::Metadata : Place::Tensor;
      fields_.clear();
    } else {
      return misplaced("an object");
    }
    return true;
  }
  bool end_object() override {
    place_ = place_ == Place::Header ? Place::Outside : Place::Header;
    return true;
  }
  bool start_array(std::size_t) override {
    if (place_ != Place::Tensor || field_ == "dtype") return misplaced("a list");
    place_ = Place::Numbers;
    numbers().emplace();
    return true;
  }
  bool end_array() override {
    place_ = Place::Tensor;
    return true;
  }
  bool key(string_t& name) override {
    field_ = name;
    if (place_ == Place::Header) {
      entry_is_metadata_ = name == "__metadata__";
      if (!names_.insert(name).second) return fail(fmt::format("\"{}\" is there twice", printable(name)));
      if (!entry_is_metadata_) entries.push_back({.name = name, .dtype = {}, .shape = {}, .offsets = {}});
      return true;
    }
    if (!fields_.insert(name).second)
      return fail(fmt::format("{}: \"{}\" is there twice", owner(), printable(name)));
    if (place_ == Place::Metadata || name == "dtype" || name == "shape" || name == "data_offsets")
      return true;
    return fail(fmt::format("{}: unknown field \"{}\"", owner(), printable(name)));
  }
  bool parse_error(std::size_t position, const std::string&, const json::exception&) override {
    return fail(fmt::format("the header is no UTF-8 JSON object at byte {} of the file",
                            kLengthBytes + (position > 0 ? position - 1 : 0)));
  }

 private:
  enum class Place { Outside, Header, Tensor, Metadata, Numbers };

  bool fail(std::string text) {
    if (problem.empty()) problem = std::move(text);
    return false;
  }
  std::string owner() const {
    return entry_is_metadata_ ? "\"__metadata__\"" : fmt::format("\"{}\"", printable(entries.back().name));
  }
  bool misplaced(const std::string& found) {
    switch (place_) {
      case Place::Outside:
        return fail("the header is no JSON object");
      case Place::Header:
        return fail(fmt::format("{}: expected an object, found {}", owner(), found));
      case Place::Metadata:
        return fail(
            fmt::format("{}: expected strings, found {} for \"{}\"", owner(), found, printable(field_)));
      case Place::Tensor:
        return fail(fmt::format("{}: expected {} for \"{}\", found {}", owner(),
                                field_ == "dtype" ? "a string" : "a list of numbers", field_, found));
      case Place::Numbers:
        return fail(fmt::format("{}: expected whole numbers up to 2^64 - 1 in \"{}\", found {}", owner(),
                                field_, found));
    }
    return false;
  }
  std::optional<std::vector<std::uint64_t>>& numbers() {
    return field_ == "shape" ? entries.back().shape : entries.back().offsets;
  }

  Place place_ = Place::Outside;
  bool entry_is_metadata_ = false;
  std::string field_;
  std::set<std::string> names_, fields_;
};

bool multiply(std::uint64_t& product, std::uint64_t factor) {
  return !__builtin_mul_overflow(product, factor, &product);
}

struct Range {
  std::uint64_t begin = 0, end = 0;
  const Entry* entry = nullptr;
};

// What is wrong with one entry on its own, or empty; then `tensor` and `range` are filled in.
std::string entry_problem(const Entry& entry, StoredTensor& tensor, Range& range) {
  if (!entry.dtype) return "no \"dtype\"";
  if (!entry.shape) return "no \"shape\"";
  if (!entry.offsets) return "no \"data_offsets\"";
  const auto format = std::ranges::find_if(kFormats, [&](const Format& f) { return *entry.dtype == f.name; });
  if (format == kFormats.end()) return fmt::format("unknown dtype \"{}\"", printable(*entry.dtype));
  if (entry.offsets->size() != 2)
    return fmt::format("\"data_offsets\" holds {} numbers, expected 2", entry.offsets->size());
  const std::uint64_t begin = entry.offsets->front(), end = entry.offsets->back();
  if (begin > end) return fmt::format("data begins at {} and ends before it, at {}", begin, end);
  Size size;
  if (const std::string why = size_problem(*entry.shape, format->dtype, size); !why.empty()) return why;
  if (end - begin != size.bytes)
    return fmt::format("shape {} of {} needs {} bytes, its data has {}", shape_text(*entry.shape),
                       format->name, size.bytes, end - begin);
  tensor = {entry.name, format->dtype, *entry.shape, size.elements, begin};
  range = {begin, end, &entry};
  return "";
}

// The ranges must fill [0, length) without holes and overlaps.
void check_ranges(std::vector<Range> ranges, std::uint64_t length, std::vector<std::string>& problems) {
  std::ranges::sort(ranges, [](const Range& a, const Range& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t at = 0;
  for (const Range& r : ranges) {
    const std::string name = printable(r.entry->name);
    if (r.end > length)
      problems.push_back(fmt::format("\"{}\": data [{}, {}) ends behind the file's data of {} bytes", name,
                                     r.begin, r.end, length));
    else if (r.begin < at)
      problems.push_back(
          fmt::format("\"{}\": data [{}, {}) overlaps what ends at {}", name, r.begin, r.end, at));
    else if (r.begin > at)
      problems.push_back(
          fmt::format("\"{}\": data [{}, {}) leaves a hole from {}", name, r.begin, r.end, at));
    at = std::max(at, r.end);
  }
  if (at < length) problems.push_back(fmt::format("{} bytes behind the last tensor", length - at));
}

struct Header {
  std::string text;        // without the padding
  std::uint64_t data = 0;  // where the tensors' data begins
};
Header read_header(std::ifstream& in, const std::filesystem::path& file, std::uint64_t size) {
  if (size < kLengthBytes) refuse(file, {fmt::format("{} bytes are too few for a safetensors file", size)});
  std::array<unsigned char, kLengthBytes> raw{};
  in.read(reinterpret_cast<char*>(raw.data()), kLengthBytes);
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) length = length << 8 | raw[i];
  if (length > kMaxHeader)
    refuse(file, {fmt::format("a header of {} bytes is more than the limit of {}", length, kMaxHeader)});
  if (length > size - kLengthBytes)
    refuse(file, {fmt::format("a header of {} bytes ends behind the file of {}", length, size)});
  Header header{std::string(length, '\0'), kLengthBytes + length};
  std::string& text = header.text;
  in.read(text.data(), static_cast<std::streamsize>(length));
  if (!in) refuse(file, {"cannot be read"});
  if (!text.starts_with('{')) refuse(file, {"the header does not begin with {"});
  text.resize(text.find_last_not_of(' ') + 1);
  if (!text.ends_with('}')) refuse(file, {"the header does not end with } and spaces"});
  return header;
}

float e4m3_to_f32(std::uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  if ((code & 0x7F) == 0x7F) return std::bit_cast<float>(0x7FC00000U);
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                        : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

// Little-endian words of a block of data.
template <typename Word, typename Convert>
void decode(const std::vector<char>& bytes, std::vector<float>& out, std::size_t at, const Convert& convert) {
  for (std::size_t i = 0; i < bytes.size() / sizeof(Word); ++i) {
    Word word = 0;
    std::memcpy(&word, bytes.data() + i * sizeof(Word), sizeof(Word));
    out[at + i] = convert(word);
  }
}

void decode_block(Dtype dtype, const std::vector<char>& bytes, std::vector<float>& out, std::size_t at) {
  switch (dtype) {
    case Dtype::F32:
      return decode<std::uint32_t>(bytes, out, at, [](std::uint32_t w) { return std::bit_cast<float>(w); });
    case Dtype::F16:
      return decode<std::uint16_t>(bytes, out, at, [](std::uint16_t w) { return numeric::f16_to_f32(w); });
    case Dtype::BF16:
      return decode<std::uint16_t>(
          bytes, out, at, [](std::uint16_t w) { return std::bit_cast<float>(std::uint32_t{w} << 16); });
    case Dtype::F64:
      return decode<std::uint64_t>(
          bytes, out, at, [](std::uint64_t w) { return static_cast<float>(std::bit_cast<double>(w)); });
    case Dtype::F8E4M3:
      return decode<std::uint8_t>(bytes, out, at, e4m3_to_f32);
    case Dtype::F8E5M2:
      return decode<std::uint8_t>(bytes, out, at, [](std::uint8_t w) {
        return numeric::f16_to_f32(static_cast<std::uint16_t>(w << 8));
      });
    default:
      TW_CHECK(false, "values of an integer tensor");
  }
}

}  // namespace

const char* name_of(Dtype dtype) { return format_of(dtype).name; }
std::uint64_t bytes_of(Dtype dtype) { return format_of(dtype).bytes; }
bool is_floating(Dtype dtype) { return format_of(dtype).floating; }

std::string size_problem(const std::vector<std::uint64_t>& shape, Dtype dtype, Size& size) {
  size.elements = 1;
  for (const std::uint64_t extent : shape)
    if (!multiply(size.elements, extent)) return "the product of its shape is larger than 2^64 - 1";
  size.bytes = size.elements;
  if (!multiply(size.bytes, bytes_of(dtype))) return "its size in bytes is larger than 2^64 - 1";
  return "";
}

Safetensors read_safetensors(const std::filesystem::path& file) {
  require_regular(file);
  std::error_code code;
  const std::uint64_t size = std::filesystem::file_size(file, code);
  std::ifstream in(file, std::ios::binary);
  if (code || !in) refuse(file, {"cannot be read"});
  const Header header = read_header(in, file, size);
  HeaderReader reader;
  if (!json::sax_parse(header.text, &reader) || !reader.problem.empty()) refuse(file, {reader.problem});

  Safetensors out{file, {}};
  std::vector<std::string> problems;
  std::vector<Range> ranges;
  for (const Entry& entry : reader.entries) {
    StoredTensor tensor;
    Range range;
    const std::string problem = entry_problem(entry, tensor, range);
    if (!problem.empty()) {
      problems.push_back(fmt::format("\"{}\": {}", printable(entry.name), problem));
      continue;
    }
    tensor.offset += header.data;
    out.tensors.push_back(std::move(tensor));
    ranges.push_back(range);
  }
  // An entry without a range of its own would only be reported again, as a hole.
  if (problems.empty()) check_ranges(std::move(ranges), size - header.data, problems);
  if (!problems.empty()) refuse(file, problems);
  return out;
}

std::vector<float> read_values(const std::filesystem::path& file, const StoredTensor& tensor,
                               std::uint64_t first, std::uint64_t count) {
  TW_CHECK(first <= tensor.elements && count <= tensor.elements - first, "elements outside the tensor");
  constexpr std::uint64_t kBlock = 1 << 18;
  const std::uint64_t width = bytes_of(tensor.dtype);
  std::vector<float> out(count);
  std::ifstream in(file, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(tensor.offset + first * width));
  std::vector<char> block;
  for (std::uint64_t at = 0; at < count; at += kBlock) {
    block.resize(std::min(kBlock, count - at) * width);
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    if (!in) refuse(file, {fmt::format("\"{}\" cannot be read", printable(tensor.name))});
    decode_block(tensor.dtype, block, out, at);
  }
  return out;
}

}  // namespace tw::import
