#!/usr/bin/env python3
"""Plants faults in the passes that plan memory, chains of steps, parts of long rows and rows that are left out, and looks whether the compiler
refuses its own plan: it holds each plan against the function (passes/audit.c) and has to end with code 70.

usage: plans.py [NUMBER...]     all, or these. Ends with `N noticed, N missed`.
PLAN_FAULTS: (file, text as it stands, text with the fault, program). PROGRAMS: by name, a path and options of `gnnc build`."""
import subprocess
import sys

from run import campaign, ninja

PROGRAMS = {
    "custom": ("bench/models/custom.gnn", "--set=F=16,K=16"),
    "dgi_example": ("examples/dgi.gnn", "--data=examples/data/cora"),
    "edgeconv": ("bench/models/edgeconv.gnn", "--set=F=16"),
    "gat": ("bench/models/gat.gnn", "--set=F=16"),
    "gat_example": ("examples/gat.gnn", "--data=examples/data/cora"),
    "gcn_example": ("examples/gcn.gnn", "--data=examples/data/cora"),
    "gmm": ("bench/models/gmm.gnn", "--set=F=16,K=3,P=2,O=16"),
    "net_gat": ("bench/models/net_gat.gnn", "--data=examples/data/cora"),
    "pna": ("bench/models/pna.gnn", "--set=F=16,F2=32,F13=208"),
}

PLAN_FAULTS = [
    # memplan
    ("passes/memplan.c", "if (b->first == UINT32_MAX) b->first = first;", "b->first = first;", "gat"),
    ("passes/memplan.c", "            b->last = last;", "            if (!b->last) b->last = last;", "gat"),
    ("passes/memplan.c", "first = s, last = s + p->steps.data[s].chain - 1;", "first = s, last = s;", "gcn_example"),
    ("passes/memplan.c", ".first = b->first, .last = b->last}", ".first = b->first + 1, .last = b->last}", "gat"),
    ("passes/memplan.c", ".first = b->first, .last = b->last}", ".first = b->first, .last = b->last - (b->last > b->first)}", "gat"),
    ("passes/memplan.c", "b->slot = p->slots.n;\n        VEC_PUSH(a, &p->slots, s);", "b->slot = i % 8 || !p->slots.n ? p->slots.n : p->slots.n - 1;\n        VEC_PUSH(a, &p->slots, s);", "gcn_example"),
    ("passes/memplan.c", "if (!arg->is_buffer) continue;", "if (!arg->is_buffer || !k) continue;", "gat"),
    ("passes/memplan.c", "k < p->steps.data[s].args.n; k++", "k + 1 < p->steps.data[s].args.n; k++", "gat"),
    ("passes/memplan.c", "for (uint32_t s = 0; s < p->steps.n; s++) {", "for (uint32_t s = 0; s + 1 < p->steps.n; s++) {", "gat"),
    ("passes/memplan.c", "int64_t width = b->width;", "int64_t width = b->width > 1 ? b->width - 1 : 1;", "gat"),
    # connect
    ("passes/connect.c", "        t.in_order &= reads_own_row(c, j, b);\n", "", "gat"),
    ("passes/connect.c", "if (use && (!is_in(x, i) || use == (READS | WRITES))) return false;", "if (use == (READS | WRITES)) return false;", "gat"),
    ("passes/connect.c", "if (is_in(x, i) == (turn == 1)) from[n++] = i;", "if (is_in(x, i) == (turn == 0)) from[n++] = i;", "gcn_example"),
    ("passes/connect.c", "            t.apart = false;\n", "", "gat_example"),
    ("passes/connect.c", "        } else if (t.apart) {\n            skipped++;\n        } else {\n            break;\n        }", "        } else {\n            skipped++;\n        }", "gat_example"),
    ("passes/connect.c", "    s->chain = x.n;", "    s->chain = x.n + (last < c->p->steps.n);", "gcn_example"),
    # takeover
    ("passes/fuse_takeover.c", "    t->fixed[u] = true;\n", "", "pna"),
    ("passes/fuse_takeover.c", " || t->fixed[u] || t->last[u] != position) return false;", " || t->fixed[u]) return false;", "gcn_example"),
    ("passes/fuse_takeover.c", "!(element ? reads->reads.data[i].element : reads->reads.data[i].identity)", "element && !reads->reads.data[i].element", "gcn_example"),
    ("passes/fuse_takeover.c", "t.fixed[f->f->results.data[i].value] = true;", "(void)i;", "dgi_example"),
    ("passes/fuse_takeover.c", "a->space != b->space || a->dtype", "a->dtype", "dgi_example"),
    # split
    ("passes/lower_split.c", "emit_op2(e, KIR_lt, walk, phase)", "emit_op2(e, KIR_lt, phase, walk)", "gat"),
    ("passes/lower_split.c", "    if (!upto) x->lo = emit_select(e, turn, split_arg(l, PLAN_SPLIT_FROM), x->lo);\n", "", "gat"),
    ("passes/lower_split.c", "x->hi = emit_select(e, turn, split_arg(l, PLAN_SPLIT_TO), behind);", "x->hi = emit_select(e, turn, x->hi, behind);", "gat"),
    ("passes/lower_split.c", "return emit_op2(e, KIR_add, split_arg(l, PLAN_SPLIT_FIRST), in_row);", "return in_row;", "gat"),
    ("passes/lower_split.c", "if (l->split) emit_if(&l->e, emit_op2(&l->e, KIR_eq, split_arg(l, PLAN_SPLIT_PHASE), emit_index(&l->e, PLAN_SPLIT_LAST)));", "if (l->split) emit_if(&l->e, emit_op2(&l->e, KIR_le, split_arg(l, PLAN_SPLIT_PHASE), emit_index(&l->e, PLAN_SPLIT_LAST)));", "gat"),
    ("passes/lower_split.c", "emit_op2(&l->e, KIR_le, split_arg(l, PLAN_SPLIT_FROM), position)", "emit_op2(&l->e, KIR_lt, split_arg(l, PLAN_SPLIT_FROM), position)", "gat"),
    ("passes/lower_split.c", "emit_index(e, ORDER_ROW_BLOCK)", "emit_index(e, 2 * ORDER_ROW_BLOCK)", "gat"),
    ("passes/lower_reduce.c", "    split_keep(l, s, x.from);\n    if (s.n) {", "    if (s.n) {", "gat"),
    ("passes/lower_reduce.c", "    split_keep(l, extremes, x.from);\n", "", "gat"),
    ("passes/lower_reduce.c", "        emit_else(&l->e);\n        split_take(l, s, x.from);", "        emit_else(&l->e);", "gat"),
    ("passes/lower_reduce.c", "split_walk(l, &x, s.n > 0, false)", "split_walk(l, &x, false, false)", "gat"),
    ("passes/lower_split.c", "        VEC_PUSH(l->arena, &out->reads, plan_value_buffer(l->lf, v));\n", "", "custom"),
    ("passes/lower_split.c", "    for (uint32_t i = 0; i < g->inner.n; i++) mark_reads(l, seen, g->inner.data[i], out);\n", "", "gmm"),
    ("passes/lower_split.c", "emit_index(e, l->walks++)", "emit_index(e, l->walks ? l->walks - (l->walks == 1) : l->walks++)", "gat"),
    ("passes/lower_split.c", "step->split.walks = l->walks;", "step->split.walks = l->walks > 1 ? l->walks - 1 : 1;", "gat"),
    ("passes/lower_split.c", "KirId turn = emit_op2(e, KIR_eq, phase, walk)", "KirId turn = emit_op2(e, KIR_le, phase, walk)", "gat"),
    ("passes/lower_reduce.c", "split_walk(l, &x, true, true)", "split_walk(l, &x, true, false)", "gat"),
    ("passes/lower_reduce.c", "l->split ? split_reached(l, turn, x.from) : KIR_NONE", "l->split ? turn : KIR_NONE", "gat"),
    ("passes/lower_reduce.c", "    if (l->split) split_take(l, extremes, x.from);\n    else take_block", "    if (!l->split) take_block", "gat"),
    # cone
    ("passes/cone.c", "    if (ir_ops[op->op].traits & T_POLE) {\n        l->finite = false;\n        return;\n    }\n", "", "gat_example"),
    ("passes/cone.c", "        l->finite = !c->loose[v];\n", "", "gat_example"),
    ("passes/cone.c", " || !is_finite(c, y)) continue;", ") continue;", "gat_example"),
    ("passes/cone.c", "want_arg(c, x[0], space, cone_both(c, rows, choice));", "want_arg(c, x[0], space, cone_both(c, rows, cone_both(c, some[1], some[2])));", "edgeconv"),
    ("passes/cone.c", "want(c, op->args[0], cone_image(c, op->attr.map, rows));", "want(c, op->args[0], rows);", "gcn_example"),
    ("passes/cone.c", "if (c->bare[v] || shares_memory(c->f, v)) right = rows = PLAN_SET_ALL;", "if (c->bare[v]) right = rows = PLAN_SET_ALL;", "net_gat"),
    ("passes/cone.c", "if (c->bare[v] || shares_memory(c->f, v)) right = rows = PLAN_SET_ALL;", "if (shares_memory(c->f, v)) right = rows = PLAN_SET_ALL;", "gcn_example"),
    ("passes/cone.c", "    return cone_walk(c, g->map, walk);", "    return walk;", "gcn_example"),
    ("passes/cone.c", "want(c, op->args[0], cone_both(c, cone_origin(c, g->map, right), reach->elements));", "want(c, op->args[0], cone_both(c, right, reach->elements));", "gcn_example"),
    ("passes/cone.c", "c->p->buffers.data[buffer_of[v]].writer = i;", "(void)buffer_of;", "gcn_example"),
]


def plan_of(tree, program):
    """(exit code, first line) of a build of the program, up to its plan."""
    argv = ["build/gnnc", "build", *PROGRAMS[program], "--emit=plan", "-o", "build/fault"]
    p = subprocess.run(argv, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    return p.returncode, (p.stdout.decode("utf-8", "replace").strip().splitlines() or [""])[0]


def refusal(tree, program):
    """What the compiler says of its plan, or None."""
    wrong = ninja(tree, "gnnc")
    if wrong:
        sys.exit("a fault that does not build tells nothing:\n" + wrong)
    code, said = plan_of(tree, program)
    return "%s: %s" % (program, said[said.index("plan of"):][:140]) if code == 70 and "plan of" in said else None


def check_programs(tree):
    for program in PROGRAMS:
        code, said = plan_of(tree, program)
        if code:
            sys.exit("%s does not build without a fault: %s" % (program, said))


if __name__ == "__main__":
    campaign(PLAN_FAULTS, "plan", refusal, check_programs)
