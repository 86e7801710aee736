#!/usr/bin/env python3
"""Compile times: a generated program of 10^3, 10^4 and 10^5 lines, every layer of the standard library, the examples.

usage: compile.py BUILD [program] [layers] [examples]

CPU seconds of the compiler and what it calls, the least of three runs (of one beyond ten seconds). The program has functions,
layers with parameters, reducers and tests in equal parts, and a model that calls a hundred of them.
"""
import os
import re
import resource
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def program(lines):
    """A piece has 15 lines; the model is as long for every size, up to 100 calls."""
    out, n = [], max(1, lines // 15 - 1)
    for k in range(n):
        out += ["fn f%d(x) = relu(x) * %d + 1" % (k, k + 1), "",
                "reduce r%d(m: edge[F]) -> node[F] {" % k, "  state s: [F] = 0", "  step { s += m * %d }" % (k + 1), "  done = s", "}", "",
                "layer l%d(x: node[F]) -> node[F] {" % k, "  h = f%d(linear(x, O = F))" % k, "  return r%d_in(h.src)" % k, "}", "",
                'test "t%d" { assert close(f%d(1), %d) }' % (k, k, k + 2), ""]
    calls = [k * n // min(n, 100) for k in range(min(n, 100))]
    out += ["model net(x: node[F]) -> node[F] {", "  h = x"] + ["  h = h + l%d(h)" % k for k in calls] + ["  return h", "}"]
    return "\n".join(out) + "\n"


def seconds(argv):
    best = None
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        p = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if p.returncode:
            return None
        t = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        best = t if best is None else min(best, t)
        if t > 10:
            break
    return best


def show(what, t):
    print("| %s | %s |" % (what, "refused" if t is None else "%.2f s" % t), flush=True)


def layers():
    for f in sorted(os.listdir(os.path.join(ROOT, "frontend", "std"))):
        yield from re.findall(r"^layer (\w+)", open(os.path.join(ROOT, "frontend", "std", f), encoding="utf-8").read(), re.M)


SIZES = {"F": 16, "O": 16, "C": 16, "D": 16, "H": 4, "K": 4, "G": 16, "P": 3, "E": 8}


def of_layer(gnnc, name, out):
    """The command for a layer, with those sizes that it has."""
    argv, sets = [gnnc, "build", "--export=" + name, "--cpu=native", "--emit=lib", "-o", out], dict(SIZES)
    for _ in SIZES:
        p = subprocess.run(argv[:3] + ["--set=%s=%d" % s for s in sets.items()] + ["--emit=gir", "-o", out], stderr=subprocess.PIPE)
        for word in re.findall(r"`--set (\w+)`", p.stderr.decode()):
            sets.pop(word, None)
        if p.returncode == 0:
            break
    return argv + ["--set=%s=%d" % s for s in sets.items()]


def main():
    gnnc, what = os.path.join(os.path.abspath(sys.argv[1]), "gnnc"), sys.argv[2:] or ["program", "layers", "examples"]
    with tempfile.TemporaryDirectory() as folder:
        path, out = os.path.join(folder, "m.gnn"), os.path.join(folder, "m")
        for n in (1000, 10000, 100000) if "program" in what else ():
            with open(path, "w", encoding="utf-8") as f:
                f.write(program(n))
            show("%d lines, check" % n, seconds([gnnc, "check", path]))
            show("%d lines, graph IR after all passes" % n, seconds([gnnc, "ir", path, "--set=F=8", "--after=cse"]))
            show("%d lines, build --cpu native --emit=obj" % n, seconds([gnnc, "build", path, "--set=F=8", "--cpu=native", "--emit=obj", "-o", out]))
        for name in layers() if "layers" in what else ():
            show(name, seconds(of_layer(gnnc, name, out)))
        for name in ("gcn", "sage", "gat", "gin") if "examples" in what else ():
            show(name, seconds([gnnc, "build", os.path.join(ROOT, "examples", name + ".gnn"), "--data", os.path.join(ROOT, "examples", "data", "cora"),
                                "--cpu=native", "-o", out]))


if __name__ == "__main__":
    main()
