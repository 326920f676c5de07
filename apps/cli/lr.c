/* SPDX-License-Identifier: Apache-2.0 */
#include "lr.h"

#include "uwasa/fmath.h"
#include "uwasa/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int uw_lr_parse(const char *text, struct uw_lr *s)
{
    *s = (struct uw_lr){.kind = UW_LR_CONSTANT};
    if (strcmp(text, "constant") == 0) {
        return UW_OK;
    }
    if (strcmp(text, "cosine") == 0) {
        s->kind = UW_LR_COSINE;
        return UW_OK;
    }
    if (strncmp(text, "step:", 5) != 0 || text[5] < '1' || text[5] > '9') {
        return UW_ERR_INVALID;
    }
    char *end;
    unsigned long epochs = strtoul(text + 5, &end, 10);
    if (*end != ':' || epochs > UINT32_MAX) {
        return UW_ERR_INVALID;
    }
    const char *factor = end + 1;
    s->kind = UW_LR_STEP;
    s->epochs = (uint32_t)epochs;
    s->factor = strtod(factor, &end);
    if (end == factor || *end != '\0' || !(s->factor > 0.0) || !(s->factor <= 1.0)) {
        return UW_ERR_INVALID;
    }
    return UW_OK;
}

float uw_lr_at(const struct uw_lr *s, double lr, uint64_t step, uint64_t steps,
               uint64_t epoch)
{
    if (s->kind == UW_LR_STEP) {
        for (uint64_t done = epoch / s->epochs; done > 0 && lr > 0.0; done--) {
            lr *= s->factor;
            if (s->factor == 1.0) {
                break;
            }
        }
    } else if (s->kind == UW_LR_COSINE && steps > 0) {
        lr *= 0.5 * (1.0 + (double)uw_cosf((float)(3.14159265358979 * (double)step /
                                                   (double)steps)));
    }
    return (float)lr;
}
