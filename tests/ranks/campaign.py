#!/usr/bin/python3
"""What happens to processes that train together when something goes wrong, at random.

usage: campaign.py BUILD [--count N] [--seed S] [--only KIND,...] [--first I]

Each scenario draws how many processes there are, what carries their messages, what goes wrong, in whom and when. The run has to end in
time with the exit code that docs/distributed.md names and with one message; weights that it writes are those of an undisturbed run, if it was not
interrupted; and the checkpoint that is on the disk goes on to their bytes. Scenario I of a seed is always the same, but for time.
Ends with a table; exit code 1 where a scenario went otherwise.
"""
import argparse
import collections
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import models  # noqa: E402
import toy  # noqa: E402
from sandbox import Sandbox  # noqa: E402

DEADLINE = 2  # seconds that processes wait for one another
SLACK = 20  # beyond what a run may take: 5 s to speak, 5 s to be ended, and a machine that is busy
EPOCHS = 60
MPI = shutil.which("mpirun")
MPI_ENV = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1")
DONE, INTERRUPTED, LOST, DIFFER, WRITE = 0, 75, 7, 8, 6


class Campaign:
    def __init__(self, build):
        self.box = Sandbox(build, "campaign")
        g, n, e = np.random.default_rng(1), 1500, 9000
        mask = g.random(n) < 0.5
        arrays = {"edge_index": g.integers(0, n, (2, e)), "x": g.standard_normal((n, 24)).astype("<f4"), "y": g.integers(0, 3, n),
                  "train_mask": mask, "test_mask": ~mask}
        self.data = toy.store(self.box.path("data"), arrays, num_nodes=n, num_edges=e, num_classes=3)
        self.programs = []
        for name in ("gcn", "sage"):
            source = self.box.write(name + ".gnn", models.text(name))
            self.box.must(self.box.gnnc, "build", source, "--data", self.data, "--cpu=native", "-o", self.box.path(name))
            self.programs.append(self.box.path(name))
        for k in (2, 3, 4):
            for method in ("ldg", "random"):
                self.box.must(self.box.gnnc, "data", "partition", self.data, "-k", k, "-o", self.parts(k, method), "--method", method)
        self.box.must(*self.alone("one.st"))
        with open(self.box.path("one.st"), "rb") as f:
            self.weights = f.read()

    def parts(self, k, method):
        return self.box.path("parts-%d-%s" % (k, method))

    def train(self, data, *more):
        return [self.programs[0], "train", "--data", data, "--epochs", EPOCHS, "--seed", 3, "--threads", 1, *more]

    def alone(self, save, *more):
        return self.train(self.data, "--blas", "off", "--save", self.box.path(save), *more)


class Wrong(Exception):
    pass


class Scenario:
    """One run that goes wrong, or not, and what must be true of it then."""

    def __init__(self, c, seed, number, kinds):
        self.c, self.r = c, random.Random(seed * 1000003 + number)
        self.kind = self.r.choice(kinds)
        self.ranks = self.r.randint(2, 4)
        self.by = "mpi" if MPI and (self.kind in ("flag", "seed", "model", "partition") or self.r.random() < 0.2) and self.kind not in ("damage", "full") else "shm"
        self.method = self.r.choice(["ldg", "random"])
        self.victim = self.r.randrange(self.ranks)
        self.at = self.r.random()
        self.check = c.box.path("check.st")
        self.save = c.box.path("save.st")
        self.data = c.parts(self.ranks, self.method)
        self.more = ["--checkpoint", self.check, "--every", self.r.choice([1, 3, 10]), "--save", self.save, "--deadline", DEADLINE,
                     "--overlap", self.r.choice(["on", "on", "off"])]

    def says(self):
        return "%s: %d ranks by %s, parts by %s, rank %d" % (self.kind, self.ranks, self.by, self.method, self.victim)

    # ---- starting ----

    def argv(self):
        usual = [str(x) for x in self.c.train(self.data, *self.more)]
        if self.by == "shm":
            return usual + ["--ranks", str(self.ranks)]
        odd = {"flag": usual + ["--set", "lr=0.02"], "seed": [("4" if usual[i - 1] == "--seed" else x) for i, x in enumerate(usual)],
               "model": [self.c.programs[1]] + usual[1:],
               "partition": [self.c.parts(self.ranks, "random" if self.method == "ldg" else "ldg") if x == self.data else x for x in usual]}.get(self.kind)
        out = [MPI, "--oversubscribe"]
        for q in range(self.ranks):
            out += [":"] * (q > 0) + ["-n", "1"] + (odd if odd and q == self.victim else usual)
        return out

    def start(self):
        def limits():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            if self.kind == "full":  # no byte fits: a disk that is full
                resource.setrlimit(resource.RLIMIT_FSIZE, (self.r.choice([0, 1000]),) * 2)

        self.run = subprocess.Popen(self.argv(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=self.c.box.root, env=MPI_ENV,
                                    preexec_fn=limits, restore_signals=False, start_new_session=True)

    def pids(self):
        """Of the ranks that are there, by rank."""
        found = {}
        for pid in (int(x) for x in os.listdir("/proc") if x.isdigit()):
            try:
                with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as f:
                    if int(f.read().rsplit(")", 1)[1].split()[3]) != self.run.pid and pid != self.run.pid:  # another session
                        if self.by == "shm":
                            continue
                with open("/proc/%d/cmdline" % pid, "rb") as f:
                    command = f.read().split(b"\0")
                if self.c.box.root.encode() not in command[0]:
                    continue
                with open("/proc/%d/environ" % pid, "rb") as f:
                    env = dict(x.split(b"=", 1) for x in f.read().split(b"\0") if b"=" in x)
            except (OSError, IndexError, ValueError):
                continue
            rank = env.get(b"GNNC_RANK" if self.by == "shm" else b"OMPI_COMM_WORLD_RANK", b"0" if pid == self.run.pid else None)
            if rank is not None:
                found[int(rank)] = pid
        return found

    def sleep(self):
        """Until a moment of the run: while it starts, reads, trains or ends."""
        time.sleep(self.at * (0.6 if self.by == "shm" else 1.5))

    def signal(self, sign):
        pid = self.pids().get(self.victim)
        try:
            if pid:
                os.kill(pid, sign)
        except ProcessLookupError:
            return None
        return pid

    # ---- what goes wrong ----

    def none(self):
        return [DONE]

    def kill(self):
        self.sleep()
        pid = self.signal(signal.SIGKILL)
        if self.by == "mpi":
            return [DONE, LOST, 137]
        return [DONE, -9 if self.victim == 0 else LOST] if pid else [DONE]

    def stop(self):
        self.sleep()
        pid = self.signal(signal.SIGSTOP)
        if pid and self.by == "shm" and self.victim == 0:  # the others end; then it hears of that
            until = time.time() + DEADLINE + SLACK
            while len(self.pids()) > 1 and time.time() < until:
                time.sleep(0.05)
            os.kill(pid, signal.SIGCONT)
        return [DONE, LOST]

    def delay(self):
        self.sleep()
        pid = self.signal(signal.SIGSTOP)
        time.sleep(self.r.uniform(0.05, 0.4 * DEADLINE))
        try:
            if pid:
                os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass
        return [DONE]

    def term(self):
        self.sleep()
        self.signal(self.r.choice([signal.SIGTERM, signal.SIGINT]))
        # before the program has set what it does then, the signal ends the process, and the others miss it
        return [DONE, INTERRUPTED, LOST, -signal.SIGTERM, -signal.SIGINT, 130, 143, 1]

    def full(self):
        return [WRITE]

    def no_metrics(self):
        return [WRITE]

    def differ(self):
        return [DIFFER]

    def damage(self):
        """Bytes of a message, or where it is, change in the memory that processes share."""
        self.sleep()
        pids = self.pids()
        for pid in pids.values():
            for fd in os.listdir("/proc/%d/fd" % pid):
                if "gnnc-peers" in os.readlink("/proc/%d/fd/%s" % (pid, fd)):
                    with open("/proc/%d/fd/%s" % (pid, fd), "r+b", buffering=0) as f:
                        size = os.fstat(f.fileno()).st_size
                        for _ in range(200):
                            # rings of 256 KiB and two counters; before them who is there, which stays
                            at = size - self.r.randrange(1, self.ranks ** 2) * (128 + (256 << 10)) + self.r.choice([0, 64, 128 + self.r.randrange(256 << 10)])
                            f.seek(at)
                            f.write(bytes([self.r.randrange(256)]))
                    return [DONE, LOST, DIFFER]
        return [DONE]

    def part(self):
        """A file of one part lacks bytes, or is not there."""
        own = self.c.box.path("spoilt")
        shutil.rmtree(own, ignore_errors=True)
        shutil.copytree(self.data, own)
        self.data = own
        name = self.r.choice(["x.npy", "edge_index.npy", "node_id.npy", "halo_owner.npy", "part.json", "meta.json"])
        file = os.path.join(own, "part-%d" % self.victim, name)
        if self.r.random() < 0.3 and name != "meta.json":
            os.remove(file)
        else:
            os.truncate(file, self.r.randrange(os.path.getsize(file)))
        return [2, 3, WRITE]  # what cannot be opened ends as what cannot be written

    # ---- all of it ----

    def clean(self):
        for f in (self.check, self.save):
            if os.path.exists(f):
                os.remove(f)

    def play(self):
        before = {"full": self.full, "metrics": self.no_metrics, "part": self.part, "none": self.none}
        during = {"kill": self.kill, "stop": self.stop, "delay": self.delay, "term": self.term, "damage": self.damage}
        wanted = before[self.kind]() if self.kind in before else None
        if self.kind == "metrics":
            self.more += ["--metrics", "/dev/full"]
        self.clean()
        self.start()
        if wanted is None:
            wanted = during.get(self.kind, self.differ)()
        try:
            _, err = self.run.communicate(timeout=DEADLINE + SLACK)
        except subprocess.TimeoutExpired:
            self.end()
            raise Wrong("it does not end") from None
        left = self.pids()
        self.end()
        text = err.decode("utf-8", "replace")
        if self.run.returncode not in wanted:
            raise Wrong("exit code %d, wanted %s: %s" % (self.run.returncode, wanted, text[-1500:]))
        if self.by == "shm" and self.run.returncode in (2, 3, WRITE, LOST, DIFFER) and text.count("error[") != 1:
            raise Wrong("not one message: %s" % text[-1500:])
        if left and self.run.returncode >= 0:
            raise Wrong("ranks %s are left" % sorted(left))
        self.files()
        return self.run.returncode

    def end(self):
        until = time.time() + 8 if self.run.returncode is not None and self.run.returncode < 0 else 0  # rank 0 was killed: others end by themselves
        while time.time() < until and self.pids():
            time.sleep(0.05)
        left = self.pids()
        for pid in [*left.values(), self.run.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.run.wait()
        if until and left:
            raise Wrong("rank 0 was killed, and ranks %s do not end" % sorted(left))

    def files(self):
        if self.run.returncode == DONE and not os.path.exists(self.save):
            raise Wrong("no weights were written")
        if os.path.exists(self.save) and self.run.returncode != INTERRUPTED:  # which writes those that there are
            with open(self.save, "rb") as f:
                if f.read() != self.c.weights:
                    raise Wrong("other weights")
        if os.path.exists(self.check):
            r = self.c.box.run(*self.c.alone("again.st", "--resume", self.check))
            if r.rc:
                raise Wrong("the checkpoint does not go on: %s" % r.err[-500:])
            with open(self.c.box.path("again.st"), "rb") as f:
                if f.read() != self.c.weights:
                    raise Wrong("the checkpoint goes on to other weights")
        elif self.run.returncode == INTERRUPTED:
            raise Wrong("no checkpoint was written")


KINDS = ["kill", "kill", "stop", "delay", "term", "full", "metrics", "damage", "damage", "part", "flag", "seed", "model", "partition", "none"]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("build")
    ap.add_argument("--count", type=int, default=20, help="scenarios")
    ap.add_argument("--first", type=int, default=0, help="the first one's number")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--only", type=lambda s: s.split(","), default=KINDS, help="kinds")
    a = ap.parse_args()
    c, wrong, ends = Campaign(a.build), 0, collections.defaultdict(collections.Counter)
    kinds = [k for k in KINDS if k in a.only and (MPI or k not in ("flag", "seed", "model", "partition"))]
    longest = 0
    for i in range(a.first, a.first + a.count):
        s, begin = Scenario(c, a.seed, i, kinds), time.time()
        try:
            ends[s.kind][s.play()] += 1
        except Wrong as e:
            wrong += 1
            print("FAIL campaign.%d: %s: %s" % (i, s.says(), str(e).replace("\n", " | ")), flush=True)
        longest = max(longest, time.time() - begin)
    for kind in sorted(ends):
        print("%-10s %s" % (kind, ", ".join("%d of exit code %d" % (n, code) for code, n in sorted(ends[kind].items()))))
    print("%d scenarios of seed %d, %d went wrong; the longest took %.1f s" % (a.count, a.seed, wrong, longest))
    c.box.failures = wrong
    c.box.close()


if __name__ == "__main__":
    main()
