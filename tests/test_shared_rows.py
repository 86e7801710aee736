#!/usr/bin/env python3
"""Rows with very many elements that threads share: every bit of results, losses and weights is that of rows computed by one
thread each, for any number of threads and any length that counts as long. Graphs without such rows get neither memory nor
other steps.

usage: test_shared_rows.py BUILD
Run: lesser if long"""
import json
import os
import sys

import numpy as np

import toy
from sandbox import Sandbox

TRAIN = """
train net {
  loss = %s
  optimizer adam(0.05)
  %s
  epochs 2
}
"""
# sums, maxima, sums that rescale, several walks over a row, a maximum and its gradient before a product, two steps of a
# strip that share
MODELS = {
    "sum": "  c = gcn(O = C)\n  return c(x)",
    "max": "  c = sage(O = C, aggr = max)\n  return c(x)",
    "wide": "  a = sum_in(linear(x, O = 150).src)\n  return linear(a, O = C)",
    "gat": "  c = gat(H = 2, D = 5)\n  return linear(flatten(elu(c(x))), O = C)",
    "transformer": "  c = transformer(H = 2, D = 8)\n  return linear(flatten(elu(c(x))), O = C)",
    "moments": "  m = mean_in(x.src)\n  v = mean_in(square(x.src - m.dst))\n  w = max_in(tanh(x.src * v.dst))\n  return linear(cat(m, v, w), O = C)",
    "both": "  a = sum_in(relu(x.src))\n  b = sum_out(tanh(x.dst))\n  return linear(a * b, O = C)",
    "pna": "  return linear(cat(std_in(x.src), max_in(x.src), min_in(x.src), mean_in(x.src)), O = C)",
}
box = Sandbox(sys.argv[1], "shared_rows")


def graph(kind):
    """hub: long enough for the rule on two threads. short: two rows of several blocks. even: none stands out."""
    rng = np.random.default_rng(5)
    n = 500
    parts = {"hub": [(7, 20000), (499, 3)], "short": [(0, 700), (499, 1500), (3, 256), (4, 257)], "even": []}[kind]
    dst = np.concatenate([np.full(k, v) for v, k in parts] + [rng.integers(0, n - 9, 3000)]).astype(np.int64)
    e = np.stack([rng.integers(0, n, len(dst)), dst])
    return n, np.ascontiguousarray(e[:, rng.permutation(len(dst))])


def data(kind, **more):
    rng = np.random.default_rng(7)
    n, edges = graph(kind)
    arrays = {"edge_index": edges, "x": rng.standard_normal((n, 11)).astype("<f4"), "y": rng.integers(0, 3, n), "train_mask": np.ones(n, bool)}
    return toy.store(box.path(kind + "-".join(more)), dict(arrays, **more), num_classes=3, **({"num_graphs": 20} if "batch" in more else {}))


def build(name, body, d, flags=(), graphs=False):
    y = "graph_y" if graphs else "y"
    text = "model net(x: node[F]) -> %s[C] {\n%s\n}\n" % ("graph" if graphs else "node", body)
    text += TRAIN % ("cross_entropy(net(data.x), data.%s) on data.train" % y, "batch 6 of graphs" if graphs else "")
    box.must(box.gnnc, "build", box.write(name + ".gnn", text), "--data", d, "--quick", "-o", "exe", *(flags if "--cpu" in flags else (*flags, "--cpu", "native")))
    return box.path("exe")


def results(exe, d, threads, *flags):
    """[losses, weights, results]"""
    more = ["--data", d, "--threads", threads, *flags]
    box.must(exe, "train", *more, "--metrics", "log.jsonl", "--save", "w.safetensors")
    box.must(exe, "infer", *[f for f in more if f not in ("--cone", "on")], "--weights", "w.safetensors", "--out", "out.npy")
    return [open(box.path(name), "rb").read() for name in ("log.jsonl", "w.safetensors", "out.npy")]


def planned(exe, d, threads, *flags):
    p = json.loads(box.must(exe, "plan", "--data", d, "--threads", threads, "--json", *flags).out)
    programs = [p[k] for k in ("forward", "train_step")]
    return sum(s.get("shared_rows", 0) for x in programs for s in x["steps"]), sum(x["shared_bytes"] for x in programs), p


def compare(exe, d, runs):
    want = results(exe, d, 1, "--share", "0")
    for threads, flags in runs:
        for what, a, b in zip(["losses", "weights", "results"], results(exe, d, threads, *flags), want):
            if a != b:
                return "%d threads, %s: other %s" % (threads, " ".join(flags), what)
    return None


def case(name, kind, runs, least, flags=()):
    d = data(kind)
    exe = build(name, MODELS[name], d, flags)
    rows, bytes_, _ = planned(exe, d, runs[0][0], *runs[0][1])
    if rows < least or not bytes_:
        return "%d rows are shared, wanted %d or more; %d bytes" % (rows, least, bytes_)
    return compare(exe, d, runs)


FORCED = [(2, ("--share", "1")), (3, ("--share", "257")), (1, ("--share", "1")), (3, ("--share", "600"))]
for name in MODELS:
    box.report(name, case(name, "short", FORCED, 100))
box.report("f64", case("gat", "short", FORCED[:2], 100, ("--dtype", "f64")))
box.report("generic", case("gat", "short", FORCED[:2], 100, ("--cpu", "generic")))
for name in ("sum", "gat"):
    box.report("chosen, " + name, case(name, "hub", [(2, ()), (3, ())], 1))


def untouched():
    d, hub = data("even"), data("hub")
    exe = build("gat", MODELS["gat"], d)
    rows, bytes_, p = planned(exe, d, 2)
    if rows or bytes_ or "shared" not in box.must(exe, "plan", "--data", hub, "--threads", 2).out:
        return "%d rows are shared, %d bytes" % (rows, bytes_)
    if p != planned(exe, d, 2, "--share", "0")[2]:
        return "another plan"
    for why, flags in (("one thread", (1,)), ("a budget", (2, "--memory-budget", "1G")), ("--share 0", (2, "--share", "0"))):
        if planned(exe, hub, *flags)[0]:
            return "rows are shared with " + why
    return compare(exe, d, [(2, ())])


def off():
    d = data("short")
    exe = build("gat", MODELS["gat"], d, ("--disable=schedule",))
    if planned(exe, d, 2, "--share", "1")[0]:
        return "rows are shared without `schedule`"
    said = [box.must(box.gnnc, "build", box.path("gat.gnn"), "--data", d, "--cpu=native", "--quick", "-o", "exe", "--remarks", *off).err
            for off in ([], ["--disable=connect"], ["--disable=schedule"])]
    said = ["".join("+" if text in s else "-" for text in ("remark[schedule]: forward: threads may share rows", "threads do not share rows")) for s in said]
    return said != ["++", "+-", "--"] and "remarks: %s" % said  # `connect` gives up what its strips make


def few_rows_needed():
    mask = np.zeros(500, bool)
    mask[[0, 499, 17]] = True
    d = data("short", train_mask=mask)
    exe, both = build("gat", MODELS["gat"], d), (2, ("--share", "300", "--cone", "on"))
    if not any("shared_rows" in s and "rows_needed" in s for s in planned(exe, d, *[both[0], *both[1]])[2]["train_step"]["steps"]):
        return "no kernel that leaves rows out shares one"
    return compare(exe, d, [both, (2, ("--share", "1", "--cone", "on")), (3, ("--share", "1"))])


def drawn():
    """Edges that are drawn anew for each step have other long rows each time."""
    text = """model net(x: node[F]) -> node[C] {
  pairs p = negatives(g, k = 3)
  h = linear(x, O = 8)
  a = over p { sum_in(tanh(h.src + h.dst)) }
  return linear(h + a, O = C)
}
""" + TRAIN % ("cross_entropy(net(data.x), data.y) on data.train", "")
    d = data("short")
    box.must(box.gnnc, "build", box.write("drawn.gnn", text), "--data", d, "--cpu", "native", "--quick", "-o", "exe")
    if not planned(box.path("exe"), d, 2, "--share", "1")[0]:
        return "no row is shared"
    return compare(box.path("exe"), d, [(2, ("--share", "1")), (3, ("--share", "6"))])


def batches():
    n, rng = 500, np.random.default_rng(3)
    batch = np.sort(rng.integers(0, 20, n))
    src = rng.integers(0, n, 4000)
    src[:600] = src[0]
    dst = np.array([rng.choice(np.flatnonzero(batch == batch[u])) for u in src])
    dst[:600] = dst[0]
    d = data("even", batch=batch, graph_y=rng.integers(0, 3, 20), train_mask=np.ones(20, bool), edge_index=np.stack([src, dst]).astype(np.int64))
    os.remove(os.path.join(d, "y.npy"))
    body = "  c = gat(H = 2, D = 5)\n  return linear(readout_sum(flatten(c(x))), O = C)"
    return compare(build("batches", body, d, graphs=True), d, [(2, ("--share", "1")), (3, ("--share", "300"))])


for name, test in (("graphs without long rows", untouched), ("off", off), ("few rows needed", few_rows_needed), ("drawn for each step", drawn), ("batches", batches)):
    box.report(name, test())
r = box.run(box.path("exe"), "plan", "--data", data("even"), "--share", "-1")
box.report("a length that is none", (r.rc != 1 or "--share" not in r.err) and r.err)
box.close()
