#!/usr/bin/env python3
"""examples/torch: gradcheck and a short training, where a Python with torch is at hand (GNNC_BENCH_PYG, or this one).
usage: test_torch.py BUILD"""
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HERE = os.path.join(ROOT, "examples", "torch")


def python_with_torch(build):
    for python in (os.environ.get("GNNC_BENCH_PYG"), os.path.join(build, "peers", "pyg", "bin", "python"), sys.executable):
        if python and os.path.exists(python) and subprocess.run([python, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return None


def build_library(gnnc, box, name, dims, *options):
    out = os.path.join(box, name)
    subprocess.run([gnnc, "build", os.path.join(HERE, "message.gnn"), "--export=gated", "--prefix=gated", "--set", dims, "--emit=lib",
                    "--cpu=native", "-o", out, *options], check=True)
    return out + ".so"


# Parameters named like what a module has anyway.
TAKEN = """layer taken(x: node[F]) -> node[F] {
  param f, run, type: [F] = ones
  return mean_in(x.src * f) * run + type
}
"""
USE = """import sys, torch
sys.path.insert(0, sys.argv[1])
from gnnc_layer import GnncLayer
layer = GnncLayer(sys.argv[2], "taken", 3, torch.tensor([[0, 1], [1, 2]]))
layer(torch.ones(3, 4)).sum().backward()
print(sorted(n for n, p in layer.named_parameters() if p.grad is not None))
"""


def check_names(gnnc, python, box):
    text, so = os.path.join(box, "taken.gnn"), os.path.join(box, "taken")
    with open(text, "w") as f:
        f.write(TAKEN)
    subprocess.run([gnnc, "build", text, "--export=taken", "--prefix=taken", "--set", "F=4", "--emit=lib", "--cpu=native", "-o", so], check=True)
    check("names", [python, "-c", USE, HERE, so + ".so"], "['f_', 'run_', 'type_']")


def check(name, argv, wanted):
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
    said = p.stdout.decode("utf-8", "replace").strip()
    ok = p.returncode == 0 and wanted in said
    print("ok torch." + name if ok else "FAIL torch.%s: %s" % (name, said[-400:].replace("\n", " | ")))


def main():
    build = os.path.abspath(sys.argv[1])
    with open(os.path.join(HERE, "gnnc_layer.py")) as f:
        lines = f.read().count("\n")
    print("ok torch.under_100_lines" if lines < 100 else "FAIL torch.under_100_lines: %d" % lines)
    python = python_with_torch(build)
    if not python:
        print("skip torch.gradcheck: no Python with torch (bench/peers makes one)")
        return
    with tempfile.TemporaryDirectory(prefix="gnnc-torch-") as box:
        gnnc = os.path.join(build, "gnnc")
        so = build_library(gnnc, box, "check", "F=3,K=2,D=3,O=2", "--dtype=f64")
        check("gradcheck", [python, os.path.join(HERE, "check.py"), so], "gradcheck passed: 5 parameters, 2 inputs")
        check_names(gnnc, python, box)
        so = build_library(gnnc, box, "train", "F=16,K=16,D=16,O=16")
        check("train", [python, os.path.join(HERE, "train.py"), so, "--nodes", "2000", "--edges", "20000", "--width", "16", "--epochs", "3"],
              "times as fast")


main()
