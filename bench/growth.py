#!/usr/bin/python3
"""Time and memory from a tenth of arxiv over arxiv to a quarter of products, beside what the executable predicts before it runs.

usage: growth.py [--out DIR] [--gnnc FILE] [--threads 2] [--iters 3] [--models A,B] [--sizes A,B] [--kernels] [--before "CMD .."]

Makes the graphs (minutes and a gigabyte for the largest), probes the machine, and prints per layer, function and size the best time,
the predicted one and their ratio, and the arena, with what `plan` said where that is another; then the median of how far predictions
are off, either way. Width 64. --kernels shows each kernel. --before is put in front of each timed command.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import graph  # noqa: E402
import rows  # noqa: E402
from ours import HERE  # noqa: E402

MODELS, WIDTH = ["sum", "gcn", "gat", "sage_max"], 64
FUNCTIONS = (("infer", "forward"), ("grad", "vjp"))


def kernels(timed, planned):
    for k, p in zip(timed["kernels"], planned["steps"]):
        print("      %9.3f ms  predicted %9.3f  %5.2f  memory %9.3f arithmetic %9.3f  chunks %d  %s" % (
            k["least_ms"], p["ms"], k["least_ms"] / p["ms"], p["memory_ms"], p["arithmetic_ms"], p["chunks"], k["name"]))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = os.path.dirname(HERE)
    ap.add_argument("--out", default=os.path.join(root, "build", "bench"))
    ap.add_argument("--gnnc", default=os.path.join(root, "build", "gnnc")), ap.add_argument("--threads", default="2")
    ap.add_argument("--iters", default="3"), ap.add_argument("--models", default=",".join(MODELS)), ap.add_argument("--before", default="")
    ap.add_argument("--sizes", default=",".join(rows.GROWTH)), ap.add_argument("--kernels", action="store_true")
    a = ap.parse_args()
    env = dict(os.environ, XDG_CACHE_HOME=os.path.abspath(os.path.join(a.out, "cache")))
    os.makedirs(env["XDG_CACHE_HOME"], exist_ok=True)

    def run(*argv):
        return subprocess.run([str(x) for x in argv], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, check=True,
                              timeout=600).stdout.decode()

    off, before = [], a.before.split()
    run(*before, a.gnnc, "machine", "--probe", "--threads", a.threads)
    for model in a.models.split(","):
        binary = os.path.join(a.out, "growth-" + model)
        run(a.gnnc, "build", os.path.join(HERE, "models", model + ".gnn"), "--cpu=native", "--set",
            ",".join("%s=%d" % d for d in rows.dims(model, WIDTH).items()), "-o", binary)
        for size in a.sizes.split(","):
            data = graph.ensure(a.out, size)
            flags = ["--data", data, "--threads", a.threads, "--json"]
            planned = json.loads(run(binary, "plan", *flags))
            timed = json.loads(run(*before, binary, "bench", "--iters", a.iters, *flags))
            for mode, function in FUNCTIONS:
                t, p = timed[mode], planned[function]
                off.append(max(t["min_ms"] / p["ms"], p["ms"] / t["min_ms"]) - 1)
                print("%-10s %-6s %-17s %9.2f ms  predicted %9.2f  %5.2f  arena %11d bytes%s" % (
                    model, mode, size, t["min_ms"], p["ms"], t["min_ms"] / p["ms"], t["arena_bytes"],
                    "" if t["arena_bytes"] == p["peak_bytes"] else ", planned %d" % p["peak_bytes"]), flush=True)
                if a.kernels:
                    kernels(t, p)
    print("off by %.0f %% (median), %.0f %% at worst" % (100 * statistics.median(off), 100 * max(off)))


if __name__ == "__main__":
    main()
