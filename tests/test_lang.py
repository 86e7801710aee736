#!/usr/bin/env python3
"""Programs of tests/lang through `gnnc check` (or another command) and `gnnc test`.

usage: test_lang.py BUILD [WORD...]

A line that must be refused ends in `# error: E0203 part of the message`; a line `# error in file: E0208 ...` stands for an
error without a place of its own. All errors must be named and no others may come. A file without errors is sound, and
its test blocks must hold. `# run: ir --set F=3` in a file replaces the command `check`.
"""
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def wanted(text):
    errors = []
    for n, line in enumerate(text.split("\n"), 1):
        for place, code, part in re.findall(r"# error( in file)?: (E\d{4}) ?(.*)$", line):
            errors.append((None if place else n, code, part.strip()))
    return errors


def gnnc(build, argv):
    return subprocess.run([os.path.join(build, "gnnc")] + argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)


def found(build, path, text):
    run = re.search(r"^# run: (.*)$", text, re.M)
    argv = run.group(1).split() if run else ["check"]
    out = gnnc(build, [argv[0], path] + argv[1:] + (["--format=json"] if argv[0] == "check" else []))
    if argv[0] == "check":
        return out.returncode, [(e.get("path") and e.get("line"), e["code"], e["text"]) for e in json.loads(out.stdout or "[]")]
    text = out.stderr.decode()
    errors = re.findall(r"^(?:[^\n:]*:(\d+):\d+|gnnc): error\[(E\d{4})\]: (.*)$", text, re.M)
    return out.returncode, [(int(line) if line else None, code, message) for line, code, message in errors]


def judge(build, path):
    text = open(path, encoding="utf-8").read()
    want = wanted(text)
    code, got = found(build, path, text)
    for line, name, message in got:
        fits = [w for w in want if w[1] == name and w[2] in message and (w[0] is None or w[0] == line)]
        if not fits:
            return "unexpected %s at line %s: %s" % (name, line, message)
        want.remove(fits[0])
    if want:
        return "not reported: %s" % want[0][1] + " at line %s: %s" % (want[0][0], want[0][2])
    if bool(got) != (code != 0):
        return "exit code %d with %d errors" % (code, len(got))
    if not got and re.search(r'^test "', text, re.M):
        out = gnnc(build, ["test", path])
        if out.returncode != 0:
            return "its tests fail: " + (out.stdout + out.stderr).decode()[-600:].replace("\n", " | ")
    return None


def all_codes():
    """Codes of elaboration that base/codes.def declares: each must be provoked by a file."""
    text = open(os.path.join(HERE, "..", "base", "codes.def"), encoding="utf-8").read()
    return set(re.findall(r"CODE\((E0[234]\d\d|E0901)", text))


def main():
    build, words = os.path.abspath(sys.argv[1]), sys.argv[2:]
    seen, bad = set(), 0
    folder = os.path.join(HERE, "lang")
    for f in sorted(os.listdir(folder)):
        path = os.path.join(folder, f)
        if not f.endswith(".gnn") or (words and not any(w in f for w in words)):
            continue
        seen |= {w[1] for w in wanted(open(path, encoding="utf-8").read())}
        why = judge(build, path)
        bad += why is not None
        print("FAIL lang %s: %s" % (f, why) if why else "ok lang %s" % f)
    library = os.path.join(HERE, "..", "frontend", "std")
    for f in sorted(os.listdir(library)):
        path = os.path.join(library, f)
        if (words and not any(w in f for w in words)) or not re.search(r'^test "', open(path, encoding="utf-8").read(), re.M):
            continue
        out = gnnc(build, ["test", path])
        bad += out.returncode != 0
        print("ok std %s" % f if out.returncode == 0 else "FAIL std %s: %s" % (f, (out.stdout + out.stderr).decode()[-600:]))
    if not words:
        missing = sorted(all_codes() - seen)
        bad += bool(missing)
        print("FAIL lang codes: no file provokes %s" % ", ".join(missing) if missing else "ok lang codes")
    sys.exit(bad != 0)


main()
