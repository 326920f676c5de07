/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that work with and without a device. */
#include "flight.h"

#include "uwasa/parts.h"

int uw_model_step_begin(struct uw_model *m, const struct uw_minibatch *b, struct uw_error *err)
{
    if (uw_device_of(m) != NULL) {
        return uw_parts.on_device->begin(m, b, err);
    }
    if (m->begun) {
        return uw_error_set(err, UW_ERR_AGAIN, "the previous step has not ended");
    }
    int rc = uw_model_train_step(m, b, &m->done, err);
    m->begun = rc == UW_OK;
    return rc;
}

int uw_model_step_end(struct uw_model *m, struct uw_step_result *result, struct uw_error *err)
{
    if (uw_device_of(m) != NULL) {
        return uw_parts.on_device->end(m, result, err);
    }
    if (!m->begun) {
        return uw_error_set(err, UW_ERR_INVALID, "no step has begun");
    }
    m->begun = false;
    *result = m->done;
    return UW_OK;
}

uint32_t uw_model_steps_free(const struct uw_model *m)
{
    const struct uw_device_kernels *d = uw_device_of(m);
    if (d == NULL) {
        return m->begun ? 0 : 1;
    }
    /* Then the program or the next step needs this step's results first: one at a time. */
    bool alone = m->guard.factor != 0.0f || m->buckets_n > 0 || m->bucket != NULL;
    uint32_t flying = m->flight->begun - m->flight->ended;
    return (alone ? 1 : d->steps_max) > flying ? (alone ? 1 : d->steps_max) - flying : 0;
}

int uw_model_warm(struct uw_model *m, uint32_t n, struct uw_error *err)
{
    return uw_device_of(m) != NULL ? uw_parts.on_device->warm(m, n, err) : UW_OK;
}

int uw_model_pull(const struct uw_model *m)
{
    return uw_device_of(m) != NULL ? uw_parts.on_device->pull(m) : UW_OK;
}

int uw_model_push(struct uw_model *m)
{
    return uw_device_of(m) != NULL ? uw_parts.on_device->push(m) : UW_OK;
}

int uw_model_pull_range(const struct uw_model *m, uint32_t offset_n, uint32_t count_n)
{
    const struct uw_device_kernels *d = uw_device_of(m);
    if (d == NULL || count_n == 0) {
        return UW_OK;
    }
    return d->shares_parameters
               ? d->wait(&m->exec)
               : d->read(&m->exec, m->params.x + offset_n, m->worked.x + offset_n,
                         count_n * sizeof(float));
}

int uw_model_push_range(struct uw_model *m, uint32_t offset_n, uint32_t count_n)
{
    return !uw_has_image(m->config.kernels) || count_n == 0
               ? UW_OK
               : uw_device_of(m)->write(&m->exec, m->worked.x + offset_n, m->params.x + offset_n,
                                        count_n * sizeof(float));
}

int uw_model_push_velocity(struct uw_model *m)
{
    return !uw_has_image(m->config.kernels) || m->velocity == NULL
               ? UW_OK
               : uw_device_of(m)->write(&m->exec, m->worked.velocity, m->velocity,
                                        m->params.size_n * sizeof(float));
}

bool uw_model_is_finite(const struct uw_model *m)
{
    return m->config.kernels->all_finite(&m->exec, m->params.size_n, m->worked.x);
}
