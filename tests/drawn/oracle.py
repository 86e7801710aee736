"""What drawn programs mean, said in torch alone: rows are gathered by indexing and summed by index_add, extremes and orders
are found row by row, derivatives are torch's. Nothing of the compiler, its interpreter or its library is used.

A value with rows is a tensor [rows, dims...], one without is [dims...]. Types are written as a string, `rFG`: rows, then
a letter for each dim. `watch` is told how far every comparison is from a tie, so that a draw that hangs on rounding is
thrown away; an exact tie is kept, since the language says what happens there."""
import math

import torch
import torch.nn.functional as nnf

T = torch
inf = math.inf


class Watch:
    """The nearest miss of all comparisons since `clear`: the least distance from a tie that is no tie."""
    least = math.inf
    ties = 0  # exact ones
    among = 0  # those between elements of a row, or along a dim

    @classmethod
    def clear(cls):
        cls.least, cls.ties, cls.among = math.inf, 0, 0


def watch(distance, ties=True):
    """ties: an exact tie is sound; else it counts as a miss of 0, as what is not known to be near or far does."""
    d = distance.detach().abs().reshape(-1)
    if bool(d.isnan().any()):
        Watch.least = 0.0
    d = d[d == d]
    if ties:
        Watch.ties += int((d == 0).sum())
        d = d[d > 0]
    if d.numel():
        Watch.least = min(Watch.least, float(d.min()))


def al(x, has, want):
    """x of type `has` in the order of `want`, with dims of size 1 for what it lacks."""
    x = x.permute([has.index(c) for c in want if c in has]) if len(has) > 1 else x
    return x.reshape([x.shape[[c for c in want if c in has].index(c)] if c in has else 1 for c in want])


def spread(x, n):
    """A value without rows at each of n rows."""
    return x.expand((n,) + tuple(x.shape)) + 0 * x


class Graph:
    """Edges from src to dst, in the user's order; `of`: the graph of each node. `orig`: the edge of the base that each edge is, or -1."""

    def __init__(self, n_src, n_dst, src, dst, of=None, n_graphs=1, orig=None):
        self.n_src, self.n_dst = n_src, n_dst
        self.src, self.dst = torch.as_tensor(src, dtype=torch.long), torch.as_tensor(dst, dtype=torch.long)
        self.of = torch.zeros(n_src, dtype=torch.long) if of is None else torch.as_tensor(of, dtype=torch.long)
        self.n_graphs, self.orig = n_graphs, orig

    def edges(self):
        return len(self.src)

    def with_edges(self, src, dst, orig):
        return Graph(self.n_src, self.n_dst, src, dst, self.of, self.n_graphs, orig)


def reverse(g):
    return Graph(g.n_dst, g.n_src, g.dst, g.src, g.of, g.n_graphs, list(range(g.edges())))


def self_loops(g, policy):
    both = min(g.n_src, g.n_dst)
    ends = list(zip(g.src.tolist(), g.dst.tolist()))
    last = {s: e for e, (s, d) in enumerate(ends) if s == d}
    stays = [e for e, (s, d) in enumerate(ends) if s != d or policy == "add" or policy == "keep" and last[s] == e]
    fresh = {"keep": [v for v in range(both) if v not in last], "remove": []}.get(policy, range(both))
    return g.with_edges([ends[e][0] for e in stays] + list(fresh), [ends[e][1] for e in stays] + list(fresh), stays + [-1] * len(fresh))


def carry(v, h, fill):
    """Of the base's edges to those of h; fill: a value for each of h's edges."""
    old = torch.tensor([o >= 0 for o in h.orig], dtype=torch.bool)
    at = torch.tensor([max(o, 0) for o in h.orig], dtype=torch.long)
    if not old.any():
        return torch.as_tensor(fill, dtype=v.dtype).expand((h.edges(),) + tuple(v.shape[1:])) + 0 * v.sum()
    mask = old.reshape([-1] + [1] * (v.dim() - 1))
    return torch.where(mask, v[at], torch.as_tensor(fill, dtype=v.dtype))


def pairs(g, meet):
    """A graph whose nodes are g's edges, from e to f where meet(e, f)."""
    found = [(e, f) for f in range(g.edges()) for e in range(g.edges()) if meet(e, f)]
    of = g.of[g.src] if g.edges() else torch.zeros(0, dtype=torch.long)
    return Graph(g.edges(), g.edges(), [e for e, f in found], [f for e, f in found], of, g.n_graphs)


def line(g):
    src, dst = g.src.tolist(), g.dst.tolist()
    return pairs(g, lambda e, f: dst[e] == src[f])


def siblings(g):
    dst = g.dst.tolist()
    return pairs(g, lambda e, f: dst[e] == dst[f])


def complete(g):
    of = g.of.tolist()
    found = [(u, v) for v in range(g.n_dst) for u in range(g.n_src) if of[u] == of[v]]
    return g.with_edges([u for u, v in found], [v for u, v in found], None)


def knn(g, x, k, loop):
    x = x.detach().reshape(g.n_src, -1).double()
    far = ((x[:, None] - x[None]) ** 2).sum(-1)
    of, ends = g.of.tolist(), []
    for v in range(g.n_src):
        others = [u for u in range(g.n_src) if of[u] == of[v] and (loop or u != v)]
        others.sort(key=lambda u: (float(far[u, v]), u))
        if 0 < k < len(others):
            watch(far[others[k], v] - far[others[k - 1], v])
        ends += [(u, v) for u in others[:k]]
    return g.with_edges([u for u, v in ends], [v for u, v in ends], None)


def select(g, score, k=0, ratio=0.0):
    """The graph of the best nodes; `.nodes` are the numbers that they had, `.kept` those of the edges that stay, graph after graph where
    they begin: edges between graphs of a batch are drawn, too."""
    s, of, nodes = score.detach().reshape(-1), g.of.tolist(), []
    for b in range(g.n_graphs):
        mine = sorted((v for v in range(g.n_src) if of[v] == b), key=lambda v: (-float(s[v]), v))
        n = min(k if k else math.ceil(ratio * len(mine)), len(mine))
        if 0 < n < len(mine):
            watch(s[mine[n - 1]] - s[mine[n]])
        nodes += mine[:n]
    place = {v: i for i, v in enumerate(nodes)}
    kept = [e for e, (a, b) in enumerate(zip(g.src.tolist(), g.dst.tolist())) if a in place and b in place]
    kept.sort(key=lambda e: of[int(g.src[e])])
    h = Graph(len(nodes), len(nodes), [place[int(g.src[e])] for e in kept], [place[int(g.dst[e])] for e in kept],
              [of[v] for v in nodes], g.n_graphs)
    h.nodes, h.kept = torch.tensor(nodes, dtype=torch.long), torch.tensor(kept, dtype=torch.long)
    return h


def back(v, h, g):
    """From the nodes of a selected graph to all of g, 0 for the others."""
    return torch.zeros((g.n_src,) + tuple(v.shape[1:]), dtype=v.dtype).index_add(0, h.nodes, v)


class Rows:
    """Elements that fall in n rows. Methods take [elements, ...] and give [n, ...]."""

    def __init__(self, row, n, key=None, n_keys=1):
        self.shape = (n,) if key is None else (n, n_keys)
        self.row, self.n = (row, n) if key is None else (row * n_keys + key, n * n_keys)
        self.count = torch.zeros(self.n, dtype=torch.long).index_add(0, self.row, torch.ones_like(self.row))
        self.lists = None

    def groups(self):
        if self.lists is None:
            self.lists = [[] for _ in range(self.n)]
            for e, r in enumerate(self.row.tolist()):
                self.lists[r].append(e)
        return self.lists

    def out(self, v):
        return v.reshape(self.shape + tuple(v.shape[1:]))

    def raw_sum(self, m):
        return torch.zeros((self.n,) + tuple(m.shape[1:]), dtype=m.dtype).index_add(0, self.row, m)

    def raw_mul(self, m):
        return self.each(m, lambda x: x.prod(0), 1.0)

    def raw_max(self, m):
        return self.each(m, top, -inf)

    def raw_min(self, m):
        return -self.raw_max(-m)

    def each(self, m, f, none):
        """f of each row's elements, none where there are none."""
        rows = [f(m[at]) if at else None for at in self.groups()]
        blank = torch.full(tuple(m.shape[1:]), none, dtype=m.dtype) + m[:0].sum()
        return torch.stack([blank if r is None else r for r in rows]) if rows else m.new_zeros((0,) + tuple(m.shape[1:])) + m[:0].sum()

    def fold(self, states, done, empty):
        """states: (op, start, elements); done of those of the rows that have elements, `empty` elsewhere (None: done of the starts)."""
        made = []
        for op, start, f in states:
            s = {"sum": self.raw_sum, "mul": self.raw_mul, "max": self.raw_max, "min": self.raw_min}[op](f)
            if op in ("max", "min") and abs(start) < inf:
                watch(s[self.count > 0] - start, False)
                s = s.clamp(min=start) if op == "max" else s.clamp(max=start)
            made.append(s + start if op == "sum" else s * start if op == "mul" else s)
        if empty is None:
            return self.out(done(*made))
        filled = (self.count > 0).nonzero()[:, 0]
        some = done(*[s[filled] for s in made])
        none = torch.full((self.n,) + tuple(some.shape[1:]), float(empty), dtype=some.dtype)
        return self.out(none.index_copy(0, filled, some))

    # ---- reducers of the library, from PyG's and torch's definitions ----

    def size(self, m):
        return self.count.to(m.dtype).clamp(min=1).reshape([-1] + [1] * (m.dim() - 1))

    def sum(self, m):
        return self.out(self.raw_sum(m))

    def mul(self, m):
        return self.out(self.raw_mul(m))

    def max(self, m):
        return self.out(self.each(m, top, 0.0))

    def min(self, m):
        return self.out(-self.each(-m, top, 0.0))

    def raw_mean(self, m):
        return self.raw_sum(m) / self.size(m)

    def mean(self, m):
        return self.out(self.raw_mean(m))

    def var(self, m):
        return self.out(self.raw_mean(m * m) - self.raw_mean(m) ** 2)

    def std(self, m):
        v = self.raw_mean((m - self.raw_mean(m)[self.row]) ** 2)
        watch(v - 1e-5, False)
        small = v <= 1e-5
        return self.out(torch.where(small, torch.zeros_like(v), torch.where(small, torch.ones_like(v), v).sqrt()))

    def logsumexp(self, m):
        return self.out(self.each(m, lambda x: logsumexp(x, 0), -inf))

    def powermean(self, m, p):
        s = self.raw_mean(clamp(m, 1e-4, 100.0) ** p)
        return self.out(clamp(s, 1e-4, 100.0) ** (1 / p))

    def softmax(self, s):
        z = torch.zeros_like(s) + s[:0].sum()  # of no element, a value of s all the same
        for at in self.groups():
            if at:
                i = torch.tensor(at)
                z = z.index_copy(0, i, torch.softmax(s[i], 0))
        return z

    def places(self):
        """Of each element, how many of its row stand before it."""
        z = torch.zeros(len(self.row), dtype=torch.long)
        for at in self.groups():
            z[torch.tensor(at, dtype=torch.long)] = torch.arange(len(at))
        return z

    def rank(self, x):
        """How many of the same row come before each: smaller ones, of equal ones those that stand first."""
        r = torch.zeros(x.shape, dtype=torch.long)
        for at in self.groups():
            if at:
                i = torch.tensor(at)
                order = x[i].detach().sort(stable=True, dim=0)
                gaps(order[0])
                r[i] = order[1].argsort(0)
        return r

    def quantile(self, x, q, how):
        def one(v):
            s = v.sort(stable=True, dim=0)[0]
            gaps(s)
            p = q * (len(v) - 1)
            a, b, t = s[int(math.floor(p))], s[int(math.ceil(p))], p - math.floor(p)
            watch(torch.tensor([p - round(p), t - 0.5]))
            t = {"linear": t, "lower": 0, "higher": 1, "midpoint": 0.5, "nearest": 0 if t <= 0.5 else 1}[how]
            return a + t * (b - a)
        return self.out(self.each(x, one, 0.0))

    def median(self, x):
        def one(v):
            s = v.sort(stable=True, dim=0)[0]
            gaps(s)
            return s[(len(v) - 1) // 2]
        return self.out(self.each(x, one, 0.0))

    def largest(self, x, k, missing):
        """readout_sort: the k largest, joined."""
        s = [self.each(x, lambda v: v.sort(dim=0, descending=True, stable=True)[0][i] if len(v) > i else 0 * v[0] + missing, missing) for i in range(k)]
        for at in self.groups():
            if at:
                gaps(x[torch.tensor(at)].detach().sort(0)[0])
        return self.out(torch.cat(s, -1))

    def steps(self, m, cell, start, most, order=None, padded=False):
        """An ordered fold over the first `most` elements of each row."""
        rows = []
        for r, at in enumerate(self.groups()):
            at = at if order is None else sorted(at, key=lambda e: (float(order[e]), e))
            if order is not None and at:
                gaps(order[torch.tensor(at)].detach())
            state = start[r]
            for k in range(most if padded else min(most, len(at))):
                state = cell(m[at[k]] if k < len(at) else torch.zeros_like(m[0] if len(m) else start[r]), state)
            rows.append(state)
        return self.out(torch.stack(rows) if rows else start)


def gaps(s):
    if len(s) > 1:
        watch(s[1:] - s[:-1])
        Watch.among += int((s[1:] == s[:-1]).sum())


def top(x, dim=0):
    """The greatest over a dim; its gradient is shared evenly by all that are."""
    with torch.no_grad():
        best = x.amax(dim, keepdim=True)
        wins = x == best
        Watch.ties += int(wins.sum()) - best.numel()
        Watch.among += int(wins.sum()) - best.numel()
        rest = best - torch.where(wins, torch.full_like(x, -inf), x).amax(dim, keepdim=True)
        watch(rest[rest < inf])
    return x.amax(dim)


def top_of_all(x, first):
    """The greatest over all dims from `first` on; equal ones share the gradient evenly dim by dim, the first one first."""
    for _ in range(first, x.dim()):
        x = top(x, first)
    return x


def ins(g, key=None, n=1):
    return Rows(g.dst, g.n_dst, key, n)


def outs(g, key=None, n=1):
    return Rows(g.src, g.n_src, key, n)


class All(Rows):
    def __init__(self, n, key=None, n_keys=1):
        super().__init__(torch.zeros(n, dtype=torch.long), 1, key, n_keys)
        self.shape = () if key is None else (n_keys,)


def of_nodes(g):
    return Rows(g.of, g.n_graphs)


def of_edges(g):
    return Rows(g.of[g.src], g.n_graphs)


# ---- by element ----

def maximum(a, b):
    watch(a - b)
    return torch.maximum(*torch.broadcast_tensors(a, b))


def minimum(a, b):
    watch(a - b)
    return torch.minimum(*torch.broadcast_tensors(a, b))


def less(a, b):
    watch(a - b)
    return a < b


def kinks(x, *at, ties=True):
    for c in at:
        watch(x - c, ties)
    return x


def wave(x):
    """x, whose sine is taken: where it is so large that few of its digits say an angle, the result hangs on rounding."""
    if bool((x.detach().abs() > 2.0**20).any()):
        Watch.least = 0.0
    return x


def pole(x):
    """x, where something is infinite at 0: exactly 0 is only what is computed without rounding, from data on a grid."""
    watch(x)
    fixed = x.detach() * 1024
    if bool((fixed == 0).any()) and bool((fixed != fixed.round()).any()):
        Watch.least = 0.0
    return x


def guarded(x, f, cond, other):
    """f(x) where the condition holds, else another number, with the derivative 0."""
    watch(x)
    return torch.where(cond(x), f(torch.where(cond(x), x, torch.ones_like(x))), torch.full_like(x, other))


def clamp(x, lo, hi):
    return torch.clamp(kinks(x, lo, hi), lo, hi)


def elu(x, alpha=1.0, width=1.0):
    """torch.nn.functional.elu, or celu where width is alpha, which lose the digits of small numbers."""
    warm = kinks(x, 0) > 0
    return torch.where(warm, x, alpha * torch.expm1(torch.where(warm, torch.zeros_like(x), x) / width))


def hard_sigmoid(x):
    """torch.nn.functional.hardsigmoid with its derivative at -3 and 3, 0, which torch cannot derive again."""
    return torch.where(kinks(x, -3, 3).abs() < 3, x / 6 + 0.5, (x > 0).to(x.dtype))


def hard_swish(x):
    """x hard_sigmoid(x), with its derivatives 0 and 1 at -3 and 3."""
    return x * hard_sigmoid(x)


def floor(x):
    watch(x - x.round())
    return torch.floor(x)


def num_like(x, c):
    return torch.full((), float(c), dtype=x.dtype)


class Stated(torch.autograd.Function):
    """f(x), whose gradient is `slope(x)` times that of the result."""
    @staticmethod
    def forward(ctx, x, f, slope):
        ctx.save_for_backward(x)
        ctx.slope = slope
        return f(x)

    @staticmethod
    def backward(ctx, grad):
        return ctx.slope(ctx.saved_tensors[0]) * grad, None, None


stated = Stated.apply


# ---- over dims ----

def length(x, d):
    s = (x * x).sum(d)
    watch(s)
    return torch.where(s == 0, torch.zeros_like(s), torch.where(s == 0, torch.ones_like(s), s).sqrt())


def logsumexp(x, d):
    """torch.logsumexp has the derivative 1, not a share of it, for each of several equal numbers that are large."""
    m = x.detach().amax(d, keepdim=True)
    m = torch.where(m.isfinite(), m, torch.zeros_like(m))
    return torch.log(torch.exp(x - m).sum(d)) + m.squeeze(d)


def row_norm(x, eps=1e-5):
    return nnf.layer_norm(x, x.shape[-1:], eps=eps)


def over_nodes(g, x, per_graph):
    return of_nodes(g).mean(x)[g.of] if per_graph else x.mean(0, keepdim=True)


def layer_norm(g, x, per_graph, eps=1e-5):
    c = x - over_nodes(g, x, per_graph).mean(-1, keepdim=True)
    v = over_nodes(g, c * c, per_graph).mean(-1, keepdim=True)
    return c / (v + eps).sqrt() if per_graph else c / (v.sqrt() + eps)


def graph_norm(g, x, s, per_graph, eps=1e-5):
    c = x - s * over_nodes(g, x, per_graph)
    return c / (over_nodes(g, c * c, per_graph) + eps).sqrt()


def message_norm(x, m):
    """The direction of m with the length of x."""
    return m / maximum(length(m, -1), num_like(m, 1e-12)).unsqueeze(-1) * length(x, -1).unsqueeze(-1)


def pair_norm(g, x, scale, each, per_graph, eps=1e-5):
    c = x - over_nodes(g, x, per_graph)
    if each:
        return scale * c / (eps + length(c, -1)[..., None])
    return scale * c / (eps + over_nodes(g, (c * c).sum(-1, keepdim=True), per_graph)).sqrt()


def derivative(e, x):
    """Of one number by a value; may be derived again."""
    known = e.requires_grad and x.requires_grad
    got = torch.autograd.grad(e, x, create_graph=True, allow_unused=True)[0] if known else None
    return 0 * x if got is None else got + 0 * x


# ---- metrics: one number each ----

def auc(s, y):
    p, n = s[y != 0].reshape(-1), s[y == 0].reshape(-1)
    if not len(p) or not len(n):
        return None
    gap = p[:, None] - n[None]
    watch(gap)
    return ((gap > 0).to(s.dtype) + (gap == 0).to(s.dtype) / 2).mean()
