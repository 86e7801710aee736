"""What tests of whole programs share: a scratch folder that is removed at the end, runs with a time limit, one line per
test, and expectations about failures: exit code, stable code, place, hint, and nothing half-written left behind."""
import os
import re
import shutil
import signal
import subprocess
import tempfile


class Result:
    def __init__(self, rc, out, err):
        self.rc, self.out, self.err = rc, out, err


class Sandbox:
    def __init__(self, build, name):
        self.gnnc = os.path.join(os.path.abspath(build), "gnnc")
        with open(self.gnnc, "rb") as f:
            self.sanitized = b"__asan_init" in f.read()  # then address space and memory are not what they seem
        self.root = tempfile.mkdtemp(prefix="gnnc-%s-" % name)
        self.name = name
        self.failures = 0
        self.codes = set()

    def close(self):
        shutil.rmtree(self.root, ignore_errors=True)
        raise SystemExit(1 if self.failures else 0)

    def path(self, *parts):
        return os.path.join(self.root, *parts)

    def write(self, name, content):
        mode = "wb" if isinstance(content, bytes) else "w"
        with open(self.path(name), mode) as f:
            f.write(content)
        return self.path(name)

    def run(self, *argv, limit=60, **more):
        """stdout and stderr as text; a run that does not end has rc 'hang'."""
        try:
            p = subprocess.run([str(a) for a in argv], stdout=more.pop("stdout", subprocess.PIPE), stderr=subprocess.PIPE,
                               stdin=subprocess.DEVNULL, timeout=limit, cwd=more.pop("cwd", self.root), **more)
        except subprocess.TimeoutExpired:
            return Result("hang", "", "")
        return Result(p.returncode, (p.stdout or b"").decode("utf-8", "replace"), p.stderr.decode("utf-8", "replace"))

    def must(self, *argv, **more):
        r = self.run(*argv, **more)
        if r.rc != 0:
            raise RuntimeError("%s ended with %s: %s" % (" ".join(map(str, argv)), r.rc, (r.err or r.out)[-2000:]))
        return r

    def report(self, name, wrong):
        """wrong: falsy, or why the test failed."""
        self.failures += bool(wrong)
        print("FAIL %s.%s: %s" % (self.name, name, str(wrong).replace("\n", " | ")[:1500]) if wrong
              else "ok %s.%s" % (self.name, name), flush=True)

    def skip(self, name, why):
        print("skip %s.%s: %s" % (self.name, name, why), flush=True)

    def files(self):
        """Every file of the sandbox with its size and time, to see that a failure changes none."""
        found = {}
        for folder, _, names in os.walk(self.root):
            for n in names:
                info = os.lstat(os.path.join(folder, n))
                found[os.path.join(folder, n)] = (info.st_size, info.st_mtime_ns)
        return found

    def refuses(self, name, argv, rc, code, *says, may_write=(), **more):
        """The program must end with exit code rc and stable code, name what `says` holds, help, and leave no files."""
        before = self.files()
        r = self.run(*argv, **more)
        after = self.files()
        self.codes.add(code)
        self.report(name, self.why(r, rc, code, says) or changed(before, after, [self.path(f) for f in may_write]))
        return r

    @staticmethod
    def why(r, rc, code, says):
        text = r.err
        if r.rc == "hang":
            return "it does not end"
        if isinstance(r.rc, int) and r.rc < 0:
            return "killed by %s: %s" % (signal.Signals(-r.rc).name, text)
        if r.rc != rc:
            return "exit code %s, wanted %s: %s" % (r.rc, rc, text or r.out)
        if "error[%s]" % code not in text:
            return "wanted %s, found: %s" % (code, text)
        for word in says:
            if word not in text:
                return "does not say `%s`: %s" % (word, text)
        if not re.search(r"= help: .", text):
            return "no hint: %s" % text
        if len(text) > 20000:
            return "a message of %d bytes" % len(text)
        return None


def changed(before, after, may_write):
    new = [f for f in after if f not in before and f not in may_write]
    lost = [f for f in before if f not in after]
    other = [f for f in before if f in after and before[f] != after[f] and f not in may_write]
    for what, files in (("left behind", new), ("removed", lost), ("changed", other)):
        if files:
            return "%s: %s" % (what, ", ".join(files))
    return None
