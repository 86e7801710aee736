#!/usr/bin/env python3
"""`--machine`: builds for the machines of the table and for files. What the machine decides and what it does not: all models of the benchmark
build for all; where a program has one algebraic form for two machines its results have the same bits, else they agree within the error bound;
the same machine gives the same bytes. And files that are wrong are refused at the place. usage: test_machines.py BUILD [MACHINE..]
MACHINE: names and files besides those of the table, for all of it."""
import glob
import json
import os
import re
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path += [os.path.join(HERE, "golden"), os.path.join(ROOT, "bench")]
import library  # noqa: E402
import rows  # noqa: E402
from sandbox import Sandbox  # noqa: E402

box = Sandbox(sys.argv[1], "machines")
DEFAULT, NAMED = "avx512-2", ["avx2-2", "server-64", "h200"]
SMALL = """machine small # four lanes, and little of everything
lanes 4
registers 16
line_bytes 32
l1_bytes 16384
l2_bytes 131072
own_bytes 20000
scalars 1
window 4
arith_cycles 3
divide_cycles 12
load_cycles 5
fold_cycles 9
chain_cycles 20
threads 1
warps 1
thread_work 1000
dram_bytes 1e1
cache_bytes 11
near_bytes 12
row_ns 5
scalar_flops 2
vector_flops 4
inner_flops 5
dot_flops 4
product_flops 6
outer_flops 6
matmul_flops 6.5
kernel_ns 100
fma_flops 8
last_bytes 131072
line_loads 3
issues 4
step_ns 1
load_ns 50
"""
# What has few operations for its bytes, and what has many; each form of a sum over edges.
MODELS = ["gcn", "gat", "agnn", "egc", "edgeconv", "sage_max", "gmm", "transformer", "pna", "gatv2"]
# Sums that rescale, in a kernel that a GPU would give more sums of the row than one walk takes in.
TWO = """model net(x: node[H, D], y: node[H, D], w: edge, e: edge[H, D]) -> (node[H, D], node[H, D], node[H, D]) {
  a = softmax_in(sum(x.src * y.dst, D))
  b = softmax_in(sum(x.src, D) + sum(y.dst, D))
  return relu(sum_in(a * (x.src * w)) + x), sum_in(b * (x.src * e)), max_in(x.src)
}
"""
NODES, EDGES, WIDTH = 70, 600, 24
SOFTMAX = ["gat", "agnn", "gatv2", "transformer"]  # rows of more than a block may be walked twice, or once with sums that are rescaled


def build(model, machine, out, *forms, more=()):
    sets = ",".join("%s=%d" % d for d in rows.dims(model, WIDTH).items())
    return box.must(box.gnnc, "build", os.path.join(ROOT, "bench", "models", model + ".gnn"), "--set", sets, "--machine", machine, "--cpu=native",
                    "--prefix=m", "--remarks=fuse", "--emit=" + ",".join(forms), "-o", box.path(out), *more, limit=600)


def text(*name):
    with open(box.path(*name)) as f:
        return f.read()


def numbers(lib, params, hub):
    """Outputs and gradients on a graph with rows of none and of many edges; with a hub some of more than a block of a sum has."""
    rng = np.random.default_rng(5)
    lib.load({p["name"]: rng.standard_normal(p["stored_shape"]) / 3 for p in params})
    ends = np.minimum(rng.integers(0, NODES, (2, EDGES)), rng.integers(5, NODES, (2, EDGES)))
    assert np.bincount(ends[0]).max() <= 256 and np.bincount(ends[1]).max() <= 256
    if hub:
        more = rng.integers(0, NODES, 700)
        ends = np.concatenate([ends, [more, np.full(700, 3)], [np.full(700, 4), more]], 1)
    lib.on_graph(NODES, NODES, ends[0], ends[1], 0, None)
    shapes = [lib.shape(i) for i in lib.inputs]
    given = {i.name.decode(): rng.integers(0, 2, s) if library.DTYPES[i.dtype] not in (np.float32, np.float64) else rng.standard_normal(s)
             for i, s in zip(lib.inputs, shapes)}
    out = lib.forward(given)
    gradients = lib.vjp(given, [rng.standard_normal(o.shape) for o in out])
    lib.close()
    return out + [gradients[g] for g in sorted(gradients)]


class Built:
    """form: graph IR behind all passes, and which sums over all edges are sums over rows; kernels: what runs."""

    def __init__(self, model, machine):
        out = "%s-%s" % (model, os.path.basename(machine))
        quick = [] if machine == DEFAULT else ["--quick"]  # the same bits: LLVM's optimiser makes the first alone
        remarks = build(model, machine, out, "lib", "gir", "kir", "manifest", more=quick).err
        self.form = text(out + ".gir"), sorted(re.findall(r"sums over all edges are sums over the rows of [\w.]+", remarks))
        self.kernels = text(out + ".kir")
        self.numbers = numbers(library.Library(box.path(out + ".so"), "m", np.float32), json.loads(text(out + ".json"))["params"], model not in SOFTMAX)


def same_bits(a, b):
    return all(x.tobytes() == y.tobytes() for x, y in zip(a, b))


def agree(a, b):
    """The largest difference of a tensor over its largest element."""
    return max(np.abs(x.astype(np.float64) - y).max() / max(np.abs(x).max(), 1e-30) for x, y in zip(a, b))


def forms_and_bits(machines):
    seen = {m: {"kernels": 0, "form": 0, "bits": 0} for m in machines}
    for model in MODELS:
        first = Built(model, DEFAULT)
        for machine in machines:
            other = Built(model, machine)
            count, name = seen[machine], "%s.%s" % (model, os.path.basename(machine))
            count["kernels"] += other.kernels != first.kernels
            count["form"] += other.form != first.form
            count["bits"] += other.form == first.form and other.kernels != first.kernels
            if other.form == first.form:
                box.report(name + ".same_form_same_bits", not same_bits(first.numbers, other.numbers) and "other bits: %g" % agree(first.numbers, other.numbers))
            else:
                far = agree(first.numbers, other.numbers)
                box.report(name + ".other_form_within_the_bound", not far < 2e-5 and "off by %g of the largest element" % far)
    total = {k: sum(c[k] for c in seen.values()) for k in ("kernels", "form", "bits")}
    print("# " + json.dumps({os.path.basename(m): c for m, c in seen.items()}))
    box.report("a_machine_decides_kernels", any(not c["kernels"] for c in seen.values()) and "none differ: %s" % seen)
    box.report("a_machine_decides_forms_and_schedules", not (total["form"] and total["bits"]) and "found %s" % total)


def devices_have_plans():
    """Kernels for GPUs have a schedule of their own, whatever machine chose the form (test_cuda.py compares the bits)."""
    for machine in [DEFAULT] + NAMED:
        wrong = []
        for model in MODELS:
            sets = ",".join("%s=%d" % d for d in rows.dims(model, WIDTH).items())
            common = [box.gnnc, "build", os.path.join(ROOT, "bench", "models", model + ".gnn"), "--set", sets, "--machine", machine, "--emit=schedule"]
            box.must(*common, "-o", box.path("cpu.schedule"))
            said = box.must(*common, "--target", "cuda", "--remarks=fuse", "-o", box.path("gpu.schedule")).err
            if "kernels for GPUs are those" in said or (text("cpu.schedule") == text("gpu.schedule")) != (machine == "h200"):
                wrong.append(model)
        box.report("devices_have_plans." + machine, wrong and "not for %s" % wrong)
    r = box.must(box.gnnc, "build", box.write("two.gnn", TWO), "--set", "H=8,D=16", "--target", "cuda", "--emit=schedule", "--remarks=fuse", "-o", box.path("two.schedule"))
    box.report("devices_have_plans.two_softmaxes", "kernels for GPUs are those" in r.err and r.err[-300:])
    r = box.must(*common[:-1], "--target", "cuda", "--schedule", box.path("gpu.schedule"), "--emit=schedule", "-o", box.path("again.schedule"))
    box.report("devices_take_schedules", text("again.schedule") != text("gpu.schedule") and r.out)


def all_build(machines):
    for machine in machines:
        wrong = []
        for path in sorted(glob.glob(os.path.join(ROOT, "bench", "models", "*.gnn"))):
            model = os.path.basename(path)[:-4]
            sizes = ["--data", os.path.join(ROOT, "examples", "data", "cora")] if model.startswith("net_") else [
                "--set", ",".join("%s=%d" % d for d in rows.dims(model, 64).items())]
            if model.startswith("net_") and "W" in open(path).read():
                sizes += ["--set", "W=64"]
            r = box.run(box.gnnc, "build", path, *sizes, "--machine", machine, "--emit=plan", "-o", box.path("x.plan"), limit=600)
            if r.rc != 0:
                wrong.append("%s: %s" % (model, r.err))
        box.report("all_models_build.%s" % os.path.basename(machine), "; ".join(wrong))


def manifest(machine, model="gcn", out="named", more=()):
    build(model, machine, out, "manifest", "obj", *more)
    return json.loads(text(out + ".json"))["machine"]


def said_in_the_manifest():
    box.must(box.gnnc, "build", os.path.join(ROOT, "bench", "models", "gcn.gnn"), "--set", "F=%d" % WIDTH, "--emit=manifest", "-o", box.path("d.json"))
    default = json.loads(text("d.json"))["machine"]
    box.report("the_default_is_named", default["name"] != DEFAULT and default)
    box.report("the_default_is_the_first", manifest(DEFAULT) != default and "another manifest")
    box.report("others_are_named", [m for m in NAMED if manifest(m)["name"] != m or manifest(m)["digest"] == default["digest"]])


def same_bytes_anywhere():
    """One machine from two files of other names and other words around the numbers."""
    os.makedirs(box.path("a")), os.makedirs(box.path("b"))
    lines = SMALL.splitlines()
    box.write("a/one.machine", SMALL), box.write("b/two.machine", "\r\n# the same\n\n" + "\n".join([lines[0]] + lines[:0:-1]).replace(" ", "\t "))
    first = manifest(box.path("a", "one.machine"), out="a/m"), open(box.path("a", "m.o"), "rb").read()
    second = manifest(box.path("b", "two.machine"), out="b/m"), open(box.path("b", "m.o"), "rb").read()
    box.report("the_same_machine_gives_the_same_bytes", first != second and "%s and %s" % (first[0], second[0]))
    box.report("no_path_in_it", b"one.machine" in first[1] and "the object names the file")


def measured_is_legal():
    """`gnnc machine -o` writes what `--machine` reads, also of what no probe measured."""
    env = dict(os.environ, XDG_CACHE_HOME=box.path("cache"))
    for how, args in (("built_in", []), ("avx2", []), ("generic", [])):
        more = dict(env, GNNC_CPU=how) if args == [] and how != "built_in" else env
        r = box.run(box.gnnc, "machine", "--threads=3", *args, "-o", box.path("this.machine"), env=more)
        found = r.rc == 0 and manifest(box.path("this.machine"))
        box.report("machine_writes_a_file.%s" % how, (not found or found["name"] != "not-measured") and r.err)
    said = dict(line.split() for line in text("this.machine").splitlines()[1:])
    box.report("it_has_the_figures", (said["threads"] != "3" or said["lanes"] != "4") and said)
    box.must(box.gnnc, "ir", os.path.join(ROOT, "bench", "models", "gcn.gnn"), "--set", "F=8", "--after=schedule", "--machine", box.path("this.machine"))


def refused():
    model = os.path.join(ROOT, "bench", "models", "gcn.gnn")
    for name, machine, rc, code, says in [
        ("unknown", "sever-64", 1, "E0640", ["`sever-64`", "`server-64`"]),
        ("far", "xyzzyxyzzy", 1, "E0640", ["avx512-2, avx2-2, server-64, h200"]),
        ("no_name", "", 1, "E0640", []),
        ("no_file", "no.machine", 6, "E0601", ["no.machine"]),
        ("folder", ".", 6, "E0601", []),
    ]:
        box.refuses("refused." + name, [box.gnnc, "build", model, "--set=F=8", "--machine", machine, "-o", box.path("never")], rc, code, *says)
    for name, was, now, says in [
        ("empty", SMALL, "", ["wrong.machine:1:1", "begins with `machine NAME`"]),
        ("no_machine", SMALL, "lanes 4\n", ["wrong.machine:1:1", "begins with"]),
        ("no_name", "machine small", "machine", ["wrong.machine:1:1", "begins with"]),
        ("bad_name", "machine small", 'machine "sm"all', ["wrong.machine:1:1", "begins with"]),
        ("long_name", "machine small", "machine " + "s" * 65, ["wrong.machine:1:1", "begins with"]),
        ("unknown_row", "lanes 4", "lane 4", ["wrong.machine:2:1", "no row `lane`", "`lanes`"]),
        ("twice", "registers 16", "lanes 4", ["wrong.machine:3:1", "given twice", "wrong.machine:2:1"]),
        ("lacks_one", "lanes 4\n", "", ["lacks the row `lanes`", "from 4 to 16"]),
        ("nothing", "lanes 4", "lanes", ["wrong.machine:2:6", "found `nothing`"]),
        ("word", "lanes 4", "lanes four", ["wrong.machine:2:7", "a power of two from 4 to 16", "`four`"]),
        ("two_numbers", "lanes 4", "lanes 4 4", ["wrong.machine:2:9", "found `4` behind"]),
        ("no_power", "lanes 4", "lanes 12", ["wrong.machine:2:7", "a power of two", "`12`"]),
        ("no_lanes", "lanes 4", "lanes 0", ["wrong.machine:2:7", "`0`"]),
        ("many_lanes", "lanes 4", "lanes 64", ["wrong.machine:2:7", "`64`"]),
        ("fraction", "registers 16", "registers 16.5", ["wrong.machine:3:11", "a whole number from 16 to 32", "`16.5`"]),
        ("negative", "l1_bytes 16384", "l1_bytes -16384", ["wrong.machine:5:10", "`-16384`"]),
        ("huge", "l2_bytes 131072", "l2_bytes 1e300", ["wrong.machine:6:10", "`1e300`"]),
        ("turned", "l1_bytes 16384", "l1_bytes 1048576", ["second cache of 131072 bytes"]),
        ("no_rate", "dram_bytes 1e1", "dram_bytes 0", ["wrong.machine:18:12", "`0`"]),
        ("nan", "dram_bytes 1e1", "dram_bytes nan", ["wrong.machine:18:12", "`nan`"]),
        ("inf", "row_ns 5", "row_ns inf", ["wrong.machine:21:8", "`inf`"]),
        ("unit", "row_ns 5", "row_ns 5ns", ["wrong.machine:21:8", "`5ns`"]),
        ("zeros", "row_ns 5", "row_ns 5\0", ["wrong.machine:21:9", "a byte 0"]),
    ]:
        box.write("wrong.machine", SMALL.replace(was, now, 1))
        box.refuses("refused.file." + name, [box.gnnc, "ir", model, "--set=F=8", "--machine", "wrong.machine", "--run=dce"], 2, "E0641", *says)
    box.write("m.plan", SMALL)
    box.refuses("refused.lost", [box.gnnc, "build", model, "--set=F=8", "--machine", "m.plan", "--emit=plan", "-o", "m.plan"], 1, "E0620", "m.plan")


def rows_fit_arrays():
    """Caches may be larger than the private arrays of a kernel: rows that only the caches hold are not staged."""
    large = box.write("large.machine", SMALL.replace("l1_bytes 16384", "l1_bytes 1048576").replace("l2_bytes 131072", "l2_bytes 8388608"))
    r = box.run(box.gnnc, "build", os.path.join(ROOT, "bench", "models", "gat.gnn"), "--set=F=20000", "--machine", large, "--emit=kir", "-o", "wide", limit=600)
    box.report("large_caches", None if r.rc == 0 else "%s: %s" % (r.rc, r.err[-300:]))


try:
    more = sys.argv[2:]
    small = box.write("small.machine", SMALL)
    refused()
    rows_fit_arrays()
    measured_is_legal()
    said_in_the_manifest()
    same_bytes_anywhere()
    devices_have_plans()
    all_build(more or NAMED + [small])
    forms_and_bits(more or NAMED + [small])
except Exception as e:
    box.report("runs", repr(e))
box.close()
