#!/bin/sh
# Two models, trained and compiled to libraries, linked into one C and one C++ program, statically and shared.
# usage: build.sh [OUT]     OUT: where everything goes (default: ./serve-build)
# Environment: GNNC (default gnnc), CC, CXX, EPOCHS (default: what the models say)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
data=$here/../data/cora
out=${1:-serve-build}
gnnc=${GNNC:-gnnc}
mkdir -p "$out"

for model in gcn sage; do
    # An executable to train with,
    "$gnnc" build "$here/../$model.gnn" --data "$data" -o "$out/$model"
    "$out/$model" train --data "$data" ${EPOCHS:+--epochs "$EPOCHS"} --save "$out/$model.safetensors" >"$out/$model.log"
    # and the same model as lib$model.a, lib$model.so, lib$model.h, lib$model.json; its symbols begin with ${model}_.
    "$gnnc" build "$here/../$model.gnn" --data "$data" --emit=lib,header,manifest --prefix "$model" -o "$out/lib$model"
done

c() { "${CC:-cc}" -std=c99 -pedantic -Wall -Wextra -Werror -O2 -I"$out" -I"$here" "$@"; }
cxx() { "${CXX:-c++}" -std=c++17 -pedantic -Wall -Wextra -Werror -O2 -I"$out" -I"$here" "$@"; }

c -c "$here/cora.c" -o "$out/cora.o"
# static: the two .a files
c "$here/serve.c" "$out/cora.o" "$out/libgcn.a" "$out/libsage.a" -lm -lpthread -o "$out/serve_c"
cxx "$here/serve.cpp" "$out/cora.o" "$out/libgcn.a" "$out/libsage.a" -lm -lpthread -o "$out/serve_cpp"
# shared: the two .so files, which the programs find beside themselves
c "$here/serve.c" "$out/cora.o" -L"$out" -lgcn -lsage "-Wl,-rpath,\$ORIGIN" -lpthread -o "$out/serve_c_shared"
cxx "$here/serve.cpp" "$out/cora.o" -L"$out" -lgcn -lsage "-Wl,-rpath,\$ORIGIN" -lpthread -o "$out/serve_cpp_shared"

for program in serve_c serve_c_shared serve_cpp serve_cpp_shared; do
    echo "$program:"
    "$out/$program" "$out/gcn.safetensors" "$out/sage.safetensors" "$data" "$out/$program.out"
done
