#!/usr/bin/env python3
"""docs/extending.md is true: its changes are made in a copy of the sources, which is built; its programs hold in the
interpreter, and compiled ones give what numpy gives; what each part adds is unknown without it.

usage: test_extending.py BUILD"""
import os
import re
import shutil
import sys

import numpy as np
from sandbox import Sandbox

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCES = "CMakeLists.txt base ir frontend passes codegen driver runtime scripts tests/errors tests/test_errors.py".split()
PARTS = ("layer", "op", "error", "domain", "graph", "fusion", "stored")
BLOCK = re.compile(r"^```(diff|gnn with) (\w+)\n(.*?)^```$", re.M | re.S)
WANT = {"op": lambda x, src, dst: x / (1 + abs(x)), "graph": lambda x, src, dst: both_ways(x, src, dst)}


def both_ways(x, src, dst):
    y = np.zeros_like(x)
    np.add.at(y, dst, x[src])
    np.add.at(y, src, x[dst])
    return y


def change(tree, path, hunk):
    """Puts the hunk where its old lines stand, which must be one place; a file that is not there begins empty."""
    old = "".join(line[1:] + "\n" for line in hunk if line[:1] in " -")
    new = "".join(line[1:] + "\n" for line in hunk if line[:1] in " +")
    full = os.path.join(tree, path)
    text = open(full, encoding="utf-8").read() if os.path.exists(full) else ""
    if old and text.count(old) != 1:
        return "%s has these lines %d times: %s" % (path, text.count(old), old)
    with open(full, "w", encoding="utf-8") as f:
        f.write(text.replace(old, new) if old else new)


def apply(tree, diff):
    path, hunks, wrong = None, [], []
    for line in diff.rstrip("\n").split("\n"):
        if line.startswith("+++ "):
            path = line[4:]
        elif line == "@@":
            hunks.append((path, []))
        else:
            hunks[-1][1].append(line)
    for path, hunk in hunks:
        wrong.append(change(tree, path, hunk))
    return [w for w in wrong if w]


def copy(tree):
    for name in SOURCES:
        to = os.path.join(tree, name)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        (shutil.copytree if os.path.isdir(os.path.join(ROOT, name)) else shutil.copy)(os.path.join(ROOT, name), to)


def main():
    box = Sandbox(sys.argv[1], "extending")
    with open(os.path.join(ROOT, "docs", "extending.md"), encoding="utf-8") as f:
        page = f.read()
    blocks = {(kind, name): text for kind, name, text in BLOCK.findall(page)}
    box.report("page_has_all", [p for p in PARTS if ("diff", p) not in blocks])
    tree, ready = box.path("tree"), box.gnnc
    copy(tree)
    for part in PARTS:
        box.report("change_%s" % part, apply(tree, blocks["diff", part]))
    box.must("cmake", "-S", tree, "-B", tree + "/build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS=-O0", limit=120)
    r = box.run("ninja", "-j2", "-C", tree + "/build", "gnnc", "libgnnrt.a", limit=900)
    box.report("builds", r.rc != 0 and r.out[-1500:])
    box.gnnc = os.path.join(tree, "build", "gnnc")
    r = box.run(box.gnnc, "test", os.path.join(tree, "frontend/std/linear.gnn"))
    box.report("layer", r.rc != 0 and r.err or "own and other" not in r.out and r.out)
    r = box.run(sys.executable, os.path.join(tree, "tests/test_errors.py"), os.path.join(tree, "build"), "E0412")
    box.report("error", (r.rc != 0 or "ok errors E0412" not in r.out) and r.out)
    box.must(box.gnnc, "data", "generate", "points", "--nodes=20", "--features=3")
    x, (src, dst) = np.load(box.path("points", "x.npy")), np.load(box.path("points", "edge_index.npy"))
    for part in ("op", "domain", "graph"):
        path = box.write(part + ".gnn", blocks["gnn with", part])
        for command in (["test"], ["fmt", "--check"]):
            r = box.run(box.gnnc, *command, path)
            box.report("%s_%s" % (part, command[0]), r.rc != 0 and (r.err or r.out))
        box.report("%s_is_new" % part, box.run(ready, "check", path).rc == 0 and "the compiler has it already")
        if part in WANT:
            box.must(box.gnnc, "build", path, "--data", "points", "-o", part)
            box.must(box.path(part), "infer", "--data", "points", "--out", part + ".npy")
            off = abs(np.load(box.path(part + ".npy")) - WANT[part](x, src, dst)).max()
            box.report("%s_compiled" % part, off > 1e-5 and "off by %g" % off)
    lines = {}  # of a schedule that say a word, without the change and with it
    for part, size, word in (("fusion", 16, "root"), ("fusion", 1024, "root"), ("stored", 64, "stored")):
        path = box.write(part + ".gnn", blocks["gnn with", part])
        for gnnc in (ready, box.gnnc):
            box.must(gnnc, "build", path, "--set", "F=%d" % size, "--emit=schedule", "-o", "text")
            with open(box.path("text.schedule"), encoding="utf-8") as f:
                forward = f.read().split("func vjp")[0]
            lines.setdefault((part, size), []).append((forward.count("  group "), forward.count(word)))
    box.report("fusion_narrow", lines["fusion", 16] != [(1, 2), (1, 2)] and lines)
    box.report("fusion_wide", lines["fusion", 1024] != [(1, 2), (2, 2)] and lines)
    box.report("stored", lines["stored", 64] != [(2, 3), (2, 2)] and lines)
    machine = box.write("small-8.machine", re.search(r"^```text\n(# [^\n]*\nmachine .*?)^```$", page, re.M | re.S).group(1))
    box.must(ready, "data", "generate", "wide", "--nodes=20", "--features=40")
    path, found = box.write("machine.gnn", "model net(x: node[F]) -> node[F] { return exp(mean_in(x.src)) }\n"), []
    for name, options in (("plain", ()), ("small", ("--machine", machine))):
        box.must(ready, "build", path, "--data", "wide", "-o", name, *options)
        box.must(box.path(name), "infer", "--data", "wide", "--out", name + ".npy")
        box.must(ready, "build", path, "--data", "wide", "--emit=schedule", "-o", name, *options)
        with open(box.path(name + ".npy"), "rb") as y, open(box.path(name + ".schedule")) as text:
            found.append((y.read(), text.read()))
    box.report("machine_has_the_bits", found[0][0] != found[1][0] and "other results")
    box.report("machine_has_its_schedule", found[0][1] == found[1][1] and "the same schedule")
    box.close()


main()
