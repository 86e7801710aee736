#!/usr/bin/env python3
"""Several processes, each on a device: weights, checkpoints, metrics and results have the bytes of one process on the CPU. The device is the shim, which
runs the emitted CUDA text on the CPU, in memory of its own.
usage: test_ranks_device.py BUILD"""
import json
import os
import shutil
import sys

import numpy as np

import toy
from sandbox import Sandbox

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "ranks"))
import models  # noqa: E402

box = Sandbox(sys.argv[1], "ranks_device")

# Sums over all nodes that merge blocks and that do not (maxima), for each relation, with values of pairs that come back to their owners; parameters
# with a row for each node, sums over edges by both ends, random numbers.
MIXED = """model net(x: node[F], edge_type: edge index[R]) -> node[C] {
  param E: node[O] = normal(0, 0.1)
  param W: [R, O, P] = glorot
  k = linear(O = 8)
  l = linear(O = C)
  h = tanh(k(dropout(x, 0.2)) + E)
  z = sum(relu(dot(mean_in(h.src, by = edge_type), W, O)), R)
  return l(z + max_all(z) + mean_out(z.dst))
}
"""


def data_of(name, n, e, features, seed):
    g = np.random.default_rng(seed)
    ends = g.integers(0, max(1, n * 9 // 10), (2, e))
    ends[1, g.random(e) < 0.1] = 0
    mask = g.random(n) < 0.5
    return toy.store(box.path(name), {"edge_index": np.ascontiguousarray(ends.astype("<i8")), "x": g.standard_normal((n, features)).astype("<f4"),
                                      "edge_type": g.integers(0, 4, e), "y": g.integers(0, 3, n), "train_mask": mask, "test_mask": ~mask},
                     num_nodes=n, num_edges=e, num_classes=3)


def parts(data, k, method):
    out = box.path("%s.%d.%s" % (os.path.basename(data), k, method))
    shutil.rmtree(out, ignore_errors=True)
    box.must(box.gnnc, "data", "partition", data, "-k", k, "-o", out, "--method", method, "--seed", 1)
    return out


def build(name, text, data, *more):
    out = box.path(name)
    box.must(box.gnnc, "build", box.write(name + ".gnn", text), "--data", data, "--cpu", "generic", "--target", "shim", "--quick",
             *more, "-o", out, limit=600)
    return out


def run(program, data, name, *more, epochs=2):
    """Weights, checkpoint, lines of metrics, results and what eval says."""
    files = [box.path(name + end) for end in (".st", ".ck", ".jsonl", ".npy")]
    usual = ["--data", data, "--threads", 1, *more]
    box.must(program, "train", *usual, "--epochs", epochs, "--save", files[0], "--checkpoint", files[1], "--metrics", files[2], limit=300)
    box.must(program, "infer", *usual, "--weights", files[0], "--out", files[3], limit=300)
    return [open(f, "rb").read() for f in files] + [box.must(program, "eval", *usual, "--weights", files[0], limit=300).out]


def differs(one, other):
    return [what for what, a, b in zip(("weights", "checkpoint", "metrics", "results", "eval"), one, other) if a != b]


def on_device(program, p, k, *more):
    return run(program, p, "several", "--ranks", k, "--device", "shim", *more)


def test_bits():
    few, wide = data_of("few", 90, 400, 6, 1), data_of("wide", 1100, 1500, 4, 2)
    cases = {"gcn": (models.text("gcn"), few), "gat": (models.text("gat"), few), "sage": (models.text("sage"), wide),
             "mixed": (MIXED + models.TRAIN % {"call": "data.x, data.edge_type"}, few)}
    for name, (text, data) in cases.items():
        program = build(name, text, data, *(["--set", "R=4,O=8,P=8", "--device-machine", "avx512-2"] if name == "mixed" else []))
        one, wrong = run(program, data, "one", "--blas", "off"), []
        for k, method, *more in (2, "random"), (3, "contiguous"), (3, "ldg", "--overlap", "off"):
            wrong += ["%d parts by %s: other %s" % (k, method, d) for d in differs(one, on_device(program, parts(data, k, method), k, *more))]
        box.report("bits_%s" % name, wrong)


def test_local_sums():
    """Other bits than one process has: of one plan, as `mixed` was built, those of as many processes on CPUs."""
    there, here = (run(box.path("mixed"), box.path("few.2.random"), d, "--ranks", 2, "--sums", "local", "--device", d, epochs=1) for d in ("shim", "cpu"))
    box.report("local_sums", differs(here, there))


def test_plan():
    """plan says what a process takes of its device: so many bytes are enough, and one fewer is refused."""
    program, p = box.path("mixed"), box.path("few.2.random")
    plan = json.loads(box.must(program, "plan", "--data", p, "--device", "shim", "--json").out)
    train = plan["device"]["bytes"]["train"]
    argv = [program, "train", "--data", p, "--ranks", 2, "--device", "shim", "--epochs", 1, "--host-rows", "none", "--device-memory"]
    box.must(*argv, train["most"])
    kinds = {t["kind"] for t in plan["train_step"]["ranks"]["travels"]}
    box.report("plan", (kinds != {"rows", "operands", "results", "partials"} and "what travels: %s" % kinds) or
               (not 0 < train["least"] <= train["most"] and str(train)) or (not plan["process_bytes"]["first"]["staged"] and "nothing is staged"))
    box.refuses("plan_exact", argv + [train["most"] - 1], 4, "R804", "bytes")


def test_refused():
    argv = [box.path("gcn"), "train", "--data", box.path("few.3.ldg"), "--ranks", 3, "--device"]
    box.refuses("auto", argv + ["auto"], 1, "R911", "--device", "might choose differently")
    box.refuses("policy", argv + ["shim", "--policy", "pipegcn"], 1, "R911", "--policy")
    box.refuses("sim", [box.path("gcn"), "plan", "--data", box.path("few.3.ldg"), "--transport", "sim", "--device", "shim"], 1, "R911", "--device")
    box.refuses("blas", argv + ["shim", "--blas", "on"], 1, "R911", "--blas")


for test in (test_bits, test_local_sums, test_plan, test_refused):
    test()
box.close()
