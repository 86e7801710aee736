"""The table: a PyG class and its constructor's arguments to the text of a model that calls the standard layer.

Each function has the name and the parameters of a PyG class and returns the Layer that computes the same. `given` is the set
of the forward function's inputs (x, to, w, e, ...: see INPUTS). What the library has no word for raises Unsayable. Nothing
here knows a case: other values of the same arguments, and other combinations, give other texts.
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


def reducer(aggr):
    if isinstance(aggr, list):
        return [reducer(a) for a in aggr]
    if aggr in REDUCERS:
        return Word(REDUCERS[aggr])
    raise Unsayable("reducer %s" % (aggr.name if isinstance(aggr, Made) else aggr))


def common(flow="source_to_target", node_dim=-2, decomposed_layers=1, aggr="add"):
    """What every message passing class accepts; `flow` is a matter of which end of an edge comes first (model.py)."""
    if decomposed_layers != 1:
        raise Unsayable("decomposed_layers")
    if reducer(aggr) != "sum":
        raise Unsayable("this class with aggr = %s" % aggr)


def one_way(flow="source_to_target", **rest):
    """Classes that count degrees the same way whichever way messages go."""
    if flow != "source_to_target":
        raise Unsayable("degrees that do not follow flow = %s" % flow)
    return rest


def messages(aggr=None, **rest):
    """The options of a layer whose messages any reducer may take."""
    common(**rest)
    return {} if aggr is None else {"aggr": reducer(aggr)}


ACTIVATIONS = {"relu": "relu", "tanh": "tanh", "elu": "elu", "sigmoid": "sigmoid", "gelu": "gelu", "silu": "silu",
               "leaky_relu": "leaky_relu", "softplus": "softplus", "identity": "identity"}


def activation(act):
    if act is None:
        return None
    word = act.name if isinstance(act, Made) else act
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


# ---- tier 1 ----

@pyg
def GCNConv(given, in_channels, out_channels, improved=False, cached=False, add_self_loops=None, normalize=True, bias=True,
            aggr="add", **rest):
    common(**rest)
    loops = normalize if add_self_loops is None else add_self_loops
    return Layer("gcn", "x w", O=out_channels, improved=improved, add_self_loops=loops, normalize=normalize, bias=bias,
                 aggr=reducer(aggr))


@pyg
def SAGEConv(given, in_channels, out_channels, aggr="mean", normalize=False, root_weight=True, project=False, bias=True, **rest):
    common(**rest)
    root = root_weight and ("to" in given or "size" not in given)
    options = dict(aggr=Word("lstm"), most=given.longest, padded=True) if aggr == "lstm" else dict(aggr=reducer(aggr))
    return Layer("sage", "x to", O=out_channels, root_weight=root, normalize=normalize, project=project, bias=bias, **options)


@pyg
def GINConv(given, nn, eps=0.0, train_eps=False, aggr="add", **rest):
    common(**rest)
    net, width = network(nn)
    return Layer("gin", "x to", O=width, nn=net, eps=eps, train_eps=train_eps, aggr=reducer(aggr))


@pyg
def GraphConv(given, in_channels, out_channels, aggr="add", bias=True, **rest):
    common(**rest)
    return Layer("graph_conv", "x to w", O=out_channels, aggr=reducer(aggr), bias=bias)


@pyg
def SimpleConv(given, aggr="sum", combine_root=None, **rest):
    common(**rest)
    return Layer("simple", "x to w", aggr=reducer(aggr), combine_root=combine_root)


@pyg
def LGConv(given, normalize=True, **rest):
    return Layer("lgcn", "x w", normalize=normalize, **messages(**rest))


@pyg
def SGConv(given, in_channels, out_channels, K=1, cached=False, add_self_loops=True, bias=True, **rest):
    return Layer("sgc", "x w", O=out_channels, K=K, add_self_loops=add_self_loops, bias=bias, **messages(**rest))


@pyg
def SSGConv(given, in_channels, out_channels, alpha, K=1, cached=False, add_self_loops=True, bias=True, **rest):
    return Layer("ssgc", "x w", O=out_channels, alpha=alpha, K=K, add_self_loops=add_self_loops, bias=bias,
                 **messages(**rest))


@pyg
def TAGConv(given, in_channels, out_channels, K=3, bias=True, normalize=True, **rest):
    return Layer("tag", "x w", O=out_channels, K=K, bias=bias, normalize=normalize, **messages(**rest))


@pyg
def APPNP(given, K, alpha, dropout=0.0, cached=False, add_self_loops=True, normalize=True, **rest):
    return Layer("appnp", "x w", K=K, alpha=alpha, add_self_loops=add_self_loops, normalize=normalize, **messages(**rest))


@pyg
def MixHopConv(given, in_channels, out_channels, powers=None, add_self_loops=True, bias=True, **rest):
    powers = [0, 1, 2] if powers is None else powers
    return Layer("mixhop", "x w", O=out_channels, powers=powers, top=max(powers), add_self_loops=add_self_loops, bias=bias,
                 **messages(**rest))


@pyg
def ChebConv(given, in_channels, out_channels, K, normalization="sym", bias=True, **rest):
    common(**one_way(**rest))
    return Layer("cheb", "x w lambda_max", O=out_channels, K=K, normalization=normalization, bias=bias)


@pyg
def GCN2Conv(given, channels, alpha, theta=None, layer=None, shared_weights=True, cached=False, add_self_loops=True,
             normalize=True, **rest):
    return Layer("gcn2", "x x0 w", alpha=alpha, theta=theta, depth=layer, shared_weights=shared_weights,
                 add_self_loops=add_self_loops,
                 normalize=normalize, **messages(**rest))


@pyg
def ARMAConv(given, in_channels, out_channels, num_stacks=1, num_layers=1, shared_weights=False, act="ReLU()", dropout=0.0,
             bias=True, **rest):
    act = Made("ReLU") if act == "ReLU()" else act
    return Layer("arma", "x w", O=out_channels, num_stacks=num_stacks, num_layers=num_layers, shared_weights=shared_weights,
                 act=activation(act), bias=bias, **messages(**rest))


@pyg
def ClusterGCNConv(given, in_channels, out_channels, diag_lambda=0.0, add_self_loops=True, bias=True, **rest):
    common(**one_way(**rest))
    if not add_self_loops:
        raise Unsayable("ClusterGCNConv without self-loops, which PyG itself refuses on almost every graph")
    return Layer("cluster_gcn", "x", O=out_channels, diag_lambda=diag_lambda, bias=bias)


@pyg
def AntiSymmetricConv(given, in_channels, phi=None, num_iters=1, epsilon=0.1, gamma=0.1, act="tanh", act_kwargs=None, bias=True,
                      **rest):
    common(**rest)
    inner = make(phi or Made("GCNConv", [in_channels, in_channels], {"bias": False}), given)
    return Layer("antisymmetric", "x", phi=inner, num_iters=num_iters, epsilon=epsilon, gamma=gamma, act=activation(act),
                 bias=bias)


DIRECTED = {"GCNConv": {"add_self_loops": False}, "SAGEConv": {"root_weight": False}, "GATConv": {"add_self_loops": False},
            "GATv2Conv": {"add_self_loops": False}, "GraphConv": {}}


@pyg
def DirGNNConv(given, conv, alpha=0.5, root_weight=True):
    if conv.name not in DIRECTED:  # each inner layer loses its loops and its own root term (README, quirk 28)
        raise Unsayable("DirGNNConv of %s" % conv.name)
    inner = [make(Made(conv.name, conv.args, {**conv.named, **DIRECTED[conv.name]}), given) for _ in range(2)]
    return Layer("directed", "x", conv_in=inner[0], conv_out=inner[1], alpha=alpha, root_weight=root_weight)


@pyg
def EGConv(given, in_channels, out_channels, aggregators=("symnorm",), num_heads=8, num_bases=4, cached=False,
           add_self_loops=True, bias=True, aggr=None, **rest):
    common(**rest)  # `aggr` has no effect
    aggrs = [Word("symnorm") if a == "symnorm" else reducer(a) for a in aggregators]
    if add_self_loops and "symnorm" not in aggregators:
        raise Unsayable("loops that stop at the largest node with an edge")
    return Layer("egc", "x", H=num_heads, B=num_bases, D=out_channels // num_heads, aggregators=aggrs,
                 add_self_loops=add_self_loops, bias=bias)


@pyg
def WLConvContinuous(given, **rest):
    return Layer("wl_continuous", "x to w", **messages(**one_way(**rest)))


@pyg
def SignedConv(given, in_channels, out_channels, first_aggr, bias=True, aggr="mean", **rest):
    common(**rest)
    if aggr != "mean":
        raise Unsayable("this class with aggr = %s" % aggr)
    return Layer("signed", "x positive", O=out_channels, first_aggr=first_aggr, bias=bias)


# ---- tier 2 ----

def attention(given, out_channels, heads, concat, add_self_loops, residual, bias, fill_value):
    residual = residual and ("to" in given or "size" not in given)
    fill = fill_value if isinstance(fill_value, (int, float)) else reducer(fill_value)
    return dict(H=heads, D=out_channels, concat=concat, add_self_loops=add_self_loops, fill_value=fill, residual=residual, bias=bias,
                weights="weights" in given)


@pyg
def GATConv(given, in_channels, out_channels, heads=1, concat=True, negative_slope=0.2, dropout=0.0, add_self_loops=True,
            edge_dim=None, fill_value="mean", bias=True, residual=False, **rest):
    options = attention(given, out_channels, heads, concat, add_self_loops, residual, bias, fill_value)
    pair = isinstance(in_channels, list)
    return Layer("gat", "x to e" if edge_dim else "x to", negative_slope=negative_slope, pair=pair, **options,
                 **messages(**rest))


@pyg
def GATv2Conv(given, in_channels, out_channels, heads=1, concat=True, negative_slope=0.2, dropout=0.0, add_self_loops=True,
              edge_dim=None, fill_value="mean", bias=True, share_weights=False, residual=False, **rest):
    options = attention(given, out_channels, heads, concat, add_self_loops, residual, bias, fill_value)
    return Layer("gatv2", "x to e" if edge_dim else "x to", negative_slope=negative_slope, share_weights=share_weights,
                 **options, **messages(**rest))


@pyg
def TransformerConv(given, in_channels, out_channels, heads=1, concat=True, beta=False, dropout=0.0, edge_dim=None, bias=True,
                    root_weight=True, **rest):
    if "e" in given and not edge_dim:
        raise Unsayable("edge features that are added to the values only")
    return Layer("transformer", "x to e", H=heads, D=out_channels, concat=concat, beta=beta and root_weight,
                 root_weight=root_weight,
                 bias=bias, weights="weights" in given, **messages(**rest))


@pyg
def AGNNConv(given, requires_grad=True, add_self_loops=True, **rest):
    return Layer("agnn", "x", add_self_loops=add_self_loops, requires_grad=requires_grad, **messages(**rest))


@pyg
def FAConv(given, channels, eps=0.1, dropout=0.0, cached=False, add_self_loops=True, normalize=True, **rest):
    if "weights" in given and add_self_loops and normalize:
        raise Unsayable("PyG's order of edges where existing loops are kept")
    return Layer("fa", "x x0 w", eps=eps, add_self_loops=add_self_loops, normalize=normalize,
                 weights="weights" in given, **messages(**rest))


@pyg
def FeaStConv(given, in_channels, out_channels, heads=1, add_self_loops=True, bias=True, **rest):
    return Layer("feast", "x to", H=heads, O=out_channels, add_self_loops=add_self_loops, bias=bias,
                 **messages(**rest))


@pyg
def GINEConv(given, nn, eps=0.0, train_eps=False, edge_dim=None, aggr="add", **rest):
    common(**rest)
    net, width = network(nn)
    return Layer("gine", "x e to", O=width, nn=net, eps=eps, train_eps=train_eps, project=edge_dim is not None,
                 aggr=reducer(aggr))


@pyg
def LEConv(given, in_channels, out_channels, bias=True, **rest):
    return Layer("le", "x to w", O=out_channels, bias=bias, **messages(**rest))


@pyg
def GeneralConv(given, in_channels, out_channels, in_edge_channels=None, aggr="add", skip_linear=False, directed_msg=True, heads=1,
                attention=False, attention_type="additive", l2_normalize=False, bias=True, **rest):
    common(**rest)
    pair = isinstance(in_channels, list)
    skip = "linear" if skip_linear or pair or in_channels != out_channels else "identity"
    kind = Word(attention_type) if attention else None
    return Layer("general", "x to e" if in_edge_channels else "x to", D=out_channels, H=heads, aggr=reducer(aggr),
                 skip=Word(skip),
                 directed_msg=directed_msg, attention=kind, normalize=l2_normalize, bias=bias)


@pyg
def HypergraphConv(given, in_channels, out_channels, use_attention=False, attention_mode="node", heads=1, concat=True,
                   negative_slope=0.2, dropout=0, bias=True, **rest):
    common(**rest)
    attention = {"node": Word("nodes"), "edge": Word("hyperedges")}[attention_mode] if use_attention else None
    if not use_attention:
        heads, concat = 1, True
    return Layer("hypergraph", "x w e", H=heads, D=out_channels, attention=attention, concat=concat,
                 negative_slope=negative_slope, bias=bias)


# ---- tier 4 ----

@pyg
def ResGatedGraphConv(given, in_channels, out_channels, act="Sigmoid()", edge_dim=None, root_weight=True, bias=True, aggr="add",
                      **rest):
    common(**rest)
    act = Made("Sigmoid") if act is None or act == "Sigmoid()" else act
    return Layer("res_gated", "x to e" if edge_dim else "x to", O=out_channels, act=activation(act), aggr=reducer(aggr),
                 root_weight=root_weight, bias=bias)


@pyg
def CGConv(given, channels, dim=0, aggr="add", batch_norm=False, bias=True, **rest):
    common(**rest)
    return Layer("cg", "x to e" if dim else "x to", aggr=reducer(aggr), bn=Layer("batch_norm",
                 "") if batch_norm else None, bias=bias)


@pyg
def EdgeConv(given, nn, aggr="max", **rest):
    common(**rest)
    net, width = network(nn)
    return Layer("edge_conv", "x to", O=width, nn=net, aggr=reducer(aggr))


@pyg
def NNConv(given, in_channels, out_channels, nn, aggr="add", root_weight=True, bias=True, **rest):
    common(**rest)
    return Layer("nn_conv", "x e to", O=out_channels, nn=network(nn)[0], aggr=reducer(aggr), root_weight=root_weight, bias=bias)


@pyg
def PDNConv(given, in_channels, out_channels, edge_dim, hidden_channels, add_self_loops=True, normalize=True, bias=True, **rest):
    return Layer("pdn", "x e", O=out_channels, hidden_channels=hidden_channels, add_self_loops=add_self_loops,
                 normalize=normalize, bias=bias, **messages(**rest))


@pyg
def GatedGraphConv(given, out_channels, num_layers, aggr="add", bias=True, **rest):
    common(**rest)
    return Layer("gated_graph", "x w", O=out_channels, num_layers=num_layers, aggr=reducer(aggr), bias=bias)


SCALERS = ("identity", "amplification", "attenuation", "linear", "inverse_linear")


def scalers_of(names):
    names = [names] if isinstance(names, str) else names
    if not all(n in SCALERS for n in names):
        raise Unsayable("scalers %s" % names)
    return [Word(n) for n in names]


@pyg
def PNAConv(given, in_channels, out_channels, aggregators, scalers, deg, edge_dim=None, towers=1, pre_layers=1, post_layers=1,
            divide_input=False, act="relu", act_kwargs=None, train_norm=False, **rest):
    common(**rest)
    return Layer("pna", "x e" if edge_dim else "x", O=out_channels, deg=deg, aggregators=reducer(aggregators),
                 scalers=scalers_of(scalers), towers=towers, divide_input=divide_input, pre_layers=pre_layers,
                 post_layers=post_layers, act=activation(act), train_norm=train_norm)


NORMS = {"batch": "batch_norm", "layer": "row_norm", None: None}


@pyg
def GENConv(given, in_channels, out_channels, aggr="softmax", t=1.0, learn_t=False, p=1.0, learn_p=False, msg_norm=False,
            learn_msg_scale=False, norm="batch", num_layers=2, expansion=2, eps=1e-7, bias=False, edge_dim=None, **rest):
    common(**rest)
    if norm not in NORMS:
        raise Unsayable("norm = %s" % norm)
    words = {"softmax": "softmax", "softmax_sg": "softmax_sg", "power": "powermean", "powermean": "powermean"}
    aggr = Word(words[aggr]) if isinstance(aggr, str) and aggr in words else reducer(aggr)
    return Layer("gen", "x to e", O=out_channels, aggr=aggr, t=t, learn_t=learn_t, p=p, learn_p=learn_p, msg_norm=msg_norm,
                 learn_msg_scale=learn_msg_scale, norm=NORMS[norm] and Word(NORMS[norm]), num_layers=num_layers,
                 expansion=expansion, eps=eps, bias=bias)


@pyg
def DNAConv(given, channels, heads=1, groups=1, dropout=0.0, cached=False, normalize=True, add_self_loops=True, bias=True, **rest):
    return Layer("dna", "x w", H=heads, groups=groups, add_self_loops=add_self_loops, normalize=normalize, bias=bias,
                 **messages(**rest))


@pyg
def GMMConv(given, in_channels, out_channels, dim, kernel_size, separate_gaussians=False, aggr="mean", root_weight=True, bias=True,
            **rest):
    common(**rest)
    return Layer("gmm", "x e to", O=out_channels, kernel_size=kernel_size, separate_gaussians=separate_gaussians,
                 aggr=reducer(aggr), root_weight=root_weight, bias=bias)


@pyg
def SplineConv(given, in_channels, out_channels, dim, kernel_size, is_open_spline=True, degree=1, aggr="mean", root_weight=True,
               bias=True, **rest):
    common(**rest)
    sizes = kernel_size if isinstance(kernel_size, list) else [kernel_size] * dim
    is_open = is_open_spline if isinstance(is_open_spline, list) else [is_open_spline] * dim
    return Layer("spline", "x e to", O=out_channels, kernel_size=sizes, is_open_spline=is_open, degree=degree,
                 aggr=reducer(aggr),
                 root_weight=root_weight, bias=bias)


def local_and_global(local_nn, global_nn):
    """The options for both networks."""
    local, width = network(local_nn)
    if not global_nn:
        return {"local_nn": local, "O": width}
    last, width = network(global_nn)
    return {"local_nn": local, "global_nn": last, "O": width}


@pyg
def PointNetConv(given, local_nn, global_nn=None, add_self_loops=True, aggr="max", **rest):
    common(**rest)
    return Layer("pointnet", "x pos to_pos", add_self_loops=add_self_loops, aggr=reducer(aggr),
                 **local_and_global(local_nn, global_nn))


@pyg
def PPFConv(given, local_nn, global_nn=None, add_self_loops=True, aggr="max", **rest):
    common(**rest)
    return Layer("ppf", "x pos to_pos normal to_normal", add_self_loops=add_self_loops, aggr=reducer(aggr),
                 **local_and_global(local_nn, global_nn))


@pyg
def PointTransformerConv(given, in_channels, out_channels, pos_nn=None, attn_nn=None, add_self_loops=True, **rest):
    nets = {k: network(v)[0] for k, v in (("pos_nn", pos_nn), ("attn_nn", attn_nn)) if v}
    return Layer("point_transformer", "x pos to to_pos", O=out_channels, add_self_loops=add_self_loops, **nets,
                 **messages(**rest))


@pyg
def PointGNNConv(given, mlp_h, mlp_f, mlp_g, aggr="max", **rest):
    common(**rest)
    return Layer("point_gnn", "x pos", mlp_h=network(mlp_h)[0], mlp_f=network(mlp_f)[0], mlp_g=network(mlp_g)[0],
                 aggr=reducer(aggr))


# ---- reducers alone: each row of x goes to the target that `index` names ----

class Formula(Layer):
    """An expression of the model's inputs."""

    def __init__(self, text, takes):
        self.text, self.takes = text, takes.split()


def reduction(text):
    return Formula("{ m = x.src; %s }" % text, "x")


class OfMessages(Layer):
    """A layer from edges to nodes, called with x.src."""


def plain(word):
    return lambda given: reduction("%s_in(m)" % word)


for _name, _word in [("Sum", "sum"), ("Mean", "mean"), ("Max", "max"), ("Min", "min"), ("Mul", "mul")]:
    CLASSES[_name + "Aggregation"] = plain(_word)


@pyg
def VarAggregation(given, semi_grad=False):
    return reduction("var_aggr(m, semi_grad = %s)" % spell(semi_grad))


@pyg
def StdAggregation(given, semi_grad=False):
    return reduction("std_aggr(m, semi_grad = %s)" % spell(semi_grad))


@pyg
def PowerMeanAggregation(given, p=1.0, learn=False, channels=1, clamp_min=1e-4, clamp_max=100.0):
    if clamp_min is None or clamp_max is None:
        raise Unsayable("powers without bounds")
    return OfMessages("powermean_aggr", "x", p=p, learn=learn, channels=channels, clamp_min=clamp_min, clamp_max=clamp_max)


@pyg
def SoftmaxAggregation(given, t=1.0, learn=False, semi_grad=False, channels=1):
    return OfMessages("softmax_aggr", "x", t=t, learn=learn, semi_grad=semi_grad, channels=channels)


@pyg
def VariancePreservingAggregation(given):
    return reduction("variance_preserving_aggr(m)")


@pyg
def MultiAggregation(given, aggrs, aggrs_kwargs=None, mode="cat", mode_kwargs=None):
    if mode == "proj" and not aggrs_kwargs and set(mode_kwargs) <= {"in_channels", "out_channels"}:
        return OfMessages("projected_aggr", "x", aggr=reducer(aggrs), O=mode_kwargs["out_channels"])
    if mode != "cat" or aggrs_kwargs:
        raise Unsayable("mode %s of several reducers" % mode)
    return reduction("cat(%s)" % ", ".join("%s_in(m)" % a for a in reducer(aggrs)))


@pyg
def DegreeScalerAggregation(given, aggr, scaler, deg, train_norm=False, aggr_kwargs=None):
    return OfMessages("degree_scaler", "x", deg=deg, aggr=reducer(aggr), scalers=scalers_of(scaler), train_norm=train_norm)


@pyg
def AttentionalAggregation(given, gate_nn, nn=None):
    options = {"nn": network(nn)[0]} if nn else {}
    return OfMessages("attentional_aggr", "x", gate_nn=network(gate_nn)[0], **options)


@pyg
def DeepSetsAggregation(given, local_nn=None, global_nn=None):
    nets = {k: network(v)[0] if v else Word("identity") for k, v in (("local_nn", local_nn), ("global_nn", global_nn))}
    return OfMessages("deep_sets_aggr", "x", **nets)


@pyg
def Set2Set(given, in_channels, processing_steps, num_layers=1):
    if num_layers != 1:
        raise Unsayable("stacked cells")
    return OfMessages("set2set", "x", processing_steps=processing_steps)


@pyg
def MedianAggregation(given, fill_value=0.0):
    return reduction("quantile_in(m, 0.5, interpolation = \"lower\", fill_value = %s)" % spell(fill_value))


@pyg
def QuantileAggregation(given, q, interpolation="linear", fill_value=0.0):
    q = q if isinstance(q, list) else [q]
    each = ["quantile_in(m, %s, interpolation = \"%s\", fill_value = %s)" % (spell(v), interpolation, spell(fill_value)) for v in q]
    return reduction("cat(%s)" % ", ".join(each))


@pyg
def SortAggregation(given, k):
    return reduction("sort_aggr(m, %d)" % k)


@pyg
def LSTMAggregation(given, in_channels, out_channels):
    return OfMessages("lstm_aggr", "x", O=out_channels, most=given.longest, padded=True)


@pyg
def GRUAggregation(given, in_channels, out_channels):
    return OfMessages("gru_aggr", "x", O=out_channels, most=given.longest, padded=True)


@pyg
def LCMAggregation(given, in_channels, out_channels, project=True):
    if not project:
        raise Unsayable("LCM without projection")
    return OfMessages("lcm_aggr", "x", O=out_channels, most=given.longest)


@pyg
def MLPAggregation(given, in_channels, out_channels, max_num_elements, num_layers):
    if num_layers != 1:
        raise Unsayable("several layers over lists")
    return OfMessages("mlp_aggr", "x", O=out_channels, most=max_num_elements)


# ---- norms ----

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
    return Formula("pair_norm(x, scale = %s, scale_individually = %s, per_graph = %s, eps = %s)"
                   % (spell(scale), spell(scale_individually), spell("batch" in given), spell(eps)), "x")


@pyg
def MeanSubtractionNorm(given):
    return Formula("mean_subtraction_norm(x, per_graph = %s)" % spell("batch" in given), "x")


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
def HeteroLayerNorm(given, in_channels, num_types, mode="node", affine=True, eps=1e-5):
    if mode != "node":
        raise Unsayable("HeteroLayerNorm with mode %s" % mode)
    return Layer("hetero_layer_norm", "x kind", eps=eps, affine=affine)


@pyg
def HeteroBatchNorm(given, in_channels, num_types, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True):
    return Layer("hetero_batch_norm", "x kind", eps=eps, momentum=momentum, affine=affine, track_running_stats=track_running_stats)


# ---- pools ----

@pyg
def dense_diff_pool(given, normalize=True):
    return Formula("dense_diff_pool(x, adj, s)", "x adj s")



for _name, _word in [("add", "sum"), ("mean", "mean"), ("max", "max")]:
    CLASSES["global_%s_pool" % _name] = lambda given, word=_word: Formula("readout_%s(x)" % word, "x")


# ---- tier 3 ----

@pyg
def MFConv(given, in_channels, out_channels, max_degree=10, bias=True, **rest):
    return Layer("mf", "x to", O=out_channels, max_degree=max_degree, bias=bias, **messages(**rest))


# ---- tier 5 ----

@pyg
def SuperGATConv(given, in_channels, out_channels, heads=1, concat=True, negative_slope=0.2, dropout=0.0, add_self_loops=True,
                 bias=True, attention_type="MX", neg_sample_ratio=0.5, edge_sample_ratio=1.0, is_undirected=False, **rest):
    return Layer("supergat", "x", H=heads, D=out_channels, attention_type=Word(attention_type.lower()), concat=concat,
                 negative_slope=negative_slope, add_self_loops=add_self_loops, bias=bias, **messages(**rest))


GPS_NORMS = {"batch_norm": lambda given: Layer("norm_module", ""), None: lambda given: Word("identity"),
             "layer_norm": lambda given: Layer("layer_norm", "", per_graph="batch" in given),
             "graph_norm": lambda given: Layer("graph_norm", "", per_graph="batch" in given)}


@pyg
def GPSConv(given, channels, conv=None, heads=1, dropout=0.0, act="relu", act_kwargs=None, norm="batch_norm", norm_kwargs=None,
            attn_type="multihead", attn_kwargs=None):
    more = dict(attn_kwargs or {})
    if norm not in GPS_NORMS or norm_kwargs or act_kwargs or attn_type not in ("multihead", "performer"):
        raise Unsayable("attention %s with norm %s" % (attn_type, norm))
    if attn_type == "multihead":
        attn = Layer("multihead_attention", "", H=heads)
    else:
        attn = Layer("performer_attention", "", H=heads, D=more.pop("head_channels", 64), padded="batch" in given)
    if more:
        raise Unsayable("attention with %s" % ", ".join(more))
    norms = {"norm%d" % i: GPS_NORMS[norm](given) for i in (1, 2, 3)}
    return Layer("gps", "x", conv=make(conv, given) if conv else None, attn=attn, act=activation(act), **norms)


@pyg
def DynamicEdgeConv(given, nn, k, aggr="max", num_workers=None, **rest):
    common(**rest)
    net, width = network(nn)
    return Layer("dynamic_edge", "x to", O=width, nn=net, k=k, aggr=reducer(aggr))


@pyg
def GravNetConv(given, in_channels, out_channels, space_dimensions, propagate_dimensions, k, num_workers=None, **rest):
    common(**rest)
    return Layer("gravnet", "x to", O=out_channels, space_dimensions=space_dimensions, propagate_dimensions=propagate_dimensions, k=k)


@pyg
def XConv(given, in_channels, out_channels, dim, kernel_size, hidden_channels=None, dilation=1, bias=True, num_workers=1):
    return Layer("x_conv", "x pos", O=out_channels, kernel_size=kernel_size, hidden_channels=hidden_channels, dilation=dilation,
                 bias=bias)


class Pooling(Layer):
    """A layer that gives a graph of some nodes, their features and scores."""


def pooling(layer, ratio, min_score, multiplier, nonlinearity, **more):
    if min_score is not None:
        raise Unsayable("min_score: how many nodes stay depends on the scores")
    return Pooling(layer, "x", ratio=ratio, multiplier=multiplier, act=activation(nonlinearity), **more)


@pyg
def TopKPooling(given, in_channels, ratio=0.5, min_score=None, multiplier=1.0, nonlinearity="tanh"):
    return pooling("top_k_pooling", ratio, min_score, multiplier, nonlinearity)


@pyg
def SAGPooling(given, in_channels, ratio=0.5, GNN=None, min_score=None, multiplier=1.0, nonlinearity="tanh", **rest):
    if GNN is not None or rest:
        raise Unsayable("SAGPooling with another GNN")
    return pooling("sag_pooling", ratio, min_score, multiplier, nonlinearity)
