#!/usr/bin/env python3
"""Mistakes on the command lines of gnnc and of the executables it builds: each has its code, names the word that is wrong,
offers the nearest right one, and writes nothing.
usage: test_bad_commands.py BUILD"""
import os
import re
import resource
import shutil
import stat
import sys
import time

import numpy as np

import toy
from sandbox import Sandbox

box = Sandbox(sys.argv[1], "bad_commands")
toy.make(box)
EXE, PLAIN = box.path("toy"), box.path("plain")
box.must(EXE, "train", "--data", "data", "--save", "good.st")

# ---- an executable ---------------------------------------------------------------------------------

TRAIN = ["train", "--data", "data"]
BENCH = ["bench", "--data", "data"]
for name, argv, rc, code, says in [
    ("no_command", [], 1, "R404", ["no command"]),
    ("unknown_command", ["trian"], 1, "R401", ["trian", "`train`"]),
    ("far_command", ["xyzzyxyzzy"], 1, "R401", ["xyzzyxyzzy", "--help"]),
    ("long_command", ["x" * 5000], 1, "R401", []),
    ("flag_before_command", ["--data", "data", "train"], 1, "R401", ["--data"]),
    ("unknown_flag", TRAIN + ["--epoch", "3"], 1, "R402", ["--epoch", "--epochs"]),
    ("unknown_flag_with_value", TRAIN + ["--sede=3"], 1, "R402", ["--seed"]),
    ("far_flag", TRAIN + ["--xyzzyxyzzy"], 1, "R402", ["--help"]),
    ("long_flag", TRAIN + ["--" + "x" * 5000], 1, "R402", []),
    ("flag_of_another_command", TRAIN + ["--iters", "3"], 1, "R402", ["--iters"]),
    ("one_dash", TRAIN + ["-epochs", "3"], 1, "R402", ["-epochs", "--"]),
    ("stray_word", TRAIN + ["data"], 1, "R402", ["data"]),
    ("empty_word", TRAIN + [""], 1, "R402", []),
    ("value_missing", TRAIN + ["--epochs"], 1, "R403", ["--epochs", "N"]),
    ("switch_with_value", BENCH + ["--json=yes"], 1, "R403", ["--json"]),
    ("epochs_word", TRAIN + ["--epochs", "many"], 1, "R403", ["--epochs", "many"]),
    ("epochs_empty", TRAIN + ["--epochs="], 1, "R403", ["--epochs"]),
    ("epochs_negative", TRAIN + ["--epochs", "-1"], 1, "R403", ["--epochs", "-1"]),
    ("epochs_fraction", TRAIN + ["--epochs", "1.5"], 1, "R403", ["1.5"]),
    ("epochs_exponent", TRAIN + ["--epochs", "1e3"], 1, "R403", ["1e3"]),
    ("epochs_overflow", TRAIN + ["--epochs", "9" * 30], 1, "R403", ["--epochs"]),
    ("seed_negative", TRAIN + ["--seed", "-1"], 1, "R403", ["--seed"]),
    ("threads_none", TRAIN + ["--threads", "0"], 1, "R403", ["--threads"]),
    ("threads_many", TRAIN + ["--threads", "1000000"], 1, "R403", ["--threads"]),
    ("every_none", TRAIN + ["--checkpoint", "c", "--every", "0"], 1, "R403", ["--every"]),
    ("every_alone", TRAIN + ["--every", "5"], 1, "R404", ["--every", "--checkpoint"]),
    ("set_no_value", TRAIN + ["--set", "lr"], 1, "R403", ["lr", "NAME=VALUE"]),
    ("set_no_name", TRAIN + ["--set", "=3"], 1, "R403", ["--set"]),
    ("set_unknown", TRAIN + ["--set", "lrr=3"], 1, "R403", ["lrr", "`lr`"]),
    ("set_a_size", TRAIN + ["--set", "F=3"], 1, "R403", ["F"]),
    ("set_word", TRAIN + ["--set", "lr=fast"], 1, "R403", ["lr=fast"]),
    ("set_nan", TRAIN + ["--set", "lr=nan"], 1, "R403", ["lr=nan"]),
    ("set_inf", TRAIN + ["--set", "lr=inf"], 1, "R403", ["lr=inf"]),
    ("set_too_often", TRAIN + ["--set", "lr=1"] * 65, 1, "R403", ["--set"]),
    ("device_cuda", TRAIN + ["--device", "cuda"], 1, "R405", ["cuda"]),
    ("device_shim", TRAIN + ["--device", "shim"], 1, "R405", ["shim"]),
    ("device_unknown", TRAIN + ["--device", "abacus"], 1, "R403", ["abacus", "cuda:N"]),
    ("device_no_number", TRAIN + ["--device", "cuda:x"], 1, "R403", ["cuda:x"]),
    ("device_of_the_shim", TRAIN + ["--device", "shim:0"], 1, "R403", ["shim:0"]),
    ("cpu_unknown", TRAIN + ["--cpu", "z80"], 1, "R403", ["z80", "avx2"]),
    ("blas_unknown", TRAIN + ["--blas", "maybe"], 1, "R403", ["maybe"]),
    ("iters_none", BENCH + ["--iters", "0"], 1, "R403", ["--iters"]),
    ("train_no_data", ["train"], 1, "R404", ["--data", "train --data DIR"]),
    ("eval_no_weights", ["eval", "--data", "data"], 1, "R404", ["--weights"]),
    ("infer_no_out", ["infer", "--data", "data", "--weights", "good.st"], 1, "R404", ["--out"]),
    ("plan_no_data", ["plan"], 1, "R404", ["--data"]),
]:
    box.refuses(name, [EXE] + argv, rc, code, *says)
box.write("maskless.gnn", re.sub(r"  metric .*\n", "", toy.MODEL.replace(" on data.train", "").replace("cross_entropy(", "mean_all(cross_entropy(").replace("data.y)", "data.y))", 1)))
box.must(box.gnnc, "build", "maskless.gnn", "--data", "data", "--cpu=generic", "-o", box.path("maskless"))
shutil.copytree(box.path("data"), box.path("folded"))
np.save(box.path("folded", "fold.npy"), np.arange(toy.NODES) % 2)
for command in ("train", "bench", "plan"):
    box.refuses("folds_without_masks_" + command, [box.path("maskless"), command, "--data", "folded", "--folds", "2"], 1, "R403", "--folds", "masks")
box.write("unmasked.gnn", re.sub(r" on data.test", "", toy.MODEL))
box.must(box.gnnc, "build", "unmasked.gnn", "--data", "data", "--cpu=generic", "-o", box.path("unmasked"))
box.must(box.path("unmasked"), "train", "--data", "folded", "--folds", "2", "--fold", "1", "--save", "unmasked.st")
box.refuses("folds_without_masks_eval", [box.path("unmasked"), "eval", "--data", "folded", "--weights", "unmasked.st", "--folds", "2"], 1, "R403", "--folds", "masks")
box.refuses("data_long_path", [EXE, "train", "--data", "d" * 5000], 6, "R601")
if not box.sanitized:
    box.refuses("threads_without_memory", [EXE] + TRAIN + ["--threads", "1000"], 4, "R611", "--threads",
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)))
box.must(box.gnnc, "build", "plain.gnn", "--set", "F=%d" % toy.FEATURES, "--cpu=avx2", "-o", box.path("narrow"))
box.refuses("cpu_not_built", [box.path("narrow"), "infer", "--data", "data", "--cpu", "generic", "--out", "y.npy"], 1, "R409", "--cpu")
for name, argv, what in [("train_untrained", ["train", "--data", "no_such_data"], "train"),  # said before data are read
                         ("eval_untrained", ["eval", "--data", "data", "--weights", "none.st"], "metric")]:
    box.write("none.st", b"\2\0\0\0\0\0\0\0{}")
    box.refuses(name, [PLAIN] + argv, 1, "R406", what)
for argv in [["--help"], ["help"], ["train", "-h"]] + [[c, "--help"] for c in ("train", "infer", "eval", "bench", "info", "plan")]:
    r = box.run(EXE, *argv)
    box.report("help_" + "_".join(argv).replace("-", ""), (r.rc or argv[0].strip("-") not in r.out or r.err) and (r.rc, r.err))

# ---- gnnc: commands and options -----------------------------------------------------------------------

OUT = ["-o", box.path("never")]
BUILD = ["build", "toy.gnn", "--data", "data"] + OUT
for name, argv, rc, code, says in [
    ("gnnc_unknown_command", ["biuld", "toy.gnn"], 1, "E0610", ["biuld", "gnnc build"]),
    ("gnnc_far_command", ["xyzzyxyzzy"], 1, "E0610", ["--help"]),
    ("gnnc_unknown_option", BUILD + ["--tagret", "cpu"], 1, "E0611", ["--tagret", "--target"]),
    ("gnnc_far_option", BUILD + ["--xyzzyxyzzy"], 1, "E0611", ["--xyzzyxyzzy"]),
    ("gnnc_unknown_letter", BUILD + ["-q"], 1, "E0611", ["-q"]),
    ("gnnc_value_missing", ["build", "toy.gnn", "-o"], 1, "E0612", ["-o"]),
    ("gnnc_switch_with_value", BUILD + ["--time=3"], 1, "E0612", ["--time"]),
    ("gnnc_no_file", ["build"], 1, "E0613", ["file"]),
    ("gnnc_two_files", ["build", "toy.gnn", "plain.gnn"], 1, "E0613", ["file"]),
    ("gnnc_emit_unknown", BUILD + ["--emit=headr"], 1, "E0612", ["headr", "`header`"]),
    ("gnnc_emit_far", BUILD + ["--emit=xyzzyxyzzy"], 1, "E0612", ["manifest"]),
    ("gnnc_emit_of_cuda", BUILD + ["--emit=ptx"], 1, "E0612", ["ptx", "--target cuda"]),
    ("gnnc_target_later", BUILD + ["--target", "all", "--emit=obj"], 1, "E0910", ["obj"]),
    ("gnnc_arch_unknown", BUILD + ["--target", "cuda", "--emit=cu", "--arch", "sm90"], 1, "E0612", ["`sm90`"]),
    ("gnnc_arch_none", BUILD + ["--target", "cuda", "--emit=cu", "--arch", ","], 1, "E0612", ["--arch"]),
    ("gnnc_device_machine_of_cpu", BUILD + ["--device-machine", "h200"], 1, "E0612", ["--device-machine", "--target cuda"]),
    ("gnnc_device_machine_unknown", BUILD + ["--target", "cuda", "--emit=cu", "--device-machine", "h20"], 1, "E0640", ["`h20`", "h200"]),
    ("gnnc_arch_of_cpu", BUILD + ["--arch", "sm_90"], 1, "E0612", ["--target cuda"]),
    ("gnnc_target_unknown", BUILD + ["--target", "abacus"], 1, "E0612", ["abacus"]),
    ("gnnc_cpu_unknown", BUILD + ["--cpu", "z80"], 1, "E0612", ["z80"]),
    ("gnnc_mode_unknown", BUILD + ["--mode", "test"], 1, "E0612", ["`test`"]),
    ("gnnc_dtype_unknown", BUILD + ["--dtype", "f16"], 1, "E0612", ["f16"]),
    ("gnnc_prefix_no_name", BUILD + ["--prefix", "3-x"], 1, "E0612", ["3-x"]),
    ("gnnc_disable_unknown", BUILD + ["--disable", "autodif"], 1, "E0612", ["autodif"]),
    ("gnnc_disable_needed", BUILD + ["--disable", "lower"], 1, "E0616", ["lower"]),
    ("gnnc_set_no_value", ["build", "plain.gnn", "--set", "F"] + OUT, 1, "E0612", ["F"]),
    ("gnnc_set_word", ["build", "plain.gnn", "--set", "F=many"] + OUT, 1, "E0612", ["F=many"]),
    ("gnnc_set_unknown", ["build", "plain.gnn", "--set", "F=8,G=3"] + OUT, 1, "E0309", ["G"]),
    ("gnnc_set_zero", ["build", "plain.gnn", "--set", "F=0"] + OUT, 1, "E0211", ["F"]),
    ("gnnc_set_negative", ["build", "plain.gnn", "--set", "F=-8"] + OUT, 1, "E0211", ["F"]),
    ("gnnc_set_fraction", ["build", "plain.gnn", "--set", "F=1.5"] + OUT, 1, "E0211", ["F"]),
    ("gnnc_set_huge", ["build", "plain.gnn", "--set", "F=1e30"] + OUT, 1, "E0211", ["F"]),
    ("gnnc_set_nan", ["build", "plain.gnn", "--set", "F=nan"] + OUT, 1, "E0211", ["F=nan"]),
    ("gnnc_dims_missing", ["build", "plain.gnn"] + OUT, 1, "E0208", ["F", "--set F="]),
    ("gnnc_export_unknown", ["build", "plain.gnn", "--export", "nolayer"] + OUT, 1, "E0309", ["nolayer"]),
    ("gnnc_file_missing", ["build", "no.gnn"] + OUT, 6, "E0601", ["no.gnn"]),
    ("gnnc_file_is_folder", ["build", "data"] + OUT, 6, "E0601", ["data"]),
    ("gnnc_data_missing", ["build", "toy.gnn", "--data", "no"] + OUT, 6, "E0601", ["no"]),
    ("gnnc_data_is_file", ["build", "toy.gnn", "--data", "toy.gnn"] + OUT, 6, "E0601", ["toy.gnn"]),
    ("gnnc_out_no_folder", ["build", "plain.gnn", "--set", "F=8", "-o", "no/never"], 6, "E0602", ["no/never"]),
    ("gnnc_out_is_folder", ["build", "plain.gnn", "--set", "F=8", "-o", "data"], 6, "E0602", ["data"]),
    ("gnnc_text_out_no_folder", ["build", "plain.gnn", "--set", "F=8", "--emit=gir", "-o", "no/x.gir"], 6, "E0602", ["no/x.gir"]),
    ("gnnc_lib_out_no_folder", ["build", "plain.gnn", "--set", "F=8", "--emit=lib", "-o", "no/x"], 6, "E0602", ["no/x"]),
    ("gnnc_explain_unknown", ["explain", "E9999"], 1, "E0612", ["E9999"]),
    ("gnnc_ir_pass_unknown", ["ir", "plain.gnn", "--set", "F=8", "--after=fuze"], 1, "E0612", ["fuze"]),
    ("gnnc_ir_format", ["ir", "plain.gnn", "--set", "F=8", "--format=pdf"], 1, "E0612", ["svg"]),
    ("gnnc_fmt_missing", ["fmt", "no.gnn"], 6, "E0601", ["no.gnn"]),
    ("gnnc_test_missing", ["test", "no.gnn"], 6, "E0601", ["no.gnn"]),
    ("gnnc_check_missing", ["check", "no.gnn"], 6, "E0601", ["no.gnn"]),
    ("gnnc_data_verb", ["data", "genrate", "x"], 1, "E0610", ["genrate", "generate"]),
    ("gnnc_data_later", ["data", "import", "x"], 1, "E0910", ["import"]),
    ("gnnc_data_nothing", ["data"], 1, "E0613", ["generate"]),
    ("gnnc_generate_no_nodes", ["data", "generate", "g", "--nodes", "0"], 1, "E0612", ["--nodes"]),
    ("gnnc_generate_word", ["data", "generate", "g", "--nodes", "many"], 1, "E0612", ["many"]),
    ("gnnc_generate_kind", ["data", "generate", "g", "--kind", "ring"], 1, "E0612", ["ring"]),
    ("gnnc_generate_no_folder", ["data", "generate", "no/such/g"], 6, "E0602", ["no/such/g"]),
    ("gnnc_generate_on_file", ["data", "generate", "toy.gnn"], 6, "E0602", ["toy.gnn"]),
    ("gnnc_verify_missing", ["data", "verify", "no"], 6, "E0601", ["no"]),
    ("gnnc_info_missing", ["data", "info", "no"], 6, "E0601", ["no"]),
]:
    box.refuses(name, [box.gnnc] + argv, rc, code, *says)
with open(box.path("huge.gnn"), "wb") as f:
    f.truncate(1 << 30)
box.refuses("gnnc_huge_file", [box.gnnc, "build", "huge.gnn"] + OUT, 6, "E0601", "huge.gnn", "large")
os.remove(box.path("huge.gnn"))
os.mkfifo(box.path("pipe.gir"))
reader = os.open(box.path("pipe.gir"), os.O_RDONLY | os.O_NONBLOCK)
r = box.run(box.gnnc, "build", "plain.gnn", "--set", "F=8", "--emit=gir", "-o", box.path("pipe.gir"), limit=10)
got = os.read(reader, 100)
os.close(reader)
box.report("gnnc_writes_into_a_pipe", (r.rc != 0 or not got or not stat.S_ISFIFO(os.lstat(box.path("pipe.gir")).st_mode)) and (r.rc, r.err, got))
box.refuses("gnnc_file_limit", [box.gnnc, "build", "plain.gnn", "--set", "F=8", "--emit=gir"] + OUT, 6, "E0602", "never",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
r = box.run(box.gnnc)
box.report("gnnc_alone", r.rc != 1 and r.rc)

# ---- gnnc: files that are no models -----------------------------------------------------------------------

N = 10**6
for name, content, rc, code in [
    ("parens_million", "const a = " + "(" * N + "1" + ")" * N + "\n", 1, "E0106"),
    ("parens_open_million", "const a = " + "(" * N, 1, "E0106"),
    ("brackets_million", "const a = " + "[" * N + "]" * N + "\n", 1, "E0106"),
    ("minus_million", "const a = " + "-" * N + "1\n", 1, "E0106"),
    ("blocks_100000", "layer l(x: node[F]) -> node[F] {\n" + "if true {\n" * 100000, 1, "E0106"),
    ("binary", os.urandom(4096) + b"\0\xff", 1, "E0105"),
    ("nul_byte", b"model m(x: node[F]) -> node[F] { return x }\n\0", 1, "E0105"),
    ("not_utf8", b"# \xff\xfe\n", 1, "E0105"),
    ("truncated", toy.MODEL[:200], 1, "E0108"),
]:
    box.write("bad.gnn", content)
    box.refuses("gnnc_" + name, [box.gnnc, "build", "bad.gnn", "--set", "F=8"] + OUT, rc, code, "bad.gnn")
    r = box.run(box.gnnc, "fmt", "bad.gnn")
    box.report("gnnc_fmt_" + name, r.rc != 1 and (r.rc, r.err[:500]))
box.write("empty.gnn", "")
box.refuses("gnnc_empty_file", [box.gnnc, "build", "empty.gnn"] + OUT, 1, "E0408", "empty.gnn", "--export")
many = "".join("  metric m%d = accuracy(toy(data.x, data.edge_weight), data.y) on data.test\n" % i for i in range(40))
box.write("many.gnn", toy.MODEL.replace("  hyper lr", many + "  hyper lr"))
box.refuses("gnnc_40_metrics", [box.gnnc, "build", "many.gnn", "--data", "data"] + OUT, 1, "E0404", "many.gnn", "32")
for name, content in [("gir_junk", "hello\n"), ("gir_empty", ""), ("gir_parens", "(" * N), ("gir_binary", os.urandom(999))]:
    box.write("bad.gir", content)
    r = box.run(box.gnnc, "ir", "bad.gir")
    box.report("gnnc_" + name, (r.rc not in (1, 2) or not re.search(r"error\[E\d+\]", r.err)) and (r.rc, r.err[:500]))

box.write("false.gnn", 'test "seven" {\n  g = random_graph(nodes = 5, edges = 9, seed = 1)\n'
                       '  over g { assert close(sum_in(ones(edge[3])), 7) }\n}\n')
box.refuses("gnnc_false_test", [box.gnnc, "test", "false.gnn"], 1, "E0617", "seven", "row 0")
toy_ir = [box.gnnc, "ir", "toy.gnn", "--set", "F=8,C=3"]
for name in ("fuse", "schedule", "lower", "memplan"):
    r = box.run(*toy_ir, "--after=" + name)
    box.report("gnnc_ir_after_" + name, r.rc or "# after " + name not in r.out and r.out[:200])
box.refuses("gnnc_ir_without_autodiff", toy_ir + ["--run=simplify", "--after=lower"], 1, "E0616", "grad", "autodiff")
box.refuses("gnnc_ir_narrow_too_early", [box.gnnc, "ir", "toy.gnn", "--set", "F=32,C=16", "--store=f16", "--run=narrow,table,autodiff"], 1, "E0616", "16 bits", "autodiff")

# ---- gnnc: folders that contradict themselves ---------------------------------------------------------------


def verify(name, rc, code, file, content):
    d = toy.fresh(box)
    with open(os.path.join(d, file), "wb") as f:
        f.write(content)
    box.refuses(name, [box.gnnc, "data", "verify", "spoilt"], rc, code, file)


with open(box.path("data", "x.npy"), "rb") as f:
    X = f.read()
verify("gnnc_verify_checksum", 3, "E0615", "x.npy", X[:-4] + b"\0\0\x80\x3f")
verify("gnnc_verify_cut", 2, "E0614", "x.npy", X[:-4])
verify("gnnc_verify_junk", 2, "E0614", "x.npy", os.urandom(400))
verify("gnnc_verify_meta", 2, "E0614", "meta.json", b'{"a":' * 100000)

# ---- gnnc: a broken installation ------------------------------------------------------------------------------

os.makedirs(box.path("moved"))
shutil.copy(box.gnnc, box.path("moved", "gnnc"))
plain = ["build", "plain.gnn", "--set", "F=8"] + OUT
box.refuses("gnnc_no_runtime", [box.path("moved", "gnnc")] + plain, 6, "E0631", "libgnnrt.a")
with open(box.path("moved", "libgnnrt.a"), "w") as f:
    f.write("junk")
box.refuses("gnnc_junk_runtime", [box.path("moved", "gnnc")] + plain, 6, "E0633", "libgnnrt.a")
box.refuses("gnnc_no_cc", [box.gnnc] + plain, 6, "E0632", "cc", env=dict(os.environ, PATH="/nonexistent"))
# However little memory there is, LLVM's included, the compiler says so, and its folder for the linker's files does not
# stay.
os.makedirs(box.path("tmp"))
ended = {}
for mib in () if box.sanitized else range(200, 800, 50):
    r = box.run(box.gnnc, "build", "toy.gnn", "--data", "data", *OUT, env=dict(os.environ, TMPDIR=box.path("tmp")),
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20)))
    ended.setdefault(r.rc if "E0619" in r.err or r.rc in (0, 6, 127) else "%s: %s" % (r.rc, r.err[-200:]), []).append(mib)
for _ in range(500):  # whoever removes it does so after the compiler has ended
    if not os.listdir(box.path("tmp")):
        break
    time.sleep(0.01)
if box.sanitized:
    box.skip("gnnc_little_memory", "sanitizers want their own address space")
else:
    box.codes.add("E0619")
    box.report("gnnc_little_memory", (4 not in ended or set(ended) - {0, 4, 6, 127}) and ended)
    box.report("gnnc_little_memory_leaves_nothing", os.path.exists(box.path("never")) and 0 not in ended or os.listdir(box.path("tmp")))
    if os.path.exists(box.path("never")):
        os.remove(box.path("never"))
box.refuses("gnnc_no_tmp", [box.gnnc] + plain, 6, "E0602", env=dict(os.environ, TMPDIR="/nonexistent"))

# ---- a full device ------------------------------------------------------------------------------------------------

box.write("true.gnn", 'test "one" {\n  assert 1 + sum(ones([1])) == 2\n}\n')
box.write("loose.gnn", "model m(x: node[F]) -> node[F]   { return x }\n")
GIVEN = ["--data", "data", "--weights", "good.st"]
for argv in [["--help"], ["--version"], ["build", "--help"], ["check", "plain.gnn"], ["check", "--format=json", "loose.gnn"], ["check", "--format=json", "bad.gnn"],
             ["ir", "plain.gnn", "--set", "F=8"], ["ir", "plain.gnn", "--set", "F=8", "--after=all"], ["fmt", "--stdout", "plain.gnn"],
             ["fmt", "--check", "loose.gnn"], ["test", "true.gnn"], ["test", "--format=json", "true.gnn"], ["explain", "E0203"], ["explain", "--as-blocks=sage"],
             ["doc"], ["data", "info", "data"], ["data", "verify", "data"], ["data", "generate", "fresh"], ["data", "partition", "data", "-k", "2", "-o", "split"], ["machine"], ["machine", "--json"]]:
    with open("/dev/full", "w") as full:
        r = box.run(box.gnnc, *argv, stdout=full)
    wanted = 1 if "bad.gnn" in argv else 6
    box.report("gnnc_full_" + "_".join(argv).replace("-", ""), (r.rc != wanted or "error[E0602]" not in r.err or "standard output" not in r.err) and (r.rc, r.err))
for argv in [["--help"], ["train", "--help"], TRAIN, TRAIN + ["--seeds", "2"], ["eval"] + GIVEN, ["infer", "--out", "y.npy"] + GIVEN, BENCH, BENCH + ["--json"],
             ["info"], ["info", "--json"], ["plan", "--data", "data"], ["plan", "--data", "data", "--json"]]:
    with open("/dev/full", "w") as full:
        r = box.run(EXE, *argv, stdout=full)
    box.report("full_" + "_".join(argv).replace("-", ""), (r.rc != 6 or "error[R603]" not in r.err or "standard output" not in r.err) and (r.rc, r.err))

# ---- nothing that is read, and nothing of others, is written over ----------------------------------------------------


def loses_nothing(name, argv, *says):
    box.refuses(name, [box.gnnc] + argv, 1, "E0620", *says)


shutil.copy(box.path("toy.gnn"), box.path("over"))
os.symlink("toy.gnn", box.path("link.so"))
os.symlink("toy.gnn", box.path("link.o"))
os.symlink("one.plan", box.path("one.kir"))
box.write("old.kir", "kernels")
os.link(box.path("old.kir"), box.path("old.plan"))
for name, argv, what in [
    ("build_over_source", ["build", "toy.gnn", "--data", "data", "-o", "toy.gnn"], "toy.gnn"),
    ("build_over_source_by_default", ["build", "over", "--data", "data"], "over"),
    ("build_over_source_by_another_path", ["build", "toy.gnn", "--data", "data", "-o", "data/../toy.gnn"], "toy.gnn"),
    ("build_over_source_by_a_link", ["build", "toy.gnn", "--data", "data", "--emit=lib", "-o", "link"], "link.so"),
    ("build_object_over_source_by_a_link", ["build", "toy.gnn", "--data", "data", "--emit=obj", "-o", "link"], "link.o"),
    ("build_two_in_one_by_a_link", ["build", "toy.gnn", "--data", "data", "--emit=plan,kir", "-o", "one"], "one.plan"),
    ("build_two_in_one_file", ["build", "toy.gnn", "--data", "data", "--emit=plan,kir", "-o", "old"], "old.kir"),
    ("build_over_gir", ["build", "in.gir", "--emit=gir", "-o", "in.gir"], "in.gir"),
    ("build_over_meta", ["build", "toy.gnn", "--data", "data", "--emit=manifest", "-o", "data/meta.json"], "meta.json"),
    ("build_over_meta_by_stem", ["build", "toy.gnn", "--data", "data", "--emit=manifest,header", "-o", "data/meta"], "meta.json"),
    ("build_over_array", ["build", "toy.gnn", "--data", "data", "-o", "data/x.npy"], "x.npy"),
    ("doc_over_source", ["doc", "toy.gnn", "-o", "toy.gnn"], "toy.gnn"),
]:
    if name == "build_over_gir":
        box.write("in.gir", box.must(box.gnnc, "ir", "plain.gnn", "--set", "F=8").out)
    loses_nothing(name, argv, what)
GENERATE = ["data", "generate", "made", "--nodes", "30"]
box.must(box.gnnc, *GENERATE)
again = box.run(box.gnnc, *GENERATE, "--seed", "7")
box.report("generate_over_its_own", again.rc and again.err)
box.write("made/x.npy", b"mine")
loses_nothing("generate_over_a_changed_file", GENERATE, "made/x.npy", "--force")
for name, stem, content in [("array", "y.npy", b"mine"), ("meta", "meta.json", b'{"source": "a friend"}'), ("broken_meta", "meta.json", b"{")]:
    os.makedirs(box.path("users_" + name))
    box.write("users_%s/%s" % (name, stem), content)
    loses_nothing("generate_over_a_users_" + name, ["data", "generate", "users_" + name], stem)
box.must(box.gnnc, *GENERATE, "--force")
r = box.run(box.gnnc, "data", "verify", "made")
box.report("generate_with_force", r.rc and r.err)
for kind in ("community", "rmat", "uniform"):  # of 5 nodes, where R-MAT draws among 8
    box.must(box.gnnc, "data", "generate", kind, "--kind", kind, "--nodes", "5", "--edges", "600", "--classes", "2")
    ids = np.load(box.path(kind, "edge_index.npy"))
    box.report("generate_ids_" + kind, (ids.min() != 0 or ids.max() != 4) and "ids from %d to %d" % (ids.min(), ids.max()))

# ---- executables lose nothing, either --------------------------------------------------------------------------------

box.write("two.gnn", "model two(x: node[F]) -> (node[F], node[F]) {\n  param w: [F] = 1\n  return x * w, x + w\n}\n")
box.must(box.gnnc, "build", "two.gnn", "--data", "data", "--cpu=generic", "-o", box.path("two"))
box.write("y.out1.npy", "weights")
box.must(EXE, "train", "--data", "data", "--checkpoint", "good.ckpt")
np.savez(box.path("all.npz"), **{f[:-4]: np.load(box.path("data", f)) for f in os.listdir(box.path("data")) if f.endswith(".npy")})
os.symlink("good.st", box.path("weights_by_a_link"))
os.symlink("data/y.npy", box.path("labels_by_a_link"))
os.link(box.path("good.ckpt"), box.path("hard.ckpt"))
os.symlink(".", box.path("here"))
os.symlink("here/fresh.st", box.path("fresh_by_a_link"))
os.symlink("z.npy", box.path("z.out1.npy"))
EVERY = ["infer", "--data", "data", "--weights", "good.st"]
for name, argv, *says in [
    ("infer_over_weights", EVERY + ["--out", "good.st"], "good.st", "weights"),
    ("infer_over_weights_by_a_link", EVERY + ["--out", "weights_by_a_link"], "--out", "weights"),
    ("infer_over_weights_by_another_path", EVERY + ["--out", "data/../good.st"], "--out", "weights"),
    ("infer_over_input", EVERY + ["--out", "data/x.npy"], "data/x.npy", "data set"),
    ("infer_over_labels", EVERY + ["--out", "data/y.npy"], "data/y.npy", "data set"),
    ("infer_over_labels_by_a_link", EVERY + ["--out", "labels_by_a_link"], "data set"),
    ("infer_over_meta", EVERY + ["--out", "data/meta.json"], "data set"),
    ("infer_over_program", EVERY + ["--out", "toy"], "toy", "program"),
    ("infer_over_archive", ["infer", "--data", "all.npz", "--weights", "good.st", "--out", "all.npz"], "all.npz", "data set"),
    ("train_over_edges", TRAIN + ["--save", "data/edge_index.npy"], "--save", "data set"),
    ("train_over_mask", TRAIN + ["--metrics", "data/train_mask.npy"], "--metrics", "data set"),
    ("train_over_program", TRAIN + ["--checkpoint", "toy"], "--checkpoint", "program"),
    ("train_over_its_checkpoint", TRAIN + ["--resume", "good.ckpt", "--save", "good.ckpt"], "--save", "goes on from"),
    ("train_metrics_over_its_checkpoint", TRAIN + ["--resume", "good.ckpt", "--metrics", "hard.ckpt"], "--metrics", "goes on from"),
    ("train_two_in_one", TRAIN + ["--save", "both", "--checkpoint", "both"], "--save", "--checkpoint"),
    ("train_two_in_one_new", TRAIN + ["--save", "fresh.st", "--checkpoint", "./fresh.st"], "--save", "--checkpoint"),
    ("train_two_in_one_new_by_its_folder", TRAIN + ["--checkpoint", box.path("fresh.st"), "--metrics", "here/fresh.st"], "--checkpoint", "--metrics"),
    ("train_two_in_one_new_by_a_link", TRAIN + ["--save", "fresh.st", "--metrics", "fresh_by_a_link"], "--save", "--metrics"),
    ("infer_over_an_array_to_be", EVERY + ["--out", "here/data/edges.csv"], "data set"),
    ("train_two_in_one_file", TRAIN + ["--save", "good.st", "--metrics", "weights_by_a_link"], "--save", "--metrics"),
]:
    box.refuses(name, [EXE] + argv, 1, "R410", *says)
box.refuses("infer_second_result_over_weights", [box.path("two"), "infer", "--data", "data", "--weights", "y.out1.npy", "--out", "y.npy"], 1, "R410", "y.out1.npy")
box.refuses("infer_two_results_in_one", [box.path("two"), "infer", "--data", "data", "--weights", "y.out1.npy", "--out", "z.npy"], 1, "R410", "z.out1.npy", "z.npy")
for name, argv in [("resume_into_the_same_file", TRAIN + ["--epochs", "7", "--resume", "good.ckpt", "--checkpoint", "good.ckpt"]),
                   ("weights_again", TRAIN + ["--save", "good.st"]), ("result_in_the_folder", EVERY + ["--out", "data/scores.npy"]),
                   ("result_in_the_folder_again", EVERY + ["--out", "data/scores.npy"]), ("devices", TRAIN + ["--save", "/dev/null", "--checkpoint", "/dev/null"])]:
    r = box.run(EXE, *argv)
    box.report(name, r.rc and r.err)

# ---- every code of the runtime has a test ----------------------------------------------------------------------

HERE = os.path.dirname(os.path.abspath(__file__))


def text_of(folder, suffix):
    out = ""
    for f in sorted(os.listdir(folder)):
        if f.endswith(suffix):
            with open(os.path.join(folder, f)) as g:
                out += g.read()
    return out


with open(os.path.join(HERE, "..", "runtime", "codes.def")) as f:
    rows = re.findall(r"^RT_CODE\((\w+),\s*(\d+)", f.read(), re.M)
python, unit = text_of(HERE, ".py"), text_of(os.path.join(HERE, "unit"), ".c")
with open(os.path.join(HERE, "..", "runtime", "gnnrt.h")) as f:
    public = {k: n for n, k in re.findall(r"\b(GNNRT_\w+) = (\d+)", f.read())}


def is_named(name, number):
    return any(re.search(r"\b%s\b" % word, unit) for word in ("RT_E_" + name, public.get(number, "RT_E_" + name)))


missing = [n for n, k in rows if '"R%s"' % k not in python and not is_named(n, k)]
box.report("every_code_is_provoked", missing and "no test names " + ", ".join(missing))

box.close()
