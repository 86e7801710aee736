"""A machine for a drawn program: mostly the default, sometimes another of the table, sometimes one with numbers drawn between the bounds of each row."""
import math
import os
import random
import re

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "passes", "context", "machine.def")


def table():
    with open(TABLE) as f:
        text = f.read()
    rows = re.findall(r"^(COUNT|RATE)\((\w+), *([\d.e+-]+), *([\d.e+-]+), *\(([^)]*)\)", text, re.M)
    return re.findall(r'^NAMED\(\w+, *"([^"]+)"', text, re.M), [(k, name, float(a), float(b), [float(x) for x in values.split(",")]) for k, name, a, b, values in rows]


def numbers(rng):
    """A file's text. Each number is that of a column, or any between its bounds, as often small as large."""
    said, lines = {}, ["machine drawn"]
    for kind, name, least, most, columns in table()[1]:
        x = rng.choice(columns) if rng.random() < 0.3 else math.exp(rng.uniform(math.log(least), math.log(most)))
        if name in ("lanes", "line_bytes"):
            x = 2 ** round(math.log2(x))
        if kind == "COUNT":
            x = int(min(max(round(x), least), most))
        if name == "l2_bytes":
            x = max(x, said["l1_bytes"])
        said[name] = x
        lines.append("%s %r" % (name, x))
    return "\n".join(lines) + "\n"


def drawn(seed):
    """None: the default; the name of one; or the text of a file."""
    rng = random.Random(seed * 131 + 11)
    what = rng.random()
    if what < 0.5:
        return None
    return rng.choice(table()[0]) if what < 0.7 else numbers(rng)
