// Arbitrary bytes as a safetensors file and as an index: a refusal is an Error{File}; every value of what is
// accepted can be read and stands inside the file.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "import/checkpoint.h"
#include "scratch_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tw;
  static fuzz::ScratchFile file(".safetensors"), index(".json");
  try {
    const import::Safetensors read = import::read_safetensors(file.write(data, size));
    for (const import::StoredTensor& t : read.tensors) {
      if (t.offset > size || t.elements > (size - t.offset) / import::bytes_of(t.dtype)) std::abort();
      if (is_floating(t.dtype) && import::read_values(read.file, t, 0, t.elements).size() != t.elements)
        std::abort();
    }
  } catch (const Error& e) {
    if (e.kind != ErrorKind::File) std::abort();
  }
  try {
    import::open_checkpoint(index.write(data, size));
  } catch (const Error& e) {
    if (e.kind != ErrorKind::File) std::abort();
  }
  return 0;
}
