#!/usr/bin/env python3
"""Times the dense products that gnnc emits beside OpenBLAS (the system's) and torch (MKL and oneDNN), on shapes of GNNs.

usage: bench/gemm.py [--gnnc build/gnnc] [--torch PYTHON] [--threads 2] [--rounds 3] [--cpu avx2] [--only TEXT] [--json FILE]

A shape is rows x K x N and one of three products of `x @ W`: NN, the value; NT, the gradient of x; TN, the gradient of W.
Each is one model, run by `bench --json --blas off`; the peers run in the same interleaved rounds, and the least time of all
rounds counts. `--cpu avx2` holds both sides to that. A ratio is the best peer's time over ours: above 1 the emitted kernel is faster. Without --torch only
OpenBLAS is the peer, and that is said."""
import argparse, json, math, os, subprocess, sys, tempfile

SHAPES = [line.split() for line in """
169343 128 64   NN TN
169343 64 64    NN NT TN
169343 64 40    NN NT TN
169343 64 128   NN NT
169343 128 256  NN TN
169343 256 256  NN NT
169343 256 47   NN NT TN
169343 16 16    NN NT TN
169343 32 64    NN TN
169343 100 47   NN TN
19717 602 64    NN TN
19717 602 16    NN TN
19717 256 128   NN TN
19717 100 128   TN
2708 1433 16    NN TN
2708 1433 64    NN TN
2708 16 7       NN TN
2708 64 7       NN
2708 256 256    NN NT TN
""".strip().splitlines()]


# ---- peers: a process that reads shapes and answers with milliseconds ------------------------------------------------

def least(run, flops):
    """The least milliseconds of enough runs to fill a fifth of a second."""
    import time
    best, n = math.inf, max(3, min(200, int(0.2 / (flops / 3e11))))
    for _ in range(n):
        t = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - t)
    return best * 1e3


def openblas_runs(rows, k, n, kind):
    import array, ctypes, random
    lib = ctypes.CDLL("libopenblas.so.0")
    lib.openblas_set_num_threads(int(os.environ["OPENBLAS_NUM_THREADS"]))
    some = array.array("f", (random.random() for _ in range(4096))).tobytes()

    def matrix(elements):
        return (ctypes.c_float * elements).from_buffer(bytearray((some * (elements // 4096 + 1))[:4 * elements]))

    x, w, y = matrix(rows * k), matrix(k * n), matrix(rows * n)
    p = ctypes.byref
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    row_major, plain, trans = 101, 111, 112
    call = lib.cblas_sgemm
    if kind == "NN":
        return [lambda: call(row_major, plain, plain, rows, n, k, one, p(x), k, p(w), n, zero, p(y), n)]
    if kind == "NT":
        return [lambda: call(row_major, plain, trans, rows, k, n, one, p(y), n, p(w), n, zero, p(x), k)]
    return [lambda: call(row_major, trans, plain, k, n, rows, one, p(x), k, p(y), n, zero, p(w), n)]


def torch_runs(rows, k, n, kind):
    import torch
    torch.set_num_threads(int(os.environ["OPENBLAS_NUM_THREADS"]))
    x, w, y = torch.rand(rows, k), torch.rand(k, n), torch.rand(rows, n)
    a, b = {"NN": (x, w), "NT": (y, w.t()), "TN": (x.t(), y)}[kind]
    out, runs = torch.empty(a.shape[0], b.shape[1]), []
    runs.append(lambda: torch.mm(a, b, out=out))
    weight = b.t().contiguous()
    linear = torch.ops.mkldnn._linear_pointwise  # oneDNN: out = a @ weight.t()
    runs.append(lambda: linear(a.contiguous(), weight, None, "none", [], ""))
    if kind != "TN":
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, a.shape[0])
        runs.append(lambda: linear(a, packed, None, "none", [], ""))
    else:
        x_, y_, w_ = x.to_mkldnn(), y.to_mkldnn(), weight.to_mkldnn()
        runs.append(lambda: torch.ops.aten.mkldnn_linear_backward_weights(y_, x_, w_, False))
    return runs


def peer(which):
    for line in sys.stdin:
        rows, k, n, kind = line.split()
        rows, k, n = int(rows), int(k), int(n)
        times = []
        for run in (openblas_runs if which == "openblas" else torch_runs)(rows, k, n, kind):
            try:
                run()
            except (RuntimeError, AttributeError, NotImplementedError):  # not in this build of torch
                continue
            times.append(least(run, 2.0 * rows * k * n))
        print(min(times), flush=True)


class Peer:
    def __init__(self, python, which, threads, cpu):
        env = dict(os.environ, OPENBLAS_NUM_THREADS=str(threads), OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
        if cpu == "avx2":
            env.update(OPENBLAS_CORETYPE="Haswell", MKL_ENABLE_INSTRUCTIONS="AVX2", ONEDNN_MAX_CPU_ISA="AVX2")
        elif "avx512f" in open("/proc/cpuinfo").read():
            env["OPENBLAS_CORETYPE"] = "SkylakeX"  # at its best, whatever the environment says
        self.name, self.process = which, subprocess.Popen(
            [python, os.path.abspath(__file__), "--peer", which], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def time(self, shape):
        self.process.stdin.write(" ".join(map(str, shape)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"gemm.py: the peer {self.name} ended")
        return float(answer)


# ---- ours ------------------------------------------------------------------------------------------------------------

class Ours:
    def __init__(self, gnnc, folder, threads, cpu):
        self.gnnc, self.folder, self.threads, self.cpu, self.built = gnnc, folder, threads, cpu, {}

    def command(self, *args):
        done = subprocess.run(args, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"gemm.py: {' '.join(args)}\n{done.stdout}{done.stderr}")
        return done.stdout

    def model(self, rows, k, n):
        key = (rows, k, n)
        if key not in self.built:
            name = os.path.join(self.folder, f"g{rows}_{k}_{n}")
            with open(name + ".gnn", "w") as f:
                f.write("model net(x: node[K]) -> node[N] {\n  param W: [K, N] = kaiming\n  return x @ W\n}\n")
            self.command(self.gnnc, "build", name + ".gnn", "--set", f"K={k}", "--set", f"N={n}", "--vjp=gradients", "-o", name)
            data = os.path.join(self.folder, f"data{rows}")
            if not os.path.exists(data):
                self.command(self.gnnc, "data", "generate", data, f"--nodes={rows}", "--edges=1000", "--features=1")
            self.built[key] = (name, data)
        return self.built[key]

    def time(self, rows, k, n):
        """Milliseconds of NN, NT and TN; the copy of a weight and the merging of blocks count."""
        name, data = self.model(rows, k, n)
        iters = max(5, min(100, int(0.1 / (2.0 * rows * k * n / 3e11))))
        text = self.command(name, "bench", "--data", data, "--iters", str(iters), "--threads", str(self.threads), "--json",
                            "--blas", "off", "--cpu", self.cpu)
        result = json.loads(text)
        times = {"NN": result["infer"]["kernels"], "NT": [], "TN": []}
        for step in result["grad"]["kernels"]:
            outer = "blocks" in step["name"] or "tree" in step["name"] or step["name"].startswith("contract unit")
            times["TN" if outer else "NT"].append(step)
        return {kind: sum(s["least_ms"] for s in steps) for kind, steps in times.items()}


# ---- report ----------------------------------------------------------------------------------------------------------

def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--gnnc", default="build/gnnc")
    p.add_argument("--torch", metavar="PYTHON", help="an interpreter that has torch")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--cpu", default="auto", choices=["auto", "avx2"])
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--only", default="", help="shapes whose line holds this text")
    p.add_argument("--no-peers", action="store_true")
    p.add_argument("--json", metavar="FILE")
    p.add_argument("--peer", choices=["openblas", "torch"], help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.peer:
        return peer(o.peer)
    peers = [] if o.no_peers else [Peer(sys.executable, "openblas", o.threads, o.cpu)]
    if o.torch and not o.no_peers:
        peers.append(Peer(o.torch, "torch", o.threads, o.cpu))
    elif not o.no_peers:
        print("gemm.py: SKIPPED torch: no --torch PYTHON was given")
    ratios, rows_out = [], []
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(os.path.abspath(o.gnnc), folder, o.threads, o.cpu)
        print(f"{'rows':>7} {'K':>5} {'N':>4} kind {'ours ms':>9} {'GFLOP/s':>8}" +
              "".join(f" {q.name + ' ms':>12}" for q in peers) + "  ratio")
        for rows, k, n, *kinds in SHAPES:
            if o.only not in " ".join([rows, k, n]):
                continue
            best = {}
            for _ in range(o.rounds):
                mine = ours.time(int(rows), int(k), int(n))
                for kind in kinds:
                    now = [mine[kind]] + [q.time((rows, k, n, kind)) for q in peers]
                    best[kind] = [min(a, b) for a, b in zip(best.get(kind, now), now)]
            for kind in kinds:
                ms = best[kind]
                ratio = min(ms[1:]) / ms[0] if peers else float("nan")
                ratios.append(ratio)
                rows_out.append({"rows": int(rows), "K": int(k), "N": int(n), "kind": kind, "ms": ms[0], "ratio": ratio,
                                 **{q.name: t for q, t in zip(peers, ms[1:])}})
                print(f"{rows:>7} {k:>5} {n:>4} {kind:>4} {ms[0]:9.4f} {2e-6 * int(rows) * int(k) * int(n) / ms[0]:8.1f}" +
                      "".join(f" {t:12.4f}" for t in ms[1:]) + f"  {ratio:5.2f}", flush=True)
    if peers and ratios:
        print(f"{len(ratios)} shapes: geometric mean {geomean(ratios):.3f}, least {min(ratios):.3f}")
    if o.json:
        with open(o.json, "w") as f:
            json.dump({"threads": o.threads, "rounds": o.rounds, "shapes": rows_out}, f, indent=1)


if __name__ == "__main__":
    main()
