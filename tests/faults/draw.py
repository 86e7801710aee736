#!/usr/bin/env python3
"""Draws faults at random, plants one at a time in a copy of the tree and looks whether a test notices.

usage: draw.py COUNT [SEED [BUDGET_S]]     ends with `N noticed, N missed`; each fault is printed as a changed line

A fault is an operator, a constant, a condition or a statement changed in one place of the product's C or of the library's
text: every line of code is drawn with the same chance. One that does not compile, or gives the same machine code, is drawn again;
asserts, comments and the wording of messages are left alone. The test programs that FIRST names for the folder run first, then the
others, until one fails; a fault that tests of BUDGET_S CPU seconds (default 240) do not notice is missed.
"""
import glob
import hashlib
import os
import random
import re
import resource
import sys
import tempfile

from run import build_copy, failure, ninja, planted, test_names

FIRST = {
    "base": "base parse sema readers runtime_failures ir_tools fix errors bad_commands",
    "ir": "ir kernel refused readers world eval weave parts nth passes_random autodiff kmath lower_lanes lower_cases kinds emit_llvm emitters "
          "warps ir_tools fuzz derivatives drawn chains",
    "frontend": "parse format sema kinds lang fix blocks mutations ir_tools nth errors derivatives fuzz doc drawn docs",
    "frontend/std": "sema kinds lang torch_library derivatives training pairs reducers near vjp doc golden",
    "passes": "passes choice weave parts nth passes_random autodiff lower_lanes lower_cases audit hoist sparse lower table reorder emitters reducers "
              "torch_infinite vjp connect cone shared_rows drawn stage chains memory",
    "codegen": "kernel link emit_llvm emit_c emit_cuda emitters warps ir_tools levels build embed",
    "driver": "ir_tools fix lang blocks bad_commands data_files doc vjp machine memory build docs",
    "runtime": "runtime_codes runtime_data runtime_library runtime_train runtime_graph runtime_cost runtime_pool runtime_failures runtime_machine pack "
               "weave bad_weights folds pairs bad_data order training batches commands near determinism memory embed cone connect shared_rows",
}
LAST = "programs golden sanitize"  # they take minutes
SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-", "-": "+",
         "*": "+", "/": "*", "%": "/", "+=": "-=", "-=": "+=", "*=": "+=", "|": "&", "&": "|", "<<": ">>", ">>": "<<",
         "true": "false", "false": "true", "min": "max", "max": "min"}
# An operator between blanks is one of two operands: a pointer's star and a sign have none behind them.
OPERATOR = re.compile(r"(?<= )(<<|>>|<=|>=|==|!=|&&|\|\||[-+*]=|[-<>+*/%|&])(?= )|\b(?:true|false|min|max)\b")
NUMBER = re.compile(r"(?<![\w.\"])\d+(?:\.\d+)?(?![\w.\"])")
CONDITION = re.compile(r"\b(?:if|while) \((.*)\) ?(?:\{|return|continue|break|$)")
STATEMENT = re.compile(r"^\s+(?:[\w>.\[\]-]+(?: [-+*|]?= |\+\+|\()[^;{}]*);\s*$")
LEFT_ALONE = {".c": re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\])'|/\*.*?\*/|//[^\n]*|^ *#[^\n]*|\bICE(?:_UNLESS)?\([^;]*;", re.S | re.M),
              ".gnn": re.compile(r"\"[^\"\n]*\"|#[^\n]*")}


def places(root):
    """(path, number, line, the line with blanks for what is left alone) of each line that a fault can be in."""
    for folder in FIRST:
        inside = glob.glob(os.path.join(root, folder, "*.*")) + glob.glob(os.path.join(root, folder, "*", "*.c"))
        for path in sorted(os.path.relpath(p, root) for p in inside):
            kind = os.path.splitext(path)[1]
            if kind not in LEFT_ALONE:
                continue
            with open(os.path.join(root, path), encoding="utf-8") as f:
                text = f.read()
            if kind == ".gnn":  # a test block is no product
                text = re.sub(r"^test \".*?^}", lambda m: "\n" * m.group().count("\n"), text, flags=re.S | re.M)
            plain = LEFT_ALONE[kind].sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
            for i, (line, rest) in enumerate(zip(text.split("\n"), plain.split("\n"))):
                if any(changes(line, rest)):
                    yield path, i, line, rest


def changes(line, plain):
    """Every change of the line: (what, the line with it)."""
    for m in OPERATOR.finditer(plain):
        yield "operator", line[:m.start()] + SWAPS[m.group()] + line[m.end():]
    for m in NUMBER.finditer(plain):
        for by in (1, -1):
            new = str(int(m.group()) + by) if m.group().isdigit() else str(float(m.group()) * (1 + by * 0.5))
            if not new.startswith("-"):
                yield "constant", line[:m.start()] + new + line[m.end():]
    m = CONDITION.search(plain)
    if m and m.group(1).count("(") == m.group(1).count(")"):
        yield "condition", line[:m.start(1)] + "!(" + line[m.start(1):m.end(1)] + ")" + line[m.end(1):]
    if STATEMENT.match(plain):
        yield "statement", line[:len(line) - len(line.lstrip())] + ";"


def built(tree, folder):
    """A digest of what the folder's sources become, or None."""
    target = {"driver": "gnnc"}.get(folder, folder.split("/")[0])
    if ninja(tree, target):
        return None
    name = {"gnnc": "gnnc", "runtime": "libgnnrt.a"}.get(target, "lib%s.a" % target)
    with open(os.path.join(tree, "build", name), "rb") as f:
        return hashlib.sha256(f.read()).digest()


def room(path):
    """The folder of FIRST that a file belongs to."""
    return max((folder for folder in FIRST if path.startswith(folder + "/")), key=len)


def order(path):
    """Names of all test programs, those first that are likely to notice a fault in the file."""
    words = set(re.split(r"[_.]", os.path.basename(path))[:-1]) - {"test"}
    first, last = FIRST[room(path)].split(), LAST.split()
    names = [n for n in test_names() if n not in last]
    chosen = [n for n in names if words & set(n.split("_"))] + [n for n in first if n not in last] + names + first + last
    return list(dict.fromkeys(chosen))


def cpu_s():
    """Of all that this process started and has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def notice(tree, names, budget):
    """(The test program that notices, what it says), or None."""
    begun = cpu_s()
    for name in names:
        said = failure(tree, name)
        if said:
            return name, said
        if cpu_s() - begun > budget:
            return None
    return None


def main():
    count = int(sys.argv[1])
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    budget = float(sys.argv[3]) if len(sys.argv) > 3 else 240
    noticed, missed, unfit = 0, 0, set()
    with tempfile.TemporaryDirectory(prefix="gnnc-faults-") as tree:
        build_copy(tree)
        right = {folder: built(tree, folder) for folder in FIRST}
        lines, sound = list(places(tree)), set()
        print("%d lines, %.0f CPU s" % (len(lines), cpu_s()), flush=True)
        while noticed + missed < count:
            path, i, line, plain = rng.choice(lines)
            what, new = rng.choice(list(changes(line, plain)))
            folder, begun = room(path), cpu_s()
            with open(os.path.join(tree, path), encoding="utf-8") as f:
                text = f.read().split("\n")
            while True:
                with planted(tree, path, "\n".join(text[:i] + [new] + text[i + 1:])):
                    if built(tree, folder) in (None, right[folder]):
                        break
                    why = notice(tree, [n for n in order(path) if n not in unfit], budget)
                if why and why[0] not in sound and failure(tree, why[0]):
                    unfit.add(why[0])  # it fails without a fault as well: on this machine, or outside a repository
                    print("test_%s fails without a fault" % why[0])
                    continue
                sound.add(why and why[0])
                noticed, missed = noticed + bool(why), missed + (not why)
                print("%s %s:%d %s, %.0f CPU s: %s\n    - %s\n    + %s" % ("ok" if why else "FAIL", path, i + 1, what, cpu_s() - begun,
                      "%s: %s" % why if why else "nobody noticed", line.strip(), new.strip()), flush=True)
                break
    print("%d noticed, %d missed" % (noticed, missed))


main()
