// Single-bit flips in a package's exchange rows, supervisor words and patch tables: the simulator must refuse
// what the hardware would refuse, and whatever it lets through is seen here. Every flip ends in exactly one
// class; those without any effect are printed one by one.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "base/error.h"
#include "base/parallel.h"
#include "compile/compile.h"
#include "model/model.h"
#include "model/tensors.h"
#include "numeric/formats.h"
#include "package/package.h"
#include "sim/machine.h"
#include "target/isa.h"

namespace tw {
namespace {

constexpr std::uint32_t kTiles = 64;
constexpr std::size_t kFlips = 520;
constexpr std::uint64_t kSeed = 20260;

enum class Pool : std::uint8_t {
  Row,
  Program,
  Descriptor,
  PatchOffsets,
  PatchValues,
  RepeatList,
  RepeatTable
};
const char* name_of(Pool pool) {
  static constexpr const char* kNames[] = {"row",          "program",     "descriptor",  "patch-offsets",
                                           "patch-values", "repeat-list", "repeat-table"};
  return kNames[static_cast<std::size_t>(pool)];
}

struct Word {
  Pool pool{};
  std::uint32_t tile = 0, address = 0;
  bool second = false;  // word1 of a sendpicp
};

enum class Outcome : std::uint8_t { Refused, Fault, WrongResult, StrayWrite, NoEffect, Unclassified };
const char* name_of(Outcome outcome) {
  static constexpr const char* kNames[] = {"refused by the loader", "fault",     "wrong result",
                                           "stray write",           "no effect", "UNCLASSIFIED"};
  return kNames[static_cast<std::size_t>(outcome)];
}

// Faults that the decoder, the control flow or the fabric raises; the others come from kernels and limits.
bool by_decoder_or_fabric(sim::FaultKind kind) {
  switch (kind) {
    case sim::FaultKind::KernelContract:
    case sim::FaultKind::F16Overflow:
    case sim::FaultKind::UndefinedRead:
    case sim::FaultKind::StackOverflow:
    case sim::FaultKind::HostLimit:
    case sim::FaultKind::StepLimit:
      return false;
    default:
      return true;
  }
}

std::vector<std::uint8_t> f16_bytes(const std::vector<float>& values) {
  std::vector<std::uint16_t> half(values.size());
  numeric::f32_to_f16(values, half);
  std::vector<std::uint8_t> bytes(2 * half.size());
  std::memcpy(bytes.data(), half.data(), bytes.size());
  return bytes;
}

// What a tile's segments hold before the run.
class TileWords {
 public:
  TileWords(const package::DeviceImage& image, std::uint32_t tile) : image_(image), tile_(tile) {}
  std::uint32_t at(std::uint32_t address) const {
    const package::Segment* s = segment(address);
    TW_CHECK(s != nullptr, fmt::format("no segment holds {:#x}", address));
    std::uint32_t w = 0;
    std::memcpy(&w, image_.blobs[s->blob].data() + (address - s->address), 4);
    return w;
  }
  const package::Segment* segment(std::uint32_t address) const {
    for (const package::Segment& s : image_.tiles[tile_].segments)
      if (address >= s.address && address + 4 <= s.address + image_.blobs[s.blob].size()) return &s;
    return nullptr;
  }

 private:
  const package::DeviceImage& image_;
  std::uint32_t tile_;
};

// Reads one tile's program as the supervisor would and lists the words it depends on. Knows the code's
// symbols and the calling conventions of hardware.md 3.9, nothing of the emitter.
class Survey {
 public:
  Survey(const package::Package& package, std::uint32_t tile) : words_(package.image, tile), tile_(tile) {
    for (const package::Symbol& s : package.side.symbols) symbols_[s.name] = s;
    walk();
  }
  bool takes_part() const { return active_rows_ > 0; }
  // A helper writes this row word before every use of it.
  bool rewritten(std::uint32_t address) const { return rewritten_.contains(address); }
  std::vector<Word> found() const { return {all_.begin(), all_.end()}; }

 private:
  struct Less {
    bool operator()(const Word& a, const Word& b) const { return a.address < b.address; }
  };
  void add(Pool pool, std::uint32_t address, bool second = false) {
    all_.insert({pool, tile_, address, second});
  }
  void range(Pool pool, std::uint32_t address, std::uint32_t words) {
    for (std::uint32_t i = 0; i < words; ++i) add(pool, address + 4 * i);
  }
  void row(std::uint32_t address) {
    for (;; address += 4) {
      const std::uint32_t w = words_.at(address);
      add(Pool::Row, address);
      if (w == isa::kReturnWord) return;
      const auto instr = isa::decode(w, words_.at(address + 4));
      TW_CHECK(instr.has_value(), "a row of the clean package does not decode");
      if (instr->op == isa::Op::SendPicP) add(Pool::Row, address += 4, true);
    }
  }
  void walk() {
    const package::Symbol& program = symbols_.at("program");
    std::map<std::uint32_t, std::uint32_t> m;
    std::uint32_t pc = program.address;
    bool sync3 = false;
    for (;; pc += 4) {
      add(Pool::Program, pc);
      const auto i = isa::decode(words_.at(pc));
      TW_CHECK(i.has_value(), "a program of the clean package does not decode");
      if (i->op == isa::Op::Setzi) m[i->m] = static_cast<std::uint32_t>(i->imm);
      if (i->op == isa::Op::Br && i->m == 0 && m[0] == symbols_.at("complete").address) break;
      if (i->op == isa::Op::Sync) sync3 = i->imm == 3;
      if (i->op == isa::Op::Call) call(*i, m, sync3);
    }
    for (pc += 4; words_.segment(pc) == words_.segment(program.address); pc += 4) add(Pool::Descriptor, pc);
  }
  void call(const isa::Instr& i, std::map<std::uint32_t, std::uint32_t>& m, bool sync3) {
    const package::Symbol& rows = symbols_.at("rows");
    if (i.address >= rows.address && i.address < rows.address + rows.bytes) {
      active_rows_ += sync3 ? 1 : 0;
      row(i.address);
    } else if (i.address == symbols_.at("patch_row").address) {
      range(Pool::PatchOffsets, m[3], m[5]);
      range(Pool::PatchValues, m[4], m[5]);
      for (std::uint32_t k = 0; k < m[5]; ++k) rewritten_.insert(m[2] + words_.at(m[3] + 4 * k));
    } else if (i.address == symbols_.at("repeat_step").address) {
      range(Pool::RepeatList, m[2], 3 * m[3]);
      for (std::uint32_t k = 0; k < m[3]; ++k) rewritten_.insert(words_.at(m[2] + 12 * k));
    } else if (i.address == symbols_.at("repeat_table").address) {
      range(Pool::RepeatList, m[2], 2 * m[3]);
      for (std::uint32_t k = 0; k < m[3]; ++k) {
        range(Pool::RepeatTable, words_.at(m[2] + 8 * k + 4), m[5]);
        rewritten_.insert(words_.at(m[2] + 8 * k));
      }
    }
  }

  TileWords words_;
  std::uint32_t tile_;
  std::map<std::string, package::Symbol> symbols_;
  std::set<Word, Less> all_;
  std::set<std::uint32_t> rewritten_;
  std::uint32_t active_rows_ = 0;
};

struct Flip {
  Word word;
  unsigned bit = 0;
};
struct Verdict {
  Outcome outcome = Outcome::Unclassified;
  std::string text;  // fault kind, refusal, or what went on
  bool counted = false;
  std::int64_t cycles = 0;  // relative to the clean run
};

struct Run {
  std::string fault, what;
  bool by_device = false, halted = false;
  std::vector<std::vector<std::uint8_t>> outputs;
  std::uint64_t marks = 0, cycles = 0;
};

class Campaign {
 public:
  Campaign() {
    const model::Model model =
        model::build({.name = "siglip-so400m", .layers = 3, .batch = 1, .small = true});
    compile::Options options;
    options.plan.tiles = kTiles;
    Progress quiet;
    compile::Result result = compile::compile(device_, model.graph, options, quiet);
    model::Tensors random(model::random_source(model, 1));
    package_.weights = compile::pack_weights(
        result, [&](const std::string& n) -> const std::vector<float>& { return random(n); }, 0);
    package_.image = std::move(result.image);
    package_.side = std::move(result.side);
    input_ = f16_bytes(random(model.vision.input));
    file_ = package::to_bytes(package_);
    for (const package::SectionInfo& s : package::sections(file_)) sections_[s.name] = s;
    clean_ = run(package_);
  }

  const Run& clean() const { return clean_; }
  const package::Package& package() const { return package_; }

  std::vector<Flip> choose() const {
    std::map<int, std::map<std::uint32_t, std::vector<Word>>> pools;  // rows, code, tables
    for (std::uint32_t t = 0; t < device_.tiles; ++t) {
      const Survey survey(package_, t);
      if (!survey.takes_part()) continue;
      for (const Word& w : survey.found())
        pools[w.pool == Pool::Row ? 0 : w.pool <= Pool::Descriptor ? 1 : 2][t].push_back(w);
    }
    std::mt19937_64 random(kSeed);
    const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    std::vector<Flip> flips;
    for (std::size_t i = 0; i < kFlips; ++i) {
      const auto& tiles = pools.at(i % 10 < 4 ? 0 : i % 10 < 7 ? 1 : 2);
      const auto& words = std::next(tiles.begin(), static_cast<std::ptrdiff_t>(pick(tiles.size())))->second;
      flips.push_back({words[pick(words.size())], static_cast<unsigned>(pick(32))});
    }
    return flips;
  }

  Verdict apply(const Flip& flip) const {
    Verdict v;
    try {
      std::vector<std::uint8_t> bytes = file_;
      const package::Segment* s = TileWords(package_.image, flip.word.tile).segment(flip.word.address);
      const package::SectionInfo& section = sections_.at(fmt::format("blob {}", s->blob));
      bytes[section.offset + (flip.word.address - s->address) + flip.bit / 8] ^=
          static_cast<std::uint8_t>(1U << flip.bit % 8);
      const Run r = run(package::from_bytes(package::rehash(std::move(bytes)), "flipped"));
      v.cycles = static_cast<std::int64_t>(r.cycles) - static_cast<std::int64_t>(clean_.cycles);
      if (!r.fault.empty()) {
        v = {Outcome::Fault, r.fault + ": " + r.what, r.by_device, v.cycles};
      } else if (r.outputs != clean_.outputs || !r.halted) {
        v.outcome = Outcome::WrongResult;
      } else {
        v.outcome = r.marks != clean_.marks ? Outcome::StrayWrite : Outcome::NoEffect;
      }
    } catch (const Error& e) {
      v = {Outcome::Refused, e.what(), false, 0};
    } catch (const std::exception& e) {
      v = {Outcome::Unclassified, e.what(), false, 0};
    }
    return v;
  }

  std::string describe(const Flip& f) const {
    const TileWords words(package_.image, f.word.tile);
    const std::uint32_t before = words.at(f.word.address), after = before ^ 1U << f.bit;
    const auto text = [&](std::uint32_t w) {
      const bool code = f.word.pool == Pool::Row || f.word.pool == Pool::Program ||
                        f.word.pool == Pool::PatchValues || f.word.pool == Pool::RepeatTable;
      const bool has_next = words.segment(f.word.address + 4) != nullptr;
      const auto i = isa::decode(w, has_next ? words.at(f.word.address + 4) : 0);
      return code && !f.word.second && i ? isa::disassemble(*i) : fmt::format("{:08x}", w);
    };
    return fmt::format("{} tile {} {:#x} bit {}: {} -> {}{}", name_of(f.word.pool), f.word.tile,
                       f.word.address, f.bit, text(before), text(after), context(f));
  }

 private:
  // What may explain that a flip has no effect.
  std::string context(const Flip& f) const {
    const TileWords words(package_.image, f.word.tile);
    if (f.word.pool == Pool::Row) {
      if (Survey(package_, f.word.tile).rewritten(f.word.address)) return " (a patch rewrites it before use)";
      return words.at(f.word.address + 4) == isa::kReturnWord ? " (the row's last)" : "";
    }
    if (f.word.pool != Pool::Program) return "";
    for (std::uint32_t a = f.word.address; words.segment(a) != nullptr; a += 4) {
      const auto i = isa::decode(words.at(a));
      if (!i || i->op == isa::Op::Call) break;
      if (i->op == isa::Op::Sans) return " (the tile takes no part in the phase)";
    }
    return "";
  }
  Run run(const package::Package& p) const {
    sim::Options options;
    options.threads = 1;
    sim::Machine machine(device_, p.image, options);
    sim::CallResult result = machine.initialize(p.weights, 1);
    if (!result.fault) result = machine.run({input_});
    Run r;
    if (result.fault) {
      r.fault = sim::name_of(result.fault->kind);
      r.what = result.fault->what;
      r.by_device = by_decoder_or_fabric(result.fault->kind);
    }
    r.halted = machine.halted();
    r.outputs = std::move(result.outputs);
    r.marks = machine.written_map_digest();
    r.cycles = result.stats.cycles;
    return r;
  }

  Device device_ = c600();
  package::Package package_;
  std::vector<std::uint8_t> input_, file_;
  std::map<std::string, package::SectionInfo> sections_;
  Run clean_;
};

void print_table(const std::vector<Flip>& flips, const std::vector<Verdict>& verdicts) {
  std::map<std::string, std::map<Pool, int>> table;
  for (std::size_t i = 0; i < flips.size(); ++i) {
    const Verdict& v = verdicts[i];
    std::string row = name_of(v.outcome);
    if (v.outcome == Outcome::Fault)
      row += fmt::format(" {}{}", v.text.substr(0, v.text.find(':')), v.counted ? " *" : "");
    ++table[row][flips[i].word.pool];
  }
  fmt::print("{:<36}{:>7}", "outcome (* decoder or fabric)", "all");
  for (int p = 0; p < 7; ++p) fmt::print("{:>15}", name_of(static_cast<Pool>(p)));
  fmt::print("\n");
  for (const auto& [name, counts] : table) {
    int all = 0;
    for (const auto& [pool, n] : counts) all += n;
    fmt::print("{:<36}{:>7}", name, all);
    for (int p = 0; p < 7; ++p) {
      const auto it = counts.find(static_cast<Pool>(p));
      fmt::print("{:>15}", it == counts.end() ? 0 : it->second);
    }
    fmt::print("\n");
  }
}

TEST(Flip, EveryFlipIsSeenOrNamed) {
  const Campaign campaign;
  ASSERT_EQ(campaign.clean().fault, "") << campaign.clean().what;
  ASSERT_TRUE(campaign.clean().halted);
  const std::vector<Flip> flips = campaign.choose();
  ASSERT_GE(flips.size(), 500U);
  std::vector<Verdict> verdicts(flips.size());
  parallel_for(flips.size(), 1, 2, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) verdicts[i] = campaign.apply(flips[i]);
  });
  print_table(flips, verdicts);
  std::size_t device_faults = 0, loaded = 0, printed = 0, silent = 0;
  for (std::size_t i = 0; i < flips.size(); ++i) {
    const Verdict& v = verdicts[i];
    if (v.outcome == Outcome::Fault) {
      EXPECT_FALSE(v.text.empty());
      device_faults += v.counted;
    }
    loaded += v.outcome != Outcome::Refused;
    EXPECT_NE(v.outcome, Outcome::Unclassified) << campaign.describe(flips[i]) << ": " << v.text;
    silent += v.outcome == Outcome::NoEffect;
    if (v.outcome == Outcome::NoEffect || v.outcome == Outcome::StrayWrite) {
      fmt::print("{}: {}, cycles {:+}\n", name_of(v.outcome), campaign.describe(flips[i]), v.cycles);
      printed += v.outcome == Outcome::NoEffect;
    }
  }
  fmt::print("{} flips, {} loaded, {} faults by decoder or fabric ({:.1f} %)\n", flips.size(), loaded,
             device_faults, 100.0 * static_cast<double>(device_faults) / static_cast<double>(loaded));
  EXPECT_EQ(printed, silent);
  EXPECT_GE(2 * device_faults, loaded);
}

// The survey must see all kinds of words, or the campaign would flip less than it says.
TEST(Flip, SurveyFindsRowsProgramsAndTables) {
  const Campaign campaign;
  std::map<Pool, std::size_t> count;
  for (std::uint32_t t = 0; t < c600().tiles; ++t)
    for (const Word& w : Survey(campaign.package(), t).found()) ++count[w.pool];
  // This model's moving senders all use the base register, so it has no Repeat patch lists (tests/emit has).
  for (const Pool p : {Pool::Row, Pool::Program, Pool::Descriptor, Pool::PatchOffsets, Pool::PatchValues})
    EXPECT_GT(count[p], 50U) << name_of(p);
}

}  // namespace
}  // namespace tw
