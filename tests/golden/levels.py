"""Kinds of kernels, what this machine has of them, and the variable GNNC_CPU, which says that it is to be taken for a lesser one.

gnnc and executables read the variable themselves. A library never reads the environment, and a C compiler does not know it:
whoever loads the one or calls the other asks here.
"""
import os

LEVELS = ["generic", "avx2", "avx512"]
NEEDS = {"generic": [], "avx2": ["avx2", "fma"], "avx512": ["avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl"]}
MARCH = {"": "native", "generic": "x86-64", "avx2": "x86-64-v3", "avx512": "x86-64-v4"}
BEST_HERE = -1  # GNNRT_BEST_CPU of runtime/gnnrt.h


def here():
    """The best level of this machine."""
    with open("/proc/cpuinfo") as f:
        flags = next((line.split() for line in f if line.startswith("flags")), [])
    return [level for level in LEVELS if all(flag in flags for flag in NEEDS[level])][-1]


def allowed():
    """All levels that may run here."""
    most = os.environ.get("GNNC_CPU") or LEVELS[-1]
    return LEVELS[:1 + min(LEVELS.index(most), LEVELS.index(here()))]


def march():
    """What a C compiler is told."""
    return "-march=" + MARCH[os.environ.get("GNNC_CPU", "")]


def library_cpu():
    """What a library's model_create takes."""
    level = os.environ.get("GNNC_CPU", "")
    return LEVELS.index(level) if level else BEST_HERE
