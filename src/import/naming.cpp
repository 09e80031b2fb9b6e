#include "import/naming.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <span>

#include "base/error.h"
#include "import/problems.h"

namespace tw::import {
namespace {

// Our role, the stem of the stored name ("weight" or "bias" follows), and which of several equal parts along
// the first axis it is.
struct Row {
  const char* role;
  const char* stem;
  std::uint32_t part = 0, parts = 1;
};

constexpr Row kHuggingFace[] = {
    {"embedding", "embeddings.patch_embedding."},
    {"encoder.layer.attention_norm", "encoder.layers.{}.layer_norm1."},
    {"encoder.layer.attention.query", "encoder.layers.{}.self_attn.q_proj."},
    {"encoder.layer.attention.key", "encoder.layers.{}.self_attn.k_proj."},
    {"encoder.layer.attention.value", "encoder.layers.{}.self_attn.v_proj."},
    {"encoder.layer.attention.output", "encoder.layers.{}.self_attn.out_proj."},
    {"encoder.layer.mlp_norm", "encoder.layers.{}.layer_norm2."},
    {"encoder.layer.mlp.up", "encoder.layers.{}.mlp.fc1."},
    {"encoder.layer.mlp.down", "encoder.layers.{}.mlp.fc2."},
    {"encoder.final_norm", "post_layernorm."},
    {"map.attention.query", "head.attention.in_proj_", 0, 3},
    {"map.attention.key", "head.attention.in_proj_", 1, 3},
    {"map.attention.value", "head.attention.in_proj_", 2, 3},
    {"map.attention.output", "head.attention.out_proj."},
    {"map.norm", "head.layernorm."},
    {"map.mlp.up", "head.mlp.fc1."},
    {"map.mlp.down", "head.mlp.fc2."},
};
constexpr Row kPerceptionEncoder[] = {
    {"embedding", "conv1."},
    {"embedding.norm", "ln_pre."},
    {"encoder.layer.attention_norm", "transformer.resblocks.{}.ln_1."},
    {"encoder.layer.attention.query", "transformer.resblocks.{}.attn.in_proj_", 0, 3},
    {"encoder.layer.attention.key", "transformer.resblocks.{}.attn.in_proj_", 1, 3},
    {"encoder.layer.attention.value", "transformer.resblocks.{}.attn.in_proj_", 2, 3},
    {"encoder.layer.attention.output", "transformer.resblocks.{}.attn.out_proj."},
    {"encoder.layer.mlp_norm", "transformer.resblocks.{}.ln_2."},
    {"encoder.layer.mlp.up", "transformer.resblocks.{}.mlp.c_fc."},
    {"encoder.layer.mlp.down", "transformer.resblocks.{}.mlp.c_proj."},
    {"encoder.final_norm", "ln_post."},
    {"map.attention.query", "attn_pool.attn.in_proj_", 0, 3},
    {"map.attention.key", "attn_pool.attn.in_proj_", 1, 3},
    {"map.attention.value", "attn_pool.attn.in_proj_", 2, 3},
    {"map.attention.output", "attn_pool.attn.out_proj."},
    {"map.norm", "attn_pool.layernorm."},
    {"map.mlp.up", "attn_pool.mlp.c_fc."},
    {"map.mlp.down", "attn_pool.mlp.c_proj."},
};
constexpr Row kTimm[] = {
    {"embedding", "patch_embed.proj."},
    {"embedding.norm", "norm_pre."},
    {"encoder.layer.attention_norm", "blocks.{}.norm1."},
    {"encoder.layer.attention.query", "blocks.{}.attn.qkv.", 0, 3},
    {"encoder.layer.attention.key", "blocks.{}.attn.qkv.", 1, 3},
    {"encoder.layer.attention.value", "blocks.{}.attn.qkv.", 2, 3},
    {"encoder.layer.attention.output", "blocks.{}.attn.proj."},
    {"encoder.layer.mlp_norm", "blocks.{}.norm2."},
    {"encoder.layer.mlp.up", "blocks.{}.mlp.fc1."},
    {"encoder.layer.mlp.down", "blocks.{}.mlp.fc2."},
    {"encoder.final_norm", "norm."},
    {"map.attention.query", "attn_pool.q."},
    {"map.attention.key", "attn_pool.kv.", 0, 2},
    {"map.attention.value", "attn_pool.kv.", 1, 2},
    {"map.attention.output", "attn_pool.proj."},
    {"map.norm", "attn_pool.norm."},
    {"map.mlp.up", "attn_pool.mlp.fc1."},
    {"map.mlp.down", "attn_pool.mlp.fc2."},
};

// What the rules above do not say of a publisher.
struct Publication {
  Publisher publisher;
  const char* name;
  std::span<const Row> rows;
  const char* layers;  // what the names of a layer begin with
  const char* position;
  const char* class_token;
  const char* probe;
  const char* projection;
  bool projection_transposed;       // stored [out, in]
  bool position_batched;            // [1, T, D] instead of [T, D]
  bool siglip, perception_encoder;  // models that it publishes
};
constexpr Publication kPublications[] = {
    {Publisher::HuggingFace, "Hugging Face SigLIP", kHuggingFace, "encoder.layers.",
     "embeddings.position_embedding.weight", "", "head.probe", "", false, false, true, false},
    {Publisher::PerceptionEncoder, "Perception Encoder", kPerceptionEncoder, "transformer.resblocks.",
     "positional_embedding", "class_embedding", "attn_pool.probe", "proj", false, false, false, true},
    {Publisher::Timm, "timm", kTimm, "blocks.", "pos_embed", "cls_token", "attn_pool.latent", "head.weight",
     true, true, true, true},
};
const Publication& publication(Publisher publisher) {
  const auto found = std::ranges::find(kPublications, publisher, &Publication::publisher);
  TW_CHECK(found != std::end(kPublications), "an unknown publisher");
  return *found;
}

std::string patch_convolution(const Publication& p) { return std::string(p.rows.front().stem) + "weight"; }

const Row* find_row(const Publication& p, const std::string& role) {
  const auto found = std::ranges::find_if(p.rows, [&](const Row& r) { return role == r.role; });
  return found == p.rows.end() ? nullptr : &*found;
}

// "encoder.layer12.mlp.up" -> layer 12 of "encoder.layer.mlp.up".
struct Role {
  std::string role;
  std::string layer;
};
Role split_layer(const std::string& name) {
  static const std::string kLayer = "encoder.layer";
  if (!name.starts_with(kLayer)) return {name, ""};
  const std::size_t dot = name.find('.', kLayer.size());
  TW_CHECK(dot != std::string::npos, "a layer's parameter without a role: " + name);
  return {kLayer + name.substr(dot), name.substr(kLayer.size(), dot - kLayer.size())};
}

// The single projections of a fused one, in its order; else the role itself.
std::vector<std::string> single_roles(const std::string& role) {
  auto replaced = [&](std::size_t suffix, std::initializer_list<const char*> parts) {
    std::vector<std::string> out;
    for (const char* part : parts) out.push_back(role.substr(0, role.size() - suffix) + part);
    return out;
  };
  if (role.ends_with("attention.qkv")) return replaced(3, {"query", "key", "value"});
  if (role.ends_with("attention.kv")) return replaced(2, {"key", "value"});
  return {role};
}

std::string fill(const char* stem, const std::string& layer) {
  std::string text = stem;
  if (const std::size_t at = text.find("{}"); at != std::string::npos) text.replace(at, 2, layer);
  return text;
}

// Matrices and vectors of the table.
Source table_source(const Naming& naming, const Publication& p, const Parameter& parameter) {
  const std::string name = parameter.name.substr(std::string("vit.").size());
  const std::size_t dot = name.rfind('.');
  const std::string kind = name.substr(dot + 1);
  const Role role = split_layer(name.substr(0, dot));
  const std::vector<std::string> singles = single_roles(role.role);
  const std::uint64_t width = parameter.shape.back() / singles.size();
  Source source;
  for (const std::string& single : singles) {
    const Row* row = find_row(p, single);
    TW_CHECK(row != nullptr, "no rule for the parameter " + parameter.name);
    Piece piece;
    piece.tensor = naming.prefix + fill(row->stem, role.layer) + (kind == "scale" ? "weight" : kind);
    piece.first_row = row->part * width;
    piece.rows = width;
    piece.shape = {row->parts * width};
    if (kind == "weight") {
      piece.shape.push_back(parameter.shape.front());
      piece.order = Order::Transposed;
    }
    source.pieces.push_back(std::move(piece));
  }
  return source;
}

constexpr std::uint64_t kChannels = 3;

}  // namespace

Naming detect_naming(const std::vector<std::string>& names, bool class_token) {
  Naming out;
  out.class_token = class_token;
  std::set<std::pair<std::string, const Publication*>> found;  // prefix, publication
  for (const Publication& p : kPublications) {
    const std::string anchor = patch_convolution(p);
    for (const std::string& name : names) {
      const bool fits = name == anchor || name.ends_with("." + anchor);
      if (fits) found.emplace(name.substr(0, name.size() - anchor.size()), &p);
    }
  }
  if (found.empty()) {
    out.problem = "no tensor is a patch convolution by a known name (";
    for (const Publication& p : kPublications)
      out.problem += fmt::format("{}{}: {}", &p == kPublications ? "" : ", ", p.name, patch_convolution(p));
    out.problem += ")";
    return out;
  }
  if (found.size() > 1) {
    out.problem = fmt::format("{} image towers, expected one: ", found.size());
    for (const auto& [prefix, p] : found)
      out.problem += fmt::format("{}\"{}\"", prefix == found.begin()->first ? "" : ", ",
                                 printable(prefix + patch_convolution(*p)));
    return out;
  }
  const auto& [prefix, p] = *found.begin();
  out.publisher = p->publisher;
  out.prefix = prefix;
  if (class_token ? !p->perception_encoder : !p->siglip)
    out.problem = fmt::format("its names are those of {}; this model is a {}", p->name,
                              class_token ? "Perception Encoder" : "SigLIP");
  return out;
}

Source source_of(const Naming& naming, const Parameter& parameter) {
  const Publication& p = publication(naming.publisher);
  const std::uint64_t width = parameter.shape.back();
  auto plain = [&](const char* tensor, std::vector<std::uint64_t> shape) {
    const std::uint64_t rows = shape.front();
    return Source{{{naming.prefix + tensor, std::move(shape), 0, rows, Order::Same}}, "", false};
  };
  if (parameter.name == "vit.embedding.weight") {
    const auto side = static_cast<std::uint64_t>(
        std::lround(std::sqrt(static_cast<double>(parameter.shape.front() / kChannels))));
    Source source = plain("", {width, kChannels, side, side});
    source.pieces.front().tensor = naming.prefix + patch_convolution(p);
    source.pieces.front().order = Order::Patches;
    return source;
  }
  if (parameter.name == "vit.position") {
    const std::uint64_t tokens = parameter.shape[1];
    Source source =
        p.position_batched ? plain(p.position, {1, tokens, width}) : plain(p.position, {tokens, width});
    if (naming.class_token) source.class_token = naming.prefix + p.class_token;
    return source;
  }
  if (parameter.name == "vit.map.probe") {
    Source source = plain(p.probe, {1, 1, width});
    source.repeated = true;
    return source;
  }
  if (parameter.name == "vit.projection.weight") {
    Source source = plain(p.projection, {parameter.shape.front(), width});
    if (p.projection_transposed)
      source = {
          {{naming.prefix + p.projection, {width, parameter.shape.front()}, 0, width, Order::Transposed}},
          "",
          false};
    return source;
  }
  return table_source(naming, p, parameter);
}

bool ignorable(const Naming& naming, const std::string& name, std::uint32_t layers) {
  if (!name.starts_with(naming.prefix)) return true;
  const Publication& p = publication(naming.publisher);
  const std::string inner = name.substr(naming.prefix.size());
  if (naming.publisher == Publisher::HuggingFace) {
    if (inner == "embeddings.position_ids") return true;
    // The text tower of a checkpoint whose image tower has no prefix.
    if (inner.starts_with("text_model.") || inner == "logit_scale" || inner == "logit_bias") return true;
  }
  if (!inner.starts_with(p.layers)) return false;
  std::uint32_t layer = 0;
  const char* digits = inner.data() + std::string(p.layers).size();
  const auto [end, error] = std::from_chars(digits, inner.data() + inner.size(), layer);
  return error == std::errc() && *end == '.' && layer >= layers;
}

std::string must_be_zero(const Naming& naming) {
  return naming.class_token && naming.publisher == Publisher::Timm ? naming.prefix + "head.bias" : "";
}

}  // namespace tw::import
