#!/usr/bin/env python3
"""`plan --transport sim`: bytes and rounds are those of `plan` and of the ledger of processes; work is shared out as it is; times follow
from the topology and from measured times that are given.
usage: test_sim_ranks.py BUILD"""
import json
import os
import shutil
import sys

import numpy as np

import toy
from sandbox import Sandbox

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "ranks"))
import models  # noqa: E402

box = Sandbox(sys.argv[1], "sim_ranks")
RANKS = 4


def data_of(name, n, e, apart=1):
    """apart: as many graphs that no edge joins, of nodes side by side."""
    g = np.random.default_rng(n)
    each = n // apart
    ends = g.integers(0, each, (2, e)) + each * g.integers(0, apart, e)
    mask = np.arange(n) % 3 > 0
    arrays = {"edge_index": np.ascontiguousarray(ends.astype("<i8")), "x": g.standard_normal((n, 80)).astype("<f4"), "y": g.integers(0, 3, n),
              "edge_type": g.integers(0, 4, e), "train_mask": mask, "test_mask": ~mask}
    return toy.store(box.path(name), arrays, num_nodes=n, num_edges=e, num_classes=3)


def parts(data, k, method="ldg"):
    out = box.path("%s-%d" % (os.path.basename(data), k))
    if not os.path.exists(out):
        box.must(box.gnnc, "data", "partition", data, "-k", k, "-o", out, "--method", method)
    return out


def build(name, data):
    sizes = ["--set", models.sizes(name)] if models.sizes(name) else []
    box.must(box.gnnc, "build", box.write(name + ".gnn", models.text(name)), "--data", data, "--cpu=native", *sizes, "-o", box.path(name))
    return box.path(name)


def simulated(program, p, *more):
    return json.loads(box.must(program, "plan", "--data", p, "--transport", "sim", "--json", *more).out)


def file_of(name, value):
    return box.write(name, json.dumps(value))


def times_of(program, p, change):
    """A file of times, each changed as said: change(program's name, number of the step) is its seconds."""
    path = box.path("measured.json")
    if os.path.exists(path):
        os.remove(path)
    simulated(program, p, "--times", path)
    with open(path) as f:
        times = json.load(f)
    times["copy_s"] = 0
    for name, steps in times["programs"].items():
        for i, step in enumerate(steps):
            step["s"] = change(name, i)
    return file_of("times.json", times)


def test_bytes():
    """For all programs those of `plan`; of training those that processes have sent."""
    data = data_of("mid", 1500, 5000)
    for name in ("gcn", "gat", "relations"):
        program, wrong = build(name, data), None
        for k, sums in ((2, "exact"), (RANKS, "exact"), (RANKS, "local")):
            p, epochs = parts(data, k), 3
            sim = simulated(program, p, "--sums", sums)
            plan = json.loads(box.must(program, "plan", "--data", p, "--json", "--threads", 1, "--sums", sums).out)
            for key, x in plan.items():
                if not isinstance(x, dict) or "ranks" not in x:
                    continue
                once = sum(t["rows"] * t["row_bytes"] for t in x["ranks"]["travels"] if t["once"])
                want = (x["ranks"]["rounds"], x["ranks"]["bytes"], once)
                if (sim[key]["rounds"], sim[key]["bytes"], sim[key]["bytes_once"]) != want:
                    wrong = wrong or "%s of %d: %s, planned %s" % (key, k, sim[key], want)
                for way, r in sim[key].items():  # whatever the order: gathers of another shape send as many, but in more messages
                    if isinstance(r, dict) and not way.startswith(("gathers", "best")) and sum(r["bytes_by_level"].values()) != want[1]:
                        wrong = wrong or "%s of %d, %s: %s" % (key, k, way, r)
            box.must(program, "train", "--data", p, "--ranks", k, "--epochs", epochs, "--threads", 1, "--sums", sums, "--ledger", box.path("ledger.json"))
            with open(box.path("ledger.json")) as f:
                mine = [s for s in json.load(f)["sites"] if s["name"].startswith("train_step:")]
            sent = sum(r["bytes_out"] for s in mine for r in s["by_rank"])
            x = sim["train_step"]
            if sent != epochs * x["bytes"] + x["bytes_once"] or not x["bytes"]:
                wrong = wrong or "%d bytes were sent, %d a run and %d once simulated" % (sent, x["bytes"], x["bytes_once"])
        box.report("bytes_" + name, wrong)


def test_times():
    """Where computing takes no time and a byte none, a run takes alpha for each round, and with overlap no more."""
    program, p = box.path("gat"), parts(box.path("mid"), RANKS)
    alpha = file_of("alpha.json", {"levels": [{"name": "net", "alpha_s": 1, "bytes_per_s": 1e18}]})
    one = times_of(program, p, lambda name, i: 0)
    sim = simulated(program, p, "--times", one, "--topology", alpha)
    x = sim["train_step"]
    box.report("alpha", (abs(x["blocking"]["run_s"] - x["rounds"]) > 1e-5 and "%d rounds take %s" % (x["rounds"], x["blocking"])) or
               (not 1 <= x["overlap_tac"]["run_s"] < x["rounds"] and "with overlap %s" % x["overlap_tac"]))
    two = [{"name": "node", "ranks": 2, "alpha_s": 0, "bytes_per_s": 1e9}, {"name": "net", "alpha_s": 0, "bytes_per_s": 1e8, "shared_by": 2}]
    slow = simulated(program, p, "--times", one, "--topology", file_of("two.json", {"levels": two}))["train_step"]
    by_level = slow["blocking"]["bytes_by_level"]
    box.report("levels", (min(by_level.values()) <= 0 and "bytes %s" % by_level) or
               (slow["blocking"]["run_s"] < by_level["net"] / 2 / 1e8 and "quicker than its slow links: %s" % slow["blocking"]) or
               (slow["gathers_staged"]["bytes_by_level"]["net"] >= by_level["net"] and "staged gathers send as much over slow links") or
               (slow["best_gathers"] != "staged" and "the best gathers are %s" % slow["best_gathers"]))
    argv = [program, "plan", "--data", p, "--transport", "sim", "--times", one]
    box.report("same_bytes", box.must(*argv).out != box.must(*argv).out and "two runs differ")


def test_work():
    """Parts without a halo: all ranks together do the work of one process at each step, but for the weights that each reads, or each of them
    does all of it."""
    data = data_of("apart", RANKS * 600, 6000, RANKS)
    owners = box.path("owners.npy")
    np.save(owners, np.repeat(np.arange(RANKS), 600))
    program, p, wrong, shared = box.path("gcn"), parts(data, RANKS, owners), None, 0
    n = len(json.loads(box.must(program, "plan", "--data", data, "--json").out)["train_step"]["steps"])
    for k in range(n):
        x = simulated(program, p, "--times", times_of(program, p, lambda name, i: float(name == "train_step" and i == k)))["train_step"]
        all_, one = RANKS * x["blocking"]["compute_s"][0], x["one_process_s"]
        shared += abs(all_ - one) <= 0.02 * one
        if one <= 0 or min(abs(all_ - one), abs(all_ - RANKS * one)) > 0.02 * one:
            wrong = wrong or "step %d: %s together, %s of one process" % (k, all_, one)
    box.report("work", wrong or (shared < n // 2 and "only %d of %d steps are shared" % (shared, n)))


def planned_policy(program, p, policy):
    """Of a run of the training step by `plan`: rounds, and bytes of all processes, least and most; without rows of peers, the same."""
    x = json.loads(box.must(program, "plan", "--data", p, "--json", "--threads", 1, "--policy", policy).out)["train_step"]["ranks"]
    rows = [t for t in x["travels"] if t["kind"] == "rows" and not t["once"]]
    rounds, bytes_ = x["rounds"] - len(rows), x["bytes"] - sum(t["rows"] * t["row_bytes"] for t in rows)
    own = x.get("policy", {"rounds": len(rows), "least_bytes": x["bytes"] - bytes_, "most_bytes": x["bytes"] - bytes_, "vote_bytes": 0})
    return rounds + own["rounds"], [bytes_ + own[k] + own["vote_bytes"] for k in ("least_bytes", "most_bytes")], rounds


def test_policies():
    """`plan --policy auto`: what travels is what `plan` says of each policy, alpha is paid in each round, and the quickest is that of a search over all of
    them, each simulated alone, whatever the links."""
    program, p = box.path("gcn"), parts(box.path("mid"), RANKS)
    alpha = file_of("alpha.json", {"levels": [{"name": "net", "alpha_s": 1, "bytes_per_s": 1e18}]})
    free = file_of("free.json", {"levels": [{"name": "net", "alpha_s": 0, "bytes_per_s": 1e18}]})
    none, long_ = (os.rename(times_of(program, p, lambda name, i: s), box.path(f)) or box.path(f) for s, f in ((0, "zero.json"), (4, "long.json")))
    auto = simulated(program, p, "--policy", "auto", "--times", none, "--topology", alpha)["policies"]["all"]
    names = [x["name"] for x in auto]
    for x in auto:
        rounds, bytes_, without = planned_policy(program, p, x["name"])
        share = {"sancus=m1:2": 0.5}.get(x["name"], 1)  # of runs in which rows travel
        waits = without + (rounds - without) * share
        box.report("policy_%s" % x["name"], (x["rounds"] != rounds and "%d rounds, planned %d" % (x["rounds"], rounds)) or
                   (max(abs(a - b) for a, b in zip(x["bytes"], bytes_)) > 2 and "%s bytes, planned %s" % (x["bytes"], bytes_)) or
                   (abs(x["waiting_s"][1] - waits) > 1e-5 and "takes %s, %s rounds" % (x["waiting_s"], waits)) or
                   (x["exact"] != (x["name"] == "exact" or x["name"].startswith("cagnet")) and "exact: %s" % x["exact"]))
    box.report("policy_names", {"exact", "cagnet1d", "cagnet15d=2", "pipegcn", "bns=0.1"} - set(names) and str(names))
    late, never = (simulated(program, p, "--policy", name, "--times", long_, "--topology", alpha)["policies"]["all"][1]["overlap_s"][1] for name in ("pipegcn", "sancus=m1:1000000"))
    box.report("policy_late", abs(late - never) > 1e-3 and "rows that travel until the next run take %s s, none %s" % (late, never))
    with open(none) as f:
        copying = dict(json.load(f), copy_s=1e-6)
    copied = {x["name"]: x["waiting_s"][1] for x in simulated(program, p, "--policy", "auto", "--times", file_of("copying.json", copying), "--topology", free)["policies"]["all"]}
    rows, blocks = (copied[x] - 2 * copied["sancus=m1:2"] + copied["exact"] for x in ("exact", "cagnet1d"))  # beside a run without rows
    box.report("policy_copies", not 0 < rows / 3 < blocks < rows and "blocks, which are not packed: %s" % copied)
    chosen = set()
    times = times_of(program, p, lambda name, i: 1e-5)
    for name, levels in (("flat", [{"name": "net", "alpha_s": 5e-6, "bytes_per_s": 12.5e9}]), ("slow", [{"name": "net", "alpha_s": 0, "bytes_per_s": 1e7}]),
                         ("messages", [{"name": "node", "ranks": 2, "alpha_s": 1e-7, "bytes_per_s": 5e10},
                                       {"name": "net", "alpha_s": 1e-6, "bytes_per_s": 1.25e9, "shared_by": 2, "message_s": 3e-4}])):
        links = file_of(name + ".json", {"levels": levels})
        x = simulated(program, p, "--policy", "auto", "--times", times, "--topology", links)
        alone = {n: simulated(program, p, "--transport", "sim", "--policy", n, "--times", times, "--topology", links)["policies"]["all"][-1] for n in names}
        best, exact = x["policies"]["best"], x["policies"]["best_exact"]
        chosen.add(exact)
        whole = x["train_step"]
        box.report("policy_best_%s" % name, (alone[best]["overlap_s"][1] > 1.05 * min(a["overlap_s"][1] for a in alone.values()) and "%s of %s" % (best, alone)) or
                   (not alone[exact]["exact"] and "%s is not exact" % exact) or
                   (alone[exact]["overlap_s"][1] > 1.05 * min(a["overlap_s"][1] for a in alone.values() if a["exact"]) and "%s of %s" % (exact, alone)) or
                   (alone["exact"]["waiting_s"][0] != whole["blocking"]["run_s"] and "exact training takes %s" % alone["exact"]) or
                   (alone["exact"]["overlap_s"][0] != whole["overlap_tac"]["run_s"] and "with overlap exact training takes %s" % alone["exact"]))
    box.report("policy_choices", len(chosen) < 2 and "the same on all links: %s" % chosen)
    attention = simulated(box.path("gat"), p, "--policy", "auto", "--times", times_of(box.path("gat"), p, lambda name, i: 0))["policies"]["all"]
    box.report("policy_refused", [x["name"] for x in attention if x["refused"]] != ["bns=0.1"] and str(attention))
    box.refuses("policy_auto", [program, "train", "--data", p, "--ranks", RANKS, "--policy", "auto"], 1, "R403", "--policy", "`auto`")


def test_refused():
    program, p = box.path("gcn"), parts(box.path("mid"), 2)
    argv = [program, "plan", "--data", p, "--transport", "sim"]
    bad = file_of("bad.json", {"levels": [{"name": "net", "alpha_s": 1}]})
    box.refuses("topology", argv + ["--topology", bad], 2, "R913", "bytes_per_s", "bad.json")
    box.refuses("no_topology", argv + ["--topology", box.path("none.json")], 6, "R601", "none.json")
    box.refuses("not_simulated", [program, "plan", "--data", p, "--topology", bad], 1, "R403", "--topology", "--transport sim")
    other = times_of(box.path("gat"), p, lambda name, i: 1)
    box.refuses("other_times", argv + ["--times", other], 3, "R914", "times.json")
    box.refuses("whole_data", [program, "plan", "--data", box.path("mid"), "--transport", "sim"], 3, "R912", "found no parts")
    box.refuses("train", [program, "train", "--data", p, "--transport", "sim"], 1, "R403", "`sim`", "`plan`")
    box.refuses("ranks", argv + ["--ranks", 2], 1, "R403", "--ranks")
    box.refuses("auto_elsewhere", [program, "plan", "--data", p, "--policy", "auto", "--transport", "shm"], 1, "R403", "--transport", "simulates all ranks")
    box.refuses("blas", argv + ["--blas", "on"], 1, "R911", "--blas")
    box.refuses("nowhere", argv + ["--times", box.path("none", "t.json")], 6, "R603", "none")
    damaged = box.path("damaged")
    shutil.copytree(p, damaged)
    os.remove(os.path.join(damaged, "part-1", "x.npy"))
    with open(os.path.join(damaged, "part-1", "x.npy"), "w") as f:
        f.write("nothing")
    r = box.run(*[damaged if x == p else x for x in argv])
    box.report("damaged", (r.rc != 2 and "exit code %s: %s" % (r.rc, r.err)) or ("part-1" not in r.err and r.err) or (r.err.count("error[") != 1 and r.err))


for test in (test_bytes, test_times, test_work, test_policies, test_refused):
    try:
        test()
    except RuntimeError as e:
        box.report(test.__name__, e)
box.close()
