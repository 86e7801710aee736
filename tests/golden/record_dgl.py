"""Layers of DGL whose formula PyG has not, by DGL 2.1's own modules. Called by record.py."""
import dgl
import torch
from dgl import nn

from record import N, Draw


def graph(t):
    s, d = t["edge_index"]
    return dgl.graph((s, d), num_nodes=N)


def relations(folder):
    for name, regularizer, norm, width in (("default", None, False, 5), ("basis_norm", "basis", True, 4), ("bdd", "bdd", False, 4)):
        d = Draw("rel" + name)
        e = d.edges(N, N, 14)
        inputs = {"x": ("node[%d]" % width, d.normal(N, width)), "rel": ("edge index[3]", d.kinds(3, e.shape[1]))}
        options = "" if regularizer is None else ", regularizer = %s, num_bases = 2" % regularizer
        if norm:
            inputs["w"] = ("edge", d.uniform(0.5, 2, e.shape[1]))
            options += ", layer_norm = true, act = tanh"
        folder.case("RelGraphConv", name, ["conv = rel_graph(O = 6%s)" % options, "return conv(x, rel%s)" % (", w = w" if norm else "")],
                    lambda: nn.RelGraphConv(width, 6, 3, regularizer, regularizer and 2, layer_norm=norm, activation=torch.tanh if norm else None),
                    lambda m, t: m(graph(t), t["x"], t["rel"], t["w"][:, None] if norm else None), inputs, {"edge_index": e}, draw=d)
    for name, width, norm in (("default", 6, False), ("other_width_norm", 5, True)):
        d = Draw("hgt" + name)
        e = d.edges(N, N, 14)
        inputs = {"x": ("node[%d]" % width, d.normal(N, width)), "kind": ("node index[2]", d.kinds(2, N)),
                  "rel": ("edge index[3]", d.kinds(3, e.shape[1]))}
        folder.case("HGTConv", name, ["conv = hgt_kinds(H = 2, D = 3, use_norm = %s)" % str(norm).lower(), "return conv(x, kind, rel)"],
                    lambda: nn.HGTConv(width, 3, 2, 2, 3, use_norm=norm), lambda m, t: m(graph(t), t["x"], t["kind"], t["rel"]), inputs,
                    {"edge_index": e}, draw=d)


def attention(folder):
    for name in ("default", "weighted"):
        d = Draw("egat" + name)
        e = d.edges(N, N, 14, fed=True)
        inputs = {"x": ("node[5]", d.normal(N, 5)), "e": ("edge[3]", d.normal(e.shape[1], 3))}
        if name == "weighted":
            inputs["w"] = ("edge", d.uniform(0.5, 2, e.shape[1]))
        folder.case("EGATConv", name, ["conv = egat(H = 2, D = 3, O = 4)", "return conv(x, e%s)" % (", w = w" if name == "weighted" else "")],
                    lambda: nn.EGATConv(5, 3, 4, 3, 2), lambda m, t: m(graph(t), t["x"], t["e"], t.get("w")), inputs, {"edge_index": e}, draw=d)
    d = Draw("edgegat")
    e = d.edges(N, N, 14)
    inputs = {"x": ("node[5]", d.normal(N, 5)), "e": ("edge[3]", d.normal(e.shape[1], 3))}
    folder.case("EdgeGATConv", "default", ["conv = edge_gat(H = 2, D = 4, residual = true)", "return conv(x, e)"],
                lambda: nn.EdgeGATConv(5, 3, 4, 2, allow_zero_in_degree=True), lambda m, t: m(graph(t), t["x"], t["e"]), inputs, {"edge_index": e}, draw=d)
    d = Draw("dotgat")
    e = d.edges(N, N, 14)
    folder.case("DotGatConv", "default", ["conv = dot_gat(H = 2, D = 4)", "return conv(x)"],
                lambda: nn.DotGatConv(5, 4, 2, allow_zero_in_degree=True), lambda m, t: m(graph(t), t["x"]), {"x": ("node[5]", d.normal(N, 5))},
                {"edge_index": e}, draw=d)


def descent(folder):
    for name, ours, theirs in (
            ("default", "", {}),
            ("attention", "attention = true, attn_first = true, use_eta = true, lam = 2, alpha = 0.25", dict(attention=True, attn_bef=True, use_eta=True, lam=2, alp=0.25)),
            ("plain_deep", "precond = false, before = 2, after = 2, norm = row_norm, attention = true, p = 0, T = 4",
             dict(precond=False, num_mlp_before=2, num_mlp_after=2, norm="layer", attention=True, p=0, T=4))):
        d = Draw("twirls" + name)
        e = d.edges(N, N, 14)
        folder.case("TWIRLSConv", name, ["conv = twirls(hidden = 5, K = 4, O = 3%s)" % (ours and ", " + ours), "return conv(x)"],
                    lambda: nn.TWIRLSConv(4, 3, 5, 4, **theirs), lambda m, t: m(graph(t), t["x"]), {"x": ("node[4]", d.normal(N, 4))},
                    {"edge_index": e}, draw=d)


def molecules(folder):
    for name, types in (("types", [1.0, 6.0]), ("values", None)):
        d = Draw("atomic" + name)
        e = d.edges(N, N, 14)
        x = torch.tensor([1.0, 6.0, 8.0], dtype=torch.float64)[d.kinds(3, N)] if types else d.normal(N)
        inputs = {"x": ("node", x), "d": ("edge", d.uniform(0, 3, e.shape[1]))}
        folder.case("AtomicConv", name, ["conv = atomic(K = 3, types = %s)" % ("[1, 6]" if types else "none"), "return conv(x, d)"],
                    lambda: nn.AtomicConv(torch.ones(3), torch.ones(3), torch.ones(3), types and torch.tensor(types)),
                    lambda m, t: m(graph(t), t["x"][:, None], t["d"][:, None]), inputs, {"edge_index": e}, draw=d, keep=["features_to_use"])
    d = Draw("cf")
    e = d.edges(N, N, 14)
    inputs = {"x": ("node[5]", d.normal(N, 5)), "e": ("edge[3]", d.normal(e.shape[1], 3))}
    folder.case("CFConv", "default", ["conv = cf(hidden = 4, O = 6)", "return conv(x, e)"],
                lambda: nn.CFConv(5, 3, 4, 6), lambda m, t: m(graph(t), t["x"], t["e"]), inputs, {"edge_index": e}, draw=d)
    for name in ("default", "edges"):
        d = Draw("egnn" + name)
        e = d.edges(N, N, 14)
        e = e[:, e[0] != e[1]]  # at a loop DGL divides 0 by 1e-30, and its derivative is NaN
        inputs = {"h": ("node[5]", d.normal(N, 5)), "pos": ("node[3]", d.normal(N, 3))}
        if name == "edges":
            inputs["e"] = ("edge[2]", d.normal(e.shape[1], 2))
        folder.case("EGNNConv", name, ["conv = egnn(hidden = 6, O = 4)", "return conv(h, pos%s)" % (", e = e" if name == "edges" else "")],
                    lambda: nn.EGNNConv(5, 6, 4, 2 if name == "edges" else 0), lambda m, t: m(graph(t), t["h"], t["pos"], t.get("e")), inputs,
                    {"edge_index": e}, draw=d)


def directions(folder):
    for name, dirs, cls in (("two_towers", True, nn.DGNConv), ("without_directions", False, nn.PNAConv)):
        d = Draw("dgn" + name)
        e = d.edges(N, N, 14)
        inputs = {"x": ("node[4]", d.normal(N, 4)), "e": ("edge[3]", d.normal(e.shape[1], 3))}
        more = ["dir1-av", "dir2-av", "dir1-dx", "dir2-dx"] if dirs else []
        if dirs:
            inputs["v"] = ("node[2]", d.normal(N, 2))
        folder.case("DGNConv" if dirs else "PNAConv", name,
                    ["conv = dgn(O = 4, delta = 1.5, aggregators = [mean, max, sum], towers = 2, per_graph = false%s)" % (", directions = [0, 1]" if dirs else ""),
                     "return conv(x, e = e%s)" % (", v = v" if dirs else "")],
                    lambda: cls(4, 4, ["mean", "max", "sum"] + more, ["identity", "amplification", "attenuation"], 1.5, num_towers=2, edge_feat_size=3),
                    lambda m, t: m(graph(t), t["x"], t["e"], t["v"]) if dirs else m(graph(t), t["x"], t["e"]), inputs, {"edge_index": e}, draw=d)
    for name, width, mode in (("other_width", 5, "eval"), ("residual", 4, "train")):
        d = Draw("gatedgcn" + name)
        e = d.edges(N, N, 14)
        inputs = {"x": ("node[%d]" % width, d.normal(N, width)), "e": ("edge[4]", d.normal(e.shape[1], 4))}
        folder.case("GatedGCNConv", name, ["conv = gated_gcn(O = 4)", "return conv(x, e)"], lambda: nn.GatedGCNConv(width, 4, 4),
                    lambda m, t: m(graph(t), t["x"], t["e"]), inputs, {"edge_index": e}, draw=d, mode=mode)


class Parts(torch.nn.Module):
    """GroupRevRes without the code that saves memory, which frees its inputs: the same formula by the same class."""

    def __init__(self, module, groups):
        super().__init__()
        whole = nn.GroupRevRes(module, groups)
        self.gnn_modules, self.groups, self.run = whole.gnn_modules, groups, type(whole)._forward

    def forward(self, g, x):
        return self.run(self, g, x)


def residuals(folder):
    for name, groups in (("two", 2), ("three", 3)):
        d = Draw("rev" + name)
        e = d.edges(N, N, 14)
        width = 2 * groups
        folder.case("GroupRevRes", name, ["conv = group_rev_res(groups = %d, conv = gin(nn = linear()))" % groups, "return conv(x)"],
                    lambda: Parts(nn.GINConv(torch.nn.Linear(2, 2), "sum"), groups), lambda m, t: m(graph(t), t["x"]),
                    {"x": ("node[%d]" % width, d.normal(N, width))}, {"edge_index": e}, draw=d, renamed={"apply_func": "nn"})


def record(folder):
    for part in (relations, attention, descent, molecules, directions, residuals):
        part(folder)
