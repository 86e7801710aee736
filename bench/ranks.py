#!/usr/bin/python3
"""Several processes that train one model: whether their bits are those of one process, what they send, what they need.

usage: ranks.py BUILD [bits] [columns] [memory] [link] [scaling] [policies] [elastic] [options]

bits      losses, metrics and weights of six networks on four data sets, split in 1 to 16 parts by every method, beside one process
columns   columns that processes exchange for a GCN 602 -> 16 -> 41, and bytes for an R-MAT graph, beside what others' schemes would send
memory    the peak of each process, measured and planned, for a graph of the size of ogbn-arxiv
link      two network namespaces with 1 Gbit/s between them (root, iproute2, Open MPI), beside one process; what computing hides of what travels
scaling   simulated: weak scaling to 1,024 ranks, of a graph of communities, one a rank, and of an R-MAT graph, as many rows a rank
policies  accuracy and bytes of an epoch of training with rows of peers that are late, or drawn: four processes, several seeds
elastic   what it costs to go on from a checkpoint with another number of processes, beside an epoch; also for an R-MAT graph of the size of ogbn-arxiv

Prints tables in Markdown. Data sets are under GNNC_SHARED/data.
"""
import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

METHODS = ["ldg", "random", "contiguous", "metis"]
RANKS = [1, 2, 3, 4, 8, 16]
SOURCES = {"cora": 1, "aifb": 2, "tu_proteins": 6, "facebook_pages": 25}  # with how much a run costs, in runs on cora

# x: features of nodes; h: what the last product reads
LAYERS = {
    "gcn": "a = gcn(O = 16)\n  b = gcn(O = 16)\n  h = b(relu(a(dropout(x, 0.3))))",
    "sage": "a = sage(O = 16)\n  n = batch_norm()\n  b = sage(O = 16)\n  h = b(relu(n(a(x))))",
    "gat": "a = gat(H = 4, D = 4, attn_dropout = 0.2)\n  b = gat(H = 1, D = 16)\n  h = b(elu(a(x)))",
    "gin": "a = gin(O = 16, nn = mlp(16), train_eps = true)\n  h = relu(a(x))",
    "appnp": "l = linear(O = 16)\n  p = appnp(K = 10)\n  h = p(relu(l(x)))",
    "keyed": "k = linear(O = 16)\n  r = keyed(D = 16)\n  h = relu(r(k(x), edge_type))",
    "vectors": "param E: [R, K] = glorot\n  h = relu(mean_in(E[edge_type]))",
}
KEYED = """layer keyed(x: node[F], t: edge index[R]) -> node[D] {
  param W: [R, F, D] = glorot
  return sum(dot(mean_in(x.src, by = t), W, F), R)
}
"""
TRAIN = """
train net {
  loss = cross_entropy(net(%(call)s), data.%(y)s) on data.train
  metric train_acc = accuracy(net(%(call)s), data.%(y)s) on data.train
  metric test_acc = accuracy(net(%(call)s), data.%(y)s) on data.test
  hyper lr = 0.01
  optimizer adam(lr)
  epochs 20
  seed 0
}
"""


class Failed(Exception):
    pass


class Bench:
    def __init__(self, build, folder):
        self.gnnc, self.root = os.path.join(os.path.abspath(build), "gnnc"), folder
        self.parts_of = {}

    def path(self, *names):
        return os.path.join(self.root, *names)

    def run(self, *argv, code=0, **more):
        p = subprocess.run([str(x) for x in argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False, **more)
        if p.returncode != code:
            raise Failed((p.stderr.decode().strip() or "exit code %d" % p.returncode).splitlines()[0][:300])
        return p.stdout.decode()

    def build(self, name, text, data, *more):
        source = self.path(name + ".gnn")
        with open(source, "w", encoding="utf-8") as f:
            f.write(text)
        self.run(self.gnnc, "build", source, "--data", data, "--cpu=native", *more, "-o", self.path(name))
        return self.path(name)

    def parts(self, data, k, method):
        """Made once. Returns the folder and what partition.json says."""
        key = (data, k, method)
        if key not in self.parts_of:
            out = self.path("parts-%s-%d-%s" % (os.path.basename(data), k, os.path.basename(method)))
            self.run(self.gnnc, "data", "partition", data, "-k", k, "-o", out, "--method", method, "--seed", 1)
            self.parts_of[key] = out
        with open(os.path.join(self.parts_of[key], "partition.json"), encoding="utf-8") as f:
            return self.parts_of[key], json.load(f)


def have_metis(b):
    try:
        b.parts(generated(b, "tiny", 40, 100, 4, 2), 2, "metis")
        return True
    except Failed:
        return False


def generated(b, name, nodes, edges, features, classes):
    if not os.path.exists(b.path(name)):
        b.run(b.gnnc, "data", "generate", b.path(name), "--kind", "rmat", "--nodes", nodes, "--edges", edges, "--features", features,
              "--classes", classes, "--seed", 1)
    return b.path(name)


def table(head, rows):
    print("\n| %s |\n|%s" % (" | ".join(head), "---|" * len(head)))
    for r in rows:
        print("| %s |" % " | ".join(str(x) for x in r))
    sys.stdout.flush()


# ---- bits ----------------------------------------------------------------------------------------------------------


def with_files(b, name):
    """A copy of a data set with what the networks want besides: relations of edges, masks of graphs."""
    source, out = os.path.join(os.environ.get("GNNC_SHARED", "."), "data", name), b.path(name)
    shutil.copytree(source, out, copy_function=os.symlink)
    ends = np.load(os.path.join(out, "edge_index.npy"))
    if name != "aifb":
        np.save(os.path.join(out, "edge_type.npy"), (ends[0] * 7 + ends[1] * 3) % 5)
    if name == "tu_proteins":
        fold = np.load(os.path.join(out, "fold.npy"))
        np.save(os.path.join(out, "train_mask.npy"), fold > 0)
        np.save(os.path.join(out, "test_mask.npy"), fold == 0)
        os.remove(os.path.join(out, "fold.npy"))
    return out


def network(data, layer):
    """aifb has no features: those of a node are a trained function of its degree."""
    args, sizes = ([] if data == "aifb" or layer == "vectors" else ["x: node[F]"]), []
    if layer in ("keyed", "vectors"):
        args.append("edge_type: edge index[R]")
        sizes.append("R=%d" % (45 if data == "aifb" else 5))
    graphs = data == "tu_proteins"
    body = BY_DEGREE if data == "aifb" else ""
    sizes += ["K=16"] * (data == "aifb" or layer == "vectors")
    body += LAYERS[layer] + "\n"
    body += "  last = linear(O = C)\n  return last(%s)" % ("readout_sum(h)" if graphs else "h")
    call = ", ".join("data." + a.split(":")[0] for a in args)
    text = (KEYED if layer == "keyed" else "") + "model net(%s) -> %s[C] {\n  %s\n}\n" % (", ".join(args), "graph" if graphs else "node", body)
    return text + TRAIN % {"call": call, "y": "graph_y" if graphs else "y"}, ["--set", ",".join(sizes)] if sizes else []


def trained(b, program, data, epochs, *more):
    """Lines of metrics, and weights."""
    weights, lines = b.path("w.st"), b.path("m.jsonl")
    for f in (weights, lines):
        if os.path.exists(f):
            os.remove(f)
    b.run(program, "train", "--data", data, "--epochs", epochs, "--seed", 3, "--threads", 1, "--blas", "off", "--save", weights,
          "--metrics", lines, *more)
    with open(weights, "rb") as f, open(lines, encoding="utf-8") as g:
        return g.read().splitlines(), f.read()


def difference(one, several):
    """None, or where they differ first."""
    for i, (a, c) in enumerate(zip(one[0], several[0])):
        if a != c:
            return "line %d of the metrics: `%s` and `%s`" % (i + 1, a[:80], c[:80])
    if len(one[0]) != len(several[0]):
        return "%d and %d lines of metrics" % (len(one[0]), len(several[0]))
    return None if one[1] == several[1] else "weights"


def bits(b, a):
    a.data, a.epochs = a.data or list(SOURCES), a.epochs or 20
    methods = [m for m in METHODS if m != "metis" or have_metis(b)]
    runs = [(SOURCES[d] * (2 + k), d, k, l, m) for d in a.data for k in a.ranks for l in a.networks for m in methods]
    until, done, programs, left = time.time() + 60 * a.minutes, {}, {}, 0
    if a.log and os.path.exists(a.log):
        with open(a.log, encoding="utf-8") as f:
            done = dict(line.rstrip("\n").split(": ", 1) for line in f)
    for _, d, k, layer, method in sorted(runs, key=lambda r: r[0]):
        name = "%s, %s, P = %d, %s" % (d, layer, k, method)
        if name in done:
            continue
        if time.time() > until:
            left += 1
            continue
        try:
            if not os.path.exists(b.path(d)):
                with_files(b, d)
            if (d, layer) not in programs:
                text, sizes = network(d, layer)
                program = b.build("%s-%s" % (d, layer), text, b.path(d), *sizes)
                programs[d, layer] = program, trained(b, program, b.path(d), a.epochs)
            program, one = programs[d, layer]
            why = difference(one, trained(b, program, b.parts(b.path(d), k, method)[0], a.epochs, "--ranks", k, "--deadline", 300))
        except Failed as e:
            why = str(e)
        done[name] = why or "equal"
        if a.log:
            with open(a.log, "a", encoding="utf-8") as f:
                f.write("%s: %s\n" % (name, done[name]))

    def says(d, layer, k):
        all_ = [done[n] for n in ("%s, %s, P = %d, %s" % (d, layer, k, m) for m in methods) if n in done]
        wrong = [x for x in all_ if x != "equal"]
        if not wrong:
            return "equal (%d)" % len(all_) if all_ else "not run"
        return "refused (R911)" if all("[R911]" in x for x in wrong) and len(wrong) == len(all_) else "%d of %d differ" % (len(wrong), len(all_))

    table(["data, network"] + ["P = %d" % k for k in a.ranks],
          [["%s, %s" % (d, l)] + [says(d, l, k) for k in a.ranks] for d in a.data for l in a.networks])
    print("\nIn brackets how many partitions of %s. %d runs of %d epochs, %d more not run.\n" % (
        ", ".join(methods), len(runs) - left, a.epochs, left))
    seen = set()
    for name, why in done.items():
        if why != "equal" and (name.rsplit(", ", 2)[0], why) not in seen:
            print("- %s: %s" % (name, why))
            seen.add((name.rsplit(", ", 2)[0], why))
    return any(why != "equal" and "[R911]" not in why for why in done.values())


# ---- columns -------------------------------------------------------------------------------------------------------


# what a node without features has: a trained function of its degree
BY_DEGREE = "param u: [K] = normal(0, 1)\n  param v: [K] = normal(0, 1)\n  x = log(1 + indegree) * u + v\n  "


def two_layers(layer, width, features=True):
    body = "a = %s(O = %d)\n  b = %s(O = C)\n  return b(relu(a(x)))" % (layer, width, layer)
    return "model net(%s) -> node[C] {\n  %s\n}\n" % ("x: node[F]" if features else "", ("" if features else BY_DEGREE) + body) + TRAIN % {
        "call": "data.x" if features else "", "y": "y"}


def planned(b, program, parts, *more):
    return json.loads(b.run(program, "plan", "--data", parts, "--json", "--threads", 1, *more))


def columns(b, a):
    """CAGNET 1D and SANCUS: every process gets whole matrices before it multiplies, 602 + 16 forward and 41 + 16 backward. SAR and
    BNS: halo rows, once forward and once backward; SAR where the narrower side of a layer travels, 16 + 16 each way; BNS 16 each way, with the
    first layer's neighbours computed before the run (`--use-pp`)."""
    methods = [m for m in ("metis", "ldg") if m != "metis" or have_metis(b)]
    data, rows, widths = generated(b, "wide", a.nodes, 10 * a.nodes, 602, 41), [], None
    program = b.build("gcn602", two_layers("gcn", 16), data, "--set", "F=602,C=41")
    for k in (2, 4, 8):
        for method in methods:
            parts, says = b.parts(data, k, method)
            exact, local = (planned(b, program, parts, "--sums", s)["train_step"]["ranks"]["travels"] for s in ("exact", "local"))

            def size(travels, once, *kinds):
                return mb(sum(x["rows"] * x["row_bytes"] for x in travels if x["once"] == once and x["kind"] in kinds))
            n, halo = says["nodes"], says["halo"]
            widths = [x["row_bytes"] // 4 for x in exact if x["kind"] == "rows" and not x["once"]]
            rows.append([k, method, halo, size(exact, False, "rows"), size(exact, False, "operands", "partials", "results"),
                         size(exact, True, "rows", "operands", "results"), size(local, False, "partials", "results"),
                         mb(4 * 675 * n * (k - 1)), mb(4 * 64 * halo), mb(4 * 32 * halo)])
    print("\n%d columns an epoch: %s." % (sum(widths), " + ".join(map(str, widths))))
    table(["P", "parts by", "halo rows", "rows, MB", "exact totals, MB", "once for them, MB", "local totals, MB", "CAGNET 1D, SANCUS: 675 columns, MB", "SAR: 64 columns, MB",
           "BNS: 32 columns, MB"], rows)
    return False


def mb(n):
    return "%.2f" % (n / 1e6)


# ---- memory --------------------------------------------------------------------------------------------------------


def peaks(argv):
    """VmHWM in bytes of a command and what it starts, the command first; and its exit code."""
    run, seen = subprocess.Popen([str(x) for x in argv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), {}
    while run.poll() is None:
        pids = [run.pid]
        try:
            with open("/proc/%d/task/%d/children" % (run.pid, run.pid), encoding="ascii") as f:
                pids += [int(x) for x in f.read().split()]
        except OSError:
            pass
        for pid in pids:
            try:
                with open("/proc/%d/status" % pid, encoding="ascii") as f:
                    for line in f:
                        if line.startswith("VmHWM"):
                            seen[pid] = max(seen.get(pid, 0), 1024 * int(line.split()[1]))
            except OSError:
                pass
        time.sleep(0.02)
    return list(seen.values()), run.returncode


def memory(b, a):
    nodes, edges = int(169343 * a.share), int(1166243 * a.share)
    data = generated(b, "arxiv", nodes, edges, 128, 40)
    rows, method = [], "metis" if have_metis(b) else "ldg"
    for name, layer, width, deep in (("gcn", "gcn", 64, False), ("sage", "sage", 64, False), ("gcn, 3 layers of 256", "gcn", 256, True)):
        text = two_layers(layer, width)
        if deep:
            text = text.replace("  b = ", "  m = %s(O = %d)\n  b = " % (layer, width)).replace("b(relu(a(x)))", "b(relu(m(relu(a(x)))))")
        program, apart = [b.build("%s%d%s" % (layer, width, "".join(more)), text, data, *more) for more in ((), ("--sums-apart",))]
        whole = None
        for k in (1, 2, 4, 8):
            if k == 1:
                parts, halo = data, 0
            else:
                parts, says = b.parts(data, k, method)
                halo = says["halo_most"]
                most = max(r["owned"] + r["halo"] for r in says["ranks"])
            for sums in ("exact", "local", "local, sar") if k > 1 else ("exact",):
                more = ["--sums", sums.split(",")[0]] if k > 1 else []
                more += ["--policy", "sar"] if "sar" in sums else []
                plan = planned(b, apart if "sar" in sums else program, parts, *more)
                extra = ["--ranks", k, "--deadline", 300] + more if k > 1 else []
                measured, rc = peaks([apart if "sar" in sums else program, "train", "--data", parts, "--epochs", 2, "--threads", 1, "--blas", "off"] + extra)
                if rc:
                    rows.append([name, k, sums, "exit code %d" % rc] + [""] * 6)
                    continue
                whole = whole or max(measured)
                says = plan.get("process_bytes", {"least": 0, "most": 0})
                rows.append([name, k, sums if k > 1 else "", mb(min(measured)), mb(max(measured)), "%.2f" % (max(measured) / whole), "%.2f" % (1 / k),
                             "%.2f" % (1 if k == 1 else most / nodes), halo, mb(says["most"]) if k > 1 else ""])
    table(["network", "P", "sums", "least of a process, MB", "most, MB", "most over one process", "1/P", "owned and halo rows, most, of all", "halo, most", "planned, most, MB"], rows)
    return False


# ---- link ----------------------------------------------------------------------------------------------------------

AGENT = """#!/bin/bash
while [ "${1#-}" != "$1" ]; do shift; done
host=$1; shift
case $host in 10.77.0.1) ns=%(a)s ;; *) ns=%(b)s ;; esac
exec ip netns exec $ns unshare --uts bash -c "hostname $ns; $*"
"""


def link(b, a):
    mine, other = "gnnc%d-a" % os.getpid(), "gnnc%d-b" % os.getpid()

    def ip(*argv):
        b.run("ip", *argv)

    try:
        for ns in (mine, other):
            ip("netns", "add", ns)
        ip("link", "add", "gn0", "netns", mine, "type", "veth", "peer", "name", "gn0", "netns", other)
        for i, ns in ((1, mine), (2, other)):
            ip("-n", ns, "addr", "add", "10.77.0.%d/24" % i, "dev", "gn0")
            ip("-n", ns, "link", "set", "gn0", "up")
            ip("-n", ns, "link", "set", "lo", "up")
            b.run("ip", "netns", "exec", ns, "tc", "qdisc", "add", "dev", "gn0", "root", "tbf", "rate", "%dmbit" % a.mbit, "burst", "32kb",
                  "latency", "50ms")
        over_link(b, a, mine, other)
    except (Failed, OSError) as e:
        print("\nlink: this machine does not do it: %s" % e)
    finally:
        for ns in (mine, other):
            subprocess.run(["ip", "netns", "del", ns], stderr=subprocess.DEVNULL, check=False)
    return False


def over_link(b, a, mine, other):
    agent, rows, method = b.path("agent"), [], "metis" if have_metis(b) else "ldg"
    with open(agent, "w", encoding="ascii") as f:
        f.write(AGENT % {"a": mine, "b": other})
    os.chmod(agent, 0o755)
    data = generated(b, "linked", int(169343 * a.link_share), int(1166243 * a.link_share), 128, 40)
    parts = b.parts(data, 2, method)[0]
    mpi = ["ip", "netns", "exec", mine, "unshare", "--uts", "bash", "-c", "hostname %s; exec \"$@\"" % mine, "mpirun", "mpirun", "--allow-run-as-root",
           "--host", "10.77.0.1:1,10.77.0.2:1", "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", agent, "--mca", "pml", "ob1", "--mca", "btl", "tcp,self",
           "--mca", "btl_tcp_if_include", "gn0", "--mca", "oob_tcp_if_include", "gn0", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
           "-n", "2"]
    for name in ("gcn", "sage"):
        program = b.build(name + "link", two_layers(name, a.link_width), data)
        usual = ["--epochs", a.link_epochs, "--threads", "1", "--blas", "off", "--seed", "3"]
        took, sums = {}, {}
        for key, argv in (("one", [program, "train", "--data", data, "--save", b.path("one.st")]),
                          ("memory", [program, "train", "--data", parts, "--ranks", 2]),
                          ("waiting", mpi + [program, "train", "--data", parts, "--overlap", "off", "--ledger", b.path("waiting.json")]),
                          ("link", mpi + [program, "train", "--data", parts, "--ledger", b.path("link.json"), "--save", b.path("two.st")])):
            start = time.time()
            b.run(*argv, *usual, timeout=300)
            took[key] = time.time() - start
        for key in ("waiting", "link"):  # of training, not of what is sent before
            with open(b.path(key + ".json"), encoding="utf-8") as f:
                sites = [s for s in json.load(f)["sites"] if s["name"].startswith("train_step:")]
            sums[key] = {what: [sum(s["by_rank"][r][what] for s in sites) for r in (0, 1)] for what in ("bytes_out", "wait_s", "behind_s", "hidden_s")}
        with open(b.path("one.st"), "rb") as one, open(b.path("two.st"), "rb") as two:
            equal = one.read() == two.read()
        before, after = ({what: sum(sums[key][what]) for what in ("wait_s", "behind_s", "hidden_s")} for key in ("waiting", "link"))
        bytes_before, bytes_after = (x["wait_s"] - x["behind_s"] for x in (before, after))
        rows.append([name, "%.1f" % took["one"], "%.1f" % took["memory"], "%.1f" % took["waiting"], "%.1f" % took["link"], " ".join(map(mb, sums["link"]["bytes_out"])),
                     "%.2f" % (max(sums["link"]["bytes_out"]) * 8 / a.mbit / 1e6), "%.2f, %.2f" % (bytes_before, before["behind_s"]),
                     "%.2f, %.2f" % (bytes_after, after["behind_s"]), "%.2f" % after["hidden_s"],
                     "%.0f %%" % (100 - 100 * bytes_after / bytes_before), "equal" if equal else "differ"])
    table(["network", "one process, s", "two that share memory, s", "over the link without overlap, s", "with, s", "MB sent by each", "most bytes / rate, s",
           "both waited for bytes, for the other's call, without overlap, s", "with, s", "hidden, s", "less waiting for bytes", "weights"], rows)


# ---- scaling -------------------------------------------------------------------------------------------------------


def communities(b, k, a):
    """A community for each rank, ids in a row; edges inside it, but for a share whose sources lie anywhere."""
    g, n, out = np.random.default_rng(k), k * a.rows, b.path("communities-%d" % k)
    os.makedirs(out)
    dst = np.repeat(np.arange(n), 10)
    src = dst // a.rows * a.rows + g.integers(0, a.rows, len(dst))
    far = g.random(len(dst)) < a.far
    src[far] = g.integers(0, n, int(far.sum()))
    mask = np.arange(n) % 3 > 0
    for name, x in (("edge_index", np.stack([src, dst])), ("x", g.standard_normal((n, 64)).astype("<f4")), ("y", g.integers(0, 16, n)),
                    ("train_mask", mask), ("test_mask", ~mask)):
        np.save(os.path.join(out, name + ".npy"), x)
    with open(os.path.join(out, "meta.json"), "w", encoding="ascii") as f:
        json.dump({"num_nodes": n, "num_edges": len(dst), "num_classes": 16}, f)
    owners = b.path("owners-%d.npy" % k)
    np.save(owners, np.arange(n) // a.rows)
    return out, owners


def scaling(b, a):
    """Steps are timed once, on part 0 of the first graph with more ranks than one, so that all columns have the same times."""
    for kind in a.graphs:
        times, program = b.path("times-%s.json" % kind), None
        rows = {"exact": [], "local": []}
        for k in a.scale:
            if kind == "communities":
                data, method = communities(b, k, a)
            else:
                data, method = generated(b, "rmat-%d" % k, k * a.rows, 10 * k * a.rows, 64, 16), "ldg"
            parts, says = b.parts(data, k, method)
            shutil.rmtree(data)
            program = program or b.build("scaled-" + kind, two_layers("gcn", 64), parts + "/part-0", "--set", "F=64,C=16")
            for sums, table_ in rows.items():
                begun = time.time()
                argv = [program, "plan", "--data", parts, "--transport", "sim", "--json", "--times", times, "--sums", sums]
                x = json.loads(b.run(*argv, *(["--topology", a.topology] if a.topology else [])))["train_step"]
                r = x["blocking"]
                table_.append([k, says["halo"] // k, "%.2f" % (x["bytes"] / k / 1e6), x["rounds"]] + ["%.2f" % (1e3 * v) for v in (
                    r["compute_s"][0], r["compute_s"][1], r["copy_s"][0], r["wait_s"][0], r["run_s"])] + ["%.2f" % v for v in (
                        x["efficiency"], x["efficiency_overlap"], x["one_process_s"] / k / x["best"]["run_s"])] + [x["best_gathers"], "%.0f" % (time.time() - begun)])
            shutil.rmtree(parts)
        for sums, table_ in rows.items():
            print("\n%s, %d rows a rank, --sums=%s\n" % (kind, a.rows, sums))
            table(["P", "halo rows of a rank", "MB of a rank", "rounds", "computing, ms", "most", "copying", "waiting", "a run", "efficiency", "with overlap",
                   "and the best gathers", "which", "seconds to simulate"], table_)
    return False


# ---- policies ------------------------------------------------------------------------------------------------------

POLICIES = ["exact", "sancus=m1:2", "sancus=m1:5", "sancus=m2:1:8", "sancus=m3:0.1:8", "sancus=m3:0.3:16", "distgnn=5", "pipegcn", "bns=0.1", "bns=0.5", "cagnet1d"]


def policies(b, a):
    """Two layers of width 16. Bytes are of all processes in an epoch of the training step, without what is sent once; metrics are exact and cost the same for all."""
    epochs, rows, method = a.epochs or 100, [], "metis" if have_metis(b) else "ldg"
    for data in a.data or ["cora", "facebook_pages", "github_social"]:
        if not os.path.exists(b.path(data)):
            with_files(b, data)
        features = any(f.startswith("x") for f in os.listdir(b.path(data)))
        program = b.build(data + "-two", two_layers("gcn", 16, features), b.path(data), *([] if features else ["--set", "K=16"]))
        parts = b.parts(b.path(data), 4, method)[0]
        once, exact = [sum(t["rows"] * t["row_bytes"] for t in json.loads(b.run(program, "plan", "--data", parts, "--json", "--threads", 1, "--sums", s))
                           ["train_step"]["ranks"]["travels"] if t["once"] == first and t["kind"] != "rows") for s, first in (("local", True), ("exact", False))]
        whole = None
        for policy in POLICIES:
            b.run(program, "train", "--data", parts, "--ranks", 4, "--threads", 1, "--deadline", 300, "--epochs", epochs, "--seed", 1, "--seeds", a.seeds,
                  "--sums", "local", "--policy", policy, "--ledger", b.path("ledger.json"), "--metrics", b.path("m.jsonl"))
            with open(b.path("ledger.json"), encoding="utf-8") as f, open(b.path("m.jsonl"), encoding="utf-8") as g:
                sites, last = json.load(f)["sites"], json.loads(g.read().splitlines()[-1])
            sent = {s["name"]: 0 for s in sites}
            for s in sites:
                sent[s["name"]] += sum(r["bytes_out"] for r in s["by_rank"])
            step = sum(n for name, n in sent.items() if name.startswith("train_step:"))
            sums = sum(n for name, n in sent.items() if name.startswith("train_step:") and "that are shared out" in name)
            travel = (step - sums) / epochs / a.seeds
            local = (step / a.seeds - once) / epochs
            whole = whole or (travel, local, travel + exact)
            rows.append([data, policy, "%.3f ± %.3f" % (last["mean"]["test_acc"], last["deviation"]["test_acc"])] +
                        ["%.1f (%.2f)" % (n / 1e3, n / w) for n, w in zip((travel, local, travel + exact), whole)])
    table(["data", "policy", "test accuracy", "rows of peers, KB (of exact)", "with `--sums=local`, KB", "with exact sums, KB"], rows)
    print("\n%d seeds, %d epochs, 4 processes, parts by %s." % (a.seeds, epochs, method))
    return False


# ---- elastic -------------------------------------------------------------------------------------------------------

ELASTIC = {"gcn, 64": two_layers("gcn", 64), "gcn, 256": two_layers("gcn", 256),
           "gat, 8 x 32": two_layers("gcn", 64).replace("gcn(O = 64)", "gat(H = 8, D = 32)").replace("gcn(O = C)", "gat(H = 1, D = C)").replace("relu", "elu")}


def ended():
    """For a process that ends before its first epoch: the signal waits until it is asked for."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    os.kill(os.getpid(), signal.SIGTERM)


def elastic(b, a):
    """CPU seconds of all processes together, which others that use the machine change little. A start ends before the first epoch: processes load their parts,
    plan what travels, and send what is sent once. A run of no epoch also computes metrics and compares weights. Parts are made while others train."""
    rows, method = [], "metis" if have_metis(b) else "ldg"
    for data in a.data or ["facebook_pages", "arxiv"]:
        if data == "arxiv":
            generated(b, data, int(169343 * a.share), int(1166243 * a.share), 128, 40)
        else:
            with_files(b, data)
        for name, text in ELASTIC.items():
            program = b.build("elastic", text, b.path(data))
            for before, after in ((4, 2), (2, 4)):
                def spent(k, *more, **how):
                    parts, was = b.parts(b.path(data), k, method)[0], resource.getrusage(resource.RUSAGE_CHILDREN)
                    b.run(program, "train", "--data", parts, "--ranks", k, "--threads", 1, "--deadline", 300, "--blas", "off", *more, **how)
                    now = resource.getrusage(resource.RUSAGE_CHILDREN)
                    return now.ru_utime + now.ru_stime - was.ru_utime - was.ru_stime
                spent(before, "--epochs", 1, "--checkpoint", b.path("c.st"))
                start = min(spent(after, "--epochs", 11, "--resume", b.path("c.st"), code=75, preexec_fn=ended) for _ in range(3))
                restart = min(spent(after, "--epochs", 1, "--resume", b.path("c.st")) for _ in range(3))
                epoch = (spent(after, "--epochs", 11, "--resume", b.path("c.st")) - restart) / 10
                rows.append([data, name, "%d, %d" % (before, after), "%.2f" % start, "%.2f" % restart, "%.3f" % epoch, "%.1f" % (start / epoch), "%.1f" % (restart / epoch)])
    table(["data", "network", "processes before, after", "start, CPU s", "run of no epoch, CPU s", "an epoch, CPU s", "start, epochs", "run of no epoch, epochs"], rows)
    return False


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("build"), ap.add_argument("parts", nargs="*", metavar="PART", help="bits, columns, memory, link, scaling, policies, elastic; default all")
    ap.add_argument("--minutes", type=float, default=1e9, help="bits: begin no run after so many minutes, and say how many are left")
    ap.add_argument("--log", help="bits: a file that says what ran; runs that it has are not run again")
    ap.add_argument("--epochs", type=int, help="bits, policies: epochs of a run (20, 100)")
    ap.add_argument("--data", type=lambda s: s.split(","), help="bits, policies, elastic: data sets")
    ap.add_argument("--networks", type=lambda s: s.split(","), default=list(LAYERS), help="bits: networks")
    ap.add_argument("--ranks", type=lambda s: [int(x) for x in s.split(",")], default=RANKS, help="bits: numbers of processes")
    ap.add_argument("--nodes", type=int, default=16384, help="columns: nodes of the graph, with 10 edges each")
    ap.add_argument("--share", type=float, default=1, help="memory, elastic: share of the size of arxiv")
    ap.add_argument("--mbit", type=int, default=1000, help="link: Mbit/s")
    ap.add_argument("--link-share", type=float, default=0.25, help="link: share of the size of arxiv")
    ap.add_argument("--link-width", type=int, default=64, help="link: width of the layers")
    ap.add_argument("--seeds", type=int, default=5, help="policies: runs of each, of --epochs (default there 100)")
    ap.add_argument("--link-epochs", type=int, default=10, help="link: epochs of a run")
    ap.add_argument("--scale", type=lambda s: [int(x) for x in s.split(",")], default=[1, 4, 16, 64, 256, 1024], help="scaling: numbers of ranks")
    ap.add_argument("--graphs", type=lambda s: s.split(","), default=["communities", "rmat"], help="scaling: kinds of graphs")
    ap.add_argument("--rows", type=int, default=2048, help="scaling: rows a rank")
    ap.add_argument("--far", type=float, default=0.02, help="scaling: share of edges between communities")
    ap.add_argument("--topology", help="scaling: a file for --topology")
    a = ap.parse_args()
    every = {"bits": bits, "columns": columns, "memory": memory, "link": link, "scaling": scaling, "policies": policies, "elastic": elastic}
    for p in a.parts:
        if p not in every:
            ap.error("no part `%s`" % p)
    with tempfile.TemporaryDirectory(prefix="gnnc-bench-ranks-") as folder:
        b, failed = Bench(a.build, folder), False
        for p in a.parts or every:
            failed |= every[p](b, a)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
