#!/usr/bin/env python3
"""`gnnc build` from outside: forms, equal bytes in two folders, C against LLVM on a real graph, installing and moving.

usage: test_build.py BUILD"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden"))
import levels  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.abspath(sys.argv[1])
GNNC = os.path.join(BUILD, "gnnc")
CORA = os.path.join(ROOT, "examples", "data", "cora")
SANITIZED = "GNNC_SANITIZE:BOOL=ON" in open(os.path.join(BUILD, "CMakeCache.txt")).read()
failed = False


def report(name, why):
    global failed
    failed = failed or bool(why)
    print("FAIL %s: %s" % (name, why) if why else "ok %s" % name, flush=True)


def run(argv, **kw):
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=300, **kw)
    return p.returncode, p.stdout.decode("utf-8", "replace")


def must(argv, **kw):
    code, out = run(argv, **kw)
    if code:
        raise RuntimeError("%s ended with %d: %s" % (" ".join(argv[:3]), code, out[-400:]))
    return out


def read(path):
    with open(path, "rb") as f:
        return f.read()


def model(folder, name="gcn"):
    return shutil.copy(os.path.join(ROOT, "examples", name + ".gnn"), folder)


def test_two_folders(tmp):
    """The same model file from two folders, named relatively and absolutely: every form has the same bytes."""
    forms = "exe,lib,obj,header,manifest,c,ll,gir,kir,plan,schedule"
    places = [os.path.join(tmp, "a"), os.path.join(tmp, "b", "deeper")]
    for place, absolute in zip(places, [False, True]):
        os.makedirs(place)
        source = model(place) if absolute else os.path.basename(model(place))
        must([GNNC, "build", source, "--set", "F=24,C=3", "--emit=" + forms, "-o", "net"], cwd=place)
    names = sorted(n for n in os.listdir(places[0]) if n != "gcn.gnn")
    if names != sorted(n for n in os.listdir(places[1]) if n != "gcn.gnn"):
        return "other files: %s" % os.listdir(places[1])
    if len(names) < 11:
        return "only %s" % names
    different = [n for n in names if read(os.path.join(places[0], n)) != read(os.path.join(places[1], n))]
    if different:
        return "different bytes: %s" % different
    leaks = [n for n in names if tmp.encode() in read(os.path.join(places[1], n))]
    return leaks and "the folder's name is in %s" % leaks


def test_size(tmp):
    must([GNNC, "build", model(tmp, "gat"), "--data", CORA, "-o", os.path.join(tmp, "gat")])
    size = os.path.getsize(os.path.join(tmp, "gat"))
    return size > 3 << 20 and not SANITIZED and "%d bytes, wanted at most 3 MiB" % size


def train(exe, out, *options):
    must([exe, "train", "--data", CORA, "--epochs", "3", "--seed", "7", "--save", out] + list(options))
    return read(out)


def test_quick(tmp):
    """Without LLVM's optimiser machine code is another and weights are the same, by each CPU variant."""
    source, found, code = model(tmp), {}, {}
    for name, more in (("whole", []), ("quick", ["--quick"])):
        for cpu in levels.allowed():
            exe = os.path.join(tmp, name)
            must([GNNC, "build", source, "--data", CORA, "--cpu", cpu, "--emit=exe,obj", "-o", exe] + more)
            found[name, cpu], code[name, cpu] = train(exe, os.path.join(tmp, "w"), "--blas", "off"), read(exe + ".o")
    return next(("%s: %s" % (cpu, why) for cpu in levels.allowed() for why, wrong in (
        ("other weights", found["whole", cpu] != found["quick", cpu]), ("the same code", code["whole", cpu] == code["quick", cpu])) if wrong), None)


def test_through_maps(folder):
    """A value that a kernel has at its elements, copied or kept for two loops, and wants once more by way of another graph's edges."""
    for name in ["through_maps.gir", "kept_through_maps.gir"]:
        must([GNNC, "build", os.path.join(ROOT, "tests", "ir", name), "--emit=c", "-o", os.path.join(folder, "m.c")])


def test_c_equals_llvm(tmp):
    """Weights after three epochs on Cora: the emitted C through the system's compiler, each CPU variant, 1 and 2 threads (gat with GNNC_LONG=1)."""
    for name in ["gcn", "gat"][:2 if os.environ.get("GNNC_LONG") else 1]:
        source, exe = model(tmp, name), os.path.join(tmp, name)
        must([GNNC, "build", source, "--data", CORA, "-o", exe])
        want = train(exe, os.path.join(tmp, "w"), "--threads", "1")
        if train(exe, os.path.join(tmp, "w"), "--threads", "2") != want:
            return "%s: two threads differ from one" % name
        for cpu in levels.allowed():
            must([GNNC, "build", source, "--data", CORA, "--cpu", cpu, "-o", exe])
            if train(exe, os.path.join(tmp, "w")) != want:
                return "%s: variant %s differs" % (name, cpu)
        must([GNNC, "build", source, "--data", CORA, "--emit=c", "-o", exe + ".c"])
        flags = ["-fsanitize=address,undefined"] if SANITIZED else ["-O2"]
        must(["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-ffp-contract=off", "-fwrapv", levels.march()] + flags +
             ["-o", exe + "_c", exe + ".c", os.path.join(BUILD, "libgnnrt.a"), "-lz", "-lm", "-lpthread", "-ldl"])
        if train(exe + "_c", os.path.join(tmp, "w")) != want:
            return "%s: the emitted C differs from LLVM" % name
    return None


def test_install(tmp):
    """Installed, moved, and used from there; without its library the compiler says so."""
    prefix, moved = os.path.join(tmp, "prefix"), os.path.join(tmp, "elsewhere", "gnnc-home")
    must(["cmake", "--install", BUILD, "--prefix", prefix])
    os.makedirs(os.path.dirname(moved))
    os.rename(prefix, moved)
    gnnc, exe = os.path.join(moved, "bin", "gnnc"), os.path.join(tmp, "net")
    must([gnnc, "build", model(tmp), "--set", "F=8,C=3", "-o", exe])
    must([exe, "info"])
    if not os.path.exists(os.path.join(moved, "include", "gnnrt.h")):
        return "no include/gnnrt.h"
    os.remove(os.path.join(moved, "lib", "gnnc", "libgnnrt.a"))
    before = read(exe)
    code, out = run([gnnc, "build", model(tmp), "--set", "F=8,C=3", "-o", exe])
    if code != 6 or "E0631" not in out:
        return "without the library: exit code %d, %s" % (code, out[-300:])
    return read(exe) != before and "the old executable was changed"


def test_cuda(tmp):
    """The text, which names every kernel of the manifest; machine code and PTX where there is NVRTC, else what is missing, and no file."""
    base = [GNNC, "build", model(tmp), "--set", "F=8,C=3", "--target", "cuda", "--arch", "sm_80,sm_90"]
    for target, machine in (("cuda", "h200"), ("all", "h200"), ("all", "avx512-2")):
        must(base + ["--target", target, "--device-machine", machine, "--emit=cu,manifest", "-o", "net"], cwd=tmp)
        text, manifest = read(os.path.join(tmp, "net.cu")).decode(), json.loads(read(os.path.join(tmp, "net.json")))
        for k in manifest["kernels"]:
            params = re.search(r"__launch_bounds__\((\d+)\)\s+%s\((.*?)\)\n" % k["name"], text)
            if not params or int(params.group(1)) != k["lanes"] * k["warps"] or params.group(2).count(",") != len(k["params"]) + 2:
                return "--target %s: kernel %s is another one in the text" % (target, k["name"])
        if text.count("__global__") != len(manifest["kernels"]):
            return "the text has %d kernels, the manifest %d" % (text.count("__global__"), len(manifest["kernels"]))
        if (manifest["machine"]["name"], manifest["device_machine"]["name"]) != ("avx512-2", machine):
            return "the manifest names %s and %s" % (manifest["machine"], manifest["device_machine"])
    code, out = run(base + ["--no-cache", "--emit=cu,ptx,cubin,manifest", "-o", "other"], cwd=tmp)
    files = sorted(n for n in os.listdir(tmp) if n.startswith("other"))
    if "E0634" in out:
        return (code != 6 or files or "CUDA toolkit" not in out) and "without NVRTC: exit code %d, files %s: %s" % (code, files, out)
    if code or files != ["other.cu", "other.json", "other.ptx", "other.sm_80.cubin", "other.sm_90.cubin"]:
        return "exit code %d, files %s: %s" % (code, files, out[-400:])
    if not read(os.path.join(tmp, "other.sm_90.cubin")).startswith(b"\x7fELF") or b".target sm_80" not in read(os.path.join(tmp, "other.ptx")):
        return "no machine code, or no PTX"
    for k in json.loads(read(os.path.join(tmp, "other.json")))["kernels"]:
        if not all(8 < k[arch]["registers"] <= 255 and k[arch]["spill_bytes"] == 0 for arch in ("sm_80", "sm_90")):
            return "kernel %s: %s" % (k["name"], k)
    wrong = cached(tmp, base + ["--emit=cubin,ptx,manifest"], "other")
    if wrong:
        return wrong
    code, out = run(base[:-1] + ["sm_11", "--emit=cubin", "-o", "old"], cwd=tmp)
    return (code != 6 or "E0635" not in out or "sm_11" not in out) and "an unknown GPU: exit code %d, %s" % (code, out)


def cached(tmp, base, other):
    """Files are those of a build that kept nothing, whether their code was made, found, found damaged, or has nowhere to be kept."""
    cache, plain = os.path.join(tmp, "cache"), os.path.join(tmp, "plain")
    ends = [".json", ".ptx", ".sm_80.cubin", ".sm_90.cubin"]

    def files(name):
        return [read(os.path.join(tmp, name + end)) for end in ends]

    def built(name, where, *more):
        code, out = run(base + ["-o", name, "--time", *more], cwd=tmp, env=dict(os.environ, GNNC_CACHE=where))
        took = re.search(r"for GPUs +([\d.]+) ms", out)
        return code or (files(name) != files(other) and "other bytes") or not took and "no time" or None, took and float(took.group(1)), out

    wrong, made, _ = built("made", cache)
    kept = sorted(os.listdir(cache)) if os.path.isdir(cache) else []
    if wrong or len(kept) != 3:
        return "a first build: %s, %d pieces are kept, wanted PTX and 2 of machine code" % (wrong, len(kept))
    wrong, found, _ = built("found", cache)
    if wrong or found > made / 4:
        return "a second build: %s, it took %s ms, the first %s" % (wrong, found, made)
    for name in kept:
        whole = read(os.path.join(cache, name))
        with open(os.path.join(cache, name), "wb") as f:
            f.write(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    wrong, _, _ = built("mended", cache)
    if wrong or sorted(os.listdir(cache)) != kept:
        return "damaged pieces: %s" % wrong
    shutil.rmtree(cache)
    wrong, _, _ = built("without", cache, "--no-cache")
    if wrong or os.path.exists(cache):
        return "--no-cache: %s, or something was kept" % wrong
    with open(plain, "w"):
        pass
    wrong, _, out = built("nowhere", plain)
    return wrong or ("remark: machine code is not kept in `%s`" % plain not in out and "a folder that is a file: %s" % out)


def test_odd_names(tmp):
    """Outputs whose names a tool could take for an option."""
    model(tmp)
    must([GNNC, "build", "gcn.gnn", "--set", "F=8,C=3", "--output=-o"], cwd=tmp)
    return not os.access(os.path.join(tmp, "-o"), os.X_OK) and "no executable named -o"


def main():
    for test in [test_two_folders, test_size, test_c_equals_llvm, test_quick, test_install, test_cuda, test_odd_names, test_through_maps]:
        tmp = tempfile.mkdtemp(prefix="gnnc-test-")
        try:
            report(test.__name__.replace("test_", "build_", 1), test(tmp))
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as e:
            report(test.__name__.replace("test_", "build_", 1), str(e).replace("\n", " "))
        shutil.rmtree(tmp, ignore_errors=True)
    return 1 if failed else 0


sys.exit(main())
