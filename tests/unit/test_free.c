/* Every function that frees or closes does nothing with NULL, as the C library's free, and none minds what was never
   filled. tests/test_house.py sees that each one that a header declares is named here. */
#include "base/arena.h"
#include "codegen/jit.h"
#include "runtime/batch.h"
#include "runtime/blas.h"
#include "runtime/chain.h"
#include "runtime/cli.h"
#include "runtime/cone.h"
#include "runtime/cuda.h"
#include "runtime/dataset.h"
#include "runtime/edge_text.h"
#include "runtime/exec.h"
#include "runtime/gnnrt.h"
#include "runtime/graph_path.h"
#include "runtime/json.h"
#include "runtime/nccl.h"
#include "runtime/nonzeros.h"
#include "runtime/order.h"
#include "runtime/peers.h"
#include "runtime/pool.h"
#include "runtime/ranks_part.h"
#include "runtime/safetensors.h"
#include "runtime/sim.h"
#include "runtime/source.h"
#include "runtime/split.h"
#include "runtime/tensors.h"
#include "runtime/weights.h"
#include "runtime/zip.h"
#include "tests/unit/check.h"

/* What the library allocated. */
static void test_created(void)
{
    check_begin();
    arena_free(NULL);
    jit_free(NULL);
    rt_pool_free(NULL);
    rt_exec_free(NULL);
    rt_path_free(NULL);
    rt_split_free(NULL);
    rt_chain_free(NULL);
    rt_cone_free(NULL);
    rt_cuda_blas_close(NULL);
    rt_cuda_free(NULL);
    rt_cuda_watch_free(NULL);
    rt_graph_free(NULL);
    rt_nccl_close(NULL);
    rt_peers_close(NULL);
    rt_ranks_free(NULL);
    rt_reach_free(NULL);
    rt_shards_free(NULL);
    rt_across_free(NULL);
    rt_policy_free(NULL);
    rt_overlap_free(NULL);
    rt_sample_free(NULL);
    rt_staging_free(NULL);
    gnnrt_context_free(NULL);
    gnnrt_graph_free(NULL);
    gnnrt_model_free(NULL);
    check_end("free.created");
}

/* What lies in a struct of the caller's: NULL, then twice one that was never filled. */
#define IN_PLACE(free_it, Type)                                                                                        \
    do {                                                                                                               \
        Type empty = {0};                                                                                              \
        free_it(NULL), free_it(&empty), free_it(&empty);                                                               \
    } while (0)

static void test_in_place(void)
{
    check_begin();
    IN_PLACE(rt_sim_links_free, RtSimLinks);
    IN_PLACE(rt_sim_stages_free, RtSimStages);
    IN_PLACE(rt_array_free, RtArray);
    IN_PLACE(rt_part_free, RtPart);
    IN_PLACE(rt_ship_free, RtShip);
    IN_PLACE(rt_batches_free, RtBatches);
    IN_PLACE(rt_blas_close, RtBlas);
    IN_PLACE(rt_block_free, RtBlock);
    IN_PLACE(rt_cuda_layout_free, RtCudaLayout);
    IN_PLACE(rt_data_free, RtData);
    IN_PLACE(rt_edge_text_free, RtEdgeText);
    IN_PLACE(rt_json_free, RtJsonDoc);
    IN_PLACE(rt_nonzeros_free, RtNonzeros);
    IN_PLACE(rt_order_free, RtOrder);
    IN_PLACE(rt_session_close, RtSession);
    IN_PLACE(rt_source_close, RtSource);
    IN_PLACE(rt_st_free, RtStFile);
    IN_PLACE(rt_stored_free, RtStored);
    IN_PLACE(rt_tensors_free, RtTensors);
    IN_PLACE(rt_zip_close, RtZip);
    check_end("free.in_place");
}

int main(void)
{
    test_created();
    test_in_place();
    return check_done();
}
