// The file format: what was written is read again, and nothing damaged is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/error.h"
#include "sample.h"

namespace tw::package {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

// The error of an attempt to read `bytes`, or "" when they are accepted.
std::string rejection(std::vector<std::uint8_t> bytes) {
  try {
    from_bytes(std::move(bytes), "x.twpkg");
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::File) << e.what();
    return e.what();
  }
  return "";
}

// A fresh directory, removed at the end of the test.
class Directory {
 public:
  Directory() : path_(fs::temp_directory_path() / ("tw_package_test_" + std::to_string(::getpid()))) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Directory() { fs::remove_all(path_); }
  fs::path operator/(const char* name) const { return path_ / name; }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_;
};

std::string io_error_of(const fs::path& file) {
  try {
    write(sample(), file);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::Io) << e.what();
    return e.what();
  }
  return "";
}

TEST(Bytes, RoundTrip) { EXPECT_EQ(from_bytes(to_bytes(sample()), "x"), sample()); }

TEST(Bytes, AreDeterministic) { EXPECT_EQ(to_bytes(sample()), to_bytes(sample())); }

TEST(Bytes, SectionsArePageAlignedAndNamed) {
  const auto bytes = to_bytes(sample());
  const auto infos = sections(bytes);
  std::vector<std::string> names;
  for (const SectionInfo& s : infos) {
    names.push_back(s.name);
    EXPECT_EQ(s.offset % 4096, 0u);
  }
  EXPECT_THAT(names, ElementsAre("metadata", "blob 0", "blob 1", "blob 2", "weights 0"));
  EXPECT_EQ(infos[2].bytes, 100u);
  EXPECT_EQ(std::memcmp(bytes.data() + infos[4].offset, sample().weights[0].data(), 640), 0);
  EXPECT_EQ(infos[4].offset + infos[4].bytes, bytes.size());
}

TEST(Bytes, TruncationIsRejectedEverywhere) {
  const auto bytes = to_bytes(sample());
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const std::string why = rejection({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n)});
    ASSERT_THAT(why, HasSubstr("truncated at byte " + std::to_string(n))) << n;
  }
}

TEST(Bytes, TrailingBytesAreRejected) {
  auto bytes = to_bytes(sample());
  bytes.push_back(0);
  EXPECT_THAT(rejection(bytes), HasSubstr("1 bytes follow the end"));
}

TEST(Bytes, EveryFlippedByteIsRejected) {
  const auto bytes = to_bytes(sample());
  std::mt19937 rng(7);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    auto damaged = bytes;
    damaged[at] ^= static_cast<std::uint8_t>(1 + rng() % 255);
    ASSERT_NE(rejection(std::move(damaged)), "") << "byte " << at;
  }
}

TEST(Bytes, MessagesSayWhatIsWrong) {
  const auto bytes = to_bytes(sample());
  const auto changed = [&](std::size_t at, std::uint8_t value) {
    auto copy = bytes;
    copy[at] = value;
    return copy;
  };
  EXPECT_THAT(rejection({'P', 'K', 3, 4}), HasSubstr("x.twpkg: is not a Tilewright package"));
  EXPECT_THAT(rejection({}), HasSubstr("truncated at byte 0: the header has 64 bytes"));
  EXPECT_THAT(rejection(changed(8, 7)), HasSubstr("format version 7, this program reads 3"));
  EXPECT_THAT(rejection(changed(16, 0x55)), HasSubstr("header hash mismatch"));
  EXPECT_THAT(rejection(changed(80, 0x55)), HasSubstr("directory hash mismatch"));
  EXPECT_THAT(rejection(changed(4000, 1)), HasSubstr("padding byte 4000 is not zero"));
  const auto infos = sections(bytes);
  EXPECT_THAT(rejection(changed(infos[3].offset + 5, 0xEE)), HasSubstr("section 3 hash mismatch (blob 2)"));
}

TEST(Bytes, ForeignTargetFamilyIsNamed) {
  auto bytes = to_bytes(sample());
  const std::string family = "ipu21";
  const auto at = std::search(bytes.begin(), bytes.end(), family.begin(), family.end());
  ASSERT_NE(at, bytes.end());
  at[4] = '3';
  EXPECT_THAT(rejection(rehash(bytes)), HasSubstr("target family 'ipu23', this program reads 'ipu21'"));
}

TEST(Rehash, LeavesGoodFilesAlone) { EXPECT_EQ(rehash(to_bytes(sample())), to_bytes(sample())); }

TEST(Rehash, MakesChangedPayloadReadable) {
  auto bytes = to_bytes(sample());
  bytes[sections(bytes)[4].offset] ^= 0xFF;
  ASSERT_NE(rejection(bytes), "");
  Package expected = sample();
  expected.weights[0][0] ^= 0xFF;
  EXPECT_EQ(from_bytes(rehash(bytes), "x"), expected);
}

// Damaged metadata behind good hashes: refused or read, but never a crash, hang or other exception.
TEST(Rehash, MutatedMetadataNeverCrash) {
  const auto bytes = to_bytes(sample());
  const SectionInfo metadata = sections(bytes)[0];
  std::mt19937 rng(11);
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    auto damaged = bytes;
    for (unsigned k = 0; k <= rng() % 4; ++k)
      damaged[metadata.offset + rng() % metadata.bytes] = static_cast<std::uint8_t>(rng());
    refused += rejection(rehash(std::move(damaged))) != "";
  }
  EXPECT_GT(refused, 2000);
}

TEST(File, RoundTripAndSize) {
  const Directory dir;
  const std::uint64_t bytes = write(sample(), dir / "a.twpkg");
  EXPECT_EQ(bytes, fs::file_size(dir / "a.twpkg"));
  EXPECT_EQ(read(dir / "a.twpkg"), sample());
  EXPECT_EQ(dir.entries(), 1u);
  std::ifstream in(dir / "a.twpkg", std::ios::binary);
  const std::vector<std::uint8_t> content{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(content, to_bytes(sample()));
}

TEST(File, ReplacesAnOlderFile) {
  const Directory dir;
  std::ofstream(dir / "a.twpkg") << "old";
  write(sample(), dir / "a.twpkg");
  EXPECT_EQ(read(dir / "a.twpkg"), sample());
}

TEST(File, UnwritablePathsNameTheCause) {
  const Directory dir;
  EXPECT_THAT(io_error_of(dir / "no/such/a.twpkg"), HasSubstr("No such file or directory"));
  EXPECT_THAT(io_error_of("/dev/null"), HasSubstr("cannot write '/dev/null': not a regular file"));
  fs::create_directories(dir / "folder");
  EXPECT_THAT(io_error_of(dir / "folder"), HasSubstr("not a regular file"));
  EXPECT_EQ(dir.entries(), 1u);
}

TEST(File, UnreadablePathsNameTheCause) {
  const Directory dir;
  EXPECT_THROW(
      {
        try {
          read(dir / "missing.twpkg");
        } catch (const Error& e) {
          EXPECT_THAT(e.what(), HasSubstr("No such file or directory"));
          throw;
        }
      },
      Error);
  EXPECT_THROW(read(dir / ""), Error);
  std::ofstream(dir / "empty.twpkg");
  EXPECT_THROW(read(dir / "empty.twpkg"), Error);
}

// The file size limit stands for a full disk: the same error path, without filling one.
TEST(File, FullDiskIsAnErrorAndLeavesTheOldFile) {
  const Directory dir;
  std::ofstream(dir / "a.twpkg") << "old";
  struct rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit small = before;
  for (const rlim_t limit : {0, 100, 6000, 16000}) {
    small.rlim_cur = limit;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const std::string why = io_error_of(dir / "a.twpkg");
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_THAT(why, HasSubstr("File too large")) << limit;
    EXPECT_THAT(why, HasSubstr("a.twpkg")) << limit;
    EXPECT_EQ(dir.entries(), 1u) << limit;
    EXPECT_EQ(fs::file_size(dir / "a.twpkg"), 3u) << limit;
  }
  struct sigaction action = {};
  sigaction(SIGXFSZ, nullptr, &action);
  EXPECT_EQ(action.sa_handler, SIG_DFL) << "the signal's handling must be put back";
}

}  // namespace
}  // namespace tw::package
