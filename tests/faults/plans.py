#!/usr/bin/env python3
"""Plants faults in the passes that plan memory, chains of steps, parts of long rows and rows that are left out, and looks whether the compiler
refuses its own plan: it holds each plan against the function (passes/plan/audit.c), or states what always holds, and has to end with code 70.

usage: plans.py [NUMBER...]     all, or these. Ends with `N noticed, N missed`.
PLAN_FAULTS: (file, text as it stands, text with the fault, program). PROGRAMS: by name, a path or a text, and options of `gnnc build`."""
import os
import subprocess
import sys

from run import campaign, ninja

# A loss over few rows.
TRAINED = """model net(x: node[F]) -> node[C] {
%s
}
train net {
  loss = cross_entropy(net(data.x), data.y) on data.train
  metric val_acc = accuracy(net(data.x), data.y) on data.val
  optimizer adam(0.05)
  epochs 3
}
"""
EDGES = """model net(x: node[F], w: edge[F], v: node[F]) -> (node[F], node[F], node[F]) {
  e = tanh(exp(sin(x.src)) * w + tanh(v.dst))
  a = sum_out(e)
  t = tanh(exp(sin(e * a.dst)))
  %s
  return %s
}
"""
SIZES = "--set=F=6,C=3"

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
    # what a chain gathers is written over by what reads the chain
    "behind": ("""model net(x: node[F], v: node[8]) -> node[C] {
  u = tanh(linear(x, O = 8))
  s = sum_out(sum(u.dst * v.src, O))
  r = u + sum_in(relu(v.src + s.dst))
  return sum_in(linear(r, O = C).src)
}
""", SIZES),
    "both": (TRAINED % "  a = sum_in(relu(x.src))\n  b = sum_out(tanh(x.dst))\n  return linear(a * b, O = C)", SIZES),
    # a value is written over by another, and both are factors of one product
    "deep_res": (TRAINED % ("  l = linear(O = 8)\n  c1 = gcn2()\n  c2 = gcn2()\n  o = gcn(O = C)\n  h = l(x)\n"
                            "  return o(relu(c2(relu(c1(h, h)), h)))"), SIZES),
    "extremes": (TRAINED % "  c1 = graph_conv(O = 8, aggr = max)\n  c2 = res_gated(O = C)\n  return c2(relu(c1(x)))", SIZES),
    "gathered": (TRAINED % "  h = linear(x, O = 8)\n  c = gcn(O = C)\n  return c(relu(h)) + sum_out(linear(h, O = C).dst)", SIZES),
    "gatv2": (TRAINED % "  c1 = gatv2(D = 4, H = 2)\n  c2 = sage(O = C)\n  return c2(relu(c1(x)))", SIZES),
    "gin": (TRAINED % "  c = gin(nn = mlp(40))\n  l = linear(O = C)\n  return l(relu(c(x, O = 33)))", SIZES),
    "heads": (TRAINED % "  c = transformer(H = 2, D = 8)\n  l = linear(O = C)\n  return l(flatten(elu(c(x))))", SIZES),
    # an input that is read for the last time, element by element
    "input": ("""model net(x: node[F]) -> node[F] {
  u = tanh(sin(x) * exp(x))
  s = sum_in(u.src) * u
  return sum_in(tanh(s).src)
}
""", "--set=F=8"),
    "jk": (TRAINED % ("  c1 = gcn(O = 8)\n  c2 = gin(O = 8)\n  l = linear(O = C)\n  a = relu(c1(x))\n  b = relu(c2(a))\n"
                      "  return l(beside(a, b))"), SIZES),
    # a result that is written over a value; the same, but for another read of the value
    "long": ("""model net(x: node[F]) -> node[F] {
  a = tanh(sum_in(x.src))
  b = sin(sum_out(a.dst))
  return a * sum_in(exp(b).src)
}
""", "--set=F=8"),
    "gathered_again": ("""model net(x: node[F]) -> node[F] {
  a = tanh(sum_in(x.src))
  b = sin(sum_out(a.dst))
  return a * sum_in(exp(b).src + a.src)
}
""", "--set=F=8"),
    "moments": (TRAINED % ("  m = mean_in(x.src)\n  v = mean_in(square(x.src - m.dst))\n  w = max_in(tanh(x.src * v.dst))\n"
                           "  return linear(cat(m, v, w), O = C)"), SIZES),
    "one": (TRAINED % "  c = gcn(O = C)\n  return c(x)", SIZES),
    # edges that are drawn for each step
    "redrawn": (TRAINED % ("  h = linear(x, O = 4)\n  c = gcn(O = C)\n  graph p = permutation(g)\n  a = over p { sum_in(relu(h.src)) }\n"
                           "  q = linear(c(h + a), O = C)\n  return q + over p { sum_in(relu(q.src)) }"), SIZES),
    # values at edges that lie where others did: read again by another sum; wanted by a walk behind the sums
    "over_edges": (EDGES % ("s = sum_in(t)\n  q = sum_in(e * x.src)", "s, sum_out(t * s.dst), q"), "--set=F=4"),
    "over_edges_again": (EDGES % ("s = sum_in(t)\n  q = sum_in(tanh(t * s.dst))", "s, sum_out(t * s.dst), q"), "--set=F=4"),
}

PLAN_FAULTS = [
    # memplan
    ("passes/plan/memplan.c", "if (b->first == UINT32_MAX) b->first = first;", "b->first = first;", "gat"),
    ("passes/plan/memplan.c", "            b->last = last;", "            if (!b->last) b->last = last;", "gat"),
    ("passes/plan/memplan.c", "last = chain ? chain->first + chain->n - 1 : s;", "last = s;", "gcn_example"),
    ("passes/plan/memplan.c", ".first = b->first, .last = b->last}", ".first = b->first + 1, .last = b->last}", "gat"),
    ("passes/plan/memplan.c", ".first = b->first, .last = b->last}", ".first = b->first, .last = b->last - (b->last > b->first)}", "gat"),
    ("passes/plan/memplan.c", "b->slot = p->slots.n;\n        VEC_PUSH(a, &p->slots, s);", "b->slot = i % 8 || !p->slots.n ? p->slots.n : p->slots.n - 1;\n        VEC_PUSH(a, &p->slots, s);", "gcn_example"),
    ("passes/plan/memplan.c", "if (!arg->is_buffer) continue;", "if (!arg->is_buffer || !k) continue;", "gat"),
    ("passes/plan/memplan.c", "k < p->steps.data[s].args.n; k++", "k + 1 < p->steps.data[s].args.n; k++", "gat"),
    ("passes/plan/memplan.c", "for (uint32_t s = 0; s < p->steps.n; s++) {", "for (uint32_t s = 0; s + 1 < p->steps.n; s++) {", "gat"),
    ("passes/plan/memplan.c", "int64_t width = b->width;", "int64_t width = b->width > 1 ? b->width - 1 : 1;", "gat"),
    # connect
    ("passes/plan/connect.c", "        t.in_order &= reads_own_row(c, j, b);\n", "", "gat"),
    ("passes/plan/connect.c", "return writers == 1 && readers > 0 && writers + readers == c->users_of[b];", "return writers == 1 && readers > 0;", "gat"),
    ("passes/plan/connect.c", "if (is_in(x, i) == (turn == 1)) from[n++] = i;", "if (is_in(x, i) == (turn == 0)) from[n++] = i;", "gcn_example"),
    ("passes/plan/connect.c", "            t.apart = false;\n", "", "gat_example"),
    ("passes/plan/connect.c", "        } else if (t.apart) {\n            skipped++;\n        } else {\n            break;\n        }", "        } else {\n            skipped++;\n        }", "gat_example"),
    ("passes/plan/connect.c", "((PlanChain){head, x.n, strip, x.block})", "((PlanChain){head, x.n + (last < c->p->steps.n), strip, x.block})", "gcn_example"),
    # takeover
    ("passes/plan/takeover.c", "    t->fixed[u] = true;\n", "", "pna"),
    ("passes/plan/takeover.c", " || t->fixed[u] || t->last[u] != position)\n", " || t->fixed[u])\n", "gcn_example"),
    ("passes/plan/takeover.c", "!(element ? reads->reads.data[i].element : reads->reads.data[i].identity)", "element && !reads->reads.data[i].element", "gcn_example"),
    ("passes/plan/takeover.c", "t.fixed[f->f->results.data[i].value] = true;", "(void)i;", "dgi_example"),
    ("passes/plan/takeover.c", "a->space != b->space || a->dtype", "a->dtype", "dgi_example"),
    ("passes/plan/takeover.c", "at = t->fixed[v] ? v : home;", "at = home;", "long"),
    ("passes/plan/takeover.c", "if (t->f->home.data[w] == home) t->f->home.data[w] = at;", "if (w == v) t->f->home.data[w] = at;", "long"),
    ("passes/plan/takeover.c", "if (t->updates[v] || !f->stored.data[v]) return;\n    for", "if (!f->stored.data[v]) return;\n    for", "gcn_example"),
    ("passes/plan/takeover.c", " || t->fixed[u] || t->last[u] != position)\n", " || t->fixed[u])\n", "long"),
    ("passes/plan/takeover.c", "!(element ? reads->reads.data[i].element : reads->reads.data[i].identity)", "element && !reads->reads.data[i].element", "gathered_again"),
    # split
    ("passes/lower/lower_split.c", "emit_op2(e, KIR_lt, walk, phase)", "emit_op2(e, KIR_lt, phase, walk)", "gat"),
    ("passes/lower/lower_split.c", "    if (!upto) x->lo = emit_select(e, turn, split_arg(l, PLAN_SPLIT_FROM), x->lo);\n", "", "gat"),
    ("passes/lower/lower_split.c", "x->hi = emit_select(e, turn, split_arg(l, PLAN_SPLIT_TO), behind);", "x->hi = emit_select(e, turn, x->hi, behind);", "gat"),
    ("passes/lower/lower_split.c", "return emit_op2(e, KIR_add, split_arg(l, PLAN_SPLIT_FIRST), in_row);", "return in_row;", "gat"),
    ("passes/lower/lower_split.c", "if (l->split)\n        emit_if(&l->e, emit_op2(&l->e, KIR_eq, split_arg(l, PLAN_SPLIT_PHASE), emit_index(&l->e, PLAN_SPLIT_LAST)));", "if (l->split)\n        emit_if(&l->e, emit_op2(&l->e, KIR_le, split_arg(l, PLAN_SPLIT_PHASE), emit_index(&l->e, PLAN_SPLIT_LAST)));", "gat"),
    ("passes/lower/lower_split.c", "emit_op2(&l->e, KIR_le, split_arg(l, PLAN_SPLIT_FROM), position)", "emit_op2(&l->e, KIR_lt, split_arg(l, PLAN_SPLIT_FROM), position)", "gat"),
    ("passes/lower/lower_split.c", "emit_index(e, ORDER_ROW_BLOCK)", "emit_index(e, 2 * ORDER_ROW_BLOCK)", "gat"),
    ("passes/lower/lower_reduce.c", "    split_keep(l, s, x.from);\n    if (s.n) {", "    if (s.n) {", "gat"),
    ("passes/lower/lower_reduce.c", "    split_keep(l, extremes, x.from);\n", "", "gat"),
    ("passes/lower/lower_reduce.c", "        emit_else(&l->e);\n        split_take(l, s, x.from);", "        emit_else(&l->e);", "gat"),
    ("passes/lower/lower_reduce.c", "split_walk(l, &x, s.n > 0, false)", "split_walk(l, &x, false, false)", "gat"),
    ("passes/lower/lower_split.c", "        VEC_PUSH(l->arena, &out->reads, plan_value_buffer(l->lf, v));\n", "", "custom"),
    ("passes/lower/lower_split.c", "emit_index(e, l->walks++)", "emit_index(e, l->walks ? l->walks - (l->walks == 1) : l->walks++)", "gat"),
    ("passes/lower/lower_split.c", "split->walks = l->walks;", "split->walks = l->walks > 1 ? l->walks - 1 : 1;", "gat"),
    ("passes/lower/lower_split.c", "KirId turn = emit_op2(e, KIR_eq, phase, walk)", "KirId turn = emit_op2(e, KIR_le, phase, walk)", "gat"),
    ("passes/lower/lower_reduce.c", "split_walk(l, &x, true, true)", "split_walk(l, &x, true, false)", "gat"),
    ("passes/lower/lower_reduce.c", "l->split ? split_reached(l, turn, x.from) : KIR_NONE", "l->split ? turn : KIR_NONE", "gat"),
    ("passes/lower/lower_reduce.c", "    if (l->split) split_take(l, extremes, x.from);\n    else take_block", "    if (!l->split) take_block", "gat"),
    # cone
    ("passes/plan/cone.c", "    if (ir_ops[op->op].traits & T_POLE) {\n        l->finite = false;\n        return;\n    }\n", "", "gat_example"),
    ("passes/plan/cone.c", "        l->finite = !c->loose[v];\n", "", "gat_example"),
    ("passes/plan/cone.c", " || !is_finite(c, y)) continue;", ") continue;", "gat_example"),
    ("passes/plan/cone.c", "want_arg(c, x[0], space, cone_both(c, rows, choice));", "want_arg(c, x[0], space, cone_both(c, rows, cone_both(c, some[1], some[2])));", "edgeconv"),
    ("passes/plan/cone.c", "want(c, op->args[0], cone_image(c, op->attr.map, rows));", "want(c, op->args[0], rows);", "gcn_example"),
    ("passes/plan/cone.c", "if (c->bare[v] || shares_memory(c->f, v)) right = rows = PLAN_SET_ALL;", "if (c->bare[v]) right = rows = PLAN_SET_ALL;", "net_gat"),
    ("passes/plan/cone.c", "if (c->bare[v] || shares_memory(c->f, v)) right = rows = PLAN_SET_ALL;", "if (shares_memory(c->f, v)) right = rows = PLAN_SET_ALL;", "gcn_example"),
    ("passes/plan/cone.c", "    return cone_walk(c, g->map, walk);", "    return walk;", "gcn_example"),
    ("passes/plan/cone.c", "want(c, op->args[0], cone_both(c, cone_origin(c, g->map, right), reach->elements));", "want(c, op->args[0], cone_both(c, right, reach->elements));", "gcn_example"),
    ("passes/plan/cone.c", "c->p->buffers.data[buffer_of[v]].writer = i;", "(void)buffer_of;", "gcn_example"),
    # found by planting everything
    ("passes/plan/connect.c", "            if (use & READS && own & WRITES && !reads_own_row(c, x->of[i], b)) t.in_order = false;\n", "", "behind"),
    ("passes/plan/takeover.c", "group == GROUP_NONE || group == t->f->order.data[position]", "group == t->f->order.data[position]", "input"),
    ("passes/plan/takeover.c", "t.fixed[f->f->results.data[i].value] = true;", "t.fixed[f->f->results.data[i].value] = false;", "both"),
    ("passes/plan/takeover.c", "for (uint32_t i = 0; i < f->f->results.n; i++) {\n        t.fixed", "for (uint32_t i = 1; i < f->f->results.n; i++) {\n        t.fixed", "both"),
    ("passes/plan/takeover.c", "        if (!is_read_by_tree_alone(f, &f->groups.data[g], v, u)) continue;\n", "", "over_edges"),
    ("passes/plan/takeover.c", "        if (loads(f, g, x, u, seen)) return true;\n", "", "over_edges"),
    ("passes/plan/takeover.c", "    for (uint32_t i = 0; i < g->roots.n && alone; i++)\n        alone = !loads(f, g, g->roots.data[i], u, ARENA_ARRAY(scratch, bool, n));\n", "", "over_edges"),
    ("passes/plan/takeover.c", "if (f->group_of.data[reads->reads.data[i].v] == index && !group_has_inner(g, reads->reads.data[i].v))\n            return false;", ";", "over_edges_again"),
    ("passes/plan/takeover.c", "    return same_elements(t->f, &fused_op(t->f, u)->type, type);", "    return true;", "behind"),
    ("passes/plan/takeover.c", " || a->n_dims != b->n_dims", "", "behind"),
    ("passes/plan/takeover.c", "if (reads->reads.data[i].v == u && !(element ? reads->reads.data[i].element : reads->reads.data[i].identity))\n            return false;", ";", "input"),
    ("passes/plan/takeover.c", " || t->fixed[u] || t->last[u] != position", " || t->last[u] != position", "both"),
    ("passes/plan/takeover.c", "for (uint32_t k = 0; k < t.reads[i].reads.n; k++) t.last", "for (uint32_t k = 1; k < t.reads[i].reads.n; k++) t.last", "deep_res"),
    ("passes/plan/cone.c", "if (g->kind != GROUP_ROWS || map_at(c, g->map)->sorted) return", "if (g->kind != GROUP_ROWS) return", "gatv2"),
    ("passes/plan/cone.c", "        rows = element ? cone_image(c, g->map, rows) : PLAN_SET_ALL;\n", "", "gatv2"),
    ("passes/plan/cone_sets.c", "    if (!ir_map_stays(c->f->m, map)) return PLAN_SET_ALL;\n", "", "redrawn"),
    ("passes/plan/cone_sets.c", " && !op->type.n_dims ? cone_mask", " ? cone_mask", "one"),
    ("passes/plan/cone_sets.c", "if (is_inside(c, a, b)) return b;\n    if (is_inside(c, b, a)) return a;", "if (is_inside(c, a, b)) return a;\n    if (is_inside(c, b, a)) return a;", "one"),
    # drawn blindly: the first of 216 that one of six programs for each pass showed to the checker
    ("passes/plan/connect.c", "memcpy(c->p->steps.data + first, old, n * sizeof *old);", "memcpy(c->p->steps.data - first, old, n * sizeof *old);", "heads"),
    ("passes/plan/connect.c", "for (uint32_t turn = 0; turn < 2; turn++)", "for (uint32_t turn = 0; turn < 3; turn++)", "heads"),
    ("passes/plan/connect.c", "x = y;", ";", "custom"),
    ("passes/plan/connect.c", "put_in_order(c, &x, i, last);", ";", "heads"),
    ("passes/plan/connect.c", "memcpy(c->p->steps.data + first, old, n * sizeof *old);", ";", "heads"),
    ("passes/plan/connect.c", "if (x->of[k] == i) return true;", "if (x->of[k] != i) return true;", "gat"),
    ("passes/plan/connect.c", "for (uint32_t i = first; i < last; i++)", "for (uint32_t i = first; i <= last; i++)", "gin"),
    ("passes/plan/connect.c", "    if (x->n == PLAN_CHAIN_STEPS || !t->feeds || !t->in_order || !runs_by_rows(c, j, &block) ||\n        group_at(c, j)->space != x->space)\n        return false;", "    if (x->n == PLAN_CHAIN_STEPS || !t->feeds || !t->in_order || !runs_by_rows(c, j, &block) ||\n        group_at(c, j)->space != x->space)\n        return true;", "gathered"),
    ("passes/plan/connect.c", "s->split = NULL;", ";", "heads"),
    ("passes/plan/takeover.c", "t->fixed[u] = true;", "t->fixed[u] = false;", "both"),
    ("passes/lower/lower_split.c", "if (op->op == IR_OP_arg || (group != GROUP_NONE && group != l->g && !group_has_copy(l->f, l->g, v))) {", "if (op->op == IR_OP_arg || false) {", "custom"),
    ("passes/kernel/share.c", "plan->splits.data[parts->n++] = k;", "plan->splits.data[parts->n++] = plan->splits.data[0];", "gat"),
    ("passes/kernel/share.c", "if (known) return (uint32_t)known - 1;", "if (known) return (uint32_t)known + 1;", "moments"),
    ("passes/lower/lower_split.c", "mark_reads(l, seen, fused_op(l->f, g->roots.data[i])->args[0], out);", "mark_reads(l, seen, fused_op(l->f, g->roots.data[i])->args[1], out);", "moments"),
    ("passes/kernel/share.c", "kir_print_code(k, &code);", ";", "moments"),
    ("passes/plan/cone.c", "cone->rows = cone_either(c, cone->rows, rows);", ";", "one"),
    ("passes/plan/cone.c", "if (c->f->group_of.data[v] != GROUP_NONE && !is_own(c, v)) {", "if (c->f->group_of.data[v] != GROUP_NONE && true) {", "gatv2"),
    ("passes/plan/cone.c", "{\n    for (uint32_t i = 0; i < c->p->steps.n; i++) {", "{\n    for (uint32_t i = 0; i <= c->p->steps.n; i++) {", "one"),
    ("passes/plan/cone.c", "static bool is_own(const Cone *c, IrId v) { return c->f->group_of.data[v] == c->g || group_has_copy(c->f, c->g, v); }", "static bool is_own(const Cone *c, IrId v) { return false || group_has_copy(c->f, c->g, v); }", "one"),
    ("passes/plan/cone.c", "if (g->kind == GROUP_BLOCKS && !inner) {", "if (g->kind == GROUP_BLOCKS || !inner) {", "extremes"),
    ("passes/plan/cone.c", "bool root = i && (!k || g->roots.data[i - 1] > g->inner.data[k - 1]);", "bool root = i && (!k || false);", "one"),
    ("passes/plan/cone.c", "want_arg(c, x[1], space, cone_both(c, rows, yes));", ";", "one"),
    ("passes/plan/cone.c", "want_arg(c, x[0], space, cone_both(c, rows, choice));", ";", "one"),
    ("passes/plan/cone.c", "if (ir_ops[op->op].traits & T_REDUCE) want(c, op->args[0], PLAN_SET_ALL);", "if (ir_ops[op->op].traits | T_REDUCE) want(c, op->args[0], PLAN_SET_ALL);", "one"),
    ("passes/plan/cone.c", "if (!(ir_ops[op->op].traits & T_REDUCE)) continue;", "if (!(!(ir_ops[op->op].traits & T_REDUCE))) continue;", "gatv2"),
    ("passes/plan/cone.c", "find_leaves(c, v, &l);", ";", "gatv2"),
    ("passes/plan/cone.c", "want(c, op->args[0], cone_image(c, op->attr.map, rows));", ";", "one"),
    ("passes/plan/cone.c", "while (i || k) {", "while (false || k) {", "one"),
    ("passes/plan/cone.c", "if (op->op == IR_OP_arg || (op->type.space == IR_UNIT && own != GROUP_NONE)) return; /* always whole */", "if (op->op == IR_OP_arg || (op->type.space != IR_UNIT && own != GROUP_NONE)) return; /* always whole */", "one"),
    ("passes/plan/cone.c", "if (op->op == IR_OP_reduce_sum || op->op == IR_OP_sum_dims) return true;", "if (op->op == IR_OP_reduce_sum || op->op != IR_OP_sum_dims) return true;", "net_gat"),
    ("passes/plan/cone.c", "for (unsigned k = 0; k < 2; k++) want_arg(c, op->args[k], space, rows);", "for (unsigned k = 1; k < 2; k++) want_arg(c, op->args[k], space, rows);", "one"),
    ("passes/plan/cone.c", "else if (own != GROUP_NONE) c->wanted[v] = cone_either(c, c->wanted[v], rows);", "else if (own == GROUP_NONE) c->wanted[v] = cone_either(c, c->wanted[v], rows);", "one"),
    ("passes/plan/cone.c", "c->g = id;", ";", "one"),
    ("passes/plan/cone.c", "    VEC_PUSH(c->ctx->stage, &c->visits, ((struct ConeVisit){v, rows}));\n    return false;", "    VEC_PUSH(c->ctx->stage, &c->visits, ((struct ConeVisit){v, rows}));\n    return true;", "one"),
    ("passes/plan/cone.c", "if (!l->finite || op->type.space == IR_UNIT) return;", "if (!l->finite || op->type.space != IR_UNIT) return;", "gatv2"),
    ("passes/plan/cone.c", "want_arg(c, x[2], space, cone_both(c, rows, no));", "want_arg(c, x[3], space, cone_both(c, rows, no));", "jk"),
    ("passes/plan/cone_sets.c", "return image != PLAN_SET_ALL && image == b;", "return image != PLAN_SET_ALL && true;", "one"),
    ("passes/plan/cone_sets.c", "if (a != PLAN_SET_ALL && set_at(c, a)->kind == PLAN_SET_ORIGIN && set_at(c, a)->ref == map) return set_at(c, a)->a;", "if (a != PLAN_SET_ALL && set_at(c, a)->kind == PLAN_SET_ORIGIN && true) return set_at(c, a)->a;", "one"),
    ("passes/plan/cone_sets.c", "if (y->kind == PLAN_SET_BOTH) return inside(c, a, y->a, left) && inside(c, a, y->b, left);", "if (y->kind != PLAN_SET_BOTH) return inside(c, a, y->a, left) && inside(c, a, y->b, left);", "one"),
    ("passes/plan/cone_sets.c", "if (y->kind == PLAN_SET_WALK && inside(c, a, y->a, left)) return true;", "if (y->kind != PLAN_SET_WALK && inside(c, a, y->a, left)) return true;", "one"),
    ("passes/plan/cone_sets.c", "if (x->kind == PLAN_SET_EMPTY) return true;", "if (x->kind == PLAN_SET_EMPTY) return false;", "one"),
    ("passes/plan/cone_sets.c", "return fixed && op->type.dtype == IR_BOOL && !op->type.n_dims ?", "return fixed && op->type.dtype != IR_BOOL && !op->type.n_dims ?", "one"),
    ("passes/plan/cone_sets.c", "if (a != PLAN_SET_ALL && set_at(c, a)->kind == PLAN_SET_ORIGIN && set_at(c, a)->ref == map) return set_at(c, a)->a;", "if (a != PLAN_SET_ALL && set_at(c, a)->kind == PLAN_SET_ORIGIN && set_at(c, a)->ref != map) return set_at(c, a)->a;", "one"),
    ("passes/plan/cone_sets.c", "return op->op == IR_OP_const && op->attr.f == 0;", "return op->op != IR_OP_const && op->attr.f == 0;", "one"),
    ("passes/plan/cone_sets.c", "if (y->kind == PLAN_SET_WALK && inside(c, a, y->a, left)) return true;", "if (true && inside(c, a, y->a, left)) return true;", "one"),
]


def plan_of(tree, program):
    """(exit code, first line) of a build of the program, up to its plan."""
    model, options = PROGRAMS[program]
    if "\n" in model:
        with open(os.path.join(tree, "build", "fault.gnn"), "w", encoding="utf-8") as f:
            f.write(model)
        model = "build/fault.gnn"
    argv = ["build/gnnc", "build", model, options, "--emit=plan", "-o", "build/fault"]
    p = subprocess.run(argv, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    return p.returncode, (p.stdout.decode("utf-8", "replace").strip().splitlines() or [""])[0]


def refusal(tree, program):
    """What the compiler says of its plan, or None."""
    wrong = ninja(tree, "gnnc")
    if wrong:
        sys.exit("a fault that does not build tells nothing:\n" + wrong)
    code, said = plan_of(tree, program)
    return "%s: %s" % (program, said[max(0, said.find("plan of")):][:140]) if code == 70 else None


def check_programs(tree):
    for program in PROGRAMS:
        code, said = plan_of(tree, program)
        if code:
            sys.exit("%s does not build without a fault: %s" % (program, said))


if __name__ == "__main__":
    campaign(PLAN_FAULTS, "plan", refusal, check_programs)
