"""Models that processes train together, each of which reads the graph in its own way: MODELS of one kind of nodes, (arguments, body, call, sizes); and texts for several kinds, with
their data."""
import numpy as np

TRAIN = """
train net {
  loss = cross_entropy(net(%(call)s), data.y) on data.train
  metric acc = accuracy(net(%(call)s), data.y) on data.test
  hyper lr = 0.01
  optimizer adam(lr)
  epochs 5
  seed 0
}
"""

MODELS = {
    "gcn": ("x: node[F]", "a = gcn(O = 16)\n  b = gcn(O = C)\n  return b(relu(a(dropout(x, 0.3))))", "data.x", ""),
    "sage": ("x: node[F]", "a = sage(O = 16)\n  n = batch_norm()\n  b = sage(O = C)\n  return b(relu(n(a(x))))", "data.x", ""),
    "gat": ("x: node[F]", "a = gat(H = 4, D = 4, attn_dropout = 0.2)\n  b = gat(H = 1, D = C)\n  return b(elu(a(x)))", "data.x", ""),
    "gatv2": ("x: node[F]", "a = gatv2(H = 4, D = 4)\n  b = gatv2(H = 1, D = C)\n  return b(elu(a(x)))", "data.x", ""),
    "transformer": ("x: node[F]", "a = transformer(H = 4, D = 4)\n  b = transformer(H = 1, D = C)\n  return b(elu(a(x)))", "data.x", ""),
    "gin": ("x: node[F]", "a = gin(O = 8, nn = mlp(16), train_eps = true)\n  l = linear(O = C)\n  return l(relu(a(x)))", "data.x", ""),
    "appnp": ("x: node[F]", "l = linear(O = 16)\n  m = linear(O = C)\n  p = appnp(K = 4)\n  return p(m(relu(l(x))))", "data.x", ""),
    "pna": ("x: node[F]", "l = linear(O = 8)\n  h = l(x)\n  k = linear(O = C)\n"
                          "  return k(cat(mean_in(h.src), max_in(h.src), min_in(h.src), std_in(h.src)))", "data.x", ""),
    "edge_conv": ("x: node[F]", "a = edge_conv(O = 8, nn = mlp(16))\n  l = linear(O = C)\n  return l(relu(a(x)))", "data.x", ""),
    "gated": ("x: node[F]", "a = gated_graph(O = 8, num_layers = 2)\n  l = linear(O = C)\n  k = linear(O = 8)\n  return l(relu(a(k(x))))",
              "data.x", ""),
    "gine": ("x: node[F], w: edge[K]", "a = gine(O = 8, nn = mlp(16), project = true)\n  l = linear(O = C)\n  return l(relu(a(x, w)))",
             "data.x, data.w", "K=3"),
    # the largest and the mean of all nodes
    "pooled": ("x: node[F]", "a = gcn(O = 16)\n  l = linear(O = C)\n  h = relu(a(x))\n  return l(h + max_all(h) + mean_all(h))", "data.x", ""),
    # a gradient that is a sum over all edges
    "gates": ("x: node[F], w: edge[K]", "param u: [K] = glorot\n  l = linear(O = C)\n  g = sigmoid(sum(w * u, K))\n  return l(sum_in(x.src * g))",
              "data.x, data.w", "K=3"),
    # a total of edges reads nodes' values by way of their sources, which peers may own
    "far_totals": ("x: node[F], w: edge[K]", "param u: [K] = glorot\n  a = gcn(O = 4)\n  l = linear(O = C)\n  h = tanh(a(x))\n"
                                             "  return l(h + mean_all(tanh(h.src * sum(w * u, K))))", "data.x, data.w", "K=3"),
    # sums for rows that every process has read a value at both ends of an edge, and another at targets alone
    "both_ends": ("x: node[F], edge_type: edge index[R]",
                  "param E: [R, O] = glorot\n  h = tanh(linear(x, O = O))\n  g = tanh(linear(x, O = O))\n"
                  "  s = sum(h.src * h.dst * g.dst * E[edge_type], O)\n"
                  "  return linear(sum_in(sigmoid(s) * h.src), O = C)",
                  "data.x, data.edge_type", "R=20,O=8"),
    # the same of totals over all edges: a value at both ends beside another at targets alone, and two values of
    # which kernels meet the ends in different orders
    "far_ends": ("x: node[F]", "k = linear(O = 4)\n  l = linear(O = 4)\n  h = tanh(k(x))\n  g = tanh(l(x))\n"
                               "  r = h + mean_all(tanh(tanh(h.src - h.dst) + g.dst))\n  s = tanh(linear(r, O = 4))\n"
                               "  return linear(r + mean_all(tanh(r.src - r.dst) * exp(s.dst - s.src)), O = C)", "data.x", ""),
    # keyed by a column of relations: gradients are sums for rows that every process has
    "relations": ("x: node[F], edge_type: edge index[R]", "param W: [R, F, O] = glorot\n  l = linear(O = C)\n"
                                                          "  return l(relu(sum(dot(mean_in(x.src, by = edge_type), W, F), R)))",
                  "data.x, data.edge_type", "R=4,O=8"),
    # more rows than a kernel chooses among: who reads each is listed, and its gradient sums products of both ends'
    # values
    "vectors": ("x: node[F], edge_type: edge index[R]", "param E: [R, O] = glorot\n  k = linear(O = 8)\n  l = linear(O = C)\n  h = k(x)\n"
                                                        "  return l(relu(sum_in(h.src * E[edge_type]) + mean_in(E[edge_type])))",
                "data.x, data.edge_type", "R=20,O=8"),
    # products that an end of an edge and its kind say: of targets and of sources, read by edges, and sums by both
    "kinds": ("x: node[F], w: edge[K], edge_type: edge index[R]",
              "param W: [R, F, O] = glorot\n  param V: [R, O, O'] = glorot\n  param U: [O', P] = glorot\n  l = linear(O = C)\n  a = softmax_in(sum(w, K), by = edge_type)\n"
              "  h = relu(sum_in(a * (x.src @ W[edge_type])))\n  s: edge[P] = tanh(dot(tanh(h.src @ V[edge_type]), U, O'))\n"
              "  t: edge[P] = tanh(dot(tanh(h.dst @ V[edge_type]), U, O'))\n"
              "  return l(sum_in(s * t) + max_in(s))", "data.x, data.w, data.edge_type", "R=4,O=8,K=3,P=6"),
    # a sum for each relation also makes a value for each pair of a node and a kind, which peers read behind it by edges
    # out of their nodes
    "behind_sums": ("x: node[F], edge_type: edge index[R]", "param W: [R, O, P] = glorot\n  k = linear(O = 8)\n  l = linear(O = C)\n  h = tanh(k(x))\n"
                                                            "  return l(sum(relu(dot(mean_in(h.src, by = edge_type), W, O)), R))", "data.x, data.edge_type", "R=4,O=8,P=8"),
    "table": ("x: node[F], edge_type: edge index[R]", "param W: [R, F, O] = glorot\n  l = linear(O = C)\n"
                                                      "  return l(relu(sum_in(dot(x.src, W[edge_type], F))))", "data.x, data.edge_type", "R=4,O=8"),
}


def random_arrays(n, e):
    """Nodes with features and classes, and edges among which are loops, parallel ones, a hub's, and nodes without any in or out."""
    g = np.random.default_rng(5)
    ends = g.integers(0, n * 9 // 10, (2, e))
    ends[1, g.random(e) < 0.1] = 0
    ends[0, :5] = ends[1, :5]
    ends[:, 5:9] = ends[:, 9:13]
    mask = g.random(n) < 0.5
    return {"edge_index": np.ascontiguousarray(ends.astype("<i8")), "x": g.standard_normal((n, 10)).astype("<f4"), "y": g.integers(0, 3, n), "train_mask": mask, "test_mask": ~mask}


def text(name):
    args, body, call, _ = MODELS[name]
    return "model net(%s) -> node[C] {\n  %s\n}\n" % (args, body) + TRAIN % {"call": call}


def sizes(name):
    return MODELS[name][3]


# ---- several kinds of nodes ----------------------------------------------------------------------------------------

TRAIN_KINDS = """
train net {
  loss = cross_entropy(net(%s), data.paper.y) on data.paper.train
  metric test_acc = accuracy(net(%s), data.paper.y) on data.paper.test
  hyper lr = 0.01
  optimizer adam(lr)
  epochs 3
  seed 0
}
"""
SCHEMA = """schema library {
  node paper, author, subject
  edge writes: author -> paper
  edge about: paper -> subject = column
  edge cites: paper -> paper
%s}
"""
# Walks of relations by both ends, a column by both, a path through a third kind and back; values of edges; random
# numbers for nodes and for edges.
WALKS = SCHEMA % "  reverse all\n" + """
model net(x: node(all)[F], w: edge(writes), c: edge(about)) -> node(paper)[C] {
  h = forall t { tanh(linear(O = 8)(x[t])) }
  a = over writes { sum_in(h[author].src * dropout(w, 0.4)) }
  b = over rev_about { sum_in(relu(linear(O = 8)(h[subject].src))) }
  s = over about { sum_in(h[paper].src * exp(dropout(c, 0.2))) }
  d = over rev_about { sum_in(linear(O = 8)(s).src) }
  e = over cites { max_in(dropout(h[paper], 0.5).src) }
  u = over rev_writes { sum_in(linear(O = 8)(relu(a)).src) }
  g = over writes { mean_in(u.src) }
  return linear(relu(a + b + d + e + g), O = C)
}
""" + TRAIN_KINDS % (("data.x, data.writes.w, data.about.c",) * 2)
# One kind without a name, of which a row is learned for each node.
EMBED = """model net() -> node[C] {
  param table: node[8] = normal(0, 0.3)
  param pull: node[] = 1
  h = pull * sum_in(dropout(table, 0.2).src)
  return linear(h + table, O = C)
}
""" + TRAIN_KINDS.replace("data.paper.", "data.") % ("", "")

RELATIONS = {"writes": ["author", "paper"], "about": ["paper", "subject"], "cites": ["paper", "paper"], "shares": ["paper", "paper"]}


def arrays(papers=300, authors=170, subjects=7, writes=900, cites=1300, seed=0):
    r = np.random.default_rng(seed)

    def pairs(n, m, k):
        return np.stack([r.integers(0, n, k), r.integers(0, m, k)]) if n and m else np.zeros((2, 0), "i8")

    train = r.random(papers) < 0.5
    train[:1] = True
    a = {"paper.x": r.standard_normal((papers, 5)).astype("f4"), "author.x": r.standard_normal((authors, 3)).astype("f4"),
         "subject.x": r.standard_normal((subjects, 4)).astype("f4"), "paper.y": r.integers(0, 3, papers),
         "paper.train_mask": train, "paper.test_mask": ~train, "paper.about": r.integers(0, subjects, papers),
         "writes.edge_index": pairs(authors, papers, writes), "cites.edge_index": pairs(papers, papers, cites),
         "shares.edge_index": pairs(papers, papers, cites), "about.c": r.random(papers).astype("f4")}
    return dict(a, **{"writes.w": r.random(a["writes.edge_index"].shape[1]).astype("f4")})
