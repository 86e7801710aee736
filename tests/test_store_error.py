#!/usr/bin/env python3
"""`gnnc check --store`: what it says of each result's error, against numpy and against executables built with and without --store.
usage: test_store_error.py BUILD"""
import json
import os
import shutil
import sys

import devices
import numpy as np
import toy
from sandbox import Sandbox

box = Sandbox(sys.argv[1], "store_error")
SUM = "model sum(x: node[F], w: edge) -> node[F] {\n  return sum_in(x.src * w)\n}\n"


def half(x, store):
    if store == "f16":
        return x.astype("<f2").astype("<f4")
    bits = x.view("<u4").astype("<u8")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype("<u4").view("<f4")


def errors(model, *more):
    found = json.loads(box.must(box.gnnc, "check", box.path(model + ".gnn"), "--format", "json", *more, limit=600).out)
    return {(r["program"], r["result"]): r for r in found["results"]}


def sums():
    """Weights of edges are not rounded and lie in the user's order; features are: numpy says the largest difference."""
    src, dst = np.load(box.path("data", "edge_index.npy"))
    x, w = np.load(box.path("data", "x.npy")).astype("<f4"), np.load(box.path("data", "w.npy")).astype("<f4")
    box.write("sum.gnn", SUM)
    for store in ("f16", "bf16"):
        exact, kept = np.zeros(x.shape), np.zeros(x.shape)
        np.add.at(exact, dst, x[src].astype("<f8") * w[:, None])
        np.add.at(kept, dst, half(x, store)[src].astype("<f8") * w[:, None])
        want, e = np.abs(exact - kept).max(), errors("sum", "--store", store, "--data", "data")["forward", "out"]
        if abs(e["difference"] - want) > 1e-6 * want or abs(e["largest"] - np.abs(exact).max()) > 1e-6 * e["largest"]:
            return "%s: %s, numpy says %g of %g" % (store, e, want, np.abs(exact).max())
        if abs(e["relative"] - want / e["largest"]) > 1e-6 or not want < e["bound"] < 1.1 * want or e["undecided"] or e["elements"] != x.size:
            return "%s: %s" % (store, e)


def tables():
    """Which row of a table an edge reads is a map that the interpreter has of the input."""
    src, dst = np.load(box.path("data", "edge_index.npy"))
    x, kind, t = (np.load(box.path("data", n + ".npy")) for n in ("x", "kind", "t"))
    box.write("table.gnn", "model sum(x: node[F], kind: edge index[R], t: [R, F]) -> node[F] {\n  return sum_in(x.src * t[kind])\n}\n")
    exact = np.zeros(x.shape)
    np.add.at(exact, dst, x[src].astype("<f8") * t[kind])
    e = errors("table", "--store", "f16", "--data", "data")["forward", "out"]
    return abs(e["largest"] - np.abs(exact).max()) > 1e-6 * e["largest"] and "%s, numpy says %g" % (e, np.abs(exact).max())


TYPED = """
schema s {
  node author, paper, subject
  edge writes: author -> paper
  edge cites: paper -> paper = data.edge_index where data.edge_type == 2
  edge about: paper -> subject = column
}
model sums(x: node(author)[F], y: node(paper)[F]) -> node(subject)[F] {
  h = over writes { sum_in(x.src) } + over cites { sum_in(y.src) }
  return over about { sum_in(h.src) }
}
"""


def typed():
    """Edges between types of nodes: of a file of their own, of one type of a file, of a column."""
    r, folder = np.random.default_rng(7), box.path("typed")
    x, y = (r.standard_normal((n, 24)).astype("<f4") for n in (9, 30))
    writes, cites, of = np.stack([r.integers(0, 9, 80), r.integers(0, 30, 80)]), r.integers(0, 30, (2, 90)), r.integers(0, 4, 90)
    about, h, exact = r.integers(0, 6, 30), np.zeros((30, 24)), np.zeros((6, 24))
    toy.store(folder, {"x": x, "y": y, "writes.edge_index": writes, "edge_index": cites, "edge_type": of, "paper.about": about}, num_authors=9, num_papers=30, num_subjects=6)
    np.add.at(h, writes[1], x[writes[0]].astype("<f8"))
    np.add.at(h, cites[1, of == 2], y[cites[0, of == 2]].astype("<f8"))
    np.add.at(exact, about, h)
    box.write("typed.gnn", TYPED)
    e = errors("typed", "--store", "f16", "--data", "typed")["forward", "out"]
    if abs(e["largest"] - np.abs(exact).max()) > 1e-6 * e["largest"] or not 0 < e["difference"] <= e["bound"]:
        return "%s, numpy says %g" % (e, np.abs(exact).max())
    drawn = errors("typed", "--store", "f16", "--set", "F=24")["forward", "out"]
    if drawn["elements"] != 2400 or not 0 < drawn["difference"] <= drawn["bound"]:
        return "drawn: %s" % drawn
    argv = [box.gnnc, "check", box.path("typed.gnn"), "--store", "f16", "--data", folder]
    np.save(os.path.join(folder, "edge_type.npy"), of[:-1])
    box.refuses("typed_types", argv, 1, "E0910", "`edge_index` has 90 elements")
    os.remove(os.path.join(folder, "paper.about.npy"))
    box.refuses("typed_no_column", argv, 1, "E0910", "paper.about.npy")


def open_weights(path):
    with open(path, "rb") as f:
        return json.loads(f.read(int.from_bytes(f.read(8), "little"))), f.read()


def widen(path, to):
    """The same weights as f64."""
    head, body = open_weights(path)
    for k, v in head.items():
        if k != "__metadata__":
            v.update(dtype="F64", data_offsets=[2 * x for x in v["data_offsets"]])
    text = json.dumps(head).encode()
    box.write(to, len(text).to_bytes(8, "little") + text + np.frombuffer(body, "<f4").astype("<f8").tobytes())


def weights_of(path):
    head, body = open_weights(path)
    return {k: np.frombuffer(body[slice(*v["data_offsets"])], "<f8" if v["dtype"] == "F64" else "<f4").astype("<f8") for k, v in head.items() if k != "__metadata__"}


def executables(model, near):
    """Of an executable with --store no output with trained weights, no loss and no weight after a step lies further from the f64 executable's than
    the bound; outputs and the loss as far as was measured, but for a share: an f32 between two numbers of 16 bits may become either."""
    box.write(model + ".gnn", devices.models()[model])
    found, weights = {}, model + ".weights"
    for name, more in {"f16": ["--store", "f16"], "f64": ["--dtype", "f64"]}.items():
        program = box.path(model + "_" + name)
        box.must(box.gnnc, "build", model + ".gnn", "--data", "data", "--cpu", "native", "-o", program, *more, limit=600)
        if name == "f16":
            box.must(program, "train", "--data", "data", "--epochs", 3, "--save", weights)
            widen(box.path(weights), weights + "_f64")
        box.must(program, "infer", "--data", "data", "--weights", weights if name == "f16" else weights + "_f64", "--out", name + ".npy")
        box.must(program, "train", "--data", "data", "--epochs", 1, "--blas", "off", "--save", name, "--metrics", name + ".jsonl")
        loss = json.loads(open(box.path(name + ".jsonl")).read().split("\n")[0])["loss"]
        found[name] = {("forward", "out"): np.load(box.path(name + ".npy")), ("train_step", "loss"): np.array(loss)}
        found[name].update({("train_step", k): v for k, v in weights_of(box.path(name)).items()})
    said = errors(model, "--store", "f16", "--data", "data")
    trained = errors(model, "--store", "f16", "--data", "data", "--weights", weights)
    if said["forward", "out"] == trained["forward", "out"]:
        return "other weights have the same errors"
    said["forward", "out"] = trained["forward", "out"]
    if not any(k[1].startswith("grad.") for k in said) or len(set(found["f16"]) & set(said)) < 6:
        return "results are missing: %s of %s" % (set(found["f16"]) - set(said), sorted(said))
    for key in set(found["f16"]) & set(said):
        e, off = said[key], np.abs(found["f16"][key] - found["f64"][key]).max()
        if not e["undecided"] and off > e["bound"] * 1.001 + 2e-8:
            return "%s: off by %g, said %s" % (key, off, e)
        if key[1] in ("out", "loss") and not abs(off - e["difference"]) <= near * e["difference"] + 1e-7:
            return "%s: off by %g, measured %s" % (key, off, e)


def drawn():
    """Without a folder the graph and all values are drawn by the seed; text and JSON say the same rows."""
    box.write("gcn.gnn", devices.models()["gcn"])
    argv = ["--set", "F=24,C=5", "--store", "bf16"]
    one, same, other = (errors("gcn", *argv, "--seed", s) for s in (1, 1, 2))
    text = box.must(box.gnnc, "check", "gcn.gnn", *argv, "--seed", 1).out
    rows = [line.split() for line in text.split("\n")[2:] if line]
    if one != same or one == other:
        return "the seed makes other numbers twice, or the same with another"
    if [tuple(r[:2]) for r in rows] != list(one) or any(r[3] != "%.3g" % one[tuple(r[:2])]["difference"] for r in rows):
        return "text and JSON differ: %s" % text
    if one["forward", "out"]["difference"] < 8 * errors("gcn", "--set", "F=24,C=5", "--store", "f16", "--seed", 1)["forward", "out"]["difference"] / 2:
        return "bf16 has 8 bits and is as near as f16 with 11"


def refused():
    def copy(name, change):
        shutil.copytree(box.path("data"), box.path(name))
        change(box.path(name))
        return [box.gnnc, "check", box.path("sum.gnn"), "--store", "f16", "--data", box.path(name)]

    box.refuses("no_file", copy("no_file", lambda d: os.remove(os.path.join(d, "w.npy"))) + ["--set", "F=24"], 1, "E0910", "`w`", "w.npy")
    box.refuses("no_edges", copy("no_edges", lambda d: os.remove(os.path.join(d, "edge_index.npy"))), 1, "E0910", "edge_index.npy")
    box.refuses("rows", copy("rows", lambda d: np.save(os.path.join(d, "w.npy"), np.zeros(7, "<f4"))), 3, "E0615", "7 numbers found")
    box.refuses("ids", copy("ids", lambda d: np.save(os.path.join(d, "edge_index.npy"), np.full((2, devices.EDGES), 10**6))), 1, "E0910", "out of range")
    argv = [box.gnnc, "check", box.path("gcn.gnn"), "--store", "f16", "--data", box.path("data"), "--weights"]
    box.refuses("no_weights", argv + [box.path("none")], 6, "E0601", "none")
    box.refuses("bad_weights", argv + [box.path("gcn.gnn")], 2, "E0614", "safetensors")
    box.refuses("f64_weights", argv + [box.path("gcn.weights_f64")], 3, "E0615", "F32")
    box.write("wide.gnn", devices.models()["gcn"].replace("O = 16", "O = 32"))
    box.refuses("other_weights", argv[:2] + [box.path("wide.gnn")] + argv[3:] + [box.path("gcn.weights")], 3, "E0615", "numbers")
    box.refuses("large", [box.gnnc, "check", box.path("sum.gnn"), "--store", "f16", "--set", "F=3000000"], 1, "E0910", "2 GiB")
    box.refuses("no_dims", [box.gnnc, "check", box.path("sum.gnn"), "--store", "f16"], 1, "E0208", "`F`")
    box.refuses("no_store", [box.gnnc, "check", box.path("sum.gnn"), "--seed", 1], 1, "E0612", "`--store`")
    box.refuses("f8", [box.gnnc, "check", box.path("sum.gnn"), "--store", "f8", "--set", "F=24"], 1, "E0612", "f16 or bf16")


box.must(box.gnnc, "data", "generate", "data", "--nodes", devices.NODES, "--edges", devices.EDGES, "--features", devices.FEATURES, "--classes", devices.CLASSES)
np.save(box.path("data", "w.npy"), -np.abs(np.random.default_rng(3).standard_normal(devices.EDGES)).astype("<f4"))
np.save(box.path("data", "x.npy"), np.load(box.path("data", "x.npy")) + np.float32(0.5))  # the largest sums are negative
np.save(box.path("data", "kind.npy"), np.random.default_rng(4).integers(0, 30, devices.EDGES))
np.save(box.path("data", "t.npy"), np.random.default_rng(5).standard_normal((30, devices.FEATURES)).astype("<f4"))
box.report("sums", sums())
box.report("tables", tables())
box.report("typed", typed())
for it, share in {"gcn": 0.1, "gin": 0.8}.items():
    box.report("executables_" + it, executables(it, share))
box.report("drawn", drawn())
refused()
box.close()
