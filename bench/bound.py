#!/usr/bin/env python3
"""What share of the time of a program the machine itself would need: for each kernel the longer of moving its bytes and doing its operations.

usage: bench/bound.py [--gnnc build/gnnc] [--threads 1] [--iters 5] [--cpu-time] [--kernels N] [--rates GB_S,GFLOP_S] DATA PROGRAM...

The bound is the sum over the steps that `PROGRAM plan --json` counts of max(bytes / rate of a copy in memory, flops / rate of fused
multiply-adds), by the rates that `gnnc machine --probe` measures here, the best of three probes on an idle machine, or by --rates. It stands over the least time of
`PROGRAM bench --json`, forward and forward + backward. Rows that lie in a cache are read faster than a copy in memory, so a share may exceed 1.
--cpu-time: instead the user time of one iteration, which other processes disturb less: that of `bench --threads 1 --iters N` less that of one with
`--iters 1`, shared out by the elapsed times. --kernels N: the N kernels of each that lose most, by elapsed time.
PROGRAM is an executable: `bench/run --rows typed --out DIR` leaves them in the folder work/bin of DIR, and their data in the folder work."""
import argparse
import json
import os
import resource
import subprocess
import tempfile

MODES = (("infer", "forward"), ("grad", "vjp"))  # of `bench`, of `plan`
GOAL = 0.6


def said(argv, **env):
    return json.loads(subprocess.run([str(a) for a in argv], check=True, stdout=subprocess.PIPE, env=dict(os.environ, **env)).stdout)


def rates(gnnc, threads):
    """(bytes, operations) per millisecond. A probe's figures go to a folder of its own, not to the user's."""
    best = [0.0, 0.0]
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            m = said([gnnc, "machine", "--probe", "--threads=%d" % threads, "--json"], XDG_CACHE_HOME=folder)
        best = [max(best[0], m["copy_gb_s"][-1] * 1e6), max(best[1], m["gflop_s"] * 1e6)]
    return best


def bound(step, rate):
    return max(step["bytes"] / rate[0], step["flops"] / rate[1])


def user_ms():
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime * 1e3


def timed(program, data, a):
    """{mode: milliseconds of one run}, and what `bench` says of it."""
    argv = [program, "bench", "--data", data, "--threads", a.threads, "--json", "--iters"]
    start = user_ms()
    got = said(argv + [a.iters])
    if not a.cpu_time:
        return {mode: got[mode]["min_ms"] for mode, _ in MODES}, got
    many, start = user_ms() - start, user_ms()
    said(argv + [1])
    one, elapsed = user_ms() - start, sum(got[mode]["median_ms"] for mode, _ in MODES)
    return {mode: (many - one) / (a.iters - 1) * got[mode]["median_ms"] / elapsed for mode, _ in MODES}, got


def worst(steps, kernels, rate, n):
    """Steps that run by strips are timed as one: bounds of those that `by` says belong to the kernel before are added to it."""
    rows = []
    for step, k in zip(steps, kernels):
        if k["by"] == "the kernel before it":
            rows[-1][1] += bound(step, rate)
        else:
            rows.append([k["least_ms"], bound(step, rate), k["name"]])
    for ms, least, name in sorted(rows, key=lambda r: r[1] - r[0])[:n]:
        print("    %9.3f ms, bound %8.3f  %s" % (ms, least, name))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--gnnc", default=os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build", "gnnc"))
    ap.add_argument("--threads", type=int, default=1), ap.add_argument("--iters", type=int, default=5)
    ap.add_argument("--cpu-time", action="store_true"), ap.add_argument("--kernels", type=int, default=0)
    ap.add_argument("--rates", type=lambda text: [float(r) * 1e6 for r in text.split(",")], help="of a copy and of multiply-adds, measured before: GB/s,Gflop/s")
    ap.add_argument("data"), ap.add_argument("program", nargs="+")
    a = ap.parse_args()
    if a.cpu_time and (a.threads != 1 or a.iters < 2):
        ap.error("--cpu-time is that of one thread, and wants two iterations at least")
    rate = a.rates or rates(a.gnnc, a.threads)
    print("%d threads: a copy moves %.1f GB/s, multiply-adds run at %.0f Gflop/s; %s" % (a.threads, rate[0] / 1e6, rate[1] / 1e6, "user time" if a.cpu_time else "elapsed"))
    for program in a.program:
        plan = said([program, "plan", "--data", a.data, "--threads", a.threads, "--json"])
        ms, got = timed(os.path.abspath(program), a.data, a)
        for mode, function in MODES:
            steps = plan[function]["steps"]
            least = sum(bound(s, rate) for s in steps)
            print("%-40s %-6s %9.1f ms, bound %8.1f, share %.2f%s" % (os.path.basename(program), mode, ms[mode], least, least / ms[mode], "" if least >= GOAL * ms[mode] else ", below %.1f" % GOAL))
            worst(steps, got[mode]["kernels"], rate, a.kernels)


if __name__ == "__main__":
    main()
