/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract of uwasa/kernels.h, over the table named on the command line. */
#include "test_kernels.h"

#include "uwasa/slots.h"

#define SKIPPED 77

static const struct uw_kernels *table;
static struct uw_rng rng;

const struct uw_kernels *uw_test_table(void)
{
    return table;
}

bool uw_test_has_no_tensors(void)
{
    return table->tensor == &uw_tensor_none;
}

float uw_test_random(void)
{
    return (float)uw_test_below(1u << 24) / (float)(1u << 23) - 1.0f;
}

uint32_t uw_test_below(uint32_t n)
{
    return uw_rng_below(&rng, n);
}

float *uw_test_random_floats(size_t n)
{
    float *x = uw_test_floats(n);
    for (size_t i = 0; i < n; i++) {
        x[i] = uw_test_random();
    }
    return x;
}

float *uw_test_copy_floats(size_t n, const float *x)
{
    float *copy = uw_test_floats(n);
    memcpy(copy, x, n * sizeof *x);
    return copy;
}

static void run_scrambled(struct uw_workers *w, uw_task_fn fn, void *arg, uint32_t tasks_n)
{
    for (uint32_t i = tasks_n; i-- > 0;) {
        fn(arg, i, (i * 7u + 1u) % w->threads);
    }
}

static const struct uw_workers_ops scrambled = {.name = "scrambled", .run = run_scrambled};

void uw_test_exec_begin(struct uw_test_exec *e, uint32_t threads, size_t bytes)
{
    memset(e, 0, sizeof *e);
    e->workers.ops = &scrambled;
    e->workers.threads = threads;
    e->exec.kernels = table;
    e->exec.workers = threads > 1 ? &e->workers : NULL;
    e->exec.scratch = uw_test_block(bytes);
    e->exec.scratch_bytes = bytes;
}

void uw_test_exec_end(struct uw_test_exec *e)
{
    uw_test_release(e->exec.scratch);
}

void uw_test_assert_near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance)) {
        print_error("got %.9g, want %.9g, allowed difference %.3g\n", got, want, tolerance);
        fail();
    }
}

void uw_test_assert_sum(float got, const struct uw_sum *want)
{
    double roundings = 4.0 + 4.0 * sqrt((double)want->n);
    uw_test_assert_near((double)got, want->value, roundings * 0x1p-24 * want->size);
}

void uw_test_assert_same_bits(size_t n, const float *a, const float *b)
{
    assert_memory_equal(a, b, n * sizeof *a);
}

static void test_table_has_no_empty_slot(void **state)
{
    (void)state;
    assert_non_null(table->name);
    assert_true(table->gemm != NULL && table->gemm_scratch_bytes != NULL);
    assert_true(table->conv2d_fw != NULL && table->conv2d_bw_input != NULL);
    assert_true(table->conv2d_bw_param != NULL && table->conv2d_scratch_bytes != NULL);
    assert_true(table->dense_fw != NULL && table->dense_bw_input != NULL);
    assert_true(table->dense_bw_param != NULL && table->dense_scratch_bytes != NULL);
    assert_true(table->dense_bw_step != NULL);
    assert_true(table->maxpool2d_fw != NULL && table->maxpool2d_bw_input != NULL);
    assert_true(table->add_channels != NULL && table->sum_channels != NULL);
    assert_true(table->avgpool2d_fw != NULL && table->avgpool2d_bw_input != NULL);
    assert_true(table->relu_fw != NULL && table->relu_bw_input != NULL);
    assert_true(table->softmax_xent_fw != NULL && table->softmax_xent_bw_input != NULL);
    assert_true(table->axpby != NULL && table->sgd_update != NULL);
    assert_true(table->norm != NULL && table->activation != NULL);
    assert_true(table->all_finite != NULL && table->distance_sq != NULL);
    assert_true(table->copy->copy != NULL && table->copy->permute != NULL);
    assert_true(table->copy->gather != NULL && table->copy->scatter_add != NULL);
    assert_true(table->copy->sum_rows != NULL);
    assert_true(table->sequence->rnn_fw != NULL && table->sequence->rnn_bw != NULL);
    assert_true(table->sequence->gru_fw != NULL && table->sequence->gru_bw != NULL);
    assert_true(table->sequence->lstm_fw != NULL && table->sequence->lstm_bw != NULL);
    assert_true(table->sequence->softmax_fw != NULL && table->sequence->softmax_bw_input != NULL);
    assert_true(table->norm->groupnorm_fw != NULL && table->norm->groupnorm_bw_input != NULL);
    assert_true(table->norm->groupnorm_bw_param != NULL && table->norm->batchnorm_stats != NULL);
    assert_true(table->norm->batchnorm_running != NULL && table->norm->batchnorm_fw != NULL);
    assert_true(table->norm->batchnorm_bw_sums != NULL && table->norm->batchnorm_bw_input != NULL);
    assert_true(table->norm->batchnorm_stats_fw != NULL);
    assert_true(table->norm->batchnorm_bw_sums_input != NULL);
    assert_true(table->norm->lrn_fw != NULL && table->norm->lrn_bw_input != NULL);
    assert_true(table->norm->lrn_scratch_bytes != NULL);
    assert_true(table->activation->forward != NULL && table->activation->bw_input != NULL);
    assert_true(table->activation->dropout != NULL);
    assert_true(table->loss->forward != NULL && table->loss->bw_input != NULL);
    assert_true(table->update->adam != NULL && table->update->rmsprop != NULL);
    assert_true(table->tensor->arithmetic_fw != NULL && table->tensor->arithmetic_bw != NULL);
    assert_true(table->tensor->reduce_fw != NULL && table->tensor->reduce_bw != NULL);
    assert_true(table->tensor->log_softmax_fw != NULL && table->tensor->log_softmax_bw != NULL);
    assert_true(table->tensor->take_fw != NULL && table->tensor->take_bw != NULL);
}

static void test_tables_are_found_by_name_and_ref_is_last(void **state)
{
    (void)state;
    const struct uw_kernels *last = NULL;
    for (uint32_t i = 0; uw_kernels_at(i) != NULL; i++) {
        last = uw_kernels_at(i);
        assert_ptr_equal(uw_kernels_find(last->name), last);
    }
    assert_ptr_equal(last, &uw_kernels_ref);
    assert_ptr_equal(uw_kernels_best(), uw_kernels_at(0));
    assert_null(uw_kernels_find("abacus"));
}

struct suite {
    const char *name;
    const struct CMUnitTest *tests;
    const size_t *tests_n;
};

/* test_kernels [TABLE [SUITE]]: the suites of one table, or one of them. */
int main(int argc, char **argv)
{
    static const struct CMUnitTest table_tests[] = {
        cmocka_unit_test(test_table_has_no_empty_slot),
        cmocka_unit_test(test_tables_are_found_by_name_and_ref_is_last),
    };
    static const size_t table_tests_n = sizeof table_tests / sizeof *table_tests;
    static const struct suite suites[] = {
        {"table", table_tests, &table_tests_n},
        {"products", uw_test_products, &uw_test_products_n},
        {"conv2d", uw_test_conv2d, &uw_test_conv2d_n},
        {"direct", uw_test_direct, &uw_test_direct_n},
        {"pointwise", uw_test_pointwise, &uw_test_pointwise_n},
        {"norm", uw_test_norm, &uw_test_norm_n},
        {"activation", uw_test_activation, &uw_test_activation_n},
        {"sequence", uw_test_sequence, &uw_test_sequence_n},
        {"training", uw_test_training, &uw_test_training_n},
        {"tensor", uw_test_tensor, &uw_test_tensor_n},
        {"winograd", uw_test_winograd, &uw_test_winograd_n},
        {"exact", uw_test_exact, &uw_test_exact_n},
    };
    const char *name = argc > 1 ? argv[1] : "ref", *only = argc > 2 ? argv[2] : NULL;
    table = uw_kernels_find(name);
    if (table == NULL) {
        printf("skipped: this build or processor has no %s\n", name);
        return SKIPPED;
    }
    uw_rng_seed(&rng, uw_test_seed(20260701));
    int failed = 0, ran = 0;
    for (size_t i = 0; i < sizeof suites / sizeof *suites; i++) {
        const struct suite *s = &suites[i];
        if (only == NULL || strcmp(only, s->name) == 0) {
            failed += _cmocka_run_group_tests(s->name, s->tests, *s->tests_n, NULL, NULL);
            ran++;
        }
    }
    return failed == 0 && ran > 0 ? 0 : 1;
}
