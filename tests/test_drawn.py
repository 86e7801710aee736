#!/usr/bin/env python3
"""Programs drawn at random, as libraries beside torch, which shares nothing with the compiler (tests/drawn). usage: test_drawn.py BUILD

The seeds are fixed; `tests/drawn/run.py --from A --count N` draws others. And a wrong answer is noticed: a result that is off by little."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "drawn"))
SEEDS = range(300)
SMALL = (1, 2, 3, 5)  # operations of a program


def main():
    try:
        import torch
    except ImportError:
        print("skip drawn: NO TORCH for this Python: apt-get install python3-torch")
        return
    import run
    size = torch.tensor([1.0, -2.0, 300.0], dtype=torch.float64)
    for dtype, least in (("f64", 1e-5), ("f32", 0.1)):
        seen = run.off("x", size.numpy() + [0, 0, least], size, size, dtype) and not run.off("x", size.numpy(), size, size, dtype)
        print("ok drawn.a wrong %s is noticed" % dtype if seen else "FAIL drawn.a wrong %s is noticed" % dtype)
    gnnc, counts = os.path.join(os.path.abspath(sys.argv[1]), "gnnc"), {}
    for seed, state, text in run.campaign(gnnc, SEEDS, 1, steps=(SMALL,)):
        counts[state] = counts.get(state, 0) + 1
        if state in ("wrong", "refused"):
            print("FAIL drawn.%d: %s: %s" % (seed, state, text.replace("\n", " | ")[:3000]), flush=True)
        if seed % 50 == 49:
            print("ok drawn.to_%d" % seed, flush=True)
    empty, most = counts.get("empty", 0), len(SEEDS) // 20
    print("ok drawn.programs" if empty <= most else "FAIL drawn.programs: %d of %d draws gave none, wanted at most %d" % (empty, len(SEEDS), most))


main()
