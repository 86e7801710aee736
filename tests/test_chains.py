#!/usr/bin/env python3
"""Long chains of pointwise statements: kernels have a bound, their number grows with the chain, and cutting a chain changes no bit.

usage: test_chains.py BUILD

Kernels are counted in lines of their text, so that no clock matters. The results are those of `--disable=fuse`, which stores every value.
Run: lesser if long"""
import re
import sys

import chains
from sandbox import Sandbox

SHORT, LONG = 60, 240
box = Sandbox(sys.argv[1], "chains")


def kernels(text):
    """The lines of each kernel."""
    box.write("m.gnn", text)
    box.must(box.gnnc, "build", "m.gnn", "--set=F=16", "--emit=kir", "-o", "m")
    with open(box.path("m.kir"), encoding="utf-8") as f:
        return [k.count("\n") for k in re.findall(r"^kernel .*?^\}", f.read(), re.M | re.S)]


def size(short, long):
    """Why kernels of the long chain are larger than those of the short one, or more than its length says."""
    a, b = kernels(short), kernels(long)
    times = LONG // SHORT
    if max(b) > 1.5 * max(a):
        return "the largest kernel has %d lines, and %d in a chain that is %d times as long" % (max(a), max(b), times)
    return sum(b) > 1.5 * times * sum(a) and "%d lines of kernels, and %d in a chain that is %d times as long" % (sum(a), sum(b), times)


def results(text, *options):
    box.write("m.gnn", text)
    box.must(box.gnnc, "build", "m.gnn", "--data=data", "--cpu=native", "--quick", "-o", "m", *options)
    box.must(box.path("m"), "infer", "--data=data", "--out=y.npy")
    with open(box.path("y.npy"), "rb") as f:
        return f.read()


def bits(text):
    return results(text) != results(text, "--disable=fuse") and "other bits than with --disable=fuse"


box.must(box.gnnc, "data", "generate", "data", "--nodes=50", "--features=21")
for kind in chains.KINDS:
    for grad in (False, True):
        name = kind.replace(" ", "_") + ("_gradient" if grad else "")
        box.report("size_" + name, size(chains.model(kind, SHORT, grad), chains.model(kind, LONG, grad)))
        box.report("bits_" + name, bits(chains.model(kind, SHORT, grad)))
box.report("size_on_edges", size(chains.on_edges(SHORT), chains.on_edges(LONG)))
box.report("bits_on_edges", bits(chains.on_edges(SHORT)))
box.close()
