#!/usr/bin/env python3
"""Libraries whose parameters have a row for each node and each edge of the graph: what a library reads from a weight file or draws, computes and
derives is what the executable of the same model does, bit for bit, and what numpy says; on two graphs, by threads in any order, and on the device
that the CPU plays. usage: test_rows.py BUILD"""
import ctypes as C
import os
import sys

import numpy as np

from sandbox import Sandbox
from toy import store

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden"))
import library  # noqa: E402
import tensors  # noqa: E402

NET = """model net(x: node[H, D]) -> node[H, O] {
  param e: node[H, D] = normal(0, 1)
  param w: edge[H, D] = normal(0, 1) as "conv.att" [D*H]
  param W: [D, O] = glorot
  return sum_in(w * (x + e).src) @ W
}
"""
TRAIN = """train net {
  loss = mse(net(data.x), data.y)
  optimizer sgd(0.1)
  epochs 1
}
"""
H, D, O = 2, 3, 4
PARALLEL_FOR = C.CFUNCTYPE(None, C.c_void_p, C.c_int64, C.CFUNCTYPE(None, C.c_void_p, C.c_int64), C.c_void_p)
box = Sandbox(sys.argv[1], "rows")


class Lib(library.Library):
    alive = []  # what calls on a device read and write behind them

    def fit(self, *args):
        self.alive.append(super().fit(*args))
        return self.alive[-1]

    def wait(self):
        """A device takes a parameter anew when it has done all else."""
        w = np.zeros([D, O])
        self.call("param_get", self.model, C.c_int32(2), library.address(w))
        self.call("param_set", self.model, C.c_int32(2), library.address(w))

    def bind(self, params):
        self.kept = [np.array(params[i.name.decode()], np.float64, order="C") for i in self.params]
        for k, a in enumerate(self.kept):
            self.call("context_bind_param", self.context, C.c_int32(k), library.address(a))

    def read(self, path):
        """Parameters by name, for the graph at hand."""
        out = {}
        for k, info in enumerate(self.params):
            a = out[info.name.decode()] = np.full(self.shape(info), 77.0)
            self.call("param_read", self.model, self.graph, C.c_int32(k), path and path.encode(), library.address(a))
        return out

    def refusal(self, what, *args):
        try:
            what(*args)
        except library.Failed as e:
            return str(e)
        return "nothing was refused"


def draw(seed, n, m):
    r = np.random.default_rng(seed)
    return {"src": r.integers(0, n, m), "dst": r.integers(0, n - 1, m), "x": r.standard_normal((n, H, D)), "cot": r.standard_normal((n, H, O))}


def sums(values, at, n):
    out = np.zeros((n,) + values.shape[1:])
    np.add.at(out, at, values)
    return out


def expected(a, p):
    n, z = len(a["x"]), (a["x"] + p["e"])[a["src"]]
    h = sums(p["conv.att"] * z, a["dst"], n)
    dm = (a["cot"] @ p["W"].T)[a["dst"]]
    de = sums(dm * p["conv.att"], a["src"], n)
    return h @ p["W"], {"grad.x": de, "grad.e": de, "grad.conv.att": dm * z, "grad.W": np.einsum("nhd,nho->do", h, a["cot"])}


def compare(name, lib, a, p):
    """The result."""
    lib.on_graph(len(a["x"]), len(a["x"]), a["src"], a["dst"], 1, None)
    lib.bind(p)
    want, gradients = expected(a, p)
    got, found = lib.forward({"x": a["x"]})[0], lib.vjp({"x": a["x"]}, [a["cot"]])
    off = [k for k, g in gradients.items() if not np.allclose(found[k], g, rtol=1e-12, atol=1e-12)]
    box.report(name, not np.allclose(got, want, rtol=1e-12, atol=1e-12) and "the result is off" or off)
    return got


def main():
    dims = "H=%d,D=%d,O=%d" % (H, D, O)
    box.must(box.gnnc, "build", box.write("net.gnn", NET), "--set", dims, "--dtype", "f64", "--cpu", "generic", "--target", "shim", "--emit=lib,header", "-o", "net",
             limit=300)
    a = draw(1, 12, 60)
    folder = store(box.path("data"), {"edge_index": np.stack([a["src"], a["dst"]]), "x": a["x"], "y": a["cot"]})
    box.must(box.gnnc, "build", box.write("main.gnn", NET + TRAIN), "--quick", "--dtype", "f64", "--cpu", "generic", "--data", folder, "-o", "main")
    lib = Lib(box.path("net.so"), "net", np.float64)
    lib.on_graph(12, 12, a["src"], a["dst"], 1, None)
    box.report("not given", "e: the parameter has a row for each of `node`, and is NULL" not in lib.refusal(lib.forward, {"x": a["x"]}))
    box.report("no copy", "context_bind_param" not in lib.refusal(lib.call, "param_set", lib.model, C.c_int32(0), library.address(a["x"])))
    weights = box.path("w.safetensors")
    for epochs in (0, 1):
        box.must(box.path("main"), "train", "--data", folder, "--epochs", epochs, "--save", weights)
        box.must(box.path("main"), "infer", "--data", folder, "--weights", weights, "--out", box.path("out.npy"))
        stored, p = tensors.read(weights), lib.read(weights)
        box.report("stored rows %d" % epochs, not (np.array_equal(p["e"], stored["e"]) and
                                                   np.array_equal(p["conv.att"].transpose(0, 2, 1).reshape(60, D * H), stored["conv.att"])))
        box.report("the executable's bits %d" % epochs, compare("numbers %d" % epochs, lib, a, p).tobytes() != np.load(box.path("out.npy")).tobytes())
        if not epochs:
            begun = lib.read(None)
            box.report("initial rows", [k for k in begun if begun[k].tobytes() != p[k].tobytes()])
    lib.call("model_load", lib.model, weights.encode())
    box.report("the model's own of the same file", lib.param(2).tobytes() != p["W"].tobytes())
    again, small = lib.forward({"x": a["x"]})[0], draw(2, 5, 9)
    lent = PARALLEL_FOR(lambda _, n, task, arg: [task(arg, i) for i in reversed(range(n))] and None)
    lib.call("context_set_parallel", lib.context, lent, None, C.c_int32(3))
    box.report("threads", lib.forward({"x": a["x"]})[0].tobytes() != again.tobytes())
    lib.on_graph(5, 5, small["src"], small["dst"], 1, None)
    compare("another graph", lib, small, lib.read(None))
    wrong = lib.refusal(lib.read, weights)
    box.report("rows of another graph", ("tensor e: found [12, 2, 3] f64, wanted [5, 2, 3] f64" not in wrong) and wrong)
    box.report("no such file", "no.safetensors" not in lib.refusal(lib.read, box.path("no.safetensors")))
    on_device(lib, a, p)
    lib.close()


def on_device(lib, a, p):
    """Edges stand in the order of their targets there."""
    there = C.c_void_p()
    lib.on_graph(12, 12, a["src"], a["dst"], 1, None)
    create = lambda: lib.call("context_cuda", lib.model, lib.graph, C.c_int32(1), C.c_int32(0), None, C.byref(there))
    box.report("device: order", "conv.att" not in lib.refusal(create))
    order = np.argsort(a["dst"], kind="stable")
    a, p = dict(a, src=a["src"][order], dst=a["dst"][order]), dict(p, **{"conv.att": p["conv.att"][order]})
    here = compare("sorted", lib, a, p), lib.vjp({"x": a["x"]}, [a["cot"]])
    create()
    lib.context, old = there, lib.context
    said = lib.refusal(lib.forward, {"x": a["x"]})
    box.report("device: not given", "row for each of `node`" not in said and said)
    lib.bind(p)
    got = lib.forward({"x": a["x"]})[0], lib.vjp({"x": a["x"]}, [a["cot"]])
    lib.wait()
    last = lib.forward({"x": a["x"]})
    off = ["out"] if got[0].tobytes() != here[0].tobytes() else []
    box.report("device", off + [k for k, g in here[1].items() if got[1][k].tobytes() != g.tobytes()])
    lib.function("context_free")(lib.context)
    lib.context = old
    box.report("device: again", last[0].tobytes() != here[0].tobytes())


try:
    main()
finally:
    box.close()
