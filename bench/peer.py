#!/usr/bin/env python3
"""One peer (PyTorch Geometric or DGL) as a server: builds layers and networks, times them, says how far off they are.

usage: peer.py PEER      PEER: pyg, pyg_sparse (SparseTensor of torch_sparse), pyg_csr (torch's own sparse tensors), pyg_fast (PyG's Fast layers), pyg_compile (torch.compile), dgl

Jobs are JSON lines on stdin, answers JSON lines on stdout:
  {"do": "open", "model", "data", "width", "threads", "device", "weights", "dtype"}  makes the layer (in a child process, until `close`)
  {"do": "dump", "to": FILE.npz}       param.*, x, cot, out, grad.x, grad.in.*, grad.param.* of one forward and backward
  {"do": "compare", "with": FILE.npz}  the largest difference from that dump relative to each tensor's largest element
  {"do": "time", "mode": infer|grad|epoch, "iters", "beyond"}    milliseconds of each run behind the warm-up; none where a run of the
                                       warm-up takes more than `beyond` milliseconds: `over` is then what it took
Layers read x.npy, cot.npy and their edge inputs from the folder `data`, whose edges are sorted by target; networks (net_*) read
its features and labels; layers on a schema (hgt, han, hetero) a folder of typed_graph.py. What is inside the clock: README.md. `peak_bytes` is what the process grew beyond what was in use before the
first run of that mode, on a GPU what torch's allocator held at most; there the clock stops when the device has done the work.
Never part of the product: it runs inside the virtual environments that bench/peers makes.
"""
import ctypes
import gc
import json
import os
import resource
import sys
import time
import warnings

warnings.filterwarnings("ignore")
os.environ["DGLBACKEND"] = "pytorch"
REPLY = os.fdopen(os.dup(1), "w")  # libraries print on stdout
os.dup2(2, 1)
PEER = sys.argv[1]
HEADS, N_EDGE_FEATURES, N_RELATIONS = 8, 16, 8

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

if PEER == "dgl":
    import dgl
    import dgl.function as fn
    import dgl.nn.pytorch as d
    VERSIONS = "torch %s, dgl %s" % (torch.__version__, dgl.__version__)
else:
    import torch_geometric
    from torch_geometric import nn as g
    VERSIONS = "torch %s, torch_geometric %s" % (torch.__version__, torch_geometric.__version__)


class Unsupported(Exception):
    pass


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, o), nn.ReLU(), nn.Linear(o, o))


def edge_input(model):
    return {"gmm": "pseudo", "cg": "edge_attr", "gine": "edge_attr", "custom": "edge_attr",
            "rgcn": "edge_type", "rgat": "edge_type", "film": "edge_type"}.get(model)


class Gates(nn.Module):
    """The linear maps of `custom`, a message that no library has: gated, squashed, weighted by distance."""

    def __init__(self, i, o):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(i, o), nn.Linear(i, o), nn.Linear(i, o)
        self.e, self.out = nn.Linear(N_EDGE_FEATURES, o), nn.Linear(2 * o, o)


def message_of(p, q, v, e):
    return torch.sigmoid(p + q + e) * torch.tanh(v) * torch.exp(-((p - q) ** 2).mean(-1, keepdim=True))


# ---- PyG ------------------------------------------------------------------------------------------------------------

LOOPED = ["gat", "gatv2", "agnn", "egc"]  # given a graph with loops, made once: told not to add them at each run


def sgc(i, o):
    """PyG's layer with its normalised graph kept: its own `cached` would keep what the features become, and give them no gradient."""
    class Sgc(g.SGConv):
        norm = None

        def forward(self, x, graph):
            if self.norm is None:
                made = g.conv.gcn_conv.gcn_norm(graph, None, x.size(0), False, True, self.flow, x.dtype)
                self.norm = made if isinstance(made, tuple) else (made, None)
            for _ in range(self.K):
                x = self.propagate(self.norm[0], x=x, edge_weight=self.norm[1])
            return self.lin(x)
    return Sgc(i, o, K=2)


def pyg_layer(model, i, o, last, degrees):
    per_head = o if last else o // HEADS
    heads = {"heads": 1 if last else HEADS}
    if model == "custom":
        class Custom(g.MessagePassing):
            def __init__(self):
                super().__init__(aggr=["mean", "max"])
                self.gates = Gates(i, o)

            def forward(self, x, edge_index, edge_attr):
                m = self.gates
                return m.out(self.propagate(edge_index, p=m.a(x), q=m.b(x), v=m.c(x), e=m.e(edge_attr)))

            def message(self, p_i, q_j, v_j, e):
                return message_of(p_i, q_j, v_j, e)
        return Custom()
    make = {
        "sum": lambda: g.SimpleConv("sum"),
        "gcn": lambda: g.GCNConv(i, o, cached=True),
        "sage_mean": lambda: g.SAGEConv(i, o),
        "sage_max": lambda: g.SAGEConv(i, o, aggr="max"),
        "gin": lambda: g.GINConv(mlp(i, o)),
        "gat": lambda: g.GATConv(i, per_head, add_self_loops=False, **heads),
        "gatv2": lambda: g.GATv2Conv(i, per_head, add_self_loops=False, **heads),
        "transformer": lambda: g.TransformerConv(i, per_head, **heads),
        "agnn": lambda: g.AGNNConv(add_self_loops=False),
        "edgeconv": lambda: g.EdgeConv(mlp(2 * i, o)),
        "edgeconv_linear": lambda: g.EdgeConv(nn.Linear(2 * i, o)),
        "gmm": lambda: g.GMMConv(i, o, dim=2, kernel_size=3),
        "pna": lambda: g.PNAConv(i, o, ["mean", "min", "max", "std"], ["identity", "amplification", "attenuation"], degrees()),
        "appnp": lambda: g.APPNP(10, 0.1, cached=True),
        "sgc": lambda: sgc(i, o),
        "gen": lambda: g.GENConv(i, o, aggr="softmax", learn_t=True),
        "cg": lambda: g.CGConv(i, dim=N_EDGE_FEATURES),
        "gine": lambda: g.GINEConv(mlp(i, o), edge_dim=N_EDGE_FEATURES),
        "resgated": lambda: g.ResGatedGraphConv(i, o),
        "egc": lambda: g.EGConv(i, o, ["sum", "mean", "max"], 8, 4, add_self_loops=False),
        "gatedgraph": lambda: g.GatedGraphConv(o, 2),
        "rgcn": lambda: g.RGCNConv(i, o, N_RELATIONS),
        "rgat": lambda: g.RGATConv(i, per_head, N_RELATIONS, **heads),
        "film": lambda: g.FiLMConv(i, o, N_RELATIONS),
    }.get(model)
    if PEER == "pyg_fast":
        make = {"rgcn": lambda: g.FastRGCNConv(i, o, N_RELATIONS)}.get(model)
    if not make:
        raise Unsupported("no such layer here")
    return make()


def pyg_graph(edges, n, model):
    """The graph as the layer wants it, sorted by target: all that the graph alone decides is made here, outside the clock."""
    if model in LOOPED:
        from torch_geometric.utils import add_self_loops, remove_self_loops, sort_edge_index
        edges = sort_edge_index(add_self_loops(remove_self_loops(edges)[0], num_nodes=n)[0], num_nodes=n, sort_by_row=False)
    if PEER not in ("pyg_sparse", "pyg_csr"):
        return edges
    if edge_input(model):
        raise Unsupported("edge inputs: a sparse tensor has one value per edge")
    if PEER == "pyg_csr":
        starts = torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(edges[1], minlength=n).cumsum(0)])
        return torch.sparse_csr_tensor(starts, edges[0], torch.ones(edges.shape[1]), (n, n))
    try:
        from torch_sparse import SparseTensor
    except ImportError:
        raise Unsupported("torch_sparse is not installed")
    graph = SparseTensor(row=edges[1], col=edges[0], sparse_sizes=(n, n))
    graph.fill_cache_()
    return graph


# ---- DGL ------------------------------------------------------------------------------------------------------------

class DglSum(nn.Module):
    def forward(self, graph, x):
        with graph.local_scope():
            graph.ndata["x"] = x
            graph.update_all(fn.copy_u("x", "m"), fn.sum("m", "r"))
            return graph.ndata["r"]


class DglCustom(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.gates = Gates(i, o)

    def forward(self, graph, x, edge_attr):
        m = self.gates
        with graph.local_scope():
            graph.ndata["p"], graph.ndata["q"], graph.ndata["v"] = m.a(x), m.b(x), m.c(x)
            graph.edata["e"] = m.e(edge_attr)
            graph.apply_edges(lambda z: {"m": message_of(z.dst["p"], z.src["q"], z.src["v"], z.data["e"])})
            graph.update_all(fn.copy_e("m", "m"), fn.mean("m", "mean"))
            graph.update_all(fn.copy_e("m", "m"), fn.max("m", "max"))
            return m.out(torch.cat([graph.ndata["mean"], graph.ndata["max"]], -1))


class DglGmm(nn.Module):
    """DGL's layer, and the root weight that PyG's has."""

    def __init__(self, i, o):
        super().__init__()
        self.conv = d.GMMConv(i, o, 2, 3, "mean", allow_zero_in_degree=True)
        self.root = nn.Linear(i, o, bias=False)

    def forward(self, graph, x, pseudo):
        return self.conv(graph, x, pseudo) + self.root(x)


class DglRgcn(nn.Module):
    """DGL's layer, and the mean by relation that PyG's takes."""

    def __init__(self, i, o):
        super().__init__()
        self.conv, self.norm = d.RelGraphConv(i, o, N_RELATIONS), None

    def forward(self, graph, x, edge_type):
        if self.norm is None:
            of = graph.edges()[1] * N_RELATIONS + edge_type
            self.norm = (1 / torch.bincount(of)[of]).to(x.dtype).unsqueeze(1)
        return self.conv(graph, x, edge_type, norm=self.norm)


# model: (constructor(i, o, last), with loops, {DGL's name: PyG's name, or how to make it from PyG's parameters})
T = lambda name: (lambda p: p[name].T)
DGL = {
    "sum": (lambda i, o, last: DglSum(), False, {}),
    "gcn": (lambda i, o, last: d.GraphConv(i, o), True, {"weight": T("lin.weight"), "bias": "bias"}),
    "sage_mean": (lambda i, o, last: d.SAGEConv(i, o, "mean"), False,
                  {"fc_neigh.weight": "lin_l.weight", "fc_self.weight": "lin_r.weight", "fc_self.bias": "lin_l.bias"}),
    "gin": (lambda i, o, last: d.GINConv(mlp(i, o), "sum"), False,
            dict([("eps", "eps")] + [("apply_func." + k, "nn." + k) for k in ("0.weight", "0.bias", "2.weight", "2.bias")])),
    "gat": (lambda i, o, last: d.GATConv(i, o if last else o // HEADS, 1 if last else HEADS), True,
            {"fc.weight": "lin.weight", "attn_l": "att_src", "attn_r": "att_dst", "bias": "bias"}),
    "gatv2": (lambda i, o, last: d.GATv2Conv(i, o if last else o // HEADS, 1 if last else HEADS), True,
              {"fc_src.weight": "lin_l.weight", "fc_src.bias": "lin_l.bias", "fc_dst.weight": "lin_r.weight",
               "fc_dst.bias": "lin_r.bias", "attn": "att"}),
    "agnn": (lambda i, o, last: d.AGNNConv(), True, {"beta": "beta"}),
    "edgeconv_linear": (lambda i, o, last: d.EdgeConv(i, o, allow_zero_in_degree=True), False,
                        {"theta.weight": lambda p: -p["nn.weight"][:, p["nn.weight"].shape[1] // 2:],
                         "phi.weight": lambda p: p["nn.weight"][:, :p["nn.weight"].shape[1] // 2],
                         "theta.bias": lambda p: p["nn.bias"] * 0, "phi.bias": "nn.bias"}),
    "gmm": (lambda i, o, last: DglGmm(i, o), False,
            {"conv.mu": "mu", "conv.inv_sigma": lambda p: 1 / p["sigma"], "conv.fc.weight": T("g"), "conv.bias": "bias",
             "root.weight": "root.weight"}),
    "appnp": (lambda i, o, last: d.APPNPConv(10, 0.1), True, {}),
    "sgc": (lambda i, o, last: d.SGConv(i, o, k=2), True, {"fc.weight": "lin.weight", "fc.bias": "lin.bias"}),
    "rgcn": (lambda i, o, last: DglRgcn(i, o), False,
             {"conv.linear_r.W": "weight", "conv.loop_weight": "root", "conv.h_bias": "bias"}),
    "custom": (lambda i, o, last: DglCustom(i, o), False, None),  # PyG's own names
}


def dgl_take(layer, names, params):
    """Sets the parameters of a DGL layer from PyG's. What DGL's layer has more must be zero for it to be the same layer."""
    for name, own in list(layer.named_parameters()) + list(layer.named_buffers()):
        if names is None:
            value = params[name]
        elif name in names:
            value = params[names[name]] if isinstance(names[name], str) else names[name](params)
        else:
            value = np.zeros(tuple(own.shape), np.float32)
        own.data.copy_(torch.from_numpy(np.array(value, np.float32)).reshape(own.shape))


# ---- one open layer or network ---------------------------------------------------------------------------------------

class Case:
    def __init__(self, job):
        global N_RELATIONS
        N_RELATIONS = job.get("relations", N_RELATIONS)
        torch.set_num_threads(job["threads"])
        self.device = job.get("device", "cpu")
        torch.set_default_device(self.device)
        torch.manual_seed(0)
        self.folder, self.width, self.model = job["data"], job["width"], job["model"]
        self.is_net = self.model.startswith("net_")
        self.name = self.model[4:] if self.is_net else self.model
        edges = self.array("edge_index").astype(np.int64)
        if self.is_net:
            edges = edges[:, np.lexsort((edges[0], edges[1]))]
        self.edges = self.tensor(edges)
        self.x = self.tensor(self.features()).contiguous()
        self.n = len(self.x)
        self.edge_inputs = {k: self.tensor(self.array(k)) for k in [edge_input(self.name)] if k}
        if self.is_net:
            self.y = self.tensor(self.array("y").astype(np.int64))
            self.mask = self.tensor(self.array("train_mask"))
            sizes = [(self.x.shape[1], self.width, False), (self.width, int(self.y.max()) + 1, True)]
        else:
            self.cot = self.tensor(self.array("cot"))
            sizes = [(self.width, self.width, False)]
        self.layers = nn.ModuleList([self.make(*s) for s in sizes])
        if job.get("weights"):
            self.take(np.load(job["weights"]))
        if job.get("dtype") == "f64":
            self.to_f64()
        self.run = torch.compile(self.forward) if PEER == "pyg_compile" else self.forward
        self.started, self.base = set(), 0
        self.adam = torch.optim.Adam(self.layers.parameters(), 0.01) if self.is_net else None

    def tensor(self, array):
        return torch.from_numpy(array).to(self.device)

    def to_f64(self):
        self.layers.double()
        self.x, self.cot = self.x.double(), self.cot.double()
        self.edge_inputs = {k: v.double() if v.is_floating_point() else v for k, v in self.edge_inputs.items()}

    def array(self, name):
        return np.load(os.path.join(self.folder, name + ".npy"))

    def features(self):
        if os.path.exists(os.path.join(self.folder, "x.npy")):
            return self.array("x")
        with open(os.path.join(self.folder, "meta.json")) as f:
            width = json.load(f)["feature_dim"]
        starts = self.array("x_indptr")
        x = np.zeros((len(starts) - 1, width), np.float32)
        x[np.repeat(np.arange(len(x)), np.diff(starts)), self.array("x_indices")] = self.array("x_data")
        return x

    def make(self, i, o, last):
        if PEER == "dgl":
            if self.name not in DGL:
                raise Unsupported("no layer that computes the same")
            if not hasattr(self, "graph"):
                self.graph = dgl.graph((self.edges[0], self.edges[1]), num_nodes=self.n)
                if DGL[self.name][1]:
                    self.graph = dgl.add_self_loop(self.graph)
            return DGL[self.name][0](i, o, last)
        if not hasattr(self, "graph"):
            self.graph = pyg_graph(self.edges, self.n, self.name)
        return pyg_layer(self.name, i, o, last, lambda: torch.bincount(torch.bincount(self.edges[1], minlength=self.n)))

    def take(self, stored):
        for k, layer in enumerate(self.layers):
            head = "param.layers.%d." % k if self.is_net else "param."
            params = {name[len(head):]: stored[name] for name in stored.files if name.startswith(head)}
            if PEER == "dgl":
                dgl_take(layer, DGL[self.name][2], params)
            else:
                layer.load_state_dict({name: torch.from_numpy(v) for name, v in params.items()})

    def named(self):
        """What parameters are named below, and what stands before their names."""
        return (self.layers, "layers.") if self.is_net else (self.layers[0], "")

    def forward(self, x):
        for k, layer in enumerate(self.layers):
            if k:
                x = F.relu(x)
            x = layer(self.graph, x, *self.edge_inputs.values()) if PEER == "dgl" else layer(x, self.graph, *self.edge_inputs.values())
            x = x.flatten(1) if x.dim() == 3 else x
        return x

    def step(self, mode):
        if mode == "infer":
            with torch.no_grad():
                return self.run(self.x)
        if mode == "grad":  # gradients of all that gnnc's vjp gives: inputs and parameters
            for t in [self.x] + [v for v in self.edge_inputs.values() if v.is_floating_point()]:
                t.requires_grad_(True)
                t.grad = None
            self.layers.zero_grad(set_to_none=True)
            out = self.run(self.x)
            out.backward(self.cot[:, :out.shape[1]])
            return out
        self.adam.zero_grad(set_to_none=True)
        out = self.run(self.x)
        F.cross_entropy(out[self.mask], self.y[self.mask]).backward()
        self.adam.step()
        return out

    def results(self):
        """Outputs and gradients of one step; of a network with the loss's cotangent."""
        self.layers.train()
        if self.is_net:
            with torch.no_grad():
                out = self.run(self.x)
            leaf = out.clone().requires_grad_(True)
            F.cross_entropy(leaf[self.mask], self.y[self.mask]).backward()
            self.cot = leaf.grad
        out = self.step("grad")
        t = {"out": out, "cot": self.cot, "grad.x": self.x.grad}
        t.update({"grad.in." + k: v.grad for k, v in self.edge_inputs.items() if v.is_floating_point()})
        t = {k: v.detach().cpu().numpy().copy() for k, v in t.items()}
        self.x.requires_grad_(False)
        self.x.grad = None
        return t

    def dump(self, to):
        t = self.results()
        module, head = self.named()
        t.update({"grad.param." + head + k: v.grad.cpu().numpy() for k, v in module.named_parameters() if v.grad is not None})
        t.update({"param." + head + k: v.cpu().numpy() for k, v in module.state_dict().items()})
        np.savez(to, **t)
        self.layers.zero_grad(set_to_none=True)
        return {}

    def compare(self, other):
        """With PyG's dump: output and gradients of inputs, which depend on every parameter."""
        want, off = np.load(other), 0.0
        for k, v in self.results().items():
            e = np.abs(v - want[k]).reshape(-1)
            last = len(e) - 1 - (len(e) // 1000 if len(e) >= 10000 else 0)  # maxima of near ties, as in ours.differ
            off = max(off, float(np.partition(e, last)[last]) / max(float(np.abs(want[k]).max()), 1e-6))
        return {"off": off}

    def time(self, mode, iters, beyond):
        answer = {"ms": []}
        self.layers.train(mode != "infer")
        warm = 1 if iters < 3 else 3  # as `bench` of an executable does
        if mode not in self.started:
            self.started.add(mode)
            self.forget_peak()
            took = self.clock(mode)
            answer.update(first_s=took / 1e3, peak_bytes=self.peak())
            if PEER != "pyg_compile":  # its first run compiles
                warm -= 1
                if took > beyond:
                    return dict(answer, over=took)
        for _ in range(warm):
            took = self.clock(mode)
            if took > beyond:
                return dict(answer, over=took)
        answer["ms"] = [self.clock(mode) for _ in range(iters)]
        return answer

    def forget_peak(self):
        if self.device != "cpu":
            torch.cuda.reset_peak_memory_stats()
            return
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # what earlier runs freed would count as there before, and hide as much of this one
        self.base = status("VmRSS")
        try:
            with open("/proc/self/clear_refs", "w") as f:
                f.write("5")
        except OSError:
            pass

    def peak(self):
        return status("VmHWM") - self.base if self.device == "cpu" else torch.cuda.max_memory_allocated()

    def clock(self, mode):
        start = time.perf_counter()
        self.step(mode)
        if self.device != "cpu":
            torch.cuda.synchronize()
        return (time.perf_counter() - start) * 1e3


# ---- layers on a schema ----------------------------------------------------------------------------------------------

class AfterGelu(nn.Module):
    """A map of DGL's by type behind the gelu that PyG's HGTConv has there."""

    def __init__(self, lin):
        super().__init__()
        self.lin = lin

    def forward(self, h, types, presorted):
        return self.lin(F.gelu(h), types, presorted)


class TypedCase(Case):
    """A layer on a schema. PyG has a tensor for each kind of nodes; DGL's has one for all, nodes by kind and edges by relation."""

    def __init__(self, job):
        torch.set_num_threads(job["threads"])
        torch.manual_seed(0)
        self.device, self.folder, self.width, self.model = "cpu", job["data"], job["width"], job["model"]
        self.name, self.is_net, self.edge_inputs = self.model, False, {}
        with open(os.path.join(self.folder, "meta.json")) as f:
            meta = json.load(f)
        self.first, self.keys = meta["first"], [(s, r, t) for r, (s, t) in meta["relations"].items()]
        self.kinds = ["k%d" % k for k in range(len(self.first) - 1)]
        self.edges = {key: torch.from_numpy(self.array(key[1] + ".edge_index")) for key in self.keys}
        self.xs, self.cots = self.by_kind(self.array("x")), self.by_kind(self.array("cot"))
        self.layers = nn.ModuleList([self.dgl_layer() if PEER == "dgl" else self.pyg_layer()])
        if job.get("weights"):
            self.take(np.load(job["weights"]))
        if job.get("dtype") == "f64":
            self.layers.double()
            self.xs, self.cots = ([v.double() for v in list_] for list_ in (self.xs, self.cots))
        self.run = torch.compile(self.forward) if PEER == "pyg_compile" else self.forward
        self.started, self.base = set(), 0

    def by_kind(self, array):
        if PEER == "dgl":
            return [torch.from_numpy(array)]
        return [torch.from_numpy(array[a:b]).clone() for a, b in zip(self.first, self.first[1:])]

    def pyg_layer(self):
        w, about = self.width, (self.kinds, self.keys)
        make = {"hgt": lambda: g.HGTConv(w, w, about, heads=HEADS), "han": lambda: g.HANConv(w, w, about, heads=HEADS),
                "hetero": lambda: g.HeteroConv({key: g.SAGEConv((w, w), w) for key in self.keys})}
        if PEER not in ("pyg", "pyg_compile"):
            raise Unsupported("the same as pyg")
        layer = make[self.name]()
        for name, own in layer.named_parameters():
            if self.name == "hgt" and name.endswith("bias"):
                own.data.zero_()  # DGL's layer has none
        return layer

    def dgl_layer(self):
        if self.name != "hgt":
            raise Unsupported("no layer that computes the same")
        start = dict(zip(self.kinds, self.first))
        ends = [self.edges[k] + torch.tensor([[start[k[0]]], [start[k[2]]]]) for k in self.keys]
        edges = torch.cat(ends, 1)
        self.graph = dgl.graph((edges[0], edges[1]), num_nodes=self.first[-1])
        self.types = [torch.arange(len(n)).repeat_interleave(torch.tensor(n)) for n in
                      ([b - a for a, b in zip(self.first, self.first[1:])], [e.shape[1] for e in ends])]
        layer = d.HGTConv(self.width, self.width // HEADS, HEADS, len(self.kinds), len(self.keys), dropout=0)
        layer.linear_a = AfterGelu(layer.linear_a)
        return layer

    def take(self, stored):
        params = {name[len("param."):]: stored[name] for name in stored.files if name.startswith("param.")}
        if PEER != "dgl":
            self.layers[0].load_state_dict({name: torch.from_numpy(v) for name, v in params.items()})
            return
        w, n = self.width, len(self.keys)
        kqv = np.stack([params["kqv_lin.lins.%s.weight" % k].T for k in self.kinds])
        of = {"linear_%s.W" % name: lambda p, i=i: kqv[:, :, i * w:(i + 1) * w] for i, name in enumerate("kqv")}
        of["linear_a.lin.W"] = lambda p: np.stack([p["out_lin.lins.%s.weight" % k].T for k in self.kinds])
        of["skip"] = lambda p: np.concatenate([p["skip." + k] for k in self.kinds])
        for h in range(HEADS):
            of["relation_att.%d.W" % h] = lambda p, h=h: p["k_rel.weight"][h * n:(h + 1) * n]
            of["relation_msg.%d.W" % h] = lambda p, h=h: p["v_rel.weight"][h * n:(h + 1) * n]
            of["relation_pri.%d" % h] = lambda p, h=h: np.array([p["p_rel." + "__".join(k)][0, h] for k in self.keys])
        dgl_take(self.layers[0], of, params)

    def forward(self, *xs):
        if PEER == "dgl":
            return [self.layers[0](self.graph, xs[0], *self.types, presorted=True)]
        out = self.layers[0](dict(zip(self.kinds, xs)), self.edges)
        return [out[k] for k in self.kinds]

    def step(self, mode):
        if mode == "infer":
            with torch.no_grad():
                return self.run(*self.xs)
        for x in self.xs:
            x.requires_grad_(True)
            x.grad = None
        self.layers.zero_grad(set_to_none=True)
        out = self.run(*self.xs)
        torch.autograd.backward(out, self.cots)
        return out

    def results(self):
        self.layers.train()
        out = self.step("grad")
        t = {"out": out, "cot": self.cots, "grad.x": [x.grad for x in self.xs]}
        t = {k: torch.cat([p.detach() for p in v]).numpy() for k, v in t.items()}
        for x in self.xs:
            x.requires_grad_(False)
            x.grad = None
        return t


def status(key):
    with open("/proc/self/status") as f:
        return int(next(line for line in f if line.startswith(key)).split()[1]) * 1024


def limit_memory():
    """A peer that needs more than there is fails by itself and takes nobody along."""
    with open("/proc/meminfo") as f:
        free = int(next(line for line in f if line.startswith("MemAvailable")).split()[1]) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (int(free * 0.9), int(free * 0.9)))


def answer(value):
    REPLY.write(json.dumps(value) + "\n")
    REPLY.flush()


def guarded(work):
    try:
        answer(work())
        return True
    except Unsupported as e:
        answer({"unsupported": str(e)})
    except Exception as e:
        answer({"failed": "%s: %s" % (type(e).__name__, (str(e).strip().splitlines() or ["?"])[0][:200])})
    return False


def child(job):
    """Serves one layer until `close`."""
    if job.get("device", "cpu") == "cpu":  # the driver of a GPU reserves far more addresses than there is memory
        limit_memory()
    made = {}

    def start():
        made["case"] = (TypedCase if job.get("schema") else Case)(job)
        return {"versions": VERSIONS}
    if not guarded(start):
        return
    for line in iter(sys.stdin.readline, ""):
        job = json.loads(line)
        case = made["case"]
        if job["do"] == "close":
            answer({})
            return
        guarded({"dump": lambda: case.dump(job["to"]), "compare": lambda: case.compare(job["with"]),
                 "time": lambda: case.time(job["mode"], job["iters"], job["beyond"])}[job["do"]])


def main():
    for line in iter(sys.stdin.readline, ""):
        job = json.loads(line)
        if job["do"] != "open":
            answer({"failed": "nothing is open"})
            continue
        if job.get("device", "cpu") != "cpu":  # a driver does not outlive a fork
            child(job)
            continue
        pid = os.fork()  # imports are shared; memory and threads of one layer are not the next one's
        if pid == 0:
            os.environ["OMP_NUM_THREADS"] = str(job["threads"])
            child(job)
            os._exit(0)
        _, code = os.waitpid(pid, 0)
        if code:
            answer({"failed": "ended with status %d" % code})


main()
