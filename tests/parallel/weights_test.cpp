// Weights of a checkpoint on four threads: scanned, and read while they are packed.
#include "import/weights.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "base/parallel.h"
#include "model/tensors.h"

namespace tw {
namespace {

constexpr std::uint32_t kTensors = 40, kElements = 3000;

// t0, t1, ...: one value in each is beyond F16, the others count up.
import::Weights numbered(const std::string& file) {
  std::string header = "{", data;
  import::Weights weights;
  for (std::uint32_t t = 0; t < kTensors; ++t) {
    const std::string name = "t" + std::to_string(t), extent = std::to_string(kElements);
    header += (t > 0 ? ",\"" : "\"") + name + R"(":{"dtype":"F32","shape":[)" + extent +
              R"(],"data_offsets":[)" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + 4 * kElements) + "]}";
    for (std::uint32_t i = 0; i < kElements; ++i) {
      const float value = i == t ? 1e6F : static_cast<float>(t * 100 + i % 100);
      data.append(reinterpret_cast<const char*>(&value), 4);
    }
    weights.sources[name] = {{{name, {kElements}, 0, kElements, import::Order::Same}}, "", false};
    weights.shapes[name] = {1, 1, kElements};
  }
  header += "}";
  std::string length(8, '\0');
  for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i) & 0xFF);
  std::ofstream(file, std::ios::binary) << length << header << data;
  weights.checkpoint = import::open_checkpoint(file);
  return weights;
}

TEST(ParallelWeights, AreScannedAndReadAsByOneThread) {
  const std::string file = testing::TempDir() + "parallel_weights.safetensors";
  const import::Weights weights = numbered(file);
  for (const unsigned threads : {1U, 4U}) {
    const import::Scan scan = import::scan_weights(weights, threads);
    EXPECT_EQ(scan.overflowing, kTensors);
    EXPECT_EQ(scan.vanishing, 0U);
    EXPECT_EQ(scan.first_overflowing, "t0");
  }
  for (const auto keep : {model::Tensors::Keep::All, model::Tensors::Keep::Latest}) {
    model::Tensors tensors([&](const std::string& name) { return import::values_of(weights, name); }, keep);
    std::vector<int> wrong(kTensors);
    parallel_for(kTensors, 1, 4, [&](std::size_t begin, std::size_t end) {
      for (std::size_t t = begin; t < end; ++t) {
        const std::vector<float>& values = tensors("t" + std::to_string(t));
        for (std::uint32_t i = 0; i < kElements; ++i)
          wrong[t] += values[i] != (i == t ? 1e6F : static_cast<float>(t * 100 + i % 100));
      }
    });
    EXPECT_EQ(wrong, std::vector<int>(kTensors));
  }
  std::remove(file.c_str());
}

}  // namespace
}  // namespace tw
