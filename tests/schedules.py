"""Edits of schedules as text (docs/passes.md), drawn at random: test_schedule.py compares bits, bench/search.py times."""
import re


class Text:
    """A schedule as functions, of groups, of lines: [head, [group line, [value lines]]...]."""

    def __init__(self, text):
        self.funcs = []
        for line in text.split("\n")[1:]:
            if line.startswith("func"):
                self.funcs.append([[line], []])
            elif line.startswith("    "):
                self.funcs[-1][1][-1][1].append(line)
            elif line.startswith("  group"):
                self.funcs[-1][1].append([line, []])
            elif line.strip():
                self.funcs[-1][0].append(line)

    def __str__(self):
        return "schedule 1\n" + "".join("\n".join(head) + "\n" + "".join("\n".join([g, *values]) + "\n" for g, values in groups) for head, groups in self.funcs)


NUMBERS = {  # what they may be, by word
    "vectors": lambda rng: rng.randint(1, 8), "rows": lambda rng: rng.randint(1, 8), "kept": lambda rng: rng.randint(0, 1),
    "copied": lambda rng: rng.randint(0, 1), "lanes": lambda rng: 1 << rng.randint(0, 4), "block": lambda rng: rng.choice([16, 32, 48, rng.randint(2, 200)]),
    "grain": lambda rng: rng.randint(1, 99), "staged": lambda rng: 16 << rng.randint(0, 6), "along_rows": lambda rng: 1 << rng.randint(0, 4), "gathers": lambda rng: rng.randint(0, 1), "second": lambda rng: rng.randint(1, 99), "parted": lambda rng: rng.randint(0, 1),
    "split": lambda rng: rng.randint(0, 1), "together": lambda rng: rng.randint(1, 9), "neighbours": lambda rng: 1 << rng.randint(0, 5), "merged": lambda rng: 1 << rng.randint(0, 4), "folded": lambda rng: rng.choice([0, 1, 4, 8, 16]),
    "piece": lambda rng: rng.randint(1, 16), "line": lambda rng: rng.choice([32, 64, 256]),
    "walk": lambda rng: rng.randint(0, 40), "beside": lambda rng: rng.randint(1, 8), "strip": lambda rng: rng.randint(1, 200),
    "blocks": lambda rng: rng.randint(1, 64), "warps": lambda rng: rng.randint(1, 20), "mergers": lambda rng: 1 << rng.randint(0, 5), "far": lambda rng: rng.randint(0, 1), "elements": lambda rng: rng.randint(1, 6), "stream": lambda rng: rng.choice([0, 64, 5000]), "unroll": lambda rng: rng.randint(0, 16), "ahead": lambda rng: rng.choice([0, 1, 16, 200]), "woven": lambda rng: rng.choice([0, 12, 30, 64])}


def number(rng, line):
    """Another number for one of the words of a line."""
    words = [m for m in re.finditer(r"\b(%s) (\d+)" % "|".join(NUMBERS), line.split("#")[0])]
    if not words:
        return None
    m = rng.choice(words)
    return line[:m.start(2)] + str(NUMBERS[m.group(1)](rng)) + line[m.end(2):]


def edit(rng, t):
    """Changes t in one place. False: there is nothing of that kind."""
    head, groups = rng.choice(t.funcs)
    k = rng.randrange(len(groups))
    group = groups[k]
    inside = [i for i, v in enumerate(group[1]) if i]
    kind = rng.choice(["number", "number", "value number", "split", "split", "apart", "drop", "swap", "join", "store", "store"])
    if kind == "number":
        line = number(rng, group[0])
        if line:
            group[0] = line
        return bool(line)
    if kind == "value number":
        i = rng.randrange(len(group[1]))
        line = number(rng, group[1][i])
        if line:
            group[1][i] = line
        return bool(line)
    if kind in ("split", "apart"):  # a value gets a kernel of its own
        role = "root" if kind == "split" else "inner"
        some = [i for i in inside if group[1][i].split()[0] == role]
        if not some:
            return False
        line = group[1].pop(rng.choice(some))
        at = k + (kind == "split")
        groups.insert(at, ["  group %d map" % rng.randint(500, 999), [re.sub(r"^    \w+ (%\d+ \w+).*", r"    root \1", line)]])
        return True
    if kind == "drop":  # computed where it is used, or read from memory
        if not inside:
            return False
        group[1].pop(rng.choice(inside))
        return True
    if kind == "store":  # what was computed where it is used gets memory
        owned = {v for _, gs in t.funcs for _, vs in gs for line in vs for v in re.findall(r"^    \w+ (%\d+)", line)}
        free = sorted({v for line in group[1] for v in re.findall(r"%\d+", line.split(", of ")[-1])} - owned)
        if not free:
            return False
        groups.insert(k, ["  group %d map" % rng.randint(500, 999), ["    root %s mul" % rng.choice(free)]])
        return True
    if k + 1 == len(groups):
        return False
    if kind == "swap":
        groups[k], groups[k + 1] = groups[k + 1], groups[k]
    else:
        group[1] += groups.pop(k + 1)[1]
        group[0] = "  " + " ".join(group[0].split()[:3])
        group[1][:] = [re.sub(r"^(    \w+ %\d+ \w+).*", r"\1", v) for v in group[1]]
    return True


def corrected(text, said):
    """The text with the word that a message says is right, or None."""
    m = re.search(r":(\d+):\d+: error.*?(?:is made by `(\w+)`|is of the kind `(\w+)`), found `(\w+)`", said)
    if not m:
        return None
    lines = text.split("\n")
    at = int(m.group(1)) - 1
    lines[at] = re.sub(r"\b%s\b" % m.group(4), m.group(2) or m.group(3), lines[at].split("#")[0], count=1)
    return "\n".join(lines)
