#!/usr/bin/env python3
"""gradcheck of a compiled layer: torch compares its backward with finite differences, in double precision.

usage: check.py LIBRARY.so     built with --dtype f64, --prefix gated and F = 3, K = 2, D = 3, O = 2
"""
import sys

import torch

from gnnc_layer import Compiled, GnncLayer

torch.manual_seed(0)
edges = torch.tensor([[0, 1, 2, 2, 4, 3, 3, 0], [1, 1, 0, 4, 2, 4, 4, 1]])  # parallel edges, a loop; node 3 has no in-edge
layer = GnncLayer(sys.argv[1], "gated", 5, edges)
x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
e = torch.randn(8, 2, dtype=torch.float64, requires_grad=True)
run = lambda *tensors: Compiled.apply(layer, *tensors)
assert torch.autograd.gradcheck(run, (x, e, *layer.parameters()), eps=1e-6, atol=1e-7, rtol=1e-5)
print("gradcheck passed: %d parameters, %d inputs" % (len(layer.params), len(layer.inputs)))
