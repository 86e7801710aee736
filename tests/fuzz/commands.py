#!/usr/bin/env python3
"""Whole commands on folders, weights, checkpoints, models and IR that lie: the counts of one file are held against another's, and
whatever contradicts itself must end in a named error. Each command of gnnc and of built executables ends by itself with a documented exit
code, within seconds, in little memory, without a word from a sanitizer, and leaves nothing behind when it fails.

usage: commands.py BUILD [--sanitize] [--commands N] [--seed S] [--first I] [--jobs J] [--case I]

With a BUILD that was made with -DGNNC_SANITIZE=ON gnnc is sanitized. --sanitize makes sanitized executables with any BUILD, from C and the
runtime's sources, and runs each many times from one start (server.c); every eighth command then looks for leaks, too. Case I of seed S is always the same command on the same files; --case I runs it alone and
keeps its folder."""
import argparse
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

CPU_S, WALL_S, RSS_MB = 5, 60, 700  # the wall clock only catches what sleeps: other processes may hold the cores
NODES, EDGES, FEATURES, CLASSES, GRAPHS = 24, 60, 5, 3, 6
HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.dirname(os.path.dirname(HERE))
FLAGS = ["-std=gnu11", "-O0", "-g1", "-w", "-fno-omit-frame-pointer", "-ffp-contract=off", "-D_GNU_SOURCE", "-I" + SOURCES, "-fsanitize=address,undefined"]
SERVER = os.path.join(HERE, "server.c")
EXIT_CODES = {0, 1, 2, 3, 4, 5, 6, 75}

# ---- programs --------------------------------------------------------------------------------------------------------

TRAIN = """train net {
  loss = cross_entropy(net(data.x%s), data.%s) on data.train
  metric val_acc = accuracy(net(data.x%s), data.%s) on data.val
  hyper lr = 0.01
  optimizer adam(lr)
  epochs 3
%s}
"""
MODELS = {
    "nodes": "model net(x: node[F], edge_weight: edge, kind: node index[K]) -> node[C] {\n  param emb: [K, C] = normal(0, 1)\n"
             "  h = linear(O = C)\n  return h(dropout(x, 0.1)) + emb[kind] + sum_in(edge_weight * h(x).src)\n}\n"
             + TRAIN % (", data.edge_weight, data.kind", "y", ", data.edge_weight, data.kind", "y", ""),
    "stops": "model net(x: node[F]) -> node[C] {\n  a = gat(H = 2, D = 2)\n  return linear(flatten(a(x)), O = C)\n}\n"
             + TRAIN % ("", "y", "", "y", "  stop_early(val_acc, patience = 2)\n"),
    "graphs": "model net(x: node[F]) -> graph[C] {\n  h = sum_in(x.src) + over self_loops(g, add) { mean_in(x.src) }\n"
              "  return linear(cat(readout_sum(h), readout_max(x)), O = C)\n}\n"
              + TRAIN % ("", "graph_y", "", "graph_y", "  batch 2 of graphs\n"),
    "links": "model net(x: node[F]) -> node[C] = linear(mean_in(x.src), O = C)\n\ntrain net {\n  z = net(data.x)\n"
             "  loss = over data.val_index { mean_all(square(dot(z.src, z.dst, C) - data.val_value)) } +\n"
             "         over negatives(g) { mean_all(square(dot(z.src, z.dst, C))) }\n  optimizer sgd(0.01)\n  epochs 3\n}\n",
}
TESTED = """
test "a mean of equal messages is the message" {
  t = random_graph(nodes = 9, edges = 20, seed = 1)
  over self_loops(t, add) { assert close(mean_in(ones(edge[3])), 1) where indegree > 0 }
}
"""
SETS = {"links": ["--set", "C=3"], "nodes": ["--set", "K=4"]}


def sound(model, rng):
    """The arrays of a data set that the model trains on."""
    batch = np.sort(np.concatenate([np.arange(GRAPHS), rng.integers(0, GRAPHS, NODES - GRAPHS)]))
    src = rng.integers(0, NODES, EDGES)
    dst = np.array([rng.choice(np.flatnonzero(batch == batch[s])) for s in src]) if model == "graphs" else rng.integers(0, NODES, EDGES)
    x = rng.random((NODES, FEATURES)).astype("<f4")
    x[rng.random(x.shape) < 0.6] = 0
    arrays = {"edge_index": np.array([src, dst]), "x": x}
    rows, labels = (GRAPHS, "graph_y") if model == "graphs" else (NODES, "y")
    if model == "links":
        arrays["val_index"] = rng.integers(0, NODES, (2, 9))
        arrays["val_value"] = rng.random(9).astype("<f4")
        return arrays
    arrays[labels] = np.arange(rows) % CLASSES
    part = np.arange(rows) % 3
    for k, name in enumerate(("train", "val", "test")):
        arrays[name + "_mask"] = part == k
    arrays["fold"] = np.arange(rows) % 3
    if model == "graphs":
        arrays["batch"] = batch
    if model == "nodes":
        arrays["edge_weight"] = rng.random(EDGES).astype("<f4")
        arrays["kind"] = rng.integers(0, 4, NODES)
    return arrays


# ---- lies ------------------------------------------------------------------------------------------------------------

HUGE = [0, 1, 2, 3, NODES - 1, NODES, NODES + 1, EDGES, 255, 65536, 2**31 - 2, 2**31 - 1, 2**31, 2**32, 2**32 + 1, 2**53, 2305843009213693951, 2**61, 2**62,
        2**63 - 1, -1, -2, -2**31, -2**63]
DTYPES = ["<f4", "<f8", "<i4", "<i8", "<i2", "|b1", "|u1", "<u8", ">i8", ">f4", "<f2", "|O", "<U4", "|V8", ""]


class Folder:
    """A data set in the making: arrays, what is said of each in its header, meta.json, raw bytes of other files."""

    def __init__(self, arrays, rng, model):
        self.arrays, self.rng = dict(arrays), rng
        self.headers = {}  # stem: (descr, shape) that its header claims
        self.raw = {}      # file: bytes
        self.cut = {}      # stem: bytes to take away from, or to add to, its end
        self.meta = {"num_nodes": NODES, "num_edges": EDGES, "num_classes": CLASSES, "feature_dim": FEATURES, "num_graphs": GRAPHS if model == "graphs" else 1}
        self.archive = False

    def any(self):
        return self.rng.choice(sorted(self.arrays))

    def number(self):
        return self.rng.choice(HUGE) if self.rng.random() < 0.7 else self.rng.randint(-5, 3 * NODES)

    # what all files say together, wrongly or not

    def rows_of_all(self):
        """Every array of nodes, and meta.json, tell one other number of nodes; the edges were made for the old one."""
        n = self.rng.choice([0, 1, NODES // 2, NODES - 1, NODES + 1, 3 * NODES])
        for k, a in self.arrays.items():
            if len(a) == NODES and k != "edge_index":
                self.arrays[k] = np.resize(a, (n,) + a.shape[1:])
        self.meta["num_nodes"] = n

    def rows_of_one(self):
        k = self.any()
        a = self.arrays[k]
        self.arrays[k] = np.resize(a, (max(0, len(a) + self.rng.choice([-2, -1, 1, 2, 1000])),) + a.shape[1:])

    def width_of_one(self):
        k = self.any()
        self.arrays[k] = np.resize(self.arrays[k], (len(self.arrays[k]), self.rng.choice([0, 1, 2, FEATURES + 1])))

    def claimed_shape(self):
        k = self.any()
        a = self.arrays[k]
        shape = list(a.shape) or [1]
        shape[self.rng.randrange(len(shape))] = self.number()
        if self.rng.random() < 0.3:
            shape = self.rng.choice([[], [a.size], [a.size, 1], [1, a.size], [2**62, 4], [1] * 9, [self.number(), self.number()], [0, self.number()]])
        self.headers[k] = (a.dtype.str, shape)

    def claimed_dtype(self):
        k = self.any()
        self.headers[k] = (self.rng.choice(DTYPES), list(self.arrays[k].shape))

    def claim_with_meta(self):
        """A header and meta.json agree upon a count that no data stands behind."""
        n = self.number()
        a = self.arrays["x"]
        self.headers["x"] = (a.dtype.str, [n, a.shape[1]])
        self.meta["num_nodes"] = n

    def other_dtype(self):
        k = self.any()
        with np.errstate(all="ignore"):
            self.arrays[k] = self.arrays[k].astype(self.rng.choice(["<f4", "<f8", "<i4", "<i8", "|b1", "|u1", "<i2", ">f4"]))

    def one_value(self):
        k = self.any()
        a = self.arrays[k].copy()
        if a.size:
            values = self.arrays[k].dtype.kind
            v = self.rng.choice([float("nan"), float("inf"), 1e30, -1e-40]) if values == "f" else self.number()
            a.flat[self.rng.randrange(a.size)] = v if values == "f" else v % 2 if values == "b" else max(-2**31, min(v, 2**31 - 1)) if a.itemsize == 4 else \
                v % 128 if a.itemsize < 4 else v
        self.arrays[k] = a

    def raw_bools(self):
        self.headers["train_mask"] = ("|b1", [NODES])
        self.arrays["train_mask"] = np.frombuffer(self.rng.randbytes(NODES), dtype="|u1")

    def shuffled(self):
        k = self.any()
        self.arrays[k] = np.flip(self.arrays[k]).copy()

    def meta_number(self):
        k = self.rng.choice(["num_nodes", "num_edges", "num_classes", "num_graphs", "feature_dim", "num_src", "num_dst", "num_edge.loopss"])
        self.meta[k] = self.rng.choice([self.number(), self.number(), self.number(), 0.5, 1e308, -0.0, "60", None, True, [NODES], {"n": NODES}, 10**30])

    def meta_text(self):
        text = json.dumps(self.meta)
        self.raw["meta.json"] = self.rng.choice([
            text[:self.rng.randrange(len(text))], "[" * 5000, '{"a":' * 3000, text + "}", text.replace("num_nodes", "num_nodes\\u0000"), "", "null",
            '{"num_nodes": 3, "num_nodes": 2147483646}', text.replace(str(NODES), "1e400"), text.replace(str(NODES), "-0"), text.replace(str(NODES), "9" * 400),
        ]).encode()

    def missing(self):
        self.arrays.pop(self.any())
        if "x" not in self.arrays:
            self.arrays["z"] = np.zeros(3)

    def twice(self):
        """The same array in two forms, with other counts."""
        k = self.any()
        other = np.resize(self.arrays[k], (max(1, len(self.arrays[k]) + self.rng.choice([-1, 0, 7])),) + self.arrays[k].shape[1:])
        self.raw[k + ".npz"] = ("npz", {k: other})

    def cut_short(self):
        self.cut[self.any()] = self.rng.choice([-1, -4, -8, -100, -10**6, 1, 8, 5000])

    def noise(self):
        self.raw[self.any() + ".npy"] = self.rng.randbytes(self.rng.choice([0, 1, 10, 128, 500]))

    def sparse(self):
        """x as a CSR triplet whose parts lie to each other."""
        x = self.arrays.pop("x", None)
        if x is None or x.ndim != 2 or x.dtype.kind != "f":
            return
        r, c = np.nonzero(x)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(r, minlength=len(x)))])
        parts = {"indptr": indptr, "indices": c.copy(), "data": x[r, c]}
        for _ in range(self.rng.choice([0, 1, 1, 2])):
            k = self.rng.choice(sorted(parts))
            a = parts[k].copy()
            lie = self.rng.randrange(5)
            if lie == 0 and a.size:
                a[self.rng.randrange(a.size)] = self.number() if a.dtype.kind == "i" else float("nan")
            elif lie == 1:
                a = np.resize(a, max(0, a.size + self.rng.choice([-1, 1, 30])))
            elif lie == 2:
                a = a[::-1].copy()
            elif lie == 3 and k == "indptr":
                a = a * self.rng.choice([2, 2**40, -1])
            else:
                a = a.astype(self.rng.choice(["<i4", "<f4", "<f8", "<i8"]))
            parts[k] = a
        for k, a in parts.items():
            self.arrays["x_" + k] = a

    def edges_as_text(self):
        e = self.arrays.pop("edge_index", None)
        if e is None or e.ndim != 2 or len(e) != 2:
            return
        n = self.rng.choice([NODES, NODES, NODES - 1, 0, self.number()])
        count = self.rng.choice([e.shape[1], e.shape[1], e.shape[1] + 1, self.number()])
        lines = "".join("%d %d 0.5\n" % (a + 1, b + 1) for a, b in e.T)
        kind = self.rng.choice(["general", "symmetric"])
        if self.rng.random() < 0.6:
            self.raw["graph.mtx"] = ("%%%%MatrixMarket matrix coordinate real %s\n%d %d %d\n%s" % (kind, n, n, count, lines)).encode()
        else:
            self.raw["edges.tsv"] = (lines + "%d\t%d\t1\n" % (self.number(), self.number())).encode()

    def ends(self):
        """edge_index as two vectors of unequal lengths."""
        e = self.arrays.pop("edge_index", None)
        if e is not None and e.ndim == 2:
            self.arrays["src"] = e[0].copy()
            self.arrays["dst"] = np.resize(e[-1], max(0, e.shape[1] + self.rng.choice([-1, 0, 0, 1])))

    def as_archive(self):
        self.archive = True

    LIES = [rows_of_all, rows_of_one, width_of_one, claimed_shape, claimed_shape, claimed_dtype, claim_with_meta, other_dtype, one_value, one_value, raw_bools,
            shuffled, meta_number, meta_number, meta_text, missing, twice, cut_short, noise, sparse, sparse, edges_as_text, ends, as_archive]

    def npy(self, k):
        a = np.ascontiguousarray(self.arrays[k])
        descr, shape = self.headers.get(k, (a.dtype.str, list(a.shape)))
        text = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (descr, "".join("%d, " % n for n in shape))
        text += " " * (-(len(text) + 11) % 64) + "\n"
        whole = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + a.tobytes()
        more = self.cut.get(k, 0)
        return whole[:max(0, len(whole) + more)] + b"\0" * max(0, more)

    def write(self, path):
        """Returns what --data gets."""
        os.makedirs(path)
        files = {k + ".npy": self.npy(k) for k in self.arrays}
        if self.archive:
            name = os.path.join(path, self.rng.choice(["graph.npz", "all.npz"]))
            (np.savez_compressed if self.rng.random() < 0.5 else np.savez)(name, **self.arrays)
            if self.rng.random() < 0.6:
                with open(name, "rb") as f:
                    whole = bytearray(f.read())
                for _ in range(self.rng.randrange(1, 4)):
                    at = self.rng.randrange(len(whole)) if self.rng.random() < 0.5 else len(whole) - 1 - self.rng.randrange(min(len(whole), 300))
                    whole[at] = self.rng.choice([0, 255, 1, 127, 128, self.rng.randrange(256)])
                with open(name, "wb") as f:
                    f.write(whole)
            files = {}
        files.update({"meta.json": json.dumps(self.meta).encode()})
        for name, content in self.raw.items():
            if isinstance(content, tuple):
                np.savez(os.path.join(path, name), **content[1])
            else:
                files[name] = content
        for name, content in files.items():
            with open(os.path.join(path, name), "wb") as f:
                f.write(content)
        return os.path.join(path, "all.npz") if os.path.exists(os.path.join(path, "all.npz")) else path


def lying_weights(whole, rng):
    """A safetensors file, or a checkpoint, whose header says other things than its bytes, or than the model."""
    n = struct.unpack("<Q", whole[:8])[0]
    head, body = json.loads(whole[8:8 + n]), whole[8 + n:]
    names = [k for k in head if k != "__metadata__"]
    for _ in range(rng.choice([1, 1, 2])):
        k = rng.choice(names)
        t = head.get(k)
        lie = rng.randrange(12)
        if t is None or lie == 0:
            head.pop(k, None)
        elif lie == 1:
            t["shape"] = [rng.choice(HUGE) for _ in range(rng.choice([0, 1, 2, 3, 9]))]
        elif lie == 2:
            t["data_offsets"] = [rng.choice(HUGE), rng.choice(HUGE)]
        elif lie == 3:
            t["data_offsets"] = [o * 2 for o in t["data_offsets"]]
        elif lie == 4:
            t["dtype"] = rng.choice(["F32", "F64", "I64", "I32", "BOOL", "BF16", "", 4])
        elif lie == 5:
            t["shape"] = [s * 2 for s in t["shape"]]
            t["data_offsets"] = [t["data_offsets"][0], t["data_offsets"][0] + 2 * (t["data_offsets"][1] - t["data_offsets"][0])]
        elif lie == 6:
            head[k + "x"] = head.pop(k)
        elif lie == 7:
            body = body[:rng.randrange(len(body) + 1)]
        elif lie == 8:
            body = bytearray(body)
            at = rng.randrange(max(1, len(body) - 3))
            body[at:at + 4] = rng.choice([b"\0\0\xc0\x7f", b"\xff\xff\xff\xff", b"\0\0\x80\x7f", b"\1\0\0\0"])
            body = bytes(body)
        else:
            meta = head.setdefault("__metadata__", {})
            key = rng.choice(["epoch", "seed", "has_best", "best", "best_epoch", "since", "gnnc.checkpoint", "gnnc.model", "hyper.lr"])
            meta[key] = rng.choice(["%016x" % (rng.choice(HUGE) & 2**64 - 1), "%016x" % rng.randrange(12), "7ff8000000000000", "", "1", "x" * 16, "x" * 5000])
    text = json.dumps(head).encode()
    length = rng.choice([len(text)] * 8 + [0, 1, len(text) - 1, len(text) + 1, 2**31, 2**63, 2**64 - 1])
    return struct.pack("<Q", length & 2**64 - 1) + text + body


NUMBER, WORD = re.compile(r"-?\d+(\.\d+)?(e[-+]?\d+)?"), re.compile(r"[%@]?[A-Za-z_][\w.]*|%\d+|[^\w\s]")


def lying_text(text, rng):
    """A model or IR some of whose numbers, words or lines are others."""
    def somewhere(pattern):
        return pattern.search(text, rng.randrange(len(text) + 1)) or pattern.search(text)

    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        lie, lines = rng.randrange(10), text.split("\n")
        i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
        old, other = somewhere(NUMBER if lie < 4 else WORD), somewhere(WORD)
        if lie < 7 and old and other:
            new = str(rng.choice(HUGE + [0.5, "1e308", "inf", "nan"])) if lie < 4 and rng.random() < 0.6 else str(rng.randrange(9)) if lie < 4 else other.group()
            text = text[:old.start()] + new + text[old.end():]
        elif lie == 7:
            lines[i], lines[j] = lines[j], lines[i]
            text = "\n".join(lines)
        elif lie == 8:
            text = "\n".join(lines[:i] + rng.choice([[], [lines[j]], [lines[i], lines[i]]]) + lines[i + 1:])
        else:
            text = rng.choice([text[:rng.randrange(len(text) + 1)], text + text, text.replace(other.group() if other else "x", "x")])
    return text


# ---- commands --------------------------------------------------------------------------------------------------------


class Server:
    """A sanitized executable that was started once and runs each command in a fork of itself (server.c)."""

    def __init__(self, path):
        self.p = subprocess.Popen([path, str(RSS_MB << 10)], env=dict(ENV, ASAN_OPTIONS=ASAN + ":leak_check_at_exit=0"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, argv, here, leaks):
        words = b"".join(os.fsencode(w) + b"\0" for w in ["01"[leaks], here, *argv])
        self.p.stdin.write(struct.pack("<I", len(words)) + words)
        self.p.stdin.flush()
        status, kib = map(int, self.p.stdout.readline().split())
        said = []
        for end in (".out", ".err"):
            with open(here + end, "rb") as f:
                said.append(f.read().decode("utf-8", "replace"))
            os.remove(here + end)
        rc = os.waitstatus_to_exitcode(status)
        if kib > RSS_MB << 10:
            said[1] += "Sanitizer: %d KiB of memory" % kib
        return "hang" if rc == -signal.SIGALRM else rc, *said

    def close(self):
        self.p.stdin.close()
        self.p.wait()



class Ground:
    """What every case shares: the programs, their sources, sound weights and checkpoints. Read only after it was made."""

    def __init__(self, build, root, sanitize):
        self.gnnc, self.root = os.path.join(os.path.abspath(build), "gnnc"), root
        self.objects = self.sanitized_runtime() if sanitize else None
        self.sound, self.weights, self.checkpoint, self.texts = {}, {}, {}, []
        self.mine, self.servers = threading.local(), []
        for m, text in MODELS.items():
            with open(os.path.join(root, m + ".gnn"), "w") as f:
                f.write(text)
            self.sound[m] = sound(m, np.random.default_rng(5))
            data = Folder(self.sound[m], random.Random(1), m).write(os.path.join(root, "data_" + m))
            build = [self.gnnc, "build", m + ".gnn", "--data", data, *SETS.get(m, [])]
            if sanitize:
                self.must(*build, "--emit=c", "-o", self.path(m + ".c"))
                self.must("cc", *FLAGS, "-fwrapv", "-Dmain=program_main", "-c", m + ".c", "-o", m + ".o")
                self.must("cc", *FLAGS, m + ".o", SERVER, *self.objects, "-o", m, "-lz", "-lm", "-lpthread", "-ldl")
            else:
                self.must(*build, "--cpu=generic", "-o", self.path(m))
            rc, _, err = self.run([self.path(m), "train", "--data", data, "--save", m + ".st", "--checkpoint", m + ".ckpt", "--epochs", "2"], root)
            if rc:
                raise SystemExit("%s does not train: %s" % (m, err))
            sets = ["--data", data, *SETS.get(m, [])]
            self.texts += [(".gnn", text, sets), (".gnn", text + TESTED, sets), (".gir", self.must(self.gnnc, "ir", m + ".gnn", *sets), []),
                           (".gir", self.must(self.gnnc, "ir", m + ".gnn", *sets, "--run=simplify,autodiff,cse,sparse,dce"), [])]
            self.must(self.gnnc, "build", m + ".gnn", *sets, "--emit=kir", "-o", m + ".kir")
            with open(self.path(m + ".kir")) as f:
                self.texts.append((".kir", f.read(), []))
            for kernel in sorted(os.listdir(os.path.join(SOURCES, "tests", "kernel"))):
                with open(os.path.join(SOURCES, "tests", "kernel", kernel)) as f:
                    self.texts.append((".kir", f.read(), []))
            for store, end in ((self.weights, ".st"), (self.checkpoint, ".ckpt")):
                with open(self.path(m + end), "rb") as f:
                    store[m] = f.read()

    def sanitized_runtime(self):
        sources = sorted(f for f in os.listdir(os.path.join(SOURCES, "runtime")) if f.endswith(".c"))
        objects = [self.path(f[:-2] + ".o") for f in sources]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda f: self.must("cc", *FLAGS, "-c", os.path.join(SOURCES, "runtime", f), "-o", self.path(f[:-2] + ".o")), sources))
        return objects

    def path(self, name):
        return os.path.join(self.root, name)

    def must(self, *argv):
        p = subprocess.run([str(a) for a in argv], cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV, timeout=600)
        if p.returncode:
            raise SystemExit("%s: %s" % (argv, p.stderr.decode()))
        return p.stdout.decode()

    def run(self, argv, here, leaks=True):
        """Exit code, standard output and standard error; each thread has servers of its own."""
        if self.objects and argv[0] != self.gnnc:
            mine = self.mine.__dict__
            if argv[0] not in mine:
                mine[argv[0]] = Server(argv[0])
                self.servers.append(mine[argv[0]])
            return mine[argv[0]].run(argv, here, leaks)
        env = dict(ENV, ASAN_OPTIONS=ENV["ASAN_OPTIONS"] + ":detect_leaks=%d" % leaks)
        try:
            p = subprocess.run(argv, cwd=here, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=WALL_S, preexec_fn=limits)
            return p.returncode, p.stdout.decode("utf-8", "replace"), p.stderr.decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            return "hang", "", ""


def executable(ground, m, data, here, rng):
    """A command of the program of model m, with files of its own."""
    def lying(store, name):
        with open(os.path.join(here, name), "wb") as f:
            f.write(store[m] if rng.random() < 0.4 else lying_weights(store[m], rng))
        return name

    argv = [ground.path(m), rng.choice(["train", "train", "train", "eval", "infer", "bench", "plan"])]
    command = argv[1]
    argv += ["--data", data, "--threads", str(rng.choice([1, 1, 2, 3]))]
    if command == "train":
        argv += ["--epochs", str(rng.choice([0, 1, 2, 4]))]
        for flag, value, p in [("--save", "out.st", 0.3), ("--metrics", "out.jsonl", 0.2), ("--checkpoint", "out.ckpt", 0.2), ("--seeds", "2", 0.1),
                               ("--batch", str(rng.choice([1, 2, 3, 1000, 2**40])), 0.1), ("--set", "lr=%g" % rng.choice([0, 1e-30, 1e38, -1]), 0.1)]:
            if rng.random() < p:
                argv += [flag, value]
        if rng.random() < 0.3:
            argv += ["--resume", lying(ground.checkpoint, "in.ckpt")]
    if command in ("eval", "infer"):
        argv += ["--weights", lying(rng.choice([ground.weights, ground.checkpoint]), "in.st")]
    if command == "infer":
        argv += ["--out", rng.choice(["out.npy"] * 9 + ["in.st", os.path.join(data, "x.npy"), data])]
    if command == "bench":
        argv += ["--iters", "1"]
    if command in ("bench", "plan") and rng.random() < 0.5:
        argv += ["--json"]
    if rng.random() < 0.3:
        argv += ["--reorder", rng.choice(["degree", "bfs", "auto"])]
    if command not in ("infer",) and rng.random() < 0.2:
        argv += ["--cone", rng.choice(["on", "auto"])]
    if rng.random() < 0.15:
        argv += ["--share", rng.choice(["1", "3", "0"])]
    if rng.random() < 0.1:
        argv += ["--memory-budget", rng.choice(["0", "100", "1G"])]
    if command != "infer" and rng.random() < 0.15:
        argv += ["--folds", rng.choice(["2", "3", "4", "1000000"])]
        argv += ["--fold", rng.choice(["0", "2", "7"])] if rng.random() < 0.6 or command != "train" else []
    return argv


def compiler(ground, m, data, here, rng):
    """A command of gnnc on a lying folder, or on a lying model or IR."""
    emit = "--emit=" + rng.choice(["plan", "plan", "manifest", "header", "c", "kir", "gir"] * 6 + ["ll", "obj"])
    build, src, sets = ["build", emit, "-o", "out"], ground.path(m + ".gnn"), SETS.get(m, [])
    if rng.random() < 0.4:
        return rng.choice([["data", "info", data], ["data", "verify", data], ["data", "verify", data], ["check", src, "--data", data],
                           [*build, src, "--data", data, *sets], ["ir", src, "--data", data], ["data", "generate", data, "--nodes=30"],
                           ["data", "partition", data, "-k", rng.choice(["1", "2", "7", "70"]), "-o", "parts", "--method", rng.choice(["contiguous", "random", "ldg"])],
                           [*build, src, "--data", data, *sets, "--memory-budget", rng.choice(["1K", "0", "1000G"])]])
    end, text, sets = rng.choice(ground.texts)
    name = "in" + end
    with open(os.path.join(here, name), "w", encoding="utf-8") as f:
        f.write(lying_text(text, rng))
    if rng.random() < 0.2:
        sets = ["--set", "F=%s,C=%s,K=%s" % tuple(rng.choice(HUGE + [4, 4, 0.5]) for _ in range(3))] if end == ".gnn" else []
    if end == ".kir":
        return ["ir", name]
    if end == ".gir":
        return rng.choice([["ir", name], ["ir", name, "--run=simplify,cse,autodiff,dce"], ["ir", name, "--after=lower"], [*build, name]])
    return rng.choice([["check", name], ["check", "--fix", name], ["check", name, *sets], ["fmt", name], ["test", name], ["doc", name], ["ir", name, *sets],
                       ["explain", name, "--as-blocks=net"], [*build, name, *sets], [*build, name, *sets]])


ASAN = "exitcode=99:abort_on_error=0:allocator_may_return_null=1:detect_stack_use_after_return=0"
ENV = dict(os.environ, LC_ALL="C", UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:exitcode=99", ASAN_OPTIONS=ASAN + ":hard_rss_limit_mb=%d" % RSS_MB)


def limits():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 20, 64 << 20))


def verdict(rc, text, left):
    """Why the end of a command is not one of those that are promised; or None."""
    if rc == "hang":
        return "it does not end in %d s" % WALL_S
    if rc < 0:
        return "killed by signal %d" % -rc
    if "Sanitizer" in text or "runtime error" in text:
        return "a sanitizer reports"
    if rc not in EXIT_CODES or "R699" in text:
        return "exit code %d" % rc
    if rc and not re.search(r"error\[[ER]\d+\]", text):
        return "exit code %d without a named error" % rc
    if rc and rc != 75 and not re.search(r"= help: .", text):
        return "an error without a hint"
    if len(text) > 20000:
        return "a message of %d bytes" % len(text)
    if rc not in (0, 5, 75) and left:
        return "left behind: %s" % ", ".join(left)
    return None


def case(ground, seed, i, keep=False):
    """Runs case i of a seed. Returns (exit code, why it is wrong or None, its command)."""
    rng = random.Random("%d.%d" % (seed, i))
    m = rng.choice(sorted(MODELS))
    here = tempfile.mkdtemp(prefix="case-", dir=ground.root)
    folder = Folder(ground.sound[m], rng, m)
    for lie in rng.choices(Folder.LIES, k=rng.choice([0, 1, 1, 1, 2, 2, 3])):
        try:
            lie(folder)
        except (IndexError, OverflowError, ValueError, KeyError, TypeError):
            pass  # this lie does not fit what the ones before made
    data = folder.write(os.path.join(here, "data"))
    data = os.path.relpath(data, here)
    argv = [ground.gnnc, *compiler(ground, m, data, here, rng)] if rng.random() < 0.1 else executable(ground, m, data, here, rng)
    given = set(os.listdir(here))
    rc, out, text = ground.run(argv, here, leaks=i % 8 == 0)
    if "Sanitizer" in out:
        text += out
    left = sorted(set(os.listdir(here)) - given - {"out.jsonl"})
    why = verdict(rc, text, left)
    if not keep:
        shutil.rmtree(here)
    return rc, why and "%s: %s" % (why, text[-3000:]), argv


def campaign(build, n, seed=1, jobs=2, first=0, sanitize=False):
    """Runs n cases. Returns how often each exit code came, and what was wrong: [(case, why, command)]."""
    root, ground = tempfile.mkdtemp(prefix="gnnc-commands-"), None
    try:
        ground = Ground(build, root, sanitize)
        ends, wrong = {}, []
        with ThreadPoolExecutor(jobs) as pool:
            for i, (rc, why, argv) in enumerate(pool.map(lambda k: case(ground, seed, k), range(first, first + n)), first):
                ends[rc] = ends.get(rc, 0) + 1
                if (i - first) % 1000 == 999:
                    print("%d commands, %d wrong" % (i - first + 1, len(wrong)), flush=True)
                if why:
                    wrong.append((i, why, argv))
                    print("case %d of seed %d: %s\n  %s" % (i, seed, " ".join(argv), why), flush=True)
        return ends, wrong
    finally:
        for s in ground.servers if ground else ():
            s.close()
        shutil.rmtree(root, ignore_errors=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("--commands", type=int, default=1000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--case", type=int)
    p.add_argument("--sanitize", action="store_true")
    o = p.parse_args()
    if o.case is not None:
        root = tempfile.mkdtemp(prefix="gnnc-commands-")
        rc, why, argv = case(Ground(o.build, root, o.sanitize), o.seed, o.case, keep=True)
        print("in a folder of %s: %s\nexit code %s, %s" % (root, " ".join(argv), rc, why or "as promised"))
        sys.exit(why is not None)
    ends, wrong = campaign(o.build, o.commands, o.seed, o.jobs, o.first, o.sanitize)
    print("%d commands, exit codes %s, %d wrong" % (o.commands, ", ".join("%s: %d" % e for e in sorted(ends.items(), key=str)), len(wrong)))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
