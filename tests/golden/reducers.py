"""The table's second half: PyG's reducers, norms and pools. As layers.py, which see."""
import re

from case import Unsayable
from constructors import Made
from words import CLASSES, Layer, Reducer, Word, activation, batch_norm, make, network, pyg, reducer, several, spell

# ---- reducers: each row of x goes to the target that `index` names ----

class Formula(Layer):
    """An expression of the model's inputs."""

    def __init__(self, text, takes):
        self.text, self.takes = text, takes.split()


for _name in ("Sum", "Mean", "Max", "Min", "Mul"):
    CLASSES[_name + "Aggregation"] = lambda given, word=_name.lower(): Reducer.word(word)


@pyg
def VarAggregation(given, semi_grad=False):
    return Reducer("var_aggr", "x", semi_grad=semi_grad)


@pyg
def StdAggregation(given, semi_grad=False):
    return Reducer("std_aggr", "x", semi_grad=semi_grad)


@pyg
def PowerMeanAggregation(given, p=1.0, learn=False, channels=1, clamp_min=1e-4, clamp_max=100.0):
    if clamp_min is None or clamp_max is None:
        raise Unsayable("powers without bounds")
    return Reducer("powermean_aggr", "x", p=p, learn=learn, channels=channels, clamp_min=clamp_min, clamp_max=clamp_max)


@pyg
def SoftmaxAggregation(given, t=1.0, learn=False, semi_grad=False, channels=1):
    return Reducer("softmax_aggr", "x", t=t, learn=learn, semi_grad=semi_grad, channels=channels)


@pyg
def VariancePreservingAggregation(given):
    return Reducer("variance_preserving_aggr", "x")


@pyg
def MultiAggregation(given, aggrs, aggrs_kwargs=None, mode="cat", mode_kwargs=None):
    made = several(given, aggrs, aggrs_kwargs, mode, mode_kwargs)
    return made if isinstance(made, Layer) else Reducer("multi_aggr", "x", aggrs=made)


SCALERS = ("identity", "amplification", "attenuation", "linear", "inverse_linear")


def scalers_of(names):
    names = [names] if isinstance(names, str) else names
    if not all(n in SCALERS for n in names):
        raise Unsayable("scalers %s" % names)
    return [Word(n) for n in names]


@pyg
def DegreeScalerAggregation(given, aggr, scaler, deg, train_norm=False, aggr_kwargs=None):
    return Reducer("degree_scaler", "x", deg=deg, aggr=reducer(given, aggr, aggr_kwargs), scalers=scalers_of(scaler), train_norm=train_norm)


@pyg
def AttentionalAggregation(given, gate_nn, nn=None):
    gate, gates = network(gate_nn)
    return Reducer("attentional_aggr", "x", gate_nn=gate, gates=gates, **({"nn": network(nn)[0]} if nn else {}))


@pyg
def DeepSetsAggregation(given, local_nn=None, global_nn=None):
    nets = {k: network(v)[0] if v else Word("identity") for k, v in (("local_nn", local_nn), ("global_nn", global_nn))}
    return Reducer("deep_sets_aggr", "x", **nets)


@pyg
def Set2Set(given, in_channels, processing_steps, num_layers=1, bias=True):
    return Reducer("set2set", "x", processing_steps=processing_steps, num_layers=num_layers, bias=bias)


@pyg
def MedianAggregation(given, fill_value=0.0):
    return Reducer("quantile_aggr", "x", interpolation=Word('"lower"'), fill_value=fill_value)


@pyg
def QuantileAggregation(given, q, interpolation="linear", fill_value=0.0):
    q = q if isinstance(q, list) else [q]
    if interpolation == "nearest" and any((p * n) % 1 == 0.5 for p in q for n in range(given.longest)):
        raise Unsayable("the nearer of two that are equally near, which depends on the other lists of the batch in PyG")
    return Reducer("quantile_aggr", "x", q=q, interpolation=Word('"%s"' % interpolation),
                   fill_value=fill_value)


@pyg
def SortAggregation(given, k):
    return Reducer("sort_aggr", "x", k=k)


def recurrent(layer, given, out_channels, bias=True, num_layers=1, bidirectional=False, dropout=0.0, **more):
    return Reducer(layer, "x", O=out_channels, most=given.longest, padded=True, bias=bias, num_layers=num_layers,
                   bidirectional=bidirectional, **more)


@pyg
def LSTMAggregation(given, in_channels, out_channels, proj_size=0, **options):
    return recurrent("lstm_aggr", given, out_channels, proj_size=proj_size or None, **options)


@pyg
def GRUAggregation(given, in_channels, out_channels, **options):
    return recurrent("gru_aggr", given, out_channels, **options)


@pyg
def LCMAggregation(given, in_channels, out_channels, project=True):
    return Reducer("lcm_aggr", "x", O=out_channels, most=given.longest, project=project)


@pyg
def MLPAggregation(given, in_channels, out_channels, max_num_elements, num_layers, hidden_channels=64, dropout=0.0, act="relu",
                   act_first=False, act_kwargs=None, norm="batch_norm", norm_kwargs=None, plain_last=True, bias=True):
    widths = [hidden_channels] * (num_layers - 1) + ([] if plain_last else [out_channels])
    own_rows = not norm or norm.lower().startswith("batch") or (norm_kwargs or {}).get("mode") == "node"
    if widths and not own_rows:  # PyG groups the targets by the targets of the elements
        raise Unsayable("a norm over several lists")
    norms = [normalisation(norm, width, norm_kwargs, set()) for width in widths] if norm else []
    mlp = Layer("perceptron", "", hidden=hidden_channels, num_layers=num_layers, act=activation(act, act_kwargs) or Word("identity"),
                norms=norms, act_first=act_first, plain_last=plain_last, bias=bias)
    return Reducer("mlp_aggr", "x", O=out_channels, most=max_num_elements, mlp=mlp)


# ---- norms ----

def normalisation(norm, width, norm_kwargs, given):
    """A norm by its name, as PyG resolves it: the width is the first argument, whatever that means there."""
    short = re.sub("[-_ ]", "", norm.lower())
    names = [n for n in CLASSES if n.endswith("Norm") and short in (n.lower(), n[:-len("Norm")].lower())]
    if not names:
        raise Unsayable("norm %s" % norm)
    return make(Made(names[0], [width], norm_kwargs), given)


@pyg
def BatchNorm(given, in_channels, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, allow_single_element=False):
    return Layer("norm_module", "x", module=batch_norm(in_channels, eps, momentum, affine, track_running_stats))


@pyg
def LayerNorm(given, in_channels, eps=1e-5, affine=True, mode="graph"):
    return Layer("layer_norm", "x", mode=Word('"%s"' % mode), per_graph="batch" in given, eps=eps, affine=affine)


@pyg
def GraphNorm(given, in_channels, eps=1e-5):
    return Layer("graph_norm", "x", per_graph="batch" in given, eps=eps)


@pyg
def InstanceNorm(given, in_channels, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False):
    return Layer("instance_norm", "x", per_graph="batch" in given, eps=eps, momentum=momentum, affine=affine,
                 track_running_stats=track_running_stats)


@pyg
def PairNorm(given, scale=1.0, scale_individually=False, eps=1e-5):
    return Layer("pair_norm", "x", scale=scale, scale_individually=scale_individually, per_graph="batch" in given, eps=eps)


@pyg
def MeanSubtractionNorm(given):
    return Layer("mean_subtraction_norm", "x", per_graph="batch" in given)


@pyg
def GraphSizeNorm(given):
    return Formula("graph_size_norm(x)" if "batch" in given else "x / sqrt(sum_all(ones(node)))", "x")


@pyg
def MessageNorm(given, learn_scale=False):
    return Layer("message_norm", "x m", learn_scale=learn_scale)


@pyg
def DiffGroupNorm(given, in_channels, groups=10, lamda=0.01, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True):
    return Layer("diff_group_norm", "x", groups=groups, lamda=lamda, eps=eps, momentum=momentum, affine=affine,
                 track_running_stats=track_running_stats)


@pyg
def HeteroLayerNorm(given, in_channels, num_types, eps=1e-5, affine=True, mode="node"):
    return Layer("hetero_layer_norm", "x kind", eps=eps, affine=affine)


@pyg
def HeteroBatchNorm(given, in_channels, num_types, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True):
    return Layer("hetero_batch_norm", "x kind", eps=eps, momentum=momentum, affine=affine, track_running_stats=track_running_stats)


# ---- pools ----

@pyg
def dense_diff_pool(given, normalize=True):
    return Formula("dense_diff_pool(x, adj, s, normalize = %s%s)" % (spell(normalize), ", mask = float(mask)" if "mask" in given else ""), "x adj s mask")


for _name, _word in [("add", "sum"), ("mean", "mean"), ("max", "max")]:
    CLASSES["global_%s_pool" % _name] = lambda given, word=_word: Formula("readout_%s(x)" % word, "x")


class Pooling(Layer):
    """A layer that gives a graph of some nodes, their features and scores."""


def pooling(layer, ratio, min_score, multiplier, nonlinearity, **more):
    return Pooling(layer, "x", ratio=ratio, min_score=min_score, multiplier=multiplier, act=activation(nonlinearity), **more)


@pyg
def TopKPooling(given, in_channels, ratio=0.5, min_score=None, multiplier=1.0, nonlinearity="tanh"):
    return pooling("top_k_pooling", ratio, min_score, multiplier, nonlinearity)


@pyg
def SAGPooling(given, in_channels, ratio=0.5, GNN="GraphConv", min_score=None, multiplier=1.0, nonlinearity="tanh", **rest):
    gnn = make(Made(GNN or "GraphConv", [in_channels, 1], rest), given)
    return pooling("sag_pooling", ratio, min_score, multiplier, nonlinearity, gnn=gnn)
