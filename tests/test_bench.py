#!/usr/bin/env python3
"""The benchmark itself, without peers and with peers of our own making, one honest and one that lies. usage: test_bench.py BUILD
Run: alone"""
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FAKE = '''#!%s
"""Speaks the protocol of bench/peer.py for plain aggregation; LIE is added to its gradient, in f64 only if EVER; each run takes MS."""
import json, sys
import numpy as np
LIE, EVER, MS = %s, %s, %s
for line in sys.stdin:
    job, answer = json.loads(line), {}
    if job["do"] == "open":
        kind = {"f64": np.float64}.get(job.get("dtype"), np.float32)
        load = lambda name: np.load(job["data"] + "/" + name + ".npy")
        (src, dst), x, cot = load("edge_index"), load("x").astype(kind), load("cot").astype(kind)
        answer = {"versions": "fake 1"}
    if job["do"] in ("dump", "compare"):
        out, grad = np.zeros_like(x), np.zeros_like(x)
        np.add.at(out, dst, x[src])
        np.add.at(grad, src, cot[dst])
        grad[0, 0] += LIE if EVER or kind == np.float32 else 0
    if job["do"] == "dump":
        np.savez(job["to"], out=out, cot=cot, **{"grad.x": grad})
    if job["do"] == "compare":
        want = np.load(job["with"])["grad.x"]
        answer = {"off": float(np.abs(grad - want).max() / np.abs(want).max())}
    if job["do"] == "time":
        answer = {"ms": [MS] * job["iters"] if MS <= job["beyond"] else [], "peak_bytes": 4000}
    print(json.dumps(answer), flush=True)
'''


def report(name, wrong):
    print("FAIL %s: %s" % (name, wrong) if wrong else "ok bench." + name)


def run(gnnc, out, *args):
    env = {k: v for k, v in os.environ.items() if not k.startswith("GNNC_BENCH")}
    argv = [sys.executable, os.path.join(ROOT, "bench", "run"), "--size", "tiny", "--width", "8", "--rounds", "1", "--threads", "1",
            "--gnnc", gnnc, "--out", out]
    p = subprocess.run(argv + list(args), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, timeout=300)
    said = p.stdout.decode()
    if p.returncode:
        return said, None, None
    with open(os.path.join(out, "results.json")) as f, open(os.path.join(out, "report.md")) as g:
        return said, json.load(f), g.read()


def fake(folder, name, lie, ever=True, ms=999.0):
    path = os.path.join(folder, name)
    with open(path, "w") as f:
        f.write(FAKE % (sys.executable, lie, ever, ms))
    os.chmod(path, 0o755)
    return path


def alone(gnnc, box):
    """Without peers: times of ours, no ratios, and it is said."""
    said, doc, text = run(gnnc, os.path.join(box, "alone"), "--rows", "sum,net_sage_mean,limit", "--pyg", "/nowhere", "--dgl", "/nowhere")
    if not doc:
        return said[-300:]
    if "SKIPPED pyg" not in said or "Skipped: pyg" not in text:
        return "missing peers are not reported"
    if not doc["rows"]["sum"]["ours"]["grad"]["ms"] > 0 or not doc["rows"]["net_sage_mean"]["ours"]["epoch"]["ms"] > 0:
        return "no times of ours"
    xml.etree.ElementTree.parse(os.path.join(box, "alone", "ratios.svg"))
    return "a ratio against nobody" if re.search(r"\| [\d.]+x \|", text) else ""


def honest(gnnc, box):
    out = os.path.join(box, "honest")
    said, doc, text = run(gnnc, out, "--rows", "sum", "--peers", "pyg,dgl", "--pyg", fake(box, "true", 0.0), "--dgl", fake(box, "same", 1e-6))
    if not doc:
        return said[-300:]
    row = doc["rows"]["sum"]
    if not row["off"] < 1e-5:
        return "our own difference is %s" % row["off"]
    want = 999.0 / row["ours"]["infer"]["ms"]
    if not re.search(r"infer +[\d.]+ ms +%.2fx" % want, said) or "999" not in text:
        return "no ratio of %.2f in: %s" % (want, said)
    runs = [c["runs"] for c in row["ours"].values()] + [c["runs"] for r in row["peers"].values() for c in r["cells"].values()]
    if runs != [1] * 6:
        return "each side runs as often as the other in both modes, found %s" % runs
    with open(os.path.join(out, "ratios.svg")) as f:
        return "" if ">sum<" in f.read() else "the plot lacks the row"


def lost(gnnc, box):
    """A row that was lost, and one that could not run, stand in the table like the others; a peer that is far behind is not timed."""
    out = os.path.join(box, "lost")
    quick, slow = fake(box, "quick", 0.0, ms=1e-6), fake(box, "slow", 0.0)
    said, doc, text = run(gnnc, out, "--table", "--rows", "sum,gat", "--peers", "pyg,dgl", "--pyg", slow, "--dgl", quick)
    if not doc:
        return said[-300:]
    cells = doc["rows"]["sum"]["peers"]
    if "ms" in cells["pyg"]["cells"]["grad"] or doc["rows"]["sum"]["ours"]["grad"]["savings"]["left_out"] != 0:
        return "cells: %s" % doc["rows"]["sum"]
    if not re.search(r"\| sum \|.*\| dgl \| 0.000 \| 0.0x \|.*nothing", said):
        return "the lost row is not in the table: " + said
    return "" if re.search(r"\| gat \|.*failed: ", said) and "failed: " in text else "the row that failed is not in the table: " + said


def liar(gnnc, box):
    """A peer that differs from the reference does not count; if the reference differs from us nobody does."""
    said, doc, text = run(gnnc, os.path.join(box, "liar"), "--rows", "sum", "--peers", "pyg,dgl", "--pyg", fake(box, "a", 0.0), "--dgl", fake(box, "b", 1.0))
    if not doc or "DISAGREEMENT: dgl" not in said or "differs from PyG" not in text:
        return "the peer that lies is not reported: " + said[-300:]
    said, doc, text = run(gnnc, os.path.join(box, "alone2"), "--rows", "sum", "--peers", "pyg", "--pyg", fake(box, "c", 1.0), "--dgl", "/nowhere")
    if not doc or "DISAGREEMENT: our" not in said or "does not count" not in text or "x pyg" in said:
        return "the reference that differs from us counts: " + said[-300:]
    said, doc, text = run(gnnc, os.path.join(box, "ties"), "--rows", "sum", "--peers", "pyg", "--pyg", fake(box, "d", 1.0, False), "--dgl", "/nowhere")
    if not doc or "DISAGREEMENT" in said or "sum counts: in f64" not in text or "x pyg" not in said:
        return "the reference that f64 says is off by f32 alone does not count: " + said[-300:]
    return ""


def graphs(box):
    """The same seed gives the same bytes; another one another graph; no loops, no parallel edges, both directions."""
    import numpy as np
    sizes = [subprocess.run([sys.executable, os.path.join(ROOT, "bench", "graph.py"), "300,2000,4,3", os.path.join(box, d), "--seed", seed],
                            stdout=subprocess.DEVNULL).returncode for d, seed in (("g1", "1"), ("g2", "1"), ("g3", "2"))]
    if any(sizes):
        return "graph.py ended with %s" % sizes
    a, b, c = (np.load(os.path.join(box, d, "edge_index.npy")) for d in ("g1", "g2", "g3"))
    keys = set(map(tuple, a.T))
    if not np.array_equal(a, b) or np.array_equal(a, c):
        return "the seed does not decide"
    if a.shape != (2, 2000) or len(keys) != 2000 or any(u == v or (v, u) not in keys for u, v in keys):
        return "loops, parallel edges or one direction"
    return ""


def models(gnnc, box):
    """Where values lie changes no bit of a layer's outputs and gradients, on a graph with hubs."""
    import numpy as np
    sys.path.insert(0, os.path.join(ROOT, "bench"))
    import graph
    import ours
    import library  # ours knows its folder
    import rows
    wrong = []
    for name in ("custom", "transformer", "pna", "gen"):
        folder, found = graph.case(box, "tiny", 16, rows.EDGE_INPUTS.get(name, [])), []
        for options in ((), ("--disable=memplan",)):
            us = ours.Ours(gnnc, box, name, folder, 16, options)
            ours.call(us.argv + ["--emit=lib", "--prefix=m", "-o", us.out])
            lib = library.Library(us.out + ".so", "m", np.float32)
            inputs = {i.name.decode(): ours.features(folder, i.name.decode()) for i in lib.inputs}
            src, dst = np.load(os.path.join(folder, "edge_index.npy"))
            lib.on_graph(len(inputs["x"]), len(inputs["x"]), src, dst, 1, None)
            found.append(dict(lib.vjp(inputs, [ours.features(folder, "cot")]), out=lib.forward(inputs)[0]))
        wrong += ["%s: %s" % (name, k) for k in found[0] if found[0][k].tobytes() != found[1][k].tobytes()]
    return ", ".join(wrong)


def typed_dump(layer, folder, meta, width):
    """What numpy says of a layer on a typed graph with weights of its own, as bench/peer.py dumps it."""
    import numpy as np
    load = lambda name: np.load(os.path.join(folder, name + ".npy"))
    rng, x, cot = np.random.default_rng(5), load("x"), load("cot")
    t = {"x": x, "cot": cot, "out": np.zeros_like(x), "grad.x": np.zeros_like(x)}

    def weight(name, *shape):
        t["param." + name] = rng.standard_normal(shape).astype("f4")
        return t["param." + name]

    rgcn = layer == "rgcn"
    if rgcn:
        W, root, b = weight("weight", len(meta["relations"]), width, width), weight("root", width, width), weight("bias", width)
        t["out"] += x @ root + b
        t["grad.x"] += cot @ root.T
    for r, (name, ends) in enumerate(meta["relations"].items()):
        (s, d), key = (slice(*meta["first"][int(k[1:]):][:2]) for k in ends), "convs.<%s___%s___%s>." % (ends[0], name, ends[1])
        src, dst = load(name + ".edge_index")
        per = 1 / np.maximum(np.bincount(dst, minlength=d.stop - d.start), 1)[:, None]
        mean, back = np.zeros_like(x[d]), np.zeros_like(x[s])
        np.add.at(mean, dst, x[s][src])
        left = W[r] if rgcn else weight(key + "lin_l.weight", width, width).T
        t["out"][d] += mean * per @ left
        np.add.at(back, src, (cot[d] * per @ left.T)[dst])
        t["grad.x"][s] += back
        if not rgcn:
            right = weight(key + "lin_r.weight", width, width).T
            t["out"][d] += x[d] @ right + weight(key + "lin_l.bias", width)
            t["grad.x"][d] += cot[d] @ right.T
    return t


def typed(gnnc, box):
    """Layers on edges and nodes of several kinds agree with numpy and not with a wrong reference, and have a table."""
    import numpy as np
    sys.path.insert(0, os.path.join(ROOT, "bench"))
    import ours
    import typed_graph
    folder = os.path.join(box, "typed")
    meta = typed_graph.make("rmat_tiny", folder, 16)
    for layer in "rgcn", "hetero":
        us, t = ours.Typed(gnnc, box, layer, folder, meta, 16, 1), typed_dump(layer, folder, meta, 16)
        found = []
        for wrong in None, "out", "grad.x":
            dump = os.path.join(box, "typed.npz")
            np.savez(dump, **{k: v + (k == wrong) for k, v in t.items()})
            found.append(us.compare(dump)[0])
        if not (found[0] < 1e-4 and min(found[1:]) > 1e-3):
            return "%s differs by %s" % (layer, found)
    said, doc, text = run(gnnc, os.path.join(box, "table"), "--rows", "typed", "--typed", "rmat_tiny", "--layers", "rgcn,hetero", "--pyg", "/nowhere", "--dgl", "/nowhere")
    if not doc:
        return said[-300:]
    return "" if re.search(r"\| rgcn \| rmat_tiny \| [\d.]+ \|", text) and "| hetero | rmat_tiny |" in text else "no table: " + text[-500:]


def drawn(gnnc, box):
    """Drawn programs agree with numpy, a numpy that adds wrongly is noticed, and the bound of one is measured."""
    argv = [sys.executable, os.path.join(ROOT, "bench", "drawn.py"), "--gnnc", gnnc, "--out", os.path.join(box, "drawn"), "--size", "tiny"]
    p = subprocess.run(argv + ["--check", "--seeds", "6"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    if p.returncode or p.stdout.decode().count("agrees") != 6:
        return "check: " + p.stdout.decode()[-300:]
    wrong = "import sys; sys.path.insert(0, %r); sys.argv = sys.argv[1:]; import drawn; " \
            "drawn.NUMPY['sub'] = lambda a, b: a + b; drawn.main()" % os.path.join(ROOT, "bench")
    p = subprocess.run([sys.executable, "-c", wrong] + argv[1:] + ["--check", "--seeds", "1", "--first", "2"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if p.returncode != 1 or "FAIL value off" not in p.stdout.decode():
        return "a wrong reference agrees: " + p.stdout.decode()[-300:]
    p = subprocess.run(argv + ["--seeds", "1", "--rounds", "1"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    with open(os.path.join(box, "drawn", "drawn.json")) as f:
        row = json.load(f)[0]
    if p.returncode or "median" not in p.stdout.decode() or not (row["grad"]["ratio"] > 0 and row["forward"]["operations_ms"] > 0):
        return "measure: " + p.stdout.decode()[-300:]
    return ""


def main():
    gnnc = os.path.join(os.path.abspath(sys.argv[1]), "gnnc")
    with tempfile.TemporaryDirectory(prefix="gnnc-bench-") as box:
        report("graphs", graphs(box))
        report("alone", alone(gnnc, box))
        report("honest_peers", honest(gnnc, box))
        report("liars", liar(gnnc, box))
        report("lost", lost(gnnc, box))
        report("models", models(gnnc, box))
        report("typed", typed(gnnc, box))
        report("drawn", drawn(gnnc, box))


main()
