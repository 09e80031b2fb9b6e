#include "tools/device_lock.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "tools/files.h"

namespace tw::tools {

DeviceLock::DeviceLock(const std::filesystem::path& file) {
  make_parents(file);
  fd_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ >= 0 && ::flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
  if (fd_ >= 0 && errno == EWOULDBLOCK) {
    fmt::print(stderr, "waiting for the device lock {}\n", file.string());
    while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
    return;
  }
  const int cause = errno;
  if (fd_ >= 0) ::close(fd_);
  throw Error(ErrorKind::Io, fmt::format("cannot lock {}: {}", file.string(), std::strerror(cause)));
}

DeviceLock::~DeviceLock() { ::close(fd_); }

}  // namespace tw::tools
