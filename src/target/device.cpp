#include "target/device.h"

#include <fmt/core.h>
#include <toml++/toml.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <utility>

#include "base/error.h"
#include "target/topology.h"

namespace tw {
namespace {

using Word = std::uint32_t Device::*;

// The integer keys of a device file; each has the name of its field.
constexpr std::pair<const char*, Word> kWords[] = {
    {"tiles", &Device::tiles},
    {"memory_base", &Device::memory_base},
    {"memory_end", &Device::memory_end},
    {"interleaved_base", &Device::interleaved_base},
    {"load_base", &Device::load_base},
    {"loader_end", &Device::loader_end},
    {"aperture_begin", &Device::aperture_begin},
    {"aperture_end", &Device::aperture_end},
    {"runtime_state", &Device::runtime_state},
    {"data_base", &Device::data_base},
    {"code_base", &Device::code_base},
    {"element_bytes", &Device::element_bytes},
    {"pair_bytes", &Device::pair_bytes},
    {"fetch_guard", &Device::fetch_guard},
    {"table_budget", &Device::table_budget},
    {"fragment_limit", &Device::fragment_limit},
    {"phase_constant", &Device::phase_constant},
    {"max_message_words", &Device::max_message_words},
};

[[noreturn]] void bad_key(const std::filesystem::path& file, std::string_view key, std::string_view what) {
  throw Error(ErrorKind::Usage, fmt::format("{}: {}: {}", file.string(), key, what));
}

toml::table parse(const std::filesystem::path& file) {
  std::error_code ignored;
  std::ifstream stream(file, std::ios::binary);
  if (!stream || std::filesystem::is_directory(file, ignored))
    throw Error(ErrorKind::File, fmt::format("{}: cannot read device description", file.string()));
  constexpr std::size_t kMostBytes = 1 << 20;  // a pipe or a device may have no end
  std::string text(kMostBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > kMostBytes)
    throw Error(ErrorKind::File, fmt::format("{}: more than {} bytes", file.string(), kMostBytes));
  try {
    return toml::parse(text, file.string());
  } catch (const toml::parse_error& e) {
    throw Error(ErrorKind::File,
                fmt::format("{}:{}: {}", file.string(), e.source().begin.line, e.description()));
  }
}

std::uint32_t word_value(const toml::node& node, const std::filesystem::path& file, std::string_view key) {
  const auto value = node.value_exact<std::int64_t>();
  if (!value || *value < 0 || *value > std::numeric_limits<std::uint32_t>::max())
    bad_key(file, key, "an integer from 0 to 2^32-1 is needed");
  return static_cast<std::uint32_t>(*value);
}

std::string text_value(const toml::node& node, const std::filesystem::path& file, std::string_view key) {
  const auto value = node.value_exact<std::string>();
  if (!value) bad_key(file, key, "a string is needed");
  return *value;
}

void set(Device& device, std::string_view key, const toml::node& node, const std::filesystem::path& file) {
  for (const auto& [name, member] : kWords)
    if (key == name) {
      device.*member = word_value(node, file, key);
      return;
    }
  if (key == "name") {
    device.name = text_value(node, file, key);
  } else if (key == "clock_hz") {
    const auto value = node.is_number() ? node.value<double>() : std::nullopt;
    if (!value) bad_key(file, key, "a number is needed");
    device.clock_hz = *value;
  } else if (key == "topology") {
    if (text_value(node, file, key) != "c600") bad_key(file, key, "the only topology is \"c600\"");
  } else {
    bad_key(file, key, "unknown key");
  }
}

}  // namespace

Device c600() { return {}; }

Device load_device(const std::filesystem::path& file) {
  const toml::table table = parse(file);
  Device device = c600();
  for (const auto& [key, node] : table) set(device, key.str(), node, file);
  if (const auto problems = validate(device); !problems.empty()) {
    std::string text = fmt::format("{}: not a usable device", file.string());
    for (const std::string& p : problems) text += "\n  " + p;
    throw Error(ErrorKind::Usage, text);
  }
  return device;
}

std::vector<std::string> validate(const Device& d) {
  std::vector<std::string> problems;
  const auto need = [&](bool good, const char* rule) {
    if (!good) problems.emplace_back(rule);
  };
  need(std::isfinite(d.clock_hz) && d.clock_hz > 0, "clock_hz must be positive");
  need(d.tiles == topology::kTiles,
       "tiles must be 1472, the tiles of topology c600 (use --tiles to plan fewer)");
  need(d.element_bytes >= 64 && d.element_bytes % 64 == 0, "element_bytes must be a positive multiple of 64");
  need(d.pair_bytes >= 64 && d.pair_bytes % 64 == 0, "pair_bytes must be a positive multiple of 64");
  if (!problems.empty()) return problems;  // the rules below divide by these

  for (const auto& [name, member] : kWords) {
    const bool is_address = member == &Device::load_base || member == &Device::loader_end ||
                            member == &Device::aperture_begin || member == &Device::aperture_end ||
                            member == &Device::runtime_state || member == &Device::data_base;
    if (is_address && d.*member % 8 != 0) problems.push_back(fmt::format("{} must be a multiple of 8", name));
  }
  // Addresses are 20-bit immediates and 18-bit word fields (hardware.md 3.2, 4.1).
  need(d.memory_end <= 0x100000, "memory_end must be at most 0x100000");
  need(d.memory_base < d.interleaved_base && d.interleaved_base < d.memory_end,
       "memory_base < interleaved_base < memory_end is needed");
  need(d.memory_base % d.element_bytes == 0, "memory_base must be a multiple of element_bytes");
  need(d.interleaved_base % d.element_bytes == 0, "interleaved_base must be a multiple of element_bytes");
  need(d.memory_end >= d.interleaved_base && (d.memory_end - d.interleaved_base) % d.pair_bytes == 0,
       "memory_end - interleaved_base must be a multiple of pair_bytes");
  need(d.interleaved_base / d.element_bytes <= kFirstPair, "element_bytes is too small for interleaved_base");
  need(d.memory_base <= d.load_base && d.load_base + 8 <= d.aperture_begin,
       "memory_base <= load_base and load_base + 8 <= aperture_begin is needed");
  need(d.interleaved_base < d.loader_end && d.loader_end <= d.memory_end,
       "interleaved_base < loader_end <= memory_end is needed");
  need(d.aperture_begin < d.aperture_end && d.aperture_end <= d.runtime_state,
       "aperture_begin < aperture_end <= runtime_state is needed");
  // Completion word, call count and the supervisor stack of 256 bytes below data_base (decisions.md 16, 32).
  need(d.runtime_state + 0x110 <= d.data_base, "data_base must be at least runtime_state + 0x110");
  need(d.data_base <= d.code_base && d.code_base < d.interleaved_base,
       "data_base <= code_base < interleaved_base is needed");
  need(d.code_base % d.element_bytes == 0, "code_base must be a multiple of element_bytes");
  need(d.fetch_guard % 4 == 0 && d.fetch_guard < d.element_bytes,
       "fetch_guard must be a multiple of 4 below element_bytes");
  need(d.table_budget > 0 && d.table_budget % 4 == 0 && d.table_budget <= d.interleaved_base - d.code_base,
       "table_budget must be a positive multiple of 4 that fits between code_base and interleaved_base");
  need(d.fragment_limit > 0, "fragment_limit must be positive");
  need(d.max_message_words >= 1 && d.max_message_words <= 4148, "max_message_words must be 1 to 4148");
  return problems;
}

}  // namespace tw
