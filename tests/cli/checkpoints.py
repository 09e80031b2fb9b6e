"""Checkpoints in published naming, made of the values that the program would draw (decisions.md 10), with the standard
library only."""
import ctypes
import json
import math
import struct

WORD = (1 << 64) - 1  # 64 bits
_xxhash = ctypes.CDLL("libxxhash.so.0").XXH3_64bits_withSeed
_xxhash.restype = ctypes.c_uint64
_xxhash.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
GAMMA = 0x9E3779B97F4A7C15


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def _mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def drawn(name, shape, deviation, period=None, seed=1):
    """Row-major FP32 values of a random tensor."""
    s = _xxhash(name.encode(), len(name), seed)
    values = []
    for i in range(math.prod(shape)):
        k = i % period if period else i
        u1 = 1.0 - (_mix((s + (2 * k + 1) * GAMMA) & WORD) >> 11) * 2.0**-53
        u2 = (_mix((s + (2 * k + 2) * GAMMA) & WORD) >> 11) * 2.0**-53
        values.append(f32(math.sqrt(-2.0 * math.log(u1)) * math.cos(2.0 * math.pi * u2) * deviation))
    return values


def parameter(name, shape):
    """models.md C.1."""
    if name.endswith(".scale"):
        return [1.0] * math.prod(shape)
    if name.endswith(".bias"):
        return drawn(name, shape, 1e-6)
    if name.endswith(".weight"):
        parts = 3 if name.endswith(".qkv.weight") else 2 if name.endswith(".kv.weight") else 1
        return drawn(name, shape, math.sqrt(2.0 / (shape[0] + shape[-1] / parts)))
    return drawn(name, shape, 1.0 / math.sqrt(shape[-1]), period=shape[-1] if name == "vit.map.probe" else None)


def transposed(values, rows, columns):
    """Of a row-major matrix."""
    return [values[r * columns + c] for c in range(columns) for r in range(rows)]


def linear(name, inputs, outputs):
    """A weight as [out, in] and its bias."""
    return (([outputs, inputs], transposed(parameter(f"{name}.weight", [inputs, outputs]), inputs, outputs)),
            ([outputs], parameter(f"{name}.bias", [1, 1, outputs])))


def convolution(width, side=14, channels=3):
    ours = parameter("vit.embedding.weight", [side * side * channels, width])
    return ([width, channels, side, side],
            [ours[((y * side + x) * channels + c) * width + o] for o in range(width) for c in range(channels)
             for y in range(side) for x in range(side)])


def rows(stored, part, parts):
    """One of equal parts along the first axis."""
    shape, values = stored
    step = len(values) // parts
    return ([shape[0] // parts, *shape[1:]], values[part * step:(part + 1) * step])


class Writer:
    """Collects (shape, FP32 values) by name."""

    def __init__(self):
        self.tensors = {}

    def pair(self, stem, weight_and_bias):
        self.tensors[f"{stem}weight"], self.tensors[f"{stem}bias"] = weight_and_bias

    def norm(self, stem, ours, width):
        for theirs, kind in (("weight", "scale"), ("bias", "bias")):
            self.tensors[stem + theirs] = ([width], parameter(f"{ours}.{kind}", [1, 1, width]))


def siglip_hugging_face(layers=1, width=144, hidden=288, tokens=4):
    w = Writer()
    w.tensors["embeddings.patch_embedding.weight"] = convolution(width)
    w.tensors["embeddings.patch_embedding.bias"] = ([width], parameter("vit.embedding.bias", [1, 1, width]))
    w.tensors["embeddings.position_embedding.weight"] = ([tokens, width], parameter("vit.position", [1, tokens, width]))
    for i in range(layers):
        ours, theirs = f"vit.encoder.layer{i}", f"encoder.layers.{i}"
        w.norm(f"{theirs}.layer_norm1.", f"{ours}.attention_norm", width)
        w.norm(f"{theirs}.layer_norm2.", f"{ours}.mlp_norm", width)
        qkv = linear(f"{ours}.attention.qkv", width, 3 * width)
        for part, letter in enumerate("qkv"):
            w.pair(f"{theirs}.self_attn.{letter}_proj.", [rows(x, part, 3) for x in qkv])
        w.pair(f"{theirs}.self_attn.out_proj.", linear(f"{ours}.attention.output", width, width))
        w.pair(f"{theirs}.mlp.fc1.", linear(f"{ours}.mlp.up", width, hidden))
        w.pair(f"{theirs}.mlp.fc2.", linear(f"{ours}.mlp.down", hidden, width))
    w.norm("post_layernorm.", "vit.encoder.final_norm", width)
    w.tensors["head.probe"] = ([1, 1, width], parameter("vit.map.probe", [1, 1, width]))
    q, kv = linear("vit.map.attention.query", width, width), linear("vit.map.attention.kv", width, 2 * width)
    w.pair("head.attention.in_proj_", [([3 * width, *a[0][1:]], a[1] + b[1]) for a, b in zip(q, kv)])
    w.pair("head.attention.out_proj.", linear("vit.map.attention.output", width, width))
    w.norm("head.layernorm.", "vit.map.norm", width)
    w.pair("head.mlp.fc1.", linear("vit.map.mlp.up", width, hidden))
    w.pair("head.mlp.fc2.", linear("vit.map.mlp.down", hidden, width))
    tower = {f"vision_model.{name}": tensor for name, tensor in w.tensors.items()}
    return tower | {"logit_scale": ([1], [2.5]), "text_model.final_layer_norm.bias": ([3], [1.0, 2.0, 3.0])}


def siglip_timm(**extents):
    """The same values under the names of timm, below the prefix of open_clip."""
    source = {name.removeprefix("vision_model."): t for name, t in siglip_hugging_face(**extents).items()
              if name.startswith("vision_model.")}

    def joined(names):
        parts = [source[n] for n in names]
        return ([sum(p[0][0] for p in parts), *parts[0][0][1:]], [x for p in parts for x in p[1]])

    out = {}
    layers = 1 + max(int(n.split(".")[2]) for n in source if n.startswith("encoder.layers."))
    stems = {"embeddings.patch_embedding.": "patch_embed.proj.", "post_layernorm.": "norm.",
             "head.attention.out_proj.": "attn_pool.proj.", "head.layernorm.": "attn_pool.norm.",
             "head.mlp.fc1.": "attn_pool.mlp.fc1.", "head.mlp.fc2.": "attn_pool.mlp.fc2."}
    for i in range(layers):
        for a, b in (("layer_norm1", "norm1"), ("layer_norm2", "norm2"), ("self_attn.out_proj", "attn.proj"),
                     ("mlp.fc1", "mlp.fc1"), ("mlp.fc2", "mlp.fc2")):
            stems[f"encoder.layers.{i}.{a}."] = f"blocks.{i}.{b}."
    for kind in ("weight", "bias"):
        for a, b in stems.items():
            out[b + kind] = source[a + kind]
        for i in range(layers):
            out[f"blocks.{i}.attn.qkv.{kind}"] = joined([f"encoder.layers.{i}.self_attn.{c}_proj.{kind}" for c in "qkv"])
        pool = source[f"head.attention.in_proj_{kind}"]
        out[f"attn_pool.q.{kind}"] = rows(pool, 0, 3)
        out[f"attn_pool.kv.{kind}"] = ([2 * pool[0][0] // 3, *pool[0][1:]], pool[1][len(pool[1]) // 3:])
    out["pos_embed"] = ([1, *source["embeddings.position_embedding.weight"][0]],
                        source["embeddings.position_embedding.weight"][1])
    out["attn_pool.latent"] = source["head.probe"]
    return {f"visual.trunk.{name}": t for name, t in out.items()} | {"text.transformer.x": ([1], [0.0])}


def perception_encoder(layers=1, width=128, hidden=512, tokens=5):
    w = Writer()
    w.tensors["conv1.weight"] = convolution(width)
    position = parameter("vit.position", [1, tokens, width])
    half = [x / 2 for x in position[:width]]  # the class vector and its position add up to what is drawn
    w.tensors["class_embedding"] = ([width], half)
    w.tensors["positional_embedding"] = ([tokens, width], half + position[width:])
    w.norm("ln_pre.", "vit.embedding.norm", width)
    for i in range(layers):
        ours, theirs = f"vit.encoder.layer{i}", f"transformer.resblocks.{i}"
        w.norm(f"{theirs}.ln_1.", f"{ours}.attention_norm", width)
        w.norm(f"{theirs}.ln_2.", f"{ours}.mlp_norm", width)
        w.pair(f"{theirs}.attn.in_proj_", linear(f"{ours}.attention.qkv", width, 3 * width))
        w.pair(f"{theirs}.attn.out_proj.", linear(f"{ours}.attention.output", width, width))
        w.pair(f"{theirs}.mlp.c_fc.", linear(f"{ours}.mlp.up", width, hidden))
        w.pair(f"{theirs}.mlp.c_proj.", linear(f"{ours}.mlp.down", hidden, width))
    w.norm("ln_post.", "vit.encoder.final_norm", width)
    w.tensors["attn_pool.probe"] = ([1, 1, width], parameter("vit.map.probe", [1, 1, width]))
    q, kv = linear("vit.map.attention.query", width, width), linear("vit.map.attention.kv", width, 2 * width)
    w.pair("attn_pool.attn.in_proj_", [([3 * width, *a[0][1:]], a[1] + b[1]) for a, b in zip(q, kv)])
    w.pair("attn_pool.attn.out_proj.", linear("vit.map.attention.output", width, width))
    w.norm("attn_pool.layernorm.", "vit.map.norm", width)
    w.pair("attn_pool.mlp.c_fc.", linear("vit.map.mlp.up", width, hidden))
    w.pair("attn_pool.mlp.c_proj.", linear("vit.map.mlp.down", hidden, width))
    w.tensors["proj"] = ([width, width], parameter("vit.projection.weight", [width, width]))
    return {f"visual.{name}": t for name, t in w.tensors.items()}


def perception_encoder_timm(**extents):
    source = {name.removeprefix("visual."): t for name, t in perception_encoder(**extents).items()}
    swaps = [("transformer.resblocks.", "blocks."), ("ln_pre", "norm_pre"), ("ln_post", "norm"), ("ln_", "norm"),
             ("conv1", "patch_embed.proj"), ("attn_pool.attn", "attn_pool"), ("attn_pool.layernorm", "attn_pool.norm"),
             ("attn_pool.probe", "attn_pool.latent"), ("in_proj_", "qkv."), ("out_proj", "proj"), ("c_fc", "fc1"),
             ("c_proj", "fc2")]
    out = {}
    for name, (shape, values) in source.items():
        if name == "proj":
            out["head.weight"] = (shape, transposed(values, *shape))
            out["head.bias"] = ([shape[1]], [0.0] * shape[1])
            continue
        if name in ("class_embedding", "positional_embedding"):
            out["cls_token" if name == "class_embedding" else "pos_embed"] = (
                [1, *shape] if len(shape) > 1 else [1, 1, *shape], values)
            continue
        for a, b in swaps:
            name = name.replace(a, b)
        if name.startswith("attn_pool.qkv."):
            kind = name.removeprefix("attn_pool.qkv.")
            out[f"attn_pool.q.{kind}"] = rows((shape, values), 0, 3)
            out[f"attn_pool.kv.{kind}"] = ([2 * shape[0] // 3, *shape[1:]], values[len(values) // 3:])
            continue
        out[name] = (shape, values)
    return out


def bf16(x):
    """Truncated to BF16: an FP32 number whose lower half is zero."""
    return struct.unpack("<f", b"\0\0" + struct.pack("<f", x)[2:])[0]


# The values of OCP E4M3 by their codes; 0x7F and 0xFF are NaN, no infinities.
E4M3 = [(-1.0 if c > 127 else 1.0) * (math.ldexp(c & 7, -9) if c & 0x78 == 0 else math.ldexp(8 + (c & 7), (c >> 3 & 15) - 10))
        if c & 127 != 127 else math.nan for c in range(256)]


def _bytes(dtype, values):
    if dtype == "BF16":
        return b"".join(struct.pack("<f", x)[2:] for x in values)
    if dtype == "F8_E4M3":
        return bytes(E4M3.index(x) for x in values)
    return struct.pack(f"<{len(values)}{ {'F64': 'd', 'F32': 'f', 'F16': 'e', 'I64': 'q'}[dtype]}", *values)


def write(file, tensors, dtype="F32", dtypes={}):
    """A safetensors file; `dtypes`: exceptions by name."""
    header = {"__metadata__": {"format": "pt"}}
    chunks = []
    at = 0
    for name, (shape, values) in tensors.items():
        kind = dtypes.get(name, dtype)
        chunks.append(_bytes(kind, values))
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(chunks[-1])]}
        at += len(chunks[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(chunks))
    return file


def write_sharded(folder, tensors, shards=3):
    names = sorted(tensors)
    weight_map = {}
    for s in range(shards):
        file = f"model-{s + 1:05}-of-{shards:05}.safetensors"
        part = {n: tensors[n] for n in names[s::shards]}
        write(folder / file, part)
        weight_map |= {n: file for n in part}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))
    return index
