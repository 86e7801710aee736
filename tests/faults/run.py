#!/usr/bin/env python3
"""Plants each fault of faults.py in a copy of the tree and looks whether a test notices.

usage: run.py [NUMBER...]     all, or these. Needs what scripts/test needs. Ends with `N noticed, N missed`.
The copy is built once; each fault costs one incremental build and the tests that should notice, then all unit tests.
"""
import os
import subprocess
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
from faults import FAULTS  # noqa: E402


def call(argv, cwd, limit=900):
    try:
        p = subprocess.run(argv, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit)
        return p.returncode, p.stdout.decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        return 1, "FAIL: no end after %d s" % limit


def copy_tree(to):
    """What is committed, without what is being worked on."""
    archive = os.path.join(to, "tree.tar")
    subprocess.run(["git", "archive", "-o", archive, "HEAD"], cwd=ROOT, check=True)
    with tarfile.open(archive) as t:
        t.extractall(to)
    os.remove(archive)


def build_copy(tree):
    """Copies what is committed to the folder, and builds the copy with its unit tests."""
    copy_tree(tree)
    for argv in (["cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DCMAKE_C_FLAGS=-w"], ["ninja", "-C", "build", "all", "unit_tests"]):
        code, out = call(argv, tree, 3600)
        if code:
            sys.exit("the tree does not build:\n" + out[-2000:])


def unit_targets(tree, words):
    """The unit tests whose name holds one of the words."""
    names = [f[:-2] for f in os.listdir(os.path.join(tree, "tests/unit")) if f.startswith("test_") and f.endswith(".c")]
    return [n for n in names if any(w in n for w in words)]


def notices(tree, words):
    """The first line of what noticed, or None. The likely tests first: they alone are built then."""
    for chosen in (words.split(), ["test_"]):
        code, out = call(["ninja", "-C", "build", "all"] + unit_targets(tree, chosen), tree)
        if code != 0:
            sys.exit("a fault that does not build tells nothing:\n" + out[-500:])
        code, out = call(["/usr/bin/python3", "tests/run.py", "build"] + chosen, tree)
        if code != 0:
            bad = [s.strip() for s in out.splitlines() if s.strip().startswith("FAIL")]
            return bad[0][:120] if bad else out[-120:]
    return None


def main():
    chosen = [int(a) for a in sys.argv[1:]] or range(len(FAULTS))
    noticed, missed = 0, 0
    with tempfile.TemporaryDirectory(prefix="gnnc-faults-") as tree:
        build_copy(tree)
        for i, (path, old, new, words) in ((i, FAULTS[i]) for i in chosen):
            full = os.path.join(tree, path)
            with open(full) as f:
                text = f.read()
            if text.count(old) != 1:
                print("FAIL fault.%d: %s holds the text %d times" % (i, path, text.count(old)))
                missed += 1
                continue
            with open(full, "w") as f:
                f.write(text.replace(old, new))
            why = notices(tree, words)
            with open(full, "w") as f:
                f.write(text)
            print("%s fault.%d %s: %s" % ("ok" if why else "FAIL", i, path, why or "nobody noticed"))
            sys.stdout.flush()
            noticed, missed = noticed + bool(why), missed + (not why)
    print("%d noticed, %d missed" % (noticed, missed))
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
