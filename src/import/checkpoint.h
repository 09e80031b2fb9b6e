// The weights of a published model: one safetensors file, or several named by an index (models.md D.1).
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "import/safetensors.h"

namespace tw::import {

struct Place {  // of a tensor: files[file].tensors[tensor]
  std::size_t file = 0, tensor = 0;
};
struct Checkpoint {
  std::filesystem::path path;  // as given
  std::vector<Safetensors> files;
  std::map<std::string, Place> tensors;

  const StoredTensor& at(const Place& place) const { return files[place.file].tensors[place.tensor]; }
};

// FILE.safetensors, an index (NAME.json), or a folder that holds model.safetensors or
// model.safetensors.index.json. Error{File} names the file and lists what is wrong; files outside the index's
// folder are refused.
Checkpoint open_checkpoint(const std::filesystem::path& path);

}  // namespace tw::import
