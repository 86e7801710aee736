#!/usr/bin/env python3
"""The layers of tiers 1 and 2 and the node classifiers against PyG's numbers (tests/golden). usage: test_golden.py BUILD

The cases lie outside the repository: in shared/golden beside it, or where GNNC_SHARED says.
"""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SHARED = os.environ.get("GNNC_SHARED", os.path.join(os.path.dirname(os.path.dirname(HERE)), "shared"))
FOLDERS = ["tier1", "tier2", "model/NodeClassifier"]


def main():
    root = os.path.join(SHARED, "golden")
    if not os.path.isdir(root):
        print("skip golden: NO CASES: %s is not there (GNNC_SHARED names another place)" % root)
        return
    sys.stdout.flush()
    argv = [sys.executable, os.path.join(HERE, "golden", "run.py"), os.path.join(sys.argv[1], "gnnc")]
    sys.exit(subprocess.call(argv + [os.path.join(root, folder) for folder in FOLDERS]))


main()
