#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/parallel.h"
#include "import/image.h"

// The resize that published preprocessing uses: for every output sample a window of input samples, weighted
// by a kernel that widens with the reduction factor; weights in fixed point, each pass rounded and clipped to
// 8 bits.
namespace tw::import {
namespace {

constexpr int kPrecisionBits = 32 - 8 - 2;  // of a weight: 8 bits of sample and 2 of headroom remain
constexpr std::uint32_t kChannels = 3;

double bilinear(double x) {
  x = std::abs(x);
  return x < 1.0 ? 1.0 - x : 0.0;
}
double bicubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
  return 0.0;
}

struct Window {
  std::uint32_t first = 0;
  std::vector<std::int32_t> weights;
};

std::vector<Window> windows(std::uint32_t in, std::uint32_t out, Filter filter) {
  const double scale = static_cast<double>(in) / out;
  const double widening = std::max(scale, 1.0);
  const double support = (filter == Filter::Bicubic ? 2.0 : 1.0) * widening;
  std::vector<Window> all(out);
  std::vector<double> weights;
  for (std::uint32_t o = 0; o < out; ++o) {
    const double centre = (o + 0.5) * scale;
    const auto first = static_cast<std::uint32_t>(std::max(0.0, centre - support + 0.5));
    const auto last = std::min(in, static_cast<std::uint32_t>(centre + support + 0.5));
    weights.clear();
    double sum = 0;
    for (std::uint32_t i = first; i < last; ++i) {
      const double x = (i - centre + 0.5) * (1.0 / widening);
      weights.push_back(filter == Filter::Bicubic ? bicubic(x) : bilinear(x));
      sum += weights.back();
    }
    all[o].first = first;
    for (double w : weights) {
      const double fixed = (sum != 0.0 ? w / sum : w) * (1 << kPrecisionBits);
      all[o].weights.push_back(static_cast<std::int32_t>(fixed < 0 ? fixed - 0.5 : fixed + 0.5));
    }
  }
  return all;
}

std::uint8_t clip(std::int64_t sum) {
  return static_cast<std::uint8_t>(std::clamp<std::int64_t>(sum >> kPrecisionBits, 0, 255));
}

// Weighted sum of samples `step` bytes apart.
std::uint8_t sample(const Window& window, const std::uint8_t* in, std::size_t step) {
  std::int64_t sum = std::int64_t{1} << (kPrecisionBits - 1);
  for (std::int32_t weight : window.weights) {
    sum += std::int64_t{weight} * *in;
    in += step;
  }
  return clip(sum);
}

Image horizontal(const Image& image, std::uint32_t width, Filter filter) {
  Image out{width, image.height, std::vector<std::uint8_t>(std::size_t{width} * image.height * kChannels)};
  const auto table = windows(image.width, width, filter);
  parallel_for(image.height, 16, 0, [&](std::size_t begin, std::size_t end) {
    for (std::size_t y = begin; y < end; ++y)
      for (std::size_t x = 0; x < width; ++x)
        for (std::size_t c = 0; c < kChannels; ++c)
          out.pixels[(y * width + x) * kChannels + c] = sample(
              table[x], image.pixels.data() + (y * image.width + table[x].first) * kChannels + c, kChannels);
  });
  return out;
}

Image vertical(const Image& image, std::uint32_t height, Filter filter) {
  const std::size_t row = std::size_t{image.width} * kChannels;
  Image out{image.width, height, std::vector<std::uint8_t>(row * height)};
  const auto table = windows(image.height, height, filter);
  parallel_for(height, 16, 0, [&](std::size_t begin, std::size_t end) {
    for (std::size_t y = begin; y < end; ++y)
      for (std::size_t i = 0; i < row; ++i)
        out.pixels[y * row + i] = sample(table[y], image.pixels.data() + table[y].first * row + i, row);
  });
  return out;
}

}  // namespace

Image resize(const Image& image, std::uint32_t width, std::uint32_t height, Filter filter) {
  TW_CHECK(width > 0 && height > 0 && image.width > 0 && image.height > 0, "resize of or to an empty image");
  TW_CHECK(image.pixels.size() == std::size_t{image.width} * image.height * kChannels, "image is not RGB");
  Image out = image;
  if (width != out.width) out = horizontal(out, width, filter);
  if (height != out.height) out = vertical(out, height, filter);
  return out;
}

std::vector<float> patches(const Image& image, std::uint32_t side, std::uint32_t patch, bool class_row) {
  TW_CHECK(patch > 0 && side % patch == 0, "the used side is no whole number of patches");
  if (image.width < side || image.height < side)
    throw Error(ErrorKind::Shape,
                fmt::format("an image of {} x {} is smaller than the {} x {} that the model uses",
                            image.width, image.height, side, side));
  const std::size_t across = side / patch, length = std::size_t{patch} * patch * kChannels;
  std::vector<float> out(class_row ? length : 0, 0.0F);
  out.reserve(out.size() + across * across * length);
  for (std::size_t py = 0; py < across; ++py)
    for (std::size_t px = 0; px < across; ++px)
      for (std::size_t y = py * patch; y < (py + 1) * patch; ++y) {
        const std::uint8_t* line = image.pixels.data() + (y * image.width + px * patch) * kChannels;
        for (std::size_t i = 0; i < std::size_t{patch} * kChannels; ++i)
          out.push_back((static_cast<float>(line[i]) / 255.0F - 0.5F) / 0.5F);
      }
  return out;
}

}  // namespace tw::import
