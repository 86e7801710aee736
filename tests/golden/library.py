"""The library form of a compiled model through ctypes (runtime/gnnrt.h). One object is one model on one graph.

Arrays go in and out with rows first, in the caller's order. Parameters come in the layout of weight files; where the
library speaks its own layout (gradients) the order of elements is found by loading a file of consecutive numbers.
"""
import ctypes as C
import tempfile

import numpy as np

import levels
import tensors

DTYPES = [np.float32, np.float64, np.int32, np.int64, np.bool_]
MAX_DIMS = 6
GENERIC_CPU = 0


class Status(C.Structure):
    _fields_ = [("code", C.c_int32), ("message", C.c_char * 1056)]


class TensorInfo(C.Structure):
    _fields_ = [("name", C.c_char_p), ("space", C.c_char_p), ("space_index", C.c_int32), ("dtype", C.c_int32),
                ("n_dims", C.c_int32), ("dims", C.c_int64 * MAX_DIMS), ("width", C.c_int64)]


class EdgeList(C.Structure):
    _fields_ = [("name", C.c_char_p), ("n_edges", C.c_int64), ("src", C.c_void_p), ("dst", C.c_void_p)]


class RowCount(C.Structure):
    _fields_ = [("space", C.c_char_p), ("n", C.c_int64), ("graph_of", C.c_void_p)]


class GraphInput(C.Structure):
    _fields_ = [("name", C.c_char_p), ("data", C.c_void_p)]


class GraphDesc(C.Structure):
    _fields_ = [("n_src", C.c_int64), ("n_dst", C.c_int64), ("n_edges", C.c_int64), ("src", C.c_void_p), ("dst", C.c_void_p),
                ("n_graphs", C.c_int64), ("graph_of", C.c_void_p), ("n_lists", C.c_int64), ("lists", C.c_void_p),
                ("n_counts", C.c_int64), ("counts", C.c_void_p), ("n_inputs", C.c_int64), ("inputs", C.c_void_p)]


class Failed(Exception):
    """A call of the library returned a code; the text is its message."""


def address(array):
    return array.ctypes.data_as(C.c_void_p)


def pointers(arrays):
    return (C.c_void_p * max(len(arrays), 1))(*[None if a is None else address(a) for a in arrays])


class Library:
    """A loaded .so whose symbols begin with `prefix`; floats are of `float_type`; `cpu` chooses the kernels (the best that GNNC_CPU allows)."""

    def __init__(self, path, prefix, float_type, cpu=None):
        self.lib = C.CDLL(path)
        self.prefix, self.float_type = prefix, np.dtype(float_type)
        self.function("tables").restype = C.c_void_p
        for name in ("input", "param", "result", "gradient"):
            self.function(name).restype = TensorInfo
        self.function("graph_count").restype = C.c_int64
        self.model, self.graph, self.context = C.c_void_p(), C.c_void_p(), C.c_void_p()
        self.call("model_create", C.c_void_p(self.function("tables")()), C.c_int64(0), C.c_int32(levels.library_cpu() if cpu is None else cpu),
                  C.byref(self.model))
        self.inputs, self.params = self.infos("input"), self.infos("param")
        self.results, self.gradients = self.infos("result"), self.infos("gradient")

    def close(self):
        """Frees all that the library allocated: contexts of large graphs take gigabytes."""
        for name in ("context", "graph", "model"):
            free = self.function(name + "_free")
            free.restype = None
            free(getattr(self, name))
            setattr(self, name, C.c_void_p())

    def function(self, name):
        return getattr(self.lib, "%s_%s" % (self.prefix, name))

    def call(self, name, *args):
        status = Status()
        if self.function(name)(*args, C.byref(status)) != 0:
            raise Failed("%s: %s" % (name, status.message.decode()))

    def infos(self, kind):
        n = self.function("n_" + kind + "s")(self.model)
        return [self.function(kind)(self.model, C.c_int32(i)) for i in range(n)]

    # ---- parameters ----

    def load(self, stored):
        """Sets the parameters from a weight file with the tensors `stored`."""
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as f:
            f.write(tensors.pack({k: np.array(v, self.float_type, order="C") for k, v in stored.items()}))
            f.flush()
            self.call("model_load", self.model, f.name.encode())

    def param(self, i):
        out = np.empty(max(self.params[i].width, 1), self.float_type)
        self.call("param_get", self.model, C.c_int32(i), address(out))
        return out[:self.params[i].width]

    def layouts(self, shapes):
        """For each parameter: the file's element that stands at each place of the library's own layout."""
        self.load({name: np.arange(int(np.prod(shape))).reshape(shape) for name, shape in shapes.items()})
        return {p.name.decode(): self.param(i).astype(np.int64) for i, p in enumerate(self.params)}

    # ---- one graph ----

    def on_graph(self, n_src, n_dst, src, dst, n_graphs, graph_of, lists=None, counts=None, inputs=None):
        """`lists`: further lists of edges, [2, n] or a column's [n] by name; `counts`: nodes of each type; `inputs`: arrays by name."""
        lists, counts, inputs = lists or {}, counts or {}, inputs or {}
        known = (GraphInput * max(len(inputs), 1))(*[GraphInput(name.encode(), address(a)) for name, a in inputs.items()])
        rows = (RowCount * max(len(counts), 1))(*[RowCount(name.encode(), n) for name, n in counts.items()])
        ends = [np.array(pairs, np.int64) for pairs in lists.values()]
        more = (EdgeList * max(len(ends), 1))(*[EdgeList(name.encode(), e.shape[-1], None if e.ndim == 1 else address(e[0]), address(e[-1] if e.ndim > 1 else e))
                                                for name, e in zip(lists, ends)])
        src, dst = np.array(src, np.int64), np.array(dst, np.int64)
        graph_of = None if graph_of is None else np.array(graph_of, np.int64)
        desc = GraphDesc(n_src, n_dst, len(src), address(src), address(dst), n_graphs,
                         None if graph_of is None else address(graph_of), len(ends), C.cast(more, C.c_void_p),
                         len(counts), C.cast(rows, C.c_void_p), len(inputs), C.cast(known, C.c_void_p))
        self.graph, self.context = C.c_void_p(), C.c_void_p()
        self.call("graph_create", self.model, C.byref(desc), C.byref(self.graph))
        self.call("context_create", self.model, self.graph, C.c_int32(1), None, C.c_size_t(0), C.byref(self.context))

    def shape(self, info):
        dims = list(info.dims[:info.n_dims])
        rows = [] if info.space == b"unit" else [self.function("graph_count")(self.graph, C.c_int32(info.space_index))]
        return rows + dims

    def fit(self, info, array, what):
        """The array as the library wants it: a copy, so that it is aligned."""
        want = self.shape(info)
        if int(np.prod(want)) != array.size:
            raise Failed("%s has shape %s, the model wants %s" % (what, list(array.shape), want))
        return np.array(array, DTYPES[info.dtype], order="C")

    def fit_all(self, inputs):
        return [self.fit(i, inputs[i.name.decode()], i.name.decode()) for i in self.inputs]

    def room(self, infos):
        return [np.full(self.shape(i), 77, DTYPES[i.dtype]) for i in infos]

    def forward(self, inputs):
        """Inputs by name -> results in order, each in its own shape."""
        given, out = self.fit_all(inputs), self.room(self.results)
        self.call("forward", self.context, pointers(given), pointers(out))
        return out

    def vjp(self, inputs, cotangents):
        """Gradients by name, in the library's own layout; cotangents in the order of results, zero where None."""
        given, out = self.fit_all(inputs), self.room(self.gradients)
        cots = [self.fit(r, np.zeros(self.shape(r)) if c is None else c, "cotangent") if r.dtype <= 1 else None
                for r, c in zip(self.results, cotangents)]
        self.call("vjp", self.context, pointers(given), pointers(cots), pointers(out))
        return {g.name.decode(): o for g, o in zip(self.gradients, out)}
