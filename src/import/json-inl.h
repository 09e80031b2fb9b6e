// JSON out of a user's file as a tree. For source files of this folder.
#pragma once
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tw::import {

// Error{File}: no JSON, a number beyond every range, objects and lists nested deeper than 64, more than
// `most_bytes`. A key that comes twice in its object is added to `problems`: the tree keeps the last.
nlohmann::json parse_json(const std::string& text, const std::filesystem::path& file, std::size_t most_bytes,
                          std::vector<std::string>& problems);
// A value as one printable line of at most 200 bytes.
std::string text_of(const nlohmann::json& value);

}  // namespace tw::import
