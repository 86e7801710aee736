"""What the table of PyG's classes (layers.py, reducers.py) is written in: instances of library layers as text, and the options
that many classes share. Knows no class of its own.
"""
import inspect
import re

from case import Unsayable
from constructors import Made

CLASSES = {}


def pyg(function):
    CLASSES[function.__name__] = function
    return function


class Layer:
    """An instance of a library layer as text, and which of the model's inputs its call takes. loops: what it does to the loops of
    edges whose values are a result ("replace" or "keep"), or None. outputs: see Spec; None: each of them a result. network: the
    text of a layer that its options name, or None."""

    loops = outputs = network = None

    def __init__(self, layer, takes, **options):
        self.takes = takes.split()
        self.text = "%s(%s)" % (layer, ", ".join("%s = %s" % (k, spell(v)) for k, v in options.items()))


class Network:
    """Layers one after another, as library text."""

    def __init__(self, text):
        self.text = text


class Word(str):
    pass


def spell(v):
    if v is None:
        return "none"
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, (Layer, Network)):
        return v.text
    if isinstance(v, list):
        return "[%s]" % ", ".join(spell(x) for x in v)
    return repr(v) if isinstance(v, (int, float)) else str(v)


def make(module, given):
    """The Layer of a Made or of (class name, arguments)."""
    if module.name not in CLASSES:
        raise Unsayable("class %s" % module.name)
    try:
        bound = inspect.signature(CLASSES[module.name]).bind(given, *module.args, **module.named)
    except TypeError as e:
        raise Unsayable("%s: %s" % (module.name, e))
    return CLASSES[module.name](*bound.args, **bound.kwargs)


def named(module):
    """All arguments of a Made by their names."""
    return inspect.signature(CLASSES[module.name]).bind(None, *module.args, **module.named).arguments


def options_of(name):
    """The constructor's arguments of a class by their names."""
    return inspect.signature(CLASSES[name]).parameters if name in CLASSES else {}


# ---- options that many classes share ----

class Given(set):
    """The inputs' names; `longest`: the most edges that any target has, for what pads lists; `n_src`: the number of nodes."""


REDUCERS = {"add": "sum", "sum": "sum", "mean": "mean", "max": "max", "min": "min", "mul": "mul", "var": "var", "std": "std"}


class Reducer(Layer):
    """From edges to nodes: a layer, or a reducer by its word."""

    @staticmethod
    def word(word):
        r = Reducer(word, "x")
        r.text = word
        return r


def class_of(aggr):
    """`power_mean` is PowerMeanAggregation."""
    short = aggr.lower().replace("_", "").replace("-", "").replace(" ", "")
    names = [n for n in CLASSES if n.endswith("Aggregation") and short in (n.lower(), n[:-len("Aggregation")].lower())]
    if not names:
        raise Unsayable("reducer %s" % aggr)
    return names[0]


def reducer(given, aggr, aggr_kwargs=None, **_):
    """A reducer's word, a layer, or a list of both, as PyG resolves `aggr` with `aggr_kwargs`."""
    more = aggr_kwargs or {}
    if isinstance(aggr, list):
        return several(given, aggr, **more)
    if aggr in REDUCERS and not more:
        return Word(REDUCERS[aggr])
    return make(aggr if isinstance(aggr, Made) else Made(class_of(aggr), [], more), given)


MODES = ("cat", "sum", "mean", "max", "min", "var", "std", "logsumexp", "proj", "attn")


def several(given, aggrs, aggrs_kwargs=None, mode="cat", mode_kwargs=None):
    """A list of words where that says all, else a multi_aggr."""
    each = [reducer(given, a, k) for a, k in zip(aggrs, aggrs_kwargs or [{}] * len(aggrs))]
    if mode == "cat" and all(isinstance(a, Word) for a in each):
        return each
    more = dict(mode_kwargs or {})
    more.pop("in_channels", None)
    options = {of: more.pop(name) for name, of in (("out_channels", "O"), ("num_heads", "heads")) if name in more}
    if mode not in MODES or more:
        raise Unsayable("mode %s of several reducers%s" % (mode, "".join(", " + m for m in more)))
    return Reducer("multi_aggr", "x", aggrs=each, mode=Word(mode), **options)


def common(flow="source_to_target", node_dim=-2, decomposed_layers=1, aggr="add", aggr_kwargs=None):
    """What every message passing class accepts; `flow` is a matter of which end of an edge comes first (model.py)."""
    if decomposed_layers != 1:
        raise Unsayable("decomposed_layers")
    if aggr not in ("add", "sum"):
        raise Unsayable("this class with aggr = %s" % aggr)


class OneWay(Layer):
    """A layer with an option `flow`: what it counts at one end of the edges it counts there whichever way messages go."""

    def __init__(self, layer, takes, flow="source_to_target", **options):
        super().__init__(layer, takes, flow=Word(flow), **options)


def messages(given, aggr=None, aggr_kwargs=None, fixed=False, **rest):
    """The options of a layer whose messages any reducer may take; fixed: their sum must have their width."""
    common(**rest)
    if fixed and isinstance(aggr, list) and (aggr_kwargs or {}).get("mode", "cat") == "cat":
        raise Unsayable("several reducers side by side where PyG takes rows of one's width apart")
    return {} if aggr is None else {"aggr": reducer(given, aggr, aggr_kwargs)}


# By torch's class, or the name of a function, in small letters: our word, and its options by torch's, in their order.
ACTIVATIONS = {"relu": ("relu",), "tanh": ("tanh",), "elu": ("elu", "alpha"), "sigmoid": ("sigmoid",), "gelu": ("gelu", "approximate"),
               "silu": ("silu",), "swish": ("silu",), "leakyrelu": ("leaky_relu", "negative_slope"), "softplus": ("softplus", "beta"),
               "identity": ("identity",), "selu": ("selu",), "celu": ("celu", "alpha"), "mish": ("mish",), "softsign": ("softsign",),
               "hardsigmoid": ("hard_sigmoid",), "hardswish": ("hard_swish",), "hardshrink": ("hard_shrink", "lambd"),
               "softshrink": ("soft_shrink", "lambd"), "tanhshrink": ("tanh_shrink",), "logsigmoid": ("log_sigmoid",),
               "hardtanh": ("clamp", "min_val", "max_val"), "relu6": ("clamp",), "prelu": ("prelu", "num_parameters", "init")}
OURS = {"negative_slope": "slope", "lambd": "cut", "min_val": "lo", "max_val": "hi", "num_parameters": "channels"}


def activation(act, act_kwargs=None):
    """A function, with its options where they are given, or a layer."""
    if act is None:
        return None
    name = act.name if isinstance(act, Made) else act.split(".")[-1]
    short = re.sub("[-_ ]", "", name.lower())
    if short not in ACTIVATIONS:
        raise Unsayable("activation %s" % name)
    word, *names = ACTIVATIONS[short]
    given = {**dict(zip(names, act.args)), **act.named} if isinstance(act, Made) else dict(act_kwargs or {})
    given.pop("inplace", None)
    if short in ("hardtanh", "relu6"):
        given = {**({"min_val": -1, "max_val": 1} if names else {"min_val": 0, "max_val": 6}), **given}
    strange = [n for n in given if n not in names and n not in ("min_val", "max_val")]
    if strange:
        raise Unsayable("activation %s with %s" % (name, ", ".join(strange)))
    options = {OURS.get(n, n): Word('"%s"' % v) if isinstance(v, str) else v for n, v in given.items()}
    if not options and word != "prelu":
        return Word(word)
    return Word("%s(%s)" % (word, ", ".join("%s = %s" % (k, spell(v)) for k, v in options.items())))


# ---- networks of dense layers ----

def dense(in_features, out_features, bias=True):
    return in_features, out_features, bias


def batch_norm(num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True):
    return Layer("batch_norm", "", eps=eps, momentum=momentum, affine=affine, track_running_stats=track_running_stats)


def part_of_network(module, width):
    """A Sequential's part as library text; width: of a Linear."""
    if module.name == "Linear":
        _, _, bias = dense(*module.args, **module.named)
        return Layer("linear", "", **dict({"O": width}, **({} if bias else {"bias": False})))
    if module.name == "BatchNorm1d":
        return batch_norm(*module.args, **module.named)
    return Word("identity") if module.name == "Dropout" else activation(module)


def network(module):
    """(Network, output width) of a Linear or a Sequential: a list of layers and functions, to be called one after another."""
    parts = module.args if isinstance(module, Made) and module.name == "Sequential" else [module]
    linear = [i for i, m in enumerate(parts) if isinstance(m, Made) and m.name == "Linear"]
    if not linear or not all(isinstance(m, Made) for m in parts):
        raise Unsayable("nn = %s" % getattr(module, "name", module))
    widths = {i: dense(*parts[i].args, **parts[i].named)[1] for i in linear}
    texts = [spell(part_of_network(m, widths.get(i))) for i, m in enumerate(parts)]
    text = texts[0] if len(parts) == 1 and module.name == "Linear" else "[%s]" % ", ".join(texts)
    return Network(text), widths[linear[-1]]


def own_network(module):
    """The text of a layer with a Sequential's parameters under their names, for what makes several instances of it."""
    last = max(i for i, part in enumerate(module.args) if part.name == "Linear")
    widths, text, dim = "", "", "F"
    for i, part in enumerate(module.args):
        if part.name != "Linear":
            text += "  x = %s(x)\n" % activation(part)
            continue
        _, width, bias = dense(*part.args, **part.named)
        to = "O" if i == last else "M%d" % i
        widths += "" if i == last else ", M%d = %d" % (i, width)
        text += '  param W%d: [%s, %s] = kaiming as "%d.weight" [%s, %s]\n  x = x @ W%d\n' % (i, dim, to, i, to, dim, i)
        text += '  param b%d: [%s] = kaiming(%s) as "%d.bias"\n  x = x + b%d\n' % (i, to, dim, i, i) if bias else ""
        dim = to
    return "layer own_network(x: @d[F]%s) -> @d[O] {\n%s  return x\n}\n" % (widths, text)
