/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/anomaly.h - anomalies by the error of an autoencoder
 *
 * The error of a sample is the model's loss between the sample and its reproduction. The threshold
 * is an error that few normal samples exceed: a percentile of theirs. It belongs to the weights:
 * checkpoints store m->anomaly_threshold and set it when they are loaded. A program with weights in
 * constant memory sets it itself, to the number that `uwasa train --anomaly-percentile` prints.
 *
 *     uw_anomaly_error(&m, x, &e);                     of normal samples, kept in error[n]
 *     m.anomaly_threshold = uw_anomaly_percentile(error, n, 99.0f);
 *     rc = uw_anomaly_found(&m, x, &e);                later: 1 for an anomaly
 *
 * Memory     the caller's      Blocking  until computed      Context  the model's thread
 */
#ifndef UWASA_ANOMALY_H
#define UWASA_ANOMALY_H

#include "uwasa/cplusplus.h"
#include "uwasa/model.h"

UW_C_BEGIN

/* Compute the error of one sample x [sample]; not finite if the sample is not. Parameters do not
 * change.
 * Returns UW_OK, or UW_ERR_INVALID (the model's first loss does not compare with the sample). */
int uw_anomaly_error(struct uw_model *m, const float *x, float *error);

/* Compute the error and compare it with m->anomaly_threshold.
 * Returns 1 (an anomaly: the error is above the threshold, or not finite), 0, what uw_anomaly_error
 * returns, or UW_ERR_NOTFOUND (there is no threshold: it is 0). */
int uw_anomaly_found(struct uw_model *m, const float *x, float *error);

/* The percentile of n errors, 0 to 100: between two of them in proportion. Sorts them; n 0: 0. */
float uw_anomaly_percentile(float *error, uint32_t n, double percentile);

UW_C_END
#endif
