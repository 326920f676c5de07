/* SPDX-License-Identifier: Apache-2.0
 *
 * Work waits in its stream until somebody waits for it; events order streams. */
#include "fixture.h"

static void test_nothing_runs_before_somebody_waits(void **state)
{
    (void)state;
    float *x = both_floats(1);
    cudaStream_t s = own_stream();
    uint64_t before = uw_emulated_pieces();
    OK(add(s, 1.0f, x));
    OK(add(s, 2.0f, x));
    assert_true(x[0] == 0.0f && uw_emulated_pieces() == before);
    OK(cudaStreamSynchronize(s));
    assert_true(x[0] == 3.0f && uw_emulated_pieces() == before + 2);
    OK(cudaStreamDestroy(s));
    OK(cudaFree(x));
}

static void test_waiting_for_an_event_runs_what_stands_before_it(void **state)
{
    (void)state;
    float *x = both_floats(1);
    cudaStream_t s = own_stream();
    cudaEvent_t e = event();
    OK(cudaEventQuery(e)); /* never recorded: nothing to wait for */
    OK(add(s, 1.0f, x));
    OK(cudaEventRecord(e, s));
    OK(add(s, 2.0f, x));
    OK(cudaEventSynchronize(e));
    assert_true(x[0] == 1.0f);
    OK(cudaStreamSynchronize(s));
    assert_true(x[0] == 3.0f);
    OK(cudaEventDestroy(e));
    OK(cudaStreamDestroy(s));
    OK(cudaFree(x));
}

static void test_asking_again_and_again_comes_to_an_end(void **state)
{
    (void)state;
    float *x = both_floats(1);
    cudaStream_t s = own_stream();
    cudaEvent_t e = event();
    for (int i = 0; i < 5; i++) {
        OK(add(s, 1.0f, x));
    }
    OK(cudaEventRecord(e, s));
    assert_int_equal(cudaEventQuery(e), cudaErrorNotReady);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    int asked = 1;
    while (cudaEventQuery(e) == cudaErrorNotReady) {
        asked++;
    }
    assert_in_range(asked, 2, 10);
    assert_true(x[0] == 5.0f);
    OK(cudaEventDestroy(e));
    OK(cudaStreamDestroy(s));
    OK(cudaFree(x));
}

/* The result of two streams without an order between them: with some seed each can be last. */
static float race(const char *seed, bool ordered)
{
    float *x = both_floats(1), got;
    uw_emulated_settings(seed);
    cudaStream_t one = own_stream(), two = own_stream();
    cudaEvent_t e = event();
    for (int i = 0; i < 4; i++) {
        OK(add(one, 0.0f, x + 0));
        OK(add(two, 0.0f, x + 0));
    }
    OK(cudaMemsetAsync(x, 0, sizeof *x, one));
    OK(cudaEventRecord(e, one));
    if (ordered) {
        OK(cudaStreamWaitEvent(two, e, 0));
    }
    OK(add(two, 1.0f, x));
    OK(cudaDeviceSynchronize());
    got = x[0];
    OK(cudaEventDestroy(e));
    OK(cudaStreamDestroy(one));
    OK(cudaStreamDestroy(two));
    OK(cudaFree(x));
    return got;
}

static void test_streams_without_an_event_run_in_any_order(void **state)
{
    (void)state;
    bool seen[2] = {false, false};
    for (int seed = 0; seed < 16; seed++) {
        char text[32];
        snprintf(text, sizeof text, "seed=%d", seed);
        seen[race(text, false) > 0.5f] = true;
        assert_true(race(text, true) == 1.0f);
    }
    uw_emulated_settings("");
    assert_true(seen[0] && seen[1]);
}

static void test_legacy_stream_waits_for_blocking_ones_only(void **state)
{
    (void)state;
    float *x = both_floats(2), *pinned = pinned_floats(2);
    cudaStream_t blocking = NULL, own = own_stream();
    OK(cudaStreamCreate(&blocking));
    OK(add(blocking, 1.0f, &x[0]));
    OK(add(own, 1.0f, &x[1]));
    OK(cudaMemcpy(pinned, x, sizeof *x, cudaMemcpyDeviceToHost));
    assert_true(pinned[0] == 1.0f);
    OK(cudaStreamSynchronize(own));
    assert_true(x[1] == 1.0f);
    OK(cudaStreamDestroy(blocking));
    OK(cudaStreamDestroy(own));
    OK(cudaFreeHost(pinned));
    OK(cudaFree(x));
}

/* Pinned memory is read when the copy runs; what is not pinned, when it is called. */
static void test_copies_read_pinned_memory_late(void **state)
{
    (void)state;
    float *x = both_floats(2), *pinned = pinned_floats(1), plain = 1.0f;
    cudaStream_t s = own_stream();
    pinned[0] = 1.0f;
    OK(cudaMemcpyAsync(&x[0], pinned, sizeof *x, cudaMemcpyHostToDevice, s));
    OK(cudaMemcpyAsync(&x[1], &plain, sizeof *x, cudaMemcpyHostToDevice, s));
    pinned[0] = plain = 2.0f;
    OK(cudaStreamSynchronize(s));
    assert_true(x[0] == 2.0f && x[1] == 1.0f);
    OK(cudaMemcpyAsync(&plain, &x[0], sizeof *x, cudaMemcpyDeviceToHost, s));
    assert_true(plain == 2.0f); /* not pinned: it waited */
    OK(cudaStreamDestroy(s));
    OK(cudaFreeHost(pinned));
    OK(cudaFree(x));
}

static void test_copies_in_a_wrong_direction_are_refused(void **state)
{
    (void)state;
    float *x = gpu_floats(4), host[4];
    assert_int_equal(cudaMemcpy(x, host, sizeof host, cudaMemcpyDeviceToHost),
                     cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpy(host, x, 5 * sizeof *x, cudaMemcpyDeviceToHost),
                     cudaErrorInvalidValue);
    assert_int_equal(cudaMemset(host, 0, sizeof host), cudaErrorInvalidValue);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
    OK(cudaFree(x));
}

static void note(void *data)
{
    float *x = data;
    x[0] = x[0] * 10.0f;
}

static void test_host_functions_stand_in_the_stream(void **state)
{
    (void)state;
    float *x = both_floats(1);
    cudaStream_t s = own_stream();
    OK(add(s, 1.0f, x));
    OK(cudaLaunchHostFunc(s, note, x));
    OK(add(s, 2.0f, x));
    OK(cudaStreamSynchronize(s));
    assert_true(x[0] == 12.0f);
    OK(cudaStreamDestroy(s));
    OK(cudaFree(x));
}

static void test_a_failure_stays(void **state)
{
    (void)state;
    float *x = both_floats(1);
    cudaStream_t s = own_stream();
    uw_emulated_settings("fail-after=3");
    OK(add(s, 1.0f, x));
    OK(add(s, 1.0f, x));
    OK(cudaStreamSynchronize(s));
    OK(add(s, 1.0f, x));
    OK(add(s, 1.0f, x));
    assert_int_equal(cudaStreamSynchronize(s), cudaErrorLaunchFailure);
    assert_true(x[0] == 2.0f);
    assert_int_equal(add(s, 1.0f, x), cudaErrorLaunchFailure);
    assert_int_equal(cudaGetLastError(), cudaErrorLaunchFailure);
    assert_int_equal(cudaGetLastError(), cudaErrorLaunchFailure);
    uw_emulated_settings("");
    OK(cudaStreamDestroy(s));
    OK(cudaFree(x));
}

static void test_time_between_events_grows(void **state)
{
    (void)state;
    float *x = both_floats(1), ms = -1.0f;
    cudaStream_t s = own_stream();
    cudaEvent_t from = NULL, to = NULL;
    OK(cudaEventCreate(&from));
    OK(cudaEventCreate(&to));
    OK(cudaEventRecord(from, s));
    OK(add(s, 1.0f, x));
    OK(cudaEventRecord(to, s));
    assert_int_equal(cudaEventElapsedTime(&ms, from, to), cudaErrorNotReady);
    OK(cudaEventSynchronize(to));
    OK(cudaEventElapsedTime(&ms, from, to));
    assert_true(ms >= 0.0f);
    OK(cudaEventDestroy(from));
    OK(cudaEventDestroy(to));
    OK(cudaStreamDestroy(s));
    OK(cudaFree(x));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_runs_before_somebody_waits),
        cmocka_unit_test(test_waiting_for_an_event_runs_what_stands_before_it),
        cmocka_unit_test(test_asking_again_and_again_comes_to_an_end),
        cmocka_unit_test(test_streams_without_an_event_run_in_any_order),
        cmocka_unit_test(test_legacy_stream_waits_for_blocking_ones_only),
        cmocka_unit_test(test_copies_read_pinned_memory_late),
        cmocka_unit_test(test_copies_in_a_wrong_direction_are_refused),
        cmocka_unit_test(test_host_functions_stand_in_the_stream),
        cmocka_unit_test(test_a_failure_stays),
        cmocka_unit_test(test_time_between_events_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
