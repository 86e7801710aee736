"""The table: a PyG class and its constructor's arguments to the text of a model that calls the standard layer.

Each function has the name and the parameters of a PyG class and returns the Layer that computes the same. `given` is the set
of the forward function's inputs (x, to, w, e, ...: see INPUTS in model.py). What the library has no word for raises
Unsayable. Nothing here knows a case: other values of the same arguments, and other combinations, give other texts.
"""
from case import Entries, Places, Unsayable
from constructors import Made
from reducers import Formula, normalisation, scalers_of
from words import (Layer, OneWay, Word, activation, common, make, messages, network, options_of, own_network, pyg,
                   reducer)

# ---- tier 1 ----

@pyg
def GCNConv(given, in_channels, out_channels, improved=False, cached=False, add_self_loops=None, normalize=True, bias=True,
            aggr="add", **rest):
    common(**rest)
    loops = normalize if add_self_loops is None else add_self_loops
    return Layer("gcn", "x w", O=out_channels, improved=improved, add_self_loops=loops, normalize=normalize, bias=bias,
                 aggr=reducer(given, aggr, **rest))


@pyg
def SAGEConv(given, in_channels, out_channels, aggr="mean", normalize=False, root_weight=True, project=False, bias=True, **rest):
    common(**rest)
    root = root_weight and ("to" in given or "size" not in given)
    width = in_channels[0] if isinstance(in_channels, list) else in_channels
    if aggr == "lstm":
        rest["aggr_kwargs"] = {"in_channels": width, "out_channels": width, **rest.get("aggr_kwargs", {})}
    return Layer("sage", "x to", O=out_channels, root_weight=root, normalize=normalize, project=project, bias=bias,
                 aggr=reducer(given, aggr, **rest))


@pyg
def GINConv(given, nn, eps=0.0, train_eps=False, aggr="add", **rest):
    common(**rest)
    net, width = network(nn)
    return Layer("gin", "x to", O=width, nn=net, eps=eps, train_eps=train_eps, aggr=reducer(given, aggr, **rest))


@pyg
def GraphConv(given, in_channels, out_channels, aggr="add", bias=True, **rest):
    common(**rest)
    return Layer("graph_conv", "x to w", O=out_channels, aggr=reducer(given, aggr, **rest), bias=bias)


@pyg
def SimpleConv(given, aggr="sum", combine_root=None, **rest):
    common(**rest)
    return Layer("simple", "x to w", aggr=reducer(given, aggr, **rest), combine_root=combine_root)


@pyg
def LGConv(given, normalize=True, **rest):
    return Layer("lgcn", "x w", normalize=normalize, **messages(given, **rest))


@pyg
def SGConv(given, in_channels, out_channels, K=1, cached=False, add_self_loops=True, bias=True, **rest):
    return Layer("sgc", "x w", O=out_channels, K=K, add_self_loops=add_self_loops, bias=bias, **messages(given, **rest))


@pyg
def SSGConv(given, in_channels, out_channels, alpha, K=1, cached=False, add_self_loops=True, bias=True, **rest):
    return Layer("ssgc", "x w", O=out_channels, alpha=alpha, K=K, add_self_loops=add_self_loops, bias=bias,
                 **messages(given, **rest))


@pyg
def TAGConv(given, in_channels, out_channels, K=3, bias=True, normalize=True, **rest):
    return Layer("tag", "x w", O=out_channels, K=K, bias=bias, normalize=normalize, **messages(given, **rest))


@pyg
def APPNP(given, K, alpha, dropout=0.0, cached=False, add_self_loops=True, normalize=True, **rest):
    return Layer("appnp", "x w", K=K, alpha=alpha, add_self_loops=add_self_loops, normalize=normalize, **messages(given, **rest))


@pyg
def MixHopConv(given, in_channels, out_channels, powers=None, add_self_loops=True, bias=True, **rest):
    powers = [0, 1, 2] if powers is None else powers
    return Layer("mixhop", "x w", O=out_channels, powers=powers, top=max(powers), add_self_loops=add_self_loops, bias=bias,
                 **messages(given, **rest))


@pyg
def ChebConv(given, in_channels, out_channels, K, normalization="sym", bias=True, flow="source_to_target", **rest):
    return OneWay("cheb", "x w lambda_max", flow, O=out_channels, K=K, normalization=normalization, bias=bias, **messages(given, **rest))


@pyg
def GCN2Conv(given, channels, alpha, theta=None, layer=None, shared_weights=True, cached=False, add_self_loops=True,
             normalize=True, **rest):
    return Layer("gcn2", "x x0 w", alpha=alpha, theta=theta, depth=layer, shared_weights=shared_weights,
                 add_self_loops=add_self_loops,
                 normalize=normalize, **messages(given, **rest))


@pyg
def ARMAConv(given, in_channels, out_channels, num_stacks=1, num_layers=1, shared_weights=False, act="ReLU()", dropout=0.0,
             bias=True, **rest):
    act = Made("ReLU") if act == "ReLU()" else act
    return Layer("arma", "x w", O=out_channels, num_stacks=num_stacks, num_layers=num_layers, shared_weights=shared_weights,
                 act=activation(act), bias=bias, **messages(given, **rest))


@pyg
def ClusterGCNConv(given, in_channels, out_channels, diag_lambda=0.0, add_self_loops=True, bias=True, flow="source_to_target", **rest):
    return OneWay("cluster_gcn", "x", flow, O=out_channels, diag_lambda=diag_lambda, add_self_loops=add_self_loops, bias=bias,
                  **messages(given, **rest))


@pyg
def AntiSymmetricConv(given, in_channels, phi=None, num_iters=1, epsilon=0.1, gamma=0.1, act="tanh", act_kwargs=None, bias=True,
                      **rest):
    common(**rest)
    inner = make(phi or Made("GCNConv", [in_channels, in_channels], {"bias": False}), given)
    return Layer("antisymmetric", "x", phi=inner, num_iters=num_iters, epsilon=epsilon, gamma=gamma, act=activation(act, act_kwargs),
                 bias=bias)


@pyg
def DirGNNConv(given, conv, alpha=0.5, root_weight=True):
    named = dict(conv.named)
    for option in ("add_self_loops", "root_weight"):  # the inner layers lose both where they have them (README, quirk 28)
        if option in options_of(conv.name):
            named[option] = False
    inner = [make(Made(conv.name, conv.args, named), given) for _ in range(2)]
    return Layer("directed", "x", conv_in=inner[0], conv_out=inner[1], alpha=alpha, root_weight=root_weight)


@pyg
def EGConv(given, in_channels, out_channels, aggregators=("symnorm",), num_heads=8, num_bases=4, cached=False,
           add_self_loops=True, bias=True, aggr=None, **rest):
    common(**rest)  # `aggr` has no effect
    aggrs = [Word("symnorm") if a == "symnorm" else reducer(given, a) for a in aggregators]
    return Layer("egc", "x", H=num_heads, B=num_bases, D=out_channels // num_heads, aggregators=aggrs,
                 add_self_loops=add_self_loops, bias=bias, last_loops="symnorm" in aggregators or not add_self_loops)


@pyg
def WLConvContinuous(given, flow="source_to_target", **rest):
    return OneWay("wl_continuous", "x to w", flow, **messages(given, **rest))


@pyg
def SignedConv(given, in_channels, out_channels, first_aggr, bias=True, **rest):
    return Layer("signed", "x positive", O=out_channels, first_aggr=first_aggr, bias=bias, **messages(given, **rest))


# ---- tier 2 ----

def attention(given, out_channels, heads, concat, add_self_loops, residual, bias, fill_value):
    residual = residual and ("to" in given or "size" not in given)
    fill = fill_value if isinstance(fill_value, (int, float)) else reducer(given, fill_value)
    return dict(H=heads, D=out_channels, concat=concat, add_self_loops=add_self_loops, fill_value=fill, residual=residual, bias=bias,
                weights="weights" in given)


def looped(layer, policy):
    layer.loops = policy or None
    return layer


@pyg
def GATConv(given, in_channels, out_channels, heads=1, concat=True, negative_slope=0.2, dropout=0.0, add_self_loops=True,
            edge_dim=None, fill_value="mean", bias=True, residual=False, flow="source_to_target", **rest):
    options = attention(given, out_channels, heads, concat, add_self_loops, residual, bias, fill_value)
    pair = isinstance(in_channels, list)
    layer = OneWay("gat", "x to e" if edge_dim else "x to", flow, negative_slope=negative_slope, pair=pair, **options,
                   **messages(given, fixed=concat, **rest))
    return looped(layer, add_self_loops and "replace")


@pyg
def GATv2Conv(given, in_channels, out_channels, heads=1, concat=True, negative_slope=0.2, dropout=0.0, add_self_loops=True,
              edge_dim=None, fill_value="mean", bias=True, share_weights=False, residual=False, flow="source_to_target", **rest):
    options = attention(given, out_channels, heads, concat, add_self_loops, residual, bias, fill_value)
    layer = OneWay("gatv2", "x to e" if edge_dim else "x to", flow, negative_slope=negative_slope, share_weights=share_weights,
                   **options, **messages(given, fixed=concat, **rest))
    return looped(layer, add_self_loops and "replace")


@pyg
def TransformerConv(given, in_channels, out_channels, heads=1, concat=True, beta=False, dropout=0.0, edge_dim=None, bias=True,
                    root_weight=True, **rest):
    return Layer("transformer", "x to e", H=heads, D=out_channels, concat=concat, beta=beta and root_weight,
                 root_weight=root_weight, bias=bias, project=edge_dim is not None,
                 weights="weights" in given, **messages(given, fixed=concat, **rest))


@pyg
def AGNNConv(given, requires_grad=True, add_self_loops=True, **rest):
    return Layer("agnn", "x", add_self_loops=add_self_loops, requires_grad=requires_grad, **messages(given, **rest))


@pyg
def FAConv(given, channels, eps=0.1, dropout=0.0, cached=False, add_self_loops=True, normalize=True, **rest):
    layer = Layer("fa", "x x0 w", eps=eps, add_self_loops=add_self_loops, normalize=normalize,
                  weights="weights" in given, **messages(given, **rest))
    return looped(layer, add_self_loops and normalize and "keep")


@pyg
def FeaStConv(given, in_channels, out_channels, heads=1, add_self_loops=True, bias=True, **rest):
    return Layer("feast", "x to", H=heads, O=out_channels, add_self_loops=add_self_loops, bias=bias,
                 **messages(given, **rest))


@pyg
def GINEConv(given, nn, eps=0.0, train_eps=False, edge_dim=None, aggr="add", **rest):
    common(**rest)
    net, width = network(nn)
    return Layer("gine", "x e to", O=width, nn=net, eps=eps, train_eps=train_eps, project=edge_dim is not None,
                 aggr=reducer(given, aggr, **rest))


@pyg
def LEConv(given, in_channels, out_channels, bias=True, **rest):
    return Layer("le", "x to w", O=out_channels, bias=bias, **messages(given, **rest))


@pyg
def GeneralConv(given, in_channels, out_channels, in_edge_channels=None, aggr="add", skip_linear=False, directed_msg=True, heads=1,
                attention=False, attention_type="additive", l2_normalize=False, bias=True, **rest):
    common(**rest)
    pair = isinstance(in_channels, list)
    skip = "linear" if skip_linear or pair or in_channels != out_channels else "identity"
    kind = Word(attention_type) if attention else None
    return Layer("general", "x to e" if in_edge_channels else "x to", D=out_channels, H=heads, aggr=reducer(given, aggr, **rest),
                 skip=Word(skip),
                 directed_msg=directed_msg, attention=kind, normalize=l2_normalize, bias=bias)


@pyg
def HypergraphConv(given, in_channels, out_channels, use_attention=False, attention_mode="node", heads=1, concat=True,
                   negative_slope=0.2, dropout=0, bias=True, **rest):
    attention = {"node": Word("nodes"), "edge": Word("hyperedges")}[attention_mode] if use_attention else None
    if not use_attention:
        heads, concat = 1, True
    return Layer("hypergraph", "x w e", H=heads, D=out_channels, attention=attention, concat=concat,
                 negative_slope=negative_slope, bias=bias, **messages(given, fixed=concat, **rest))


# ---- tier 4 ----

@pyg
def ResGatedGraphConv(given, in_channels, out_channels, act="Sigmoid()", edge_dim=None, root_weight=True, bias=True, aggr="add",
                      **rest):
    common(**rest)
    act = Made("Sigmoid") if act is None or act == "Sigmoid()" else act
    return Layer("res_gated", "x to e" if edge_dim else "x to", O=out_channels, act=activation(act), aggr=reducer(given, aggr, **rest),
                 root_weight=root_weight, bias=bias)


@pyg
def CGConv(given, channels, dim=0, aggr="add", batch_norm=False, bias=True, **rest):
    common(**rest)
    return Layer("cg", "x to e" if dim else "x to", aggr=reducer(given, aggr, **rest), bn=Layer("batch_norm",
                 "") if batch_norm else None, bias=bias)


@pyg
def EdgeConv(given, nn, aggr="max", **rest):
    common(**rest)
    net, width = network(nn)
    return Layer("edge_conv", "x to", O=width, nn=net, aggr=reducer(given, aggr, **rest))


@pyg
def NNConv(given, in_channels, out_channels, nn, aggr="add", root_weight=True, bias=True, **rest):
    common(**rest)
    return Layer("nn_conv", "x e to", O=out_channels, nn=network(nn)[0], aggr=reducer(given, aggr, **rest), root_weight=root_weight, bias=bias)


@pyg
def PDNConv(given, in_channels, out_channels, edge_dim, hidden_channels, add_self_loops=True, normalize=True, bias=True, **rest):
    return Layer("pdn", "x e", O=out_channels, hidden_channels=hidden_channels, add_self_loops=add_self_loops,
                 normalize=normalize, bias=bias, **messages(given, **rest))


@pyg
def GatedGraphConv(given, out_channels, num_layers, aggr="add", bias=True, **rest):
    common(**rest)
    return Layer("gated_graph", "x w", O=out_channels, num_layers=num_layers, aggr=reducer(given, aggr, **rest), bias=bias)


@pyg
def PNAConv(given, in_channels, out_channels, aggregators, scalers, deg, edge_dim=None, towers=1, pre_layers=1, post_layers=1,
            divide_input=False, act="relu", act_kwargs=None, train_norm=False, **rest):
    common(**rest)
    word = activation(act, act_kwargs) or Word("identity")
    own = isinstance(act, str) and word.startswith("prelu")  # a name makes a module for each place, a module stands in all
    if own and act_kwargs:
        raise Unsayable("parameters of each place's own that begin with other numbers")
    return Layer("pna", "x e" if edge_dim else "x", O=out_channels, deg=deg, aggregators=reducer(given, aggregators),
                 scalers=scalers_of(scalers), towers=towers, divide_input=divide_input, pre_layers=pre_layers,
                 post_layers=post_layers, act=Word("prelu") if own else word, own_act=own, train_norm=train_norm)


NORMS = {"batch": "batch_norm", "layer": "row_norm", "instance": "row_instance_norm", None: None}


@pyg
def GENConv(given, in_channels, out_channels, aggr="softmax", t=1.0, learn_t=False, p=1.0, learn_p=False, msg_norm=False,
            learn_msg_scale=False, norm="batch", num_layers=2, expansion=2, eps=1e-7, bias=False, edge_dim=None, **rest):
    common(**rest)
    if norm not in NORMS:
        raise Unsayable("norm = %s" % norm)
    words = {"softmax": "softmax", "softmax_sg": "softmax_sg", "power": "powermean", "powermean": "powermean"}
    aggr = Word(words[aggr]) if isinstance(aggr, str) and aggr in words else reducer(given, aggr, **rest)
    return Layer("gen", "x to e", O=out_channels, aggr=aggr, t=t, learn_t=learn_t, p=p, learn_p=learn_p, msg_norm=msg_norm,
                 learn_msg_scale=learn_msg_scale, norm=NORMS[norm] and Word(NORMS[norm]), num_layers=num_layers,
                 expansion=expansion, eps=eps, bias=bias)


@pyg
def DNAConv(given, channels, heads=1, groups=1, dropout=0.0, cached=False, normalize=True, add_self_loops=True, bias=True, **rest):
    return Layer("dna", "x w", H=heads, groups=groups, add_self_loops=add_self_loops, normalize=normalize, bias=bias,
                 **messages(given, **rest))


@pyg
def GMMConv(given, in_channels, out_channels, dim, kernel_size, separate_gaussians=False, aggr="mean", root_weight=True, bias=True,
            **rest):
    common(**rest)
    return Layer("gmm", "x e to", O=out_channels, kernel_size=kernel_size, separate_gaussians=separate_gaussians,
                 aggr=reducer(given, aggr, **rest), root_weight=root_weight, bias=bias)


@pyg
def SplineConv(given, in_channels, out_channels, dim, kernel_size, is_open_spline=True, degree=1, aggr="mean", root_weight=True,
               bias=True, **rest):
    common(**rest)
    sizes = kernel_size if isinstance(kernel_size, list) else [kernel_size] * dim
    is_open = is_open_spline if isinstance(is_open_spline, list) else [is_open_spline] * dim
    return Layer("spline", "x e to", O=out_channels, kernel_size=sizes, is_open_spline=is_open, degree=degree,
                 aggr=reducer(given, aggr, **rest),
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
    return Layer("pointnet", "x pos to_pos", add_self_loops=add_self_loops, aggr=reducer(given, aggr, **rest),
                 **local_and_global(local_nn, global_nn))


@pyg
def PPFConv(given, local_nn, global_nn=None, add_self_loops=True, aggr="max", **rest):
    common(**rest)
    return Layer("ppf", "x pos to_pos normal to_normal", add_self_loops=add_self_loops, aggr=reducer(given, aggr, **rest),
                 **local_and_global(local_nn, global_nn))


@pyg
def PointTransformerConv(given, in_channels, out_channels, pos_nn=None, attn_nn=None, add_self_loops=True, **rest):
    nets = {k: network(v)[0] for k, v in (("pos_nn", pos_nn), ("attn_nn", attn_nn)) if v}
    return Layer("point_transformer", "x pos to to_pos", O=out_channels, add_self_loops=add_self_loops, **nets,
                 **messages(given, **rest))


@pyg
def PointGNNConv(given, mlp_h, mlp_f, mlp_g, aggr="max", **rest):
    common(**rest)
    return Layer("point_gnn", "x pos", mlp_h=network(mlp_h)[0], mlp_f=network(mlp_f)[0], mlp_g=network(mlp_g)[0],
                 aggr=reducer(given, aggr, **rest))


# ---- tier 3 ----

@pyg
def MFConv(given, in_channels, out_channels, max_degree=10, bias=True, **rest):
    return Layer("mf", "x to", O=out_channels, max_degree=max_degree, bias=bias, **messages(given, **rest))


def matrices(num_bases, num_blocks):
    return dict(num_bases=num_bases, num_blocks=num_blocks)


@pyg
def RGCNConv(given, in_channels, out_channels, num_relations, num_bases=None, num_blocks=None, aggr="mean", root_weight=True,
             is_sorted=False, bias=True, **rest):
    common(**rest)
    rows = {} if given & {"x", "row"} else {"F": in_channels}
    return Layer("rgcn", "x rel to row", O=out_channels, root_weight=root_weight, bias=bias, aggr=reducer(given, aggr, **rest),
                 **matrices(num_bases, num_blocks), **rows)


@pyg
def FastRGCNConv(given, *args, **named):
    return RGCNConv(given, *args, **named)


@pyg
def RGATConv(given, in_channels, out_channels, num_relations, num_bases=None, num_blocks=None, mod=None,
             attention_mechanism="across-relation", attention_mode="additive-self-attention", heads=1, dim=1, concat=True,
             negative_slope=0.2, dropout=0.0, edge_dim=None, bias=True, aggr="add", **rest):
    common(**rest)
    mode = Word(attention_mode.replace("-self-attention", ""))
    return Layer("rgat", "x rel e", H=heads, D=out_channels, dim=dim, mod=mod and Word(mod.replace("-", "_")),
                 attention_mechanism=Word(attention_mechanism.replace("-", "_")), attention_mode=mode, concat=concat,
                 negative_slope=negative_slope, bias=bias, aggr=reducer(given, aggr, **rest), **matrices(num_bases, num_blocks))


@pyg
def FiLMConv(given, in_channels, out_channels, num_relations=1, nn=None, act="ReLU()", aggr="mean", **rest):
    common(**rest)
    act = Made("ReLU") if act == "ReLU()" else act
    layer = Layer("film", "x rel to", O=out_channels, num_relations=num_relations, nn=nn and Word("own_network"), act=activation(act),
                  aggr=reducer(given, aggr, **rest))
    layer.network = nn and own_network(nn)
    return layer


@pyg
def HEATConv(given, in_channels, out_channels, num_node_types, num_edge_types, edge_type_emb_dim, edge_dim, edge_attr_emb_dim,
             heads=1, concat=True, negative_slope=0.2, dropout=0.0, root_weight=True, bias=True, **rest):
    return Layer("heat", "x kind rel e", O=out_channels, H=heads, type_emb=edge_type_emb_dim, attr_emb=edge_attr_emb_dim,
                 concat=concat, negative_slope=negative_slope, root_weight=root_weight, bias=bias, **messages(given, **rest))


# ---- tier 5 ----

@pyg
def SuperGATConv(given, in_channels, out_channels, heads=1, concat=True, negative_slope=0.2, dropout=0.0, add_self_loops=True,
                 bias=True, attention_type="MX", neg_sample_ratio=0.5, edge_sample_ratio=1.0, is_undirected=False, **rest):
    return Layer("supergat", "x", H=heads, D=out_channels, attention_type=Word(attention_type.lower()), concat=concat,
                 negative_slope=negative_slope, add_self_loops=add_self_loops, bias=bias,
                 **({"loss": True, "others": Word("data.neg_edge_index")} if "neg_edge_index" in given else {}),
                 **messages(given, fixed=concat, **rest))


@pyg
def PANConv(given, in_channels, out_channels, filter_size, **rest):
    common(**rest)
    layer = Layer("pan", "x", O=out_channels, filter_size=filter_size, N=given.n_src)
    layer.outputs = [0, Places(2), Entries(1, 2)]
    return layer


@pyg
def WLConv(given):
    if "one_hot" in given:
        return Formula("{\n  colour: node index[F] = sum(where(x == 1, iota(F), 0), F)\n  return wl(colour)\n}", "x")
    return Formula("wl(x)", "x")


@pyg
def MeshCNNConv(given, in_channels, out_channels, kernels=None):
    if kernels:
        raise Unsayable("kernels of one's own")
    return Layer("mesh_cnn", "x", O=out_channels)


ATTENTION = {"multihead": ("multihead_attention", {"bias": "bias", "add_bias_kv": "add_bias_kv", "add_zero_attn": "add_zero_attn"}),
             "performer": ("performer_attention", {"head_channels": "D", "kernel": "kernel", "qkv_bias": "qkv_bias", "attn_out_bias": "bias"})}


def attention_to_all(given, attn_type, channels, heads, attn_kwargs):
    more = {k: v for k, v in (attn_kwargs or {}).items() if k != "dropout"}
    layer, names = ATTENTION[attn_type]
    if not all(name in names for name in more):
        raise Unsayable("attention with %s" % ", ".join(more))
    options = {names[k]: activation(v) if k == "kernel" else v for k, v in more.items()}
    if attn_type == "performer":
        options = {"D": 64, "padded": "batch" in given, **options}
        options["D"] = channels // heads if options["D"] is None else options["D"]
    return Layer(layer, "", H=heads, **options)


@pyg
def GPSConv(given, channels, conv=None, heads=1, dropout=0.0, act="relu", act_kwargs=None, norm="batch_norm", norm_kwargs=None,
            attn_type="multihead", attn_kwargs=None):
    norms = {"norm%d" % i: normalisation(norm, channels, norm_kwargs, given) if norm else Word("identity") for i in (1, 2, 3)}
    return Layer("gps", "x e w", conv=make(conv, given) if conv else None, attn=attention_to_all(given, attn_type, channels, heads, attn_kwargs),
                 act=activation(act, act_kwargs), **norms)


@pyg
def DynamicEdgeConv(given, nn, k, aggr="max", num_workers=None, **rest):
    common(**rest)
    net, width = network(nn)
    return Layer("dynamic_edge", "x to", O=width, nn=net, k=k, aggr=reducer(given, aggr, **rest))


@pyg
def GravNetConv(given, in_channels, out_channels, space_dimensions, propagate_dimensions, k, num_workers=None, **rest):
    common(**rest)
    return Layer("gravnet", "x to", O=out_channels, space_dimensions=space_dimensions, propagate_dimensions=propagate_dimensions, k=k)


@pyg
def XConv(given, in_channels, out_channels, dim, kernel_size, hidden_channels=None, dilation=1, bias=True, num_workers=1):
    return Layer("x_conv", "x pos", O=out_channels, kernel_size=kernel_size, hidden_channels=hidden_channels, dilation=dilation,
                 bias=bias)
