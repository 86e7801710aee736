"""Models and data for runs on devices: shared by tests/test_cuda.py, which runs the emitted CUDA text on the CPU, and scripts/test-gpu, which
runs it where there is a card. Only Python's own modules, so that the second needs nothing else."""
import ctypes as C
import os
import random
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NODES, EDGES, FEATURES, CLASSES = 300, 2400, 24, 5

TRAINED = """model net(x: node[F]) -> node[C] {
%s
  last = linear(O = C)
  return last(cat(%s))
}
train net {
  loss = cross_entropy(net(data.x), data.y) on data.train
  metric val_acc = accuracy(net(data.x), data.y) on data.val
  optimizer adam(0.01)
  epochs 4
}
"""
# Layers of the library with a value for each node in and out, a few to a model.
LAYERS = {
    "sums": ["gcn(O = 16)", "sage(O = 16)", "gin(O = 16)", "graph_conv(O = 16)", "general(H = 2, D = 8)", "edge_conv(O = 16)", "le(O = 16)", "mf(O = 16)",
             "wl_continuous()", "simple()", "lgcn()"],
    "attention": ["gat(H = 2, D = 8)", "gatv2(H = 2, D = 8)", "transformer(H = 2, D = 8)", "agnn()", "feast(H = 2, O = 16)", "multihead_attention(H = 2)",
                  "gps()"],
    "heads": ["gat(H = 2, D = 16)", "transformer(H = 3, D = 32)"],  # of whole vectors of 16 features, each head with scores of its own
    "performer": ["performer_attention(H = 2, D = 8)"],  # whose kernels NVRTC takes minutes for
    "hops": ["sgc(O = 16, K = 2)", "ssgc(O = 16, K = 2)", "tag(O = 16, K = 2)", "appnp(K = 3)", "mixhop(O = 8)", "cheb(O = 16, K = 3)", "arma(O = 16)",
             "cluster_gcn(O = 16)", "antisymmetric()", "egc(H = 2, B = 2, D = 8)", "twirls(O = 16, K = 2)"],
    "gates": ["gated_graph(O = 32)", "gen(O = 16)", "cg()", "res_gated(O = 16)", "supergat(H = 2, D = 8)"],
    "norms": ["batch_norm()", "layer_norm()", "graph_norm()", "instance_norm()", "row_norm()", "diff_group_norm()"],
    "found": ["dynamic_edge(O = 16, k = 4)", "gravnet(O = 16, k = 4)"],
}


def layers_model(layers):
    names = ["l%d" % i for i in range(len(layers))]
    return TRAINED % ("\n".join("  %s = %s" % x for x in zip(names, layers)), ", ".join("relu(%s(x))" % n for n in names))


def example(name):
    with open(os.path.join(ROOT, "examples", name + ".gnn")) as f:
        return f.read()


def models():
    """The text of each by its name."""
    found = {name: example(name) for name in ("gcn", "gat", "sage", "gin")}
    found.update({"std_" + name: layers_model(layers) for name, layers in LAYERS.items()})
    return found


def compare(run, program, data, folder, device, epochs, more=(), there=()):
    """Trains for some epochs and infers, on the CPU and on a device, where flags of `there` are given. Returns what differs, or None. run(argv) gives exit code and stderr."""
    for d in ("cpu", device):
        name = os.path.join(folder, "%s.%s" % (os.path.basename(program), d.replace(":", "_")))
        exact = ["--device", d] + (list(there) if d != "cpu" else ["--blas", "off"])
        for argv in (["train", "--data", data, "--epochs", str(epochs), "--save", name + ".st", "--checkpoint", name + ".ck", "--metrics", name + ".jsonl"] + list(more),
                     ["infer", "--data", data, "--weights", name + ".st", "--out", name + ".npy"]):
            rc, err = run([program] + argv + exact)
            if rc:
                return "%s on %s ended with %s: %s" % (argv[0], d, rc, err.strip()[-300:])
    for kind in ("st", "ck", "jsonl", "npy"):
        a, b = (open(os.path.join(folder, "%s.%s.%s" % (os.path.basename(program), d.replace(":", "_"), kind)), "rb").read() for d in ("cpu", device))
        if a != b:
            return ".%s differs from the CPU's (%d and %d bytes, the first at %d)" % (
                kind, len(a), len(b), next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b))))
    return None


def run(argv, limit=600):
    try:
        p = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=limit)
    except subprocess.TimeoutExpired:
        return "hang", ""
    return p.returncode, p.stderr.decode("utf-8", "replace")


# ---- libraries

WEIGHTED = """layer weighted(x: node[F], w: edge[1]) -> node[O] {
  param W: [F, O] = glorot
  return sum_in((w * x.src) @ W)
}
"""
WEIGHTED_FLAGS = ["--export", "weighted", "--set", "F=16,O=16"]


class HostMemory:
    """The shim's device: memory is that of this process, and only a library waits."""
    stream = None

    def take(self, n):
        return (C.c_float * n)()

    put = get = lambda self, to, values: C.memmove(to, values, C.sizeof(to))

    def wait(self, lib):
        """Who takes the model's parameters anew waits for what was begun before."""
        W = (C.c_float * 256)()
        lib.must("param_get", lib.model, 0, W)
        lib.must("param_set", lib.model, 0, W)
        lib.run(1)


class CardMemory:
    """The first GPU's memory, and a stream, by the driver."""

    def __init__(self):
        self.cuda, device, context, self.stream = C.CDLL("libcuda.so.1"), C.c_int(), C.c_void_p(), C.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", C.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", C.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.call("cuStreamCreate", C.byref(self.stream), 1)

    def call(self, name, *args):
        error = getattr(self.cuda, name)(*args)
        assert not error, "%s says %d" % (name, error)

    def take(self, n):
        at = C.c_void_p()
        self.call("cuMemAlloc_v2", C.byref(at), C.c_size_t(4 * n))
        return at

    def put(self, to, values):
        self.call("cuMemcpyHtoD_v2", to, values, C.c_size_t(C.sizeof(values)))
        self.call("cuStreamSynchronize", None)

    def get(self, to, at):
        self.call("cuMemcpyDtoH_v2", to, at, C.c_size_t(C.sizeof(to)))

    def wait(self, lib):
        self.call("cuStreamSynchronize", self.stream)


class Library:
    """A library of WEIGHTED, with a context on the CPU and one on a device, whose refusal is kept."""
    Status = type("Status", (C.Structure,), {"_fields_": [("code", C.c_int32), ("message", C.c_char * 1056)]})
    Desc = type("Desc", (C.Structure,), {"_fields_": [(n, C.c_int64) for n in ("n_src", "n_dst", "n_edges")] + [("src", C.c_void_p), ("dst", C.c_void_p),
                ("n_graphs", C.c_int64), ("graph_of", C.c_void_p), ("n_lists", C.c_int64), ("lists", C.c_void_p),
                ("n_counts", C.c_int64), ("counts", C.c_void_p), ("n_inputs", C.c_int64), ("inputs", C.c_void_p)]})

    def __init__(self, path, name, n_nodes, src, dst, stream):
        self.lib, self.name, self.status = C.CDLL(path), name, self.Status()
        tables = getattr(self.lib, name + "_tables")
        tables.restype = C.c_void_p
        self.model, self.graph, self.contexts, self.buffers = C.c_void_p(), C.c_void_p(), [C.c_void_p(), C.c_void_p()], [None, None]
        ends = [(C.c_int64 * len(e))(*e) for e in (src, dst)]
        self.must("model_create", C.c_void_p(tables()), C.c_int64(3), -1, C.byref(self.model))
        self.must("graph_create", self.model, C.byref(self.Desc(n_nodes, n_nodes, len(src), *[C.addressof(e) for e in ends])), C.byref(self.graph))
        self.must("context_create", self.model, self.graph, 1, None, C.c_size_t(0), C.byref(self.contexts[0]))
        self.refused = self.call("context_cuda", self.model, self.graph, 1, 0, stream, C.byref(self.contexts[1])) and self.status.message.decode()

    def call(self, function, *args):
        return getattr(self.lib, "%s_%s" % (self.name, function))(*args, C.byref(self.status))

    def must(self, *args):
        assert not self.call(*args), self.status.message.decode()

    def run(self, context, vjp=False):
        """Begins forward, or vjp, with buffers [x, w, cotangent, out, grad x, grad w, grad W]."""
        pack = lambda buffers: (C.c_void_p * len(buffers))(*[b.value if isinstance(b, C.c_void_p) else C.addressof(b) for b in buffers])
        b = self.buffers[context]
        if vjp:
            self.must("vjp", self.contexts[context], pack(b[:2]), pack(b[2:3]), pack(b[4:]))
        else:
            self.must("forward", self.contexts[context], pack(b[:2]), pack(b[3:4]))

    def close(self):
        for c in self.contexts:
            getattr(self.lib, self.name + "_context_free")(c)
        getattr(self.lib, self.name + "_graph_free")(self.graph)
        getattr(self.lib, self.name + "_model_free")(self.model)


def compare_library(path, memory, times=4, say=None):
    """Forward and back on the CPU and on a device, in the same memory with other numbers each time: what differs, or None. say(text): how long a call takes."""
    draw, n, m = random.Random(1), 400, 9000
    dst = sorted(7 if e < m // 2 else draw.randrange(n) for e in range(m))
    lib = Library(path, "weighted", n, [draw.randrange(n) for _ in dst], dst, memory.stream)
    if lib.refused:
        return lib.refused
    sizes = [16 * n, m, 16 * n, 16 * n, 16 * n, m, 256]
    lib.buffers = [[(C.c_float * s)() for s in sizes], [memory.take(s) for s in sizes]]
    for i in range(times):
        for k in range(3):
            lib.buffers[0][k][:] = [draw.uniform(-1, 1) for _ in range(sizes[k])]
            memory.put(lib.buffers[1][k], lib.buffers[0][k])
        for context in range(2):
            lib.run(context)
            lib.run(context, vjp=True)
        memory.wait(lib)
        for k in range(3, 7):
            found = (C.c_float * sizes[k])()
            memory.get(found, lib.buffers[1][k])
            if bytes(found) != bytes(lib.buffers[0][k]) or not any(found):
                return "run %d: other bytes in buffer %d" % (i, k)
    if say:
        for vjp in (False, True):
            start, count = time.perf_counter(), 200
            for _ in range(count):
                lib.run(1, vjp)
            begun = time.perf_counter()
            memory.wait(lib)
            say("%s: %.1f us to begin, %.1f us in all" % ("vjp" if vjp else "forward", (begun - start) / count * 1e6, (time.perf_counter() - start) / count * 1e6))
        device, lib.buffers[1] = lib.buffers[1], lib.buffers[0]
        try:
            lib.run(1)
            return "memory of the host was not refused"
        except AssertionError as e:
            if "memory of the host" not in str(e):
                return str(e)
        lib.buffers[1] = device
    lib.close()
    return None
