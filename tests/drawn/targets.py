#!/usr/bin/python3
"""Draws programs with a schema as executables that train, and compares what one thread, three, and the device that the CPU plays (`--target shim`, the CUDA
text of the kernels, lane by lane) save: loss and parameters after two steps, to the bit, and those in f64 with two steps of torch (oracle.py). Parameters are
all inputs of nodes, too; integers of edges and of nodes are maps of the data, which libraries do not have.

usage: tests/drawn/targets.py [--from A] [--count N] [--build BUILD]
The last line is `N programs, N wrong`."""
import argparse
import os
import random
import sys
import tempfile

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, ".."), os.path.join(HERE, "..", "golden")]
import devices  # noqa: E402
import draw_typed  # noqa: E402
import run  # noqa: E402
import tensors  # noqa: E402
from toy import store  # noqa: E402


def compare(p, gnnc, box):
    """What differs, or None."""
    items, rng = run.draw.items(p), random.Random(p.seed + 9)
    w, given = run.data_of(p, items, p.data_seed, p.kind)
    arrays, meta = p.files(w, given)
    arrays = {k: np.asarray(x, np.float32 if isinstance(x, np.ndarray) and x.dtype == np.float64 else np.int64) for k, x in arrays.items()}
    store(os.path.join(box, "data"), arrays, **meta)
    with open(os.path.join(box, "p.gnn"), "w") as f:
        f.write(p.trained())
    program, dtype = os.path.join(box, "p"), rng.choice(["f32", "f32", "f64"])
    rc, err = devices.run([gnnc, "build", os.path.join(box, "p.gnn"), *["--set=%s=%d" % size for size in run.sizes(p)], "--dtype", dtype, "--cpu", "native",
                           "--target", "shim", "--quick", "-o", program])
    if rc:
        return "the build ends with %s: %s" % (rc, err[-600:])
    if dtype == "f64" and not any(getattr(v, "random", None) for v in items):
        why = beside_torch(p, items, w, given, program, box)
        if why:
            return "f64 beside torch: " + why
    why = threads(program, box) or devices.compare(devices.run, program, os.path.join(box, "data"), box, "shim", 2)
    return why and "%s: %s" % (dtype, why)


def beside_torch(p, items, w, given, program, box):
    """What two steps of torch from the same parameters say otherwise."""
    saved = []
    for epochs in ("0", "2"):
        at = os.path.join(box, "at.st")
        rc, err = devices.run([program, "train", "--data", os.path.join(box, "data"), "--epochs", epochs, "--save", at])
        if rc:
            return "train ends with %s: %s" % (rc, err[-300:])
        saved.append(tensors.read(at))
    params = {v: run.stored_name(v) for v in p.inputs("param") + p.learned()}
    for v, name in params.items():
        given[v] = torch.as_tensor(saved[0][name].copy().reshape(given[v].shape))
    given = {v: x.float().double() if v.kind == "float" and v not in params else x for v, x in given.items()}
    for _ in range(2):
        said = run.Said(p, items, w, given, 0, torch.float64)
        if said.least < run.draw.NEAREST or said.ties:
            return None
        loss = sum(torch.tanh(said.ns[v.name]).sum() for v in p.results)
        grads = torch.autograd.grad(loss, [said.ns[v.name] for v in params], allow_unused=True) if loss.requires_grad else [None] * len(params)
        given.update({v: given[v] if d is None else given[v] - 0.05 * d for v, d in zip(params, grads)})
    wrong = [run.off(name, saved[1][name], given[v], given[v], "f64") for v, name in params.items()]
    return "; ".join(filter(None, wrong))


def threads(program, box):
    saved = []
    for n in ("1", "3"):
        at = os.path.join(box, "t.st")
        rc, err = devices.run([program, "train", "--data", os.path.join(box, "data"), "--save", at, "--threads", n, "--blas", "off"])
        if rc:
            return "train ends with %s: %s" % (rc, err[-300:])
        with open(at, "rb") as f:
            saved.append(f.read())
    return None if saved[0] == saved[1] else "three threads give other bits than one"


def campaign(gnnc, seeds):
    """Yields (seed, what differs or None, text) of each program that trains."""
    for p in map(draw_typed.Typed, seeds):
        if not p.results or p.refusable() or not (p.learned() or p.inputs("param")):
            continue
        with tempfile.TemporaryDirectory(prefix="gnnc-targets-") as box:
            yield p.seed, compare(p, gnnc, box), p.trained()


def main():
    a = argparse.ArgumentParser(description=__doc__)
    a.add_argument("--from", dest="first", type=int, default=0)
    a.add_argument("--count", type=int, default=100)
    a.add_argument("--build", default=os.path.join(HERE, "..", "..", "build"))
    opt = a.parse_args()
    torch.set_num_threads(1)
    n = wrong = 0
    for seed, why, text in campaign(os.path.join(os.path.abspath(opt.build), "gnnc"), range(opt.first, opt.first + opt.count)):
        n, wrong = n + 1, wrong + bool(why)
        if why:
            print("seed %d: %s\n%s" % (seed, why, text), flush=True)
    print("%d programs, %d wrong" % (n, wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
