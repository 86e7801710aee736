#!/usr/bin/env python3
"""Several processes train one model, each with its part of the data: weights, metrics and results have the bytes of one
process, whatever the parts; what the ledger measures is what `plan` says; a lost, late or different process ends all.
usage: test_ranks.py BUILD"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np

import toy
from sandbox import Result, Sandbox

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "ranks"), os.path.join(HERE, "..", "bench")]
import models  # noqa: E402
from ranks import peaks  # noqa: E402, of bench/ranks.py

LONG = bool(os.environ.get("GNNC_LONG"))
CORA = os.path.join(HERE, "..", "examples", "data", "cora")
box = Sandbox(sys.argv[1], "ranks")
MPI = shutil.which("mpirun")
MPI_ENV = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1")


def random_data(name, n, e, seed, features=10):
    """With loops, parallel edges, a hub, nodes without edges in or out of them."""
    g = np.random.default_rng(seed)
    ends = g.integers(0, max(1, n * 9 // 10), (2, e)) if n else np.zeros((2, 0), np.int64)
    hub = g.random(e) < 0.1
    ends[1, hub] = 0
    if e > 20:
        ends[0, :5] = ends[1, :5]
        ends[:, 5:9] = ends[:, 9:13]
    mask = g.random(n) < 0.5
    mask[:1] = True
    arrays = {"edge_index": np.ascontiguousarray(ends.astype("<i8")), "x": g.standard_normal((n, features)).astype("<f4"),
              "w": g.standard_normal((e, 3)).astype("<f4"), "edge_type": g.integers(0, 4, e), "y": g.integers(0, 3, n),
              "train_mask": mask, "test_mask": ~mask}
    return toy.store(box.path(name), arrays, num_nodes=n, num_edges=e, num_classes=3)


def same(a, b):
    with open(box.path(a), "rb") as f, open(box.path(b), "rb") as g:
        return f.read() == g.read()


def parts(data, k, method, seed=1, out="parts"):
    out = box.path(out)
    shutil.rmtree(out, ignore_errors=True)
    box.must(box.gnnc, "data", "partition", data, "-k", k, "-o", out, "--method", method, "--seed", seed)
    return out


def build(name, data, source=None, sizes=None):
    if source is None:
        source, sizes = box.write("%s.gnn" % name, models.text(name)), models.sizes(name)
    box.must(box.gnnc, "build", source, "--data", data, "--cpu=native", *(["--set", sizes] if sizes else []), "-o", box.path(name))
    return box.path(name)


def train(program, data, *more, ranks=1, mpi=False, save="w.st", epochs=3):
    for f in (save, "m.jsonl"):
        if os.path.exists(box.path(f)):
            os.remove(box.path(f))
    argv = [program, "train", "--data", data, "--epochs", epochs, "--seed", 3, "--threads", 1, "--blas", "off", "--save",
            box.path(save), "--metrics", box.path("m.jsonl"), *more]
    if mpi:
        argv = [MPI, "--oversubscribe", "-n", ranks] + argv
    elif ranks > 1:
        argv += ["--ranks", ranks]
    r = box.must(*argv, env=MPI_ENV, limit=300)
    with open(box.path("m.jsonl")) as f:
        return r, f.read()


def compare(name, program, data, cases):
    """The first case that differs from one process, or None."""
    _, one = train(program, data, save="one.st")
    for k, method in cases:
        _, lines = train(program, parts(data, k, method), ranks=k)
        if not same("one.st", "w.st"):
            return "%s: %d parts by %s: other weights" % (name, k, method)
        if lines != one:
            return "%s: %d parts by %s: other metrics" % (name, k, method)
    return None


# ---- the same bytes ------------------------------------------------------------------------------------------------


def test_models():
    data = random_data("mid", 1300, 5000, 1)
    for i, name in enumerate(models.MODELS):
        cases = [(2 + i % 3, ["random", "contiguous", "ldg"][i % 3])]
        if LONG:
            cases = [(2, "ldg"), (3, "random"), (4, "contiguous"), (7, "random")]
        box.report("model_%s" % name, compare(name, build(name, data), data, cases))


def test_graphs():
    """Graphs at the ends of what there is: more processes than nodes, no edges, one node."""
    for name, n, e in (("one_node", 1, 0), ("no_edges", 40, 0), ("few", 5, 30), ("dense", 30, 700), ("leaves", 2100, 3000)):
        data = random_data(name, n, e, 7 + n)
        for model in ("gcn", "gat"):
            box.report("graph_%s_%s" % (name, model), compare(model, build(model, data), data, [(3, "random"), (8, "contiguous")]))


def test_batch():
    """Graphs of a batch: edges read values of their graph, by way of their targets."""
    g, n, graphs = np.random.default_rng(5), 600, 40
    batch = np.sort(g.integers(0, graphs, n))
    ends = g.integers(0, n, (2, 20000))
    ends = ends[:, batch[ends[0]] == batch[ends[1]]]
    mask = np.arange(graphs) % 3 > 0
    data = toy.store(box.path("batch"), {"edge_index": np.ascontiguousarray(ends), "x": g.standard_normal((n, 3)).astype("<f4"), "batch": batch,
                                         "graph_y": g.integers(0, 2, graphs), "train_mask": mask, "test_mask": ~mask}, num_graphs=graphs, num_classes=2)
    text = "model net(x: node[F]) -> graph[C] {\n  a = gat(H = 4, D = 4)\n  b = gat(H = 1, D = 16)\n  l = linear(O = C)\n  return l(readout_sum(b(elu(a(x)))))\n}\n"
    source = box.write("batch_gat.gnn", text + (models.TRAIN % {"call": "data.x"}).replace("data.y", "data.graph_y"))
    box.report("batch", compare("batch", build("batch_gat", data, source), data, [(3, "random")]))


def test_examples():
    """With a sparse input, whose gradient is a sum for each of its columns."""
    for name in ("gcn", "gat", "sage", "gin"):
        program = build("cora_" + name, CORA, os.path.join(HERE, "..", "examples", name + ".gnn"))
        box.report("cora_%s" % name, compare(name, program, CORA, [(4, "ldg"), (16, "random")] if LONG or name == "gcn" else [(3, "ldg")]))


    # without dropout the training step, too, reads features by their nonzeros
    source = box.write("plain.gnn", models.text("gcn").replace("dropout(x, 0.3)", "x"))
    box.report("cora_plain", compare("plain", build("plain", CORA, source), CORA, [(3, "random")]))


def test_results():
    program, data = build("gat", box.path("mid")), box.path("mid")
    train(program, data, save="one.st")
    box.must(program, "infer", "--data", data, "--weights", box.path("one.st"), "--blas", "off", "--out", box.path("one.npy"))
    one = box.must(program, "eval", "--data", data, "--weights", box.path("one.st"), "--blas", "off")
    p = parts(data, 3, "random")
    box.must(program, "infer", "--data", p, "--ranks", 3, "--weights", box.path("one.st"), "--out", box.path("all.npy"))
    several = box.must(program, "eval", "--data", p, "--ranks", 3, "--weights", box.path("one.st"))
    box.report("infer", not same("one.npy", "all.npy") and "other results")
    box.report("eval", one.out != several.out and "%s and %s" % (one.out, several.out))


def test_checkpoints():
    """Any number of processes goes on from what another number of them left."""
    program, data = box.path("gat"), box.path("mid")
    train(program, data, save="one.st", epochs=6)
    train(program, parts(data, 4, "random"), "--checkpoint", box.path("c.st"), ranks=4, epochs=2)
    train(program, parts(data, 2, "ldg"), "--resume", box.path("c.st"), "--checkpoint", box.path("d.st"), ranks=2, epochs=4)
    train(program, data, "--resume", box.path("d.st"), epochs=6)
    box.report("resume_on_others", not same("one.st", "w.st") and "other weights")


def test_elastic():
    """Processes leave by SIGTERM and others go on, fewer and then more: with the bytes of one process that trained as long."""
    program, data, lines, usual = box.path("gat"), box.path("mid"), box.path("e.jsonl"), ["--seed", 3, "--threads", 1, "--blas", "off"]
    run = subprocess.Popen([str(x) for x in [program, "train", "--data", parts(data, 4, "random"), "--ranks", 4, "--epochs", 100000, "--checkpoint", box.path("e.st"),
                                             "--metrics", lines, "--deadline", 60, *usual]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=box.root)
    while run.poll() is None and not (os.path.exists(lines) and os.path.getsize(lines) > 200):
        time.sleep(0.02)
    run.terminate()
    code = run.wait(timeout=60)
    with open(lines) as f:
        epochs = sum(1 for _ in f)
    for k, method, more in ((2, "ldg", 2), (3, "contiguous", 4)):
        train(program, parts(data, k, method), "--resume", box.path("e.st"), "--checkpoint", box.path("e.st"), ranks=k, epochs=epochs + more)
    train(program, data, save="one.st", epochs=epochs + 4)
    box.report("elastic", (code != 75 and "exit code %d" % code) or (epochs < 1 and "it did not train") or (not same("one.st", "w.st") and "other weights after %d epochs" % epochs))


def launch(*argv, env=MPI_ENV, limit=30):
    """What processes that fail say under mpirun. Open MPI's launcher can hang in its own end (PMIx_server_finalize joins a thread that
    waits for a lock) after all its processes have ended: then they are launched again."""
    for last in (False, False, True):
        run = subprocess.Popen([str(a) for a in (MPI, "--oversubscribe", *argv)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               stdin=subprocess.DEVNULL, cwd=box.root, env=env)
        try:
            out, err = run.communicate(timeout=limit)
            return Result(run.returncode, out.decode(), err.decode())
        except subprocess.TimeoutExpired:
            living = alive(run.pid)
            run.kill()
            out, err = run.communicate() if not living else (b"", b"")
            if living or last:
                return Result("hang", out.decode(), "%d processes are there: %s" % (living, err.decode()))


def alive(parent):
    """How many child processes have not ended."""
    with open("/proc/%d/task/%d/children" % (parent, parent)) as f:
        children = f.read().split()
    n = 0
    for pid in children:
        with open("/proc/%s/stat" % pid) as f:
            n += f.read().rsplit(")", 1)[1].split()[0] != "Z"
    return n


def test_mpi():
    if not MPI:
        box.skip("mpi", "mpirun is not installed")
        return
    program, data = box.path("gat"), box.path("mid")
    train(program, data, save="one.st")
    train(program, parts(data, 3, "ldg"), ranks=3, mpi=True)
    box.report("mpi", not same("one.st", "w.st") and "other weights")
    stops = box.write("stops.sh", '#!/bin/bash\n[ "$OMPI_COMM_WORLD_RANK" = 1 ] && kill -STOP $$\nexec "$@"\n')
    os.chmod(stops, 0o755)
    r = launch("-n", 3, stops, program, "train", "--data", box.path("parts"), "--deadline", 1)
    box.report("mpi_init", (r.rc != 7 and "exit code %s: %s" % (r.rc, r.err)) or ("R903" not in r.err and r.err))
    # a library in which rank 1 stops at the end
    stops = box.write("stops.c", "#include <signal.h>\n#include <stdlib.h>\nint PMPI_Finalize(void);\n"
                      "int MPI_Finalize(void) { return getenv(\"OMPI_COMM_WORLD_RANK\")[0] == '1' && raise(SIGSTOP) ? 1 : PMPI_Finalize(); }\n")
    box.must("cc", "-shared", "-fPIC", stops, "-l:libmpi.so.40", "-o", box.path("stops.so"))
    r = launch("-n", 3, program, "train", "--data", box.path("parts"), "--epochs", 1, "--deadline", 1, env=dict(MPI_ENV, GNNC_MPI=box.path("stops.so")))
    box.report("mpi_finalize", (r.rc != 7 and "exit code %s: %s" % (r.rc, r.err)) or (("R903" not in r.err or "MPI_Finalize" not in r.err) and r.err))


def test_bench():
    """The campaign of bench/ranks.py, in small: data sets with features, and with relations alone."""
    if not LONG or not os.environ.get("GNNC_SHARED"):
        box.skip("bench", "wants GNNC_LONG and the data sets of GNNC_SHARED")
        return
    r = box.run(sys.executable, os.path.join(HERE, "..", "bench", "ranks.py"), os.path.dirname(box.gnnc), "bits", "--data", "cora,aifb",
                "--ranks", "2,4", "--epochs", 3, limit=600)
    box.report("bench", (r.rc and "%s%s" % (r.out[-1000:], r.err[-500:])) or ("equal" not in r.out and "nothing ran"))


# ---- what travels --------------------------------------------------------------------------------------------------


def ledger_of(program, p, k, epochs):
    train(program, p, "--ledger", box.path("ledger.json"), ranks=k, epochs=epochs)
    with open(box.path("ledger.json")) as f:
        return json.load(f)["sites"]


def test_ledger():
    """Measured bytes and rounds are those that were predicted, and those of `plan`; there are pairs of nodes and kinds of edges."""
    k, epochs = 3, 4
    for name, wanted in ("relations", ("dst",)), ("kinds", ("src", "dst")):
        text = box.must(box.path(name), "plan", "--data", box.path("mid")).out
        box.report("pairs_%s" % name, None if all("edge.%s.edge_type" % end in text for end in wanted) else "none of %s" % (wanted,))
    for name, data in [(n, box.path("mid")) for n in ("gcn", "gat", "gates", "relations", "kinds", "vectors", "pna")] + [("plain", CORA)]:
        program, p = box.path(name), parts(data, k, "ldg")
        wrong = None
        sites = ledger_of(program, p, k, epochs)
        for s in sites[1:]:
            for r in s["by_rank"]:
                if (r["bytes_out"], r["rounds"]) != (r.get("predicted_bytes"), r.get("predicted_rounds")):
                    wrong = "site %s: %s" % (s["name"], r)
        plan = json.loads(box.must(program, "plan", "--data", p, "--json", "--threads", 1).out)["train_step"]["ranks"]
        once = sum(t["rows"] * t["row_bytes"] for t in plan["travels"] if t["once"])
        rounds = sum(t["rounds"] for t in plan["travels"] if t["once"])
        mine = [s for s in sites if s["name"].startswith("train_step:")]
        measured = sum(r["bytes_out"] for s in mine for r in s["by_rank"])
        turns = sum(s["by_rank"][0]["rounds"] for s in mine)
        if measured != epochs * plan["bytes"] + once:
            wrong = wrong or "%d bytes measured, %d an epoch and %d once planned" % (measured, plan["bytes"], once)
        if turns != epochs * plan["rounds"] + rounds:
            wrong = wrong or "%d rounds measured, %d an epoch planned" % (turns, plan["rounds"])
        box.report("ledger_%s" % name, wrong or (not plan["bytes"] and "nothing travels"))


# ---- sums of own rows ----------------------------------------------------------------------------------------------


def weights_of(name):
    with open(box.path(name), "rb") as f:
        n = int.from_bytes(f.read(8), "little")
        head, body = json.loads(f.read(n)), f.read()
    return np.concatenate([np.frombuffer(body[h["data_offsets"][0]:h["data_offsets"][1]], "<f4").astype(np.float64)
                           for k, h in sorted(head.items()) if h.get("dtype") == "F32"])


def test_local_sums():
    """Each process sums its own rows: gradients within rounding of one process's, the same bytes whenever rows come, less that travels, and
    as much as was predicted. A step of gradient descent from the same weights, so long that little else is in the difference."""
    for i, (name, n, e, k, method) in enumerate((("pooled", 21000, 30000, 2, "contiguous"), ("pna", 700, 2500, 3, "random"), ("sage", 1300, 5000, 4, "contiguous"),
                                                 ("gates", 2100, 9000, 3, "ldg"), ("table", 900, 4000, 4, "random"), ("kinds", 900, 4000, 3, "random"), ("gcn", 5, 30, 8, "contiguous"), ("gcn", 2708, 0, 4, "random"))):
        data = random_data("local%d" % i, n, e, 40 + i, features=100) if e else CORA  # which is read by its nonzeros
        text = models.text(name).replace("adam", "sgd").replace("dropout(x, 0.3)", "dropout(x, 0.3)" if e else "x")
        program = build("sums%d" % i, data, box.write("sums%d.gnn" % i, text), models.sizes(name))
        p, flags = parts(data, k, method), ("--set", "lr=1000")
        train(program, data, "--set", "lr=0", epochs=1, save="zero.st")
        train(program, data, *flags, epochs=1, save="one.st")
        train(program, p, *flags, "--sums", "local", "--ledger", box.path("ledger.json"), ranks=k, epochs=1, save="local.st")
        train(program, p, *flags, "--sums=local", "--overlap", "off", ranks=k, epochs=1, save="again.st")
        zero, one, local = (weights_of(f) for f in ("zero.st", "one.st", "local.st"))
        error = np.linalg.norm(local - one) / np.linalg.norm(one - zero)
        with open(box.path("ledger.json")) as f:
            wrong = [s["name"] for s in json.load(f)["sites"][1:] for r in s["by_rank"]
                     if (r["bytes_out"], r["rounds"]) != (r.get("predicted_bytes"), r.get("predicted_rounds"))]
        plans = [json.loads(box.must(program, "plan", "--data", p, "--json", "--threads", 1, "--sums", s).out)["train_step"]["ranks"]
                 for s in ("exact", "local")]
        box.report("local_sums_%s_%d_%d" % (name, n, k), (not error <= 1e-5 and "gradients differ by %g of their norm" % error) or
                   (not same("local.st", "again.st") and "a run that waits for everything has other bytes") or (wrong and "not as predicted: %s" % wrong) or
                   (n > 99 and plans[1]["bytes"] >= plans[0]["bytes"] and "sends no less: %s" % [x["bytes"] for x in plans]) or
                   ([x["sums"] for x in plans] != ["exact", "local"] and "plan does not say it"))
    box.refuses("sums", [program, "train", "--data", p, "--ranks", k, "--sums", "fast"], 1, "R403", "exact or local")


def test_far_totals():
    """Totals of edges read nodes' values that peers make in the step before: exact sums send them on, and local ones read them, once they have come."""
    program, data = box.path("far_totals"), box.path("mid")
    train(program, data, save="far.st")

    def infer(out, d, *more):
        box.must(program, "infer", "--data", d, "--weights", box.path("far.st"), "--threads", 1, "--blas", "off", "--out", box.path(out), *more)
    infer("one.npy", data)
    for k in (2, 3):
        p = parts(data, k, "random")
        infer("exact.npy", p, "--ranks", k)
        for overlap in ("on", "off"):
            infer("local_%s.npy" % overlap, p, "--ranks", k, "--sums", "local", "--overlap", overlap)
        box.report("far_totals_%d" % k, (not same("one.npy", "exact.npy") and "other results") or
                   (not same("local_on.npy", "local_off.npy") and "local sums: other results where processes wait for everything"))


def test_many():
    """Sums that more than 16 processes merge by stages, of few and of many elements, with numbers of processes that have divisors or none, and blocks
    that they do not share out evenly. Weights are those of one process, or near them; what is sent is what was predicted."""
    data = random_data("many", 21000, 30000, 5, features=100)
    program = build("gcn", data)
    train(program, data, save="one.st")
    for k, method in ((18, "random"), (34, "contiguous")):
        for sums in ("exact", "local"):
            train(program, parts(data, k, method), "--sums", sums, "--ledger", box.path("ledger.json"), ranks=k, save="many.st")
            one, many = weights_of("one.st"), weights_of("many.st")
            with open(box.path("ledger.json")) as f:
                sites = json.load(f)["sites"][1:]
            wrong = [s["name"] for s in sites for r in s["by_rank"] if (r["bytes_out"], r["rounds"]) != (r.get("predicted_bytes"), r.get("predicted_rounds"))]
            box.report("many_%d_%s" % (k, sums), (sums == "exact" and not same("one.st", "many.st") and "other weights") or
                       (not np.linalg.norm(many - one) <= 1e-4 * np.linalg.norm(one) and "weights are far from those of one process") or
                       (wrong and "not as predicted: %s" % wrong))


# ---- memory --------------------------------------------------------------------------------------------------------


def test_memory():
    """What `plan` says that each process takes is what its peak grows by, with a graph that is much larger than the program."""
    program, data, peak = None, {}, {}
    epochs = {"little": 2000, "large": 8}  # so that each runs long enough to be looked at
    for name, n in (("little", 40), ("large", 60000)):
        data[name] = parts(random_data(name, n, 3 * n, 3, features=64), 2, "ldg", out=name + ".parts")
        if not program:
            program = build("wide", box.path(name), box.write("wide.gnn", models.text("gcn").replace("dropout(x, 0.3)", "x").replace("16", "64")))
    for sums in ("exact", "local"):
        for name, p in data.items():
            measured, rc = peaks([program, "train", "--data", p, "--ranks", 2, "--epochs", epochs[name], "--threads", 1, "--sums", sums])
            plan = json.loads(box.must(program, "plan", "--data", p, "--json", "--threads", 1, "--sums", sums).out)["process_bytes"]
            peak[name] = max(measured), plan["most"], rc
        grown, planned = (peak["large"][i] - peak["little"][i] for i in (0, 1))
        box.report("memory_%s" % sums, (peak["large"][2] and "it ends with %d" % peak["large"][2]) or
                   (not 0.9 <= grown / planned <= 1.07 and "%d bytes planned, %d measured" % (planned, grown)))


# ---- what is refused -----------------------------------------------------------------------------------------------


def test_refused():
    program, data = box.path("gcn"), box.path("mid")
    p = parts(data, 3, "ldg")
    argv = [program, "train", "--data"]
    box.refuses("whole_data", argv + [data, "--ranks", 2], 3, "R912", "found no parts")
    box.refuses("other_number", argv + [p, "--ranks", 2], 3, "R912", "3 parts", "2 processes")
    box.refuses("one_process", argv + [p], 3, "R912", "3 parts", "mpirun -n P")
    box.refuses("flag", argv + [p, "--ranks", 3, "--cone", "on"], 1, "R911", "--cone")
    box.refuses("overlap", argv + [p, "--ranks", 3, "--overlap", "some"], 1, "R403", "--overlap", "on or off")
    box.refuses("blas", argv + [p, "--ranks", 3, "--blas", "on"], 1, "R911", "--blas")
    found = box.write("found.gnn", models.text("edge_conv").replace("edge_conv(O = 8, nn = mlp(16))", "dynamic_edge(O = 8, nn = mlp(16), k = 3)"))
    near = build("found", data, found)
    box.refuses("found_graphs", [near, "train", "--data", p, "--ranks", 3], 1, "R911", "cannot be shared")
    damaged = parts(data, 3, "ldg")
    ids = np.load(os.path.join(damaged, "part-1", "node_id.npy"))
    ids[0] = ids[1]
    np.save(os.path.join(damaged, "part-1", "node_id.npy"), ids)
    box.refuses("damaged", argv + [damaged, "--ranks", 3, "--deadline", 10], 2, "R109", "node_id.npy")


# ---- processes that go -----------------------------------------------------------------------------------------------


def children(pid):
    r = subprocess.run(["pgrep", "-P", str(pid)], stdout=subprocess.PIPE, check=False)
    return [int(x) for x in r.stdout.split()]


def start(program, p, k, *more):
    return subprocess.Popen([program, "train", "--data", p, "--ranks", str(k), "--epochs", "1000000", "--threads", "1", "--deadline", "6",
                             "--save", box.path("lost.st"), *more], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=box.root)


def ends(name, run, code, word, limit=30):
    try:
        _, err = run.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        run.kill()
        box.report(name, "it does not end")
        return
    text = err.decode()
    box.report(name, (run.returncode != code and "exit code %s, wanted %d: %s" % (run.returncode, code, text)) or
               (word not in text and "does not say `%s`: %s" % (word, text)) or
               (text.count("error[") != 1 and "not one message: %s" % text) or
               (os.path.exists(box.path("lost.st")) and "weights were written"))


def test_faults():
    program, p = build("gcn", box.path("mid")), parts(box.path("mid"), 3, "ldg")
    for name, sign, code, word in (("killed", signal.SIGKILL, 7, "rank"), ("stopped", signal.SIGSTOP, 7, "rank")):
        for victim in (0, 1):
            run = start(program, p, 3)
            while len(children(run.pid)) < 2 and run.poll() is None:
                time.sleep(0.02)
            time.sleep(0.4)
            pids = children(run.pid)
            if len(pids) < 2:
                box.report("%s_%d" % (name, victim), "ended by itself: %s" % run.communicate()[1].decode())
                continue
            os.kill(pids[victim], sign)
            ends("%s_%d" % (name, victim), run, code, word)
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
    run = start(program, p, 3, "--checkpoint", box.path("stop.st"))
    time.sleep(1)
    run.send_signal(signal.SIGTERM)
    _, err = run.communicate(timeout=60)
    box.report("interrupted", (run.returncode != 75 and "exit code %s: %s" % (run.returncode, err.decode())) or
               (not os.path.exists(box.path("stop.st")) and "no checkpoint"))
    if os.path.exists(box.path("lost.st")):
        os.remove(box.path("lost.st"))


def test_pipe():
    """Whoever reads a plan may leave: that is no lost process."""
    p = parts(box.path("mid"), 3, "ldg")
    for data, name in ((p, "parts"), (box.path("mid"), "one")):
        run = subprocess.Popen([box.path("gcn"), "plan", "--data", data], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        run.stdout.close()
        err = run.stderr.read().decode()
        box.report("pipe_%s" % name, (run.wait() != -signal.SIGPIPE and "exit code %s" % run.returncode) or err)


def test_campaign():
    """Scenarios of tests/ranks/campaign.py; those of every day are few."""
    r = box.run(sys.executable, os.path.join(HERE, "ranks", "campaign.py"), os.path.dirname(box.gnnc), "--count", 60 if LONG else 6, limit=900)
    box.report("campaign", r.rc and r.out + r.err)


def own_memory(pids):
    """Bytes of each process that are in memory, without what it shares with others."""
    sizes = []
    for pid in pids:
        with open("/proc/%d/status" % pid) as f:
            sizes.append(1024 * sum(int(line.split()[1]) for line in f if line.startswith(("RssAnon:", "RssFile:"))))
    return sizes


def test_soak():
    """Ten thousand steps of four processes need no more memory of their own at their end than after the first hundreds. What they share has one size; its
    pages are touched as messages come round the ring of each pair for the first time, here within some thousands of steps."""
    if not LONG:
        box.skip("soak", "wants GNNC_LONG")
        return
    p, lines, seen = parts(box.path("few"), 4, "random"), box.path("soak.jsonl"), []
    run = subprocess.Popen([box.path("gcn"), "train", "--data", p, "--ranks", "4", "--epochs", "10000", "--threads", "1", "--metrics", lines],
                           stdout=subprocess.DEVNULL, cwd=box.root)
    while run.poll() is None:
        time.sleep(0.2)
        done = sum(1 for _ in open(lines)) if os.path.exists(lines) else 0
        try:
            seen += [own_memory([run.pid] + children(run.pid))] * (500 < done < 9900)
        except OSError:
            break
    seen = [s for s in seen if len(s) == 4 and min(s) > 0]
    grown = [b / a - 1 for a, b in zip(seen[0], seen[-1])] if seen else []
    print("# own memory of four processes grew by %s" % ", ".join("%.2f %%" % (100 * g) for g in grown))
    box.report("soak", (run.returncode and "exit code %d" % run.returncode) or (not grown and "it was not seen") or (max(grown) > 0.01 and str(grown)))


def test_disagree():
    """Processes with another program, seed, partition or flag."""
    if not MPI:
        box.skip("disagree", "mpirun is not installed")
        return
    program, other = box.path("gcn"), box.path("sage")
    p = parts(box.path("mid"), 2, "ldg")
    shutil.move(p, box.path("first"))
    second = parts(box.path("mid"), 2, "random")
    usual = [program, "train", "--data", box.path("first"), "--epochs", "2", "--threads", "1", "--deadline", "10"]
    for name, argv, word in (("program", [other] + usual[1:], "program"), ("seed", usual + ["--seed", "9"], "flags"),
                             ("partition", [second if x == box.path("first") else x for x in usual], "flags"),
                             ("flag", usual + ["--set", "lr=0.02"], "flags"), ("sums", usual + ["--sums", "local"], "flags")):
        r = launch("-n", 1, *usual, ":", "-n", 1, *argv, limit=60)
        box.report("other_%s" % name, (r.rc != 8 and "exit code %s: %s" % (r.rc, r.err)) or (word not in r.err and "does not say `%s`: %s" % (word, r.err)))


for test in (test_models, test_graphs, test_batch, test_examples, test_results, test_checkpoints, test_elastic, test_mpi, test_bench, test_ledger, test_local_sums, test_far_totals, test_many, test_memory, test_refused, test_faults, test_pipe, test_campaign, test_soak, test_disagree):
    try:
        test()
    except RuntimeError as e:
        box.report(test.__name__, e)
box.close()
