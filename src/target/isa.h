// Exchange-row and supervisor instructions of the IPU21: one table (isa.def) from which encode and decode are
// made; hardware.md 3.2 and 4.1. Meaning (what an event does, when) is not here: exchange/check and sim have
// it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tw::isa {

enum class Op : std::uint8_t {
  // timed row instructions
  Delay,
  DelayPic,
  DelayXpic,
  Send,
  SendOff,
  SendPic,
  SendPicP,
  // supervisor instructions
  Setzi,
  Put,
  Get,
  Ld32,
  St32,
  AddImm,
  Shl,
  Shr,
  AndImm,
  OrImm,
  Brz,
  Brnz,
  BrnzDec,
  Bri,
  Call,
  Br,
  Sync,
  Sans,
  Runall,
  ExitZ,
  Trap
};

// One decoded instruction; only the fields of its Op are meaningful, the others are 0.
struct Instr {
  Op op = Op::Trap;
  std::uint32_t n = 0;         // events or items, >= 1 (Delay*, Send*)
  std::uint32_t selector = 0;  // DelayPic/DelayXpic/SendPic selector; SendPicP: PIC selector
  std::uint32_t value = 0;     // DelayPic (18 bit), DelayXpic (13), SendPic (18)
  std::uint32_t address =
      0;  // Send/SendPicP: 18-bit item address; SendOff: 11-bit delta; branches: byte address
  std::uint32_t control = 0;  // send control, 3 bit
  std::uint32_t xpic = 0;     // SendPicP: 14 bit (selector<<13 | source)
  std::uint32_t pic = 0;      // SendPicP: 18 bit
  std::uint32_t m = 0;        // first register (destination, tested, stored or branch register)
  std::uint32_t base = 0;     // second register (base or source)
  std::uint32_t delta = 0;    // third register (ld32/st32 delta, runall vertex base)
  std::int32_t imm = 0;  // immediate: setzi 20 bit, put/get csr, ld32/st32 word offset, add simm16, zones
  bool operator==(const Instr&) const = default;
};

// Registers by role (hardware.md 4.1).
inline constexpr std::uint32_t kM6MovingBase = 6, kM7BarrierReturn = 7, kM9HelperReturn = 9, kM10Return = 10,
                               kM11Stack = 11, kM15Zero = 15;
// CSR indexes (hardware.md 3.8).
inline constexpr std::uint32_t kIncomingMux = 0xA0, kIncomingBase = 0xA4, kIncomingDcount = 0xA6,
                               kOutgoingBase = 0xA7;
inline constexpr std::uint32_t kMuxNeutral = 0x640, kMuxHost = 0x600;
inline constexpr std::uint32_t kReturnWord = 0x43A00000;  // br $m10

// --- encoders; out-of-range fields are InternalErrors ---
std::uint32_t delay(std::uint32_t n);
std::uint32_t delaypic(std::uint32_t n, std::uint32_t selector, std::uint32_t value);
std::uint32_t delayxpic(std::uint32_t n, std::uint32_t selector, std::uint32_t value);
std::uint32_t send(std::uint32_t n, std::uint32_t item_address, std::uint32_t control);
std::uint32_t sendoff(std::uint32_t n, std::uint32_t delta, std::uint32_t control);
std::uint32_t sendpic(std::uint32_t n, std::uint32_t selector, std::uint32_t value);
struct TwoWords {
  std::uint32_t word0, word1;
};
TwoWords sendpicp(std::uint32_t n, std::uint32_t item_address, std::uint32_t control,
                  std::uint32_t pic_selector, std::uint32_t xpic14, std::uint32_t pic18);

std::uint32_t setzi(std::uint32_t m, std::uint32_t imm20);
std::uint32_t put(std::uint32_t csr, std::uint32_t m);
std::uint32_t get(std::uint32_t m, std::uint32_t csr);
std::uint32_t ld32(std::uint32_t d, std::uint32_t base, std::uint32_t delta, std::uint32_t word_offset);
std::uint32_t st32(std::uint32_t s, std::uint32_t base, std::uint32_t delta, std::uint32_t word_offset);
std::uint32_t add(std::uint32_t d, std::uint32_t s, std::int32_t simm16);
std::uint32_t shl(std::uint32_t d, std::uint32_t s, std::uint32_t imm);
std::uint32_t brz(std::uint32_t m, std::uint32_t byte_address);
std::uint32_t bri(std::uint32_t byte_address);
std::uint32_t call(std::uint32_t m, std::uint32_t byte_address);
std::uint32_t br(std::uint32_t m);
std::uint32_t sync(std::uint32_t zone);
std::uint32_t sans(std::uint32_t zone);
std::uint32_t runall(std::uint32_t entry, std::uint32_t vertex_base);
std::uint32_t trap(std::uint32_t code);

// Decodes one instruction; `next` is the following word (only SendPicP reads it). nullopt: unknown opcode.
std::optional<Instr> decode(std::uint32_t word, std::uint32_t next = 0);
// Assembler form, e.g. "delaypic 52, 0, 0x1c000"; for inspect and goldens.
std::string disassemble(const Instr& instr);
// Reads the assembler form again: numbers decimal or 0x..., registers $m0..$m15, blanks as you like. Without
// an instruction, `fault` says what is wrong with the text.
struct Parsed {
  std::optional<Instr> instr;
  std::string fault;
};
Parsed parse(std::string_view text);
// Encodes any decoded instruction again (word1 only for SendPicP).
TwoWords encode(const Instr& instr);

}  // namespace tw::isa
