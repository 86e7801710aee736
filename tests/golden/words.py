"""What the table of PyG's classes (layers.py, reducers.py) is written in: instances of library layers as text, and the options
that many classes share. Knows no class of its own.
"""
import inspect

from case import Unsayable
from constructors import Made

CLASSES = {}


def pyg(function):
    CLASSES[function.__name__] = function
    return function


class Layer:
    """An instance of a library layer as text, and which of the model's inputs its call takes."""

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


# ---- options that many classes share ----

class Given(set):
    """The inputs' names; `longest`: the most edges that any target has, for what pads lists."""


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


def one_way(flow="source_to_target", **rest):
    """Classes that count degrees the same way whichever way messages go."""
    if flow != "source_to_target":
        raise Unsayable("degrees that do not follow flow = %s" % flow)
    return rest


def messages(given, aggr=None, aggr_kwargs=None, **rest):
    """The options of a layer whose messages any reducer may take."""
    common(**rest)
    return {} if aggr is None else {"aggr": reducer(given, aggr, aggr_kwargs)}


ACTIVATIONS = {"relu": "relu", "tanh": "tanh", "elu": "elu", "sigmoid": "sigmoid", "gelu": "gelu", "silu": "silu",
               "leaky_relu": "leaky_relu", "softplus": "softplus", "identity": "identity"}


def activation(act):
    if act is None:
        return None
    word = act.name if isinstance(act, Made) else act.split(".")[-1]
    word = {"ReLU": "relu", "Tanh": "tanh", "ELU": "elu", "Sigmoid": "sigmoid", "GELU": "gelu", "SiLU": "silu",
            "LeakyReLU": "leaky_relu", "Softplus": "softplus", "Identity": "identity"}.get(word, word)
    if word not in ACTIVATIONS or (isinstance(act, Made) and (act.args or act.named)):
        raise Unsayable("activation %s" % word)
    return Word(ACTIVATIONS[word])


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
