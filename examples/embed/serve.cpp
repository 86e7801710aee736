/* serve.c in C++17: handles free themselves, one template serves both models.

   usage: serve GCN.safetensors SAGE.safetensors DATA [OUT]     OUT.gcn and OUT.sage get the scores as raw floats */
#include "cora.h"
#include "libgcn.h"
#include "libsage.h"
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

static_assert(int(GCN_INPUT_X_WIDTH) == int(CORA_FEATURES) && int(GCN_RESULT_OUT_WIDTH) == int(CORA_CLASSES), "built for other data");
static_assert(int(SAGE_INPUT_X_WIDTH) == int(CORA_FEATURES) && int(SAGE_RESULT_OUT_WIDTH) == int(CORA_CLASSES), "built for other data");

struct Data : Cora {
    explicit Data(const char *folder)
    {
        if (cora_load(folder, this)) {
            cora_free(this);
            throw std::runtime_error("no data");
        }
    }
    ~Data() { cora_free(this); }
    Data(const Data &) = delete;
    Data &operator=(const Data &) = delete;
};

/* The interface of one library under names without its prefix. */
struct Gcn {
    using Model = GcnModel;
    using Graph = GcnGraph;
    using Context = GcnContext;
    using Desc = GcnGraphDesc;
    using Status = GcnStatus;
    static constexpr const char *name = "gcn";
    static constexpr auto tables = gcn_tables;
    static constexpr auto model_create = gcn_model_create;
    static constexpr auto model_load = gcn_model_load;
    static constexpr auto model_free = gcn_model_free;
    static constexpr auto graph_create = gcn_graph_create;
    static constexpr auto graph_free = gcn_graph_free;
    static constexpr auto context_create = gcn_context_create;
    static constexpr auto context_free = gcn_context_free;
    static constexpr auto forward = gcn_forward;
    static constexpr auto code_name = gcn_code_name;
};

struct Sage {
    using Model = SageModel;
    using Graph = SageGraph;
    using Context = SageContext;
    using Desc = SageGraphDesc;
    using Status = SageStatus;
    static constexpr const char *name = "sage";
    static constexpr auto tables = sage_tables;
    static constexpr auto model_create = sage_model_create;
    static constexpr auto model_load = sage_model_load;
    static constexpr auto model_free = sage_model_free;
    static constexpr auto graph_create = sage_graph_create;
    static constexpr auto graph_free = sage_graph_free;
    static constexpr auto context_create = sage_context_create;
    static constexpr auto context_free = sage_context_free;
    static constexpr auto forward = sage_forward;
    static constexpr auto code_name = sage_code_name;
};

/* A model with its weights on one graph. Shared by threads: scores() changes nothing. */
template <class Api> class Service {
    template <class T> using Owned = std::unique_ptr<T, void (*)(T *)>;

public:
    Service(const char *weights, const Cora &data) : data(data)
    {
        typename Api::Status status{};
        typename Api::Model *m = nullptr;
        check(Api::model_create(Api::tables(), 0, -1, &m, &status), status);
        model.reset(m);
        check(Api::model_load(m, weights, &status), status);
        typename Api::Desc desc{};
        desc.n_src = desc.n_dst = data.n_nodes;
        desc.n_edges = data.n_edges;
        desc.src = data.src;
        desc.dst = data.dst;
        typename Api::Graph *g = nullptr;
        check(Api::graph_create(m, &desc, &g, &status), status);
        graph.reset(g);
    }

    /* [n_nodes][CORA_CLASSES] */
    std::vector<float> scores() const
    {
        std::vector<float> out(static_cast<size_t>(data.n_nodes) * CORA_CLASSES);
        typename Api::Status status{};
        typename Api::Context *c = nullptr;
        check(Api::context_create(model.get(), graph.get(), 0, nullptr, 0, &c, &status), status);
        Owned<typename Api::Context> context(c, Api::context_free);
        const void *inputs[] = {data.x};
        void *results[] = {out.data()};
        check(Api::forward(c, inputs, results, &status), status);
        return out;
    }

private:
    static void check(int32_t code, const typename Api::Status &status)
    {
        if (code) throw std::runtime_error(std::string(Api::name) + ": " + Api::code_name(code) + ": " + status.message);
    }

    const Cora &data;
    Owned<typename Api::Model> model{nullptr, Api::model_free};
    Owned<typename Api::Graph> graph{nullptr, Api::graph_free};
};

int best_class(const float *scores)
{
    int best = 0;
    for (int k = 1; k < CORA_CLASSES; k++)
        if (scores[k] > scores[best]) best = k;
    return best;
}

void report(const char *name, const Cora &c, const std::vector<float> &scores)
{
    int64_t hits = 0, n = 0;
    for (int64_t v = 0; v < c.n_nodes; v++) {
        n += c.test[v];
        hits += c.test[v] && best_class(&scores[static_cast<size_t>(v) * CORA_CLASSES]) == c.y[v];
    }
    std::printf("%s: accuracy %.4f on %ld test nodes\n", name, static_cast<double>(hits) / static_cast<double>(n),
                static_cast<long>(n));
}

struct Answer {
    std::vector<float> gcn, sage;
    std::string error;
};

void write(const std::string &path, const std::vector<float> &scores)
{
    std::ofstream f(path, std::ios::binary);
    f.write(reinterpret_cast<const char *>(scores.data()), static_cast<std::streamsize>(scores.size() * sizeof(float)));
    if (!f) throw std::runtime_error("cannot write " + path);
}

void serve(int argc, char **argv)
{
    const Data data(argv[3]);
    const Service<Gcn> gcn(argv[1], data);
    const Service<Sage> sage(argv[2], data);
    Answer answers[2];
    std::vector<std::thread> threads;
    for (Answer &a : answers)
        threads.emplace_back([&] {
            try {
                a.gcn = gcn.scores();
                a.sage = sage.scores();
            } catch (const std::exception &e) {
                a.error = e.what();
            }
        });
    for (std::thread &t : threads) t.join();
    for (const Answer &a : answers)
        if (!a.error.empty()) throw std::runtime_error(a.error);
    if (answers[0].gcn != answers[1].gcn || answers[0].sage != answers[1].sage)
        throw std::runtime_error("two threads got different scores");
    report("gcn", data, answers[0].gcn);
    report("sage", data, answers[0].sage);
    if (argc < 5) return;
    write(std::string(argv[4]) + ".gcn", answers[0].gcn);
    write(std::string(argv[4]) + ".sage", answers[0].sage);
}

} // namespace

int main(int argc, char **argv)
{
    if (argc < 4) {
        std::cerr << "usage: " << argv[0] << " GCN.safetensors SAGE.safetensors DATA [OUT]\n";
        return 1;
    }
    try {
        serve(argc, argv);
    } catch (const std::exception &e) {
        std::cerr << e.what() << "\n";
        return 1;
    }
}
