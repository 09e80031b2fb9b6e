#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "base/error.h"
#include "model/model.h"

namespace tw::model {
namespace {

using graph::Builder;
using graph::Shape;

constexpr std::uint32_t kPatch = 14, kChannels = 3;
constexpr float kEpsilon = 1e-6F;  // models.md B.1 and B.2.1 (2)
// Beyond these nothing can fit the device; they keep products of extents far from overflow.
constexpr std::uint32_t kMaxLayers = 1024, kMaxBatch = 256, kMaxSide = 2016;

// The extents of a model, models.md B.1 and B.2.
struct Extents {
  std::uint32_t width, hidden, heads, pool_heads, layers, side, resize;
};
struct Architecture {
  const char* name;
  Extents full, small;
  const char* input;
  bool class_token;  // a leading zero patch, a norm before the encoder, a final projection, no embedding bias
  bool bicubic;
};
constexpr Architecture kArchitectures[] = {
    {"siglip-so400m",
     {1152, 4304, 16, 16, 27, 378, 384},
     {144, 288, 2, 2, 1, 28, 28},
     "vit.image.patches",
     false,
     true},
    {"pe-core-l14-capacity",
     {1024, 4096, 16, 8, 24, 336, 336},
     {128, 512, 2, 8, 1, 28, 28},
     "vit.pe.image.patches",
     true,
     false},
};

const Architecture& find(const std::string& name) {
  for (const Architecture& architecture : kArchitectures)
    if (name == architecture.name) return architecture;
  throw Error(ErrorKind::Usage,
              fmt::format("unknown model \"{}\" (known: {})", name, fmt::join(names(), ", ")));
}

void check(const Config& config) {
  auto within = [](const char* what, std::uint32_t value, std::uint32_t limit) {
    if (value == 0 || value > limit)
      throw Error(ErrorKind::Usage, fmt::format("{} must be between 1 and {}, not {}", what, limit, value));
  };
  within("the number of layers", config.layers, kMaxLayers);
  within("the batch size", config.batch, kMaxBatch);
  within("the image size", config.image_size, kMaxSide);
  if (config.image_size % kPatch != 0)
    throw Error(ErrorKind::Usage,
                fmt::format("the image size {} is no multiple of {}", config.image_size, kPatch));
}

Config with_defaults(Config config, const Extents& extents) {
  if (config.layers == 0) config.layers = extents.layers;
  if (config.image_size == 0) config.image_size = extents.side;
  check(config);
  return config;
}

// Gives the value of a parameter by its role, e.g. "attention.qkv.weight".
using Lookup = std::function<ValueId(const std::string& role, const Shape& shape)>;

struct Part {  // what one stretch of the network needs to be built
  Builder& builder;
  Lookup parameter;
  std::string path;
  const Extents& extents;
  bool fuse;

  ValueId linear(const std::string& role, ValueId x, std::uint32_t in, std::uint32_t out) {
    const ValueId y = builder.gemm(path + role, x, parameter(role + ".weight", {in, out}));
    return builder.add(path + role + ".bias", y, parameter(role + ".bias", {1, 1, out}));
  }
  ValueId norm(const std::string& role, ValueId x) {
    const Shape vector{1, 1, extents.width};
    return builder.layer_norm(path + role, x, parameter(role + ".scale", vector),
                              parameter(role + ".bias", vector), kEpsilon);
  }
  ValueId mlp(ValueId x) {
    const ValueId up = linear("mlp.up", x, extents.width, extents.hidden);
    return linear("mlp.down", builder.gelu(path + "mlp.gelu", up), extents.hidden, extents.width);
  }
  // Projections of one input onto several roles: one product and slices when fused, else one product each.
  std::vector<ValueId> project(const std::string& fused, const std::vector<std::string>& roles, ValueId x) {
    const std::uint32_t width = extents.width;
    std::vector<ValueId> out;
    if (!fuse) {
      for (const std::string& role : roles) out.push_back(linear("attention." + role, x, width, width));
      return out;
    }
    const auto parts = static_cast<std::uint32_t>(roles.size());
    const ValueId all = linear("attention." + fused, x, width, width * parts);
    for (std::uint32_t i = 0; i < parts; ++i)
      out.push_back(builder.slice(path + "attention." + roles[i] + ".slice", all, 2, i * width, width));
    return out;
  }
  ValueId attend(ValueId q, ValueId k, ValueId v, std::uint32_t heads) {
    const std::string base = path + "attention";
    const float scale = 1.0F / std::sqrt(static_cast<float>(extents.width / heads));
    const ValueId qh = builder.split_heads(base + ".query.split", q, heads);
    const ValueId kh = builder.split_heads(base + ".key.split", k, heads);
    const ValueId vh = builder.split_heads(base + ".value.split", v, heads);
    const ValueId o = builder.attention(base, qh, kh, vh, scale);
    return linear("attention.output", builder.merge_heads(base + ".merge", o, heads), extents.width,
                  extents.width);
  }
  // Pre-norm encoder block.
  ValueId block(ValueId x) {
    const auto qkv = project("qkv", {"query", "key", "value"}, norm("attention_norm", x));
    const ValueId attended =
        builder.add(path + "attention.residual", x, attend(qkv[0], qkv[1], qkv[2], extents.heads));
    return builder.add(path + "mlp.residual", attended, mlp(norm("mlp_norm", attended)));
  }
  // Pooling by a learned query; no residual from the query.
  ValueId pool(ValueId x, ValueId probe) {
    const ValueId q = linear("attention.query", probe, extents.width, extents.width);
    const auto kv = project("kv", {"key", "value"}, x);
    const ValueId h = attend(q, kv[0], kv[1], extents.pool_heads);
    return builder.add(path + "mlp.residual", h, mlp(norm("norm", h)));
  }
};

// Roles and shapes of one encoder block in the order in which the block asks for them.
std::vector<std::pair<std::string, Shape>> block_parameters(const Extents& extents, bool fuse) {
  Builder scratch("roles");
  std::vector<std::pair<std::string, Shape>> roles;
  Part part{scratch,
            [&](const std::string& role, const Shape& shape) {
              roles.emplace_back(role, shape);
              return scratch.parameter(role, shape);
            },
            "", extents, fuse};
  part.block(scratch.host("x", {1, 1, extents.width}));
  return roles;
}

constexpr const char* kLayerPath = "vit.encoder.layer.";

ValueId encoder(Builder& builder, const Extents& extents, const Config& config, ValueId x) {
  auto layer_name = [](std::uint32_t i, const std::string& role) {
    return fmt::format("vit.encoder.layer{}.{}", i, role);
  };
  if (config.layers == 1) {
    Part part{builder,
              [&](const std::string& role, const Shape& shape) {
                return builder.parameter(layer_name(0, role), shape);
              },
              kLayerPath, extents, config.fuse_qkv};
    return part.block(x);
  }
  const auto roles = block_parameters(extents, config.fuse_qkv);
  std::vector<std::vector<ValueId>> members(roles.size());
  for (std::uint32_t i = 0; i < config.layers; ++i)
    for (std::size_t r = 0; r < roles.size(); ++r)
      members[r].push_back(builder.parameter(layer_name(i, roles[r].first), roles[r].second));
  std::vector<std::uint32_t> iterated;
  for (std::size_t r = 0; r < roles.size(); ++r)
    iterated.push_back(builder.sequence("vit.encoder.layer{}." + roles[r].first, std::move(members[r])));
  const auto arguments = builder.begin_repeat("vit.encoder", config.layers, {x}, {}, iterated);
  Part part{builder,
            [&](const std::string& role, const Shape&) {
              for (std::size_t r = 0; r < roles.size(); ++r)
                if (roles[r].first == role) return arguments[1 + r];
              fail_check("role", "a block asks for \"" + role + "\"");
            },
            kLayerPath, extents, config.fuse_qkv};
  return builder.end_repeat({part.block(arguments[0])})[0];
}

graph::Graph build_graph(const Architecture& architecture, const Extents& extents, const Config& config) {
  Builder builder(config.name);
  const std::uint32_t side = config.image_size / kPatch;
  const std::uint32_t tokens = side * side + (architecture.class_token ? 1 : 0);
  const std::uint32_t patch = kPatch * kPatch * kChannels;
  Part vit{
      builder,
      [&](const std::string& role, const Shape& shape) { return builder.parameter("vit." + role, shape); },
      "vit.", extents, config.fuse_qkv};
  ValueId x = builder.host(architecture.input, {config.batch, tokens, patch});
  if (architecture.class_token)
    x = builder.gemm("vit.embedding", x, vit.parameter("embedding.weight", {patch, extents.width}));
  else
    x = vit.linear("embedding", x, patch, extents.width);
  x = builder.add("vit.position", x, vit.parameter("position", {1, tokens, extents.width}));
  if (architecture.class_token) x = vit.norm("embedding.norm", x);
  x = encoder(builder, extents, config, x);
  x = vit.norm("encoder.final_norm", x);
  Part map{builder,
           [&](const std::string& role, const Shape& shape) {
             return builder.parameter("vit.map." + role, shape);
           },
           "vit.map.", extents, config.fuse_qkv};
  x = map.pool(x, map.parameter("probe", {config.batch, 1, extents.width}));
  if (architecture.class_token)
    x = builder.gemm("vit.projection", x, vit.parameter("projection.weight", {extents.width, extents.width}));
  return builder.finish({x});
}

}  // namespace

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const Architecture& architecture : kArchitectures) out.emplace_back(architecture.name);
  return out;
}

Model build(Config config) {
  const Architecture& architecture = find(config.name);
  const Extents& extents = config.small ? architecture.small : architecture.full;
  Model model;
  model.config = with_defaults(std::move(config), extents);
  model.graph = build_graph(architecture, extents, model.config);
  model.vision.side = model.config.image_size;
  // The checkpoint's preprocessing resizes to 384 of which 378 are used; any other size is used whole.
  model.vision.resize = model.vision.side == extents.side ? extents.resize : model.vision.side;
  model.vision.bicubic = architecture.bicubic;
  model.vision.patch = kPatch;
  model.vision.class_row = architecture.class_token;
  model.vision.input = architecture.input;
  for (const graph::Value& value : model.graph.values)
    if (value.kind == graph::ValueKind::Parameter) model.parameters += tensor::elements(value.shape);
  return model;
}

}  // namespace tw::model
