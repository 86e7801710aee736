"""Our side of a row: builds a model of bench/models, times it, and compares it with what PyG computed.

Times come from the executable (`bench --json`), which runs without Python; outputs and gradients from the library form
through ctypes (tests/golden/library.py), which takes the peer's weights, inputs and cotangent.
"""
import json
import os
import subprocess
import sys

import numpy as np

import rows

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests", "golden"))
import levels  # noqa: E402,F401
import library  # noqa: E402
import tensors  # noqa: E402

MODES = {"infer": "infer", "grad": "grad", "epoch": "train_step"}


Failed = library.Failed


def call(argv, timeout=600):
    try:
        p = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failed("%s: over %d s" % (os.path.basename(argv[0]), timeout))
    if p.returncode:
        raise Failed((p.stderr.decode("utf-8", "replace").strip().splitlines() or ["ended with %d" % p.returncode])[0][:300])
    return p.stdout.decode()


class Ours:
    """One model at one width: `model` is a name in bench/models or a path; net_* take their dims from `data`."""

    def __init__(self, gnnc, work, model, data, width, options=(), threads=2, device="cpu", built=None):
        """`built`: a folder in which `bench/run --build-only` left this program and its libraries, for a machine without a compiler."""
        self.model, self.data, self.threads, self.device, self.built = model, data, threads, device, built
        path = model if model.endswith(".gnn") else os.path.join(HERE, "models", model + ".gnn")
        stem = os.path.basename(path)[:-4]
        tag = "-".join([stem, str(width), os.path.basename(data.rstrip("/"))] + [o.strip("-") for o in options])
        self.argv = [gnnc, "build", path] + (["--cpu=native"] if device == "cpu" and not built else []) + list(options)
        if stem.startswith("net_"):
            self.argv += ["--data", data] + (["--set", "W=%d" % width] if "W" in open(path).read() else [])
        else:
            self.argv += ["--set", ",".join("%s=%d" % d for d in rows.dims(stem, width).items())]
        self.out = os.path.join(built or os.path.join(work, "bin"), tag)
        self.build(self.out, ["--target=all"] if device != "cpu" else [])

    def build(self, out, options):
        if not self.built or not os.path.exists(out):
            os.makedirs(os.path.dirname(out), exist_ok=True)
            call(self.argv + options + ["-o", out.replace(".so", "")])

    def library(self, dtype):
        """What compares with a peer. It runs on the CPU, to whose bits `scripts/test-gpu` holds a GPU."""
        out = "%s-%s.so" % (self.out, dtype)
        self.build(out, ["--emit=lib", "--prefix=m", "--dtype=" + dtype])
        return out

    def time(self, iters):
        """{mode: {ms, arena, grown, savings}}: the best of `iters`, bytes of the arena and of all that a run takes beyond inputs, parameters
        and cotangents, and what `bench` says that a run reads sparse, has computed once, and leaves out."""
        text = call([self.out, "bench", "--data", self.data, "--iters", iters, "--threads", self.threads, "--json"] + self.on())
        got = json.loads(text)
        return {mode: {"ms": g["min_ms"], "arena": g["arena_bytes"], "grown": g["grown_bytes"],
                       "savings": {k: g[k] for k in ("reads_sparse", "computed_once", "left_out")}}
                for mode, g in ((mode, got[name]) for mode, name in MODES.items() if name in got)}

    def on(self):
        return ["--device", self.device] if self.device != "cpu" else []

    def plan(self):
        """{mode: (predicted milliseconds, predicted peak bytes)}: what the executable says before it runs."""
        said = json.loads(call([self.out, "plan", "--data", self.data, "--threads", self.threads, "--json"] + self.on()))
        names = {"infer": "forward", "grad": "vjp", "epoch": "train_step"}
        return {mode: (said[name]["ms"], said[name]["peak_bytes"]) for mode, name in names.items() if "ms" in said.get(name, {})}

    def compare(self, dump, dtype="f32"):
        """(largest relative difference, of what): outputs, gradients of inputs and parameters, against PyG's dump."""
        lib = library.Library(self.library(dtype), "m", {"f32": np.float32, "f64": np.float64}[dtype])
        try:
            return self.compare_with(lib, dict(np.load(dump)))
        finally:
            lib.close()

    def compare_with(self, lib, t):
        names, stored = weights_of(lib, t)
        layouts = lib.layouts({k: v.shape for k, v in stored.items()})
        lib.load(stored)
        inputs = {name: features(self.data, name) for name in (i.name.decode() for i in lib.inputs) if name not in ("y", "train_mask")}
        self.put_on_graph(lib, inputs)
        floor, cuts = least_scale(t), self.cuts(lib, t)
        off = [(differ(got, t["out"][part]), "out") for got, part in zip(lib.forward(inputs), cuts)]
        for name, g in lib.vjp(inputs, [t["cot"][part] for part in cuts]).items():
            bare = name[len("grad."):] if name.startswith("grad.") else name
            if bare in inputs:
                off.append((differ(g, self.gradient(t, bare), floor), name))
            elif "grad.param." + names[bare] in t:
                ordered = np.empty(g.size, g.dtype)
                ordered[layouts[bare]] = g.reshape(-1)
                off.append((differ(ordered, t["grad.param." + names[bare]], floor), name))
        return max(off)

    def put_on_graph(self, lib, inputs):
        src, dst = np.load(os.path.join(self.data, "edge_index.npy"))
        lib.on_graph(len(inputs["x"]), len(inputs["x"]), src, dst, 1, None)

    def cuts(self, lib, t):
        """The rows of PyG's output that each result is."""
        return [slice(None)]

    def gradient(self, t, name):
        return t["grad.x" if name == "x" else "grad.in." + name]


SCHEMA = {"hgt": "hgt(x, H = 8, O = %(width)d)", "han": "han(x, H = 8, O = %(width)d)", "hetero": "hetero(x, conv = sage, O = %(width)d)"}
RELATIONS = {"rgcn": "rgcn(x, edge_type)", "rgat": "rgat(x, edge_type, H = 8, D = %(width)d / 8)",
             "film": "film(x, edge_type, num_relations = %(relations)d)"}


class Typed(Ours):
    """A layer on a folder of typed_graph.py, built for its data: on one graph whose edges have types, or on a schema."""

    def __init__(self, gnnc, work, layer, folder, meta, width, threads):
        self.model, self.data, self.threads, self.device, self.built, self.meta = layer, folder, threads, "cpu", None, meta
        self.kinds, self.schema = len(meta["first"]) - 1, layer in SCHEMA
        self.out = os.path.join(work, "bin", "typed-%s-%s" % (layer, os.path.basename(folder)))
        os.makedirs(os.path.dirname(self.out), exist_ok=True)
        call_of = (SCHEMA if self.schema else RELATIONS)[layer] % {"width": width, "relations": meta["num_relations"]}
        with open(self.out + ".gnn", "w") as f:
            if self.schema:
                edges = ["  edge %s: %s -> %s\n" % (r, s, t) for r, (s, t) in meta["relations"].items()]
                f.write("schema typed {\n  node %s\n%s}\n\nmodel net(x: node(all)[F]) = %s\n"
                        % (", ".join("k%d" % k for k in range(self.kinds)), "".join(edges), call_of))
            else:
                f.write("model net(x: node[F], edge_type: edge index[R]) -> node[%d] = %s\n" % (width, call_of))
        self.argv = [gnnc, "build", self.out + ".gnn", "--cpu=native", "--data", folder]
        self.build(self.out, [])

    def compare_with(self, lib, t):
        """Of the library, and of what the executable infers, which has a pass more (`pairs`)."""
        off = super().compare_with(lib, t)
        if self.schema or lib.float_type != np.float32:
            return off
        weights, out = self.out + ".safetensors", self.out + ".npy"
        with open(weights, "wb") as f:
            f.write(tensors.pack({k: np.ascontiguousarray(v, np.float32) for k, v in weights_of(lib, t)[1].items()}))
        call([self.out, "infer", "--data", self.data, "--weights", weights, "--out", out, "--threads", self.threads])
        return max(off, (differ(np.load(out), t["out"]), "out of the executable"))

    def put_on_graph(self, lib, inputs):
        if not self.schema:
            super().put_on_graph(lib, inputs)
            return
        lists = {r: np.load(os.path.join(self.data, r + ".edge_index.npy")) for r in self.meta["relations"]}
        lib.on_graph(0, 0, [], [], 1, None, lists, {"k%d" % k: self.meta["num_k%d" % k] for k in range(self.kinds)})

    def rows_of(self, kind):
        k = int(kind[1:])
        return slice(self.meta["first"][k], self.meta["first"][k + 1])

    def cuts(self, lib, t):
        return [self.rows_of(r.space.decode()) for r in lib.results] if self.schema else [slice(None)]

    def gradient(self, t, name):
        return t["grad.x"][self.rows_of(name.split(".")[0])] if self.schema else super().gradient(t, name)


def weights_of(lib, dump):
    """({our name of a parameter: PyG's}, {our name: its value in PyG's dump})."""
    theirs = {k[len("param."):]: v for k, v in dump.items() if k.startswith("param.")}
    names = {p.name.decode(): same(p.name.decode(), theirs) for p in lib.params}
    return names, {ours: theirs[name] for ours, name in names.items()}


def least_scale(dump):
    """A tensor of smaller elements counts as having this one: softmax cancels a bias."""
    return 1e-4 * max(float(np.abs(v).max()) for k, v in dump.items() if k.startswith("grad."))


def apart(dump, exact):
    """The largest relative difference of PyG's results from its own in f64."""
    a, b = dict(np.load(dump)), dict(np.load(exact))
    return max(differ(a[k], b[k], least_scale(b)) for k in b if k == "out" or k.startswith("grad."))


def same(name, theirs):
    """PyG's name of our parameter: instances on the way may be called otherwise, what follows may not."""
    for fits in (lambda o: o == name, lambda o: name.endswith("." + o), lambda o: o.endswith("." + name)):
        found = [o for o in theirs if fits(o)]
        if found:
            return max(found, key=len)
    raise Failed("the peer has no parameter like `%s`" % name)


def features(data, name):
    """An input array; features stored as CSR become dense."""
    path = os.path.join(data, name + ".npy")
    if os.path.exists(path) or name != "x":
        return np.load(path)
    starts = np.load(os.path.join(data, "x_indptr.npy"))
    with open(os.path.join(data, "meta.json")) as f:
        x = np.zeros((len(starts) - 1, json.load(f)["feature_dim"]), np.float32)
    columns, values = (np.load(os.path.join(data, "x_%s.npy" % part)) for part in ("indices", "data"))
    x[np.repeat(np.arange(len(x)), np.diff(starts)), columns] = values
    return x


def differ(got, want, floor=1e-6):
    """The largest difference relative to the largest element wanted, which counts as `floor` at least. Of large tensors one
    element in a thousand may be further off: where two messages tie to within rounding, a maximum has another winner."""
    want = want.reshape(-1).astype(np.float64)
    e = np.abs(got.reshape(-1) - want)
    if not len(e):
        return 0.0
    last = len(e) - 1 - (len(e) // 1000 if len(e) >= 10000 else 0)
    return float("inf") if np.isnan(e).any() else float(np.partition(e, last)[last]) / max(float(np.abs(want).max()), floor)
