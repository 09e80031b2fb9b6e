#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace tw {
namespace {
thread_local bool inside_parallel = false;
}

unsigned default_threads() {
  if (const char* text = std::getenv("TILEWRIGHT_THREADS")) {
    const int n = std::atoi(text);
    if (n > 0) return static_cast<unsigned>(std::min(n, 256));
  }
  return std::max(1U, std::thread::hardware_concurrency());
}

void parallel_for(std::size_t n, std::size_t grain, unsigned threads,
                  const std::function<void(std::size_t, std::size_t)>& fn) {
  if (n == 0) return;
  grain = std::max<std::size_t>(grain, 1);
  const std::size_t chunks = (n + grain - 1) / grain;
  if (threads == 0) threads = default_threads();
  const std::size_t workers = std::min<std::size_t>(threads, chunks);
  if (workers <= 1 || inside_parallel) {
    for (std::size_t begin = 0; begin < n; begin += grain) fn(begin, std::min(n, begin + grain));
    return;
  }
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  std::size_t error_chunk = chunks;
  auto work = [&] {
    inside_parallel = true;
    for (std::size_t c = next.fetch_add(1); c < chunks; c = next.fetch_add(1)) {
      try {
        fn(c * grain, std::min(n, (c + 1) * grain));
      } catch (...) {
        std::lock_guard lock(mutex);
        if (c < error_chunk) {
          error_chunk = c;
          error = std::current_exception();
        }
      }
    }
    inside_parallel = false;
  };
  {
    std::vector<std::jthread> pool;
    for (std::size_t i = 1; i < workers; ++i) pool.emplace_back(work);
    work();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace tw
