"""PyG's reducers, pools and attention, and layers with arguments, of which shared/golden has no case, by PyG 2.8's own modules. Called by
record.py."""
import sys

import torch
from torch_geometric.nn import ASAPooling, DMoNPooling, GraphConv, MemPooling, PNAConv, PositionalEncoding, SignedConv, TemporalEncoding, aggr
from torch_geometric.nn import PolynormerAttention, SGFormerAttention, dense_mincut_pool, unpool

from record import N, Draw

TARGETS = 4


def reducer(folder, cls, name, ours, make, counts):
    """counts: how many rows each target has."""
    d = Draw(cls + name)
    index = torch.repeat_interleave(torch.arange(TARGETS), torch.tensor(counts))
    width = 4
    folder.case(cls, name, ["conv = " + ours, "return conv(x.src)"], make, lambda m, t: m(t["x"], t["index"], dim_size=TARGETS),
                {"x": ("src[%d]" % width, d.normal(len(index), width))}, {"index": index}, draw=d, keep=["frequency"],
                graph={"n_src": len(index), "n_dst": TARGETS})


def graph(folder, cls, name, ours, make, width):
    d = Draw(cls + name)
    folder.case(cls, name, ["conv = " + ours, "return conv(x)"], make, lambda m, t: m(t["x"], t["edge_index"]), {"x": ("node[%d]" % width, d.normal(N, width))},
                {"edge_index": d.edges(N, N, 14)}, draw=d, keep=["avg_deg"])


def signed(folder, name, ours, make, width):
    """Positive and negative edges as two lists."""
    d = Draw("SignedConv" + name)
    edges = {"edge_index": d.edges(N, N, 12), "foes_index": d.edges(N, N, 7)}
    folder.case("SignedConv", name, ["conv = " + ours, "return conv(x, foes = data.foes_index)"], make,
                lambda m, t: m(t["x"], t["edge_index"], t["foes_index"]), {"x": ("node[%d]" % width, d.normal(N, width))}, edges, draw=d,
                graph={"n_src": N, "n_dst": N, "edges": list(edges)})


class Matrix:
    """A sparse matrix as a dense one beside the places of its entries: torch derives no product of two sparse ones."""

    def __init__(self, value, there):
        self.value, self.there = value, there

    @staticmethod
    def of_edges(edge_index, value, size):
        value = torch.ones(edge_index.shape[1]) if value is None else value
        put = lambda v: torch.zeros(size).index_put(tuple(edge_index), v, accumulate=True)
        return Matrix(put(value), put(torch.ones_like(value)))

    def __matmul__(self, other):
        return Matrix(self.value @ other.value, self.there @ other.there)

    def t(self):
        return Matrix(self.value.t(), self.there.t())

    def index_select(self, dim, index):
        return Matrix(self.value.index_select(dim, index), self.there.index_select(dim, index))

    def to_sparse_csr(self):
        return self

    def size(self, dim):
        return self.value.size(dim)

    def edges(self):
        places = self.there.nonzero().t()
        return places, self.value[tuple(places)]


def pool(folder, name, ours, make, weighted):
    """Which clusters stay, and the matrix of the weights between them (1 where PyG gives none), as many columns as there were nodes; how many edges
    leave each."""
    d = Draw("ASAPooling" + name)
    edges = d.edges(N, N, 8)
    edges = edges[:, [i for i, (u, v) in enumerate(edges.t().tolist()) if u != v or [u, v] not in edges.t().tolist()[:i]]]  # quirk 1: no loop twice
    inputs = {"x": ("node[4]", d.normal(N, 4)), **({"w": ("edge", d.uniform(0.5, 2, edges.shape[1]))} if weighted else {})}

    def call(m, t):
        x, ends, w, _, kept = m(t["x"], t["edge_index"], t.get("w"))
        dense = torch.zeros(len(kept), N).index_put((ends[0], kept[ends[1]]), torch.ones(ends.shape[1]) if w is None else w)
        return x, dense, torch.bincount(ends[0], minlength=len(kept)).double()

    folder.case("ASAPooling", name, ["conv = " + ours, "s, y, weight, score = conv(x%s)" % (", w = w" if weighted else ""),
                                     "here: node[%d] = where(iota(%d) == id(node), 1, 0)" % (N, N), "here = here[s]",
                                     "rows, n = over s { (sum_out(%shere.dst), outdegree) }" % ("weight * " if weighted else ""), "return y, rows, n"],
                make, call, inputs, {"edge_index": edges}, draw=d)


class Call(torch.nn.Module):
    """A function as a module without parameters."""

    def __init__(self, function):
        super().__init__()
        self.forward = function


def given(folder, cls, name, ours, make, call, inputs, keep=(), graph=None):
    """Without edges. inputs: name -> (domain, shape); masks leave the last one out."""
    d = Draw(cls + name)
    drawn = {k: d.uniform(0.25, 2, *shape) for k, (_, shape) in inputs.items()}
    if "mask" in drawn:
        drawn["mask"] = (torch.arange(drawn["mask"].shape[1]) < drawn["mask"].shape[1] - 1).double().expand(drawn["mask"].shape).clone()
    text = lambda domain, shape: domain + ("[%s]" % ", ".join(map(str, shape)) if len(shape) else "")
    folder.case(cls, name, ours, make, call, {k: (text(domain, shape[1 if domain else 0:]), drawn[k]) for k, (domain, shape) in inputs.items()}, {}, draw=d,
                keep=keep, graph=graph)


def nearest(x, y, k, **_):
    """The numbers of the k rows of x nearest to each of y, as pairs (y, x): what an extension computes for PyG."""
    found = torch.cdist(y, x).argsort(dim=1, stable=True)[:, :k]
    return torch.stack([torch.arange(len(y)).repeat_interleave(k), found.reshape(-1)])


def plain(folder):
    """Modules of rows and of dense graphs."""
    dense = {"x": ("", (2, 5, 3)), "adj": ("", (2, 5, 5)), "s": ("", (2, 5, 4))}
    mask = {"mask": ("", (2, 5))}
    cut = lambda m, t: m(t["x"], t["adj"], t["s"], t.get("mask"), 1.5)
    given(folder, "dense_mincut_pool", "default", ["return dense_mincut_pool(x, adj, s, temp = 1.5)"], lambda: Call(dense_mincut_pool), cut, dense)
    given(folder, "dense_mincut_pool", "masked", ["return dense_mincut_pool(x, adj, s, mask, temp = 1.5)"], lambda: Call(dense_mincut_pool), cut, {**dense, **mask})
    del dense["s"]
    for name, more, ours in (("default", {}, "x, adj"), ("masked", mask, "x, adj, mask")):
        given(folder, "DMoNPooling", name, ["conv = dmon_pool(K = 4)", "return conv(%s)" % ours], lambda: DMoNPooling(3, 4),
              lambda m, t: m(t["x"], t["adj"], t.get("mask")), {**dense, **more})
    rows = {"x": ("node", (N, 4))}
    given(folder, "MemPooling", "two_heads", ["conv = mem_pool(O = 5, H = 2, K = 3, tau = 1.5)", "return conv(x)"], lambda: MemPooling(4, 5, 2, 3, 1.5),
          lambda m, t: [o if i == 0 else o[0] for i, o in enumerate(m(t["x"]))], rows)
    one = lambda m, t: m(t["x"][None])[0]
    for name, bias in (("default", False), ("bias", True)):
        word = "true" if bias else "false"
        given(folder, "SGFormerAttention", name, ["conv = sgformer_attention(H = 2, D = 3, qkv_bias = %s)" % word, "return conv(x)"],
              lambda bias=bias: SGFormerAttention(4, 2, 3, bias), one, rows)
        given(folder, "PolynormerAttention", name, ["conv = polynormer_attention(H = 2, D = 3, beta = 0.7, qkv_bias = %s, qk_shared = %s)" % (word, "false" if bias else "true"), "return conv(x)"],
              lambda bias=bias: PolynormerAttention(4, 2, 3, 0.7, bias, not bias), one, rows)
    given(folder, "PositionalEncoding", "default", ["return positional_encoding(x, O = 6)"], lambda: PositionalEncoding(6), lambda m, t: m(t["x"]), {"x": ("node", (N,))},
          keep=["frequency"])
    given(folder, "TemporalEncoding", "default", ["return temporal_encoding(x, O = 5)"], lambda: TemporalEncoding(5), lambda m, t: m(t["x"]), {"x": ("node", (N,))}, keep=["weight"])
    sys.modules["torch_geometric.nn.unpool.knn_interpolate"].knn = nearest
    given(folder, "knn_interpolate", "default", ["return knn_interpolate(x, pos, to, k = 3)"], lambda: Call(unpool.knn_interpolate),
          lambda m, t: m(t["x"], t["pos"], t["to"]), {"x": ("src", (7, 3)), "pos": ("src", (7, 2)), "to": ("dst", (N, 2))}, graph={"n_src": 7, "n_dst": N})


class Exact(aggr.EquilibriumAggregation):
    """It begins at zeros of single precision, and so has a first gradient of such."""

    def init_output(self, dim_size):
        return super().init_output(dim_size).double()


def record(folder):
    some, fed = [3, 0, 5, 1], [3, 2, 5, 1]
    reducer(folder, "SetTransformerAggregation", "two_seeds", "set_transformer_aggr(num_seed_points = 2, H = 2)",
            lambda: aggr.SetTransformerAggregation(4, 2, heads=2), some)
    reducer(folder, "SetTransformerAggregation", "norms_mean", "set_transformer_aggr(num_seed_points = 3, num_encoder_blocks = 2, concat = false, layer_norm = true)",
            lambda: aggr.SetTransformerAggregation(4, 3, 2, concat=False, layer_norm=True), fed)
    reducer(folder, "GraphMultisetTransformer", "default", "multiset_aggr(k = 3, H = 2)", lambda: aggr.GraphMultisetTransformer(4, 3, heads=2), some)
    reducer(folder, "GraphMultisetTransformer", "norms", "multiset_aggr(k = 2, num_encoder_blocks = 2, layer_norm = true)",
            lambda: aggr.GraphMultisetTransformer(4, 2, 2, layer_norm=True), fed)
    reducer(folder, "PatchTransformerAggregation", "several", "patch_transformer_aggr(O = 3, patch_size = 2, hidden = 4, H = 2, most = 6, aggrs = [mean, std, max])",
            lambda: aggr.PatchTransformerAggregation(4, 3, 2, 4, 1, 2, aggr=["mean", "std", "max"]), some)
    reducer(folder, "PatchTransformerAggregation", "cut", "patch_transformer_aggr(O = 3, patch_size = 4, hidden = 4, most = 7, num_transformer_blocks = 2, aggrs = [sum])",
            lambda: aggr.PatchTransformerAggregation(4, 3, 4, 4, 2, aggr="sum"), [3, 0, 6, 1])
    reducer(folder, "LSTMAggregation", "projected", "lstm_aggr(O = 5, proj_size = 3, most = 5, padded = true, num_layers = 2, bidirectional = true)",
            lambda: aggr.LSTMAggregation(4, 5, proj_size=3, num_layers=2, bidirectional=True), some)
    reducer(folder, "EquilibriumAggregation", "default", "equilibrium_aggr(O = 3, hidden = [5, 6])", lambda: Exact(4, 3, [5, 6]), some)
    reducer(folder, "EquilibriumAggregation", "two_steps", "equilibrium_aggr(O = 2, hidden = [7], steps = 2)", lambda: Exact(4, 2, [7], grad_iter=2), fed)
    signed(folder, "softmax", "signed_graphs(O = 3, aggr = softmax_aggr(learn = true, channels = 4))",
           lambda: SignedConv(4, 3, True, aggr=aggr.SoftmaxAggregation(learn=True, channels=4)), 4)
    signed(folder, "softmax_later", "signed_graphs(O = 3, first_aggr = false, bias = false, aggr = softmax_aggr(learn = true))",
           lambda: SignedConv(2, 3, False, bias=False, aggr=aggr.SoftmaxAggregation(learn=True)), 4)
    deg, more = torch.tensor([1, 3, 4, 2]), "deg = [1, 3, 4, 2], aggregators = [mean, max], scalers = [identity, amplification]"
    for name, pre, post in (("prelu_behind", 1, 2), ("prelu_in_all", 2, 3)):
        ours = "pna(O = 4, %s, towers = 2, pre_layers = %d, post_layers = %d, act = prelu())" % (more, pre, post)
        graph(folder, "PNAConv", name, ours, lambda pre=pre, post=post: PNAConv(
            3, 4, ["mean", "max"], ["identity", "amplification"], deg, towers=2, pre_layers=pre, post_layers=post, act=torch.nn.PReLU()), 3)
    asap = sys.modules["torch_geometric.nn.pool.asap"]
    asap.to_torch_csr_tensor = asap.to_torch_coo_tensor = Matrix.of_edges
    asap.to_edge_index = Matrix.edges
    pool(folder, "default", "asa_pooling(N = 10)", lambda: ASAPooling(4), False)
    pool(folder, "weights_loops", "asa_pooling(N = 10, ratio = 4, add_self_loops = true)", lambda: ASAPooling(4, 4, add_self_loops=True), True)
    pool(folder, "inside", "asa_pooling(N = 10, ratio = 0.7, gnn = graph_conv(O = 4))", lambda: ASAPooling(4, 0.7, GNN=GraphConv), True)
    plain(folder)
