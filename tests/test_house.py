#!/usr/bin/env python3
"""The rules of the house that can be read off the text: the include graph, names, paths, codes. usage: test_house.py BUILD"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MAY = {  # folder -> what it may include besides itself; a path names one header
    "base": ["runtime/available.h", "runtime/replace.h"],
    "ir": ["base", "runtime/half.h"],
    "frontend": ["base", "ir"],
    "passes": ["base", "ir", "runtime/blocks.h", "runtime/half.h", "runtime/pack.h"],
    "codegen": ["base", "ir/kernel.h", "ir/plan.h", "ir/graph.h", "ir/kernel_ops.def", "ir/ops.def", "runtime/abi.h", "runtime/cpu.h"],
    "runtime": [],
    "driver": ["base", "ir", "frontend", "passes", "codegen", "runtime/cpu.h", "runtime/gnnrt.h", "runtime/graph_path.h", "runtime/machine.h",
               "runtime/status.h"],
}
ROOMS = ["context", "rewrite", "group", "fuse", "schedule", "lower", "kernel", "plan", "pipeline"]  # of passes/: each includes those before it
PUBLIC = ["context/passes.h", "context/machine.h", "context/price.h", "context/rows.h", "context/vectors.h", "rewrite/rewrite.h", "group/group.h",
          "group/schedule_text.h", "fuse/fuse.h", "schedule/schedule.h", "lower/lower.h", "lower/emit.h", "kernel/kernel_passes.h", "plan/planning.h", "pipeline/pipeline.h"]
LAYERS = r"gcn(conv)?|gat(v2)?(conv)?|graphsage|sageconv|gin(conv)?|edgeconv|rgcn|hgt|pna"


def tracked(pattern):
    out = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "--"] + pattern.split(), cwd=ROOT, stdout=subprocess.PIPE)
    return [f for f in out.stdout.decode().split("\n") if f and os.path.exists(os.path.join(ROOT, f))]


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as f:
        return f.read()


def report(name, wrong):
    if wrong is not None:
        print("FAIL %s: %s" % (name, "; ".join(wrong[:5])) if wrong else "ok " + name)


def include_arrows():
    wrong = []
    for path in tracked("*.c *.h *.y *.l *.def"):
        folder = path.split("/")[0]
        if folder not in MAY:
            continue
        for inc in re.findall(r'^\s*#\s*include\s+"([^"]+)"', read(path), re.M):
            to = inc.split("/")[0]
            if to == folder or to in MAY[folder] or inc in MAY[folder]:
                continue
            wrong.append("%s includes %s" % (path, inc))
    return wrong


def rooms_of_passes():
    """The folders of passes/ are the stages, top to bottom: none includes a header of a later one, and none has another's private header."""
    private = {h for h in tracked("passes/*.h") if not any(h == "passes/" + x for x in PUBLIC)}
    wrong = ["there is no " + "passes/" + x for x in PUBLIC if "passes/" + x not in tracked("passes/*.h")]
    table = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", read("docs/design.md").split("## Rooms of the passes")[1].split("\n## ")[0], re.M))
    said = [room + "/" + h for room, headers in table.items() for h in re.findall(r"`([\w.]+)`", headers)]
    if list(table) != ROOMS or sorted(said) != sorted(PUBLIC):
        wrong.append("docs/design.md has the rooms %s and their headers %s" % (list(table), said))
    for path in tracked("passes/*.c passes/*.h passes/*.def"):
        room = path.split("/")[1]
        if room not in ROOMS:
            wrong.append("%s lies in no room" % path)
            continue
        for inc in re.findall(r'^\s*#\s*include\s+"(passes/[^"]+)"', read(path), re.M):
            to = inc.split("/")[1]
            if ROOMS.index(to) > ROOMS.index(room):
                wrong.append("%s includes %s, of a later stage" % (path, inc))
            if to != room and inc in private:
                wrong.append("%s includes %s, which is private to its stage" % (path, inc))
    return wrong


def strip_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)


def layer_names():
    wrong = []
    for path in tracked("passes codegen ir frontend driver runtime base"):
        if path.endswith((".c", ".h", ".def", ".l", ".y")) and re.search(r"\b(%s)\b" % LAYERS, strip_comments(read(path)), re.I):
            found = re.search(r"\b(%s)\b" % LAYERS, strip_comments(read(path)), re.I).group(0)
            if path.startswith("driver/options"):
                continue  # examples in --help name files
            wrong.append("%s names %s" % (path, found))
    return wrong


def head_comments():
    return [p for p in tracked("*.c *.h") if not read(p).lstrip().startswith("/*")]


def no_shell():
    wrong = []
    for path in tracked("*.c"):
        if path.startswith("tests/"):
            continue
        if re.search(r"\b(system|popen|execl?p?)\s*\(", strip_comments(read(path))):
            wrong.append(path)
    return wrong


def machine_paths():
    return [p for p in tracked(".") if not p.endswith(".npy") and p != "tests/test_house.py"
            and re.search(r"/wor[k]/(main|shared)|/roo[t]/|/tmp/bas[h]", read(p))]


def codes_are_used():
    ids = re.findall(r"^CODE\((E\d+)", read("base/codes.def"), re.M)
    text = "".join(read(p) for p in tracked("*.c *.y *.l") if not p.startswith("tests/"))
    return ["%s is never reported" % i for i in ids if not re.search(r"\b%s\b" % i, text)]


def frees_take_null():
    named = read("tests/unit/test_free.c")
    declared = {f for p in tracked("base/*.h ir/*.h frontend/*.h passes/*.h codegen/*.h driver/*.h runtime/*.h")
                for f in re.findall(r"^void (\w+_(?:free|close|destroy))\(\w+ \*\w+\)", read(p), re.M) if "lower_kernel" not in p}
    return ["tests/unit/test_free.c lacks " + f for f in sorted(declared) if not re.search(r"\b%s\b" % f, named)]


def sizes_are_computed_in_one_place():
    """Memory is asked for where sizes are checked: nothing else calls malloc, and no count is multiplied on the way there."""
    may = {"runtime/memory.c", "base/arena.c"}
    wrong = []
    for path in tracked("*.c *.h *.y *.l"):
        if path.split("/")[0] not in MAY or path in may:
            continue
        text = strip_comments(read(path))
        for call in re.findall(r"\b(?:m|c|re|aligned_)alloc\s*\([^;]*", text):
            wrong.append("%s: %s" % (path, call[:60]))
        for name in ("rt_block_alloc", "rt_memory_check", "arena_alloc"):
            for size in arguments(text, name, 0 if name == "rt_memory_check" else 1):
                if re.search(r"[\w)\]] [*] ", re.sub(r"\b(rt_size|rt_size_plus|sizeof)\(.*\)", "", size)):
                    wrong.append("%s: %s(... %s ...)" % (path, name, size))
    return wrong


def arguments(text, name, which):
    """The argument of that number of each call."""
    for m in re.finditer(r"\b%s\(" % name, text):
        depth, found, at = 0, [""], m.end()
        while depth >= 0 and at < len(text):
            c = text[at]
            depth += (c in "([{") - (c in ")]}")
            if c == "," and depth == 0:
                found.append("")
            elif depth >= 0:
                found[-1] += c
            at += 1
        if len(found) > which:
            yield found[which].strip()


def planted_faults_fit():
    """Each row of tests/faults has a place, and a test program that must notice it."""
    sys.path.insert(0, os.path.join(ROOT, "tests", "faults"))
    from faults import FAULTS
    from plans import PLAN_FAULTS
    from run import places
    programs = {os.path.splitext(os.path.basename(p))[0] for p in tracked("tests/test_*.py tests/unit/test_*.c")}
    wrong = ["%s row %d: %s holds its text %d times" % (name, i, f[0], len(places(read(f[0]), f[1])))
             for name, rows in (("faults", FAULTS), ("plans", PLAN_FAULTS)) for i, f in enumerate(rows) if len(places(read(f[0]), f[1])) != 1]
    return wrong + ["row %d: there is no test_%s" % (i, t) for i, f in enumerate(FAULTS) for t in f[3].split() if "test_" + t.split(":")[0] not in programs]


def format_differs():
    """.clang-format decides how C is laid out. Versions of clang-format differ, so only Debian 12's is asked."""
    try:
        version = subprocess.run(["clang-format", "--version"], stdout=subprocess.PIPE).stdout.decode()
    except OSError:
        version = "no clang-format"
    if "version 14." not in version:
        print("skip house.format: wants clang-format 14, found %s" % version.strip())
        return None
    out = subprocess.run(["clang-format", "--dry-run", "--ferror-limit=1"] + tracked("*.c *.h"), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE).stderr.decode()
    return sorted(set(re.findall(r"^(\S+?:\d+):.*clang-format-violations", out, re.M)))


MACHINE_WORDS = {"LANE", "LANES", "LINE", "REGISTERS", "CACHE", "VECTOR", "VECTORS", "L1", "L2", "L3", "DRAM", "THREAD", "THREADS", "WARP", "WARPS", "RATE", "RATES",
                 "AHEAD", "FLIGHT", "BYTE", "BYTES"}


def machine_numbers(text):
    """Numbers of a machine in a pass: constants that are named for lanes, registers, lines, caches, threads, rates or bytes, or that are KiB,
    and sizes of vectors, tiles and strips that are compared with or set to a number."""
    text = re.sub(r'"(\\.|[^"\\])*"', '""', strip_comments(text))
    for name, value in re.findall(r"\b([A-Z][A-Z0-9_]*)\s*=\s*([\d.][^,;}]*)", text):
        if set(name.split("_")) & MACHINE_WORDS or re.search(r"<< ?10|\* ?1024", value):
            yield "%s = %s" % (name, value.strip())
    for m in re.finditer(r"\b(?:\w+ [*] )?\w*(?:lanes|tile|strip|inner)\w*\s*(?:<|<=|>|>=|==|=)\s*(?:4|8|12|16|24|32|64|96|128|256|512)\b", text):
        yield m.group(0)


def machines_are_in_the_table():
    """Passes read numbers of a machine from its table, and its rates in one file."""
    old = ["enum { MAX_CHAIN = 100, LANES = 16 };", "enum { A = 2, STRIP_BYTES = 128 << 10 };", "enum { PRODUCT_KEPT = 40 << 10 /* bytes */ };",
           "enum { FLOPS_PER_BYTE = 4 };", "static const double DOT_RATE = 4, X = 1;", "while (count * inner < 16) {}", "    s->row_strip = 64;",
           "enum { MOST_LEVELS = 63, TREE_WARPS = 32 };"]
    wrong = ["%s is not noticed" % x for x in old if not list(machine_numbers(x))]
    rates = re.findall(r"^RATE\((\w+)", read("passes/context/machine.def"), re.M)
    for path in tracked("passes/*.c passes/*.h"):
        wrong += ["%s: %s" % (path, x) for x in machine_numbers(read(path))]
        if path not in ("passes/context/price.c", "passes/context/machine.c"):
            wrong += ["%s reads %s" % (path, r) for r in rates if re.search(r"(->|\.)%s\b" % r, strip_comments(read(path)))]
    known = re.findall(r"^(?:COUNT|RATE)\((\w+)", read("passes/context/machine.def"), re.M)
    wrong += ["docs/passes.md lacks the row " + r for r in known if "`%s`" % r not in read("docs/passes.md")]
    readers = "".join(strip_comments(read(p)) for p in tracked("passes/*.c passes/*.h driver/*.c"))
    wrong += ["nothing reads the row " + r for r in known if not re.search(r"(->|\.)%s\b" % r, readers)]
    return wrong if rates else ["passes/context/machine.def has no rates"]


def lower_asks_no_machine():
    """What lower knows of a machine is what the schedule says: no header with a machine's numbers or prices reaches it, and no option of a pass."""
    wrong = []
    for path in tracked("passes/lower/*.c passes/lower/*.h"):
        seen, todo = set(), [path]
        while todo:
            inside = re.findall(r'^\s*#\s*include\s+"([^"]+)"', read(todo.pop()), re.M)
            todo += [x for x in inside if x not in seen and os.path.exists(os.path.join(ROOT, x))]
            seen.update(inside)
        wrong += ["%s sees %s" % (path, x) for x in seen if os.path.basename(x) in ("machine.h", "machine.def", "price.h")]
        wrong += ["%s has %s" % (path, x) for x in re.findall(r"(?:->|\.)(?:machine|disabled)\b", strip_comments(read(path)))]
    return wrong


def tiles_are_told():
    """Each number of a tile is explained, and drawn by the test that edits schedules."""
    words = re.findall(r"^TILE\((\w+)", read("passes/group/tile.def"), re.M)
    wrong = ["docs/passes.md lacks the number " + w for w in words if "`%s N`" % w not in read("docs/passes.md")]
    return wrong + ["tests/schedules.py lacks the number " + w for w in words if '"%s": ' % w not in read("tests/schedules.py")]


def calls(build, folder):
    """{file: {file it calls: [functions]}} of a folder's objects."""
    defined, used = {}, {}
    for at, _, names in os.walk(os.path.join(build, "CMakeFiles", folder + ".dir")):
        for name in names:
            if not name.endswith(".c.o"):
                continue
            out = subprocess.run(["nm", os.path.join(at, name)], stdout=subprocess.PIPE).stdout.decode()
            rows = [line.split() for line in out.splitlines()]
            used[name[:-4]] = {r[-1] for r in rows if r[-2] == "U"}
            defined.update({r[-1]: name[:-4] for r in rows if r[-2] in "TDRBV"})
    arrows = {}
    for f, symbols in used.items():
        for s in symbols:
            if defined.get(s, f) != f:
                arrows.setdefault(f, {}).setdefault(defined[s], []).append(s)
    return arrows


def layers_of_elaboration():
    """frontend/sema.h says who may call whom."""
    rule = re.search(r"Who may call whom.*?\*/", read("frontend/sema.h"), re.S).group(0)
    rows, again = re.split(r"Every layer may go back", rule)
    layer = {f: i for i, row in enumerate(re.findall(r"^     \w+ +(.*)$", rows, re.M)) for f in row.split()}
    again = set(re.findall(r"\w+", again.split("by:")[1]))
    arrows = calls(sys.argv[1], "frontend")
    wrong = ["frontend/%s.c is in no layer of sema.h" % f for f in arrows if f.startswith("elab") and f not in layer]
    for f, to in sorted(arrows.items()):
        wrong += ["%s calls %s of %s, a later layer" % (f, s, t) for t in to for s in to[t]
                  if f in layer and layer[f] < layer.get(t, -1) and s not in again]
    return wrong if arrows else ["there are no objects of frontend/"]


def rooms_of_the_front_end():
    """docs/design.md has each file of frontend/ in one room."""
    table = read("docs/design.md").split("## Rooms of the front end")[1].split("\n\n`frontend/sema.h`")[0]
    named = re.findall(r"`([\w*]+\.[cly])`", table)
    wrong = ["there is no frontend/" + x for x in named if not tracked("frontend/" + x)]
    for path in tracked("frontend/*.c frontend/*.l frontend/*.y"):
        rooms = [x for x in named if re.fullmatch(x.replace(".", r"\.").replace("*", ".*"), os.path.basename(path))]
        wrong += ["%s stands in the rooms of the front end %d times" % (path, len(rooms))] if len(rooms) != 1 else []
    return wrong


def paths_that_are_named():
    """Comments and pages name files that exist: but for generated ones, patterns in capitals and what an example adds."""
    there, wrong = set(tracked(".")) | {"frontend/parse.h"}, []
    there |= set(re.findall(r"^\+\+\+ (\S+)$", read("docs/extending.md"), re.M))
    for path in tracked("*.c *.h *.def *.md *.l *.y *.py"):
        named = re.findall(r"\b(?:base|ir|frontend|passes|codegen|runtime|driver|tests|docs|scripts)/[\w/]+\.(?:c|h|def|py|gnn|md|kir|gir|txt)\b", read(path))
        wrong += ["%s names %s" % (path, x) for x in named if x not in there and not re.search(r"(^|[/_.])(X|CODE)\.", x)]
    return wrong


COLUMNS = 120


def lines_fit():
    """No line of C is longer than a screen is wide, but for texts that stand between quotes; no line of comment in Python and the language is."""
    wrong = []
    for path in tracked("*.c *.h *.py *.gnn"):
        c = path.endswith((".c", ".h"))
        wrong += ["%s:%d has %d columns, wanted at most %d" % (path, i, len(line), COLUMNS) for i, line in enumerate(read(path).split("\n"), 1)
                  if len(line) > COLUMNS and ('"' not in line if c else line.lstrip().startswith("#"))]
    return wrong


MOST_CIRCLE = 10  # files of passes/ that call one another round about


def circles_of_passes():
    """The largest set of files of passes/ each of which leads to each other by calls."""
    arrows = calls(sys.argv[1], "passes")
    reach = {}
    for f in arrows:
        seen, todo = set(), [f]
        while todo:
            for to in arrows.get(todo.pop(), {}):
                if to not in seen:
                    seen.add(to)
                    todo.append(to)
        reach[f] = seen
    circles = {frozenset(g for g in reach[f] if f in reach.get(g, ())) for f in reach if f in reach[f]}
    wrong = ["%d files call one another round about: %s" % (len(c), ", ".join(sorted(c))) for c in circles if len(c) > MOST_CIRCLE]
    return wrong if circles else ["there are no objects of passes/"]


LEAST_INVARIANTS = 8  # for 1,000 lines
STATED = ["base", "ir", "codegen", "runtime"] + ["passes/" + r for r in ROOMS]


def invariants_are_stated():
    """Folders say what must hold: so many asserts for 1,000 lines. What an assert says has no effect of its own."""
    wrong = []
    for folder in STATED:
        texts = [strip_comments(read(p)) for p in tracked(folder + "/*.c " + folder + "/*.h")]
        lines = sum(read(p).count("\n") for p in tracked(folder + "/*.c " + folder + "/*.h"))
        n = sum(len(re.findall(r"\b(?:assert|ICE_UNLESS)\(", t)) for t in texts)
        if not texts or 1000 * n < LEAST_INVARIANTS * lines:
            wrong.append("%s has %d asserts in %d lines, wanted %d for 1,000" % (folder, n, lines, LEAST_INVARIANTS))
        for t in texts:
            wrong += ["%s: assert(%s) changes something" % (folder, x) for name in ("assert", "ICE_UNLESS") for x in arguments(t, name, 0)
                      if re.search(r"\+\+|--|(?<![=!<>])=(?!=)", x)]
    return wrong


def runtime_without_asserts():
    """The runtime has its asserts in builds that ask for them, and in no other; without them it compiles without a warning."""
    with open(os.path.join(sys.argv[1], "CMakeCache.txt")) as f:
        cache = dict(re.findall(r"^(\w+):\w+=(.*)$", f.read(), re.M))
    asked = cache.get("GNNC_ASSERTS") == "ON" or cache.get("GNNC_SANITIZE") == "ON" or cache.get("CMAKE_BUILD_TYPE") == "Debug"
    names = subprocess.run(["nm", "-u", os.path.join(sys.argv[1], "libgnnrt.a")], stdout=subprocess.PIPE).stdout.decode()
    wrong = [] if asked == ("__assert_fail" in names) else ["the build %s for asserts" % ("asks" if asked else "does not ask")]
    p = subprocess.run(["cc", "-std=c11", "-fsyntax-only", "-DNDEBUG", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-I."]
                       + tracked("runtime/*.c"), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return wrong + p.stdout.decode("utf-8", "replace").splitlines()[:5]


report("house.include_arrows", include_arrows())
report("house.rooms_of_passes", rooms_of_passes())
report("house.rooms_of_the_front_end", rooms_of_the_front_end())
report("house.paths_that_are_named", paths_that_are_named())
report("house.lines_fit", lines_fit())
report("house.circles_of_passes", circles_of_passes())
report("house.layers_of_elaboration", layers_of_elaboration())
report("house.no_layer_names_in_c", layer_names())
report("house.files_say_what_they_do", head_comments())
report("house.no_shell", no_shell())
report("house.no_machine_paths", machine_paths())
report("house.codes_are_used", codes_are_used())
report("house.frees_take_null", frees_take_null())
report("house.sizes_are_computed_in_one_place", sizes_are_computed_in_one_place())
report("house.planted_faults_fit", planted_faults_fit())
report("house.format", format_differs())
report("house.machines_are_in_the_table", machines_are_in_the_table())
report("house.lower_asks_no_machine", lower_asks_no_machine())
report("house.tiles_are_told", tiles_are_told())
report("house.invariants_are_stated", invariants_are_stated())
report("house.runtime_without_asserts", runtime_without_asserts())
