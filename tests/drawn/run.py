#!/usr/bin/python3
"""Draws programs, builds each as a library, and compares its outputs and gradients with torch (oracle.py).

usage: tests/drawn/run.py [--from A] [--count N] [--build BUILD] [--jobs J] [--all] [--show] [--keep]
A seed says the program, its data and how it is built: f32 or f64, for which CPU, with which passes. --all builds it in every
such way. A program that differs is printed with its seed, as .gnn and as torch, after what does not matter was taken out.
The last line is `N programs, N wrong, N refused`; refused ones are faults of the generator."""
import argparse
import ctypes as C
import multiprocessing
import os
import random
import re
import resource
import subprocess
import sys
import tempfile

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "golden"))
import draw  # noqa: E402
import levels  # noqa: E402
import library  # noqa: E402
import oracle  # noqa: E402

PASSES = ["simplify", "cse", "dce", "table", "parts", "reorder", "pick", "layout", "hoist", "fuse", "schedule", "connect", "memplan"]
LIMIT_S = 60  # of the processor, for a build
RANDOM = (7, 3)  # seed and step of what a program draws
PARALLEL_FOR = C.CFUNCTYPE(None, C.c_void_p, C.c_int64, C.CFUNCTYPE(None, C.c_void_p, C.c_int64), C.c_void_p)


class Way:
    """How a program is built."""

    def __init__(self, dtype, cpu, without):
        self.dtype, self.cpu, self.without = dtype, cpu, without

    def __str__(self):
        return "--dtype=%s --cpu=%s%s" % (self.dtype, self.cpu, " --disable=" + ",".join(self.without) if self.without else "")

    @staticmethod
    def drawn(seed):
        rng = random.Random(seed * 31 + 7)
        kinds = levels.allowed()
        without = rng.choice([[], [], [], [], PASSES, [rng.choice(PASSES)], rng.sample(PASSES, 3)])
        return Way(rng.choice(["f64", "f32"]), rng.choice(["native"] * 3 + kinds), sorted(without, key=PASSES.index))

    @staticmethod
    def every():
        kinds = levels.allowed()
        return [Way(dtype, cpu, without) for without in ([], PASSES, *[[p] for p in PASSES]) for dtype in ("f64", "f32")
                for cpu in (kinds if not without else ["native"])]


class Wrong(Exception):
    """What was found, in one line."""


class Refused(Exception):
    """The compiler does not take the program."""


class Skipped(Exception):
    """On these data the program hangs on rounding or is not finite."""


# ---- the two sides ----

def by_torch(p, items, seed, dtype, drawn=None, kind=None):
    """Results, gradients by name and the inputs, for data of this seed; drawn: what the other side drew, by value."""
    g = draw.data_graph(random.Random(seed), kind or p.kind, p.n_graphs, p.bipartite, None)
    ns = p.names(g, dtype)
    inputs = [v for v in items if getattr(v, "source", None)]
    for v in inputs:
        x = p.input_data(v, seed, ns)
        ns[v.name] = x.detach().to(dtype).requires_grad_(True) if v.kind == "float" else x
    oracle.Watch.clear()
    for v in items:
        if getattr(v, "random", None):
            ns[v.name] = torch.zeros(()) if drawn is None else drawn[v].to(dtype)
        elif v.py:
            ns[v.name] = eval(v.py.format(*[a.name for a in v.args]), ns)
        if drawn is None and getattr(v, "random", None):
            ns[v.name] = torch.ones_like(ns[v.args[0].name]).detach()
    results = [ns[v.name].permute([v.code().index(c) for c in ("r" if v.space else "") + "".join(o)]) if v.code() else ns[v.name]
               for v, o in zip(p.results, p.orders)]
    rng = torch.Generator().manual_seed(seed + 1)
    cots = [torch.randn(r.shape, generator=rng, dtype=torch.float64).to(dtype) for r in results]
    total = sum((r * c).sum() for r, c in zip(results, cots))
    floats = [v for v in inputs if v.kind == "float"]
    grads = torch.autograd.grad(total, [ns[v.name] for v in floats], allow_unused=True) if total.requires_grad else [None] * len(floats)
    grads = {v: torch.zeros_like(ns[v.name]) if d is None else d for v, d in zip(floats, grads)}
    return g, {v: ns[v.name].detach() for v in inputs}, [r.detach() for r in results], cots, grads


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S + 1))


def build(gnnc, p, text, way, out):
    with open(out + ".gnn", "w") as f:
        f.write(text)
    sizes = ["--set=%s=%d" % (d, n) for d, n in p.sizes.items() if re.search(r"\b%s\b" % d, text)]
    argv = [gnnc, "build", out + ".gnn", *sizes, "--dtype=" + way.dtype, "--cpu=" + way.cpu, "--emit=lib", "--prefix=m", "-o", out]
    argv += (["--disable=" + ",".join(way.without)] if way.without else []) + (["--mode=train"] if p.train else [])
    try:
        r = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=10 * LIMIT_S, preexec_fn=limit)
    except subprocess.TimeoutExpired:
        raise Wrong("the build does not end")
    if r.returncode == 1:
        raise Refused(r.stdout.decode("utf-8", "replace")[-600:])
    if r.returncode:
        raise Wrong("the build ends with %d: %s" % (r.returncode, r.stdout.decode("utf-8", "replace")[-600:]))
    return out + ".so"


class Loaded(library.Library):
    """The library on one graph, with parameters of the caller's."""

    def __init__(self, path, dtype):
        super().__init__(path, "m", {"f32": np.float32, "f64": np.float64}[dtype])

    def on(self, g, params):
        self.on_graph(g.n_src, g.n_dst, g.src.tolist(), g.dst.tolist(), g.n_graphs, g.of.tolist() if g.n_graphs > 1 else None)
        self.kept = [np.array(params[i.name.decode()], self.float_type, order="C") for i in self.params]
        for k, a in enumerate(self.kept):
            self.call("context_bind_param", self.context, C.c_int32(k), library.address(a))
        self.function("context_set_random").restype = None
        self.function("context_set_random")(self.context, C.c_int64(RANDOM[0]), C.c_int64(RANDOM[1]))

    def lend(self, n_threads):
        def backwards(_, n, task, arg):
            for i in reversed(range(n)):
                task(arg, i)
        self.run = PARALLEL_FOR(backwards)
        self.call("context_set_parallel", self.context, self.run, None, C.c_int32(n_threads))

    def free(self):
        self.function("context_free")(self.context)
        self.function("graph_free")(self.graph)


# ---- comparison ----

def off(name, found, wanted, rough, dtype):
    """Why `found` is not `wanted`, or None; rough: wanted in single precision, whose distance says how well it can be known."""
    found, wanted = np.asarray(found, np.float64).reshape(-1), wanted.double().numpy().reshape(-1)
    if found.shape != wanted.shape:
        return "%s has %d elements, wanted %d" % (name, found.size, wanted.size)
    if not found.size:
        return None
    size = np.abs(wanted).max()
    if dtype == "f64":
        most = 1e-8 * (1 + size)
    else:
        most = 1e-4 * (1 + size) + 50 * np.abs(rough.double().numpy().reshape(-1) - wanted).max()
    gap = np.abs(found - wanted)
    bad = ~(gap <= most)
    if not bad.any():
        return None
    at = int(np.argmax(np.where(np.isnan(gap), np.inf, gap)))
    return "%s: %d of %d elements differ; element %d is %.9g, torch says %.9g" % (name, bad.sum(), bad.size, at, found[at], wanted[at])


def stored_name(v):
    return getattr(v, "stored", v.name)


def compare_on(p, items, lib, way, seed, kind):
    """Raises Wrong for the first difference on the data of this seed."""
    g, given, _, _, _ = by_torch(p, items, seed, torch.float64, None, kind)
    inputs = {v.name: a.numpy() for v, a in given.items() if v.source == "input"}
    lib.on(g, {stored_name(v): a.numpy() for v, a in given.items() if v.source == "param"})
    try:
        out = lib.forward(inputs)
        drawn = {v: torch.as_tensor(o.reshape(-1)).reshape([s for s in ([rows_of(g, v)] + [p.sizes[d] for d in v.dims])]) for v, o in zip(p.results, out) if v.random}
        g, given, results, cots, grads = by_torch(p, items, seed, torch.float64, drawn, kind)
        if oracle.Watch.least < draw.NEAREST or not all(bool(torch.isfinite(x).all()) for x in [*results, *grads.values()]):
            raise Skipped()
        rough, rough_grads = results, grads
        if way.dtype == "f32":
            _, _, rough, _, rough_grads = by_torch(p, items, seed, torch.float32, drawn, kind)
        for k, (o, r, w) in enumerate(zip(out, results, rough)):
            why = off("result %d (%s)" % (k, p.results[k].name), o, r, w, way.dtype)
            if why:
                raise Wrong(why)
        found = lib.vjp(inputs, [c.numpy() for c in cots])
        for v, d in grads.items():
            why = off("grad." + stored_name(v), found["grad." + stored_name(v)], d, rough_grads[v], way.dtype)
            if why:
                raise Wrong(why)
        lib.lend(3)
        again, found_again = lib.forward(inputs), lib.vjp(inputs, [c.numpy() for c in cots])
        if any(a.tobytes() != b.tobytes() for a, b in zip(out, again)) or any(found[k].tobytes() != found_again[k].tobytes() for k in found):
            raise Wrong("three threads give other bits than one")
    finally:
        lib.free()


def rows_of(g, v):
    return {"node": g.n_src, "src": g.n_src, "dst": g.n_dst, "edge": g.edges()}[v.space]


def check(gnnc, p, way, out):
    """Wrong, Refused, or how many data sets were compared."""
    items, n = draw.items(p), 0
    path = build(gnnc, p, p.text(), way, out)
    try:
        lib = Loaded(path, way.dtype)
        rng = random.Random(p.seed + 5)
        for seed, kind in [(p.data_seed, p.kind), (p.data_seed + 1, rng.choice(draw.GRAPHS if max(p.sizes.values()) < 16 else ["plain", "sparse", "one", "bare"]))]:
            try:
                compare_on(p, items, lib, way, seed, kind)
                n += 1
            except Skipped:
                pass
            except library.Failed as e:
                raise Wrong("a call fails: %s" % e)
        lib.function("model_free")(lib.model)
    finally:
        for end in (".so", ".a", ".gnn"):
            if os.path.exists(out + end):
                os.remove(out + end)
    return n


def one(job):
    seed, gnnc, every, box, steps = job
    torch.set_num_threads(1)
    said, state = [], "ok"
    p = draw.Draw(seed, *steps)
    if not p.results:
        return seed, "empty", ""
    for k, way in enumerate(Way.every() if every else [Way.drawn(seed)]):
        try:
            check(gnnc, p, way, os.path.join(box, "p%d_%d" % (seed, k)))  # a name of its own: the loader keeps what it has loaded
        except Refused as e:
            return seed, "refused", "%s\n%s" % (e, p.text())
        except Wrong as e:
            state = "wrong"
            said.append("%s: %s" % (way, e))
    return seed, state, "\n".join(said) + ("\n%s\n%s\n# %s" % (p.text(), p.torch_text(), p.sizes) if said else "")


def campaign(gnnc, seeds, jobs, every=False, steps=()):
    """Yields (seed, state, text) of each program."""
    with tempfile.TemporaryDirectory(prefix="gnnc-drawn-") as box:
        todo = [(s, gnnc, every, box, steps) for s in seeds]
        if jobs == 1:
            yield from map(one, todo)
            return
        with multiprocessing.Pool(jobs, maxtasksperchild=200) as pool:
            yield from pool.imap(one, todo, chunksize=4)


def main():
    a = argparse.ArgumentParser(description=__doc__)
    a.add_argument("--from", dest="first", type=int, default=0)
    a.add_argument("--count", type=int, default=100)
    a.add_argument("--build", default=os.path.join(HERE, "..", "..", "build"))
    a.add_argument("--jobs", type=int, default=1)
    a.add_argument("--all", action="store_true")
    a.add_argument("--show", action="store_true")
    opt = a.parse_args()
    if opt.show:
        p = draw.Draw(opt.first)
        print(p.text() + "\n" + p.torch_text() + "\n# %s %s %s" % (p.sizes, p.kind, Way.drawn(opt.first)))
        return
    counts = {"ok": 0, "wrong": 0, "refused": 0, "empty": 0}
    for seed, state, text in campaign(os.path.join(os.path.abspath(opt.build), "gnnc"), range(opt.first, opt.first + opt.count), opt.jobs, opt.all):
        counts[state] += 1
        if text:
            print("seed %d: %s: %s\n" % (seed, state, text), flush=True)
    print("%d programs, %d wrong, %d refused" % (sum(counts.values()), counts["wrong"], counts["refused"]))
    sys.exit(1 if counts["wrong"] or counts["refused"] else 0)


if __name__ == "__main__":
    main()
