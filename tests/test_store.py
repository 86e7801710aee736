#!/usr/bin/env python3
"""`--store f16` and `bf16`: what lies in 16 bits, the same bytes by any threads, kernels and device, training of Cora, and what is refused.
usage: test_store.py BUILD

GNNC_LONG=1 trains Cora to its end with five seeds and wants the test accuracy within 0.3 points of f32."""
import ctypes
import functools
import json
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
MODELS["wide"] = MODELS["gcn"].replace("O = 16", "O = 64")  # whose rows are vectors side by side
LINEAR = """layer linear_map(x: node[F], w: edge) -> node[O] {
  param W: [F, O] = glorot
  return x @ W
}
"""
SUM = "model sum(x: node[F]) -> node[F] {\n  return sum_in(x.src)\n}\n"


@functools.lru_cache(maxsize=None)
def build(name, text, data, *more):
    """The path of a program; each name goes with one text, data and flags."""
    box.must(box.gnnc, "build", box.write(name + ".gnn", text), "--data", data, "-o", box.path(name), *more, limit=600)
    return box.path(name)


def half(x, store):
    if store == "f16":
        return x.astype("<f2").astype("<f4")
    bits = x.view("<u4").astype("<u8")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype("<u4").view("<f4")


def same(store, model):
    """Threads, kernels and devices change no byte; that the bytes are others than those of f32 shows that something is rounded."""
    program = build("%s_%s" % (model, store), MODELS[model], "data", "--cpu", "generic,native", "--target", "shim", "--quick", "--store", store)
    wrong = devices.compare(devices.run, program, box.path("data"), box.root, "shim", 3)
    if wrong:
        return wrong
    plain = build(model, MODELS[model], "data", "--cpu", "native", "--quick")
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
        program = build("sum_" + store, SUM, "ties", "--cpu", "native", "--store", store)
        box.must(program, "infer", "--data", "ties", "--out", "out.npy")
        want, read = np.zeros_like(x), half(x, store)
        for e in range(len(src)):
            want[dst[e]] += read[src[e]]
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
    for store in ("f32", "f16", "bf16", "f16,weights", "bf16,weights"):
        program = build("cora_" + store.replace(",", "_"), MODELS["gcn"], CORA, "--cpu", "native", *([] if store == "f32" else ["--store", store]))
        run = box.must(program, "train", "--data", CORA, *(["--seeds", 5] if LONG else ["--epochs", 20]), limit=600).out
        end[store] = float(re.findall(r"test_acc (0\.\d+)" if LONG else r"loss (\d+\.\d+)", run)[-1])
    off = {s: abs(end[s] - end["f32"]) for s in end}
    return any(v > (0.003 if LONG else 0.02) for v in off.values()) and "%s, of f32 %s" % (end, off)


def library():
    """Callers give f32: each function rounds what it reads."""
    box.must(box.gnnc, "build", box.write("lib.gnn", SUM), "--set", "F=24", "--store", "f16", "--emit", "lib,header,gir", "-o", box.path("lib"))
    text = open(box.path("lib.gir")).read()
    return not re.search(r"tensor x : input node\[F\] f32", text) or "cast %0 : node[F] f16" not in text


def weights(store):
    """Callers of a library give f32 weights, and the product reads them rounded as numpy rounds them; so do the products of its adjoint, which
    read the cotangent rounded as well."""
    name, x = "w_" + store, np.random.default_rng(5).standard_normal((40, 32)).astype("<f4")
    box.must(box.gnnc, "build", box.write("map.gnn", LINEAR), "--export", "linear_map", "--set", "F=32,O=32", "--cpu", "generic", "--store", store + ",weights",
             "--emit", "lib", "--prefix", name, "-o", box.path(name))
    lib = devices.Library(box.path(name + ".so"), name, 40, [0], [1], None)
    W, out = (np.random.default_rng(6).standard_normal((32, 32)) * 3).astype("<f4"), np.zeros((40, 32), "<f4")
    grad = [np.zeros_like(a) for a in (x, np.zeros(1, "<f4"), W)]
    pack = lambda *a: (ctypes.c_void_p * len(a))(*[b.ctypes.data for b in a])
    lib.must("param_set", lib.model, 0, ctypes.c_void_p(W.ctypes.data))
    kept = np.zeros_like(W)
    lib.must("param_get", lib.model, 0, ctypes.c_void_p(kept.ctypes.data))
    lib.must("forward", lib.contexts[0], pack(x, np.zeros(1, "<f4")), pack(out))
    lib.must("vjp", lib.contexts[0], pack(x, np.zeros(1, "<f4")), pack(out), pack(*grad))
    lib.close()
    a, b, cot = (half(v, store).astype("<f8") for v in (x, W, out))
    far = {"out": np.abs(out - a @ b).max(), "grad x": np.abs(grad[0] - cot @ b.T).max(), "grad W": np.abs(grad[2] - a.T @ cot).max()}
    if not np.array_equal(kept, W) or np.abs(a @ b - a @ W).max() < 1e-3:
        return "weights are kept rounded, or numpy sees no difference"
    return any(v > 1e-5 * 32 * 32 for v in far.values()) and "far from numpy: %s" % far


def master_weights():
    """The optimizer updates f32 weights: with a rate of 0 they are after training what they were, as in the program in f32, and with another they are no numbers
    of 16 bits."""
    files = {}
    for name, more in {"plain": [], "kept": ["--store", "bf16,weights"]}.items():
        program = build("master_" + name, MODELS["gcn"], "data", "--cpu", "native", *more)
        for rate in ("0", "0.01"):
            box.must(program, "train", "--data", "data", "--epochs", 2, "--set", "lr=" + rate, "--save", "master")
            with open(box.path("master"), "rb") as f:
                head = json.loads(f.read(int.from_bytes(f.read(8), "little")))["conv1.lin.weight"]
                files[name, rate] = np.frombuffer(f.read()[slice(*head["data_offsets"])], "<" + {"F32": "f4"}[head["dtype"]])
    trained = files["kept", "0.01"]
    if not np.array_equal(files["plain", "0"], files["kept", "0"]):
        return "a rate of 0 changes weights"
    return np.array_equal(trained, files["plain", "0.01"]) or np.mean(half(trained, "bf16") == trained) > 0.1


def joined():
    """On a GPU 16-bit numbers side by side are as few accesses as numbers of 32 bits, and fewer sectors."""
    box.must(box.gnnc, "data", "generate", "broad", "--nodes", 300, "--edges", 2400, "--features", 64)
    counts = {}
    for store in ("f32", "f16", "bf16"):
        program = build("wide_" + store, SUM, "broad", "--cpu", "generic", "--target", "shim", *([] if store == "f32" else ["--store", store]))
        found = json.loads(box.must(program, "bench", "--data", "broad", "--device", "shim", "--count", "--json", limit=300).out)["infer"]["kernels"]
        counts[store] = {n: sum(k[n] for k in found) for n in ("requests", "sectors")}
    wrong = [s for s in ("f16", "bf16") if counts[s]["requests"] > counts["f32"]["requests"] or counts[s]["sectors"] > 0.7 * counts["f32"]["sectors"]]
    return wrong and str(counts)


def refused():
    model = box.write("m.gnn", SUM)
    common = [box.gnnc, "build", model, "--set", "F=24", "-o", box.path("m")]
    box.refuses("no_type", common + ["--store", "f8"], 1, "E0612", "f16 or bf16")
    box.refuses("no_word", common + ["--store", "f16,bias"], 1, "E0612", "`,weights`")
    box.refuses("no_weights", common + ["--store", "weights"], 1, "E0612", "f16 or bf16")
    box.refuses("f64", common + ["--store", "f16", "--dtype", "f64"], 1, "E0612", "is f64")
    box.must(box.gnnc, "data", "generate", "large", "--nodes", 20, "--edges", 40, "--features", 24)
    x = np.load(box.path("large", "x.npy"))
    x[3, 5] = 65520
    np.save(box.path("large", "x.npy"), x)
    for store in ("f16", "bf16"):
        build("large_" + store, SUM, "large", "--cpu", "native", "--store", store)
    box.must(box.path("large_bf16"), "infer", "--data", "large", "--out", "large.npy")
    box.refuses("overflow", [box.path("large_f16"), "infer", "--data", "large", "--out", "large.npy"], 2, "R116", "row 3, column 5", "as f16")


box.must(box.gnnc, "data", "generate", "data", "--nodes", devices.NODES, "--edges", devices.EDGES, "--features", devices.FEATURES, "--classes", devices.CLASSES)
for store, model in [("f16", "wide"), ("f16", "gat"), ("bf16", "wide"), ("bf16", "gat"), ("f16,weights", "gat")]:
    box.report("same_%s_%s" % (model, store), same(store, model))
for store in ("f16", "bf16"):
    box.report("weights_" + store, weights(store))
box.report("master_weights", master_weights())
box.report("joined", joined())
box.report("rounded", rounded())
box.report("halves", halves())
box.report("cora", cora())
box.report("library", library() and "inputs of a library are no f32 that functions round")
refused()
box.close()
