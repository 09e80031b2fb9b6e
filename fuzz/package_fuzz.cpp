// Arbitrary bytes, and mutations of a good file behind good hashes, through the package reader: every refusal
// is an Error{File}; what is accepted must survive a round trip.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "../tests/package/sample.h"
#include "base/error.h"
#include "package/package.h"

namespace {

using namespace tw;

void read_one(std::vector<std::uint8_t> bytes) {
  try {
    const package::Package p = package::from_bytes(std::move(bytes), "fuzz");
    if (package::from_bytes(package::to_bytes(p), "again") != p) std::abort();
  } catch (const Error& e) {
    if (e.kind != ErrorKind::File) std::abort();
  }
}

// The input as a list of edits: two bytes of position, one of value, inside metadata and payload.
std::vector<std::uint8_t> edited_sample(const std::uint8_t* data, std::size_t size) {
  static const std::vector<std::uint8_t> good = package::to_bytes(package::sample());
  std::vector<std::uint8_t> bytes = good;
  for (std::size_t i = 0; i + 3 <= size; i += 3)
    bytes[(data[i] | data[i + 1] << 8) % bytes.size()] = data[i + 2];
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  read_one({data, data + size});
  read_one(package::rehash({data, data + size}));
  read_one(package::rehash(edited_sample(data, size)));
  return 0;
}
