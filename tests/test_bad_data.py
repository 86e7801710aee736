#!/usr/bin/env python3
"""Data sets that are malformed or do not fit: each ends in its own code, says where and what, and writes nothing.
usage: test_bad_data.py BUILD"""
import io
import json
import os
import re
import struct
import sys

import numpy as np

import toy
from sandbox import Sandbox

box = Sandbox(sys.argv[1], "bad_data")
arrays = toy.make(box)
BODY = np.asarray(arrays["x"]).tobytes()


def train(where="spoilt"):
    return [box.path("toy"), "train", "--data", where, "--epochs", "2", "--threads", "2", "--save", "w.safetensors",
            "--metrics", "m.jsonl", "--checkpoint", "c.ckpt"]


def refuses(name, rc, code, *says, where="spoilt", **more):
    box.refuses(name, train(where), rc, code, *says, **more)


def spoil(name, rc, code, file, content, *says):
    """Replaces one file of the data: bytes, text, or an array."""
    d = toy.fresh(box)
    path = os.path.join(d, file)
    if isinstance(content, np.ndarray):
        np.save(path, content)
    else:
        with open(path, "wb") as f:
            f.write(content.encode() if isinstance(content, str) else content)
    refuses(name, rc, code, file.split(".")[0], *says)


# ---- .npy ----------------------------------------------------------------------------------------

GOOD = toy.header() + BODY
head = toy.header
for case in [
    ("npy_empty", 2, "R101", b""),
    ("npy_junk", 2, "R101", os.urandom(1000)),
    ("npy_magic_only", 2, "R102", GOOD[:6]),
    ("npy_header_cut", 2, "R102", GOOD[:60]),
    ("npy_data_cut", 2, "R102", GOOD[:-1]),
    ("npy_no_data", 2, "R102", head()),
    ("npy_bytes_behind", 2, "R106", GOOD + b"\0"),
    ("npy_version_3", 2, "R103", head(version=3) + BODY, "version"),
    ("npy_lying_header_length", 2, "R102", head(length=60000) + BODY),
    ("npy_lying_header_length_v2", 2, "R102", head(version=2, length=2**32 - 1) + BODY),
    ("npy_header_of_junk", 2, "R103", b"\x93NUMPY\x01\0\x10\0" + b"\xff" * 16 + BODY),
    ("npy_header_empty", 2, "R103", b"\x93NUMPY\x01\0\0\0" + BODY),
    ("npy_no_shape", 2, "R103", head().replace(b"'shape'", b"'shade'") + BODY),
    ("npy_descr_twice", 2, "R103", head(extra="").replace(b"fortran_order", b"descr        ") + BODY),
    ("npy_behind_dict", 2, "R103", head(extra="junk") + BODY),
    ("npy_order_maybe", 2, "R103", head(order="Maybe") + BODY),
    ("npy_fortran", 2, "R105", head(order="True") + BODY, "Fortran"),
    ("npy_f16", 2, "R104", head(descr="'<f2'") + BODY, "<f2"),
    ("npy_big_endian", 2, "R104", head(descr="'>f4'") + BODY, ">f4"),
    ("npy_complex", 2, "R104", head(descr="'<c8'") + BODY, "<c8"),
    ("npy_object", 2, "R104", head(descr="'|O'") + BODY, "|O"),
    ("npy_text", 2, "R104", head(descr="'<U1'") + BODY, "<U1"),
    ("npy_structured", 2, "R104", head(descr="[('a', '<f4'), ('b', '<f4')]") + BODY, "structured"),
    ("npy_descr_number", 2, "R103", head(descr="4") + BODY),
    ("npy_shape_overflow", 2, "R106", head(shape="(1099511627776, 1099511627776)") + BODY, "overflow"),
    ("npy_bytes_overflow", 2, "R106", head(shape="(4611686018427387904,)") + BODY, "overflow"),
    ("npy_huge_shape", 2, "R102", head(shape="(1000000000000, 8)") + BODY),
    ("npy_negative_shape", 2, "R106", head(shape="(-60, 8)") + BODY, "negative"),
    ("npy_nine_dims", 2, "R106", head(shape="(60, 8, 1, 1, 1, 1, 1, 1, 1)") + BODY),
    ("npy_dim_of_30_digits", 2, "R106", head(shape="(%d, 8)" % 10**30) + BODY),
    ("npy_shape_no_tuple", 2, "R103", head(shape="60") + BODY),
    ("npy_shape_words", 2, "R103", head(shape="(a, b)") + BODY),
    ("npy_shape_open", 2, "R103", head(shape="(60, 8").replace(b", }", b"   ") + BODY),
]:
    spoil(case[0], case[1], case[2], "x.npy", case[3], "x.npy", *case[4:])

# ---- arrays that do not fit the model --------------------------------------------------------------

x, y, ei = arrays["x"], arrays["y"], arrays["edge_index"]
mask, weight = arrays["train_mask"], arrays["edge_weight"]


def put(a, at, v):
    a = np.array(a)
    a[at] = v
    return a


big = x.astype("<i8")
big[3, 3] = 2**40
for case in [
    ("x_rows", 3, "R112", "x.npy", x[:-1], "59", "60", "note: `x` is declared here: toy.gnn:1\n"),
    ("x_rows_none", 3, "R112", "x.npy", x[:0]),
    ("x_width", 3, "R113", "x.npy", x[:, :-1], "7", "8"),
    ("x_scalar", 3, "R112", "x.npy", np.array(1, "<f4")),
    ("x_nan", 2, "R116", "x.npy", put(x, (5, 2), np.nan), "row 5", "column 2"),
    ("x_inf", 2, "R116", "x.npy", put(x, (5, 2), -np.inf), "row 5"),
    ("x_f64_beyond_f32", 2, "R116", "x.npy", put(x.astype("<f8"), (5, 2), 1e300), "row 5"),
    ("x_int_beyond_f32", 3, "R115", "x.npy", big, str(2**40)),
    ("y_floats", 3, "R114", "y.npy", y.astype("<f4"), "f32"),
    ("y_beyond_classes", 3, "R115", "y.npy", put(y, 7, toy.CLASSES), "7", "3", "note: `y` is declared here: toy.gnn:8\n"),
    ("y_below_missing", 3, "R115", "y.npy", put(y, 7, -2), "-2"),
    ("y_rows", 3, "R112", "y.npy", y[:-3]),
    ("y_matrix", 3, "R113", "y.npy", np.stack([y, y], 1)),
    ("mask_rows", 3, "R112", "train_mask.npy", mask[:-1], "59"),
    ("mask_longer", 3, "R112", "train_mask.npy", np.concatenate([mask, mask])),
    ("mask_floats", 3, "R114", "train_mask.npy", mask.astype("<f4")),
    ("mask_of_two", 3, "R115", "train_mask.npy", put(mask.astype("<i8"), 4, 2), "element 4"),
    ("edge_weight_rows", 3, "R112", "edge_weight.npy", weight[:-1], "199", "200"),
    ("edge_weight_nan", 2, "R116", "edge_weight.npy", put(weight, 11, np.nan)),
    ("edges_transposed", 3, "R110", "edge_index.npy", ei.T.copy(), "[200, 2]"),
    ("edges_flat", 3, "R110", "edge_index.npy", ei.reshape(-1)),
    ("edges_floats", 3, "R114", "edge_index.npy", ei.astype("<f4")),
    ("edges_id_beyond", 2, "R111", "edge_index.npy", put(ei, (0, 9), toy.NODES), "60"),
    ("edges_id_negative", 2, "R111", "edge_index.npy", put(ei, (1, 9), -1), "-1"),
    ("edges_id_beyond_i32", 2, "R111", "edge_index.npy", put(ei, (1, 9), 2**40), str(2**40)),
    ("edges_id_least", 2, "R111", "edge_index.npy", put(ei, (1, 9), -2**63)),
]:
    spoil(*case)

# ---- missing files ------------------------------------------------------------------------------------

for stem in ["edge_index", "x", "y", "train_mask", "edge_weight"]:
    toy.fresh(box, [stem + ".npy"])
    refuses("missing_" + stem, 6, "R117", stem.split("_mask")[0])
refuses("missing_folder", 6, "R601", "nowhere", where="nowhere")
refuses("data_is_a_file", 6, "R601", "toy.gnn", where="toy.gnn")
toy.fresh(box, ["x.npy"])
os.mkdir(box.path("spoilt", "x.npy"))
refuses("npy_is_a_folder", 6, "R602", "x.npy")
os.rmdir(box.path("spoilt", "x.npy"))
os.mkfifo(box.path("spoilt", "x.npy"))
refuses("npy_is_a_pipe", 6, "R602", "x.npy", limit=10)
box.refuses("gnnc_npy_is_a_pipe", [box.gnnc, "build", "toy.gnn", "--data", "spoilt", "-o", box.path("never")], 2, "E0614", "x.npy", limit=10)
toy.fresh(box, ["edge_index.npy"])
np.save(box.path("spoilt", "src.npy"), ei[0])
np.save(box.path("spoilt", "dst.npy"), ei[1][:-1])
refuses("src_dst_lengths", 3, "R110", "src")

# ---- meta.json ----------------------------------------------------------------------------------------

with open(box.path("data", "meta.json")) as f:
    META = f.read()


def meta(**changes):
    return json.dumps(dict(json.loads(META), **changes))


for case in [
    ("meta_empty", 2, "R107", ""),
    ("meta_truncated", 2, "R107", META[:len(META) // 2], "line"),
    ("meta_nested", 2, "R107", "[" * 100000),
    ("meta_nested_objects", 2, "R107", '{"a":' * 100000),
    ("meta_behind_the_end", 2, "R107", META + "}"),
    ("meta_bad_escape", 2, "R107", '{"a": "\\x"}', "line 1"),
    ("meta_lone_surrogate", 2, "R107", '{"a": "\\ud800"}'),
    ("meta_nul", 2, "R107", '{"num_nodes": 60\0}'),
    ("meta_python", 2, "R107", "{'num_nodes': 60}"),
    ("meta_number_form", 2, "R107", '{"num_nodes": 060}'),
    ("meta_array", 2, "R109", "[1, 2]", "object"),
    ("meta_text_count", 2, "R109", meta(num_nodes="60"), "num_nodes"),
    ("meta_negative_count", 2, "R109", meta(num_nodes=-60), "num_nodes"),
    ("meta_fraction_count", 2, "R109", meta(num_nodes=60.5), "num_nodes"),
    ("meta_null_count", 2, "R109", meta(num_nodes=None), "num_nodes"),
    ("meta_count_of_30_digits", 2, "R109", meta(num_nodes=10**30), "num_nodes"),
]:
    spoil(case[0], case[1], case[2], "meta.json", case[3], *case[4:])
for name, rc, code, n, says in [("meta_too_many_nodes", 3, "R301", 3 * 10**9, "3000000000"),
                                ("meta_fewer_nodes", 2, "R111", 10, "edge_index"),
                                ("meta_more_nodes", 3, "R112", 61, "61")]:
    with open(os.path.join(toy.fresh(box), "meta.json"), "w") as f:
        f.write(meta(num_nodes=n))
    refuses(name, rc, code, says)


def little_memory():
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))


# Pairs of all nodes, which no file says, are refused where the program asks for them.
box.write("pairs.gnn", "model pairs(edge_weight: edge) -> node {\n  x = sum_in(edge_weight)\n  return over complete() { sum_in(x.src) }\n}\n")
box.must(box.gnnc, "build", "pairs.gnn", "--quick", "--cpu=generic", "-o", box.path("pairs"))
with open(os.path.join(toy.fresh(box), "meta.json"), "w") as f:
    f.write(meta(num_nodes=100000))
box.refuses("pairs_of_all_nodes", [box.path("pairs"), "infer", "--data", "spoilt", "--out", "y.npy"], 3, "R301", "10000000000", "`complete` is declared here: pairs.gnn:3")
# Counts that no file agrees with are refused before anything of that size is made, in whatever order nodes are stored.
for n, rc, code, says in [(2**61 - 1, 3, "R301", str(2**61 - 1)), (2**31 - 2, 3, "R112", "60"), (2**31 - 1, 3, "R112", "60")]:
    with open(os.path.join(toy.fresh(box), "meta.json"), "w") as f:
        f.write(meta(num_nodes=n))
    for order in ("none", "degree", "bfs", "auto"):
        box.refuses("huge_count_%d_%s" % (n, order), train() + ["--reorder", order], rc, code, says, limit=5)
# Of edges alone any number of nodes may be true; whether there is memory for them is asked first.
box.write("edges.gnn", "model edges(edge_weight: edge) -> node {\n  return sum_in(edge_weight)\n}\n")
box.must(box.gnnc, "build", "edges.gnn", "--cpu=generic", "-o", box.path("edges"))
if box.sanitized:
    box.skip("out_of_memory", "sanitizers want their own address space")
else:
    box.refuses("out_of_memory", [box.path("edges"), "infer", "--data", "spoilt", "--out", "y.npy"], 4, "R611", "bytes", "MiB", limit=5,
                preexec_fn=little_memory)

# ---- sparse features ------------------------------------------------------------------------------------

r, c = np.nonzero(x)
indptr = np.concatenate([[0], np.cumsum(np.bincount(r, minlength=toy.NODES))]).astype("<i8")
parts = {"indptr": indptr, "indices": c.astype("<i8"), "data": x[r, c]}


def csr_folder(**changes):
    d = toy.fresh(box, ["x.npy"])
    for k, v in dict(parts, **changes).items():
        np.save("%s/x_%s.npy" % (d, k), v)
    return d


# A program built for a dense matrix, and one built for a sparse one, read the same files.
box.must(box.gnnc, "build", "toy.gnn", "--data", csr_folder(), "--cpu=generic", "-o", box.path("toy_sparse"))


def sparse(name, rc, code, part, value, *says):
    csr_folder(**{part: value})
    refuses(name, rc, code, "x", *says)
    box.refuses(name + "_sparse", [box.path("toy_sparse")] + train()[1:], rc, code, "x", *says)


nnz = len(c)
for case in [
    ("csr_rows", 3, "R112", "indptr", indptr[:-1]),
    ("csr_empty_indptr", 3, "R112", "indptr", indptr[:0]),
    ("csr_goes_down", 2, "R108", "indptr", put(indptr, 5, nnz), "indptr"),
    ("csr_ends_elsewhere", 2, "R108", "indptr", put(indptr, -1, nnz - 1)),
    ("csr_begins_elsewhere", 2, "R108", "indptr", put(indptr, 0, 1)),
    ("csr_lengths", 2, "R108", "indices", parts["indices"][:-1]),
    ("csr_negative_column", 2, "R108", "indices", put(parts["indices"], 3, -1)),
    ("csr_column_beyond", 3, "R113", "indices", put(parts["indices"], 3, toy.FEATURES)),
    ("csr_column_last", 3, "R113", "indices", put(parts["indices"].astype("<i8"), 3, 2**63 - 1), "9223372036854775807 columns"),
    ("csr_float_indices", 2, "R108", "indices", parts["indices"].astype("<f4")),
    ("csr_int_data", 2, "R108", "data", parts["indices"]),
    ("csr_matrix_data", 2, "R108", "data", parts["data"].reshape(1, -1)),
    ("csr_nan", 2, "R116", "data", put(parts["data"], 0, np.nan)),
]:
    sparse(*case)

for case in [("x_rows", 3, "R112", x[:-1]), ("x_width", 3, "R113", x[:, :-1]), ("x_nan", 2, "R116", put(x, (5, 2), np.nan)),
             ("x_scalar", 3, "R112", np.array(1, "<f4"))]:
    np.save(os.path.join(toy.fresh(box), "x.npy"), case[3])
    box.refuses(case[0] + "_sparse", [box.path("toy_sparse")] + train()[1:], case[1], case[2], "x.npy")
toy.fresh(box, ["x.npy"])
box.refuses("missing_x_sparse", [box.path("toy_sparse")] + train()[1:], 6, "R117", "x")

# ---- .npz ------------------------------------------------------------------------------------------------


def archive(packed, **changes):
    """All arrays as the bytes of an .npz; None leaves one out."""
    out = io.BytesIO()
    members = {k: v for k, v in dict(arrays, **changes).items() if v is not None}
    (np.savez_compressed if packed else np.savez)(out, **members)
    return out.getvalue()


def npz(name, rc, code, content, *says):
    box.write("all.npz", bytes(content))
    refuses(name, rc, code, "all.npz", *says, where="all.npz")


def patched(content, mark, offset, value):
    """Overwrites bytes behind the last occurrence of a mark."""
    b = bytearray(content)
    at = bytes(b).rindex(mark) + offset
    b[at:at + len(value)] = value
    return b


plain, packed = archive(False), archive(True)
END, ENTRY = b"PK\5\6", b"PK\1\2"
for case in [
    ("npz_empty", 2, "R118", b""),
    ("npz_junk", 2, "R118", os.urandom(3000)),
    ("npz_truncated", 2, "R118", plain[:len(plain) // 2], "cut short"),
    ("npz_no_directory", 2, "R118", plain[:-10]),
    ("npz_directory_outside", 2, "R118", patched(plain, END, 16, struct.pack("<I", 2**31))),
    ("npz_lying_count", 2, "R118", patched(plain, END, 10, struct.pack("<H", 60000))),
    ("npz_count_one_more", 2, "R118", patched(plain, END, 10, struct.pack("<H", len(arrays) + 1))),
    ("npz_encrypted", 2, "R118", patched(plain, ENTRY, 8, b"\1\0"), "encrypted"),
    ("npz_other_method", 2, "R118", patched(plain, ENTRY, 10, b"\x0c\0"), "deflate"),
    ("npz_member_outside", 2, "R118", patched(plain, ENTRY, 42, struct.pack("<I", 2**31))),
    ("npz_member_too_long", 2, "R118", patched(plain, ENTRY, 20, struct.pack("<II", 2**31, 2**31))),
    ("npz_bomb", 2, "R118", patched(packed, ENTRY, 24, struct.pack("<I", 2**31))),
    ("npz_size_lies", 2, "R119", patched(packed, ENTRY, 24, struct.pack("<I", 1000))),
    ("npz_checksum", 2, "R119", patched(plain, ENTRY, 16, b"\0\0\0\0"), "checksum"),
    ("npz_name_overruns", 2, "R118", patched(plain, ENTRY, 28, b"\xff\xff")),
    ("npz_member_missing", 6, "R117", archive(True, y=None), "y"),
    ("npz_edges_missing", 6, "R117", archive(True, edge_index=None), "edge_index"),
    ("npz_big_endian", 2, "R104", archive(True, x=x.astype(">f4")), "all.npz:x", ">f4"),
    ("npz_fortran", 2, "R105", archive(False, x=np.asfortranarray(x)), "all.npz:x"),
    ("npz_rows", 3, "R112", archive(True, y=y[:-1]), "all.npz:y"),
]:
    npz(*case)
damaged = bytearray(packed)
at = bytes(packed).index(b"x.npy") + 200
damaged[at:at + 40] = os.urandom(40)
npz("npz_damaged", 2, "R119", damaged)
npz("npz_member_twice", 2, "R118", archive(False).replace(b"train_mask.npy", b"edge_index.npy"), "twice")

# ---- MatrixMarket and lists --------------------------------------------------------------------------------

ENTRIES = "".join("%d %d 0.5\n" % (a + 1, b + 1) for a, b in ei.T)
BANNER = "%%MatrixMarket matrix coordinate real general\n"
SIZES = "60 60 200\n"


def text(name, rc, code, file, content, *says):
    d = toy.fresh(box, ["edge_index.npy", "edge_weight.npy"])
    with open(os.path.join(d, file), "w") as f:
        f.write(content)
    refuses(name, rc, code, *([] if code == "R117" else [file]), *says)


for case in [
    ("mtx_empty", 2, "R120", ""),
    ("mtx_no_banner", 2, "R120", SIZES + ENTRIES, ":1:", "MatrixMarket"),
    ("mtx_array", 2, "R120", BANNER.replace("coordinate", "array") + SIZES + ENTRIES, "array"),
    ("mtx_complex", 2, "R120", BANNER.replace("real", "complex") + SIZES + ENTRIES, "complex"),
    ("mtx_skew", 2, "R120", BANNER.replace("general", "skew-symmetric") + SIZES + ENTRIES, "skew-symmetric"),
    ("mtx_no_sizes", 2, "R120", BANNER + "% only a comment\n"),
    ("mtx_not_square", 3, "R110", BANNER + "60 61 200\n" + ENTRIES, "60 x 61"),
    ("mtx_huge", 2, "R120", BANNER + "60 60 100000000000000\n" + ENTRIES, "room"),
    ("mtx_sizes_overflow", 2, "R111", BANNER + "60 60 99999999999999999999999\n" + ENTRIES),
    ("mtx_too_few", 2, "R120", BANNER + "60 60 201\n" + ENTRIES, "200", "201"),
    ("mtx_too_many", 2, "R120", BANNER + "60 60 199\n" + ENTRIES, "199"),
    ("mtx_id_zero", 2, "R111", BANNER + SIZES + "0 1 0.5\n" + ENTRIES, ":3:", "id 0"),
    ("mtx_id_beyond", 2, "R111", BANNER + SIZES + "1 61 0.5\n" + ENTRIES, ":3:", "61"),
    ("mtx_no_value", 2, "R120", BANNER + SIZES + "1 1\n" + ENTRIES, ":3:"),
    ("mtx_word", 2, "R120", BANNER + SIZES + "1 1 heavy\n" + ENTRIES, ":3:", "heavy"),
    ("mtx_nan", 2, "R116", BANNER + SIZES + ENTRIES.replace("0.5", "nan", 1)),
    ("mtx_pattern_lacks_weights", 6, "R117", BANNER.replace("real", "pattern") + SIZES + ENTRIES.replace(" 0.5", ""), "edge_weight"),
]:
    text(case[0], case[1], case[2], "graph.mtx", case[3], *case[4:])
LIST = "".join("%d\t%d\t0.5\n" % (a, b) for a, b in ei.T)
for case in [
    ("tsv_one_column", 2, "R120", "1\n2\n", ":1:"),
    ("tsv_four_columns", 2, "R120", "1\t2\t3\t4\n", ":1:"),
    ("tsv_mixed", 2, "R120", LIST + "1\t2\n", ":201:"),
    ("tsv_word", 2, "R120", LIST + "one\t2\t0.5\n", ":201:", "one"),
    ("tsv_negative", 2, "R111", LIST + "-1\t2\t0.5\n", ":201:", "-1"),
    ("tsv_beyond_i32", 2, "R111", LIST + "1\t9999999999\t0.5\n", ":201:", "9999999999"),
    ("tsv_of_30_digits", 2, "R111", LIST + "1\t%d\t0.5\n" % 10**30, ":201:"),
    ("tsv_long_field", 2, "R120", LIST + "1\t2\t%s\n" % ("9" * 1000), ":201:"),
    ("tsv_fraction", 2, "R120", LIST + "1.5\t2\t0.5\n", ":201:", "1.5"),
    ("tsv_binary", 2, "R120", LIST + "\0\1\2\n", ":201:"),
]:
    text(case[0], case[1], case[2], "edges.tsv", case[3], *case[4:])
text("tsv_id_beyond_nodes", 2, "R111", "edges.tsv", LIST + "1\t60\t0.5\n", "60")
text("csv_word", 2, "R120", "edges.csv", "source,target,weight\n1,x,0.5\n", ":2:", "`x`")

# ---- what gnnc itself says about a folder -------------------------------------------------------------------

BUILD = [box.gnnc, "build", "toy.gnn", "--data", "spoilt", "-o", box.path("never")]
toy.fresh(box)
with open(box.path("spoilt", "x.npy"), "wb") as f:
    f.write(os.urandom(500))
box.refuses("gnnc_junk_npy", BUILD, 2, "E0614", "x.npy")
for name, content in [("gnnc_huge_header", head(length=65535) + BODY), ("gnnc_fortran", head(order="True") + BODY),
                      ("gnnc_shape_overflow", head(shape="(1099511627776, 1099511627776)") + BODY),
                      ("gnnc_negative_shape", head(shape="(-60, 8)") + BODY), ("gnnc_empty_npy", b"")]:
    with open(os.path.join(toy.fresh(box), "x.npy"), "wb") as f:
        f.write(content)
    box.refuses(name, BUILD, 2, "E0614", "x.npy")
for name, content in [("gnnc_meta_truncated", META[:50]), ("gnnc_meta_nested", '{"a":' * 100000), ("gnnc_meta_array", "[1]")]:
    with open(os.path.join(toy.fresh(box), "meta.json"), "w") as f:
        f.write(content)
    box.refuses(name, BUILD, 2, "E0614", "meta.json")
for name, content in [("gnnc_npz_truncated", packed[:500]), ("gnnc_npz_outside", patched(plain, ENTRY, 42, struct.pack("<I", 2**31))),
                      ("gnnc_npz_method", patched(plain, ENTRY, 10, b"\x0c\0")), ("gnnc_npz_junk", os.urandom(900))]:
    toy.fresh(box)
    with open(box.path("spoilt", "graph.npz"), "wb") as f:
        f.write(bytes(content))
    box.refuses(name, BUILD, 2, "E0614", "graph.npz")
toy.fresh(box, ["meta.json"])
box.refuses("gnnc_classes_unknown", BUILD, 1, "E0208", "C")
# Classes that only --set says bind the labels, and so do those of any other integers that are taken as classes.
np.save(box.path("spoilt", "kind.npy"), np.load(box.path("spoilt", "y.npy")))
box.write("kinds.gnn", toy.MODEL.replace("data.y", "data.kind"))
for name, model, stem in [("labels", "toy.gnn", "y.npy"), ("integers", "kinds.gnn", "kind.npy")]:
    for classes, rc in [(2, 3), (3, 0)]:
        box.must(box.gnnc, "build", model, "--data", "spoilt", "--set", "C=%d" % classes, "--cpu=generic", "-o", box.path("classes"))
        argv = [box.path("classes"), "train", "--data", "spoilt"]
        if rc:
            box.refuses("%s_beyond_classes_that_were_set" % name, argv, 3, "R115", stem, "element 2 is 2", "< 2")
        else:
            done = box.run(*argv)
            box.report("%s_within_classes_that_were_set" % name, done.rc and done.err)

# ---- every format, sound ---------------------------------------------------------------------------------------


def final(d, exe):
    """What training on d ends with, or the error. Sums over sparse rows round otherwise than over dense ones."""
    r = box.run(box.path(exe), "train", "--data", d, "--epochs", "3", "--threads", "2")
    return re.sub(r"(\.\d\d)\d+", r"\1", r.out.split("epoch 3/3")[-1].split(" epochs")[0].split("\n")[0]) if r.rc == 0 else r.err


def accepts(name, where):
    want = final("data", "toy")
    for exe in ("toy", "toy_sparse"):
        got = final(where, exe)
        box.report(name + exe[3:], ("loss" not in want or want != got) and "found %s, wanted %s" % (got, want))


box.write("all.npz", plain)
accepts("reads_npz", "all.npz")
box.write("all.npz", packed)
accepts("reads_npz_deflated", "all.npz")
os.makedirs(box.path("folder"))
box.write("folder/graph.npz", packed)
accepts("reads_folder_npz", "folder")
csr_folder()
accepts("reads_csr", "spoilt")
half = np.repeat(parts["data"] / 2, 2)
csr_folder(indptr=indptr * 2, indices=np.repeat(c, 2), data=half)
accepts("reads_csr_with_repeated_entries", "spoilt")
back = np.concatenate([np.arange(b - 1, a - 1, -1) for a, b in zip(indptr, indptr[1:])])
csr_folder(indices=c[back].astype("<i4"), data=parts["data"][back].astype("<f8"), indptr=indptr.astype("<i4"))
accepts("reads_csr_in_any_order", "spoilt")
d = toy.fresh(box, ["x.npy", "y.npy", "edge_index.npy"])
np.savez(d + "/x.npz", indptr=indptr, indices=c.astype("<i4"), data=x[r, c], shape=np.array(x.shape), format=np.array(b"csr"))
np.savez_compressed(d + "/y.npz", y)
np.savez(d + "/edge_index.npz", edge_index=ei)
accepts("reads_npz_per_array", "spoilt")
EXACT = ["%r" % float(v) for v in weight]
for name, file, lines in [
    ("reads_mtx", "graph.mtx", [BANNER + "% words\n" + SIZES] + ["%d %d %s\n" % (a + 1, b + 1, w) for (a, b), w in zip(ei.T, EXACT)]),
    ("reads_tsv", "edges.tsv", ["# words\n\n"] + ["%d\t%d\t%s\n" % (a, b, w) for (a, b), w in zip(ei.T, EXACT)]),
    ("reads_csv", "edges.csv", ["src,dst,weight\r\n"] + ["%d,%d,%s\r\n" % (a, b, w) for (a, b), w in zip(ei.T, EXACT)]),
]:
    d = toy.fresh(box, ["edge_index.npy", "edge_weight.npy"])
    with open(os.path.join(d, file), "w") as f:
        f.write("".join(lines))
    accepts(name, "spoilt")

box.close()
