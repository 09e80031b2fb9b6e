"""Reference fixtures of the small models, with the standard library only: drawn parameters and patches, and outputs that
are computed here, in double, from the definitions of models.md B.1 and B.2.1. `Model` knows the names and shapes that the
graph has; nothing of it is read from the program."""
import hashlib
import json
import math
import struct

from checkpoints import drawn, parameter

EPSILON = 1e-6
PATCH = 14 * 14 * 3


class Model:
    def __init__(self, siglip=True, layers=1, batch=1, fused=False):
        self.siglip, self.layers, self.batch, self.fused = siglip, layers, batch, fused
        self.width, self.hidden = (144, 288) if siglip else (128, 512)
        self.heads, self.pool_heads = (2, 2) if siglip else (2, 8)
        self.tokens = 4 if siglip else 5  # 28 x 28 pixels
        self.input = "vit.image.patches" if siglip else "vit.pe.image.patches"

    def shapes(self):
        w, shapes = self.width, {}

        def linear(name, inputs, outputs):
            shapes[f"{name}.weight"], shapes[f"{name}.bias"] = [inputs, outputs], [1, 1, outputs]

        def norm(name):
            shapes[f"{name}.scale"] = shapes[f"{name}.bias"] = [1, 1, w]

        def projections(base, fused, single):
            if self.fused:
                linear(f"{base}.{fused}", w, len(single) * w)
            else:
                for name in single:
                    linear(f"{base}.{name}", w, w)

        if self.siglip:
            linear("vit.embedding", PATCH, w)
        else:
            shapes["vit.embedding.weight"] = [PATCH, w]
            norm("vit.embedding.norm")
        shapes["vit.position"] = [1, self.tokens, w]
        for i in range(self.layers):
            base = f"vit.encoder.layer{i}"
            norm(f"{base}.attention_norm")
            projections(f"{base}.attention", "qkv", ["query", "key", "value"])
            linear(f"{base}.attention.output", w, w)
            norm(f"{base}.mlp_norm")
            linear(f"{base}.mlp.up", w, self.hidden)
            linear(f"{base}.mlp.down", self.hidden, w)
        norm("vit.encoder.final_norm")
        shapes["vit.map.probe"] = [self.batch, 1, w]
        linear("vit.map.attention.query", w, w)
        projections("vit.map.attention", "kv", ["key", "value"])
        linear("vit.map.attention.output", w, w)
        norm("vit.map.norm")
        linear("vit.map.mlp.up", w, self.hidden)
        linear("vit.map.mlp.down", self.hidden, w)
        if not self.siglip:
            shapes["vit.projection.weight"] = [w, w]
        return shapes

    def parameters(self):
        return {name: (shape, parameter(name, shape)) for name, shape in self.shapes().items()}

    def patches(self, seed):
        values = []
        for image in range(self.batch):
            one = drawn("patches", [self.tokens, PATCH], 0.5, seed=1000 * seed + image)
            values += one if self.siglip else [0.0] * PATCH + one[PATCH:]
        return [self.batch, self.tokens, PATCH], values


def product(rows, matrix, bias=None):
    """Rows times a row-major (shape, values) matrix."""
    (inner, outer), values = matrix
    out = []
    for row in rows:
        sums = list(bias) if bias else [0.0] * outer
        for i, x in enumerate(row):
            if x:
                sums = [s + x * w for s, w in zip(sums, values[i * outer:(i + 1) * outer])]
        out.append(sums)
    assert all(len(row) == inner for row in rows)
    return out


def plus(a, b):
    return [[x + y for x, y in zip(r, s)] for r, s in zip(a, b)]


def gelu(x):
    return 0.5 * x * (1 + math.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


def softmax(scores):
    largest = max(scores)
    powers = [math.exp(s - largest) for s in scores]
    return [p / sum(powers) for p in powers]


def attention(q, k, v, heads):
    size = len(q[0]) // heads
    out = [[] for _ in q]
    for h in range(heads):
        part = slice(h * size, (h + 1) * size)
        for row, to in zip(q, out):
            weights = softmax([sum(a * b for a, b in zip(row[part], key[part])) / math.sqrt(size) for key in k])
            to += [sum(p * value[part][c] for p, value in zip(weights, v)) for c in range(size)]
    return out


def forward(model, parameters, patches):
    """The embeddings of a batch, one after the other."""
    width = model.width

    def linear(name, rows):
        bias = parameters.get(f"{name}.bias")
        return product(rows, parameters[f"{name}.weight"], bias and bias[1])

    def norm(name, rows):
        scale, bias = parameters[f"{name}.scale"][1], parameters[f"{name}.bias"][1]
        out = []
        for row in rows:
            mean = sum(row) / width
            deviation = math.sqrt(sum((x - mean)**2 for x in row) / width + EPSILON)
            out.append([(x - mean) / deviation * s + b for x, s, b in zip(row, scale, bias)])
        return out

    def projected(base, fused, names, rows):
        if not model.fused:
            return [linear(f"{base}.{name}", rows) for name in names]
        joined = linear(f"{base}.{fused}", rows)
        return [[row[i * width:(i + 1) * width] for row in joined] for i in range(len(names))]

    def mlp(base, rows):
        return linear(f"{base}.mlp.down", [[gelu(x) for x in row] for row in linear(f"{base}.mlp.up", rows)])

    def image(index):
        first = index * model.tokens
        x = [patches[(first + t) * PATCH:(first + t + 1) * PATCH] for t in range(model.tokens)]
        position = parameters["vit.position"][1]
        x = plus(linear("vit.embedding", x), [position[t * width:(t + 1) * width] for t in range(model.tokens)])
        if not model.siglip:
            x = norm("vit.embedding.norm", x)
        for i in range(model.layers):
            base = f"vit.encoder.layer{i}"
            q, k, v = projected(f"{base}.attention", "qkv", ["query", "key", "value"], norm(f"{base}.attention_norm", x))
            x = plus(x, linear(f"{base}.attention.output", attention(q, k, v, model.heads)))
            x = plus(x, mlp(base, norm(f"{base}.mlp_norm", x)))
        x = norm("vit.encoder.final_norm", x)
        probe = parameters["vit.map.probe"][1][index * width:(index + 1) * width]
        k, v = projected("vit.map.attention", "kv", ["key", "value"], x)
        h = attention(linear("vit.map.attention.query", [probe]), k, v, model.pool_heads)
        h = linear("vit.map.attention.output", h)
        h = plus(h, mlp("vit.map", norm("vit.map.norm", h)))
        return (h if model.siglip else linear("vit.projection", h))[0]

    return [x for index in range(model.batch) for x in image(index)]


def _tensor(folder, file, shape, values):
    content = struct.pack(f"<{len(values)}f", *values)
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_bytes(content)
    return {"file": file, "shape": shape}, hashlib.sha256(content).hexdigest()


def write(folder, model, cases=1):
    """A fixture of as many cases as asked for. Returns its folder."""
    parameters = model.parameters()
    manifest = {"parameters": {}, "cases": []}
    for i, (name, (shape, values)) in enumerate(parameters.items()):
        entry, digest = _tensor(folder, f"parameters/{i:03}.f32", shape, values)
        manifest["parameters"][name] = entry | {"sha256": digest}
    for c in range(cases):
        shape, patches = model.patches(seed=c + 1)
        expected = forward(model, parameters, patches)
        manifest["cases"].append({
            "name": f"image {c}",
            "inputs": {model.input: _tensor(folder, f"case{c}/patches.f32", shape, patches)[0]},
            "expected": _tensor(folder, f"case{c}/expected.f32", [model.batch, 1, model.width], expected)[0]})
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder
