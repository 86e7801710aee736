#!/usr/bin/env python3
"""What `gnnc ir` and `gnnc build` say about passes: remarks as text and JSON, what a pass changed, drawings.

usage: test_ir_tools.py BUILD"""
import json
import os
import re
import sys

from sandbox import Sandbox

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODEL = """model net(x: node[F]) -> node[C] {
  conv = sage(O = C)
  return relu(conv(x))
}

train net {
  loss = cross_entropy(net(data.x), data.y) on data.train
  optimizer sgd(0.1)
  epochs 1
}
"""
GIR = """module m
dim F = 3
space node
tensor x : input node[F] f32
func forward(x = @x) {
  %0 = arg 0 : node[F] f32
  %1 = const 1 : [] f32
  %2 = mul %0, %1 : node[F] f32
  %3 = exp %2 : node[F] f32
  %4 = exp %3 : node[F] f32
  return out = %4
}
func other(x = @x) {
  %0 = arg 0 : node[F] f32
  %1 = exp %0 : node[F] f32
  return out = %1
}
"""
CHANGED = """--- before simplify (run 0)
+++ after simplify (run 0)
@@ -5,8 +5,7 @@ func forward
 func forward(x = @x) {
   %0 = arg 0 : node[F] f32
   %1 = const 1 : [] f32
-  %2 = mul %0, %1 : node[F] f32
-  %3 = exp %2 : node[F] f32
+  %3 = exp %0 : node[F] f32
   %4 = exp %3 : node[F] f32
   return out = %4
 }
"""
box = Sandbox(sys.argv[1], "ir_tools")
box.write("m.gnn", MODEL)
box.write("m.gir", GIR)
SET = ["--set", "F=4,C=3"]


def ir(*argv, **more):
    return box.run(box.gnnc, "ir", *argv, **more)


def remarks():
    text = ir("m.gnn", *SET, "--remarks").out
    rows = json.loads(ir("m.gnn", *SET, "--remarks", "--remarks-format=json").out)
    if len(re.findall(r"remark\[", text)) != len(rows) or len(rows) < 10:
        return "%d remarks as text, %d as JSON" % (len(re.findall(r"remark\[", text)), len(rows))
    keys = {"pass", "taken", "function", "value", "op", "why", "bytes_saved", "flops_saved", "path"}
    wrong = [r for r in rows if not keys <= set(r) or not r["why"] or not isinstance(r["taken"], bool)]
    if wrong:
        return "a remark without its fields: %s" % wrong[0]
    held = [r for r in rows if r["pass"] == "hoist" and r["taken"] and r["function"] == "train_step"]
    if not held or not held[0]["bytes_saved"] or not held[0]["line"] or held[0]["op"] is None or held[0]["value"] is None:
        return "what hoist held lacks its value, place or savings: %s" % held
    return not re.search(r"^m\.gnn:\d+:\d+: remark\[autodiff\]: .*\n +\d+ \|   optimizer .*\n +\| +\^~*\n    = train_step %\d+, taken$", text, re.M) and "no such remark: " + text


def remarks_of_one():
    text = ir("m.gnn", *SET, "--remarks=fuse,hoist").out
    passes = set(re.findall(r"remark\[(\w+)\]", text))
    if passes != {"fuse", "hoist"}:
        return "remarks of %s" % passes
    if ir("m.gir", "--remarks=hoist", "--remarks-format=json").out != "[]\n":
        return "no remarks are no empty list"
    only = ir("m.gir", "--run=simplify", "--remarks").out
    return ("remark[simplify]" not in only or "remark[fuse]" in only) and "remarks: " + only


def remarks_refused():
    for argv, word in [(["--remarks=hiost"], "hoist"), (["--remarks", "--remarks-format=xml"], "text or json"),
                       (["--remarks-format=json"], "--remarks")]:
        r = ir("m.gnn", *SET, *argv)
        if r.rc != 1 or "E0612" not in r.err or word not in r.err or r.out:
            return "%s: %s %s" % (argv, r.rc, r.err)
    return None


def remarks_of_build():
    r = box.run(box.gnnc, "build", "m.gnn", *SET, "--cpu", "generic", "--emit=plan", "-o", "m", "--remarks=hoist")
    return (r.rc != 0 or "remark[hoist]" not in r.err or r.out) and "%s %s" % (r.rc, r.err)


def diff_text():
    out = ir("m.gir", "--run=simplify", "--after=simplify", "--diff").out
    return out != CHANGED and "found " + out


def diff_of_nothing():
    r = ir("m.gir", "--run=sparse", "--after=sparse", "--diff")
    return (r.rc != 0 or r.out) and "found " + r.out + r.err


def shape(lines):
    return [re.sub(r"%\d+", "%", line) for line in lines]


def patched(before, diff):
    """`before` with a diff's hunks applied; None where one does not fit."""
    out, at = [], 0
    for hunk in re.split(r"^(?=@@ )", diff, flags=re.M)[1:]:
        head, *lines = hunk.splitlines()
        b0, bn, a0, an = [int(n) for n in re.match(r"@@ -(\d+),(\d+) \+(\d+),(\d+) @@", head).groups()]
        old = [line[1:] for line in lines if line[0] != "+"]
        new = [line[1:] for line in lines if line[0] != "-"]
        start = b0 - (bn > 0)
        out += before[at:start]
        if before[start:start + bn] != old or len(new) != an or len(out) != a0 - (an > 0):
            return None
        out += new
        at = start + bn
    return out + before[at:]


def diff_applies():
    """For every pass of real models: the diff leads from the text before to the text after, but for numbers."""
    for model in ["gcn", "gat"]:
        args = [os.path.join(ROOT, "examples", model + ".gnn"), "--data", os.path.join(ROOT, "examples", "data", "cora")]
        parts = re.split(r"^# after (\w+) \(run (\d+)\)\n", ir(*args, "--after=all").out, flags=re.M)[1:]
        diffs = dict(re.findall(r"^--- before \w+ \(run (\d+)\)\n(.*?)(?=^--- |\Z)", ir(*args, "--after=all", "--diff").out, re.M | re.S))
        before, changed = ir(*args).out.splitlines(), 0
        for name, run, text in zip(parts[::3], parts[1::3], parts[2::3]):
            if name == "fuse":
                break
            after = [line for line in text.splitlines() if line]
            got = patched(before, diffs[run]) if run in diffs else before
            if got is None or shape(got) != shape(after):
                return "%s: the diff of run %s, %s, does not lead to the text behind it" % (model, run, name)
            changed += run in diffs
            before = after
        if changed < 4:
            return "%s: %d passes changed something" % (model, changed)
    return None


def diff_refused():
    for argv in [["--diff"], ["--after=fuse", "--diff"], ["--after=simplify", "--diff", "--format=dot"]]:
        r = ir("m.gir", *argv)
        if r.rc != 1 or "E0612" not in r.err:
            return "%s: %s %s" % (argv, r.rc, r.err)
    return None


def dot():
    out = ir("m.gnn", *SET, "--after=autodiff", "--format=dot").out
    text = [line for line in ir("m.gnn", *SET, "--after=autodiff").out.splitlines()]
    ops = [line for line in text if line.startswith("  %")]
    n_results = len([line for line in text if line.startswith("  return")])
    n_args = sum(len(re.findall(r"%\d+", line)) - 1 for line in ops)
    boxes, ends = len(re.findall(r"f\d+_\d+ \[", out)), len(re.findall(r"f\d+_r\d+ \[", out))
    edges = len(re.findall(r"f\d+_\d+ -> ", out))
    if [boxes, ends, edges] != [len(ops), n_results, n_args + n_results]:
        return "%s boxes, results and edges, wanted %s" % ([boxes, ends, edges], [len(ops), n_results, n_args + n_results])
    return (out.count("{") != out.count("}") or 'label="node"' not in out or "via edge.src" not in out or not boxes) and "drawn: " + out


def svg():
    os.mkdir(box.path("bin"))
    box.write("bin/dot", "#!/bin/sh\n[ \"$1 $2\" = '-Tsvg -o' ] && { echo '<svg>'; grep -c -- '->' \"$4\"; echo '</svg>'; } > \"$3\"\n")
    os.chmod(box.path("bin", "dot"), 0o755)
    r = ir("m.gir", "--format=svg", env=dict(os.environ, PATH=box.path("bin") + ":/usr/bin:/bin"))
    if r.rc or r.out != "<svg>\n7\n</svg>\n":
        return "found " + r.out + r.err
    r = ir("m.gir", "--format=svg", env=dict(os.environ, PATH=box.path()))
    return (r.rc != 6 or "E0632" not in r.err or "graphviz" not in r.err or r.out) and "found " + r.err


def format_refused():
    r = ir("m.gir", "--format=pdf")
    return (r.rc != 1 or "E0612" not in r.err or "dot" not in r.err) and "found " + r.err


KERNEL_IR = {"lower", "prefetch", "share", "weave"}  # passes that print kernels


def printed_is_input():
    """What --help says of the output: modules of graph IR and kernels are input again, run by run."""
    said = ir("--help").out
    if "A module of graph IR, and the kernels that `lower` prints, are legal input" not in said:
        return "the help says another thing, and this test nothing: " + said
    runs = re.split(r"^# after (\w+) \(run \d+\)\n", ir("m.gnn", *SET, "--after=all").out, flags=re.M)[1:]
    seen, people = set(), {"fuse", "schedule", "cone", "connect", "memplan"}
    for name, text in zip(runs[::2], runs[1::2]):
        seen.add(name)
        stem = "again.kir" if name in KERNEL_IR else "again.gir"
        box.write(stem, text)
        again = ir(stem)
        if name in people:
            continue
        if again.rc or again.out.strip() != text.strip():
            return "after %s: %s" % (name, again.err or "another text comes back")
    return not {"simplify", "autodiff"} | KERNEL_IR | people <= seen and "passes seen: %s" % sorted(seen)


def before_is_after():
    """What a pass of the kernel stage is given is what the one before it left."""
    names = ["fuse", "schedule", "lower", "prefetch", "share", "weave", "cone", "connect", "memplan"]
    runs = re.split(r"^# after (\w+) \(run \d+\)\n", ir("m.gnn", *SET, "--after=all").out, flags=re.M)[1:]
    if runs[-2 * len(names)::2] != names:
        return "passes at the end: %s" % runs[::2]
    left = [text.strip() for text in runs[1::2]][-len(names) - 1:]
    for name, text in zip(names, left):
        given = ir("m.gnn", *SET, "--before=" + name).out.split("\n", 1)
        if not re.fullmatch(r"# before %s \(run \d+\)" % name, given[0]) or not given[1].strip():
            return "before %s: %s" % (name, given)
        if given[1].strip() != text and name != "cone":  # the passes before it leave kernels and a plan, and print the kernels
            return "before %s: other text than the pass before it left: %s" % (name, given[1])
    return None


TESTED = """test "two layers" {
  t = random_graph(nodes = 9, edges = 20, seed = 1)
  over self_loops(t, add) {
    l = linear(O = 5)
    x = randn(node[4], seed = 2)
    assert close(l(sum_in(x.src)), l(sum_in(x.src)))
  }
}
"""


def text_of(*parts):
    with open(box.path(*parts)) as f:
        return f.read()


def tests_leave_nothing():
    """Graph IR is printed with the file's tests; what is built from it has nothing of theirs, whatever passes ran between."""
    for run in ([], ["--run=simplify,autodiff,cse,dce"]):
        programs = []
        for folder, text in (("without", MODEL), ("with", MODEL + TESTED)):
            os.makedirs(box.path(folder), exist_ok=True)
            box.write(folder + "/m.gnn", text)
            box.write(folder + "/m.gir", ir(folder + "/m.gnn", *SET, *run).out)
            box.must(box.gnnc, "build", folder + "/m.gir", "--emit=plan,c,manifest", "-o", box.path(folder, "out"))
            programs.append([re.sub(r"\bline (= )?\d+|\bm.gir:\d+", "", text_of(folder, "out" + end)) for end in (".plan", ".c", ".json")])
        if "two layers" not in text_of("with", "m.gir") or "node.random1" in text_of("without", "m.gir"):
            return "this test tests nothing"
        if programs[0] != programs[1]:
            return "the test block changes the program behind %s" % run
    return None


for test in [printed_is_input, before_is_after, tests_leave_nothing, remarks, remarks_of_one, remarks_refused, remarks_of_build, diff_text, diff_of_nothing, diff_applies, diff_refused,
             dot, svg, format_refused]:
    try:
        box.report(test.__name__, test())
    except (RuntimeError, ValueError, KeyError, OSError) as e:
        box.report(test.__name__, "%s: %s" % (type(e).__name__, e))
box.close()
