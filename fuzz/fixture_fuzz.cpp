// Arbitrary bytes as a fixture: the manifest up to the first zero byte, and behind it the file v.f32 that it
// may name beside good files. A refusal is an Error{File}; what is accepted is what the model needs, finite,
// and inside the folder.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "import/fixture.h"
#include "scratch_file.h"

namespace {

using namespace tw;
namespace fs = std::filesystem;

// What the seeds name: w.f32, b.f32, x.f32, y.f32, and a link to a file outside.
class Folder {
 public:
  Folder() {
    const std::array<float, 6> values{1, 2, 3, 4, 5, 6};
    for (const auto& [name, count] : {std::pair("w.f32", 6), {"b.f32", 3}, {"x.f32", 2}, {"y.f32", 3}})
      fuzz::write_bytes(path() / name, values.data(), 4 * static_cast<std::size_t>(count));
    fuzz::write_bytes(outer_.path() / "x.f32", values.data(), 8);
    fs::create_symlink("../x.f32", path() / "link");
  }
  const fs::path& path() const { return inner_; }

 private:
  const fuzz::ScratchFolder outer_{".fixture"};
  const fs::path inner_ = make(outer_.path() / "in");

  static fs::path make(const fs::path& path) {
    fs::create_directories(path);
    return path;
  }
};

void check(const import::FixtureTensor& t, const std::string& folder, std::size_t elements) {
  const std::vector<float> values = import::values_of(t);
  if (values.size() != elements || !t.file.string().starts_with(folder)) std::abort();
  if (!std::ranges::all_of(values, [](float x) { return std::isfinite(x); })) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  static const import::FixtureNeeds needs{
      .parameters = {{"w", {2, 3}}, {"b", {3}}},
      .cases = import::FixtureNeeds::Cases{.count = 1, .inputs = {{"x", {1, 2}}}, .expected = {1, 3}}};
  const auto text = static_cast<std::size_t>(std::find(data, data + size, 0) - data);
  fuzz::write_bytes(folder.path() / import::kFixtureManifest, data, text);
  fuzz::write_bytes(folder.path() / "v.f32", data + std::min(size, text + 1),
                    size - std::min(size, text + 1));
  try {
    const import::Fixture read = open_fixture(folder.path(), needs, import::FixtureValues::Checked, 1);
    if (read.parameters.size() != 2 || read.cases.size() != 1 || read.cases[0].inputs.size() != 1)
      std::abort();
    const std::string inside = fs::canonical(folder.path()).string() + "/";
    check(read.parameters.at("w"), inside, 6);
    check(read.parameters.at("b"), inside, 3);
    check(read.cases[0].inputs.at("x"), inside, 2);
    check(read.cases[0].expected, inside, 3);
  } catch (const Error& e) {
    if (e.kind != ErrorKind::File) std::abort();
  }
  return 0;
}
