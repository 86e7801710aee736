#!/usr/bin/env python3
"""Everything that README.md and docs/*.md show. The word behind ``` says what a block is:
  gnn                checked; its tests are run; it must be laid out as by `gnnc fmt`
  gnn file=NAME      the same, and written to the folder in which the page's sh blocks run
  gnn fragment       a part of a file: the text must be well-formed
  gnn error CODE     must be refused with just that code
  gir, kir           read, verified, printed, and read and printed again to the same text
  c, cpp             compiled against the header of a model called `gcn`
  python             compiled, not run
  sh                 run one after another in a folder with the examples, gnnc on the PATH
  diff NAME, gnn with NAME      a change of the sources, and a program for the compiler with it: tests/test_extending.py
  text               left alone; every other word is an error
usage: test_docs.py BUILD"""
import os
import re
import sys

from sandbox import Sandbox

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BLOCK = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)#]+)(?:#([^)]*))?\)")


class Page:
    def __init__(self, box, path):
        self.box, self.path = box, path
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            self.text = f.read()
        self.folder = box.path(re.sub(r"\W", "_", path))
        os.mkdir(self.folder)
        os.symlink(os.path.join(ROOT, "examples"), os.path.join(self.folder, "examples"))

    def blocks(self):
        for m in BLOCK.finditer(self.text):
            yield self.text.count("\n", 0, m.start()) + 1, m.group(1).split(), m.group(2)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as f:
            f.write(text)
        return path


def gnn(page, name, text, words):
    box, path = page.box, page.write(name, text)
    if words[:1] == ["fragment"]:
        r = box.run(box.gnnc, "fmt", "--stdout", path)
        return r.rc != 0 and r.err
    if words[:1] == ["error"]:
        r = box.run(box.gnnc, "check", path)
        codes = re.findall(r"error\[(E\d+)\]", r.err)
        return codes != words[1:] and "wanted %s, found %s: %s" % (words[1:], codes, r.err)
    for command in [["check"], ["fmt", "--check"]] + [["test"]] * ("\ntest " in "\n" + text):
        r = box.run(box.gnnc, *command, path)
        if r.rc != 0:
            return r.err or r.out


def ir(page, name, text, kind):
    """Reads the block, prints it, and prints what was printed: twice the same."""
    box, path = page.box, page.write(name + "." + kind, text)
    once = box.run(box.gnnc, "ir", path)
    if once.rc != 0:
        return once.err
    again = box.run(box.gnnc, "ir", page.write(name + ".again." + kind, once.out))
    return (again.rc != 0 or again.out != once.out) and "what was printed reads back differently: " + again.err


def header(box):
    """A folder with libgcn.h."""
    folder = box.path("include")
    if not os.path.isdir(folder):
        os.mkdir(folder)
        box.must(box.gnnc, "build", os.path.join(ROOT, "examples/gcn.gnn"), "--set", "F=1433,C=7", "--emit=header", "--prefix", "gcn",
                 "-o", os.path.join(folder, "libgcn.h"))
    return folder


def c(page, name, text, kind):
    compiler = ["cc", "-std=c99"] if kind == "c" else ["c++", "-std=c++17"]
    r = page.box.run(*compiler, "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", header(page.box),
                     page.write(name + "." + kind, text))
    return r.rc != 0 and r.err


def sh(page, text):
    env = dict(os.environ, PATH=os.path.dirname(page.box.gnnc) + ":" + os.environ["PATH"])
    r = page.box.run("bash", "-euo", "pipefail", "-c", "cd '%s'\n%s" % (page.folder, text), env=env, limit=200)
    return r.rc != 0 and "ended with %s: %s" % (r.rc, (r.out + r.err)[-1500:])


def python(name, text):
    try:
        compile(text, name, "exec")
    except SyntaxError as e:
        return str(e)


def check(page, line, words, text):
    kind, name = words[0] if words else "", "block%d" % line
    if kind == "gnn":
        named = [w[5:] for w in words[1:] if w.startswith("file=")]
        return gnn(page, named[0] if named else name + ".gnn", text, [w for w in words[1:] if not w.startswith("file=")])
    if kind in ("gir", "kir"):
        return ir(page, name, text, kind)
    if kind in ("c", "cpp"):
        return c(page, name, text, kind)
    if kind == "python":
        return python(name, text)
    if kind == "sh":
        return sh(page, text)
    return kind != "text" and "the block says `%s`" % kind


def anchors(text):
    """How a heading is linked to: lower case, no punctuation, dashes for blanks."""
    heads = re.findall(r"^#+ +(.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads}


def links(page):
    bad = []
    for target, anchor in LINK.findall(BLOCK.sub("", page.text)):
        path = os.path.normpath(os.path.join(ROOT, os.path.dirname(page.path), target))
        if target.startswith("http"):
            continue
        if not os.path.exists(path):
            bad.append(target)
        elif anchor and anchor not in anchors(open(path, encoding="utf-8").read()):
            bad.append(target + "#" + anchor)
    return bad and "links lead nowhere: %s" % bad


def library_is_listed(language):
    """docs/language.md names every definition of the standard library."""
    std = os.path.join(ROOT, "frontend", "std")
    lacks = []
    for name in sorted(os.listdir(std)):
        with open(os.path.join(std, name)) as f:
            defined = re.findall(r"^(?:layer|fn|reduce|optimizer|message) (\w+)", f.read(), re.M)
        lacks += [d for d in defined if not re.search(r"`%s\b" % d, language)]
    return lacks and "docs/language.md does not list %s" % lacks


def table_is_listed(table, page):
    """docs/PAGE names every row of a .def table."""
    with open(os.path.join(ROOT, table)) as f:
        rows = re.findall(r"^[A-Z]+\((\w+),", f.read(), re.M)
    with open(os.path.join(ROOT, page)) as f:
        text = f.read()
    lacks = [r for r in rows if not re.search(r"\b%s\b" % r, text)]
    return (not rows and "no rows found") or lacks and "%s does not name %s" % (page, lacks)


TABLES = {"ir/ops.def": "docs/ir.md", "ir/kernel_ops.def": "docs/ir-kernel.md", "passes/context/passes.def": "docs/passes.md"}


def main():
    box = Sandbox(sys.argv[1], "docs")
    pages = ["README.md"] + sorted("docs/" + f for f in os.listdir(os.path.join(ROOT, "docs")) if f.endswith(".md"))
    for path in pages:
        page = Page(box, path)
        for line, words, text in page.blocks():
            if words != ["text"] and words[:1] != ["diff"] and words[1:2] != ["with"]:
                box.report("%s:%d_%s" % (path, line, words[0] if words else "nothing"), check(page, line, words, text))
        box.report("links_of_" + path, links(page))
        if path == "docs/language.md":
            box.report("library_is_listed", library_is_listed(page.text))
    for table, page in TABLES.items():
        box.report("%s_is_listed" % table, table_is_listed(table, page))
    box.close()


main()
