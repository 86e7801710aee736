#!/usr/bin/env python3
"""`gnnc check --fix`: what it mends, what it leaves alone, and that a second run changes nothing.

usage: test_fix.py BUILD
"""
import json
import os
import subprocess
import sys
import tempfile

HEAD = "layer f(x: node[F], p = 0.5) -> node[F] {\n"
# title, the text, what it becomes (None: it stays), exit code
CASES = [
    ("a name one letter off", HEAD + "  return rleu(x)\n}\n", HEAD + "  return relu(x)\n}\n", 0),
    ("two names in one run", HEAD + "  h = rleu(x)\n  return dropuot(h, p)\n}\n", HEAD + "  h = relu(x)\n  return dropout(h, p)\n}\n", 0),
    ("syntax first, then names", HEAD + "  h = rleu(x)\n  retrun h\n}\n", HEAD + "  h = relu(x)\n  return h\n}\n", 0),
    ("a missing comma", HEAD + "  return dropout(x p)\n}\n", HEAD + "  return dropout(x, p)\n}\n", 0),
    ("a bracket left open", HEAD + "  h = relu(x\n  return h\n}\n", HEAD + "  h = relu(x)\n  return h\n}\n", 0),
    ("a bracket left open before a brace", HEAD + "  return relu((x)\n}\n", HEAD + "  return relu((x))\n}\n", 0),
    ("a number without its zero", HEAD + "  return x * .5\n}\n", HEAD + "  return x * 0.5\n}\n", 0),
    ("= that compares", HEAD + "  if p = 1 { return x }\n  return x\n}\n", HEAD + "  if p == 1 { return x }\n  return x\n}\n", 0),
    ("elif", HEAD + "  if p > 1 { return x } elif p > 2 { return x }\n  return x\n}\n",
     HEAD + "  if p > 1 { return x } else if p > 2 { return x }\n  return x\n}\n", 0),
    ("a domain and an option", "layer f(x: nod[F]) -> node[F] {\n  return dropout(x, q = 1)\n}\n",
     "layer f(x: node[F]) -> node[F] {\n  return dropout(x, q = 1)\n}\n", 1),
    ("a keyword of the first column", "lyer f(x: node[F]) -> node[F] = x\n", "layer f(x: node[F]) -> node[F] = x\n", 0),
    ("an error without a fix stays", HEAD + "  return x.src\n}\n", None, 1),
    ("two names as near", "layer f(xa: node[F], xb: node[F]) -> node[F] = xc\n", None, 1),
    ("a fix that would not help", "layer f(x: node[F]) -> node = sum_im(x)\n", None, 1),
    ("one fix that helps, one that does not", HEAD + "  h = rleu(x)\n  y = sum_im(h)\n  return h\n}\n", HEAD + "  h = relu(x)\n  y = sum_im(h)\n  return h\n}\n", 1),
    ("a fix on a line that has another error", HEAD + "  h = rleu(x) + nothing\n  y = dropuot(h, p)\n  return x\n}\n",
     HEAD + "  h = rleu(x) + nothing\n  y = dropout(h, p)\n  return x\n}\n", 1),
    ("nothing to mend", HEAD + "  return x\n}\n", None, 0),
]


def check(build, path, *words):
    return subprocess.run([os.path.join(build, "gnnc"), "check", path] + list(words), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=60)


def judge(build, path, text, wanted, code):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    before = os.stat(path)
    out = check(build, path, "--fix")
    got = open(path, encoding="utf-8").read()
    if got != (wanted or text):
        return "it became " + repr(got)
    if out.returncode != code:
        return "exit code %d: %s" % (out.returncode, out.stderr.decode())
    if wanted is None and os.stat(path).st_ino != before.st_ino:
        return "the file was written"
    if (b"fixed[" in out.stderr) != (wanted is not None):
        return "said: " + out.stderr.decode()
    again = check(build, path, "--fix")
    if open(path, encoding="utf-8").read() != got or b"fixed[" in again.stderr:
        return "a second run changes it"
    return None


def edits(build, path):
    """The fix of a message as an edit for an editor."""
    with open(path, "w", encoding="utf-8") as f:
        f.write(HEAD + "  return rleu(x)\n}\n")
    fix = json.loads(check(build, path, "--format=json").stdout)[0]["fix"]
    wanted = {"line": 2, "col": 10, "end_line": 2, "end_col": 14, "text": "relu"}
    return None if fix and all(fix[k] == v for k, v in wanted.items()) else "got %r" % fix


def main():
    build, bad = os.path.abspath(sys.argv[1]), 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.gnn")
        results = [(c[0], judge(build, path, *c[1:])) for c in CASES] + [("an edit as JSON", edits(build, path))]
        results.append(("standard input is refused", None if check(build, "-", "--fix").returncode == 1 else "it was taken"))
    for title, why in results:
        bad += why is not None
        print("FAIL fix: %s: %s" % (title, why) if why else "ok fix: %s" % title)
    sys.exit(bad != 0)


main()
