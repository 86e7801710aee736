#!/usr/bin/env python3
"""Training against numpy: the steps are counted, and each optimizer of the standard library gives the weights that its
formula gives for softmax regression on the training nodes. usage: test_training.py BUILD
Run: lesser if long"""
import os
import subprocess
import sys

import numpy as np
from sandbox import Sandbox

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden"))
import tensors  # noqa: E402

EPOCHS = 6
MODEL = """%s
model net(x: node[F]) -> node[C] {
  param W: [F, C] = %s
  return x @ W
}
train net {
  loss = cross_entropy(net(data.x), data.y) on data.train
  metric val_acc = accuracy(net(data.x), data.y) on data.val
  hyper lr = 0.1
  optimizer %s
  epochs %d
  seed 0
}
"""


def read_all(path):
    return {k: v.astype("f8") for k, v in tensors.read(path).items()}


def read_weights(path):
    (weights,) = read_all(path).values()
    return weights


def gradient(x, y, W):
    """d/dW of the mean cross entropy over the rows of x."""
    h = x @ W
    p = np.exp(h - h.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    p[np.arange(len(y)), y] -= 1
    return x.T @ p / len(y)


def sgd(W, g, t, s):
    return W - 0.1 * g


def momentum(W, g, t, s):
    s["v"] = 0.9 * s.get("v", 0) + g
    return W - 0.1 * s["v"]


def adam(W, g, t, s, decay=0.0):
    g = g + decay * W
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
    s["v"] = 0.999 * s.get("v", 0) + 0.001 * g * g
    return W - 0.1 / (1 - 0.9 ** t) * s["m"] / (np.sqrt(s["v"] / (1 - 0.999 ** t)) + 1e-8)


CASES = [
    ("sgd", "sgd(lr)", sgd),
    ("momentum", "momentum(lr)", momentum),
    ("adam", "adam(lr)", adam),
    ("adam_decay", "adam(lr, weight_decay = 0.05)", lambda W, g, t, s: adam(W, g, t, s, 0.05)),
    ("adamw", "adamw(lr, weight_decay = 0.05)", lambda W, g, t, s: adam(W * (1 - 0.1 * 0.05), g, t, s)),
]


BUFFERS = """
layer running(x: node[F]) -> node[F] {
  buffer mean: [F] = zeros as "running_mean"
  buffer seen: [] int = zeros
  if training {
    mean = 0.9 * mean + 0.1 * mean_all(x)
    seen += 1
  }
  return x - mean
}
model net(x: node[F]) -> node[C] {
  norm = running()
  param W: [F, C] = 0
  return norm(norm(x)) @ W
}
train net {
  loss = cross_entropy(net(data.x), data.y) on data.train
  metric val_acc = accuracy(net(data.x), data.y) on data.val
  hyper lr = 0.1
  optimizer sgd(lr)
  epochs %d
}
"""
ROWS = """
model net(y: node index[C]) -> node[C] {
  param emb: node[C] = 0 as "emb.weight" [C]
  param table: [C, C'] = 0
  row: node[C] = table[y]
  return emb + row
}
train net {
  loss = cross_entropy(net(data.y), data.y) on data.train
  hyper lr = 0.1
  optimizer sgd(lr)
  epochs %d
}
"""


SCHEDULED = """
schedule halves(n) {
  state k = 1
  step { k = if n > 1 then k / n else k }
  done = k
}
model net(x: node[F]) -> node[C] {
  param W: [F, C] = 0.5
  return x @ W
}
train net {
  loss = cross_entropy(net(data.x), data.y) on data.train
  metric val_loss = cross_entropy(net(data.x), data.y) on data.val
  hyper lr = 0.4, most = 0.05
  drop = plateau(val_loss, factor = 0.5, patience = 1, threshold = 0.01)
  half = halves(2)
  %s
  optimizer sgd(%s)
  epochs %d
}
"""


def rates(x, y, mask, val, epochs, rate, clip=lambda g: g):
    """Weights after plain descent at the rates of torch's formulas; rate: of epoch, epochs and what plateau gives."""
    W, best, bad, scale = np.full((x.shape[1], 3), 0.5), np.inf, 0, 1.0
    for epoch in range(epochs):
        W = W - rate(epoch, epochs, scale) * clip(gradient(x[mask], y[mask], W))
        h = x[val] @ W
        loss = (np.log(np.exp(h).sum(1)) - h[np.arange(len(h)), y[val]]).mean()
        bad, best = (0, loss) if loss < best * 0.99 else (bad + 1, best)
        if bad > 1:
            bad, scale = 0, scale * 0.5
    return W


def to_norm(g, most):
    return g * min(1, most / (np.sqrt((g * g).sum()) + 1e-6))


SCHEDULES = [
    ("formula", "", "lr * pow(0.9, epoch) / (1 + step)", lambda e, n, s: 0.4 * 0.9 ** e / (1 + e), {}),
    ("warmup_cosine", "", "lr * warmup(epoch, 4) * cosine(epoch, epochs, least = 0.1)",
     lambda e, n, s: 0.4 * min((e + 1) / 4, 1) * (0.1 + 0.9 * 0.5 * (1 + np.cos(np.pi * e / n))), {}),
    ("step_decay", "", "lr * step_decay(step, every = 3, factor = 0.5) * exponential_decay(epoch)",
     lambda e, n, s: 0.4 * 0.5 ** (e // 3) * 0.95 ** e, {}),
    ("plateau", "", "lr * drop", lambda e, n, s: 0.4 * s, {}),
    ("own_schedule", "", "lr * half", lambda e, n, s: 0.4 * 0.5 ** (e + 1), {}),
    ("clip_norm", "clip_norm most", "lr", lambda e, n, s: 0.4, {"clip": lambda g: to_norm(g, 0.05)}),
    ("clip_value", "clip_value 0.01", "lr", lambda e, n, s: 0.4, {"clip": lambda g: np.clip(g, -0.01, 0.01)}),
    ("clip_both", "clip_norm 0.02\n  clip_value 0.01", "lr", lambda e, n, s: 0.4,
     {"clip": lambda g: to_norm(np.clip(g, -0.01, 0.01), 0.02)}),
]


def scheduled(box, x, y, mask, val, name, clip, text, rate, more):
    got = train_text(box, name, SCHEDULED % (clip, text, 12))["W"]
    far = np.abs(got - rates(x, y, mask, val, 12, rate, **more)).max()
    return None if far < 2e-5 else "off by %g" % far


def schedule_resumes(box):
    """Plateau's states, and what it knows of metrics, are in a checkpoint; --epochs moves the end of a cosine."""
    train_text(box, "both", SCHEDULED % ("clip_norm 0.1", "lr * drop / (1 + 0.1 * step)", 14))
    run = box.path("both")
    box.must(run, "train", "--data", "data", "--epochs", 7, "--checkpoint", "half.ck")
    box.must(run, "train", "--data", "data", "--resume", "half.ck", "--save", "again.st")
    if np.any(read_weights(box.path("both.safetensors")) != read_weights(box.path("again.st"))):
        return "the resumed weights differ"
    whole = train_text(box, "wave", SCHEDULED % ("", "lr * cosine(epoch, epochs)", 14))["W"]
    box.must(box.path("wave"), "train", "--data", "data", "--epochs", 7, "--save", "short.st")
    x, y, mask, val = (np.load(box.path("data", f + ".npy")) for f in ("x", "y", "train_mask", "val_mask"))
    want = rates(x.astype("f8"), y, mask, val, 7, lambda e, n, s: 0.4 * 0.5 * (1 + np.cos(np.pi * e / n)))
    far = np.abs(read_weights(box.path("short.st")) - want).max()
    return "--epochs 7 is off by %g" % far if far > 2e-5 or np.all(whole == want) else None


def infinite_gradient(box):
    """A gradient that is not finite ends the run before it spoils the weights, by name."""
    box.write("steep.gnn", SCHEDULED.replace("return x @ W", "return sqrt(0 * (x @ W))") % ("clip_norm 1", "lr", 3))
    box.must(box.gnnc, "build", "steep.gnn", "--data", "data", "--cpu=native", "-o", box.path("steep"))
    box.refuses("infinite_gradient", (box.path("steep"), "train", "--data", "data"), 5, "R502", "norm of the gradient of epoch 1")


FIT = """
const scale = 2
model net(x: node[F]) -> node[C] {
  const mean = fit(scale * mean_all(x)) as "x_mean"
  param W: [F, C] = 0.5
  return (x - mean) @ W
}
train net {
  loss = cross_entropy(net(data.x), data.y) on data.train
  metric val_acc = accuracy(net(data.x), data.y) on data.val
  optimizer sgd(0.1)
  epochs 2
}
"""


def fit(box, x):
    """Training computes the constant and stores it; infer reads it, whatever its own data are."""
    got, want = train_text(box, "fit", FIT), 2 * x.mean(0)
    if not np.abs(got["x_mean"] - want).max() < 1e-5:
        return "off by %g" % np.abs(got["x_mean"] - want).max()
    box.must(box.gnnc, "data", "generate", "other", "--nodes", 50, "--features", 7, "--classes", 3, "--seed", 9)
    box.must(box.path("fit"), "infer", "--data", "other", "--weights", "fit.safetensors", "--out", "fit.npy")
    far = np.abs(np.load(box.path("fit.npy")) - (np.load(box.path("other", "x.npy")) - want) @ got["W"]).max()
    return None if far < 1e-4 else "infer is off by %g" % far


def train_text(box, name, text):
    box.write(name + ".gnn", text)
    return train_file(box, name)


def buffers(box, x):
    """Two calls of one instance set its buffers one after the other; metrics and weight files see the last."""
    got, mean = train_text(box, "buffers", BUFFERS % EPOCHS), np.zeros(x.shape[1])
    for _ in range(EPOCHS):
        mean = 0.9 * mean + 0.1 * x.mean(0)
        mean = 0.9 * mean + 0.1 * (x - mean).mean(0)
    if sorted(got) != ["W", "norm.running_mean", "norm.seen"]:
        return "weights are %s" % sorted(got)
    far = np.abs(got["norm.running_mean"] - mean).max()
    if got["norm.seen"] != 2 * EPOCHS or not far < 1e-5:
        return "seen %g, running_mean off by %g" % (got["norm.seen"], far)


def rows(box, y, mask):
    """A parameter per node moves where its node is trained on, a table's row where it is read."""
    got, n = train_text(box, "rows", ROWS % EPOCHS), int(mask.sum())
    emb, table, hot = np.zeros((len(y), 3)), np.zeros((3, 3)), np.eye(3)[y]
    for _ in range(EPOCHS):
        p = np.exp(emb + table[y])
        g = (p / p.sum(1, keepdims=True) - hot) * mask[:, None] / n
        emb, table = emb - 0.1 * g, table - 0.1 * hot.T @ g
    far = max(np.abs(got["emb.weight"] - emb).max(), np.abs(got["table"] - table).max())
    if not (far < 1e-5 and np.abs(emb).max() > 1e-4):
        return "off by %g" % far


def train_file(box, name):
    box.must(box.gnnc, "build", name + ".gnn", "--data", "data", "--cpu=native", "-o", box.path(name))
    box.must(box.path(name), "train", "--data", "data", "--save", box.path(name + ".safetensors"))
    return read_all(box.path(name + ".safetensors"))


def train(box, name, extra, init, optimizer):
    box.write(name + ".gnn", MODEL % (extra, init, optimizer, EPOCHS))
    box.must(box.gnnc, "build", name + ".gnn", "--data", "data", "--cpu=native", "-o", box.path(name))
    box.must(box.path(name), "train", "--data", "data", "--save", box.path(name + ".safetensors"))
    return read_weights(box.path(name + ".safetensors"))


def many_hypers(box):
    """A checkpoint holds all hypers, 210 here, of which two have names of 120 letters that differ at their ends."""
    names = ["h%d" % i for i in range(208)] + ["a" * 120 + end for end in "xy"]
    text = MODEL % ("", "0.5", "sgd(lr)", EPOCHS)
    text = text.replace("on data.train", "* (1 + %s) on data.train" % " - ".join(names[:2] + names[-2:]))
    box.write("many.gnn", text.replace("  hyper", "".join("  hyper %s = %g\n" % (n, i / 256) for i, n in enumerate(names)) + "  hyper"))
    box.must(box.gnnc, "build", "many.gnn", "--data", "data", "--cpu=native", "-o", box.path("many"))
    box.must("./many", "train", "--data", "data", "--epochs", 3, "--set", names[-1] + "=0.25", "--checkpoint", "many.ckpt")
    box.must("./many", "train", "--data", "data", "--resume", "many.ckpt", "--save", "resumed.st")
    box.must("./many", "train", "--data", "data", "--set", names[-1] + "=0.25", "--save", "whole.st")
    resumed, whole = (open(box.path(f), "rb").read() for f in ("resumed.st", "whole.st"))
    return None if resumed == whole else "weights differ from those of an unbroken run"


def progress(box):
    """Who reads a pipe sees each slow epoch when it ends, and not when the pipe's buffer of 4 KiB is full."""
    box.write("slow.gnn", (MODEL % ("", "0.5", "sgd(lr)", 1000)).replace("  seed 0", "  steps 20000\n  seed 0"))
    box.must(box.gnnc, "build", "slow.gnn", "--data", "data", "--cpu=native", "-o", box.path("slow"))
    p = subprocess.Popen([box.path("slow"), "train", "--data", "data", "--threads", "1"], cwd=box.root, stdout=subprocess.PIPE)
    seen = os.read(p.stdout.fileno(), 1 << 16)
    p.kill()
    p.communicate()
    return None if seen.startswith(b"epoch 1/1000 ") and len(seen) < 4096 else "came at once: %d bytes" % len(seen)


box = Sandbox(sys.argv[1], "training")
box.must(box.gnnc, "data", "generate", "data", "--nodes", 200, "--features", 7, "--classes", 3)
x, y, mask = (np.load(box.path("data", f + ".npy")) for f in ("x", "y", "train_mask"))
box.report("buffers", buffers(box, x.astype("f8")))
box.report("rows", rows(box, y, mask))
box.report("fit", fit(box, x.astype("f8")))
val = np.load(box.path("data", "val_mask.npy"))
for name, clip, text, rate, more in SCHEDULES:
    box.report(name, scheduled(box, x.astype("f8"), y, mask, val, name, clip, text, rate, more))
box.report("schedule_resumes", schedule_resumes(box))
box.report("checkpoint_holds_many_hypers", many_hypers(box))
box.report("progress", progress(box))
infinite_gradient(box)
x, y = x[mask].astype("f8"), y[mask]

W = train(box, "counting", "optimizer counting(lr) { done = param + t }", "0", "counting(lr)")
want = EPOCHS * (EPOCHS + 1) / 2
box.report("steps_are_counted", None if np.all(W == want) else "%g, wanted %g" % (W.flat[0], want))
for name, text, step in CASES:
    got = train(box, name, "", "0.5", text)
    want, state = np.full((x.shape[1], 3), 0.5), {}
    for t in range(1, EPOCHS + 1):
        want = step(want, gradient(x, y, want), t, state)
    far = np.abs(got - want).max()
    box.report(name, None if far < 2e-4 else "off by %g" % far)
box.close()
