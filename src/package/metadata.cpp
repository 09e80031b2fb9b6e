#include "package/metadata.h"

#include <kj/string.h>

#ifdef __clang__
// Cap'n Proto 0.9 compares texts in a way that C++20's rewritten operators no longer find (P2468).
namespace kj {
inline bool operator==(const char* a, const StringPtr& b) { return b.operator==(StringPtr(a)); }
inline bool operator!=(const char* a, const StringPtr& b) { return !b.operator==(StringPtr(a)); }
}  // namespace kj
#endif

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <fmt/core.h>
#include <kj/exception.h>

#include <cstring>
#include <unordered_map>

#include "base/error.h"
#include "package.capnp.h"

namespace tw::package {
namespace {

// Names are copied to every place that uses them; the limit keeps a hostile file from exploding in memory.
constexpr std::size_t kMaxNameBytes = 1024;

kj::StringPtr kj_text(const std::string& s) { return kj::StringPtr(s.c_str(), s.size()); }
std::string std_text(capnp::Text::Reader t) { return std::string(t.begin(), t.size()); }

// ---- to Cap'n Proto ----

void put_tiles(const DeviceImage& image, wire::Metadata::Builder out) {
  auto tiles = out.initTiles(static_cast<unsigned>(image.tiles.size()));
  for (unsigned t = 0; t < tiles.size(); ++t) {
    const TileImage& tile = image.tiles[t];
    tiles[t].setEntry(tile.entry);
    auto segments = tiles[t].initSegments(static_cast<unsigned>(tile.segments.size()));
    for (unsigned i = 0; i < segments.size(); ++i) {
      const Segment& s = tile.segments[i];
      segments[i].setAddress(s.address);
      segments[i].setMemorySize(s.memory_size);
      segments[i].setBlob(s.blob);
      segments[i].setFlags(s.flags);
    }
  }
}

void put_binding(const Binding& b, wire::Binding::Builder out) {
  out.setName(kj_text(b.name));
  out.setKind(static_cast<std::uint8_t>(b.kind));
  out.setDtype(kj_text(b.dtype));
  out.setScale(b.scale);
  auto shape = out.initShape(static_cast<unsigned>(b.shape.size()));
  for (unsigned i = 0; i < shape.size(); ++i) shape.set(i, b.shape[i]);
  out.setBytes(b.bytes);
  auto slices = out.initSlices(static_cast<unsigned>(b.slices.size()));
  for (unsigned i = 0; i < slices.size(); ++i) {
    const Slice& s = b.slices[i];
    slices[i].setTile(s.tile);
    slices[i].setAddress(s.address);
    slices[i].setOffset(s.offset);
    slices[i].setBytes(s.bytes);
  }
}

void put_batches(const std::vector<HostBatch>& batches, capnp::List<wire::Batch>::Builder out) {
  for (unsigned b = 0; b < out.size(); ++b) {
    out[b].setToDevice(batches[b].to_device);
    auto pieces = out[b].initPieces(static_cast<unsigned>(batches[b].pieces.size()));
    for (unsigned i = 0; i < pieces.size(); ++i) {
      const HostPiece& p = batches[b].pieces[i];
      pieces[i].setTile(p.tile);
      pieces[i].setAddress(p.address);
      pieces[i].setBytes(p.bytes);
      pieces[i].setBinding(p.binding);
      pieces[i].setOffset(p.offset);
    }
  }
}

// Index of each distinct name, in order of first use.
class NameTable {
 public:
  std::uint32_t index_of(const std::string& name) {
    const auto [at, added] = index_.try_emplace(name, static_cast<std::uint32_t>(names_.size()));
    if (added) names_.push_back(&at->first);
    return at->second;
  }
  const std::vector<const std::string*>& names() const { return names_; }

 private:
  std::unordered_map<std::string, std::uint32_t> index_;
  std::vector<const std::string*> names_;
};

void put_steps(const std::vector<Step>& steps, wire::Metadata::Builder out) {
  const auto count = static_cast<unsigned>(steps.size());
  auto names = out.initStepNames(count);
  auto kinds = out.initStepKinds(count);
  auto counts = out.initStepCounts(count);
  for (unsigned i = 0; i < count; ++i) {
    names.set(i, kj_text(steps[i].name));
    kinds[i] = static_cast<std::uint8_t>(steps[i].kind);
    counts.set(i, steps[i].count);
  }
}

void put_side(const Side& side, wire::Metadata::Builder out) {
  out.setSummaryJson(kj_text(side.summary_json));
  out.setRecipeJson(kj_text(side.recipe_json));
  out.setPlanText(kj_text(side.plan_text));
  NameTable table;
  auto symbols = out.initSymbols(static_cast<unsigned>(side.symbols.size()));
  for (unsigned i = 0; i < symbols.size(); ++i) {
    const Symbol& s = side.symbols[i];
    symbols[i].setTile(s.tile);
    symbols[i].setAddress(s.address);
    symbols[i].setBytes(s.bytes);
    symbols[i].setName(table.index_of(s.name));
  }
  auto tensors = out.initTensors(static_cast<unsigned>(side.tensors.size()));
  for (unsigned i = 0; i < tensors.size(); ++i) {
    const TensorPlace& p = side.tensors[i];
    tensors[i].setTensor(table.index_of(p.tensor));
    tensors[i].setTile(p.tile);
    tensors[i].setAddress(p.address);
    tensors[i].setBytes(p.bytes);
    tensors[i].setFirstStep(p.first_step);
    tensors[i].setLastStep(p.last_step);
    tensors[i].setTaken(p.taken);
    tensors[i].setInterleaved(p.interleaved);
  }
  put_steps(side.steps, out);
  auto names = out.initNames(static_cast<unsigned>(table.names().size()));
  for (unsigned i = 0; i < names.size(); ++i) {
    TW_CHECK(table.names()[i]->size() <= kMaxNameBytes, "name too long for a package");
    names.set(i, kj_text(*table.names()[i]));
  }
}

// ---- from Cap'n Proto ----

TileImage get_tile(wire::Tile::Reader in) {
  TileImage tile{.entry = in.getEntry(), .segments = {}};
  const auto segments = in.getSegments();
  tile.segments.reserve(segments.size());
  for (const auto s : segments)
    tile.segments.push_back({s.getAddress(), s.getMemorySize(), s.getBlob(), s.getFlags()});
  return tile;
}

Binding get_binding(wire::Binding::Reader in, const std::string& name) {
  Binding b;
  b.name = std_text(in.getName());
  if (in.getKind() > static_cast<std::uint8_t>(BindingKind::Output))
    throw Error(ErrorKind::File,
                fmt::format("{}: binding '{}' has unknown kind {}", name, b.name, unsigned{in.getKind()}));
  b.kind = static_cast<BindingKind>(in.getKind());
  b.dtype = std_text(in.getDtype());
  b.scale = in.getScale();
  for (const std::uint32_t d : in.getShape()) b.shape.push_back(d);
  b.bytes = in.getBytes();
  const auto slices = in.getSlices();
  b.slices.reserve(slices.size());
  for (const auto s : slices) b.slices.push_back({s.getTile(), s.getAddress(), s.getOffset(), s.getBytes()});
  return b;
}

std::vector<HostBatch> get_batches(capnp::List<wire::Batch>::Reader in) {
  std::vector<HostBatch> batches;
  batches.reserve(in.size());
  for (const auto b : in) {
    HostBatch& batch = batches.emplace_back(HostBatch{.to_device = b.getToDevice(), .pieces = {}});
    const auto pieces = b.getPieces();
    batch.pieces.reserve(pieces.size());
    for (const auto p : pieces)
      batch.pieces.push_back({p.getTile(), p.getAddress(), p.getBytes(), p.getBinding(), p.getOffset()});
  }
  return batches;
}

std::vector<Step> get_steps(wire::Metadata::Reader in, const std::string& name) {
  const auto names = in.getStepNames();
  const auto kinds = in.getStepKinds();
  const auto counts = in.getStepCounts();
  if (kinds.size() != names.size() || counts.size() != names.size())
    throw Error(ErrorKind::File, fmt::format("{}: {} step names, {} kinds, {} counts", name, names.size(),
                                             kinds.size(), counts.size()));
  std::vector<Step> steps;
  steps.reserve(names.size());
  for (unsigned i = 0; i < names.size(); ++i) {
    if (kinds[i] > static_cast<std::uint8_t>(StepKind::Checkpoint))
      throw Error(ErrorKind::File,
                  fmt::format("{}: step {} has unknown kind {}", name, i, unsigned{kinds[i]}));
    steps.push_back({std_text(names[i]), static_cast<StepKind>(kinds[i]), counts[i]});
  }
  return steps;
}

Side get_side(wire::Metadata::Reader in, const std::string& name) {
  Side side;
  side.summary_json = std_text(in.getSummaryJson());
  side.recipe_json = std_text(in.getRecipeJson());
  side.plan_text = std_text(in.getPlanText());
  std::vector<std::string> names;
  for (const auto text : in.getNames()) {
    if (text.size() > kMaxNameBytes)
      throw Error(ErrorKind::File, fmt::format("{}: name {} has {} bytes, the limit is {}", name,
                                               names.size(), text.size(), kMaxNameBytes));
    names.push_back(std_text(text));
  }
  const auto lookup = [&](std::uint32_t index) -> const std::string& {
    if (index >= names.size())
      throw Error(ErrorKind::File, fmt::format("{}: name index {} of {}", name, index, names.size()));
    return names[index];
  };
  for (const auto s : in.getSymbols())
    side.symbols.push_back({s.getTile(), s.getAddress(), s.getBytes(), lookup(s.getName())});
  for (const auto p : in.getTensors())
    side.tensors.push_back({lookup(p.getTensor()), p.getTile(), p.getAddress(), p.getBytes(),
                            p.getFirstStep(), p.getLastStep(), p.getTaken(), p.getInterleaved()});
  side.steps = get_steps(in, name);
  return side;
}

Package get_package(wire::Metadata::Reader in, const std::string& name) {
  if (in.getFamily() != kFamily)
    throw Error(ErrorKind::File, fmt::format("{}: target family '{}', this program reads '{}'", name,
                                             std_text(in.getFamily()), kFamily));
  Package package;
  DeviceImage& image = package.image;
  image.target = std_text(in.getTarget());
  image.memory_base = in.getMemoryBase();
  image.memory_end = in.getMemoryEnd();
  image.step_limit = in.getStepLimit();
  const auto tiles = in.getTiles();
  image.tiles.reserve(tiles.size());
  for (const auto t : tiles) image.tiles.push_back(get_tile(t));
  for (const auto b : in.getBindings()) image.bindings.push_back(get_binding(b, name));
  image.initialize = get_batches(in.getInitialize());
  image.inputs = get_batches(in.getInputs());
  image.outputs = get_batches(in.getOutputs());
  package.side = get_side(in, name);
  return package;
}

}  // namespace

std::vector<std::uint8_t> encode_metadata(const Package& package) {
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<wire::Metadata>();
  const DeviceImage& image = package.image;
  out.setFamily(kFamily);
  out.setTarget(kj_text(image.target));
  out.setMemoryBase(image.memory_base);
  out.setMemoryEnd(image.memory_end);
  out.setStepLimit(image.step_limit);
  put_tiles(image, out);
  auto bindings = out.initBindings(static_cast<unsigned>(image.bindings.size()));
  for (unsigned i = 0; i < bindings.size(); ++i) put_binding(image.bindings[i], bindings[i]);
  put_batches(image.initialize, out.initInitialize(static_cast<unsigned>(image.initialize.size())));
  put_batches(image.inputs, out.initInputs(static_cast<unsigned>(image.inputs.size())));
  put_batches(image.outputs, out.initOutputs(static_cast<unsigned>(image.outputs.size())));
  put_side(package.side, out);
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(message);
  const auto bytes = words.asBytes();
  return {bytes.begin(), bytes.end()};
}

Package decode_metadata(std::span<const std::uint8_t> bytes, const std::string& name) {
  if (bytes.size() % sizeof(capnp::word) != 0)
    throw Error(ErrorKind::File,
                fmt::format("{}: metadata of {} bytes are no whole words", name, bytes.size()));
  // A copy, because the reader wants words aligned to 8 bytes.
  auto words = kj::heapArray<capnp::word>(bytes.size() / sizeof(capnp::word));
  if (!bytes.empty()) std::memcpy(words.begin(), bytes.data(), bytes.size());
  capnp::ReaderOptions options;
  // Every word is read once; the factor leaves room, and still bounds what shared pointers can blow up.
  options.traversalLimitInWords = 4 * words.size() + 1024;
  try {
    capnp::FlatArrayMessageReader reader(words, options);
    return get_package(reader.getRoot<wire::Metadata>(), name);
  } catch (const kj::Exception& e) {
    throw Error(ErrorKind::File, fmt::format("{}: metadata: {}", name, e.getDescription().cStr()));
  }
}

}  // namespace tw::package
