// An advisory lock around the use of a device, shared by the programs that name the same file.
#pragma once
#include <filesystem>

namespace tw::tools {

class DeviceLock {
 public:
  // Waits for the lock, and says so when that takes time. Error{Io} when the file cannot be opened.
  explicit DeviceLock(const std::filesystem::path& file);
  ~DeviceLock();
  DeviceLock(const DeviceLock&) = delete;
  DeviceLock& operator=(const DeviceLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace tw::tools
