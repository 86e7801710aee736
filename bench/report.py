"""The results of bench/run as Markdown and as a plot (SVG, written by hand: a bar per layer and mode, the goal as a tick)."""
import math

import contest
import rows

MODES = [("infer", "forward"), ("grad", "forward + backward")]
INK, GREY, BLUE, ORANGE, LIGHT = "#222", "#777", "#2b6cb0", "#dd8b2a", "#e3e3e3"


def geomean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else None


def ms(v):
    return "%.0f" % v if v >= 1000 else "%.1f" % v if v >= 10 else "%.2f" % v if v >= 1 else "%.3f" % v


def times(r):
    return "-" if r is None else "%.1fx" % r if r < 100 else "%.0fx" % r


def verdict(value, goal):
    return "" if value is None or goal is None else "met" if value >= goal else "missed"


def table(head, body):
    if not body:
        return ""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(c) for c in row) + " |" for row in body]) + "\n"


def class_of(name):
    return next((c for c in rows.GOALS.values() if name in c["layers"]), None)


def rival_cells(row, mode):
    """[best peer, its time, our ratio] of one mode."""
    b = contest.best(row, mode)
    return [b[0], ms(b[1]["ms"]), times(contest.ratio(row, mode))] if b else ["-", "-", "-"]


def savings(cell):
    """What a run of ours reads sparse, has computed once, and leaves out, as `bench` of the executable says."""
    said = cell["savings"]
    parts = ["%s by nonzeros" % ", ".join(said["reads_sparse"])] if said["reads_sparse"] else []
    once = [t for t in said["computed_once"] if t["space"] != "unit"]
    parts += ["once: " + ", ".join("%s %s %.3g MB" % (t["space"], t["dims"], t["bytes"] / 1e6) for t in once)] if once else []
    parts += ["%.0f %% of the work left out" % (100 * said["left_out"])] if said["left_out"] else []
    return "; ".join(parts) or "nothing"


def layer_table(doc):
    body = []
    for name in rows.LAYERS:
        row, goal, cells = doc["rows"].get(name), class_of(name), [name]
        if not row:
            continue
        for mode, _ in MODES:
            if "failed" not in row:
                cells += [ms(row["ours"][mode]["ms"])] + rival_cells(row, mode) + [">= %d" % goal[mode][1] if goal else ""]
        body.append(cells + [savings(row["ours"]["grad"])] if "failed" not in row else cells + ["-"] * 10 + ["failed: " + row["failed"]])
    half = ["ours, ms", "best peer", "its ms", "ratio", "goal"]
    return table(["layer"] + ["%s: %s" % (t, h) if not k else h for _, t in MODES for k, h in enumerate(half)] + ["ours saves"], body)


def class_table(doc):
    body = []
    for title, c in rows.GOALS.items():
        for mode, text in MODES:
            got = [contest.ratio(doc["rows"][n], mode) for n in c["layers"] if "ours" in doc["rows"].get(n, {})]
            got = [r for r in got if r]
            if got:
                mean = geomean(got)
                body.append([title, text, "%d of %d" % (len(got), len(c["layers"]))] +
                            [cell for value, goal in ((mean, c[mode][0]), (min(got), c[mode][1]))
                             for cell in (times(value), ">= %dx" % goal, verdict(value, goal))])
    return table(["class", "what", "layers", "geomean", "goal", "", "least", "goal", ""], body)


def node_tensors(doc, row, amount):
    return amount / (4.0 * rows.SIZES[row["size"]][0] * row["width"])


def memory_table(doc):
    body = []
    for name in rows.LAYERS:
        row = doc["rows"].get(name, {})
        if "grad" not in row.get("ours", {}):
            continue
        own, goal = row["ours"]["grad"], rows.MEMORY_GOALS.get(name)
        arena = node_tensors(doc, row, own["arena"])
        least = [r["cells"]["grad"]["peak_bytes"] for r in row["peers"].values()
                 if contest.counts(row, r) and "peak_bytes" in r.get("cells", {}).get("grad", {})]
        body.append([name, "%.1f" % arena, "<= %d" % goal if goal else "", verdict(-arena, -goal) if goal else "",
                     "%.1f" % node_tensors(doc, row, own["grown"]),
                     "%.1f" % node_tensors(doc, row, min(least)) if least else "-"])
    return table(["layer", "ours, beyond inputs and outputs", "goal", "", "ours with results and gradients",
                  "least of the peers (VmHWM growth)"], body)


def net_table(doc):
    body = []
    for name, _, size, width, goals in rows.NETS:
        row = doc["rows"].get(name)
        if row and "failed" in row:
            body.append([name] + ["-"] * 7 + ["failed: " + row["failed"]])
        for mode, goal in goals.items() if row and "failed" not in row else []:
            r, own = contest.ratio(row, mode), row["ours"][mode]["ms"]
            wanted = [">= %dx" % goal, verdict(r, goal)] if goal else \
                ["<= %.1f ms" % rows.LATENCY_GOAL_MS, verdict(-own, -rows.LATENCY_GOAL_MS)]
            what = {"epoch": "training step", "infer": "inference"}[mode]
            body.append([name, what, ms(own)] + rival_cells(row, mode) + wanted + [savings(row["ours"][mode])])
    return table(["network", "what", "ours, ms", "best peer", "its ms", "ratio", "goal", "", "ours saves"], body)


def limit_table(doc):
    row = doc["rows"].get("limit", {})
    body = []
    for name, title in (("sum", "plain aggregation"), ("limit_gat", "GAT after its linear map")):
        if "hand" in row:
            r = row["hand"][name] / row["ours"][name]
            body.append([title, ms(row["ours"][name]), ms(row["hand"][name]), "%.2f" % r, ">= %.2f" % rows.LIMIT_GOAL,
                         verdict(r, rows.LIMIT_GOAL)])
    return table(["kernel", "ours, ms", "by hand, ms", "our speed", "goal", ""], body)


def named(doc, group):
    return [(k.split()[1:], v) for k, v in doc["rows"].items() if k.startswith(group + " ") and "failed" not in v]


def threads_table(doc):
    body = []
    for (model, size), row in named(doc, "threads"):
        one, two = row["variants"]["1"], row["variants"]["2"]
        for mode, text in MODES:
            r = one[mode] / two[mode]
            body.append([model, size, text, ms(one[mode]), ms(two[mode]), "%.2fx" % r, ">= %.2fx" % rows.THREADS_GOAL,
                         verdict(r, rows.THREADS_GOAL)])
    return table(["layer", "graph", "what", "1 thread, ms", "2 threads, ms", "speed-up", "goal", ""], body)


def growth_table(doc):
    body, errors = [], []
    for (model, size), row in named(doc, "growth"):
        for mode, text in MODES:
            own = row["ours"][mode]
            other = doc["rows"].get(model, row) if size == doc["size"] and not contest.best(row, mode) else row
            predicted = own.get("predicted_ms")
            errors += [abs(predicted / own["ms"] - 1)] if predicted else []
            body.append([model, size, text, ms(own["ms"]), ms(predicted) if predicted else "-",
                         "%.2f" % (own["ms"] * 1e6 / rows.SIZES[size][1]), "%.1f" % node_tensors(doc, row, own["arena"]),
                         "yes" if own.get("predicted_bytes") == own["arena"] else "no"] + rival_cells(other, mode))
    head = ["layer", "graph", "what", "ours, ms", "predicted, ms", "ns per edge", "arena, V x F", "arena as predicted",
            "best peer", "its ms", "ratio"]
    note = "\nThe predicted time is off by %.0f %% in the median.\n" % (100 * sorted(errors)[len(errors) // 2]) if errors else ""
    return table(head, body) + note


def width_table(doc):
    body = []
    for (model, width), row in named(doc, "width"):
        m = rows.SIZES[row["size"]][1]
        cells = [row["ours"][mode]["ms"] for mode, _ in MODES]
        body.append([model, width] + [ms(c) for c in cells] + ["%.3f" % (c * 1e6 / m / int(width)) for c in cells])
    return table(["layer", "width", "forward, ms", "forward + backward, ms", "ns per edge and feature", "the same, both"], body)


def typed_table(doc):
    """Layers on edges and nodes of several kinds; memory of forward and backward (README.md, "Memory")."""
    body, ratios, room = [], {mode: [] for mode, _ in MODES}, []
    for (layer, graph), row in named(doc, "typed"):
        cells = [layer, graph]
        for mode, _ in MODES:
            r = contest.ratio(row, mode)
            ratios[mode] += [r] if r else []
            cells += [ms(row["ours"][mode]["ms"])] + rival_cells(row, mode) + [verdict(r, rows.TYPED_GOALS["least"])]
        b, own = contest.best(row, "grad"), row["ours"]["grad"]["grown"]
        share = b[1].get("peak_bytes", 0) / own if b else None
        room += [share] if share else []
        body.append(cells + ["%.0f" % (own / 1e6), "%.0f" % (b[1]["peak_bytes"] / 1e6) if share else "-", times(share),
                             verdict(share, rows.TYPED_GOALS["memory"])])
    half = ["ours, ms", "best peer", "its ms", "ratio", "at least %dx" % rows.TYPED_GOALS["least"]]
    head = ["layer", "graph"] + ["%s: %s" % (t, h) if not k else h for _, t in MODES for k, h in enumerate(half)]
    notes = ["%s: geometric mean %s of %d rows, goal %dx." % (text, times(geomean(ratios[mode])), len(ratios[mode]), rows.TYPED_GOALS["geomean"])
             for mode, text in MODES if ratios[mode]]
    return table(head + ["memory: ours, MB", "the peer's", "ratio", "at least %dx" % rows.TYPED_GOALS["memory"]], body) + "\n" + " ".join(notes) + "\n" if body else ""


def passes_table(doc):
    body = []
    for (model,), row in named(doc, "passes"):
        whole = row["variants"]["all"]
        for name, cells in row["variants"].items():
            body.append([model, name if name == "all" else "without " + name] +
                        [v for mode, _ in MODES for v in (ms(cells[mode]), "%.2fx" % (cells[mode] / whole[mode]))])
    return table(["layer", "passes", "forward, ms", "against all", "forward + backward, ms", "against all"], body)


def not_counted(doc):
    """Who differed, failed or lacks a layer: nothing is left out silently."""
    lines = []
    for name, row in doc["rows"].items():
        if "failed" in row:
            lines.append("- %s: %s" % (name, row["failed"]))
        off, exact = row.get("off"), row.get("exact")
        if off is not None and contest.TOLERANCE < off <= contest.tolerance(row):
            lines.append("- %s counts: in f64 we and PyG agree to %.1g; in f32 we differ by %.2g, and PyG from its own f64 by %.2g"
                         % (name, exact["f64"], off, exact["pyg"]))
        elif off is not None and off > contest.TOLERANCE:
            lines.append("- **%s: our results differ from PyG's by %.2g; the row does not count**" % (name, row["off"]))
        for peer, r in row.get("peers", {}).items():
            if r.get("why"):
                lines.append("- %s, %s: %s" % (name, peer, r["why"]))
    return "\n".join(lines) + "\n" if lines else ""


def versions(doc):
    found = {v["versions"] for row in doc["rows"].values() for v in row.get("peers", {}).values() if v.get("versions")}
    return "; ".join(sorted(found)) or "none"


def sections(doc):
    title = "R-MAT graph of the size `%s` (%d nodes, %d edges), width %d, f32" % (
        (doc["size"],) + rows.SIZES[doc["size"]][:2] + (doc["width"],))
    return [("Layers: " + title, layer_table(doc)), ("By class", class_table(doc)), ("Networks", net_table(doc))]


def tables(doc):
    """The tables of layers, classes and networks, and who did not count."""
    return "\n".join("## %s\n\n%s" % s for s in sections(doc) + [("What did not count", not_counted(doc))] if s[1])


def markdown(doc):
    m, dates = doc["machine"], sorted(r["date"] for r in doc["rows"].values()) or ["-"]
    skipped = " Skipped: %s." % ", ".join(doc["missing_peers"]) if doc["missing_peers"] else ""
    parts = ["# Benchmark\n\n%s, %d cores, %d GiB, %s; %d threads; %s to %s; commit %s; `%s`.\nPeers: %s.%s\n" % (
        m["cpu"], m["cores"], m["memory_gb"], m["system"], doc["threads"], dates[0], dates[-1], doc["commit"], doc["command"],
        versions(doc), skipped)]
    for head, text in sections(doc) + [
            ("Beside loops by hand", limit_table(doc)),
            ("Peak memory of forward + backward, in node tensors V x F", memory_table(doc)), ("Threads", threads_table(doc)),
            ("Growth with the graph", growth_table(doc)), ("Growth with the width", width_table(doc)),
            ("Each pass left out", passes_table(doc)), ("Edges and nodes of several kinds", typed_table(doc)),
            ("Layers without a row", "".join("- %s: %s\n" % kv for kv in rows.NOT_YET.items())),
            ("What did not count", not_counted(doc))]:
        if text:
            parts.append("## %s\n\n%s" % (head, text))
    return "\n".join(parts)


# ---- plot ------------------------------------------------------------------------------------------------------------

def bars(doc):
    """[(layer, [(ratio, goal) of both modes])], the slowest class first as in the tables."""
    found = []
    for name in rows.LAYERS:
        row = doc["rows"].get(name, {})
        if "ours" in row and any(contest.ratio(row, mode) for mode, _ in MODES):
            goal = class_of(name)
            found.append((name, [(contest.ratio(row, mode), goal[mode][1] if goal else None) for mode, _ in MODES]))
    return found


def rect(x, y, w, h, fill):
    return '<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>' % (x, y, w, h, fill)


def line(x, top, bottom, stroke, width=1):
    return '<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%d"/>' % (x, top, x, bottom, stroke, width)


def label(x, y, fill, text, more=""):
    return '<text x="%.1f" y="%.1f" fill="%s"%s>%s</text>' % (x, y, fill, more, text)


def svg(doc):
    found, left, width, step, top = bars(doc), 130, 620, 34, 64
    most = 1.2 * max([r for _, cells in found for r, _ in cells if r] + [10.0])
    height, colours = top + step * len(found) + 34, (BLUE, ORANGE)

    def x(r):  # 0.5 at the left edge, `most` at the right
        return left + max(math.log10(r / 0.5), 0) * width / math.log10(most / 0.5)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">'
           % (left + width + 60, height), '<rect width="100%" height="100%" fill="white"/>',
           label(left, 20, INK, "Speed against the best peer (same weights, same run; log scale)", ' font-size="14"')]
    for k, (_, text) in enumerate(MODES):
        out += [rect(left + 130 * k, 31, 12, 12, colours[k]), label(left + 130 * k + 17, 41, INK, text)]
    out += [line(left + 316, 30, 44, INK, 2), label(left + 324, 41, INK, "goal of each layer")]
    for tick in (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000):
        if tick <= most:
            out += [line(x(tick), top - 8, height - 26, INK if tick == 1 else LIGHT),
                    label(x(tick), height - 10, GREY, "%gx" % tick, ' text-anchor="middle"')]
    for i, (name, cells) in enumerate(found):
        y = top + i * step
        out.append(label(left - 8, y + 17, INK, name, ' text-anchor="end"'))
        for k, (r, goal) in enumerate(cells):
            at = y + 13 * k
            if r:
                out += [rect(left, at + 1, max(x(r) - left, 1), 11, colours[k]),
                        label(x(r) + 4, at + 10, GREY, times(r), ' font-size="10"')]
            if goal:
                out.append(line(x(goal), at, at + 13, INK, 2))
    return "\n".join(out + ["</svg>"]) + "\n"
