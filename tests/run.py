#!/usr/bin/env python3
"""Runs the test programs side by side, one for each core, and counts what they report.

usage: run.py [--long] BUILD [WORD...]      only programs whose name contains one of the words

A test is a program tests/unit/test_X.c (built as BUILD/test_X) or tests/test_X.py (called with BUILD). Each prints one
line per test: `ok NAME`, `FAIL NAME: why`, `skip NAME: why`; all else it prints is shown when it fails. A program
that ends badly, or says nothing, is a failure of its own. The last line is `N passed, N failed, N skipped`.

With --long, programs find GNNC_LONG=1 in their environment and draw more, kill more often or train longer: what they do
without it is a part of that. A program says in the first 30 lines of its source how it is run, by a line `Run: WORD, WORD`:
  alone           it measures time or memory, or counts on the cores: it runs when all others have ended
  lesser          it compiles and runs code: it runs again as `X@avx2` and `X@generic`, with GNNC_CPU set to these and
                  without GNNC_LONG
  lesser if long  the same, but only with --long
  avx2 if long    the same, as `X@avx2` alone
  if long         it runs only with --long

With GNNC_CPU=avx2 or generic in the environment all programs run as on a machine that has no better CPU.
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "golden"))
import levels  # noqa: E402

LIMIT_S = 1800
WORDS = {"alone", "lesser", "lesser if long", "avx2 if long", "if long"}
# Those that take longest, longest first, so that none of them is what the cores wait for at the end. Others follow by
# name.
LONGEST = ("test_programs", "test_golden", "test_sanitize", "test_examples", "test_build", "test_docs", "test_stage", "test_determinism", "test_cone",
           "test_molecules", "test_levels", "test_errors", "test_near", "test_extending")


class Program:
    def __init__(self, name, argv, source):
        self.name, self.of, self.argv, self.level = name, name, argv, None
        with open(os.path.join(HERE, source), encoding="utf-8") as f:
            said = re.search(r"^\W*Run: ([\w, ]*)", "".join(f.readlines()[:30]), re.M)
        self.words = set(said.group(1).strip().split(", ")) if said else set()
        if self.words - WORDS:
            sys.exit("%s: `Run:` says %s, wanted one of %s" % (source, self.words - WORDS, sorted(WORDS)))

    def at(self, level):
        other = object.__new__(Program)
        other.__dict__.update(self.__dict__, level=level, name="%s@%s" % (self.name, level))
        return other


def programs(build, long):
    for f in sorted(os.listdir(os.path.join(HERE, "unit"))) + sorted(os.listdir(HERE)):
        name, kind = os.path.splitext(f)
        if not name.startswith("test_") or kind not in (".c", ".py"):
            continue
        p = (Program(name, [os.path.join(build, name)], os.path.join("unit", f)) if kind == ".c" else
             Program(name, [sys.executable, os.path.join(HERE, f), build], f))
        if long or "if long" not in p.words:
            yield p
        both, avx2 = "lesser" in p.words or long and "lesser if long" in p.words, long and "avx2 if long" in p.words
        yield from (p.at(level) for level in levels.allowed()[:-1] if both or avx2 and level == "avx2")


running, ended = set(), threading.Event()  # process groups; nothing is begun once `ended` is set


def execute(program, env, out):
    """The exit status and the CPU seconds of the program and all it started; what it printed is in `out`."""
    p = subprocess.Popen(program.argv, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=env, cwd=os.path.dirname(HERE),
                         start_new_session=True)
    running.add(p.pid)
    late = threading.Event()
    timer = threading.Timer(LIMIT_S, lambda: (late.set(), os.killpg(p.pid, signal.SIGKILL)))
    timer.start()
    _, status, used = os.wait4(p.pid, 0)
    timer.cancel()
    running.discard(p.pid)
    p.returncode = os.waitstatus_to_exitcode(status)
    return "no end after %d s" % LIMIT_S if late.is_set() else p.returncode, used.ru_utime + used.ru_stime


def run(program, env):
    """Returns [passed, failed, skipped], CPU seconds and what to print: a line, and failures and skips."""
    if ended.is_set():
        return [0, 0, 0], 0, ""
    start, cpu = time.time(), 0
    if program.level:
        env = {k: v for k, v in dict(env, GNNC_CPU=program.level).items() if k != "GNNC_LONG"}
    with tempfile.TemporaryFile() as out:
        try:
            code, cpu = execute(program, env, out)
        except OSError as e:
            code = str(e)
        out.seek(0)
        lines = out.read().decode("utf-8", "replace").splitlines()
    ok, bad, skip = ([s for s in lines if s.startswith(word)] for word in ("ok ", "FAIL ", "skip "))
    text = []
    if code != 0 and not bad:
        bad = ["FAIL %s: ended with %s" % (program.name, code)]
        text = lines[-40:]
    if not ok and not bad and not skip:
        bad = ["FAIL %s: it reported nothing" % program.name]
    text.append("%-28s %4d passed %3d failed %3d skipped  %6.1f s, of CPUs %6.1f s" %
                (program.name, len(ok), len(bad), len(skip), time.time() - start, cpu))
    return [len(ok), len(bad), len(skip)], cpu, "\n".join(text + ["    " + s for s in bad + skip])


def run_all(chosen, env):
    total, cpu, start = [0, 0, 0], 0, time.time()
    for n, some in ((len(os.sched_getaffinity(0)), [p for p in chosen if "alone" not in p.words]), (1, [p for p in chosen if "alone" in p.words])):
        with ThreadPoolExecutor(n) as pool:
            try:
                for done in as_completed([pool.submit(run, p, env) for p in some]):
                    counts, seconds, text = done.result()
                    print(text, flush=True)
                    total, cpu = [a + b for a, b in zip(total, counts)], cpu + seconds
            except KeyboardInterrupt:
                ended.set()
                for group in list(running):
                    os.killpg(group, signal.SIGKILL)
                raise
    print("%.0f s, of CPUs %.0f s" % (time.time() - start, cpu))
    return total


def main():
    argv = [a for a in sys.argv[1:] if a != "--long"]
    build, words, long = os.path.abspath(argv[0]), argv[1:], "--long" in sys.argv[1:]
    env = dict(os.environ, GNNC_LONG="1") if long else dict(os.environ)
    chosen = [p for p in programs(build, long) if not words or any(w in p.name for w in words)]
    chosen.sort(key=lambda p: LONGEST.index(p.of) if p.of in LONGEST else len(LONGEST))
    total = run_all(chosen, env)
    print("%d passed, %d failed, %d skipped" % tuple(total))
    sys.exit(1 if total[1] or not total[0] else 0)


main()
