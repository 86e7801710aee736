"""From a case's entry in cases.json to a Spec: the model's text, its dims, and how its inputs and outputs are the case's."""
import re

import numpy as np

import constructors
import layers  # noqa: F401 (fills the table)
import reducers
import typed
import words
from case import Unsayable, Wrong

# The forward functions' inputs: PyG's name -> ours, domain (node: sources; dst: targets), the symbols of its last dims:
# as many as it has beside its rows.
INPUTS = {
    "x": ("x", "node", "LF"), "x.0": ("x", "node", "LF"), "x.1": ("to", "dst", "G"), "x_0": ("x0", "node", "F"),
    "pos": ("pos", "node", "P"), "pos.0": ("pos", "node", "P"), "pos.1": ("to_pos", "dst", "P"),
    "msg": ("m", "node", "G"), "normal": ("normal", "node", "P"), "normal.0": ("normal", "node", "P"), "normal.1": ("to_normal", "dst", "P"),
    "edge_weight": ("w", "edge", ""), "edge_attr": ("e", "edge", "HK"), "lambda_max": ("lambda_max", "graph", ""),
    "edge_type": ("rel", "edge", ""), "node_type": ("kind", "node", ""),
    "type_vec": ("kind", "node", ""), "hyperedge_weight": ("w", "dst", ""), "hyperedge_attr": ("e", "dst", "K"),
}
# Inputs that say which edges there are. Positive and negative edges are one graph, and a bool on each edge. An index is
# a graph too: row i goes to target index[i].
# Integers below a constructor's argument, the first that there is.
KINDS = {"type_vec": ("T", ["num_types"]), "node_type": ("T", ["num_node_types"]),
         "edge_type": ("R", ["num_relations", "num_edge_types", "relations"])}
# Plain matrices where there is an input `adj`.
DENSE = {"x": ("x", "", "BNF"), "adj": ("adj", "", ["B", "N", "N'"]), "s": ("s", "", "BNC"), "mask": ("mask", "", "BN")}
EDGES = [["edge_index"], ["hyperedge_index"], ["pos_edge_index", "neg_edge_index"], ["index"]]
COLOURS = 128  # integers on nodes without features are below this, or below the number of nodes
OTHER = ("batch", "knn_edge_index")  # neighbour lists that were found are recorded, not given
# Numbers that say how large the graph is and what is returned; every other one is an argument of the layer.
SHAPES = ("size", "dim_size", "num_edges", "return_attention_weights", "return_semantic_attention_weights")


LOOPED, PLAIN = "looped", "plain"


class Spec:
    """What case.run needs: text, dims, mode; prefix of parameter names; inputs (our name -> PyG's); numbers (our name -> value, in
    the text); outputs (a result's number, or
    LOOPED or PLAIN: the ids of the edges with or without new self-loops); kept (the results that are values of edges whose loops were
    kept); used (the result that says which rows of the others are, or None); typed (there is a schema), counts (nodes of each type),
    renamed (parts of PyG's parameter names -> ours); the graph's sizes, edges (names of inputs), whether row 1 of them is the source, whether nodes belong to graphs."""


def known(case):
    """The inputs that have a name of ours. With an adjacency matrix all are plain matrices; beside kinds of edges an integer for
    each node is the row of a matrix; where a parameter is called rel, the kinds have their own name."""
    if "edge_type" in case["inputs"] and is_int(case, "x"):
        return {**INPUTS, "x": ("row", "node", "")}
    if "rel" in case["params"]:
        return {**INPUTS, "edge_type": ("edge_type", "edge", "")}
    return DENSE if "adj" in case["inputs"] else INPUTS


def numbers_of(case):
    """PyG's name -> value: the plain numbers that are arguments of the layer."""
    return {of: v for of, v in (case.get("scalars") or {}).items() if of not in SHAPES}


def all_passed(spec, case):
    """Raises Wrong where an input or a number of the case is no part of the model."""
    passed = {*spec.inputs.values(), *spec.edges, *spec.lists, *sum(spec.joined.values(), []), *OTHER}
    numbers = [of for of in numbers_of(case) if INPUTS.get(of, (of,))[0] not in spec.numbers]
    left = [of for of in case["inputs"] if of not in passed] + numbers
    if left:
        raise Wrong("%s of the case is not passed to the layer" % ", ".join(left))


def is_int(case, of):
    return case["inputs"].get(of, {}).get("dtype") == "int64"


def kinds_of(case, of):
    """How many values an input of KINDS has; a whole model's layer says it."""
    layers = [v for v in arguments(case).values() if isinstance(v, constructors.Made) and v.name in words.CLASSES]
    args = [case["args"]] + [words.named(v) for v in layers]
    return next(a[name] for a in args for name in KINDS[of][1] if name in a)


def declared(spec, case, names):
    """The model's parameter list for the inputs `names`, and the dims that --set gives."""
    parts = []
    for of in case["inputs"]:
        name, domain, dims = known(case).get(of, (None, "", ""))
        if name not in names:
            continue
        sizes = case["inputs"][of]["shape"][1 if domain else 0:]
        dims = dims[len(dims) - len(sizes):]
        logic = " bool" if case["inputs"][of].get("dtype") == "bool" else " int" if is_int(case, of) else ""
        kind = " index[%s]" % KINDS[of][0] if of in KINDS else "[%s]%s" % (", ".join(dims), logic) if dims else ""
        if of == "x" and logic == " int" and not dims:
            kind = " index[%d]" % (case["args"]["in_channels"] if name == "row" else max(COLOURS, spec.n_src))
        parts.append("%s: %s%s" % (name, "src" if domain == "node" and spec.bipartite else domain, kind))
        spec.dims.update((d, n) for d, n in zip(dims, sizes) if not d.endswith("'"))
        spec.dims.update({KINDS[of][0]: kinds_of(case, of)} if of in KINDS else {})
        spec.inputs[name] = of
    if "positive" in names:
        parts.append("positive: edge bool")
        spec.inputs["positive"] = None
    return ", ".join(parts)


def graph_of(spec, case):
    g, scalars = case["graph"], case.get("scalars") or {}
    spec.edges = next((names for names in EDGES if names[0] in case["inputs"]), [])
    hyper = spec.edges == ["hyperedge_index"]
    spec.bipartite = "x.0" in case["inputs"] or "pos.0" in case["inputs"] or ("size" in scalars and spec.edges) or hyper
    spec.per_graph = "batch" in case["inputs"]
    spec.n_src, spec.n_dst = g["n_src"], g["n_dst"]
    spec.n_graphs = scalars.get("size", 1) if spec.per_graph and not spec.edges else 1
    if hyper:
        spec.n_dst = scalars.get("num_edges", spec.n_dst)
    if spec.edges == ["index"]:
        spec.bipartite, spec.n_src, spec.n_dst = True, case["inputs"]["x"]["shape"][0], scalars["dim_size"]
    spec.against = case["args"].get("flow") == "target_to_source"
    if spec.against and spec.n_src != spec.n_dst:  # PyG reads the sources' rows by the targets' numbers
        raise Unsayable("flow against edges between two sets of nodes")


SINGLE_LAYER = """model m(%s) {
  conv = %s
  return conv(%s)
}
"""
REDUCTION = """model m(%s) {
  conv = %s
  return conv_in(x.src)
}
"""
POOLING = """model m(%s) {
  conv = %s
  s, y, score = conv(%s)
  slot = over s { id(node) + 1 }
  slot = slot[g] - 1
  both = min(slot.src, slot.dst) >= 0
  number = id(graph).graph
  return y, where(both, slot.src, -1), where(both, slot.dst, -1), number[s], id(node)[s], score, ones(node)[s]
}
"""
FORMULA = """model m(%s) %s
"""


def single_layer(spec, cls, case):
    given = words.Given(known(case)[i][0] for i in case["inputs"] if i in known(case))
    given.longest, given.n_src = case["graph"].get("max_in_degree", 0), spec.n_src
    given |= {"one_hot"} if is_int(case, "x") and len(case["inputs"]["x"]["shape"]) == 2 else set()
    given |= {"batch"} if "batch" in case["inputs"] else set()
    given |= {"size"} if spec.bipartite else set()
    if "neg_edge_index" in case["inputs"] and len(spec.edges) == 1:
        given |= {"neg_edge_index"}
        spec.lists["neg_edge_index"] = case["inputs"]["neg_edge_index"]["shape"][1]
    scalars = case.get("scalars") or {}
    given |= {INPUTS[of][0] for of in numbers_of(case) if of in INPUTS}
    given |= {"positive"} if len(spec.edges) == 2 else set()
    given |= {"weights"} if "return_attention_weights" in scalars and len(case["outputs"]) > 1 else set()
    for name in case["inputs"]:
        if name not in known(case) and name not in spec.edges + list(OTHER) + list(spec.lists):
            raise Unsayable("input %s" % name)
    args = {k: constructors.parse(v) for k, v in case["args"].items()}
    layer = words.make(constructors.Made(cls, [], args), given)
    spec.against &= not isinstance(layer, words.OneWay)
    signature = declared(spec, case, layer.takes)
    call = ["%s = %s" % (n, n) for n in spec.inputs]
    if not isinstance(layer, (reducers.Formula, words.Reducer)):  # whose texts do not call by name
        names = {of: INPUTS.get(of, (of,))[0] for of in numbers_of(case)}
        spec.numbers = {name: numbers_of(case)[of] for of, name in names.items() if name in layer.takes}
        call += ["%s = %s" % (name, words.spell(v)) for name, v in spec.numbers.items()]
    call = ", ".join(call)
    spec.prefix = "conv."
    body = layer.text if layer.text.startswith("{") else "= " + layer.text
    if isinstance(layer, reducers.Pooling):  # features, edges by their ends, graph of each node, which nodes, scores
        spec.text = POOLING % (signature, layer.text, call)
        spec.outputs, spec.used = [0, (1, 2), 3, 4, 5], 6
        return
    spec.text = (FORMULA % (signature, body) if isinstance(layer, reducers.Formula) else
                 REDUCTION % (signature, layer.text) if isinstance(layer, words.Reducer) else
                 SINGLE_LAYER % (signature, layer.text, call))
    spec.text += layer.network or ""
    spec.outputs = layer.outputs or list(range(len(case["outputs"])))
    if "weights" in given:  # they come with the edges they belong to
        spec.outputs = [0, LOOPED if layer.loops else PLAIN, 1]
        spec.kept = {1} if layer.loops == "keep" else set()


# ---- whole models: a loss and the scores it is of ----

TASK_INPUTS = {"y": ("y", "node index[C]"), "train_mask": ("train", "node bool"), "graph_y": ("y", "graph index[C]"),
               "graph_target": ("target", "graph"), "y_multi": ("y", "node[C]")}
NODE_LOSS = "sum_all(where(train, cross_entropy(z, y), 0)) / sum_all(float(train))"
GRAPH_MEAN = "sum_all(%s) / sum_all(ones(graph))"


def whole_model(spec, case, statements, loss):
    """`statements` make z of x; e is the edges' features."""
    signature = declared(spec, case, {"x", "e", "rel", "edge_type"})
    for of in case["inputs"]:
        if of in TASK_INPUTS:
            name, kind = TASK_INPUTS[of]
            signature += ", %s: %s" % (name, kind)
            spec.inputs[name] = of
        elif of not in [*INPUTS, *spec.inputs.values(), *spec.edges, *OTHER, *sum(spec.joined.values(), [])]:
            raise Unsayable("input %s" % of)
    if "[C]" in signature:
        spec.dims["C"] = case["outputs"]["1 (1)"][-1]
    spec.text = "model m(%s) {\n  %s\n  return %s, z\n}\n" % (signature, "\n  ".join(statements), loss)
    spec.outputs = [0, 1]


def arguments(case):
    """A number of the graph's stands for its name, `g.n_src`."""
    def number(text):
        return re.sub(r"\bg\.(\w+)", lambda m: str(case["graph"][m.group(1)]), text) if isinstance(text, str) else text

    return {k: constructors.parse(number(v)) for k, v in case["args"].items()}


def node_classifier(spec, case):
    args = arguments(case)
    conv1, conv2 = words.make(args["conv1"], {"x"}), words.make(args["conv2"], {"x"})
    statements = ["conv1 = " + conv1.text, "conv2 = " + conv2.text, "z = conv2(%s(conv1(x)))" % words.activation(args["act"])]
    whole_model(spec, case, statements, NODE_LOSS)


def linear_of(args):
    return "lin = " + words.network(args["lin"])[0].text


def many(args):
    return "convs = [%s]" % ", ".join(words.make(c, {"x"}).text for c in args["convs"])


def graph_classifier(spec, case):
    args = arguments(case)
    pool = {"add": "sum", "mean": "mean", "max": "max"}[args.get("pool", "add")]
    statements = [many(args), linear_of(args), "for k in 0..size(convs) { x = relu(convs[k](x)) }", "z = lin(readout_%s(x))" % pool]
    whole_model(spec, case, statements, GRAPH_MEAN % "cross_entropy(z, y)")


def graph_regressor(spec, case):
    args = arguments(case)
    statements = ["conv = " + words.make(args["conv"], {"x", "e"}).text, linear_of(args), "z = lin(readout_mean(relu(conv(x, e = e))))"]
    whole_model(spec, case, statements, GRAPH_MEAN % "square(reshape(z, []) - target)")


def multi_label(spec, case):
    args = arguments(case)
    statements = ["conv = " + words.make(args["conv"], {"x"}).text, linear_of(args), "z = lin(relu(conv(x)))"]
    loss = "mean_all(sum(bce_with_logits(z, y, pos_weight = %s))) / %d" % (words.spell(args["pos_weight"]),
                                                                          case["outputs"]["1 (1)"][-1])
    whole_model(spec, case, statements, loss)


def jump_net(spec, case):
    args = arguments(case)
    mode, channels, n_layers = args["jump"].args
    jump = "jumping_lstm(hidden = %d)" % (channels * n_layers // 2) if mode == "lstm" else 'jumping_knowledge(mode = "%s")' % mode
    statements = [many(args), "jump = " + jump, linear_of(args), "xs = []",
                  "for k in 0..size(convs) { x = relu(convs[k](x)); xs = xs + [x] }", "z = lin(jump(xs))"]
    whole_model(spec, case, statements, NODE_LOSS)


def link_predictor(spec, case):
    """Positive and negative pairs are one list with a label each."""
    args = arguments(case)
    pairs = ["pos_pairs", "neg_pairs"]
    counts = [case["inputs"][of]["shape"][1] for of in pairs]
    spec.lists["pairs_index"], spec.joined["pairs_index"] = sum(counts), pairs
    spec.flags["pairs_label"] = np.repeat([1.0, 0.0], counts)
    conv1, conv2 = words.make(args["conv1"], {"x"}), words.make(args["conv2"], {"x"})
    statements = ["conv1 = " + conv1.text, "conv2 = " + conv2.text, "h = conv2(relu(conv1(x)))",
                  "loss, z = over data.pairs_index {", "  score = sum(h.src * h.dst)",
                  "  (mean_all(bce_with_logits(score, data.pairs_label)), score)", "}"]
    whole_model(spec, case, statements, "loss")


def entity_classifier(spec, case):
    """Nodes are rows of the first layer's matrices."""
    args = arguments(case)
    conv1, conv2 = words.make(args["conv1"], {"rel"}), words.make(args["conv2"], {"x", "rel"})
    statements = ["conv1 = " + conv1.text, "conv2 = " + conv2.text, "z = conv2(relu(conv1(rel = rel)), rel)"]
    whole_model(spec, case, statements, NODE_LOSS)


def dist_mult(spec, case):
    """<h_u, r, h_v> of positive pairs, then of as many negative ones."""
    args = arguments(case)
    pairs = ["pos_pairs", "neg_pairs"]
    counts = [case["inputs"][of]["shape"][1] for of in pairs]
    spec.lists["pairs_index"], spec.joined["pairs_index"] = sum(counts), pairs
    spec.flags["pairs_label"] = np.repeat([1.0, 0.0], counts)
    spec.flags["pairs_type"] = np.zeros(sum(counts), np.int64)  # in the build; a run has the case's
    spec.inputs["pairs_type"] = "pair_type"
    statements = ["conv = " + words.make(args["conv"], {"x", "rel"}).text, "param relations: [R, O] = glorot as \"rel\"", "h: node[O] = conv(x, edge_type)",
                  "loss, z = over data.pairs_index {", "  kind: edge index[R] = data.pairs_type", "  score = sum(h.src * relations[kind] * h.dst)",
                  "  (mean_all(bce_with_logits(score, data.pairs_label)), score)", "}"]
    whole_model(spec, case, statements, "loss")


MODELS = {"LinkPredictor": link_predictor, "NodeClassifier": node_classifier, "GraphClassifier": graph_classifier, "GraphRegressor": graph_regressor,
          "MultiLabel": multi_label, "JumpNet": jump_net, "EntityClassifier": entity_classifier, "DistMult": dist_mult}


def told(spec, case):
    """A case that has our model's text and inputs by our names (record.py)."""
    g = case["graph"]
    lists = list(g.get("edges", ["edge_index"]))
    spec.text, spec.prefix, spec.typed = case["text"], "conv.", "nodes" in g
    spec.inputs = {name: name for name in case["inputs"] if name not in lists + ["index"]}
    spec.outputs, spec.counts, spec.per_graph, spec.against, spec.n_graphs = list(range(len(case["outputs"]))), g.get("nodes", {}), False, False, 1
    spec.n_src, spec.n_dst, spec.renamed = g.get("n_src", 0), g.get("n_dst", 0), case.get("renamed", {})
    if spec.typed:
        spec.lists, spec.edges, spec.joined = dict.fromkeys(lists), [], {name: [name] for name in lists}
        spec.dims = g.get("widths", {})
    else:
        spec.edges = [name for name in ("edge_index", "index") if name in case["inputs"]]
        spec.lists = dict.fromkeys(lists[1:], 1)


def spec_of(cls, case):
    """Raises Unsayable where the language or the library has no words for the case."""
    spec = Spec()
    spec.dims, spec.inputs, spec.numbers, spec.prefix = {}, {}, {}, ""
    spec.lists, spec.joined, spec.flags, spec.kept = {}, {}, {}, set()
    spec.used = None
    spec.mode = case["mode"]
    spec.typed, spec.counts, spec.renamed = False, {}, {}
    if "text" in case:
        told(spec, case)
        return spec
    if "nodes" in case["graph"]:
        typed.fill(spec, cls, case)
        all_passed(spec, case)
        return spec
    graph_of(spec, case)
    if cls in MODELS:
        MODELS[cls](spec, case)
    else:
        single_layer(spec, cls, case)
    all_passed(spec, case)
    return spec
