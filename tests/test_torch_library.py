#!/usr/bin/env python3
"""Activations, norms and losses of the standard library beside torch's: values and derivatives, in f32 and f64, at kinks and
next to them, at +-0, +-inf, NaN, denormals, the greatest numbers and where squares over- or underflow; second derivatives in
f64, at kinks and next to them, at 0 and at large numbers; four derivatives of products with zeros. Where torch's result is not
wanted the row states ours (docs/language.md, "Beside torch").
usage: test_torch_library.py BUILD"""
import itertools
import os
import subprocess
import tempfile

import with_torch

BUILD = with_torch.build("torch_library")

import numpy as np
import torch
import torch.nn.functional as F

from gnnc_layer import GnncLayer

NUMBERS = {"f32": (np.float32, torch.float32), "f64": (np.float64, torch.float64)}
COTANGENT = 0.5  # times the greatest number it is finite
NAN, INF = float("nan"), float("inf")


class Formula:
    """A formula of the library and torch's, of the same operands. `stated`: (which, where, ours) is what is wanted instead of torch's
    result number `which` (0: the value, 1, 2: the derivatives) where `where(*operands)` holds. `loose`: the tolerance, in roundings of
    1 and the result, and of what `slope` says of derivatives: how large they are in other directions. `again`: the same of second
    derivatives, by each operand of what `theirs`, or `twice`, gives."""

    def __init__(self, ours, theirs, *stated, loose=16, slope=lambda *operands: 0, again=(), twice=None):
        self.ours, self.theirs, self.stated, self.loose, self.slope, self.again = ours, theirs, stated, loose, slope, again
        self.twice = twice or theirs


# at 0 the second derivative is that of the branch that the first takes; torch has 0
left = lambda alpha: [(lambda x: x == 0, alpha)]
POINTWISE = [
    Formula("relu(x)", F.relu),
    Formula("leaky_relu(x)", F.leaky_relu),
    Formula("leaky_relu(x, 0.2)", lambda x: F.leaky_relu(x, 0.2)),
    Formula("reshape(prelu(reshape(x, [1])), [])", lambda x: F.prelu(x[:, None], torch.full((1,), 0.25, dtype=x.dtype))[:, 0]),
    Formula("elu(x)", F.elu, again=left(1)),
    Formula("elu(x, 0.5)", lambda x: F.elu(x, 0.5), again=left(0.5)),
    Formula("selu(x)", F.selu, again=left(1.0507009873554805 * 1.6732632423543772)),
    Formula("celu(x)", F.celu, again=left(1)),
    Formula("celu(x, 2)", lambda x: F.celu(x, 2), again=left(0.5)),
    Formula("gelu(x)", F.gelu),
    Formula('gelu(x, approximate = "tanh")', lambda x: F.gelu(x, approximate="tanh")),
    Formula("silu(x)", F.silu),
    # torch cuts off log(1 + exp(-x)), up to 2e-9, beyond 20
    Formula("softplus(x)", lambda x: F.softplus(x, threshold=50)),
    Formula("softplus(x, beta = 3)", lambda x: F.softplus(x, beta=3, threshold=50)),
    Formula("softplus(x, beta = -2)", lambda x: F.softplus(x, beta=-2, threshold=50)),
    Formula("log_sigmoid(x)", F.logsigmoid),
    Formula("mish(x)", F.mish, again=[(lambda x: x > 900, 0)]),  # where torch has NaN
    Formula("softsign(x)", F.softsign),
    # torch has 1/6 in single precision
    Formula("hard_sigmoid(x)", F.hardsigmoid, (1, lambda x: np.abs(x) < 3, COTANGENT / 6), twice=lambda x: F.relu6(x + 3) / 6),
    # x hard_sigmoid(x) has the derivatives 0 and 1 at its kinks, and NaN stays NaN
    Formula("hard_swish(x)", F.hardswish, (1, lambda x: x == -3, 0), (1, lambda x: x == 3, COTANGENT), (1, np.isnan, NAN)),
    Formula("hard_shrink(x)", F.hardshrink),
    Formula("soft_shrink(x)", F.softshrink, (0, np.isnan, NAN)),  # NaN stays NaN
    Formula("tanh_shrink(x)", F.tanhshrink),
    Formula("clamp(x, -1, 3)", lambda x: torch.clamp(x, -1, 3)),
    Formula("square(x)", torch.square),
    Formula("identity(x)", lambda x: x * 1),
    Formula("shifted_softplus(x)", lambda x: F.softplus(x, threshold=50) - float(np.log(2))),
    Formula("exp(x)", torch.exp),
    Formula("expm1(x)", torch.expm1),
    Formula("log(x)", torch.log),
    Formula("log1p(x)", torch.log1p),
    Formula("sqrt(x)", torch.sqrt),
    Formula("tanh(x)", torch.tanh),
    Formula("sigmoid(x)", torch.sigmoid),
    Formula("erf(x)", torch.erf),
    Formula("abs(x)", torch.abs, (1, np.isnan, NAN)),  # the sign of NaN is NaN
]
neither = lambda x, y: np.isnan(x) | np.isnan(y)
lost = lambda x, y: np.isnan(x - y)

# The derivatives of the angle are 0 where torch's are NaN, or 0 since squares over- or underflow.
far = lambda y, x: (np.isinf(x) | np.isinf(y) | ((x == 0) & (y == 0))) & ~neither(x, y)


def angle(y, x):
    """torch.atan2 with the derivatives of y / |y| and x / |x|, which no square takes out of range."""
    unit = torch.maximum(abs(x), abs(y)).detach()
    unit = torch.where((unit > 0) & (unit < INF), unit, torch.ones_like(unit))
    turn = torch.atan2(y / unit, x / unit)
    return turn + (torch.atan2(y, x) - turn).detach()


PAIRS = [
    Formula("atan2(x, y)", angle, (1, far, 0), (2, far, 0),
            (1, lambda y, x: np.isinf(y) & np.isnan(x), 0), (2, lambda y, x: np.isnan(y) & np.isinf(x), 0),
            again=[(far, 0)],
            slope=lambda y, x: 1 / np.maximum(np.abs(x), np.abs(y))),
    Formula("mse(x, y)", lambda x, y: F.mse_loss(x, y, reduction="none")),
    Formula("mae(x, y)", lambda x, y: F.l1_loss(x, y, reduction="none"), (1, lost, NAN), (2, lost, NAN)),  # the sign of NaN is NaN
    # a row of NaN has the gradient 0
    Formula("max(x, y)", torch.maximum, (1, neither, 0), (2, neither, 0)),
    Formula("min(x, y)", torch.minimum, (1, neither, 0), (2, neither, 0)),
]
LABELS = [
    # the derivative by the label is -x + 0 softplus(-x)
    Formula("bce_with_logits(x, y)", lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="none"), (2, lambda x, y: x == -INF, NAN)),
    Formula("bce_with_logits(x, y, pos_weight = 3)",
            lambda x, y: F.binary_cross_entropy_with_logits(x, y, pos_weight=torch.full((1,), 3, dtype=x.dtype), reduction="none")),
]

def level(x, *rest):
    """Rows of equal numbers: exactly 0 when normalised, where torch leaves what its mean was rounded by."""
    return np.broadcast_to(np.isfinite(x).all(1, keepdims=True) & (x == x[:, :1]).all(1, keepdims=True), x.shape)


def scale(x, *rest):
    """By how much a norm of rows scales them: what its derivative is the difference of."""
    with np.errstate(all="ignore"):
        return np.nan_to_num(1 / np.sqrt(x.astype(np.float64).var(1, keepdims=True) + 1e-5))


# A row of equal numbers is scaled by 1 / sqrt(1e-5); torch's mean of three large ones is another number
flat = (1, level, np.array([-0.25, 0, 0.25]) / 1e-5**0.5)


def none(x, *rest):
    """Rows of zeros."""
    return np.broadcast_to((x == 0).all(1, keepdims=True), x.shape)


def logsumexp(x, y):
    """torch.logsumexp with the derivative softmax(x): torch's exp(x - value) is 1 for each of several equal large numbers."""
    fixed, shares = x.detach(), F.softmax(x.detach(), 1)
    infinite = (fixed == INF).any(1, keepdim=True) & ~fixed.isnan().any(1, keepdim=True)
    shares = torch.where(infinite, torch.where(fixed == INF, NAN * fixed, torch.zeros_like(fixed)), shares)
    return Given.apply(x, torch.logsumexp(fixed, 1), shares)


class Given(torch.autograd.Function):
    """A value of each row with the derivatives that are given."""

    @staticmethod
    def forward(ctx, x, value, derivative):
        ctx.save_for_backward(derivative)
        return value

    @staticmethod
    def backward(ctx, g):
        return g[:, None] * ctx.saved_tensors[0], None, None


ROWS = [  # x: rows of 3 numbers, y: one of 3 classes
    Formula("softmax(x, F)", lambda x, y: F.softmax(x, 1)),
    Formula("log_softmax(x, F)", lambda x, y: F.log_softmax(x, 1)),
    # beside inf, exp of what is shifted by nothing overflows
    Formula("logsumexp(x, F)", logsumexp, (1, lambda x, y: (x == INF).any(1, keepdims=True) & (x > 80), NAN), twice=lambda x, y: torch.logsumexp(x, 1)),
    # torch's second derivatives of a length 0 are NaN
    Formula("norm(x, F)", lambda x, y: torch.linalg.vector_norm(x, dim=1), again=[(none, 0)]),
    Formula("l2_normalize(x, F)", lambda x, y: F.normalize(x, dim=1), again=[(none, 0)]),
    Formula("row_normalize(x, F)", lambda x, y: x / x.sum(1, keepdim=True).clamp(min=1)),
    Formula("mean(x, F)", lambda x, y: x.mean(1)),
    Formula("cross_entropy(x, y)", lambda x, y: F.cross_entropy(x, y, reduction="none")),
    Formula("row_norm(x)", lambda x, y: F.layer_norm(x, (3,)), (0, level, 0), flat, slope=scale),
    Formula('layer_norm(x, mode = "node")', lambda x, y: F.layer_norm(x, (3,)), (0, level, 0), flat, slope=scale),
    Formula("row_instance_norm(x)", lambda x, y: F.layer_norm(x, (3,)), (0, level, 0), flat, slope=scale),
    Formula("message_norm(x, x)", lambda x, y: F.normalize(x, dim=1) * torch.linalg.vector_norm(x, dim=1, keepdim=True),
            again=[(none, 0)]),
]

moved = lambda x: x - x.mean(1, keepdim=True)
spread = lambda x: moved(x).square().mean(1, keepdim=True)
# Each column of x is the nodes of a graph: here a row, since no formula below reads more than one column.
COLUMNS = [
    Formula("batch_norm(x, track_running_stats = false)", lambda x: F.batch_norm(x.t(), None, None, training=True).t(), (0, level, 0), slope=scale),
    Formula("instance_norm(x)", lambda x: F.instance_norm(x[None])[0], (0, level, 0), slope=scale),
    Formula("instance_norm(x, per_graph = false)", lambda x: F.instance_norm(x[None])[0], (0, level, 0), slope=scale),
    Formula("graph_norm(x)", lambda x: moved(x) / (spread(x) + 1e-5).sqrt(), (0, level, 0), slope=scale),
    Formula("mean_subtraction_norm(x)", moved, (0, level, 0)),
    Formula("graph_size_norm(x)", lambda x: x / 3**0.5),
]
# x is one column, and the formula reads all of it.
GRAPHS = [
    Formula("layer_norm(x)", lambda x: moved(x) / (spread(x) + 1e-5).sqrt(), (0, level, 0)),
    Formula("layer_norm(x, per_graph = false)", lambda x: moved(x) / (x.std(1, unbiased=False, keepdim=True) + 1e-5), (0, level, 0),
            again=[(level, 0)]),  # torch: NaN
    Formula("pair_norm(x)", lambda x: moved(x) / (1e-5 + moved(x).square().mean(1, keepdim=True)).sqrt(), (0, level, 0)),
    Formula("pair_norm(x, scale_individually = true)", lambda x: moved(x) / (1e-5 + moved(x)[..., None].norm(2, -1)), (0, level, 0),
            twice=lambda x: moved(x) / (1e-5 + moved(x).abs())),
]


def sweep(dtype):
    """Numbers for one operand: kinks with both neighbours, zeros, denormals, what over- or underflows when squared or exponentiated."""
    fi, kinks = np.finfo(dtype), (1e-40, 1e-30, 1e-10, 1e-3, 0.5, 1, 2, 3, 6, 10, 20, 21, 30, 50, 87, 88, 89, 104, 105, 710, 745)
    some = [s * dtype(a) for a in kinks for s in (1, -1)]
    some += [np.nextafter(a, dtype(to)) for a in some for to in (INF, -INF)]
    ends = (0, fi.smallest_subnormal, fi.tiny, 1e3, 1e10, 1e20, fi.max, INF)
    return np.array(some + [s * dtype(a) for a in ends for s in (1, -1)] + [NAN], dtype)


def few(dtype, *more):
    """Numbers of which several meet."""
    return np.array([0, -0.0, np.finfo(dtype).smallest_subnormal, 1e-30, 1e-13, -1, 1, 0.5, 3, -100, *more, INF, -INF, NAN], dtype)


def grid(numbers, n):
    return np.array(list(itertools.product(numbers, repeat=n)), numbers.dtype)


class Bench:
    """A model of all formulas of a list, built once: each formula's value and its derivatives by the float operands; or, `twice`, the
    derivatives by these of the weighted sum of the derivatives. `along`, an integer of each element of a row, weighs the first: the
    derivative of a norm's plain sum is 0, and would be right whatever the norm does."""

    def __init__(self, box, name, dtype, formulas, operands, dim=None, twice=False, along=None):
        self.formulas, self.n_floats, self.twice = formulas, sum("index" not in t for t in operands.values()), twice
        body, results, types = [], [], []
        for k, f in enumerate(formulas):
            one = "sum(v%d)" % k if dim else "v%d" % k
            row = f.ours.startswith(("logsumexp", "norm(", "mean(", "cross"))  # one number a row
            floats = list(operands)[:self.n_floats]
            by_node, each = " * (1.5 + cos(float(id(node))))" * (dim is not None), " * (1.5 + cos(float(iota(F))))" * (dim is not None)
            body.append("  v%d = %s" % (k, f.ours))
            if twice:
                body.append("  s%d = sum_all(%s%s)" % (k, "v%d" % k if row else one.replace(")", each + ")"), by_node))
                slopes = ["%d * grad(s%d, %s)%s" % (i + 1, k, o, each + by_node) for i, o in enumerate(floats)]
                body.append("  d%d = " % k + " + ".join("sum_all(%s)" % ("sum(%s)" % d if dim else d) for d in slopes))
            else:
                slope = " * (%g + 0.25 * float(%s))" % (COTANGENT, along) if along and not row else " * %g" % COTANGENT
                body.append("  s%d = sum_all(%s%s)" % (k, "v%d" % k if row or not dim else "sum(v%d%s)" % (k, slope), slope if row or not dim else ""))
                results.append("v%d" % k)
                types.append("node" if row or not dim else "node[F]")
            for o in floats:
                results.append("grad(%s%d, %s)" % ("d" if twice else "s", k, o))
                types.append(operands[o])
        text = "model net(%s) -> (%s) {\n%s\n  return %s\n}\n" % (
            ", ".join("%s: %s" % o for o in operands.items()), ", ".join(types), "\n".join(body), ", ".join(results))
        self.path = os.path.join(box, name + ".gnn")
        with open(self.path, "w") as out:
            out.write(text)
        self.so = os.path.join(box, "lib%s" % name)
        argv = [os.path.join(BUILD, "gnnc"), "build", self.path, "--prefix=net", "--emit=lib", "--dtype=" + dtype, "--cpu=native", "-o", self.so]
        argv += ["--quick"] if dtype == "f64" else []  # the same bits as with LLVM's optimiser, which f32 has
        subprocess.run(argv + (["--set", "F=%d" % dim] if dim else []), check=True)

    def run(self, n, *inputs):
        """The results of all formulas for n nodes: per formula the value, then its derivatives."""
        layer = GnncLayer(self.so + ".so", "net", n, torch.tensor([[0], [0]]))
        out = [t.numpy() for t in layer.run("forward", [torch.from_numpy(np.ascontiguousarray(x)) for x in inputs] + list(layer.parameters()), [], layer.results)]
        each = self.n_floats + (not self.twice)
        return [out[k:k + each] for k in range(0, len(out), each)]


def wanted(formula, n_floats, inputs):
    """What torch, or the row, says: the value, then the derivatives."""
    tensors = [torch.from_numpy(np.ascontiguousarray(x)) for x in inputs]
    floats = [t.requires_grad_() for t in tensors[:n_floats]]
    value = formula.theirs(*tensors)
    cotangent = COTANGENT + 0.25 * torch.arange(value.shape[1], dtype=value.dtype) if value.dim() > 1 else COTANGENT
    slopes = torch.autograd.grad((value * cotangent).sum(), floats, allow_unused=True)
    out = [value.detach().numpy()] + [np.zeros_like(x) if s is None else s.numpy() for s, x in zip(slopes, inputs)]
    for which, where, ours in formula.stated:
        out[which] = np.where(where(*inputs), np.asarray(ours, inputs[0].dtype), out[which])
    return out


def wanted_twice(formula, n_floats, inputs, weight):
    """What torch, or the row, says of the derivatives of the weighted sum of the derivatives."""
    tensors = [torch.from_numpy(np.ascontiguousarray(x)) for x in inputs]
    floats = [t.requires_grad_() for t in tensors[:n_floats]]
    value = formula.twice(*tensors)
    slopes = torch.autograd.grad((value * (weight if value.dim() == weight.dim() else weight[:, 0] / 2.5)).sum(), floats, create_graph=True)
    total = sum((i + 1) * (s * weight).sum() for i, s in enumerate(slopes))
    found = torch.autograd.grad(total, floats, allow_unused=True) if total.requires_grad else [None] * n_floats
    out = [np.zeros_like(x) if s is None else (s + torch.zeros(x.shape)).numpy() for s, x in zip(found, inputs)]
    for where, ours in formula.again:
        out = [np.where(where(*inputs), np.asarray(ours, x.dtype), o) for o, x in zip(out, inputs)]
    return out


def differences(got, want, room):
    with np.errstate(all="ignore"):
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        return ~(same | (np.abs(got - want) <= np.finfo(got.dtype).eps * (room + 16 * np.abs(want))))


def compare(name, dtype, formulas, found, n_floats, inputs, weight=None):
    """One line for each formula: the first places where it differs, if any. With a weight: of second derivatives."""
    for formula, got in zip(formulas, found):
        twice = weight is not None
        want, said = wanted_twice(formula, n_floats, inputs, weight) if twice else wanted(formula, n_floats, inputs), []
        for k, (a, b) in enumerate(zip(got, want), int(twice)):
            steep = formula.slope(*inputs) if k else 0
            if twice and b.ndim > 1:
                steep = 32 * (1 + np.abs(b).max(1, keepdims=True))
            bad = differences(a, b.reshape(a.shape), formula.loose * (1 + steep))
            for place in np.argwhere(bad)[:3]:
                row = place[0]
                said.append("%s of %s is %r, wanted %r" % (("value", "derivative", "derivative by the second")[k], [x[row].tolist() for x in inputs],
                                                           a[tuple(place)], b.reshape(a.shape)[tuple(place)]))
            if bad.sum() > 3:
                said.append("%d more" % (bad.sum() - 3))
        label = "torch_library.%s.%s.%s" % (name, dtype, formula.ours.replace(" ", ""))
        print("FAIL %s: %s" % (label, "; ".join(said)) if said else "ok " + label)


def zeros_in_products(box):
    """Four derivatives of a function of products over rows with no zeros to five, beside products that are written out."""
    rows = [[2, 3, -5], [0, 3, 5], [0, 0.5, -0.0], [0, 0, 0], [0, 2, 0, 0.25, 0], [0, 0, -1, 0, 0], [0, 0, 0, 0, 0], [0], [7], []]
    numbers = torch.tensor([x for row in rows for x in row], dtype=torch.float64)
    dst = torch.tensor([v for v, row in enumerate(rows) for _ in row])
    weight = torch.cos(torch.arange(len(numbers), dtype=torch.float64))
    path = os.path.join(box, "product")
    with open(path + ".gnn", "w") as out:
        out.write("""reduce both(m) {
  state p = 0.5, q = 1
  step { p *= m; q *= m * m - 2 * m }
  done = sin(1 + p) * (1 + q) + p
}
model net(x: edge, w: edge) -> (edge, edge, edge, edge) {
  d1 = grad(sum_all(both_in(x)), x)
  d2 = grad(sum_all(w * d1), x)
  d3 = grad(sum_all(w * d2), x)
  return d1, d2, d3, grad(sum_all(w * d3), x)
}
""")
    subprocess.run([os.path.join(BUILD, "gnnc"), "build", path + ".gnn", "--prefix=net", "--emit=lib", "--dtype=f64", "--cpu=native", "-o", path], check=True)
    layer = GnncLayer(path + ".so", "net", len(rows), torch.stack([torch.zeros_like(dst), dst]))
    found = layer.run("forward", [numbers, weight], [], layer.results)
    x, total = numbers.requires_grad_(), 0
    for v in range(len(rows)):
        p, q = torch.tensor(0.5, dtype=torch.float64), torch.tensor(1.0, dtype=torch.float64)
        for m in x[dst == v]:
            p, q = p * m, q * (m * m - 2 * m)
        total = total + torch.sin(1 + p) * (1 + q) + p
    for order, got in enumerate(found, 1):
        slope = torch.autograd.grad(total, x, create_graph=True)[0]
        bad = ~torch.isclose(got, slope, rtol=1e-12, atol=1e-12)
        label = "torch_library.product.derivative_%d" % order
        print("FAIL %s: %s, wanted %s" % (label, got[bad].tolist()[:3], slope[bad].tolist()[:3]) if bad.any() else "ok " + label)
        total = (weight * slope).sum()


def second_derivatives(box):
    """In double precision, at finite numbers."""
    ends = (0, 1e-30, 1e-3, 0.5, 1, 2, 3, 6, 20, 21, 50, 100, 1000)
    x = np.unique([a for e in ends for b in (e, -e) for a in (b, np.nextafter(b, INF), np.nextafter(b, -INF))])
    x = np.append(x, -0.0)
    compare("one.twice", "f64", POINTWISE, Bench(box, "one2", "f64", POINTWISE, {"x": "node"}, twice=True).run(len(x), x), 1, [x], torch.ones(len(x)))
    some = np.array([0, -0.0, 0.25, -1, 1, 0.5, 3, -100])
    x, y = np.ascontiguousarray(grid(some, 2).T)
    compare("two.twice", "f64", PAIRS, Bench(box, "two2", "f64", PAIRS, {"x": "node", "y": "node"}, twice=True).run(len(x), x, y), 2, [x, y], torch.ones(len(x)))
    compare("label.twice", "f64", LABELS, Bench(box, "label2", "f64", LABELS, {"x": "node", "y": "node"}, twice=True).run(len(x), x, y), 2, [x, y],
            torch.ones(len(x)))
    x = grid(some[[0, 2, 3, 4, 5, 7]], 3)
    y = np.arange(len(x)) % 3
    waves = lambda n: 1.5 + torch.cos(torch.arange(n, dtype=torch.float64))
    weight = torch.outer(waves(len(x)), waves(3))
    compare("row.twice", "f64", ROWS, Bench(box, "row2", "f64", ROWS, {"x": "node[F]", "y": "node index[F]"}, 3, twice=True).run(len(x), x, y), 1, [x, y], weight)
    found = Bench(box, "column2", "f64", COLUMNS, {"x": "node[F]"}, len(x), twice=True).run(3, x.T)
    compare("column.twice", "f64", COLUMNS, [[a.T for a in f] for f in found], 1, [x], weight)
    whole = Bench(box, "graph2", "f64", GRAPHS, {"x": "node[F]"}, 1, twice=True)
    x = grid(some[[0, 3, 4, 6]], 3)
    each = [whole.run(3, row[:, None]) for row in x]
    compare("graph.twice", "f64", GRAPHS, [[np.array([e[k][0][:, 0] for e in each])] for k in range(len(GRAPHS))], 1, [x], 2.5 * waves(3)[None])


def first_derivatives(box):
    """Values and derivatives, in both precisions."""
    for dtype, number in (("f32", np.float32), ("f64", np.float64)):
        top = number(np.finfo(number).max) ** number(0.5) / number(8)
        x = sweep(number)
        compare("one", dtype, POINTWISE, Bench(box, "one" + dtype, dtype, POINTWISE, {"x": "node"}).run(len(x), x), 1, [x])
        x, y = np.ascontiguousarray(grid(few(number, 1e20, -1e20, 1e-23, np.finfo(number).max), 2).T)
        compare("two", dtype, PAIRS, Bench(box, "two" + dtype, dtype, PAIRS, {"x": "node", "y": "node"}).run(len(x), x, y), 2, [x, y])
        x, y = (a.ravel() for a in np.meshgrid(sweep(number), np.array([0, 1e-30, 0.25, 1, NAN], number)))
        compare("label", dtype, LABELS, Bench(box, "label" + dtype, dtype, LABELS, {"x": "node", "y": "node"}).run(len(x), x, y), 2, [x, y])
        x = grid(few(number, top), 3)
        y = np.arange(len(x)) % 3
        compare("row", dtype, ROWS, Bench(box, "row" + dtype, dtype, ROWS, {"x": "node[F]", "y": "node index[F]"}, 3, along="iota(F)").run(len(x), x, y), 1, [x, y])
        found = Bench(box, "column" + dtype, dtype, COLUMNS, {"x": "node[F]"}, len(x), along="id(node)").run(3, x.T)
        compare("column", dtype, COLUMNS, [[a.T for a in f] for f in found], 1, [x])
        whole = Bench(box, "graph" + dtype, dtype, GRAPHS, {"x": "node[F]"}, 1, along="id(node)")
        x = grid(few(number)[[0, 2, 5, 6, 8, 9, -1, -2, -3]], 3)
        each = [whole.run(3, row[:, None]) for row in x]
        compare("graph", dtype, GRAPHS, [[np.array([e[k][j][:, 0] for e in each]) for j in (0, 1)] for k in range(len(GRAPHS))], 1, [x])


def main():
    np.seterr(all="ignore")
    with tempfile.TemporaryDirectory(prefix="gnnc-torch-library-") as box:
        first_derivatives(box)
        second_derivatives(box)
        zeros_in_products(box)


main()
