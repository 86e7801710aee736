#!/bin/sh
# Makes data, trains energy.gnn in double precision, compiles it to a library, and moves atoms by it from C.
# usage: build.sh [OUT]     OUT: where everything goes (default: ./energy-build)
# Environment: GNNC (default gnnc), PYTHON (default python3, with numpy), CC, EPOCHS, STEPS (default 10000), CPU (kinds of CPU to compile for; default all)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-energy-build}
gnnc=${GNNC:-gnnc}
mkdir -p "$out"

"${PYTHON:-python3}" "$here/make_data.py" "$out/morse"
"$gnnc" build "$here/energy.gnn" --data "$out/morse" --dtype f64 ${CPU:+--cpu "$CPU"} -o "$out/energy"
"$out/energy" train --data "$out/morse" ${EPOCHS:+--epochs "$EPOCHS"} --save "$out/energy.safetensors" >"$out/energy.log"
tail -1 "$out/energy.log"
"$gnnc" build "$here/energy.gnn" --data "$out/morse" --dtype f64 ${CPU:+--cpu "$CPU"} --emit=lib,header --prefix energy -o "$out/libenergy"
"${CC:-cc}" -std=c99 -Wall -Wextra -Werror -O2 -I"$out" "$here/simulate.c" "$out/libenergy.a" -lm -o "$out/simulate"
"$out/simulate" "$out/energy.safetensors" "$out/morse/start.bin" "${STEPS:-10000}"
