#!/usr/bin/env python3
"""Kernels for a GPU: registers, spilled bytes and shared memory of each, and how many warps of a multiprocessor they leave room for, by layer of bench/models.

usage: kernels.py BUILD [LAYER...] [--device-machine h200] [--arch sm_90] [--width 64] [--store f16] [--list]

Needs NVRTC and no GPU. The figures are those of the manifest. Kernels of rows gather what edges bring; for them half of the most warps is wanted, which 64 registers
give. --list names the kernels that spill or have less. Exits with 1 where one spills."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import rows

HERE = os.path.dirname(os.path.abspath(__file__))
# Of a multiprocessor with compute capability 8.0, 9.0 or 10.0 (CUDA C++ Programming Guide, "Technical Specifications
# per Compute Capability"): each quarter has its own registers.
WARPS, REGISTERS, SHARED, RESERVED = 64, 65536, {"sm_80": 164 << 10}, 1024
MOST_SHARED = 228 << 10


def occupancy(kernel, arch):
    """The share of a multiprocessor's warps that the kernel's blocks fill, for the block that fills most of them."""
    used = kernel[arch]["registers"]
    of_warp = -(-used * 32 // 256) * 256
    by_registers = REGISTERS // 4 // of_warp * 4
    teams, of_one, best = kernel["warps"], 32 // kernel["lanes"], 0
    for block in [teams] if kernel["binding"] == "block" else range(of_one, teams + 1, of_one):
        warps = -(-block // of_one)
        shared = kernel["block_bytes"] + kernel["warp_bytes"] * block + RESERVED
        blocks = min(WARPS // warps, by_registers // warps, SHARED.get(arch, MOST_SHARED) // shared, 32)
        best = max(best, blocks * warps / WARPS)
    return best


def kernels(gnnc, layer, o, folder):
    out = os.path.join(folder, layer + ".json")
    sets = ",".join("%s=%d" % s for s in rows.dims(layer, o.width).items())
    subprocess.run([gnnc, "build", os.path.join(HERE, "models", layer + ".gnn"), "--set", sets, "--vjp=gradients", "--target", "cuda", "--arch", o.arch, "--device-machine", o.device_machine,
                    "--emit=manifest,cubin", "-o", out[:-5]] + (["--store", o.store] if o.store else []), check=True)
    with open(out, encoding="utf-8") as f:
        return json.load(f)["kernels"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("layers", nargs="*", default=rows.LAYERS)
    p.add_argument("--device-machine", default="h200")
    p.add_argument("--arch", default="sm_90")
    p.add_argument("--width", type=int, default=64)
    p.add_argument("--store")
    p.add_argument("--list", action="store_true")
    o = p.parse_intermixed_args()
    gnnc, listed, total = os.path.join(os.path.abspath(o.build), "gnnc"), [], [0] * 8
    print("| layer | kernels | at most 32 registers | 64 | 128 | more | spill | of rows | of these, below half of the warps |\n|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for layer in o.layers:
            found = kernels(gnnc, layer, o, folder)
            used = [k[o.arch]["registers"] for k in found]
            spill = [k for k in found if k[o.arch]["spill_bytes"]]
            gather = [k for k in found if "_rows" in k["name"]]
            few = [k for k in gather if occupancy(k, o.arch) < 0.5]
            cells = [len(found), sum(u <= 32 for u in used), sum(32 < u <= 64 for u in used), sum(64 < u <= 128 for u in used), sum(u > 128 for u in used), len(spill), len(gather), len(few)]
            total = [a + b for a, b in zip(total, cells)]
            print("| %s | %s |" % (layer, " | ".join(map(str, cells))), flush=True)
            for k in spill + [k for k in few if k not in spill]:
                listed.append("%s %s: %d registers, %d bytes spilled, %d bytes of shared memory for a warp of kernel IR, %.0f %% of the warps"
                              % (layer, k["name"], k[o.arch]["registers"], k[o.arch]["spill_bytes"], k["warp_bytes"], 100 * occupancy(k, o.arch)))
    print("| all | %s |" % " | ".join(map(str, total)))
    if o.list:
        print("\n" + "\n".join(listed))
    sys.exit(total[5] > 0)


if __name__ == "__main__":
    main()
