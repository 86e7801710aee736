#!/usr/bin/env python3
"""Makes the cases in tests/golden/own: what modules of DGL and PyG, or formulas of a paper written in torch, compute in double precision
for small inputs that are drawn. test_golden.py runs them, and needs nothing of this.

usage: record.py papers|dgl|pyg     with a Python that has torch, and DGL 2.1 or PyG 2.8 (bench/peers makes both)

A case is our model's text and an oracle. The oracle's parameters have the names of our weight files; all that is drawn is a multiple of 1/1024."""
import json
import os
import sys
import zlib

import numpy as np
import torch
from torch import nn

import tensors

OWN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "own")
N = 10  # nodes
TYPES = {"author": 5, "paper": 7, "venue": 3}
RELATIONS = {"writes": ("author", "paper", 12), "wrote": ("paper", "author", 9), "cites": ("paper", "paper", 14), "prints": ("venue", "paper", 6)}
SCHEMA = "schema s {\n  node author, paper, venue\n  edge writes: author -> paper, wrote: paper -> author, cites: paper -> paper, prints: venue -> paper\n}\n"
ROUNDED = 1024


class Draw:
    """Numbers of one case, the same in each run of this script."""

    def __init__(self, name):
        self.r = np.random.default_rng(zlib.crc32(name.encode()))

    def normal(self, *shape):
        return torch.tensor(np.round(self.r.standard_normal(shape) * ROUNDED) / ROUNDED)

    def uniform(self, low, high, *shape):
        return torch.tensor(np.round(self.r.uniform(low, high, shape) * ROUNDED) / ROUNDED)

    def kinds(self, n, rows):
        return torch.tensor(self.r.integers(0, n, rows))

    def edges(self, n_src, n_dst, more, fed=False):
        """[2, E]: with `fed` one into each target, else the last target has none; one edge twice, the first one a loop, in no order."""
        targets = np.concatenate([np.arange(n_dst if fed else n_dst - 1), self.r.integers(0, n_dst - (not fed), more)])
        ends = np.stack([self.r.integers(0, n_src, len(targets)), targets])
        ends[0, 0] = ends[1, 0] % n_src
        return torch.tensor(np.concatenate([ends, ends[:, :1 + more // 4]], axis=1)[:, self.r.permutation(len(targets) + 1 + more // 4)])


def set_parameters(module, draw, keep):
    """Draws all parameters and buffers but those to keep: variances and cutoffs are positive."""
    for name, t in module.state_dict().items():
        if t.dtype.is_floating_point and name.split(".")[-1] not in keep:
            positive = "running_var" in name or "cutoff" in name
            t.copy_(draw.uniform(0.5, 2, *t.shape) if positive else 0.5 * draw.normal(*t.shape))


def floats(module):
    return {k: v.detach().clone() for k, v in module.state_dict().items() if v.dtype.is_floating_point}


def write(folder, cls, name, given, module, before, outputs, draw):
    """The tensors of one case: inputs, parameters, outputs, a cotangent for each, all gradients, and buffers that the call changed."""
    cots = [draw.normal(*o.shape) for o in outputs]
    wanted = {"in." + k: v for k, v in given.items() if v.requires_grad}
    wanted.update({"param." + k: v for k, v in module.named_parameters() if v.requires_grad})
    loss = sum((o * c).sum() for o, c in zip(outputs, cots))
    grads = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True)
    t = {"in." + k: v for k, v in given.items()}
    t.update({"param." + k: v for k, v in before.items()})
    t.update({"after." + k: v for k, v in floats(module).items() if not torch.equal(v, before[k])})
    t.update({"out.%d" % i: o for i, o in enumerate(outputs)})
    t.update({"cot.%d" % i: c for i, c in enumerate(cots)})
    t.update({"grad." + k: torch.zeros_like(v) if g is None else g for (k, v), g in zip(wanted.items(), grads)})
    at = os.path.join(OWN, folder, cls)
    os.makedirs(at, exist_ok=True)
    with open(os.path.join(at, name + ".safetensors"), "wb") as f:
        f.write(tensors.pack({k: np.ascontiguousarray(v.detach().numpy()) for k, v in t.items()}))


class Folder:
    """The cases of one source; each is written when it is given, and the list of a layer's at the end."""

    def __init__(self, name):
        self.name, self.cases = name, {}

    def case(self, cls, name, body, make, call, inputs, edges=None, mode="eval", graph=None, draw=None, args="", keep=(), renamed=None):
        """body: the statements of our model, whose arguments are `inputs`: name -> (type, tensor). make(): the oracle's module. call(module, tensors):
        its outputs."""
        draw = draw or Draw(cls + name)
        module = make()
        module.double()
        set_parameters(module, draw, keep)
        module.train(mode == "train")
        given = {k: v.clone().requires_grad_(v.dtype.is_floating_point) for k, (_, v) in inputs.items()}
        given.update(edges)
        text = "%smodel m(%s) {\n%s}\n" % (SCHEMA if "nodes" in (graph or {}) else "", args or ", ".join("%s: %s" % (k, of) for k, (of, _) in inputs.items()),
                                           "".join("  %s\n" % line for line in body))
        before, outputs = floats(module), call(module, given)
        outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
        write(self.name, cls, name, given, module, before, outputs, draw)
        entry = {"case": name, "text": text, "mode": mode, "graph": graph or {"n_src": N, "n_dst": N}, "inputs": list(given),
                 "outputs": {str(i): list(o.shape) for i, o in enumerate(outputs)}}
        self.cases.setdefault(cls, []).append({**entry, "renamed": renamed} if renamed else entry)

    def end(self):
        for cls, cases in self.cases.items():
            with open(os.path.join(OWN, self.name, cls, "cases.json"), "w") as f:
                json.dump({"layer": cls, "folder": self.name, "cases": cases}, f, indent=1)
                f.write("\n")
        print("%d cases of %d layers" % (sum(map(len, self.cases.values())), len(self.cases)))


def main():
    if sys.argv[1:] not in (["papers"], ["dgl"], ["pyg"]):
        sys.exit(__doc__)
    torch.set_default_dtype(torch.float64)
    folder = Folder(sys.argv[1])
    __import__("record_" + sys.argv[1]).record(folder)
    folder.end()


if __name__ == "__main__":
    main()
