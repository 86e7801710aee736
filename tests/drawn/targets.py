#!/usr/bin/python3
"""Draws programs with a schema as executables that train, and compares what one thread, three, and the device that the CPU plays (`--target shim`, the CUDA
text of the kernels, lane by lane) save: loss and parameters after two steps, to the bit. Parameters are all inputs of nodes, too.

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
    for where, flags in (("cpu", ["--threads", "3", "--blas", "off"]), ("shim", [])):
        why = devices.compare(devices.run, program, os.path.join(box, "data"), box, "shim", 2) if where == "shim" else threads(program, box, flags)
        if why:
            return "%s %s: %s" % (dtype, " ".join([where, *flags]), why)
    return None


def threads(program, box, flags):
    saved = []
    for k, more in enumerate((["--threads", "1", "--blas", "off"], flags)):
        at = os.path.join(box, "t%d.st" % k)
        rc, err = devices.run([program, "train", "--data", os.path.join(box, "data"), "--save", at, *more])
        if rc:
            return "train ends with %s: %s" % (rc, err[-300:])
        with open(at, "rb") as f:
            saved.append(f.read())
    return None if saved[0] == saved[1] else "other bits than on one thread"


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
