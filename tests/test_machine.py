#!/usr/bin/env python3
"""`gnnc machine`: built-in figures, the probe and its cache file, damaged files. usage: test_machine.py BUILD
Run: alone"""
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
    for wrong in (text[:len(text) // 2], text.replace("copy", "copy -"), text.replace("machine 3", "machine 9"), ""):
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


MODEL = """model net(x: node[F]) -> node[F] {
  m = sum_in(x.src * x.dst)
  return m + max_in(x.src)
}
"""


def built(folder):
    """An executable and a graph that is large enough to choose for."""
    data, model, exe = (os.path.join(folder, n) for n in ("data", "m.gnn", "m"))
    with open(model, "w") as f:
        f.write(MODEL)
    for argv in (["data", "generate", data, "--nodes=6000", "--edges=90000", "--features=64", "--kind=rmat"],
                 ["build", model, "--data", data, "--cpu=native", "-o", exe]):
        subprocess.run([GNNC] + argv, check=True, stdout=subprocess.DEVNULL)
    return exe, data


def figures_with(cache, latency):
    """Replaces the kept figures for two threads: loads from L1, L2, L3 and memory take so long; bytes and operations cost nothing."""
    subprocess.run([GNNC, "machine", "--probe", "--threads=2"], env=dict(os.environ, XDG_CACHE_HOME=cache), check=True,
                   stdout=subprocess.DEVNULL)
    folder = os.path.join(cache, "gnnc")
    (name,) = os.listdir(folder)
    lines = [s.split(" ") for s in open(os.path.join(folder, name)).read().split("\n")]
    for i, (what, *numbers) in enumerate(lines):
        if what == "latency":
            lines[i] = [what] + [str(x) for x in latency]
        elif what in ("copy", "gather", "flops"):
            lines[i] = [what] + ["1e6"] * len(numbers)
    with open(os.path.join(folder, name), "w") as f:
        f.write("\n".join(" ".join(s) for s in lines))


def chosen(exe, data, latency):
    """What the plan chooses for the steps that gather, where loads take so long."""
    with tempfile.TemporaryDirectory() as cache:
        figures_with(cache, latency)
        out = subprocess.run([exe, "plan", "--data", data, "--threads=2", "--json"], stdout=subprocess.PIPE, check=True,
                             env=dict(os.environ, XDG_CACHE_HOME=cache)).stdout
        return [s["ahead"] for s in json.loads(out)["forward"]["steps"] if "reduce" in s["name"]]


def selector(exe, data):
    for latency, want in (((0.1, 0.1, 0.1, 0.1), -1), ((1, 1, 1000, 2000), 128)):
        found = chosen(exe, data, latency)
        if not found or any(a != want for a in found):
            return "with latencies %s found distances %s, wanted %d" % (latency, found, want)
    return None


def every_way(exe, data):
    """`bench --ways` runs steps that gather in at least 24 ways, and the selector's pick is one of them."""
    out = subprocess.run([exe, "bench", "--ways", "--iters", "1", "--data", data, "--threads=2"], stdout=subprocess.PIPE, check=True).stdout
    for step in json.loads(out)["infer"]["steps"]:
        ways = {(w["ahead"], w["chunks"], w["cut"]): w for w in step["ways"]}
        if len(ways) != len(step["ways"]) or len(ways) < (24 if "reduce" in step["name"] else 6):
            return "%d different ways of %d to run %s" % (len(ways), len(step["ways"]), step["name"])
        if any(min(w["runs_ms"]) <= 0 or w["predicted_ms"] <= 0 for w in step["ways"] + [step["pick"]]):
            return "%s was not measured or not predicted in some way" % step["name"]
        if step["pick"]["ahead"] and (step["pick"]["ahead"], step["pick"]["chunks"], step["pick"]["cut"]) not in ways:
            return "the pick %s is no way to run %s" % (step["pick"], step["name"])
    return None


def same_bits(exe, data, folder):
    weights = os.path.join(folder, "w.safetensors")
    with open(weights, "wb") as f:
        f.write((2).to_bytes(8, "little") + b"{}")
    first = None
    for threads in ("1", "2", "3"):
        for choice in ([], ["--ahead=0"], ["--ahead=5"], ["--ahead=1000000"], ["--chunks=1"], ["--chunks=64"], ["--cut=rows"], ["--cut=elements", "--chunks=7"]):
            out = os.path.join(folder, "y.npy")
            subprocess.run([exe, "infer", "--data", data, "--weights", weights, "--out", out, "--threads", threads] + choice,
                           check=True, stdout=subprocess.DEVNULL)
            y = open(out, "rb").read()
            first = first or y
            if y != first:
                return "other bits with %s and %s threads" % (choice, threads)
    return None


with tempfile.TemporaryDirectory() as folder:
    for check in (built_in, probe, damaged, no_folder, bad_flags):
        report("machine " + check.__name__, check(folder))
with tempfile.TemporaryDirectory() as folder:
    exe, data = built(folder)
    report("machine selector follows the figures", selector(exe, data))
    report("machine bench --ways", every_way(exe, data))
    report("machine no choice changes a bit", same_bits(exe, data, folder))
