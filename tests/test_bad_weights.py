#!/usr/bin/env python3
"""Weights and checkpoints that are malformed or of another model, and outputs that cannot be written: a full disk, a
read-only folder, kill -9 at any moment. What was there before survives.
usage: test_bad_weights.py BUILD

GNNC_LONG=1 kills more often."""
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time

import numpy as np

import toy
from sandbox import Sandbox

box = Sandbox(sys.argv[1], "bad_weights")
toy.make(box)
LONG = bool(os.environ.get("GNNC_LONG"))
EXE = box.path("toy")
box.must(EXE, "train", "--data", "data", "--save", "good.st", "--checkpoint", "good.ckpt")


def load(path):
    with open(box.path(path), "rb") as f:
        b = f.read()
    n = struct.unpack("<Q", b[:8])[0]
    return json.loads(b[8:8 + n]), b[8 + n:]


def pack(head, body, length=None):
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + body


def infer(weights):
    return [EXE, "infer", "--data", "data", "--weights", weights, "--out", "y.npy"]


def refuses(name, rc, code, content, *says):
    if content is not None:
        box.write("w.st", content)
    box.refuses(name, infer("w.st"), rc, code, "w.st", *says)
    box.refuses(name + "_eval", [EXE, "eval", "--data", "data", "--weights", "w.st"], rc, code, *says)


# ---- weights -------------------------------------------------------------------------------------

HEAD, BODY = load("good.st")
GOOD = pack(HEAD, BODY)
W, B = "W", "b"
NAMES = sorted((k for k in HEAD if k != "__metadata__"), key=lambda k: HEAD[k]["data_offsets"][0])
W, B = next(k for k in NAMES if len(HEAD[k]["shape"]) == 2), next(k for k in NAMES if len(HEAD[k]["shape"]) == 1)
LAST = NAMES[-1]


def changed(tensor, **fields):
    head = json.loads(json.dumps(HEAD))
    head[tensor].update(fields)
    return pack(head, BODY)


def renamed(old, new):
    return pack({new if k == old else k: v for k, v in HEAD.items()}, BODY)


end = HEAD[LAST]["data_offsets"]
both = HEAD[W]["data_offsets"], HEAD[B]["data_offsets"]
twice = json.dumps(HEAD)[:-1] + ', "%s": %s}' % (LAST, json.dumps(dict(HEAD[LAST], shape=[0], data_offsets=[end[1]] * 2)))
for case in [
    ("empty", 2, "R202", b""),
    ("seven_bytes", 2, "R202", GOOD[:7]),
    ("junk", 2, "R201", b"\xff" * 500, "header"),
    ("header_cut", 2, "R202", GOOD[:40]),
    ("data_cut", 2, "R202", GOOD[:-1], LAST),
    ("no_data", 2, "R202", pack(HEAD, b"")),
    ("bytes_behind", 2, "R203", GOOD + b"\0", "1 bytes"),
    ("header_length_huge", 2, "R201", pack(HEAD, BODY, 2**63)),
    ("header_length_long", 2, "R202", pack(HEAD, BODY, 10**6)),
    ("header_no_json", 2, "R107", pack(b"hello   ", BODY), "line 1"),
    ("header_json_cut", 2, "R107", pack(json.dumps(HEAD).encode()[:-3], BODY)),
    ("header_array", 2, "R201", pack(b"[1, 2]", BODY), "object"),
    ("header_nested", 2, "R107", pack(b"[" * 100000, BODY)),
    ("header_empty", 2, "R107", pack(b"", BODY)),
    ("entry_no_object", 2, "R201", pack(dict(HEAD, **{W: 5}), BODY), W),
    ("no_dtype", 2, "R201", pack({k: {x: y for x, y in v.items() if x != "dtype"} for k, v in HEAD.items()}, BODY)),
    ("no_offsets", 2, "R201", changed(W, data_offsets=[]), W),
    ("offsets_reversed", 2, "R201", changed(W, data_offsets=both[0][::-1]), W),
    ("offsets_negative", 2, "R201", changed(W, data_offsets=[-8, both[0][1]]), W),
    ("offsets_fraction", 2, "R201", changed(W, data_offsets=[0.5, both[0][1]]), W),
    ("offsets_beyond", 2, "R202", changed(LAST, data_offsets=[end[0], end[1] + 4]), LAST),
    ("offsets_short", 2, "R201", changed(W, data_offsets=[both[0][0], both[0][1] - 4]), W),
    ("shape_overflow", 2, "R201", changed(W, shape=[2**62, 2**62]), W),
    ("shape_negative", 2, "R201", changed(W, shape=[-8, 3]), W),
    ("shape_text", 2, "R201", changed(W, shape="8x3"), W),
    ("shape_nine_dims", 2, "R201", changed(W, shape=[8, 3] + [1] * 7), W),
    ("overlap", 2, "R203", pack({B: HEAD[B], W: HEAD[W], "more": dict(HEAD[B])}, BODY)),
    ("gap", 2, "R203", pack({k: v for k, v in HEAD.items() if k != NAMES[0]}, BODY)),
    ("name_twice", 2, "R204", pack(twice.encode(), BODY), LAST),
    ("metadata_twice", 2, "R204", pack(b'{"__metadata__": {}, ' + json.dumps(HEAD).encode()[1:], BODY), "__metadata__"),
    ("other_name", 3, "R205", renamed(W, "weight"), W),
    ("more_tensors", 3, "R205", pack(dict(HEAD, more={"dtype": "F32", "shape": [0], "data_offsets": [len(BODY)] * 2}), BODY), "more"),
    ("other_shape", 3, "R206", changed(W, shape=[3, 8]), W, "[3, 8]", "[8, 3]", "note: `W` is declared here: toy.gnn:2\n"),
    ("flat_shape", 3, "R206", changed(W, shape=[24]), W),
    ("dtype_i32", 3, "R207", changed(W, dtype="I32"), W, "i32"),
    ("dtype_bf16", 3, "R207", changed(W, dtype="BF16"), W, "BF16"),
    ("dtype_number", 2, "R201", changed(W, dtype=4), W),
    ("nan", 2, "R208", pack(HEAD, b"\0\0\xc0\x7f" + BODY[4:]), NAMES[0]),
    ("dtype_f64", 3, "R207", pack({k: v if k == "__metadata__" else dict(v, dtype="F64", data_offsets=[2 * o for o in v["data_offsets"]])
                                   for k, v in HEAD.items()}, BODY * 2), "f64"),
]:
    refuses(*case)
box.refuses("missing", infer("nowhere.st"), 6, "R601", "nowhere.st")
box.refuses("folder", infer("data"), 6, "R602", "data")
box.refuses("npy_as_weights", infer("data/x.npy"), 2, "R201", "x.npy")

# ---- checkpoints ------------------------------------------------------------------------------------

CHEAD, CBODY = load("good.ckpt")


def resume(name, rc, code, content, *says, more=()):
    if content is not None:
        box.write("r.ckpt", content)
    argv = [EXE, "train", "--data", "data", "--resume", "r.ckpt", "--save", "w2.st", *more]
    box.refuses(name, argv, rc, code, "r.ckpt", *says)


def meta(**fields):
    return pack(dict(CHEAD, __metadata__={k: v for k, v in dict(CHEAD["__metadata__"], **fields).items() if v is not None}), CBODY)


GOOD_CKPT = pack(CHEAD, CBODY)
for case in [
    ("resume_weights", 2, "R221", GOOD, "checkpoint"),
    ("resume_cut", 2, "R202", GOOD_CKPT[:-5]),
    ("resume_version", 2, "R221", meta(**{"gnnc.checkpoint": "2"}), "version"),
    ("resume_other_model", 3, "R222", meta(**{"gnnc.model": "other"}), "other"),
    ("resume_no_epoch", 2, "R221", meta(epoch=None), "epoch"),
    ("resume_bad_epoch", 2, "R221", meta(epoch="12"), "epoch"),
    ("resume_epoch_no_hex", 2, "R221", meta(epoch="zzzzzzzzzzzzzzzz"), "epoch"),
    ("resume_epoch_sign", 2, "R221", meta(epoch="-000000000000001"), "epoch"),
    ("resume_negative_epoch", 2, "R221", meta(epoch="ffffffffffffffff"), "epoch"),
    ("resume_tensor_missing", 3, "R205", pack({k.replace(W, "V") if k == W else k: v for k, v in CHEAD.items()}, CBODY), W),
]:
    resume(*case)
for field, value in [("epoch", 2**31), ("epoch", 2**63 - 1), ("epoch", 2**63), ("has_best", 2), ("has_best", 2**64 - 1), ("best_epoch", 2**63 - 1),
                     ("best_epoch", 2**63), ("best_epoch", 3), ("since", 2**63 - 1), ("since", 2**64 - 1), ("since", 1)]:
    resume("resume_%s_%x" % (field, value), 2, "R221", meta(**{field: "%016x" % value}), field)
best = {"has_best": "%016x" % 1, "best_epoch": "%016x" % 4}
resume("resume_best_without_stop", 3, "R222", meta(**best), "metric")
for name, text in [("plus", "+000000000000005"), ("space", " 000000000000005"), ("prefix", "0x00000000000005"), ("capitals", "000000000000000A")]:
    resume("resume_epoch_" + name, 2, "R221", meta(epoch=text), "epoch")
hyper = [k for k in CHEAD["__metadata__"] if "lr" in k]
resume("resume_no_hyper", 2, "R221", meta(**{hyper[0]: None}), "lr")
for bits in ("7ff0000000000000", "fff0000000000000", "7ff8000000000000"):
    resume("resume_hyper_" + bits, 2, "R221", meta(**{hyper[0]: bits}), "lr", "finite")
resume("resume_other_seed", 3, "R222", GOOD_CKPT, "seed", more=["--seed", "77"])
box.refuses("resume_missing", [EXE, "train", "--data", "data", "--resume", "no.ckpt"], 6, "R601", "no.ckpt")
r = box.run(*infer("good.ckpt"))
box.report("checkpoint_as_weights", r.rc != 0 and r.err)

# A model that stops by a metric, so that its checkpoints hold a best epoch: 1 after 5 epochs, that is 3 epochs without
# a better one.
box.write("stop.gnn", toy.MODEL.replace("  seed 0", "  stop_early(test_acc)\n  seed 0"))
box.must(box.gnnc, "build", "stop.gnn", "--data", "data", "--cpu=generic", "-o", box.path("stop"))
box.must(box.path("stop"), "train", "--data", "data", "--checkpoint", "stop.ckpt", "--save", "stop.st")
CHEAD, CBODY = load("stop.ckpt")
since = {"best_epoch": 1, "since": 3}


def resume_best(name, rc, code, *says, **fields):
    box.write("r.ckpt", meta(**{k: "%016x" % v for k, v in dict(since, **fields).items()}))
    argv = [box.path("stop"), "train", "--data", "data", "--resume", "r.ckpt"]
    if rc:
        box.refuses(name, argv, rc, code, "r.ckpt", *says)
    else:
        r = box.run(*argv)
        box.report(name, r.rc and r.err)


resume_best("resume_best", 0, None)
resume_best("resume_best_huge", 2, "R221", "best_epoch", best_epoch=2**63 - 1)
resume_best("resume_best_negative", 2, "R221", "best_epoch", best_epoch=2**64 - 1)
resume_best("resume_best_to_come", 2, "R221", "best_epoch", best_epoch=5)
resume_best("resume_best_at_zero_epochs", 2, "R221", "best_epoch", epoch=0)
resume_best("resume_since_other", 2, "R221", "since", since=2)
resume_best("resume_best_flag_lost", 2, "R221", "since", has_best=0)

# ---- outputs that cannot be written ---------------------------------------------------------------------

TRAIN = [EXE, "train", "--data", "data"]
box.refuses("save_no_folder", TRAIN + ["--save", "no/w.st"], 6, "R603", "no/w.st")
box.refuses("save_is_folder", TRAIN + ["--save", "data"], 6, "R603", "data")
box.refuses("checkpoint_no_folder", TRAIN + ["--checkpoint", "no/c.ckpt"], 6, "R603", "no/c.ckpt")
box.refuses("metrics_no_folder", TRAIN + ["--metrics", "no/m.jsonl"], 6, "R603", "no/m.jsonl")
box.refuses("metrics_full", TRAIN + ["--metrics", "/dev/full"], 6, "R603", "/dev/full")
box.refuses("save_full_device", TRAIN + ["--save", "/dev/full"], 6, "R603", "/dev/full")
box.report("device_still_there", not os.path.exists("/dev/full") and "it was replaced")
box.refuses("out_no_folder", [EXE, "infer", "--data", "data", "--weights", "good.st", "--out", "no/y.npy"], 6, "R603", "no/y.npy")
box.refuses("save_name_too_long", TRAIN + ["--save", "w" * 300], 6, "R603")
with open("/dev/full", "w") as full:
    box.refuses("stdout_full", TRAIN, 6, "R603", "standard output", stdout=full)


def keeps(name, folder, argv, file, **more):
    """The command fails with R603 and the old file is what it was."""
    with open(file, "rb") as f:
        old = f.read()
    names = sorted(os.listdir(folder))
    r = box.run(*argv, **more)
    why = box.why(r, 6, "R603", [os.path.basename(file)])
    with open(file, "rb") as f:
        if not why and f.read() != old:
            why = "the old file was changed"
    if not why and sorted(os.listdir(folder)) != names:
        why = "left behind: %s" % sorted(set(os.listdir(folder)) - set(names))
    box.report(name, why)


def small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


os.makedirs(box.path("small"))
for name, good, flag in [("checkpoint", "good.ckpt", "--checkpoint"), ("save", "good.st", "--save")]:
    old = box.path("small", good)
    shutil.copy(box.path(good), old)
    keeps("file_limit_" + name, box.path("small"), TRAIN + [flag, old], old, preexec_fn=small_files)
shutil.copy(box.path("data", "x.npy"), box.path("small", "y.npy"))
keeps("file_limit_out", box.path("small"), [EXE, "infer", "--data", "data", "--weights", "good.st", "--out", box.path("small", "y.npy")],
      box.path("small", "y.npy"), preexec_fn=small_files)


def mount(folder, options):
    os.makedirs(folder, exist_ok=True)
    return subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], stderr=subprocess.PIPE).returncode == 0


def unmount(folder):
    subprocess.run(["umount", folder], check=False)


disk = box.path("disk")
if os.geteuid() != 0 or not mount(disk, "size=64k"):
    box.skip("full_disk", "no tmpfs can be mounted")
    box.skip("read_only_disk", "no tmpfs can be mounted")
else:
    try:
        for name, good, flag in [("checkpoint", "good.ckpt", "--checkpoint"), ("save", "good.st", "--save")]:
            old = os.path.join(disk, good)
            shutil.copy(box.path(good), old)
            try:
                with open(os.path.join(disk, "filler"), "wb", buffering=0) as f:
                    while f.write(b"\0" * 4096):
                        pass
            except OSError:
                pass
            keeps("full_disk_" + name, disk, TRAIN + [flag, old], old)
            os.remove(os.path.join(disk, "filler"))
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        keeps("read_only_disk", disk, TRAIN + ["--save", os.path.join(disk, "good.st")], os.path.join(disk, "good.st"))
    finally:
        unmount(disk)
if os.geteuid() != 0:
    shutil.copy(box.path("good.st"), box.path("small", "good.st"))
    os.chmod(box.path("small"), 0o555)
    keeps("read_only_folder", box.path("small"), TRAIN + ["--save", box.path("small", "good.st")], box.path("small", "good.st"))
    os.chmod(box.path("small"), 0o755)

# ---- kill -9 while checkpoints are written ----------------------------------------------------------------

rng = random.Random(5)
ckpt = box.path("k.ckpt")


def killed_run(delay):
    p = subprocess.Popen([EXE, "train", "--data", "data", "--epochs", "1000000", "--threads", "1", "--checkpoint", ckpt,
                          "--every", "1"] + (["--resume", ckpt] if os.path.exists(ckpt) else []),
                         cwd=box.root, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    time.sleep(delay)
    p.send_signal(signal.SIGKILL)
    err = p.communicate()[1].decode()
    return p.returncode, err


why, last, n = None, -1, 60 if LONG else 12
for k in range(n):
    rc, err = killed_run(rng.uniform(0.01, 0.12))
    if rc != -9:
        why = "run %d ended by itself with %s: %s" % (k, rc, err)
        break
    if not os.path.exists(ckpt):
        continue
    try:
        epoch = int(load("k.ckpt")[0]["__metadata__"]["epoch"], 16)
    except (ValueError, KeyError) as e:
        why = "after kill %d the checkpoint is malformed: %s" % (k, e)
        break
    if epoch < last:
        why = "after kill %d the checkpoint went back from epoch %d to %d" % (k, last, epoch)
        break
    last = epoch
box.report("kill_during_checkpoints", why or (last < 2 and "no kill met a checkpoint"))

# ---- a loss that is not a number ----------------------------------------------------------------------------

r = box.refuses("nan_names_op_and_epoch", TRAIN + ["--epochs", "500", "--set", "lr=1e38", "--save", "w3.st"], 5, "R501",
                "epoch", "toy.gnn:4", "made by")

box.close()
