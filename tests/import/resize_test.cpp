#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "import/image.h"

namespace tw::import {
namespace {

// Deterministic noise with many saturated samples, so that bicubic overshoot is clipped.
Image noise(std::uint32_t width, std::uint32_t height) {
  Image image{width, height, {}};
  std::uint32_t s = 12345;
  for (std::size_t i = 0; i < std::size_t{width} * height * 3; ++i) {
    s = (s * 1103515245U + 12345U) & 0x7fffffffU;
    const std::uint32_t v = (s >> 16) & 255;
    image.pixels.push_back(static_cast<std::uint8_t>(v > 200 ? 255 : v < 50 ? 0 : v));
  }
  return image;
}
std::uint64_t fnv(const std::vector<std::uint8_t>& bytes) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (std::uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3ULL;
  return hash;
}

struct Case {
  std::uint32_t width, height, out_width, out_height;
  std::uint64_t bilinear, bicubic;
};
// FNV-1a of Image.resize of PIL 9.4.0 (Debian python3-pil) on the same noise.
const Case kCases[] = {
    {64, 48, 28, 28, 0x2153870f06440d55ULL, 0xf30ac76d475b0dc4ULL},
    {31, 57, 28, 28, 0x84b976b476e2a2ebULL, 0x34c4ee9f70696bULL},
    {10, 9, 28, 14, 0x20d94e07270bbb6fULL, 0x8027203ba970ea2eULL},
    {28, 40, 28, 28, 0x8edc685121d77743ULL, 0xa4f50e7ddc07957fULL},
    {40, 28, 28, 28, 0x957e6d2cedd53246ULL, 0x228d3ea48275ea77ULL},
    {200, 3, 5, 7, 0x6fbb3a2d042fff0eULL, 0xb88cb647b6019c0cULL},
    {1, 1, 4, 4, 0xe081df4c2d3685a5ULL, 0xe081df4c2d3685a5ULL},
    {97, 61, 384, 384, 0x27650732b022d678ULL, 0xdb98744659989bfULL},
};

TEST(Resize, EqualsPilToTheLastBit) {
  for (const Case& c : kCases) {
    const Image image = noise(c.width, c.height);
    EXPECT_EQ(fnv(resize(image, c.out_width, c.out_height, Filter::Bilinear).pixels), c.bilinear) << c.width;
    EXPECT_EQ(fnv(resize(image, c.out_width, c.out_height, Filter::Bicubic).pixels), c.bicubic) << c.width;
  }
}

Image grey_row(const std::vector<std::uint8_t>& values) {
  Image image{static_cast<std::uint32_t>(values.size()), 1, {}};
  for (std::uint8_t v : values) image.pixels.insert(image.pixels.end(), 3, v);
  return image;
}
std::vector<int> row(const std::vector<std::uint8_t>& in, std::uint32_t width, Filter filter) {
  const Image out = resize(grey_row(in), width, 1, filter);
  std::vector<int> values;
  for (std::size_t x = 0; x < width; ++x) values.push_back(out.pixels[x * 3]);
  return values;
}

// Worked out by hand: (.75,.75,.25)/1.75 when halving; bicubic weights .8671875, .2265625, -.0703125.
TEST(Resize, EqualsValuesWorkedOutByHand) {
  EXPECT_EQ(row({0, 100}, 4, Filter::Bilinear), (std::vector<int>{0, 25, 75, 100}));
  EXPECT_EQ(row({10, 20, 30, 40}, 2, Filter::Bilinear), (std::vector<int>{17, 33}));
  EXPECT_EQ(row({0, 100}, 4, Filter::Bicubic), (std::vector<int>{0, 21, 79, 109}));
  EXPECT_EQ(row({0, 250}, 4, Filter::Bicubic), (std::vector<int>{0, 52, 198, 255}));
}

// The definition in double precision, rounding between passes like PIL: equal but for ties of the fixed
// point.
std::vector<double> pass(const std::vector<double>& in, std::size_t n, std::size_t out) {
  const double scale = static_cast<double>(n) / static_cast<double>(out), wide = std::max(1.0, scale);
  std::vector<double> result;
  for (std::size_t o = 0; o < out; ++o) {
    const double centre = (static_cast<double>(o) + 0.5) * scale;
    double sum = 0, weights = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double x = std::abs((static_cast<double>(i) + 0.5 - centre) / wide);
      const double w = x < 1   ? 1.5 * x * x * x - 2.5 * x * x + 1
                       : x < 2 ? -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2
                               : 0;
      sum += w * in[i];
      weights += w;
    }
    result.push_back(std::clamp(std::floor(sum / weights + 0.5), 0.0, 255.0));
  }
  return result;
}

TEST(Resize, FollowsTheDefinitionWithinOneLevel) {
  const std::uint32_t width = 53, height = 37, w = 28, h = 70;
  const Image in = noise(width, height), actual = resize(in, w, h, Filter::Bicubic);
  std::size_t different = 0;
  for (std::size_t c = 0; c < 3; ++c) {
    std::vector<std::vector<double>> columns(w);
    for (std::size_t y = 0; y < height; ++y) {
      std::vector<double> line;
      for (std::size_t x = 0; x < width; ++x) line.push_back(in.pixels[(y * width + x) * 3 + c]);
      const auto out = pass(line, width, w);
      for (std::size_t x = 0; x < w; ++x) columns[x].push_back(out[x]);
    }
    for (std::size_t x = 0; x < w; ++x) {
      const auto out = pass(columns[x], height, h);
      for (std::size_t y = 0; y < h; ++y) {
        const double difference = std::abs(out[y] - actual.pixels[(y * w + x) * 3 + c]);
        ASSERT_LE(difference, 1.0);
        different += difference > 0;
      }
    }
  }
  EXPECT_LT(different, 60U);  // of 5,880: rare ties
}

TEST(Resize, SameSizeIsTheIdentity) {
  const Image image = noise(28, 28);
  EXPECT_EQ(resize(image, 28, 28, Filter::Bicubic).pixels, image.pixels);
}

// models.md B.1: element (y*14+x)*3+c of patch py*27+px; (x/255 - 0.5)/0.5.
TEST(Patches, FollowThePublishedOrder) {
  const Image image = noise(30, 29);  // rows and columns beyond 28 are not used
  for (bool class_row : {false, true}) {
    const auto values = patches(image, 28, 14, class_row);
    const std::size_t skip = class_row ? 588 : 0;
    ASSERT_EQ(values.size(), 4 * 588 + skip);
    for (std::size_t i = 0; i < skip; ++i) ASSERT_EQ(values[i], 0.0F);
    for (std::size_t p = 0; p < 4; ++p)
      for (std::size_t e = 0; e < 588; ++e) {
        const std::size_t y = p / 2 * 14 + e / 42, x = p % 2 * 14 + e / 3 % 14;
        const double expected = (image.pixels[(y * 30 + x) * 3 + e % 3] / 255.0 - 0.5) / 0.5;
        ASSERT_NEAR(values[skip + p * 588 + e], expected, 1e-6);
      }
  }
  EXPECT_EQ(patches(grey_row({0, 255}), 1, 1, false), (std::vector<float>{-1, -1, -1}));
  EXPECT_THROW(patches(noise(27, 40), 28, 14, false), Error);
}

}  // namespace
}  // namespace tw::import
