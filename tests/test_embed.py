#!/usr/bin/env python3
"""examples/embed: two compiled models in one C and one C++ program, linked statically and shared, against `infer`;
and what a library shows to the linker. usage: test_embed.py BUILD"""
import os
import re
import sys

import numpy as np

from sandbox import Sandbox

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.path.join(ROOT, "examples", "data", "cora")
MODELS = ["gcn", "sage"]
PROGRAMS = ["serve_c", "serve_c_shared", "serve_cpp", "serve_cpp_shared"]
# What a library never calls. The runtime's asserts end a program: builds of those who work on gnnc have them
# (README.md).
FORBIDDEN = re.compile(r"^(secure_)?getenv|^environ|blas|^cuda|^_?exit$|^abort$|^v?printf$|^puts$|^putchar$|^dlopen$")


def predictions(box, model):
    """The scores of all programs are the same bits, and those of the executable's `infer` but for rounding: it reads
    features by their nonzero elements, the library dense."""
    box.must(box.path(model), "infer", "--data", DATA, "--weights", box.path(model + ".safetensors"), "--out", box.path(model + ".npy"),
             "--blas", "off")
    wanted = np.load(box.path(model + ".npy"))
    if wanted.shape != (2708, 7) or not np.isfinite(wanted).all() or wanted.std() == 0:
        return "infer gave an array of %s" % (wanted.shape,)
    got = [np.fromfile(box.path("%s.out.%s" % (program, model)), np.float32).reshape(wanted.shape) for program in PROGRAMS]
    for program, scores in zip(PROGRAMS, got):
        if not np.array_equal(scores, got[0]):
            return "%s differs from %s" % (program, PROGRAMS[0])
    if np.abs(got[0] - wanted).max() > 1e-5 * wanted.std():
        return "the programs differ from infer by up to %g" % np.abs(got[0] - wanted).max()


def names(box, path, *flags):
    """What nm says: {name: letter}."""
    lines = [line.split() for line in box.must("nm", *flags, path).out.splitlines()]
    return {words[-1].split("@")[0]: words[-2] for words in lines if len(words) >= 2}


def exports(box, model):
    for name, flags in (("lib%s.a" % model, ["-g", "--defined-only"]), ("lib%s.so" % model, ["-D", "--defined-only"])):
        found = names(box, box.path(name), *flags)
        if model + "_forward" not in found or model + "_tables" not in found:
            return "%s lacks its functions" % name
        others = sorted(n for n in found if not n.startswith(model + "_"))
        if others:
            return "%s exports %s" % (name, others)


def needs(box, model):
    asserts = "__assert_fail" in names(box, os.path.join(sys.argv[1], "libgnnrt.a"), "-u")
    for name, flags in (("lib%s.a" % model, ["-u"]), ("lib%s.so" % model, ["-D", "-u"])):
        found = [n for n, letter in names(box, box.path(name), *flags).items() if letter == "U"]
        bad = sorted(n for n in found if FORBIDDEN.search(n) or n == "__assert_fail" and not asserts)
        if "malloc" not in found or bad:
            return "%s needs %s" % (name, bad or found)


def own_name(box, model):
    """The shared form names itself without the folder it was made in."""
    said = box.must("objdump", "-p", box.path("lib%s.so" % model)).out.split()
    name = said[said.index("SONAME") + 1] if "SONAME" in said else None
    if name != "lib%s.so" % model:
        return "its name is %s" % name


def wrong_weights(box, program):
    """Weights of the other model end in a named error and a message."""
    sage = box.path("sage.safetensors")
    r = box.run(box.path(program), sage, sage, DATA)
    if r.rc != 1 or "WEIGHTS_NAME" not in r.err or "conv1" not in r.err:
        return "ended with %s: %s" % (r.rc, r.err)


def constants(box):
    """Names of inputs that the header would give the same constant get different ones."""
    box.write("names.gnn", "model net(a: node[2], a_width: node[2], A: node[2]) -> node[2] { return a + a_width + A }\n")
    box.must(box.gnnc, "build", "names.gnn", "--emit=header", "-o", "names")
    return box.run("cc", "-std=c99", "-fsyntax-only", "-x", "c", "names.h").err


def main():
    box = Sandbox(sys.argv[1], "embed")
    box.report("constants", constants(box))
    env = dict(os.environ, GNNC=box.gnnc, EPOCHS="5")
    r = box.run(os.path.join(ROOT, "examples", "embed", "build.sh"), box.root, env=env, limit=300)
    box.report("build", r.rc != 0 and r.err)
    if r.rc == 0:
        for model in MODELS:
            box.report("predictions_" + model, predictions(box, model))
            box.report("exports_" + model, exports(box, model))
            box.report("own_name_" + model, own_name(box, model))
            box.report("needs_" + model, needs(box, model))
        for program in ("serve_c", "serve_cpp"):
            box.report("wrong_weights_" + program, wrong_weights(box, program))
    box.close()


main()
