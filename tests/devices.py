"""Models and data for runs on devices: shared by tests/test_cuda.py, which runs the emitted CUDA text on the CPU, and scripts/test-gpu, which
runs it where there is a card. Only Python's own modules, so that the second needs nothing else."""
import os
import subprocess

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


def compare(run, program, data, folder, device, epochs, more=()):
    """Trains for some epochs and infers, on the CPU and on a device. Returns what differs, or None. run(argv) gives exit code and stderr."""
    for d in ("cpu", device):
        name = os.path.join(folder, "%s.%s" % (os.path.basename(program), d.replace(":", "_")))
        exact = ["--device", d] + ([] if d != "cpu" else ["--blas", "off"])
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
