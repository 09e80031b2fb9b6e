// Arbitrary bytes as a photograph: a refusal is an Error{File}; what is accepted is a whole picture that can
// be resized and cut in patches.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "import/image.h"
#include "scratch_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tw;
  static fuzz::ScratchFile file(".image");
  try {
    const import::Image image = import::load_image(file.write(data, size));
    if (image.width == 0 || image.height == 0 ||
        image.pixels.size() != std::size_t{3} * image.width * image.height)
      std::abort();
    if (image.pixels.size() > 1U << 20) return 0;  // resizing takes too long to fuzz
    for (const auto filter : {import::Filter::Bicubic, import::Filter::Bilinear}) {
      const import::Image small = import::resize(image, 28, 28, filter);
      if (import::patches(small, 28, 14, true).size() != 5U * 14 * 14 * 3) std::abort();
    }
  } catch (const Error& e) {
    if (e.kind != ErrorKind::File) std::abort();
  }
  return 0;
}
