#include "base/temporary.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace tw {
namespace {

// Read by a signal handler: no allocation, and the flag is set only while the path is whole.
char registered_path[PATH_MAX];
volatile std::sig_atomic_t registered = 0;

void interrupted(int) {
  if (registered != 0) ::unlink(registered_path);
  std::_Exit(130);
}

}  // namespace

InterruptibleFile::InterruptibleFile(const std::string& path) {
  TW_CHECK(registered == 0, "one temporary file at a time");
  if (path.size() >= sizeof(registered_path)) return;  // the system refuses such a path too
  std::memcpy(registered_path, path.c_str(), path.size() + 1);
  std::atomic_signal_fence(std::memory_order_release);
  registered = 1;
}

InterruptibleFile::~InterruptibleFile() { registered = 0; }

void install_interrupt_handler() {
  struct sigaction action = {};
  action.sa_handler = interrupted;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace tw
