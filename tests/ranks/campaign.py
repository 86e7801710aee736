#!/usr/bin/python3
"""What happens to processes that train together when something goes wrong, at random.

usage: campaign.py BUILD [--count N] [--seed S] [--only KIND,...] [--first I]

Each scenario draws a program, whether it trains or evaluates, how many processes there are, what carries their messages, which policy and sums, what
goes wrong, in whom and when: at any time of a run, or just while a checkpoint is written. The run has to end in time with the exit code that
docs/distributed.md names and with one message; weights and metrics that it writes are those of an undisturbed run, if it was not interrupted; and the
checkpoint that is on the disk goes on to their bytes, with exact sums and rows in another number of processes. Scenario I of a seed is always the same,
but for time. Ends with a table; exit code 1 where a scenario went otherwise.
"""
import argparse
import collections
import json
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


# What is trained: a program's text, sizes, and which data. Other policies than exact ones are refused where a row is
# learned for each node.
PROGRAMS = {"gcn": (models.text("gcn"), [], "data"), "gat": (models.text("gat"), [], "data"),
            "relations": (models.text("relations"), ["--set", models.sizes("relations")], "data"),
            "walks": (models.WALKS, ["--set", "C=3"], "kinds"), "embed": (models.EMBED, [], "data")}
MPI_KINDS = ("flag", "seed", "model", "partition")
POLICIES = ["exact", "exact", "exact", "sancus=m1:2", "sancus=m3:0.1:8", "distgnn=3", "pipegcn", "cagnet1d", "bns=0.5"]
SAME_BITS = ("exact", "cagnet1d")
GOES_ON = SAME_BITS + ("bns=0.5",)  # a run that is resumed is the one that was never interrupted


class Campaign:
    def __init__(self, build):
        self.box = Sandbox(build, "campaign")
        g, n, e = np.random.default_rng(1), 1500, 9000
        mask = g.random(n) < 0.5
        arrays = {"edge_index": g.integers(0, n, (2, e)), "x": g.standard_normal((n, 24)).astype("<f4"), "y": g.integers(0, 3, n),
                  "train_mask": mask, "test_mask": ~mask, "edge_type": g.integers(0, 4, e)}
        toy.store(self.box.path("data"), arrays, num_nodes=n, num_edges=e, num_classes=3)
        kinds = models.arrays(papers=900, authors=500, subjects=20, writes=2700, cites=4000)
        toy.store(self.box.path("kinds"), kinds, relations=models.RELATIONS, num_authors=500)
        self.known = {}  # what undisturbed runs wrote

    def made(self, path, *argv):
        """The path, once the command has been run."""
        if not os.path.exists(path):
            self.box.must(self.box.gnnc, *argv)
        return path

    def program(self, name):
        text, more, data = PROGRAMS[name]
        path = self.box.path(name)
        return self.made(path, "build", self.box.write(name + ".gnn", text), "--data", self.box.path(data), *more, "--quick", "-o", path)

    def parts(self, name, k, method):
        data = PROGRAMS[name][2]
        path = self.box.path("%s-%d-%s" % (data, k, method))
        return self.made(path, "data", "partition", self.box.path(data), "-k", k, "-o", path, "--method", method)

    def train(self, name, data, *more):
        return [self.program(name), "train", "--data", data, "--epochs", EPOCHS, "--seed", 3, "--threads", 1, *more]

    def alone(self, name, *more):
        return self.train(name, self.box.path(PROGRAMS[name][2]), "--blas", "off", *more)

    def weights(self, key, argv):
        """Of a run that nothing disturbs; None: the program refuses the policy."""
        if key not in self.known:
            path = self.box.path("undisturbed.st")
            r = self.box.run(*argv, "--save", path, limit=300)
            if r.rc and "R915" not in r.err:
                raise RuntimeError("%s: exit code %s: %s" % (key, r.rc, r.err))
            self.known[key] = None if r.rc else read(path)
        return self.known[key]

    def trained(self, name):
        """A file of weights that one process trained, and what `eval` says of it."""
        path = self.box.path(name + ".trained.st")
        if not os.path.exists(path):
            self.box.must(*self.alone(name, "--save", path))
            self.known[path] = self.box.must(self.program(name), "eval", "--data", self.box.path(PROGRAMS[name][2]), "--weights", path, "--blas", "off").out
        return path


def epoch_of(checkpoint):
    """-1: there is none."""
    if not os.path.exists(checkpoint):
        return -1
    with open(checkpoint, "rb") as f:
        return int(json.loads(f.read(int.from_bytes(f.read(8), "little")))["__metadata__"]["epoch"], 16)


def read(path):
    with open(path, "rb") as f:
        return f.read()


class Wrong(Exception):
    pass


class Scenario:
    """One run that goes wrong, or not, and what must be true of it then."""

    def __init__(self, c, seed, number, kinds):
        self.c, self.r = c, random.Random(seed * 1000003 + number)
        self.kind = self.r.choice(kinds)
        self.ranks = self.r.randint(2, 5)
        self.by = "mpi" if MPI and (self.kind in MPI_KINDS or self.r.random() < 0.2) and self.kind not in ("damage", "full", "filled") else "shm"
        self.method = self.r.choice(["ldg", "random"])
        self.victim = self.r.randrange(self.ranks)
        self.at = self.r.random()
        self.name = self.r.choice(list(PROGRAMS))
        self.command = self.r.choice(["train"] * 4 + ["eval"]) if self.kind not in ("full", "filled", "metrics", "seed", "flag", "term") else "train"
        self.policy, self.sums = self.r.choice(POLICIES), self.r.choice(["exact", "exact", "local"])
        self.writing = self.kind in ("kill", "stop", "delay", "term", "filled") and self.command == "train" and self.r.random() < 0.4
        self.data = c.parts(self.name, self.ranks, self.method)
        self.check, self.save = c.box.path("check.st"), c.box.path("save.st")
        self.weights, self.had, self.took = None, -1, 0
        if self.command == "train":
            self.weights = self.undisturbed()
            if self.weights is None:
                self.policy = "exact"
                self.weights = self.undisturbed()
        self.more = ["--deadline", DEADLINE, "--overlap", self.r.choice(["on", "on", "off"])]
        if self.command == "train":
            self.more += ["--checkpoint", self.check, "--every", 1 if self.writing else self.r.choice([1, 3, 10]), "--save", self.save]

    def same_bits(self):
        return self.policy in SAME_BITS and self.sums == "exact"

    def how(self):
        return ["--policy", self.policy, "--sums", self.sums]

    def undisturbed(self):
        if self.same_bits():
            return self.c.weights(self.name, self.c.alone(self.name))
        return self.c.weights((self.data, self.name, self.policy, self.sums), self.c.train(self.name, self.data, "--ranks", self.ranks, *self.how()))

    def says(self):
        return "%s: %s %s, %d ranks by %s, parts by %s, policy %s, sums %s, rank %d, %s" % (
            self.kind, self.command, self.name, self.ranks, self.by, self.method, self.policy, self.sums, self.victim,
            "while it writes" if self.writing else "at %.2f" % self.at)

    # ---- starting ----

    def argv(self):
        if self.command == "train":
            usual = [str(x) for x in self.c.train(self.name, self.data, *self.how(), *self.more)]
        else:
            usual = [str(x) for x in [self.c.program(self.name), "eval", "--data", self.data, "--weights", self.c.trained(self.name), "--threads", 1, *self.more]]
        if self.by == "shm":
            return usual + ["--ranks", str(self.ranks)]
        odd, where = usual, []
        if self.kind == "flag":
            odd = usual + ["--set", "lr=0.02"]
        elif self.kind == "seed":
            odd = ["4" if before == "--seed" else x for before, x in zip([""] + usual, usual)]
        elif self.kind == "model":
            odd = [self.c.program("gat" if self.name == "gcn" else "gcn")] + usual[1:]
        elif self.kind == "partition":  # other parts under the same name, as on another machine
            odd = usual = [x.replace(self.data, "parts") for x in usual]
            where = [self.linked("here", self.data), self.linked("there", self.c.parts(self.name, self.ranks, "random" if self.method == "ldg" else "ldg"))]
        out = [MPI, "--oversubscribe"]
        for q in range(self.ranks):
            out += [":"] * (q > 0) + ["-n", "1"] + (["-wdir", where[q == self.victim]] if where else []) + (odd if q == self.victim else usual)
        return out

    def linked(self, name, parts):
        folder = self.c.box.path(name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        os.symlink(parts, os.path.join(folder, "parts"))
        return folder

    def start(self):
        def limits():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            if self.kind == "full":  # no byte fits: a disk that is full
                resource.setrlimit(resource.RLIMIT_FSIZE, (self.r.choice([0, 1000]),) * 2)

        self.began = time.time()
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
        """Until a moment of the run: while it starts, reads, trains or ends; or until a checkpoint is being written, not the first always."""
        if not self.writing:
            time.sleep(self.at * (0.6 if self.by == "shm" else 1.5) * (1 if self.command == "train" else 0.4))
            return
        until, left = time.time() + 5, self.r.randrange(1, 12)
        while time.time() < until and left and self.run.poll() is None:
            writer = self.pids().get(0)
            while writer and left and self.run.poll() is None:
                left -= self.writes(writer)

    def writes(self, pid):
        """Whether the process has a file open that will be the checkpoint, or is one: it has no name until it is whole."""
        try:
            for fd in os.listdir("/proc/%d/fd" % pid):
                file = os.readlink("/proc/%d/fd/%s" % (pid, fd))
                if file.startswith(self.c.box.root) and (file.endswith("(deleted)") or "check.st" in file):
                    return True
        except OSError:
            pass
        return False

    def signal(self, sign):
        self.had = epoch_of(self.check)
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
        if pid and (self.by == "mpi" or self.victim == 0):  # the others end; then it hears of that, where its launcher does not end it
            until = time.time() + DEADLINE + SLACK / 2
            while list(self.pids()) not in ([], [self.victim]) and time.time() < until:
                time.sleep(0.05)
            time.sleep(5 if self.by == "mpi" else 0)
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
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

    def filled(self):
        """The disk is full from some moment on."""
        self.sleep()
        pid = self.pids().get(self.victim)
        if pid:
            try:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, 0))
            except ProcessLookupError:
                pass
        return [DONE, WRITE] if self.victim == 0 else [DONE]

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
        name = self.r.choice(sorted(os.listdir(os.path.join(own, "part-%d" % self.victim))))
        file = os.path.join(own, "part-%d" % self.victim, name)
        if self.r.random() < 0.3 and name != "meta.json":
            os.remove(file)
        else:
            os.truncate(file, self.r.randrange(os.path.getsize(file)))
        read_by_all = ("edge_index" in name or name.startswith(("node_id", "halo_owner", "part.json"))) and not name.startswith("shares")
        # what cannot be opened ends as what cannot be written
        return [2, 3, WRITE] + ([] if read_by_all else [DONE])

    # ---- all of it ----

    def clean(self):
        for f in (self.check, self.save):
            if os.path.exists(f):
                os.remove(f)

    def play(self):
        before = {"full": self.full, "metrics": self.no_metrics, "part": self.part, "none": self.none}
        during = {"kill": self.kill, "stop": self.stop, "delay": self.delay, "term": self.term, "damage": self.damage, "filled": self.filled}
        wanted = before[self.kind]() if self.kind in before else None
        if self.kind == "metrics":
            self.more += ["--metrics", "/dev/full"]
        self.clean()
        self.start()
        if wanted is None:
            wanted = during.get(self.kind, self.differ)()
        try:
            out, err = self.run.communicate(timeout=DEADLINE + SLACK)
        except subprocess.TimeoutExpired:
            self.took = time.time() - self.began
            alone = self.by == "mpi" and not self.pids()  # all ranks ended, and mpirun hangs in its own end
            self.end()
            if alone:
                return "none: mpirun hung"
            raise Wrong("it does not end") from None
        self.took = time.time() - self.began
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
        if self.command == "eval" and self.run.returncode == DONE and out.decode() != self.c.known[self.c.trained(self.name)]:
            raise Wrong("other metrics: %s" % out.decode())
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
        if self.command != "train":
            return
        if self.run.returncode == DONE and not os.path.exists(self.save):
            raise Wrong("no weights were written")
        if os.path.exists(self.save) and self.run.returncode != INTERRUPTED and read(self.save) != self.weights:  # else those that there are
            raise Wrong("other weights")
        if epoch_of(self.check) < self.had:
            raise Wrong("the checkpoint of epoch %d is lost" % self.had)
        if os.path.exists(self.check):
            self.go_on()
        elif self.run.returncode == INTERRUPTED:
            raise Wrong("no checkpoint was written")

    def go_on(self):
        """From the checkpoint, where bits do not depend on parts in any number of processes."""
        again = self.c.box.path("again.st")
        k = self.r.randint(1, 4) if self.same_bits() else self.ranks
        if k == 1:
            argv = self.c.alone(self.name)
        else:
            parts = self.c.parts(self.name, k, self.method)
            argv = self.c.train(self.name, parts, "--ranks", k, *self.how())
        r = self.c.box.run(*argv, "--save", again, "--resume", self.check, limit=300)
        if r.rc:
            raise Wrong("the checkpoint does not go on with %d processes: %s" % (k, r.err[-500:]))
        if self.policy in GOES_ON and read(again) != self.weights:
            raise Wrong("the checkpoint goes on to other weights with %d processes" % k)


KINDS = ["kill", "kill", "stop", "delay", "term", "full", "filled", "metrics", "damage", "damage", "part", "flag", "seed", "model", "partition", "none"]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("build")
    ap.add_argument("--count", type=int, default=20, help="scenarios")
    ap.add_argument("--first", type=int, default=0, help="the first one's number")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--only", type=lambda s: s.split(","), default=KINDS, help="kinds")
    a = ap.parse_args()
    c, wrong, ends, longest = Campaign(a.build), 0, collections.defaultdict(collections.Counter), collections.Counter()
    kinds = [k for k in KINDS if k in a.only and (MPI or k not in MPI_KINDS)]
    for i in range(a.first, a.first + a.count):
        s = Scenario(c, a.seed, i, kinds)
        try:
            ends[s.kind][s.play()] += 1
        except Wrong as e:
            wrong += 1
            ends[s.kind]["wrong"] += 1
            print("FAIL campaign.%d: %s: %s" % (i, s.says(), str(e).replace("\n", " | ")), flush=True)
        longest[s.kind] = max(longest[s.kind], s.took)
    print("| what goes wrong | scenarios | exit codes | longest run, s |\n|---|---|---|---|")
    for kind in sorted(ends):
        codes = ", ".join("%s (%d)" % (code, n) for code, n in sorted(ends[kind].items(), key=str))
        print("| %s | %d | %s | %.1f |" % (kind, sum(ends[kind].values()), codes, longest[kind]))
    print("%d scenarios of seed %d, %d went wrong" % (a.count, a.seed, wrong))
    c.box.failures = wrong
    c.box.close()


if __name__ == "__main__":
    main()
