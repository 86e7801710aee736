#!/usr/bin/env python3
"""Layers, norms, reducers, pools and whole models against PyG's numbers (tests/golden). usage: test_golden.py BUILD

PyG's cases lie outside the repository: in shared/golden beside it, or where GNNC_SHARED says. Those of DGL's layers, of papers and of PyG's other
reducers are in tests/golden/own (record.py made them). That the runner can fail is tested first, with a case in which one recorded number is another.
Each layer's first case in f64, one in four in f32 as well; with GNNC_LONG=1 all in f64, one in four in f32.
Run: avx2 if long"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "golden"))
import model  # noqa: E402
import tensors  # noqa: E402

SHARED = os.environ.get("GNNC_SHARED", os.path.join(os.path.dirname(os.path.dirname(HERE)), "shared"))
FOLDERS = ["tier1", "tier2", "tier3", "tier4", "tier5", "norm", "aggr", "pool", "model"]
OWN = os.path.join(HERE, "golden", "own")
FAULTS = {"GCNConv": ["out.0", "grad.in.x", "grad.param.lin.weight", "grad.param.bias"], "RelGraphConv": ["out.0", "grad.in.x", "grad.param.linear_r.W"]}
FAULT_SIZE = 1e-7  # well above 1e-9 of f64, far below what anybody would see


def command(build, folders):
    return [sys.executable, os.path.join(HERE, "golden", "run.py"), os.path.join(build, "gnnc")] + folders


def first_case(layer):
    """A layer's cases.json, and the first case in it."""
    with open(os.path.join(layer, "cases.json")) as f:
        head = json.load(f)
    return head, head["cases"][0]


def plant(folder, layer):
    """Copies of a layer's first case, each with one number of one recorded tensor changed."""
    head, entry = first_case(layer)
    recorded = tensors.read(os.path.join(layer, entry["case"] + ".safetensors"))
    faults = FAULTS[head["layer"]]
    head["cases"] = [dict(entry, case=name) for name in faults]
    with open(os.path.join(folder, "cases.json"), "w") as f:
        json.dump(head, f)
    for name in faults:
        wrong = recorded[name].copy()
        wrong.flat[-1] += FAULT_SIZE
        with open(os.path.join(folder, name + ".safetensors"), "wb") as f:
            f.write(tensors.pack({**recorded, name: wrong}))


def test_faults(build, layer):
    with tempfile.TemporaryDirectory() as folder:
        plant(folder, layer)
        p = subprocess.run(command(build, [folder]), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines = p.stdout.decode().splitlines()
    for name in FAULTS[os.path.basename(layer)]:
        seen = any(line.startswith("FAIL ") and "%s is off" % name in line for line in lines)
        print("ok a wrong %s is noticed" % name if seen else "FAIL a wrong %s is noticed: %s" % (name, lines[-1:]))


def run_numbers(build, layer, numbers):
    """The lines that report a layer's first case, called with each of `numbers` besides."""
    head, entry = first_case(layer)
    head["cases"] = [dict(entry, case=str(i), scalars=n) for i, n in enumerate(numbers)]
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "cases.json"), "w") as f:
            json.dump(head, f)
        for i in range(len(numbers)):
            shutil.copy(os.path.join(layer, entry["case"] + ".safetensors"), os.path.join(folder, "%d.safetensors" % i))
        p = subprocess.run(command(build, [folder]), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return sorted(p.stdout.decode().splitlines()[:-1], key=lambda line: line.split("/")[-1])


def test_numbers(build, root):
    """A plain number reaches the layer, or the case fails. The Laplacian of ChebConv's first case has the largest entry 1, so that 2 is
    what the layer computes by itself, and 1.7 is something else."""
    lines = run_numbers(build, os.path.join(root, "tier1", "ChebConv"), [{"lambda_max": 2.0}, {"lambda_max": 1.7}])
    lines += run_numbers(build, os.path.join(root, "tier1", "GCNConv"), [{"lambda_max": 1.7}])
    wanted = ["ok ", "out.0 is off", "lambda_max of the case is not passed"]
    for line, part in zip(lines, wanted):
        print("ok a number beside the inputs: %s" % part if part in line else "FAIL a number beside the inputs: %s, wanted %s" % (line, part))
    if len(lines) != len(wanted):
        print("FAIL numbers beside the inputs: found %d lines: %s" % (len(lines), lines))


def classes_of(root):
    """Whose cases there are: convolutions of PyG, and all that is recorded here."""
    found = {f + "/" + c for f in FOLDERS[:5] for c in os.listdir(os.path.join(root, f))} if os.path.isdir(root) else set()
    return found | {f + "/" + c for f in os.listdir(OWN) for c in os.listdir(os.path.join(OWN, f))}


def row_is_wrong(root, layer, ours, cases, names):
    """Why a row of docs/from-pyg.md's tables is not true: the model of its cases must call the layer."""
    if cases.startswith("as `"):
        return cases.split("`")[1] not in names and "there is no row for %s" % cases
    place = cases.strip("`")
    path = os.path.join(OWN if place.split("/")[0] in os.listdir(OWN) else root, place)
    if not os.path.isdir(path):
        return os.path.isdir(root) and "there are no cases %s" % place
    if layer.startswith("`") and layer.strip("`") != os.path.basename(place):
        return "%s has cases of %s" % (layer, place)
    head = json.load(open(os.path.join(path, "cases.json")))
    texts = [model.spec_of(head["layer"], entry).text for entry in head["cases"]]
    return [t for t in texts if not re.search(r"\b%s\(" % ours, t)] and "a case of %s does not call %s" % (place, ours)


def test_table(root):
    """The tables of docs/from-pyg.md: a row for each class that has cases, each true; 66 convolutions of PyG and 12 of DGL."""
    with open(os.path.join(os.path.dirname(HERE), "docs", "from-pyg.md")) as f:
        tables = f.read().split("\n## All of them\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| `(\w+)`[^|]* \| (.+?) \|$", tables, re.M)
    names = [layer.strip("`") for layer, _, cases in rows if layer.startswith("`")]
    told = {cases.strip("`") for _, _, cases in rows}
    lacks = classes_of(root) - told
    count = [sum(1 for layer, _, cases in rows if layer.startswith("`") and cases.startswith("`dgl/") == dgl) for dgl in (False, True)]
    wrong = ["no row has the cases %s" % sorted(lacks)] if lacks else []
    wrong += ["found %s rows of PyG and DGL, wanted 66 and 12" % count] if count != [66, 12] else []
    wrong += [why for row in rows for why in [row_is_wrong(root, *row, names)] if why]
    print("FAIL the table of layers: %s" % "; ".join(wrong) if wrong else "ok the table of layers")


def main():
    build, root = sys.argv[1], os.path.join(SHARED, "golden")
    folders = [OWN]
    test_table(root)
    test_faults(build, os.path.join(OWN, "dgl", "RelGraphConv"))
    if os.path.isdir(root):
        test_faults(build, os.path.join(root, "tier1", "GCNConv"))
        test_numbers(build, root)
        folders += [os.path.join(root, folder) for folder in FOLDERS]
    else:
        print("skip golden: NO CASES OF PYG: %s is not there (GNNC_SHARED names another place)" % root)
    sys.stdout.flush()
    some = ["--quarter" if os.environ.get("GNNC_LONG") else "--first"]
    sys.exit(subprocess.call(command(build, some + folders)))


main()
