/* A driver whose device is this CPU (see cuda.h): what tests run the emitted CUDA text with. Its memory is not the
   host's, so that a copy that was forgotten shows. Work of streams is done as late as it may be, when somebody waits
   for it, and where streams leave the order open, in one that changes each time, so that a wait that was forgotten
   shows. One device, and one model at a time. */
#include "runtime/available.h"
#include "runtime/cuda.h"
#include "runtime/memory.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_FOUND = 500 }; /* as in the driver's header */
enum { NOT_IN_CAPTURE = 900, NOT_JOINED = 904, OTHER_CAPTURE = 905, WRONG_STREAM = 908 };
enum { MULTIPROCESSORS = 16, THREADS = 39 /* of each */ };
enum { VERSION = 13000, MAJOR = 75, MINOR = 76, CONCURRENT = 89, SHARED = 97 };
enum { GLOBAL = 1, PREFER = 3, ACCESSED_BY = 5, ON_HOST = -1 }; /* of memory that host and device have */
enum { MEMORY_TYPE = 2, DEVICE_ORDINAL = 9, ON_DEVICE = 2 };
enum { MOST_THREADS = 1024, SHARED_UNASKED = 48 << 10, DYNAMIC_SHARED = 8 };

/* A piece of work: a launch, a copy, a graph that is replayed, or none of these: a place that others wait for. */
typedef struct Work {
    int64_t behind[2];            /* work of its list that comes before; -1: none */
    const RtDeviceKernel *kernel; /* of a launch */
    unsigned grid, block, shared_bytes;
    int64_t *params, n_params; /* [n_params] */
    void *to;                  /* of a copy */
    const void *from;          /* NULL: `word` */
    size_t bytes;
    unsigned word;
    struct Graph *graph;
    bool done;
} Work;

typedef struct Graph {
    Work *work; /* [n] */
    int64_t n;
} Graph;

typedef struct Stream {
    int64_t last;   /* work; -1: none */
    bool capturing; /* its work is noted in shim.noted */
    bool open;
} Stream;

/* Memory that host and device have at the same addresses. Kernels read a page over the bus where that was said, until
   it is fetched, which lasts where the device is said to be its place. */
typedef struct Managed {
    RtBlock *block;        /* NULL: there is none */
    uint8_t *read, *there; /* [n_pages] over the bus; whose place is the device */
    int64_t n_pages;
} Managed;

typedef struct Event {
    const Graph *list; /* NULL: what it stands for is done */
    int64_t work;
    bool open;
} Event;

enum { MOST_STREAMS = 32 /* and events, and blocks of memory */ };

static struct {
    const RtModel *model;
    int64_t *shared; /* [n_device_kernels] bytes that each may have */
    int64_t n_modules;
    void *context; /* the calling thread's */
    RtBlock memory[MOST_STREAMS];
    Managed managed;
    bool lent; /* somebody asked whose an address is: all memory of this process counts as the device's */
    Stream streams[MOST_STREAMS];
    Event events[MOST_STREAMS];
    Graph begun;  /* what streams have not done yet */
    Graph *noted; /* of a capture; NULL: there is none */
    Stream *origin;
    unsigned turn; /* of orders */
    int failed;    /* of work, told to whoever waits */
    RtCudaWatch *watch;
} shim;

/* ---- work of streams ---- */

static void free_work(Graph *g)
{
    for (int64_t i = 0; i < g->n; i++) free(g->work[i].params);
    free(g->work);
    *g = (Graph){0};
}

static int run_all(Graph *g, int64_t last);

static int run_work(Work *x)
{
    void *params[1 << 9];
    x->done = true;
    if (x->graph) return run_all(x->graph, -1);
    if (x->bytes) memmove(x->to, x->from ? x->from : &x->word, x->bytes);
    if (!x->kernel) return OK;
    assert(x->n_params <= (int64_t)(sizeof params / sizeof *params));
    for (int64_t i = 0; i < x->n_params; i++) params[i] = &x->params[i];
    const char *name = rt_string(shim.model, x->kernel->name);
    RtShimWatch *teller = rt_cuda_watch_teller(shim.watch);
    rt_cuda_watch_lanes(shim.watch, x->kernel->lanes);
    return shim.model->shim(name, params, x->grid, x->block, x->shared_bytes, teller) ? NOT_FOUND : OK;
}

static bool is_ready(const Graph *g, const Work *x)
{
    for (int k = 0; k < 2; k++)
        if (x->behind[k] >= 0 && !g->work[x->behind[k]].done) return false;
    return !x->done;
}

/* Does what has to be done for one piece of work, or for all (-1): of what is ready the oldest first, or the
   youngest. */
static int run_all(Graph *g, int64_t last)
{
    bool *wanted, youngest = shim.turn++ % 2;
    int error = rt_alloc(&wanted, g->n, sizeof *wanted, "the shim", NULL) ? OUT_OF_MEMORY : OK;
    for (int64_t i = g->n - 1; i >= 0 && !error; i--) {
        if (last < 0 || i == last) wanted[i] = true;
        for (int k = 0; k < 2; k++)
            if (wanted[i] && g->work[i].behind[k] >= 0) wanted[g->work[i].behind[k]] = true;
    }
    for (bool more = true; more && !error;) {
        int64_t next = -1;
        for (int64_t i = 0; i < g->n && (youngest || next < 0); i++)
            if (wanted[i] && is_ready(g, &g->work[i])) next = i;
        more = next >= 0;
        if (more) error = run_work(&g->work[next]);
    }
    for (int64_t i = 0; i < g->n && g != &shim.begun; i++) g->work[i].done = false; /* a graph may be replayed */
    free(wanted);
    return error;
}

/* Does what was begun on one stream, with all that comes before, or on all (NULL). */
static int finish(const Stream *s)
{
    bool done = true;
    if (shim.noted) return NOT_IN_CAPTURE;
    if (!shim.failed && (!s || s->last >= 0)) shim.failed = run_all(&shim.begun, s ? s->last : -1);
    for (int64_t i = 0; i < shim.begun.n; i++) done &= shim.begun.work[i].done;
    if (!done && !shim.failed) return OK;
    free_work(&shim.begun);
    for (int i = 0; i < MOST_STREAMS; i++) {
        shim.streams[i].last = -1;
        if (shim.events[i].list == &shim.begun) shim.events[i].list = NULL;
    }
    return shim.failed;
}

static Stream *stream_of(void *stream)
{
    Stream *s = stream ? stream : &shim.streams[0]; /* the default one */
    if (!shim.streams[0].open) shim.streams[0] = (Stream){.last = -1, .open = true};
    return s >= shim.streams && s < shim.streams + MOST_STREAMS && s->open ? s : NULL;
}

static Graph *list_of(const Stream *s) { return s->capturing ? shim.noted : &shim.begun; }

/* Puts work behind what the stream has, and behind other work of its list (-1: none). Takes x.params. */
static int add_work(Stream *s, Work x, int64_t behind)
{
    Graph *g = list_of(s);
    x.behind[0] = s->last;
    x.behind[1] = behind;
    if (rt_grow(&g->work, g->n + 1, sizeof *g->work, "the shim", NULL)) {
        free(x.params);
        return OUT_OF_MEMORY;
    }
    s->last = g->n;
    g->work[g->n++] = x;
    return OK;
}

static int init(unsigned flags) { return flags ? INVALID_VALUE : OK; }

static int version(int *v)
{
    *v = VERSION;
    return OK;
}

static int device_count(int *n)
{
    *n = 1;
    return OK;
}

static int device_get(int *device, int ordinal)
{
    *device = ordinal;
    return ordinal ? INVALID_VALUE : OK;
}

static int device_name(char *name, int size, int device)
{
    snprintf(name, (size_t)size, "shim");
    return device ? INVALID_VALUE : OK;
}

static int device_attribute(int *value, int attribute, int device)
{
    *value = attribute == MAJOR             ? 9
             : attribute == MINOR           ? 0
             : attribute == CONCURRENT      ? 1
             : attribute == SHARED          ? RT_CUDA_SHARED
             : attribute == MULTIPROCESSORS ? 2
             : attribute == THREADS         ? 2048
                                            : -1;
    return device || *value < 0 ? INVALID_VALUE : OK;
}

static int context_retain(void **context, int device)
{
    *context = &shim;
    shim.failed = OK;
    return device ? INVALID_VALUE : OK;
}

static int context_release(int device) { return device ? INVALID_VALUE : OK; }

static int context_set(void *context)
{
    shim.context = context;
    return !context || context == &shim ? OK : INVALID_VALUE;
}

static int context_get(void **context)
{
    *context = shim.context;
    return OK;
}

static int memory_info(size_t *left, size_t *total)
{
    *left = *total = (size_t)rt_available();
    return OK;
}

/* As on a card, nothing is 0 that nobody has written: a number is huge, and an index leads far away. */
static int memory_take(RtCudaPtr *p, size_t bytes)
{
    int i = 0;
    while (i < MOST_STREAMS && shim.memory[i].p) i++;
    if (i == MOST_STREAMS || rt_block_alloc(&shim.memory[i], (int64_t)bytes, "the memory of the shim", NULL))
        return OUT_OF_MEMORY;
    memset(shim.memory[i].p, 0x7f, bytes);
    *p = (RtCudaPtr)(uintptr_t)shim.memory[i].p;
    return OK;
}

static void free_managed(void)
{
    rt_cuda_watch_host(shim.watch, 0, 0, NULL);
    free(shim.managed.read);
    free(shim.managed.there);
    shim.managed = (Managed){0};
}

/* One piece at a time. */
static int take_managed(RtCudaPtr *p, size_t bytes, unsigned flags)
{
    Managed *x = &shim.managed;
    if (x->block || flags != GLOBAL || !bytes || bytes % RT_CUDA_PAGE) return INVALID_VALUE;
    int error = memory_take(p, bytes);
    for (int i = 0; i < MOST_STREAMS && !error; i++)
        if ((RtCudaPtr)(uintptr_t)shim.memory[i].p == *p) x->block = &shim.memory[i];
    x->n_pages = (int64_t)bytes / RT_CUDA_PAGE;
    if (error || rt_alloc(&x->read, x->n_pages, 1, "the shim", NULL)) return OUT_OF_MEMORY;
    if (rt_alloc(&x->there, x->n_pages, 1, "the shim", NULL)) return OUT_OF_MEMORY;
    rt_cuda_watch_host(shim.watch, *p, (int64_t)bytes, x->read);
    return OK;
}

/* The first page of a range; -1: it is no range of pages of that memory. */
static int64_t first_page(RtCudaPtr p, size_t bytes)
{
    const Managed *x = &shim.managed;
    RtCudaPtr at = x->block ? (RtCudaPtr)(uintptr_t)x->block->p : 0;
    assert(!x->block || x->n_pages * RT_CUDA_PAGE == (int64_t)x->block->bytes);
    bool whole = at && p >= at && (p - at) % RT_CUDA_PAGE == 0 && bytes && bytes % RT_CUDA_PAGE == 0;
    return whole && p - at + bytes <= x->block->bytes ? (int64_t)(p - at) / RT_CUDA_PAGE : -1;
}

static int advise(RtCudaPtr p, size_t bytes, int advice, int device)
{
    int64_t first = first_page(p, bytes), n = (int64_t)bytes / RT_CUDA_PAGE;
    bool to_host = advice == PREFER && device == ON_HOST, to_device = advice == PREFER && !device;
    bool over_bus = advice == ACCESSED_BY && !device;
    if (first < 0 || (!to_host && !to_device && !over_bus)) return INVALID_VALUE;
    memset((over_bus ? shim.managed.read : shim.managed.there) + first, !to_host, (size_t)n);
    return OK;
}

static int prefetch(RtCudaPtr p, size_t bytes, int device, void *stream)
{
    int64_t first = first_page(p, bytes), n = (int64_t)bytes / RT_CUDA_PAGE;
    if (first < 0 || device || !stream_of(stream)) return INVALID_VALUE;
    for (int64_t i = first; i < first + n; i++)
        if (shim.managed.there[i]) shim.managed.read[i] = 0;
    return OK;
}

static int memory_free(RtCudaPtr p)
{
    for (int i = 0; i < MOST_STREAMS; i++) {
        if (!p || p != (RtCudaPtr)(uintptr_t)shim.memory[i].p) continue;
        finish(NULL);
        if (shim.managed.block == &shim.memory[i]) free_managed();
        rt_block_free(&shim.memory[i]);
        return OK;
    }
    return INVALID_VALUE;
}

static int pointer(void *value, int attribute, RtCudaPtr p)
{
    shim.lent = true;
    if (!p || (attribute != MEMORY_TYPE && attribute != DEVICE_ORDINAL)) return INVALID_VALUE;
    *(int *)value = attribute == MEMORY_TYPE ? ON_DEVICE : 0;
    return OK;
}

/* Where so many bytes of the device's memory lie here; NULL: they are not all in it. */
static void *inside(RtCudaPtr p, size_t bytes)
{
    for (int i = 0; i < MOST_STREAMS; i++) {
        const RtBlock *b = &shim.memory[i];
        RtCudaPtr first = (RtCudaPtr)(uintptr_t)b->p;
        if (!first || p < first || p - first >= b->bytes) continue;
        return bytes <= b->bytes - (p - first) ? (char *)b->p + (p - first) : NULL;
    }
    return shim.lent ? (void *)(uintptr_t)p : NULL;
}

/* Those that know no stream wait for all. */
static int memory_fill(RtCudaPtr p, unsigned char value, size_t bytes)
{
    void *at = inside(p, bytes);
    int error = finish(NULL);
    if (at && !error) memset(at, value, bytes);
    return at ? error : INVALID_VALUE;
}

static int to_device(RtCudaPtr to, const void *from, size_t bytes)
{
    void *at = inside(to, bytes);
    int error = finish(NULL);
    if (at && !error) memcpy(at, from, bytes);
    return at ? error : INVALID_VALUE;
}

static int to_host(void *to, RtCudaPtr from, size_t bytes)
{
    const void *at = inside(from, bytes);
    int error = finish(NULL);
    if (at && !error) memcpy(to, at, bytes);
    return at ? error : INVALID_VALUE;
}

static int copy(void *to, const void *from, size_t bytes, void *stream)
{
    Stream *s = stream_of(stream);
    return to && from && s ? add_work(s, (Work){.to = to, .from = from, .bytes = bytes}, -1) : INVALID_VALUE;
}

static int say_words(RtCudaPtr p, unsigned word, size_t n, void *stream)
{
    Stream *s = stream_of(stream);
    void *to = inside(p, sizeof word);
    return to && s && n == 1 ? add_work(s, (Work){.to = to, .word = word, .bytes = sizeof word}, -1) : INVALID_VALUE;
}

static int to_host_later(void *to, RtCudaPtr from, size_t bytes, void *stream)
{
    return copy(to, inside(from, bytes), bytes, stream);
}

static int move(RtCudaPtr to, RtCudaPtr from, size_t bytes, void *stream)
{
    return copy(inside(to, bytes), inside(from, bytes), bytes, stream);
}

static int host_take(void **p, size_t bytes)
{
    return rt_alloc(p, (int64_t)bytes, 1, "the shim", NULL) ? OUT_OF_MEMORY : OK;
}

static int host_free(void *p)
{
    int error = finish(NULL);
    free(p);
    return error;
}

static int module_load(void **module, const void *image)
{
    if (shim.n_modules && shim.model != image) return INVALID_VALUE;
    shim.model = image; /* the model: its kernels are linked in */
    *module = &shim;
    if (shim.n_modules++) return OK;
    if (!(shim.watch = rt_cuda_watch_create())) return OUT_OF_MEMORY;
    bool none = rt_alloc(&shim.shared, shim.model->n_device_kernels, sizeof *shim.shared, "the shim", NULL);
    return none ? OUT_OF_MEMORY : OK;
}

static int module_free(void *module)
{
    if (module != &shim || --shim.n_modules) return module == &shim ? OK : INVALID_VALUE;
    free(shim.shared);
    rt_cuda_watch_free(shim.watch);
    shim.shared = NULL, shim.watch = NULL;
    return OK;
}

static int function(void **f, void *module, const char *name)
{
    const RtModel *m = shim.model;
    for (int64_t i = 0; module == &shim && i < m->n_device_kernels; i++)
        if (!strcmp(name, rt_string(m, m->device_kernels[i].name))) {
            *f = &shim.shared[i];
            if (!shim.shared[i]) shim.shared[i] = SHARED_UNASKED;
            return OK;
        }
    return NOT_FOUND;
}

static int function_attribute(void *f, int attribute, int value)
{
    if (attribute != DYNAMIC_SHARED || value > RT_CUDA_SHARED) return INVALID_VALUE;
    *(int64_t *)f = value;
    return OK;
}

static int stream_make(void **stream, unsigned flags)
{
    int i = 1;
    while (i < MOST_STREAMS && shim.streams[i].open) i++;
    if (i == MOST_STREAMS || flags) return INVALID_VALUE;
    shim.streams[i] = (Stream){.last = -1, .open = true};
    *stream = &shim.streams[i];
    return OK;
}

static int stream_wait(void *stream)
{
    const Stream *s = stream_of(stream);
    return s ? finish(s) : INVALID_VALUE;
}

static int stream_free(void *stream)
{
    Stream *s = stream ? stream_of(stream) : NULL;
    int error = s ? finish(NULL) : INVALID_VALUE;
    if (s) s->open = false;
    return error;
}

static int event_make(void **event, unsigned flags)
{
    int i = 0;
    while (i < MOST_STREAMS && shim.events[i].open) i++;
    if (i == MOST_STREAMS || flags & ~2u) return INVALID_VALUE;
    shim.events[i] = (Event){.open = true};
    *event = &shim.events[i];
    return OK;
}

static int event_free(void *event)
{
    ((Event *)event)->open = false;
    return OK;
}

static int event_note(void *event, void *stream)
{
    const Stream *s = stream_of(stream);
    Event *e = event;
    if (!s || !e->open) return INVALID_VALUE;
    e->work = s->last;
    e->list = s->last < 0 ? NULL : list_of(s);
    return OK;
}

static int event_query(void *event)
{
    const Event *e = event;
    return e->open ? finish(NULL) : INVALID_VALUE;
}

/* A stream that follows an event of a capture takes part in it. */
static int stream_follow(void *stream, void *event, unsigned flags)
{
    Stream *s = stream_of(stream);
    const Event *e = event;
    if (!s || !e->open || flags) return INVALID_VALUE;
    if (!e->list) return OK;
    if (e->list == shim.noted && !s->capturing) *s = (Stream){.last = -1, .capturing = true, .open = true};
    return e->list == list_of(s) ? add_work(s, (Work){0}, e->work) : OTHER_CAPTURE;
}

static int capture_begin(void *stream, int mode)
{
    Stream *s = stream_of(stream);
    if (!s || mode < 0 || mode > 2) return INVALID_VALUE;
    if (s == shim.streams) return NOT_IN_CAPTURE; /* nor is the default stream captured */
    if (shim.noted) return NOT_IN_CAPTURE;
    int error = finish(NULL);
    if (error || rt_alloc(&shim.noted, 1, sizeof *shim.noted, "the shim", NULL)) return error ? error : OUT_OF_MEMORY;
    s->capturing = true;
    shim.origin = s;
    return add_work(s, (Work){0}, -1); /* so that events have a place from the beginning */
}

/* Whether all that was noted comes before the last work of the stream. */
static bool is_joined(const Graph *g, int64_t last)
{
    bool all = true, *before;
    if (rt_alloc(&before, g->n, sizeof *before, "the shim", NULL)) return false;
    for (int64_t i = g->n - 1; i >= 0; i--) {
        before[i] |= i == last;
        all &= before[i];
        for (int k = 0; k < 2; k++)
            if (before[i] && g->work[i].behind[k] >= 0) before[g->work[i].behind[k]] = true;
    }
    free(before);
    return all;
}

static int capture_end(void *stream, void **graph)
{
    Stream *s = stream_of(stream);
    Graph *g = shim.noted;
    *graph = NULL;
    if (!s || !g || s != shim.origin) return WRONG_STREAM;
    bool joined = is_joined(g, s->last);
    for (int i = 0; i < MOST_STREAMS; i++) {
        if (shim.streams[i].capturing) shim.streams[i] = (Stream){.last = -1, .open = true};
        if (shim.events[i].list == g) shim.events[i].list = NULL;
    }
    shim.noted = NULL;
    if (joined) *graph = g;
    else free_work(g), free(g);
    return joined ? OK : NOT_JOINED;
}

static int graph_free(void *graph)
{
    free_work(graph);
    free(graph);
    return OK;
}

/* Takes the graph's work along. */
static int replay_make(void **replay, void *graph, unsigned long long flags)
{
    Graph *from = graph, *x;
    if (flags || rt_alloc(&x, 1, sizeof *x, "the shim", NULL)) return flags ? INVALID_VALUE : OUT_OF_MEMORY;
    *x = *from;
    *from = (Graph){0};
    *replay = x;
    return OK;
}

static int replay_free(void *replay)
{
    int error = finish(NULL);
    graph_free(replay);
    return error;
}

static int replay(void *graph, void *stream)
{
    Stream *s = stream_of(stream);
    if (!s || s->capturing) return s ? NOT_IN_CAPTURE : INVALID_VALUE;
    return add_work(s, (Work){.graph = graph}, -1);
}

/* How many parameters a kernel has, with the three that each has; -1: nothing calls it. */
static int64_t count_params(int64_t kernel)
{
    const RtModel *m = shim.model;
    for (int64_t p = 0; p < m->n_programs; p++)
        for (int64_t i = 0; i < m->programs[p].n_steps; i++) {
            const RtCall *c = rt_step_call(m, &m->steps[m->programs[p].first_step + i]);
            if (c->kernel == kernel) return c->n_args + 3;
            const RtSplitDef *s = c->split >= 0 ? &m->splits[c->split] : NULL;
            if (s && s->kernel == kernel) return s->n_args + 3;
        }
    return -1;
}

static int launch(void *f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                  unsigned block_z, unsigned shared_bytes, void *stream, void **params, void **extra)
{
    Stream *s = stream_of(stream);
    bool flat = grid_y == 1 && grid_z == 1 && block_y == 1 && block_z == 1;
    if (!f || !flat || !grid_x || !block_x || block_x > MOST_THREADS || !s || extra || shared_bytes > *(int64_t *)f)
        return INVALID_VALUE;
    int64_t kernel = (int64_t *)f - shim.shared;
    Work x = {.kernel = &shim.model->device_kernels[kernel], .n_params = count_params(kernel)};
    x.grid = grid_x, x.block = block_x, x.shared_bytes = shared_bytes;
    if (x.n_params < 0 || rt_alloc(&x.params, x.n_params, sizeof *x.params, "the shim", NULL)) return INVALID_VALUE;
    for (int64_t i = 0; i < x.n_params; i++) memcpy(&x.params[i], params[i], sizeof *x.params);
    return add_work(s, x, -1);
}

static int error_text(int error, const char **text)
{
    *text = error == OUT_OF_MEMORY ? "out of memory"
            : error == NOT_FOUND   ? "not found"
            : error >= 900         ? "not while streams are captured"
                                   : "invalid value";
    return OK;
}

RtCudaWatch *rt_cuda_shim_watch(void) { return shim.watch; }

const RtCudaDriver rt_cuda_shim = {
    .shim = true,
#define CUDA_CALL(field, symbol, parameters) .field = field,
#include "runtime/cuda_calls.def"
#undef CUDA_CALL
};

int rt_open_shim(void *driver, void *status)
{
    (void)status;
    *(RtCudaDriver *)driver = rt_cuda_shim;
    return OK;
}
