#!/usr/bin/env python3
"""`cmake --install`: the installed tree, moved elsewhere, still compiles models that train and link. usage: test_install.py BUILD"""
import os
import re
import sys

from sandbox import Sandbox

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FILES = ["bin/gnnc", "lib/gnnc/libgnnrt.a", "share/gnnc/std/conv.gnn", "share/gnnc/examples/gcn.gnn", "share/gnnc/examples/embed/build.sh",
         "share/gnnc/examples/data/cora/meta.json", "share/doc/gnnc/README.md", "share/doc/gnnc/CHANGELOG.md",
         "share/doc/gnnc/LICENSE", "share/doc/gnnc/docs/language.md"]


def layout(tree):
    lacks = [f for f in FILES if not os.path.exists(os.path.join(tree, f))]
    return lacks and "the installed tree lacks %s" % lacks


def version(box, tree):
    """What gnnc says of itself and writes into headers is what CMakeLists.txt says; the newest changes are that version's."""
    with open(os.path.join(ROOT, "CMakeLists.txt")) as f:
        wanted = re.search(r"project\(gnnc VERSION (\S+)", f.read()).group(1)
    with open(os.path.join(tree, "share/doc/gnnc/CHANGELOG.md")) as f:
        newest = re.search(r"^## ([\d.]+\d)", f.read(), re.M).group(1)
    gnnc, model = os.path.join(tree, "bin/gnnc"), os.path.join(tree, "share/gnnc/examples/gcn.gnn")
    box.must(gnnc, "build", model, "--set", "F=8,C=3", "--emit=header,manifest,c", "-o", box.path("v"))
    said = {"gnnc --version": box.must(gnnc, "--version").out}
    for name in os.listdir(box.root):
        if name.startswith("v."):
            with open(box.path(name)) as f:
                said[name] = f.read()
    wrong = [name for name, text in said.items() if not re.search(r"\b%s\b" % re.escape(wanted), text)]
    return len(said) < 4 and "only %s" % list(said) or newest != wanted and "the newest changes are of " + newest or \
        wrong and "%s do not name version %s" % (wrong, wanted)


def from_elsewhere(box, tree):
    """Compiles and trains with what the moved tree holds, and nothing but the system's tools on PATH."""
    data = os.path.join(tree, "share/gnnc/examples/data/cora")
    env = {"PATH": "/usr/bin:/bin", "TMPDIR": box.root}
    gnnc = os.path.join(tree, "bin/gnnc")
    box.must(gnnc, "build", os.path.join(tree, "share/gnnc/examples/gcn.gnn"), "--data", data, "-o", box.path("m"), env=env)
    out = box.must(box.path("m"), "train", "--data", data, "--epochs", "15", env=env).out
    accuracy = re.search(r"^final .*test_acc ([0-9.]+)", out, re.M)
    if not accuracy or float(accuracy.group(1)) < 0.4:
        return "training said: %s" % out[-300:]
    box.must(gnnc, "build", os.path.join(tree, "share/gnnc/examples/sage.gnn"), "--set", "F=8,C=3", "--cpu", "generic",
             "--emit=lib,header", "-o", box.path("libm"), env=env)
    return not os.path.exists(box.path("libm.a")) and "no libm.a"


def without_runtime(box, tree):
    """A tree that lost its runtime library says so."""
    os.remove(os.path.join(tree, "lib/gnnc/libgnnrt.a"))
    model = os.path.join(tree, "share/gnnc/examples/gcn.gnn")
    box.refuses("without_runtime", [os.path.join(tree, "bin/gnnc"), "build", model, "--set", "F=4,C=2", "-o", box.path("none")],
                6, "E0631", "libgnnrt.a", "cmake --install")


def main():
    box = Sandbox(sys.argv[1], "install")
    box.must("cmake", "--install", os.path.abspath(sys.argv[1]), "--prefix", box.path("first"), limit=120)
    box.report("layout", layout(box.path("first")))
    os.rename(box.path("first"), box.path("moved"))
    box.report("version", version(box, box.path("moved")))
    box.report("from_elsewhere", from_elsewhere(box, box.path("moved")))
    without_runtime(box, box.path("moved"))
    box.close()


main()
