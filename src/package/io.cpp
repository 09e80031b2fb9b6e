#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/temporary.h"
#include "package/container.h"
#include "package/metadata.h"
#include "package/package.h"

namespace tw::package {
namespace {

using Bytes = std::span<const std::uint8_t>;

// Everything of a file but the padding, in file order. Spans point into `metadata` and the package.
struct Contents {
  std::vector<std::uint8_t> metadata;
  std::vector<Bytes> parts;
  Frame frame;
};
Contents contents_of(const Package& package) {
  Contents c;
  c.metadata = encode_metadata(package);
  c.parts.emplace_back(c.metadata);
  for (const auto& blob : package.image.blobs) c.parts.emplace_back(blob);
  for (const auto& weights : package.weights) c.parts.emplace_back(weights);
  c.frame = frame_of(c.parts, package.image.blobs.size());
  return c;
}

// A file over the size limit is an error to report, not a reason to be killed.
class IgnoreFileSizeSignal {
 public:
  IgnoreFileSizeSignal() {
    struct sigaction ignore = {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGXFSZ, &ignore, &before_);
  }
  ~IgnoreFileSizeSignal() { sigaction(SIGXFSZ, &before_, nullptr); }
  IgnoreFileSizeSignal(const IgnoreFileSizeSignal&) = delete;
  IgnoreFileSizeSignal& operator=(const IgnoreFileSizeSignal&) = delete;

 private:
  struct sigaction before_ = {};
};

[[noreturn]] void io_error(const std::string& what, const std::filesystem::path& file, int cause) {
  throw Error(ErrorKind::Io, fmt::format("cannot {} '{}': {}", what, file.string(), std::strerror(cause)));
}

// A file that disappears again unless commit() renames it to its final name.
class Temporary {
 public:
  explicit Temporary(const std::filesystem::path& file)
      : final_(file), path_(file.string() + fmt::format(".tmp{}", ::getpid())), interruptible_(path_) {
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd_ < 0) io_error("write", final_, errno);
  }
  ~Temporary() {
    if (fd_ >= 0) ::close(fd_);
    if (!committed_) ::unlink(path_.c_str());
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  void append(Bytes bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) io_error("write", final_, n < 0 ? errno : ENOSPC);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
      written_ += static_cast<std::uint64_t>(n);
    }
  }
  void pad_to(std::uint64_t offset) {
    static constexpr std::array<std::uint8_t, kPageBytes> kZeros{};
    TW_CHECK(offset >= written_ && offset - written_ < kPageBytes, "padding of more than a page");
    append(Bytes(kZeros).first(offset - written_));
  }
  void commit() {
    const int fd = std::exchange(fd_, -1);
    if (::close(fd) != 0) io_error("write", final_, errno);
    if (::rename(path_.c_str(), final_.c_str()) != 0) io_error("write", final_, errno);
    committed_ = true;
  }

 private:
  std::filesystem::path final_;
  std::string path_;
  InterruptibleFile interruptible_;
  int fd_ = -1;
  std::uint64_t written_ = 0;
  bool committed_ = false;
};

// Read-only view of a whole file.
class Mapping {
 public:
  explicit Mapping(const std::filesystem::path& file) {
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not block
    if (fd < 0) io_error("read", file, errno);
    struct stat status = {};
    const bool good = ::fstat(fd, &status) == 0;
    int cause = errno;
    if (good && !S_ISREG(status.st_mode)) {
      ::close(fd);
      throw Error(ErrorKind::Io, fmt::format("cannot read '{}': not a regular file", file.string()));
    }
    if (good) size_ = static_cast<std::size_t>(status.st_size);
    if (good && size_ > 0) {
      data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
      cause = errno;
    }
    ::close(fd);
    if (!good || data_ == MAP_FAILED) io_error("read", file, cause);
  }
  ~Mapping() {
    if (size_ > 0) ::munmap(data_, size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  Bytes bytes() const { return {static_cast<const std::uint8_t*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

Package parse(Bytes file, const std::string& name) {
  const std::vector<Section> sections = read_frame(file, name);
  const auto bytes_of = [&](const Section& s) { return file.subspan(s.offset, s.bytes); };
  Package package = decode_metadata(bytes_of(sections[0]), name);
  for (const Section& s : sections) {
    const Bytes bytes = bytes_of(s);
    if (s.kind == SectionKind::Blob) package.image.blobs.emplace_back(bytes.begin(), bytes.end());
    if (s.kind == SectionKind::Weights) package.weights.emplace_back(bytes.begin(), bytes.end());
  }
  const std::vector<std::string> broken = verify(package);
  if (!broken.empty()) {
    std::string text = broken.front();
    if (broken.size() > 1) text += fmt::format(" (and {} more)", broken.size() - 1);
    throw Error(ErrorKind::File, name + ": " + text);
  }
  return package;
}

}  // namespace

std::vector<std::uint8_t> to_bytes(const Package& package) {
  const Contents c = contents_of(package);
  std::vector<std::uint8_t> bytes = c.frame.head;
  bytes.reserve(c.frame.file_bytes);
  for (std::size_t i = 0; i < c.parts.size(); ++i) {
    bytes.resize(c.frame.sections[i].offset);
    bytes.insert(bytes.end(), c.parts[i].begin(), c.parts[i].end());
  }
  return bytes;
}

Package from_bytes(std::vector<std::uint8_t> bytes, const std::string& name_for_errors) {
  return parse(bytes, name_for_errors);
}

std::uint64_t write(const Package& package, const std::filesystem::path& file) {
  // Renaming would replace a device node or a directory entry instead of writing to it.
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored) && !std::filesystem::is_regular_file(file, ignored))
    throw Error(ErrorKind::Io, fmt::format("cannot write '{}': not a regular file", file.string()));
  const Contents c = contents_of(package);
  const IgnoreFileSizeSignal guard;
  Temporary out(file);
  out.append(c.frame.head);
  for (std::size_t i = 0; i < c.parts.size(); ++i) {
    out.pad_to(c.frame.sections[i].offset);
    out.append(c.parts[i]);
  }
  out.commit();
  return c.frame.file_bytes;
}

Package read(const std::filesystem::path& file) {
  const Mapping mapping(file);
  return parse(mapping.bytes(), file.string());
}

}  // namespace tw::package
