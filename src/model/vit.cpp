#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "base/error.h"
#include "model/model.h"
#include "model/rope.h"

namespace tw::model {
namespace {

using graph::Builder;
using graph::Shape;

constexpr std::uint32_t kPatch = 14, kChannels = 3;
// Beyond these nothing can fit the device; they keep products of extents far from overflow.
constexpr std::uint32_t kMaxLayers = 1024, kMaxBatch = 256, kMaxSide = 2016;

// The extents of a model, models.md B.1 and B.2.
struct Extents {
  std::uint32_t width, hidden, heads, pool_heads, layers, side, resize;
};
// All in which the models differ.
struct Architecture {
  const char* name;
  Extents full, small;
  const char* input;
  bool class_token;  // a leading zero patch, a norm before the encoder, a final projection, no embedding bias
  bool bicubic;
  bool rope;  // rotary positions of queries and keys in the encoder
  float epsilon;
  numeric::Unary activation;
};
constexpr Extents kPeCore{1024, 4096, 16, 8, 24, 336, 336}, kPeCoreSmall{128, 512, 2, 8, 1, 28, 28};
constexpr const char* kPeInput = "vit.pe.image.patches";
constexpr Architecture kArchitectures[] = {
    {.name = "siglip-so400m",
     .full = {1152, 4304, 16, 16, 27, 378, 384},
     .small = {144, 288, 2, 2, 1, 28, 28},
     .input = "vit.image.patches",
     .class_token = false,
     .bicubic = true,
     .rope = false,
     .epsilon = 1e-6F,
     .activation = numeric::Unary::GeluTanh},
    {.name = "pe-core-l14",
     .full = kPeCore,
     .small = kPeCoreSmall,
     .input = kPeInput,
     .class_token = true,
     .bicubic = false,
     .rope = true,
     .epsilon = 1e-5F,
     .activation = numeric::Unary::GeluErf},
    // The seed's simplification of it, models.md B.2.1.
    {.name = "pe-core-l14-capacity",
     .full = kPeCore,
     .small = kPeCoreSmall,
     .input = kPeInput,
     .class_token = true,
     .bicubic = false,
     .rope = false,
     .epsilon = 1e-6F,
     .activation = numeric::Unary::GeluTanh},
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

struct Variant {  // of an architecture
  const Architecture& architecture;
  const Extents& extents;
  bool fuse;
};
struct Rotation {  // tables of rotary positions, rows x channels of a head
  ValueId cosine, sine;
};

struct Part {  // what one stretch of the network needs to be built
  Builder& builder;
  Lookup parameter;
  std::string path;
  const Variant& variant;
  const Extents& extents = variant.extents;

  ValueId linear(const std::string& role, ValueId x, std::uint32_t in, std::uint32_t out) {
    const ValueId y = builder.gemm(path + role, x, parameter(role + ".weight", {in, out}));
    return builder.add(path + role + ".bias", y, parameter(role + ".bias", {1, 1, out}));
  }
  ValueId norm(const std::string& role, ValueId x) {
    const Shape vector{1, 1, extents.width};
    return builder.layer_norm(path + role, x, parameter(role + ".scale", vector),
                              parameter(role + ".bias", vector), variant.architecture.epsilon);
  }
  // The graph has the tanh GELU as an operation of its own.
  ValueId activation(const std::string& role, ValueId x) {
    const numeric::Unary function = variant.architecture.activation;
    return function == numeric::Unary::GeluTanh ? builder.gelu(path + role, x)
                                                : builder.unary(path + role, function, x);
  }
  ValueId mlp(ValueId x) {
    const ValueId up = linear("mlp.up", x, extents.width, extents.hidden);
    return linear("mlp.down", activation("mlp.gelu", up), extents.hidden, extents.width);
  }
  // Projections of one input onto several roles: one product and slices when fused, else one product each.
  std::vector<ValueId> project(const std::string& fused, const std::vector<std::string>& roles, ValueId x) {
    const std::uint32_t width = extents.width;
    std::vector<ValueId> out;
    if (!variant.fuse) {
      for (const std::string& role : roles) out.push_back(linear("attention." + role, x, width, width));
      return out;
    }
    const auto parts = static_cast<std::uint32_t>(roles.size());
    const ValueId all = linear("attention." + fused, x, width, width * parts);
    for (std::uint32_t i = 0; i < parts; ++i)
      out.push_back(builder.slice(path + "attention." + roles[i] + ".slice", all, 2, i * width, width));
    return out;
  }
  ValueId attend(ValueId q, ValueId k, ValueId v, std::uint32_t heads,
                 const std::optional<Rotation>& rotation) {
    const std::string base = path + "attention";
    const float scale = 1.0F / std::sqrt(static_cast<float>(extents.width / heads));
    ValueId qh = builder.split_heads(base + ".query.split", q, heads);
    ValueId kh = builder.split_heads(base + ".key.split", k, heads);
    const ValueId vh = builder.split_heads(base + ".value.split", v, heads);
    if (rotation) {
      qh = builder.rope(base + ".query.rope", qh, rotation->cosine, rotation->sine, true);
      kh = builder.rope(base + ".key.rope", kh, rotation->cosine, rotation->sine, true);
    }
    const ValueId o = builder.attention(base, qh, kh, vh, scale);
    return linear("attention.output", builder.merge_heads(base + ".merge", o, heads), extents.width,
                  extents.width);
  }
  // Pre-norm encoder block.
  ValueId block(ValueId x, const std::optional<Rotation>& rotation) {
    const auto qkv = project("qkv", {"query", "key", "value"}, norm("attention_norm", x));
    const ValueId attended =
        builder.add(path + "attention.residual", x, attend(qkv[0], qkv[1], qkv[2], extents.heads, rotation));
    return builder.add(path + "mlp.residual", attended, mlp(norm("mlp_norm", attended)));
  }
  // Pooling by a learned query; no residual from the query.
  ValueId pool(ValueId x, ValueId probe) {
    const ValueId q = linear("attention.query", probe, extents.width, extents.width);
    const auto kv = project("kv", {"key", "value"}, x);
    const ValueId h = attend(q, kv[0], kv[1], extents.pool_heads, std::nullopt);
    return builder.add(path + "mlp.residual", h, mlp(norm("norm", h)));
  }
};

// Roles and shapes of one encoder block in the order in which the block asks for them.
std::vector<std::pair<std::string, Shape>> block_parameters(const Variant& variant) {
  Builder scratch("roles");
  std::vector<std::pair<std::string, Shape>> roles;
  Part part{scratch,
            [&](const std::string& role, const Shape& shape) {
              roles.emplace_back(role, shape);
              return scratch.parameter(role, shape);
            },
            "", variant};
  part.block(scratch.host("x", {1, 1, variant.extents.width}), std::nullopt);
  return roles;
}

constexpr const char *kCosine = "vit.rope.cosine", *kSine = "vit.rope.sine";
constexpr const char* kLayerPath = "vit.encoder.layer.";

ValueId encoder(Builder& builder, const Variant& variant, std::uint32_t layers,
                const std::optional<Rotation>& rotation, ValueId x) {
  auto layer_name = [](std::uint32_t i, const std::string& role) {
    return fmt::format("vit.encoder.layer{}.{}", i, role);
  };
  if (layers == 1) {
    Part part{builder,
              [&](const std::string& role, const Shape& shape) {
                return builder.parameter(layer_name(0, role), shape);
              },
              kLayerPath, variant};
    return part.block(x, rotation);
  }
  const auto roles = block_parameters(variant);
  std::vector<std::vector<ValueId>> members(roles.size());
  for (std::uint32_t i = 0; i < layers; ++i)
    for (std::size_t r = 0; r < roles.size(); ++r)
      members[r].push_back(builder.parameter(layer_name(i, roles[r].first), roles[r].second));
  std::vector<std::uint32_t> iterated;
  for (std::size_t r = 0; r < roles.size(); ++r)
    iterated.push_back(builder.sequence("vit.encoder.layer{}." + roles[r].first, std::move(members[r])));
  std::vector<ValueId> invariant;
  if (rotation) invariant = {rotation->cosine, rotation->sine};
  const auto arguments = builder.begin_repeat("vit.encoder", layers, {x}, invariant, iterated);
  const std::size_t first = 1 + invariant.size();  // of the iterated ones
  Part part{builder,
            [&](const std::string& role, const Shape&) {
              for (std::size_t r = 0; r < roles.size(); ++r)
                if (roles[r].first == role) return arguments[first + r];
              fail_check("role", "a block asks for \"" + role + "\"");
            },
            kLayerPath, variant};
  std::optional<Rotation> inside;
  if (rotation) inside = Rotation{arguments[1], arguments[2]};
  return builder.end_repeat({part.block(arguments[0], inside)})[0];
}

graph::Graph build_graph(const Variant& variant, const Config& config) {
  const auto& [architecture, extents, fuse] = variant;
  Builder builder(config.name);
  const std::uint32_t side = config.image_size / kPatch;
  const std::uint32_t tokens = side * side + (architecture.class_token ? 1 : 0);
  const std::uint32_t patch = kPatch * kPatch * kChannels;
  Part vit{
      builder,
      [&](const std::string& role, const Shape& shape) { return builder.parameter("vit." + role, shape); },
      "vit.", variant};
  ValueId x = builder.host(architecture.input, {config.batch, tokens, patch});
  if (architecture.class_token)
    x = builder.gemm("vit.embedding", x, vit.parameter("embedding.weight", {patch, extents.width}));
  else
    x = vit.linear("embedding", x, patch, extents.width);
  x = builder.add("vit.position", x, vit.parameter("position", {1, tokens, extents.width}));
  if (architecture.class_token) x = vit.norm("embedding.norm", x);
  std::optional<Rotation> rotation;
  if (architecture.rope) {
    const Shape table{tokens, extents.width / extents.heads};
    rotation = {builder.parameter(kCosine, table), builder.parameter(kSine, table)};
  }
  x = encoder(builder, variant, config.layers, rotation, x);
  x = vit.norm("encoder.final_norm", x);
  Part map{builder,
           [&](const std::string& role, const Shape& shape) {
             return builder.parameter("vit.map." + role, shape);
           },
           "vit.map.", variant};
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

bool is_trained(const Model& model, const graph::Value& value) {
  return value.kind == graph::ValueKind::Parameter && !model.constants.contains(value.name);
}

Model build(Config config) {
  const Architecture& architecture = find(config.name);
  const Extents& extents = config.small ? architecture.small : architecture.full;
  Model model;
  model.config = with_defaults(std::move(config), extents);
  model.graph = build_graph({architecture, extents, model.config.fuse_qkv}, model.config);
  model.vision.side = model.config.image_size;
  // The checkpoint's preprocessing resizes to 384 of which 378 are used; any other size is used whole.
  model.vision.resize = model.vision.side == extents.side ? extents.resize : model.vision.side;
  model.vision.bicubic = architecture.bicubic;
  model.vision.patch = kPatch;
  model.vision.class_row = architecture.class_token;
  model.vision.input = architecture.input;
  if (architecture.rope) {
    RopeTables tables = rope_tables(model.config.image_size / kPatch, extents.width / extents.heads);
    model.constants = {{kCosine, std::move(tables.cosine)}, {kSine, std::move(tables.sine)}};
  }
  for (const graph::Value& value : model.graph.values)
    if (is_trained(model, value)) model.parameters += tensor::elements(value.shape);
  return model;
}

}  // namespace tw::model
