#!/usr/bin/env python3
"""Sizes of dims cost the compiler nothing: models with dims of billions, of millions and of some hundred thousand are built in little
memory and time. usage: test_large_dims.py BUILD"""
import os
import resource
import subprocess
import sys

from sandbox import Sandbox

box = Sandbox(sys.argv[1], "large_dims")
MIB, SECONDS = (900, 60) if box.sanitized else (600, 6)  # of the CPU
TRAIN = """train net {
  loss = cross_entropy(net(data.x%s), data.y) on data.train
  optimizer adam(0.01)
  epochs 3
}
"""
MODELS = {
    "tables": ("F C K", "model net(x: node[F], kind: node index[K]) -> node[C] {\n  param emb: [K, C] = normal(0, 1)\n"
               "  return linear(x, O = C) + emb[kind] + sum_in(emb[kind].src)\n}\n" + TRAIN % ", data.kind"),
    "matrices_by_kind": ("F C R", "model net(x: node[F], rel: edge index[R]) -> node[C] {\n  param W: [R, F, C] = normal(0, 1)\n  return sum_in(x.src @ W[rel])\n}\n"),
    "sums": ("F", "model net(x: node[F]) -> node[F] = mean_in(x.src) + max_in(x.src)\n"),
    "labels": ("C", "model net(y: node index[C], some: node[] bool) -> node[C] = label_propagation(y, some)\n"),
    "orders": ("F", "model net(x: node[F]) -> node[F] = median_in(x.src) + float(sum_in(rank_in(x.src))) + std_in(x.src)\n"),
    "attention": ("F C", "model net(x: node[F]) -> node[C] = flatten(gat(dropout(x, 0.5), H = 1, D = C))\n" + TRAIN % ""),
    "similarity": ("F", "model net(x: node[F]) -> node[F] = agnn(x)\n"),
    "rows": ("F H", "model net(x: node[H, F]) -> node[H, F] = sum_in(softmax_in(x.src) * x.src) + softmax(x, F) + max(x, F) + float(iota(F)) + rand(node[H, F])\n"),
    "places": ("F", "model net(x: node[F], k: node index[F]) -> node[F] = x[k] + one_hot(k)\n"),
    "concatenations": ("F D C", "model net(x: node[F], e: edge[D]) -> node[C] = linear(sum_in(relu(cat(x.src, cat(x.dst, e)))), O = C)\n"),
    "neighbours": ("F O", "model net(x: node[F]) -> node[O] {\n  near = knn(x, 8)\n"
                   "  return over near { max_in(linear(cat(x.dst, x.src - x.dst), O = O)) }\n}\n"),
    "readouts": ("F", "model net(x: node[F]) -> graph[F] = readout_max(x) + readout_median(x)\n"),
}


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    if not box.sanitized:
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))


def built(name, argv):
    """Whether it was built (else a row of a value has more bytes than can be counted, E0211), and what is wrong: its code, CPU seconds or MiB."""
    with open(box.path("said"), "w+b") as said:
        p = subprocess.Popen([box.gnnc, "build", name + ".gnn", "--emit=plan", *argv], cwd=box.root, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=said, preexec_fn=limit)
        _, status, used = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read().decode("utf-8", "replace")
    mib, seconds = used.ru_maxrss >> 10, used.ru_utime + used.ru_stime
    right = p.returncode == 0 or (p.returncode == 1 and "E0211" in text)
    bad = not right or "Sanitizer" in text or mib > MIB or seconds > SECONDS
    return p.returncode == 0, bad and "%s: exit code %d, %d MiB, %.1f s: %s" % (" ".join(argv), p.returncode, mib, seconds, text[:300])


for name, (dims, text) in MODELS.items():
    box.write(name + ".gnn", text)
    dims, wrong, n_built = dims.split(), None, 0
    for size in (2147483646, 4294967296, 300000):
        for large in [dims] + [[d] for d in dims if len(dims) > 1]:
            sizes = ",".join("%s=%d" % (d, size if d in large else 4) for d in dims)
            done, bad = (False, None) if wrong else built(name, ["--set", sizes])
            wrong, n_built = wrong or bad, n_built + done
    box.report(name, wrong or (n_built <= len(dims) and "only %d were built" % n_built))
box.close()
