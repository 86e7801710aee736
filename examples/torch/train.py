#!/usr/bin/env python3
"""Trains one model twice, with a custom message in plain PyTorch and with the same message compiled by gnnc.

usage: train.py LIBRARY.so [--nodes 20000] [--edges 300000] [--epochs 5] [--width 64] [--threads 2]
LIBRARY.so is message.gnn's `gated`, built with --prefix gated and F = D = O = WIDTH, K = 16.
"""
import argparse
import copy
import time

import torch
from torch.nn import functional as F

from gnnc_layer import GnncLayer

N_EDGE_FEATURES, N_CLASSES = 16, 10


class Plain(torch.nn.Module):
    """The formula of message.gnn with gather and scatter. Its parameters are given."""

    def __init__(self, n_nodes, edge_index, params):
        super().__init__()
        self.n, (self.src, self.dst) = n_nodes, edge_index
        self.A, self.B, self.V, self.E, self.W = (torch.nn.Parameter(p.detach().clone()) for p in params)
        self.degree = torch.bincount(self.dst, minlength=n_nodes).clamp(min=1).unsqueeze(1)

    def forward(self, x, e):
        p, q = (x @ self.A)[self.dst], (x @ self.B)[self.src]
        m = torch.sigmoid(p + q + e @ self.E) * torch.tanh((x @ self.V)[self.src]) * torch.exp(-((p - q) ** 2).mean(1, keepdim=True))
        zero = m.new_zeros(self.n, m.shape[1])
        mean = zero.index_add(0, self.dst, m) / self.degree
        most = zero.scatter_reduce(0, self.dst.unsqueeze(1).expand_as(m), m, "amax", include_self=False)
        return torch.cat([mean, most], 1) @ self.W


def train(layer, head, x, e, y, epochs):
    """Milliseconds of the fastest epoch after the first, and the losses."""
    optimizer = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=0.01)
    losses, times = [], []
    for _ in range(epochs + 1):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = F.cross_entropy(head(F.relu(layer(x, e))), y)
        loss.backward()
        optimizer.step()
        times.append((time.perf_counter() - start) * 1e3)
        losses.append(loss.item())
    return min(times[1:]), losses


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("file", metavar="LIBRARY.so")
    for name, value in (("nodes", 20000), ("edges", 300000), ("epochs", 5), ("width", 64), ("threads", 2)):
        ap.add_argument("--" + name, type=int, default=value)
    a = ap.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(a.threads)
    edges = torch.randint(a.nodes, (2, a.edges))
    edges = edges[:, edges[1].argsort()]
    x, e, y = torch.randn(a.nodes, a.width), torch.randn(a.edges, N_EDGE_FEATURES), torch.randint(N_CLASSES, (a.nodes,))
    compiled = GnncLayer(a.file, "gated", a.nodes, edges, threads=a.threads)
    plain = Plain(a.nodes, edges, compiled.parameters())
    head = torch.nn.Linear(a.width, N_CLASSES)
    (slow, theirs), (fast, ours) = (train(layer, copy.deepcopy(head), x, e, y, a.epochs) for layer in (plain, compiled))
    off = max(abs(p - q) / p for p, q in zip(theirs, ours))
    print("losses  %s" % "  ".join("%.5f" % loss for loss in ours))
    print("plain PyTorch %.1f ms per epoch, compiled %.1f ms: %.1f times as fast; losses differ by %.1e" % (slow, fast, slow / fast, off))
    assert off < 1e-3, "the two trainings differ: %s %s" % (theirs, ours)


main()
