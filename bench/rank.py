#!/usr/bin/env python3
"""How well predicted times of kernels on a GPU order them: the rank correlation (Spearman) of `predicted_ms` and `least_ms` over all kernels of all programs.
usage: bench/rank.py MEASURED[=COUNTED]...

MEASURED is what `PROGRAM bench --device cuda --json` printed, with the times that follow from sizes alone. With =COUNTED, what
`PROGRAM bench --device shim --count --json` printed of the same program and data, the prediction is that from counts."""
import json
import sys


def ranks(values):
    """From 0 on; what is equal has the mean of its ranks."""
    order = sorted(range(len(values)), key=values.__getitem__)
    out = [0.0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for i in order[first:last + 1]:
            out[i] = (first + last) / 2
        first = last + 1
    return out


def correlation(xs, ys):
    """Of two lists of numbers by rank; 0 where one of them has equal numbers only."""
    a, b = ranks(xs), ranks(ys)
    mean = (len(a) - 1) / 2
    top = sum((p - mean) * (q - mean) for p, q in zip(a, b))
    bottom = (sum((p - mean) ** 2 for p in a) * sum((q - mean) ** 2 for q in b)) ** 0.5
    return top / bottom if bottom else 0.0


def kernels(path):
    with open(path) as f:
        text = json.load(f)
    return [(program, k) for program in ("infer", "grad", "train_step") for k in text.get(program, {}).get("kernels", [])]


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    measured, predicted = [], []
    for argument in sys.argv[1:]:
        path, _, counted = argument.partition("=")
        here = kernels(path)
        there = kernels(counted) if counted else here
        if [(p, k["name"]) for p, k in here] != [(p, k["name"]) for p, k in there]:
            sys.exit("%s and %s have other kernels" % (path, counted))
        ms, guess = [k["least_ms"] for _, k in here], [k["predicted_ms"] for _, k in there]
        off = sorted(g / m for g, m in zip(guess, ms))
        print("%-30s %4d kernels, rank correlation %.3f, predicted over measured %.2f in the median" % (path, len(ms), correlation(ms, guess), off[len(off) // 2]))
        measured += ms
        predicted += guess
    print("all: %d kernels, rank correlation %.3f" % (len(measured), correlation(measured, predicted)))


if __name__ == "__main__":
    main()
