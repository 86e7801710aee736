#!/usr/bin/env python3
"""Equal bits: weights for every number of threads and every kind of kernel, a run that was killed and resumed against one that was not.
Also what SIGINT and SIGTERM leave behind.
usage: test_determinism.py BUILD

GNNC_LONG=1 kills 20 times per model instead of 4."""
import json
import os
import random
import signal
import subprocess
import sys
import time

from sandbox import Sandbox

box = Sandbox(sys.argv[1], "determinism")
LONG = bool(os.environ.get("GNNC_LONG"))
HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(os.path.dirname(HERE), "examples")
CORA = os.path.join(EXAMPLES, "data", "cora")
MODELS = ["gcn", "gat"]


def read(name):
    with open(box.path(name), "rb") as f:
        return f.read()


def build(model):
    box.must(box.gnnc, "build", os.path.join(EXAMPLES, model + ".gnn"), "--data", CORA, "-o", box.path(model))


def train(model, save, *more):
    return [box.path(model), "train", "--data", CORA, "--seed", "3", "--save", save] + [str(m) for m in more]


def threads(model):
    want = None
    for t in (1, 2, 3, 8):
        box.must(*train(model, "t.st", "--epochs", 20, "--threads", t))
        got = read("t.st")
        want = want or got
        box.report("%s_threads_%d" % (model, t), want != got and "weights differ from those of one thread")


def cpus(model):
    """Kernels of every variant that this CPU has give the bits of the generic ones."""
    want = None
    for cpu in ("generic", "avx2", "avx512"):
        r = box.run(*train(model, "c.st", "--epochs", 6, "--cpu", cpu, "--blas", "off"))
        if r.rc and "R403" in r.err:
            box.skip("%s_cpu_%s" % (model, cpu), "this CPU has not got it")
            continue
        want = want or read("c.st")
        box.report("%s_cpu_%s" % (model, cpu), r.rc and r.err or (want != read("c.st") and "weights differ from those of generic kernels"))


def many_rows():
    """Rows enough that each block of a sum over all of them has several leaves, which one thread merges."""
    box.must(box.gnnc, "data", "generate", "large", "--nodes", 40000, "--features", 4)
    box.must(box.gnnc, "build", os.path.join(EXAMPLES, "gcn.gnn"), "--data", "large", "-o", box.path("large_gcn"))
    run, want = [box.path("large_gcn"), "train", "--data", "large", "--epochs", "2", "--blas", "off", "--save", "l.st"], None
    for name, more in [("threads_%d" % t, ["--threads", str(t)]) for t in (1, 2, 3, 8)] + [("generic", ["--cpu", "generic"])]:
        box.must(*run, *more)
        want = want or read("l.st")
        box.report("many_rows_" + name, want != read("l.st") and "weights differ from those of one thread")


def stored(name):
    """Bytes of each tensor of a safetensors file."""
    whole = read(name)
    n = int.from_bytes(whole[:8], "little")
    head = json.loads(whole[8:8 + n])
    return {k: whole[8 + n:][slice(*v["data_offsets"])] for k, v in head.items() if k != "__metadata__"}


def start(argv):
    return subprocess.Popen(argv, cwd=box.root, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def resumed(model, n_kills):
    """One training run, killed again and again; in the end its weights are those of a run in one piece."""
    epochs, rng = (150 if model == "gcn" else 30), random.Random(model)
    box.must(*train(model, "whole.st", "--epochs", epochs, "--threads", 1, "--metrics", "whole.jsonl"))
    whole, kills, spent, limit = read("whole.st"), 0, 0, 40 * n_kills
    ckpt, metrics = box.path(model + ".ckpt"), model + ".jsonl"
    begun = time.time()
    box.must(*train(model, "time.st", "--epochs", epochs, "--threads", 2))
    length = time.time() - begun
    while kills < n_kills and spent < limit:
        spent += 1
        more = ["--resume", ckpt] if os.path.exists(ckpt) else []
        p = start(train(model, "parts.st", "--epochs", epochs, "--threads", 1 + spent % 3, "--metrics", metrics, "--checkpoint", ckpt,
                        "--every", rng.choice([1, 3, 7]), *more))
        try:
            p.wait(timeout=rng.uniform(0.02, 0.05 + 2 * length / n_kills))
            if p.returncode:
                break
            os.remove(ckpt)  # it got through: again from the start, so that every kill meets a running one
        except subprocess.TimeoutExpired:
            p.send_signal(signal.SIGKILL)
            p.wait()
            kills += 1
        p.stderr.close()
    more = ["--resume", ckpt] if os.path.exists(ckpt) else []
    r = box.run(*train(model, "parts.st", "--epochs", epochs, "--threads", 2, "--metrics", metrics, "--checkpoint", ckpt, *more), limit=300)
    why = r.rc and r.err or kills < n_kills and "only %d kills met a running program" % kills
    box.report("%s_resumed_after_%d_kills" % (model, n_kills), why or (read("parts.st") != whole and "weights differ from the unbroken run's"))
    r = box.run(*train(model, "again.st", "--epochs", epochs, "--threads", 2, "--resume", ckpt))
    box.report("%s_resumed_at_the_end" % model, r.rc and r.err or (read("again.st") != whole and "weights differ"))


def interrupted(model, sig):
    """Exit code 75, a checkpoint, the weights so far; the rest gives the weights of the whole."""
    name = "%s_%s" % (model, sig.name)
    epochs = 400 if model == "gcn" else 60
    ckpt = box.path("i.ckpt")
    for f in ("i.ckpt", "i.st"):
        if os.path.exists(box.path(f)):
            os.remove(box.path(f))
    p = start(train(model, "i.st", "--epochs", epochs, "--threads", 2, "--checkpoint", ckpt, "--every", 10000, "--metrics", "i.jsonl"))
    while p.poll() is None and (not os.path.exists(box.path("i.jsonl")) or not read("i.jsonl")):
        time.sleep(0.005)
    time.sleep(0.02)
    p.send_signal(sig)
    err = p.communicate(timeout=60)[1].decode()
    os.remove(box.path("i.jsonl"))
    why = p.returncode != 75 and "exit code %s: %s" % (p.returncode, err)
    why = why or ("error[R701]" not in err or "--resume" not in err) and "says: " + err
    why = why or not os.path.exists(ckpt) and "no checkpoint"
    if not why:
        weights, state = stored("i.st"), stored("i.ckpt")
        kept = {n: state.get("best/" + n, state.get(n)) for n in weights}
        why = (not weights or weights != kept) and "--save holds other weights than the checkpoint keeps"
    box.codes.add("R701")
    if not why:
        r = box.run(*train(model, "i.st", "--epochs", epochs, "--threads", 3, "--resume", ckpt), limit=300)
        box.must(*train(model, "j.st", "--epochs", epochs, "--threads", 2), limit=300)
        why = r.rc and r.err or read("i.st") != read("j.st") and "weights differ from the unbroken run's"
    box.report(name, why)


def interrupted_before_the_first_epoch():
    """Weights that nothing has trained replace none."""
    with open(box.path("old.st"), "w") as f:
        f.write("precious")
    blocked = lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # so that it waits for the first epoch
    p = subprocess.Popen(train("gcn", "old.st"), cwd=box.root, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=blocked)
    p.send_signal(signal.SIGINT)
    err = p.communicate(timeout=60)[1].decode()
    box.report("SIGINT_before_the_first_epoch", (p.returncode != 75 or read("old.st") != b"precious" or "nothing was saved" not in err) and err)


for m in MODELS:
    build(m)
    threads(m)
    cpus(m)
    resumed(m, 20 if LONG else 4)
many_rows()
interrupted("gcn", signal.SIGINT)
interrupted("gcn", signal.SIGTERM)
interrupted("gat", signal.SIGTERM)
interrupted_before_the_first_epoch()
box.close()
