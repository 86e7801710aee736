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
NCCL = box.path("libnccl.so.2")
ONE = {}  # what one process makes, by model

# Sums over all nodes that merge blocks and that do not (maxima), over all edges of a value at both ends, for each
# relation, with values of pairs that come back to their owners; parameters with a row for each node, sums over edges by
# both ends, random numbers.
MIXED = """model net(x: node[F], edge_type: edge index[R]) -> node[C] {
  param E: node[O] = normal(0, 0.1)
  param W: [R, O, P] = glorot
  k = linear(O = 4)
  l = linear(O = C)
  h = tanh(k(dropout(x, 0.2)) + E)
  z = sum(relu(dot(mean_in(h.src, by = edge_type), W, O)), R)
  return l(z + max_all(z) + mean_out(z.dst)) + sum(mean_all(h.src * h.dst), O)
}
"""
LAYERS = """model net(x: node[F]) -> node[C] {
  a = relu(gcn(dropout(x, 0.3), O = 8))
  b = elu(gat(a, H = 2, D = 4, attn_dropout = 0.2))
  return sage(b, O = C)
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
    cases = {"layers": (LAYERS + models.TRAIN % {"call": "data.x"}, data_of("few", 120, 400, 4, 1)),
             "mixed": (MIXED + models.TRAIN % {"call": "data.x, data.edge_type"}, data_of("wide", 600, 900, 4, 2),
                       "--set", "R=4,O=4,P=4", "--device-machine", "avx512-2")}
    for name, (text, data, *flags) in cases.items():
        program = build(name, text, data, *flags)
        one, wrong = ONE.setdefault(name, run(program, data, "one", "--blas", "off")), []
        for k, method, *more in (2, "random"), (3, "contiguous"), (3, "ldg", "--overlap", "off"):
            wrong += ["%d parts by %s: other %s" % (k, method, d) for d in differs(one, on_device(program, parts(data, k, method), k, *more))]
        box.report("bits_%s" % name, wrong)


def test_local_sums():
    """Other bits than one process has: of one plan, as `mixed` was built, those of as many processes on CPUs."""
    there, here = (run(box.path("mixed"), box.path("wide.2.random"), d, "--ranks", 2, "--sums", "local", "--device", d, epochs=1) for d in ("shim", "cpu"))
    box.report("local_sums", differs(here, there))


def test_plan():
    """plan says what a process takes of its device: so many bytes are enough, and one fewer is refused."""
    program, p = box.path("mixed"), box.path("wide.2.random")
    plan = json.loads(box.must(program, "plan", "--data", p, "--device", "shim", "--json").out)
    train = plan["device"]["bytes"]["train"]
    argv = [program, "train", "--data", p, "--ranks", 2, "--device", "shim", "--epochs", 1, "--host-rows", "none", "--device-memory"]
    box.must(*argv, train["most"])
    kinds = {t["kind"] for t in plan["train_step"]["ranks"]["travels"]}
    box.report("plan", (kinds != {"rows", "operands", "results", "partials"} and "what travels: %s" % kinds) or
               (not 0 < train["least"] <= train["most"] and str(train)) or (not plan["process_bytes"]["first"]["staged"] and "nothing is staged"))
    box.refuses("plan_exact", argv + [train["most"] - 1], 4, "R804", "bytes")


def fake(**said):
    """The environment of processes that find tests/fake_nccl.c."""
    return dict(os.environ, GNNC_NCCL=NCCL, **said)


def test_nccl():
    """Rows that go from device to device are those that go through the host, and as many bytes as were predicted."""
    box.must("cc", "-std=gnu11", "-O1", "-shared", "-fPIC", "-o", NCCL, os.path.join(HERE, "fake_nccl.c"))
    for name, k, method, *more in ("layers", 3, "contiguous"), ("layers", 2, "random"), ("mixed", 2, "random"), ("mixed", 3, "ldg", "--overlap", "off"):
        box.must(box.path(name), "train", "--data", box.path("%s.%d.%s" % ("few" if name == "layers" else "wide", k, method)), "--ranks", k, "--device", "shim", "--epochs", 2, "--exchange", "nccl",
                 "--ledger", box.path("ledger.json"), "--save", box.path("nccl.st"), *more, env=fake(FAKE_NCCL_LOG=box.path("groups")))
        with open(box.path("nccl.st"), "rb") as f:
            other = f.read() != ONE[name][0] and "other weights"
        with open(box.path("ledger.json")) as f:
            sites = json.load(f)["sites"][1:]
        unlike = [s["name"] for s in sites for r in s["by_rank"] if (r["bytes_out"], r["rounds"]) != (r.get("predicted_bytes"), r.get("predicted_rounds"))]
        with open(box.path("groups")) as f:
            groups = len(f.readlines())
        os.remove(box.path("groups"))
        box.report("nccl_%s_%d" % (name, k), other or (unlike and "not as predicted: %s" % unlike) or (groups < 6 * k and "%d groups of sends" % groups))
    argv = [box.path("mixed"), "train", "--data", box.path("wide.2.random"), "--ranks", 2, "--device", "shim", "--epochs", 1, "--exchange", "nccl"]
    plan = json.loads(box.must(box.path("mixed"), "plan", "--data", box.path("wide.2.random"), "--device", "shim", "--exchange", "nccl", "--json").out)
    most = plan["device"]["bytes"]["train"]["most"]
    box.must(*argv, "--host-rows", "none", "--device-memory", most, env=fake())
    box.refuses("nccl_plan", argv + ["--host-rows", "none", "--device-memory", most - 1], 4, "R804", "bytes", env=fake())
    box.refuses("nccl_missing", argv, 6, "R921", "nowhere", env=dict(os.environ, GNNC_NCCL="/nowhere/libnccl.so.2"))
    box.refuses("nccl_shim", argv, 6, "R921", "shim", env={k: v for k, v in os.environ.items() if k != "GNNC_NCCL"})
    box.refuses("nccl_old", argv, 6, "R921", "21300", "21400", env=fake(FAKE_NCCL_VERSION="21300"))
    box.refuses("nccl_fails", argv, 7, "R922", "rank 1", env=fake(FAKE_NCCL_FAILS="1:2"))
    box.refuses("nccl_dies", argv + ["--deadline", 5], 7, "R902", "rank 1", env=fake(FAKE_NCCL_DIES="1:2"))
    box.refuses("nccl_hangs", argv + ["--deadline", 1], 7, "R903", "within 1 s", env=fake(FAKE_NCCL_HANGS="1:2"))
    box.refuses("exchange", argv[:-1] + ["shared"], 1, "R403", "--exchange", "host or nccl")
    left = [f for f in os.listdir("/dev/shm") if f.startswith("gnnc-fake-nccl")]
    box.report("nccl_leaves_nothing", left)


def test_mpi():
    """Rows of devices over MPI."""
    if not shutil.which("mpirun"):
        box.skip("mpi", "mpirun is not installed")
        return
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1")
    box.must("mpirun", "--oversubscribe", "-n", 2, box.path("layers"), "train", "--data", box.path("few.2.random"), "--device", "shim", "--threads", 1, "--epochs", 2,
             "--save", box.path("mpi.st"), env=env)
    with open(box.path("mpi.st"), "rb") as f:
        box.report("mpi", f.read() != ONE["layers"][0] and "other weights")


def test_header():
    """What runtime/nccl.h says of NCCL is what NCCL's own header says."""
    if box.run("cc", "-fsyntax-only", box.write("has.c", "#include <nccl.h>\n")).rc:
        box.skip("nccl_header", "nccl.h is not installed")
        return
    root = os.path.dirname(HERE)
    r = box.run("cc", "-std=gnu11", "-Wall", "-Werror", "-I" + root, os.path.join(HERE, "nccl_header.c"), NCCL, "-Wl,-rpath," + box.root, "-o", box.path("header"))
    box.report("nccl_header", (r.rc and r.err) or (box.run(box.path("header")).rc and "numbers differ"))


def test_refused():
    argv = [box.path("layers"), "train", "--data", box.path("few.3.ldg"), "--ranks", 3, "--device"]
    box.refuses("auto", argv + ["auto"], 1, "R911", "--device", "might choose differently")
    box.refuses("policy", argv + ["shim", "--policy", "pipegcn"], 1, "R911", "--policy")
    box.refuses("sim", [box.path("layers"), "plan", "--data", box.path("few.3.ldg"), "--transport", "sim", "--device", "shim"], 1, "R911", "--device")
    box.refuses("blas", argv + ["shim", "--blas", "on"], 1, "R911", "--blas")


for test in (test_bits, test_local_sums, test_plan, test_nccl, test_mpi, test_header, test_refused):
    test()
box.close()
