#!/usr/bin/env python3
"""`--store f16` and `bf16`: what lies in 16 bits, the same bytes by any threads, kernels and device, training of Cora, and what is refused.
usage: test_store.py BUILD

GNNC_LONG=1 trains Cora to its end with five seeds and wants the test accuracy within 0.3 points of f32."""
import os
import re
import sys

import devices
import numpy as np
from sandbox import Sandbox

box = Sandbox(sys.argv[1], "store")
CORA = os.path.join(devices.ROOT, "examples", "data", "cora")
LONG = bool(os.environ.get("GNNC_LONG"))
MODELS = devices.models()
SUM = "model sum(x: node[F]) -> node[F] {\n  return sum_in(x.src)\n}\n"


def build(name, text, data, *more):
    box.must(box.gnnc, "build", box.write(name + ".gnn", text), "--data", data, "-o", box.path(name), *more, limit=600)
    return box.path(name)


def same(store, model):
    """Threads, kernels and devices change no byte; that the bytes are others than those of f32 shows that something is rounded."""
    program = build("%s_%s" % (model, store), MODELS[model], "data", "--cpu", "generic,native", "--target", "shim", "--store", store)
    wrong = devices.compare(devices.run, program, box.path("data"), box.root, "shim", 3)
    if wrong:
        return wrong
    plain = build(model, MODELS[model], "data", "--cpu", "native")
    files = {}
    for name, argv in {"one": [program, "--threads", 1], "two": [program, "--threads", 2], "generic": [program, "--cpu", "generic"], "f32": [plain]}.items():
        box.must(argv[0], "train", "--data", "data", "--epochs", 3, "--blas", "off", "--save", name, *argv[1:])
        files[name] = open(box.path(name), "rb").read()
    if files["one"] != files["two"] or files["one"] != files["generic"]:
        return "threads or kernels change weights"
    return files["one"] == files["f32"] and "weights are those of f32"


def rounded():
    """Rows of features are rounded once to nearest, ties to even, and summed in f32: numpy says the same bits."""
    x = np.load(box.path("data", "x.npy")).astype("<f4") * 100
    x[0, :4] = [1 + 2.0**-11, 1 + 3 * 2.0**-11, 2.0**-24, 3 * 2.0**-25]
    box.must(box.gnnc, "data", "generate", "ties", "--nodes", devices.NODES, "--edges", devices.EDGES, "--features", devices.FEATURES)
    np.save(box.path("ties", "x.npy"), x)
    src, dst = np.load(box.path("ties", "edge_index.npy"))
    for store in ("f16", "bf16"):
        program = build("sum_" + store, SUM, "ties", "--store", store)
        box.must(program, "infer", "--data", "ties", "--out", "out.npy")
        if store == "f16":
            half = x.astype("<f2").astype("<f4")
        else:
            bits = x.view("<u4").astype("<u8")
            half = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype("<u4").view("<f4")
        want = np.zeros_like(x)
        for e in range(len(src)):
            want[dst[e]] += half[src[e]]
        if not np.array_equal(np.load(box.path("out.npy")), want):
            return "%s: sums of other numbers" % store


def halves():
    """Features and gathered tables take half the bytes; the text of the plan and `info` say so."""
    found = {}
    for store in ("f32", "f16", "bf16"):
        more = [] if store == "f32" else ["--store", store]
        program = build("gcn_of_" + store, MODELS["gcn"], "data", "--cpu", "generic", *more)
        box.must(box.gnnc, "build", "gcn_of_%s.gnn" % store, "--data", "data", "--emit", "plan", "-o", "gcn", *more)
        info = box.must(program, "info").out
        table = re.findall(r"\[node\]\[16\] (b?f\w+)", open(box.path("gcn.plan")).read().split("function")[0])
        found[store] = set(table)
        if not re.search(r"\bx +node\[F=\d+\] %s\b" % store, info):
            return "info says nothing of %s: %s" % (store, info)
    if found["f16"] - {"f16", "f32"} or "f16" not in found["f16"] or found["bf16"] != {"bf16"} | (found["bf16"] & {"f32"}) or found["f32"] != {"f32"}:
        return "tables of 16 features lie as %s" % found


def cora():
    end = {}
    for store in ("f32", "f16", "bf16"):
        program = build("cora_" + store, MODELS["gcn"], CORA, *([] if store == "f32" else ["--store", store]))
        run = box.must(program, "train", "--data", CORA, *(["--seeds", 5] if LONG else ["--epochs", 20]), limit=600).out
        end[store] = float(re.findall(r"test_acc (0\.\d+)" if LONG else r"loss (\d+\.\d+)", run)[-1])
    off = {s: abs(end[s] - end["f32"]) for s in ("f16", "bf16")}
    return any(v > (0.003 if LONG else 0.02) for v in off.values()) and "%s, of f32 %s" % (end, off)


def library():
    """Callers give f32: each function rounds what it reads."""
    box.must(box.gnnc, "build", box.write("lib.gnn", SUM), "--set", "F=24", "--store", "f16", "--emit", "lib,header,gir", "-o", box.path("lib"))
    text = open(box.path("lib.gir")).read()
    return not re.search(r"tensor x : input node\[F\] f32", text) or "cast %0 : node[F] f16" not in text


def refused():
    model = box.write("m.gnn", SUM)
    common = [box.gnnc, "build", model, "--set", "F=24", "-o", box.path("m")]
    box.refuses("no_type", common + ["--store", "f8"], 1, "E0612", "f16 or bf16")
    box.refuses("f64", common + ["--store", "f16", "--dtype", "f64"], 1, "E0612", "is f64")
    box.must(box.gnnc, "data", "generate", "large", "--nodes", 20, "--edges", 40, "--features", 24)
    x = np.load(box.path("large", "x.npy"))
    x[3, 5] = 65520
    np.save(box.path("large", "x.npy"), x)
    for store in ("f16", "bf16"):
        build("large_" + store, SUM, "large", "--store", store)
    box.must(box.path("large_bf16"), "infer", "--data", "large", "--out", "large.npy")
    box.refuses("overflow", [box.path("large_f16"), "infer", "--data", "large", "--out", "large.npy"], 2, "R116", "row 3, column 5", "as f16")


box.must(box.gnnc, "data", "generate", "data", "--nodes", devices.NODES, "--edges", devices.EDGES, "--features", devices.FEATURES, "--classes", devices.CLASSES)
for store in ("f16", "bf16"):
    for model in ("gcn", "gat"):
        box.report("same_%s_%s" % (model, store), same(store, model))
box.report("rounded", rounded())
box.report("halves", halves())
box.report("cora", cora())
box.report("library", library() and "inputs of a library are no f32 that functions round")
refused()
box.close()
