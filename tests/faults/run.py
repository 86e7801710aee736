#!/usr/bin/env python3
"""Plants each fault of faults.py in a copy of the tree and looks whether the test that must notice it does.

usage: run.py [NUMBER...]     all, or these. Needs what scripts/test needs. Ends with `N noticed, N missed`.
The copy is built once; each fault costs one incremental build and its tests up to the first failure.
"""
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
from faults import FAULTS  # noqa: E402

CPU_S, WALL_S = 60, 600  # of one process, of one test program: what takes longer hangs


def copy_tree(to):
    """What is committed, without what is being worked on."""
    archive = os.path.join(to, "tree.tar")
    subprocess.run(["git", "archive", "-o", archive, "HEAD"], cwd=ROOT, check=True)
    with tarfile.open(archive) as t:
        t.extractall(to)
    os.remove(archive)


def ninja(tree, *targets):
    """The last of what it says where it fails, else None. With ccache, a fault that is taken out again costs no compilation."""
    env = dict(os.environ, CCACHE_BASEDIR=tree, CCACHE_NOHASHDIR="1")
    p = subprocess.run(["ninja", "-C", "build", *targets], cwd=tree, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return p.stdout.decode("utf-8", "replace")[-2000:] if p.returncode else None


def build_copy(tree):
    """Copies what is committed to the folder, and builds the compiler of the copy."""
    copy_tree(tree)
    launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    subprocess.run(["cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_C_FLAGS=-O1 -w",
                    "-DGNNC_ASSERTS=ON", *launcher],
                   cwd=tree, check=True, stdout=subprocess.DEVNULL)
    wrong = ninja(tree, "gnnc")
    if wrong:
        sys.exit("the tree does not build:\n" + wrong)


def test_names():
    """All test programs, without `test_`."""
    files = os.listdir(os.path.join(ROOT, "tests")) + os.listdir(os.path.join(ROOT, "tests", "unit"))
    return sorted({m.group(1) for m in (re.fullmatch(r"test_(\w+)\.(?:c|py)", f) for f in files) if m})


def unit_programs(tree, name):
    """Those in C that a test in Python runs."""
    with open(os.path.join(tree, "tests", name + ".py"), encoding="utf-8") as f:
        return sorted({n for n in re.findall(r"\btest_\w+", f.read()) if os.path.exists(os.path.join(tree, "tests", "unit", n + ".c"))})


def failure(tree, name):
    """Builds the test programs of that name (one in C, one in Python, or both) and runs them up to the first failure: what it says, or None."""
    name, *more = ("test_" + name).split(":")
    argvs = [argv for path, argv in (("unit/%s.c", ["build/" + name] + more), ("%s.py", ["/usr/bin/python3", "tests/%s.py" % name, "build"] + more))
             if os.path.exists(os.path.join(tree, "tests", path % name))]
    for argv in argvs:
        wrong = ninja(tree, *(["gnnc", "runtime"] + unit_programs(tree, name) if argv[0].startswith("/") else [name]))
        if wrong:
            sys.exit("a fault that does not build tells nothing:\n" + wrong)
        said = first_failure(tree, name, argv)
        if said:
            return said
    return None


def first_failure(tree, name, argv):
    limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    env = dict({"GNNC_SHARED": os.path.join(os.path.dirname(ROOT), "shared")}, **os.environ)
    p = subprocess.Popen(argv, cwd=tree, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
                         preexec_fn=limit)
    kill = lambda: os.killpg(p.pid, signal.SIGKILL)
    timer = threading.Timer(WALL_S, kill)
    timer.start()
    reports, last = 0, ""
    for line in p.stdout:
        last = line.decode("utf-8", "replace").strip() or last
        reports += last.startswith(("ok ", "skip "))
        if last.startswith("FAIL "):
            kill()
            break
    p.stdout.close()
    code = p.wait()
    timer.cancel()
    if last.startswith("FAIL "):
        return last[:160]
    return None if code == 0 and reports else "%s ended with %s: %s" % (name, code, last[-120:])


def places(text, old):
    """Where `old` stands in the text, line breaks and blanks aside: matches."""
    tokens = re.findall(r"\w+|[^\w\s]", old)
    gaps = [r"\s+" if a[-1:].isalnum() and b[:1].isalnum() else r"\s*" for a, b in zip(tokens, tokens[1:])] + [""]
    return list(re.finditer("".join(re.escape(t) + gap for t, gap in zip(tokens, gaps)), text))


class planted:
    """The file with another text, for the length of a block."""

    def __init__(self, tree, path, text):
        self.full, self.new = os.path.join(tree, path), text

    def write(self, text):
        with open(self.full, "w", encoding="utf-8") as f:
            f.write(text)

    def __enter__(self):
        with open(self.full, encoding="utf-8") as f:
            self.old = f.read()
        self.write(self.new)

    def __exit__(self, *_):
        self.write(self.old)


def campaign(rows, name, notice, check=lambda tree: None):
    """Plants the rows that the command line chooses, one at a time. notice(tree, who) says what `who`, the row's last column, makes of the fault, or
    None; check(tree) ends the program if the tree is not sound without a fault."""
    chosen = [int(a) for a in sys.argv[1:]] or range(len(rows))
    noticed, missed = 0, 0
    with tempfile.TemporaryDirectory(prefix="gnnc-faults-") as tree:
        build_copy(tree)
        check(tree)
        for i, (path, old, new, who) in ((i, rows[i]) for i in chosen):
            with open(os.path.join(tree, path), encoding="utf-8") as f:
                text = f.read()
            why = None
            at = places(text, old)
            if len(at) == 1:
                with planted(tree, path, text[:at[0].start()] + new + text[at[0].end():]):
                    why = notice(tree, who)
            print("%s %s.%d %s: %s" % ("ok" if why else "FAIL", name, i, path, why or "%s did not notice" % who), flush=True)
            noticed, missed = noticed + bool(why), missed + (not why)
    print("%d noticed, %d missed" % (noticed, missed))
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    campaign(FAULTS, "fault", lambda tree, tests: next(filter(None, (failure(tree, name) for name in tests.split())), None))
