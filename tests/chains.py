"""Models that are long chains of pointwise statements, each with numbers of its own, so that no two kernels are equal."""

FUNCTIONS = ["tanh(%s)", "sigmoid(%s)", "exp(-abs(%s))", "log1p(abs(%s))", "sin(%s)", "erf(%s)", "sqrt(1 + square(%s))", "gelu(%s)"]
KINDS = {
    "one function": lambda i: "h = tanh(%g * h + %g)" % (1 + i / 1000, i / 100),
    "several functions": lambda i: "h = " + FUNCTIONS[i % len(FUNCTIONS)] % ("%g * h" % (1 + i / 1000)),
    "residual": lambda i: "h = h + %g * tanh(h) * sigmoid(%g * h)" % (0.1 + i / 1000, 1 + i / 1000),
    "wide": lambda i: "h = h + tanh(%g * x)" % (1 + i / 1000),
}


def model(kind, n, grad=False):
    """n statements; grad: the model's result is the gradient of their sum by x."""
    lines = ["  " + KINDS[kind](i) for i in range(n)]
    result = "grad(sum(sum_all(h)), x)" if grad else "h"
    return "model net(x: node[F]) -> node[F] {\n  h = x\n%s\n  return %s\n}\n" % ("\n".join(lines), result)


def on_edges(n):
    """n statements on edges, and sums of what they give into each node."""
    return "model net(x: node[F]) -> node[F] {\n  h = x.src - x.dst\n%s\n  return sum_in(h)\n}\n" % "\n".join(
        "  " + KINDS["one function"](i) for i in range(n))
