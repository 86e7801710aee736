"""Draws programs of the language. Each is built value by value, as .gnn and as torch (oracle.py) at once, on data that is
drawn first: an operation whose result is infinite, or hangs on the rounding of a comparison, is thrown away and another drawn.

A Value has a type, a template of .gnn and a line of torch over the names of its arguments. Scopes are the blocks of
`over GRAPH { ... }`. What is used twice, or from another scope, is printed as a statement, the rest where it is used."""
import itertools
import random

import torch

import oracle

WIDTHS = [1, 2, 2, 3, 3, 4, 7, 16, 33, 64]
MOST = 40000  # elements of one value
NEAREST = 1e-3  # a comparison nearer to a tie than this hangs on rounding in single precision


class Refused(Exception):
    """This operation does not go here: another is drawn."""


class Value:
    def __init__(self, id, space, dims, gnn, py, args=(), scope=None, kind="float"):
        self.id, self.space, self.dims, self.gnn, self.py, self.args, self.scope, self.kind = id, space, dims, gnn, py, list(args), scope, kind
        self.name = "v%d" % id
        self.needs = []     # graphs and instances that the text names
        self.named = False  # a statement of its own
        self.typed = False  # with its type, which names its dims
        self.source = None  # input, param
        self.body = None    # over: the value of the block
        self.random = None  # rand, randn, dropout: what it drew is a result
        self.hidden = False  # a parameter of an instance
        self.filled = None  # the outer graph's edge value that this is of the derived graph
        self.uses_def = None
        self.mixes = False  # each row reads rows that no edge leads from

    def code(self):
        return ("r" if self.space else "") + "".join(self.dims)


class Graph:
    """A graph at hand: its name in both texts, the spaces of its ends and edges, and the value or graphs that its text names."""

    def __init__(self, id, name, src, dst, edge, gnn=None, py=None, args=(), base=None, scope=None):
        self.id, self.name, self.src, self.dst, self.edge, self.gnn, self.py, self.args, self.base, self.scope = \
            id, name, src, dst, edge, gnn, py, list(args), base, scope
        self.needs = [base] if base else []
        self.body, self.source = None, None
        self.mixes = False


class Instance:
    def __init__(self, id, name, text, scope):
        self.id, self.name, self.gnn, self.scope, self.args, self.needs, self.body, self.source, self.py = id, name, text, scope, [], [], None, None, None


class Scope:
    def __init__(self, graph, parent=None):
        self.graph, self.parent, self.values = graph, parent, []

    def chain(self):
        s = self
        while s:
            yield s
            s = s.parent

    def visible(self):
        shadowed = {id(v.filled) for s in self.chain() for v in s.values}
        return [v for s in self.chain() for v in s.values if not v.hidden and id(v) not in shadowed]


# ---- formulas by element: (.gnn, torch) ----

UNARY = [("tanh(%s)", "T.tanh(%s)"), ("sigmoid(%s)", "T.sigmoid(%s)"), ("exp(%s)", "T.exp(%s)"), ("expm1(%s)", "T.expm1(%s)"),
         ("log(1 + abs(%s))", "T.log(1 + T.abs(kinks(%s, 0)))"), ("log1p(square(%s))", "T.log1p(T.square(%s))"),
         ("sqrt(abs(%s) + 0.1)", "T.sqrt(T.abs(kinks(%s, 0)) + 0.1)"), ("erf(%s)", "T.erf(%s)"), ("sin(%s)", "T.sin(wave(%s))"),
         ("cos(%s)", "T.cos(wave(%s))"), ("abs(%s)", "T.abs(kinks(%s, 0))"), ("sign(%s)", "T.sign(kinks(%s, 0))"), ("floor(%s)", "floor(%s)"),
         ("square(%s)", "T.square(%s)"), ("(-%s)", "(-%s)"), ("pow(abs(%s) + 0.2, 1.5)", "T.pow(T.abs(kinks(%s, 0)) + 0.2, 1.5)"),
         ("(1 / (1 + square(%s)))", "(1 / (1 + T.square(%s)))"), ("clamp(%s, -1, 0.5)", "clamp(%s, -1, 0.5)"), ("(2 * %s)", "(2 * %s)"),
         ("(%s + 1)", "(%s + 1)"), ("(0.5 - %s)", "(0.5 - %s)"), ("(%s ** 2)", "(%s ** 2)"), ("detach(%s)", "(%s).detach()")]
# Long to compile: drawn rarely.
LONG = [("atan2(%s, %s + 5)", "T.atan2(%s, %s + 5)")]
BINARY = [("(%s + %s)", "(%s + %s)"), ("(%s - %s)", "(%s - %s)"), ("(%s * %s)", "(%s * %s)"), ("(%s * %s)", "(%s * %s)"),
          ("(%s / (1 + abs(%s)))", "(%s / (1 + T.abs(kinks(%s, 0))))"), ("max(%s, %s)", "maximum(%s, %s)"), ("min(%s, %s)", "minimum(%s, %s)"),
          ("mse(%s, %s)", "T.square(%s - %s)"), ("mae(%s, %s)", "T.abs(kinks(%s - %s, 0))"),
          ("where(%s < %s, 0.5, 1)", "T.where(less(%s, %s), num_(0.5, D), num_(1., D))"),
          ("where(%s < 0.25, %s, -0.5)", "T.where(less(%s, T.tensor(0.25, dtype=D)), %s, num_(-0.5, D))")]
ACTIVATIONS = [("relu(%s)", "nnf.relu(kinks(%s, 0))"), ("leaky_relu(%s, 0.2)", "nnf.leaky_relu(kinks(%s, 0), 0.2)"),
               ("elu(%s)", "elu(%s)"), ("elu(%s, alpha = 2)", "elu(%s, 2.0)"),
               ("selu(%s)", "(1.0507009873554805 * elu(%s, 1.6732632423543772))"), ("celu(%s, alpha = 2)", "elu(%s, 2.0, 2.0)"), ("gelu(%s)", "nnf.gelu(%s)"),
               ("gelu(%s, approximate = \"tanh\")", "nnf.gelu(%s, approximate='tanh')"), ("silu(%s)", "nnf.silu(%s)"),
               ("softplus(%s)", "nnf.softplus(%s)"), ("softplus(%s, beta = 3)", "nnf.softplus(%s, 3.0)"), ("log_sigmoid(%s)", "nnf.logsigmoid(%s)"),
               ("mish(%s)", "nnf.mish(%s)"), ("softsign(%s)", "nnf.softsign(kinks(%s, 0))"), ("hard_sigmoid(%s)", "hard_sigmoid(%s)"),
               ("hard_swish(%s)", "hard_swish(%s)"), ("hard_shrink(%s)", "nnf.hardshrink(kinks(%s, -0.5, 0.5))"),
               ("soft_shrink(%s)", "nnf.softshrink(kinks(%s, -0.5, 0.5))"), ("tanh_shrink(%s)", "nnf.tanhshrink(%s)")]
LOSSES = [("bce_with_logits(%s, sigmoid(%s))", "nnf.binary_cross_entropy_with_logits(*T.broadcast_tensors(%s, T.sigmoid(%s)), reduction='none')")]
# Of what exists somewhere only, behind the condition that says where.
GUARDED = [("where({0} == 0, 0.5, 1 / {0})", "guarded({0}, lambda x: 1 / x, lambda x: x != 0, 0.5)"),
           ("where({0} > 0, log({0}), -1)", "guarded({0}, T.log, lambda x: x > 0, -1.0)"),
           ("where({0} > 0, sqrt({0}), 0)", "guarded({0}, T.sqrt, lambda x: x > 0, 0.0)"),
           ("where({0} <= 0, 2, exp(-1 / {0}))", "guarded({0}, lambda x: T.exp(-1 / x), lambda x: x > 0, 2.0)")]
# Infinite where the operand is 0, whatever the sign of the zero.
POLES = [("(1 / abs({0}))", "(1 / T.abs(pole({0})))"), ("log(abs({0}))", "T.log(T.abs(pole({0})))"), ("(1 / square({0}))", "(1 / T.square(pole({0})))"),
         ("sqrt(1 / abs({0}))", "T.sqrt(1 / T.abs(pole({0})))")]
# What a step may not hold, which sees one element.
NO_STEPS = ["sum_in(m)", "max_out(m)", "sum_all(m)", "readout_sum(m)", "m.src"]
# Of states: what may stand in `done`.
DONES = {1: [("%s", "%s"), ("tanh(%s)", "T.tanh(%s)"), ("%s / 2 - 1", "(%s) / 2 - 1")],
         2: [("%s * %s", "%s * %s"), ("%s + tanh(%s)", "%s + T.tanh(%s)"), ("%s * tanh(%s)", "%s * T.tanh(%s)"),
             ("%s / (1 + abs(%s))", "%s / (1 + T.abs(kinks(%s, 0)))"), ("max(%s, %s)", "maximum(%s, %s)"), ("%s - %s", "%s - %s")]}
STEPS = [("m", "m"), ("m", "m"), ("m * m", "m * m"), ("tanh(m)", "T.tanh(m)"), ("abs(m)", "T.abs(kinks(m, 0))"), ("exp(0.5 * m)", "T.exp(0.5 * m)"),
         ("t * m", "t * m"), ("1 + 0.25 * tanh(m)", "1 + 0.25 * T.tanh(m)"), ("sin(m) + t", "T.sin(wave(m)) + t"), ("1", "T.ones_like(m)")]
STARTS = {"sum": [0, 0, 0.5, -1], "mul": [1, 1, 2, 0.5], "max": ["-inf", "-inf", 0.5, -1, 0], "min": ["inf", "inf", 0.5, -1, 0]}


def data_graph(rng, kind, n_graphs, bipartite, torch_rng):
    """The data's graph: sizes and shapes that programs meet, by kind."""
    n = {"one": 1, "hub": rng.randint(2, 6), "large": rng.randint(20, 70)}.get(kind, rng.randint(2, 14))
    m = rng.randint(1, 12) if bipartite else n
    ends = data_edges(rng, kind, n, m, not bipartite)
    of = sorted(rng.randrange(n_graphs) for _ in range(n))
    return oracle.Graph(n, m, [s for s, d in ends], [d for s, d in ends], of, n_graphs)


def data_edges(rng, kind, n, m, loops):
    """Pairs of one of n sources and one of m targets."""
    n_edges = {"bare": 0, "one": rng.randint(0, 3), "hub": 3000, "large": rng.randint(60, 400)}.get(kind, rng.randint(1, 4 * n))
    ends = [(rng.randrange(n), rng.randrange(m)) for _ in range(n_edges)]
    if kind == "hub":
        into = rng.random() < 0.5
        ends = [((s, 0) if into else (0, d)) if rng.random() < 0.98 else (s, d) for s, d in ends]
    if kind == "sparse":  # empty rows
        ends = [(s, d % max(1, m // 3)) for s, d in ends]
    if ends and rng.random() < 0.5:
        ends += [ends[rng.randrange(len(ends))] for _ in range(2)]  # parallel
    if ends and loops and rng.random() < 0.5:
        ends += [(v, v) for v in (rng.randrange(n),) * rng.randint(1, 2)]  # loops
    rng.shuffle(ends)
    return ends


GRAPHS = ["plain"] * 6 + ["sparse"] * 4 + ["one", "bare", "hub", "large"]


class Draw:
    """One program. `lines`: its torch, a name and an expression each; `text()`: its .gnn."""

    def __init__(self, seed, steps=(3, 5, 8, 12, 18)):
        self.seed, self.steps, self.rng = seed, steps, random.Random(seed)
        rng = self.rng
        self.kinky = rng.random() < 0.35
        self.poles = self.kinky and rng.random() < 0.25  # values may be infinite
        self.invalid = set()  # names of definitions that the compiler refuses
        self.bipartite = rng.random() < 0.06
        self.train = rng.random() < 0.15
        self.n_graphs = rng.choice([1, 1, 2, 4])
        self.kind = rng.choice(GRAPHS)
        letters = ["F", "G", "K", "H"][:rng.randint(1, 4)]
        self.sizes = {d: rng.choice(WIDTHS if self.kind != "hub" else WIDTHS[:6]) for d in letters}
        self.sizes.update({d: rng.choice([1, 2, 3, 4]) for d in ("R", "C")})
        self.letters = letters
        self.n_ids, self.defs, self.values, self.graphs, self.drawn_keys = 0, [], [], [], {}
        self.data_seed = rng.randrange(1 << 30)
        self.spaces()
        self.scope = self.top = Scope(self.g)
        self.ns = self.names(self.data(random.Random(self.data_seed), self.kind), torch.float64)
        self.draw()

    def spaces(self):
        """The graph at hand, the spaces that inputs may have, and the number of rows of each in torch; integers are given to those of `keyed`."""
        ends = ["src", "dst"] if self.bipartite else ["node", "node"]
        self.g = Graph(0, "g", *ends, "edge")
        self.space_py = {"node": "g.n_src", "src": "g.n_src", "dst": "g.n_dst", "edge": "g.edges()", "graph": "g.n_graphs"}
        self.given, self.keyed = [*ends, "edge"], ["node", "edge"] if not self.bipartite else ["edge"]
        self.made = list(self.space_py)

    largest = 1e3  # of a value's elements
    quick = 0.75  # the share of its builds without LLVM's optimiser
    nameable = [None, "graph"]  # spaces that have a name wherever they are spoken of

    def data(self, rng, kind):
        return data_graph(rng, kind, self.n_graphs, self.bipartite, None)

    def described(self, g):
        """What library.on_graph takes."""
        return g.n_src, g.n_dst, g.src.tolist(), g.dst.tolist(), g.n_graphs, g.of.tolist() if g.n_graphs > 1 else None

    def topology(self, g):
        """Rows of each space of nodes of these data, and their graphs: the space of edges, those of the ends, the graph."""
        return {self.g.src: g.n_src, self.g.dst: g.n_dst}, [(self.g.edge, self.g.src, self.g.dst, g)]

    def data_kinds(self):
        """Which kinds of graphs the program may be run on."""
        pairs = any(isinstance(v, Graph) and v.py and v.py.startswith(("line", "siblings", "complete")) for v in items(self))
        return GRAPHS if max(self.sizes.values()) < 16 and not pairs else ["plain", "sparse", "one", "bare"]

    def names(self, g, dtype):
        ns = {k: getattr(oracle, k) for k in dir(oracle) if not k.startswith("_")}
        ns.update(g=g, D=dtype, num_=lambda c, d: torch.full((), c, dtype=d))
        return ns

    # ---- making values ----

    def id(self):
        self.n_ids += 1
        return self.n_ids

    def rows(self, space, names=None):
        return 1 if space is None else eval(self.space_py[space], names or self.ns)

    def width(self, dims):
        n = 1
        for d in dims:
            n *= self.sizes[d]
        return n

    def fits(self, space, dims):
        if len(dims) > 4 or len(set(dims)) < len(dims) or self.width(dims) > 2200 or self.rows(space) * self.width(dims) > MOST:
            raise Refused("size")

    def make(self, space, dims, gnn, py, args=(), kind="float", **more):
        """A value by its two texts; `{0}` of both stands for the first argument. Refused where its numbers are not fit."""
        dims = tuple(dims)
        self.fits(space, dims)
        g = self.scope.graph
        if more.get("typed") and space not in self.nameable + [g.edge, g.src, g.dst]:
            raise Refused("a type of another graph")
        v = Value(self.id(), space, dims, gnn, py, args, self.scope, kind)
        for k, x in more.items():
            setattr(v, k, x)
        v.needs = v.needs + [s.graph for s in self.scope.chain() if s.graph is not self.g]
        oracle.Watch.clear()
        x = self.evaluate(v, self.ns)
        want = ([self.rows(space)] if space else []) + [self.sizes[d] for d in dims]
        assert list(x.shape) == want, "%s: %s is no %s, %s" % (v.py, list(x.shape), want, [(a.py, a.code()) for a in v.args])
        if kind == "float":
            finite = x.detach()[torch.isfinite(x)]
            known = not bool(x.isnan().any()) if self.poles else len(finite) == x.numel()
            if not known or len(finite) and float(finite.abs().max()) > self.largest or oracle.Watch.least < NEAREST:
                raise Refused("numbers")
        # a derivative that is 0 because its parts cancel is a rounding error elsewhere
        v.rounded = "derivative(" in v.py or any(getattr(a, "rounded", False) for a in v.args)
        if v.rounded and oracle.Watch.ties:
            raise Refused("ties of what is rounded")
        self.ns[v.name] = x
        self.values.append(v)
        self.scope.values.append(v)
        return v

    @staticmethod
    def line(v, names=None):
        return v.py.format(*[a.name for a in v.args])

    def evaluate(self, v, ns):
        return eval(self.line(v), ns)

    # ---- inputs ----

    def fresh_data(self, space, dims, torch_rng, rows):
        shape = ([rows] if space else []) + [self.sizes[d] for d in dims]
        x = torch.randn(shape, generator=torch_rng, dtype=torch.float64)
        if not space and len(dims) > 1:
            x = x / self.sizes[dims[0]] ** 0.5
        if self.kinky:
            x = (2 * x).round().clamp(-6, 6) / 2
        return x

    def input(self, space, dims=None, kind="float", source=None):
        if dims is None:
            dims = self.rng.sample(self.letters, min(len(self.letters), self.rng.choice([0, 1, 1, 1, 2])))
        dims = tuple(dims)
        self.fits(space, dims)
        source = source or ("param" if kind == "float" and space is None and self.rng.random() < 0.3 else "input")
        v = Value(self.id(), space, dims, None, None, [], self.top, kind)
        v.source, v.name = source, "%s%d" % ({"n": "x", "s": "x", "d": "z", "e": "e", "g": "y", "": "M"}[(space or "")[:1]] if source == "input" else "W", v.id)
        if kind != "float":
            v.name = "i%d" % v.id
        self.ns[v.name] = self.input_data(v, self.data_seed, self.ns)
        self.values.append(v)
        self.top.values.append(v)
        return v

    def input_data(self, v, seed, ns):
        rng = torch.Generator().manual_seed(seed * 1000 + v.id)
        rows = eval(self.space_py[v.space], ns) if v.space else 1
        if v.kind != "float":
            return torch.randint(0, self.sizes[v.kind], [rows] + [self.sizes[d] for d in v.dims], generator=rng)
        return self.fresh_data(v.space, v.dims, rng, rows).requires_grad_(True)

    def key(self, space):
        """An integer of each row below R or C."""
        letter = self.rng.choice("RC")
        have = [v for v in self.scope.visible() if v.kind == letter and v.space == space]
        return have[0] if have else self.input(space, (), letter)

    # ---- choosing ----

    def pick(self, test, most=0.75):
        """A value that passes; recent ones rather than old ones."""
        some = [v for v in self.scope.visible() if v.kind == "float" and test(v)]
        if not some:
            raise Refused("nothing fits")
        some.sort(key=lambda v: v.id)
        if self.rng.random() < most:
            some = some[-4:]
        return self.rng.choice(some)

    def on(self, space, test=lambda v: True, dims=None):
        """A value of this space, or a new input, with these dims if they are given."""
        try:
            if self.rng.random() < 0.8:
                return self.pick(lambda v: v.space == space and test(v))
        except Refused:
            pass
        if space is None or space in self.made:
            v = self.input(space, dims)
            if test(v):
                return v
        return self.pick(lambda v: v.space == space and test(v))

    def edges(self, test=lambda v: True):
        return self.on(self.scope.graph.edge, test)

    def meet(self, *values):
        """The type in which values meet, and each in torch in that shape."""
        spaces = {v.space for v in values} - {None}
        if len(spaces) > 1:
            raise Refused("two spaces")
        space = spaces.pop() if spaces else None
        dims = []
        for v in values:
            dims += [d for d in v.dims if d not in dims]
        want = ("r" if space else "") + "".join(dims)
        py = ["al({%d}, %r, %r)" % (i, v.code(), want) if v.code() != want else "{%d}" % i for i, v in enumerate(values)]
        return space, tuple(dims), py

    def formula(self, names, depth):
        """(.gnn, torch) over operands that are given as both; each stands at least once if depth allows."""
        rng = self.rng
        if depth == 0:
            return rng.choice(names)
        if len(names) > 1 or rng.random() < 0.35:
            a, b = self.formula(names[:1], depth - 1), self.formula(names[1:] or names, depth - 1)
            form = rng.choice(LONG if rng.random() < 0.04 else BINARY)
            return form[0] % (a[0], b[0]), form[1] % (a[1], b[1])
        a = self.formula(names, depth - 1)
        form = rng.choice(UNARY if rng.random() < 0.75 else ACTIVATIONS)
        return form[0] % self.closed(a[0]), form[1] % a[1]

    @staticmethod
    def closed(text):
        """An operand that binds as a name does."""
        return text if text.replace("{", "").replace("}", "").replace("_", "").isalnum() or text.startswith("(") and text.endswith(")") else "(%s)" % text

    # ---- operations ----

    def op_point(self):
        n = self.rng.choice([1, 2, 2, 3])
        a = self.pick(lambda v: True)
        values = [a]
        while len(values) < n:
            values.append(self.on(self.rng.choice([a.space, a.space, None])))
        called = self.rng.random() < 0.2  # as a function of its own
        gnn, py = self.formula([("{%d}" % i,) * 2 for i in range(n)], 3 if called else self.rng.choice([1, 2, 2, 3]))
        read = [i for i in range(n) if "{%d}" % i in gnn]
        if gnn == "{0}":
            raise Refused("nothing done")
        values, order = [values[i] for i in read], {i: k for k, i in enumerate(read)}
        space, dims, als = self.meet(*values)
        typed = any(self.meet(*some)[1] != dims for some in itertools.permutations(values))  # in which order dims come depends on the formula
        py = py.format(*[als[order[i]] if i in order else "" for i in range(n)])
        name, places = None, ["{%d}" % order[i] if i in order else "" for i in range(n)]
        if called:
            name = "f%d" % self.id()
            self.defs.append((name, "fn %s(%s) = %s" % (name, ", ".join("a%d" % i for i in read), gnn.format(*["a%d" % i for i in range(n)]))))
            gnn = "%s(%s)" % (name, ", ".join("{%d}" % k for k in range(len(read))))
        else:
            gnn = gnn.format(*places)
        return self.make(space, dims, gnn, self.whole(py, space, dims), values, uses_def=name, typed=typed, named=typed)

    def whole(self, py, space, dims):
        """In the shape of its type, also where torch has dims of size 1."""
        shape = ", ".join((["%s" % self.space_py[space]] if space else []) + [str(self.sizes[d]) for d in dims])
        return "(%s).expand(%s)" % (py, shape) if shape else "(%s).reshape(())" % py

    def op_act(self):
        v, form = self.pick(lambda v: True), self.rng.choice(ACTIVATIONS)
        return self.make(v.space, v.dims, form[0] % "{0}", form[1] % "{0}", [v])

    def op_guard(self):
        v, form = self.pick(lambda v: True), self.rng.choice(GUARDED)
        return self.make(v.space, v.dims, *form, [v])

    def op_pole(self):
        if not self.poles:
            raise Refused("all is finite")
        v, form = self.pick(lambda v: True), self.rng.choice(POLES)
        return self.make(v.space, v.dims, *form, [v])

    def op_prelu(self):
        v, per = self.pick(lambda v: v.dims), self.rng.random() < 0.5
        w = self.input(None, v.dims[-1:] if per else (), source="param")
        inst = Instance(self.id(), "u%d" % self.id(), "prelu(channels = 2)" if per else "prelu()", self.top)
        w.stored, w.hidden = inst.name + ".weight", True
        return self.make(v.space, v.dims, inst.name + "({0})", "T.where({0} > 0, kinks({0}, 0), {1} * {0})", [v, w], needs=[inst])

    def op_loss(self):
        v, form = self.pick(lambda v: True), self.rng.choice(LOSSES)
        return self.make(v.space, v.dims, form[0] % ("{0}", "{0}"), form[1] % ("{0}", "{0}"), [v])

    def op_cross_entropy(self):
        v = self.pick(lambda v: v.dims == ("C",) and v.space in self.keyed + ["graph"])
        y = self.key_of(v.space, "C")
        return self.make(v.space, (), "cross_entropy({0}, {1})", "nnf.cross_entropy({0}, {1}, reduction='none')", [v, y])

    def key_of(self, space, letter):
        have = [v for v in self.scope.visible() if v.kind == letter and v.space == space]
        return have[0] if have else self.input(space, (), letter)

    def op_dims(self):
        v = self.pick(lambda v: v.dims)
        d = self.rng.choice(v.dims)
        at = v.code().index(d)
        less = tuple(x for x in v.dims if x != d)
        form, same = self.rng.choice([("sum", 0), ("max", 0), ("min", 0), ("mean", 0), ("logsumexp", 0), ("norm", 0), ("softmax", 1),
                                      ("log_softmax", 1), ("l2_normalize", 1), ("row_normalize", 1)])
        py = {"sum": "{0}.sum(A)", "max": "top({0}, A)", "min": "-top(-{0}, A)", "mean": "{0}.mean(A)", "logsumexp": "logsumexp({0}, A)",
              "norm": "length({0}, A)", "softmax": "T.softmax({0}, A)", "log_softmax": "T.log_softmax({0}, A)",
              "l2_normalize": "{0} / maximum(length({0}, A), num_(1e-12, D)).unsqueeze(A)",
              "row_normalize": "{0} / T.clamp(kinks({0}.sum(A), 1), min=1).unsqueeze(A)"}[form].replace("A", str(at))
        return self.make(v.space, v.dims if same else less, "%s({0}, %s)" % (form, d), py, [v])

    def op_sum_dims(self):
        v = self.pick(lambda v: len(v.dims) > 1)
        form = self.rng.choice(["sum", "max", "min", "logsumexp"])
        first = int(v.space is not None)
        flat = "{0}.flatten(%d)" % first
        if v.space and not self.rows(v.space):
            raise Refused("no rows")
        py = {"sum": flat + ".sum(-1)", "max": "top_of_all({0}, %d)" % first, "min": "-top_of_all(-{0}, %d)" % first, "logsumexp": "logsumexp(%s, -1)" % flat}[form]
        return self.make(v.space, (), "%s({0})" % form, py, [v])

    def op_matmul(self):
        v = self.pick(lambda v: v.dims)
        d = v.dims[-1]
        others = [x for x in self.letters + ["C"] if x not in v.dims]
        if not others:
            raise Refused("no dim left")
        out = self.rng.sample(others, self.rng.choice([1, 1, 2]) if len(others) > 1 else 1)
        place = self.rng.randint(0, len(out))
        w = self.on(None, lambda w: d in w.dims and len(w.dims) > 1 and not set(w.dims) & set(v.dims[:-1]) and w.dims.index(d) == 0) \
            if self.rng.random() < 0.4 else self.input(None, tuple(out[:place] + [d] + out[place:]))
        rest = tuple(x for x in w.dims if x != d)
        if set(rest) & set(v.dims):
            raise Refused("dims")
        a, b = v.code(), "".join(w.dims)
        return self.make(v.space, v.dims[:-1] + rest, "({0} @ {1})", "T.einsum('%s,%s->%s', {0}, {1})" % (a, b, a[:-1] + "".join(rest)), [v, w])

    def op_dot(self):
        v = self.pick(lambda v: v.dims)
        w = self.on(self.rng.choice([v.space, None]), lambda w: set(w.dims) & set(v.dims))
        d = self.rng.choice([x for x in v.dims if x in w.dims])
        space, dims, py = self.meet(v, w)
        at = (("r" if space else "") + "".join(dims)).index(d)
        return self.make(space, tuple(x for x in dims if x != d), "dot({0}, {1}, %s)" % d, "(%s * %s).sum(%d)" % (*py, at), [v, w])

    def op_dense(self):
        v = self.pick(lambda v: v.dims)
        d = v.dims[-1]
        others = [x for x in self.letters if x not in v.dims]
        if not others:
            raise Refused("no dim left")
        out = self.rng.choice(others)
        have = [i for i in self.values if getattr(i, "instance", None) and i.dims == (d, out)]
        if have and self.rng.random() < 0.5:
            w = have[0]
        else:
            if not any(n == "dense" for n, _ in self.defs):
                self.defs.append(("dense", "layer dense(x: @d[..., A]) -> @d[..., B] {\n  param W: [A, B] = glorot\n  param b: [B] = zeros\n  return x @ W + b\n}"))
            w, b = self.input(None, (d, out), source="param"), self.input(None, (out,), source="param")
            w.instance = Instance(self.id(), "l%d" % self.id(), "dense()", self.top)
            w.bias, w.stored, b.stored = b, w.instance.name + ".W", w.instance.name + ".b"
            w.hidden = b.hidden = True
        a = v.code()
        return self.make(v.space, v.dims[:-1] + (out,), w.instance.name + "({0})", "T.einsum('%s,%s->%s', {0}, {1}) + {2}" % (a, d + out, a[:-1] + out),
                         [v, w, w.bias], needs=[w.instance], typed=True, named=True, uses_def="dense")

    def op_cross(self):
        g = self.scope.graph
        side = self.rng.choice(["src", "dst"])
        v = self.on(g.src if side == "src" else g.dst)
        return self.make(g.edge, v.dims, "{0}.%s" % side, "{0}[%s.%s]" % (g.name, side), [v])

    def op_graph(self):
        if self.bipartite or self.scope.graph.src != "node":
            raise Refused("no graphs")
        v = self.on("graph")
        return self.make("node", v.dims, "{0}.graph", "{0}[g.of]", [v])

    def where_to(self, keyed=True):
        """Something to reduce: the value, what names the reducer's form, its rows in torch, what is reduced to, the key and its text."""
        g, rng = self.scope.graph, self.rng
        form = rng.choice(["in", "in", "in", "in", "out", "out", "all", "readout"])
        if form in ("in", "out"):
            v = self.edges()
            name, rows, to = "%s_" + form, "%ss(%s%%s)" % (form, g.name), g.dst if form == "in" else g.src
        elif form == "all":
            v = self.pick(lambda v: v.space)
            name, rows, to = "%s_all", "All(len({0})%s)", None
        else:
            spaces = {"node": "of_nodes(g)", "edge": "of_edges(g)"} if not self.bipartite else {}
            if getattr(g, "chosen", False):
                spaces = {g.src: "of_nodes(%s)" % g.name}
            v = self.pick(lambda v: v.space in spaces)
            name, rows, to = "readout_%s", spaces[v.space], "graph"
        key = None
        if keyed and form != "readout" and rng.random() < 0.12 and v.space in self.keyed:
            key = self.key(v.space)
        return v, form, name, rows, to, key

    def reduced(self, v, rows, to, key, gnn, method, extra=(), free=True):
        """The value of a reducer: `gnn` holds `BY` where a key may be named."""
        args, dims = [v] + list(extra), v.dims
        if "%s" in rows:
            rows = rows % (", {%d}, %d" % (len(args), self.sizes[key.kind]) if key else "")
        by = ", by = {%d}" % len(args) if key else ""
        if key:
            args, dims = args + [key], (key.kind,) + v.dims
        out = self.make(to, dims, gnn.replace("BY", by), rows + "." + method, args)
        return out

    def op_reduce(self):
        v, form, name, rows, to, key = self.where_to()
        word, py = self.rng.choice([("sum", "sum"), ("sum", "sum"), ("mean", "mean"), ("max", "max"), ("min", "min"), ("mul", "mul"), ("var", "var"),
                                    ("std", "std"), ("logsumexp", "logsumexp"), ("powermean", "powermean")])
        if form in ("all", "out", "readout") and key and word in ("std", "logsumexp"):
            key = None  # families of functions take a key with _in only
        if word == "powermean":
            p = self.rng.choice([2, 3])
            return self.reduced(v, rows, to, key, name % word + "({0}, p = %dBY)" % p, "powermean({0}, %d.0)" % p)
        if form == "readout" and v.space != "node" and word in ("std", "logsumexp"):
            raise Refused("of nodes only")
        return self.reduced(v, rows, to, key, name % word + "({0}BY)", py + "({0})")

    def reducer(self):
        """A reducer of the program's own: its name, whether it takes t, and the torch of its states, done and empty."""
        rng, n = self.rng, self.rng.choice([1, 1, 2, 2, 3])
        states, with_t, py, bad = [], False, [], False
        for k in range(n):
            op = rng.choice(["sum", "sum", "mul", "max", "min"])
            f = rng.choice(STEPS if k else STEPS[:-1])
            start = rng.choice(STARTS[op])
            with_t |= "t" in f[0].replace("tanh", "")
            update = {"sum": ["s%d += %s", "s%d = s%d + (%s)", "s%d -= -(%s)"], "mul": ["s%d *= %s", "s%d /= 1 / (%s)"], "max": ["s%d = max(s%d, %s)"],
                      "min": ["s%d = min(%s, s%d)"]}[op]
            update = rng.choice(update)
            if update.count("%d") == 1:
                update = update % (k, f[0])
            else:
                update = update % ((k, f[0], k) if op == "min" else (k, k, f[0]))
            if update.find("/=") > 0 and f[0] != "1 + 0.25 * tanh(m)":
                update = "s%d *= %s" % (k, f[0])
            if rng.random() < 0.01:
                update, bad = "s%d += %s" % (k, rng.choice(NO_STEPS)), True
            states.append((op, start, update))
            py.append("(%r, %s, %s)" % (op, start, f[1]))
        merge = ""
        if rng.random() < 0.3:
            how = {"sum": "s%d += other.s%d", "mul": "s%d *= other.s%d"}
            merge = "  merge { %s }\n" % "; ".join(how[op] % (k, k) if op in how else "s%d = %s(s%d, other.s%d)" % (k, op, k, k)
                                                    for k, (op, _, _) in enumerate(states))
        done = ("s0", "s0")
        for k in range(1, n):
            form = rng.choice(DONES[2])
            a, b = (done, ("s%d" % k,) * 2) if rng.random() < 0.7 else (("s%d" % k,) * 2, done)
            done = "(" + form[0] % (a[0], b[0]) + ")", "(" + form[1] % (a[1], b[1]) + ")"
        if rng.random() < 0.4:
            form = rng.choice(DONES[1])
            done = form[0] % done[0], form[1] % done[1]
        empty = rng.choice([None, 0, 0, -1, 3])
        name = "r%d" % self.id()
        text = "reduce %s(m%s) {\n  state %s\n  step { %s }\n%s  done = %s\n%s}" % (
            name, ", t = 1" if with_t else "", ", ".join("s%d = %s" % (k, s[1]) for k, s in enumerate(states)), "; ".join(s[2] for s in states), merge,
            done[0], "" if empty is None else "  empty = %s\n" % empty)
        self.defs.append((name, text))
        self.invalid |= {name} if bad else set()
        args = ", ".join("s%d" % k for k in range(n))
        method = "fold([%s], lambda %s: %s, %s)" % (", ".join(py).replace("-inf", "-oracle_inf").replace("inf", "inf"), args, done[1], empty)
        return name, with_t, method.replace("oracle_", "")

    def op_own_reduce(self):
        v, form, name, rows, to, key = self.where_to()
        word, with_t, method = self.reducer()
        extra, t_text, t_py = [], "", "1"
        if with_t:
            c = self.rng.choice([2, 0.5, -1])
            t_text, t_py = ", t = %s" % c, str(c)
            if self.rng.random() < 0.4:
                t = self.on(None, lambda t: set(t.dims) <= set(v.dims))
                extra, t_text, t_py = [t], ", t = {1}", "al({1}, %r, %r)" % (t.code(), v.code())
        method = "fold" + method[4:].replace("{", "{{").replace("}", "}}")
        for name_, text in (("m", "{0}"), ("t", t_py)):
            method = re_word(name_, text, method)
        out = self.reduced(v, rows, to, key, name % word + "({0}%sBY)" % t_text, method, extra)
        out.uses_def = word
        return out

    def op_softmax(self):
        form = self.rng.choice(["in", "out"])
        v, g = self.edges(), self.scope.graph
        if g.edge in self.keyed and self.rng.random() < 0.3:
            key = self.key(g.edge)
            return self.make(g.edge, v.dims, "softmax_%s({0}, by = {1})" % form, "%ss(%s, {1}, %d).softmax({0})" % (form, g.name, self.sizes[key.kind]), [v, key])
        return self.make(g.edge, v.dims, "softmax_%s({0})" % form, "%ss(%s).softmax({0})" % (form, g.name), [v])

    def op_count(self):
        """What only the graph says."""
        g, form = self.scope.graph, self.rng.choice(["indegree", "outdegree", "position"])
        if form == "position":
            v, says, counts = self.edges(), "0.5 + float(position_in())", "0.5 + ins(%s).places().to(D)"
        else:
            v, says, counts = self.on(g.dst if form == "indegree" else g.src), "1 / (1 + %s)" % form, "1 / (1 + %ss(%%s).count.to(D))" % form[:-6]
        return self.make(v.space, v.dims, "({0} * (%s))" % says, "({0} * (%s).reshape([-1] + [1] * %d))" % (counts % g.name, len(v.dims)), [v])

    def op_order(self):
        g, rng = self.scope.graph, self.rng
        form = rng.choice(["median", "quantile", "rank", "readout_median", "sort", "rank_all", "rank_readout"])
        if form in ("median", "quantile", "rank"):
            v = self.edges()
            if form == "median":
                return self.make(g.dst, v.dims, "median_in({0})", "ins(%s).median({0})" % g.name, [v])
            if form == "quantile":
                q, how = rng.choice([0, 0.25, 0.5, 0.8, 1]), rng.choice(["linear", "lower", "higher", "midpoint", "nearest"])
                return self.make(g.dst, v.dims, "quantile_in({0}, %s, interpolation = \"%s\")" % (q, how), "ins(%s).quantile({0}, %s, %r)" % (g.name, q, how), [v])
            w, side, k = self.edges(lambda w: w.dims == v.dims), rng.choice(["in", "out"]), rng.randint(0, 3)
            op, tie = rng.choice([("==", "=="), ("<", "<"), (">", ">")])
            return self.make(g.edge, v.dims, "where(rank_%s({0}) %s %d, {1}, 0)" % (side, op, k),
                             "T.where(%ss(%s).rank({0}) %s %d, {1}, num_(0., D))" % (side, g.name, tie, k), [v, w])
        if self.bipartite:
            raise Refused("no graphs")
        if g.src != "node":
            raise Refused("nodes of another graph")
        v = self.pick(lambda v: v.space == "node")
        if form == "readout_median":
            return self.make("graph", v.dims, "readout_median({0})", "of_nodes(g).median({0})", [v])
        if form == "sort":
            if len(v.dims) != 1:
                raise Refused("one dim")
            return self.make("graph", v.dims, "readout_sort({0})", "of_nodes(g).largest({0}, 1, 0.0)", [v])
        k, rows = rng.randint(0, 2), {"rank_all": "All(len({0}))", "rank_readout": "of_nodes(g)"}[form]
        return self.make("node", v.dims, "where(%s({0}) == %d, {0}, 0)" % (form, k), "T.where(%s.rank({0}) == %d, {0}, num_(0., D))" % (rows, k), [v],
                         mixes=True)

    def op_fold(self):
        g, rng = self.scope.graph, self.rng
        v = self.edges()
        start = self.on(g.dst, lambda w: w.dims == v.dims)
        gnn, py = self.formula([("x", "x"), ("s", "s")], 2)
        if " x" not in " " + gnn.replace("(", " "):
            raise Refused("no element")
        name, most, padded = "c%d" % self.id(), rng.randint(1, 4), rng.random() < 0.3
        self.defs.append((name, "fn %s(x, s) = tanh(%s)" % (name, gnn)))
        order = self.edges(lambda w: not w.dims) if rng.random() < 0.3 else None
        text = "fold_in({0}, %s, {1}, most = %d%s%s)" % (name, most, ", order = {2}" if order else "", ", padded = true" if padded else "")
        body = py.replace("{", "{{").replace("}", "}}")
        out = self.make(g.dst, v.dims, text, "ins(%s).steps({0}, lambda x, s: T.tanh(%s), {1}, %d, %s, %s)" % (g.name, body, most, "{2}" if order else None, padded),
                        [v, start] + ([order] if order else []))
        out.uses_def = name
        return out

    def op_shape(self):
        rng = self.rng
        form = rng.choice(["transpose", "cat", "slice", "item", "flatten", "spread"])
        if form == "transpose":
            v = self.pick(lambda v: len(v.dims) == 2)
            return self.make(v.space, v.dims[::-1], "transpose({0}, [%s, %s])" % v.dims[::-1], "{0}.transpose(-1, -2)", [v])
        v = self.pick(lambda v: v.dims)
        if form == "spread":
            d = rng.choice(v.dims)
            at = v.code().index(d)
            scale = "(1 + T.arange(%d, dtype=D)).reshape([-1] + [1] * %d)" % (self.sizes[d], len(v.code()) - at - 1)
            return self.make(v.space, v.dims, "({0} * (1 + float(iota(%s))))" % d, "({0} * %s)" % scale, [v])
        if form == "item":
            at = v.code().index(v.dims[0])
            i = rng.randrange(self.sizes[v.dims[0]])
            return self.make(v.space, v.dims[1:], "{0}[%d%s]" % (i, ", ..." if len(v.dims) > 1 else ""), "{0}.select(%d, %d)" % (at, i), [v])
        if form == "flatten":
            if len(v.dims) < 2:
                raise Refused("one dim")
            d, n = "P%d" % self.id(), self.width(v.dims)
            raise Refused("names")
        if len(v.dims) != 1:
            raise Refused("one dim")
        n = self.sizes[v.dims[0]]
        if form == "cat":
            w = self.on(v.space, lambda w: len(w.dims) == 1)
            both = n + self.sizes[w.dims[0]]
            i, j = 0, rng.randint(1, both)
            same = [d for d in self.letters if self.sizes[d] <= both]
            if not same:
                raise Refused("no dim of that size")
            d = rng.choice(same)
            i = rng.randint(0, both - self.sizes[d])
            return self.make(v.space, (d,), "cat({0}, {1})[%d..%d]" % (i, i + self.sizes[d]), "T.cat([{0}, {1}], -1)[..., %d:%d]" % (i, i + self.sizes[d]), [v, w],
                             typed=True, named=True)
        same = [d for d in self.letters if self.sizes[d] <= n]
        if not same:
            raise Refused("no dim of that size")
        d = rng.choice(same)
        i = rng.randint(0, n - self.sizes[d])
        return self.make(v.space, (d,), "{0}[%d..%d]" % (i, i + self.sizes[d]), "{0}[..., %d:%d]" % (i, i + self.sizes[d]), [v], typed=True, named=True)

    def op_table(self):
        if self.poles:
            raise Refused("a table counts as read whole")
        letter = self.rng.choice("RC")
        space = self.rng.choice(self.keyed)
        i = self.key_of(space, letter)
        if self.rng.random() < 0.6:
            t = self.input(None, (letter,) + tuple(self.rng.sample(self.letters, 1)))
            return self.make(space, t.dims[1:], "{0}[{1}]", "{0}[{1}]", [t, i])
        v = self.pick(lambda v: v.space == space and letter in v.dims and v.dims[0] == letter)
        return self.make(space, v.dims[1:], "{0}[{1}%s]" % (", ..." if len(v.dims) > 1 else ""), "{0}[T.arange(len({1})), {1}]", [v, i])

    def op_norm(self):
        rng = self.rng
        v = self.pick(lambda v: len(v.dims) == 1 and v.space is not None)
        d = v.dims[0]
        per = rng.random() < 0.5
        flag = "true" if per else "false"
        form = rng.choice(["row_norm", "batch_norm", "layer_norm", "graph_norm", "instance_norm", "pair_norm", "mean_subtraction_norm", "graph_size_norm",
                           "message_norm"])
        if form == "message_norm":
            w = self.on(v.space, lambda w: len(w.dims) == 1)
            scale, inst = self.input(None, (), source="param"), Instance(self.id(), "n%d" % self.id(), "message_norm(learn_scale = true)", self.top)
            scale.stored, scale.hidden = inst.name + ".scale", True
            return self.make(v.space, v.dims, inst.name + "({1}, {0})", "message_norm({1}, {0}) * {2}", [v, w, scale], needs=[inst])
        if form not in ("row_norm", "batch_norm") and (v.space != "node" or not self.rows("node")):
            raise Refused("of nodes")
        if form == "graph_size_norm":
            return self.make(v.space, v.dims, "graph_size_norm({0})", "{0} / of_nodes(g).count.to(D).sqrt()[g.of][:, None]", [v])
        if form in ("pair_norm", "mean_subtraction_norm"):
            if form == "pair_norm":
                each = rng.random() < 0.5
                return self.make(v.space, v.dims, "pair_norm({0}, scale = 2, scale_individually = %s, per_graph = %s)" % ("true" if each else "false", flag),
                                 "pair_norm(g, {0}, 2.0, %s, %s)" % (each, per), [v], mixes=True)
            return self.make(v.space, v.dims, "mean_subtraction_norm({0}, per_graph = %s)" % flag, "{0} - over_nodes(g, {0}, %s)" % per, [v], mixes=True)
        n = {"row_norm": 2, "batch_norm": 2, "layer_norm": 2, "graph_norm": 3, "instance_norm": 0}[form]
        params = [self.input(None, (d,), source="param") for _ in range(n)]
        inst = Instance(self.id(), "n%d" % self.id(), None, self.top)
        for p, word in zip(params, ["weight", "bias", "mean_scale"]):
            p.stored, p.hidden = inst.name + "." + word, True
        text = {"row_norm": "row_norm()", "batch_norm": "batch_norm(track_running_stats = false)"}.get(form, form + "(per_graph = %s)" % flag)
        inst.gnn = text
        h = {"row_norm": "row_norm({0})", "batch_norm": "({0} - {0}.mean(0)) / ({0}.var(0, unbiased=False) + 1e-5).sqrt()", "layer_norm": "layer_norm(g, {0}, %s)" % per,
             "graph_norm": "graph_norm(g, {0}, {3}, %s)" % per, "instance_norm": "graph_norm(g, {0}, 1.0, %s)" % per}[form]
        if form == "batch_norm" and not self.rows(v.space):
            raise Refused("no rows")
        return self.make(v.space, v.dims, inst.name + "({0})", "(%s) * {1} + {2}" % h if n else h, [v] + params, needs=[inst], mixes=form != "row_norm")

    def op_grad(self):
        if self.kinky:  # what a second derivative is at an exact tie, or at a product's 0, nobody promises
            raise Refused("kinks")
        v = self.pick(lambda v: v.source is None and not v.random)
        up = [a for a in ancestors([v]) if a.kind == "float" and a in self.scope.visible() and a is not v and not a.random and self.ns[a.name].requires_grad]
        if not up or any(a.random for a in ancestors([v])):
            raise Refused("nothing above")
        x = self.rng.choice(up)
        e = self.make(None, (), ("sum_all(%s)" if v.space else "%s") % ("sum({0})" if v.dims else "{0}"), "{0}.sum()", [v])
        try:  # the gradients of gradients that torch has
            again = oracle.derivative(self.ns[e.name], self.ns[x.name])
            if again.requires_grad:
                torch.autograd.grad(again.sum(), [self.ns[a.name] for a in ancestors([x, v]) if a.source and self.ns[a.name].requires_grad], retain_graph=True, allow_unused=True)
        except RuntimeError:
            raise Refused("torch derives this once")
        return self.make(x.space, x.dims, "grad({0}, {1})", "derivative({0}, {1})", [e, x])

    def op_adjoint(self):
        v = self.pick(lambda v: True)
        name = "a%d" % self.id()
        form, slope = self.rng.choice(UNARY[:2] + UNARY[8:10]), self.rng.choice(UNARY[:2] + UNARY[8:10])
        self.defs.append((name, "fn %s(x: @d[...]) -> @d[...] {\n  adjoint { x.grad = grad * %s }\n  return %s\n}" % (name, slope[0] % "x", form[0] % "x")))
        return self.make(v.space, v.dims, name + "({0})", "stated({0}, lambda x: %s, lambda x: %s)" % (form[1] % "x", slope[1] % "x"), [v], uses_def=name)

    def op_random(self):
        if not self.train or self.scope is not self.top:
            raise Refused("eval mode")
        like = self.pick(lambda v: v.space in self.given)
        form = self.rng.choice(["rand", "randn", "dropout"])
        text = {"rand": "rand({0})", "randn": "randn({0})", "dropout": "dropout(1 + 0 * detach({0}), 0.4)"}[form]
        py = "drawn({0}, %r, %r)" % (form, "d%d" % self.id())
        self.ns["drawn"] = lambda x, form, name: {"rand": torch.rand_like(x), "randn": torch.randn_like(x),
                                                  "dropout": (torch.rand_like(x) < 0.6) / 0.6}[form].to(x.dtype).detach()
        v = self.make(like.space, like.dims, text, py, [like], random=form, named=True)
        return v

    # ---- graphs ----

    def op_over(self):
        g, rng = self.scope.graph, self.rng
        if self.bipartite or len(list(self.scope.chain())) > 2 or getattr(g, "chosen", False):
            raise Refused("no graph here")
        form = rng.choice(["self_loops"] * 4 + ["reverse"] * 2 + ["line", "siblings", "complete", "knn", "select", "select"])
        n_edges = eval("%s.edges()" % g.name, self.ns)
        if form in ("line", "siblings") and (n_edges > 60 or g is not self.g) or form in ("complete", "knn", "select") and (g is not self.g or self.rows("node") > 16):
            raise Refused("too many")
        inner = Graph(self.id(), "", g.src, g.dst, "")
        inner.name, inner.base, inner.scope, inner.needs, fills, tail = "h%d" % inner.id, g, self.scope, [g], [], ""
        inner.edge = "edge of " + inner.name
        if form in ("line", "siblings"):
            inner.src = inner.dst = g.edge
        if form == "self_loops":
            policy = rng.choice(["keep", "replace", "add", "remove"])
            inner.gnn, inner.py = "self_loops(%s, %s" % (g.name, policy), "self_loops(%s, %r)" % (g.name, policy)
        elif form in ("reverse", "line", "siblings", "complete"):
            inner.gnn, inner.py = "%s(%s" % (form, g.name), "%s(%s)" % (form, g.name)
            inner.mixes = form == "complete"
            if form == "reverse":
                inner.src, inner.dst = g.dst, g.src
        elif form == "knn":
            x = self.on("node", lambda v: len(v.dims) == 1, self.rng.sample(self.letters, 1))
            k, loop, inner.mixes = rng.randint(1, 4), rng.random() < 0.3, True
            inner.gnn, inner.py = "knn({0}, k = %d%s" % (k, ", loop = true" if loop else ""), "knn(g, {0}, %d, %s)" % (k, loop)
            inner.args = [x]
        else:
            x = self.on("node", lambda v: not v.dims, ())
            k = rng.choice([0, 1, 2])
            say = "k = %d" % k if k else "ratio = 0.6"
            inner.gnn, inner.py = "select(g, {0}, %s" % say, "select(g, {0}, %s)" % say.replace(" ", "")
            inner.args, inner.chosen = [x], True
            inner.src = inner.dst = "node of " + inner.name
        oracle.Watch.clear()
        self.ns[inner.name] = eval(inner.py.format(*[a.name for a in inner.args]), self.ns)
        if oracle.Watch.least < NEAREST or self.ns[inner.name].edges() > 4000:
            raise Refused("near ties")
        self.space_py[inner.edge] = "%s.edges()" % inner.name
        if inner.src.startswith("node of"):
            self.space_py[inner.src] = "%s.n_src" % inner.name
        outer, self.scope = self.scope, Scope(inner, self.scope)
        try:
            return self.block(form, inner, outer, g)
        finally:
            self.scope = outer

    def block(self, form, inner, outer, g):
        """The values of an `over` block: what is carried in, operations, and what comes out."""
        rng = self.rng
        if form in ("self_loops", "reverse"):
            for v in [v for v in outer.visible() if v.space == g.edge and v.kind == "float" and v.scope is outer][-2:]:
                self.fill(v, inner, form, g)
        inner.gnn += ")"
        if form == "select":
            for v in [v for v in outer.visible() if v.space == "node" and v.kind == "float" and v not in inner.args][-3:] + inner.args:
                self.make(inner.src, v.dims, "{0}[%s]" % inner.name, "{0}[%s.nodes]" % inner.name, [v])
            for v in [v for v in outer.visible() if v.space == "edge" and v.kind == "float"][-1:]:
                self.make(inner.edge, v.dims, "{0}[%s]" % inner.name, "{0}[%s.kept]" % inner.name, [v])
        before = self.id()
        self.attempt(self.op_cross)
        self.grow(rng.randint(1, 6))
        crossed = [v for v in self.scope.values if v.id > before and v.space != inner.edge and v.kind == "float" and any(a.space == inner.edge for a in ancestors([v]))]
        if not crossed:
            v, side = self.pick(lambda v: v.space == inner.edge), rng.choice(["in", "out"])
            crossed = [self.make(inner.dst if side == "in" else inner.src, v.dims, "sum_%s({0})" % side, "%ss(%s).sum({0})" % (side, inner.name), [v])]
        out = crossed[-1]
        self.scope = outer
        v = self.make(out.space, out.dims, None, "{0}", [out], body=out, over=inner, named=True, needs=[inner])
        if form == "select" and out.space == inner.src:
            return self.make("node", v.dims, "{0}[g]", "back({0}, %s, g)" % inner.name, [v])
        return v

    def fill(self, v, inner, form, g):
        """An edge value of the outer graph in the derived one, under its own name; new loops get a number, a node's value or a reducer's."""
        rng = self.rng
        way = rng.choice(["number", "node", "word"]) if form == "self_loops" else "number"
        text, py, args = "0.5", "0.5", [v]
        if way == "node":
            some = [w for w in self.scope.parent.visible() if w.space == g.dst and w.dims == v.dims and w.kind == "float"]
            if some:
                w = rng.choice(some)
                args, text, py = [v, w], "{%d}" % len(inner.args), "{1}[%s.dst]" % inner.name
                w.named = True
        elif way == "word":
            word = rng.choice(["mean", "max", "sum", "min"])
            base = g.name if ", add" in inner.gnn else "self_loops(%s, 'remove')" % g.name
            moved = "{0}" if ", add" in inner.gnn else "carry({0}, %s, 0.)" % base
            text, py = word, "ins(%s).%s(%s)[%s.dst]" % (base, word, moved, inner.name)
        add = len(args) > 1
        inside = self.make(inner.edge, v.dims, None, "carry({0}, %s, %s)" % (inner.name, py), args, filled=v, needs=[inner])
        inside.gnn = "{0}"
        v.named = True
        inner.gnn += ", fill {%d} = %s" % (len(inner.args) + add, text)
        inner.args += ([args[1]] if add else []) + [v]

    # ---- the whole ----

    OPS = [("point", 16), ("act", 5), ("guard", 2), ("pole", 6), ("prelu", 1), ("count", 1), ("loss", 1), ("cross_entropy", 1), ("dims", 5), ("sum_dims", 1), ("matmul", 6), ("dot", 3), ("dense", 3), ("cross", 12),
           ("graph", 2), ("reduce", 14), ("own_reduce", 8), ("softmax", 3), ("order", 4), ("fold", 2), ("shape", 3), ("table", 2), ("norm", 3), ("grad", 3),
           ("adjoint", 1), ("random", 4), ("over", 9)]

    def grow(self, n):
        """n operations more, or as many as 15 n tries give."""
        made = 0
        names, weights = zip(*self.OPS)
        for _ in range(15 * n):
            made += made < n and self.attempt(getattr(self, "op_" + self.rng.choices(names, weights)[0]))

    def attempt(self, op):
        scope = self.scope
        try:
            op()
            return True
        except Refused:
            self.scope = scope
            return False

    def begin(self):
        for _ in range(self.rng.randint(1, 2)):
            try:
                self.input(self.rng.choice(self.given))
            except Refused:
                pass

    def draw(self):
        rng = self.rng
        self.begin()
        self.grow(rng.choice(self.steps))
        made = [v for v in self.top.values if not v.source and v.kind == "float" and (v.space is None or v.space in self.made)]
        read = {a for v in self.values for a in v.args}
        last = [v for v in made if v not in read] or made[-1:]
        last.sort(key=lambda v: len(ancestors([v])) + rng.random())
        self.results = sorted(last[-rng.choice([1, 2, 2, 3]):], key=lambda v: v.id)
        self.results += [v for v in ancestors(self.results) if v.random and v not in self.results]
        if self.bipartite and not any(v.space in ("src", "dst") for v in self.results + self.inputs("input")):
            self.results = []
        self.orders = [tuple(rng.sample(v.dims, len(v.dims))) if rng.random() < 0.3 and not v.random else v.dims for v in self.results]

    def live(self):
        return sorted(ancestors(self.results), key=lambda v: v.id)

    def refusable(self):
        """Does its text hold what the compiler refuses?"""
        return any(getattr(v, "uses_def", None) in self.invalid for v in items(self))

    def inputs(self, source):
        return [v for v in self.live() if v.source == source]

    def text(self):
        return Printer(self).program()

    def torch_text(self):
        return "\n".join("%s = %s" % (i.name, i.py.format(*[a.name for a in i.args])) for i in items(self) if i.py)


def re_word(word, text, inside):
    import re
    return re.sub(r"\b%s\b(?!\()" % word, text, inside)


def ancestors(roots):
    """Everything that these values are computed from, through graphs, too, and themselves; values only."""
    seen, todo = [], list(roots)
    marks = set()
    while todo:
        v = todo.pop()
        if id(v) in marks:
            continue
        marks.add(id(v))
        if isinstance(v, Value):
            seen.append(v)
        todo += v.args + v.needs + ([v.body] if v.body else [])
    return seen


def items(p):
    """Values and graphs that the results need, in the order of their making: a graph stands before what reads it."""
    seen, out = set(), []

    def visit(v):
        if v is None or id(v) in seen:
            return
        seen.add(id(v))
        for a in v.args + v.needs + ([v.body] if v.body else []):
            visit(a)
        out.append(v)
    for v in p.results:
        visit(v)
    return out


class Printer:
    """The .gnn of a program."""

    def __init__(self, p):
        self.p, self.items = p, items(p)
        self.uses = {}
        for v in self.items:
            for a in v.args:
                self.uses[a] = self.uses.get(a, 0) + 1
                if isinstance(v, Value) and v.scope is not a.scope or not isinstance(v, Value) and isinstance(a, Value):
                    a.named = a.named or not getattr(a, "filled", None)
            if isinstance(v, Value) and v.gnn and "grad({0}" in v.gnn:
                v.args[1].named = True

    def is_named(self, v):
        if v.filled:
            return False
        return v.named or v.source or self.uses.get(v, 0) > 1 or v in self.p.results

    def ref(self, v):
        if v.filled:
            return self.ref(v.filled)
        return v.name if self.is_named(v) else self.expr(v)

    def expr(self, v):
        if v.body is not None:
            return "over %s {\n%s%s\n}" % (v.over.name, self.block(v.body.scope), self.ref(v.body))
        refs = [self.operand(a) for a in v.args]
        return v.gnn.format(*refs)

    def operand(self, a):
        text = self.ref(a)
        return text if text.isalnum() or self.is_named(a) else "(%s)" % text

    def type(self, space, dims):
        space = space or ""
        return space + ("[%s]" % ", ".join(dims) if dims or not space else "")

    def block(self, scope):
        lines = []
        for v in self.items:
            if v.scope is not scope or getattr(v, "source", None):
                continue
            if isinstance(v, Instance):
                lines.append("%s = %s" % (v.name, v.gnn.format(*[self.ref(a) for a in v.args])))
            elif isinstance(v, Graph):
                lines.append("graph %s = %s" % (v.name, v.gnn.format(*[self.ref(a) for a in v.args])))
            elif self.is_named(v):
                here = v.scope.graph
                space = v.space if v.space in self.p.nameable else "edge" if v.space == here.edge else "node" if v.space == here.src and not self.p.bipartite else v.space
                typed = ": " + self.type(space, v.dims) if v.typed else ""
                lines.append("%s%s = %s" % (v.name, typed, self.expr(v)))
        return "".join(line + "\n" for line in lines)

    def program(self):
        p = self.p
        results = [self.type(v.space, o) for v, o in zip(p.results, p.orders)]
        return self.model(p.inputs("input"), p.inputs("param"), results[0] if len(results) == 1 else "(%s)" % ", ".join(results), ", ".join(v.name for v in p.results))

    def model(self, inputs, params, result, returned):
        """Definitions and the model, whose result has this type, and is this text."""
        p = self.p
        used = {getattr(v, "uses_def", None) for v in self.items}
        defs = [text for name, text in p.defs if name in used]
        signature = ", ".join("%s: %s%s" % (v.name, self.type(v.space, v.dims), " index[%s]" % v.kind if v.kind != "float" else "") for v in inputs)
        params = "".join("param %s: %s = glorot\n" % (v.name, self.type(v.space, v.dims)) if v.dims and not v.space else "param %s: %s = normal(0, 1)\n" % (v.name, self.type(v.space, v.dims))
                         for v in params if not v.hidden)
        body = params + self.block(p.top)
        return "".join(d + "\n\n" for d in defs) + "model net(%s) -> %s {\n%s  return %s\n}\n" % (
            signature, result, indent(body), returned)


def indent(text):
    depth, out = 1, []
    for line in text.splitlines():
        depth -= line.startswith("}")
        out.append("  " * depth + line)
        depth += line.endswith("{")
    return "".join(line + "\n" for line in out)
