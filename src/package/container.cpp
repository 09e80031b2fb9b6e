#include "package/container.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/digest.h"
#include "base/error.h"
#include "base/math.h"

namespace tw::package {
namespace {

// Byte positions in the header; all numbers little-endian.
constexpr std::size_t kVersionAt = 8, kSectionsAt = 12, kFileBytesAt = 16, kDirectoryHashAt = 24,
                      kHeaderHashAt = 56;

static_assert(std::endian::native == std::endian::little, "package files are little-endian");

template <class T>
T load(std::span<const std::uint8_t> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}
template <class T>
void store(std::span<std::uint8_t> bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

Section load_section(std::span<const std::uint8_t> file, std::size_t i) {
  const std::size_t at = kHeaderBytes + i * kEntryBytes;
  return {static_cast<SectionKind>(load<std::uint32_t>(file, at)), load<std::uint32_t>(file, at + 4),
          load<std::uint64_t>(file, at + 8), load<std::uint64_t>(file, at + 16),
          load<std::uint64_t>(file, at + 24)};
}
void store_section(std::span<std::uint8_t> file, std::size_t i, const Section& s) {
  const std::size_t at = kHeaderBytes + i * kEntryBytes;
  store(file, at, static_cast<std::uint32_t>(s.kind));
  store(file, at + 4, s.index);
  store(file, at + 8, s.offset);
  store(file, at + 16, s.bytes);
  store(file, at + 24, s.hash);
}

// Hashes of directory and header; the sections' own are in place already.
void seal(std::span<std::uint8_t> file, std::size_t sections) {
  store(file, kDirectoryHashAt, xxh3_64(file.subspan(kHeaderBytes, sections * kEntryBytes)));
  store(file, kHeaderHashAt, xxh3_64(file.first(kHeaderHashAt)));
}

[[noreturn]] void reject(const std::string& name, const std::string& what) {
  throw Error(ErrorKind::File, name + ": " + what);
}

std::size_t read_header(std::span<const std::uint8_t> file, const std::string& name) {
  const std::size_t known = std::min(file.size(), kMagic.size());
  if (!std::equal(kMagic.begin(), kMagic.begin() + known, file.begin()))
    reject(name, "is not a Tilewright package");
  if (file.size() < kHeaderBytes)
    reject(name, fmt::format("truncated at byte {}: the header has {} bytes", file.size(), kHeaderBytes));
  const auto version = load<std::uint32_t>(file, kVersionAt);
  if (version != kVersion)
    reject(name, fmt::format("format version {}, this program reads {}", version, kVersion));
  if (load<std::uint64_t>(file, kHeaderHashAt) != xxh3_64(file.first(kHeaderHashAt)))
    reject(name, "header hash mismatch");
  const auto file_bytes = load<std::uint64_t>(file, kFileBytesAt);
  if (file.size() < file_bytes)
    reject(name, fmt::format("truncated at byte {} of {}", file.size(), file_bytes));
  if (file.size() > file_bytes)
    reject(name, fmt::format("{} bytes follow the end at byte {}", file.size() - file_bytes, file_bytes));
  const std::size_t sections = load<std::uint32_t>(file, kSectionsAt);
  if (sections == 0 || sections > (file.size() - kHeaderBytes) / kEntryBytes)
    reject(name, fmt::format("{} sections in {} bytes", sections, file.size()));
  for (std::size_t i = kDirectoryHashAt + 8; i < kHeaderHashAt; ++i)
    if (file[i] != 0) reject(name, fmt::format("reserved header byte {} is not zero", i));
  if (load<std::uint64_t>(file, kDirectoryHashAt) !=
      xxh3_64(file.subspan(kHeaderBytes, sections * kEntryBytes)))
    reject(name, "directory hash mismatch");
  return sections;
}

// Metadata, then blobs, then weights, each kind numbered from 0.
void check_kind(const std::vector<Section>& sections, std::size_t i, const std::string& name) {
  const Section& s = sections[i];
  bool good = i == 0 && s.kind == SectionKind::Metadata && s.index == 0;
  if (i > 0) {
    const Section& before = sections[i - 1];
    const bool next_of_kind = s.kind == before.kind && s.index == before.index + 1;
    const bool new_kind = s.kind > before.kind && s.kind <= SectionKind::Weights && s.index == 0;
    good = s.kind != SectionKind::Metadata && (next_of_kind || new_kind);
  }
  if (!good)
    reject(name, fmt::format("section {}: unexpected kind {} index {}", i, static_cast<std::uint32_t>(s.kind),
                             s.index));
}

}  // namespace

std::string section_name(const Section& s) {
  switch (s.kind) {
    case SectionKind::Metadata:
      return "metadata";
    case SectionKind::Blob:
      return fmt::format("blob {}", s.index);
    case SectionKind::Weights:
      return fmt::format("weights {}", s.index);
  }
  return fmt::format("kind {} index {}", static_cast<std::uint32_t>(s.kind), s.index);
}

Frame frame_of(std::span<const std::span<const std::uint8_t>> contents, std::size_t blobs) {
  Frame frame;
  std::uint64_t end = kHeaderBytes + contents.size() * kEntryBytes;
  frame.head.resize(end);
  for (std::size_t i = 0; i < contents.size(); ++i) {
    Section s{.offset = up(end, kPageBytes), .bytes = contents[i].size(), .hash = xxh3_64(contents[i])};
    if (i > 0) {
      s.kind = i <= blobs ? SectionKind::Blob : SectionKind::Weights;
      s.index = static_cast<std::uint32_t>(i <= blobs ? i - 1 : i - 1 - blobs);
    }
    store_section(frame.head, i, s);
    frame.sections.push_back(s);
    end = s.offset + s.bytes;
  }
  frame.file_bytes = end;
  std::ranges::copy(kMagic, frame.head.begin());
  store(std::span(frame.head), kVersionAt, kVersion);
  store(std::span(frame.head), kSectionsAt, static_cast<std::uint32_t>(contents.size()));
  store(std::span(frame.head), kFileBytesAt, frame.file_bytes);
  seal(frame.head, contents.size());
  return frame;
}

std::vector<Section> read_frame(std::span<const std::uint8_t> file, const std::string& name) {
  const std::size_t count = read_header(file, name);
  std::vector<Section> sections;
  std::uint64_t end = kHeaderBytes + count * kEntryBytes;
  for (std::size_t i = 0; i < count; ++i) {
    const Section& s = sections.emplace_back(load_section(file, i));
    check_kind(sections, i, name);
    if (s.offset != up(end, kPageBytes))
      reject(name, fmt::format("section {} ({}): stands at byte {}, expected {}", i, section_name(s),
                               s.offset, up(end, kPageBytes)));
    if (s.offset > file.size() || s.bytes > file.size() - s.offset)
      reject(name, fmt::format("section {} ({}): {} bytes at byte {} end behind the file's {}", i,
                               section_name(s), s.bytes, s.offset, file.size()));
    for (std::uint64_t at = end; at < s.offset; ++at)
      if (file[at] != 0) reject(name, fmt::format("padding byte {} is not zero", at));
    if (xxh3_64(file.subspan(s.offset, s.bytes)) != s.hash)
      reject(name, fmt::format("section {} hash mismatch ({})", i, section_name(s)));
    end = s.offset + s.bytes;
  }
  if (end != file.size()) reject(name, fmt::format("{} bytes follow the last section", file.size() - end));
  return sections;
}

// Both work on damaged files too: what they cannot make sense of they leave alone.
std::vector<SectionInfo> sections(std::span<const std::uint8_t> file) {
  std::vector<SectionInfo> infos;
  if (file.size() < kHeaderBytes) return infos;
  const std::size_t count = std::min<std::size_t>(load<std::uint32_t>(file, kSectionsAt),
                                                  (file.size() - kHeaderBytes) / kEntryBytes);
  for (std::size_t i = 0; i < count; ++i) {
    const Section s = load_section(file, i);
    if (s.offset > file.size() || s.bytes > file.size() - s.offset) break;
    infos.push_back({section_name(s), s.offset, s.bytes});
  }
  return infos;
}

std::vector<std::uint8_t> rehash(std::vector<std::uint8_t> file) {
  const std::vector<SectionInfo> infos = sections(file);
  for (std::size_t i = 0; i < infos.size(); ++i) {
    Section s = load_section(file, i);
    s.hash = xxh3_64(std::span(file).subspan(s.offset, s.bytes));
    store_section(file, i, s);
  }
  if (file.size() >= kHeaderBytes) {
    const std::size_t room = (file.size() - kHeaderBytes) / kEntryBytes;
    seal(file, std::min<std::size_t>(load<std::uint32_t>(file, kSectionsAt), room));
  }
  return file;
}

}  // namespace tw::package
