// Interruption without leftovers: the one file that is being written under a temporary name is unlinked by
// the handler of SIGINT and SIGTERM before the program ends.
#pragma once
#include <string>

namespace tw {

// While one lives, `path` is what an interruption removes. One at a time in a program; make it before the
// file.
class InterruptibleFile {
 public:
  explicit InterruptibleFile(const std::string& path);
  ~InterruptibleFile();
  InterruptibleFile(const InterruptibleFile&) = delete;
  InterruptibleFile& operator=(const InterruptibleFile&) = delete;
};

// SIGINT and SIGTERM unlink the registered file and end the program with exit code 130.
void install_interrupt_handler();

}  // namespace tw
