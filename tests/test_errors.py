#!/usr/bin/env python3
"""Wrong programs, each with all it is told: place, code, message, notes and help.

usage: test_errors.py BUILD [WORD...]
       test_errors.py BUILD --record [WORD...]     rewrites what is expected; read the difference before it is kept

tests/errors/CODE.txt holds programs whose first error has that code:

    === title | command and options, where it is not `check`
    the program
    ---
    3:10-3:15 `x @ W` E0201 the message
      note 1:12-1:15 `[3]` its text
      help: its text

A place is line:column of the first byte and of the first behind it, with the text between; commands other than `check` tell
its beginning only. {{DEEP}} in a program is an expression in 250 brackets, {{MINUS}} stands for 1200 signs, {{BYTE}} for the byte 0xff,
{{NUL}} for a zero byte. Every code of the front end has a file.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
from multiprocessing.pool import ThreadPool

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "errors")
FRONT_END = r"CODE\((E0[1-4]\d\d|E0901)"


def read(path):
    """Programs of a file as (title, command, text, expected)."""
    cases = []
    for part in re.split(r"^=== ", open(path, encoding="utf-8").read(), flags=re.M)[1:]:
        head, _, rest = part.partition("\n")
        text, _, expected = rest.partition("\n---\n")
        title, _, command = head.partition(" | ")
        cases.append((title, command, text.rstrip("\n") + "\n", expected.strip("\n")))
    return cases


def place(lines, d):
    if not d.get("line"):
        return "-"
    first, last = d["line"] - 1, d["end_line"] - 1
    text = lines[first][d["col"] - 1:d["end_col"] - 1 if first == last else None].decode("utf-8", "replace")
    text += "" if first == last else " ..."
    return "%d:%d-%d:%d `%s`" % (d["line"], d["col"], d["end_line"], d["end_col"],
                                 text if len(text) <= 60 else text[:40] + " ... " + text[-15:])


def shown(diagnostics, program, path):
    """The diagnostics in the form of the files. Places in the library are named by its file."""
    lines, out = program.encode().split(b"\n"), []

    def where(d):
        if not d.get("path") or d["path"] == path:
            return place(lines, d)
        return "std/%s" % os.path.basename(d["path"])
    for d in diagnostics:
        out.append("%s %s %s" % (where(d), d["code"], d["text"]))
        out += ["  note %s %s" % (where(n), n["text"]) for n in d["notes"]]
        if d["help"] and "gnnc explain" not in d["help"]:
            out.append("  help: " + d["help"])
    return "\n".join(out)


def run(build, case, folder, number):
    title, command, text, _ = case
    text = text.replace("{{DEEP}}", "(" * 250 + "x" + ")" * 250).replace("{{MINUS}}", "-" * 1200)
    path = os.path.join(folder, "%d.gnn" % number)
    with open(path, "wb") as f:
        f.write(text.encode().replace(b"{{BYTE}}", b"\xff").replace(b"{{NUL}}", b"\0"))
    words = (command or "check").split()
    argv = [os.path.join(build, "gnnc"), words[0], path] + words[1:]
    argv += ["--format=json"] if words[0] == "check" else []
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    if p.returncode < 0 or p.returncode >= 70:
        return "ended with %d: %s" % (p.returncode, p.stderr.decode()[-300:])
    if words[0] == "check":
        return shown(json.loads(p.stdout or "[]"), text, path) or "no error"
    found = re.findall(r"^(?:[^\n:]*:(\d+:\d+)|gnnc): error\[(E\d{4})\]: (.*)$", p.stderr.decode(), re.M)
    return "\n".join("%s %s %s" % (at or "-", code, text) for at, code, text in found) or "no error"


def record(path, cases, results):
    with open(path, "w", encoding="utf-8") as f:
        for (title, command, text, _), got in zip(cases, results):
            f.write("=== %s\n%s---\n%s\n\n" % (title + (" | " + command if command else ""), text, got))


def first_code(expected):
    found = re.search(r"(?:^|[`\d-] )(E\d{4}) ", expected)
    return found and found.group(1)


def check_file(name, cases, results):
    bad = 0
    for case, got in zip(cases, results):
        label = "errors %s: %s" % (name, case[0])
        if got != case[3]:
            bad += 1
            print("FAIL %s: got %s" % (label, got.replace("\n", " | ")))
        elif first_code(got) != name:
            bad += 1
            print("FAIL %s: its first error belongs to another file" % label)
        else:
            print("ok %s" % label)
    return bad


def main():
    build, words = os.path.abspath(sys.argv[1]), sys.argv[2:]
    recording = "--record" in words
    words = [w for w in words if w != "--record"]
    bad, count, names = 0, 0, set()
    with tempfile.TemporaryDirectory() as folder, ThreadPool(2) as pool:
        for f in sorted(os.listdir(FOLDER)):
            name = f[:-4]
            if words and name not in words:
                continue
            cases = read(os.path.join(FOLDER, f))
            results = pool.starmap(run, [(build, c, folder, count + i) for i, c in enumerate(cases)])
            names.add(name)
            count += len(cases)
            if recording:
                record(os.path.join(FOLDER, f), cases, results)
            else:
                bad += check_file(name, cases, results)
    if not words and not recording:
        codes = set(re.findall(FRONT_END, open(os.path.join(HERE, "..", "base", "codes.def"), encoding="utf-8").read()))
        missing = sorted(codes - names)
        bad += bool(missing) + (count < 250)
        print("FAIL errors: no program has %s" % ", ".join(missing) if missing else "ok errors: all codes of the front end")
        print("ok errors: %d programs" % count if count >= 250 else "FAIL errors: only %d programs" % count)
    sys.exit(bad != 0)


main()
