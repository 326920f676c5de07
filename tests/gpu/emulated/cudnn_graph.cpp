/* SPDX-License-Identifier: Apache-2.0
 *
 * A stand-in of cuDNN's graph API, for graphs of one convolution in fp32. Descriptors are
 * attributes by name; each is checked when it is finalized. The heuristics offer engines with every
 * note that kernels/cuda may not take, which write NaN, some that refuse or fail, and some that
 * compute. The setting engines=N says how they behave (control.h). */
#include "convolution.h"
#include "runtime.h"

#include <cudnn.h>

#include <cmath>

enum works { RIGHT, TF32, WRONG, REFUSES, REFUSES_SUMS, FAILS };
enum listed { BY_DEFAULT = 0, NONE_LISTED = 1, NONE_RUNS = 2, OTHER_KNOBS = 3 };

struct engine {
    int64_t index, knob;
    int note, behaviour;                    /* -1: none */
    int64_t bytes;
    enum works works;
};

static const struct engine likely[] = {
    {0, 0, CUDNN_NUMERICAL_NOTE_TENSOR_CORE, -1, 0, TF32},
    {1, 0, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, -1, 0, WRONG},
    {2, 0, CUDNN_NUMERICAL_NOTE_FFT, -1, 0, WRONG},
    {3, 0, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, -1, 0, WRONG},
    {4, 0, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, -1, 0, TF32},
    {5, 0, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13, -1, 0, WRONG},
    {6, 0, -1, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION, 0, WRONG},
    {7, 0, -1, CUDNN_BEHAVIOR_NOTE_REQUIRES_FILTER_INT8x32_REORDER, 0, WRONG},
    {8, 0, -1, -1, 0, REFUSES},
    {9, 0, -1, -1, 0, FAILS},
    {10, 0, -1, -1, int64_t(1) << 30, RIGHT},
    {12, 0, CUDNN_NUMERICAL_NOTE_WINOGRAD, -1, 512, REFUSES_SUMS},
    {13, 0, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6, -1, 0, REFUSES_SUMS},
    {11, 1, -1, CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API, 256, RIGHT},
    {11, 2, -1, -1, 0, RIGHT}};
static const struct engine any[] = {{11, 2, -1, -1, 0, RIGHT}, {20, 0, -1, -1, 0, RIGHT}};

struct attribute {
    cudnnBackendAttributeType_t type;
    std::vector<unsigned char> bytes;
};

struct object {
    cudnnBackendDescriptorType_t type;
    bool final = false;
    std::map<int, struct attribute> has;
    const struct engine *engine = nullptr;  /* what a list, a config, an engine, a plan tells */
    struct convolution sums = {};           /* of an operation and of what it is in */
    int part = 0;                           /* an operation's type */
    int64_t ids[3] = {0, 0, 0};             /* of x, w, y */
};

static struct object *of(const void *d)
{
    return static_cast<struct object *>(const_cast<void *>(d));
}

static size_t size_of(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
        return 8;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
        return sizeof(void *);
    case CUDNN_TYPE_BOOLEAN:
        return 1;
    default:
        return 4;                           /* enumerations, float */
    }
}

/* What may be set: its type, and how many at least and at most. */
struct rule {
    cudnnBackendDescriptorType_t of;
    int name;
    cudnnBackendAttributeType_t type;
    int64_t least, most;
};

#define ONE(of, name, type) {CUDNN_BACKEND_##of##_DESCRIPTOR, name, CUDNN_TYPE_##type, 1, 1}
#define TWO(of, name, type) {CUDNN_BACKEND_##of##_DESCRIPTOR, name, CUDNN_TYPE_##type, 2, 2}
#define OPERATION(of, name)                                                                       \
    ONE(OPERATION_CONVOLUTION_##of, CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_ALPHA, FLOAT),      \
        ONE(OPERATION_CONVOLUTION_##of, CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_BETA, FLOAT),   \
        ONE(OPERATION_CONVOLUTION_##of, CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_CONV_DESC,      \
            BACKEND_DESCRIPTOR)
#define TENSOR_OF(of, name)                                                                       \
    ONE(OPERATION_CONVOLUTION_##of, CUDNN_ATTR_OPERATION_CONVOLUTION_##name, BACKEND_DESCRIPTOR)

#define GRAPH_HANDLE 800                    /* CUDNN_ATTR_OPERATIONGRAPH_HANDLE, which is old */
#define PLAN_HANDLE 400

/* All of them have to be there when it is finalized. */
static const struct rule rules[] = {
    ONE(TENSOR, CUDNN_ATTR_TENSOR_DATA_TYPE, DATA_TYPE),
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, 4},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, 4},
    ONE(TENSOR, CUDNN_ATTR_TENSOR_UNIQUE_ID, INT64),
    ONE(TENSOR, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, INT64),
    ONE(CONVOLUTION, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, INT64),
    ONE(CONVOLUTION, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, DATA_TYPE),
    ONE(CONVOLUTION, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CONVOLUTION_MODE),
    TWO(CONVOLUTION, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, INT64),
    TWO(CONVOLUTION, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, INT64),
    TWO(CONVOLUTION, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, INT64),
    TWO(CONVOLUTION, CUDNN_ATTR_CONVOLUTION_DILATIONS, INT64),
    OPERATION(FORWARD, FORWARD),
    TENSOR_OF(FORWARD, FORWARD_X),
    TENSOR_OF(FORWARD, FORWARD_W),
    TENSOR_OF(FORWARD, FORWARD_Y),
    OPERATION(BACKWARD_DATA, BWD_DATA),
    TENSOR_OF(BACKWARD_DATA, BWD_DATA_DX),
    TENSOR_OF(BACKWARD_DATA, BWD_DATA_W),
    TENSOR_OF(BACKWARD_DATA, BWD_DATA_DY),
    OPERATION(BACKWARD_FILTER, BWD_FILTER),
    TENSOR_OF(BACKWARD_FILTER, BWD_FILTER_X),
    TENSOR_OF(BACKWARD_FILTER, BWD_FILTER_DW),
    TENSOR_OF(BACKWARD_FILTER, BWD_FILTER_DY),
    ONE(OPERATIONGRAPH, GRAPH_HANDLE, HANDLE),
    ONE(OPERATIONGRAPH, CUDNN_ATTR_OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR),
    ONE(ENGINEHEUR, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR),
    ONE(ENGINEHEUR, CUDNN_ATTR_ENGINEHEUR_MODE, HEUR_MODE),
    ONE(EXECUTION_PLAN, PLAN_HANDLE, HANDLE),
    ONE(EXECUTION_PLAN, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, BACKEND_DESCRIPTOR),
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 1,
     8},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
     CUDNN_TYPE_VOID_PTR, 1, 8},
    ONE(VARIANT_PACK, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, VOID_PTR)};

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *d)
{
    struct object *made = new struct object;
    made->type = type;
    *d = made;
    guard hold(gpu_now().lock);
    gpu_now().descriptors_n++;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d)
{
    delete of(d);
    guard hold(gpu_now().lock);
    gpu_now().descriptors_n--;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t d,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t n,
                                       const void *values)
{
    if (d == nullptr || values == nullptr || of(d)->final) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    for (const struct rule &r : rules) {
        if (r.of == of(d)->type && r.name == static_cast<int>(name)) {
            if (r.type != type || n < r.least || n > r.most) {
                return CUDNN_STATUS_BAD_PARAM;
            }
            const unsigned char *from = static_cast<const unsigned char *>(values);
            of(d)->has[name] = {type, {from, from + size_of(type) * static_cast<size_t>(n)}};
            return CUDNN_STATUS_SUCCESS;
        }
    }
    return CUDNN_STATUS_NOT_SUPPORTED;
}

template <typename T> static T value(const struct object *o, int name, size_t i = 0)
{
    T out;
    memcpy(&out, o->has.at(name).bytes.data() + i * sizeof out, sizeof out);
    return out;
}

static struct object *object_at(const struct object *o, int name)
{
    struct object *found = of(value<void *>(o, name));
    return found != nullptr && found->final ? found : nullptr;
}

static bool complete(const struct object *o)
{
    for (const struct rule &r : rules) {
        if (r.of == o->type && o->has.count(r.name) == 0) {
            return false;
        }
    }
    return true;
}

static size_t number(const struct object *o, int name, size_t i)
{
    return static_cast<size_t>(value<int64_t>(o, name, i));
}

static struct tensor tensor_of(const struct object *o)
{
    const int d = CUDNN_ATTR_TENSOR_DIMENSIONS, s = CUDNN_ATTR_TENSOR_STRIDES;
    return {number(o, d, 0), number(o, d, 1), number(o, d, 2), number(o, d, 3),
            number(o, s, 0), number(o, s, 1), number(o, s, 2), number(o, s, 3)};
}

static size_t out_size(size_t in, size_t before, size_t after, size_t kernel, size_t dilation,
                       size_t stride)
{
    size_t span = (kernel - 1u) * dilation + 1u;
    return in + before + after < span ? 0 : (in + before + after - span) / stride + 1u;
}

/* Names of an operation's attributes: x, w, y whichever of them is written. */
struct names {
    int x, w, y, how, alpha, beta;
};

static struct names names_of(const struct object *o)
{
    switch (o->type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
        return {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
        return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    default:
        return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
    }
}

static cudnnStatus_t finalize_operation(struct object *o)
{
    const struct names n = names_of(o);
    const struct object *t[3] = {object_at(o, n.x), object_at(o, n.w), object_at(o, n.y)};
    const struct object *how = object_at(o, n.how);
    if (t[0] == nullptr || t[1] == nullptr || t[2] == nullptr || how == nullptr) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    struct convolution &c = o->sums;
    c.x = tensor_of(t[0]);
    c.filter = tensor_of(t[1]);
    c.y = tensor_of(t[2]);
    for (int i = 0; i < 3; i++) {
        o->ids[i] = value<int64_t>(t[i], CUDNN_ATTR_TENSOR_UNIQUE_ID);
    }
    c.pad_h = number(how, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0);
    c.pad_w = number(how, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 1);
    c.stride_h = number(how, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 0);
    c.stride_w = number(how, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1);
    c.dilation_h = number(how, CUDNN_ATTR_CONVOLUTION_DILATIONS, 0);
    c.dilation_w = number(how, CUDNN_ATTR_CONVOLUTION_DILATIONS, 1);
    c.groups = c.filter.c == 0 ? 0 : c.x.c / c.filter.c;
    c.flip = value<int>(how, CUDNN_ATTR_CONVOLUTION_CONV_MODE) == CUDNN_CONVOLUTION;
    c.alpha = value<float>(o, n.alpha);
    c.beta = value<float>(o, n.beta);
    o->part = o->type;
    bool fits = c.groups > 0 && c.x.c == c.filter.c * c.groups && c.filter.n % c.groups == 0 &&
                c.x.n == c.y.n && c.y.c == c.filter.n &&
                c.y.h == out_size(c.x.h, c.pad_h,
                                  number(how, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 0), c.filter.h,
                                  c.dilation_h, c.stride_h) &&
                c.y.w == out_size(c.x.w, c.pad_w,
                                  number(how, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 1), c.filter.w,
                                  c.dilation_w, c.stride_w);
    return fits ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

static cudnnStatus_t inherit(struct object *o, const struct object *from)
{
    if (from == nullptr) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    o->sums = from->sums;
    o->part = from->part;
    o->engine = from->engine;
    std::copy(from->ids, from->ids + 3, o->ids);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finalize_plan(struct object *o)
{
    cudnnStatus_t rc = inherit(o, object_at(o, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
    if (rc != CUDNN_STATUS_SUCCESS || o->engine == nullptr) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    bool refuses = o->engine->works == REFUSES ||
                   (o->engine->works == REFUSES_SUMS &&
                    (o->sums.beta != 0.0f || o->sums.groups != 1));
    return refuses ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check(struct object *o)
{
    switch (o->type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
        return value<int>(o, CUDNN_ATTR_TENSOR_DATA_TYPE) == CUDNN_DATA_FLOAT
                   ? CUDNN_STATUS_SUCCESS
                   : CUDNN_STATUS_NOT_SUPPORTED;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
        return finalize_operation(o);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        return inherit(o, object_at(o, CUDNN_ATTR_OPERATIONGRAPH_OPS));
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        return gpu_now().engines == NONE_LISTED
                   ? CUDNN_STATUS_NOT_SUPPORTED
                   : inherit(o, object_at(o, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        return finalize_plan(o);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
        return o->has.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).bytes.size() ==
                       o->has.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).bytes.size()
                   ? CUDNN_STATUS_SUCCESS
                   : CUDNN_STATUS_BAD_PARAM;
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
        return CUDNN_STATUS_SUCCESS;
    default:
        return CUDNN_STATUS_NOT_SUPPORTED;
    }
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t d)
{
    if (d == nullptr || of(d)->final || !complete(of(d))) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    cudnnStatus_t rc = check(of(d));
    of(d)->final = rc == CUDNN_STATUS_SUCCESS;
    return rc;
}

/* Fill one of the caller's descriptors. */
static bool tell(void *const *values, int64_t i, cudnnBackendDescriptorType_t type,
                 const struct object *from, const struct engine *engine)
{
    struct object *o = of(values[i]);
    if (o == nullptr || o->type != type) {
        return false;
    }
    (void)inherit(o, from);
    o->engine = engine;
    o->final = true;
    return true;
}

static cudnnStatus_t tell_list(const struct object *o, int64_t n, int64_t *count,
                               void *const *values)
{
    bool fallback = value<int>(o, CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_FALLBACK;
    const struct engine *first = fallback ? any : likely;
    *count = fallback ? sizeof any / sizeof *any : sizeof likely / sizeof *likely;
    for (int64_t i = 0; i < n && i < *count; i++) {
        if (!tell(values, i, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, o, &first[i])) {
            return CUDNN_STATUS_BAD_PARAM;
        }
    }
    return CUDNN_STATUS_SUCCESS;
}

template <typename T> static cudnnStatus_t give(T v, int64_t n, int64_t *count, void *values)
{
    *count = 1;
    if (n > 0) {
        memcpy(values, &v, sizeof v);
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t give_note(int note, int64_t n, int64_t *count, void *values)
{
    *count = 0;
    return note < 0 ? CUDNN_STATUS_SUCCESS : give(note, n, count, values);
}

static cudnnStatus_t tell_one(const struct object *o, cudnnBackendDescriptorType_t type, int64_t n,
                              int64_t *count, void *const *values)
{
    *count = 1;
    return n == 0 || tell(values, 0, type, o, o->engine) ? CUDNN_STATUS_SUCCESS
                                                         : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const d,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t n, int64_t *count,
                                       void *values)
{
    const struct object *o = of(d);
    void *const *to = static_cast<void *const *>(values);
    if (o == nullptr || !o->final || count == nullptr || (n > 0 && values == nullptr)) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && type == CUDNN_TYPE_BACKEND_DESCRIPTOR &&
        o->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) {
        return tell_list(o, n, count, to);
    }
    const struct engine *e = o->engine;
    if (e == nullptr) {
        return CUDNN_STATUS_NOT_SUPPORTED;
    }
    switch (static_cast<int>(name) * 100 + static_cast<int>(type)) {
    case CUDNN_ATTR_ENGINECFG_ENGINE * 100 + CUDNN_TYPE_BACKEND_DESCRIPTOR:
        return tell_one(o, CUDNN_BACKEND_ENGINE_DESCRIPTOR, n, count, to);
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES * 100 + CUDNN_TYPE_BACKEND_DESCRIPTOR:
        return tell_one(o, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, n, count, to);
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX * 100 + CUDNN_TYPE_INT64:
        return give(e->index, n, count, values);
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE * 100 + CUDNN_TYPE_NUMERICAL_NOTE:
        return give_note(e->note, n, count, values);
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE * 100 + CUDNN_TYPE_BEHAVIOR_NOTE:
        return give_note(e->behaviour, n, count, values);
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE * 100 + CUDNN_TYPE_KNOB_TYPE:
        return give(static_cast<int>(CUDNN_KNOB_TYPE_TILE_SIZE), n, count, values);
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE * 100 + CUDNN_TYPE_INT64:
        return give(e->knob + (gpu_now().engines == OTHER_KNOBS ? 100 : 0), n, count, values);
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE * 100 + CUDNN_TYPE_INT64:
        return give(e->bytes, n, count, values);
    default:
        return CUDNN_STATUS_NOT_SUPPORTED;
    }
}

/* The address of a tensor; NULL: the pack has none, or one that is not aligned. */
static float *address(const struct object *pack, int64_t id)
{
    size_t n = pack->has.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).bytes.size() / sizeof id;
    for (size_t i = 0; i < n; i++) {
        if (value<int64_t>(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, i) == id) {
            void *at = value<void *>(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, i);
            return reinterpret_cast<uintptr_t>(at) % 16u == 0 ? static_cast<float *>(at) : nullptr;
        }
    }
    return nullptr;
}

static void compute(const struct object &plan, float *x, float *w, float *y)
{
    struct convolution c = plan.sums;
    if (plan.engine->works == WRONG) {
        c.alpha = NAN;
    }
    c.tf32 = plan.engine->works == TF32;
    c.way = convolution_way(c, 1000u + static_cast<size_t>(plan.engine->index), x, w, y);
    switch (plan.part) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
        convolve_forward(c, x, w, y);
        break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
        convolve_data(c, w, y, x);
        break;
    default:
        convolve_filter(c, x, y, w);
    }
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack)
{
    if (plan == nullptr || pack == nullptr || !of(plan)->final || !of(pack)->final) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    struct object p = *of(plan);
    float *x = address(of(pack), p.ids[0]), *w = address(of(pack), p.ids[1]);
    float *y = address(of(pack), p.ids[2]);
    p.sums.workspace = value<void *>(of(pack), CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    p.sums.workspace_bytes = static_cast<size_t>(p.engine->bytes);
    if (x == nullptr || w == nullptr || y == nullptr ||
        (p.sums.workspace_bytes > 0 && p.sums.workspace == nullptr)) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    if (p.engine->works == FAILS || gpu_now().engines == NONE_RUNS) {
        return CUDNN_STATUS_EXECUTION_FAILED;
    }
    cudaStream_t stream;
    (void)cudnnGetStream(handle, &stream);
    return stream_put(stream, "engine", [=]() { compute(p, x, w, y); }) == cudaSuccess
               ? CUDNN_STATUS_SUCCESS
               : CUDNN_STATUS_EXECUTION_FAILED;
}
