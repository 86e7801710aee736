#!/usr/bin/env python3
"""Infinities and NaN under rewriting (docs/design.md): rows that no such number reaches along edges are right, and those that one
reaches are right or NaN; what poles make of finite numbers (1/0, log 0) never reaches a row that does not read it.
usage: test_torch_infinite.py BUILD"""
import os
import subprocess
import tempfile
import warnings

import with_torch

BUILD = with_torch.build("torch_infinite")

import numpy as np
import torch
from gnnc_layer import GnncLayer

warnings.simplefilter("ignore")  # scatter_reduce is said to be in beta
N, E, F = 40, 60, 3
torch.manual_seed(1)
SRC, DST = torch.randint(0, N - 4, (2, E))  # the last four nodes have no edges
ALONE, JOINED = N - 2, int(SRC[0])


def over(ends, m):
    return torch.zeros(N, *m.shape[1:], dtype=m.dtype).index_add(0, ends, m)


def greatest(m):
    out = torch.full((N, F), -np.inf, dtype=m.dtype).scatter_reduce(0, DST[:, None].expand(-1, F), m, "amax", include_self=False)
    return torch.where(torch.isin(torch.arange(N), DST)[:, None], out, torch.zeros_like(out))


FORMULAS = {
    "sum_in(x.src * y.dst)": lambda x, y: over(DST, x[SRC] * y[DST]),
    "sum_in(x.src * y.src)": lambda x, y: over(DST, x[SRC] * y[SRC]),
    "sum_in(x.src + y.dst)": lambda x, y: over(DST, x[SRC] + y[DST]),
    "sum_in(x.src / y.dst)": lambda x, y: over(DST, x[SRC] / y[DST]),
    "sum_in(x.src * (1 / y).dst)": lambda x, y: over(DST, x[SRC] * (1 / y)[DST]),
    "sum_out(x.dst * y.src)": lambda x, y: over(SRC, x[DST] * y[SRC]),
    "sum_in(x.src * log(y * y).dst)": lambda x, y: over(DST, x[SRC] * torch.log(y * y)[DST]),
    "max_in(x.src + y.dst)": lambda x, y: greatest(x[SRC] + y[DST]),
    "sum_in((sum_in(x.src * y.dst) * y).src)": lambda x, y: over(DST, (over(DST, x[SRC] * y[DST]) * y)[SRC]),
}
POLES = [k for k, f in enumerate(FORMULAS) if "/" in f or "log" in f]


def within_two(node):
    """[N] the nodes at most two edges away, in either direction."""
    near = torch.eye(N)
    near[SRC, DST] = near[DST, SRC] = 1
    return (near @ near)[node] > 0


def library(box, name, text, *options):
    """A layer of the model `net` in the text."""
    path = os.path.join(box, name)
    with open(path + ".gnn", "w") as f:
        f.write(text)
    subprocess.run([os.path.join(BUILD, "gnnc"), "build", path + ".gnn", "--prefix=net", "--emit=lib", "--dtype=f64", "--cpu=native", "-o", path, *options],
                   check=True)
    return GnncLayer(path + ".so", "net", N, torch.stack([SRC, DST]))


def check(name, got, want, spoilt):
    """Right, but that a row of `spoilt` may be NaN, and that 0 times a pole, NaN in torch, may be 0."""
    got, want = got.reshape(len(want), -1).numpy(), want.detach().reshape(len(want), -1).numpy()
    same = np.isclose(got, want, rtol=1e-9, atol=1e-9, equal_nan=True) | (spoilt.numpy()[:, None] & np.isnan(got)) | (np.isnan(want) & (got == 0))
    bad = np.argwhere(~same)
    print("FAIL torch_infinite.%s: row %d is %r, wanted %r" % (name, bad[0][0], got[tuple(bad[0])], want[tuple(bad[0])]) if len(bad)
          else "ok torch_infinite." + name)


def rows_without_edges(box):
    body = "".join("  v%d = %s\n  s%d = sum_all(sum(v%d))\n" % (k, f, k, k) for k, f in enumerate(FORMULAS))
    results = ", ".join("v%d, grad(s%d, x), grad(s%d, y)" % (k, k, k) for k in range(len(FORMULAS)))
    layer = library(box, "rows", "model net(x: node[F], y: node[F]) -> (%s) {\n%s  return %s\n}\n" %
                    (", ".join(["node[F]"] * 3 * len(FORMULAS)), body, results), "--set", "F=%d" % F)
    for label, node, number in (("inf_alone", ALONE, np.inf), ("nan_alone", ALONE, np.nan), ("pole_alone", ALONE, 0), ("inf_joined", JOINED, np.inf)):
        x, y = torch.randn(N, F, dtype=torch.float64), torch.randn(N, F, dtype=torch.float64)
        y[node] = number
        out = layer.run("forward", [x, y], [], layer.results)
        x.requires_grad_(), y.requires_grad_()
        for k, formula in enumerate(FORMULAS.values()):
            if label.startswith("pole") and k not in POLES:
                continue
            value = formula(x, y)
            slopes = torch.autograd.grad(value.sum(), [x, y], allow_unused=True)
            spoilt = within_two(node) & (number != 0)
            for what, got, want in zip(("value", "grad_x", "grad_y"), out[3 * k:], (value, *slopes)):
                check("%s.%d.%s" % (label, k, what), got, torch.zeros(N, F) if want is None else want, spoilt)


def matrices(box):
    """x.src @ W[rel] where no edge has the last kind, whose matrix is NaN: to a pass, 0 times a matrix may be 0 or NaN."""
    for kinds in (3, 9, 20):
        layer = library(box, "kinds%d" % kinds, "model net(x: node[F], rel: edge index[R], W: [R, F, O]) -> node[O] {\n"
                        "  return sum_in(dot(x.src, W[rel], F))\n}\n", "--set", "F=%d,O=2,R=%d" % (F, kinds))
        x, w, rel = torch.randn(N, F, dtype=torch.float64), torch.randn(kinds, F, 2, dtype=torch.float64), torch.randint(0, kinds - 1, (E,))
        want = over(DST, torch.einsum("ef,efo->eo", x[SRC], w[rel]))
        for label, number in (("finite", 1), ("nan", np.nan)):
            w[kinds - 1] = number
            got = layer.run("forward", [x, rel, w], [], layer.results)[0]
            check("kinds%d.%s" % (kinds, label), got, want, torch.full((N,), number != 1))


def guarded_pieces(box):
    """A branch with a pole that `where` does not take, over a concatenation that is computed piece by piece: its gradient there is 0."""
    layer = library(box, "pieces", "model net(e: edge[G], w: edge) -> node {\n  v: edge[H] = cat(e, e)[2..6]\n  d = abs(v - w)\n"
                    "  return sum_in(sum(where(d > 0, log(d), -1)))\n}\n", "--set", "G=4,H=4")
    e, w = torch.randn(E, 4, dtype=torch.float64), torch.ones(E, dtype=torch.float64)
    e[: E // 2] = 1  # d is 0
    e.requires_grad_(), w.requires_grad_()
    layer(e, w).sum().backward()
    far = torch.cat([e, e], 1)[E // 2:, 2:6] - w[E // 2:, None]  # the others
    slopes = torch.autograd.grad(torch.log(far.abs()).sum(), [e, w])
    for what, got, want in zip(("e", "w"), (e.grad, w.grad), slopes):
        check("pieces.grad_" + what, got, want, torch.zeros(E, dtype=bool))


def sums_of_nothing(box):
    """A node without edges is chosen, and a pole is made of its sum where other rows gather it: nothing was summed, so no input has a gradient."""
    layer = library(box, "nothing", "model net(x: node[F], s: node) -> node {\n  graph h = select(g, s, k = 1)\n  v = over h {\n    sum_out(x[h].src)\n  }\n"
                    "  w = v[g]\n  return log(abs(dot(w, w, F)))\n}\n", "--set", "F=%d" % F)
    x, s = torch.randn(N, F, dtype=torch.float64), torch.zeros(N, dtype=torch.float64)
    s[ALONE] = 1
    x.requires_grad_(), s.requires_grad_()
    layer(x, s).sum().backward()
    check("nothing.grad_x", x.grad, torch.zeros(N, F), torch.zeros(N, dtype=bool))


with tempfile.TemporaryDirectory(prefix="gnnc-torch-infinite-") as box:
    rows_without_edges(box)
    matrices(box)
    guarded_pieces(box)
    sums_of_nothing(box)
