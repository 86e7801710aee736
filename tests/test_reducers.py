#!/usr/bin/env python3
"""Reducers of every start, update, `empty` and direction against the formula that language.md states, values and gradients: a state begins at
its start, takes in element after element, and `done` of the states is the result; a row without elements has `empty` where that is given, and
`done` of the starts where not. The oracle walks elements one by one with numbers that carry their derivatives; a start is a constant.

Each library of some dozen reducers is built with all passes and, quickly, without the pass `reorder`, and runs on graphs with rows of none, one and
several elements, with parallel edges and loops, without edges, and of one node. The first library has those of FOUND. GNNC_LONG: three times
as many.
usage: test_reducers.py BUILD [FIRST]     from that seed
Run: avx2 if long"""
import os
import random
import re
import sys

import numpy as np
from sandbox import Sandbox

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden"))
import library  # noqa: E402

F, R, PER_LIBRARY, N = 2, 2, 50, 300


class Dual:
    """Values [F], and their derivatives [F] by each variable that they depend on: by no others, so that a constant has none, whatever it is
    multiplied by."""

    def __init__(self, v, d=None):
        self.v, self.d = np.broadcast_to(np.asarray(v, float), (F,)), d or {}

    def by(self, slope):
        return {k: d * slope for k, d in self.d.items()}

    def __add__(self, o):
        return Dual(self.v + as_dual(o).v, plus(self.d, as_dual(o).d))

    def __neg__(self):
        return Dual(-self.v, self.by(-1.0))

    def __sub__(self, o):
        return self + -as_dual(o)

    def __mul__(self, o):
        o = as_dual(o)
        return Dual(self.v * o.v, plus(self.by(o.v), o.by(self.v)))

    def __truediv__(self, o):
        o = as_dual(o)
        return Dual(self.v / o.v, plus(self.by(1 / o.v), o.by(-self.v / o.v / o.v)))

    def __gt__(self, o):
        return self.v > as_dual(o).v

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, o):
        return as_dual(o) - self

    def __rtruediv__(self, o):
        return as_dual(o) / self


def as_dual(x):
    return x if isinstance(x, Dual) else Dual(x)


def plus(a, b):
    return {k: a.get(k, 0) + b.get(k, 0) for k in {**a, **b}}


def where(c, a, b):
    a, b = as_dual(a), as_dual(b)
    return Dual(np.where(c, a.v, b.v), {k: np.where(c, a.d.get(k, 0), b.d.get(k, 0)) for k in {**a.d, **b.d}})


def larger(a, b):
    """NaN wins; of equal ones each gets half."""
    a, b = as_dual(a), as_dual(b)
    tie = a.v == b.v
    return where(tie, 0.5 * a + 0.5 * b, where((a.v > b.v) | np.isnan(a.v), a, b))


FUNCTIONS = {
    "where": where, "max": larger, "min": lambda a, b: -larger(-as_dual(a), -as_dual(b)), "inf": np.inf,
    "tanh": lambda x: Dual(np.tanh(x.v), x.by(1 - np.tanh(x.v) ** 2)), "exp": lambda x: Dual(np.exp(x.v), x.by(np.exp(x.v))),
    "abs": lambda x: Dual(abs(x.v), x.by(np.sign(x.v))), "sqrt": lambda x: Dual(np.sqrt(x.v), x.by(0.5 / np.sqrt(x.v))),
    "log": lambda x: Dual(np.log(x.v), x.by(1 / x.v))}
STARTS = ("0", "0.5", "1", "-inf", "inf")
UPDATES = ("{s} += m", "{s} -= m", "{s} *= m", "{s} /= m", "{s} = max({s}, m)", "{s} = min(m, {s})")
EMPTY = (None, "0", "-1", "0.5", "inf", "0.25 * h")
DONE = (("s0", "tanh(s0)", "s0 * s0", "1 / (1 + abs(s0))", "sqrt(abs(s0))", "s0 * h", "exp(-abs(s0))", "where(s0 > 0, s0, h)"),
        ("s0 * s1", "s0 + s1", "s0 * tanh(s1)", "s0 / (1 + abs(s1))", "s1 / s0", "s0 * s1 * h", "where(s0 > h, s1, s0)", "tanh(s0) * exp(-abs(s1))",
         "s0 * sqrt(abs(s1))", "log(abs(s0)) + s1"))
MESSAGES = ("x.src", "x.dst", "x.src * x.dst", "x.src + x.dst", "0.5 * x.dst", "exp(x.dst) * w", "w * x.src")
FORMS = ("in", "in", "out", "all", "key")


class Reducer:
    def __init__(self, r, k):
        """Number k; the first ones have each start with each update and each kind of `empty`."""
        self.states = [(STARTS[k % 5], UPDATES[k // 5 % 6])] + [(r.choice(STARTS), r.choice(UPDATES)) for _ in range(r.randrange(2))]
        self.empty = EMPTY[k // 30 % 6]
        self.done, self.m, self.form = r.choice(DONE[len(self.states) - 1]), r.choice(MESSAGES), r.choice(FORMS)
        if k < 180:
            self.states, self.done, self.form = self.states[:1], "s0", FORMS[k // 7 % 5]
        reads_h = "h" in self.done or self.empty == EMPTY[-1]
        self.h = {"in": "x", "out": "x", "key": "1", "all": "1"}[self.form] if reads_h else None

    def text(self, name):
        lines = ["reduce %s(m%s) {" % (name, ", h" if self.h else "")]
        lines += ["  state s%d = %s" % (i, start) for i, (start, _) in enumerate(self.states)]
        lines += ["  step { %s }" % "; ".join(u.format(s="s%d" % i) for i, (_, u) in enumerate(self.states)), "  done = " + self.done]
        return "\n".join(lines + (["  empty = " + self.empty] if self.empty else []) + ["}"])

    def call(self, k):
        """Each has inputs of its own: where a gradient is infinite, that of another would meet it as 0 * inf."""
        call = "r%d_%s(%s%s%s)" % (k, "in" if self.form == "key" else self.form, self.m, ", " + self.h if self.h else "",
                                 ", by = kind" if self.form == "key" else "")
        return re.sub(r"\b([xw])\b", r"\g<1>%d" % k, call)

    def type(self):
        return {"key": "node[R, F]", "all": "[F]"}.get(self.form, "node[F]")

    def rows(self, graph):
        """Of each row its node, if it has one, and its elements."""
        edges = range(len(graph.src))
        if self.form == "all":
            return [(None, list(edges))]
        end = graph.src if self.form == "out" else graph.dst
        kinds = range(R) if self.form == "key" else [None]
        return [(v, [e for e in edges if end[e] == v and k in (None, graph.kind[e])]) for v in range(graph.n) for k in kinds]

    def row(self, graph, v, elements):
        h = {"x": graph.x[v] if v is not None else None, "y": graph.y[v] if v is not None else None, "1": as_dual(1.0), None: None}[self.h]
        if not elements and self.empty:
            return as_dual(eval(self.empty, dict(FUNCTIONS, h=h)))
        s = {"s%d" % i: as_dual(float(start)) for i, (start, _) in enumerate(self.states)}
        for e in elements:
            at = {"x.src": graph.x[graph.src[e]], "x.dst": graph.x[graph.dst[e]], "w": graph.w[e]}
            m = eval(self.m.replace("x.src", "xs").replace("x.dst", "xd"), dict(FUNCTIONS, xs=at["x.src"], xd=at["x.dst"], w=at["w"]))
            for i, (_, update) in enumerate(self.states):
                name, names = "s%d" % i, dict(FUNCTIONS, m=m, **s)
                left, op, right = update.format(s=name).split(" ", 2)
                s[name] = as_dual(eval("%s %s (%s)" % (left, op[0], right) if op != "=" else right, names))
        return as_dual(eval(self.done, dict(FUNCTIONS, h=h, **s)))


# States, `done`, message and form. `reorder` makes a product with the number of elements of each sum, and its
# derivative meets what is infinite in rows without any: a state, a product with one, a quotient by what may be 0, also
# where only the key's group has no element.
FOUND = (((("inf", "{s} += m"), ("0", "{s} += m")), "s0 * tanh(s1)", "x.src", "out"),
         ((("inf", "{s} -= m"), ("inf", "{s} += m")), "s1 / s0", "x.src", "out"),
         ((("-inf", "{s} += m"),), "s0 * s0", "x.dst", "in"),
         ((("inf", "{s} += m"), ("0", "{s} += m")), "h * s0 * s1", "x.src", "out"),
         ((("inf", "{s} += m"), ("0", "{s} += m")), "h * s0 / (2 + s1)", "x.src", "out"),
         ((("inf", "{s} += m"), ("0", "{s} += m")), "s1 / (h / s0)", "x.src", "out"),
         ((("0", "{s} += m"), ("1", "{s} += m")), "s1 / s0", "0.5 * x.dst", "key"))


class Found(Reducer):
    """h is an input that has nothing to do with the message, so that the gradient by x is finite where that by h is not."""

    def __init__(self, states, done, m, form):
        self.states, self.done, self.m, self.form, self.empty = states, done, m, form, None
        self.h = "y" if "h " in done else None


class Graph:
    def __init__(self, n, edges, rng):
        self.n, (self.src, self.dst) = n, np.array(edges, int).reshape(-1, 2).T
        self.values = {"x": rng.uniform(0.3, 1.7, (n, F)) * rng.choice([-1, 1], (n, F)), "w": rng.uniform(0.3, 1.7, len(self.src)),
                       "kind": rng.integers(0, R, len(self.src))}
        self.values["y"] = rng.uniform(0.3, 1.7, (n, F))
        self.kind, self.y = self.values["kind"], [Dual(y) for y in self.values["y"]]
        self.x = [Dual(self.values["x"][v], {("x", v): np.ones(F)}) for v in range(n)]
        self.w = [Dual(self.values["w"][e], {("w", e): np.ones(F)}) for e in range(len(self.src))]


def wanted(reducer, graph, cotangent):
    """The result, and the gradients of its rows' sum with that cotangent by x [n, F] and w."""
    rows = [reducer.row(graph, v, elements) for v, elements in reducer.rows(graph)]
    d = {"x": np.zeros((graph.n, F)), "w": np.zeros((len(graph.src), F))}
    for row, c in zip(rows, cotangent.reshape(-1, F)):
        for (name, k), slope in row.d.items():
            d[name][k] += c * slope
    return np.array([row.v for row in rows]), d["x"], d["w"].sum(1)


def differs(got, want, exact):
    """What is infinite or NaN by the formula must be so, if `exact`: where a derivative is, sums of infinities may end in anything."""
    got, want = np.asarray(got).reshape(-1), np.asarray(want).reshape(-1)
    with np.errstate(all="ignore"):
        right = (abs(got - want) <= 1e-9 * np.maximum(1, abs(want))) | (got == want) | (np.isnan(got) & np.isnan(want))
    bad = ~right if exact else ~right & np.isfinite(want)
    return "element %d is %.9g, wanted %.9g" % (np.argmax(bad), got[np.argmax(bad)], want[np.argmax(bad)]) if bad.any() else None


def compare(lib, reducers, graph, rng):
    lib.on_graph(graph.n, graph.n, graph.src, graph.dst, 1, None)
    given = {"%s%d" % (name, k): graph.values[name] for name in "xw" for k in range(len(reducers))}
    given.update(kind=graph.kind, y=graph.values["y"])
    out = lib.forward(given)
    cots = [rng.uniform(0.5, 1.5, o.shape) for o in out]
    got = lib.vjp(given, cots)
    for k, r in enumerate(reducers):
        with np.errstate(all="ignore"):
            value, dx, dw = wanted(r, graph, cots[k])
        for name, g, want in (("value", out[k], value), ("gradient by x", got["grad.x%d" % k], dx), ("gradient by w", got["grad.w%d" % k], dw)):
            wrong = differs(g, want, name == "value")
            if wrong:
                return "%d nodes: %s: %s of\n%s\n%s" % (graph.n, name, wrong, r.text("r%d" % k), r.call(k))


def draw(first):
    r = random.Random(first)
    return [Reducer(r, first + k) for k in range(PER_LIBRARY)]


def test(box, reducers, first, options):
    rng = np.random.default_rng(first)
    inputs = ", ".join("x%d: node[F], w%d: edge" % (k, k) for k in range(len(reducers)))
    text = "\n".join(q.text("r%d" % k) for k, q in enumerate(reducers))
    text += "\nmodel net(%s, kind: edge index[R], y: node[F]) -> (%s) {\n  return %s\n}\n" % (
        inputs, ", ".join(q.type() for q in reducers), ", ".join(q.call(k) for k, q in enumerate(reducers)))
    box.write("net.gnn", text)
    out = box.path("%d_%d%s" % (len(reducers), first, "".join(options)))
    box.must(box.gnnc, "build", "net.gnn", "--set=F=%d,R=%d" % (F, R), "--dtype=f64", "--emit=lib", "--cpu=native", "--prefix=m", *options, "-o", out,
             limit=300)
    lib = library.Library(out + ".so", "m", np.float64)
    graphs = [Graph(6, [(0, 1), (2, 1), (2, 1), (3, 3), (1, 4), (4, 2), (0, 4), (2, 0), (2, 2)], rng), Graph(3, [], rng), Graph(1, [(0, 0)], rng)]
    for graph in graphs:
        wrong = compare(lib, reducers, graph, rng)
        if wrong:
            return wrong


box = Sandbox(sys.argv[1], "reducers")
begin = int(sys.argv[2]) if len(sys.argv) > 2 else 0
for options in ([], ["--disable=reorder"]):
    box.report("found" + "".join(options), test(box, [Found(*given) for given in FOUND], 0, options))
for seed in range(begin, begin + N * (3 if os.environ.get("GNNC_LONG") else 1), PER_LIBRARY):
    box.report("%d" % seed, test(box, draw(seed), seed, []))
    box.report("%d_without_reorder" % seed, test(box, draw(seed), seed, ["--disable=reorder", "--quick"]))
box.close()
