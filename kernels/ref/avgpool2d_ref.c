/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/ref.h"

#include "uwasa/status.h"

/* The part of a window inside the input, and the length counted for the average, on one axis. */
struct reach {
    uint32_t lo, hi;
    uint32_t counted;
};

static struct reach reach_of(uint32_t in, uint32_t kernel, uint32_t pad, uint64_t begin,
                             bool exclude_pad)
{
    uint64_t end = begin + kernel; /* both counted from the start of the padding */
    uint64_t edge = (uint64_t)in + pad, padded = edge + pad;
    struct reach r;
    r.lo = begin > pad ? (uint32_t)(begin - pad) : 0;
    r.hi = end > edge ? in : end > pad ? (uint32_t)(end - pad) : 0;
    r.lo = r.lo < r.hi ? r.lo : r.hi;
    end = end < padded ? end : padded;
    r.counted = exclude_pad ? r.hi - r.lo : (uint32_t)(end - begin);
    return r;
}

static struct reach rows_of(const struct uw_pool2d *p, uint32_t oh)
{
    return reach_of(p->in_h, p->kernel_h, p->pad_h, (uint64_t)oh * p->stride_h, p->exclude_pad);
}

static struct reach cols_of(const struct uw_pool2d *p, uint32_t ow)
{
    return reach_of(p->in_w, p->kernel_w, p->pad_w, (uint64_t)ow * p->stride_w, p->exclude_pad);
}

static float divisor(const struct reach *rows, const struct reach *cols)
{
    return (float)((uint64_t)rows->counted * cols->counted);
}

int uw_avgpool2d_fw_ref(const struct uw_exec *e, const struct uw_pool2d *p, uint32_t batch_n,
                        const float *x, float *y)
{
    (void)e;
    size_t planes = (size_t)batch_n * p->channels;
    for (size_t plane = 0; plane < planes; plane++) {
        for (uint32_t oh = 0; oh < p->out_h; oh++) {
            struct reach rows = rows_of(p, oh);
            for (uint32_t ow = 0; ow < p->out_w; ow++) {
                struct reach cols = cols_of(p, ow);
                float sum = 0.0f;
                for (uint32_t ih = rows.lo; ih < rows.hi; ih++) {
                    float row = 0.0f;
                    for (uint32_t iw = cols.lo; iw < cols.hi; iw++) {
                        row += x[(size_t)ih * p->in_w + iw];
                    }
                    sum += row;
                }
                *y++ = sum / divisor(&rows, &cols);
            }
        }
        x += (size_t)p->in_h * p->in_w;
    }
    return UW_OK;
}

int uw_avgpool2d_bw_input_ref(const struct uw_exec *e, const struct uw_pool2d *p,
                              uint32_t batch_n, const float *dy, float *dx, bool accumulate)
{
    (void)e;
    size_t in_hw = (size_t)p->in_h * p->in_w;
    size_t planes = (size_t)batch_n * p->channels;
    for (size_t plane = 0; plane < planes; plane++, dx += in_hw) {
        for (size_t i = 0; i < in_hw && !accumulate; i++) {
            dx[i] = 0.0f;
        }
        for (uint32_t oh = 0; oh < p->out_h; oh++) {
            struct reach rows = rows_of(p, oh);
            for (uint32_t ow = 0; ow < p->out_w; ow++) {
                struct reach cols = cols_of(p, ow);
                float g = *dy++ / divisor(&rows, &cols);
                for (uint32_t ih = rows.lo; ih < rows.hi; ih++) {
                    for (uint32_t iw = cols.lo; iw < cols.hi; iw++) {
                        dx[(size_t)ih * p->in_w + iw] += g;
                    }
                }
            }
        }
    }
    return UW_OK;
}
