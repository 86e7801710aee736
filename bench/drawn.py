#!/usr/bin/python3
"""Message functions and reducers drawn by seed, forward and backward, against the least that they could cost.

usage: drawn.py [--seeds 100] [--first 1] [--size arxiv] [--out DIR] [--threads 2] [--gnnc FILE] [--check]

A seed draws a formula of rows of 64 floats read at both ends of each edge, of numbers per node and per edge, and now and then of a
row per edge; a chain of pointwise operations; and a reducer. Its bound, measured in the same run, is the slower of
  - skeleton.c: the same gathers and streams, minimal rows, one sweep forward and two backward, no arithmetic. A row counts where
    the value or the derivative needs it: the derivative of a sum needs no messages. What one end alone decides is one row;
  - the operations (COST, in vector operations; what one end alone decides counts per node) over the probed rate of multiply-adds.
--check compares the compiled program in double precision with numpy, and its gradient with a finite difference, on a tiny graph.
Prints bound / ours per seed, then median and worst; writes DIR/drawn.json.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import graph  # noqa: E402
import rows  # noqa: E402
from ours import HERE, Failed, call, levels, library  # noqa: E402

W = 64
# operation: (text, arity, linear in its arguments, vector operations of the value, of the derivative beyond the value)
OPS = {
    "add": ("({0} + {1})", 2, True, 1, 0), "sub": ("({0} - {1})", 2, True, 1, 1), "mul": ("{0} * {1}", 2, False, 1, 2),
    "max": ("max({0}, {1})", 2, False, 1, 2), "relu": ("max({0}, 0)", 1, False, 1, 1), "leaky": ("leaky_relu({0}, 0.1)", 1, False, 2, 2),
    "sigmoid": ("sigmoid({0})", 1, False, 20, 3), "tanh": ("tanh({0})", 1, False, 20, 2), "decay": ("exp(-abs({0}))", 1, False, 16, 2),
    "square": ("square({0})", 1, False, 1, 2), "half": ("0.5 * {0}", 1, True, 1, 1), "silu": ("silu({0})", 1, False, 21, 5),
    "dot": ("dot({0}, {1}, F)", 2, False, 2, 2), "distance": ("mean(square({0} - {1}), F)", 2, False, 3, 3),
}
BINARY, UNARY = ["add", "sub", "mul", "mul", "max"], ["relu", "leaky", "sigmoid", "tanh", "decay", "square", "half", "silu"]
REDUCERS = ["sum", "mean", "max", "softmax", "sum and max", "weighted"]
INPUTS = {"u": ("node", True), "v": ("node", True), "p": ("node", False), "q": ("node", False), "a": ("edge", False), "b": ("edge", True)}


class Expr:
    """A leaf (input, end) or an operation; `wide`: 64 numbers, else one."""

    def __init__(self, op, args=(), leaf=None):
        self.op, self.args, self.leaf = op, list(args), leaf
        self.wide = INPUTS[leaf[0]][1] if leaf else op not in ("dot", "distance") and any(a.wide for a in self.args)

    def text(self):
        if self.leaf:
            return self.leaf[0] + ("." + self.leaf[1] if self.leaf[1] != "edge" else "")
        return OPS[self.op][0].format(*[a.text() for a in self.args])

    def leaves(self):
        return {self.leaf} if self.leaf else set().union(*[a.leaves() for a in self.args])

    def ends(self):
        return {end for _, end in self.leaves()}

    def work(self):
        """Lanes the operation runs over: dims that it sums over count."""
        return W if self.wide or self.op in ("dot", "distance") else 1

    def pieces(self):
        """Maximal parts that one end alone decides: what an edge must read."""
        return {self} if len(self.ends()) == 1 else set().union(*[a.pieces() for a in self.args])

    def cost(self, column):
        """(operations per edge, per node): column 3 of the value, 4 of the derivative."""
        if self.leaf:
            return 0, 0
        edge, node = map(sum, zip(*[a.cost(column) for a in self.args]))
        own = OPS[self.op][column] * self.work()
        return (edge, node + own) if len(self.ends()) == 1 and self.ends() != {"edge"} else (edge + own, node)

    def needed(self, wanted):
        """The pieces whose values the derivatives by the leaves at the ends `wanted` need, besides the cotangent."""
        if len(self.ends()) == 1 or not self.ends() & wanted:
            return set()
        below = set().union(*[a.needed(wanted) for a in self.args])
        if OPS[self.op][2]:
            return below
        if self.op == "mul":
            for one, other in (self.args, self.args[::-1]):
                below |= other.pieces() if one.ends() & wanted else set()
            return below
        return below | self.pieces()


# ---- drawing ---------------------------------------------------------------------------------------------------------

def leaf(rng, wide):
    if wide:
        name, end = rng.choice([("u", "src")] * 4 + [("v", "dst")] * 3 + [("u", "dst"), ("v", "src")] + [("b", "edge")])
    else:
        name, end = rng.choice([("p", "src"), ("q", "dst"), ("p", "dst"), ("a", "edge"), ("a", "edge")])
    return Expr(None, leaf=(name, end))


def draw(rng, depth, wide):
    if depth == 0 or rng.random() < 0.1:
        return leaf(rng, wide)
    if not wide and rng.random() < 0.4:
        return Expr(rng.choice(["dot", "distance"]), [Expr(None, leaf=("u", "src")), Expr(None, leaf=(rng.choice("uv"), "dst"))])
    if rng.random() < 0.45:
        return Expr(rng.choice(UNARY), [draw(rng, depth - 1, wide)])
    return Expr(rng.choice(BINARY), [draw(rng, depth - 1, wide), draw(rng, depth - 1, wide and rng.random() < 0.7)])


class Program:
    """message m, a score where the reducer has one, and how they are reduced."""

    def __init__(self, seed):
        rng = random.Random(seed)
        while True:
            self.m = draw(rng, rng.choice([1, 2, 2, 3, 3, 4]), True)
            if self.m.wide and "src" in self.m.ends():
                break
        self.reducer = rng.choice(REDUCERS)
        self.score = draw(rng, rng.choice([1, 2]), False) if self.reducer == "softmax" else None
        self.n_out = 2 if self.reducer == "sum and max" else 1

    def leaves(self):
        return self.m.leaves() | (self.score.leaves() if self.score else set())

    def body(self):
        m = self.m.text()
        return {"sum": "sum_in(%s)", "mean": "mean_in(%s)", "max": "max_in(%s)", "sum and max": "both_in(%s)", "weighted": "softmean_in(%s)",
                "softmax": "sum_in(softmax_in(%s) * (%%s))" % (self.score.text() if self.score else "")}[self.reducer] % m

    def source(self):
        text = ""
        if self.reducer == "weighted":
            text = ("reduce softmean(m: edge[F]) -> node[F] {\n  state s: [F] = 0, z: [F] = 0\n"
                    "  step { w = exp(-abs(m)); s += w * m; z += w }\n  done = s / max(z, 1e-9)\n}\n")
        used = sorted({name for name, _ in self.leaves()})
        args = ", ".join("%s: %s%s" % (n, INPUTS[n][0], "[F]" if INPUTS[n][1] else "") for n in used)
        if self.reducer == "sum and max":
            return text + "model net(%s) {\n  m = %s\n  return cat(sum_in(m), max_in(m))\n}\n" % (args, self.m.text())
        return text + "model net(%s) -> node[F] = %s\n" % (args, self.body())

    # ---- the bound ----

    def pieces(self):
        return self.m.pieces() | (self.score.pieces() if self.score else set())

    def needs(self, wanted):
        """(pieces, rows of results, numbers per target) that derivatives by the leaves at these ends need besides the cotangent."""
        touched = self.m.ends() & wanted
        if self.reducer in ("sum", "mean"):
            return self.m.needed(wanted), 0, 0
        if self.reducer in ("max", "sum and max"):
            return (self.m.pieces() if touched else set()), 1, 0
        if self.reducer == "weighted":
            return self.m.pieces(), 2, 0
        found = self.m.needed(wanted) | self.score.pieces()
        if self.score.ends() & wanted:
            found = found | self.m.pieces()
        return found, 0, 3  # largest score, sum of weights, cotangent times result

    def sweep(self, near, pieces, extra_far, extra_near, outs):
        """The Shape of a sweep whose rows are at the end `near`."""
        far = "src" if near == "dst" else "dst"
        count = lambda end, wide: fewest([p for p in pieces if p.ends() == {end} and p.wide == wide], end, wide)
        edges = {l[0] for p in pieces for l in p.leaves() if l[1] == "edge"}
        shape = {"far_rows": count(far, True) + extra_far[0], "far_scalars": count(far, False) + extra_far[1],
                 "near_rows": count(near, True) + extra_near[0], "near_scalars": count(near, False) + extra_near[1],
                 "edge_rows": sum(INPUTS[n][1] for n in edges), "edge_scalars": sum(not INPUTS[n][1] for n in edges)}
        shape.update(outs)
        return shape

    def shapes(self):
        leaves = self.leaves()
        inputs = lambda end, wide: len({n for n, at in leaves if at == end and INPUTS[n][1] == wide})
        forward = self.sweep("dst", self.pieces(), (0, 0), (0, 0), {"out_rows": self.n_out})
        edge_outs = {"edge_out_rows": inputs("edge", True), "edge_out_scalars": inputs("edge", False)}
        at_dst = {"out_rows": inputs("dst", True), "out_scalars": inputs("dst", False)}
        at_src = {"out_rows": inputs("src", True), "out_scalars": inputs("src", False)}
        if any(at_dst.values()):
            at_dst.update(edge_outs)
        else:
            at_src.update(edge_outs)
        back_dst, back_src = {}, {}
        if any(at_dst.values()):
            pieces, results, numbers = self.needs({"dst", "edge"})
            back_dst = self.sweep("dst", pieces, (0, 0), (self.n_out + results, numbers), at_dst)
        if any(at_src.values()):
            pieces, results, numbers = self.needs({"src"} if any(at_dst.values()) else {"src", "edge"})
            back_src = self.sweep("src", pieces, (self.n_out + results, numbers), (0, 0), at_src)
        return forward, back_dst, back_src

    def operations(self, n, m):
        """Vector lane operations (forward, forward and gradient)."""
        extra = {"sum": W, "mean": W, "max": W, "sum and max": 2 * W, "weighted": 20 * W, "softmax": 18 + 2 * W}[self.reducer]
        parts = [self.m] + ([self.score] if self.score else [])
        edge, node = map(sum, zip(*[p.cost(3) for p in parts]))
        edge_d, node_d = map(sum, zip(*[p.cost(4) for p in parts]))
        _, back_dst, back_src = self.shapes()
        sweeps = bool(back_dst) + bool(back_src)
        remade = any(not OPS[e.op][2] for p in parts for e in walk(p) if e.op and len(e.ends()) > 1) or self.reducer not in ("sum", "mean")
        forward = m * (edge + extra) + n * node
        return forward, forward + m * sweeps * ((edge if remade else 0) + edge_d + extra) + n * node_d


def walk(e):
    yield e
    for a in e.args:
        yield from walk(a)


def fewest(pieces, end, wide):
    """Rows (or numbers) to read for these pieces: themselves, or the inputs they are made of."""
    leaves = {l[0] for p in pieces for l in p.leaves() if l[1] == end}
    of_kind = sum(INPUTS[n][1] == wide for n in leaves)
    return min(len({p.text() for p in pieces}), of_kind) if of_kind else len({p.text() for p in pieces})


# ---- running ---------------------------------------------------------------------------------------------------------

class Run:
    def __init__(self, a):
        self.a, self.gnnc = a, os.path.abspath(a.gnnc)
        self.work = os.path.join(os.path.abspath(a.out), "work")
        os.makedirs(os.path.join(self.work, "drawn"), exist_ok=True)
        self.data = graph.ensure(self.work, a.size)
        self.skeletons, self.results = {}, []

    def skeleton(self, shapes):
        """The program of these shapes, compiled once."""
        define = lambda s: "{%s}" % ",".join(".%s=%d" % (k, v) for k, v in s.items()) if s else "{0}"
        flags = ["-DFORWARD=" + define(shapes[0]), "-DBACK_DST=" + define(shapes[1]), "-DBACK_SRC=" + define(shapes[2])]
        key = " ".join(flags)
        if key not in self.skeletons:
            out = os.path.join(self.work, "drawn", "skeleton%d" % len(self.skeletons))
            call(["cc", "-O3", levels.march(), "-fopenmp", "-ffp-contract=fast"] + flags + [os.path.join(HERE, "skeleton.c"), "-o", out])
            self.skeletons[key] = out
        return self.skeletons[key]

    def build(self, seed, program, *options):
        path = os.path.join(self.work, "drawn", "seed%d.gnn" % seed)
        with open(path, "w") as f:
            f.write("# seed %d\n%s" % (seed, program.source()))
        call([self.gnnc, "build", path, "--set", "F=%d" % W, "--cpu=native", "-o", path[:-4]] + list(options))
        return path[:-4]

    def measure(self, seed):
        program = Program(seed)
        exe, skeleton = self.build(seed, program), self.skeleton(program.shapes())
        ours, least = {}, {}
        for _ in range(self.a.rounds):
            got = json.loads(call([exe, "bench", "--data", self.data, "--iters", 10, "--threads", self.a.threads, "--json"]))
            for mode, name in (("forward", "infer"), ("grad", "grad")):
                ours[mode] = min(got[name]["min_ms"], ours.get(mode, 1e30))
            for line in call([skeleton, self.data, self.a.threads]).splitlines():
                name, value = line.split()
                least[name] = max(float(value), least.get(name, 0)) if name == "rate" else min(float(value), least.get(name, 1e30))
        row = {"seed": seed, "text": program.body() if program.reducer != "sum and max" else "sum and max of " + program.m.text()}
        for mode, ops in zip(("forward", "grad"), program.operations(*rows.SIZES[self.a.size][:2])):
            compute = ops / least["rate"] * 1e-6
            bound = max(least[mode], compute)
            row[mode] = {"ours_ms": ours[mode], "skeleton_ms": least[mode], "operations_ms": compute, "ratio": bound / ours[mode]}
        self.results.append(row)
        print("%4d  %s\n      %s" % (seed, "   ".join("%s %.2f of %.2f ms (moves %.2f, computes %.2f)" % (
            mode, row[mode]["ratio"], row[mode]["ours_ms"], row[mode]["skeleton_ms"], row[mode]["operations_ms"])
            for mode in ("forward", "grad")), row["text"]), flush=True)

    def check(self, seed):
        program = Program(seed)
        path = self.build(seed, program, "--emit=lib", "--dtype=f64", "--prefix=m")
        wrong = verify(library.Library(path + ".so", "m", np.float64), program, np.load(os.path.join(self.data, "edge_index.npy")),
                       rows.SIZES[self.a.size][0], np.random.default_rng(seed))
        print("%4d  %s  %s" % (seed, "FAIL " + wrong if wrong else "agrees", program.source().replace("\n", " ")), flush=True)
        return bool(wrong)

    def summary(self):
        for mode in ("forward", "grad"):
            ratios = sorted(r[mode]["ratio"] for r in self.results)
            if ratios:
                print("%-8s median %.2f (goal 0.7), worst %.2f (goal 0.4), %d below 0.4, of %d" % (
                    mode, statistics.median(ratios), ratios[0], sum(r < 0.4 for r in ratios), len(ratios)))
        with open(os.path.join(os.path.abspath(self.a.out), "drawn.json"), "w") as f:
            json.dump(self.results, f, indent=1)


# ---- numpy's opinion -------------------------------------------------------------------------------------------------

NUMPY = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "max": np.maximum, "relu": lambda a: np.maximum(a, 0),
    "leaky": lambda a: np.where(a < 0, 0.1 * a, a), "sigmoid": lambda a: 1 / (1 + np.exp(-a)), "tanh": np.tanh,
    "decay": lambda a: np.exp(-np.abs(a)), "square": lambda a: a * a, "half": lambda a: 0.5 * a, "silu": lambda a: a / (1 + np.exp(-a)),
    "dot": lambda a, b: (a * b).sum(1, keepdims=True), "distance": lambda a, b: ((a - b) ** 2).mean(1, keepdims=True),
}


def evaluate(e, inputs, edges):
    if not e.leaf:
        return NUMPY[e.op](*[evaluate(a, inputs, edges) for a in e.args])
    name, end = e.leaf
    value = inputs[name].reshape(len(inputs[name]), -1)
    return value if end == "edge" else value[edges[0] if end == "src" else edges[1]]


def reduce_in(values, dst, n, start, op):
    out = np.full((n, values.shape[1]), start, np.float64)
    op.at(out, dst, values)
    return out


def reference(program, inputs, edges, n):
    dst, degree = edges[1], np.bincount(edges[1], minlength=n)[:, None]
    m = evaluate(program.m, inputs, edges)
    m = np.broadcast_to(m, (len(dst), W))
    total = lambda v: reduce_in(v, dst, n, 0, np.add)
    most = lambda v: np.where(degree > 0, reduce_in(v, dst, n, -np.inf, np.maximum), 0)
    if program.reducer == "softmax":
        z = evaluate(program.score, inputs, edges)
        w = np.exp(z - most(z)[dst])
        return total(w * m) / (total(w) + 1e-16)
    if program.reducer == "weighted":
        w = np.exp(-np.abs(m))
        return total(w * m) / np.maximum(total(w), 1e-9)
    return {"sum": lambda: total(m), "mean": lambda: total(m) / np.maximum(degree, 1), "max": lambda: most(m),
            "sum and max": lambda: np.concatenate([total(m), most(m)], 1)}[program.reducer]()


def verify(lib, program, edges, n, rng):
    """"" or what is wrong: the value, and the derivative along a drawn direction (kinks allow one of three to be off)."""
    draw_input = lambda i: rng.standard_normal((n if i.space == b"node" else edges.shape[1],) + tuple(i.dims[:i.n_dims]))
    inputs = {i.name.decode(): draw_input(i) for i in lib.inputs}
    lib.on_graph(n, n, edges[0], edges[1], 1, None)
    got, want = lib.forward(inputs)[0], reference(program, inputs, edges, n)
    scale = max(1.0, np.abs(want).max())
    if not np.abs(got - want).max() <= 1e-9 * scale:
        return "value off by %.1e" % np.abs(got - want).max()
    cot = rng.standard_normal(want.shape)
    gradients, off = lib.vjp(inputs, [cot]), []
    for _ in range(3):
        step = {k: rng.standard_normal(v.shape) for k, v in inputs.items()}
        along = sum((gradients["grad." + k] * step[k]).sum() for k in inputs)
        ahead, behind = (reference(program, {k: inputs[k] + h * step[k] for k in inputs}, edges, n) for h in (1e-7, -1e-7))
        size = sum(np.abs(gradients["grad." + k] * step[k]).sum() for k in inputs)
        off.append(abs(((ahead - behind) * cot).sum() / 2e-7 - along) / max(1.0, size))
    return "" if sorted(off)[1] <= 1e-5 else "gradient off by %.1e" % sorted(off)[1]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = os.path.dirname(HERE)
    ap.add_argument("--seeds", type=int, default=100), ap.add_argument("--first", type=int, default=1)
    ap.add_argument("--size", choices=rows.SIZES), ap.add_argument("--out", default=os.path.join(root, "build", "bench"))
    ap.add_argument("--threads", type=int, default=2), ap.add_argument("--rounds", type=int, default=2)
    ap.add_argument("--gnnc", default=os.path.join(root, "build", "gnnc")), ap.add_argument("--check", action="store_true")
    a = ap.parse_args()
    a.size = a.size or ("tiny" if a.check else "arxiv")
    run, failed = Run(a), 0
    for seed in range(a.first, a.first + a.seeds):
        try:
            failed += bool(run.check(seed)) if a.check else bool(run.measure(seed))
        except (Failed, subprocess.CalledProcessError) as e:
            failed += 1
            print("%4d  FAIL %s\n%s" % (seed, e, Program(seed).source()), flush=True)
    if not a.check:
        run.summary()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
