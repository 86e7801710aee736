#!/usr/bin/env python3
"""Layers, norms, reducers, pools and whole models against PyG's numbers (tests/golden). usage: test_golden.py BUILD

The cases lie outside the repository: in shared/golden beside it, or where GNNC_SHARED says. That the runner can fail is
tested first, with a case in which one recorded number is another.
"""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "golden"))
import tensors  # noqa: E402

SHARED = os.environ.get("GNNC_SHARED", os.path.join(os.path.dirname(os.path.dirname(HERE)), "shared"))
FOLDERS = ["tier1", "tier2", "tier3/MFConv", "tier4", "tier5", "norm", "aggr", "pool", "model"]
FAULTS = ["out.0", "grad.in.x", "grad.param.lin.weight", "grad.param.bias"]
FAULT_SIZE = 1e-7  # well above 1e-9 of f64, far below what anybody would see


def command(build, folders):
    return [sys.executable, os.path.join(HERE, "golden", "run.py"), os.path.join(build, "gnnc")] + folders


def plant(folder, layer):
    """Copies of a layer's first case, each with one number of one recorded tensor changed."""
    with open(os.path.join(layer, "cases.json")) as f:
        head = json.load(f)
    entry = head["cases"][0]
    recorded = tensors.read(os.path.join(layer, entry["case"] + ".safetensors"))
    head["cases"] = [dict(entry, case=name) for name in FAULTS]
    with open(os.path.join(folder, "cases.json"), "w") as f:
        json.dump(head, f)
    for name in FAULTS:
        wrong = recorded[name].copy()
        wrong.flat[-1] += FAULT_SIZE
        with open(os.path.join(folder, name + ".safetensors"), "wb") as f:
            f.write(tensors.pack({**recorded, name: wrong}))


def test_faults(build, root):
    with tempfile.TemporaryDirectory() as folder:
        plant(folder, os.path.join(root, "tier1", "GCNConv"))
        p = subprocess.run(command(build, [folder]), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines = p.stdout.decode().splitlines()
    for name in FAULTS:
        seen = any(line.startswith("FAIL ") and "%s is off" % name in line for line in lines)
        print("ok a wrong %s is noticed" % name if seen else "FAIL a wrong %s is noticed: %s" % (name, lines[-1:]))


def main():
    build, root = sys.argv[1], os.path.join(SHARED, "golden")
    if not os.path.isdir(root):
        print("skip golden: NO CASES: %s is not there (GNNC_SHARED names another place)" % root)
        return
    test_faults(build, root)
    sys.stdout.flush()
    sys.exit(subprocess.call(command(build, [os.path.join(root, folder) for folder in FOLDERS])))


main()
