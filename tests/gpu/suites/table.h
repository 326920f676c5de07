/* SPDX-License-Identifier: Apache-2.0
 *
 * table.h - the kernel tables of the suites in tests/gpu/suites: "cuda", and "ref" as the last one
 *
 * The suites are those of tests/contract, tests/parity and tests/unit, compiled with the names of
 * uwasa/backends.h set to these. The GPU is opened before main; a program that finds none says so
 * and exits 77. */
#ifndef UWASA_TEST_GPU_TABLE_H
#define UWASA_TEST_GPU_TABLE_H

#include "uwasa/kernels.h"
#include "uwasa/model.h"

/* In place of uw_kernels_at, uw_kernels_find, uw_kernels_best. */
const struct uw_kernels *uw_gpu_kernels_at(uint32_t index);
const struct uw_kernels *uw_gpu_kernels_find(const char *name);
const struct uw_kernels *uw_gpu_kernels_best(void);

/* In place of uw_kernels_ref, in suites that train with one table. */
extern const struct uw_kernels *uw_gpu_table;

/* In place of uw_model_train_step, uw_model_evaluate, uw_model_forward: samples that a test has on
 * its stack are copied to where kernels see them. */
int uw_gpu_train_step(struct uw_model *m, const struct uw_minibatch *b,
                      struct uw_step_result *result, struct uw_error *err);
int uw_gpu_evaluate(struct uw_model *m, const struct uw_minibatch *b, double *loss_sum,
                    uint32_t *correct_n);
int uw_gpu_forward(struct uw_model *m, const float *x, uint32_t n, const float **logits);

/* Memory that the GPU and the processor see, aligned to 64 bytes; NULL: there is none left. */
void *uw_gpu_test_take(size_t bytes);
void uw_gpu_test_give(void *at);

#endif
