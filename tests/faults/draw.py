#!/usr/bin/env python3
"""Draws faults at random, plants one at a time in a copy of the tree and looks whether a test notices.

usage: draw.py COUNT [SEED [BUDGET_S]]     ends with `N noticed, N missed`; a missed fault is printed as a changed line

A fault is an operator, a constant, a condition or a statement changed in one place of the product's C or of the library's
text: every line of code is drawn with the same chance. One that does not compile, or gives the same programs to the byte, is drawn
again. The test programs run from the quickest to the slowest until one fails; a fault that the first BUDGET_S seconds of tests (default: all)
do not notice is missed.
"""
import hashlib
import os
import random
import re
import subprocess
import sys
import tempfile

from run import build_copy, call

FOLDERS = ["base", "ir", "frontend", "frontend/std", "passes", "codegen", "driver", "runtime"]
SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-", "-": "+",
         "*": "+", "/": "*", "%": "/", "+=": "-=", "-=": "+=", "*=": "+=", "|": "&", "&": "|", "<<": ">>", ">>": "<<",
         "true": "false", "false": "true", "min": "max", "max": "min"}
# An operator between blanks is one of two operands: a pointer's star and a sign have none behind them.
OPERATOR = re.compile(r"(?<= )(<<|>>|<=|>=|==|!=|&&|\|\||[-+*]=|[-<>+*/%|&])(?= )|\b(?:true|false|min|max)\b")
NUMBER = re.compile(r"(?<![\w.\"])\d+(?:\.\d+)?(?![\w.\"])")
CONDITION = re.compile(r"\b(?:if|while) \((.*)\) ?(?:\{|return|continue|break|$)")
STATEMENT = re.compile(r"^\s+(?:[\w>.\[\]-]+(?: [-+*|]?= |\+\+|\()[^;{}]*);\s*$")
LITERAL = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])'|/\*.*?\*/|//.*")


def code_lines(root):
    """(path, number, line) of each line that holds code: no comment, no directive."""
    for folder in FOLDERS:
        for name in sorted(os.listdir(os.path.join(root, folder))):
            if not name.endswith((".c", ".gnn")):
                continue
            path, comment = os.path.join(folder, name), False
            with open(os.path.join(root, path), encoding="utf-8") as f:
                for i, line in enumerate(f):
                    opens = not comment and line.lstrip().startswith(("/*", "*"))
                    if not (comment or opens or not line.strip() or line.lstrip().startswith(("#", "}"))):
                        yield path, i, line
                    comment = (comment or opens) and "*/" not in line


def changes(line):
    """Every change of the line: (what, the line with it)."""
    plain = LITERAL.sub(lambda m: " " * len(m.group()), line)
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
        yield "statement", line[:len(line) - len(line.lstrip())] + ";\n"


def digest(tree):
    """Of what a user gets: the compiler and the runtime."""
    h = hashlib.sha256()
    for name in sorted(os.listdir(os.path.join(tree, "build"))):
        if name == "gnnc" or name.endswith(".a"):
            with open(os.path.join(tree, "build", name), "rb") as f:
                h.update(f.read())
    return h.hexdigest()


def stages(tree):
    """Names of the test programs in groups, quickest first; the tree must pass them all. Each group costs about what all before it cost."""
    code, out = call(["/usr/bin/python3", "tests/run.py", "build"], tree, 7200)
    if code:
        sys.exit("tests fail without a fault:\n" + out[-2000:])
    times = sorted((float(t), n) for n, t in re.findall(r"^(test_\w+) .* ([\d.]+) s$", out, re.M))
    groups, spent, seconds = [[]], 0, 20
    for t, n in times:
        if groups[-1] and spent + t > seconds:
            groups.append([])
            seconds = 2 * spent
        groups[-1].append(n)
        spent += t
    return groups, dict((n, t) for t, n in times)


def notices(tree, groups, times, budget):
    """The first line of what noticed, or None."""
    for group in groups:
        seconds = sum(times[n] for n in group)
        budget -= seconds
        if budget < 0:
            return None
        code, out = call(["/usr/bin/python3", "tests/run.py", "build"] + group, tree, 60 + 5 * seconds)
        if code:
            bad = [s.strip() for s in out.splitlines() if s.strip().startswith("FAIL")]
            return (bad[0] if bad else out.strip()[-120:])[:120]
    return None


def main():
    count = int(sys.argv[1])
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    budget = float(sys.argv[3]) if len(sys.argv) > 3 else float("inf")
    noticed, missed = 0, 0
    with tempfile.TemporaryDirectory(prefix="gnnc-faults-") as tree:
        build_copy(tree)
        groups, times = stages(tree)
        right = digest(tree)
        lines = [(p, i, s) for p, i, s in code_lines(tree) if any(True for _ in changes(s))]
        while noticed + missed < count:
            path, i, line = rng.choice(lines)
            what, new = rng.choice(list(changes(line)))
            full = os.path.join(tree, path)
            with open(full, encoding="utf-8") as f:
                text = f.readlines()
            with open(full, "w", encoding="utf-8") as f:
                f.writelines(text[:i] + [new] + text[i + 1:])
            code, _ = call(["ninja", "-C", "build", "all", "unit_tests"], tree, 1800)
            if code == 0 and digest(tree) != right:
                why = notices(tree, groups, times, budget)
                noticed, missed = noticed + bool(why), missed + (not why)
                print("%s %s:%d %s: %s" % ("ok" if why else "FAIL", path, i + 1, what, why or "nobody noticed"))
                if not why:
                    print("    - %s\n    + %s" % (line.strip(), new.strip()))
                sys.stdout.flush()
            with open(full, "w", encoding="utf-8") as f:
                f.writelines(text)
    print("%d noticed, %d missed" % (noticed, missed))


main()
