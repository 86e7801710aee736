#!/usr/bin/env python3
"""`gnnc machine`: built-in figures, the probe and its cache file, damaged files. usage: test_machine.py BUILD"""
import json
import os
import subprocess
import sys
import tempfile

GNNC = os.path.join(os.path.abspath(sys.argv[1]), "gnnc")


def run(cache, *args):
    env = dict(os.environ, XDG_CACHE_HOME=cache)
    p = subprocess.run([GNNC, "machine", *args], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    return p.returncode, p.stdout.decode(), p.stderr.decode()


def report(name, why):
    print("FAIL %s: %s" % (name, why) if why else "ok " + name)


def figures(cache, *args):
    return json.loads(run(cache, "--json", "--threads=1", *args)[1])


def built_in(cache):
    m = figures(cache)
    return None if m["probed"] is False and m["threads"] == 1 and len(m["copy_gb_s"]) == 4 else "found %s" % m


def probe(cache):
    m = figures(cache, "--probe")
    levels = m["latency_ns"]
    if not m["probed"] or not all(x > 0 for row in m["gather_256_gb_s"] for x in row):
        return "found %s" % m
    if not levels[0] < levels[1] < levels[3]:
        return "the levels' latencies do not grow: %s" % levels
    kept = figures(cache)
    return None if kept["probed"] and kept["latency_ns"] == levels else "kept %s of %s" % (kept["latency_ns"], levels)


def damaged(cache):
    folder = os.path.join(cache, "gnnc")
    (name,) = os.listdir(folder)
    path = os.path.join(folder, name)
    text = open(path).read()
    for wrong in (text[:len(text) // 2], text.replace("copy", "copy -"), text.replace("machine 1", "machine 9"), ""):
        with open(path, "w") as f:
            f.write(wrong)
        if figures(cache)["probed"]:
            return "a damaged file was believed: %r" % wrong[:40]
    return None


def no_folder(cache):
    blocked = os.path.join(cache, "file")
    open(blocked, "w").close()
    code, _, err = run(blocked, "--probe", "--threads=1")
    return None if code == 6 and "E0602" in err else "exit %d, %s" % (code, err)


def bad_flags(cache):
    for args in (["--threads=0"], ["--prob"], ["x.gnn"]):
        code, _, err = run(cache, *args)
        if code != 1 or "error[" not in err:
            return "%s: exit %d, %s" % (args, code, err)
    return None


with tempfile.TemporaryDirectory() as folder:
    for check in (built_in, probe, damaged, no_folder, bad_flags):
        report("machine " + check.__name__, check(folder))
