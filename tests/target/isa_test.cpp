#include "target/isa.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "base/error.h"
#include "target/isa_table.h"

namespace tw::isa {
namespace {

using Words = std::vector<std::uint32_t>;

void put_words(Words& out, std::uint32_t w) { out.push_back(w); }
void put_words(Words& out, TwoWords w) { out.insert(out.end(), {w.word0, w.word1}); }
template <class... W>
Words row(W... w) {
  Words out;
  (put_words(out, w), ...);
  return out;
}

// Decodes a whole sequence and encodes it again.
Words round_trip(const Words& words) {
  Words out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto instr = decode(words[i], i + 1 < words.size() ? words[i + 1] : 0);
    if (!instr) {
      ADD_FAILURE() << "word " << i << " does not decode: " << std::hex << words[i];
      return out;
    }
    const TwoWords again = encode(*instr);
    out.push_back(again.word0);
    if (instr->op == Op::SendPicP) out.push_back(again.word1), ++i;
  }
  return out;
}

void expect_row(const Words& built, const Words& vector) {
  EXPECT_EQ(built, vector);
  EXPECT_EQ(round_trip(vector), vector);
}

constexpr std::uint32_t kRet = kReturnWord;
std::uint32_t xpic(std::uint32_t n, std::uint32_t source) { return delayxpic(n, 0, source); }
std::uint32_t pic(std::uint32_t n, std::uint32_t byte_address) { return delaypic(n, 0, byte_address / 4); }

TEST(IsaVectors, PrimitiveSenders) {  // hardware.md 3.3, source address patched to 0
  expect_row(row(sync(3), delay(135), send(3, 0, 1), br(10)), {0x41800003, 0x40a00086, 0x78400001, kRet});
  expect_row(row(sync(3), delay(63), send(52, 0, 2), br(10)), {0x41800003, 0x40a0003e, 0x7e600002, kRet});
  expect_row(row(sync(3), delay(126), send(64, 0, 2), sendoff(1, 0, 2), br(10)),
             {0x41800003, 0x40a0007d, 0x7fe00002, 0x70000002, kRet});
  expect_row(row(sync(3), delay(109), send(64, 0, 1), sendoff(4084, 0, 1), br(10)),
             {0x41800003, 0x40a0006c, 0x7fe00001, 0x766fc001, kRet});
}

TEST(IsaVectors, PrimitiveReceivers) {  // hardware.md 3.3, point form
  expect_row(row(sync(3), xpic(113, 0), xpic(3, 0x640), pic(49, 0), delay(8), kRet),
             {0x41800003, 0x641c0000, 0x64008640, 0x61800000, 0x40a00007, kRet});
  expect_row(row(sync(3), xpic(113, 0), pic(59, 0), xpic(1, 0x640), delay(57), kRet),
             {0x41800003, 0x641c0000, 0x61d00000, 0x64000640, 0x40a00038, kRet});
  expect_row(row(sync(3), xpic(113, 0), pic(52, 0), xpic(13, 0x640), delay(57), kRet),
             {0x41800003, 0x641c0000, 0x61980000, 0x64030640, 0x40a00038, kRet});
  expect_row(row(sync(3), xpic(113, 0), pic(52, 0), xpic(4096, 0x640), delay(57), kRet),
             {0x41800003, 0x641c0000, 0x61980000, 0x67ffc640, 0x40a00038, kRet});
}

TEST(IsaVectors, PairedRows) {  // hardware.md 3.4: 0 -> {2,3}, 64 items, from 0x50000 to 0x60000
  expect_row(row(delay(31), send(64, 0x50000 / 8, 5), kRet), {0x40a0001e, 0x7fe50005, kRet});
  // Tile 2, the early member: paired mux at 1, format at 54, pointer at 56, mux off at 65, format off at 118.
  expect_row(row(delayxpic(1, 1, 0), delaypic(53, 1, 1), pic(2, 0x60000), delayxpic(9, 1, 0x640),
                 delaypic(53, 1, 0), delay(7), kRet),
             {0x64002000, 0x61a40001, 0x60098000, 0x64022640, 0x61a40000, 0x40a00006, kRet});
  // Tile 3: format and pointer only.
  expect_row(row(delaypic(54, 1, 1), pic(2, 0x60000), delaypic(62, 1, 0), delay(7), kRet),
             {0x61ac0001, 0x60098000, 0x61ec0000, 0x40a00006, kRet});
}

TEST(IsaVectors, WorkedRows) {  // hardware.md 3.10
  // E1, E2
  expect_row(row(delay(23), send(3, 0x18000, 1), kRet), {0x40a00016, 0x784c0001, kRet});
  expect_row(row(xpic(1, 0), xpic(3, 0x640), pic(49, 0x70000), delay(8), kRet),
             {0x64000000, 0x64008640, 0x6181c000, 0x40a00007, kRet});
  expect_row(row(delay(23), send(3, 0x18000, 3), kRet), {0x40a00016, 0x784c0003, kRet});
  expect_row(row(pic(49, 0x71000), pic(49, 0x50000), pic(59, 0x50000), xpic(1, 0x640)),
             {0x6181c400, 0x61814000, 0x61d14000, 0x64000640});
  // E3
  expect_row(row(delay(26), send(64, 0x60000 / 4, 1), kRet), {0x40a00019, 0x7fec0001, kRet});
  expect_row(row(delay(80), send(64, 0x62000 / 4, 1), kRet), {0x40a0004f, 0x7fec4001, kRet});
  expect_row(row(xpic(1, 320), pic(60, 0x70000), xpic(4, 640), xpic(64, 0x640), delay(65), kRet),
             {0x64000140, 0x61d9c000, 0x6400c280, 0x640fc640, 0x40a00040, kRet});
  // E4
  expect_row(
      row(xpic(1, 320), delay(56), send(3, 0x66000 / 4, 1), sendpic(4, 2, 0x1C000), sendpic(60, 0, 640),
          sendpic(4, 2, 0x1C800), sendpic(64, 0, 0x640), sendoff(65, 0, 1), kRet),
      {0x64000140, 0x40a00037, 0x784cc001, 0x7079c000, 0x77700280, 0x7079c800, 0x77f00640, 0x70004001, kRet});
  expect_row(row(xpic(1, 260), pic(92, 0x74000), xpic(108, 0x640), delay(97), kRet),
             {0x64000104, 0x62d9d000, 0x641ac640, 0x40a00060, kRet});
  // E5
  expect_row(
      row(xpic(1, 320), delay(9), send(1, 0x66000 / 4, 1), sendoff(48, 0, 1),
          sendpicp(64, 0x19831, 1, 0, 640, 0x1C800), sendoff(7, 0, 1), xpic(10, 0x640), delay(10), kRet),
      {0x64000140, 0x40a00008, 0x780cc001, 0x75e00001, 0xf7ecc189, 0x0a01c800, 0x70c00001, 0x64024640,
       0x40a00009, kRet});
  // E6
  expect_row(row(send(64, 0x60000 / 4, 1), sendoff(4084, 0, 1), kRet), {0x7fec0001, 0x766fc001, kRet});
  expect_row(row(xpic(4, 1024), pic(52, 0x84000), xpic(4096, 0x640), delay(57), kRet),
             {0x6400c400, 0x619a1000, 0x67ffc640, 0x40a00038, kRet});
}

TEST(IsaVectors, VendorRows) {  // hardware.md 3.10
  expect_row(row(xpic(1, 130), delay(51), sendpicp(52, 0, 0, 0, 192, 0x14048), kRet),
             {0x64000082, 0x40a00032, 0xf6600000, 0x03014048, kRet});
  expect_row(row(sendpicp(52, 0, 0, 0, 194, 0x15000), sendpicp(52, 0, 0, 0, 256, 0x16000),
                 sendpicp(58, 0, 0, 0, 0x640, 0x17000), kRet),
             {0xf6600000, 0x03095000, 0xf6600000, 0x04016000, 0xf7200000, 0x19017000, kRet});
  expect_row(row(sendpicp(43, 0x14021, 1, 0, 0x640, 0x15000)), {0xf54a0109, 0x19015000});
  expect_row(row(send(2, 82041, 3), send(2, 82043, 3)), {0x782a03cb, 0x782a03db});
}

TEST(IsaVectors, RowCalls) {  // hardware.md 3.8
  expect_row(
      row(setzi(8, 0x70000), put(kIncomingBase, 8), put(kOutgoingBase, 15), call(7, 0x5C100), setzi(8, 1),
          put(kIncomingDcount, 8), sync(3), call(10, 0x6C008)),
      {0x19870000, 0x438080a4, 0x43f080a7, 0x18717040, 0x19800001, 0x438080a6, 0x41800003, 0x18a1b002});
  expect_row(
      row(setzi(8, 0), put(kIncomingBase, 8), put(kOutgoingBase, 15), sans(0), sync(1), call(10, 0x6C000)),
      {0x19800000, 0x438080a4, 0x43f080a7, 0x40c00000, 0x41800001, 0x18a1b000});
  expect_row(row(br(10)), {0x43a00000});
}

TEST(IsaVectors, Supervisor) {  // hardware.md 4.1
  expect_row(row(ld32(8, 11, 15, 1), st32(2, 11, 15, 0), add(11, 11, -32), shl(10, 7, 2), brz(0, 0x4c100)),
             {0x01b8f001, 0x4fb2f000, 0x22bbffe0, 0x427aa002, 0x13013040});
  expect_row(row(setzi(2, 0x12345), shl(2, 2, 12), add(2, 2, 0x678)), {0x19212345, 0x4222a00c, 0x22220678});
  expect_row(row(runall(0, 15), TwoWords(encode({.op = Op::ExitZ})).word0, trap(0), trap(1)),
             {0x1500F000, 0x43F04000, 0x41801000, 0x41801001});
  expect_row(row(encode({.op = Op::AndImm, .m = 1, .base = 0, .imm = 61}).word0), {0x4201803D});
  const Instr nop = decode(0x19E00000).value();
  EXPECT_EQ(nop, (Instr{.op = Op::Setzi, .m = 14}));
}

TEST(IsaVectors, OpcodesWithoutAVector) {  // layouts of hardware.md 4.1, composed by hand
  expect_row(row(encode({.op = Op::Shr, .m = 3, .base = 5, .imm = 9}).word0), {0x4253D009});
  expect_row(row(encode({.op = Op::OrImm, .m = 3, .base = 5, .imm = 9}).word0), {0x42539009});
  expect_row(row(encode({.op = Op::Brnz, .address = 0x5C000, .m = 4}).word0), {0x11417000});
  expect_row(row(encode({.op = Op::BrnzDec, .address = 0x5C000, .m = 4}).word0), {0x13497000});
  expect_row(row(bri(0x5C000), get(4, 0x03)), {0x40817000, 0x41040003});
}

TEST(IsaVectors, HostBodies) {  // hardware.md 5.2
  expect_row(row(sans(1), sync(1), br(10)), {0x40c00001, 0x41800001, 0x43a00000});
  expect_row(row(setzi(8, 1), put(kIncomingDcount, 8), send(2, 0x14058, 3), send(16, 0x14048, 3), delay(2),
                 send(2, 0x1405A, 3), sync(0), br(10)),
             {0x19800001, 0x438080a6, 0x782a02c3, 0x79ea0243, 0x40a00001, 0x782a02d3, 0x41800000, kRet});
  expect_row(row(setzi(8, 16), put(kIncomingDcount, 8), send(2, 0x1405C, 3), sync(0), br(10)),
             {0x19800010, 0x438080a6, 0x782a02e3, 0x41800000, kRet});
}

TEST(IsaTable, NoTwoEncodingsOverlap) {
  for (const Encoding& a : encodings()) {
    EXPECT_EQ(a.match & ~a.mask, 0u) << a.name;
    for (const Encoding& b : encodings()) {
      if (a.op == b.op) continue;
      EXPECT_NE((a.match ^ b.match) & a.mask & b.mask, 0u) << a.name << " and " << b.name;
    }
  }
}

TEST(IsaTable, OperandsFillExactlyTheUnmaskedBits) {
  for (const Encoding& e : encodings()) {
    std::uint32_t used[2] = {e.mask, 0};
    for (const Field& f : e.operands()) {
      const auto bits = static_cast<std::uint32_t>(((std::uint64_t{1} << f.width) - 1) << f.position);
      EXPECT_EQ(used[f.word] & bits, 0u) << e.name << ": fields overlap";
      used[f.word] |= bits;
    }
    // sendoff's address ends at bit 13 and its count parts start at 14 and 21: nothing may be left over.
    EXPECT_EQ(used[0], 0xFFFFFFFFu) << e.name;
    EXPECT_EQ(used[1], e.op == Op::SendPicP ? 0xFFFFFFFFu : 0u) << e.name;
  }
}

// The recognition rules of hardware.md 3.2, written out independently of the table.
std::optional<Op> row_op(std::uint32_t w) {
  if (w >> 28 == 0xF) return Op::SendPicP;
  if ((w & 0xF8100000) == 0x70100000) return Op::SendPic;
  if ((w & 0xF8000000) == 0x78000000) return Op::Send;
  if ((w & 0xF8100000) == 0x70000000) return Op::SendOff;
  if ((w & 0xFFF80000) == 0x40A00000) return Op::Delay;
  if ((w & 0xFC000000) == 0x60000000) return Op::DelayPic;
  if ((w & 0xFC000000) == 0x64000000) return Op::DelayXpic;
  return std::nullopt;
}

void check_word(std::uint32_t word, std::uint32_t next) {
  const auto instr = decode(word, next);
  const auto expected = row_op(word);
  if (expected) {
    ASSERT_TRUE(instr.has_value()) << std::hex << word;
    ASSERT_EQ(instr->op, *expected) << std::hex << word;
  }
  if (!instr) return;
  ASSERT_TRUE(expected || instr->op > Op::SendPicP) << std::hex << word;
  const TwoWords again = encode(*instr);
  ASSERT_EQ(again.word0, word);
  ASSERT_EQ(again.word1, instr->op == Op::SendPicP ? next : 0u);
  ASSERT_FALSE(disassemble(*instr).empty());
}

TEST(IsaTable, DecodedWordsEncodeToThemselves) {
  std::mt19937 random(1);
  for (int i = 0; i < 200'000; ++i) check_word(random(), random());
  for (const Encoding& e :
       encodings())  // random operands below every opcode, and one flipped bit of the opcode
    for (int i = 0; i < 2'000; ++i) {
      const std::uint32_t word = e.match | (random() & ~e.mask);
      ASSERT_EQ(decode(word).value().op, e.op) << e.name;
      check_word(word, random());
      check_word(word ^ (1u << (random() % 32)), random());
    }
}

TEST(IsaTable, WordsWithoutALayoutAreFaults) {
  // Register add and sub, other runall strides, worker bundles and unused words (decisions.md 37).
  for (const std::uint32_t word :
       {0x44804642u, 0x44201021u, 0x1500F001u, 0x1501F000u, 0x00000000u, 0x43f04001u, 0x43a00001u,
        0x41800010u, 0x40c00010u, 0x42000000u, 0x18080000u, 0x11080000u})
    EXPECT_FALSE(decode(word).has_value()) << std::hex << word;
}

RC_GTEST_PROP(IsaTable, EveryRowInstructionRoundTrips, ()) {
  const auto below = [](std::uint32_t n) { return *rc::gen::inRange<std::uint32_t>(0, n); };
  const std::uint32_t sel = below(2), v18 = below(1 << 18), control = below(8);
  const std::uint32_t n6 = 1 + below(64), n7 = 1 + below(128), n12 = 1 + below(4096),
                      n19 = 1 + below(1 << 19);
  const std::uint32_t v13 = below(1 << 13), delta = below(1 << 11), sel2 = below(4), xpic14 = below(1 << 14);
  RC_ASSERT(*decode(delay(n19)) == (Instr{.op = Op::Delay, .n = n19}));
  RC_ASSERT(*decode(delaypic(n7, sel, v18)) ==
            (Instr{.op = Op::DelayPic, .n = n7, .selector = sel, .value = v18}));
  RC_ASSERT(*decode(delayxpic(n12, sel, v13)) ==
            (Instr{.op = Op::DelayXpic, .n = n12, .selector = sel, .value = v13}));
  RC_ASSERT(*decode(send(n6, v18, control)) ==
            (Instr{.op = Op::Send, .n = n6, .address = v18, .control = control}));
  RC_ASSERT(*decode(sendoff(n12, delta, control)) ==
            (Instr{.op = Op::SendOff, .n = n12, .address = delta, .control = control}));
  RC_ASSERT(*decode(sendpic(n6, sel2, v18)) ==
            (Instr{.op = Op::SendPic, .n = n6, .selector = sel2, .value = v18}));
  const std::uint32_t pic18 = below(1 << 18);
  const TwoWords w = sendpicp(n6, v18, control, sel, xpic14, pic18);
  RC_ASSERT(*decode(w.word0, w.word1) == (Instr{.op = Op::SendPicP,
                                                .n = n6,
                                                .selector = sel,
                                                .address = v18,
                                                .control = control,
                                                .xpic = xpic14,
                                                .pic = pic18}));
}

RC_GTEST_PROP(IsaTable, EverySupervisorInstructionRoundTrips, ()) {
  const auto below = [](std::uint32_t n) { return *rc::gen::inRange<std::uint32_t>(0, n); };
  const std::uint32_t a = below(16), b = below(16), c = below(16), i12 = below(4096), i20 = below(1 << 20);
  const std::uint32_t csr = below(256), target = 4 * below(1 << 19);
  const auto i16 = *rc::gen::inRange<std::int32_t>(-32768, 32768);
  const auto s = [](std::uint32_t v) { return static_cast<std::int32_t>(v); };
  RC_ASSERT(*decode(setzi(a, i20)) == (Instr{.op = Op::Setzi, .m = a, .imm = s(i20)}));
  RC_ASSERT(*decode(put(csr, a)) == (Instr{.op = Op::Put, .m = a, .imm = s(csr)}));
  RC_ASSERT(*decode(get(a, csr)) == (Instr{.op = Op::Get, .m = a, .imm = s(csr)}));
  RC_ASSERT(*decode(ld32(a, b, c, i12)) ==
            (Instr{.op = Op::Ld32, .m = a, .base = b, .delta = c, .imm = s(i12)}));
  RC_ASSERT(*decode(st32(a, b, c, i12)) ==
            (Instr{.op = Op::St32, .m = a, .base = b, .delta = c, .imm = s(i12)}));
  RC_ASSERT(*decode(add(a, b, i16)) == (Instr{.op = Op::AddImm, .m = a, .base = b, .imm = i16}));
  for (const Op op : {Op::Shl, Op::Shr, Op::AndImm, Op::OrImm}) {
    const Instr instr{.op = op, .m = a, .base = b, .imm = s(i12)};
    RC_ASSERT(*decode(encode(instr).word0) == instr);
  }
  for (const Op op : {Op::Brz, Op::Brnz, Op::BrnzDec, Op::Call}) {
    const Instr instr{.op = op, .address = target, .m = a};
    RC_ASSERT(*decode(encode(instr).word0) == instr);
  }
  RC_ASSERT(*decode(bri(target)) == (Instr{.op = Op::Bri, .address = target}));
  RC_ASSERT(*decode(br(a)) == (Instr{.op = Op::Br, .m = a}));
  RC_ASSERT(*decode(runall(a, b)) == (Instr{.op = Op::Runall, .m = a, .delta = b}));
  RC_ASSERT(*decode(sync(a)) == (Instr{.op = Op::Sync, .imm = s(a)}));
  RC_ASSERT(*decode(sans(a)) == (Instr{.op = Op::Sans, .imm = s(a)}));
  RC_ASSERT(*decode(trap(csr)) == (Instr{.op = Op::Trap, .imm = s(csr)}));
}

TEST(IsaEncode, OutOfRangeOperandsAreInternalErrors) {
  EXPECT_THROW(delay(0), InternalError);
  EXPECT_THROW(delay(524289), InternalError);
  EXPECT_THROW(delaypic(129, 0, 0), InternalError);
  EXPECT_THROW(delaypic(1, 2, 0), InternalError);
  EXPECT_THROW(delaypic(1, 0, 1 << 18), InternalError);
  EXPECT_THROW(delayxpic(4097, 0, 0), InternalError);
  EXPECT_THROW(delayxpic(1, 0, 1 << 13), InternalError);
  EXPECT_THROW(send(65, 0, 1), InternalError);
  EXPECT_THROW(send(1, 1 << 18, 1), InternalError);
  EXPECT_THROW(send(1, 0, 8), InternalError);
  EXPECT_THROW(sendoff(0, 0, 1), InternalError);
  EXPECT_THROW(sendoff(4097, 0, 1), InternalError);
  EXPECT_THROW(sendoff(1, 2048, 1), InternalError);
  EXPECT_THROW(sendpic(65, 0, 0), InternalError);
  EXPECT_THROW(sendpic(1, 4, 0), InternalError);
  EXPECT_THROW(sendpicp(1, 0, 0, 0, 1 << 14, 0), InternalError);
  EXPECT_THROW(setzi(16, 0), InternalError);
  EXPECT_THROW(setzi(0, 1 << 20), InternalError);
  EXPECT_THROW(put(256, 0), InternalError);
  EXPECT_THROW(ld32(0, 0, 0, 4096), InternalError);
  EXPECT_THROW(add(0, 0, 32768), InternalError);
  EXPECT_THROW(add(0, 0, -32769), InternalError);
  EXPECT_THROW(call(7, 0x5C102), InternalError);
  EXPECT_THROW(call(7, 0x200000), InternalError);
  EXPECT_THROW(sync(16), InternalError);
}

TEST(IsaText, AssemblerForm) {
  EXPECT_EQ(disassemble(decode(0x61d9c000).value()), "delaypic 60, 0, 0x1c000");
  EXPECT_EQ(disassemble(decode(0xf7ecc189, 0x0a01c800).value()),
            "sendpicp 64, 0x19831, 1, 0, 0x280, 0x1c800");
  EXPECT_EQ(disassemble(decode(0x766fc001).value()), "sendoff 4084, 0x0, 1");
  EXPECT_EQ(disassemble(decode(0x22bbffe0).value()), "add $m11, $m11, -32");
  EXPECT_EQ(disassemble(decode(0x01b8f001).value()), "ld32 $m8, $m11, $m15, 1");
  EXPECT_EQ(disassemble(decode(0x18717040).value()), "call $m7, 0x5c100");
  EXPECT_EQ(disassemble(decode(kReturnWord).value()), "br $m10");
  EXPECT_EQ(disassemble(decode(0x43f04000).value()), "exitz");
}

std::uint32_t word_of(const char* text) { return encode(parse(text).instr.value()).word0; }

TEST(IsaText, IsReadBack) {  // the same vectors, hardware.md 3.10 and 4.1
  EXPECT_EQ(word_of("delaypic 60, 0, 0x1c000"), 0x61d9c000U);
  const TwoWords pair = encode(parse("sendpicp 64, 0x19831, 1, 0, 640, 0x1c800").instr.value());
  EXPECT_EQ(pair.word0, 0xf7ecc189U);
  EXPECT_EQ(pair.word1, 0x0a01c800U);
  EXPECT_EQ(word_of("  sendoff\t4084 ,0x0,1  "), 0x766fc001U);
  EXPECT_EQ(word_of("add $m11, $m11, -32"), 0x22bbffe0U);
  EXPECT_EQ(word_of("ld32 $m8, $m11, $m15, 1"), 0x01b8f001U);
  EXPECT_EQ(word_of("call $m7, 0x5c100"), 0x18717040U);
  EXPECT_EQ(word_of("br $m10"), kReturnWord);
  EXPECT_EQ(word_of("exitz"), 0x43f04000U);
}

TEST(IsaText, FaultsAreNamed) {
  const auto fault = [](const char* text) {
    const Parsed p = parse(text);
    EXPECT_FALSE(p.instr.has_value()) << text;
    return p.fault;
  };
  EXPECT_EQ(fault("mov $m1, $m2"), "no instruction is called 'mov'");
  EXPECT_EQ(fault(""), "no instruction is called ''");
  EXPECT_EQ(fault("delay"), "delay: 0 operands, wanted 1");
  EXPECT_EQ(fault("delay 1, 2"), "delay: 2 operands, wanted 1");
  EXPECT_EQ(fault("delay 0"), "delay: operand 1 is no number 1..524288");
  EXPECT_EQ(fault("sendoff 4097, 0, 1"), "sendoff: operand 1 is no number 1..4096");
  EXPECT_EQ(fault("send 1, 0x40000, 1"), "send: operand 2 is no number 0..262143");
  EXPECT_EQ(fault("add $m0, $m1, -32769"), "add: operand 3 is no number -32768..32767");
  EXPECT_EQ(fault("br $m16"), "br: operand 1 is no register $m0..$m15");
  EXPECT_EQ(fault("br m1"), "br: operand 1 is no register $m0..$m15");
  EXPECT_EQ(fault("call $m7, 0x5c102"), "call: operand 2 is no number 0..2097148, a multiple of 4");
  for (const char* text :
       {"delay 0x", "delay 5x", "delay", "delay -1", "delay 99999999999", "delay ,", "exitz 1"})
    fault(text);
}

// Every word that decodes is the word of its text.
TEST(IsaText, EveryWordRoundTrips) {
  std::mt19937 random(7);
  std::size_t decoded = 0;
  for (const Encoding& e : encodings()) {
    for (int i = 0; i < 2000; ++i) {
      const std::uint32_t word = e.match | (static_cast<std::uint32_t>(random()) & ~e.mask);
      const auto next = static_cast<std::uint32_t>(random());
      const auto instr = decode(word, next);
      ASSERT_TRUE(instr.has_value());
      const std::string text = disassemble(*instr);
      const Parsed again = parse(text);
      ASSERT_TRUE(again.instr.has_value()) << text << ": " << again.fault;
      EXPECT_EQ(encode(*again.instr).word0, word) << text;
      if (instr->op == Op::SendPicP) {
        EXPECT_EQ(encode(*again.instr).word1, next) << text;
      }
      ++decoded;
    }
  }
  EXPECT_EQ(decoded, 2000 * encodings().size());
}

}  // namespace
}  // namespace tw::isa
