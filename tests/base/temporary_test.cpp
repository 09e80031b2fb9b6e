#include "base/temporary.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tw {
namespace {
namespace fs = std::filesystem;

// Runs `work` in a child that then receives `signal`; returns the child's wait status.
template <class Work>
int interrupted_by(int signal, Work work) {
  const pid_t child = ::fork();
  if (child == 0) {
    install_interrupt_handler();
    work([signal] { ::raise(signal); });
    ::_exit(77);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

fs::path file_of(const char* name) {
  return fs::temp_directory_path() / (std::string("tw_temporary_") + name + std::to_string(::getpid()));
}

TEST(InterruptibleFile, IsRemovedByBothSignals) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const fs::path file = file_of("removed");
    const int status = interrupted_by(signal, [&](auto interrupt) {
      const InterruptibleFile interruptible(file.string());
      std::ofstream(file) << "half";
      interrupt();
    });
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 130);
    EXPECT_FALSE(fs::exists(file));
  }
}

TEST(InterruptibleFile, IsKeptOnceItIsReleased) {
  const fs::path file = file_of("kept");
  const int status = interrupted_by(SIGINT, [&](auto interrupt) {
    {
      const InterruptibleFile interruptible(file.string());
    }
    std::ofstream(file) << "whole";
    interrupt();
  });
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_TRUE(fs::exists(file));
  fs::remove(file);
}

}  // namespace
}  // namespace tw
