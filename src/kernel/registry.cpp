// All kernels by code, their sizes in executable memory, and the header that stands at each entry.
#include <algorithm>

#include "base/error.h"
#include "kernel/internal.h"

namespace tw::kernel {
namespace {

// Reserved bytes per kernel, header included: ours to choose (decisions.md 17), 32.2 KB in all; a program
// holds those that it uses.
std::uint32_t image_bytes_of(Code code) {
  switch (code) {
    case Code::GemmF16:
      return 1400;
    case Code::GemmF8:
      return 1400;
    case Code::Sum:
      return 600;
    case Code::Add:
      return 500;
    case Code::Gelu:
      return 800;
    case Code::BiasGelu:
      return 1100;
    case Code::LayerNorm:
      return 1500;
    case Code::Moments:
      return 700;
    case Code::Apply:
      return 800;
    case Code::Softmax:
      return 2000;
    case Code::Merge:
      return 1300;
    case Code::CastF16ToF8:
      return 700;
    case Code::CastF8ToF16:
      return 400;
    case Code::CastF32ToF16:
      return 400;
    case Code::PackRowToF8Left:
      return 800;
    case Code::RepackF8Left:
      return 700;
    case Code::PackRowToLeft:
      return 600;
    case Code::PackRowToRight:
      return 700;
    case Code::PackRowToBlock:
      return 900;
    case Code::UnpackLeft:
      return 500;
    case Code::UnpackBlock:
      return 700;
    case Code::CopyU64:
      return 304;
    case Code::CopyStrided64:
      return 400;
    case Code::CopyU32:
      return 304;
    case Code::CopyStrided32:
      return 400;
    case Code::CopyU16:
      return 400;
    case Code::Fill:
      return 304;
    case Code::AddLayerNorm:
      return 1600;
    case Code::AddMoments:
      return 900;
    case Code::LayerNormF8:
      return 1700;
    case Code::GeluF8:
      return 900;
    case Code::BiasGeluF8:
      return 1200;
    case Code::Unary:
      return 900;
    case Code::Binary:
      return 900;
    case Code::Reduce:
      return 500;
    case Code::SoftmaxRows:
      return 800;
    case Code::NormRows:
      return 900;
    case Code::Rope:
      return 900;
    case Code::CastF16ToF32:
      return 400;
  }
  return 0;
}

std::vector<Kernel> make_all() {
  std::vector<Kernel> kernels;
  for (const auto family : {gemm_kernels, reduce_kernels, pointwise_kernels, norm_kernels, attention_kernels,
                            general_kernels, cast_kernels, move_kernels, copy_kernels})
    kernels.insert(kernels.end(), family().begin(), family().end());
  for (Kernel& kernel : kernels) kernel.image_bytes = image_bytes_of(kernel.code);
  std::ranges::sort(kernels, {}, &Kernel::code);
  return kernels;
}

}  // namespace

std::span<const Kernel> all() {
  static const std::vector<Kernel> kernels = make_all();
  return kernels;
}

const Kernel* find(Code code) {
  const auto kernels = all();
  const auto found = std::ranges::lower_bound(kernels, code, {}, &Kernel::code);
  return found != kernels.end() && found->code == code ? &*found : nullptr;
}

std::vector<std::uint32_t> header_words(HeaderKind kind, std::uint16_t code, std::uint32_t image_bytes,
                                        std::span<const std::uint32_t> spec) {
  TW_CHECK(image_bytes < (1U << 24) && spec.size() < 256, "kernel header fields");
  TW_CHECK(image_bytes >= (3 + spec.size()) * 4, "a kernel image holds its header");
  std::vector<std::uint32_t> words{kMagic, code | static_cast<std::uint32_t>(kind) << 16,
                                   image_bytes | static_cast<std::uint32_t>(spec.size()) << 24};
  words.insert(words.end(), spec.begin(), spec.end());
  return words;
}

}  // namespace tw::kernel
