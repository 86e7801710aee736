#!/usr/bin/env python3
"""Training against numpy: the steps are counted, and each optimizer of the standard library gives the weights that its
formula gives for softmax regression on the training nodes. usage: test_training.py BUILD"""
import json
import sys

import numpy as np
from sandbox import Sandbox

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


def read_weights(path):
    raw = open(path, "rb").read()
    n = int.from_bytes(raw[:8], "little")
    head = json.loads(raw[8:8 + n])
    (info,) = [v for k, v in head.items() if k != "__metadata__"]
    return np.frombuffer(raw[8 + n:][slice(*info["data_offsets"])], "<f4").reshape(info["shape"]).astype("f8")


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


def train(box, name, extra, init, optimizer):
    box.write(name + ".gnn", MODEL % (extra, init, optimizer, EPOCHS))
    box.must(box.gnnc, "build", name + ".gnn", "--data", "data", "--cpu=native", "-o", box.path(name))
    box.must(box.path(name), "train", "--data", "data", "--save", box.path(name + ".safetensors"))
    return read_weights(box.path(name + ".safetensors"))


box = Sandbox(sys.argv[1], "training")
box.must(box.gnnc, "data", "generate", "data", "--nodes", 200, "--features", 7, "--classes", 3)
x, y, mask = (np.load(box.path("data", f + ".npy")) for f in ("x", "y", "train_mask"))
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
