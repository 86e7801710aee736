#!/usr/bin/env python3
"""Mistakes made by mutation in the programs of README.md and examples: does the first message name the place?

usage: test_mutations.py BUILD [COUNT [SEED]]

A mutation drops a letter of a name, swaps two letters, drops a token or doubles one; the choice is fixed by a seed.
Programs that stay right are passed over. A place is named if the first message, or a place that its notes show, begins on the
line of the mutation.
"""
import json
import os
import random
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|\"[^\"\n]*\"|->|[-+*/@=<>.,:()\[\]{}]")


def programs():
    root = os.path.join(HERE, "..")
    for f in sorted(os.listdir(os.path.join(root, "examples"))):
        if f.endswith(".gnn"):
            yield f, open(os.path.join(root, "examples", f), encoding="utf-8").read()
    readme = open(os.path.join(root, "README.md"), encoding="utf-8").read()
    for i, text in enumerate(re.findall(r"^```gnn[^\n]*\n(.*?)^```", readme, re.M | re.S)):
        yield "README %d" % (i + 1), text


def mutate(rng, text):
    """Returns (what, line, text), or None where the choice fits no token."""
    code = [m for m in TOKEN.finditer(text) if "#" not in text[text.rfind("\n", 0, m.start()) + 1:m.start()]]
    m = rng.choice(code)
    word, kind = m.group(), rng.choice(["letter", "letter", "swap", "drop", "double"])
    if kind == "letter":
        at = rng.randrange(len(word))
        new = word[:at] + word[at + 1:]
    elif kind == "swap":
        new = word[1:2] + word[:1] + word[2:]
    else:
        new = "" if kind == "drop" else word + " " + word
    if (kind in ("letter", "swap") and not (word.isidentifier() and len(word) > 2)) or new == word:
        return None
    return "%s of `%s`" % (kind, word), text.count("\n", 0, m.start()) + 1, text[:m.start()] + new + text[m.end():]


def first_error(build, path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    p = subprocess.run([os.path.join(build, "gnnc"), "check", path, "--format=json"], stdout=subprocess.PIPE,
                       stderr=subprocess.DEVNULL, timeout=60)
    errors = json.loads(p.stdout or "[]")
    return errors[0] if errors else None


def main():
    build, wanted = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 40
    rng, texts = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1), list(programs())
    seen, named, first = 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(100 * wanted):
            if seen == wanted:
                break
            name, text = rng.choice(texts)
            mutation = mutate(rng, text)
            error = mutation and first_error(build, os.path.join(folder, "m.gnn"), mutation[2])
            if not error:
                continue
            seen += 1
            first += error["line"] == mutation[1]
            if mutation[1] in [error["line"]] + [n.get("line") for n in error["notes"]]:
                named += 1
            else:
                print("elsewhere: %s line %d, %s: %s at line %s" % (name, mutation[1], mutation[0], error["text"], error["line"]))
    enough = seen == wanted and 10 * named >= 9 * seen
    print("%s mutations: the first message names the line of %d of %d, %d of them before its notes" %
          ("ok" if enough else "FAIL", named, seen, first))
    sys.exit(not enough)


main()
