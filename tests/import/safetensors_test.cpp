#include "import/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "import/checkpoint.h"

namespace tw::import {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("tilewright-safetensors-" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const std::string& content, const std::string& name = "t.safetensors") {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }
  // What a file is refused with.
  template <typename Read>
  std::string refusal_of(const Read& read) {
    try {
      read();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::File);
      return e.what();
    }
    ADD_FAILURE() << "accepted";
    return "";
  }
  std::string refusal(const std::string& content) {
    const fs::path file = write(content);
    const std::string message = refusal_of([&] { read_safetensors(file); });
    EXPECT_THAT(message, HasSubstr(file.string()));
    return message;
  }
  fs::path folder_;
};

std::string length_field(std::uint64_t length) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(length >> (8 * i) & 0xFF);
  return out;
}
std::string file_of(const std::string& header, const std::string& data = "") {
  return length_field(header.size()) + header + data;
}
std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}
// A header of one tensor "t" over four bytes of data.
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return file_of(R"({"t":)" + entry(dtype, shape, offsets) + "}", "abcd");
}

TEST_F(Files, ReadsShapesScalarsEmptyTensorsAndMetadata) {
  const auto file = read_safetensors(write(file_of(
      R"({"__metadata__":{"format":"pt","x":""},"a.b":)" + entry("F32", "[]", "[0,4]") + R"(,"empty":)" +
          entry("F16", "[0,7]", "[4,4]") + R"(,"c":)" + entry("U8", "[1,3]", "[4,7]") + "}   ",
      std::string("\0\0\xC0\x3F", 4) + "xyz")));
  ASSERT_EQ(file.tensors.size(), 3U);
  EXPECT_EQ(file.tensors[0].name, "a.b");
  EXPECT_TRUE(file.tensors[0].shape.empty());
  EXPECT_EQ(file.tensors[0].elements, 1U);
  EXPECT_EQ(read_values(file.file, file.tensors[0], 0, 1), std::vector<float>({1.5F}));
  EXPECT_EQ(file.tensors[1].elements, 0U);
  EXPECT_TRUE(read_values(file.file, file.tensors[1], 0, 0).empty());
  EXPECT_EQ(file.tensors[2].dtype, Dtype::U8);
  EXPECT_EQ(file.tensors[2].offset, file.tensors[0].offset + 4);
  EXPECT_TRUE(read_safetensors(write(file_of("{}"))).tensors.empty());
}

TEST_F(Files, HeaderLength) {
  EXPECT_THAT(refusal(""), HasSubstr("too few"));
  EXPECT_THAT(refusal("1234567"), HasSubstr("too few"));
  EXPECT_THAT(refusal(length_field(3) + "{}"), HasSubstr("behind the file"));
  EXPECT_THAT(refusal(length_field(std::uint64_t{1} << 63) + "{}"), HasSubstr("limit"));
  EXPECT_THAT(refusal(length_field(UINT64_MAX) + "{}"), HasSubstr("limit"));
  EXPECT_THAT(refusal(length_field(100'000'001) + "{}"), HasSubstr("limit"));
  EXPECT_THAT(refusal(length_field(100'000'000) + "{}"), HasSubstr("behind the file"));
  EXPECT_THAT(refusal(length_field(0)), HasSubstr("begin with {"));
}

TEST_F(Files, LongHeadersAreRead) {  // 100,000 bytes (users.md L52)
  const std::string header = R"({"__metadata__":{"long":")";
  const std::string text = header + std::string(100'000 - header.size() - 3, 'x') + "\"}}";
  ASSERT_EQ(text.size(), 100'000U);
  EXPECT_TRUE(read_safetensors(write(file_of(text))).tensors.empty());
}

TEST_F(Files, HeaderText) {
  EXPECT_THAT(refusal(file_of(" {}")), HasSubstr("begin with {"));
  EXPECT_THAT(refusal(file_of("[]")), HasSubstr("begin with {"));
  EXPECT_THAT(refusal(file_of("{}\n")), HasSubstr("end with }"));
  EXPECT_THAT(refusal(file_of(std::string("{}\0", 3))), HasSubstr("end with }"));
  EXPECT_THAT(refusal(file_of("{}{}")), HasSubstr("at byte 10"));
  EXPECT_THAT(refusal(file_of(R"({"a":})")), HasSubstr("at byte 13"));
  EXPECT_THAT(refusal(file_of("{\"\xC0\xAF\":{}}")), HasSubstr("UTF-8"));
  EXPECT_THAT(refusal(file_of("{\"\xFF\":{}}")), HasSubstr("UTF-8"));
  EXPECT_THAT(refusal(file_of(R"({"\ud800":{}})")), HasSubstr("UTF-8"));
  EXPECT_THAT(refusal(file_of(R"({"a":[]})")), HasSubstr("expected an object, found a list"));
  EXPECT_THAT(refusal(file_of(R"({"a":1})")), HasSubstr("expected an object, found 1"));
  EXPECT_THAT(refusal(file_of(R"({"a":{"b":{}}})")), HasSubstr("unknown field \"b\""));
  EXPECT_THAT(refusal(file_of(R"({"__metadata__":{"b":{}}})")),
              HasSubstr("expected strings, found an object"));
  EXPECT_THAT(refusal(file_of(R"({"__metadata__":{"b":1}})")), HasSubstr("expected strings, found 1"));
  EXPECT_THAT(refusal(file_of(R"({"__metadata__":null})")), HasSubstr("expected an object, found null"));
  // Deep nesting must cost no stack.
  EXPECT_THAT(refusal(file_of(R"({"a":{"shape":)" + std::string(1'000'000, '[') + "}")),
              HasSubstr("found a list"));
}

TEST_F(Files, Duplicates) {
  const std::string t = R"("t":)" + entry("F32", "[1]", "[0,4]");
  EXPECT_THAT(refusal(file_of("{" + t + "," + t + "}", "abcd")), HasSubstr("\"t\" is there twice"));
  // The same name by an escape.
  EXPECT_THAT(refusal(file_of("{" + t + R"(,"\u0074":)" + entry("F32", "[0]", "[4,4]") + "}", "abcd")),
              HasSubstr("\"t\" is there twice"));
  EXPECT_THAT(refusal(file_of(R"({"t":{"dtype":"F32","dtype":"F16"}})")),
              HasSubstr("\"dtype\" is there twice"));
  EXPECT_THAT(refusal(file_of(R"({"__metadata__":{"a":"","a":""}})")), HasSubstr("\"a\" is there twice"));
  EXPECT_THAT(refusal(file_of(R"({"__metadata__":{},"__metadata__":{}})")), HasSubstr("is there twice"));
}

TEST_F(Files, Fields) {
  EXPECT_THAT(refusal(file_of(R"({"t":{}})")), HasSubstr("no \"dtype\""));
  EXPECT_THAT(refusal(file_of(R"({"t":{"dtype":"F32","data_offsets":[0,4]}})")), HasSubstr("no \"shape\""));
  EXPECT_THAT(refusal(file_of(R"({"t":{"dtype":"F32","shape":[1]}})")), HasSubstr("no \"data_offsets\""));
  EXPECT_THAT(refusal(file_of(R"({"t":{"dtype":5}})")), HasSubstr("expected a string"));
  EXPECT_THAT(refusal(file_of(R"({"t":{"shape":"1"}})")), HasSubstr("found a string"));
  EXPECT_THAT(refusal(one("F32", "[-1]", "[0,4]")), HasSubstr("found -1"));
  EXPECT_THAT(refusal(one("F32", "[1.0]", "[0,4]")), HasSubstr("found 1.0"));
  EXPECT_THAT(refusal(one("F32", "[18446744073709551616]", "[0,4]")),
              HasSubstr("found 18446744073709551616"));
  EXPECT_THAT(refusal(one("F32", "[true]", "[0,4]")), HasSubstr("found a boolean"));
  EXPECT_THAT(refusal(one("F32", "[[1]]", "[0,4]")), HasSubstr("found a list"));
  EXPECT_THAT(refusal(one("F32", "[1]", "[0]")), HasSubstr("holds 1 numbers"));
  EXPECT_THAT(refusal(one("F32", "[1]", "[0,2,4]")), HasSubstr("holds 3 numbers"));
}

TEST_F(Files, TypesAndSizes) {
  for (const char* unknown : {"F8_E8M0", "F4", "f32", "", "F8_E4M3FNUZ"})
    EXPECT_THAT(refusal(one(unknown, "[4]", "[0,4]")),
                HasSubstr(std::string("unknown dtype \"") + unknown + "\""));
  EXPECT_THAT(refusal(one("F32", "[2]", "[0,4]")),
              HasSubstr("shape [2] of F32 needs 8 bytes, its data has 4"));
  std::string ones = "[1";
  for (int i = 0; i < 100'000; ++i) ones += ",1";
  EXPECT_THAT(refusal(one("F32", ones + "]", "[0,8]")),
              HasSubstr("1,...] of F32 needs 4 bytes, its data has 8"));
  EXPECT_THAT(refusal(one("F16", "[1]", "[0,4]")), HasSubstr("needs 2 bytes, its data has 4"));
  EXPECT_THAT(refusal(one("F32", "[]", "[0,0]")), HasSubstr("needs 4 bytes, its data has 0"));
  EXPECT_THAT(refusal(one("F32", "[1]", "[4,0]")), HasSubstr("ends before it"));
  // Products that wrap to what the data has: 2^32 * 2^32 = 0, (2^62 + 1) * 4 = 4.
  EXPECT_THAT(refusal(one("U8", "[4294967296,4294967296]", "[0,0]")), HasSubstr("larger than 2^64"));
  EXPECT_THAT(refusal(one("U8", "[4294967296,4294967296,0]", "[0,0]")), HasSubstr("larger than 2^64"));
  EXPECT_THAT(refusal(one("F32", "[4611686018427387905]", "[0,4]")), HasSubstr("larger than 2^64"));
}

TEST_F(Files, RangesFillTheDataExactly) {
  auto two = [](const std::string& first, const std::string& second, const std::string& data) {
    return file_of(R"({"a":)" + first + R"(,"b":)" + second + "}", data);
  };
  const std::string a = entry("U8", "[2]", "[0,2]");
  EXPECT_THAT(refusal(two(a, entry("U8", "[2]", "[1,3]"), "abc")), HasSubstr("overlaps what ends at 2"));
  EXPECT_THAT(refusal(two(a, a, "ab")), HasSubstr("overlaps"));
  EXPECT_THAT(refusal(two(a, entry("U8", "[0]", "[1,1]"), "ab")), HasSubstr("overlaps"));
  EXPECT_THAT(refusal(two(a, entry("U8", "[1]", "[3,4]"), "abcd")), HasSubstr("leaves a hole from 2"));
  EXPECT_THAT(refusal(one("U8", "[3]", "[1,4]")), HasSubstr("leaves a hole from 0"));
  EXPECT_THAT(refusal(two(a, entry("U8", "[2]", "[2,4]"), "abc")),
              HasSubstr("ends behind the file's data of 3"));
  EXPECT_THAT(refusal(two(a, entry("U8", "[2]", "[2,4]"), "abcde")),
              HasSubstr("1 bytes behind the last tensor"));
  EXPECT_THAT(refusal(file_of("{}", "x")), HasSubstr("1 bytes behind"));
  EXPECT_THAT(refusal(one("U8", "[4]", "[18446744073709551611,18446744073709551615]")),
              HasSubstr("ends behind"));
  // Any order in the header, as long as nothing is left over.
  EXPECT_NO_THROW(read_safetensors(write(file_of(
      R"({"z":)" + entry("U8", "[2]", "[2,4]") + R"(,"a":)" + entry("U8", "[2]", "[0,2]") + "}", "abcd"))));
}

TEST_F(Files, BrokenTensorsAreListedTogether) {
  const std::string message = refusal(file_of(R"({"a":)" + entry("X", "[1]", "[0,1]") + R"(,"b":)" +
                                              entry("F32", "[1]", "[0,1]") + R"(,"c\n":{}})"));
  EXPECT_THAT(message, AllOf(HasSubstr("3 problems"), HasSubstr("\n  \"a\""), HasSubstr("\n  \"b\""),
                             HasSubstr("\n  \"c?\"")));
}

// Values from the definitions of the formats, not from the decoder.
TEST_F(Files, Formats) {
  auto values = [&](const std::string& dtype, const std::string& bytes, std::size_t count) {
    const auto file = read_safetensors(write(file_of(
        R"({"t":)" +
            entry(dtype, "[" + std::to_string(count) + "]", "[0," + std::to_string(bytes.size()) + "]") + "}",
        bytes)));
    return read_values(file.file, file.tensors[0], 0, count);
  };
  const double doubles[] = {0.1, -2.5, 1e300, std::numeric_limits<double>::quiet_NaN()};
  std::string raw(sizeof(doubles), '\0');
  std::memcpy(raw.data(), doubles, sizeof(doubles));
  const auto f64 = values("F64", raw, 4);
  EXPECT_EQ(f64[0], 0.1F);
  EXPECT_EQ(f64[1], -2.5F);
  EXPECT_TRUE(std::isinf(f64[2]));
  EXPECT_TRUE(std::isnan(f64[3]));
  EXPECT_EQ(values("F16", std::string("\x00\x3C\x01\x00\xFF\xFB", 6), 3),
            std::vector<float>({1.0F, 0x1p-24F, -65504.0F}));
  EXPECT_EQ(values("BF16", std::string("\x80\x3F\x49\x40\x00\x80", 6), 3),
            std::vector<float>({1.0F, 3.140625F, -0.0F}));
  std::string codes;
  for (int c = 0; c < 256; ++c) codes += static_cast<char>(c);
  const auto e4m3 = values("F8_E4M3", codes, 256), e5m2 = values("F8_E5M2", codes, 256);
  for (int c = 0; c < 256; ++c) {
    const double sign = c < 128 ? 1 : -1;
    const int e = c >> 3 & 15, m = c & 7;
    if ((c & 127) == 127) {
      EXPECT_TRUE(std::isnan(e4m3[c])) << c;
    } else {
      EXPECT_EQ(e4m3[c], sign * (e == 0 ? m / 8.0 * std::pow(2, -6) : (1 + m / 8.0) * std::pow(2, e - 7)))
          << c;
    }
    const int e5 = c >> 2 & 31, m2 = c & 3;
    if (e5 == 31) {
      EXPECT_TRUE(m2 == 0 ? std::isinf(e5m2[c]) : std::isnan(e5m2[c])) << c;
    } else {
      EXPECT_EQ(e5m2[c],
                sign * (e5 == 0 ? m2 / 4.0 * std::pow(2, -14) : (1 + m2 / 4.0) * std::pow(2, e5 - 15)))
          << c;
    }
  }
  EXPECT_EQ(e4m3[0x7E], 448.0F);
  EXPECT_EQ(e5m2[0x7B], 57344.0F);
}

TEST_F(Files, PartsOfATensorAreItsElements) {
  std::string bytes;
  const std::size_t count = 700'000;  // more than two blocks of the reader
  for (std::size_t i = 0; i < count; ++i) bytes += length_field(i & 0x7F).substr(0, 1) + '\x40';
  const auto file =
      read_safetensors(write(file_of(R"({"t":)" + entry("BF16", "[700000]", "[0,1400000]") + "}", bytes)));
  const auto all = read_values(file.file, file.tensors[0], 0, count);
  const auto part = read_values(file.file, file.tensors[0], 123'456, 500'000);
  ASSERT_EQ(part.size(), 500'000U);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 123'456));
  EXPECT_EQ(all[262'145], std::bit_cast<float>(0x40000000U + ((262'145U & 0x7F) << 16)));
  // A file that became shorter is an error and no crash.
  fs::resize_file(file.file, 500'000);
  EXPECT_THAT(refusal_of([&] { read_values(file.file, file.tensors[0], 0, count); }),
              HasSubstr("cannot be read"));
}

class Index : public Files {
 protected:
  void SetUp() override {
    Files::SetUp();
    write(file_of(R"({"a":)" + entry("U8", "[1]", "[0,1]") + "}", "x"), "1.safetensors");
    write(file_of(R"({"b":)" + entry("U8", "[1]", "[0,1]") + "}", "x"), "2.safetensors");
  }
  std::string refusal(const std::string& index) {
    const fs::path file = write(index, "index.json");
    return refusal_of([&] { open_checkpoint(file); });
  }
};

TEST_F(Index, JoinsItsFiles) {
  const auto c = open_checkpoint(write(
      R"({"metadata":{"total_size":2,"x":[{"weight_map":[]}]},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})",
      "model.safetensors.index.json"));
  ASSERT_EQ(c.files.size(), 2U);
  EXPECT_EQ(c.at(c.tensors.at("b")).name, "b");
  EXPECT_EQ(open_checkpoint(folder_).tensors.size(), 2U);
}

TEST_F(Index, Rules) {
  EXPECT_THAT(refusal(""), HasSubstr("JSON"));
  EXPECT_THAT(refusal("[]"), HasSubstr("no JSON object"));
  EXPECT_THAT(refusal("{}"), HasSubstr("no \"weight_map\""));
  EXPECT_THAT(refusal(R"({"weight_map":[]})"), HasSubstr("is no object"));
  EXPECT_THAT(refusal(R"({"weight_map":{"a":1}})"), HasSubstr("names no file"));
  EXPECT_THAT(refusal(R"({"weight_map":{"a":{}}})"), HasSubstr("names no file"));
  EXPECT_THAT(refusal(R"({"weight_map":{},"weight_map":{}})"), HasSubstr("twice"));
  EXPECT_THAT(refusal(R"({"weight_map":{"a":"1.safetensors","a":"2.safetensors"}})"), HasSubstr("twice"));
  EXPECT_THAT(refusal(R"({"weight_map":{"a":"2.safetensors"}})"),
              AllOf(HasSubstr("\"a\" is not in 2.safetensors"), HasSubstr("the index does not say so")));
  EXPECT_THAT(refusal(R"({"weight_map":{"a":"3.safetensors"}})"), HasSubstr("no such file"));
}

TEST_F(Index, FilesStayInTheFolder) {
  for (const char* name : {"/etc/passwd", "../1.safetensors", "x/../../1.safetensors", ".."})
    EXPECT_THAT(refusal(R"({"weight_map":{"a":")" + std::string(name) + "\"}}"),
                HasSubstr("outside the index's folder"));
  EXPECT_THAT(refusal(R"({"weight_map":{"a":""}})"), HasSubstr("empty file name"));
  EXPECT_THAT(refusal(R"({"weight_map":{"a":"1.safetensors\u0000"}})"), HasSubstr("zero byte"));
}

}  // namespace
}  // namespace tw::import
