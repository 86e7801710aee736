"""Rows: our program and its rivals timed in turns, so that a machine that drifts is the same to both."""
import json
import os
import select
import subprocess

import ours

HERE = os.path.dirname(os.path.abspath(__file__))
TOLERANCE = 1e-3
FIRST = ["dgl", "pyg_compile", "pyg_sparse", "pyg_csr", "pyg_fast", "pyg"]  # turns of peers: who is mostly quick first, so that who is slow is seen to be
FAR = 2.0   # times the best peer: a peer whose warm-up takes longer is not timed, for it cannot be the best
NEAR = 1.5  # times the best peer: who takes longer in every mode has no further turn
EXACT = 1e-6  # in f64, where f32 decides ties of maxima and signs before a relu otherwise


class Peer:
    """A server (peer.py) of one peer. Every request has an answer, `failed` at worst; a silent one is ended."""

    def __init__(self, name, python, threads):
        self.name, self.threads, self.python, self.p = name, threads, python, None

    def start(self):
        env = dict(os.environ, OMP_NUM_THREADS=str(self.threads))
        self.p = subprocess.Popen([self.python, os.path.join(HERE, "peer.py"), self.name], env=env, start_new_session=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def ask(self, timeout, **job):
        if self.p is None:
            self.start()
        try:
            self.p.stdin.write((json.dumps(job) + "\n").encode())
            self.p.stdin.flush()
            ready, _, _ = select.select([self.p.stdout], [], [], timeout)
            line = self.p.stdout.readline() if ready else b""
        except OSError:
            line = b""
        if line:
            return json.loads(line)
        silent = self.p.poll() is None
        self.end()
        return {"failed": "over %d s" % timeout if silent else "it died"}

    def end(self):
        if self.p:
            os.killpg(self.p.pid, 9)
            self.p.wait()
            self.p = None


class Rival:
    """A peer in one row: what it gave so far, and why it does not count if it does not."""

    def __init__(self, peer):
        self.peer, self.why, self.cells, self.off, self.versions = peer, None, {}, None, None

    def ask(self, timeout, **job):
        answer = self.peer.ask(timeout, **job)
        if "failed" in answer or "unsupported" in answer:
            self.why = answer.get("unsupported") or "failed: " + answer["failed"]
            return None
        return answer

    def time(self, mode, iters, limit, beyond):
        answer = self.ask(limit.timeout, do="time", mode=mode, iters=iters, beyond=beyond)
        if answer is None:
            return
        cell = self.cells.setdefault(mode, {"runs": 0})
        if answer["ms"]:
            cell["ms"] = min(answer["ms"] + [cell.get("ms", float("inf"))])
            cell["runs"] += len(answer["ms"])
        cell.update({k: answer[k] for k in ("first_s", "peak_bytes", "over") if k in answer})

    def result(self):
        r = {"cells": self.cells, "off": self.off, "why": self.why, "versions": self.versions}
        return {k: v for k, v in r.items() if v not in (None, {})}


class Limits:
    """How long a row may take: rounds of turns, seconds until a peer's turn is given up."""

    def __init__(self, rounds, timeout):
        self.rounds, self.timeout = rounds, timeout


def agree(rivals, us, job, dump, say):
    """Has PyG write weights and results, and compares us with them. Returns our difference or None if nobody could, and what
    f64 says where f32 is not enough."""
    if os.path.exists(dump):
        os.remove(dump)
    for r in sorted((r for r in rivals if r.peer.name in ("pyg", "pyg_sparse")), key=lambda r: r.peer.name):
        opened = r.ask(600, do="open", **job)
        if opened is None or r.ask(600, do="dump", to=dump) is None:
            continue
        r.versions, r.off = opened["versions"], 0.0
        off, where = us.compare(dump)
        exact = None if off <= TOLERANCE else compare_exactly(r, us, job, dump)
        if off > tolerance({"exact": exact}):
            say("DISAGREEMENT: our %s differs from PyG's by %.2g of its largest element" % (where, off))
        return off, exact
    say("nobody wrote reference results: no ratio counts")
    for r in rivals:
        r.why = r.why or "no reference results"
    return None, None


def compare_exactly(r, us, job, dump):
    """{"f64": our difference from PyG, both in f64, "pyg": PyG's f32 from its f64}, or None if it cannot tell. PyG opens again in f32."""
    exact = dump[:-len(".npz")] + ".f64.npz"
    close = {"do": "close"}
    made = [r.peer.ask(900, **a) for a in (close, dict(job, do="open", weights=dump, dtype="f64"), {"do": "dump", "to": exact}, close)]
    opened = r.ask(600, do="open", weights=dump, **job)
    if any("failed" in m or "unsupported" in m for m in made) or opened is None:
        return None
    return {"f64": us.compare(exact, "f64")[0], "pyg": ours.apart(dump, exact)}


def tolerance(row):
    """How far two f32 programs may differ. Where both agree in f64, thrice what f32 does to PyG itself."""
    exact = row.get("exact")
    return max(TOLERANCE, 3 * exact["pyg"]) if exact and exact["f64"] <= EXACT else TOLERANCE


def reopen(rival, job, dump, allowed):
    """Opens a peer on the dump's weights and compares it; the one that wrote the dump is open."""
    if rival.why or rival.off is not None:
        return
    opened = rival.ask(600, do="open", weights=dump, **job)
    answer = opened and rival.ask(900, do="compare", **{"with": dump})
    if answer:
        rival.versions, rival.off = opened["versions"], answer["off"]
        if not rival.off <= allowed:
            rival.why = "differs from PyG by %.2g" % rival.off


def take_turns(us, rivals, modes, limit, iters):
    """Best times: each rival's in its cells, ours returned as {mode: {ms, runs, arena, grown, predicted, savings}}. Each side has one turn
    of `iters` runs a round; every other round goes the other way."""
    cells = {}
    for n in range(limit.rounds):
        turns = [None] + sorted(rivals, key=lambda r: FIRST.index(r.peer.name))
        for r in turns if n % 2 == 0 else reversed(turns):
            if r is None:
                our_turn(us, modes, iters, cells)
            for mode in modes if r else []:
                least = min([o.cells[mode]["ms"] for o in rivals if "ms" in o.cells.get(mode, {})] + [float("inf")])
                if not r.why:
                    r.time(mode, iters, limit, FAR * least)
        drop_slow(rivals, modes)
    for mode, (ms, peak) in us.plan().items():
        if mode in cells:
            cells[mode].update(predicted_ms=ms, predicted_bytes=peak)
    return cells


def our_turn(us, modes, iters, cells):
    for mode, cell in us.time(iters).items():
        if mode in modes:
            have = cells.setdefault(mode, dict(cell, runs=0))
            have["ms"] = min(have["ms"], cell["ms"])
            have["runs"] += iters


def drop_slow(rivals, modes):
    """Who is far behind the best in every mode takes no more turns."""
    def hopeful(r):
        times = {mode: [o.cells[mode]["ms"] for o in rivals if "ms" in o.cells.get(mode, {})] for mode in modes}
        return any("ms" in r.cells.get(mode, {}) and r.cells[mode]["ms"] < NEAR * min(times[mode]) for mode in modes)
    rivals[:] = [r for r in rivals if not r.why and hopeful(r)]


def contest(us, peers, job, modes, limit, iters, work, say):
    """One row; `job` says what peers open, `iters` how often each side runs in a turn. Returns {"ours": cells, "off", "peers": {name: result}}."""
    rivals, dump = [Rival(p) for p in peers], os.path.join(work, "dump.npz")
    try:
        off, exact = agree(rivals, us, job, dump, say) if rivals else (None, None)
        allowed = tolerance({"exact": exact})
        for r in rivals:
            reopen(r, job, dump, allowed)
        mine = take_turns(us, [r for r in rivals if not r.why], modes, limit, iters)
    finally:
        for r in rivals:
            if r.peer.p:
                r.peer.ask(60, do="close")
    for r in rivals:
        if r.off and r.off > allowed:
            say("DISAGREEMENT: %s %s" % (r.peer.name, r.why))
    return {"ours": mine, "off": off, "exact": exact, "peers": {r.peer.name: r.result() for r in rivals}}


def counts(row, rival):
    """Whether a peer's time may be set against ours."""
    return all(off is not None and off <= tolerance(row) for off in (row["off"], rival.get("off")))


def best(row, mode):
    """(name, cell) of the fastest peer that counts, or None."""
    cells = [(name, r["cells"][mode]) for name, r in row["peers"].items() if counts(row, r) and "ms" in r.get("cells", {}).get(mode, {})]
    return min(cells, key=lambda c: c[1]["ms"]) if cells else None


def ratio(row, mode):
    b = best(row, mode)
    return b[1]["ms"] / row["ours"][mode]["ms"] if b and mode in row["ours"] else None
