"""Draws programs with a schema: types of nodes, relations of every kind, records by type and by relation, what is combined across relations, matrices for
each kind of edge. All other operations are those of draw.py, in `over RELATION { ... }`."""
import itertools

import torch

import draw
import oracle
from draw import Graph, Instance, Refused, Scope

AGGREGATES = ["sum", "mean", "max", "min"]
TOGETHER = {"sum": "(%s)", "mean": "((%s) / %d)", "max": "maximum", "min": "minimum"}


class Relation(Graph):
    """how: file, where, column, compose or reverse; `path`: the relations that the last two are made of, and whether each is turned around."""

    def __init__(self, id, name, source, target, how, path=()):
        super().__init__(id, name, "node(%s)" % source, "node(%s)" % target, "edge(%s)" % name)
        self.tail, self.head, self.how, self.path = source, target, how, path

    def text(self):
        step = ", ".join("reverse(%s)" % r.name if turned else r.name for r, turned in self.path)
        made = {"file": "", "where": " = data.%s_index where data.%s_type == 1" % (self.name, self.name), "column": " = column",
                "compose": " = compose(%s)" % step}[self.how]
        return "edge %s: %s -> %s%s" % (self.name, self.tail, self.head, made)


class World:
    """The data: rows of each type, the graph of each relation, and the files that say them."""

    def __init__(self, rows):
        self.rows, self.graphs, self.lists = rows, {}, {}

    def graph(self, r, ends):
        n, m = self.rows[r.tail], self.rows[r.head]
        self.graphs[r.name] = oracle.Graph(n, m, [s for s, d in ends], [d for s, d in ends], [0] * n)


class Record:
    """A named record of the text, and its values by type or by relation; dim: that of all of them."""

    def __init__(self, name, values, dim=None, into=True):
        self.name, self.values, self.dim, self.into = name, values, dim, into


class Typed(draw.Draw):
    OPS = [("point", 14), ("act", 4), ("guard", 1), ("pole", 3), ("prelu", 1), ("count", 1), ("loss", 1), ("cross_entropy", 1), ("dims", 4), ("sum_dims", 1),
           ("matmul", 4), ("dot", 3), ("dense", 2), ("cross", 8), ("reduce", 10), ("own_reduce", 5), ("softmax", 3), ("order", 2), ("fold", 1), ("shape", 3),
           ("table", 4), ("norm", 2), ("grad", 3), ("adjoint", 1), ("random", 2), ("over", 16), ("grouped", 5), ("relational", 4), ("turns", 8), ("relations", 16),
           ("combine", 8), ("attend", 4), ("weigh", 4), ("attend_edges", 4)]

    largest = 30  # scores are products of values, and a softmax's derivative loses the digits of large ones
    quick = 0.9

    # ---- the schema and its data ----

    def spaces(self):
        rng = self.rng
        self.bipartite, self.n_graphs = False, 1
        self.types = ["t%d" % i for i in range(rng.choice([1, 2, 2, 3, 3, 4]))]
        self.relations, self.records = [], []
        for i in range(rng.randint(1, 6)):
            self.relations.append(self.relation("r%d" % i))
        turned = [r for r in self.relations if r.how != "compose" and rng.random() < 0.2]
        self.relations += [Relation(self.id(), "rev_" + r.name, r.head, r.tail, "reverse", [(r, True)]) for r in turned]
        self.sizes["N"] = len(self.relations)
        self.g = Graph(0, "g", "no source", "no target", "no edge")
        nodes, edges = ["node(%s)" % t for t in self.types], [r.edge for r in self.relations]
        self.space_py = {**{"node(%s)" % t: "g.rows[%r]" % t for t in self.types}, **{r.edge: "%s.edges()" % r.name for r in self.relations}}
        self.given = self.keyed = self.made = nodes + edges
        self.nameable = self.nameable + self.made

    def relation(self, name):
        rng = self.rng
        how = rng.choice(["file", "file", "file", "file", "where", "column", "compose"])
        a, b = rng.choice(self.types), rng.choice(self.types)
        if how == "compose":
            steps = [(r, turned) for r in self.relations for turned in (False, True)]
            path = []
            while len(path) < 3 and (more := [s for s in steps if not path or self.ends(s)[0] == self.ends(path[-1])[1]]) and (len(path) < 2 or rng.random() < 0.4):
                path.append(rng.choice(more))
            if len(path) > 1:
                return Relation(self.id(), name, self.ends(path[0])[0], self.ends(path[-1])[1], how, path)
            how = "file"
        return Relation(self.id(), name, a, b, how)

    @staticmethod
    def ends(step):
        r, turned = step
        return (r.head, r.tail) if turned else (r.tail, r.head)

    def data(self, rng, kind):
        columns = {r.head for r in self.relations if r.how == "column"}

        def rows(t):
            if kind != "one" and t not in columns and rng.random() < 0.08:
                return 0
            return {"one": 1, "hub": rng.randint(2, 6), "large": rng.randint(20, 70)}.get(kind, rng.randint(1, 14))
        w = World({t: rows(t) for t in self.types})
        for r in self.relations:
            n, m = w.rows[r.tail], w.rows[r.head]
            if r.how == "column":
                ends = [(s, rng.randrange(m)) for s in range(n)]
                w.lists[r.name] = [d for s, d in ends]
            elif r.how in ("compose", "reverse"):
                ends = self.joined(w, r)
            else:
                ends = draw.data_edges(rng, kind if rng.random() < 0.9 else "bare", n, m, r.tail == r.head) if n and m else []
                w.lists[r.name] = list(zip(*ends)) if ends else [[], []]
            w.graph(r, ends)
        return w

    @staticmethod
    def joined(w, r):
        """A metapath's pairs, each once, by target and then by source; the edges of a relation that is turned around."""
        steps = []
        for s, turned in r.path:
            g = w.graphs[s.name]
            ends = list(zip(g.src.tolist(), g.dst.tolist()))
            steps.append([(d, s) for s, d in ends] if turned else ends)
        if r.how == "reverse":
            return steps[0]
        pairs = set(steps[0])
        for step in steps[1:]:
            pairs = {(a, c) for a, b in pairs for x, c in step if x == b}
        return sorted(pairs, key=lambda p: (p[1], p[0]))

    def names(self, w, dtype):
        return {**super().names(w, dtype), **w.graphs}

    def described(self, w):
        return 0, 0, [], [], 1, None, w.lists, w.rows

    def topology(self, w):
        return {"node(%s)" % t: n for t, n in w.rows.items()}, [(r.edge, r.src, r.dst, w.graphs[r.name]) for r in self.relations]

    def schema(self):
        turned = ["  reverse %s\n" % r.path[0][0].name for r in self.relations if r.how == "reverse"]
        return "schema s {\n  node %s\n%s%s}\n\n" % (", ".join(self.types), "".join("  %s\n" % r.text() for r in self.relations if r.how != "reverse"), "".join(turned))

    # ---- values ----

    def op_over(self):
        """A relation's edges; in there, a graph that is derived from them."""
        if self.scope is not self.top:
            return super().op_over()
        r, outer = self.rng.choice(self.relations), self.scope
        self.scope = Scope(r, outer)
        try:
            before = self.id()
            self.attempt(self.op_cross)
            self.grow(self.rng.randint(1, 6))
            new = [v for v in self.scope.values if v.id > before and v.kind == "float" and any(a.space == r.edge for a in draw.ancestors([v]))]
            if not new:
                v = self.pick(lambda v: v.space == r.edge)
                new = [self.make(r.dst, v.dims, "sum_in({0})", "ins(%s).sum({0})" % r.name, [v])]
        finally:
            self.scope = outer
        return self.make(new[-1].space, new[-1].dims, None, "{0}", [new[-1]], body=new[-1], over=r, named=True)

    def op_grouped(self):
        """A matrix for each kind of row."""
        if self.poles:
            raise Refused("a table counts as read whole")
        v = self.pick(lambda v: v.dims and v.space in self.keyed)
        key, d = self.key(v.space), v.dims[-1]
        out = self.rng.choice([x for x in self.letters + ["C"] if x not in v.dims + (key.kind,)] or [None])
        if not out or key.kind in v.dims:
            raise Refused("no dim left")
        w = self.on(None, lambda w: w.dims == (key.kind, d, out), (key.kind, d, out))
        a = v.code()
        py = "T.einsum('%s,%s->%s', {0}, {1}[{2}])" % (a, "r" + d + out, a[:-1] + out)
        return self.make(v.space, v.dims[:-1] + (out,), self.rng.choice(["({0} @ {1}[{2}])", "dot({0}, {1}[{2}], %s)" % d]), py, [v, w, key])

    def op_relational(self):
        """A reduction by target and kind, a matrix for each kind, and the sum over kinds."""
        g, form = self.scope.graph, self.rng.choice(["sum", "mean", "max", "min"])
        if g.edge not in self.keyed or self.poles:
            raise Refused("no relation at hand, or a table that counts as read whole")
        v = self.edges(lambda v: len(v.dims) == 1)
        key, d = self.key(g.edge), v.dims[0]
        out = self.rng.choice([x for x in self.letters + ["C"] if x not in (d, key.kind)] or [None])
        if not out or key.kind == d:
            raise Refused("no dim left")
        w = self.on(None, lambda w: w.dims == (key.kind, d, out), (key.kind, d, out))
        k = key.kind
        return self.make(g.dst, (out,), "sum(dot(%s_in({0}, by = {2}), {1}, %s), %s)" % (form, d, k),
                         "T.einsum('r%s%s,%s%s%s->r%s', ins(%s, {2}, %d).%s({0}), {1})" % (k, d, k, d, out, out, g.name, self.sizes[k], form), [v, w, key])

    # ---- records ----

    def outside(self):
        if self.scope is not self.top:
            raise Refused("records stand outside of blocks")

    def statement(self, text, args, needs=()):
        """A record's statement; `text` holds `{0}` for its arguments, and no other braces but doubled ones."""
        made = Instance(self.id(), "q%d" % self.id(), text, self.top)
        made.args, made.needs = list(args), list(needs)
        return made

    def weights(self, stored, dims):
        w = self.input(None, dims, source="param")
        w.hidden, w.stored = True, stored
        return w

    def fill_record(self, statement, made, dim=None, into=True):
        """made: key -> (space, dims, torch, arguments), of all of them or of none; where it is `(..., text)`, the text is what stands behind the record's."""
        values = {}
        try:
            for key, (space, dims, py, args, *rest) in made.items():
                more = dict(typed=True, named=True) if rest else {}
                values[key] = self.make(space, dims, "%s[%s]%s" % (statement.name, key, "".join(rest)), py, args, needs=[statement], **more)
        except Refused:
            for v in values.values():
                v.hidden = True
            raise
        record = Record(statement, values, dim, into)
        self.records.append(record)
        return record

    def by_type(self):
        """A record of a value for most types."""
        some = [q for q in self.records if q.dim and all(k in self.types for k in q.values)]
        if some and self.rng.random() < 0.5:
            return self.rng.choice(some)
        d, of = self.rng.choice(self.letters), {}
        for t in self.types:
            if not of or self.rng.random() < 0.85:
                of[t] = self.on("node(%s)" % t, lambda v: v.dims == (d,), (d,))
        text = " else ".join("if t == %s {{ {%d} }}" % (t, i) for i, t in enumerate(of))
        record = Record(self.statement("forall t {{ %s }}" % text, of.values()), of, d)
        self.records.append(record)
        return record

    def op_turns(self):
        """A map for each type."""
        self.outside()
        q = self.by_type()
        out = self.rng.choice([x for x in self.letters if x != q.dim] or [None])
        form = self.rng.choice(["matrix", "bias", "formula"])
        y = self.statement("", [], [q.name])
        if form == "matrix" and out:
            ws = {t: self.weights("%s.W.%s" % (y.name, t), (q.dim, out)) for t in q.values}
            inner, made = "param W: [%s, %s] = glorot as \"%s.W.{{t}}\"\n%s[t] @ W" % (q.dim, out, y.name, q.name.name), {
                t: ("node(%s)" % t, (out,), "{0} @ {1}", [v, ws[t]]) for t, v in q.values.items()}
        elif form == "bias":
            ws = {t: self.weights("%s.b.%s" % (y.name, t), (q.dim,)) for t in q.values}
            inner, out, made = "param b: [%s] = zeros as \"%s.b.{{t}}\"\ntanh(%s[t] + b)" % (q.dim, y.name, q.name.name), q.dim, {
                t: ("node(%s)" % t, (q.dim,), "T.tanh({0} + {1})", [v, ws[t]]) for t, v in q.values.items()}
        else:
            gnn, py = self.formula([(q.name.name + "[t]", "{0}")], 2)
            ws, inner, out, made = {}, gnn, q.dim, {t: ("node(%s)" % t, (q.dim,), py, [v]) for t, v in q.values.items()}
        y.gnn, y.args = "forall t {{ if has(%s, t) {{\n%s\n}} }}" % (q.name.name, inner), list(ws.values())
        return self.fill_record(y, made, out)

    def op_relations(self):
        """A value for each relation, of some: `forall r into all`, `into T` or `from T`."""
        self.outside()
        rng, q = self.rng, self.by_type()
        t = rng.choice(self.types)
        which, test = rng.choice([("into all", lambda r: True)] * 3 + [("into " + t, lambda r: r.head == t), ("from " + t, lambda r: r.tail == t)])
        turns = [r for r in self.relations if test(r) and r.tail in q.values and r.head in q.values]
        if not turns:
            raise Refused("no relation")
        m, name, d = self.statement("", [], [q.name]), q.name.name, q.dim
        src, dst = name + "[source(r)]", name + "[target(r)]"
        out = rng.choice([x for x in self.letters if x != d] or [None])
        form = rng.choice(["formula", "formula", "matrix", "scale", "stack", "attention", "own", "edges", "edges"])
        form = "formula" if form in ("matrix", "stack") and not out else form
        agg, side = rng.choice(AGGREGATES + ["logsumexp"] * (form == "edges")), rng.choice(["in", "in", "in", "out"])
        space, into, dims, ws, head, stack = None, side == "in", (d,), {}, "", []
        rows = ("ins(%s)" if into else "outs(%s)")
        if form == "formula":
            gnn, py = self.formula([(src + ".src", "{0}[R.src]"), (dst + ".dst", "{1}[R.dst]")], 2)
            gnn, py = "%s_%s(%s)" % (agg, side, gnn), rows % "R" + ".%s(%s)" % (agg, py)
        elif form == "matrix":
            ws, dims = {r: self.weights("%s.W.%s" % (m.name, r.name), (d, out)) for r in turns}, (out,)
            head = "param W: [%s, %s] = glorot as \"%s.W.{{r}}\"\n" % (d, out, m.name)
            gnn, py = "%s_%s(%s)" % (agg, side, rng.choice(["%s.src @ W" % src, "(%s @ W).src" % src])), rows % "R" + ".%s(({0} @ {2})[R.src])" % agg
        elif form == "scale":
            ws = {r: self.weights("%s.w.%s" % (m.name, r.name), ()) for r in turns}
            head = "param w: [] = ones as \"%s.w.{{r}}\"\n" % m.name
            gnn, py = "%s_%s(w * %s.src)" % (agg, side, src), rows % "R" + ".%s({2} * {0}[R.src])" % agg
        elif form == "stack":
            stack, dims = [self.on(None, lambda w: w.dims == ("N", d, out), ("N", d, out))], (out,)
            gnn, py = "%s_%s(dot(%s, {0}[ordinal(r), ...], %s).src)" % (agg, side, src, d), rows % "R" + ".%s(({0} @ {2}[ORDINAL])[R.src])" % agg
        elif form == "attention":
            gnn = "sum_%s(softmax_%s(dot(%s.src, %s.dst, %s)) * %s.src)" % (side, side, src, dst, d, src)
            py = rows % "R" + ".sum(%s.softmax(({0}[R.src] * {1}[R.dst]).sum(-1))[:, None] * {0}[R.src])" % (rows % "R")
        elif form == "own":
            word, with_t, method = self.reducer()
            method = draw.re_word("t", "1", draw.re_word("m", "{0}[R.src]", method.replace("{", "{{").replace("}", "}}")))
            gnn, py, m.uses_def = "%s_%s(%s.src)" % (word, side, src), rows % "R" + "." + method, word
        else:
            gnn, py, dims, space = "tanh(dot(%s.src, %s.dst, %s))" % (src, dst, d), "T.tanh(({0}[R.src] * {1}[R.dst]).sum(-1))", (), "edge"
        made = {}
        for r in turns:
            at = r.edge if space else r.dst if into else r.src
            text = draw.re_word("R", r.name, py).replace("ORDINAL", str(self.relations.index(r)))
            made[r.name] = (at, dims, self.whole(text, at, dims), [q.values[r.tail], q.values[r.head], *([ws[r]] if ws else stack)])
        m.gnn = "forall r %s {{ if has(%s, source(r)) and has(%s, target(r)) {{\n%sover r {{ %s }}\n}} }}" % (which, name, name, head, gnn)
        m.args, m.needs = list(ws.values()) + stack, m.needs + turns
        record = self.fill_record(m, made, None if space else dims[0], into)
        record.of, record.edges = q, bool(space)
        return record

    def by_relation(self, edges=False):
        some = [m for m in self.records if getattr(m, "of", None) and m.edges == edges]
        if not some or self.rng.random() < 0.3:
            self.op_relations()
            some = [m for m in self.records[-1:] if m.edges == edges]
        if not some:
            raise Refused("no such record")
        return self.rng.choice(some)

    def groups(self, m):
        """The values of a record of relations by the type that they are of."""
        out = {}
        for r in self.relations:
            if r.name in m.values:
                out.setdefault(r.head if m.into else r.tail, []).append(m.values[r.name])
        return out

    def op_combine(self):
        self.outside()
        m = self.by_relation()
        aggr, groups, word, d = self.rng.choice(AGGREGATES + ["cat"]), self.groups(m), "into" if m.into else "from", m.dim
        name = m.name.name
        h = self.statement("forall t {{ combine(forall r %s t {{ if has(%s, r) {{ %s[r] }} }}%s) }}" % (word, name, name, "" if aggr == "sum" else ", " + aggr), [], [m.name])
        made = {}
        for t, vs in groups.items():
            at = ["{%d}" % i for i in range(len(vs))]
            if aggr == "cat":
                out = self.rng.choice([x for x in self.letters if self.sizes[x] <= len(vs) * self.sizes[d]])
                i = self.rng.randint(0, len(vs) * self.sizes[d] - self.sizes[out])
                j = i + self.sizes[out]
                made[t] = ("node(%s)" % t, (out,), "T.cat([%s], -1)[..., %d:%d]" % (", ".join(at), i, j), vs, "[%d..%d]" % (i, j))
                continue
            py = at[0]
            for a in at[1:]:
                py = "(%s + %s)" % (py, a) if aggr in ("sum", "mean") else "%simum(%s, %s)" % (aggr, py, a)
            made[t] = ("node(%s)" % t, (d,), "%s / %d" % (py, len(vs)) if aggr == "mean" else py, vs)
        return self.fill_record(h, made, None if aggr == "cat" else d)

    def op_attend(self):
        """A softmax over the relations that end at a type, for each node."""
        self.outside()
        m = self.by_relation()
        if not m.into:
            raise Refused("from")
        a, name, d = self.on(None, lambda v: v.dims == (m.dim,), (m.dim,)), m.name.name, m.dim
        s = self.statement("forall r into all {{ if has(%s, r) {{ dot(%s[r], {0}, %s) }} }}" % (name, name, d), [a], [m.name])
        top = self.statement("forall t {{ combine(forall r into t {{ if has(%s, r) {{ detach(%s[r]) }} }}, max) }}" % (s.name, s.name), [], [s])
        z = self.statement("forall r into all {{ if has(%s, r) {{ exp(%s[r] - %s[target(r)]) }} }}" % (s.name, s.name, top.name), [], [s, top])
        total = self.statement("forall t {{ combine(forall r into t {{ if has(%s, r) {{ %s[r] }} }}) }}" % (z.name, z.name), [], [z])
        h = self.statement("forall t {{ combine(forall r into t {{ if has(%s, r) {{ %s[r] / %s[t] * %s[r] }} }}) }}" % (z.name, z.name, total.name, name),
                           [], [z, total, m.name])
        made = {}
        for t, vs in self.groups(m).items():
            one = "T.stack([%s])" % ", ".join("{%d}" % i for i in range(len(vs)))
            made[t] = ("node(%s)" % t, (d,), "(T.softmax((%s * {%d}).sum(-1), 0)[..., None] * %s).sum(0)" % (one, len(vs), one), vs + [a])
        return self.fill_record(h, made, d)

    def op_weigh(self):
        """A softmax over the relations that end at a type, one for all its nodes (HAN)."""
        self.outside()
        m = self.by_relation()
        if not m.into:
            raise Refused("from")
        a, name, d = self.on(None, lambda v: v.dims == (m.dim,), (m.dim,)), m.name.name, m.dim
        h = self.statement("forall t {{\nys = forall r into t {{ if has(%s, r) {{ %s[r] }} }}\nif size(ys) > 0 {{\n"
                           "b = softmax(cat(for y in ys {{ reshape(mean_all(tanh(dot(y, {0}, %s))), [1]) }}))\n"
                           "combine(for k in 0..size(ys) {{ b[k] * ys[k] }})\n}}\n}}" % (name, name, d), [a], [m.name])
        made = {}
        for t, vs in self.groups(m).items():
            b = "T.softmax(T.stack([%s]), 0)" % ", ".join("All(len({%d})).mean(T.tanh({%d} @ {%d}))" % (i, i, len(vs)) for i in range(len(vs)))
            made[t] = ("node(%s)" % t, (d,), "(%s[:, None, None] * T.stack([%s])).sum(0)" % (b, ", ".join("{%d}" % i for i in range(len(vs)))), vs + [a])
        h = self.fill_record(h, made, d)
        for v in h.values.values():
            v.mixes = True
        return h

    def op_attend_edges(self):
        """A softmax over the edges of all relations that enter a node (HGT)."""
        self.outside()
        s = self.by_relation(edges=True)
        q, name, d = s.of, s.name.name, s.of.dim
        top = self.statement("forall t {{ combine(forall r into t {{ if has(%s, r) {{ over r {{ where(indegree > 0, detach(max_in(%s[r])), -inf) }} }} }}, max) }}"
                             % (name, name), [], [s.name])
        z = self.statement("forall r into all {{ if has(%s, r) {{ over r {{ exp(%s[r] - %s[target(r)].dst) }} }} }}" % (name, name, top.name), [], [s.name, top])
        total = self.statement("forall t {{ combine(forall r into t {{ if has(%s, r) {{ over r {{ sum_in(%s[r]) }} }} }}) }}" % (z.name, z.name), [], [z])
        h = self.statement("forall t {{ combine(forall r into t {{ if has(%s, r) {{ over r {{ sum_in(%s[r] / (%s[t].dst + 1e-16) * %s[source(r)].src) }} }} }}) }}"
                           % (z.name, z.name, total.name, q.name.name), [], [z, total, q.name])
        made = {}
        for t, rs in itertools.groupby(sorted([r for r in self.relations if r.name in s.values], key=lambda r: r.head), key=lambda r: r.head):
            rs = list(rs)
            n = len(rs)
            row = "Rows(T.cat([%s]), %s)" % (", ".join("%s.dst" % r.name for r in rs), self.space_py["node(%s)" % t])
            py = "%s.sum(%s.softmax(T.cat([%s]))[:, None] * T.cat([%s]))" % (
                row, row, ", ".join("{%d}" % i for i in range(n)), ", ".join("{%d}[%s.src]" % (n + i, r.name) for i, r in enumerate(rs)))
            made[t] = ("node(%s)" % t, (d,), py, [s.values[r.name] for r in rs] + [q.values[r.tail] for r in rs])
        return self.fill_record(h, made, d)

    def begin(self):
        """What is of types first: each program has some of it, however few its operations are."""
        super().begin()
        ops = [self.op_over, self.op_relations, self.op_combine, self.op_attend, self.op_weigh, self.op_attend_edges, self.op_turns]
        made, want = 0, self.rng.choice([1, 2, 2, 3, 4])
        for _ in range(30):
            made += made < want and self.attempt(self.rng.choice(ops))

    def draw(self):
        super().draw()
        if not any(isinstance(v, Relation) for v in draw.items(self)):
            self.results = []  # nothing typed in it

    def text(self):
        return self.schema() + super().text()

    def learned(self):
        """Inputs of nodes, which the form that trains has as parameters."""
        return [v for v in self.inputs("input") if v.kind == "float" and v.space and v.space.startswith("node(")]

    def trained(self):
        """The same as one number, and two steps of training, which moves all parameters, rows of nodes among them."""
        learned = self.learned()
        inputs = [v for v in self.inputs("input") if v not in learned]
        parts = ["%s(%s(tanh(%s)))" % ("sum_all" if v.space else "", "sum" if v.dims else "", v.name) for v in self.results]
        model = draw.Printer(self).model(inputs, self.inputs("param") + learned, "[]", " + ".join(parts))
        return "%s%s\ntrain net {\n  loss = net(%s)\n  optimizer sgd(0.05)\n  epochs 2\n}\n" % (self.schema(), model, ", ".join("data." + v.name for v in inputs))

    def files(self, w, given):
        """The data of that form: arrays by file, and the numbers of nodes."""
        arrays = {v.name: x.numpy() for v, x in given.items() if v.source == "input" and v not in self.learned()}
        for r in self.relations:
            if r.how == "column":
                arrays["%s.%s" % (r.tail, r.name)] = w.lists[r.name]
            elif r.how == "file":
                arrays[r.name + ".edge_index"] = w.lists[r.name]
            elif r.how == "where":  # behind each edge one of another type
                ends = w.lists[r.name]
                arrays[r.name + "_index"] = [[v for x in side for v in (x, x)] for side in ends]
                arrays[r.name + "_type"] = [1, 0] * len(ends[0])
        return arrays, {"num_" + t: n for t, n in w.rows.items()}
