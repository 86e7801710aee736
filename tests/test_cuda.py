#!/usr/bin/env python3
"""Programs on a device: the CUDA text of their kernels, compiled for this CPU and run lane by lane (`--target shim`), gives the bytes of a run on the CPU.
Needs a C++ compiler and no GPU.
usage: test_cuda.py BUILD [PART...]

GNNC_LONG=1 runs layers of the library as well, GNNC_LONG=all all of them."""
import ctypes as C
import functools
import json
import os
import re
import sys

import devices
import numpy as np
from sandbox import Sandbox

box = Sandbox(sys.argv[1], "cuda")
HOST = """model net(x: node[F]) -> node[C] {
  return linear(max_in(x.src), O = C)
}
train net {
  loss = cross_entropy(net(data.x), data.y) on data.train
  optimizer adam(0.01)
  epochs 3
}
"""
MODELS = devices.models()
LONG, ALL = bool(os.environ.get("GNNC_LONG")), os.environ.get("GNNC_LONG") == "all"
BATCHES = """model net(x: node[F]) -> graph[1] {
  return linear(readout_sum(gin(x, O = 8)), O = 1)
}
train net {
  loss = sum(square(net(data.x)))
  optimizer adam(0.01)
  epochs 2
  batch 2 of graphs
}
"""

SOFTMAX = """model net(x: node[F], w: edge) -> node[C] {
  param V, W: [F, H, D] = glorot
  p = x @ V
  q = x @ W
  %s
  last = linear(O = C)
  return last(flatten(%s))
}
train net {
  loss = cross_entropy(net(data.x, data.w), data.y) on data.train
  optimizer adam(0.01)
  epochs 4
}
"""
BY_WEIGHT, BY_ENDS, BY_DOT = "leaky_relu(sum(p.src, D) * w + sum(q.dst, D), 0.2)", "sum(p.src, D) + sum(q.dst, D)", "sum(p.src * q.dst, D)"
# Sums that rescale in kernels for CPUs: machine, dims, flags, attention, result. All values of a kernel have one shape;
# a kernel has room for one softmax, but for other sums, too; values of the other softmax lie in arrays meanwhile; two
# maxima walk the row together.
SOFTMAXES = {
    "one_shape": ("avx512-2", "H=8,D=1", [], ["p.src * w"], "sum_in(a * q.src)"),
    "beside": ("server-64", "H=4,D=4", [], [BY_WEIGHT, BY_ENDS], "sum_in(a * p.src) + sum_in(b * p.src) + max_in(p.src)"),
    "kept": ("server-64", "H=8,D=1", [], [BY_DOT, BY_ENDS], "0.5 * sum_in(a * (p.src * w * detach(p.dst))) + 0.5 * sum_in(b * (p.src * w)) + sum_in(a)"),
    "maxima": ("avx512-2", "H=8,D=8", ["--dtype=f64"], [BY_WEIGHT, BY_DOT], "relu(sum_in(a * (p.src + q.dst)) + p) + sum_in(b * relu(p.src)) + max_in(p.src)"),
}


@functools.lru_cache(maxsize=None)
def build(name, text, *more):
    """The path of a program, called `name` if there are no more flags."""
    out = box.path(name + "".join(more))
    box.must(box.gnnc, "build", box.write(name + ".gnn", text), "--data", "data", "--cpu", "generic", "--target", "shim", "--quick", "-o", out, *more, limit=600)
    return out


def same(name, *more, epochs=3):
    """Weights, checkpoints, lines of metrics and results are those of the CPU, byte by byte."""
    program = build(name.split("_f64")[0] if name not in MODELS else name, MODELS[name.split("_f64")[0]], *more)
    return devices.compare(devices.run, program, box.path("data"), box.root, "shim", epochs)


def resumed():
    """A run that was begun on one and is ended on the other is the unbroken run."""
    gcn, whole = box.path("gcn"), None
    for name, first, second in (("cpu", "cpu", "cpu"), ("there", "cpu", "shim"), ("back", "shim", "cpu")):
        common = ["--data", "data", "--blas", "off"]
        box.must(gcn, "train", *common, "--device", first, "--epochs", 2, "--checkpoint", name + ".a", "--seed", 5)
        box.must(gcn, "train", *common, "--device", second, "--epochs", 5, "--resume", name + ".a", "--checkpoint", name + ".b", "--save", name + ".c")
        found = [open(box.path(name + end), "rb").read() for end in (".a", ".b", ".c")]
        whole = whole or found
        if found != whole:
            return "%s: other bytes in %s" % (name, [i for i in range(3) if found[i] != whole[i]])


def several():
    """Folds and seeds: what is computed once is computed for each."""
    gcn = box.path("gcn")
    out = [box.must(gcn, "train", "--data", "data", "--epochs", 2, "--seeds", 2, "--device", d, "--blas", "off").out for d in ("cpu", "shim")]
    out = [re.sub(r"in [\d.]+ s \([\d.]+ ms each\)", "", o) for o in out]
    return out[0] != out[1] and "%s\n%s" % tuple(out)


def stated_bytes():
    """plan says what a run takes."""
    gcn = box.path("gcn")
    plan = json.loads(box.must(gcn, "plan", "--data", "data", "--device", "shim", "--json").out)["device"]["bytes"]
    taken = json.loads(box.must(gcn, "bench", "--data", "data", "--device", "shim", "--json", "--iters", 1).out)["device_bytes"]
    text = box.must(gcn, "plan", "--data", "data", "--device", "shim").out
    if plan["bench"] != taken or "bench %d bytes" % taken not in text:
        return "plan says %s, bench takes %d" % (plan, taken)
    return sorted(plan) != ["bench", "eval", "infer", "train"] and "plan says %s" % plan


def redrawn():
    """Graphs that are drawn for each step lie on the device anew."""
    return devices.compare(devices.run, build("redrawn", devices.example("dgi")), box.path("data"), box.root, "shim", 3)


def compared():
    """What each program leaves has the CPU's bytes, and where one plan serves both, what each step leaves; the unit test runtime_cuda has one that has not."""
    one_plan = build("gcn", MODELS["gcn"], "--device-machine", "avx512-2")
    for program, line in ((box.path("gcn"), r"^\w+: 0 results differ$"), (one_plan, r"^\w+: 0 of \d+ steps differ$")):
        r = box.run(program, "bench", "--data", "data", "--device", "shim", "--compare")
        if r.rc or len(re.findall(line, r.out, re.M)) != 3:
            return r.out + r.err


def counted():
    """What kernels would ask of a GPU is in bench's JSON, and with it a time; without counts the time is that of plan."""
    bench = ["bench", "--data", "data", "--device", "shim"]
    found = json.loads(box.must(box.path("gcn"), *bench, "--count", "--json").out)
    plan = json.loads(box.must(box.path("gcn"), "plan", "--data", "data", "--device", "shim", "--json").out)
    timed = json.loads(box.must(box.path("gcn"), *bench, "--json", "--iters", 1).out)
    for program, name in (("infer", "forward"), ("grad", "vjp"), ("train_step", "train_step")):
        for k in found[program]["kernels"]:
            good = k["sectors"] >= k["least_sectors"] > 0 and k["conflicts"] >= 0 and 0 <= k["idle_lanes"] <= 1
            good = good and k["distinct_sectors"] <= k["block_sectors"] <= k["sectors"] and 32 * k["sectors"] >= k["used_bytes"] and k["instructions"] <= 8 * k["issued"]  # teams of four lanes
            if not good or k["predicted_ms"] <= 0 or k["bound"] not in ("memory", "cache", "lines", "issue", "path", "launch"):
                return "%s: %s" % (program, k)
        stated = [(s["predicted_ms"], s["bound"]) for s in plan[name]["steps"]]
        if stated != [(k["predicted_ms"], k["bound"]) for k in timed[program]["kernels"]] or min(stated)[0] <= 0:
            return "plan predicts %s" % stated
    text = box.must(box.path("gcn"), *bench, "--count").out
    return "of the least" not in text and text


def narrow():
    """Rows of few features have as few lanes as read them by 16 bytes each, heads leave few lanes without work, and a loop of loads counts with the loop that it stands before."""
    found = {}
    for name, width, text in (("sum", 16, "sum_in(x.src)"), ("heads", 64, "gat(x, H = 8, D = F/8)")):
        box.must(box.gnnc, "data", "generate", "narrow", "--nodes", 200, "--edges", 3000, "--features", width)
        flags, text = ["--data", "narrow", "--cpu", "generic", "--quick"], "model net(x: node[F]) -> node[F] = %s\n" % text
        box.must(box.gnnc, "build", box.write(name + ".gnn", text), *flags, "--target", "cuda", "--emit=manifest", "-o", name, limit=600)
        box.must(box.gnnc, "build", name + ".gnn", *flags, "--target", "shim", "-o", box.path(name), limit=600)
        lanes = [k["lanes"] for k in json.load(open(box.path(name + ".json")))["kernels"]]
        counts = json.loads(box.must(box.path(name), "bench", "--data", "narrow", "--device", "shim", "--count", "--json").out)
        infer, grad = counts["infer"]["kernels"], counts["grad"]["kernels"]
        found[name] = lanes, max(sum(k["idle"] for k in p) / sum(k["lanes"] for k in p) for p in (infer, grad)), max(k["instructions"] for k in infer if "reduce" in k["name"])
    if set(found["sum"][0]) != {4} or found["sum"][1] or not {4, 16} <= set(found["heads"][0]) or not found["heads"][1] <= 0.15:
        return "lanes and the share of idle ones: %s" % found
    return found["heads"][2] > 110 * 3200 and "%d instructions for 3,200 edges" % found["heads"][2]


def named():
    """Kernels are called for their layer, function and kind; above each stand its operations, their shape, file and line."""
    model = box.write("named.gnn", "layer twice(x: node[F]) -> node[F] = 2 * sum_in(tanh(x.src))\nmodel net(x: node[F]) -> node[F] = gat(twice(x), H = 2, D = F/2)\n")
    box.must(box.gnnc, "build", model, "--set", "F=8", "--target", "cuda", "--emit=cu,manifest", "-o", "named")
    with open(box.path("named.json")) as a, open(box.path("named.cu")) as b:
        names, text = [k["name"] for k in json.load(a)["kernels"]], b.read()
    found = {n.rsplit("_", 1)[0] if n[-1].isdigit() else n for n in names}
    said = re.findall(r"/\* (.*) \*/\nextern \"C\" __global__", text)
    if not {"twice_forward_map", "gat_forward_rows", "gat_forward_rows_parts", "gat_vjp_rows"} <= found or len(set(names)) != len(names) or len(said) != len(names):
        return "%s\n%s" % (names, said)
    return not any(re.fullmatch(r"reduce_max edge\.own_loops\.dst \[2,4\] \+ \d+ ops, \w+\.gnn:\d+", s) for s in said) and said


def ranked():
    """The rank correlation of times that are known: 1, -1, and of four of which two are changed."""
    out = []
    for ms in ([1, 2, 3, 4], [40, 30, 20, 10], [1, 3, 2, 4]):
        kernels = [{"name": "k", "least_ms": m, "predicted_ms": p} for m, p in zip(ms, (0.1, 0.2, 0.3, 0.4))]
        path = box.write("rank.json", json.dumps({"infer": {"kernels": kernels}}))
        out.append(re.findall(r"correlation (\S+)", box.must(sys.executable, os.path.join(devices.ROOT, "bench", "rank.py"), path).out)[-1])
    return out != ["1.000", "-1.000", "0.800"] and out


def refused():
    gcn = box.path("gcn")
    train = [gcn, "train", "--data", "data", "--epochs", 1]
    box.refuses("no_images", train + ["--device", "cuda"], 1, "R405", "--target cuda")
    for flag in (["--cone", "on"], ["--share", 5], ["--memory-budget", "1G"]):
        box.refuses("with" + flag[0], train + ["--device", "shim"] + flag, 1, "R806", flag[0])
    box.must(*train, "--device", "auto", "--share", 5)
    box.must(box.gnnc, "data", "generate", "clouds", "--nodes", 60, "--edges", 100, "--features", 3)
    import numpy as np
    edges = np.load(box.path("clouds", "edge_index.npy")) % 15 + np.arange(100) % 4 * 15
    np.save(box.path("clouds", "edge_index.npy"), edges)
    np.save(box.path("clouds", "batch.npy"), np.repeat(np.arange(4), 15))
    box.must(box.gnnc, "build", box.write("batches.gnn", BATCHES), "--set", "F=3", "--cpu", "generic", "--target", "shim", "-o", box.path("batches"), limit=600)
    train = [box.path("batches"), "train", "--data", "clouds"]
    box.refuses("batches", train + ["--device", "shim"], 1, "R806", "batches of graphs")
    box.must(*train, "--device", "auto")


def no_driver():
    """Without a driver the documented error, and --device auto is the CPU. The file is built with NVRTC."""
    try:
        C.CDLL("libcuda.so.1")
        return box.skip("no_driver", "there is a driver")
    except OSError:
        pass
    r = box.run(box.gnnc, "build", box.write("g.gnn", MODELS["gcn"]), "--data", "data", "--cpu", "generic", "--target", "cuda", "-o", box.path("g"), limit=600)
    if "E0634" in r.err:
        return box.skip("no_driver", "there is no NVRTC")
    if r.rc:
        return box.report("no_driver", r.err)
    box.refuses("no_driver", [box.path("g"), "train", "--data", "data", "--device", "cuda"], 6, "R801", "libcuda.so.1")
    box.refuses("no_driver_7", [box.path("g"), "train", "--data", "data", "--device", "cuda:7"], 6, "R801", "libcuda.so.1")
    found = []
    for device in ("auto", "cpu"):
        box.must(box.path("g"), "train", "--data", "data", "--epochs", 2, "--device", device, "--save", box.path("auto.st"))
        found.append(open(box.path("auto.st"), "rb").read())
    box.report("auto_is_cpu", found[0] != found[1] and "other weights")
    box.must("cc", "-w", "-shared", "-fPIC", "-o", box.path("libcuda.so.1"), os.path.join(devices.ROOT, "tests", "fake_cuda.c"))
    r = box.run(box.path("g"), "train", "--data", "data", "--device", "cuda", env=dict(os.environ, LD_LIBRARY_PATH=box.root))
    box.report("machine_code_is_found", (r.rc != 6 or "(209)" not in r.err) and r.err)
    info = box.must(box.path("g"), "info").out
    box.report("info", "sm_90" not in info and info)


def symbols():
    """Each function that is asked of the driver is one that the CUDA toolkit's stand-in for it has."""
    stub = "/usr/local/cuda/lib64/stubs/libcuda.so"
    if not os.path.exists(stub):
        return box.skip("symbols", "there is no CUDA toolkit")
    with open(os.path.join(devices.ROOT, "runtime", "cuda_calls.def")) as f:
        asked = re.findall(r'^CUDA_CALL\(\w+, "(\w+)"', f.read(), re.M)
    there = set(box.must("nm", "-D", "--defined-only", stub).out.split())
    box.report("symbols", [a for a in asked if a not in there] or (len(asked) < 20 and "found %d" % len(asked)))


box.must(box.gnnc, "data", "generate", "data", "--nodes", devices.NODES, "--edges", devices.EDGES, "--features", devices.FEATURES, "--classes", devices.CLASSES,
         "--seed", 3)


def models():
    long = ["std_sums", "std_attention", "std_norms", "std_found"] if LONG else []
    for name in [n for n in MODELS if n in long or ALL or n == "std_heads" or not n.startswith("std_")]:
        box.report("same_" + name, same(name, epochs=12 if name == "sage" else 3))  # whose best epoch is not the last one then
    for name in ("gin", "sage"):  # whose gradients are blocks of warps there
        program = build(name, MODELS[name], "--machine", "h200")
        box.report("same_%s_h200" % name, devices.compare(devices.run, program, box.path("data"), box.root, "shim", 2))
    for name in ("gcn", "sage"):
        box.report("same_%s_f64" % name, same(name + "_f64", "--dtype", "f64"))


def save_graph(name, edges, width):
    """A data folder: features that are drawn, labels, a mask."""
    os.makedirs(box.path(name), exist_ok=True)
    n = edges.max() + 1
    for file, array in (("edge_index", edges.astype(np.int64)), ("x", np.random.default_rng(1).standard_normal((n, width), np.float32)), ("y", np.arange(n) % 5),
                        ("train_mask", np.arange(n) % 3 == 0)):
        np.save(box.path(name, file + ".npy"), array)


def planned(program, data, *flags):
    return json.loads(box.must(program, "plan", "--data", data, "--device", "shim", "--json", *flags).out)["device"]


def over_bus(program, data, *flags):
    """Bytes that forward reads of the host's memory by the counts of the shim, and those of the device that a run takes."""
    found = json.loads(box.must(program, "bench", "--data", data, "--device", "shim", "--count", "--json", *flags, limit=300).out)
    return 32 * sum(k["bus_sectors"] for k in found["infer"]["kernels"]), found["device_bytes"]


def host_counts(program):
    """As many bytes cross the bus as plan says, with a cache and without. No block gathers a row twice; each has 164 bytes, which lie in 6 sectors wherever it begins."""
    n, degree = 2048, 4
    dst, k = np.repeat(np.arange(n), degree), np.tile(np.arange(degree), n)
    save_graph("far", np.array([(dst * (n // 8 + 1) + k * (n // degree)) % n, dst]), 41)
    whole = planned(program, "far")["bytes"]["bench"]
    plan = planned(program, "far", "--host-rows", "x")
    rest, said = plan["bytes"]["bench"], plan["host"]["bench"]["bus_bytes"]["forward"]
    counted, taken = over_bus(program, "far", "--host-rows", "x")
    if not said == counted == 6 * 32 * n * degree or taken != rest or plan["host"]["bench"]["cache_bytes"] or not whole - 4 * 41 * n - 1024 <= rest <= whole - 4 * 41 * n:
        return "plan says %s over the bus, the shim counts %d; %d bytes of the device, of which plan says %d; %d without the flag" % (said, counted, taken, rest, whole)
    room = rest + 3 * 65536 + 100
    flags = ["--host-rows", "x", "--device-memory", room]
    plan = planned(program, "far", *flags)
    cached = plan["host"]["bench"]
    counted, taken = over_bus(program, "far", *flags)
    if cached["cache_bytes"] != 3 * 65536 or not cached["bus_bytes"]["forward"] == counted < said or not room - 100 == taken == plan["bytes"]["bench"]:
        return "of %d bytes: %s, the shim counts %d, %d bytes of the device" % (room, cached, counted, taken)
    chosen = planned(program, "far", "--device-memory", whole - 1)  # of two that are as large what is read less: gathers are computed once to train
    if chosen["host"]["bench"]["inputs"] != ["held.0"] or planned(program, "far", "--device-memory", whole)["host"]:
        return "chosen are %s" % chosen["host"]
    text = box.must(program, "plan", "--data", "far", "--device", "shim", *flags).out
    return "bench leaves on the host x: 393216 bytes, and a cache of 196608 on the device; it reads over the bus forward %d bytes" % counted not in text and text


def host_cache(program):
    """The cache has what is read most: rows of many edges, of which most lie side by side once nodes are in the order of their edges."""
    box.must(box.gnnc, "data", "generate", "hubs", "--nodes", 6000, "--edges", 30000, "--features", 41, "--classes", 5, "--kind", "rmat")
    room = planned(program, "hubs", "--host-rows", "x")["bytes"]["infer"]
    found = {}
    for order in ("none", "degree"):
        for granules in (0, 3):
            plan = planned(program, "hubs", "--host-rows", "x", "--device-memory", room + 65536 * granules, "--reorder", order)["host"]["infer"]
            found[order, granules] = plan["bus_bytes"]["forward"]
    share = {order: 1 - found[order, 3] / found[order, 0] for order in ("none", "degree")}
    counted, _ = over_bus(program, "hubs", "--host-rows", "x", "--reorder", "degree")  # blocks gather hubs again and again
    if not 0.25 < share["none"] < share["degree"] or share["degree"] < 0.5 or not found["degree", 0] / 2 < counted <= found["degree", 0]:
        return "shares of gathers that hit 3 of 16 granules: %s; %s over the bus, %d are counted" % (share, found, counted)


def host_same(program):
    """Results and weights are those of a run that has all on the device."""
    names = ["--host-rows", "x,held.0"]
    room = ["--device-memory", str(planned(program, "hubs", *names)["bytes"]["infer"] + 65536)]
    found = [planned(program, "hubs", *flags)["host"] for flags in (names, room, names + room)]
    if found[0]["train"]["inputs"] != ["held.0"] or found[1]["infer"]["inputs"] != ["x"] or not found[2]["train"]["cache_bytes"] or not found[2]["infer"]["cache_bytes"]:
        return "on the host are %s" % found
    for flags in (names, room, names + room):
        wrong = devices.compare(devices.run, program, box.path("hubs"), box.root, "shim", 3, there=flags)
        if wrong:
            return "%s: %s" % (flags, wrong)
    box.must(program, "bench", "--data", "hubs", "--device", "shim", "--compare", *names)


def host():
    """Inputs that stay on the host."""
    program = box.path("host")
    box.must(box.gnnc, "build", box.write("host.gnn", HOST), "--set", "F=41,C=5", "--cpu", "generic", "--target", "shim", "-o", program, limit=600)
    box.report("host_counts", host_counts(program))
    box.report("host_cache", host_cache(program))
    box.report("host_same", host_same(program))
    infer = [program, "bench", "--data", "far", "--iters", 1]
    whole = planned(program, "far")["bytes"]["bench"]
    shim = infer + ["--device", "shim"]
    box.must(*shim, "--device-memory", whole, "--host-rows", "none")
    box.refuses("host_none", shim + ["--device-memory", whole - 1, "--host-rows", "none"], 4, "R804", "--device-memory allows %d" % (whole - 1))
    box.refuses("host_too_much", shim + ["--device-memory", "1K"], 4, "R804", "--device-memory allows 1024")
    box.refuses("host_name", shim + ["--host-rows", "x,W"], 1, "R403", "these can: x")
    box.refuses("host_size", shim + ["--device-memory", "much"], 1, "R403", "--device-memory")
    box.refuses("host_cpu", infer + ["--host-rows", "x"], 1, "R403", "--device cuda")
    box.refuses("host_cpu_memory", infer + ["--device-memory", "1G"], 1, "R403", "--device-memory")
    box.must(box.gnnc, "build", box.write("near.gnn", HOST.replace("linear(max_in(x.src), O = C)", "dynamic_edge(O = 5, k = 3)(x)")), "--set", "F=41,C=5", "--cpu", "generic",
             "--target", "shim", "-o", box.path("near"), limit=600)  # looks for neighbours among all rows of x
    box.refuses("host_whole", [box.path("near"), "plan", "--data", "far", "--device", "shim", "--host-rows", "x"], 1, "R403", "row by row")
    box.report("host_not_whole", planned(box.path("near"), "far", "--device-memory", "1K")["host"].get("infer"))


@functools.lru_cache(maxsize=None)
def long_data():
    """A folder of data with rows that warps share, beside some that none do and one without edges."""
    src, dst = [], []
    for v, n in enumerate((257, 0, 1300, 40, 256, 769, 513)):
        src += [(5 * v + i) % 7 for i in range(n)]
        dst += [v] * n
    os.makedirs(box.path("long"), exist_ok=True)
    rng = np.random.default_rng(2)
    for name, array in (("edge_index", np.array([src, dst], np.int64)), ("x", rng.standard_normal((7, devices.FEATURES), np.float32)),
                        ("y", np.arange(7) % devices.CLASSES), ("train_mask", np.arange(7) < 5), ("val_mask", np.arange(7) > 4), ("test_mask", np.arange(7) > 4),
                        ("w", rng.standard_normal(len(src), np.float32))):
        np.save(box.path("long/%s.npy" % name), array)
    return box.path("long")


def long_rows():
    """The attention's sums rescale with a maximum, which takes two turns."""
    for name in ("gcn", "gat", "sage"):
        program = build(name, MODELS[name])
        box.report("long_rows_" + name, devices.compare(devices.run, program, long_data(), box.root, "shim", 4))


def softmaxes():
    """Kernels for a device rescale the sums that those for the CPU rescale, and have a schedule of their own all the same. Long rows show it: in each, sums that
    rescale have other bits than those of two walks."""
    for name, (machine, dims, flags, scores, result) in SOFTMAXES.items():
        lines = ["%s = softmax_in(%s)" % x for x in zip("ab", scores)]
        path = box.path("softmax_" + name)
        said = box.must(box.gnnc, "build", box.write("softmax_%s.gnn" % name, SOFTMAX % ("\n  ".join(lines), result)), "--data", long_data(), "--set", dims + ",C=%d" % devices.CLASSES,
                        "--machine", machine, *flags, "--cpu", "generic", "--target", "shim", "--quick", "--remarks=fuse", "-o", path, limit=600).err
        box.report("softmax_own_" + name, "kernels for GPUs are those for CPUs" in said and said[-300:])
        box.report("softmax_bits_" + name, devices.compare(devices.run, path, long_data(), box.root, "shim", 4))


def runs():
    build("gcn", MODELS["gcn"])
    box.report("resumed", resumed())
    box.report("several", several())
    box.report("stated_bytes", stated_bytes())
    box.report("compared", compared())
    box.report("counted", counted())
    box.report("narrow", narrow())
    box.report("named", named())
    box.report("ranked", ranked())
    box.refuses("count_cpu", [box.path("gcn"), "bench", "--data", "data", "--count"], 1, "R403", "--count")
    box.refuses("count_compare", [box.path("gcn"), "bench", "--data", "data", "--device", "shim", "--count", "--compare"], 1, "R403", "--count")
    box.refuses("compare_cpu", [box.path("gcn"), "bench", "--data", "data", "--compare"], 1, "R403", "--compare")
    refused()


def library():
    """A library's context on a device has the bytes of the one on the CPU, and refuses values of edges in another order than that of their targets."""
    box.must(box.gnnc, "build", box.write("weighted.gnn", devices.WEIGHTED), *devices.WEIGHTED_FLAGS, "--cpu", "generic", "--target", "shim",
             "--emit=lib,header", "-o", "weighted", limit=600)
    box.report("library", devices.compare_library(box.path("weighted.so"), devices.HostMemory()))
    lib = devices.Library(box.path("weighted.so"), "weighted", 3, [0, 1, 2], [2, 0, 1], None)
    box.report("library_order", "sorted by dst" not in str(lib.refused) and "context_cuda says %s" % lib.refused)
    lib.close()
    undefined = box.must("nm", "-D", "--undefined-only", box.path("weighted.so")).out.split()
    box.report("library_needs", [n for n in undefined if n.startswith(("cu", "rt_", "shim_"))])


def blas():
    """Products by a library in place of cuBLAS, which looks at its arguments: results within the error bound, and as many calls as `plan` says. Three blocks of rows,
    the last one short."""
    box.must("cc", "-std=c11", "-O1", "-shared", "-fPIC", "-o", box.path("libcublas.so.13"), os.path.join(devices.ROOT, "tests", "fake_cublas.c"))
    box.must(box.gnnc, "data", "generate", "more", "--nodes", 1300, "--edges", 5000, "--features", devices.FEATURES, "--classes", devices.CLASSES)
    log = box.path("calls")
    env = dict(os.environ, LD_LIBRARY_PATH=box.root, FAKE_CUBLAS_LOG=log)
    for kind, bound in (("f32", 2e-5), ("f64", 1e-12)):
        program = build("gcn", MODELS["gcn"], "--dtype", kind)
        found = {}
        for name, flags in (("cpu", ["--blas", "off"]), ("exact", ["--device", "shim"]), ("off", ["--device", "shim", "--blas", "off"]), ("on", ["--device", "shim", "--blas", "on"])):
            if os.path.exists(log):
                os.remove(log)
            box.must(program, "train", "--data", "more", "--epochs", 3, "--save", name + ".st", *flags, env=env)
            with open(box.path(name + ".st"), "rb") as f:
                found[name] = f.read()
            calls = [line.split() for line in open(log)] if os.path.exists(log) else []
            if name != "on" and calls:
                box.report("blas_%s_%s" % (kind, name), "the library was called")
        box.report("blas_exact_" + kind, not found["cpu"] == found["exact"] == found["off"] and "other weights without --blas on")
        head = 8 + int.from_bytes(found["cpu"][:8], "little")
        a, b = (np.frombuffer(found[n][head:], "<f4" if kind == "f32" else "<f8") for n in ("cpu", "on"))
        box.report("blas_near_" + kind, not np.abs(a - b).max() < bound and "weights differ by %g" % np.abs(a - b).max())
        shapes = {tuple(c) for c in calls}
        blocks = {c[2:4] for c in shapes if c[5] == "1"}  # length of sums, how many side by side
        box.report("blas_blocks_" + kind, not {("512", "2"), ("276", "1")} <= blocks and "outer products by blocks of %s rows" % blocks)
        os.remove(log)
        box.must(program, "infer", "--data", "more", "--weights", "on.st", "--out", "on.npy", "--device", "shim", "--blas", "on", env=env)
        plan = json.loads(box.must(program, "plan", "--data", "more", "--device", "shim", "--blas", "on", "--json").out)
        marked, calls = sum(s["by"] == "cublas" for s in plan["forward"]["steps"]), len(open(log).readlines()) if os.path.exists(log) else 0
        box.report("blas_plan_" + kind, (marked != calls or (kind == "f32" and not marked)) and "%d steps are marked, the library was called %d times" % (marked, calls))
        text = box.must(program, "plan", "--data", "more", "--device", "shim", "--blas", "on").out
        box.report("blas_plan_text_" + kind, "products by cublas where marked" not in text and text[:200])
    r = box.run(program, "train", "--data", "more", "--epochs", 2, "--device", "shim", "--blas", "on", env=dict(env, FAKE_CUBLAS_FAILS="2"))
    box.report("blas_fails", (r.rc != 6 or "R805" not in r.err or "its status is 13" not in r.err) and "exit code %s: %s" % (r.rc, r.err))


PARTS = {"models": models, "blas": blas, "host": host, "runs": runs, "long_rows": long_rows, "softmaxes": softmaxes, "library": library, "redrawn": lambda: box.report("redrawn", redrawn()), "no_driver": no_driver, "symbols": symbols}
for part in sys.argv[2:] or PARTS:
    PARTS[part]()
box.close()
