/* SPDX-License-Identifier: Apache-2.0
 *
 * Captured work runs when its graph is launched, with what it was called with. */
#include "fixture.h"

#include <pthread.h>

static void begin(cudaStream_t s)
{
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
}

static cudaGraphExec_t end(cudaStream_t s)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    return exec;
}

static void test_replay_uses_the_arguments_of_the_capture(void **state)
{
    (void)state;
    float *x = both_floats(1), by = 1.0f;
    cudaStream_t s = own_stream();
    begin(s);
    OK(add(s, by, x));
    by = 100.0f; /* too late */
    cudaGraphExec_t exec = end(s);
    OK(cudaStreamSynchronize(s));
    assert_true(x[0] == 0.0f);
    for (int i = 0; i < 3; i++) {
        OK(cudaGraphLaunch(exec, s));
    }
    assert_true(x[0] == 0.0f);
    OK(cudaStreamSynchronize(s));
    assert_true(x[0] == 3.0f);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaStreamDestroy(s));
    OK(cudaFree(x));
}

static void test_branches_are_joined_by_events(void **state)
{
    (void)state;
    float *x = both_floats(3);
    cudaStream_t s = own_stream(), side = own_stream();
    cudaEvent_t fork = event(), join = event();
    begin(s);
    OK(add(s, 1.0f, &x[0]));
    OK(cudaEventRecord(fork, s));
    OK(cudaStreamWaitEvent(side, fork, 0));
    OK(launch_copy(side, 1, &x[0], &x[1]));
    OK(cudaEventRecord(join, side));
    OK(cudaStreamWaitEvent(s, join, 0));
    OK(launch_copy(s, 1, &x[1], &x[2]));
    cudaGraphExec_t exec = end(s);
    enum cudaStreamCaptureStatus status;
    OK(cudaStreamIsCapturing(side, &status));
    assert_int_equal(status, cudaStreamCaptureStatusNone);
    uw_emulated_settings("seed=1"); /* nodes from the last to the first, as far as they may */
    OK(cudaGraphLaunch(exec, s));
    OK(cudaStreamSynchronize(s));
    assert_true(x[2] == 1.0f);
    uw_emulated_settings("");
    OK(cudaGraphExecDestroy(exec));
    OK(cudaEventDestroy(fork));
    OK(cudaEventDestroy(join));
    OK(cudaStreamDestroy(side));
    OK(cudaStreamDestroy(s));
    OK(cudaFree(x));
}

static void test_a_branch_that_does_not_come_back_is_an_error(void **state)
{
    (void)state;
    float *x = both_floats(1);
    cudaStream_t s = own_stream(), side = own_stream();
    cudaEvent_t fork = event();
    cudaGraph_t graph = NULL;
    begin(s);
    OK(add(s, 1.0f, x));
    OK(cudaEventRecord(fork, s));
    OK(cudaStreamWaitEvent(side, fork, 0));
    OK(add(side, 1.0f, x));
    assert_int_equal(cudaStreamEndCapture(s, &graph), cudaErrorStreamCaptureUnjoined);
    assert_null(graph);
    assert_int_equal(cudaGetLastError(), cudaErrorStreamCaptureUnjoined);
    OK(add(s, 1.0f, x)); /* and the streams work again */
    OK(cudaDeviceSynchronize());
    assert_true(x[0] == 1.0f);
    OK(cudaEventDestroy(fork));
    OK(cudaStreamDestroy(side));
    OK(cudaStreamDestroy(s));
    OK(cudaFree(x));
}

static cudaStream_t captured, beside;
static float *memory;
static cudaEvent_t inside, before;

static cudaError_t wait_for_stream(void)
{
    return cudaStreamSynchronize(captured);
}

static cudaError_t ask_stream(void)
{
    return cudaStreamQuery(captured);
}

static cudaError_t wait_for_event(void)
{
    return cudaEventSynchronize(inside);
}

static cudaError_t wait_for_event_before(void)
{
    return cudaEventSynchronize(before);
}

static cudaError_t ask_event_before(void)
{
    return cudaEventQuery(before);
}

static cudaError_t wait_for_stream_beside(void)
{
    return cudaStreamSynchronize(beside);
}

static cudaError_t copy_from_the_stack(void)
{
    float plain = 1.0f;
    return cudaMemcpyAsync(memory, &plain, sizeof plain, cudaMemcpyDefault, captured);
}

static cudaError_t allocate(void)
{
    void *x = NULL;
    return cudaMalloc(&x, 4);
}

static cudaError_t allocate_pinned(void)
{
    void *x = NULL;
    return cudaHostAlloc(&x, 4, cudaHostAllocDefault);
}

static cudaError_t use_legacy_stream(void)
{
    return add(NULL, 1.0f, memory);
}

static cudaError_t copy_and_wait(void)
{
    return cudaMemcpy(memory, memory + 1, sizeof *memory, cudaMemcpyDeviceToDevice);
}

static cudaError_t wait_for_work_outside(void)
{
    cudaStream_t other = own_stream();
    cudaEvent_t e = event();
    OK(cudaEventRecord(e, other));
    cudaError_t rc = cudaStreamWaitEvent(captured, e, 0);
    OK(cudaEventDestroy(e));
    OK(cudaStreamDestroy(other));
    return rc;
}

static void test_what_a_capture_forbids_ends_it(void **state)
{
    (void)state;
    static const struct {
        cudaError_t (*call)(void);
        cudaError_t want;
    } forbidden[] = {
        {wait_for_stream, cudaErrorStreamCaptureUnsupported},
        {ask_stream, cudaErrorStreamCaptureUnsupported},
        {wait_for_event, cudaErrorCapturedEvent},
        {wait_for_event_before, cudaErrorStreamCaptureUnsupported},
        {ask_event_before, cudaErrorStreamCaptureUnsupported},
        {wait_for_stream_beside, cudaErrorStreamCaptureUnsupported},
        {copy_from_the_stack, cudaErrorStreamCaptureUnsupported},
        {cudaDeviceSynchronize, cudaErrorStreamCaptureUnsupported},
        {allocate, cudaErrorStreamCaptureUnsupported},
        {allocate_pinned, cudaErrorStreamCaptureUnsupported},
        {use_legacy_stream, cudaErrorStreamCaptureImplicit},
        {copy_and_wait, cudaErrorStreamCaptureImplicit},
        {wait_for_work_outside, cudaErrorStreamCaptureIsolation},
    };
    memory = both_floats(2);
    captured = own_stream();
    beside = own_stream();
    inside = event();
    before = event();
    OK(cudaEventRecord(before, beside));
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++) {
        cudaGraph_t graph = NULL;
        begin(captured);
        OK(add(captured, 1.0f, memory));
        OK(cudaEventRecord(inside, captured));
        assert_int_equal(forbidden[i].call(), forbidden[i].want);
        assert_int_equal(add(captured, 1.0f, memory), cudaErrorStreamCaptureInvalidated);
        assert_int_equal(cudaStreamEndCapture(captured, &graph),
                         cudaErrorStreamCaptureInvalidated);
        assert_null(graph);
        (void)cudaGetLastError();
    }
    OK(cudaStreamSynchronize(captured));
    assert_true(memory[0] == 0.0f);
    OK(cudaEventDestroy(inside));
    OK(cudaEventDestroy(before));
    OK(cudaStreamDestroy(beside));
    OK(cudaStreamDestroy(captured));
    OK(cudaFree(memory));
}

/* Of another thread. */
static void *allocate_and_end(void *arg)
{
    cudaError_t *rc = arg;
    cudaGraph_t graph = NULL;
    rc[0] = allocate();
    rc[1] = rc[0] == cudaSuccess ? cudaStreamEndCapture(captured, &graph) : cudaSuccess;
    return NULL;
}

/* Of its own thread nothing unsafe is allowed to a capture of that mode, of others everything but
 * to end it; one of the global mode forbids it to all. */
static void test_a_capture_is_of_a_thread(void **state)
{
    (void)state;
    for (int global = 0; global < 2; global++) {
        cudaError_t rc[2];
        cudaGraph_t graph = NULL;
        pthread_t other;
        captured = own_stream();
        OK(cudaStreamBeginCapture(captured, global ? cudaStreamCaptureModeGlobal
                                                   : cudaStreamCaptureModeThreadLocal));
        assert_int_equal(pthread_create(&other, NULL, allocate_and_end, rc), 0);
        assert_int_equal(pthread_join(other, NULL), 0);
        assert_int_equal(rc[0], global ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
        assert_int_equal(rc[1], global ? cudaSuccess : cudaErrorStreamCaptureWrongThread);
        assert_int_equal(cudaStreamEndCapture(captured, &graph),
                         cudaErrorStreamCaptureInvalidated);
        (void)cudaGetLastError();
        OK(cudaStreamDestroy(captured));
    }
}

static cudaGraph_t graph_of(cudaStream_t s, float by, float *x, unsigned pieces)
{
    cudaGraph_t graph = NULL;
    begin(s);
    for (unsigned i = 0; i < pieces; i++) {
        OK(add(s, by, x));
    }
    OK(cudaStreamEndCapture(s, &graph));
    return graph;
}

static void test_a_graph_takes_new_arguments_but_no_new_shape(void **state)
{
    (void)state;
    float *x = both_floats(1);
    cudaStream_t s = own_stream();
    cudaGraph_t first = graph_of(s, 1.0f, x, 2), second = graph_of(s, 10.0f, x, 2);
    cudaGraph_t longer = graph_of(s, 100.0f, x, 3);
    cudaGraphExec_t exec = NULL;
    cudaGraphExecUpdateResultInfo info;
    OK(cudaGraphInstantiate(&exec, first, 0));
    OK(cudaGraphLaunch(exec, s));
    OK(cudaGraphExecUpdate(exec, second, &info)); /* not for what was launched before */
    OK(cudaGraphLaunch(exec, s));
    assert_int_equal(cudaGraphExecUpdate(exec, longer, &info), cudaErrorGraphExecUpdateFailure);
    assert_int_equal(info.result, cudaGraphExecUpdateErrorTopologyChanged);
    OK(cudaStreamSynchronize(s));
    assert_true(x[0] == 22.0f);
    (void)cudaGetLastError();
    OK(cudaGraphDestroy(first));
    OK(cudaGraphDestroy(second));
    OK(cudaGraphDestroy(longer));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaStreamDestroy(s));
    OK(cudaFree(x));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay_uses_the_arguments_of_the_capture),
        cmocka_unit_test(test_branches_are_joined_by_events),
        cmocka_unit_test(test_a_branch_that_does_not_come_back_is_an_error),
        cmocka_unit_test(test_what_a_capture_forbids_ends_it),
        cmocka_unit_test(test_a_capture_is_of_a_thread),
        cmocka_unit_test(test_a_graph_takes_new_arguments_but_no_new_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
