"""For tests that need torch: goes on in a Python that has it, with examples/torch importable, or says that there is none."""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def python(build):
    """A Python with torch and numpy: this one, the system's, or one that bench/peers made; None without any."""
    for path in (sys.executable, "/usr/bin/python3", os.environ.get("GNNC_BENCH_PYG"), os.path.join(build, "peers", "pyg", "bin", "python")):
        if path and os.path.exists(path) and subprocess.run([path, "-c", "import torch, numpy"], stderr=subprocess.DEVNULL).returncode == 0:
            return path
    return None


def build(test):
    """The build folder that the test was called with, in a Python with torch; else the test ends here, as skipped."""
    folder = os.path.abspath(sys.argv[1])
    path = python(folder)
    if not path:
        print("skip %s: no Python with torch (Debian: python3-torch; bench/peers makes one)" % test)
        sys.exit(0)
    if path != sys.executable:
        sys.exit(subprocess.run([path, os.path.abspath(sys.argv[0]), folder]).returncode)
    sys.path.insert(0, os.path.join(ROOT, "examples", "torch"))
    return folder
