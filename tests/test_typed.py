#!/usr/bin/env python3
"""Graphs between several kinds of nodes (tests/ir/typed.gir) in executables: inference and gradients against numpy, bits of
threads, processors and the device that the CPU plays, checkpoints, edge inputs in the user's order, nodes of each kind stored
in another, kinds without nodes and relations without edges, counts that nobody says, all ways in which the data may be wrong. usage: test_typed.py BUILD"""
import json
import os
import shutil
import sys

import numpy as np
from sandbox import Sandbox
from toy import store

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden"))
import library  # noqa: E402

GIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ir", "typed.gir")


def arrays(papers=40, authors=23, subjects=6, writes=150, edges=210, seed=0):
    r = np.random.default_rng(seed)

    def ids(n, m):
        return r.integers(0, n, m) if n else np.zeros(0, "i8")

    writes = writes if papers and authors else 0
    edges = edges if papers else 0
    types = r.integers(0, 4, edges)
    return {"paper.x": r.standard_normal((papers, 5)).astype("f4"), "author.x": r.standard_normal((authors, 3)).astype("f4"),
            "writes.edge_index": np.stack([ids(authors, writes), ids(papers, writes)]),
            "writes.w": r.random(writes).astype("f4"),
            "edge_index": np.stack([ids(papers, edges), ids(papers, edges)]), "edge_type": types,
            "extends.w": r.random((types == 2).sum()).astype("f4"), "paper.about": ids(subjects, papers),
            "paper.train_mask": r.random(papers) < 0.5, "paper.y": r.standard_normal((papers, 4)).astype("f4")}


def sums(values, at, n):
    out = np.zeros((n,) + values.shape[1:])
    np.add.at(out, at, values)
    return out


def forward(a, w, dtype="f8"):
    """papers, authors, edges of tests/ir/typed.gir, and what the gradient needs."""
    n, m = len(a["paper.x"]), len(a["author.x"])
    p, q = a["paper.x"].astype(dtype) @ w["Wp"], a["author.x"].astype(dtype) @ w["Wa"].T
    s, d = a["writes.edge_index"]
    cites, extends = (a["edge_index"][:, a["edge_type"] == t] for t in (0, 2))
    h = sums(q[s] * a["writes.w"][:, None], d, n) + sums(p[cites[0]], cites[1], n)
    h += sums(p[extends[0]] * a["extends.w"][:, None], extends[1], n) + w["E"][a["paper.about"]]
    same = a["paper.about"][:, None] == a["paper.about"][None, :]
    if n:
        h += np.where(same[:, :, None], p[None], -np.inf).max(1)
    h = np.tanh(h)
    return h, sums(h[d], s, m), h[d].sum(1)


def loss(a, w):
    return (((forward(a, w)[0] - a["paper.y"]) ** 2).sum(1) * a["paper.train_mask"]).sum()


def weights(subjects, seed=1):
    r = np.random.default_rng(seed)
    return {"Wp": r.standard_normal((5, 4)).astype("f4") / 4, "Wa": r.standard_normal((4, 3)).astype("f4") / 4,
            "E": r.standard_normal((subjects, 4)).astype("f4") / 4}


def load_file(path):
    with open(path, "rb") as f:
        n = int.from_bytes(f.read(8), "little")
        header, data = json.loads(f.read(n)), f.read()
    return {k: np.frombuffer(data[slice(*t["data_offsets"])], "<f4").reshape(t["shape"]) for k, t in header.items() if k != "__metadata__"}


def save_file(tensors, path):
    header, data = {}, b""
    for k, v in tensors.items():
        header[k] = {"dtype": "F32", "shape": v.shape, "data_offsets": [len(data), len(data) + v.nbytes]}
        data += v.tobytes()
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + data)


LIBRARY = """#include "libnet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *contents(const char *name, long *bytes)
{
    char path[300];
    snprintf(path, sizeof path, "%s.bin", name);
    FILE *f = fopen(path, "rb");
    if (!f) exit(9);
    fseek(f, 0, SEEK_END);
    *bytes = ftell(f);
    rewind(f);
    void *p = aligned_alloc(64, (size_t)*bytes / 64 * 64 + 64);
    if (fread(p, 1, (size_t)*bytes, f) != (size_t)*bytes) exit(9);
    fclose(f);
    return p;
}

static NetEdgeList list(const char *name, int column)
{
    long bytes;
    int64_t *ids = contents(name, &bytes);
    int64_t n = bytes / 8 / (column ? 1 : 2);
    return (NetEdgeList){name, n, column ? NULL : ids, column ? ids : ids + n};
}

int main(int argc, char **argv)
{
    NetModel *model = NULL;
    NetGraph *graph = NULL;
    NetContext *context = NULL;
    NetStatus st;
    long bytes;
    const void *inputs[NET_N_INPUTS];
    void *results[NET_N_RESULTS];
    NetEdgeList lists[] = {list("paper.about", 1), list("extends", 0), list("cites", 0), list("writes.edge_index", 0)};
    NetRowCount counts[] = {{"subject", atoi(argv[1])}, {"author", atoi(argv[2])}, {"nobody", 3}, {"paper", atoi(argv[3])}};
    NetGraphDesc desc = {.n_lists = 4, .lists = lists, .n_counts = argc > 4 ? 3 : 4, .counts = counts};
    int32_t code = net_model_create(net_tables(), 0, NET_BEST_CPU, &model, &st);
    if (!code) code = net_model_load(model, "w.safetensors", &st);
    if (!code) code = net_graph_create(model, &desc, &graph, &st);
    if (!code) code = net_context_create(model, graph, 0, NULL, 0, &context, &st);
    for (int i = 0; !code && i < NET_N_INPUTS; i++) inputs[i] = contents(net_input(model, i).name, &bytes);
    for (int i = 0; !code && i < NET_N_RESULTS; i++) {
        NetTensorInfo r = net_result(model, i);
        results[i] = aligned_alloc(64, (size_t)(net_graph_count(graph, r.space_index) * r.width * 4) / 64 * 64 + 64);
    }
    if (!code) code = net_forward(context, inputs, results, &st);
    for (int i = 0; !code && i < NET_N_RESULTS; i++) {
        NetTensorInfo r = net_result(model, i);
        fwrite(results[i], 4, (size_t)(net_graph_count(graph, r.space_index) * r.width), stdout);
    }
    if (code) fprintf(stderr, "%s %s\\n", net_code_name(code), st.message);
    net_context_free(context);
    net_graph_free(graph);
    net_model_free(model);
    return code != 0;
}
"""


class Typed(Sandbox):
    def __init__(self, build):
        super().__init__(build, "typed")
        self.must(self.gnnc, "build", GIR, "-o", self.path("net"))
        self.n = 0

    def folder(self, a, **meta):
        self.n += 1
        return store(self.path("data%d" % self.n), a, **({"num_subjects": 6} if not meta else meta))

    def infer(self, folder, w, *flags, exe="net"):
        save_file(w, self.path("w.safetensors"))
        self.must(self.path(exe), "infer", "--data", folder, "--weights", self.path("w.safetensors"), "--out", self.path("out.npy"), *flags)
        return [np.load(self.path(f)) for f in ("out.npy", "out.authors.npy", "out.edges.npy")]

    def train(self, folder, *flags, exe="net"):
        path = self.path("trained.safetensors")
        r = self.must(self.path(exe), "train", "--data", folder, "--save", path, *flags)
        with open(path, "rb") as f:
            return f.read(), load_file(path), r.out + r.err


def test_forward(box):
    for seed, (papers, authors, subjects) in enumerate(((40, 23, 6), (1, 1, 1), (300, 2, 1), (0, 5, 3), (7, 0, 2), (0, 0, 0))):
        a, w = arrays(papers, authors, subjects, seed=seed), weights(subjects)
        got = box.infer(box.folder(a, num_subject=subjects), w)
        wrong = ["%s: %.3g" % (name, np.abs(x - y).max()) for name, x, y in zip(("papers", "authors", "edges"), got, forward(a, w))
                 if x.shape != y.shape or (x.size and np.abs(x - y).max() > 2e-5 * max(1, np.abs(y).max()))]
        box.report("forward of %d papers, %d authors, %d subjects" % (papers, authors, subjects), "; ".join(wrong))


def test_order(box):
    """Edges in another order, with their inputs: the same numbers but for the order of sums, and results of edges move along."""
    a, w = arrays(), weights(6)
    before = box.infer(box.folder(a), w)
    at = np.random.default_rng(5).permutation(len(a["writes.w"]))
    b = dict(a, **{"writes.edge_index": np.ascontiguousarray(a["writes.edge_index"][:, at]), "writes.w": a["writes.w"][at]})
    after = box.infer(box.folder(b), w)
    box.report("edges in the user's order", not np.allclose(before[2][at], after[2], atol=1e-5) and "results of edges did not move")
    b = dict(a, **{"writes.w": a["writes.w"][at]})
    box.report("order of an edge input matters", np.allclose(before[0], box.infer(box.folder(b), w)[0], atol=1e-4) and "it does not")


def plan_says(box, folder, mode, exe="net"):
    out = box.must(box.path(exe), "plan", "--data", folder, "--reorder", mode).out
    return [line for line in out.splitlines() if "order of nodes" in line][0]


def test_stored(box):
    """Nodes of each kind stored in another order, rows of parameters with them: results have the same bits, and what is trained agrees."""
    a, w = arrays(400, 150, 6, 1500, 2500), weights(6)
    folder = box.folder(a)
    want, end = box.infer(folder, w), box.train(folder)[1]
    for mode in ("degree", "bfs"):
        got = box.infer(folder, w, "--reorder", mode, "--threads", "3")
        box.report("stored by " + mode, any(x.tobytes() != y.tobytes() for x, y in zip(want, got)) and "other bits")
        got = box.train(folder, "--reorder", mode)[1]
        wrong = ["%s: %.3g" % (k, np.abs(end[k] - got[k]).max()) for k in end if np.abs(end[k] - got[k]).max() > 2e-3]
        said = plan_says(box, folder, mode)
        box.report("trained by " + mode, "; ".join(wrong) or (mode not in said and said))
    box.train(folder, "--epochs", "2", "--reorder", "bfs", "--checkpoint", box.path("ck"))
    got = box.train(folder, "--resume", box.path("ck"))[1]
    wrong = ["%s: %.3g" % (k, np.abs(end[k] - got[k]).max()) for k in end if np.abs(end[k] - got[k]).max() > 2e-3]
    box.report("a run goes on in another order", "; ".join(wrong))


RING = """schema ring {
  node a, b
  edge near: a -> b
}
model net(x: node(a)[F]) -> node(b)[F] = over near { sum_in(x.src) }
"""


def test_local(box):
    """Neighbours on a ring between two kinds, which have the ids of two random permutations: the order finds them, by the edges of both kinds together."""
    n, r = 20000, np.random.default_rng(8)
    v = np.repeat(np.arange(n), 6)
    u = (v + np.tile([-3, -2, -1, 1, 2, 3], n)) % n
    a = {"near.edge_index": np.stack([r.permutation(n)[u], r.permutation(n)[v]]), "x": r.standard_normal((n, 2)).astype("f4")}
    folder = box.folder(a, num_as=n, num_bs=n, relations={"near": ["a", "b"]})
    box.must(box.gnnc, "build", box.write("ring.gnn", RING), "--quick", "--cpu=native", "--data", folder, "-o", box.path("ring"))
    said = plan_says(box, folder, "auto", "ring")
    box.report("order of two kinds", ("bfs" not in said or float(said.split("gathers ")[1].split()[0]) > 0.7) and said)
    outs = []
    for mode in ("none", "bfs"):
        box.must(box.path("ring"), "infer", "--data", folder, "--out", box.path("ring.npy"), "--reorder", mode)
        outs.append(np.load(box.path("ring.npy")).tobytes())
    box.report("results of two kinds", outs[0] != outs[1] and "other bits")


def test_training(box):
    a = arrays()
    folder = box.folder(a)
    bits, end, log = box.train(folder, "--threads", "1")
    start = box.train(folder, "--epochs", "0")[1]
    w = {k: v.astype("f8") for k, v in start.items()}
    for _ in range(4):
        grad = {}
        for name, x in w.items():
            grad[name] = np.zeros_like(x)
            for i in np.ndindex(*x.shape):
                step = np.zeros_like(x)
                step[i] = 1e-6
                grad[name][i] = (loss(a, dict(w, **{name: x + step})) - loss(a, dict(w, **{name: x - step}))) / 2e-6
        w = {k: v - 0.05 * grad[k] for k, v in w.items()}
    wrong = ["%s: %.3g" % (k, np.abs(w[k] - end[k]).max()) for k in w if np.abs(w[k] - end[k]).max() > 2e-3]
    box.report("training as by differences", "; ".join(wrong) or (np.abs(start["E"] - end["E"]).max() < 1e-3 and "nothing was trained"))
    for flags in (["--threads", "2"], ["--threads", "5"], ["--cone", "off"], ["--cone", "on"], ["--cpu", "generic"]):
        box.report("training " + " ".join(flags), box.train(folder, *flags)[0] != bits and "other bits")
    box.train(folder, "--epochs", "2", "--checkpoint", box.path("ck"))
    box.report("training from a checkpoint", box.train(folder, "--resume", box.path("ck"))[0] != bits and "other bits")


def test_device(box):
    if os.system("c++ --version >/dev/null 2>&1"):
        return box.skip("device", "no c++")
    box.must(box.gnnc, "build", GIR, "--target", "shim", "-o", box.path("shim"))
    a, w = arrays(), weights(6)
    folder = box.folder(a)
    same = all((x == y).all() for x, y in zip(box.infer(folder, w), box.infer(folder, w, "--device", "shim", exe="shim")))
    box.report("inference on a device", not same and "other bits")
    box.report("training on a device", box.train(folder)[0] != box.train(folder, "--device", "shim", exe="shim")[0] and "other bits")


def test_archive(box):
    a, w = arrays(), weights(6)
    folder = box.folder(a)
    one = box.path("graph.npz")
    np.savez(one, **a)
    wide = dict(a, **{k: v.astype("i4") for k, v in a.items() if v.dtype == np.int64})
    for name, data in (("an archive", one), ("32 bits", box.folder(wide))):
        if name == "an archive":
            w2 = dict(w, E=w["E"][:a["paper.about"].max() + 1])  # counted by the largest id
        else:
            w2 = w
        box.report(name, any((x != y).any() for x, y in zip(box.infer(folder, w), box.infer(data, w2))) and "other bits")


def test_counts(box):
    """What meta.json does not say, features do, else a column's rows, else the largest id."""
    a = arrays()
    a["paper.about"][-1] = 4
    a["paper.about"] = np.minimum(a["paper.about"], 4)
    folder = box.folder(a, num_nodes=3)
    out = box.must(box.path("net"), "plan", "--data", folder).out
    want = {"paper": 40, "author": 23, "subject": 5, "writes": 150, "rev_writes": 150, "cites": (a["edge_type"] == 0).sum(), "about": 40, "back": 40,
            "plp": sum((a["paper.about"] == s).sum() ** 2 for s in range(5))}
    found = {line.split()[0]: int(line.split()[1]) for line in out.splitlines() if len(line.split()) == 2 and line.split()[1].isdigit()}
    box.report("counts", {k: found.get(k) for k in want} != want and "%s, wanted %s" % (found, want))


def test_library(box):
    """One topology for each relation and one buffer for each kind of nodes, by a program in C."""
    with open(GIR) as f:
        text = f.read()
    text = text[:text.index("func train_step")].replace("tensor E : param subject[H] f32 stored [4] perm(0) init uniform(-0.5, 0.5)",
                                                        "tensor E : input subject[H] f32")
    box.must(box.gnnc, "build", box.write("net.gir", text), "--emit=lib,header", "--prefix", "net", "-o", box.path("libnet"))
    box.must("cc", "-I", box.root, box.write("main.c", LIBRARY), box.path("libnet.a"), "-lm", "-o", box.path("main"))
    a, w = arrays(), weights(6)
    want = b"".join(x.tobytes() for x in box.infer(box.folder(a), w))
    save_file({k: v for k, v in w.items() if k != "E"}, box.path("w.safetensors"))
    given = dict(a, E=w["E"], cites=a["edge_index"][:, a["edge_type"] == 0], extends=a["edge_index"][:, a["edge_type"] == 2])
    for name, x in given.items():
        box.write(name + ".bin", np.ascontiguousarray(x).tobytes())
    with open(box.path("got"), "wb") as out:
        box.must(box.path("main"), 6, 23, 40, stdout=out)
    with open(box.path("got"), "rb") as f:
        box.report("library", f.read() != want and "other bits than those of the executable")
    for name, argv, wanted in (("rows of authors", [6, 22, 40], "DATA_ID writes.edge_index: the source of edge"), ("rows of papers", [6, 23, 41], "DATA_ROWS paper.about"),
                               ("no count", [6, 23, 40, "less"], "GRAPH_COUNT")):
        r = box.run(box.path("main"), *argv)
        box.report("library refuses: " + name, (r.rc != 1 or wanted not in r.err) and r.err)
    for name, x, wanted in (("paper.about", np.where(np.arange(len(a["paper.about"])) == 3, 6, a["paper.about"]), "the target of edge 3 is 6, wanted 0 <= id < 6"),
                            ("cites", given["cites"] - 1, "is -1, wanted 0 <= id < 40")):
        box.write(name + ".bin", np.ascontiguousarray(x).tobytes())
        r = box.run(box.path("main"), 6, 23, 40)
        box.report("library refuses: an id of " + name, (r.rc != 1 or "DATA_ID" not in r.err or name not in r.err or wanted not in r.err) and r.err)
        box.write(name + ".bin", np.ascontiguousarray(given[name]).tobytes())


OWN = """schema own {
  node a, b
  edge r: a -> b
}
model net(x: node(a)[F]) -> node(b)[F] {
  param w: edge(r)[F] = normal(0, 1) as "conv.edge_weight"
  return over r { sum_in(x.src * w) }
}
train net {
  loss = mse(net(data.x), data.b.y)
  optimizer sgd(0.5)
  epochs 3
}
"""


def test_edge_rows(box):
    """A parameter with a row for each edge of a relation: stored in the user's order under the name that `as` gives, trained, read again, the
    same bits from any number of threads, in any order of nodes and from a library; refused to processes by name."""
    r = np.random.default_rng(9)
    n, m, e = 30, 20, 150
    a = {"r.edge_index": np.stack([r.integers(0, n, e), r.integers(0, m, e)]), "x": r.standard_normal((n, 3)).astype("f4"),
         "b.y": r.standard_normal((m, 3)).astype("f4")}
    folder = box.folder(a, num_as=n, num_bs=m)
    box.must(box.gnnc, "build", box.write("own.gnn", OWN), "--quick", "--cpu=native", "--data", folder, "-o", box.path("own"))
    train = lambda *flags: box.train(folder, *flags, exe="own")
    w = train("--epochs", "0")[1]["conv.edge_weight"].astype("f8")
    start, (src, dst) = w.astype("f4"), a["r.edge_index"]
    for _ in range(3):
        out = sums(a["x"][src] * w, dst, m)
        w = w - 0.5 * 2 / out.size * (out - a["b.y"])[dst] * a["x"][src]
    bits, got, _ = train()
    far = np.abs(got["conv.edge_weight"] - w).max() if got["conv.edge_weight"].shape == (e, 3) else np.inf
    box.report("rows of edges", (far > 1e-4 or np.abs(start - w).max() < 1e-2 or abs(start.std() - 1) > 0.2) and "off by %g" % far)
    for flags in (["--threads", "3"], ["--reorder", "bfs"]):
        box.report("rows of edges " + " ".join(flags), train(*flags)[0] != bits and "other bits")
    box.train(folder, "--epochs", "1", "--checkpoint", box.path("own.ck"), exe="own")
    box.report("rows of edges from a checkpoint", train("--resume", box.path("own.ck"), "--reorder", "degree")[0] != bits and "other bits")
    save_file(got, box.path("w.safetensors"))
    box.must(box.path("own"), "infer", "--data", folder, "--weights", box.path("w.safetensors"), "--out", box.path("own.npy"))
    box.report("rows of edges in weights", not np.allclose(np.load(box.path("own.npy")), sums(a["x"][src] * w, dst, m), atol=1e-4) and "other numbers")
    parts = box.folder(dict(a), num_as=n, num_bs=m, relations={"r": ["a", "b"]}, rows={"x": "a"})
    box.must(box.gnnc, "data", "partition", parts, "-k", "2", "-o", box.path("own_parts"))
    got = box.run(box.path("own"), "train", "--data", box.path("own_parts"), "--ranks", "2")
    box.report("rows of edges by processes", (got.rc == 0 or "R911" not in got.err or "conv.edge_weight" not in got.err) and got.err)
    box.must(box.gnnc, "build", box.write("bare.gnn", OWN[:OWN.index("train")]), "--set", "F=3", "--quick", "--cpu=native", "--emit=lib", "--prefix", "own", "-o", box.path("libown"))
    lib = library.Library(box.path("libown.so"), "own", np.float32)
    lib.on_graph(0, 0, [], [], 1, None, {"r": a["r.edge_index"]}, {"a": n, "b": m})
    rows = np.array(load_file(box.path("w.safetensors"))["conv.edge_weight"])
    lib.call("context_bind_param", lib.context, library.C.c_int32(0), library.address(rows))
    box.report("rows of edges in a library", lib.forward({"x": a["x"]})[0].tobytes() != np.load(box.path("own.npy")).tobytes() and "other bits")


def test_declared(box):
    """What contradicts the program is shown beside the line that declares it: of the relation, of the kind of nodes, of the input, of the parameter."""
    n, m, e = 30, 20, 150
    r = np.random.default_rng(9)
    a = {"r.edge_index": np.stack([r.integers(0, n, e), r.integers(0, m, e)]), "x": r.standard_normal((n, 3)).astype("f4"), "b.y": r.standard_normal((m, 3)).astype("f4")}
    meta = {"num_as": n, "num_bs": m}
    at_x, at_y, at_r = "`x` is declared here: own.gnn:5, `a` here: own.gnn:2", "`b.y` is declared here: own.gnn:10, `b` here: own.gnn:2", "`r` is declared here: own.gnn:3"
    cases = [("id", changed(a, "r.edge_index", put=[((1, 9), m)]), {}, "R111", at_r), ("shape", changed(a, "r.edge_index", value=a["r.edge_index"].T.copy()), {}, "R110", at_r),
             ("edges", {k: v for k, v in a.items() if k != "r.edge_index"}, {}, "R117", at_r), ("ends", a, {"relations": {"r": ["b", "a"]}}, "R122", at_r),
             ("rows", changed(a, "b.y", value=a["b.y"][1:]), {}, "R112", at_y), ("input", {k: v for k, v in a.items() if k != "b.y"}, {}, "R117", at_y),
             ("width", changed(a, "x", value=a["x"][:, 1:]), {}, "R113", at_x),
             ("count", a, {"num_bs": 3 * 10**9}, "R301", "`b` is declared here: own.gnn:2"), ("file", a, {"broken": "x.npy"}, "R102", None)]
    for name, b, more, code, wanted in cases:
        folder = box.folder(b, **{**meta, **{k: v for k, v in more.items() if k != "broken"}})
        if "broken" in more:
            with open(os.path.join(folder, more["broken"]), "r+b") as f:
                f.truncate(40)
        r = box.run(box.path("own"), "train", "--data", folder)
        found = [line[len("  = note: "):] for line in r.err.splitlines() if line.startswith("  = note: ")]
        box.report("declared: " + name, ("error[%s]" % code not in r.err or found != [wanted] * bool(wanted)) and "%s: %s" % (r.rc, r.err))
    save_file({"conv.edge_weight": np.zeros((e, 2), "f4")}, box.path("other.safetensors"))
    r = box.run(box.path("own"), "infer", "--data", box.folder(a, **meta), "--weights", box.path("other.safetensors"), "--out", box.path("no.npy"))
    box.report("declared: weights", ("error[R206]" not in r.err or "  = note: `conv.edge_weight` is declared here: own.gnn:6, `r` here: own.gnn:3\n" not in r.err) and r.err)
    try:
        library.Library(box.path("libown.so"), "own", np.float32).on_graph(0, 0, [], [], 1, None, {"r": a["r.edge_index"]}, {"a": n, "b": m - 5})
        found = "no failure"
    except library.Failed as failure:
        found = str(failure)
    box.report("declared: in a library", ("a row of b\n%s\n" % at_r.replace("own", "bare") not in found) and found)


READOUT = """schema two {
  node a, b
  edge r: a -> b
}
model net(x: node(a)[F]) -> graph[F] = readout_sum(over r { sum_in(x.src) }) + readout_max(x)
"""
READOUT_LIBRARY = """#include "libtwo.h"
#include <stdio.h>

int main(void)
{
    static const int64_t src[] = {0, 1, 2, 1}, dst[] = {1, 0, 2, 0}, of_a[] = {0, 0, 1}, of_b[] = {0, 0, 1};
    static const float x[] = {1, 2, 30};
    TwoModel *model;
    TwoGraph *graph;
    TwoContext *context;
    TwoStatus st;
    TwoEdgeList list = {"r", 4, src, dst};
    TwoRowCount counts[] = {{"a", 3, of_a}, {"b", 3, of_b}};
    TwoGraphDesc desc = {.n_graphs = 2, .n_lists = 1, .lists = &list, .n_counts = 2, .counts = counts};
    float y[2];
    const void *inputs[] = {x};
    void *results[] = {y};
    int bad = two_model_create(two_tables(), 0, TWO_BEST_CPU, &model, &st) || two_graph_create(model, &desc, &graph, &st) ||
              two_context_create(model, graph, 0, NULL, 0, &context, &st) || two_forward(context, inputs, results, &st);
    printf(bad ? "%g %g %s" : "%g %g", y[0], y[1], st.message);
    return bad;
}
"""


def test_library_graphs(box):
    """A library reads out each graph of several kinds of nodes."""
    box.must(box.gnnc, "build", box.write("two.gnn", READOUT), "--quick", "--set", "F=1", "--emit=lib,header", "--prefix", "two", "-o", box.path("libtwo"))
    box.must("cc", "-I", box.root, box.write("two.c", READOUT_LIBRARY), box.path("libtwo.a"), "-lm", "-o", box.path("two_main"))
    got = box.run(box.path("two_main"))
    box.report("a library of graphs", (got.rc or got.out != "7 60") and "%s: %s" % (got.rc, got.out))


SCHEMAS = {
    "typed": """schema academic_2 {
  node author[3], paper[5], subject, venue[7]
  edge writes: author -> paper
  edge about: paper -> subject = column
}
""",
    "types": """schema kg {
  node node[5], subject
  edge cites: node -> node = data.edge_index where data.edge_type == 0
  edge relation_1: node -> node = data.edge_index where data.edge_type == 1
  edge relation_2_of: node -> node = data.edge_index where data.edge_type == 2
  edge has_subject: node -> subject = data.subject
}
"""}


def test_budget(box):
    """--memory-budget takes the rows of each kind of nodes and the edges of each relation from the folder."""
    a, w = arrays(600, 200, 6, 3000, 4000), weights(6)
    folder = box.folder(a, name="x", num_subjects=6)
    build = [box.gnnc, "build", GIR, "--memory-budget"]
    for name, more, wanted in (("no data", [], "wants to know how many rows `"), ("no subjects", ["--data", box.folder(a, name="x")], "typed.gir:7:7: error[E0612]: `--memory-budget` wants to know how many rows `subject` has")):
        r = box.run(*build, "1G", "-o", box.path("no"), *more)
        box.report("budget with " + name, (r.rc == 0 or wanted not in r.err) and r.err)
    r = box.run(*build, "1K", "--data", folder, "-o", box.path("no"))
    least = int(r.err.split("--memory-budget=")[1].split()[0]) if "at least" in r.err else 0
    box.must(*build, str(least), "--data", folder, "-o", box.path("small"))
    box.report("budget", (not least or any((x != y).any() for x, y in zip(box.infer(folder, w), box.infer(folder, w, exe="small")))) and "other bits, of %d bytes" % least)


def test_schema(box):
    a = {k: v for k, v in arrays().items() if k.startswith(("paper.", "author.", "writes."))}
    a["venue.x"] = np.zeros((2, 7), "f4")
    relations = {"writes": ["author", "paper"], "about": ["paper", "subject"]}
    typed = box.folder(a, name="academic-2", relations=relations, num_subjects=6)
    b = arrays()
    types = {"x": b["paper.x"], "edge_index": b["edge_index"], "edge_type": b["edge_type"] % 3, "subject": b["paper.about"], "kind": b["paper.about"]}
    meta = {"name": "kg", "num_nodes": 40, "num_relations": 3, "num_subjects": 6, "relation_names": ["cites", 7, "2.of"]}
    kinds = box.folder(types, **meta)
    for name, folder in (("typed", typed), ("types", kinds)):
        out = box.must(box.gnnc, "data", "info", folder, "--schema").out
        box.report("schema of " + name, out != SCHEMAS[name] and out)
    model = "schema s {\n  node author%s, paper\n  edge writes: %s\n}\nmodel net(x: node(all)[F]) -> node(author)[F] = x[author]\n"
    for name, width, ends, wanted in (("turned", "", "paper -> author", ("E0412", "no.gnn:3:8", "from `paper` to `author`, in the data from `author` to `paper`")),
                                      ("width", "[4]", "author -> paper", ("E0201", "no.gnn:2:8", "author[3], the schema says author[4]"))):
        r = box.run(box.gnnc, "build", box.write("no.gnn", model % (width, ends)), "--data", typed, "-o", box.path("no"))
        box.report("data contradict the schema: " + name, (r.rc != 1 or any(w not in r.err for w in wanted)) and r.err)
    r = box.run(box.gnnc, "data", "verify", typed)
    box.report("sound", r.rc and r.err)
    os.makedirs(box.path("npz"))
    np.savez(box.path("npz", "graph.npz"), **a)
    shutil.copy(os.path.join(typed, "meta.json"), box.path("npz"))
    box.report("schema of an archive", box.must(box.gnnc, "data", "info", box.path("npz"), "--schema").out != SCHEMAS["typed"] and "another")
    cases = [("no kinds", a, {}, "it has one kind of nodes and one of edges"),
             ("one kind", a, {"relations": {"writes": ["paper"]}}, "names no two kinds that relation `writes` joins"),
             ("no name", a, {"relations": {"has-x": ["paper", "author"]}}, "`has-x` cannot be a name"),
             ("no edges", a, {"relations": dict(relations, cites=["paper", "paper"])}, "no array has the edges of `cites`"),
             ("unsaid", a, {"relations": {"about": ["paper", "subject"]}}, "does not say which kinds of nodes `writes` joins"),
             ("no number", types, {"num_nodes": 40}, "does not say how many types edge_type.npy has"),
             ("same names", types, dict(meta, relation_names=["a", "a"]), "two relations would have the name `a`")]
    for name, x, m, wanted in cases:
        r = box.run(box.gnnc, "data", "info", box.folder(x, **dict(m, unused=1)), "--schema")
        box.report("schema refused: " + name, (r.rc != 3 or r.out or wanted not in r.err) and "%s: %s" % (r.rc, r.err))
    bad = [("author", changed(a, "writes.edge_index", put=[((0, 7), 23)]), "writes.edge_index.npy: item 7 is 23, wanted an id of author in [0, 23)"),
           ("paper", changed(a, "writes.edge_index", put=[((1, 0), 40)]), "writes.edge_index.npy: item 150 is 40, wanted an id of paper in [0, 40)"),
           ("subject", changed(a, "paper.about", put=[(5, -1)]), "paper.about.npy: item 5 is -1, wanted an id of subject"),
           ("values", changed(a, "writes.w", value=a["writes.w"][1:]), "writes.w.npy: its shape is 149, wanted 150 rows"),
           ("rows", changed(a, "paper.y", value=a["paper.y"][1:]), "paper.y.npy: its shape is 39 x 4, wanted 40 rows"),
           ("shape", changed(a, "writes.edge_index", value=a["writes.edge_index"][:1]), "wanted integers, 2 x edges"),
           ("missing", {k: v for k, v in a.items() if k != "paper.about"}, "paper.about.npy")]
    for name, x, wanted in bad:
        r = box.run(box.gnnc, "data", "verify", box.folder(x, relations=relations, num_subjects=6))
        box.report("unsound: " + name, (r.rc not in (2, 3) or wanted not in r.err) and "%s: %s" % (r.rc, r.err))
    for name, x, wanted in (("type", changed(types, "edge_type", put=[(1, 9)]), "edge_type.npy: item 1 is 9, wanted a relation"),
                            ("types", changed(types, "edge_type", value=types["edge_type"][1:]), "edge_type.npy: its shape is 209, wanted 210 rows")):
        r = box.run(box.gnnc, "data", "verify", box.folder(x, **meta))
        box.report("unsound: " + name, (r.rc not in (2, 3) or wanted not in r.err) and "%s: %s" % (r.rc, r.err))


def changed(a, name, **how):
    b = {k: v.copy() for k, v in a.items()}
    for at, value in how.get("put", ()):
        b[name][at] = value
    if "value" in how:
        b[name] = how["value"]
    return b


def test_many(box):
    """300 relations, each with a file of its own, and what they sum joined by one kernel; the features are the last file of all."""
    n, relations = 20, 300
    r = np.random.default_rng(3)
    a = {"r%d.edge_index" % k: r.integers(0, n, (2, k % 7)) for k in range(relations)}
    a["z.x"] = r.integers(-9, 9, (n, 1)).astype("f4")
    schema = "schema many {\n  node z\n%s}\n" % "".join("  edge r%d: z -> z\n" % k for k in range(relations))
    model = "model net(x: node(all)[F]) = forall t { cat(forall r into t { over r { sum_in(x[source(r)].src) } }) }\n"
    folder = box.folder(a, name="many")
    box.must(box.gnnc, "build", box.write("many.gnn", schema + model), "--quick", "--cpu=native", "--data", folder, "-o", box.path("many"))
    box.must(box.path("many"), "infer", "--data", folder, "--out", box.path("many.npy"))
    want = np.stack([sums(a["z.x"][s, 0], t, n) for s, t in (a["r%d.edge_index" % k] for k in range(relations))], 1)
    box.report("many relations", not np.array_equal(np.load(box.path("many.npy")), want) and "other sums")


def test_refused(box):
    a = arrays()
    w = a["writes.edge_index"]
    last = int(np.flatnonzero(a["edge_type"] == 2)[-1])
    cases = [
        ("no edges", {k: v for k, v in a.items() if k != "writes.edge_index"}, 6, "writes.edge_index.npy", "the edges of writes are missing"),
        ("no column", {k: v for k, v in a.items() if k != "paper.about"}, 6, "paper.about.npy", "the edges of about are missing"),
        ("no types", {k: v for k, v in a.items() if k != "edge_type"}, 6, "edge_type.npy", "the types of edges, of which cites has one, are missing"),
        ("author", changed(a, "writes.edge_index", put=[((0, 7), 23)]), 2, "writes.edge_index.npy",
         "the source of edge 7 is 23, wanted 0 <= id < 23: a row of author"),
        ("paper", changed(a, "writes.edge_index", put=[((1, 9), -1)]), 2, "writes.edge_index.npy",
         "the target of edge 9 is -1, wanted 0 <= id < 40: a row of paper"),
        ("paper of a type", changed(a, "edge_index", put=[((1, last), 40)]), 2, "edge_index.npy",
         "the target of edge %d is 40, wanted 0 <= id < 40: a row of paper" % last),
        ("subject", changed(a, "paper.about", put=[(3, 6)]), 2, "paper.about.npy", "the target of edge 3 is 6, wanted 0 <= id < 6: a row of subject"),
        ("missing subject", changed(a, "paper.about", put=[(3, -1)]), 2, "paper.about.npy", "the target of edge 3 is -1"),
        ("short column", changed(a, "paper.about", value=a["paper.about"][:-1]), 3, "paper.about.npy", "found 39 integers, wanted 40: one per row of paper"),
        ("column of two", changed(a, "paper.about", value=np.zeros((40, 2), "i8")), 3, "paper.about.npy", "wanted one integer of each row"),
        ("column of floats", changed(a, "paper.about", value=a["paper.about"] + 0.5), 3, "paper.about.npy", ""),
        ("edges of three rows", changed(a, "writes.edge_index", value=np.concatenate([w, w[:1]])), 3, "writes.edge_index.npy", "wanted [2, E]"),
        ("short types", changed(a, "edge_type", value=a["edge_type"][1:]), 3, "edge_type.npy", "found 209 integers, wanted 210"),
        ("short edge input", changed(a, "writes.w", value=a["writes.w"][1:]), 3, "writes.w.npy", "found 149 rows, wanted 150: one per element of writes"),
        ("edge input of all types", changed(a, "extends.w", value=np.ones(210, "f4")), 3, "extends.w.npy", "found 210 rows"),
        ("rows of authors", dict(a, meta={"num_authors": 24, "num_subjects": 6}), 3, "author.x.npy", "found 23 rows, wanted 24"),
        ("width", changed(a, "author.x", value=a["author.x"][:, :2]), 3, "author.x.npy", "found 2 columns, wanted 3"),
        ("not finite", changed(a, "paper.x", put=[((2, 2), np.nan)]), 2, "paper.x.npy", ""),
    ]
    save_file(weights(6), box.path("w.safetensors"))
    for name, b, rc, place, message in cases:
        folder = box.folder({k: v for k, v in b.items() if k != "meta"}, **b.get("meta", {}))
        r = box.run(box.path("net"), "infer", "--data", folder, "--weights", box.path("w.safetensors"), "--out", box.path("no.npy"))
        wrong = r.rc == 0 or (rc and r.rc != rc) or place not in r.err or message not in r.err or os.path.exists(box.path("no.npy"))
        box.report("refused: " + name, wrong and "%s: %s" % (r.rc, r.err))
    r = box.run(box.path("net"), "train", "--data", box.folder(a), "--ranks", "2")
    box.report("refused: --ranks", (r.rc == 0 or "R912" not in r.err) and r.err)
    r = box.run(box.gnnc, "data", "partition", box.folder(a), "-k", "2", "-o", box.path("parts"))
    box.report("refused: partition", (os.path.exists(box.path("parts")) or "E0910" not in r.err) and r.err)
    with open(GIR) as f:
        text = f.read().replace("train epochs 4 seed 3 {", "train epochs 4 seed 3 batch 2 {")
    box.must(box.gnnc, "build", box.write("batch.gir", text), "-o", box.path("batch"))
    r = box.run(box.path("batch"), "train", "--data", box.folder(a))
    box.report("refused: batches", (r.rc != 3 or "no map leads from its nodes to graphs" not in r.err) and "%s: %s" % (r.rc, r.err))


class Program:
    """A program of relations that is drawn: its text, its data, and what numpy says of it."""

    def __init__(self, r):
        self.r, self.rows, self.head, self.graphs, self.tensors, self.args, self.ops, self.data = r, {}, [], [], [], [], [], {}
        self.relations, self.meta, self.returns, self.n = [], {}, [], 0
        for t in range(r.integers(2, 5)):
            self.rows["t%d" % t] = int(r.integers(0, 14) if t else r.integers(1, 14))
        kinds = list(self.rows)
        self.shared = [str(k) for k in r.choice(kinds, 2)]
        for i in range(r.integers(4, 9)):
            self.relation("r%d" % i, kinds)

    def relation(self, name, kinds):
        r, old = self.r, self.relations
        how = r.choice(["file", "where", "column", "reverse", "compose"])
        a, b = (str(k) for k in r.choice(kinds, 2))
        edges = lambda x, y: r.integers(0, [[max(self.rows[x], 1)], [max(self.rows[y], 1)]], (2, int(r.integers(0, 30)) if self.rows[x] and self.rows[y] else 0))
        if how == "reverse" and old:
            base = old[r.integers(len(old))]
            text, a, b, ends = "reverse(%s)" % base[0], base[2], base[1], base[3][::-1]
        elif how == "compose" and any(x[2] == y[1] for x in old for y in old):
            path = [old[r.integers(len(old))]]
            while len(path) < 4 and (more := [x for x in old if x[1] == path[-1][2]]) and (len(path) < 2 or r.random() < 0.5):
                path.append(more[r.integers(len(more))])
            text, a, b = "compose(%s)" % ", ".join(x[0] for x in path), path[0][1], path[-1][2]
            joined = np.eye(self.rows[a], dtype=int)
            for x in path:
                step = np.zeros((self.rows[x[1]], self.rows[x[2]]), int)
                step[tuple(x[3])] = 1
                joined = (joined @ step > 0).astype(int)
            ends = np.stack(np.nonzero(joined.T)[::-1])
        elif how == "column" and (self.rows[b] or not self.rows[a]):
            text, ends = "column(%s.%s)" % (a, name), np.stack([np.arange(self.rows[a]), r.integers(0, max(self.rows[b], 1), self.rows[a])])
            self.data["%s.%s" % (a, name)] = ends[1]
        elif how == "where":
            a, b = self.shared
            if "edge_index" not in self.data:
                self.data["edge_index"] = edges(a, b)
                self.data["edge_type"] = r.integers(-1, 3, self.data["edge_index"].shape[1])
            k = int(r.integers(-1, 4))
            text, ends = "file(edge_index)", self.data["edge_index"][:, self.data["edge_type"] == k]
            how = " where edge_type = %d" % k
        else:
            text, ends = "file(%s.edge_index)" % name, edges(a, b)
            self.data[name + ".edge_index"] = ends
        self.head += ["space %s : edges" % name, "map %s.src : %s -> %s" % (name, name, a), "map %s.dst : %s -> %s sorted" % (name, name, b)]
        self.graphs.append("graph %s : %s %s(%s.src, %s.dst)%s" % (name, text, name, name, name, how if how.startswith(" ") else ""))
        self.relations.append((name, a, b, ends))

    def put(self, text, space, value, dims="[H]"):
        self.ops.append("  %%%d = %s : %s%s f32" % (self.n, text, space, dims))
        self.n += 1
        return self.n - 1, space, value

    def tensor(self, name, space, kind, dims="[H]", more=""):
        shape = (self.rows[space] if space in self.rows else len(self.edges[space][0]),) if space else (4,)
        value = self.r.standard_normal(shape + ((4,) if dims != "[]" else ())).astype("f4")
        self.tensors.append("tensor %s : %s %s%s f32%s" % (name, kind, space, dims, more))
        self.args.append(name)
        (self.params if kind == "param" else self.data)[name] = value
        return self.put("arg %d" % (len(self.args) - 1), space, value.astype("f8"), dims)

    def write(self):
        self.edges, self.params = {x[0]: x[3] for x in self.relations}, {}
        x = {t: self.tensor(t + ".x", t, "input") for t in self.rows}
        weight = {n: self.tensor(n + ".w", n, "input", "[]") for n in self.edges if self.r.random() < 0.5}
        h = {t: self.put("tanh %%%d" % v[0], t, np.tanh(v[2])) for t, v in x.items()}
        for _ in range(2):
            new = dict(h)
            for name, a, b, (src, dst) in self.relations:
                m = self.put("gather %%%d via %s.src" % (h[a][0], name), name, h[a][2][src])
                if name in weight:
                    m = self.put("mul %%%d, %%%d" % (m[0], weight[name][0]), name, m[2] * weight[name][2][:, None])
                if self.r.random() < 0.4:
                    y = self.put("gather %%%d via %s.dst" % (h[b][0], name), name, h[b][2][dst])
                    m = self.put("add %%%d, %%%d" % (m[0], y[0]), name, m[2] + y[2])
                if self.r.random() < 0.5:
                    s = self.put("reduce_sum %%%d via %s.dst" % (m[0], name), b, sums(m[2], dst, self.rows[b]))
                else:
                    most = np.full((self.rows[b], 4), -np.inf)
                    np.maximum.at(most, dst, m[2])
                    s = self.put("reduce_max %%%d via %s.dst empty 0.25" % (m[0], name), b, np.where(np.isinf(most), 0.25, most))
                s = self.put("add %%%d, %%%d" % (new[b][0], s[0]), b, new[b][2] + s[2])
                new[b] = self.put("tanh %%%d" % s[0], b, np.tanh(s[2]))
                if self.r.random() < 0.2:
                    self.returns.append((name + str(self.n), m))
            h = new
        self.returns += list(h.items())
        return "\n".join(["module drawn", "dim H = 4"] + ["space " + t for t in self.rows] + self.head + self.graphs + self.tensors +
                         ["func forward(%s) {" % ", ".join("%s = @%s" % (n, n) for n in self.args)] + self.ops +
                         ["  return %s = %%%d" % (n, v[0]) for n, v in self.returns] + ["}", ""])


def test_drawn(box):
    """Programs and data that are drawn, against numpy; kinds without nodes and relations without edges among them."""
    for seed in range(60 if os.environ.get("GNNC_LONG") else 8):
        p = Program(np.random.default_rng(seed))
        box.must(box.gnnc, "build", box.write("drawn.gir", p.write()), "--cpu=native", "-o", box.path("drawn"))
        folder, wrong = box.folder({k: np.ascontiguousarray(v) for k, v in p.data.items()}, **{"num_" + t: n for t, n in p.rows.items()}), []
        bits = {}
        for threads, order in (("1", "none"), ("3", "none"), ("2", "degree"), ("1", "bfs")):
            box.must(box.path("drawn"), "infer", "--data", folder, "--out", box.path("o.npy"), "--threads", threads, "--reorder", order)
            for i, (name, (_, _, value)) in enumerate(p.returns):
                got = np.load(box.path("o.npy" if not i else "o.%s.npy" % name))
                if got.shape != value.shape or (value.size and np.abs(got - value).max() > 1e-4 * max(1, np.abs(value).max())):
                    wrong.append("%s of %s threads, order %s" % (name, threads, order))
                if bits.setdefault(name, got.tobytes()) != got.tobytes():
                    wrong.append("other bits of %s, order %s" % (name, order))
        box.report("drawn %d" % seed, wrong and "%s\n%s" % (wrong, "; ".join(p.graphs)))


def test_large_path(box):
    """60,000 papers of one subject: 3.6e9 pairs, which are counted and refused."""
    a = arrays(60000, 10, 1, 20, 20)
    r = box.run(box.path("net"), "plan", "--data", box.folder(a), limit=300)
    want = "its paths join 3600000000 pairs of nodes, which take 100800000000 bytes"
    box.report("a metapath of too many pairs", (r.rc != 3 or want not in r.err or "`plp` is declared here: typed.gir:38\n" not in r.err) and "%s: %s" % (r.rc, r.err))
    a["paper.about"] = np.arange(60000)
    box.report("a metapath of each node to itself", box.run(box.path("net"), "plan", "--data", box.folder(a, num_subjects=60000)).rc)


def main():
    box = Typed(sys.argv[1])
    for test in (test_forward, test_order, test_stored, test_local, test_training, test_device, test_archive, test_counts, test_library, test_edge_rows, test_declared, test_library_graphs, test_budget, test_schema, test_many, test_refused, test_drawn, test_large_path):
        try:
            test(box)
        except (RuntimeError, OSError, ValueError) as e:
            box.report(test.__name__, e)
    box.close()


main()
