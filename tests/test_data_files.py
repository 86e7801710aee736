#!/usr/bin/env python3
"""What the compiler reads of data: `gnnc data info`, `gnnc data verify` and `gnnc build --data` on folders and archives that
are sound, odd or damaged. usage: test_data_files.py BUILD"""
import io
import json
import os
import re
import shutil
import struct
import sys
import zipfile

import numpy as np

from sandbox import Sandbox

box = Sandbox(sys.argv[1], "data_files")
MODEL = """model m(x: node[F]) -> node[C] {
  param W: [F, C] = glorot
  return x @ W
}
train m {
  loss = cross_entropy(m(data.x), data.y)
  hyper lr = 0.1
  optimizer sgd(lr)
  epochs 1
}
"""
box.write("m.gnn", MODEL)
x, y = np.arange(12, dtype="<f4").reshape(4, 3), np.array([0, 1, -1, 1])
edges = np.array([[0, 1, 2], [1, 2, 3]])
META = {"name": "four", "num_nodes": 4, "num_edges": 3, "feature_dim": 3, "num_classes": 2}
CSR = {"x_indptr": np.array([0, 1, 1, 2, 3]), "x_indices": np.array([0, 2, 1]), "x_data": np.ones(3, "<f4")}


def folder(meta=META, **arrays):
    """A fresh folder of arrays (bytes as they are); meta None: without meta.json."""
    d = box.path("d")
    shutil.rmtree(d, ignore_errors=True)
    os.mkdir(d)
    if meta is not None:
        with open(d + "/meta.json", "w") as f:
            f.write(meta if isinstance(meta, str) else json.dumps(meta))
    for name, a in dict(dict(x=x, y=y, edge_index=edges), **arrays).items():
        if isinstance(a, bytes):
            with open("%s/%s" % (d, name if "." in name else name + ".npy"), "wb") as f:
                f.write(a)
        elif a is not None:
            np.save("%s/%s.npy" % (d, name), a)
    return d


def bytes_of(a, **changes):
    f = io.BytesIO()
    np.save(f, a)
    text = f.getvalue()
    for old, new in changes.items():
        text = text.replace(old.encode(), new.encode())
    return text


def head(text, version=1, length=None):
    text = text.encode()
    n = len(text) if length is None else length
    return b"\x93NUMPY" + bytes([version, 0]) + n.to_bytes(2 if version == 1 else 4, "little") + text


# ---- info ------------------------------------------------------------------------------------------


def info(name, d, *says):
    r = box.run(box.gnnc, "data", "info", d)
    box.report("info_" + name, r.rc and r.err or [s for s in says if s not in r.out] and r.out)


info("whole", folder(train_mask=np.ones(4, bool), scale=np.array(2.0)), "four: 4 nodes, 3 edges, 3 features, 2 classes\n", "x.npy ",
     "<f4  4 x 3", "train_mask.npy", "|b1  4", "scalar", "2 x 3")
info("without_meta", folder(None), box.path("d") + "\n")
info("odd_meta", folder(dict(META, name=7, num_nodes=-1, num_edges="3", feature_dim=1e300, num_classes=None)), box.path("d") + "\n")
box.refuses("info_junk", [box.gnnc, "data", "info", folder(x=b"junk")], 2, "E0614", "x.npy", "magic")
box.refuses("info_missing", [box.gnnc, "data", "info", "nowhere"], 6, "E0601", "nowhere")
box.refuses("info_pipe", [box.gnnc, "data", "info", folder(x=None) and (os.mkfifo(box.path("d", "x.npy")) or "d")], 2, "E0614", "x.npy", limit=10)

# ---- verify ----------------------------------------------------------------------------------------


def sound(name, meta=META, **arrays):
    r = box.run(box.gnnc, "data", "verify", folder(meta, **arrays))
    box.report("sound_" + name, r.rc and r.err or "all sound" not in r.out and r.out)


def unsound(name, rc, code, says, meta=META, **arrays):
    box.refuses("unsound_" + name, [box.gnnc, "data", "verify", folder(meta, **arrays)], rc, code, *says)


sound("whole", train_mask=np.ones(4, bool))
sound("without_meta", None)
sound("sparse", x=None, **CSR)
sound("other_dtypes", y=y.astype("<i4"), edge_index=edges.astype("<i4"), w=np.ones(3, "<f8"), empty=np.zeros((0, 2), "<f4"), b=np.ones(2, "|u1"))
sound("labels_as_numbers", dict(META, num_classes=None), y=np.array([0.5, 1, 2, 3]))
sound("no_classes", dict(META, num_classes=0), y=np.array([7, 8, 9, 10]))
sound("sparse_alone", dict(META, num_nodes=None, feature_dim=None), x=None, **CSR)
sound("version_2", x=head("{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3), }\n", 2) + x.tobytes())
sound("files_not_listed", dict(META, files={"x.npy": {"bytes": 3}, "y.npy": {"sha256": 3}}))
unsound("meta_array", 2, "E0614", ["meta.json", "object"], "[1]")
box.refuses("unsound_meta_folder", [box.gnnc, "data", "verify", folder(None) and (os.mkdir(box.path("d", "meta.json")) or "d")], 6, "E0601", "meta.json")
unsound("listed_missing", 2, "E0614", ["z.npy", "missing"], dict(META, files={"z.npy": {}}))
unsound("checksum", 3, "E0615", ["x.npy", "sha256"], dict(META, files={"x.npy": {"sha256": "0" * 64}}))
unsound("nothing", 2, "E0614", ["no .npy file"], None, x=None, y=None, edge_index=None)
unsound("nan", 3, "E0615", ["x.npy", "item 4 is not finite"], x=np.where(x == 4, np.nan, x))
unsound("infinite", 3, "E0615", ["x.npy", "item 0 is not finite"], x=np.full((4, 3), np.inf))
unsound("rows", 3, "E0615", ["x.npy", "3 x 3", "4 rows"], x=x[:3])
unsound("row_of_scalar", 3, "E0615", ["x.npy", "scalar"], x=np.array(1.0))
unsound("mask_rows", 3, "E0615", ["train_mask.npy", "4 rows"], train_mask=np.ones(5, bool))
unsound("label_beyond", 3, "E0615", ["y.npy", "item 3 is 2", "a class"], y=np.array([0, 1, 1, 2]))
unsound("label_below", 3, "E0615", ["y.npy", "item 0 is -2", "a class"], y=np.array([-2, 1, 1, 1]))
unsound("edges_flat", 2, "E0614", ["edge_index.npy", "2 x edges"], edge_index=edges.ravel())
unsound("edges_turned", 2, "E0614", ["edge_index.npy", "3 x 2"], edge_index=edges.T.copy())
unsound("edges_floats", 2, "E0614", ["edge_index.npy", "<f4"], edge_index=edges.astype("<f4"))
unsound("edges_fewer", 3, "E0615", ["edge_index.npy", "2 edges, meta.json says 3"], edge_index=edges[:, :2].copy())
unsound("edge_beyond", 3, "E0615", ["edge_index.npy", "item 5 is 4", "a node id"], edge_index=edges + np.array([[0], [1]]))
unsound("edge_below", 3, "E0615", ["edge_index.npy", "item 0 is -1"], edge_index=edges - 1)
unsound("indptr_rows", 3, "E0615", ["x_indptr.npy", "5 rows"], x=None, **dict(CSR, x_indptr=CSR["x_indptr"][1:]))
unsound("indptr_falls", 3, "E0615", ["x_indptr.npy", "item 2 is smaller"], x=None, **dict(CSR, x_indptr=np.array([0, 2, 1, 2, 3])))
unsound("column_beyond", 3, "E0615", ["x_indices.npy", "item 1 is 3", "a column"], x=None, **dict(CSR, x_indices=np.array([0, 3, 1])))
GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3), }"
for name, text, says in [
    ("no_magic", b"\x93NUMPZ" + b" " * 80, "magic"),
    ("short", b"\x93NUMPY\1\0", "magic"),
    ("version_3", head(GOOD, 3), "version"),
    ("version_0", head(GOOD, 0), "version"),
    ("header_cut", head(GOOD)[:40], "cut off"),
    ("header_long", head(GOOD, length=5000) + b" " * 5000, "absurdly long"),
    ("no_descr", head(GOOD.replace("descr", "dtype")), "'descr'"),
    ("descr_list", head(GOOD.replace("'<f4'", "[('a', '<f4')]")), "'descr'"),
    ("descr_empty", head(GOOD.replace("'<f4'", "''")), "'descr'"),
    ("descr_long", head(GOOD.replace("'<f4'", "'<f4 and more'")), "'descr'"),
    ("descr_other", head(GOOD.replace("<f4", "<f2")) + x.tobytes(), "`<f2` is not one of"),
    ("no_order", head(GOOD.replace("fortran", "cobol__")), "Fortran"),
    ("fortran", head(GOOD.replace("False", "True")), "Fortran"),
    ("no_shape", head(GOOD.replace("shape", "shade")), "not a tuple"),
    ("shape_number", head(GOOD.replace("(4, 3)", "4")), "not a tuple"),
    ("shape_words", head(GOOD.replace("(4, 3)", "(4, x)")), "no size"),
    ("shape_negative", head(GOOD.replace("(4, 3)", "(-4, 3)")), "no size"),
    ("shape_too_large", head(GOOD.replace("(4, 3)", "(99999999999999999999,)")), "no size"),
    ("shape_overflows", head(GOOD.replace("(4, 3)", "(4611686018427387904, 4)")), "overflows"),
    ("bytes_overflow", head(GOOD.replace("(4, 3)", "(9223372036854775807,)")), "overflows"),
    ("shape_of_nine", head(GOOD.replace("(4, 3)", "(1,1,1,1,1,1,1,1,1)")), "too many dims"),
    ("shape_open", head(GOOD[:GOOD.index(")")]), "does not end"),
    ("data_cut", head(GOOD) + b"\0" * 47, "47 bytes of data found, 48 wanted"),
    ("data_long", head(GOOD) + b"\0" * 49, "49 bytes of data found, 48 wanted"),
]:
    unsound("npy_" + name, 2, "E0614", ["x.npy", says], x=text)
os.mkdir(folder() + "/z.npy")
box.refuses("unsound_npy_folder", [box.gnnc, "data", "verify", "d"], 2, "E0614", "z.npy", "cannot be read")

# ---- facts of build --data -----------------------------------------------------------------------------


def builds(name, data, *says):
    """Compiles for the data; the graph IR must name the dims found there."""
    r = box.run(box.gnnc, "ir", "m.gnn", "--set=C=2", "--data", data)
    box.report("facts_" + name, r.rc and r.err or [s for s in says if s not in r.out] and r.out[:800])


def no_build(name, rc, code, says, data):
    box.refuses("facts_" + name, [box.gnnc, "ir", "m.gnn", "--set=C=2", "--data", data], rc, code, *says)


def archive(path, compressed=False, **arrays):
    (np.savez_compressed if compressed else np.savez)(box.path(path), **arrays)
    return box.path(path)


WIDE = ["dim F = 3"]
builds("folder", folder(), *WIDE)
builds("without_meta", folder(None), *WIDE)
builds("edges_of_meta", folder(edge_index=None, other=np.array(3.0), text=np.array(["a"])), *WIDE)
builds("odd_meta", folder(dict(META, num_nodes=-4, num_edges=1e300, num_classes="2", num_graphs=1)), *WIDE)
builds("sparse", folder(x=None, **CSR), *WIDE, "sparse")
builds("labels_i32", folder(y=y.astype("<i4")), *WIDE)
builds("labels_of_graphs", folder(dict(META, num_graphs=2), graph_y=np.array([0.5, 1]), graph_z=np.array([1, 2])), *WIDE)
for deflated in (False, True):
    builds("archive_%d" % deflated, archive("all.npz", deflated, x=x, y=y, edge_index=edges), *WIDE)
    d = folder(x=None, y=None)
    archive("d/graph.npz", deflated, x=x, y=y, format=np.array("csr"))
    archive("d/x.npz", deflated, shape=np.array([9, 9]), data=np.ones(2))
    builds("folder_archive_%d" % deflated, d, *WIDE)
d = folder(x=None, y=None)
archive("d/x.npz", indptr=CSR["x_indptr"], indices=CSR["x_indices"], data=CSR["x_data"], shape=np.array([4, 3]), format=np.array(b"csr"))
archive("d/y.npz", labels=y)
archive("d/two.npz", a=y, two=y)
builds("archives_of_one", d, *WIDE, "sparse")
with zipfile.ZipFile(folder(x=None) + "/x.npz", "w") as z:
    z.writestr("x.npy", bytes_of(x))
    z.writestr("readme.txt", "not an array")
    z.writestr(".npy", "without a name")
builds("other_members", "d", *WIDE)
no_build("no_folder", 6, "E0601", ["nowhere"], "nowhere")
no_build("no_archive", 2, "E0614", ["nowhere.npz", "cannot be read"], "nowhere.npz")
no_build("meta_array", 2, "E0614", ["meta.json", "object"], folder("[]"))
folder(None)
os.mkdir(box.path("d", "meta.json"))
no_build("meta_folder", 2, "E0614", ["meta.json"], "d")
no_build("npy_junk", 2, "E0614", ["x.npy", "magic"], folder(x=b"junk"))
no_build("side_archive", 2, "E0614", ["x.npz", "cut short"], folder(x=None, **{"x.npz": b"junk"}))
for name, shape in [("negative", [-4, -3]), ("huge", [2**62, 2**62]), ("none", [0, 0])]:
    folder(x=None)
    archive("d/x.npz", indptr=CSR["x_indptr"], indices=CSR["x_indices"], data=CSR["x_data"], shape=np.array(shape))
    r = box.run(box.gnnc, "build", "m.gnn", "--set=C=2", "--data", "d", "-o", box.path("never"))
    box.report("facts_shape_" + name, r.rc not in (1, 2, 3) and "ended with %s: %s" % (r.rc, r.err))
r = box.run(box.gnnc, "ir", "m.gnn", "--data", folder(x=None, **dict(CSR, x_indptr=CSR["x_indptr"][:0])))
box.report("facts_no_rows", r.rc not in (0, 1, 2, 3) and "ended with %s: %s" % (r.rc, r.err))

with open(archive("all.npz", x=x, y=y), "rb") as f:
    ZIP = f.read()
END, ENTRY, LOCAL = ZIP.rindex(b"PK\5\6"), ZIP.index(b"PK\1\2"), 0
for name, at, new, says in [
    ("end", END, b"QK", "cut short"),
    ("comment", END + 20, b"\1\0", "cut short"),
    ("directory", END + 16, struct.pack("<I", 2**31), "directory is malformed"),
    ("members", END + 10, struct.pack("<H", 2000), "directory is malformed"),
    ("one_more", END + 10, struct.pack("<H", 3), "directory is malformed"),
    ("entry", ENTRY, b"QK", "directory is malformed"),
    ("name", ENTRY + 28, b"\xff\xff", "directory is malformed"),
    ("method", ENTRY + 10, b"\x0c\0", "another method"),
    ("local", LOCAL, b"QK", "outside the file"),
    ("offset", ENTRY + 42, struct.pack("<I", 2**31), "outside the file"),
    ("local_name", LOCAL + 26, b"\xff\xff", "outside the file"),
    ("packed", ENTRY + 20, struct.pack("<I", 2**31), "outside the file"),
    ("member", LOCAL + 30 + sum(struct.unpack("<HH", ZIP[26:30])), b"QQQQ", "member x"),
]:
    box.write("bad.npz", ZIP[:at] + new + ZIP[at + len(new):])
    no_build("zip_" + name, 2, "E0614", ["bad.npz", says], "bad.npz")
for n in (0, 21, 22, 40):
    box.write("bad.npz", ZIP[-n:] if n else b"")
    no_build("zip_last_%d" % n, 2, "E0614", ["bad.npz"], "bad.npz") if n < 22 else box.report(
        "zip_tail_%d" % n, box.run(box.gnnc, "ir", "m.gnn", "--set=C=2", "--data", "bad.npz").rc not in (1, 2) and "taken")

# ---- what a program reads -----------------------------------------------------------------------------------

box.write("all.gnn", """model m(x: node[F], w: edge, d: node) -> node[C] {
  param W: [F, C] = glorot
  return sum_in(x.src * w) @ W + d
}
train m {
  loss = cross_entropy(m(data.x, data.w, data.d), data.y) on data.train
  hyper lr = 0.1
  optimizer sgd(lr)
  epochs 1
}
""")
PARTS = dict(w=np.ones(3), d=np.arange(4.0), train_mask=np.array([1, 1, 0, 1], bool))
box.must(box.gnnc, "build", "all.gnn", "--data", folder(**PARTS), "--cpu=generic", "-o", box.path("all"))
box.must(box.gnnc, "build", "all.gnn", "--data", folder(**PARTS), "--cpu=generic", "--dtype=f64", "-o", box.path("all64"))


def trains(name, exe="all", like=None, **arrays):
    """Trains; what it prints is that of `like`, another name, since both mean the same data."""
    folder(arrays.pop("meta", META), **dict(PARTS, **arrays))
    r = box.run(box.path(exe), "train", "--data", "d", "--threads", "1", "--set", "lr=0.5")
    said = re.sub(r"[0-9.]+ m?s\b.*", "", r.out)
    SAID[name] = said
    box.report("trains_" + name, r.rc and r.err or like and said != SAID[like] and "other than %s: %s" % (like, r.out[-300:]))


def refused(name, rc, code, says, exe="all", **arrays):
    d = folder(arrays.pop("meta", META), **dict(PARTS, **arrays))
    box.refuses("refused_" + name, [box.path(exe), "train", "--data", d], rc, code, *says)


SAID = {}
for exe in ("all", "all64"):
    a = dict(exe=exe, like="whole_" + exe)
    trains("whole_" + exe, exe)
    trains("doubles_" + exe, x=x.astype("<f8"), w=PARTS["w"].astype("<f4"), **a)
    trains("sparse_" + exe, x=None, x_indptr=np.array([0, 3, 6, 9, 12], "<i4"), x_indices=np.tile(np.arange(3, dtype="<i4"), 4),
           x_data=x.ravel().astype("<f8"), **a)
    trains("pairs_" + exe, edge_index=None, src=edges[0].astype("<i4"), dst=edges[1], **a)
    trains("columns_" + exe, d=PARTS["d"].reshape(4, 1), **a)
    trains("small_ints_" + exe, x=x.astype("|u1"), y=y.astype("<i4"), train_mask=PARTS["train_mask"].astype("|u1"), edge_index=edges.astype("<i4"), **a)
    trains("without_meta_" + exe, meta=None, **a)
    refused("infinite_" + exe, 2, "R116", ["x.npy", "row 1, column 2"], exe, x=np.where(x == 5, np.inf, x))
refused("pair_lengths", 3, "R110", ["src", "3 and 2"], edge_index=None, src=edges[0], dst=edges[1][:2])
refused("pair_matrix", 3, "R110", ["src"], edge_index=None, src=edges, dst=edges[1])
refused("pair_matrix_of_targets", 3, "R110", ["src"], edge_index=None, src=edges[0], dst=edges)
refused("pair_floats", 3, "R114", ["src"], edge_index=None, src=edges[0].astype("<f4"), dst=edges[1])
refused("pair_float_targets", 3, "R114", ["dst"], edge_index=None, src=edges[0], dst=edges[1].astype("<f4"))
refused("pair_junk", 2, "R101", ["src"], edge_index=None, src=b"junk", dst=edges[1])
refused("pair_junk_of_targets", 2, "R101", ["dst"], edge_index=None, src=edges[0], dst=b"junk")
refused("source_alone", 6, "R117", ["edge_index"], edge_index=None, src=edges[0])
refused("csr_junk", 2, "R101", ["x_data"], x=None, **dict(CSR, x_data=b"junk"))
refused("scalar_for_rows", 3, "R112", ["d.npy", "a single number"], d=np.array(1.0))
refused("ids_behind", 2, "R111", ["edge_index"], edge_index=edges + 1)
refused("csr_not_finite", 2, "R116", ["x"], x=None, **dict(CSR, x_data=np.array([1, np.nan, 1], "<f4")))
for exe in ("all", "all64"):
    folder(x=x, w=None, d=None)
    r = box.run(box.path(exe), "bench", "--data", "d", "--iters", "1", "--threads", "1")
    box.report("bench_draws_" + exe, r.rc and r.err or [s for s in ("w", "d") if "input %s was drawn" % s not in r.out + r.err] and r.out + r.err)

# What has no domain has no rows: all dims of its file are the model's.
box.write("one.gnn", "model m(x: node[F], A: [F, G], b: [G], c: []) -> node[G] = c * (x @ A) + b\n")
A, b = np.arange(6.0).reshape(3, 2), np.array([5.0, 7.0])
WHOLE = dict(A=A, b=b, c=np.array([2.0]))
box.must(box.gnnc, "build", "one.gnn", "--data", folder(**WHOLE), "--cpu=generic", "-o", box.path("one"))
r = box.run(box.path("one"), "infer", "--data", "d", "--out", "o")
box.report("without_rows", r.rc and r.err or not np.allclose(np.load(box.path("o")), 2 * (x @ A) + b) and "other numbers")
box.refuses("without_rows_short", [box.gnnc, "build", "one.gnn", "--data", folder(**dict(WHOLE, A=A[:2])), "-o", box.path("no")], 1, "E0201",
            "input `A`", "the data's is 2")
box.refuses("without_rows_vector", [box.gnnc, "build", "one.gnn", "--data", folder(**dict(WHOLE, A=b)), "-o", box.path("no")], 1, "E0202",
            "input `A` has 2 dims, the data's has 1")

# ---- words of the command line ----------------------------------------------------------------------------

for name, argv, code, says in [
    ("set_no_value", ["--set", "F"], "E0612", "NAME=NUMBER"), ("set_no_name", ["--set", "=3"], "E0612", "NAME=NUMBER"),
    ("set_empty", ["--set", "F="], "E0612", "NAME=NUMBER"), ("set_word", ["--set", "F=3x"], "E0612", "NAME=NUMBER"),
    ("dtype", ["--dtype", "f16"], "E0612", "f32 or f64"), ("mode", ["--mode", "test"], "E0612", "eval or train"),
    ("dash", ["-"], "E0613", "found 2"), ("short", ["-q"], "E0611", "-q"), ("no_value", ["--set"], "E0612", "wants a value"),
    ("switch_value", ["--pretty=3"], "E0611", "--pretty"), ("long", ["--" + "x" * 100], "E0611", "xxx"),
    ("near", ["--dtpye=f32"], "E0611", "--dtype"),
]:
    r = box.run(box.gnnc, "ir", "m.gnn", *argv)
    box.report("words_" + name, r.rc == 0 and "taken" or (code not in r.err or says not in r.err) and r.err)
for argv in (["--set", "F=3,C=2", "--", "m.gnn"], ["m.gnn", "--set=F=3,C=2", "--dtype=f64"], ["m.gnn", "--set", "F=3,C=2", "--mode", "train"]):
    r = box.run(box.gnnc, "ir", *argv)
    box.report("words_taken_" + argv[-1], r.rc and r.err or "dim F = 3" not in r.out and r.out[:300])
for command in ("build", "check", "ir", "fmt", "test", "explain", "doc", "data", "machine"):
    r = box.run(box.gnnc, command, "--help")
    box.report("help_" + command, r.rc and r.err or "usage: gnnc " + command not in r.out and r.out)
box.close()
