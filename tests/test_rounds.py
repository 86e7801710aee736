#!/usr/bin/env python3
"""The policy sar: rows of peers come in rounds while steps sum over edges. Gradients are those of exact training within rounding, bytes are those
predicted, and planned memory is smaller. usage: test_rounds.py BUILD"""
import json
import os
import sys

import numpy as np

import toy
from sandbox import Sandbox

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "ranks"))
import models  # noqa: E402
from ledger import unpredicted  # noqa: E402

box = Sandbox(sys.argv[1], "rounds")
# what travels whole, though kernels of sums are apart: of maxima and of values that are stored for each edge
WHOLE = {"edge_conv"}
MOVED = {"gat": 3, "transformer": 6, "behind": 5}  # so many values come in rounds, the others whole
NAMES = ["gcn", "sage", "gat", "gatv2", "transformer", "gin", "appnp", "edge_conv", "gated", "gine", "both_ends", "relations", "vectors", "kinds", "table"]


def random_data():
    g, n, e = np.random.default_rng(6), 240, 1500
    arrays = dict(models.random_arrays(n, e), w=g.standard_normal((e, 3)).astype("<f4"), edge_type=g.integers(0, 4, e))
    return toy.store(box.path("data"), arrays, num_nodes=n, num_edges=e, num_classes=3)


def parts(k):
    out = box.path("parts%d" % k)
    if not os.path.exists(out):
        box.must(box.gnnc, "data", "partition", box.path("data"), "-k", k, "-o", out, "--method", "random", "--seed", 1)
    return out


def build(name, *more, text=None):
    sizes = models.sizes(name) if name in models.MODELS else ""
    source = box.write("%s.gnn" % name, text or models.text(name))
    box.must(box.gnnc, "build", source, "--data", box.path("data"), *(["--set", sizes] if sizes else []), "--cpu=native", "--quick", *more, "-o", box.path(name))


def train(name, k, *more, epochs=1):
    """The gradients of the first epochs, in means, and what the processes sent; k = 0: one process."""
    where = ["--data", parts(k), "--ranks", k, "--ledger", box.path("l.json")] if k else ["--data", box.path("data"), "--blas", "off"]
    box.must(box.path(name), "train", *where, "--epochs", epochs, "--seed", 3, "--checkpoint", box.path("c.st"), *more)
    with open(box.path("c.st"), "rb") as f:
        size = int.from_bytes(f.read(8), "little")
        head, data = json.loads(f.read(size)), f.read()
    found = {n: np.frombuffer(data[slice(*t["data_offsets"])], "<f8") for n, t in head.items() if n.startswith("adam.m.") and t["dtype"] == "F64"}
    if not k:
        return found, None
    with open(box.path("l.json"), encoding="utf-8") as f:
        return found, json.load(f)["sites"]


def off(one, other):
    """How far gradients are from others, of the largest."""
    most = max(np.abs(x).max() for x in one.values())
    return max(np.abs(one[n] - other[n]).max() for n in one) / most


def in_rounds(sites, k):
    """Exchanges of the training step whose rows come in rounds: of all steps that read them, k - 1 each."""
    rounds = [s["by_rank"][0]["rounds"] for s in sites if s["name"].startswith("train_step: rows")]
    return sum(n > 1 and n % (k - 1) == 0 for n in rounds), len(rounds)


MORE = {
    # an input that is read at both ends of an edge, beside a value that comes in rounds
    "beside": "  param u: [F] = glorot\n  h = tanh(linear(x, O = 8))\n  return linear(tanh(sum_in(h.src * sum(x.src * x.dst * u, F))), O = C)",
    # values of edges that a sum of their targets is in, which both ends sum again
    "behind": "  h = tanh(linear(x, O = 8))\n  q = sum_in(h.src)\n  g = linear(x, O = 8)\n  e = sigmoid(sum(q.dst * g.src, O))\n"
              "  return linear(tanh(sum_in(e * g.src) + sum_out(e * g.dst)), O = C)",
    # a maximum of what comes whole, for its sake, and a sum of it; and a sum of another value
    "maxima": "  h = tanh(linear(x, O = 8))\n  g = tanh(linear(x, O = 8))\n  return linear(tanh(max_in(h.src) + sum_in(h.src)) + sum_in(g.src), O = C)",
}


def test_values():
    for name in NAMES + list(MORE):
        text = "model net(x: node[F]) -> node[C] {\n%s\n}\n" % MORE[name] + models.TRAIN % {"call": "data.x"} if name in MORE else None
        build(name, "--sums-apart", "--dtype", "f64", text=text)
        exact, _ = train(name, 0)
        for k, policy in ((2, "sar"), (3, "sar=1"), (5, "sar=2")) if name in ("gcn", "gat") else ((4, "sar"),):
            found, sites = train(name, k, "--policy", policy, "--threads", 2)
            moved, all_rows = in_rounds(sites, k)
            box.report("%s_%d_%s" % (name, k, policy), (not off(exact, found) <= 1e-12 and "off by %g" % off(exact, found)) or unpredicted(sites) or
                       (k > 2 and all_rows and name not in WHOLE and not moved and "nothing comes in rounds") or (name in WHOLE and moved == all_rows and "all comes in rounds") or
                       (k > 2 and name in MOVED and moved != MOVED[name] and "%d values come in rounds" % moved))


def planned(name, k, *more):
    return json.loads(box.must(box.path(name), "plan", "--data", parts(k), "--threads", 1, "--json", *more).out)


DEEP = """model net(x: node[F]) -> node[C] {
  a = gcn(O = 64)
  b = gcn(O = 64)
  c = gcn(O = 64)
  d = linear(O = C)
  return d(relu(c(relu(b(relu(a(dropout(x, 0.1))))))))
}
""" + models.TRAIN % {"call": "data.x"}


def test_memory():
    """What a process has of a value is its own rows and those of two others at most, whatever the number of processes; in metrics as well."""
    build("deep", "--sums-apart", text=DEEP)
    with open(os.path.join(parts(8), "partition.json"), encoding="utf-8") as f:
        halo = [r["halo"] for r in json.load(f)["ranks"]]
    for program in ("train_step", "metrics"):
        whole, some = [planned("deep", 8, *more)[program]["ranks"]["peak_bytes"]["most"] for more in ([], ["--policy", "sar"])]
        box.report("memory_%s" % program, not some < (0.9 if program == "metrics" else 0.8) * whole and "%d of %d bytes" % (some, whole))
    box.report("memory_halo", min(halo) < 100 and "a halo of few rows shows nothing: %s" % halo)


def test_planned():
    """Bytes and rounds that `plan` says are those of a run, also where some rows come in rounds and others (scores of attention) all at once."""
    for name in ("deep", "gat"):
        policy = planned(name, 5, "--policy", "sar")["train_step"]["ranks"]["policy"]
        _, sites = train(name, 5, "--policy", "sar", epochs=2)
        seen = [s for s in sites if s["name"].startswith("train_step: rows")]
        sent, rounds = sum(r["bytes_out"] for s in seen for r in s["by_rank"]), sum(s["by_rank"][0]["rounds"] for s in seen)
        box.report("planned_%s" % name, ((policy["least_bytes"], policy["most_bytes"], policy["rounds"]) != (sent // 2, sent // 2, rounds // 2) and "%s, sent %d in %d" % (policy, sent, rounds)) or
                   (not sent and "nothing travels") or (name == "gat" and in_rounds(sites, 5)[0] in (0, len(seen)) and "all or nothing comes in rounds: %s" % [(s["name"], s["by_rank"][0]["rounds"]) for s in seen]))


def test_bits():
    """Two runs, and other numbers of threads and of rounds on their way, have the same bytes; so has a run that goes on from a checkpoint."""
    seen = []
    for more in (["--threads", 1], ["--threads", 3], ["--policy", "sar=3"], ["--overlap", "off"]):
        box.must(box.path("deep"), "train", "--data", parts(5), "--ranks", 5, "--epochs", 3, "--seed", 3, "--save", box.path("w.st"), *([] if "--policy" in more else ["--policy", "sar"]), *more)
        with open(box.path("w.st"), "rb") as f:
            seen.append(f.read())
    box.report("bits", len(set(seen)) > 1 and "%d different weights" % len(set(seen)))
    train("deep", 5, "--policy", "sar", epochs=1)
    box.must(box.path("deep"), "train", "--data", parts(5), "--ranks", 5, "--epochs", 3, "--resume", box.path("c.st"), "--save", box.path("w.st"), "--policy", "sar")
    with open(box.path("w.st"), "rb") as f:
        box.report("resume", f.read() != seen[0] and "other weights")


def test_simulated():
    """`plan --transport sim` replays the rounds: those of `plan`, beside what travels otherwise."""
    argv = [box.path("deep"), "plan", "--data", parts(5), "--policy", "sar", "--threads", 1, "--json"]
    ranks = json.loads(box.must(*argv).out)["train_step"]["ranks"]
    others = [t for t in ranks["travels"] if t["kind"] != "rows" and not t["once"]]
    wanted = (ranks["policy"]["most_bytes"] + sum(t["rows"] * t["row_bytes"] for t in others), ranks["policy"]["rounds"] + sum(t["rounds"] for t in others))
    said = {x["name"]: x for x in json.loads(box.must(*argv, "--transport", "sim").out)["policies"]["all"]}["sar"]
    box.report("simulated", (said["bytes"][0], said["rounds"]) != wanted and "%s, wanted %s" % (said, wanted))


def test_refused():
    argv = ["train", "--ranks", 5, "--data", parts(5), "--policy"]
    for name, *how in (("pna", "--sums-apart"), ("far_totals", "--sums-apart"), ("gat",)):  # maxima; a total of edges; sums that are not apart
        build(name, *how)
        box.refuses("no_rounds_%s" % name, [box.path(name)] + argv + ["sar"], 1, "R915", "nothing but sum over edges", "--sums-apart")
    for policy in ("sar=0", "sar=1.5", "sar=x"):
        box.refuses("no_%s" % policy, [box.path("deep")] + argv + [policy], 1, "R403", "--policy", "sar=depth")


random_data()
for test in (test_values, test_memory, test_planned, test_bits, test_simulated, test_refused):
    try:
        test()
    except RuntimeError as e:
        box.report(test.__name__, e)
box.close()
