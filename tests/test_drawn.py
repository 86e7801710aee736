#!/usr/bin/env python3
"""Programs drawn at random, as libraries beside torch, which shares nothing with the compiler (tests/drawn). usage: test_drawn.py BUILD

The seeds are fixed; `tests/drawn/run.py --from A --count N` draws others. And a wrong answer is noticed: a result that is off by little.
Programs with a schema also go through the interpreter, LLVM, C and the CUDA text (test_programs), and train on one thread, on three and on the device
that the CPU plays (tests/drawn/targets.py)."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "drawn"))
SEEDS = range(300)
SMALL = (1, 2, 3, 5)  # operations of a program
KEPT = os.path.join(sys.path[0], "kept")  # that once ended the compiler
TYPED, FILES, TRAINED = range(32), range(6), range(4, 6)  # seeds of programs with a schema


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
    build = os.path.abspath(sys.argv[1])
    beside_torch(run, build, "programs", SEEDS, run.draw.Draw)
    beside_torch(run, build, "typed", TYPED, run.draw_typed.Typed)
    with_schemas(run, build)


def beside_torch(run, build, name, seeds, kind):
    counts = {}
    for seed, state, text in run.campaign(os.path.join(build, "gnnc"), seeds, 1, steps=(SMALL,), kind=kind):
        counts[state] = counts.get(state, 0) + 1
        if state in ("wrong", "refused"):
            print("FAIL drawn.%s_%d: %s: %s" % (name, seed, state, text.replace("\n", " | ")[:3000]), flush=True)
        if seed % 50 == 49:
            print("ok drawn.to_%d" % seed, flush=True)
    empty, most = counts.get("empty", 0), len(seeds) // 20
    print("ok drawn.%s" % name if empty <= most else "FAIL drawn.%s: %d of %d draws gave none, wanted at most %d" % (name, empty, len(seeds), most))


def with_schemas(run, build):
    import targets
    with tempfile.TemporaryDirectory(prefix="gnnc-drawn-") as box:
        run.write(FILES, run.draw_typed.Typed, box)
        files = [os.path.join(folder, f) for folder in (box, KEPT) for f in sorted(os.listdir(folder))]
        r = subprocess.run([os.path.join(build, "test_programs"), "targets", *files],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print("ok drawn.interpreter" if r.returncode == 0 else "FAIL drawn.interpreter: %s" % r.stdout.decode("utf-8", "replace").replace("\n", " | ")[-3000:], flush=True)
    for seed, why, text in targets.campaign(os.path.join(build, "gnnc"), TRAINED):
        print("ok drawn.trained_%d" % seed if not why else "FAIL drawn.trained_%d: %s: %s" % (seed, why, text.replace("\n", " | ")[:3000]), flush=True)


main()
