"""Data at the ends of the number line: the promises of docs/design.md ("Floating point", "Infinities and NaN") as what is compared.

- scaled: all values with rows are denormal, or so large that products overflow. What scales as its data do keeps every digit
  that these numbers have; the rest is compared where torch is finite, nothing that it is computed from overflows, and no digit is
  lost to other roundings.
- spots: some numbers of one component of the graph are infinite, NaN or huge. Rows of other components have nothing of them, unless
  something on the way sums over all rows, or over all nodes of a graph."""
import random

import numpy as np
import torch

import draw
import oracle

EXPONENTS = {"f64": {"tiny": -1023, "huge": 1000}, "f32": {"tiny": -132, "huge": 110}}
DENORMAL = {"f64": 2.0**-1074, "f32": 2.0**-149}
TOLERANCE = {"f64": 1e-7, "f32": 1e-3}
NUDGE = {"f64": (1e-10, 1e-3), "f32": (1e-5, 1e-2)}  # data off by so much may move a result by so much, for both to be the formula's within TOLERANCE
NUMPY = {"f64": np.float64, "f32": np.float32}
SPOTS = [np.inf, -np.inf, np.nan, 1e30, -1e30, -0.0, 1e-40]


# ---- scaled ----

def scaled(given, dtype, exponent):
    """The data times 2^exponent, and the same numbers, rounded alike, as they were."""
    there = {v: (x.to(dtype) * 2.0**exponent).double() if v.kind == "float" and v.space else x for v, x in given.items()}
    return there, {v: x * 2.0**-exponent if v.kind == "float" and v.space else x for v, x in there.items()}


def nudged(given, dtype, seed):
    """Each number off by some of its last digits."""
    rng = torch.Generator().manual_seed(seed)
    return {v: x * (1 + NUDGE[dtype][0] * torch.randn(x.shape, generator=rng, dtype=x.dtype)) if v.kind == "float" else x for v, x in given.items()}


def moved(given, size):
    """Each number off by at most `size` times as much: equal ones alike, and others, opposite ones among them, differently."""
    return {v: x * (1 + size * torch.sin(12345.678 * x.double())) if v.kind == "float" else x for v, x in given.items()}


def power(one, less):
    """k where the number is exactly 2^-20k times as large for data 2^-20 times as large, or None."""
    return next((k for k in (1, 0, -1) if bool((one * 2.0**(-20 * k) == less).all())), None)


def wanted_scaled(said, dtype, exponent, unsaid):
    """(what, mask, tolerance) of one array, from the runs of torch on the data as they were, 2^-20 times that, there, there off
    by little, and there in double precision; unsaid: nothing is promised, as where something that it is computed from is not finite. None: so it is."""
    one, less, there, near, fine = said
    if not there.numel() or unsaid:
        return None
    k, finite = power(one, less), torch.isfinite(there) & torch.isfinite(near)
    if k:
        exact = one.double() * float(np.ldexp(1.0, k * exponent))
        size = float(exact.abs().max())
        least = TOLERANCE[dtype] * size + 500 * DENORMAL[dtype]
        if 0 < size < np.finfo(NUMPY[dtype]).max / 2 and bool(((there.double() - exact).abs() <= least).all()):
            return exact, torch.isfinite(exact), least
    if not finite.any():
        return None
    size = 1 + float(there[finite].abs().max())
    steady = finite & ((fine - there.double()).abs() <= NUDGE[dtype][1] * size) & ((near.double() - there.double()).abs() <= NUDGE[dtype][1] * size)
    return there.double(), steady, TOLERANCE[dtype] * size


def off(name, found, wanted, may_overflow=True):
    """Why found is not what is wanted, or None; it may have overflowed where the formula did not."""
    if wanted is None:
        return None
    want, mask, least = wanted
    want, mask, found = want.detach().numpy().reshape(-1), mask.numpy().reshape(-1), np.asarray(found, np.float64).reshape(-1)
    if may_overflow:
        mask = mask & np.isfinite(found)
    with np.errstate(invalid="ignore"):
        bad = mask & ~(np.abs(found - want) <= least)
    if not bad.any():
        return None
    at = int(np.argmax(bad))
    return "%s: %d of %d elements differ; element %d is %.9g, torch says %.9g" % (name, bad.sum(), mask.sum(), at, found[at], want[at])


# ---- spots ----

def component(nodes, graphs, rng):
    """The rows of each space that hang together with one that is chosen; None: all do. See Draw.topology."""
    mine = {space: np.zeros(n, bool) for space, n in nodes.items()}
    some = [space for space, n in nodes.items() if n]
    if not some:
        return None
    first = rng.choice(some)
    mine[first][rng.randrange(nodes[first])] = True
    ends = [(mine[src], g.src.numpy(), mine[dst], g.dst.numpy()) for _, src, dst, g in graphs]
    before = 0
    while before < (before := sum(int(m.sum()) for m in mine.values())):
        for a, src, b, dst in ends:
            hit = a[src] | b[dst]
            a[src[hit]] = b[dst[hit]] = True
    if all(m.all() for m in mine.values()):
        return None
    rows = {**mine, **{edge: a[src] for (edge, *_), (a, src, _, _) in zip(graphs, ends)}}
    return {space: torch.as_tensor(of) for space, of in rows.items()}


class Reach:
    """Of each value: does it read a spot (dirty), and may one reach rows of other components in it (wide)?"""

    def __init__(self, spots):
        self.spots, self.known = spots, {}

    def of(self, v):
        if id(v) not in self.known:
            self.known[id(v)] = self.derive(v)
        return self.known[id(v)]

    def derive(self, v):
        if v in self.spots:
            return True, False
        above = [self.of(a) for a in v.args + v.needs + ([v.body] if v.body is not None else [])]
        dirty, wide = any(d for d, _ in above), any(w for _, w in above)
        if isinstance(v, draw.Graph):
            return dirty, wide or dirty
        if isinstance(v, draw.Value) and v.gnn and v.gnn.startswith("grad("):  # the sum that is derived joins no rows
            wide = any(self.of(a)[1] for a in v.args[0].args + v.args[1:]) or dirty and v.space in (None, "graph")
        elif isinstance(v, draw.Value):
            wide |= dirty and joins(v)
        return dirty, wide

    def gradients_wide(self, items):
        """May a spot reach gradients of rows of other components? A derivative goes back from where a spot was read through all that this was
        computed from."""
        values = [v for v in items if isinstance(v, draw.Value)]
        dirty = [v for v in values if self.of(v)[0]]
        return any(self.of(v)[1] for v in items) or any(joins(v) for v in draw.ancestors(dirty) if not v.source)


def joins(v):
    """Does a row of the value read rows of other components?"""
    return v.space in (None, "graph") or v.mixes or any(s.graph.mixes for s in v.scope.chain())


def put_spots(given, rows, rng):
    """The data with numbers of SPOTS in rows of the component, and the inputs that have them."""
    some = [v for v in given if v.kind == "float" and v.space in rows and given[v].numel() and bool(rows[v.space].any())]
    out, spots = dict(given), rng.sample(some, min(len(some), rng.choice([1, 1, 2])))
    for v in spots:
        x = given[v].clone()
        at = rng.choice(rows[v.space].nonzero()[:, 0].tolist())
        number = rng.choice(SPOTS)
        x[at] = torch.where(torch.rand(x[at].shape, generator=torch.Generator().manual_seed(rng.randrange(1 << 30))) < 0.5,
                            torch.full_like(x[at], number), x[at])
        out[v] = x
    return out, spots
