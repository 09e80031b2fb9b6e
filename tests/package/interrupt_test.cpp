// An interrupted write leaves no temporary file.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/temporary.h"
#include "sample.h"

namespace tw::package {
namespace {
namespace fs = std::filesystem;

TEST(Write, InterruptedLeavesNoTemporary) {
  const fs::path folder = fs::temp_directory_path() / ("tw_interrupt_test_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  Package p = sample();
  p.image.blobs.front() = pattern(4 << 20, 7);  // most of a write's time is then inside the file
  for (int round = 0; round < 10; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      install_interrupt_handler();
      for (;;) write(p, folder / "p.ipuexe");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + 3 * round));
    ::kill(child, round % 2 == 0 ? SIGINT : SIGTERM);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 130);
    for (const auto& entry : fs::directory_iterator(folder))
      EXPECT_EQ(entry.path().filename().string(), "p.ipuexe");
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace tw::package
