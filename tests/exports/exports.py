"""Vision transformers as exporters write them to ONNX, with drawn weights: shapes computed by Shape and Gather, norms and
GELUs taken apart, attention with its reshapes and transposes. Debian's python3-onnx writes them."""
import dataclasses

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclasses.dataclass
class Size:
    layers: int
    width: int
    heads: int
    hidden: int
    patch: int
    side: int
    batch: int = 1

    @property
    def patches(self):
        return (self.side // self.patch) ** 2


class Draft:
    def __init__(self, size, seed=1):
        self.size, self.random = size, numpy.random.default_rng(seed)
        self.nodes, self.weights, self.next = [], [], 0

    def weight(self, name, *shape, scale=None, mean=0.0):
        if scale is None:
            scale = shape[0] ** -0.5 if len(shape) > 1 else 0.02
        values = self.random.standard_normal(shape, dtype=numpy.float32) * numpy.float32(scale) + numpy.float32(mean)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def op(self, kind, inputs, scope, **attributes):
        self.next += 1
        name = f"/{scope}/{kind}_{self.next}"
        self.nodes.append(helper.make_node(kind, inputs, [name + "_output_0"], name=name, **attributes))
        return name + "_output_0"

    def constant(self, value, kind=numpy.float32):
        self.next += 1
        name = f"/Constant_{self.next}_output_0"
        tensor = numpy_helper.from_array(numpy.array(value, dtype=kind))
        self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        return name

    def integers(self, value):
        return self.constant(value, numpy.int64)

    def extent(self, x, axis, scope):
        """One extent of x, computed as exporters do."""
        found = self.op("Gather", [self.op("Shape", [x], scope), self.integers(axis)], scope, axis=0)
        return self.op("Unsqueeze", [found, self.integers([0])], scope)

    def reshape(self, x, extents, scope):
        """Extents: a number, or the name of a computed one."""
        parts = [e if isinstance(e, str) else self.integers([e]) for e in extents]
        return self.op("Reshape", [x, self.op("Concat", parts, scope, axis=0)], scope)

    def linear(self, x, scope, columns, rows):
        product = self.op("MatMul", [x, self.weight(scope + ".weight", columns, rows)], scope)
        return self.op("Add", [self.weight(scope + ".bias", rows), product], scope)

    def patches(self, image):
        s = self.size
        kernel = self.weight("patch_embed.weight", s.width, 3, s.patch, s.patch, scale=0.04)
        x = self.op("Conv", [image, kernel, self.weight("patch_embed.bias", s.width)], "patch_embed",
                    kernel_shape=[s.patch] * 2, strides=[s.patch] * 2)
        x = self.reshape(x, [self.extent(x, 0, "patch_embed"), s.width, -1], "patch_embed")
        return self.op("Transpose", [x], "patch_embed", perm=[0, 2, 1])

    def save(self, path, opset, output, name, shape):
        s = self.size
        value = helper.make_tensor_value_info
        graph = helper.make_graph(self.nodes, "encoder", [value("image", TensorProto.FLOAT, [s.batch, 3, s.side, s.side])],
                                  [value(output, TensorProto.FLOAT, shape)], self.weights)
        assert self.nodes[-1].output[0] == name
        self.nodes[-1].output[0] = output
        graph.node[-1].output[0] = output
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), str(path))


def vit(path, size, classes=1000):
    """timm's ViT: class token, one product for QKV, erf GELU, LayerNormalization, a Gemm as head (opset 17)."""
    d, width, heads, tokens = Draft(size), size.width, size.heads, size.patches + 1
    token = d.op("Expand", [d.weight("cls_token", 1, 1, width, scale=0.5), d.integers([size.batch, 1, width])], "embed")
    x = d.op("Concat", [token, d.patches("image")], "embed", axis=1)
    x = d.op("Add", [x, d.weight("pos_embed", 1, tokens, width, scale=0.3)], "embed")

    def norm(x, scope):
        vectors = [d.weight(scope + ".weight", width, scale=0.1, mean=1.0), d.weight(scope + ".bias", width)]
        return d.op("LayerNormalization", [x, *vectors], scope, axis=-1, epsilon=1e-6)

    for layer in range(size.layers):
        scope = f"blocks.{layer}"
        y = d.linear(norm(x, scope + "/norm1"), scope + "/attn/qkv", width, 3 * width)
        y = d.reshape(y, [size.batch, tokens, 3, heads, width // heads], scope)
        y = d.op("Transpose", [y], scope, perm=[2, 0, 3, 1, 4])
        q, k, v = (d.op("Gather", [y, d.integers(i)], scope, axis=0) for i in range(3))
        q = d.op("Mul", [q, d.constant((width // heads) ** -0.5)], scope)
        scores = d.op("MatMul", [q, d.op("Transpose", [k], scope, perm=[0, 1, 3, 2])], scope)
        y = d.op("MatMul", [d.op("Softmax", [scores], scope, axis=-1), v], scope)
        y = d.reshape(d.op("Transpose", [y], scope, perm=[0, 2, 1, 3]), [size.batch, tokens, width], scope)
        x = d.op("Add", [x, d.linear(y, scope + "/attn/proj", width, width)], scope)
        y = d.linear(norm(x, scope + "/norm2"), scope + "/mlp/fc1", width, size.hidden)
        erf = d.op("Erf", [d.op("Div", [y, d.constant(2 ** 0.5)], scope)], scope)
        y = d.op("Mul", [y, d.op("Add", [erf, d.constant(1.0)], scope)], scope)
        y = d.op("Mul", [y, d.constant(0.5)], scope)
        x = d.op("Add", [x, d.linear(y, scope + "/mlp/fc2", size.hidden, width)], scope)
    x = d.op("Gather", [norm(x, "norm"), d.integers(0)], "head", axis=1)
    head = [d.weight("head.weight", classes, width, scale=0.03), d.weight("head.bias", classes)]
    d.save(path, 17, "logits", d.op("Gemm", [x, *head], "head", transB=1), [size.batch, classes])


def siglip(path, size):
    """Hugging Face's SiglipVisionModel: norms and tanh GELU taken apart, casts around softmax, and the pooling head as
    torch.nn.MultiheadAttention with a probe, sequence first (opset 14)."""
    d, width, heads, tokens, batch = Draft(size), size.width, size.heads, size.patches, size.batch
    depth = width // heads

    def norm(x, scope):
        centred = d.op("Sub", [x, d.op("ReduceMean", [x], scope, axes=[-1])], scope)
        square = d.op("Pow", [centred, d.constant(2.0)], scope)
        variance = d.op("Add", [d.op("ReduceMean", [square], scope, axes=[-1]), d.constant(1e-6)], scope)
        y = d.op("Div", [centred, d.op("Sqrt", [variance], scope)], scope)
        y = d.op("Mul", [y, d.weight(scope + ".weight", width, scale=0.1, mean=1.0)], scope)
        return d.op("Add", [y, d.weight(scope + ".bias", width)], scope)

    def gelu(x, scope):
        cubic = d.op("Mul", [d.op("Pow", [x, d.constant(3.0)], scope), d.constant(0.044715)], scope)
        inner = d.op("Mul", [d.op("Add", [x, cubic], scope), d.constant(0.7978845834732056)], scope)
        gate = d.op("Add", [d.op("Tanh", [inner], scope), d.constant(1.0)], scope)
        return d.op("Mul", [d.op("Mul", [x, d.constant(0.5)], scope), gate], scope)

    def split(x, scope):
        y = d.reshape(x, [d.extent(x, 0, scope), -1, heads, depth], scope)
        return d.op("Transpose", [y], scope, perm=[0, 2, 1, 3])

    rows = d.integers([list(range(tokens))])
    positions = d.op("Gather", [d.weight("positions", tokens, width, scale=0.3), rows], "embed")
    x = d.op("Add", [d.patches("image"), positions], "embed")
    for layer in range(size.layers):
        scope = f"encoder/layers.{layer}"
        attention = scope + "/self_attn"
        y = norm(x, scope + "/layer_norm1")
        q, k, v = (split(d.linear(y, f"{attention}/{role}_proj", width, width), attention) for role in "qkv")
        scores = d.op("MatMul", [q, d.op("Transpose", [k], attention, perm=[0, 1, 3, 2])], attention)
        scores = d.op("Cast", [d.op("Mul", [scores, d.constant(depth ** -0.5)], attention)], attention, to=1)
        y = d.op("Cast", [d.op("Softmax", [scores], attention, axis=-1)], attention, to=1)
        y = d.op("Transpose", [d.op("MatMul", [y, v], attention)], attention, perm=[0, 2, 1, 3])
        y = d.reshape(y, [d.extent(y, 0, attention), tokens, width], attention)
        x = d.op("Add", [x, d.linear(y, attention + "/out_proj", width, width)], scope)
        y = d.linear(norm(x, scope + "/layer_norm2"), scope + "/mlp/fc1", width, size.hidden)
        x = d.op("Add", [x, d.linear(gelu(y, scope + "/mlp"), scope + "/mlp/fc2", size.hidden, width)], scope)
    x = norm(x, "post_layernorm")

    scope = "head/attention"
    repeats = d.op("Concat", [d.extent(x, 0, scope), d.integers([1]), d.integers([1])], scope, axis=0)
    probe = d.op("Tile", [d.weight("probe", 1, 1, width, scale=1.0), repeats], scope)
    first = [d.op("Transpose", [t], scope, perm=[1, 0, 2]) for t in (probe, x)]
    q = d.linear(first[0], scope + "/q", width, width)
    both = d.linear(first[1], scope + "/kv", width, 2 * width)
    both = d.op("Unsqueeze", [d.reshape(both, [tokens, batch, 2, width], scope), d.integers([0])], scope)
    both = d.op("Squeeze", [d.op("Transpose", [both], scope, perm=[3, 1, 2, 0, 4]), d.integers([3])], scope)
    k, v = (d.op("Gather", [both, d.integers(i)], scope, axis=0) for i in range(2))
    q, k, v = (d.op("Transpose", [d.reshape(t, [rows, batch * heads, depth], scope)], scope, perm=[1, 0, 2])
               for t, rows in ((q, 1), (k, tokens), (v, tokens)))
    q = d.op("Mul", [q, d.constant(depth ** -0.5)], scope)
    scores = d.op("MatMul", [q, d.op("Transpose", [k], scope, perm=[0, 2, 1])], scope)
    y = d.op("MatMul", [d.op("Softmax", [scores], scope, axis=-1), v], scope)
    y = d.reshape(d.op("Transpose", [y], scope, perm=[1, 0, 2]), [batch, width], scope)
    y = d.op("Gemm", [y, d.weight(scope + "/out.weight", width, width), d.weight(scope + "/out.bias", width)], scope,
             transB=1)
    y = d.op("Transpose", [d.reshape(y, [1, batch, width], scope)], scope, perm=[1, 0, 2])
    z = d.linear(norm(y, "head/layernorm"), "head/mlp/fc1", width, size.hidden)
    y = d.op("Add", [y, d.linear(gelu(z, "head/mlp"), "head/mlp/fc2", size.hidden, width)], "head")
    d.save(path, 14, "pooler_output", d.op("Gather", [y, d.integers(0)], "head", axis=1), [batch, width])
