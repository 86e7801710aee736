#!/usr/bin/env python3
"""Schedules as text: what the compiler prints builds the same program again, a text that is edited and legal computes the same bits, and one
that is not legal is refused with its line. usage: test_schedule.py BUILD [EDITS]     EDITS: so many edited texts of each layer

The edits are drawn: numbers of tiles, values stored that were not and the other way round, kernels split and joined, copies, another order.
Graphs have no row of more than 256 edges: what rescales with a maximum in one walk has the bits of two walks only there."""
import functools
import os
import random
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [os.path.join(HERE, "golden"), os.path.join(HERE, "drawn")]
import library  # noqa: E402
import machine  # noqa: E402
import numpy as np  # noqa: E402
from schedules import Text, corrected, edit  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
MODELS = os.path.join(os.path.dirname(HERE), "bench", "models")
LONG = "GNNC_LONG" in os.environ
EDITS = int(sys.argv[2]) if len(sys.argv) > 2 else 12 if LONG else 2
SIZES = {"F": 24, "O": 20, "C": 7, "W": 16, "K": 3, "P": 3, "R": 4, "M": 16, "H": 8}
EDITED = ["gat", "gatv2", "transformer", "gcn", "pna", "custom", "edgeconv", "gen", "egc", "rgcn"]
STEPS = 4  # edits of one text


@functools.lru_cache(maxsize=None)
def sizes(model):
    """Of the dims that the compiler misses."""
    r = subprocess.run([os.path.join(BUILD, "gnnc"), "ir", os.path.join(MODELS, model + ".gnn")], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                       universal_newlines=True)
    missing = re.search(r"no size yet: (.*)", r.stderr)
    return ["--set=%s=%d" % (d, SIZES[d]) for d in re.findall(r"`(\w+)`", missing.group(1))] if missing else []


def gnnc(box, model, out, *more):
    return subprocess.run([os.path.join(BUILD, "gnnc"), "build", os.path.join(MODELS, model + ".gnn"), *sizes(model), "--cpu=native", "--prefix=net",
                           "-o", os.path.join(box, out), *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)


def read(box, name):
    with open(os.path.join(box, name), encoding="utf-8") as f:
        return f.read()


def written(box, name, text):
    with open(os.path.join(box, name), "w", encoding="utf-8") as f:
        f.write(text)
    return os.path.join(box, name)


def write(box, name, text):
    return "--schedule=" + written(box, name, text)


# ---- what the compiler prints ----

def round_trip(box, model, *more):
    forms = "--emit=schedule,plan,kir,c"
    first = gnnc(box, model, "a", forms, *more)
    again = gnnc(box, model, "b", forms, "--schedule=" + os.path.join(box, "a.schedule"), *more)
    if first.returncode or again.returncode:
        return (first.stdout + again.stdout)[-400:]
    return next(("%s differs" % s for s in ("schedule", "plan", "kir", "c") if read(box, "a." + s) != read(box, "b." + s)), None)


# ---- edited texts ----

def build_edited(box, model, text, out):
    """(library, built quickly, text, None), or (None, text, what the compiler says)."""
    for _ in range(6):
        r = gnnc(box, model, out, "--emit=lib", "--quick", write(box, "edited.schedule", text))
        if r.returncode == 0:
            return os.path.join(box, out + ".so"), text, None
        fixed = corrected(text, r.stdout)
        if not fixed:
            return None, text, "%d: %s" % (r.returncode, r.stdout)
        text = fixed
    return None, text, "3: no end"


def data_of(seed):
    """Ends of edges: empty rows, a hub, parallel edges and loops."""
    rng = np.random.RandomState(seed)
    n = 90
    src, dst = rng.randint(0, n, 400), rng.randint(0, n - 20, 400)
    dst[:150], src[150:200], dst[200:204] = 3, 5, src[200:204]
    return n, np.append(src, src[:5]), np.append(dst, dst[:5])


class Numbers:
    """Results and gradients of one library, as bytes."""

    def __init__(self, path):
        lib = library.Library(path, "net", np.float32)
        n, src, dst = data_of(1)
        lib.on_graph(n, n, src, dst, 1, None)
        rng = np.random.RandomState(2)
        draw = lambda i: rng.randint(0, 3, lib.shape(i)).astype(library.DTYPES[i.dtype]) if i.dtype in (2, 3) else rng.randn(*lib.shape(i))
        inputs = {i.name.decode(): draw(i) for i in lib.inputs}
        cots = [rng.randn(*lib.shape(r)) for r in lib.results]
        grads = lib.vjp(inputs, cots)
        self.bytes = [o.tobytes() for o in lib.forward(inputs)] + [grads[k].tobytes() for k in sorted(grads)]
        lib.close()


def edits_of(box, model):
    """Yields (text, why it is wrong or None) of texts that the compiler takes."""
    rng = random.Random(model)
    first = gnnc(box, model, "first", "--emit=schedule,lib")
    if first.returncode:
        yield "", first.stdout
        return
    plain, want = read(box, "first.schedule"), Numbers(os.path.join(box, "first.so")).bytes
    taken = tries = 0
    while taken < EDITS and tries < 40 * EDITS:
        text = plain
        for _ in range(rng.randint(1, STEPS)):
            t = Text(text)
            if not edit(rng, t):
                continue
            tries += 1
            path, fixed, why = build_edited(box, model, str(t), "edited%d" % tries)
            if why and not why.startswith("3"):
                yield str(t), why
            if path:
                text = fixed
        if text == plain:
            continue
        taken += 1
        path, _, _ = build_edited(box, model, text, "taken%d" % taken)
        same = Numbers(path).bytes == want
        yield text, None if same else "other bits"


# ---- texts that are not legal ----

WRONG = [  # (replace this, by that, exit status, what is said): of the text of gcn
    ("schedule 1", "schedule 2", 2, "wanted a whole number from 1 to 1"),
    (r"\Z", "and so on", 2, "wanted a function, a group, a value or a number of its tile, found `and`"),
    (r"func forward values \d+", "func forward", 2, "wanted `values` and their number"),
    (r"(  group .*\n)(?:    .*\n)+", r"\1", 2, "wanted a root of group"),
    (r"root %(\d+)", r"root \1", 2, "wanted a value, as %7"),
    (r"vectors \d+", "vectors 99", 2, "wanted a whole number from 1 to 32, found `99`"),
    (r"vectors \d+", "vectors", 2, "wanted a whole number from 1 to 32"),
    (r"group (\d+) \w+", r"group \1 loop", 2, "wanted one of: map, rows, dims"),
    (r"values (\d+)", "values 3", 3, "values here, found 3"),
    (r"filled \d+", "filled 4", 2, "wanted a whole number from 8 to 4096, found `4`"),
    (r"func vjp", "func other", 3, "the program has no function `other`"),
    (r"func vjp(?s:.*)", "", 3, "the schedule has no function `vjp`"),
    (r"func vjp", "func forward", 2, "wanted a function that was not told yet"),
    (r"root %\d+ \w+", "root %99999 mul", 3, "has no value %99999"),
    (r"root (%\d+) \w+", r"root \1 tanh", 3, "found `tanh`"),
    (r"group (\d+) rows", r"group \1 map", 3, "is of the kind `rows`, found `map`"),
    (r"(    root %\d+ \w+).*\n", r"\1\n\1\n", 3, "is a root or an inner value of two groups"),
    (r"(func forward values .*\n  filled .*\n)", "\\1  sums edge.src\n", 3, "no sums over all edges that could be taken by the rows of `edge.src`"),
    (r"(func forward values .*\n  filled .*\n)", "\\1  clones map\n", 3, "no values of edges that several walks want"),
    (r"(  group \d+ rows.*?) grain", r"\1 block 4 grain", 3, "`block 4` says nothing about a kernel of this kind"),
    (r"(  group \d+ product.*?) rows \d+", r"\1 rows 1", 3, "`rows 1` is too few"),
    (r"(  group \d+ product.*?) grain", r"\1 stream 64 grain", 3, "`stream 64` says nothing about a kernel of this kind"),
    (r"merged \d+", "merged 6", 3, "`merged 6` is no power of two"),
    (r"warps 1", "warps 65", 2, "wanted a whole number from 1 to 64, found `65`"),
    (r"(  group \d+ rows.*?) split", r"\1 warps 2 split", 3, "`warps 2` says nothing about a kernel of this kind"),
    (r"warps 1(\b.*\n(?:    .*\n)*?    .*copied) \d", r"warps 2\1 1", 3, "`copied 1` is not possible: the warps of a block share a leaf"),
    (r"neighbours 1", "neighbours 12", 3, "`neighbours 12` is no power of two"),
    (r"mergers 1", "mergers 12", 3, "`mergers 12` is no power of two"),
    (r"blocks \d+(.*) mergers 1", r"blocks 16385\1 mergers 2", 3, "the tiles of this kernel take more than private arrays hold"),
    (r"line \d+", "line 48", 3, "`line 48` is no power of two"),
    (r"second \d+", "second 0", 2, "wanted a whole number from 1 to"),
    (r"split \d", "split 2", 2, "wanted a whole number from 0 to 1, found `2`"),
    (r"(  group \d+ rows.*?) split", r"\1 folded 0 split", 3, "`folded 0` says nothing about a kernel of this kind"),
    (r"(  group \d+ rows.*?) split", r"\1 parted 1 split", 3, "`parted 1` says nothing about a kernel of this kind"),
]


def passes_off(box):
    """A pass on kernel IR that is off is one that the text gives no work, and leaves other kernels than one that has some."""
    for word, more in (("ahead", "prefetch"), ("woven", "weave")):
        gnnc(box, "gat", "on", "--emit=schedule,kir")
        idle = re.sub(r"\b%s \d+" % word, word + " 0", read(box, "on.schedule"))
        idle = re.sub(r"(group \d+ product .*) ahead 0", r"\1 ahead 2", idle)  # whose rows lower asks for
        gnnc(box, "gat", "idle", "--emit=kir", write(box, "idle.schedule", idle))
        gnnc(box, "gat", "off", "--emit=kir", "--disable=" + more)
        fits = read(box, "idle.kir") == read(box, "off.kir") != read(box, "on.kir")
        print("%s schedule.without_%s" % ("ok" if fits else "FAIL", more))


def same_kernels_elsewhere(box):
    """A text has the same kernels on every machine that gives the program the same form, but for the order in which `weave` puts operations."""
    other = written(box, "other.machine", machine.numbers(random.Random(14)))
    values = lambda text: re.findall(r"^    .*(#.*)", text, re.M)  # their types and operands
    taken = 0
    for model in EDITED:
        for here, there, more in (("avx512-2", "avx2-2", ()), ("avx2-2", "server-64", ()), ("avx512-2", other, ("--disable=weave",))):
            gnnc(box, model, "here", "--emit=schedule,kir", "--machine=" + here, *more)
            text = "--schedule=" + os.path.join(box, "here.schedule")
            r = gnnc(box, model, "there", "--emit=schedule,kir", "--machine=" + there, text, *more)
            if (r.returncode == 3 and "E0506" in r.stdout) or (not r.returncode and values(read(box, "here.schedule")) != values(read(box, "there.schedule"))):
                continue  # another form
            taken += 1
            plain = lambda name: re.sub(r"  group \d+", "  group", read(box, name))  # a label is a name
            same = not r.returncode and all(plain("here." + s) == plain("there." + s) for s in ("schedule", "kir"))
            if not same:
                print("FAIL schedule.elsewhere_%s: from %s to %s: %s" % (model, here, there, r.stdout[-300:]))
    print("ok schedule.elsewhere: %d" % taken if taken >= 20 else "FAIL schedule.elsewhere: only %d texts were taken" % taken)


def mangled_texts(box):
    """Words dropped, doubled, exchanged: the compiler takes the text or says what is wrong with it."""
    gnnc(box, "gat", "m", "--emit=schedule")
    plain, odd = read(box, "m.schedule").split(" "), {}
    for seed in range(400 if LONG else 60):
        rng, words = random.Random(seed), list(plain)
        for _ in range(rng.randint(1, 3)):
            i, k = rng.randrange(len(words)), rng.randrange(len(words))
            how = rng.randrange(4)
            if how == 0:
                words[i] = rng.choice(["group", "root", "copy", "func", "narrow", "rows", "staged", "%3", "%99999", "-1", "0", "7", "9" * 30, "#"])
            elif how == 1:
                words[i], words[k] = words[k], words[i]
            else:
                words[i:i + rng.randint(1, 12)] = words[k:k + rng.randint(1, 30)] if how == 2 else []
        r = gnnc(box, "gat", "mangled", "--emit=kir", write(box, "mangled.schedule", " ".join(words)))
        if r.returncode not in (0, 2, 3):
            odd[seed] = "%d: %s" % (r.returncode, r.stdout[-200:])
    print("FAIL schedule.mangled: %s" % odd if odd else "ok schedule.mangled")


def joined(box):
    """What has nothing in common but its rows is two kernels; a text may have it in one."""
    model = written(box, "two.gnn", "model net(x: node[F], y: node[F]) -> (node[F], node[F]) { return sum_in(x.src), sum_in(y.src) }\n")
    build = lambda out, *more: subprocess.run([os.path.join(BUILD, "gnnc"), "build", model, "--set", "F=8", "-o", os.path.join(box, out), *more],
                                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    build("two", "--emit=schedule")
    t = Text(read(box, "two.schedule"))
    groups = t.funcs[0][1]
    groups[0][1] += groups.pop(1)[1]
    r = build("one", "--emit=plan", write(box, "one.schedule", str(t)))
    steps = 0 if r.returncode else read(box, "one.plan").split("program vjp")[0].count("  step ")
    print("ok schedule.joined" if steps == 1 else "FAIL schedule.joined: %d steps of forward: %d: %s" % (steps, r.returncode, r.stdout[-300:]))


def wrong_texts(box):
    plain = (gnnc(box, "gcn", "w", "--emit=schedule"), read(box, "w.schedule"))[1]
    for k, (old, new, code, wanted) in enumerate(WRONG):
        text = re.sub(old, new, plain, count=1)
        r = gnnc(box, "gcn", "refused", "--emit=plan", write(box, "wrong.schedule", text))
        placed = re.search(r"wrong\.schedule:\d+:\d+: error\[E050[56]\]", r.stdout)
        fits = text != plain and r.returncode == code and placed and wanted in r.stdout and not os.path.exists(os.path.join(box, "refused.plan"))
        print("ok schedule.wrong_%d" % k if fits else "FAIL schedule.wrong_%d: %d, wanted %d and `%s`: %s" % (k, r.returncode, code, wanted, r.stdout[-300:].replace("\n", " | ")))
    r = gnnc(box, "gcn", "block", "--emit=kir", write(box, "block.schedule", plain.replace(" block 96", " block 48")))
    print("ok schedule.narrow" if "_narrow" in read(box, "block.kir") else "FAIL schedule.narrow: with other blocks of rows no kernel for few registers is left")
    two = (gnnc(box, "gat", "two", "--emit=schedule"), re.sub(r"(copy .*?vectors) \d+", r"\1 3", read(box, "two.schedule"), count=1))[1]
    r = gnnc(box, "gat", "copy", "--emit=schedule", write(box, "copy.given", two))
    taken, label = not r.returncode and read(box, "copy.schedule"), r"  group \d+"
    fits = taken and two != read(box, "two.schedule") and re.sub(label, "", taken) == re.sub(label, "", two)
    print("ok schedule.copy" if fits else "FAIL schedule.copy: a copy has no tile of its own: %d: %s" % (r.returncode, r.stdout[-300:]))
    swapped = Text(plain)
    swapped.funcs[0][1].reverse()
    r = gnnc(box, "gcn", "refused", "--emit=plan", write(box, "wrong.schedule", str(swapped)))
    print("ok schedule.wrong_order" if r.returncode == 3 and "cannot run at this place" in r.stdout else "FAIL schedule.wrong_order: %d: %s" % (r.returncode, r.stdout[-300:]))
    for more in ("--disable=fuse", "--disable=schedule"):
        r = gnnc(box, "gcn", "refused", "--emit=plan", write(box, "plain.schedule", plain), more)
        print("ok schedule.with_" + more if r.returncode == 1 and "give one of them" in r.stdout else "FAIL schedule.with_%s: %s" % (more, r.stdout))
    r = gnnc(box, "gcn", "plain", "--emit=schedule", write(box, "plain.schedule", plain))
    print("ok schedule.kept" if r.returncode == 1 and "E0620" in r.stdout else "FAIL schedule.kept: the text was written over: %s" % r.stdout)


def main():
    with tempfile.TemporaryDirectory(prefix="gnnc-schedule-") as box:
        for model in sorted(f[:-4] for f in os.listdir(MODELS)):
            for more in [(), ("--vjp=joint", "--mode=train"), ("--machine=server-64",), ("--machine=avx2-2", "--dtype=f64")] if LONG else [()]:
                why = round_trip(box, model, *more)
                print("FAIL schedule.round_trip_%s: %s" % (model, why) if why else "ok schedule.round_trip_%s" % model, flush=True)
        for k, model in enumerate(EDITED if LONG else EDITED[:6]):
            why = round_trip(box, model, "--machine=" + written(box, "drawn.machine", machine.numbers(random.Random(26 + k))))
            print("FAIL schedule.machine_%s: %s" % (model, why) if why else "ok schedule.machine_%s" % model, flush=True)
        joined(box)
        wrong_texts(box)
        passes_off(box)
        same_kernels_elsewhere(box)
        mangled_texts(box)
        for model in EDITED:
            n = 0
            for n, (text, why) in enumerate(edits_of(box, model), 1):
                if why:
                    print("FAIL schedule.edited_%s_%d: %s: %s" % (model, n, why, text.replace("\n", " | ")), flush=True)
            print("ok schedule.edited_%s: %d" % (model, n) if n else "FAIL schedule.edited_%s: no edited text was taken" % model, flush=True)


main()
