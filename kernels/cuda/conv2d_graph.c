/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_winograd.h"
#include "products.h"

#include "uwasa/hash.h"

#include <string.h>

#define ALIGNMENT 16            /* of every tensor, bytes */
#define CONFIGS_MAX 128         /* of one list: those of fp32 come after thirty others */
#define KNOBS_MAX 64
#define NOTES_MAX 32

typedef cudnnBackendDescriptor_t descriptor;

/* cuDNN 9 deprecates these two in favour of a device descriptor, which older versions lack. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static const cudnnBackendAttributeName_t graph_handle = CUDNN_ATTR_OPERATIONGRAPH_HANDLE;
static const cudnnBackendAttributeName_t plan_handle = CUDNN_ATTR_EXECUTION_PLAN_HANDLE;
#pragma GCC diagnostic pop

static const struct {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t a, b, out, convolution, alpha, beta;
} operations[UW_CONV2D_PARTS] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};

static bool set(const struct uw_cuda_libraries *l, descriptor d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t n, const void *values)
{
    return l->cudnnBackendSetAttribute(d, name, type, n, values) == CUDNN_STATUS_SUCCESS;
}

static bool set_descriptor(const struct uw_cuda_libraries *l, descriptor d,
                           cudnnBackendAttributeName_t name, descriptor value)
{
    return set(l, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

/* Read up to n values of an attribute. Returns how many it has; 0 on failure. */
static int64_t get(const struct uw_cuda_libraries *l, descriptor d,
                   cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
                   void *values)
{
    int64_t got = 0;
    cudnnStatus_t status = l->cudnnBackendGetAttribute(d, name, type, n, &got, values);
    if (status != CUDNN_STATUS_SUCCESS || got < 0) {
        return 0;
    }
    return n == 0 || got < n ? got : n;
}

static descriptor made_of(const struct uw_cuda_libraries *l, cudnnBackendDescriptorType_t type)
{
    descriptor d = NULL;
    return l->cudnnBackendCreateDescriptor(type, &d) == CUDNN_STATUS_SUCCESS ? d : NULL;
}

static bool finalize(const struct uw_cuda_libraries *l, descriptor d)
{
    return l->cudnnBackendFinalize(d) == CUDNN_STATUS_SUCCESS;
}

static void give_back(const struct uw_cuda_libraries *l, descriptor *d)
{
    if (*d != NULL) {
        (void)l->cudnnBackendDestroyDescriptor(*d);
    }
    *d = NULL;
}

/* Create n descriptors to read attributes into. Returns how many were created. */
static int64_t make_all(const struct uw_cuda_libraries *l, cudnnBackendDescriptorType_t type,
                        int64_t n, descriptor *out)
{
    for (int64_t i = 0; i < n; i++) {
        out[i] = made_of(l, type);
        if (out[i] == NULL) {
            return i;
        }
    }
    return n;
}

/* Create a descriptor that g owns. */
static descriptor make(const struct uw_cuda_libraries *l, struct uw_conv2d_graph *g,
                       cudnnBackendDescriptorType_t type)
{
    descriptor d = made_of(l, type);
    if (d != NULL) {
        g->made[g->made_n++] = d;
    }
    return d;
}

static descriptor make_tensor(const struct uw_cuda_libraries *l, struct uw_conv2d_graph *g,
                              int64_t id, const int64_t dims[4])
{
    const int64_t strides[4] = {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
    const int64_t alignment = ALIGNMENT;
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    descriptor d = make(l, g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    bool good = d != NULL &&
                set(l, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type) &&
                set(l, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims) &&
                set(l, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides) &&
                set(l, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id) &&
                set(l, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment) &&
                finalize(l, d);
    return good ? d : NULL;
}

static descriptor make_convolution(const struct uw_cuda_libraries *l, struct uw_conv2d_graph *g,
                                   const struct uw_conv2d *v)
{
    const int64_t pad[2] = {v->pad_h, v->pad_w}, stride[2] = {v->stride_h, v->stride_w};
    const int64_t dilation[2] = {v->dilation_h, v->dilation_w}, axes = 2;
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    descriptor d = make(l, g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    bool good = d != NULL &&
                set(l, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &axes) &&
                set(l, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type) &&
                set(l, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1,
                    &mode) &&
                set(l, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, pad) &&
                set(l, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, pad) &&
                set(l, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, stride) &&
                set(l, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilation) &&
                finalize(l, d);
    return good ? d : NULL;
}

/* A graph of one operation. cuDNN derives groups from the filter's in_channels / groups. */
static descriptor make_graph(struct uw_cuda *c, const struct uw_conv2d *v, uint32_t batch_n,
                             enum uw_conv2d_part part, struct uw_conv2d_graph *g)
{
    const struct uw_cuda_libraries *l = &c->products->libraries;
    const int64_t x[4] = {batch_n, v->in_channels, v->in_h, v->in_w};
    const int64_t y[4] = {batch_n, v->out_channels, v->out_h, v->out_w};
    const int64_t w[4] = {v->out_channels, v->in_channels / v->groups, v->kernel_h, v->kernel_w};
    const float alpha = 1.0f, beta = g->accumulate ? 1.0f : 0.0f;
    descriptor a = make_tensor(l, g, 1, part == UW_CONV2D_BW_INPUT ? y : x);
    descriptor b = make_tensor(l, g, 2, part == UW_CONV2D_BW_PARAM ? y : w);
    descriptor out =
        make_tensor(l, g, 3, part == UW_CONV2D_FW ? y : part == UW_CONV2D_BW_INPUT ? x : w);
    descriptor how = make_convolution(l, g, v);
    descriptor op = make(l, g, operations[part].type);
    descriptor graph = make(l, g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    bool good = a != NULL && b != NULL && out != NULL && how != NULL && op != NULL &&
                graph != NULL && set_descriptor(l, op, operations[part].convolution, how) &&
                set_descriptor(l, op, operations[part].a, a) &&
                set_descriptor(l, op, operations[part].b, b) &&
                set_descriptor(l, op, operations[part].out, out) &&
                set(l, op, operations[part].alpha, CUDNN_TYPE_FLOAT, 1, &alpha) &&
                set(l, op, operations[part].beta, CUDNN_TYPE_FLOAT, 1, &beta) && finalize(l, op) &&
                set(l, graph, graph_handle, CUDNN_TYPE_HANDLE, 1, &c->products->cudnn) &&
                set_descriptor(l, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, op) && finalize(l, graph);
    return good ? graph : NULL;
}

/* Rows and columns of a result tile's input; 0: the note is not about tiles. */
static uint32_t tile_of(cudnnBackendNumericalNote_t note)
{
    switch (note) {
    case CUDNN_NUMERICAL_NOTE_WINOGRAD:         /* and one of the others, as a rule */
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
        return 4;
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
        return 6;
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
        return 13;
    default:
        return 0;
    }
}

/* Check an engine's numerical notes; false if it does not give them. */
static bool sums_are_good(const struct uw_cuda_libraries *l, descriptor engine, bool tf32,
                          uint32_t tile_most)
{
    cudnnBackendNumericalNote_t notes[NOTES_MAX];
    int64_t n = 0;
    if (l->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                    CUDNN_TYPE_NUMERICAL_NOTE, NOTES_MAX, &n,
                                    notes) != CUDNN_STATUS_SUCCESS || n > NOTES_MAX) {
        return false;
    }
    bool good = true;
    for (int64_t i = 0; i < n; i++) {
        bool narrow = notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE ||
                      notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
        bool never = notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
                     notes[i] == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
                     notes[i] == CUDNN_NUMERICAL_NOTE_FFT || tile_of(notes[i]) > tile_most;
        good = good && !never && (tf32 || !narrow);
    }
    return good;
}

static bool needs_nothing_more(const struct uw_cuda_libraries *l, descriptor engine)
{
    cudnnBackendBehaviorNote_t notes[NOTES_MAX];
    int64_t n = 0;
    if (l->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE,
                                    CUDNN_TYPE_BEHAVIOR_NOTE, NOTES_MAX, &n,
                                    notes) != CUDNN_STATUS_SUCCESS || n > NOTES_MAX) {
        return false;
    }
    bool good = true;
    for (int64_t i = 0; i < n; i++) {
        good = good && notes[i] != CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION &&
               notes[i] != CUDNN_BEHAVIOR_NOTE_REQUIRES_FILTER_INT8x32_REORDER &&
               notes[i] != CUDNN_BEHAVIOR_NOTE_REQUIRES_BIAS_INT8x32_REORDER;
    }
    return good;
}

/* Set index to the number of a config's engine. Returns whether the engine is allowed. */
static bool engine_of(const struct uw_cuda *c, descriptor config, uint32_t tile_most,
                      int64_t *index)
{
    const struct uw_cuda_libraries *l = &c->products->libraries;
    descriptor engine = made_of(l, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    bool good = engine != NULL &&
                get(l, config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                    &engine) == 1 &&
                get(l, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, index) == 1 &&
                sums_are_good(l, engine, c->config.tf32, tile_most) &&
                needs_nothing_more(l, engine);
    give_back(l, &engine);
    return good;
}

/* Mix all bits (the finalizer of SplitMix64), so that sums of different hashes differ: the hash
 * alone hardly mixes its last byte. */
static uint64_t spread(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Hash of one knob's choice; hashes are summed, so that their order does not matter. */
static uint64_t knob_hash(const struct uw_cuda_libraries *l, descriptor knob)
{
    cudnnBackendKnobType_t type = (cudnnBackendKnobType_t)0;
    int64_t pair[2] = {0, 0};
    (void)get(l, knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
    (void)get(l, knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &pair[1]);
    pair[0] = (int64_t)type;
    return spread(uw_hash64(UW_HASH64_START, pair, sizeof pair));
}

static uint64_t key_of(const struct uw_cuda_libraries *l, descriptor config, int64_t index)
{
    descriptor knobs[KNOBS_MAX];
    uint64_t key = spread(uw_hash64(UW_HASH64_START, &index, sizeof index));
    int64_t n = make_all(l, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, KNOBS_MAX, knobs);
    int64_t got = n == 0 ? 0 : get(l, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, n, knobs);
    for (int64_t i = 0; i < n; i++) {
        key += i < got ? knob_hash(l, knobs[i]) : 0;
        give_back(l, &knobs[i]);
    }
    return key != 0 ? key : 1;
}

/* Create the plan of a config, with its workspace; NULL: not supported. */
static descriptor make_plan(struct uw_cuda *c, descriptor config, int64_t *workspace_bytes)
{
    const struct uw_cuda_libraries *l = &c->products->libraries;
    descriptor plan = made_of(l, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    bool good = plan != NULL &&
                set(l, plan, plan_handle, CUDNN_TYPE_HANDLE, 1, &c->products->cudnn) &&
                set_descriptor(l, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config) &&
                finalize(l, plan) &&
                get(l, plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                    workspace_bytes) == 1 && *workspace_bytes >= 0;
    if (!good) {
        give_back(l, &plan);
    }
    return plan;
}

static bool enough(const struct uw_conv2d_graph *g, uint64_t wanted)
{
    return g->engines_n == (wanted != 0 ? 1 : UW_CONV2D_ENGINES_MAX);
}

/* Move a config to g if it is wanted and fits; *config is then NULL. */
static void take(struct uw_cuda *c, descriptor *config, size_t limit, uint64_t wanted,
                 struct uw_conv2d_graph *g)
{
    int64_t index = 0, bytes = 0;
    if (enough(g, wanted) || !engine_of(c, *config, g->tile_most, &index)) {
        return;
    }
    uint64_t key = key_of(&c->products->libraries, *config, index);
    if ((wanted != 0 && key != wanted) || uw_conv2d_graph_find(g, key) != NULL) {
        return;
    }
    descriptor plan = make_plan(c, *config, &bytes);
    if (plan != NULL && (uint64_t)bytes > limit) {
        give_back(&c->products->libraries, &plan);
    }
    if (plan != NULL) {
        g->engines[g->engines_n++] = (struct uw_conv2d_engine){
            .key = key, .workspace_bytes = (size_t)bytes, .config = *config, .plan = plan};
        *config = NULL;
    }
}

static void take_list(struct uw_cuda *c, descriptor graph, cudnnBackendHeurMode_t mode,
                      size_t limit, uint64_t wanted, struct uw_conv2d_graph *g)
{
    const struct uw_cuda_libraries *l = &c->products->libraries;
    descriptor configs[CONFIGS_MAX], list = made_of(l, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    bool good = list != NULL &&
                set_descriptor(l, list, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph) &&
                set(l, list, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode) &&
                finalize(l, list);
    int64_t n = good ? get(l, list, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                           NULL) : 0;
    n = make_all(l, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, n < CONFIGS_MAX ? n : CONFIGS_MAX, configs);
    int64_t got = n == 0 ? 0 : get(l, list, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, n, configs);
    for (int64_t i = 0; i < n; i++) {
        if (i < got) {
            take(c, &configs[i], limit, wanted, g);
        }
        give_back(l, &configs[i]);
    }
    give_back(l, &list);
}

bool uw_conv2d_graph_open(struct uw_cuda *c, const struct uw_conv2d *conv, uint32_t batch_n,
                          enum uw_conv2d_part part, bool accumulate, size_t limit, uint64_t wanted,
                          struct uw_conv2d_graph *g)
{
    const struct uw_cuda_libraries *l = &c->products->libraries;
    *g = (struct uw_conv2d_graph){.accumulate = accumulate};
    if (uw_conv2d_winograd_worth(conv, part)) {
        g->tile_most = part == UW_CONV2D_FW ? 4 : 6;
    }
    if (l->cudnnBackendExecute == NULL) {
        return false;
    }
    descriptor graph = make_graph(c, conv, batch_n, part, g);
    if (graph != NULL) {
        take_list(c, graph, CUDNN_HEUR_MODE_A, limit, wanted, g);
    }
    if (graph != NULL && !enough(g, wanted)) {  /* querying a list takes milliseconds */
        take_list(c, graph, CUDNN_HEUR_MODE_FALLBACK, limit, wanted, g);
    }
    (void)cudaGetLastError();       /* clear the error of a refused engine */
    if (g->engines_n == 0) {
        uw_conv2d_graph_close(l, g);
    }
    return g->engines_n > 0;
}

void uw_conv2d_graph_keep(const struct uw_cuda_libraries *l, struct uw_conv2d_graph *g,
                          uint64_t key)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < g->engines_n; i++) {
        if (g->engines[i].key == key) {
            g->engines[kept++] = g->engines[i];
        } else {
            give_back(l, &g->engines[i].plan);
            give_back(l, &g->engines[i].config);
        }
    }
    g->engines_n = kept;
    if (kept == 0) {
        uw_conv2d_graph_close(l, g);
    }
}

void uw_conv2d_graph_close(const struct uw_cuda_libraries *l, struct uw_conv2d_graph *g)
{
    give_back(l, &g->pack);
    for (uint32_t i = g->engines_n; i-- > 0;) {
        give_back(l, &g->engines[i].plan);
        give_back(l, &g->engines[i].config);
    }
    for (uint32_t i = g->made_n; i-- > 0;) {
        give_back(l, &g->made[i]);
    }
    *g = (struct uw_conv2d_graph){.accumulate = g->accumulate};
}

const struct uw_conv2d_engine *uw_conv2d_graph_find(const struct uw_conv2d_graph *g, uint64_t key)
{
    for (uint32_t i = 0; i < g->engines_n; i++) {
        if (g->engines[i].key == key) {
            return &g->engines[i];
        }
    }
    return NULL;
}

bool uw_conv2d_graph_aligned(const float *a, const float *b, const float *out)
{
    return (((uintptr_t)a | (uintptr_t)b | (uintptr_t)out) & (ALIGNMENT - 1u)) == 0;
}

/* Set g->pack for these addresses; reuses the previous one if they are the same. */
static bool pack(const struct uw_cuda_libraries *l, struct uw_conv2d_graph *g, void *const at[4])
{
    const int64_t ids[3] = {1, 2, 3};
    if (g->pack != NULL && memcmp(g->at, at, sizeof g->at) == 0) {
        return true;
    }
    give_back(l, &g->pack);
    g->pack = made_of(l, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    bool good = g->pack != NULL &&
                set(l, g->pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, ids) &&
                set(l, g->pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3,
                    at) &&
                set(l, g->pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                    &at[3]) &&
                finalize(l, g->pack);
    if (!good) {
        give_back(l, &g->pack);
        return false;
    }
    memcpy(g->at, at, sizeof g->at);
    return true;
}

int uw_conv2d_graph_run(const struct uw_exec *e, struct uw_conv2d_graph *g,
                        const struct uw_conv2d_engine *engine, const float *a, const float *b,
                        float *out, void *workspace)
{
    const struct uw_cuda_products *p = uw_cuda_of(e)->products;
    void *const at[4] = {(void *)(uintptr_t)a, (void *)(uintptr_t)b, out,
                         engine->workspace_bytes == 0 ? NULL : workspace};
    if (!pack(&p->libraries, g, at)) {
        return UW_ERR_UNSUPPORTED;
    }
    return uw_cuda_dnn_done(e, p->libraries.cudnnBackendExecute(p->cudnn, engine->plan, g->pack));
}
