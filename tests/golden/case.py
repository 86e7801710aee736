"""One case: its model built for one float type, run forward and backward, compared with what PyG recorded.

A tensor passes if max |got - want| <= tolerance * max(1, max |want|); integers must be equal. Every recorded output and every
recorded gradient is compared; one that the model does not have must have been recorded as zero (it took no part).
"""
import collections
import os
import subprocess

import numpy as np

import library
import tensors

TOLERANCE = {"f64": 1e-9, "f32": 1e-4}
FLOAT = {"f64": np.float64, "f32": np.float32}
BUILD_S = 120


# Outputs that are parts of a result with a column for each node: which of its entries are not 0, as sources and
# targets, and what another result has there.
Places = collections.namedtuple("Places", "of")
Entries = collections.namedtuple("Entries", "values of")


class Unsayable(Exception):
    """The language or the library cannot say this case yet; the text names what is missing."""


class Wrong(Exception):
    pass


def build(compiler, spec, dtype, folder):
    """The path of the model's library, built once per text, dims, mode and type. Those in f64 are built quickly: bits do not depend on it, and those in
    f32 are optimised as users build them."""
    out = os.path.join(folder, dtype)
    if os.path.exists(out + ".so"):
        return out + ".so"
    os.makedirs(folder, exist_ok=True)
    source = os.path.join(folder, "model.gnn")
    with open(source, "w") as f:
        f.write(spec.text)
    argv = [compiler, "build", source, "--emit=lib", "--dtype", dtype, "--cpu", "generic,native", "--prefix", "m", "-o", out]
    argv += ["--mode", spec.mode] + lists_of_build(spec, folder) + (["--quick"] if dtype == "f64" else [])
    argv += ["--set=" + ",".join("%s=%d" % d for d in sorted(spec.dims.items()))] if spec.dims else []
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=BUILD_S)
    said = p.stdout.decode("utf-8", "replace").strip()
    if p.returncode == 0:
        return out + ".so"
    first = said.split("\n")[0]
    if "error[E0901]" in first:  # "... is not built yet"
        raise Unsayable(first.split("error[E0901]: ")[1])
    raise Wrong("gnnc build ended with %d: %s" % (p.returncode, first))


def lists_of_build(spec, folder):
    """What the compiler must know of further lists of edges: that there are such files, and values of theirs."""
    if not spec.lists or spec.typed:
        return []
    data = os.path.join(folder, "data")
    os.makedirs(data, exist_ok=True)
    for name, n in dict(spec.lists, edge_index=1).items():
        np.save(os.path.join(data, name + ".npy"), np.zeros([2, n], np.int64))
    for name, values in spec.flags.items():
        np.save(os.path.join(data, name + ".npy"), values)
    return ["--data", data]


def error(got, want):
    """max |got - want| / max(1, max |want|)"""
    if got.size != want.size:
        raise Wrong("found shape %s, wanted %s" % (list(got.shape), list(want.shape)))
    if want.size == 0:
        return 0.0
    got, want = got.astype(np.float64).reshape(-1), want.astype(np.float64).reshape(-1)
    scale = max(1.0, float(np.max(np.abs(want))))
    e = np.abs(got - want)
    return float("inf") if np.isnan(e).any() else float(np.max(e)) / scale


class Check:
    def __init__(self, tolerance):
        self.tolerance, self.wrong = tolerance, []

    def close(self, what, got, want):
        try:
            e = error(got, want)
        except Wrong as w:
            self.wrong.append("%s: %s" % (what, w))
            return
        if not e <= self.tolerance:
            self.wrong.append("%s is off by %.3g" % (what, e))

    def took_no_part(self, what, want):
        if want.size and np.max(np.abs(want)) > 0:
            self.wrong.append("%s is missing" % what)


def edges_of(spec, t):
    """[2, E]: sources and targets."""
    if spec.edges == ["index"]:
        return np.stack([np.arange(spec.n_src), t["in.index"]])
    if not spec.edges:
        return np.zeros([2, 0], np.int64)
    edges = np.concatenate([t["in." + name] for name in spec.edges], axis=1)
    return edges[::-1] if spec.against else edges


def inputs_of(spec, t):
    """The model's inputs by its own names."""
    inputs = {**spec.flags, **{name: t["in." + of] for name, of in spec.inputs.items() if of}}
    if "positive" in spec.inputs:
        inputs["positive"] = np.concatenate([np.full(t["in." + n].shape[1], i == 0) for i, n in enumerate(spec.edges)])
    return inputs


def edge_ids(t, looped):
    """The edges that attention weights belong to: a node's own loops removed and one per node behind all others, or as given."""
    edges = t["in.edge_index"]
    if not looped:
        return edges
    loops = np.arange(min(t[name].shape[0] for name in ("in.x", "in.x.0", "in.x.1") if name in t))
    return np.concatenate([edges[:, edges[0] != edges[1]], np.stack([loops, loops])], axis=1)


def kept_order(t):
    """Where the rows of PyG's edges are among ours if loops are kept: PyG moves them behind the others, one for each node; ours
    stay in their places, the last of several, and new ones follow."""
    src, dst = t["in.edge_index"]
    n = t["in.x"].shape[0]
    last = np.full(n, -1)
    last[dst[src == dst]] = np.flatnonzero(src == dst)
    stays = (src != dst) | (np.arange(len(src)) == last[dst])
    at = np.cumsum(stays) - 1
    new = stays.sum() + np.cumsum(last < 0) - 1
    return np.concatenate([at[src != dst], np.where(last >= 0, at[last], new) if len(src) else new])


def our_name(spec, name):
    """The parameter that PyG's state_dict has under this name."""
    for of, ours in spec.renamed.items():
        name = name.replace(of, ours)
    return spec.prefix + name


def load_params(lib, spec, t):
    """Sets the parameters; returns the element order of the library's layout by name."""
    stored = {our_name(spec, k[len("param."):]): v for k, v in t.items() if k.startswith("param.")}
    known = [p.name.decode() for p in lib.params]
    missing = [name for name in known if name not in stored]
    if missing:
        raise Wrong("the model has a parameter `%s` that PyG's state_dict has not" % missing[0])
    layouts = lib.layouts({name: stored[name].shape for name in known})
    lib.load({name: stored[name] for name in known})
    return layouts


def compare_outputs(check, spec, t, results):
    used = None if spec.used is None else results[spec.used].reshape(-1) > 0
    want = sorted((k for k in t if k.startswith("out.")), key=lambda k: int(k[4:]))
    for i, name in enumerate(want):
        part = spec.outputs[i] if i < len(spec.outputs) else None
        if isinstance(part, str):
            if not np.array_equal(edge_ids(t, part == "looped"), t[name]):
                check.wrong.append("%s: other ids" % name)
        elif isinstance(part, Places):
            check.close(name, np.stack(np.nonzero(results[part.of])[::-1]), t[name])
        elif isinstance(part, Entries):
            check.close(name, results[part.values][np.nonzero(results[part.of])], t[name])
        elif isinstance(part, tuple):  # edges by two results, where both ends stayed
            ends = np.stack([results[k] for k in part])
            ends = ends[:, ends[0] >= 0].astype(np.int64)
            check.close(name, ends if used is None else (np.cumsum(used) - 1)[ends], t[name])
        elif part is None or part >= len(results):
            check.wrong.append("%s is missing" % name)
        else:
            rows = kept_order(t) if part in spec.kept else ... if used is None else used
            check.close(name, results[part][rows], t[name])


def compare_buffers(check, spec, t, lib, results):
    """What buffers hold after the call. The number of calls is not kept."""
    ours = {info.name.decode(): r for info, r in zip(lib.results, results)}
    for key in (k for k in t if k.startswith("after.") and not k.endswith("num_batches_tracked")):
        name = "after." + spec.prefix + key[len("after."):]
        if name in ours:
            check.close(key, ours[name], t[key])
        else:  # a buffer that no step changes
            check.close(key, t["param." + key[len("after."):]], t[key])


def cotangents_of(spec, t, results):
    """Of each result, 0 where no output has its rows or entries."""
    cots = [None] * len(results)
    for i, part in enumerate(spec.outputs):
        entries = isinstance(part, Entries)
        k = part.values if entries else part
        if "cot.%d" % i not in t or not isinstance(k, int) or k >= len(results):
            continue
        at = ... if spec.used is None else results[spec.used].reshape(-1) > 0
        at = np.nonzero(results[part.of]) if entries else kept_order(t) if k in spec.kept else at
        cots[k] = np.zeros(results[k].shape)
        cots[k][at] = t["cot.%d" % i].reshape(cots[k][at].shape)
    return cots


def compare_gradients(check, spec, t, gradients, layouts):
    bare = {name[5:] if name.startswith("grad.") else name: g for name, g in gradients.items()}
    ours = {of: name for name, of in spec.inputs.items() if of}
    for key in (k for k in t if k.startswith("grad.in.")):
        name = ours.get(key[len("grad.in."):])
        if name in bare:
            check.close(key, bare[name], t[key])
        else:
            check.took_no_part(key, t[key])
    for key in (k for k in t if k.startswith("grad.param.")):
        name = our_name(spec, key[len("grad.param."):])
        if name not in bare:
            check.took_no_part(key, t[key])
            continue
        stored = np.empty(bare[name].size)
        stored[layouts[name]] = bare[name].reshape(-1)
        check.close(key, stored, t[key])


def compute(lib, spec, t):
    """Results, gradients by name, and the parameters' layouts."""
    layouts = load_params(lib, spec, t)
    graph_of = t["in.batch"] if spec.per_graph else None
    n_graphs = max(spec.n_graphs, int(graph_of.max()) + 1 if graph_of is not None and len(graph_of) else 1)
    src, dst = edges_of(spec, t)
    lists = {name: np.concatenate([t["in." + of] for of in spec.joined.get(name, [name])], axis=1) for name in spec.lists}
    lib.on_graph(spec.n_src, spec.n_dst, src, dst, n_graphs, graph_of, lists, spec.counts)
    inputs = inputs_of(spec, t)
    results = lib.forward(inputs)
    return results, lib.vjp(inputs, cotangents_of(spec, t, results)), layouts


def run(so, spec, path, dtype):
    """Compares one case in one float type. The kernels for any CPU and for this one must agree in every bit."""
    t = tensors.read(path)
    lib = library.Library(so, "m", FLOAT[dtype])
    results, gradients, layouts = compute(lib, spec, t)
    check = Check(TOLERANCE[dtype])
    compare_outputs(check, spec, t, results)
    compare_buffers(check, spec, t, lib, results)
    compare_gradients(check, spec, t, gradients, layouts)
    plain, plain_gradients, _ = compute(library.Library(so, "m", FLOAT[dtype], library.GENERIC_CPU), spec, t)
    pairs = list(zip(results, plain)) + [(gradients[name], plain_gradients[name]) for name in gradients]
    if any(a.tobytes() != b.tobytes() for a, b in pairs):
        check.wrong.append("generic kernels give other bits")
    if check.wrong:
        raise Wrong("%s: %s" % (dtype, "; ".join(check.wrong)))
