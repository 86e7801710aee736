#!/usr/bin/env python3
"""`gnnc machine`: built-in figures, the probe and its cache file, damaged files. usage: test_machine.py BUILD
Run: alone"""
import json
import os
import re
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


def kept_rows(cache):
    """The lines of the file of figures: the name of each and its numbers, in full."""
    folder = os.path.join(cache, "gnnc")
    (name,) = os.listdir(folder)
    return {what: [float(x) for x in numbers] for what, *numbers in (s.split() for s in open(os.path.join(folder, name)).read().splitlines()[1:])}


def probe(cache):
    before = figures(cache)
    m = figures(cache, "--probe")
    for what, key in (("latency", "latency_ns"), ("copy", "copy_gb_s")):
        same = set(before[key]) & set(kept_rows(cache)[what])
        if same:
            return "%s: %s were not measured" % (what, same)
    levels = m["latency_ns"]
    if not m["probed"] or not all(x > 0 for x in m["gather_64_gb_s"] + m["gather_256_gb_s"]):
        return "found %s" % m
    if not levels[0] < levels[1] < levels[3]:
        return "the levels' latencies do not grow: %s" % levels
    if m["gflop_s"] * levels[0] < 8:  # a vector at least while one load waits for another
        return "found %s GFLOP/s beside a load in %s ns" % (m["gflop_s"], levels[0])
    kept = figures(cache)
    return None if kept["probed"] and kept["latency_ns"] == levels else "kept %s of %s" % (kept["latency_ns"], levels)


def damaged(cache):
    folder = os.path.join(cache, "gnnc")
    (name,) = os.listdir(folder)
    path = os.path.join(folder, name)
    text = open(path).read()
    for wrong in (text[:len(text) // 2], text.replace("copy", "copy -"), text.replace("machine 4", "machine 9"), ""):
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


def scaled(cache, factor):
    """The kept figures, but all bytes come `factor` times as fast."""
    folder = os.path.join(cache, "gnnc")
    (name,) = os.listdir(folder)
    lines = [s.split(" ") for s in open(os.path.join(folder, name)).read().split("\n")]
    with open(os.path.join(folder, name), "w") as f:
        f.write("\n".join(" ".join([what] + [repr(float(x) * factor) for x in numbers] if what in ("copy", "gather") else [what] + numbers)
                          for what, *numbers in lines))


def explained(cache):
    """Each row of the table with the number of each machine, and what kernels of GPUs are bound by."""
    code, out, _ = run(cache, "--explain")
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "passes", "context", "machine.def")) as f:
        rows = re.findall(r'^(?:COUNT|RATE)\((\w+),[^(]*\(([^)]*)\), "(.*)"\)$', f.read(), re.M)
    found = {line.split()[0]: line.split(None, 5)[1:] for line in out.split("\n\n")[0].splitlines()[1:]}
    for name, values, doc in rows:
        if [float(v) for v in found[name][:4]] != [float(v) for v in values.split(",")] or found[name][4] != doc:
            return "%s: %s" % (name, found[name])
    return code or len(rows) < 25 or sorted(found) != sorted(r[0] for r in rows) or "  path    of the team of lanes" not in out


def planned(cache):
    """`plan` predicts times from the figures that the probe kept, and from built-in ones without."""
    model, exe, data = (os.path.join(cache, n) for n in ("m.gnn", "m", "data"))
    with open(model, "w") as f:
        f.write("model net(x: node[F]) -> node[F] {\n  return sum_in(x.src * x.dst) + max_in(x.src)\n}\n")
    for argv in (["data", "generate", data, "--nodes=600", "--edges=9000", "--features=64", "--kind=rmat"],
                 ["build", model, "--data", data, "--cpu=native", "-o", exe], ["machine", "--probe", "--threads=1"]):
        subprocess.run([GNNC] + argv, check=True, stdout=subprocess.DEVNULL, env=dict(os.environ, XDG_CACHE_HOME=cache))

    def plan(folder):
        out = subprocess.run([exe, "plan", "--data", data, "--threads=1", "--json"], stdout=subprocess.PIPE, check=True,
                             env=dict(os.environ, XDG_CACHE_HOME=folder)).stdout
        p = json.loads(out)
        return p["probed"], [s["memory_ms"] for s in p["forward"]["steps"]]

    before = plan(cache)
    scaled(cache, 0.01)
    after, other = plan(cache), plan(os.path.join(cache, "none"))
    if not before[0] or not after[0] or other[0]:
        return "measured figures are used: %s, %s; none: %s" % (before[0], after[0], other[0])
    if not before[1] or any(not 99 < y / x < 101 for x, y in zip(before[1], after[1])):
        return "found %s ms, and %s ms where bytes take 100 times as long" % (before[1], after[1])
    return None


with tempfile.TemporaryDirectory() as folder:
    for check in (built_in, explained, probe, damaged, no_folder, bad_flags):
        report("machine " + check.__name__, check(folder))
with tempfile.TemporaryDirectory() as folder:
    report("machine planned", planned(folder))
