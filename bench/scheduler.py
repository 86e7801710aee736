#!/usr/bin/python3
"""The selector against every way to run a step, on graphs that it was not tuned on.

usage: scheduler.py [--out DIR] [--gnnc FILE] [--threads 2] [--iters 5] [--tuned] [--graphs A,B] [--models A,B] [--before "CMD .."]

Makes graphs of ten kinds (--tuned: other ten, on which the estimates of the cost model were fitted), probes the machine, builds a
few layers, and runs every step in every way that it can run (how far ahead rows are asked for, chunks, cut; `bench --ways`), each
beside its predicted time. Prints per graph and layer, then over all
  - rank correlation: of pairs of ways of one step whose measured times differ by more than 10 %, in the runs with even numbers and in
    those with odd ones, the share that the prediction orders the same less the share that it orders the other way;
  - loss: the time of the way that the selector picks over that of the best, per step; the best by one half of the runs, both times
    by the other half. A time is the median over the runs of what the way took beside the other ways of the same run.
  - gain: the time that all steps take as the plan says, over the time by the selector's picks, less one; and by the best ways.
Steps below 0.1 ms and those that gather nothing (6 ways, which are alike) are left out. --before is put in front of each timed
command. Writes DIR/scheduler.json.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rows  # noqa: E402
from graph import save  # noqa: E402
from ours import HERE  # noqa: E402

LEAST_MS, LEAST_WAYS, DIFFER = 0.1, 24, 1.1
MODELS = [("sum", 64), ("sum", 16), ("gat", 64), ("sage_max", 64), ("custom", 16)]


# ---- graphs: sources, targets, nodes ----------------------------------------------------------------------------------

def both(a, b):
    return np.concatenate([a, b]), np.concatenate([b, a])


def rmat(rng, levels, edges, quadrants):
    a, b, (p, q, r) = np.zeros(edges, np.int64), np.zeros(edges, np.int64), np.cumsum(quadrants)[:3]
    for _ in range(levels):
        u = rng.random(edges, np.float32)
        a, b = 2 * a + (u >= q), 2 * b + (((u >= p) & (u < q)) | (u >= r))
    name = rng.permutation(1 << levels)
    return name[a], name[b], 1 << levels


def steep(rng):
    return rmat(rng, 17, 900_000, (.68, .14, .14, .04))


def flat(rng):
    return rmat(rng, 17, 900_000, (.45, .22, .22, .11))


def uniform(rng):
    return rng.integers(0, 250_000, 900_000), rng.integers(0, 250_000, 900_000), 250_000


def hub(rng):
    n = 150_000
    src = rng.permutation(n)[np.minimum(rng.zipf(1.7, 600_000) - 1, n - 1)]
    return np.concatenate([src, rng.integers(0, n, 300_000)]), np.concatenate([rng.integers(0, n, 600_000), np.full(300_000, 77)]), n


def ring(rng):
    v = np.arange(220_000)
    return np.concatenate([(v + d) % len(v) for d in (-2, -1, 1, 2)]), np.tile(v, 4), len(v)


def grid(rng):
    side = 460
    name, at = rng.permutation(side * side), np.arange(side * side).reshape(side, side)
    pairs = [both(at[1:].ravel(), at[:-1].ravel()), both(at[:, 1:].ravel(), at[:, :-1].ravel())]
    return name[np.concatenate([p[0] for p in pairs])], name[np.concatenate([p[1] for p in pairs])], side * side


def stars(rng):
    n = 300_000
    name, leaf = rng.permutation(n), np.arange(1000, n)
    src, dst = both(name[leaf], name[leaf % 1000])
    return src, dst, n


def thin(rng):
    return rng.integers(0, 500_000, 450_000), rng.integers(0, 500_000, 450_000), 500_000


def dense(rng):
    return rng.integers(0, 3000, 1_000_000), rng.integers(0, 3000, 1_000_000), 3000


def shop(rng):
    users, items = 180_000, 20_000
    item = users + np.minimum(rng.zipf(1.3, 500_000) - 1, items - 1)
    src, dst = both(rng.integers(0, users, 500_000), item)
    return src, dst, users + items


def graph500(rng):
    return rmat(rng, 16, 1_000_000, (.57, .19, .19, .05))


def even(rng):
    return rng.integers(0, 120_000, 1_000_000), rng.integers(0, 120_000, 1_000_000), 120_000


def source(rng):
    """One node that every other hears."""
    n = 160_000
    return np.concatenate([np.full(n, 5), rng.integers(0, n, 700_000)]), np.concatenate([np.arange(n), rng.integers(0, n, 700_000)]), n


def small_world(rng):
    n = 150_000
    dst = np.tile(np.arange(n), 6)
    src = (dst + np.repeat([-3, -2, -1, 1, 2, 3], n)) % n
    far = rng.random(6 * n) < 0.2
    src[far] = rng.integers(0, n, far.sum())
    return src, dst, n


def torus(rng):
    side = 54
    name, at = rng.permutation(side ** 3), np.arange(side ** 3).reshape(side, side, side)
    pairs = [both(at.ravel(), np.roll(at, 1, axis).ravel()) for axis in range(3)]
    return name[np.concatenate([p[0] for p in pairs])], name[np.concatenate([p[1] for p in pairs])], side ** 3


def tree(rng):
    n = 350_000
    child = np.arange(1, n)
    src, dst = both(child, (rng.random(n - 1) * child).astype(np.int64))
    return src, dst, n


def authors(rng):
    n = 300_000
    return rng.permutation(n)[np.minimum(rng.zipf(2.1, 700_000) - 1, n - 1)], rng.integers(0, n, 700_000), n


def clique(rng):
    return rng.integers(0, 1500, 800_000), rng.integers(0, 1500, 800_000), 1500


def towns(rng):
    """Communities of 64 neighbours in the order of ids; one edge in ten leaves."""
    n, m = 130_000, 900_000
    src = rng.integers(0, n, m)
    dst = np.minimum(src // 64 * 64 + rng.integers(0, 64, m), n - 1)
    far = rng.random(m) < 0.1
    dst[far] = rng.integers(0, n, far.sum())
    return src, dst, n


def panel(rng):
    people, topics = 150_000, 1000
    src, dst = both(rng.integers(0, people, 450_000), people + rng.integers(0, topics, 450_000))
    return src, dst, people + topics


TUNED = [steep, flat, uniform, hub, ring, grid, stars, thin, dense, shop]  # the estimates of runtime/cost.c were fitted on these
GRAPHS = [graph500, even, source, small_world, torus, tree, authors, clique, towns, panel]


def make(folder, kind, seed):
    """Edges by target; inputs are drawn by the executable."""
    if not os.path.exists(os.path.join(folder, "meta.json")):
        os.makedirs(folder, exist_ok=True)
        src, dst, n = kind(np.random.default_rng(seed))
        order = np.lexsort((src, dst))
        save(folder, "edge_index", np.stack([src[order], dst[order]]))
        with open(os.path.join(folder, "meta.json"), "w") as f:
            json.dump({"name": kind.__name__, "num_nodes": int(n), "num_edges": len(src)}, f)
    return folder


# ---- figures ----------------------------------------------------------------------------------------------------------

def settle(step):
    """Each way's time in the runs with even numbers and in those with odd ones, from its single runs: the median of what it took over
    the median way in the same run, so that neither minutes in which the machine is slow nor a run that was disturbed decide."""
    levels = [statistics.median(run) for run in zip(*(w["runs_ms"] for w in step["ways"]))]
    level = statistics.median(levels)
    for w in step["ways"] + [step["pick"], step["plan"]]:
        halves = [[t / l for t, l in zip(w["runs_ms"][h::2], levels[h::2])] for h in (0, 1)]
        w["halves_ms"] = [statistics.median(h) * level for h in halves]
        w["ms"] = sum(w["halves_ms"]) / 2


def agreement(ways):
    """(pairs that differ in both halves of the runs, ordered the same less ordered the other way)"""
    n = score = 0
    for i, a in enumerate(ways):
        for b in ways[:i]:
            low, high = sorted((a, b), key=lambda w: w["ms"])
            if any(h <= DIFFER * l for l, h in zip(low["halves_ms"], high["halves_ms"])):
                continue
            n += 1
            score += (high["predicted_ms"] > low["predicted_ms"]) - (high["predicted_ms"] < low["predicted_ms"])
    return n, score


def loss(step):
    """How much longer the pick takes than the best. The best is chosen by one half of the runs and both are timed by the other, so
    that the least of many noisy figures is not held against the pick."""
    both_ways = [step["pick"]["halves_ms"][1 - h] / min(step["ways"], key=lambda w: w["halves_ms"][h])["halves_ms"][1 - h] - 1
                 for h in (0, 1)]
    return max(0, sum(both_ways) / 2)


def best_ms(step):
    """Of the way that is the best in one half of the runs, in the other half."""
    return sum(min(step["ways"], key=lambda w: w["halves_ms"][h])["halves_ms"][1 - h] for h in (0, 1)) / 2


def judge(steps):
    """The figures of steps: a dict."""
    steps = [s for s in steps if min(w["ms"] for w in s["ways"]) >= LEAST_MS and len(s["ways"]) >= LEAST_WAYS]
    pairs = [agreement(s["ways"]) for s in steps]
    total, possible = sum(n for n, _ in pairs), sum(len(s["ways"]) * (len(s["ways"]) - 1) // 2 for s in steps)
    losses = [loss(s) for s in steps]
    plan, pick, best = (sum(ms(s) for s in steps) for ms in (lambda s: s["plan"]["ms"], lambda s: s["pick"]["ms"], best_ms))
    return {"steps": len(steps), "pairs": total, "share": total / max(possible, 1),
            "rank": sum(s for _, s in pairs) / total if total else None,
            "gain": plan / pick - 1 if pick else 0, "gain_best": plan / best - 1 if best else 0, "median": statistics.median(losses) if losses else 0, "worst": max(losses, default=0),
            "off": statistics.median([abs(s["pick"]["predicted_ms"] / s["pick"]["ms"] - 1) for s in steps]) if steps else 0}


def text(name, f):
    rank = "   - " if f["rank"] is None else "%5.2f" % f["rank"]
    return "%-24s %3d steps  %5d pairs (%3.0f %% differ)  rank %s  loss median %4.1f %% worst %5.1f %%  gain %4.1f %% of %4.1f %%  time off %3.0f %%" % (
        name, f["steps"], f["pairs"], 100 * f["share"], rank, 100 * f["median"], 100 * f["worst"], 100 * f["gain"], 100 * f["gain_best"], 100 * f["off"])


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = os.path.dirname(HERE)
    ap.add_argument("--out", default=os.path.join(root, "build", "bench", "scheduler"))
    ap.add_argument("--gnnc", default=os.path.join(root, "build", "gnnc")), ap.add_argument("--threads", default="2")
    ap.add_argument("--iters", default="5"), ap.add_argument("--graphs"), ap.add_argument("--tuned", action="store_true")
    ap.add_argument("--models"), ap.add_argument("--before", default="")
    a = ap.parse_args()
    env = dict(os.environ, XDG_CACHE_HOME=os.path.abspath(os.path.join(a.out, "cache")))
    os.makedirs(env["XDG_CACHE_HOME"], exist_ok=True)

    def run(*argv):
        return subprocess.run([str(x) for x in argv], stdout=subprocess.PIPE, env=env, check=True, timeout=300).stdout.decode()

    before = a.before.split()
    print(run(*before, a.gnnc, "machine", "--probe", "--threads", a.threads), flush=True)
    binaries = {}
    for model, width in MODELS:
        if a.models and model not in a.models.split(","):
            continue
        name = "%s %d" % (model, width)
        binaries[name] = os.path.join(a.out, name.replace(" ", "-"))
        run(a.gnnc, "build", os.path.join(HERE, "models", model + ".gnn"), "--cpu=native", "--disable=connect", "--set",  # kernels one by one: each has its own time
            ",".join("%s=%d" % d for d in rows.dims(model, width).items()), "-o", binaries[name])
    found, raw = [], {}
    for seed, kind in enumerate(TUNED if a.tuned else GRAPHS):
        if a.graphs and kind.__name__ not in a.graphs.split(","):
            continue
        data, of_graph = make(os.path.join(a.out, kind.__name__), kind, seed + 11), []
        for name, binary in binaries.items():
            got = json.loads(run(*before, binary, "bench", "--ways", "--data", data, "--iters", a.iters, "--threads", a.threads))
            raw["%s %s" % (kind.__name__, name)] = got
            steps = [s for program in ("infer", "grad") for s in got[program]["steps"]]
            for s in steps:
                settle(s)
            print(text("  %s %s" % (kind.__name__, name), judge(steps)), flush=True)
            of_graph += steps
        found += of_graph
        print(text(kind.__name__, judge(of_graph)), flush=True)
        with open(os.path.join(a.out, "scheduler.json"), "w") as f:
            json.dump(raw, f)
    print(text("all", judge(found)))


if __name__ == "__main__":
    main()
