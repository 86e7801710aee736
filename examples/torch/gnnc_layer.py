"""A layer compiled by gnnc as a torch.nn.Module: kernels are the library's, parameters and the optimizer torch's. `gnnc build
FILE.gnn --emit=lib --export=LAYER --prefix=NAME -o libNAME` makes the libNAME.so that this loads."""
import ctypes as C
from concurrent.futures import ThreadPoolExecutor

import torch

DTYPES = [torch.float32, torch.float64, torch.int32, torch.int64, torch.bool]
PARALLEL_FOR = C.CFUNCTYPE(None, C.c_void_p, C.c_int64, C.CFUNCTYPE(None, C.c_void_p, C.c_int64), C.c_void_p)
struct = lambda what, **fields: type(what, (C.Structure,), {"_fields_": list(fields.items())})
Status = struct("Status", code=C.c_int32, message=C.c_char * 1056)
Info = struct("Info", name=C.c_char_p, space=C.c_char_p, space_index=C.c_int32, dtype=C.c_int32, n_dims=C.c_int32, dims=C.c_int64 * 6,
              width=C.c_int64)
Desc = struct("Desc", n_src=C.c_int64, n_dst=C.c_int64, n_edges=C.c_int64, src=C.c_void_p, dst=C.c_void_p, n_graphs=C.c_int64,
              graph_of=C.c_void_p, n_lists=C.c_int64, lists=C.c_void_p, n_counts=C.c_int64, counts=C.c_void_p, n_inputs=C.c_int64, inputs=C.c_void_p)


class Compiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, layer, *tensors):
        ctx.layer = layer
        ctx.save_for_backward(*tensors)
        return layer.run("forward", tensors, [], layer.results)[0]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, cotangent):
        found = dict(zip(ctx.layer.gradients, ctx.layer.run("vjp", ctx.saved_tensors, [cotangent], ctx.layer.gradients)))
        return (None, *(found.get("grad." + name) for name in [*ctx.layer.inputs, *ctx.layer.params]))


class GnncLayer(torch.nn.Module):
    """layer(*inputs) -> its result; inputs in the order of the layer's signature, edge inputs in that of edge_index. device: "cuda", "cuda:1",
    for a library that was built with --target cuda; tensors are on that device then."""

    def __init__(self, path, prefix, n_nodes, edge_index, seed=0, threads=torch.get_num_threads(), device="cpu"):
        super().__init__()
        self.lib, self.prefix, self.status, self.pool = C.CDLL(path), prefix, Status(), ThreadPoolExecutor(threads)
        self.model, self.graph, self.context = C.c_void_p(), C.c_void_p(), C.c_void_p()
        self.f("tables").restype, self.f("graph_count").restype = C.c_void_p, C.c_int64
        self.call("model_create", C.c_void_p(self.f("tables")()), C.c_int64(seed), C.c_int32(-1), C.byref(self.model))
        self.device, self.stream, self.order = torch.device(device), None, None
        src, dst = (ids.long().cpu().contiguous() for ids in edge_index)
        if self.device.type == "cuda":  # where edges stand in the order of their targets
            order = torch.argsort(dst, stable=True)
            src, dst, self.order = src[order], dst[order], order.to(self.device)
        desc = Desc(n_nodes, n_nodes, len(src), src.data_ptr(), dst.data_ptr())
        self.call("graph_create", self.model, C.byref(desc), C.byref(self.graph))
        if self.order is not None:
            self.call("context_cuda", self.model, self.graph, C.c_int32(1), C.c_int32(self.device.index or 0), None, C.byref(self.context))
        else:
            self.call("context_create", self.model, self.graph, C.c_int32(1), None, C.c_size_t(0), C.byref(self.context))
            self.parallel = PARALLEL_FOR(lambda _, n, task, arg: list(self.pool.map(lambda i: task(arg, i), range(n))) and None)
            self.call("context_set_parallel", self.context, self.parallel, None, C.c_int32(threads))
        self.inputs, self.params, self.results, self.gradients = map(self.infos, ("input", "param", "result", "gradient"))
        for i, (name, value) in enumerate(zip(self.params, self.room(self.params, "cpu"))):
            self.call("param_read", self.model, self.graph, C.c_int32(i), None, C.c_void_p(value.data_ptr()))
            self.register_parameter(name.replace(".", "_") + "_" * hasattr(self, name), torch.nn.Parameter(value.to(self.device)))  # `f` is taken

    def f(self, name):
        return getattr(self.lib, f"{self.prefix}_{name}")

    def call(self, name, *args):
        if self.f(name)(*args, C.byref(self.status)):
            raise RuntimeError(self.status.message.decode())

    def infos(self, kind):
        self.f(kind).restype, n = Info, self.f(f"n_{kind}s")(self.model)
        return {i.name.decode(): i for i in (self.f(kind)(self.model, C.c_int32(k)) for k in range(n))}

    def room(self, infos, device):
        rows = lambda i: [] if i.space == b"unit" else [self.f("graph_count")(self.graph, C.c_int32(i.space_index))]
        return [torch.empty(rows(i) + list(i.dims[:i.n_dims]), dtype=DTYPES[i.dtype], device=device) for i in infos.values()]

    def by_target(self, tensors, infos, back=False):
        """Those of edges in the order of their targets, or back in that of edge_index, where a device wants it. infos: of each."""
        moved = lambda t: torch.empty_like(t).index_copy_(0, self.order, t) if back else t.index_select(0, self.order)
        return [moved(t) if self.order is not None and i.space == b"edge" else t for t, i in zip(tensors, infos)]

    def run(self, name, tensors, cotangents, out):
        """forward or vjp; `tensors` are the inputs, then the parameters, which the library reads where torch has them."""
        ready = lambda t: t.detach().contiguous() if t.data_ptr() % 16 == 0 else t.detach().clone(memory_format=torch.contiguous_format)
        pack = lambda ts: (C.c_void_p * (len(ts) + 1))(*[t.data_ptr() for t in ts])
        if self.order is not None and self.stream != (stream := torch.cuda.current_stream(self.device).cuda_stream):
            self.call("context_set_stream", self.context, C.c_void_p(stream))
            self.stream = stream
        n, cots = len(self.inputs), [ready(t) for t in self.by_target(cotangents, self.results.values())]
        given, made = [ready(t) for t in self.by_target(tensors, [*self.inputs.values(), *self.params.values()])], self.room(out, self.device)
        for k, t in enumerate(given[n:]):
            self.call("context_bind_param", self.context, C.c_int32(k), C.c_void_p(t.data_ptr()))
        self.call(name, self.context, pack(given[:n]), *([pack(cots)] if cots else []), pack(made))
        return self.by_target(made, out.values(), back=True)

    def forward(self, *inputs):
        return Compiled.apply(self, *inputs, *self.parameters())
