#!/usr/bin/env python3
"""`gnnc data partition`: every part against one that numpy cuts from the folder, over random graphs and methods; what the
report says; what `gnnc data verify` finds in parts that were changed; what is refused.
usage: test_partition.py BUILD"""
import ctypes
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys

import numpy as np

import toy
from sandbox import Sandbox

box = Sandbox(sys.argv[1], "partition")
CORA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "examples", "data", "cora")
try:
    ctypes.CDLL("libmetis.so.5")
    METHODS = ["contiguous", "random", "ldg", "metis"]
except OSError:
    METHODS = ["contiguous", "random", "ldg"]
    box.skip("metis", "libmetis.so.5 is not installed (Debian's libmetis5)")


def load(folder):
    return {f[:-4]: np.load(os.path.join(folder, f)) for f in sorted(os.listdir(folder)) if f.endswith(".npy")}


def read_json(*parts):
    with open(os.path.join(*parts)) as f:
        return json.load(f)


def sha(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def tree(folder):
    return {os.path.relpath(os.path.join(d, f), folder): sha(os.path.join(d, f)) for d, _, names in os.walk(folder) for f in names}


def spaces(arrays, n, e, g, said):
    """What the rows of each array belong to."""
    for name, a in arrays.items():
        rows = a.shape[0] if a.ndim else -1
        if name in said:
            yield name, said[name]
        elif name in ("x", "y") or name in ("batch", "fold") and rows == n or name.endswith("_mask") and rows == n:
            yield name, "node"
        else:
            yield name, "edge" if rows == e else "node" if rows == n else "graph" if g is not None and rows == g else "none"


def cut_csr(ptr, indices, data, ids):
    pieces = [np.arange(ptr[i], ptr[i + 1]) for i in ids]
    at = np.concatenate(pieces + [np.zeros(0, int)]).astype(int)
    return np.concatenate([[0], np.cumsum([len(p) for p in pieces])]).astype(ptr.dtype), indices[at], data[at]


def oracle(folder, owner, graph_owner, r):
    """The arrays of part r, by the definition in docs/data.md."""
    arrays, meta = load(folder), read_json(folder, "meta.json")
    ei = arrays.pop("edge_index") if "edge_index" in arrays else np.stack([arrays.pop("src"), arrays.pop("dst")])
    batch = arrays.get("batch")
    edges = np.flatnonzero((owner[ei[0]] == r) | (owner[ei[1]] == r))
    own = np.flatnonzero(owner == r)
    cut = edges[owner[ei[0][edges]] != owner[ei[1][edges]]]
    border = np.isin(own, ei[:, cut])
    own = np.concatenate([own[~border], own[border]])
    halo = np.setdiff1d(ei[:, edges].ravel(), own)
    nodes = np.concatenate([own, halo]).astype(int)
    local = np.full(len(owner), -1)
    local[nodes] = np.arange(len(nodes))
    out = {"node_id": nodes, "edge_id": edges, "halo_owner": owner[halo], "edge_index": local[ei[:, edges]].astype(ei.dtype)}
    graphs = None
    if batch is not None:
        graphs = np.flatnonzero(graph_owner == r)
        out["graph_id"] = graphs
        out["batch"] = np.searchsorted(graphs, arrays.pop("batch")[nodes])
    ids = {"node": nodes, "edge": edges, "graph": graphs}
    for name in [a[:-7] for a in arrays if a.endswith("_indptr")]:
        csr = [arrays.pop(name + "_" + x) for x in ("indptr", "indices", "data")]
        for x, a in zip(("indptr", "indices", "data"), cut_csr(*csr, nodes)):
            out[name + "_" + x] = a
    for name, space in spaces(arrays, len(owner), ei.shape[1], graph_owner is not None and len(graph_owner), meta.get("rows", {})):
        out[name] = arrays[name] if space == "none" else arrays[name][ids[space]]
    counts = {"num_nodes": len(nodes), "num_edges": len(edges)}
    return out, dict(counts, num_graphs=len(graphs)) if graphs is not None else counts, halo, ei, int(np.sum(~border))


def differs(folder, parts, count, owner=None):
    """Why the partition is not the one that the definition gives; None: it is."""
    meta, said = read_json(folder, "meta.json"), read_json(parts, "partition.json")
    written = np.load(os.path.join(parts, "owner.npy"))
    if owner is not None and not np.array_equal(owner, written):
        return "owner.npy is not what was asked for"
    if written.dtype != np.dtype("<i4") or said["parts"] != count or len(said["ranks"]) != count:
        return "%s owners, %d parts" % (written.dtype, said["parts"])
    names = sorted(os.listdir(parts))
    if names != sorted(["owner.npy", "partition.json"] + ["part-%d" % r for r in range(count)]):
        return "it holds %s" % names
    graph_owner = None
    batch = os.path.join(folder, "batch.npy")
    if os.path.exists(batch):
        graph_owner = np.zeros(meta["num_graphs"], int)
        for r in range(count):
            graph_owner[np.load(os.path.join(parts, "part-%d" % r, "graph_id.npy"))] = r
    halos, works, costs, digest = [], [], np.zeros(count), []
    for r in range(count):
        part = os.path.join(parts, "part-%d" % r)
        wanted, counts, halo, ei, inner = oracle(folder, written, graph_owner, r)
        found = load(part)
        if sorted(found) != sorted(wanted):
            return "part %d holds %s, wanted %s" % (r, sorted(found), sorted(wanted))
        for name, a in wanted.items():
            if found[name].shape != a.shape or not np.array_equal(found[name], a):
                return "part %d: %s is %s, wanted %s" % (r, name, found[name], a)
            kept = os.path.join(folder, name + ".npy")
            if os.path.exists(kept) and found[name].dtype != np.load(kept).dtype:
                return "part %d: %s is of %s" % (r, name, found[name].dtype)
        of_part = read_json(part, "meta.json")
        for key, v in dict(meta, **counts).items():
            if key != "files" and of_part[key] != v:
                return "part %d: meta.json says %s of %s, wanted %s" % (r, of_part[key], key, v)
        files = {f + ".npy": {"dtype": a.dtype.str, "shape": list(a.shape), "sha256": sha(os.path.join(part, f + ".npy"))} for f, a in found.items()}
        if of_part["files"] != files:
            return "part %d: meta.json says of its files %s, wanted %s" % (r, of_part["files"], files)
        own = int(np.sum(written == r))
        rank = {"owned": own, "halo": len(halo), "edges_in": int(np.sum(written[ei[1]] == r)), "edges_out": int(np.sum(written[ei[0]] == r)),
                "bytes": sum(os.path.getsize(os.path.join(part, f)) for f in files)}
        if said["ranks"][r] != rank:
            return "part %d: partition.json says %s, wanted %s" % (r, said["ranks"][r], rank)
        alone = {"format": 2, "rank": r, "parts": count, "nodes": len(written), "edges": ei.shape[1], "owned": own, "inner": inner, "halo": len(halo), "partition": said["digest"]}
        if read_json(part, "part.json") != alone:
            return "part %d: part.json says %s" % (r, read_json(part, "part.json"))
        halos.append(len(halo))
        works.append(own + rank["edges_in"] + rank["edges_out"])
        costs[r] += works[r] + 8 * len(halo)
        for q in written[halo]:
            costs[q] += 8
        digest += ["part-%d/%s %s\n" % (r, f, sha(os.path.join(part, f))) for f in os.listdir(part) if f != "part.json"]
    digest = "".join(sorted(digest + ["owner.npy %s\n" % sha(os.path.join(parts, "owner.npy"))]))
    origin = "".join("%s %s\n" % (f, sha(os.path.join(folder, f))) for f in sorted(os.listdir(folder)) if f.endswith(".npy"))
    balance = max(works) * count / sum(works) if sum(works) else 1
    for key, v in {"format": 2, "nodes": len(written), "edges": ei.shape[1], "cut": int(np.sum(written[ei[0]] != written[ei[1]])), "halo": sum(halos),
                   "halo_most": max(halos), "digest": hashlib.sha256(digest.encode()).hexdigest(),
                   "data": {"name": meta.get("name", ""), "digest": hashlib.sha256(origin.encode()).hexdigest()}}.items():
        if said[key] != v:
            return "partition.json says %s of %s, wanted %s" % (said[key], key, v)
    if abs(said["balance"] - balance) > 1e-5 * balance:
        return "partition.json says a balance of %s, wanted %s" % (said["balance"], balance)
    if "candidates" in said:
        least = min(said["candidates"], key=lambda c: c["cost"])
        if (least["method"], least["objective"]) != (said["method"], said["objective"]) or least["cost"] != costs.max() or len(said["candidates"]) != 3:
            return "of %s it took %s, %s, whose slowest part takes %s" % (said["candidates"], said["method"], said["objective"], costs.max())
    return None


def partition(folder, count, *more, out="parts", **kinds):
    return box.run(box.gnnc, "data", "partition", folder, "-k", count, "-o", out, *more, **kinds)


def check(name, folder, count, *more, owner=None, method=None):
    r = partition(folder, count, *more)
    wrong = r.rc and (r.rc, r.err) or differs(box.path(folder), box.path("parts"), count, owner)
    if not wrong and method and read_json(box.path("parts", "partition.json"))["method"] != method:
        wrong = "the method is " + read_json(box.path("parts", "partition.json"))["method"]
    v = box.run(box.gnnc, "data", "verify", "parts")
    box.report(name, wrong or v.rc and (v.rc, v.err) or "all sound" not in v.out and v.out)
    return not wrong and np.load(box.path("parts", "owner.npy"))


# ---- random graphs, each with arrays of every kind ----------------------------------------------------

def graph(rng, n, e, kind):
    if kind == "hub":
        return np.stack([np.where(rng.random(e) < 0.5, 0, rng.integers(n, size=e)), rng.integers(n, size=e)])
    if kind == "empty_rows":  # and self-loops and parallel edges
        some = np.array([0, n // 2, n // 2 + 1])
        return some[rng.integers(3, size=(2, e))]
    if kind == "blocks":
        src = rng.integers(n, size=e)
        return np.stack([src, np.where(rng.random(e) < 0.9, (src + rng.integers(1, 4, size=e) * 8) % n, rng.integers(n, size=e))])
    return rng.integers(n, size=(2, e))


def make(name, seed, n, e, kind, ids="<i8", ends=False):
    rng = np.random.default_rng(seed)
    ei = graph(rng, n, e, kind).astype(ids)
    ptr = np.concatenate([[0], np.cumsum(rng.integers(4, size=n))]).astype(ids)
    arrays = {"x": rng.random((n, 3)).astype("<f4"), "z": rng.random((n, 2, 2)), "edge_weight": rng.random(e).astype("<f4"), "edge_flag": rng.random((e, 2)) < 0.5,
              "y": rng.integers(4, size=n), "train_mask": rng.random(n) < 0.5, "fold": rng.integers(3, size=n).astype("<i4"), "table": rng.random((97, 5)),
              "wide": rng.random((n, 0)), "one": np.float32(7),
              "h_indptr": ptr, "h_indices": rng.integers(9, size=ptr[-1]).astype("<i4"), "h_data": rng.random(ptr[-1]).astype("<f4")}
    arrays.update({"src": ei[0], "dst": ei[1]} if ends else {"edge_index": ei})
    meta = {"name": name, "num_nodes": n, "num_edges": e, "num_classes": 4, "mine": [1, {"a": "b"}]}
    toy.store(box.path(name), arrays, **meta)
    return n


GRAPHS = [("uniform", 300, 900, "uniform", "<i8", False), ("hub", 200, 700, "hub", "<i4", False), ("empty_rows", 50, 120, "empty_rows", "<i8", False),
          ("blocks", 400, 1600, "blocks", "<i8", True), ("one_node", 1, 3, "uniform", "<i8", False), ("no_edges", 40, 0, "uniform", "<i4", False),
          ("few", 5, 9, "uniform", "<i8", False)]
for seed, (name, n, e, kind, ids, ends) in enumerate(GRAPHS):
    make(name, seed, n, e, kind, ids, ends)
    rng = np.random.default_rng(seed)
    for count in (1, 3, 7) if name == "uniform" else (2, 7):
        for method in METHODS:
            check("%s.%s_%d" % (name, method, count), name, count, "--method", method, "--seed", "3")
        owner = rng.integers(count, size=n).astype("<i4")
        np.save(box.path("owner.npy"), owner)
        check("%s.array_%d" % (name, count), name, count, "--method", "owner.npy", owner=owner, method="file")
    box.write("owner.txt", "\n".join(map(str, owner)) + "\n")
    check(name + ".text", name, 7, "--method", "owner.txt", owner=owner, method="file")

# ---- graphs of a batch go to one part ------------------------------------------------------------------

rng = np.random.default_rng(9)
sizes = np.array([5, 1, 0, 30, 2, 8, 8, 0, 1, 12, 3, 0])
first = np.concatenate([[0], np.cumsum(sizes)])
ends = [first[g] + rng.integers(sizes[g], size=(2, 3 * sizes[g])) for g in range(len(sizes)) if sizes[g]]
batch = np.repeat(np.arange(len(sizes)), sizes)
ei = np.concatenate(ends, axis=1)[:, rng.permutation(3 * len(batch))]
toy.store(box.path("batch"), {"edge_index": np.ascontiguousarray(ei), "batch": batch, "x": rng.random((len(batch), 2)).astype("<f4"), "graph_y": rng.integers(2, size=len(sizes)),
                              "train_mask": rng.random(len(sizes)) < 0.5, "fold": rng.integers(2, size=len(sizes))}, num_nodes=len(batch), num_graphs=len(sizes))
for count in (1, 2, 15):
    for method in METHODS:
        check("batch.%s_%d" % (method, count), "batch", count, "--method", method, method=None if count == 1 or method in ("contiguous", "random") else "balance")
np.save(box.path("owner.npy"), batch % 3)
check("batch.array", "batch", 3, "--method", "owner.npy", owner=batch % 3)

# ---- what methods promise ---------------------------------------------------------------------------------

for method in METHODS:
    check("cora." + method, CORA, 3, "--method", method)


def promise(name, wrong):
    box.report("promise." + name, wrong)


def work(folder):
    a = load(box.path(folder))
    ends = np.concatenate([a["src"], a["dst"]] if "src" in a else list(a["edge_index"]))
    return 1 + np.bincount(ends, minlength=read_json(box.path(folder), "meta.json")["num_nodes"])


def shares(w, count):
    """Each unit belongs to the part in whose share of the work the middle of its own lies."""
    total, last = int(w.sum()), np.cumsum(w)
    ends = [total // count * r + total % count * r // count for r in range(1, count)]
    return np.sum(2 * last[:, None] - w[:, None] >= 2 * np.array(ends)[None], axis=1)


for name, count in (("uniform", 7), ("hub", 3), ("no_edges", 3)):
    check(name + ".shares", name, count, "--method", "contiguous", owner=shares(work(name), count))
box.must(box.gnnc, "data", "generate", "large", "--nodes", 6200, "--edges", 9000, "--features", 1)
def greedy(folder, count):
    """Linear deterministic greedy, ten times over, as its papers say it."""
    a, w = load(box.path(folder)), work(folder).tolist()
    near = [set() for _ in w]
    for u, v in zip(*(a["edge_index"] if "edge_index" in a else (a["src"], a["dst"]))):
        if u != v:
            near[u].add(v)
            near[v].add(u)
    owner, most = [-1] * len(w), 1.05 * sum(w) / count
    for _ in range(10):
        held = [0] * count
        for v, mine in enumerate(w):
            there = [0] * count
            for u in near[v]:
                if owner[u] >= 0:
                    there[owner[u]] += 1
            score = [there[r] * (1 - held[r] / most) if held[r] + mine <= most else 0 for r in range(count)]
            owner[v] = int(np.argmax(score)) if max(score) > 0 else int(np.argmin(held))
            held[owner[v]] += mine
    return np.array(owner)


for name, count in (("blocks", 4), ("hub", 3)):
    check(name + ".greedy", name, count, "--method", "ldg", owner=greedy(name, count))
leaves = np.add.reduceat(work("large"), np.arange(0, 6200, 512))
check("large.leaves", "large", 3, "--method", "contiguous", owner=np.repeat(shares(leaves, 3), 512)[:6200])
owner = check("large.random", "large", 4, "--method", "random", "--seed", "5")
counts = np.bincount(owner, minlength=4)
promise("random_is_even", np.any(np.abs(counts - 1550) > 5 * np.sqrt(1550)) and counts)
promise("random_by_seed", 0.3 < np.mean(owner == check("large.seed", "large", 4, "--method", "random", "--seed", "6")) and "two seeds give much the same")
halo = {}
for method in METHODS:
    check("blocks." + method, "blocks", 4, "--method", method, method=method if method != "metis" else None)
    said = read_json(box.path("parts", "partition.json"))
    halo[method] = said["halo"]
    promise("balance_" + method, method != "random" and said["balance"] > 1.1 and said["balance"])
promise("few_halo_rows", any(halo[m] > 0.8 * halo["random"] for m in METHODS if m in ("ldg", "metis")) and halo)
for method in METHODS:
    twice = []
    for out in ("again1", "again2"):
        partition("hub", 3, "--method", method, "--seed", "7", out=out)
        twice.append(tree(box.path(out)))
    promise("same_bytes_" + method, twice[0] != twice[1] and "two runs differ")
if "metis" in METHODS:
    for objective in ("cut", "volume", "both"):
        check("blocks.metis_" + objective, "blocks", 4, "--method", "metis", "--objective", objective)
        said = read_json(box.path("parts", "partition.json"))
        promise("objective_" + objective, (said["objective"] != objective) != (objective == "both") and said["objective"])
partition("uniform", 2, out="first")
box.report("default", read_json(box.path("first", "partition.json"))["method"] != ("metis" if "metis" in METHODS else "ldg") and "another default")
r = partition("uniform", 2, "--json")
box.report("json", json.loads(r.out) != read_json(box.path("parts", "partition.json")) and r.out)
info = box.run(box.gnnc, "data", "info", "parts")
box.report("info", info.out != partition("uniform", 2).out and info.out)

# ---- METIS's interface, by a library that checks what it is given ---------------------------------------------

FAKE = r"""#include <stdint.h>
#include <string.h>
int METIS_SetDefaultOptions(INT *o) { for (int i = 0; i < 40; i++) o[i] = -1; return 1; }
int METIS_PartGraphKway(INT *n, INT *ncon, INT *at, INT *to, INT *w, INT *size, INT *edge, INT *parts, float *share, float *most, INT *o, INT *value, INT *part)
{
    (void)size, (void)edge, (void)share, (void)most;
    long sum = 0;
    if (*ncon != 1 || at[0] != 0 || o[8] != 11 || (o[1] != 0 && o[1] != 1)) return -2;
    for (INT v = 0; v < *n; v++) {
        sum += w[v];
        for (INT i = at[v]; i < at[v + 1]; i++) {
            int back = 0;
            if (to[i] < 0 || to[i] >= *n || to[i] == v || (i > at[v] && to[i] <= to[i - 1])) return -2;
            for (INT k = at[to[i]]; k < at[to[i] + 1]; k++) back += to[k] == v;
            if (back != 1) return -2;
        }
        part[v] = o[1] ? v % *parts : v * *parts / *n;
    }
    *value = 0;
    return sum == WORK ? RESULT : -2;
}
"""


def fake(name, width, result):
    os.makedirs(box.path(name))
    box.write(name + "/metis.c", FAKE)
    for lib in ("libmetis.so.5", "libmetis.so"):
        subprocess.run(["cc", "-shared", "-fPIC", "-DINT=int%d_t" % width, "-DRESULT=%s" % result, "-DWORK=%d" % work("uniform").sum(), "-o", box.path(name, lib),
                        box.path(name, "metis.c")], check=True)
    return dict(os.environ, LD_LIBRARY_PATH=box.path(name))


METIS = ["--method", "metis", "--seed", "11"]
env = fake("fake", 32, 1)
for objective, owner in (("cut", np.arange(300) * 4 // 300), ("volume", np.arange(300) % 4)):
    r = partition("uniform", 4, *METIS, "--objective", objective, env=env)
    box.report("fake." + objective, r.rc and r.err or differs(box.path("uniform"), box.path("parts"), 4, owner))
r = partition("uniform", 4, *METIS, env=env)
box.report("fake.both", r.rc and r.err or differs(box.path("uniform"), box.path("parts"), 4))
REFUSED = [box.gnnc, "data", "partition", "uniform", "-k", "4", "-o", "never"] + METIS
box.refuses("fake.wide", REFUSED, 6, "E0636", "64 bits", env=fake("wide", 64, 1))
box.refuses("fake.no_memory", REFUSED, 6, "E0636", "memory", env=fake("poor", 32, -3))
box.refuses("fake.gives_up", REFUSED, 6, "E0636", "-2", env=fake("broken", 32, -2))
os.makedirs(box.path("none"))
for lib in ("libmetis.so.5", "libmetis.so"):
    box.write("none/" + lib, "no library")
none = dict(os.environ, LD_LIBRARY_PATH=box.path("none"))
box.refuses("metis_missing", REFUSED, 6, "E0636", "libmetis5", "ldg", env=none)
r = partition("uniform", 4, env=none)
box.refuses("metis_missing_for_an_objective", REFUSED[:8] + ["--objective", "cut"], 6, "E0636", env=none)
box.report("metis_missing_by_default", r.rc and r.err or read_json(box.path("parts", "partition.json"))["method"] != "ldg" and "not ldg")

# ---- verify -------------------------------------------------------------------------------------------------


def spoilt(name, code, says, change):
    """A partition that `change` spoils; checksums of meta.json are made right again, so that they are not what finds it."""
    shutil.rmtree(box.path("spoilt"), ignore_errors=True)
    shutil.copytree(box.path("sound"), box.path("spoilt"))
    before = tree(box.path("spoilt"))
    change(box.path("spoilt"))
    for path, old in before.items():
        part, file = os.path.split(box.path("spoilt", path))
        if file.endswith(".npy") and file != "owner.npy" and os.path.exists(os.path.join(part, file)) and sha(os.path.join(part, file)) != old and says != "sha256":
            meta = read_json(part, "meta.json")
            a = np.load(os.path.join(part, file))
            meta["files"][file] = {"dtype": a.dtype.str, "shape": list(a.shape), "sha256": sha(os.path.join(part, file))}
            with open(os.path.join(part, "meta.json"), "w") as f:
                json.dump(meta, f)
    box.refuses("verify." + name, [box.gnnc, "data", "verify", "spoilt"], 2 if code == "E0614" else 3, code, says)


def edit(file, how):
    def change(folder):
        a = np.load(os.path.join(folder, file))
        np.save(os.path.join(folder, file), how(a))
    return change


def edit_json(file, **more):
    def change(folder):
        d = dict(read_json(folder, file), **more)
        with open(os.path.join(folder, file), "w") as f:
            json.dump(d, f)
    return change


def put(i, v):
    def how(a):
        a = a.copy()
        a.flat[i] = v
        return a
    return how


def swap(i, j):
    def how(a):
        a = a.copy()
        a.flat[i], a.flat[j] = a.flat[j], a.flat[i]
        return a
    return how


def without_edge(folder):
    for file in ("edge_id.npy", "edge_index.npy", "edge_weight.npy", "edge_flag.npy"):
        edit("part-1/" + file, lambda a: np.ascontiguousarray(a[:, 1:]) if a.shape[0] == 2 and file == "edge_index.npy" else a[1:])(folder)
    edit_json("part-1/meta.json", num_edges=len(np.load(os.path.join(folder, "part-1", "edge_id.npy"))))(folder)


box.must(box.gnnc, "data", "partition", "uniform", "-k", "3", "-o", "sound", "--method", "random")
owner = np.load(box.path("sound", "owner.npy"))
of_part, n_own = load(box.path("sound", "part-1")), int(np.sum(owner == 1))
inside = next(i for i in range(len(of_part["edge_id"])) if np.all(of_part["edge_index"][:, i] < n_own))
spoilt("a_byte", "E0615", "sha256", edit("part-1/x.npy", put(0, 5)))
spoilt("a_value", "E0615", "digest", edit("part-1/x.npy", put(0, 5)))
spoilt("an_owner", "E0615", "owner.npy", edit("owner.npy", put(7, (owner[7] + 1) % 3)))
spoilt("owner_of_no_part", "E0615", "part 3 of 3", edit("owner.npy", put(7, 3)))
spoilt("fewer_owners", "E0615", "wanted 300 integers", edit("owner.npy", lambda a: a[1:]))
spoilt("owned_ids_descend", "E0615", "item 1 ", edit("part-1/node_id.npy", swap(0, 1)))
spoilt("halo_for_owned", "E0615", "node_id.npy: node", edit("part-1/node_id.npy", put(n_own, owner.tolist().index(1))))
spoilt("halo_owner", "E0615", "halo_owner.npy", edit("part-1/halo_owner.npy", lambda a: 2 - a))
spoilt("node_of_nowhere", "E0615", "below 300", edit("part-1/node_id.npy", put(-1, 300)))
spoilt("edge_ids_descend", "E0615", "edge_id.npy: item 1 ", edit("part-0/edge_id.npy", swap(0, 1)))
spoilt("edge_of_nowhere", "E0615", "below 900", edit("part-1/edge_id.npy", put(-1, 900)))
spoilt("edge_of_others", "E0615", "no end that the part owns", edit("part-1/edge_index.npy", lambda a: np.where(np.arange(a.shape[1]) == 0, n_own, a)))
spoilt("edge_elsewhere", "E0615", "in another part", edit("part-1/edge_index.npy", lambda a: a[::-1].copy()))
spoilt("edge_moved", "E0615", "digest", edit("part-1/edge_index.npy", put(inside, (of_part["edge_index"][0, inside] + 1) % n_own)))
ends = load(box.path("sound", "part-0"))["edge_index"]
alone = next(i for i in range(ends.size) if ends.flat[i] >= np.sum(owner == 0) and np.sum(ends == ends.flat[i]) == 1)
spoilt("halo_unread", "E0615", "no edge has halo node", edit("part-0/edge_index.npy", put(alone, 0)))
spoilt("edge_missing", "E0615", "in 1 parts" if np.any(of_part["edge_index"][:, 0] >= n_own) else "in no part", without_edge)
spoilt("array_missing", "E0614", "y.npy", lambda d: os.remove(os.path.join(d, "part-2", "y.npy")))
spoilt("file_more", "E0615", "digest", lambda d: shutil.copy(os.path.join(d, "part-2", "y.npy"), os.path.join(d, "part-2", "y2.npy")))
spoilt("part_json", "E0615", "part.json", edit_json("part-0/part.json", owned=3))
spoilt("another_partition", "E0615", "another partition", edit_json("part-0/part.json", partition="0"))
spoilt("no_part_json", "E0614", "part.json", lambda d: os.remove(os.path.join(d, "part-0", "part.json")))
spoilt("no_json", "E0614", "partition.json", lambda d: open(os.path.join(d, "partition.json"), "w").close())
spoilt("other_format", "E0614", "format", edit_json("partition.json", format=1))
spoilt("too_few_ranks", "E0614", "ranks", edit_json("partition.json", parts=4))
spoilt("too_many_nodes", "E0614", "count", edit_json("partition.json", nodes=1e12))
shutil.rmtree(box.path("sound"))
toy.store(box.path("chain"), {"edge_index": np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])}, num_nodes=6, num_edges=5)
box.must(box.gnnc, "data", "partition", "chain", "-k", "2", "-o", "sound", "--method", "contiguous")  # 0, 1 | 2 and 4, 5 | 3
spoilt("too_many_inner", "E0615", "an edge joins inner node 2", edit_json("part-0/part.json", inner=3))
spoilt("too_few_inner", "E0615", "node 1, which is no inner one", edit_json("part-0/part.json", inner=1))
spoilt("inner_beyond_owned", "E0615", "its counts", edit_json("part-0/part.json", inner=4))

# ---- what is refused ------------------------------------------------------------------------------------------


def refuses(name, folder, more, rc, code, *says):
    box.refuses(name, [box.gnnc, "data", "partition", folder, "-k", "2", "-o", "never"] + more, rc, code, *says)


def variant(name, arrays=None, **meta):
    """A copy of `few` (5 nodes, 9 edges) with other arrays and other words in meta.json."""
    shutil.rmtree(box.path(name), ignore_errors=True)
    shutil.copytree(box.path("few"), box.path(name))
    for stem, a in (arrays or {}).items():
        np.save(box.path(name, stem + ".npy"), a)
    edit_json("meta.json", **meta)(box.path(name))
    return name


box.refuses("no_parts", [box.gnnc, "data", "partition", "few", "-o", "never"], 1, "E0612", "-k P")
box.refuses("no_output", [box.gnnc, "data", "partition", "few", "-k", "2"], 1, "E0612", "-o PARTS")
box.refuses("no_folder", [box.gnnc, "data", "partition", "-k", "2", "-o", "never"], 1, "E0613", "partition")
refuses("zero_parts", "few", ["-k", "0"], 1, "E0612", "--parts")
refuses("method_unknown", "few", ["--method", "metsi"], 1, "E0612", "`metis`")
refuses("method_no_file", "few", ["--method", "none.txt"], 6, "E0601", "none.txt")
refuses("objective_unknown", "few", ["--objective", "halo"], 1, "E0612", "halo")
refuses("objective_of_random", "few", ["--objective", "cut", "--method", "random"], 1, "E0612", "random")
for name, text, says in [("few_owners", "0 1 0 1", "4 numbers"), ("many_owners", "0 1 0 1 0 1", "more than one"), ("part_too_large", "0 1 0 1 2", "number 4 is 2"),
                         ("part_negative", "0 1 -1 1 0", "-1"), ("part_half", "0 1 0.5 1 0", "0.5"), ("part_word", "0 1 x 1 0", "item 2")]:
    box.write("bad.txt", text)
    refuses(name, "few", ["--method", "bad.txt"], 3, "E0615", "bad.txt", says)
np.save(box.path("bad.npy"), np.zeros((5, 1), int))
refuses("owners_of_two_dims", "few", ["--method", "bad.npy"], 3, "E0615", "bad.npy", "vector")
box.write("junk.npy", "junk")
refuses("owners_junk", "few", ["--method", "junk.npy"], 2, "E0614", "junk.npy")
np.save(box.path("bad.npy"), np.arange(len(batch)) % 2)
refuses("owners_cut_a_graph", "batch", ["--method", "bad.npy"], 3, "E0615", "cuts graph 0")
refuses("folder_missing", "nowhere", [], 6, "E0601", "nowhere")
for file in ("graph.npz", "x.npz", "graph.mtx", "edges.csv", "edges.tsv"):
    box.write(variant("form") + "/" + file, "")
    refuses("form_" + file, "form", [], 1, "E0910", file)
refuses("an_archive", "all.npz", [], 1, "E0910", "all.npz")
refuses("further_edges", variant("form", {"pairs_index": np.zeros((2, 4), int)}), [], 1, "E0910", "pairs_index.npy")
refuses("two_kinds", variant("form", num_src=3, num_dst=2), [], 1, "E0910", "num_src")
refuses("a_partition", "sound", [], 3, "E0615", "partition already")
refuses("a_part", "sound/part-0", [], 3, "E0615", "a part already")
refuses("edge_outside", variant("form", {"edge_index": np.full((2, 9), 5)}), [], 3, "E0615", "edge_index.npy", "[0, 5)")
refuses("edges_of_floats", variant("form", {"edge_index": np.zeros((2, 9))}), [], 3, "E0615", "edge_index.npy")
refuses("edges_counted_wrong", variant("form", num_edges=8), [], 3, "E0615", "meta.json says 8")
refuses("labels_too_few", variant("form", {"y": np.zeros(4, int)}), [], 3, "E0615", "y.npy", "4 rows")
refuses("rows_of_two", variant("form", {"edge_index": np.zeros((2, 5), int), "w": np.zeros(5)}, num_edges=5, rows={"edge_flag": "none", "h": "node"}), [], 3, "E0615", "w.npy", '"rows"')
refuses("rows_said_wrong", variant("form", rows={"table": "node"}), [], 3, "E0615", "table.npy", "97")
box.write(variant("form") + "/z.npy", b"\x93NUMPY")
refuses("array_cut", "form", [], 2, "E0614", "z.npy")
refuses("csr_descends", variant("form", {"h_indptr": np.array([0, 2, 1, 3, 3, 3]), "h_indices": np.zeros(3, int), "h_data": np.zeros(3)}), [], 3, "E0615", "h_indptr.npy", "ascend")
refuses("csr_too_short", variant("form", {"h_indptr": np.array([0, 0, 0, 0, 0, 2]), "h_indices": np.zeros(3, int), "h_data": np.zeros(3)}), [], 3, "E0615", "h_indptr.npy")
refuses("batch_descends", variant("form", {"batch": np.array([0, 1, 0, 1, 1])}), [], 3, "E0615", "batch.npy", "item 2")
refuses("batch_beyond", variant("form", {"batch": np.array([0, 1, 2, 3, 2 ** 30])}), [], 3, "E0615", "batch.npy", "[0, 5)")
refuses("batch_beyond_labels", variant("form", {"batch": np.array([0, 1, 2, 3, 3]), "graph_y": np.zeros(3)}), [], 3, "E0615", "batch.npy", "[0, 3)")
refuses("batch_joined", variant("form", {"batch": np.array([0, 0, 0, 0, 1]), "edge_index": np.array([[0] * 8 + [4], [1] * 9])}), [], 3, "E0615", "batch.npy", "edge 8")
few = variant("said", {"edge_index": np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]]), "edge_weight": np.arange(5.0), "edge_flag": np.arange(5.0), "w": np.arange(5.0), "v": np.arange(5.0),
                       "u": np.arange(5.0)}, num_edges=5, rows={"w": "edge", "v": "none", "u": "node", "edge_flag": "edge", "edge_weight": "edge", "z": "node", "wide": "node", "h": "node"})
check("rows_said", few, 2, "--method", "random")

# ---- nothing of others is written over --------------------------------------------------------------------------

AGAIN = [box.gnnc, "data", "partition", "few", "-k", "2", "-o", "mine", "--method", "random"]
box.must(*AGAIN, "-k", "5")
box.write("mine/notes.txt", "mine")
r = box.run(*AGAIN)
box.report("over_its_own", r.rc and r.err or sorted(os.listdir(box.path("mine"))) != ["notes.txt", "owner.npy", "part-0", "part-1", "partition.json"] and os.listdir(box.path("mine")))
for name, spoil in (("changed", lambda: box.write("mine/part-0/y.npy", b"mine")), ("more", lambda: box.write("mine/part-1/notes.txt", b"mine")),
                    ("users", lambda: os.remove(box.path("mine/partition.json")))):
    box.must(*AGAIN, "--force")
    spoil()
    box.refuses("over_" + name, AGAIN, 1, "E0620", "mine/", "--force")
box.must(*AGAIN, "--force")
r = box.run(box.gnnc, "data", "verify", "mine")
box.report("over_by_force", r.rc and r.err or not os.path.exists(box.path("mine", "notes.txt")) and "notes are lost")
box.refuses("over_the_folder", [box.gnnc, "data", "partition", "few", "-k", "2", "-o", "few/../few"], 1, "E0620", "few")
box.refuses("over_the_owners", AGAIN[:-1] + ["mine/owner.npy"], 1, "E0620", "owner.npy")
box.refuses("into_a_file", AGAIN[:6] + ["-o", "owner.txt"], 6, "E0602", "owner.txt")
box.refuses("disk_full", AGAIN[:6] + ["-o", "never"], 6, "E0602", "part-0/", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
box.report("leaves_no_folder", os.path.exists(box.path("never")) and os.listdir(box.path("never")))
box.close()
