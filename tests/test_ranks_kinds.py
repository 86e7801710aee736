#!/usr/bin/env python3
"""Several processes train programs of graphs with several kinds of nodes: parts as numpy cuts them, weights, metrics and
results with the bytes of one process, what travels as `plan` says it, and what is refused. usage: test_ranks_kinds.py BUILD"""
import json
import os
import shutil
import sys

import numpy as np

import toy
from sandbox import Sandbox

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "ranks"))
from ledger import unpredicted  # noqa: E402
from models import EMBED, RELATIONS, SCHEMA, TRAIN_KINDS as TRAIN, WALKS, arrays  # noqa: E402

box = Sandbox(sys.argv[1], "ranks_kinds")

HGT = SCHEMA % "  reverse all\n" + """
model net(x: node(all)[F]) -> node(paper)[C] {
  h = hgt(forall t { tanh(linear(O = 8)(x[t])) }, H = 2, O = 8)
  return linear(dropout(h[paper], 0.3), O = C)
}
""" + TRAIN % (("data.x",) * 2)
# A kind without features: a row is learned for each of its nodes.
TABLE = HGT.replace("  h = hgt(forall t { tanh", "  param topics: node(subject)[8] = normal(0, 0.1)\n  h = hgt(forall t { if t == subject then topics else tanh")
TABLE = TABLE.replace("  seed 0\n", "  stop_early(test_acc, patience = 50)\n  seed 0\n")
# Metapaths, by a relation and by a column, whose pairs the parts hold.
PATHS = SCHEMA % """  edge shares: paper -> paper = compose(reverse(writes), writes)
  edge same: paper -> paper = compose(about, reverse(about))
""" + """
model net(x: node(paper)[F]) -> node(paper)[C] {
  papers = forall t { if t == paper { dropout(x, 0.2) } }
  return linear(han(papers, H = 2, O = 4, drop = 0.3)[paper], O = C)
}
""" + TRAIN % (("data.paper.x",) * 2)
# Its metapath is a relation of the data.
HAN = """schema library {
  node paper
  edge cites: paper -> paper
  edge shares: paper -> paper
}

model net(x: node(all)[F]) -> node(paper)[C] {
  return linear(dropout(han(x, H = 2, O = 4, drop = 0.3)[paper], 0.3), O = C)
}
""" + TRAIN % (("data.x",) * 2)
# One kind, and relations that are some of one array's edges; the random numbers of those are numbered anew.
SOME = """schema library {
  node paper
  edge cites: paper -> paper = data.edge_index where data.edge_type == 0
  edge extends: paper -> paper = data.edge_index where data.edge_type == 2
}

model net(x: node(paper)[F]) -> node(paper)[C] {
  h = tanh(linear(O = 8)(x))
  e = over cites { sum_in(relu(linear(O = 8)(h.src)) * dropout(ones(edge(cites)), 0.5)) }
  f = over extends { max_in(h.src) }
  return linear(e + f, O = C)
}
""" + TRAIN % (("data.x",) * 2)

# A folder that names no relations: edges of one kind, and a column of it, which is read as numbers as well.
BARE = """schema papers {
  node paper, topic
  edge cites: paper -> paper = data.edge_index
  edge about: paper -> topic = data.subject
  reverse about
}

model net(x: node(paper)[F], subject: node(paper) index[7]) -> node(paper)[C] {
  param topics: node(topic)[8] = normal(0, 0.1)
  param table: [7, 8] = normal(0, 1)
  h = tanh(linear(O = 8)(x)) + table[subject]
  t = tanh(topics + over about { sum_in(linear(h, O = 8).src) })
  u = over rev_about { sum_in(t.src) }
  return linear(relu(h + u + over cites { max_in(dropout(h, 0.3).src) }), O = C)
}
""" + TRAIN % (("data.x, data.subject",) * 2)


def store(name, a, **meta):
    return toy.store(box.path(name), a, **dict({"relations": RELATIONS, "num_authors": len(a["author.x"])}, **meta))


def parts(data, k, method, *more, out=None):
    out = out or box.path("%s.%s%d%s" % (os.path.basename(data), method, k, "".join(more[:1])))
    if not os.path.exists(out):
        box.must(box.gnnc, "data", "partition", data, "-k", k, "-o", out, "--method", method, "--seed", 3, *more)
    return out


def build(name, text, data, *more):
    classes = ["--set", "C=3"] if "[C]" in text else []
    box.must(box.gnnc, "build", box.write(name + ".gnn", text), "--data", data, *classes, "--quick", *more, "-o", box.path(name))
    return box.path(name)


def contents(name):
    with open(box.path(name), "rb") as f:
        return f.read()


def train(program, data, *more, ranks=1, epochs=3):
    box.must(program, "train", "--data", data, "--epochs", epochs, "--threads", 1, "--save", box.path("w.st"), "--metrics", box.path("m.jsonl"),
             *(["--ranks", ranks] if ranks > 1 else ["--blas", "off"]), *more)
    return contents("w.st"), contents("m.jsonl")


def compare(name, program, data, cases, *more):
    one = train(program, data)
    for k, method in cases:
        several = train(program, parts(data, k, method, *more), ranks=k)
        what = "weights" if one[0] != several[0] else "metrics" if one[1] != several[1] else None
        if what:
            return box.report(name, "%d parts by %s: other %s" % (k, method, what))
    box.report(name, None)


# ---- parts ---------------------------------------------------------------------------------------------------------


def cut(a, owner, r):
    """Part r of the data: each kind's rows (inner, other owned ones, halo), each relation's edges; owner by kind."""
    ends = {n: (f, t, (np.arange(len(a["paper.about"])), a["paper.about"]) if n == "about" else a[n + ".edge_index"]) for n, (f, t) in RELATIONS.items()}
    border, halo, edges = ({t: set() for t in owner} for _ in range(2)), None, {}
    border, halo = border
    for n, (f, t, (src, dst)) in ends.items():
        own = owner[f][src] == r, owner[t][dst] == r
        edges[n] = np.flatnonzero(own[0] | own[1])
        for e in np.flatnonzero(own[0] != own[1]):
            (border if own[0][e] else halo)[f].add(src[e])
            (border if own[1][e] else halo)[t].add(dst[e])
    halo["subject"] |= {a["paper.about"][v] for v in halo["paper"]} - set(np.flatnonzero(owner["subject"] == r))
    rows = {}
    for t, o in owner.items():
        mine = np.flatnonzero(o == r)
        at_border = np.isin(mine, list(border[t]))
        rows[t] = np.concatenate([mine[~at_border], mine[at_border], np.sort(np.array(list(halo[t]), int))]), int(np.sum(~at_border)), len(mine)
    local = {}
    for t, (ids, _, _) in rows.items():
        local[t] = np.full(len(owner[t]), -1)
        local[t][ids] = np.arange(len(ids))
    edges["about"] = np.sort(rows["paper"][0])
    out = {"paper.about": local["subject"][a["paper.about"][rows["paper"][0]]]}
    for n, (f, t, (src, dst)) in ends.items():
        if n != "about":
            out[n + ".edge_index"], out["edge_id." + n] = np.stack([local[f][src[edges[n]]], local[t][dst[edges[n]]]]), edges[n]
    for t, (ids, _, owned) in rows.items():
        out["node_id." + t], out["halo_owner." + t] = ids, owner[t][ids[owned:]]
    for name, x in a.items():
        head = name.split(".")[0]
        if name not in out:
            out[name] = x[rows[head][0] if head in rows else edges[head]]
    return out, {t: {"nodes": len(owner[t]), "owned": owned, "inner": inner, "halo": len(ids) - owned} for t, (ids, inner, owned) in rows.items()}


def test_parts():
    a = arrays(papers=60, authors=31, subjects=5, writes=90, cites=80)
    data = store("small", a)
    for k, method in (3, "random"), (4, "contiguous"), (2, "ldg"), (1, "random"):
        p, wrong = parts(data, k, method), None
        with open(os.path.join(p, "partition.json")) as f:
            said = json.load(f)
        all_owners, at, owner = np.load(os.path.join(p, "owner.npy")), 0, {}
        for t, n in said["kinds"].items():
            owner[t], at = all_owners[at:at + n], at + n
        if method == "contiguous" and any((np.diff(o) < 0).any() or len(set(o)) < k for o in owner.values()):
            wrong = "ranges are %s" % owner
        for r in range(k):
            folder = os.path.join(p, "part-%d" % r)
            wanted, kinds = cut(a, owner, r)
            with open(os.path.join(folder, "part.json")) as f:
                found = json.load(f)
            wrong = wrong or (found["kinds"] != kinds and "part %d: %s, wanted %s" % (r, found["kinds"], kinds))
            names = sorted(f[:-4] for f in os.listdir(folder) if f.endswith(".npy"))
            wrong = wrong or (names != sorted(wanted) and "part %d holds %s" % (r, names))
            for name in [] if wrong else names:
                x = np.load(os.path.join(folder, name + ".npy"))
                if x.shape != wanted[name].shape or not np.array_equal(x, wanted[name]) or name in a and x.dtype != a[name].dtype:
                    wrong = "part %d: %s is %s, wanted %s" % (r, name, x, wanted[name])
        v = box.run(box.gnnc, "data", "verify", p)
        said = box.must(box.gnnc, "data", "info", p).out
        wrong = wrong or ("nodes of author 31, paper 60, subject 5\n" not in said and said)
        box.report("parts_%s%d" % (method, k), wrong or (v.rc and v.err))
    owners = np.random.default_rng(5).integers(0, 3, len(all_owners))
    np.save(box.path("owners.npy"), owners)
    p = parts(data, 3, box.path("owners.npy"), out=box.path("said"))
    box.report("owners_of_a_file", not np.array_equal(np.load(os.path.join(p, "owner.npy")), owners) and "other owners")


def test_balance():
    """Each part has its share of each kind's work, also where fewest edges are cut by giving it one kind whole; and what the report says of that. A kind
    one of whose nodes nearly all lead to has no such shares: it does not spoil those of others."""
    g, n = np.random.default_rng(4), 600
    pairs = {"cites": ("paper", "paper", g.integers(0, n, (2, 6000))), "knows": ("author", "author", g.integers(0, n, (2, 6000))),
             "writes": ("author", "paper", g.integers(0, n, (2, 300))), "about": ("paper", "hub", np.stack([np.arange(n), np.zeros(n, int)]))}
    data = store("shares", dict({r + ".edge_index": ends for r, (_, _, ends) in pairs.items()}, **{"author.x": np.zeros((n, 1), "f4")}),
                 relations={r: [f, t] for r, (f, t, _) in pairs.items()}, num_papers=n, num_hubs=3)
    work = {"author": np.ones(n), "paper": np.ones(n), "hub": np.ones(3)}
    for f, t, ends in pairs.values():
        np.add.at(work[f], ends[0], 1)
        np.add.at(work[t], ends[1], 1)
    for method, more in ("ldg", []), ("metis", ["--objective", "cut"]):
        p = box.path("shares." + method)
        r = box.run(box.gnnc, "data", "partition", data, "-k", 2, "-o", p, "--method", method, *more)
        if "E0636" in r.err:
            box.skip("balance_" + method, "libmetis.so.5 is not installed (Debian's libmetis5)")
            continue
        with open(os.path.join(p, "partition.json")) as f:
            said = json.load(f)
        owners, at, most = np.load(os.path.join(p, "owner.npy")), 0, {}
        for t, count in said["kinds"].items():
            most[t], at = np.bincount(owners[at:at + count], work[t], 2).max(), at + count
        wrong = [t for t in ("author", "paper") if most[t] > 1.1 * work[t].sum() / 2]
        balance = 2 * sum(most.values()) / sum(w.sum() for w in work.values())
        box.report("balance_" + method, (wrong and "of %s a part has %s of %s" % (wrong, most, {t: w.sum() for t, w in work.items()})) or
                   (abs(said["balance"] - balance) > 1e-4 and "it says %s, wanted %s" % (said["balance"], balance)) or (r.rc and r.err))


def alter(p, stem, how):
    """Another array in part 1, whose checksum meta.json does not say any more."""
    path, meta = (os.path.join(p, "part-1", name) for name in (stem + ".npy", "meta.json"))
    x = np.load(path)
    np.save(path, np.ascontiguousarray(how(x).astype(x.dtype)))
    with open(meta) as f:
        said = json.load(f)
    del said["files"][stem + ".npy"]
    with open(meta, "w") as f:
        json.dump(said, f)


def test_unsound():
    """What `gnnc data verify` finds in parts that were changed, beside checksums."""
    sound = parts(box.path("small"), 3, "random")
    for name, change, wanted in (("owner", ("node_id.author", lambda x: np.roll(x, 1)), "says owner.npy"),
                                 ("target", ("paper.about", lambda x: (x + 1) % x.max()), "paper.about"),
                                 ("edges", ("cites.edge_index", lambda x: x[::-1]), "cites.edge_index.npy"),
                                 ("halo", ("halo_owner.subject", lambda x: (x + 1) % 3), "halo_owner.subject.npy")):
        p = box.path("unsound")
        shutil.rmtree(p, ignore_errors=True)
        shutil.copytree(sound, p)
        alter(p, *change)
        r = box.run(box.gnnc, "data", "verify", p)
        box.report("unsound_" + name, (r.rc == 0 or wanted not in r.err) and "%s: %s" % (r.rc, r.err))


# ---- the same bytes --------------------------------------------------------------------------------------------------


def test_bytes():
    data = store("data", arrays())
    compare("walks", build("walks", WALKS, data), data, [(2, "random"), (3, "ldg"), (4, "contiguous")])
    compare("hgt", build("hgt", HGT, data), data, [(3, "random"), (4, "ldg")])
    compare("han", build("han", HAN, data), data, [(4, "random")])
    compare("table", build("table", TABLE, data), data, [(2, "ldg"), (3, "random"), (4, "contiguous")])
    a, r = arrays(), np.random.default_rng(2)
    some = {n[6:]: x for n, x in a.items() if n.startswith("paper.") and n != "paper.about"}
    some = toy.store(box.path("one_kind"), dict(some, edge_index=r.integers(0, 300, (2, 2000)), edge_type=r.integers(0, 4, 2000)), num_nodes=300)
    compare("embed", build("embed", EMBED, some), some, [(3, "random"), (2, "ldg")])
    compare("some", build("some", SOME, some), some, [(3, "random"), (2, "ldg")])


def test_bare():
    """Parts of a folder that names no relations hold a column with the numbers that the folder has."""
    a, r = arrays(), np.random.default_rng(4)
    x = {n[6:]: v for n, v in a.items() if n.startswith("paper.") and n != "paper.about"}
    data = toy.store(box.path("bare"), dict(x, subject=a["paper.about"], fold=r.integers(0, 5, 300), month=r.integers(0, 12, 300), edge_index=r.integers(0, 300, (2, 900))),
                     num_nodes=300, num_subjects=7, num_folds=5, num_months=12, rows={"month": "none"})
    compare("bare", build("numbers", BARE, data), data, [(2, "random"), (3, "ldg"), (4, "contiguous")])
    p, wrong = parts(data, 3, "ldg"), None
    box.must(box.path("numbers"), "plan", "--data", p, "--transport", "sim")  # takes part 0 for a data set of its own
    for k in range(3):
        ids, subject = (np.load(os.path.join(p, "part-%d" % k, n + ".npy")) for n in ("node_id", "subject"))
        wrong = wrong or (not np.array_equal(subject, a["paper.about"][ids]) and "part %d: another column" % k)
    v = box.run(box.gnnc, "data", "verify", p)
    said = box.must(box.gnnc, "data", "info", p).out
    wrong = wrong or ("nodes 300, subject 7\n" not in said and said)
    box.report("bare_parts", wrong or (v.rc and v.err))
    alter(p, "subject", lambda x: (x + 1) % 7)
    r = box.run(box.gnnc, "data", "verify", p)
    box.report("bare_unsound", (r.rc == 0 or "joins" not in r.err and "no node of the part" not in r.err) and "%s: %s" % (r.rc, r.err))
    beyond = toy.store(box.path("beyond"), dict(x, subject=a["paper.about"] + 1, edge_index=np.zeros((2, 3), int)), num_nodes=300, num_subjects=7)
    r = box.run(box.gnnc, "data", "partition", beyond, "-k", 2, "-o", box.path("no"))
    box.report("bare_beyond", (r.rc == 0 or "subject.npy" not in r.err or "wanted an id in [0, 7)" not in r.err) and "%s: %s" % (r.rc, r.err))


def test_paths():
    """Parts hold the pairs that metapaths join; a program finds them by the relations of their steps."""
    data, paths = box.path("data"), ["--paths", "pairs = reverse(writes), writes; same=about,reverse(about)"]
    compare("paths", build("paths", PATHS, data), data, [(2, "random"), (3, "ldg"), (1, "random")], *paths)
    v = box.run(box.gnnc, "data", "verify", parts(data, 3, "ldg", *paths))
    box.report("paths_parts", v.rc and v.err)
    plans = [json.loads(box.must(box.path("paths"), "plan", "--data", parts(data, 3, "ldg", *paths), "--json", *more).out)["train_step"]
             for more in ([], ["--transport", "sim"])]
    box.report("paths_simulated", plans[0]["ranks"]["bytes"] != plans[1]["bytes"] and "%s, planned %s" % (plans[1]["bytes"], plans[0]["ranks"]["bytes"]))
    box.refuses("paths_missing", [box.path("paths"), "train", "--data", parts(data, 2, "random"), "--ranks", 2], 1, "R911", "shares",
                "--paths 'shares=reverse(writes.edge_index),writes.edge_index'")
    for name, text, words in (("unknown", "p=about,reverse(abut)", "no relation `abut`"), ("apart", "p=about,about", "step 2 of `p`"),
                              ("one_step", "p=about", "less than 2 steps"), ("no_path", "about", "says no path"), ("taken", "cites=cites,cites", "`cites` is no name"),
                              ("long", "p=" + ",".join(["cites"] * 9), "more than 8 steps")):
        box.refuses("paths_" + name, [box.gnnc, "data", "partition", data, "-k", 2, "-o", box.path("no"), "--paths", text], 1, "E0612", words)


def test_ends():
    """Kinds without nodes, relations without edges, fewer nodes than processes."""
    for name, sizes in ("nobody", dict(authors=0)), ("no_edges", dict(writes=0, cites=0)), ("few", dict(papers=3, authors=2, subjects=1, writes=5, cites=4)):
        data = store(name, arrays(**dict(dict(papers=40, authors=20, subjects=4, writes=50, cites=60), **sizes)))
        compare("ends_" + name, box.path("walks"), data, [(4, "random")])


def test_results():
    program, data, p = box.path("table"), box.path("data"), parts(box.path("data"), 3, "ldg")
    train(program, data, epochs=4)
    one = contents("w.st")
    shutil.copy(box.path("w.st"), box.path("one.st"))
    train(program, parts(data, 4, "contiguous"), "--checkpoint", box.path("c.st"), ranks=4, epochs=2)
    train(program, p, "--resume", box.path("c.st"), ranks=3, epochs=4)
    box.report("resume_on_others", contents("w.st") != one and "other weights")
    said = [box.must(program, "infer", "--weights", box.path("one.st"), "--out", box.path("%s.npy" % name), "--data", d, *flags) and
            box.must(program, "eval", "--weights", box.path("one.st"), "--data", d, *flags).out for name, d, flags in (("one", data, ["--blas", "off"]), ("all", p, ["--ranks", 3]))]
    box.report("infer", contents("one.npy") != contents("all.npy") and "other results")
    for name, rows, kind in ("edges_some", "over cites { relu(x.src + x.dst) }", "edge(cites)"), ("edges_back", "over rev_cites { relu(x.src + x.dst) }", "edge(rev_cites)"):
        text = SOME[:SOME.index("model net")].replace("  edge extends", "  reverse cites\n  edge extends") + "model net(x: node(paper)[F]) -> %s[F] {\n  return %s\n}\n" % (kind, rows)
        edges = build(name, text, box.path("one_kind"))
        box.must(edges, "infer", "--data", box.path("one_kind"), "--out", box.path("one.edges.npy"))
        box.must(edges, "infer", "--data", parts(box.path("one_kind"), 3, "random"), "--ranks", 3, "--out", box.path("all.edges.npy"))
        box.report(name, contents("one.edges.npy") != contents("all.edges.npy") and "other results")
    box.report("eval", said[0] != said[1] and "%s and %s" % tuple(said))


def test_ledger():
    """Measured bytes and rounds are those that were predicted, and those of `plan`."""
    for name, k, more in ("walks", 3, []), ("table", 4, []), ("walks", 4, ["--sums", "local"]):
        p, epochs = parts(box.path("data"), k, "ldg"), 3
        train(box.path(name), p, "--ledger", box.path("ledger.json"), *more, ranks=k)
        with open(box.path("ledger.json")) as f:
            sites = json.load(f)["sites"]
        wrong = [s["name"] for s in sites[1:] for r in s["by_rank"] if (r["bytes_out"], r["rounds"]) != (r.get("predicted_bytes"), r.get("predicted_rounds"))]
        plan = json.loads(box.must(box.path(name), "plan", "--data", p, "--json", "--threads", 1, *more).out)["train_step"]["ranks"]
        once = sum(t["rows"] * t["row_bytes"] for t in plan["travels"] if t["once"])
        measured = sum(r["bytes_out"] for s in sites if s["name"].startswith("train_step:") for r in s["by_rank"])
        box.report("ledger_%s_%s" % (name, "_".join(more).strip("-") or "exact"), (wrong and "not as predicted: %s" % wrong) or (not plan["bytes"] and "nothing travels") or
                   (measured != epochs * plan["bytes"] + once and "%d bytes measured, %d an epoch and %d once planned" % (measured, plan["bytes"], once)))


def test_policies():
    """Those with the bits of exact training have them; others send what they say."""
    program, data, p = box.path("walks"), box.path("data"), parts(box.path("data"), 4, "ldg")
    one = train(program, data)[0]
    for policy in "cagnet1d", "cagnet15d=2":
        box.report("policy_" + policy, train(program, p, "--policy", policy, ranks=4)[0] != one and "other weights")
    box.refuses("policy_of_rows", [box.path("table"), "train", "--data", p, "--ranks", 4, "--policy", "pipegcn"], 1, "R915", "topics", "are old")
    for policy in "sancus=m1:2", "distgnn=2", "pipegcn":
        train(program, p, "--policy", policy, "--ledger", box.path("ledger.json"), ranks=4)
        with open(box.path("ledger.json")) as f:
            box.report("policy_" + policy, unpredicted(json.load(f)["sites"]))


def gradients(program, data, *more, ranks=1):
    """Those of the first epoch, in f64, by the optimizer's means."""
    train(program, data, "--checkpoint", box.path("c.st"), *more, ranks=ranks, epochs=1)
    bytes_ = contents("c.st")
    size = int.from_bytes(bytes_[:8], "little")
    head, rest = json.loads(bytes_[8:8 + size]), bytes_[8 + size:]
    return {n: np.frombuffer(rest[slice(*t["data_offsets"])], "<f8") for n, t in head.items() if n.startswith("adam.m.") and t["dtype"] == "F64"}


def test_rounds():
    """Rows of each kind come in rounds, of relations by both of their ends; gradients are those of one process."""
    data = box.path("data")
    program = build("apart", WALKS, data, "--sums-apart", "--dtype", "f64")
    one = gradients(program, data)
    for k, method in ((3, "random"), (4, "ldg")):
        some = gradients(program, parts(data, k, method), "--policy", "sar", "--ledger", box.path("ledger.json"), ranks=k)
        off = max(np.abs(one[n] - some[n]).max() for n in one) / max(np.abs(x).max() for x in one.values())
        with open(box.path("ledger.json"), encoding="utf-8") as f:
            sites = json.load(f)["sites"]
        wrong = unpredicted(sites)
        rounds = [s["by_rank"][0]["rounds"] for s in sites if s["name"].startswith("train_step: rows")]
        box.report("rounds_%d" % k, wrong or (not off <= 1e-12 and "off by %g" % off) or (max(rounds, default=0) < 2 and "no rounds: %s" % rounds))


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_refused():
    # the kinds and relations of the parts are those that meta.json says, and those of the program are others
    a = arrays()
    x = {n: v for n, v in a.items() if n not in ("paper.about", "about.c")}
    relations = {n: r for n, r in RELATIONS.items() if n != "about"}
    whole = store("unsaid", dict(x, **{"paper.about": a["paper.about"], "paper.c": a["about.c"]}), relations=relations, num_subjects=7)
    box.refuses("unsaid", [box.path("hgt"), "train", "--data", parts(whole, 2, "random"), "--ranks", 2], 1, "R911", "about", "relations")
    for name, change, meta, words in (
            ("unsaid_list", {"likes.edge_index": a["cites.edge_index"]}, {}, ("E0910", "likes.edge_index.npy")),
            ("unnamed_edges", {"edge_index": a["cites.edge_index"]}, {}, ("E0910", "beside named relations")),
            ("unknown_rows", {"extra": a["paper.x"]}, {}, ("E0615", "extra.npy", "which kind")),
            ("short", {"author.z": a["author.x"][1:]}, {}, ("E0615", "author.z.npy", "169 rows, and `author` has 170")),
            ("source", {"writes.edge_index": a["writes.edge_index"] + 200}, {}, ("E0615", "writes.edge_index.npy", "wanted an id in [0, 170)")),
            ("column", {"paper.about": a["paper.about"] + 3}, {}, ("E0615", "paper.about.npy", "wanted an id in [0, 7)")),
            ("no_edges_of", {}, {"relations": dict(RELATIONS, likes=["author", "paper"])}, ("E0615", "no array has the edges of `likes`")),
            ("no_kinds_of", {}, {"relations": dict(RELATIONS, writes=["author"])}, ("E0615", "`writes` joins"))):
        folder = store("bad_" + name, dict(a, **change), **meta)
        r = box.run(box.gnnc, "data", "partition", folder, "-k", 2, "-o", box.path("no"))
        box.report("refused_" + name, (r.rc == 0 or os.path.exists(box.path("no")) or any(w not in r.err for w in words)) and "%s: %s" % (r.rc, r.err))


for test in (test_parts, test_balance, test_unsound, test_bytes, test_bare, test_paths, test_ends, test_results, test_ledger, test_policies, test_rounds, test_refused):
    try:
        test()
    except RuntimeError as e:
        box.report(test.__name__, e)
box.close()
