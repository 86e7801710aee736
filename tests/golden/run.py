#!/usr/bin/env python3
"""Runs folders of golden cases through the compiled library form, in f64 and f32.

usage: run.py [--first|--quarter] COMPILER DIR...      DIR: a layer's folder, a tier, or the root of all

--quarter: all cases in f64, and one in four in f32; --first: the same of each layer's first case alone.

Prints `ok NAME`, `FAIL NAME: why` or `skip NAME: what is missing` per case; the last line is `N passed, N failed, N skipped`.
A case passes if outputs and gradients of inputs and parameters agree, without these in both float types. Cases with one text, one mode and the same
dims share a build. A child process does the work of one build, so that a crash is that group's failure and nobody else's.
"""
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import traceback

import case as golden
import library
import model

JOBS = max(1, os.cpu_count() or 1)


class Case:
    def __init__(self, name, cls, entry, path):
        self.name, self.cls, self.entry, self.path, self.dtypes = name, cls, entry, path, list(golden.TOLERANCE)


def layer_folders(root):
    for folder, inner, files in os.walk(root):
        inner.sort()
        if "cases.json" in files:
            yield folder


def cases_of(folder):
    with open(os.path.join(folder, "cases.json")) as f:
        head = json.load(f)
    for entry in head["cases"]:
        name = "%s/%s/%s" % (head["folder"], head["layer"], entry["case"])
        yield Case(name, head["layer"], entry, os.path.join(folder, entry["case"] + ".safetensors"))


def reason(error):
    """One line for what went wrong."""
    if isinstance(error, (golden.Wrong, library.Failed, subprocess.TimeoutExpired)):
        return " ".join(str(error).split())
    return " / ".join(traceback.format_exc().strip().split("\n")[-3:])


def run_case(compiler, case, folder):
    """The line that reports a case."""
    try:
        for dtype in case.dtypes:
            so = golden.build(compiler, case.spec, dtype, folder)
            golden.run(so, case.spec, case.path, dtype)
        return "ok %s" % case.name
    except golden.Unsayable as e:
        return "skip %s: %s" % (case.name, e)
    except Exception as e:  # any failure is the case's, reported by name
        return "FAIL %s: %s" % (case.name, reason(e))


def start(compiler, group, folder):
    """Runs a group in a child that writes its lines to a file; returns the child and the file."""
    out = os.path.join(folder, "lines")
    os.makedirs(folder, exist_ok=True)
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child, out
    try:
        for case in group:
            line = run_case(compiler, case, folder)
            with open(out, "a") as f:
                f.write(line + "\n")
    finally:
        os._exit(0)


def finish(group, out, status):
    """The lines of a group whose child ended with `status`."""
    lines = []
    if os.path.exists(out):
        with open(out) as f:
            lines = f.read().splitlines()
    how = "signal %d" % os.WTERMSIG(status) if os.WIFSIGNALED(status) else "an early end"
    return lines + ["FAIL %s: the library ended with %s" % (c.name, how) for c in group[len(lines):]]


def groups_of(cases):
    """Cases by text, mode and dims; those that cannot be said yet as lines."""
    groups, lines = {}, []
    for case in cases:
        try:
            case.spec = model.spec_of(case.cls, case.entry)
            groups.setdefault((case.spec.text, case.spec.mode, tuple(sorted(case.spec.dims.items()))), []).append(case)
        except golden.Unsayable as e:
            lines.append("skip %s: %s" % (case.name, e))
        except Exception as e:  # a fault of the table is the case's failure
            lines.append("FAIL %s: %s" % (case.name, reason(e)))
    return groups, lines


def run_groups(compiler, groups, folder):
    """Yields the lines of all groups, JOBS of them at a time."""
    running, waiting = {}, list(groups.items())
    while running or waiting:
        while waiting and len(running) < JOBS:
            key, group = waiting.pop(0)
            where = os.path.join(folder, hashlib.sha256(repr(key).encode()).hexdigest()[:16])
            child, out = start(compiler, group, where)
            running[child] = group, out
        child, status = os.wait()
        group, out = running.pop(child)
        yield from finish(group, out, status)


def main():
    argv = [a for a in sys.argv[1:] if a not in ("--first", "--quarter")]
    if len(argv) < 2:
        sys.exit(__doc__)
    compiler, cases, most, quarter = argv[0], [], 1 if "--first" in sys.argv else None, len(argv) + 1 < len(sys.argv)
    for root in argv[1:]:
        found = [c for folder in layer_folders(root) for c in list(cases_of(folder))[:most]]
        if not found:
            sys.exit("%s: no cases.json in it" % root)
        cases += found
    for case in [c for n, c in enumerate(cases) if quarter and n % 4]:
        case.dtypes = ["f64"]
    groups, lines = groups_of(cases)
    for line in lines:
        print(line)
    with tempfile.TemporaryDirectory(prefix="golden.") as folder:
        for line in run_groups(compiler, groups, folder):
            lines.append(line)
            print(line, flush=True)
    count = [sum(line.startswith(word) for line in lines) for word in ("ok ", "FAIL ", "skip ")]
    print("%d passed, %d failed, %d skipped" % tuple(count))
    sys.exit(1 if count[1] else 0)


if __name__ == "__main__":
    main()
