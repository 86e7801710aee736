#!/usr/bin/env python3
"""--vjp=joint: one program gives what forward gives, to the bit (design.md: but for rows of more than 256 elements), and the gradients
that vjp gives alone; executables time that program under `grad`. usage: test_vjp.py BUILD"""
import json
import os
import sys

import numpy as np
import toy
from sandbox import Sandbox

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "golden"))
sys.path.insert(0, os.path.join(ROOT, "bench"))
import library  # noqa: E402
import rows  # noqa: E402

F = 16
MODELS = {  # name: text, and options of the build
    "several": ("""model net(x: node[F], w: edge) -> (node, edge[F], node[3], graph[F]) {
  a = linear()
  h: node[3] = a(x)
  return max_in(w), softmax_in(w * x.src) * x.dst, sum_in(softmax_in(h.src) * h.src), readout_sum(x * x)
}
""", []),
    "drawn": ("""model net(x: node[F]) -> node[F] {
  a = linear()
  b = batch_norm()
  h: node[F] = dropout(b(a(x)), 0.4)
  return sum_in(dropout(h.src, 0.3)) + gat(h, H = 2, D = F / 2)
}
""", ["--mode=train"]),
    "given": ("model net(x: node[F]) -> node[F] = x\n", []),
}
BENCH = ["gcn", "sage_max", "gat", "gen", "pna", "appnp", "cg"]
box = Sandbox(sys.argv[1], "vjp")
N, M, FEW, MANY = 300, 2500, 240, 1000


def load(name, path, options, hub, vjp):
    """The library on a graph in which node 7 has `hub` edges and few others that lead to it."""
    rng = np.random.default_rng(5)
    src, dst = rng.integers(0, N, M), np.where(np.arange(M) < hub, 7, rng.integers(0, N, M))

    out = box.path("%s-%s" % (name, vjp))
    box.must(box.gnnc, "build", path, "--emit=lib", "--prefix=m", "--cpu=native", "--vjp=" + vjp, "-o", out, *options)
    lib = library.Library(out + ".so", "m", np.float32)
    lib.on_graph(N, N, src, dst, 1, np.zeros(N, int) if name == "several" else None)
    return lib


def near(got, want):
    return np.abs(got - want).max(initial=0) <= 2e-5 * max(1, np.abs(want).max(initial=0))


def compare(name, path, options, hub=FEW):
    """Each result of forward, of the joint program and of vjp alone, with the same weights, seed and step."""
    alone, joint = (load(name, path, options, hub, vjp) for vjp in ("gradients", "joint"))
    draw = np.random.default_rng(1)
    shapes = {i.name.decode(): alone.shape(i) for i in alone.inputs}
    inputs = {k: draw.integers(rows.N_RELATIONS, size=s) if k == "edge_type" else draw.standard_normal(s) for k, s in shapes.items()}
    cotangents = [draw.standard_normal(alone.shape(r)) if r.dtype <= 1 else None for r in alone.results]
    outputs, gradients, both = alone.forward(inputs), alone.vjp(inputs, cotangents), joint.vjp(inputs, cotangents)
    names = [r.name.decode() for r in alone.results] + list(gradients)
    if list(both) != names:
        return "the joint program gives %s, wanted %s" % (list(both), names)
    off = [n for n, want in zip(names, outputs) if not near(both[n], want) or hub < 256 and both[n].tobytes() != want.tobytes()]
    off += [n for n, want in gradients.items() if not near(both[n], want)]
    return off and "%s: not what the two programs give" % off


for name, (text, options) in MODELS.items():
    box.report("agrees_" + name, compare(name, box.write(name + ".gnn", text), ["--set", "F=%d" % F] + options))
for name in BENCH:
    sizes = ",".join("%s=%d" % d for d in rows.dims(name, F).items())
    box.report("agrees_" + name, compare(name, os.path.join(ROOT, "bench", "models", name + ".gnn"), ["--set", sizes]))
gat = os.path.join(ROOT, "bench", "models", "gat.gnn")
box.report("agrees_with_a_hub", compare("gat", gat, ["--set", "F=%d" % F], MANY))

# ---- executables -----------------------------------------------------------------------------------------------------

toy.make(box)


def steps(*options):
    """Steps of the program that `grad` times, and those that `plan` predicts."""
    exe = box.path("linear")
    box.must(box.gnnc, "build", "plain.gnn", "--set", "F=%d" % toy.FEATURES, "--cpu=native", "-o", exe, *options)
    timed = json.loads(box.must(exe, "bench", "--data", "data", "--iters", "1", "--json").out)["grad"]
    planned = json.loads(box.must(exe, "plan", "--data", "data", "--json").out)["vjp"]
    return [k["name"] for k in timed["kernels"]], [s["name"] for s in planned["steps"]], timed["peak_bytes"], timed["peak_bytes"] - timed["grown_bytes"]


forward, backward = "reduce_sum edge.dst [F]", "reduce_sum edge.src [F]"
(timed, planned, peak, given), (alone, _, least, _) = steps(), steps("--vjp=gradients")
wrong = (timed, planned) if len(timed) != 2 or timed != planned or len(alone) != 1 or set(alone) >= set(timed) else ""
box.report("grad_computes_the_outputs", wrong)
box.report("grad_holds_the_outputs", not 0 <= peak - least - toy.NODES * toy.FEATURES * 4 < 256 and (peak, least))
box.report("grown_leaves_out_the_cotangents", not 0 <= given - toy.NODES * toy.FEATURES * 4 < 256 and given)
box.refuses("unknown", [box.gnnc, "build", "plain.gnn", "--vjp=both"], 1, "E0612", "gradients or joint")
box.close()
