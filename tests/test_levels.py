#!/usr/bin/env python3
"""Code for one kind of CPU holds no instruction of a better one, and GNNC_CPU makes a machine a lesser one for all but libraries.
usage: test_levels.py BUILD

Which extension an instruction belongs to, the assembler says: what objdump reads is given back to `as`, told what the CPU has."""
import glob
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "golden"), os.path.join(HERE, "..", "bench")]
import levels  # noqa: E402
import rows  # noqa: E402
from sandbox import Sandbox  # noqa: E402

box = Sandbox(sys.argv[1], "levels")
LONG = bool(os.environ.get("GNNC_LONG"))  # all layers of the benchmark
ROOT = os.path.dirname(HERE)
CORA = os.path.join(ROOT, "examples", "data", "cora")
# What runtime/cpu.c asks for, with what each such CPU has had since.
HAS = {"generic": "generic64", "avx2": "generic64+avx2+fma+f16c+popcnt+xsave", "avx512": "generic64+avx512f+avx512bw+avx512dq+avx512vl+fma+f16c+popcnt+xsave"}
JUMP = re.compile(r"(bnd |notrack )*(j\w+|call|loop\w*)\b")
HINT = re.compile(r"endbr64|(data16 |cs )*nopw?\b|rep stos|\(bad\)|xgetbv|xchg +%ax,%ax")  # what every CPU passes over, asks for first, or `as` spells otherwise


def code(path):
    """{function: its instructions, as text}"""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], stdout=subprocess.PIPE, check=True).stdout.decode()
    found, here = {}, None
    for line in text.split("\n"):
        if line.endswith(">:"):
            here = found.setdefault(line.split("<")[1][:-2], set())
        elif here is not None and line.startswith(" ") and "\t" in line:
            said = re.sub(r" +#.*| *<[^>]*>", "", line.split("\t", 1)[1]).strip()
            if said and not JUMP.match(said) and not HINT.match(said):
                here.add(said)
    return found


def above(level, functions):
    """The first of these instructions that a CPU of this level lacks, or ""."""
    lines = sorted(set().union(*functions))
    p = subprocess.run(["as", "-march=" + HAS[level], "-o", os.devnull, "-"], input=("\n".join(lines) + "\n").encode(), stderr=subprocess.PIPE)
    wrong = re.findall(r":(\d+): Error: (.*)", p.stderr.decode())
    return "; ".join("`%s`: %s" % (lines[int(n) - 1], why) for n, why in wrong[:3])


def level_of(function):
    """By its name; the loops of the machine's probe are called wide and middle."""
    found = re.match(r".*_(avx2|avx512|middle|wide)(_body)?(\.\w+\.\d+)?$", function)
    return {"middle": "avx2", "wide": "avx512"}.get(found.group(1), found.group(1)) if found else "generic"


def check(name, path, wanted):
    """Functions of one level hold instructions of that level at most; there are some of each in `wanted`."""
    by_level = {}
    for function, lines in code(path).items():
        by_level.setdefault(level_of(function), []).append(lines)
    wrong = [above(level, functions) for level, functions in by_level.items()]
    lacking = [level for level in wanted if not by_level.get(level)]
    box.report(name, "; ".join(w for w in wrong if w) or lacking and "no functions for %s" % lacking)
    return by_level


def sees(by_level):
    """The comparison can fail: what is compiled for a better CPU does not pass for a lesser one."""
    for better, worse in (("avx2", "generic"), ("avx512", "avx2"), ("avx512", "generic")):
        box.report("%s_is_not_%s" % (better, worse), not above(worse, by_level[better]) and "it passes")


def objects():
    for name in rows.LAYERS if LONG else ("gat", "pna", "custom"):
        sizes = ",".join("%s=%d" % d for d in rows.dims(name, 24).items())
        box.must(box.gnnc, "build", os.path.join(ROOT, "bench", "models", name + ".gnn"), "--set", sizes, "--emit=obj", "-o", box.path("m.o"))
        check("object_" + name, box.path("m.o"), levels.LEVELS)
    for name in ("gcn", "gat"):
        box.must(box.gnnc, "build", os.path.join(ROOT, "examples", name + ".gnn"), "--data", CORA, "--emit=obj", "-o", box.path("m.o"))
        kinds = check("object_example_" + name, box.path("m.o"), levels.LEVELS)
    sees(kinds)


def programs():
    """What is no kernel runs on every CPU: the compiler, the runtime."""
    check("compiler", box.gnnc, ["generic"])
    check("runtime", os.path.join(os.path.dirname(box.gnnc), "libgnnrt.a"), levels.LEVELS)


def obeyed():
    """GNNC_CPU: an executable's `auto`, its --cpu and `info`; the compiler's `native` and its probe; a library never."""
    box.must(box.gnnc, "build", os.path.join(ROOT, "examples", "gcn.gnn"), "--data", CORA, "-o", box.path("gcn"))
    for level in levels.LEVELS:
        env = dict(os.environ, GNNC_CPU=level)
        best = levels.LEVELS[min(levels.LEVELS.index(level), levels.LEVELS.index(levels.here()))]
        info = box.must(box.path("gcn"), "info", env=env).out
        runs = box.must(box.path("gcn"), "bench", "--data", CORA, "--iters", 1, "--json", env=env).out
        box.report("info_" + level, "best kernels here: %s\n" % best not in info and info[:200])
        box.report("auto_" + level, json.loads(runs)["cpu"] != best and runs[:200])
        box.must(box.gnnc, "build", os.path.join(ROOT, "examples", "gcn.gnn"), "--data", CORA, "--cpu=native", "--emit=obj", "-o", box.path("n.o"), env=env)
        kinds = {level_of(f) for f in code(box.path("n.o"))} - {"generic"}
        box.report("native_" + level, kinds != ({best} - {"generic"}) and "kernels for %s" % sorted(kinds))
    lesser = dict(os.environ, GNNC_CPU="generic")
    if levels.here() == "generic":
        box.skip("forbidden", "this machine's CPU has but generic kernels")
    else:
        box.refuses("forbidden", [box.path("gcn"), "bench", "--data", CORA, "--cpu", levels.here()], 1, "R403", "GNNC_CPU", env=lesser)
    none = dict(os.environ, GNNC_CPU="sse9")
    box.refuses("unknown_run", [box.path("gcn"), "bench", "--data", CORA], 1, "R403", "GNNC_CPU", "sse9", env=none)
    box.refuses("unknown_info", [box.path("gcn"), "info"], 1, "R403", "GNNC_CPU", "sse9", env=none)
    box.refuses("unknown_build", [box.gnnc, "build", os.path.join(ROOT, "examples", "gcn.gnn"), "--data", CORA, "--cpu=native", "-o", box.path("n")],
                1, "E0612", "GNNC_CPU", "sse9", env=none)
    box.refuses("unknown_machine", [box.gnnc, "machine"], 1, "E0612", "GNNC_CPU", "sse9", env=none)


def libraries():
    box.must(box.gnnc, "build", os.path.join(ROOT, "examples", "gcn.gnn"), "--data", CORA, "--emit=lib", "--prefix=m", "-o", box.path("lib"))
    wanted = box.must("nm", "-D", "--undefined-only", box.path("lib.so")).out
    box.report("library_has_no_getenv", "getenv" in wanted and wanted)


objects()
programs()
obeyed()
libraries()
box.close()
