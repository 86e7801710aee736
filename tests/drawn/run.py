#!/usr/bin/python3
"""Draws programs, builds each as a library, and compares its outputs and gradients with torch (oracle.py).

usage: tests/drawn/run.py [--from A] [--count N] [--build BUILD] [--jobs J] [--all] [--show] [--typed] [--write DIR]
A seed says the program, its data and how it is built: f32 or f64, for which CPU and machine, with which passes, with LLVM's optimiser
or not. --all builds it in every such way. --typed: programs with a schema (draw_typed.py); --write: none is built, each is a file in DIR for `test_programs targets`. A program that differs is printed with its seed, as .gnn and as torch, after what does not matter was taken out.
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
import draw_typed  # noqa: E402
import extreme  # noqa: E402
import levels  # noqa: E402
import library  # noqa: E402
import machine  # noqa: E402
import oracle  # noqa: E402

PASSES = ["simplify", "cse", "dce", "parts", "reorder", "pick", "layout", "hoist", "fuse", "schedule", "connect", "memplan"]
LIMIT_S = 60  # of the processor, for a build
RANDOM = (7, 3)  # seed and step of what a program draws
CALLS = ["model_create", "model_free", "graph_create", "graph_free", "graph_count", "context_create", "context_free", "context_bind_param",
         "context_set_random", "context_set_parallel", "forward", "vjp"] + ["%s%s" % (n, w) for w in ("input", "param", "result", "gradient") for n in ("", "n_")]
CALLS = [c + "s" if c.startswith("n_") else c for c in CALLS]
BATCH = 20  # programs of one shared object
PARALLEL_FOR = C.CFUNCTYPE(None, C.c_void_p, C.c_int64, C.CFUNCTYPE(None, C.c_void_p, C.c_int64), C.c_void_p)


class Way:
    """How a program is built."""

    def __init__(self, dtype, cpu, without, machine=None, quick=False):
        self.dtype, self.cpu, self.without, self.machine, self.quick = dtype, cpu, without, machine, quick

    def __str__(self):
        machine = "" if not self.machine else " --machine=" + (self.machine if "\n" not in self.machine else "{%s}" % "; ".join(self.machine.splitlines()))
        without = " --disable=" + ",".join(self.without) if self.without else ""
        return "--dtype=%s --cpu=%s%s%s%s" % (self.dtype, self.cpu, without, machine, " --quick" if self.quick else "")

    @staticmethod
    def drawn(seed, quick):
        """quick: the share of builds without LLVM's optimiser, half of a build, which changes no bit."""
        rng = random.Random(seed * 31 + 7)
        kinds = levels.allowed()
        without = rng.choice([[], [], [], [], PASSES, [rng.choice(PASSES)], rng.sample(PASSES, 3)])
        return Way(rng.choice(["f64", "f32"]), rng.choice(["native"] * 3 + kinds), sorted(without, key=PASSES.index), machine.drawn(seed), rng.random() < quick)

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

class Said:
    """What torch says of a program: results, cotangents, gradients by input, and every value by name."""

    def __init__(self, p, items, g, given, seed, dtype, drawn=None):
        """drawn: what the other side drew, by value."""
        ns = p.names(g, dtype)
        for v, x in given.items():
            ns[v.name] = x.detach().to(dtype).requires_grad_(True) if v.kind == "float" else x
        oracle.Watch.clear()
        self.among = []  # after each value
        for v in items:
            if getattr(v, "random", None):
                ns[v.name] = drawn[v].to(dtype)
            elif v.py:
                ns[v.name] = eval(v.py.format(*[a.name for a in v.args]), ns)
            self.among.append(oracle.Watch.among)
        self.least, self.ties, self.ns = oracle.Watch.least, oracle.Watch.ties, ns
        full = [ns[v.name].permute([v.code().index(c) for c in ("r" if v.space else "") + "".join(o)]) if v.code() else ns[v.name]
                for v, o in zip(p.results, p.orders)]
        rng = torch.Generator().manual_seed(seed + 1)
        self.cots = [torch.randn(r.shape, generator=rng, dtype=torch.float64).to(dtype) for r in full]
        self.results = [r.detach() for r in full]
        total = sum((r * c).sum() for r, c in zip(full, self.cots))
        floats = [v for v in given if v.kind == "float"]
        grads = torch.autograd.grad(total, [ns[v.name] for v in floats], allow_unused=True) if total.requires_grad else [None] * len(floats)
        self.grads = {v: torch.zeros_like(ns[v.name]) if d is None else d for v, d in zip(floats, grads)}

    def arrays(self):
        return [*self.results, *self.grads.values()]

    def all(self, test, values):
        return all(bool(test(self.ns[v.name].detach()).all()) for v in values if isinstance(v, draw.Value) and v.kind == "float")


def data_of(p, items, seed, kind):
    """A graph and a tensor for each input, of this seed."""
    g = p.data(random.Random(seed), kind)
    ns = p.names(g, torch.float64)
    return g, {v: p.input_data(v, seed, ns).detach() for v in items if getattr(v, "source", None)}


def sizes(p):
    """Those of the dims that its text names."""
    return [(d, n) for d, n in p.sizes.items() if re.search(r"\b%s\b" % d, p.text())]


def write(seeds, kind, folder):
    """A file of each program, behind a line of its sizes, for `test_programs targets`."""
    for p in map(kind, seeds):
        if p.results and not p.refusable():
            with open(os.path.join(folder, "%d.gnn" % p.seed), "w") as f:
                f.write("# %s\n%s" % (" ".join("%s=%d" % size for size in sizes(p)), p.text()))


def limit():
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    most = LIMIT_S + 1 if hard == resource.RLIM_INFINITY else min(hard, LIMIT_S + 1)
    resource.setrlimit(resource.RLIMIT_CPU, (min(LIMIT_S, most), most))


def build(gnnc, p, way, out):
    """An object whose tables are called as the file `out` is, or None where the program is to be refused, and is."""
    with open(out + ".gnn", "w") as f:
        f.write(p.text())
    argv = [gnnc, "build", out + ".gnn", *["--set=%s=%d" % size for size in sizes(p)], "--dtype=" + way.dtype, "--cpu=" + way.cpu, "--emit=obj", "--prefix=" + os.path.basename(out), "-o", out + ".o"]
    argv += (["--disable=" + ",".join(way.without)] if way.without else []) + (["--mode=train"] if p.train else []) + (["--quick"] if way.quick else [])
    if way.machine and "\n" in way.machine:
        with open(out + ".machine", "w") as f:
            f.write(way.machine)
    if way.machine:
        argv.append("--machine=" + (out + ".machine" if "\n" in way.machine else way.machine))
    try:
        r = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=10 * LIMIT_S, preexec_fn=limit)
    except subprocess.TimeoutExpired:
        raise Wrong("the build does not end")
    if p.refusable() and r.returncode == 1:
        return None
    if p.refusable():
        raise Wrong("the build ends with %d where a step holds a reduction, which it does not see" % r.returncode)
    if r.returncode == 1:
        raise Refused(r.stdout.decode("utf-8", "replace")[-600:])
    if r.returncode:
        raise Wrong("the build ends with %d: %s" % (r.returncode, r.stdout.decode("utf-8", "replace")[-600:]))
    return out + ".o"


def link(gnnc, objects, out):
    """One shared object of many programs and what they call of the runtime."""
    wanted = ["-Wl,-u,gnnrt_" + name for name in CALLS]
    subprocess.run(["cc", "-shared", "-s", "-o", out, *objects, *wanted, os.path.join(os.path.dirname(gnnc), "libgnnrt.a"), "-lz", "-lm", "-lpthread", "-ldl"],
                   check=True)


class Loaded(library.Library):
    """One program of a shared object."""

    def __init__(self, path, name, dtype):
        super().__init__(path, name, extreme.NUMPY[dtype])

    def function(self, name):
        return getattr(self.lib, self.prefix + "_tables" if name == "tables" else "gnnrt_" + name)

    def on(self, described, params):
        self.on_graph(*described)
        self.bind(params)
        self.function("context_set_random").restype = None
        self.function("context_set_random")(self.context, C.c_int64(RANDOM[0]), C.c_int64(RANDOM[1]))

    def bind(self, params):
        self.kept = [np.array(params[i.name.decode()], self.float_type, order="C") for i in self.params]
        for k, a in enumerate(self.kept):
            self.call("context_bind_param", self.context, C.c_int32(k), library.address(a))

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

def off(name, found, wanted, rough, dtype, infinite=False):
    """Why `found` is not `wanted` where that is finite (infinite: or where it is that), or None; rough: wanted in single precision, whose distance says how well it can be
    known."""
    found, wanted, rough = np.asarray(found, np.float64).reshape(-1), wanted.double().numpy().reshape(-1), rough.double().numpy().reshape(-1)
    if found.shape != wanted.shape:
        return "%s has %d elements, wanted %d" % (name, found.size, wanted.size)
    finite = np.isfinite(wanted)
    size = np.abs(wanted[finite]).max(initial=0)
    if dtype == "f64":
        most = 1e-8 * (1 + size)
    else:
        most = 1e-4 * (1 + size) + 50 * np.abs(rough[finite] - wanted[finite]).max(initial=0)
    with np.errstate(invalid="ignore"):
        gap = np.abs(found - wanted)
        bad = finite & ~(gap <= most) | infinite & np.isinf(wanted) & (found != wanted)
    if not bad.any():
        return None
    at = int(np.argmax(np.where(bad, np.where(np.isnan(gap), np.inf, gap), -1)))
    return "%s: %d of %d elements differ; element %d is %.9g, torch says %.9g" % (name, bad.sum(), bad.size, at, found[at], wanted[at])


def must_agree(why):
    if why:
        raise Wrong(why)


def stored_name(v):
    return getattr(v, "stored", v.name)


class Run:
    """A program on one graph, with data that change."""

    def __init__(self, p, items, lib, way, seed, kind):
        self.p, self.items, self.lib, self.way, self.seed = p, items, lib, way, seed
        self.dtype = {"f32": torch.float32, "f64": torch.float64}[way.dtype]
        self.g, self.given = data_of(p, items, seed, kind)
        self.drawn = {}
        lib.on(p.described(self.g), self.params(self.given))

    @staticmethod
    def params(given):
        return {stored_name(v): a.numpy() for v, a in given.items() if v.source == "param"}

    def torch(self, given, dtype):
        return Said(self.p, self.items, self.g, given, self.seed, dtype, self.drawn)

    def rough(self, said):
        """Results and gradients that are as far from these as single precision is, here or on data that are off by little."""
        out = [x.double().clone() for x in said.arrays()]
        for k in range(4):
            data = extreme.nudged(self.given, self.way.dtype, k) if k else self.given
            fine = self.torch(data, torch.float64) if k else said
            gaps = [(a.double() - b.double()).abs() for a, b in zip(self.torch(data, torch.float32).arrays(), fine.arrays())]
            out = [torch.where(~((o - s).abs() >= gap), s + gap, o) for o, s, gap in zip(out, said.arrays(), gaps)]
        return out

    def run_library(self, given, cots=None):
        """Results, and gradients by input if there are cotangents."""
        inputs = {v.name: a.numpy() for v, a in given.items() if v.source == "input"}
        if cots is None:
            return self.lib.forward(inputs)
        found = self.lib.vjp(inputs, [c.numpy() for c in cots])
        return {v: found["grad." + stored_name(v)] for v in given if v.kind == "float"}

    def plain(self, moved=False):
        out = self.run_library(self.given)
        for v, o in zip(self.p.results, out):
            if v.random:
                self.drawn[v] = torch.as_tensor(o.reshape([self.p.rows(v.space, self.p.names(self.g, self.dtype))] + [self.p.sizes[d] for d in v.dims]))
        said = self.torch(self.given, torch.float64)
        if said.least < draw.NEAREST or not (self.p.poles and said.all(lambda x: x == x, self.items) or all(bool(torch.isfinite(x).all()) for x in said.arrays())):
            raise Skipped()
        found = self.run_library(self.given, said.cots)
        names = ["result %d (%s)" % (k, v.name) for k, v in enumerate(self.p.results)] + ["grad." + stored_name(v) for v in said.grads]
        ours = [*out, *[found[v] for v in said.grads]]
        rough = self.rough(said) if self.way.dtype == "f32" else said.arrays()
        if any(bool((torch.isfinite(a) & ~torch.isfinite(b)).any()) for a, b in zip(said.arrays(), rough)):
            raise Skipped()
        for k, (name, o, r, w) in enumerate(zip(names, ours, said.arrays(), rough)):
            why = off(name, o, r, w, self.way.dtype, k < len(out))
            if why and not moved and self.ties_of_rounding(said):
                self.given = extreme.moved(self.given, 0.05)
                self.lib.bind(self.params(self.given))
                return self.plain(moved=True)
            must_agree(why)
        self.lib.lend(3)
        again, found_again = self.run_library(self.given), self.run_library(self.given, said.cots)
        if any(a.tobytes() != b.tobytes() for a, b in zip(out, again)) or any(found[v].tobytes() != found_again[v].tobytes() for v in found):
            raise Wrong("three threads give other bits than one")

    def ties_of_rounding(self, said):
        """Are elements of a row, or along a dim, equal only because torch rounds so, as sums of other numbers are?"""
        return bool((np.diff(self.torch(extreme.moved(self.given, 1e-5), torch.float64).among) < np.diff(said.among)).any())

    def scaled(self, size):
        """All values with rows denormal, or so large that products overflow. Of gradients, which are sums of what cancels, nothing is promised."""
        dtype, exponent = self.way.dtype, extreme.EXPONENTS[self.way.dtype][size]
        data, base = extreme.scaled(self.given, self.dtype, exponent)
        one, there = self.torch(base, self.dtype), self.torch(data, self.dtype)
        near_tie = there.least < draw.NEAREST * min(1, 2.0**exponent) or 2.0**-90 < there.least < draw.NEAREST
        if one.least < draw.NEAREST or there.ties != one.ties or near_tie:
            return
        less = self.torch({v: x * 2.0**-20 if v.kind == "float" and v.space else x for v, x in base.items()}, self.dtype)
        near = self.torch(extreme.nudged(data, dtype, self.seed), self.dtype)
        fine = self.torch(data, torch.float64)
        for k, (v, o) in enumerate(zip(self.p.results, self.run_library(data))):
            said, parts = [s.results[k] for s in (one, less, there, near, fine)], draw.ancestors([v])
            unsaid = not there.all(torch.isfinite, parts)
            if self.way.machine and not unsaid and not extreme.power(said[0], said[1]):
                # another machine may have another form, a product taken apart say: what cancels there loses the digits
                # of its parts
                most = extreme.TOLERANCE[dtype] * (1 + float(said[2].abs().max())) / float(np.finfo(extreme.NUMPY[dtype]).eps) if said[2].numel() else 0
                unsaid = not there.all(lambda x: x.abs() <= most, parts)
            must_agree(extreme.off("%s data: result %d (%s)" % (size, k, v.name), o, extreme.wanted_scaled(said, dtype, exponent, unsaid)))

    def spots(self):
        """Infinite and NaN numbers in one component of the graph."""
        rng = random.Random(self.seed + 11)
        rows = extreme.component(*self.p.topology(self.g), rng)
        if rows is None:
            return
        data, spots = extreme.put_spots(self.given, rows, rng)
        reach = extreme.Reach(spots)
        said = self.torch(data, torch.float64)
        rough = self.torch(data, torch.float32) if self.way.dtype == "f32" else said
        out, found = self.run_library(data), self.run_library(data, said.cots)

        def compare(name, space, dirty, got, want, loose):
            clean = ~rows[space] if dirty else torch.ones(want.shape[:1] if space else (), dtype=torch.bool)
            got, want, loose = np.asarray(got, np.float64).reshape(want.shape)[clean.numpy()], want[clean], loose[clean]
            if bool(torch.isfinite(loose).all()):
                must_agree(off("spots in %s: %s" % (", ".join(v.name for v in spots), name), got, want, loose, self.way.dtype))
        for k, v in enumerate(self.p.results):
            dirty, wide = reach.of(v)
            if not wide:
                compare("result %d (%s)" % (k, v.name), v.space, dirty, out[k], said.results[k], rough.results[k])
        if not reach.gradients_wide(self.items):
            for v in found:
                if v.space in rows:
                    compare("grad." + stored_name(v), v.space, True, found[v], said.grads[v].detach(), rough.grads[v].detach())


def check(p, way, path, name):
    """Raises Wrong for the first difference."""
    items = draw.items(p)
    lib = Loaded(path, name, way.dtype)
    rng = random.Random(p.seed + 5)
    for seed, kind in [(p.data_seed, p.kind), (p.data_seed + 1, rng.choice(p.data_kinds()))]:
        try:
            run = Run(p, items, lib, way, seed, kind)
            try:
                run.plain()
                if not p.poles and not run.drawn:
                    run.spots()
                    run.scaled(rng.choice(["tiny", "huge"]))
            finally:
                lib.free()
        except Skipped:
            pass
        except library.Failed as e:
            raise Wrong("a call fails: %s" % e)
    lib.function("model_free")(lib.model)


class Program:
    """One drawn program, built in one way."""

    def __init__(self, p, way, name):
        self.p, self.way, self.name, self.state, self.said = p, way, name, "ok", ""

    def attempt(self, step, *args):
        try:
            return step(*args)
        except (Refused, Wrong) as e:
            self.state, self.said = "refused" if isinstance(e, Refused) else "wrong", "%s: %s" % (self.way, e)


def some(job):
    """(seed, state, text) of each of these seeds."""
    seeds, gnnc, every, box, steps, kind = job
    torch.set_num_threads(1)
    drawn = [kind(seed, *steps) for seed in seeds]
    todo = [Program(p, way, "p%d_%d" % (p.seed, k)) for p in drawn if p.results for k, way in enumerate(Way.every() if every else [Way.drawn(p.seed, p.quick)])]
    shared, objects = os.path.join(box, "b%d.so" % seeds[0]), []  # a name of its own: the loader keeps what it has loaded
    for t in todo:
        t.object = t.attempt(build, gnnc, t.p, t.way, os.path.join(box, t.name))
        objects += [t.object] if t.object else []
    if objects:
        link(gnnc, objects, shared)
    for t in todo:
        if t.object:
            t.attempt(check, t.p, t.way, shared, t.name)
    for f in os.listdir(box):
        if f == os.path.basename(shared) or f.split(".")[0] in {t.name for t in todo}:
            os.remove(os.path.join(box, f))
    out = []
    for p in drawn:
        mine = [t for t in todo if t.p is p]
        state = next((s for s in ("refused", "wrong") if s in [t.state for t in mine]), "ok" if mine else "empty")
        said = "\n".join(t.said for t in mine if t.said)
        out.append((p.seed, state, said and "%s\n%s\n%s\n# %s" % (said, p.text(), p.torch_text(), p.sizes)))
    return out


def campaign(gnnc, seeds, jobs, every=False, steps=(), kind=draw.Draw):
    """Yields (seed, state, text) of each program."""
    n = 1 if every else BATCH
    with tempfile.TemporaryDirectory(prefix="gnnc-drawn-") as box:
        todo = [(seeds[i:i + n], gnnc, every, box, steps, kind) for i in range(0, len(seeds), n)]
        if jobs == 1:
            for job in todo:
                yield from some(job)
            return
        with multiprocessing.Pool(jobs, maxtasksperchild=10) as pool:
            for said in pool.imap(some, todo):
                yield from said


def main():
    a = argparse.ArgumentParser(description=__doc__)
    a.add_argument("--from", dest="first", type=int, default=0)
    a.add_argument("--count", type=int, default=100)
    a.add_argument("--build", default=os.path.join(HERE, "..", "..", "build"))
    a.add_argument("--jobs", type=int, default=1)
    a.add_argument("--all", action="store_true")
    a.add_argument("--show", action="store_true")
    a.add_argument("--typed", action="store_true")
    a.add_argument("--write")
    opt = a.parse_args()
    kind = draw_typed.Typed if opt.typed else draw.Draw
    if opt.write:
        return write(range(opt.first, opt.first + opt.count), kind, opt.write)
    if opt.show:
        p = kind(opt.first)
        print(p.text() + "\n" + p.torch_text() + "\n# %s %s %s" % (p.sizes, p.kind, Way.drawn(opt.first, p.quick)))
        return
    counts = {"ok": 0, "wrong": 0, "refused": 0, "empty": 0}
    for seed, state, text in campaign(os.path.join(os.path.abspath(opt.build), "gnnc"), range(opt.first, opt.first + opt.count), opt.jobs, opt.all, kind=kind):
        counts[state] += 1
        if text:
            print("seed %d: %s: %s\n" % (seed, state, text), flush=True)
    print("%d programs, %d wrong, %d refused" % (sum(counts.values()), counts["wrong"], counts["refused"]))
    sys.exit(1 if counts["wrong"] or counts["refused"] else 0)


if __name__ == "__main__":
    main()
