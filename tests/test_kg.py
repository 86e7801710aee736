#!/usr/bin/env python3
"""Knowledge graphs: scores of triples and their gradients, and filtered places among all nodes, with ties, against numpy; epochs
of several steps; what is refused; the loss of examples/rotate.gnn. usage: test_kg.py BUILD"""
import json
import os
import resource
import sys

import numpy as np
from sandbox import Sandbox

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden"))
import tensors  # noqa: E402

N, R, D = 19, 3, 4


def write_weights(box, weights):
    with open(box.path("w"), "wb") as f:
        f.write(tensors.pack(weights))


def triples(rng, n, N):
    return np.stack([rng.integers(N, size=n), rng.integers(R, size=n), rng.integers(N, size=n)], 1)


def folder(box, split=False, N=N, n_test=40):
    """Triples of which some stand in two lists, or twice in one; split: ends and kinds in files of their own."""
    rng = np.random.default_rng(1)
    train, valid, test = triples(rng, 120, N), triples(rng, 25, N), triples(rng, n_test, N)
    test[:4], valid[:3], test[7] = train[:4], train[5:8], test[8]
    out = box.path("data%d" % len(os.listdir(box.root)))
    os.makedirs(out)
    for stem, t in (("edge", train), ("valid", valid), ("test", test)):
        if stem == "edge" or split:
            np.save(os.path.join(out, stem + "_index.npy"), np.ascontiguousarray(t[:, [0, 2]].T))
            np.save(os.path.join(out, stem + "_type.npy"), np.ascontiguousarray(t[:, 1]))
        else:
            np.save(os.path.join(out, stem + "_triples.npy"), t)
    json.dump({"num_nodes": N, "num_edges": len(train), "num_relations": R}, open(os.path.join(out, "meta.json"), "w"))
    return out, train, valid, test


# ---- scores, by numpy: h, r, t [..., D] or [..., 2, D] ----

def product(h, r):
    return h[..., 0, :] * r[..., 0, :] - h[..., 1, :] * r[..., 1, :], h[..., 0, :] * r[..., 1, :] + h[..., 1, :] * r[..., 0, :]


def transe(p):
    length = lambda x: np.abs(x).sum(-1) if p == 1 else np.sqrt((x * x).sum(-1))
    return lambda h, r, t: -length(h + r - t), lambda e: e / np.maximum(length(e), 1e-12)[..., None]


def distmult(h, r, t):
    return (h * r * t).sum(-1)


def complex_(h, r, t):
    re, im = product(h, r)
    return (re * t[..., 0, :] + im * t[..., 1, :]).sum(-1)


def rotate(margin, each):
    def score(h, r, t):
        re, im = product(h, np.stack([np.cos(r), np.sin(r)], -2))
        far = (re - t[..., 0, :]) ** 2 + (im - t[..., 1, :]) ** 2
        return margin - (np.sqrt(far).sum(-1) if each else np.sqrt(far.sum(-1)))
    return score


same = lambda e: e
# the layer, the shapes of a node and of a relation, the score, what is done with embeddings of nodes before
LAYERS = [("transe(D = 4)", (D,), (D,), *transe(1)), ("transe(D = 4, p = 2)", (D,), (D,), *transe(2)),
          ("distmult(D = 4)", (D,), (D,), distmult, same), ("complex(D = 4)", (2, D), (2, D), complex_, same),
          ("rotate(D = 4)", (2, D), (D,), rotate(1, False), same),
          ("rotate(D = 4, margin = 9, each = true)", (2, D), (D,), rotate(9, True), same)]
ONE_STEP = """
model net(edge_type: edge index[R]) -> edge {
  score = %s
  return score(edge_type)
}
train net {
  loss = bce_with_logits(net(data.edge_type), float(data.edge_type == 1))
  metric sum = sum_all(net(data.edge_type))
  optimizer sgd(1)
  epochs 1
}
"""


def test_scores(box):
    """Outputs and gradients of the layers; the gradients by differences."""
    data, train, _, _ = folder(box)
    rng = np.random.default_rng(2)
    for i, (layer, node, relation, score, first) in enumerate(LAYERS):
        exe = box.path("score%d" % i)
        box.must(box.gnnc, "build", box.write("score.gnn", ONE_STEP % layer), "--data", data, "--dtype", "f64", "--cpu", "native", "-o", exe)
        box.must(exe, "train", "--data", data, "--epochs", 0, "--save", box.path("names"))
        names = sorted(tensors.read(box.path("names")))  # E or node_emb..., W or rel_emb...
        e, w = rng.normal(size=(N,) + node), rng.normal(size=(R,) + relation)
        write_weights(box, dict(zip(names, (e, w))))
        found = float(dict(x.split() for x in box.must(exe, "eval", "--data", data, "--weights", box.path("w")).out.splitlines())["sum"])

        def scores(e, w):
            x = first(e)
            return score(x[train[:, 0]], w[train[:, 1]], x[train[:, 2]])
        if not abs(found - scores(e, w).sum()) <= 1e-3 * np.abs(scores(e, w)).sum():
            return "%s: scores sum up to %g, wanted %g" % (layer, found, scores(e, w).sum())
        start = tensors.read(box.path("names"))
        box.must(exe, "train", "--data", data, "--save", box.path("after"))
        after = tensors.read(box.path("after"))
        e, w = (start[n].astype("f8") for n in names)
        loss = lambda e, w: np.mean(np.logaddexp(0, scores(e, w)) - (train[:, 1] == 1) * scores(e, w))
        for k, a in enumerate((e, w)):
            moved, want = start[names[k]] - after[names[k]], np.zeros(a.shape)
            for at in np.ndindex(a.shape):
                kept = a[at]
                side = []
                for step in (1e-6, -1e-6):
                    a[at] = kept + step
                    side.append(loss(e, w))
                a[at] = kept
                want[at] = (side[0] - side[1]) / 2e-6
            if not np.abs(moved - want).max() <= 1e-6 * max(1, np.abs(want).max()):
                return "%s: the gradient of %s is off by %g" % (layer, names[k], np.abs(moved - want).max())


PLACES = """
model net(edge_type: edge index[R]) -> edge {
  param E: node[%s] = normal(0, 1)
  param W: [R, %s] = normal(0, 1)
  return sum(sum(E.src) + sum(E.dst) + sum(W[edge_type]))
}
fn score(h, r, t) = %s
train net {
  known = net(data.edge_type)
  loss = known
  test = data.test_index
  r = over data.test_index { %s }
  back = reverse(test, fill r = 0)
  true_tails = answers(test, g, data.valid_index, test, by = type)
  true_heads = answers(back, reverse(g), reverse(data.valid_index), back, by = type)
  all = over test { ranks(score, net.E, r) }
  tails = over test { ranks(score, net.E, r, known = true_tails) }
  heads = over back { ranks(score, net.E, r, known = true_heads, heads = true) }
  any = over test { ranks(score, net.E, r, known = answers(test, data.edge_index)) }
  metric all_mean = mean_all(all)
  metric tail_mrr = mean_all(1 / tails)
  metric tail_mean = mean_all(tails)
  metric tail_10 = mean_all(where(tails <= 10, 1, 0))
  metric head_mrr = mean_all(1 / heads)
  metric head_mean = mean_all(heads)
  metric any_mean = mean_all(any)
  optimizer sgd(0.1)
  epochs 1
}
"""


def places(score, e, w, known, test, heads, kinds=True):
    """The place of each true node, by one loop over nodes for each triple."""
    out = []
    for h, r, t in test:
        right, others = (h, t) if heads else (t, h)
        rank = 1.0
        own = score(e[h], w[r], e[t])
        for v in range(N):
            triple = (v, r, t) if heads else (h, r, v)
            skip = triple in known if kinds else any((h, k, v) in known for k in range(R))
            if v == right or skip:
                continue
            s = score(e[triple[0]], w[r], e[triple[2]])
            rank += 1.0 if s > own else 0.5 if s == own else 0.0
        out.append(rank)
    return np.array(out)


def test_places(box):
    """Small whole numbers make many ties; for rotations there are none."""
    data, train, valid, test = folder(box)
    parts, _, _, _ = folder(box, split=True)
    known = set(map(tuple, np.concatenate([train, valid, test]).tolist()))
    rng = np.random.default_rng(3)
    forms = [("4", "4", "distmult_score(h, r, t)", "net.W[data.test_type]", distmult),
             ("4", "4", "transe_score(h, r, t)", "net.W[data.test_type]", transe(1)[0]),
             ("2, 4", "2, 4", "complex_score(h, r, t)", "net.W[data.test_type]", complex_),
             ("2, 4", "4", "rotate_score(h, r, t)", "rotation(net.W[data.test_type])", rotate(1, False))]
    for i, (node, relation, text, r, score) in enumerate(forms):
        shape = lambda s: tuple(map(int, s.split(", ")))
        whole = "rotate" not in text
        draw = lambda s: (rng.integers(-1, 2, size=s) if whole else rng.normal(size=s)).astype("f4")
        e, w = draw((N,) + shape(node)), draw((R,) + shape(relation))
        exe = box.path("places%d" % i)
        box.must(box.gnnc, "build", box.write("places.gnn", PLACES % (node, relation, text, r)), "--data", data, "--cpu", "native", "-o", exe)
        write_weights(box, {"E": e, "W": w})
        told = {}
        for threads, where in ((1, data), (3, parts)):
            out = box.must(exe, "eval", "--data", where, "--weights", box.path("w"), "--threads", threads).out
            told[threads] = {x.split()[0]: float(x.split()[1]) for x in out.splitlines()}
        if told[1] != told[3]:
            return "%s: %s with triples in one file, %s in two" % (text, told[1], told[3])
        e, w = (e, w) if whole else (e.astype("f8"), w.astype("f8"))
        tails, heads = places(score, e, w, known, test, False), places(score, e, w, known, test, True)
        want = {"all_mean": places(score, e, w, set(), test, False).mean(), "tail_mrr": (1 / tails).mean(), "tail_mean": tails.mean(),
                "tail_10": (tails <= 10).mean(), "head_mrr": (1 / heads).mean(), "head_mean": heads.mean(),
                "any_mean": places(score, e, w, set(map(tuple, train.tolist())), test, False, kinds=False).mean()}
        wrong = {k: (told[1][k], want[k]) for k in want if not abs(told[1][k] - want[k]) <= 1e-4}
        if wrong:
            return "%s: %s" % (text, wrong)
        if whole and not any(p % 1 for p in tails):
            return "%s: there are no ties" % text


def test_no_array(box):
    """Nine million pairs are walked through where there is no room for a list of them."""
    data, _, _, _ = folder(box, N=3000, n_test=3000)
    exe, room = box.path("walk"), 160 << 20
    box.must(box.gnnc, "build", box.write("walk.gnn", PLACES % ("4", "4", "distmult_score(h, r, t)", "net.W[data.test_type]")), "--data", data,
             "--cpu", "native", "-o", exe)
    if box.sanitized:
        return box.skip("no_array", "sanitizers take address space of their own")
    box.must(exe, "train", "--data", data, "--threads", 1, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (room, room)))
    return "candidates []" in box.must(exe, "plan", "--data", data).out and "something of each pair is kept"


ONE_OF_ALL = """
model net(edge_type: edge index[R]) -> [] {
  param E: node[4] = normal(0, 1)
  param W: [R, 4] = normal(0, 1)
  q = E.src * W[edge_type]
  s = dot(q, E.dst, 4)
  return mean_all(over candidates(g) { logsumexp_in(dot(q.dst, E.src, 4)) } - s)
}
train net {
  loss = net(data.edge_type)
  optimizer sgd(1)
  epochs 1
}
"""


def test_derived(box):
    """A softmax over all nodes, whose gradient is summed into candidates: there the pairs are in lists."""
    data, train, _, _ = folder(box)
    text = ONE_OF_ALL.replace("node[4]", "node[D]").replace("[R, 4]", "[R, D]").replace(", 4)", ", D)")
    box.must(box.gnnc, "build", box.write("all.gnn", text), "--data", data, "--set", "D=4", "--dtype", "f64", "--cpu", "native", "-o", box.path("all"))
    box.must(box.path("all"), "train", "--data", data, "--epochs", 0, "--save", box.path("a"))
    box.must(box.path("all"), "train", "--data", data, "--save", box.path("b"))
    before, after = tensors.read(box.path("a")), tensors.read(box.path("b"))
    e, w = before["E"].astype("f8"), before["W"].astype("f8")
    h, r, t = train.T
    q = e[h] * w[r]
    p = np.exp(q @ e.T)
    p /= p.sum(1, keepdims=True)
    p[np.arange(len(h)), t] -= 1
    p /= len(h)
    by_e, by_w, by_q = p.T @ q, np.zeros_like(w), p @ e
    np.add.at(by_e, h, by_q * w[r])
    np.add.at(by_w, r, by_q * e[h])
    off = max(np.abs(before["E"] - after["E"] - by_e).max(), np.abs(before["W"] - after["W"] - by_w).max())
    return not off <= 1e-6 and "gradients are off by %g" % off


STEPS = """
model net(edge_type: edge index[R]) -> [] {
  param E: node[D] = normal(0, 0.1)
  pairs p = negatives(g, k = 2)
  return mean_all(softplus(-dot(E.src, E.dst, D))) + over p { mean_all(softplus(dot(E.src, E.dst, D))) }
}
train net {
  loss = net(data.edge_type)
  optimizer adam(0.1 / (1 + step))
  epochs %d
  %s
}
"""


def test_steps(box):
    """Two epochs of three steps are six epochs, with what is drawn for each step; also where a run was broken."""
    data, _, _, _ = folder(box)
    found = []
    for name, epochs, steps in (("six", 6, ""), ("two", 2, "steps 3")):
        box.must(box.gnnc, "build", box.write(name + ".gnn", STEPS % (epochs, steps)), "--data", data, "--set", "D=4", "--cpu", "native", "-o", box.path(name))
        box.must(box.path(name), "train", "--data", data, "--save", box.path(name + ".w"), "--metrics", box.path(name + ".log"))
        found.append((tensors.read(box.path(name + ".w"))["E"], [json.loads(x)["loss"] for x in open(box.path(name + ".log")) if "final" not in x]))
    (six, losses), (two, means) = found
    if (six != two).any():
        return "other weights"
    box.must(box.path("two"), "train", "--data", data, "--epochs", 1, "--checkpoint", box.path("c"))
    box.must(box.path("two"), "train", "--data", data, "--resume", box.path("c"), "--save", box.path("resumed"))
    if (tensors.read(box.path("resumed"))["E"] != six).any():
        return "other weights when resumed"
    want = [np.mean(losses[:3]), np.mean(losses[3:])]
    return not np.allclose(means, want, rtol=1e-6) and "losses are %s, wanted %s" % (means, want)


def test_refused(box):
    """Files that do not fit are named."""
    data, _, _, test = folder(box)
    parts, _, _, _ = folder(box, split=True)
    exe = box.path("refused")
    box.must(box.gnnc, "build", box.write("refused.gnn", PLACES % ("4", "4", "distmult_score(h, r, t)", "net.W[data.test_type]")), "--data", data,
             "--cpu", "native", "-o", exe)
    write_weights(box, {"E": np.zeros((N, 4), "f4"), "W": np.zeros((R, 4), "f4")})

    def refused(where, code, word):
        r = box.run(exe, "eval", "--data", where, "--weights", box.path("w"))
        return (r.rc == 0 or code not in r.err or word not in r.err) and "wanted %s with %s, found %d: %s" % (code, word, r.rc, r.err)
    valid = os.path.join(parts, "valid_type.npy")
    kept = np.load(valid)
    np.save(valid, kept[1:])
    wrong = refused(parts, "R112", "valid_type")
    os.remove(valid)
    wrong = wrong or refused(parts, "R117", "valid_type")
    np.save(os.path.join(data, "test_triples.npy"), test[:, :2])
    return wrong or refused(data, "R110", "test_triples")


def test_rotate(box):
    """The loss of examples/rotate.gnn with all nodes as rivals, by distances of all pairs; and the same steps on the shim of a GPU."""
    data, train, _, _ = folder(box)
    text = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "rotate.gnn")).read()
    for long, short in ("width = 100", "width = 4"), ("rivals = 256", "rivals = %d" % N), ("steps 250", "steps 1"), ("size = 0", "size = 0.1"):
        if text.count(long) != 1:
            return "the example has no line `%s`" % long
        text = text.replace(long, short)
    exe = box.path("rotate")
    box.must(box.gnnc, "build", box.write("rotate.gnn", text), "--data", data, "--cpu", "generic", "--target", "shim", "--quick", "-o", exe, limit=600)
    box.must(exe, "train", "--data", data, "--epochs", 0, "--save", box.path("a"))
    for device in "cpu", "shim":
        box.must(exe, "train", "--data", data, "--epochs", 2, "--device", device, "--blas", "off", "--save", box.path(device), "--metrics", box.path(device + ".log"))
    if any(open(box.path("cpu" + end), "rb").read() != open(box.path("shim" + end), "rb").read() for end in ("", ".log")):
        return "other bytes on the shim"
    start = tensors.read(box.path("a"))
    x = start["E"][:, 0].astype("f8") + 1j * start["E"][:, 1]
    h, r, t = x[train[:, 0]], np.exp(1j * start["W"].astype("f8"))[train[:, 1]], x[train[:, 2]]
    far = lambda a, b: (np.abs(a - b) ** 2).sum(-1)
    loss = 0
    for true, all in (far(h * r, t), far((h * r)[:, None], x)), (far(h, t / r), far(x, (t / r)[:, None])):
        loss += np.mean(np.log(np.exp(-true) + np.exp(-all).sum(1)) + true)
    loss += 0.1 * np.mean((np.abs(h) ** 3).sum(1) + (np.abs(t) ** 3).sum(1))
    found = json.loads(open(box.path("cpu.log")).readline())["loss"]
    return not abs(found - loss) <= 1e-4 * loss and "the loss is %g, wanted %g" % (found, loss)


TURNED = """model net(edge_type: edge index[R]) -> edge {
  param E: node[D] = normal(0, 1)
  param W: [R, D] = normal(0, 1)
  return sum(E.src * cos(W[edge_type]) + E.dst * sin(W[edge_type]))
}
"""


def test_at_table(box):
    """What is made of a relation's row is made once for each of 40 relations, where no edge can have another one: the row of such reads 0, of which
    the cosine is not 0. Results are those at the edges."""
    out = folder(box, split=True)[0]
    with open(os.path.join(out, "meta.json")) as f:
        meta = dict(json.load(f), num_relations=40)
    with open(os.path.join(out, "meta.json"), "w") as f:
        json.dump(meta, f)
    model = box.write("turned.gnn", TURNED)
    for more, where in (["--data", out], "R.rows"), (["--set", "R=40"], "edge"):
        text = box.must(box.gnnc, "ir", model, "--set", "D=8", "--run=simplify,cse,dce,table,reorder", *more).out
        found = {line.split(" : ")[1].split("[")[0] for line in text.splitlines() if "= cos " in line}
        if found != {where}:
            return "cosines are computed at %s, wanted %s: %s" % (found, where, more)
    rng, results = np.random.default_rng(2), []
    write_weights(box, {"E": rng.standard_normal((N, 8)).astype("f4"), "W": rng.standard_normal((40, 8)).astype("f4")})
    for name, more in (("table", []), ("edges", ["--disable=reorder"])):
        box.must(box.gnnc, "build", model, "--data", out, "--set", "D=8", "--quick", "--cpu=native", "-o", name, *more)
        box.must(box.path(name), "infer", "--data", out, "--weights", "w", "--out", "s.npy")
        results.append(np.load(box.path("s.npy")))
    return not np.allclose(results[0], results[1], atol=1e-5) and "other results"


TESTS = [test_scores, test_places, test_no_array, test_derived, test_steps, test_refused, test_at_table, test_rotate]


box = Sandbox(sys.argv[1], "kg")
for one in TESTS:
    if not sys.argv[2:] or any(word in one.__name__ for word in sys.argv[2:]):
        box.report(one.__name__[5:], one(box))
box.close()
