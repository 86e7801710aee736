"""What bench/run measures and what it is measured against: the rows, their goals, the sizes of data. Tables only."""

SIZES = {  # name: nodes, directed edges (both directions), features, classes
    "tiny": (500, 4_000, 16, 4),
    "arxiv_tenth": (16_934, 231_560, 128, 40),
    "arxiv": (169_343, 2_315_598, 128, 40),            # the size of ogbn-arxiv, made symmetric
    "products_quarter": (612_257, 30_929_785, 100, 47),
}
N_EDGE_FEATURES, N_PSEUDO, HEADS, N_RELATIONS = 16, 2, 8, 8
EDGE_INPUTS = {"gmm": ["pseudo"], "cg": ["edge_attr"], "gine": ["edge_attr"], "custom": ["edge_attr"],
               "rgcn": ["edge_type"], "film": ["edge_type"]}
NODE_INPUTS = {"limit_gat": ["l", "r"]}

# class: (layers, geomean goal, goal of each) for forward, then for forward and backward
GOALS = {
    "attention, gates, mixtures": {
        "layers": "gat gatv2 transformer agnn resgated gmm gen cg pna gine custom".split(),
        "infer": (12, 8), "grad": (10, 6)},
    "plain convolutions": {
        "layers": "gcn sage_mean sage_max gin appnp egc sgc".split(),
        "infer": (5, 3), "grad": (5, 3)},
    "edge convolution, one linear": {"layers": ["edgeconv_linear"], "infer": (30, 30), "grad": (10, 10)},
    "edge convolution, MLP": {"layers": ["edgeconv"], "infer": (15, 15), "grad": (10, 10)},
}
LAYERS = [name for c in GOALS.values() for name in c["layers"]] + ["sum", "gatedgraph", "rgcn", "film"]
NOT_YET = {  # layers of the peers without a row, and why
    "fast_rgcn": "PyG's asks for a matrix per edge, 38 GB; what it computes is the row rgcn",
    "nnconv": "in the library (nn_conv), not timed beside peers: they hold 64 x 64 numbers per edge, 38 GB",
}
MEMORY_GOALS = {  # tensors of V x F
    "gcn": 4, "sage_mean": 4, "sage_max": 4, "gat": 6, "gatv2": 8, "transformer": 10, "custom": 10}

# networks: name, model, data, width, {mode: least ratio}
NETS = [
    ("net_gcn", "net_gcn", "arxiv", 64, {"epoch": 10}),
    ("net_sage_mean", "net_sage_mean", "arxiv", 64, {"epoch": 8}),
    ("net_gat", "net_gat", "arxiv", 64, {"epoch": 10}),
    ("cora_gcn", "net_gcn", "cora", 16, {"epoch": 12, "infer": None}),
    ("cora_gat", "net_gat", "cora", 64, {"epoch": 15, "infer": None}),
]
LATENCY_GOAL_MS = 0.3
LIMIT_GOAL, THREADS_GOAL = 0.95, 1.85

SCALED = ["gcn", "gat", "custom"]  # layers of the rows below
GROWTH = ["arxiv_tenth", "arxiv", "products_quarter"]
WIDTHS = [16, 32, 64, 128, 256]
QUICK = ["gcn", "gat", "edgeconv_linear", "net_gcn", "cora_gcn", "cora_gat", "limit"]
TYPED = ["rgcn", "rgat", "film", "hgt", "han", "hetero"]  # layers on edges and nodes of several kinds, with folders of typed_graph.py
TYPED_PEERS = ["pyg", "pyg_fast", "pyg_compile", "dgl"]
TYPED_GOALS = {"geomean": 8, "least": 4, "memory": 4}  # forward, and forward and backward
QUICK_PEERS = ["pyg", "pyg_sparse", "pyg_csr", "dgl"]
PEERS = ["pyg", "pyg_sparse", "pyg_csr", "pyg_compile", "dgl"]


def dims(model, width):
    """Values of `gnnc build --set` for a model of bench/models."""
    more = {"gmm": {"K": 3, "P": N_PSEUDO, "O": width}, "gen": {"M": 2 * width},
            "pna": {"F2": 2 * width, "F13": 13 * width}, "limit_gat": {"H": HEADS}}.get(model, {})
    if "edge_attr" in EDGE_INPUTS.get(model, []):
        more = {"K": N_EDGE_FEATURES}
    if "edge_type" in EDGE_INPUTS.get(model, []):
        more = {"R": N_RELATIONS, "O": width}
    return dict({"F": width}, **more)
