"""PyG's reducers of which shared/golden has no case, by PyG 2.8's own modules. Called by record.py."""
import torch
from torch_geometric.nn import aggr

from record import Draw

TARGETS = 4


def reducer(folder, cls, name, ours, make, counts):
    """counts: how many rows each target has."""
    d = Draw(cls + name)
    index = torch.repeat_interleave(torch.arange(TARGETS), torch.tensor(counts))
    width = 4
    folder.case(cls, name, ["conv = " + ours, "return conv(x.src)"], make, lambda m, t: m(t["x"], t["index"], dim_size=TARGETS),
                {"x": ("src[%d]" % width, d.normal(len(index), width))}, {"index": index}, draw=d, keep=["frequency"],
                graph={"n_src": len(index), "n_dst": TARGETS})


class Exact(aggr.EquilibriumAggregation):
    """It begins at zeros of single precision, and so has a first gradient of such."""

    def init_output(self, dim_size):
        return super().init_output(dim_size).double()


def record(folder):
    some, fed = [3, 0, 5, 1], [3, 2, 5, 1]
    reducer(folder, "SetTransformerAggregation", "two_seeds", "set_transformer_aggr(num_seed_points = 2, H = 2)",
            lambda: aggr.SetTransformerAggregation(4, 2, heads=2), some)
    reducer(folder, "SetTransformerAggregation", "norms_mean", "set_transformer_aggr(num_seed_points = 3, num_encoder_blocks = 2, concat = false, layer_norm = true)",
            lambda: aggr.SetTransformerAggregation(4, 3, 2, concat=False, layer_norm=True), fed)
    reducer(folder, "GraphMultisetTransformer", "default", "multiset_aggr(k = 3, H = 2)", lambda: aggr.GraphMultisetTransformer(4, 3, heads=2), some)
    reducer(folder, "GraphMultisetTransformer", "norms", "multiset_aggr(k = 2, num_encoder_blocks = 2, layer_norm = true)",
            lambda: aggr.GraphMultisetTransformer(4, 2, 2, layer_norm=True), fed)
    reducer(folder, "PatchTransformerAggregation", "several", "patch_transformer_aggr(O = 3, patch_size = 2, hidden = 4, H = 2, most = 6, aggrs = [mean, std, max])",
            lambda: aggr.PatchTransformerAggregation(4, 3, 2, 4, 1, 2, aggr=["mean", "std", "max"]), some)
    reducer(folder, "PatchTransformerAggregation", "cut", "patch_transformer_aggr(O = 3, patch_size = 4, hidden = 4, most = 7, num_transformer_blocks = 2, aggrs = [sum])",
            lambda: aggr.PatchTransformerAggregation(4, 3, 4, 4, 2, aggr="sum"), [3, 0, 6, 1])
    reducer(folder, "LSTMAggregation", "projected", "lstm_aggr(O = 5, proj_size = 3, most = 5, padded = true, num_layers = 2, bidirectional = true)",
            lambda: aggr.LSTMAggregation(4, 5, proj_size=3, num_layers=2, bidirectional=True), some)
    reducer(folder, "EquilibriumAggregation", "default", "equilibrium_aggr(O = 3, hidden = [5, 6])", lambda: Exact(4, 3, [5, 6]), some)
    reducer(folder, "EquilibriumAggregation", "two_steps", "equilibrium_aggr(O = 2, hidden = [7], steps = 2)", lambda: Exact(4, 2, [7], grad_iter=2), fed)
