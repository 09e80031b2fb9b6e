// A reference fixture (models.md C.5 "Fixture manifest"): parameters, and cases of inputs and the outputs
// that another program computed from them, each tensor a file of little-endian F32 values, row-major.
//   DIR/manifest.json = {"parameters": {NAME: {"file", "shape", "sha256"}},
//                        "cases": [{"name", "inputs": {NAME: {"file", "shape"}}, "expected": {"file",
//                        "shape"}}]}
// Files stand in DIR or below. "sha256" may be given for the tensors of cases too. Other keys are not used.
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "import/naming.h"
#include "import/safetensors.h"
#include "import/scan.h"

namespace tw::import {

struct FixtureTensor {
  std::filesystem::path file;  // without symbolic links
  StoredTensor tensor;         // the whole file, F32
};
struct FixtureCase {
  std::string name;
  std::map<std::string, FixtureTensor> inputs;
  FixtureTensor expected;
};
struct Fixture {
  std::filesystem::path manifest;
  std::map<std::string, FixtureTensor> parameters;
  std::vector<FixtureCase> cases;
  Scan scan;  // of the parameters; empty if no value was looked at
};

// What a model needs.
struct FixtureNeeds {
  struct Cases {
    std::size_t count = 1;
    std::vector<Parameter> inputs;
    tensor::Shape expected;
  };
  std::vector<Parameter> parameters;
  std::optional<Cases> cases;  // nullopt: cases are not looked at
};
enum class FixtureValues : std::uint8_t { Checked, Unread };

inline constexpr const char* kFixtureManifest = "manifest.json";

// Error{File} names the manifest and lists everything that is wrong: entries that are missing or that the
// model does not have, shapes, numbers of bytes, files that are missing or outside the folder, the number of
// cases, keys that come twice; and if values are checked, NaN and infinite ones, and wrong digests.
Fixture open_fixture(const std::filesystem::path& folder, const FixtureNeeds& needs, FixtureValues values,
                     unsigned threads);

// Error{File} when the file cannot be read any more.
std::vector<float> values_of(const FixtureTensor& tensor);

}  // namespace tw::import
