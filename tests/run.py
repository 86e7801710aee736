#!/usr/bin/env python3
"""Runs all tests and counts what they report.

usage: run.py BUILD [WORD...]

A test is a program tests/unit/test_X.c (built as BUILD/test_X) or tests/test_X.py (called with BUILD). Each prints one
line per test: `ok NAME`, `FAIL NAME: why`, `skip NAME: why`; all else it prints is shown when it fails. A program
that ends badly, or says nothing, is a failure of its own. The last line is `N passed, N failed, N skipped`.
"""
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_S = 1200


def programs(build):
    unit = sorted(f for f in os.listdir(os.path.join(HERE, "unit")) if f.startswith("test_") and f.endswith(".c"))
    for f in unit:
        yield f[:-2], [os.path.join(build, f[:-2])]
    for f in sorted(f for f in os.listdir(HERE) if f.startswith("test_") and f.endswith(".py")):
        yield f[:-3], [sys.executable, os.path.join(HERE, f), build]


def run(name, argv):
    """Returns (passed, failed, skipped) and prints failures and skips."""
    start = time.time()
    try:
        p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                           timeout=LIMIT_S, cwd=os.path.dirname(HERE))
        out, code = p.stdout.decode("utf-8", "replace"), p.returncode
    except subprocess.TimeoutExpired as e:
        out, code = (e.stdout or b"").decode("utf-8", "replace"), "no end after %d s" % LIMIT_S
    except OSError as e:
        out, code = "", str(e)
    lines = out.splitlines()
    ok = [s for s in lines if s.startswith("ok ")]
    bad = [s for s in lines if s.startswith("FAIL ")]
    skip = [s for s in lines if s.startswith("skip ")]
    if code != 0 and not bad:
        bad = ["FAIL %s: ended with %s" % (name, code)]
        print("\n".join(lines[-40:]))
    if not ok and not bad and not skip:
        bad = ["FAIL %s: it reported nothing" % name]
    print("%-28s %4d passed %3d failed %3d skipped  %6.1f s" % (name, len(ok), len(bad), len(skip), time.time() - start))
    for s in bad + skip:
        print("    " + s)
    sys.stdout.flush()
    return len(ok), len(bad), len(skip)


def main():
    build, words = os.path.abspath(sys.argv[1]), sys.argv[2:]
    total = [0, 0, 0]
    for name, argv in programs(build):
        if words and not any(w in name for w in words):
            continue
        total = [a + b for a, b in zip(total, run(name, argv))]
    print("%d passed, %d failed, %d skipped" % tuple(total))
    sys.exit(1 if total[1] or not total[0] else 0)


main()
