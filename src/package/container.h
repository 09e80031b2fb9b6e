// The outer form of a package file: header, section directory, page-aligned sections
// (docs/package-format.md).
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "package/package.h"

namespace tw::package {

inline constexpr std::array<std::uint8_t, 8> kMagic{0x89, 'T', 'W', 'P', 'K', 'G', '\r', '\n'};
inline constexpr std::uint64_t kHeaderBytes = 64, kEntryBytes = 32, kPageBytes = 4096;

enum class SectionKind : std::uint32_t { Metadata = 0, Blob = 1, Weights = 2 };

struct Section {
  SectionKind kind = SectionKind::Metadata;
  std::uint32_t index = 0;  // of its kind
  std::uint64_t offset = 0, bytes = 0, hash = 0;
};
std::string section_name(const Section& section);

// Sections at their places, and the bytes of header and directory that describe them.
struct Frame {
  std::vector<std::uint8_t> head;
  std::vector<Section> sections;
  std::uint64_t file_bytes = 0;
};
Frame frame_of(std::span<const std::span<const std::uint8_t>> contents, std::size_t blobs);

// Checks everything outside the sections' meaning: magic, version, sizes, hashes, zero padding.
// Error{File} that starts with `name`.
std::vector<Section> read_frame(std::span<const std::uint8_t> file, const std::string& name);

}  // namespace tw::package
