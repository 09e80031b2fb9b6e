#include "target/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"

namespace tw {
namespace {

using testing::HasSubstr;

std::filesystem::path write(const std::string& text) {
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  const auto file =
      std::filesystem::path(testing::TempDir()) / (std::string("tw_device_") + info->name() + ".toml");
  std::ofstream(file) << text;
  return file;
}

// The error of loading `text`, or a failure when it loads.
Error load_error(const std::string& text) {
  try {
    load_device(write(text));
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "loaded: " << text;
  return Error(ErrorKind::Usage, "");
}

void expect_c600(const Device& d) {
  EXPECT_EQ(d.name, "c600");
  EXPECT_EQ(d.clock_hz, 1.5e9);
  EXPECT_EQ(d.tiles, 1472u);
  // hardware.md 1.1 and 1.2: 624 KiB in 208 + 416, loader end = 0x4C010 + 643 frames of 992 bytes.
  EXPECT_EQ(d.memory_end - d.memory_base, 624u * 1024);
  EXPECT_EQ(d.interleaved_base - d.memory_base, 13u * d.element_bytes);
  EXPECT_EQ(d.memory_end - d.interleaved_base, 13u * d.pair_bytes);
  EXPECT_EQ(d.element_bytes, 16384u);
  EXPECT_EQ(d.pair_bytes, 32768u);
  EXPECT_EQ(d.load_base, 0x4C010u);
  EXPECT_EQ(d.loader_end, 0x4C010u + 643u * 992u);
  EXPECT_EQ(d.aperture_begin, 0x50000u);
  EXPECT_EQ(d.aperture_end, 0x58000u);
  EXPECT_EQ(d.runtime_state, 0x58000u);
  EXPECT_EQ(d.interleaved_base - d.data_base, 162080u);
  EXPECT_EQ(d.loader_end - d.interleaved_base, 424880u);
  EXPECT_EQ(d.code_base, 0x5C000u);
  EXPECT_EQ(d.fetch_guard, 64u);
  EXPECT_EQ(d.table_budget, 81920u);
  EXPECT_EQ(d.fragment_limit, 16384u);
  EXPECT_EQ(d.phase_constant, 250u);
  EXPECT_EQ(d.max_message_words, 4148u);
  EXPECT_TRUE(validate(d).empty());
}

TEST(Device, BuiltInAndConfiguredC600Agree) {
  expect_c600(c600());
  expect_c600(load_device(std::filesystem::path(TW_SOURCE_DIR) / "configs/c600.toml"));
}

TEST(Device, ElementsOfBothRegionsHaveOneNumberSpace) {
  const Device d = c600();
  EXPECT_EQ(element_of(d, 0x4C000), 19u);
  EXPECT_EQ(element_of(d, 0x7FFFF), 31u);
  EXPECT_EQ(element_of(d, 0x80000), kFirstPair);
  EXPECT_EQ(element_of(d, 0x87FFF), kFirstPair);
  EXPECT_EQ(element_of(d, 0xE7FFF), kFirstPair + 12);
}

TEST(Device, KeysReplaceValues) {
  const Device d = load_device(
      write("name = 'lab'\nclock_hz = 1_330_000_000\nphase_constant = 275\ntable_budget = 0x10000\n"));
  EXPECT_EQ(d.name, "lab");
  EXPECT_EQ(d.clock_hz, 1.33e9);
  EXPECT_EQ(d.phase_constant, 275u);
  EXPECT_EQ(d.table_budget, 65536u);
  EXPECT_EQ(d.memory_end, 0xE8000u);
}

TEST(Device, UnknownKeysAndWrongTypesNameTheKey) {
  for (const auto& [text, key] :
       std::vector<std::pair<std::string, std::string>>{{"phase_constnat = 3", "phase_constnat"},
                                                        {"[memory]\nbase = 3", "memory"},
                                                        {"tiles = '12'", "tiles"},
                                                        {"memory_end = -1", "memory_end"},
                                                        {"memory_end = 4294967296", "memory_end"},
                                                        {"table_budget = 1.5", "table_budget"},
                                                        {"name = 3", "name"},
                                                        {"clock_hz = 'fast'", "clock_hz"},
                                                        {"topology = 'mk3'", "topology"}}) {
    const Error e = load_error(text);
    EXPECT_EQ(e.kind, ErrorKind::Usage) << text;
    EXPECT_THAT(e.what(), HasSubstr(": " + key + ": ")) << text;
  }
}

TEST(Device, UnreadableFilesAreFileErrors) {
  EXPECT_EQ(load_error("tiles = = 3").kind, ErrorKind::File);
  EXPECT_EQ(load_error("tiles = 1472\ntiles = 1472").kind, ErrorKind::File);
  for (const auto& path :
       {std::filesystem::path("/nonexistent/x.toml"), std::filesystem::path(testing::TempDir())}) {
    try {
      load_device(path);
      ADD_FAILURE() << path;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::File);
      EXPECT_THAT(e.what(), HasSubstr(path.string()));
    }
  }
}

TEST(Device, ValidateNamesEachBrokenField) {
  const auto broken = [](auto change, const char* field) {
    Device d = c600();
    change(d);
    EXPECT_THAT(validate(d), testing::Contains(HasSubstr(field))) << field;
  };
  broken([](Device& d) { d.clock_hz = 0; }, "clock_hz");
  broken([](Device& d) { d.clock_hz = std::numeric_limits<double>::quiet_NaN(); }, "clock_hz");
  broken([](Device& d) { d.tiles = 1473; }, "tiles");
  broken([](Device& d) { d.tiles = 64; }, "tiles");
  broken([](Device& d) { d.element_bytes = 0; }, "element_bytes");
  broken([](Device& d) { d.pair_bytes = 0; }, "pair_bytes");
  broken([](Device& d) { d.memory_end = 0x108000; }, "memory_end");
  broken([](Device& d) { d.memory_end = 0x70000; }, "memory_end");
  broken([](Device& d) { d.memory_base += 64; }, "memory_base");
  broken([](Device& d) { d.interleaved_base += 0x2000; }, "interleaved_base");
  broken([](Device& d) { d.load_base = 0x4BFF8; }, "load_base");
  broken([](Device& d) { d.loader_end = d.memory_end + 8; }, "loader_end");
  broken([](Device& d) { d.aperture_end = d.runtime_state + 8; }, "aperture_end");
  broken([](Device& d) { d.data_base = d.runtime_state + 0x100; }, "data_base");
  broken([](Device& d) { d.data_base += 4; }, "data_base");
  broken([](Device& d) { d.code_base += 64; }, "code_base");
  broken([](Device& d) { d.fetch_guard = 0x4000; }, "fetch_guard");
  broken([](Device& d) { d.table_budget = 0x30000; }, "table_budget");
  broken([](Device& d) { d.fragment_limit = 0; }, "fragment_limit");
  broken([](Device& d) { d.max_message_words = 4149; }, "max_message_words");
  EXPECT_EQ(load_error("max_message_words = 4149\nfragment_limit = 0").kind, ErrorKind::Usage);
  EXPECT_THAT(load_error("max_message_words = 4149\nfragment_limit = 0").what(),
              testing::AllOf(HasSubstr("max_message_words"), HasSubstr("fragment_limit")));
}

}  // namespace
}  // namespace tw
