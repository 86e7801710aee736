"""Cases on types of nodes and relations: the text of a model with a schema. Adds HeteroConv, HANConv and HGTConv to the table of
classes, and the whole model HeteroClassifier.
"""
import ast
import keyword

import constructors
from case import Unsayable
from words import Layer, Word, common, make, pyg, spell

RESERVED = {"by", "in", "on", "as", "into", "over", "then", "where"}  # words of the language that relations may have
ENDS = "source(r) != target(r)"


def relations(case):
    """(source, name in the text, target, PyG's key) of each."""
    out = []
    for key in case["graph"]["edges"]:
        source, name, target = key.split("__")
        out.append((source, name + "_" if name in RESERVED or keyword.iskeyword(name) else name, target, key))
    return out


def schema(case):
    edges = ", ".join("%s: %s -> %s" % (name, source, target) for source, name, target, _ in relations(case))
    return "schema s {\n  node %s\n  edge %s\n}\n" % (", ".join(case["graph"]["nodes"]), edges)


def layer_of(node):
    made = constructors.parse(ast.unparse(node))
    return make(made, {"x", "to", "size"}).text


def record(text):
    """`{k: A for k in g.edge_index_dict}` and `{k: A if k[0] != k[2] else B ...}` as a record of layers."""
    comp = ast.parse(text, mode="eval").body
    if not isinstance(comp, ast.DictComp):
        raise Unsayable("convs = %s" % text)
    value = comp.value
    if not isinstance(value, ast.IfExp):
        return "forall r into all { %s }" % layer_of(value)
    if ast.unparse(value.test) != "k[0] != k[2]":
        raise Unsayable("convs by %s" % ast.unparse(value.test))
    return "forall r into all { if %s then %s else %s }" % (ENDS, layer_of(value.body), layer_of(value.orelse))


AGGR = {"sum": "sum", "mean": "mean", "max": "max", "min": "min", "cat": "cat", None: None}


@pyg
def HeteroConv(given, convs, aggr="sum"):
    if aggr not in AGGR:
        raise Unsayable("aggr = %s" % aggr)
    return Layer("hetero", "x", convs=Word(record(convs)), aggr=Word(spell(AGGR[aggr])))


@pyg
def HGTConv(given, in_channels, out_channels, metadata, heads=1, **rest):
    common(**rest)
    return Layer("hgt", "x", O=out_channels, H=heads)


@pyg
def HANConv(given, in_channels, out_channels, metadata, heads=1, negative_slope=0.2, dropout=0.0, weights=False, **rest):
    common(**rest)
    return Layer("han", "x", O=out_channels, H=heads, negative_slope=negative_slope, drop=dropout, weights=weights)


def inputs(spec, case):
    """The by-type arguments, and what --set says of their widths."""
    for of, about in case["inputs"].items():
        kind, _, key = of.partition(".")
        if kind == "x_dict":
            spec.inputs[key + ".x"] = of
            spec.dims["F." + key] = about["shape"][1]
    for _, name, _, key in relations(case):
        spec.lists[name], spec.joined[name] = None, ["edge_index_dict." + key]
        short = key.split("__")
        spec.renamed[key], spec.renamed["___".join(short)] = "__".join([short[0], name, short[2]]), "___".join([short[0], name, short[2]])
    spec.counts = dict(case["graph"]["nodes"])


def results(case):
    """The records that a layer gives, each with the types of its outputs: `2 (1.author)` is the author's in the second."""
    parts = []
    for place in case["outputs"]:
        inside = place.split("(")[1].rstrip(")")
        number, _, key = inside.rpartition(".")
        parts.append((int(number or 0), key))
    return parts


def single_layer(spec, cls, case):
    args, parts = dict(case["args"]), results(case)
    several = max(n for n, _ in parts) > 0
    if several:
        args["weights"] = True
    layer = make(constructors.Made(cls, [], args), {"x"})
    names = ["h%d" % n for n in range(1 + several)]
    spec.prefix, spec.outputs = "conv.", list(range(len(parts)))
    spec.text = "%smodel m(x: node(all)[F]) {\n  conv = %s\n  %s = conv(x)\n  return %s\n}\n" % (
        schema(case), layer.text, ", ".join(names), ", ".join("h%d[%s]" % p for p in parts))


def hetero_classifier(spec, case):
    args = case["args"]
    convs = []
    for name in ("conv1", "conv2"):
        call = ast.parse(args[name], mode="eval").body
        options = {k.arg: ast.literal_eval(k.value) for k in call.keywords}
        convs.append("%s = %s" % (name, HeteroConv(None, ast.unparse(call.args[0]), **options).text))
    spec.inputs["y"] = "paper_y"
    spec.dims["C"] = case["outputs"]["1 (1)"][-1]
    spec.outputs = [0, 1]
    spec.text = schema(case) + """model m(x: node(all)[F], y: node(paper) index[C]) {
  %s
  h = conv1(x)
  h = forall t { if has(h, t) then relu(h[t]) else x[t] }
  lin = linear()
  z = lin(relu(conv2(h)[paper]), O = C)
  return mean_all(cross_entropy(z, y)), z
}
""" % "\n  ".join(convs)


def fill(spec, cls, case):
    spec.typed = True
    spec.n_src = spec.n_dst = 0
    spec.edges, spec.against, spec.per_graph, spec.n_graphs = [], False, False, 1
    inputs(spec, case)
    hetero_classifier(spec, case) if cls == "HeteroClassifier" else single_layer(spec, cls, case)
