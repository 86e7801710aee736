#!/usr/bin/env python3
"""Policies of training by several processes: the exact limit of each has the bytes of exact training, what the ledger measures is
what was predicted once it was decided, and is what each policy's formula says. usage: test_policies.py BUILD"""
import json
import os
import shutil
import sys

import numpy as np

import toy
from sandbox import Sandbox

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "ranks"))
import models  # noqa: E402
from ledger import unpredicted  # noqa: E402

box = Sandbox(sys.argv[1], "policies")
EPOCHS = 7


def random_data():
    n, e = 300, 1500
    return toy.store(box.path("data"), models.random_arrays(n, e), num_nodes=n, num_edges=e, num_classes=3)


def parts(k):
    out = box.path("parts%d" % k)
    if not os.path.exists(out):
        box.must(box.gnnc, "data", "partition", box.path("data"), "-k", k, "-o", out, "--method", "random", "--seed", 1)
    with open(os.path.join(out, "partition.json"), encoding="utf-8") as f:
        return out, json.load(f)


def build(name):
    text = models.text("gcn").replace("dropout(x, 0.3)", "x") if name == "plain" else models.text(name)
    box.must(box.gnnc, "build", box.write("%s.gnn" % name, text), "--data", box.path("data"), "--cpu=native", "-o", box.path(name))


def train(name, k, policy, *more, epochs=EPOCHS):
    """Weights, and what the processes sent."""
    box.must(box.path(name), "train", "--data", parts(k)[0], "--ranks", k, "--epochs", epochs, "--seed", 3, "--threads", 1, "--save", box.path("w.st"),
             "--ledger", box.path("l.json"), *(["--policy", policy] if policy else []), *more)
    with open(box.path("w.st"), "rb") as f, open(box.path("l.json"), encoding="utf-8") as g:
        return f.read(), json.load(g)["sites"]


def rows_of(sites):
    """Bytes that all sent, by exchange of the training step."""
    return {s["name"]: sum(r["bytes_out"] for r in s["by_rank"]) for s in sites if s["name"].startswith("train_step: rows")}


EXACT = ["halo", "bns=1", "sancus=m1:1", "sancus=m2:1:1", "sancus=m3:0:1", "sancus=m3:0:5", "distgnn=0", "distgnn=1", "cagnet15d=1", "cagnet1d"]
LATE = ["sancus=m1:3", "sancus=m2:1:4", "sancus=m3:0.1:4", "sancus=m3:1e30:3", "distgnn=3", "pipegcn"]


def test_limits():
    """Weights of policies that keep nothing, and bytes of those that do."""
    for name, k in (("gcn", 3), ("gat", 2)):
        build(name)
        exact, sites = train(name, k, None)
        once = {x: n // EPOCHS for x, n in rows_of(sites).items()}
        box.report("%s_rows" % name, not once and "nothing travels")
        for policy in EXACT if name == "gcn" else EXACT[4:5] + EXACT[-1:]:
            weights, sites = train(name, k, policy)
            box.report("%s_%s" % (name, policy), weights != exact and "other weights" or unpredicted(sites))
        local, _ = train(name, k, None, "--sums", "local")
        box.report("%s_local" % name, local != train(name, k, "cagnet1d", "--sums", "local")[0] and "other weights")
        for policy in LATE if name == "gcn" else LATE[4:]:
            weights, sites = train(name, k, policy)
            again = train(name, k, policy)[0] if "m3:0.1" in policy else weights
            box.report("%s_%s" % (name, policy), (weights == exact and "the weights of exact training") or
                       (weights != again and "two runs differ") or unpredicted(sites) or bytes_of(policy, once, rows_of(sites)))


def bytes_of(policy, once, sent):
    """What is wrong with the bytes of a policy whose decisions do not depend on values."""
    turns = {"sancus=m1:3": 3, "sancus=m3:1e30:3": 3, "pipegcn": EPOCHS}.get(policy)  # runs 0, 3 and 6
    if turns and sent != {x: turns * n for x, n in once.items()}:
        return "%s sent, of %s a run" % (sent, once)
    if policy == "distgnn=3":  # all rows once, then each in two runs of six
        return sent != {x: 3 * n for x, n in once.items()} and "%s sent, of %s a run" % (sent, once)
    if not sum(once.values()) < sum(sent.values()) < EPOCHS * sum(once.values()) and policy != "pipegcn":
        return "%s sent, of %s a run" % (sent, once)
    return None


def test_frozen():
    """While weights do not change, what came last is what is there: losses and gradients (which a checkpoint holds the means of) are exact."""
    build("plain")
    seen = {}
    for policy in ["exact"] + LATE[:3] + LATE[4:]:
        train("plain", 3, policy, "--set", "lr=0", "--checkpoint", box.path("c.st"), "--metrics", box.path("m.jsonl"))
        with open(box.path("c.st"), "rb") as f, open(box.path("m.jsonl"), "rb") as g:
            seen[policy] = f.read(), g.read()
        box.report("frozen_%s" % policy, seen[policy][1] != seen["exact"][1] and "other losses" or (seen[policy][0] != seen["exact"][0] and "other gradients"))
    one, two = [[train("plain", 3, p, epochs=e)[0] for p in (None, "pipegcn")] for e in (1, 2)]
    box.report("late", (one[0] != one[1] and "the first run is not exact") or (two[0] == two[1] and "the second run is exact"))


# ---- rows that are drawn --------------------------------------------------------------------------------------------

# W enters linearly, and dropout keeps sums of neighbours from being computed before the run
SUMS = """model net(x: node[F]) -> node[O] {
  param W: [F, O] = 1
  return sum_in(dropout(dot(x, W, F), 0.5).src)
}
train net {
  loss = %s
  hyper lr = 1
  optimizer sgd(lr)
  epochs 1
  seed 0
}
"""


def build_sums():
    """On 64 nodes, so that means are exact, with numbers that are small and whole."""
    g, n, e = np.random.default_rng(1), 64, 256
    arrays = {"edge_index": np.ascontiguousarray(g.integers(0, n, (2, e))), "x": g.integers(-1, 2, (n, 3)).astype("<f4"),
              "c": g.integers(-2, 3, n).astype("<f4")}
    toy.store(box.path("whole"), arrays, num_nodes=n, num_edges=e)
    for k in (2, 3):
        box.must(box.gnnc, "data", "partition", box.path("whole"), "-k", k, "-o", box.path("whole%d" % k), "--method", "random", "--seed", 1)
    for name, loss in (("square", "net(data.x) * net(data.x)"), ("plus", "relu(sum(net(data.x), O) * data.c + 1000)")):
        box.must(box.gnnc, "build", box.write("%s.gnn" % name, SUMS % loss), "--data", box.path("whole"), "--set", "O=1", "--cpu=native", "-o", box.path(name))


def run_sums(name, k, policy, *more):
    """Losses, and the sum of the gradient of the first epoch times W, which is all ones."""
    box.must(box.path(name), "train", "--data", box.path("whole%d" % k), "--ranks", k, "--policy", policy, "--threads", 1, "--metrics", box.path("m.jsonl"),
             "--save", box.path("w.st"), *more)
    with open(box.path("w.st"), "rb") as f, open(box.path("m.jsonl"), encoding="utf-8") as g:
        text = f.read()
        losses = [json.loads(line)["loss"] for line in g if '"final"' not in line]
    w = np.frombuffer(text[8 + int.from_bytes(text[:8], "little"):], "<f4").astype(float)
    return np.array(losses), (1 - w).sum()


def test_adjoint():
    """What the backward pass sums is the adjoint of what the forward pass does: by Euler, the gradient of z y in W, both linear in W, times W is 2 z y.
    With one row drawn of each pair of processes all numbers are fractions that f32 holds, so that both sides are equal."""
    build_sums()
    for seed in range(3):
        for policy, most in (("bns=0.001", 0), ("bns=0.4", 1e-5)):
            losses, grad = run_sums("square", 3, policy, "--seed", seed)
            box.report("adjoint_%s_%d" % (policy, seed), abs(grad - 2 * losses[0]) > most * abs(grad) and "%r and %r" % (grad, 2 * losses[0]) or
                       (not losses[0] and "the loss is 0"))


# Scores sum to <A W, B V>, which is the gradient of s as well. %s keeps sums of neighbours from being computed before
# the run, so that such sums travel forward, and gradients backward: dropout is linear; relu is homogeneous, which is
# enough, and the same in each epoch.
BILINEAR = """model net(x: node[F]) -> node[O] {
  param W, V: [F, O] = uniform(0.5, 1.5)
  param s: [] = 1
  k = mean_in(%s(dot(x, W, F)%s).src)
  y = sum_in(%s(dot(x, V, F)%s).src)
  return s * sum_in(k.src) * y
}
train net {
  loss = sum(net(data.x), O)
  hyper lr = 0
  optimizer adam(lr)
  epochs 1
  seed 0
}
"""


def test_adjoint_f64():
    """<A W, B V> = <W, A' B V> = <V, B' A W>: the first is what processes compute forward, A' and B' are what they do backward. The optimizer keeps means of the
    gradients, all of as many. With a policy whose rows come late that holds while weights stay as they are: rows of a past run are those of this one."""
    for name, epochs, policies in (("dropout", 1, EXACT + ["cagnet15d=2", "sar", "bns=0.5", "bns=0.001"]), ("relu", 5, LATE)):
        program = "%s_f64" % name
        text = BILINEAR % ((name, ", 0.5" if name == "dropout" else "") * 2)
        box.must(box.gnnc, "build", box.write("%s.gnn" % program, text), "--data", box.path("data"), "--set", "O=3", "--dtype", "f64", "--quick", "--sums-apart", "-o", box.path(program))
        exact = None
        for policy, *sums in [["exact"], ["exact", "--sums", "local"]] + [[p] for p in policies]:
            _, sites = train(program, 4, policy, "--checkpoint", box.path("c.st"), *sums, epochs=epochs)
            seen = tensors(box.path("c.st"))
            forward = seen["adam.m.s"][0]
            exact = exact or forward
            off = max(abs((seen[x] * seen["adam.m." + x]).sum() / forward - 1) for x in "WV")
            same = abs(forward / exact - 1) <= 1e-12
            box.report("adjoint_f64_%s" % " ".join([policy] + sums), (len(rows_of(sites)) < 3 and "too little travels") or (not off <= 1e-12 and "off by %g" % off) or
                       (same == (policy in ("bns=0.5", "bns=0.001")) and "%r, exact %r" % (forward, exact)))


def tensors(path):
    """Those in f64 of a checkpoint, by name."""
    with open(path, "rb") as f:
        size = int.from_bytes(f.read(8), "little")
        head, data = json.loads(f.read(size)), f.read()
    return {name: np.frombuffer(data[slice(*t["data_offsets"])], "<f8") for name, t in head.items() if t.get("dtype") == "F64"}


def test_unbiased():
    n, frozen = 2000, ["--epochs", 2000, "--set", "lr=0"]
    exact, _ = run_sums("plus", 2, "exact", *frozen)
    drawn, _ = run_sums("plus", 2, "bns=0.3", *frozen)
    d = drawn - exact
    box.report("unbiased", (d.std() < 0.1 and "nothing is drawn") or (abs(d.mean()) > 4 * d.std() / n ** 0.5 and "%g +- %g" % (d.mean(), d.std() / n ** 0.5)))


def test_drawn_rows():
    """Of each pair of processes int(p n) rows, at least one, travel each way for each value."""
    k, p, owner = 3, 0.2, np.zeros(parts(3)[1]["nodes"], int)
    for q in range(k):
        owned = parts(k)[1]["ranks"][q]["owned"]
        owner[np.load(os.path.join(parts(k)[0], "part-%d" % q, "node_id.npy"))[:owned]] = q
    ends = np.load(os.path.join(box.path("data"), "edge_index.npy"))
    pairs = np.unique(np.stack([owner[ends[0]], owner[ends[1]], ends[0]])[:, owner[ends[0]] != owner[ends[1]]], axis=1)
    border = [np.sum((pairs[0] == a) & (pairs[1] == b)) for a in range(k) for b in range(k)]
    rows = sum(max(1, int(p * m)) for m in border if m)
    weights, sites = train("gcn", k, "bns=0.2")
    again, _ = train("gcn", k, "bns=0.2")
    sent = [(s["name"], sum(r["bytes_out"] for r in s["by_rank"]) / EPOCHS / 4 / rows) for s in sites if s["name"].startswith(("train_step: rows", "train_step: sums %"))]
    box.report("drawn_rows", weights != again and "two runs differ" or unpredicted(sites) or
               ([w for _, w in sent if w] != [3, 3] and "widths of what was sent: %s" % sent))


def test_not_linear():
    """Which sums over edges the compiler says are homogeneous and linear in what they read at the edges' sources."""
    body = "param W: [F, O] = 1\n  k = dropout(dot(x, W, F), 0.5)\n  return %s"
    for linear, value in ((True, "sum_in(k.src)"), (True, "relu(mean_in(k.src) + k)"), (True, "sum_in(-k.src * c.src / (2 + c.dst))"),
                          (True, "sum_in(where(c.dst > 0, k.src, 0))"), (False, "sum_in(where(k.src > 0, k.src, 0))"), (False, "sum_in(k.src * k.src)"),
                          (False, "sum_in(relu(k.src))"), (False, "sum_in(k.src + 1)"), (False, "max_in(k.src)"), (False, "relu(max_in(dot(x, W, F).src) + k)"), (False, "sum_in(softmax_in(k.src) * k.src)")):
        text = "model net(x: node[F], c: node) -> node[O] {\n  %s\n}\n" % body % value + SUMS[SUMS.index("train"):] % "net(data.x, data.c)"
        box.must(box.gnnc, "build", box.write("sums.gnn", text), "--data", box.path("whole"), "--set", "O=1", "--emit=plan", "-o", box.path("sums"))
        with open(box.path("sums.plan"), encoding="utf-8") as f:
            reads = [r for line in f.read().split("program train_step")[1].split("program ")[0].splitlines() if "sums for rows of node under edge.dst" in line
                     for r in line.split(", ") if "at edge.src of elements" in r]
        box.report("linear %s" % value, (linear and not reads and "no sum reads sources") or (any("linearly" in r for r in reads) != linear and str(reads)))
    argv = [box.path("gat"), "train", "--data", parts(3)[0], "--ranks", 3, "--policy", "bns=0.5"]
    box.refuses("attention", argv, 1, "R915", ".gnn:", "reduce_", "cannot sum over rows that are drawn")


# ---- all -----------------------------------------------------------------------------------------------------------


def test_in_turn():
    """Of an exchange of width F n (P - 1) / P rows go to each process, one round for each that sends. In groups of c, a process sends its own rows to P / c - 1
    others and then those of all at its place to c - 1. Weights are those of exact training."""
    for k, c in ((3, 3), (4, 2), (6, 2), (6, 3)):
        policy = "cagnet15d=%d" % c if c < k else "cagnet1d"
        says = parts(k)[1]
        owned = [r["owned"] for r in says["ranks"]]
        exact, _ = train("gcn", k, None, epochs=2)
        weights, sites = train("gcn", k, policy, epochs=2)
        box.report("%s_of_%d" % (policy, k), weights != exact and "other weights" or unpredicted(sites))
        seen = [s["by_rank"] for s in sites if s["name"].startswith("train_step: rows")]
        for ranks in seen:
            width = ranks[0]["bytes_in"] / 8 / (says["nodes"] - owned[0])
            want = [(2 * 4 * width * (owned[q] * (k // c - 1) + sum(owned[q % c::c]) * (c - 1)), 2 * 4 * width * (says["nodes"] - owned[q]), 2 * (c + (c < k)))
                    for q in range(k)]
            sent = [(r["bytes_out"], r["bytes_in"], r["rounds"]) for r in ranks]
            box.report("%s_of_%d_bytes" % (policy, k), (sent != want and "%s, wanted %s" % (sent, want)) or (width not in (3, 16) and "width %s" % width))
        box.report("%s_of_%d_seen" % (policy, k), not seen and "no rows travel")
    box.refuses("no_groups", [box.path("gcn"), "train", "--data", parts(3)[0], "--ranks", 3, "--policy", "cagnet15d=2"], 1, "R915", "3 processes are no groups of 2")


def test_planned():
    """What `plan` says before a run of a policy's rows is what processes send: in whole periods of the policy as said, else between what is said."""
    whole = json.loads(box.must(box.path("gcn"), "plan", "--data", parts(3)[0], "--threads", 1, "--json").out)["train_step"]["ranks"]
    rows = sum(t["rows"] * t["row_bytes"] for t in whole["travels"] if t["kind"] == "rows")
    # all rows travel in the first run: of distgnn it comes before whole periods
    for policy, epochs, first in (("sancus=m1:3", 6, 0), ("distgnn=3", 7, 1), ("pipegcn", 4, 0), ("cagnet1d", 2, 0), ("cagnet15d=1", 2, 0), ("bns=0.2", 3, 0), ("sancus=m2:1:4", 9, 1), ("sancus=m3:0.1:4", 9, 1)):
        plan = json.loads(box.must(box.path("gcn"), "plan", "--data", parts(3)[0], "--threads", 1, "--json", "--policy", policy).out)
        p = plan["train_step"]["ranks"]["policy"]
        sites = [s for s in train("gcn", 3, policy, epochs=epochs)[1] if s["name"].startswith(("train_step: rows", "train_step: sums %"))]
        sent = sum(r["bytes_out"] for s in sites for r in s["by_rank"]) - first * rows
        runs, turns = epochs - first, sum(s["by_rank"][0]["rounds"] for s in sites)
        turns += p["vote_bytes"] and epochs * len(sites)
        most = runs * p["most_bytes"]
        box.report("planned_%s" % policy, (not runs * p["least_bytes"] - runs <= sent <= most + runs and "sent %d, planned %s in %d runs" % (sent, p, runs)) or
                   (policy[:9] not in ("sancus=m2", "sancus=m3") and p["least_bytes"] != p["most_bytes"] and "not one number: %s" % p) or
                   (turns != epochs * p["rounds"] and "%d rounds, planned %s" % (turns, p)) or (p["name"] != policy and str(p)) or
                   ("policy" in plan.get("train_metrics", {}).get("ranks", {}) and "metrics have a policy"))


def test_resume():
    """The first run after a checkpoint refreshes all rows: two epochs behind one are two first runs."""
    once = {x: n // EPOCHS for x, n in rows_of(train("gcn", 3, None)[1]).items()}
    train("gcn", 3, "sancus=m1:100", "--checkpoint", box.path("c.st"), epochs=2)
    _, sites = train("gcn", 3, "sancus=m1:100", "--resume", box.path("c.st"), epochs=4)
    box.report("resume", rows_of(sites) != once and "%s sent, of %s" % (rows_of(sites), once))


def test_refused():
    argv = [box.path("gcn"), "train", "--data", parts(3)[0], "--ranks", 3, "--policy"]
    for policy in ("", "stale", "sancus", "sancus=m1:0", "sancus=m1:1.5", "sancus=m2:4:2", "sancus=m3:-1:2", "sancus=m3:0.1", "distgnn=-1", "distgnn=2:3", "bns=0", "bns=1.5",
                   "pipegcn=1", "exact ", "cagnet15d", "cagnet15d=0", "cagnet15d=1.5", "cagnet2d"):
        box.refuses("no_%s" % policy, argv + [policy], 1, "R403", "--policy", "sancus=m3:eps:tmax", "distgnn=r")


random_data()
for test in (test_limits, test_frozen, test_adjoint, test_adjoint_f64, test_unbiased, test_drawn_rows, test_not_linear, test_in_turn, test_planned, test_resume, test_refused):
    try:
        test()
    except RuntimeError as e:
        box.report(test.__name__, e)
for number in (3, 4, 6):
    shutil.rmtree(box.path("parts%d" % number), ignore_errors=True)
box.close()
