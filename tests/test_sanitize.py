#!/usr/bin/env python3
"""Generated programs and the runtime under sanitizers: address and undefined behaviour, and threads. Every command runs
on toy data, in each data format and with mistakes; no sanitizer may report anything. Threads with GNNC_LONG=1. Nothing is optimised: with
the checks of 128-byte vectors in it, gcc takes 50 s for a model of attention at -O1, and 3 s so.
usage: test_sanitize.py BUILD"""
import os
import shutil
import subprocess
import sys

import numpy as np

import toy
from sandbox import Sandbox

box = Sandbox(sys.argv[1], "sanitize")
arrays = toy.make(box)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RUNTIME = sorted(os.path.join(ROOT, "runtime", f) for f in os.listdir(os.path.join(ROOT, "runtime")) if f.endswith(".c"))
FLAGS = ["-std=gnu11", "-O0", "-g", "-w", "-fno-omit-frame-pointer", "-ffp-contract=off", "-D_GNU_SOURCE", "-I" + ROOT]
ENV = dict(os.environ, ASAN_OPTIONS="detect_leaks=1:abort_on_error=0:exitcode=99", UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:exitcode=99",
           TSAN_OPTIONS="halt_on_error=1:exitcode=99")
# With every kind of thing that the runtime does for a model: attention, a user's seed, an early stop, a derived graph.
ATTENTION = """model att(x: node[F]) -> node[C] {
  h = elu(flatten(gat(dropout(x, 0.2), H = 2, D = 4)))
  return flatten(gat(h, H = 1, D = C))
}
train att {
  loss = cross_entropy(att(data.x), data.y) on data.train
  metric val_acc = accuracy(att(data.x), data.y) on data.val
  hyper lr = 0.01
  optimizer adam(lr, weight_decay = 5e-4)
  epochs 8
  stop_early(val_acc, patience = 3)
  seed 1
}
"""
box.write("att.gnn", ATTENTION)


def parallel(commands):
    """Compiles two at a time; the first failure's output, or None."""
    running, wrong = [], None
    for argv in list(commands) + [None, None]:
        while running and (argv is None or len(running) == 2):
            p = running.pop(0)
            out = p.communicate()[0].decode("utf-8", "replace")
            wrong = wrong or (p.returncode and out)
        if argv is not None:
            running.append(subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=box.root))
    return wrong


def build(kind, sanitizers, models):
    """Objects of the runtime once, then a program per model: its name with the kind behind it."""
    folder = box.path(kind)
    os.makedirs(folder)
    flags = FLAGS + ["-fsanitize=" + sanitizers]
    objects = [os.path.join(folder, os.path.basename(f)[:-2] + ".o") for f in RUNTIME]
    wrong = parallel(["cc", *flags, "-c", f, "-o", o] for f, o in zip(RUNTIME, objects))
    for m in models:
        if not wrong:
            wrong = parallel([["cc", *flags, "-fwrapv", m + ".c", *objects, "-o", "%s_%s" % (m, kind), "-lz", "-lm", "-lpthread", "-ldl"]])
    box.report(kind + "_builds", wrong)
    return not wrong


def clean(name, argv, rcs=(0,)):
    r = box.run(*argv, env=ENV, limit=120)
    text = r.err + r.out
    bad = r.rc not in rcs or any(w in text for w in ("Sanitizer", "runtime error"))
    box.report(name, bad and "exit code %s: %s" % (r.rc, r.err[-3000:]))


def spoilt_copies():
    """Folders and files that each reach another reader."""
    x, ei = arrays["x"], arrays["edge_index"]
    np.savez_compressed(box.path("all.npz"), **arrays)
    with open(box.path("all.npz"), "rb") as f:
        packed = f.read()
    for i, cut in enumerate((100, len(packed) // 2, len(packed) - 30)):
        box.write("cut%d.npz" % i, packed[:cut])
    for i in range(24):
        rng = np.random.default_rng(i)
        noisy = bytearray(packed)
        for at in rng.integers(0, len(noisy), 6):
            noisy[at] = int(rng.integers(0, 256))
        box.write("noisy%d.npz" % i, bytes(noisy))
    r, c = np.nonzero(x)
    d = toy.fresh(box, ["x.npy", "edge_index.npy", "edge_weight.npy"])
    indptr = np.concatenate([[0], np.cumsum(np.bincount(r, minlength=toy.NODES))])
    for part, v in (("indptr", indptr), ("indices", c), ("data", x[r, c])):
        np.save("%s/x_%s.npy" % (d, part), v)
    with open(d + "/graph.mtx", "w") as f:
        f.write("%%%%MatrixMarket matrix coordinate real symmetric\n60 60 %d\n" % ei.shape[1])
        f.write("".join("%d %d 1.5\n" % (a + 1, b + 1) for a, b in ei.T))
    shutil.copytree(d, box.path("mtx"))
    os.remove(d + "/graph.mtx")
    with open(d + "/edges.csv", "w") as f:
        f.write("a,b,w\n" + "".join("%d,%d,1.5\n" % (a, b) for a, b in ei.T))
    shutil.copytree(d, box.path("csv"))


def commands(kind, threads):
    exe, att = box.path("toy_" + kind), box.path("att_" + kind)
    data = ["--data", "data", "--threads", threads]
    yield "train", [exe, "train", *data, "--save", "w.st", "--metrics", "m.jsonl", "--checkpoint", "c.ckpt", "--every", "2"], (0,)
    yield "resume", [exe, "train", *data, "--resume", "c.ckpt", "--epochs", "8", "--save", "w.st"], (0,)
    yield "infer", [exe, "infer", *data, "--weights", "w.st", "--out", "y.npy"], (0,)
    yield "eval", [exe, "eval", *data, "--weights", "w.st"], (0,)
    yield "bench", [exe, "bench", *data, "--iters", "2", "--json"], (0,)
    yield "train_attention", [att, "train", *data, "--save", "a.st"], (0,)
    for where in ("mtx", "data"):  # sparse and dense
        yield "train_sparse_" + where, [box.path("sparse_" + kind), "train", "--data", where, "--threads", threads], (0,)
    yield "bench_sparse", [box.path("sparse_" + kind), "bench", *data, "--iters", "1"], (0,)
    yield "infer_attention", [att, "infer", *data, "--weights", "a.st", "--out", "a.npy"], (0,)
    yield "nan", [exe, "train", *data, "--epochs", "300", "--set", "lr=1e38"], (5,)


def readers(exe):
    yield "info", [exe, "info", "--json"], (0,)
    yield "plan", [exe, "plan", "--data", "data"], (0,)
    yield "plan_ordered", [exe, "plan", "--data", "data", "--reorder", "bfs"], (0,)
    for where in ("all.npz", "mtx", "csv"):
        yield "train_" + where, [exe, "train", "--data", where, "--threads", "2"], (0,)
    for i in range(3):
        yield "cut_npz_%d" % i, [exe, "train", "--data", "cut%d.npz" % i], (2,)
    for i in range(24):
        yield "noisy_npz_%d" % i, [exe, "train", "--data", "noisy%d.npz" % i, "--epochs", "1"], (0, 2, 3, 6)
    with open(box.path("w.st"), "rb") as f:
        weights = f.read()
    for i in range(24):
        rng = np.random.default_rng(i)
        noisy = bytearray(weights)
        for at in rng.integers(0, len(noisy) if i % 2 else 200, 3):
            noisy[at] = int(rng.integers(0, 256))
        box.write("noisy%d.st" % i, bytes(noisy)[:None if i % 3 else int(rng.integers(0, len(noisy)))])
        yield "noisy_weights_%d" % i, [exe, "eval", "--data", "data", "--weights", "noisy%d.st" % i], (0, 2, 3)


for m in ("toy", "att"):
    box.must(box.gnnc, "build", m + ".gnn", "--data", "data", "--emit=c", "-o", box.path(m + ".c"))
spoilt_copies()
box.must(box.gnnc, "build", "toy.gnn", "--data", "csv", "--set", "C=3", "--emit=c", "-o", box.path("sparse.c"))
if build("address", "address,undefined", ["toy", "att", "sparse"]):
    for name, argv, rcs in commands("address", "3"):
        clean("address_" + name, argv, rcs)
    for name, argv, rcs in readers(box.path("toy_address")) if os.path.exists(box.path("w.st")) else ():
        clean("address_" + name, argv, rcs)
    box.must(box.path("toy"), "train", "--data", "data", "--epochs", "8", "--threads", "1", "--save", "llvm.st")
    with open(box.path("llvm.st"), "rb") as f, open(box.path("w.st"), "rb") as g:
        box.report("c_and_llvm_agree_to_the_bit", f.read() != g.read() and "weights of the C program differ")
if os.environ.get("GNNC_LONG") and build("thread", "thread", ["toy", "att", "sparse"]):
    for name, argv, rcs in commands("thread", "3"):
        clean("thread_" + name, argv, rcs)
box.close()
