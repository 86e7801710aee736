#!/usr/bin/env python3
"""The time of the front end and of the passes grows with the program, not with its square; what a program computes many times is one kernel.

usage: test_compile_time.py BUILD

Each kind of program is checked at 2,000 and at 20,000 lines. Start-up is taken off; ten times the lines may cost up to 30 times
the time, so that a busy machine does not matter and a square (100 times) does. Chains of pointwise statements go through the passes,
and through all but code generation, at 300 and at 1,500: up to 14 times for five times the statements. Layers on a schema do so
with some tens of relations and with four times as many: up to 9 times.
Run: alone"""
import os
import re
import subprocess
import sys
import tempfile
import resource

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "bench"))
import compile as compile_bench  # noqa: E402
import chains  # noqa: E402

MODEL = "model net(x: node[F]) -> node[F] {\n  h = x\n%s  return h\n}\n"
KINDS = {
    "declarations": compile_bench.program,
    "names in one model": lambda n: MODEL % "".join("  h%d = relu(h) + %d\n  h = h%d * 0.5\n" % (i, i, i) for i in range(n // 2)),
    "calls in one model": lambda n: "fn f(a) = relu(a) * 2\n" + MODEL % ("  h = f(h)\n" * n),
    "tests": lambda n: "".join('test "t%d" { assert close(relu(randn([4], seed = %d)) * 0, 0) }\n' % (i, i) for i in range(n)),
}
PASSES = ["ir", "--set=F=16", "--run=simplify,cse,reorder,autodiff,simplify,cse,dce,reorder"]


def relations(layer, n):
    return "schema many {\n  node a[16]\n%s}\n\nmodel net(x: node(all)[F]) = %s\n" % ("".join("  edge r%d: a -> a\n" % k for k in range(n)), layer)


def seconds(build, path, text, argv=("check",)):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    p = subprocess.run([os.path.join(build, "gnnc"), *argv, path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=300)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert p.returncode == 0, p.stderr.decode()[:500]
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def repeated(build, path):
    """Names of kernels whose code another has, too, in a layer of sixteen equal steps: gates of a cell that is unrolled."""
    argv = ["--export=gru_aggr(O = 16)", "--set=F=16", "--emit=kir", "-o", path]
    subprocess.run([os.path.join(build, "gnnc"), "build"] + argv, check=True, timeout=300)
    with open(path, encoding="utf-8") as f:
        kernels = dict(re.findall(r"^kernel @(\w+)(\(.*?^\})", f.read(), re.M | re.S))
    codes = {}
    for name in kernels:
        if not name.endswith("_narrow"):
            text = kernels[name] + kernels.get(name + "_narrow", "")
            codes.setdefault(re.sub(r"  #.*", "", re.sub(r"%[a-zA-Z_]\w*\.", "%", text)), []).append(name)
    return len(codes) < 10, [names for names in codes.values() if len(names) > 1]


def main():
    build, bad = os.path.abspath(sys.argv[1]), 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.gnn")
        start = min(seconds(build, path, "fn f(x) = x\n") for _ in range(9))  # what all runs have in common
        for kind, text in KINDS.items():
            small, large = (min(seconds(build, path, text(n)) for _ in range(2)) - start for n in (2000, 20000))
            ok = large < 30 * max(small, 0.02)  # less is lost in what a start takes
            bad += not ok
            print("%s compile time: %s: %.3f s, and %.3f s for ten times the lines" % ("ok" if ok else "FAIL", kind, small, large))
        plan = ["build", "--set=F=16", "--emit=plan", "-o", os.path.join(folder, "m")]
        for kind, argv in [("several functions", PASSES)] + [(kind, plan) for kind in chains.KINDS]:
            small, large = (min(seconds(build, path, chains.model(kind, n), argv) for _ in range(2)) - start for n in (300, 1500))
            ok = large < 14 * max(small, 0.005)
            bad += not ok
            print("%s compile time: chain, %s, gnnc %s: %.3f s, and %.3f s for five times the statements" % ("ok" if ok else "FAIL", kind, argv[0], small, large))
        for layer, few in (("hetero(x, conv = sage, O = 16)", 40), ("han(x, H = 2, O = 16)", 20)):
            small, large = (min(seconds(build, path, relations(layer, n), plan[:1] + plan[2:]) for _ in range(2)) - start for n in (few, 4 * few))
            ok = large < 9 * max(small, 0.005)
            bad += not ok
            print("%s compile time: %s: %.3f s, and %.3f s for four times the relations" % ("ok" if ok else "FAIL", layer, small, large))
        few, twice = repeated(build, os.path.join(folder, "m.kir"))
        bad += few or bool(twice)
        print("%s compile time: equal kernels are one: %s" % ("FAIL" if few or twice else "ok", twice))
    sys.exit(bad != 0)


main()
