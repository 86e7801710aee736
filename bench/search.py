#!/usr/bin/python3
"""Searches over schedules as text (gnnc build --schedule) for one that is faster than the compiler's own.

usage: bench/search.py [--models A,B] [--tries 100] [--size arxiv_tenth] [--width 64] [--iters 5] [--threads 2] [--gnnc FILE] [--out DIR]

From the best text so far each try draws an edit (tests/schedules.py), builds it and times it beside the best in turn; what is faster by
more than 2 % in two comparisons is the new best. In the end the best and the compiler's own are timed in nine turns more: the gain is the
median of the ratios, forward and gradients together. Prints a line for each layer and the median gain; writes DIR/LAYER.schedule.
"""
import argparse
import os
import random
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests")]
import graph  # noqa: E402
import rows  # noqa: E402
from ours import Failed, Ours  # noqa: E402
from schedules import Text, corrected, edit  # noqa: E402

MODELS = "gat,gatv2,transformer,gcn,sage_max,gin,gen,custom,edgeconv,pna"
LEAST = 0.98  # a time over the best one that counts as faster


class Layer:
    def __init__(self, a, model, data):
        self.a, self.model, self.data, self.n = a, model, data, 0
        self.plain = self.built(None)

    def built(self, text):
        """A program with this schedule, or the compiler's own; None where it is not legal."""
        self.n += 1
        path = os.path.join(self.a.out, "%s.%d" % (self.model, self.n))
        for _ in range(6):
            options = ["--emit=exe,schedule"]
            if text is not None:
                with open(path + ".given", "w") as f:
                    f.write(text)
                options.append("--schedule=" + path + ".given")
            try:
                program = Ours(self.a.gnnc, path, self.model, self.data, self.a.width, options, self.a.threads)
            except Failed as e:
                text = corrected(text, str(e))
                if text is None:
                    return None
                continue
            with open(program.out + ".schedule") as f:
                program.text = f.read()
            return program
        return None

    def time(self, program):
        return sum(t["ms"] for t in program.time(self.a.iters).values())

    def ratio(self, x, y):
        """The time of x over that of y, one after the other."""
        return self.time(x) / self.time(y)

    def search(self):
        rng, best, legal = random.Random(self.model), self.plain, 0
        for _ in range(self.a.tries):
            text = Text(best.text)
            if not edit(rng, text):
                continue
            other = self.built(str(text))
            if not other:
                continue
            legal += 1
            if self.ratio(other, best) < LEAST and 1 / self.ratio(best, other) < LEAST:
                best = other
        with open(os.path.join(self.a.out, self.model + ".schedule"), "w") as f:
            f.write(best.text)
        gain = 1 - statistics.median(self.ratio(best, self.plain) for _ in range(9)) if best is not self.plain else 0.0
        print("%-16s %3d tries, %3d legal, gain %5.1f %%" % (self.model, self.a.tries, legal, 100 * gain), flush=True)
        return gain


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--models", default=MODELS), ap.add_argument("--tries", type=int, default=100)
    ap.add_argument("--size", default="arxiv_tenth", choices=rows.SIZES), ap.add_argument("--width", type=int, default=64)
    ap.add_argument("--iters", type=int, default=5), ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--gnnc", default=os.path.join(os.path.dirname(HERE), "build", "gnnc"))
    ap.add_argument("--out", default=os.path.join(os.path.dirname(HERE), "build", "search"))
    a = ap.parse_args()
    a.out, a.gnnc = os.path.abspath(a.out), os.path.abspath(a.gnnc)
    os.makedirs(a.out, exist_ok=True)
    data = graph.ensure(a.out, a.size)
    gains = [Layer(a, model, data).search() for model in a.models.split(",")]
    print("median gain %.1f %%" % (100 * statistics.median(gains)))


if __name__ == "__main__":
    main()
