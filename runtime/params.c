/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/params.h"

#include "uwasa/status.h"

#include <string.h>

int uw_snapshot_publish(struct uw_snapshot *s, const float *x, uint64_t step)
{
    if (s->data == NULL) {
        return UW_ERR_UNSUPPORTED;
    }
    if (atomic_flag_test_and_set_explicit(&s->busy, memory_order_acquire)) {
        return UW_ERR_AGAIN;
    }
    memcpy(s->data, x, (size_t)s->size_n * sizeof(float));
    s->version++;
    s->step = step;
    atomic_flag_clear_explicit(&s->busy, memory_order_release);
    return UW_OK;
}

int uw_snapshot_read(struct uw_snapshot *s, uint32_t offset_n, uint32_t count_n, float *out,
                     struct uw_snapshot_info *info)
{
    if (s->data == NULL) {
        return UW_ERR_UNSUPPORTED;
    }
    if (offset_n > s->size_n || count_n > s->size_n - offset_n) {
        return UW_ERR_INVALID;
    }
    if (atomic_flag_test_and_set_explicit(&s->busy, memory_order_acquire)) {
        return UW_ERR_AGAIN;
    }
    int rc = UW_ERR_AGAIN;
    if (s->version != 0) {
        memcpy(out, s->data + offset_n, (size_t)count_n * sizeof(float));
        info->version = s->version;
        info->step = s->step;
        rc = UW_OK;
    }
    atomic_flag_clear_explicit(&s->busy, memory_order_release);
    return rc;
}

const struct uw_segment *uw_params_find(const struct uw_params *p, const char *name)
{
    for (uint32_t i = 0; i < p->segments_n; i++) {
        if (strcmp(p->segments[i].name, name) == 0) {
            return &p->segments[i];
        }
    }
    return NULL;
}
