/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/ref.h"

#include "uwasa/status.h"

#include <math.h>

float uw_window_max_ref(const struct uw_pool2d *p, const float *x, int64_t top, int64_t left,
                        uint8_t *winner)
{
    float best = -INFINITY;
    bool found = false;
    *winner = 0;
    for (uint32_t kh = 0; kh < p->kernel_h; kh++) {
        int64_t ih = top + kh;
        if (ih < 0 || ih >= p->in_h) {
            continue;
        }
        for (uint32_t kw = 0; kw < p->kernel_w; kw++) {
            int64_t iw = left + kw;
            if (iw < 0 || iw >= p->in_w) {
                continue;
            }
            float v = x[ih * p->in_w + iw];
            if (!found || v > best || (v != v && best == best)) {
                best = v;
                found = true;
                *winner = (uint8_t)(kh * p->kernel_w + kw);
            }
        }
    }
    if (p->relu && best <= 0.0f) { /* false for NaN */
        best = 0.0f;
        *winner = UW_POOL_NONE;
    }
    return best;
}

int uw_maxpool2d_fw_ref(const struct uw_exec *e, const struct uw_pool2d *p, uint32_t batch_n,
                        const float *x, float *y, uint8_t *winner)
{
    (void)e;
    size_t planes = (size_t)batch_n * p->channels;
    for (size_t plane = 0; plane < planes; plane++) {
        for (uint32_t oh = 0; oh < p->out_h; oh++) {
            for (uint32_t ow = 0; ow < p->out_w; ow++) {
                uint8_t tap;
                *y++ = uw_window_max_ref(p, x, (int64_t)oh * p->stride_h - p->pad_h,
                                         (int64_t)ow * p->stride_w - p->pad_w, &tap);
                if (winner != NULL) {
                    *winner++ = tap;
                }
            }
        }
        x += (size_t)p->in_h * p->in_w;
    }
    return UW_OK;
}

int uw_maxpool2d_bw_input_ref(const struct uw_exec *e, const struct uw_pool2d *p,
                              uint32_t batch_n, const float *dy, const uint8_t *winner, float *dx,
                              bool accumulate)
{
    (void)e;
    size_t in_hw = (size_t)p->in_h * p->in_w;
    size_t planes = (size_t)batch_n * p->channels;
    for (size_t plane = 0; plane < planes; plane++) {
        if (!accumulate) {
            for (size_t i = 0; i < in_hw; i++) {
                dx[i] = 0.0f;
            }
        }
        for (uint32_t oh = 0; oh < p->out_h; oh++) {
            for (uint32_t ow = 0; ow < p->out_w; ow++) {
                uint32_t tap = *winner++;
                int64_t ih = (int64_t)oh * p->stride_h - p->pad_h + tap / p->kernel_w;
                int64_t iw = (int64_t)ow * p->stride_w - p->pad_w + tap % p->kernel_w;
                float g = *dy++;
                if (tap != UW_POOL_NONE && ih >= 0 && ih < p->in_h && iw >= 0 && iw < p->in_w) {
                    dx[ih * p->in_w + iw] += g;
                }
            }
        }
        dx += in_hw;
    }
    return UW_OK;
}
