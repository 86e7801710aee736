#!/usr/bin/env python3
"""Features held as a CSR matrix: the same training as with whole features, whatever form the data has.

usage: test_sparse.py BUILD
Run: avx2 if long"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.abspath(sys.argv[1])
GNNC = os.path.join(BUILD, "gnnc")
CORA = os.path.join(ROOT, "examples", "data", "cora")
TRIPLET = ["x_indptr", "x_indices", "x_data"]
failed = False


def run(argv):
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=300)
    return p.returncode, p.stdout.decode("utf-8", "replace")


def must(argv):
    code, out = run(argv)
    if code:
        raise RuntimeError("%s ended with %d: %s" % (" ".join(argv[:3]), code, out[-400:]))
    return out


def build(tmp, name, *options, model="gcn"):
    exe = os.path.join(tmp, name)
    must([GNNC, "build", os.path.join(ROOT, "examples", model + ".gnn"), "--data", CORA, "--cpu=native", "-o", exe] + list(options))
    return exe


def train(exe, data, *options):
    """The losses of five epochs and the bytes of the weights."""
    log, weights = exe + ".jsonl", exe + ".safetensors"
    must([exe, "train", "--data", data, "--epochs", "5", "--seed", "3", "--metrics", log, "--save", weights] + list(options))
    with open(log) as f, open(weights, "rb") as w:
        return [json.loads(line).get("loss") for line in f][:5], w.read()


def other_data(tmp, name, arrays):
    """Cora with other features."""
    d = os.path.join(tmp, name)
    shutil.copytree(CORA, d, ignore=shutil.ignore_patterns("x_*.npy"))
    for stem, a in arrays.items():
        np.save(os.path.join(d, stem + ".npy"), a)
    return d


def triplet():
    return [np.load(os.path.join(CORA, stem + ".npy")) for stem in TRIPLET]


def dense():
    indptr, indices, data = triplet()
    x = np.zeros((len(indptr) - 1, 1433), "<f4")
    x[np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)), indices] = data
    return x


def untidy():
    """The same matrix: columns in any order, a value in two halves, zeros that are stored."""
    indptr, indices, data = triplet()
    rng, rows = np.random.default_rng(1), []
    for v in range(len(indptr) - 1):
        at = rng.permutation(np.arange(indptr[v], indptr[v + 1]))
        col, val = list(indices[at]), list(data[at])
        if v % 3 == 0 and col:
            val[0] /= 2
            col, val = col + [col[0]], val + [val[0]]
        if v % 5 == 0:
            col, val = col + [(v * 7) % 1433], val + [0.0]
        rows.append((col, val))
    ptr = np.concatenate([[0], np.cumsum([len(c) for c, _ in rows])]).astype("<i8")
    cols, vals = [np.concatenate([np.array(r[i], t) for r in rows]) for i, t in [(0, "<i8"), (1, "<f4")]]
    return dict(zip(TRIPLET, [ptr, cols, vals]))


def test_losses(tmp):
    """Products with the features themselves (gcn), of several dims (gat), after sums over edges (sage, gin)."""
    for model in ["gcn", "gat", "sage", "gin"]:
        exe, whole = build(tmp, "exe", model=model), build(tmp, "whole", "--disable=sparse", "--quick", model=model)
        used = ["x.nnz" in must([e, "plan", "--data", CORA]) for e in [exe, whole]]
        if used != [True, False]:
            return "%s: reads nonzeros with and without the pass: %s" % (model, used)
        a, b = train(exe, CORA)[0], train(whole, CORA)[0]
        if max(abs(x - y) for x, y in zip(a, b)) > 1e-4:
            return "%s: losses %s and %s" % (model, a, b)
    return None


def test_threads(tmp):
    exe = build(tmp, "gcn")
    want = train(exe, CORA, "--threads", "1")
    different = [n for n in "238" if train(exe, CORA, "--threads", n) != want]
    return different and "threads %s differ" % different


def test_forms(tmp):
    exe = build(tmp, "gcn")
    want = train(exe, CORA)
    for name, arrays in [("dense", {"x": dense()}), ("untidy", untidy())]:
        if train(exe, other_data(tmp, name, arrays)) != want:
            return "%s features give other weights" % name
    return None


def test_commands(tmp):
    """Without features bench draws them; the list of stored elements is no input that a person gives."""
    exe = build(tmp, "gcn")
    out = must([exe, "bench", "--data", other_data(tmp, "none", {}), "--iters", "2"])
    if "input x was drawn" not in out or "x.values" in out:
        return out[:400]
    code, out = run([exe, "train", "--data", os.path.join(tmp, "none"), "--epochs", "1"])
    if code != 6 or "input x is missing" not in out:
        return "without features: exit code %d, %s" % (code, out)
    train(exe, CORA)
    must([exe, "eval", "--data", CORA, "--weights", exe + ".safetensors"])
    must([exe, "infer", "--data", CORA, "--weights", exe + ".safetensors", "--out", os.path.join(tmp, "y.npy")])
    if "x.values" in must([exe, "info"]):
        return "info lists x.values"
    lib = os.path.join(tmp, "lib")
    must([GNNC, "build", os.path.join(ROOT, "examples", "gcn.gnn"), "--data", CORA, "--emit=lib,header,plan", "-o", lib])
    with open(lib + ".plan") as f:
        if "x.nnz" in f.read():
            return "a library reads nonzeros"
    gir = build(tmp, "after.gir", "--emit=gir")
    code, out = run([GNNC, "build", gir, "--emit=lib", "-o", lib])
    return (code != 1 or "E0910" not in out) and "a library of nonzeros: exit code %d, %s" % (code, out)


def test_malformed(tmp):
    exe = build(tmp, "gcn")
    indptr, indices, data = triplet()
    down, wide = indptr.copy(), indices.copy()
    down[5], wide[7] = down[6] + 1, 1433
    cases = {"down": [down, indices, data], "wide": [indptr, wide, data], "short": [indptr, indices, data[:-1]],
             "rows": [indptr[:-1], indices[:indptr[-2]], data[:indptr[-2]]],
             "nan": [indptr, indices, np.where(np.arange(len(data)) == 9, np.float32("nan"), data)]}
    for name, arrays in cases.items():
        code, out = run([exe, "train", "--data", other_data(tmp, name, dict(zip(TRIPLET, arrays))), "--epochs", "1"])
        if code not in (2, 3) or "x_" not in out and "x:" not in out and "x.npy" not in out:
            return "%s: exit code %d, %s" % (name, code, out)
    return None


def main():
    global failed
    for test in [test_losses, test_threads, test_forms, test_commands, test_malformed]:
        tmp, name = tempfile.mkdtemp(prefix="gnnc-test-"), test.__name__.replace("test_", "sparse_", 1)
        try:
            why = test(tmp)
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as e:
            why = str(e).replace("\n", " ")
        failed = failed or bool(why)
        print("FAIL %s: %s" % (name, why) if why else "ok %s" % name, flush=True)
        shutil.rmtree(tmp, ignore_errors=True)
    return 1 if failed else 0


sys.exit(main())
