// Finished attempts of `fit` on disk, so that a second run, or one after an interruption, goes on at once.
#pragma once
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>

#include "base/error.h"
#include "tools/recipe.h"

namespace tw::tools {

// One construction. `result` is the text of a JSON object: cli.md's `compile` without figures of the host
// when it fits, else its `error`.
struct FitAttempt {
  plan::Policy policy = plan::Policy::Default;
  std::optional<ErrorKind> refused;  // nothing: it fits
  std::string result;
  double seconds = 0;   // of the construction, whenever that was
  bool cached = false;  // read, not constructed
};

// One file for each attempt, named by everything that decides it: this program's own bytes, the device
// description, the recipe. Entries that are damaged or of another key count as missing; those older than 30
// days are removed. A folder that cannot be written is left alone with a warning.
class FitCache {
 public:
  // `folder` empty: $XDG_CACHE_HOME/tilewright/fit or ~/.cache/tilewright/fit; neither known: no cache.
  FitCache(const std::string& folder, bool enabled);
  std::optional<FitAttempt> find(const std::string& device, const Recipe& recipe) const;
  void keep(const std::string& device, const Recipe& recipe, const FitAttempt& attempt);

 private:
  std::string key(const std::string& device, const Recipe& recipe) const;
  std::filesystem::path file(const std::string& key) const;

  std::filesystem::path folder_;  // empty: no cache
  std::string program_;           // digest of this program
  std::mutex writing_;
  bool writable_ = true;  // under writing_
};

}  // namespace tw::tools
