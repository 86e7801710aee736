"""Layers that neither DGL nor PyG has, as their papers say them, in torch: sums by index_add, softmax by exp. Called by record.py."""
import torch
from torch import nn
from torch.nn import functional as F

from record import N, RELATIONS, TYPES, Draw


def sums(m, at, n):
    return torch.zeros((n,) + m.shape[1:], dtype=m.dtype).index_add(0, at, m)


def softmax(s, at, n):
    """Over the rows with one `at`."""
    z = (s - s.detach().max()).exp()
    return z / sums(z, at, n)[at]


class Named(nn.Module):
    """Parameters by the names of weight files: `attn_l`, `fc.weight`."""

    def __init__(self, shapes):
        super().__init__()
        for name, shape in shapes.items():
            at = self
            *path, last = name.split(".")
            for part in path:
                if not hasattr(at, part):
                    at.add_module(part, nn.Module())
                at = getattr(at, part)
            at.register_parameter(last, nn.Parameter(torch.empty(*shape)))

    def __getitem__(self, name):
        return dict(self.named_parameters())[name]


# ---- CompGCN (Vashishth et al., 2020): equations 2 and 3, with the normalisation of its code ----

def compose(a, b, opn):
    if opn == "sub":
        return a - b
    if opn == "mult":
        return a * b
    return torch.stack([(a * torch.roll(b, -k, -1)).sum(-1) for k in range(a.shape[-1])], -1)  # circular correlation


def comp_gcn(opn):
    def call(p, t):
        x, (s, d) = t["x"], t["edge_index"]
        degree = lambda at: sums(torch.ones(len(at), dtype=x.dtype), at, N)
        norm = lambda a, b: (degree(b)[a] * degree(b)[b]).pow(-0.5).nan_to_num(posinf=0)
        m = sums(norm(s, d)[:, None] * (compose(x[s], t["z"][t["rel"]], opn) @ p["w_in"]), d, N)
        m = m + sums(norm(d, s)[:, None] * (compose(x[d], t["back"][t["rel"]], opn) @ p["w_out"]), s, N)
        h = (m + compose(x, p["loop_rel"].expand(N, -1), opn) @ p["w_loop"]) / 3 + p["bias"]
        return torch.tanh(h), t["z"] @ p["w_rel"], t["back"] @ p["w_rel"]
    return call


# ---- Simple-HGN (Lv et al., 2021): equations 5 to 8 ----

def simple_hgn(p, t, H=2, D=3, beta=0.3):
    s, d = t["edge_index"]
    h = (t["x"] @ p["fc.weight"].T).view(N, H, D)
    r = (p["edge_emb.weight"] @ p["fc_e.weight"].T).view(3, H, -1)[t["rel"]]
    score = (h[s] * p["attn_l"]).sum(-1) + (h[d] * p["attn_r"]).sum(-1) + (r * p["attn_e"]).sum(-1)
    a = softmax(F.leaky_relu(score, 0.2), d, N)
    if "before" in t:
        a = (1 - beta) * a + beta * t["before"]
    y = sums(a[..., None] * h[s], d, N).flatten(1)
    y = y + (t["x"] @ p["res_fc.weight"].T if "res_fc.weight" in dict(p.named_parameters()) else t["x"])
    return F.elu(y + p["bias"]), a.detach()


def hgn_shapes(width, residual):
    shapes = {"fc.weight": (6, width), "edge_emb.weight": (3, 4), "fc_e.weight": (8, 4), "attn_l": (1, 2, 3), "attn_r": (1, 2, 3),
              "attn_e": (1, 2, 4), "bias": (1, 6)}
    return {**shapes, "res_fc.weight": (6, width)} if residual else shapes


# ---- NARS (Yu et al., 2020): equations 3 and 5, for several types of nodes ----

SUBSETS = [["writes", "wrote"], ["writes", "wrote", "cites", "prints"]]


def nars(p, t, hops=2):
    out = {k: [] for k in TYPES}
    levels = {s: {k: t[k + ".x"] for k in TYPES} for s in range(len(SUBSETS))}
    for k in range(hops + 1):
        for of in out:
            out[of].append(sum(p["agg_feats.%s.%d" % (of, k)][s] * levels[s][of] for s in levels))
        for s, subset in enumerate(SUBSETS):
            new = {}
            for of, rows in TYPES.items():
                into = [r for r in subset if RELATIONS[r][1] == of]
                total = sum((sums(levels[s][RELATIONS[r][0]][t[r][0]], t[r][1], rows) for r in into), torch.zeros(rows, 4, dtype=torch.float64))
                n = sum((torch.bincount(t[r][1], minlength=rows) for r in into), torch.zeros(rows))
                new[of] = total / n.clamp(min=1)[:, None]
            levels[s] = new
    return [torch.cat(out[of], 1) for of in out]


# ---- HetGNN (Zhang et al., 2019): equations 3 to 5, a list of neighbours for each relation ----

class HetGnn(Named):
    def __init__(self, lstm):
        super().__init__({"att.%s" % k: (8,) for k in ("author", "paper")})
        self.lstms = nn.ModuleDict({r: nn.ModuleDict({"lstm": nn.LSTM(4, 2, batch_first=True, bidirectional=True)}) for r in RELATIONS}) if lstm else None


def het_gnn(p, t):
    out = []
    for of in ("author", "paper"):
        x = t[of + ".x"]
        views = [x]
        for r, (source, target, _) in RELATIONS.items():
            if target != of:
                continue
            s, d = t[r]
            if p.lstms is None:
                views.append(sums(t[source + ".x"][s], d, TYPES[of]) / torch.bincount(d, minlength=TYPES[of]).clamp(min=1)[:, None])
            else:
                views.append(torch.stack([p.lstms[r]["lstm"](t[source + ".x"][s[d == v]][None])[0][0].mean(0) if (d == v).any() else torch.zeros(4, dtype=x.dtype)
                                          for v in range(TYPES[of])]))
        score = torch.stack([F.leaky_relu(torch.cat([f, x], 1) @ p["att." + of], 0.01) for f in views])
        out.append((score.softmax(0)[..., None] * torch.stack(views)).sum(0))
    return out


def typed_inputs(draw):
    xs = {k + ".x": ("", draw.normal(rows, 4)) for k, rows in TYPES.items()}
    ends = {r: draw.edges(TYPES[s], TYPES[d], n - TYPES[d] if n > TYPES[d] else 2) for r, (s, d, n) in RELATIONS.items()}
    graph = {"nodes": TYPES, "edges": {r: e.shape[1] for r, e in ends.items()}, "widths": {"F." + k: 4 for k in TYPES}}
    return dict(inputs=xs, edges=ends, graph=graph, args="x: node(all)[F]", draw=draw)


def record(folder):
    for opn in ("sub", "mult", "corr"):
        d = Draw(opn)
        e = d.edges(N, N, 14)
        inputs = {"x": ("node[5]", d.normal(N, 5)), "z": ("[3, 5]", d.normal(3, 5)), "back": ("[3, 5]", d.normal(3, 5)),
                  "rel": ("edge index[3]", d.kinds(3, e.shape[1]))}
        shapes = {"w_in": (5, 4), "w_out": (5, 4), "w_loop": (5, 4), "w_rel": (5, 4), "loop_rel": (1, 5), "bias": (4,)}
        folder.case("CompGCN", opn, ["conv = comp_gcn(O = 4, opn = %s, norm = identity, bias = true)" % opn, "return conv(x, z, back, rel)"],
                    lambda: Named(shapes), comp_gcn(opn), inputs, {"edge_index": e}, draw=d)
    for name, width, residual in (("first", 5, True), ("later", 6, False)):
        d = Draw(name)
        e = d.edges(N, N, 14)
        inputs = {"x": ("node[%d]" % width, d.normal(N, width)), "rel": ("edge index[3]", d.kinds(3, e.shape[1]))}
        if name == "later":
            inputs["before"] = ("edge[2]", d.uniform(0, 1, e.shape[1], 2))
        folder.case("SimpleHGN", name, ["conv = simple_hgn(H = 2, D = 3, edge_dim = 4, beta = 0.3, residual = true, act = elu, bias = true)",
                                        "return conv(x, rel%s)" % (", before = before" if name == "later" else "")],
                    lambda: Named(hgn_shapes(width, residual)), simple_hgn, inputs, {"edge_index": e}, draw=d)
    records = "[%s]" % ", ".join("forall r into all { if %s { 1 } }" % " or ".join("r == " + r for r in s) for s in SUBSETS)
    folder.case("NARS", "two_subsets", ["conv = nars(hops = 2, subsets = %s)" % records, "y = conv(x)", "return y[author], y[paper], y[venue]"],
                lambda: Named({"agg_feats.%s.%d" % (of, k): (len(SUBSETS), 4) for of in TYPES for k in range(3)}), nars, **typed_inputs(Draw("nars")))
    for name, lstm in (("mean", False), ("lstm", True)):
        more = "aggr = lstm_mean_aggr(most = 12)" if lstm else ""
        folder.case("HetGNN", name, ["conv = het_gnn(%s)" % more, "y = conv(x)", "return y[author], y[paper]"],
                    lambda: HetGnn(lstm), het_gnn, **typed_inputs(Draw("hetgnn")))
