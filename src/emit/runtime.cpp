#include "emit/runtime.h"

#include <fmt/core.h>

#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/math.h"
#include "kernel/kernel.h"
#include "target/isa.h"

namespace tw::emit {
namespace {

// Reserved bytes per runtime helper; with the kernels they come to the size of published images.
constexpr std::uint32_t kHelperBytes = 256;

class Image {
 public:
  explicit Image(std::uint32_t base) : base_(base) {}
  std::uint32_t here() const { return base_ + static_cast<std::uint32_t>(bytes_.size()); }
  void word(std::uint32_t w) {
    for (int i = 0; i < 4; ++i) bytes_.push_back(static_cast<std::uint8_t>(w >> (8 * i)));
  }
  void align(std::uint32_t a) {
    while (bytes_.size() % a != 0) bytes_.push_back(0);
  }
  std::uint32_t block(const std::vector<std::uint32_t>& header, std::uint32_t size) {
    align(8);
    const std::uint32_t at = here();
    for (const std::uint32_t w : header) word(w);
    bytes_.resize(at - base_ + up(size, 8U), 0);
    return at;
  }
  std::vector<std::uint8_t> take() { return std::move(bytes_); }

 private:
  std::uint32_t base_;
  std::vector<std::uint8_t> bytes_;
};

void set_csr(Image& image, std::uint32_t csr, std::uint32_t value) {
  image.word(isa::setzi(8, value));
  image.word(isa::put(csr, 8));
}

// hardware.md 4.2 "entry": registers, stacks, workers, then the first rendezvous with the host.
void boot(Image& image, const Device& device, std::uint32_t program) {
  image.word(isa::sync(2));
  set_csr(image, isa::kIncomingMux, isa::kMuxNeutral);
  image.word(isa::put(isa::kOutgoingBase, isa::kM15Zero));
  for (std::uint32_t n = 0; n < 6; ++n) set_csr(image, 0x21 + n, device.runtime_state + 0xE0 + 0x100 * n);
  image.word(isa::setzi(isa::kM11Stack, kStackTop));
  image.word(isa::runall(0, isa::kM15Zero));
  image.word(isa::sync(2));
  set_csr(image, isa::kIncomingMux, isa::kMuxHost);
  image.word(isa::sync(7));
  set_csr(image, isa::kIncomingMux, isa::kMuxNeutral);
  image.word(isa::setzi(0, program));
  image.word(isa::br(0));
}

// Stores 1 to the completion word and branches to address 0, which halts.
void complete(Image& image, const Device& device) {
  image.word(isa::setzi(0, device.runtime_state));
  image.word(isa::setzi(1, 1));
  image.word(isa::st32(1, 0, isa::kM15Zero, 0));
  image.word(isa::bri(0));
}

std::string spec_name(const kernel::Kernel& k, const std::vector<std::uint32_t>& words) {
  std::string name = k.name;
  for (const std::uint32_t w : words) name += fmt::format("_{:x}", w);
  return name;
}

}  // namespace

Runtime make_runtime(const Device& device, const tile::Program& program) {
  // The boot code jumps to the program, whose address follows from the sizes: two identical passes.
  Runtime r;
  for (int pass = 0; pass < 2; ++pass) {
    Image image(device.code_base);
    Runtime next;
    next.entry = image.here();
    boot(image, device, r.program == 0 ? device.code_base : r.program);
    image.align(8);
    next.complete = image.here();
    complete(image, device);
    next.symbols.push_back({UINT32_MAX, next.entry, next.complete - next.entry, "boot"});
    next.symbols.push_back({UINT32_MAX, next.complete, image.here() - next.complete, "complete"});
    auto helper = [&](kernel::Helper h, const char* name) {
      const auto header =
          kernel::header_words(kernel::HeaderKind::Helper, static_cast<std::uint16_t>(h), kHelperBytes, {});
      const std::uint32_t at = image.block(header, kHelperBytes);
      next.symbols.push_back({UINT32_MAX, at, kHelperBytes, name});
      return at;
    };
    next.worker_barrier = helper(kernel::Helper::WorkerBarrier, "worker_barrier");
    next.patch_row = helper(kernel::Helper::PatchRow, "patch_row");
    next.repeat_table = helper(kernel::Helper::RepeatTable, "repeat_table");
    next.repeat_step = helper(kernel::Helper::RepeatStep, "repeat_step");
    next.host_run = helper(kernel::Helper::HostRun, "host_run");
    for (const tile::Spec& spec : program.specs) {
      const kernel::Kernel* k = kernel::find(spec.code);
      TW_CHECK(k != nullptr && spec.words.size() == k->spec_words, "call of an unregistered kernel");
      const auto header = kernel::header_words(
          kernel::HeaderKind::Kernel, static_cast<std::uint16_t>(spec.code), k->image_bytes, spec.words);
      const std::uint32_t at = image.block(header, k->image_bytes);
      next.kernel_of_spec.push_back(at);
      next.symbols.push_back({UINT32_MAX, at, k->image_bytes, spec_name(*k, spec.words)});
    }
    image.align(8);
    next.program = image.here();
    next.bytes = image.take();
    r = std::move(next);
  }
  return r;
}

}  // namespace tw::emit
