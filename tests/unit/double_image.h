/* SPDX-License-Identifier: Apache-2.0
 *
 * The judge in double for convolutions and pools; included by double_model.h. */
#ifndef UWASA_TEST_DOUBLE_IMAGE_H
#define UWASA_TEST_DOUBLE_IMAGE_H

/* [C][L] read as [C][1][L]: the definitions' own numbers, not the bound geometry. */
static inline void double_axes(const struct uw_layer *l, long in[3], long out[3])
{
    in[0] = (long)l->in.c, in[1] = (long)l->in.h, in[2] = (long)l->in.w;
    out[0] = (long)l->out.c, out[1] = (long)l->out.h, out[2] = (long)l->out.w;
}

/* Stride, padding, dilation and kernel along one axis, and the groups. */
struct double_window {
    long kernel[2], stride[2], pad[2], dilation[2], groups;
};

static inline long double_or(uint32_t value, long otherwise)
{
    return value != 0 ? (long)value : otherwise;
}

static inline struct double_window double_window_of(const struct uw_layer_def *def)
{
    struct double_window w = {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 1};
    switch (def->kind) {
    case UW_LAYER_CONV1D:
        w.kernel[1] = (long)def->conv1d.kernel;
        w.stride[1] = double_or(def->conv1d.stride, 1);
        w.pad[1] = (long)def->conv1d.pad;
        w.dilation[1] = double_or(def->conv1d.dilation, 1);
        w.groups = double_or(def->conv1d.groups, 1);
        break;
    case UW_LAYER_CONV_TRANSPOSE2D: {
        const struct uw_conv_transpose2d_def *d = &def->conv_transpose2d;
        w.kernel[0] = (long)d->kernel_h, w.kernel[1] = double_or(d->kernel_w, w.kernel[0]);
        w.stride[0] = double_or(d->stride_h, 1), w.stride[1] = double_or(d->stride_w, w.stride[0]);
        w.pad[0] = (long)d->pad_h, w.pad[1] = (long)d->pad_w;
        w.dilation[0] = double_or(d->dilation_h, 1);
        w.dilation[1] = double_or(d->dilation_w, w.dilation[0]);
        w.groups = double_or(d->groups, 1);
        break;
    }
    case UW_LAYER_MAXPOOL1D:
    case UW_LAYER_AVGPOOL1D:
        w.kernel[1] = (long)def->pool1d.kernel;
        w.stride[1] = double_or(def->pool1d.stride, w.kernel[1]);
        w.pad[1] = (long)def->pool1d.pad;
        break;
    default:
        w.kernel[0] = (long)def->pool2d.kernel_h;
        w.kernel[1] = double_or(def->pool2d.kernel_w, w.kernel[0]);
        w.stride[0] = double_or(def->pool2d.stride_h, w.kernel[0]);
        w.stride[1] = double_or(def->pool2d.stride_w,
                                double_or(def->pool2d.stride_h, w.kernel[1]));
        w.pad[0] = (long)def->pool2d.pad_h, w.pad[1] = (long)def->pool2d.pad_w;
        break;
    }
    return w;
}

static inline void double_conv1d(const struct double_window *k, const long in[3],
                                 const long out[3], const double *x, const double *w,
                                 const double *b, double *y)
{
    long ci_n = in[0] / k->groups, co_n = out[0] / k->groups;
    for (long co = 0; co < out[0]; co++)
    for (long o = 0; o < out[2]; o++) {
        double sum = b != NULL ? b[co] : 0.0;
        for (long ci = 0; ci < ci_n; ci++)
        for (long t = 0; t < k->kernel[1]; t++) {
            long i = o * k->stride[1] + t * k->dilation[1] - k->pad[1];
            if (i >= 0 && i < in[2]) {
                sum += w[(co * ci_n + ci) * k->kernel[1] + t] *
                       x[(co / co_n * ci_n + ci) * in[2] + i];
            }
        }
        y[co * out[2] + o] = sum;
    }
}

/* As PyTorch defines it: every input pixel writes its kernel. */
static inline void double_conv_transpose2d(const struct double_window *k, const long in[3],
                                           const long out[3], const double *x, const double *w,
                                           const double *b, double *y)
{
    long ci_n = in[0] / k->groups, co_n = out[0] / k->groups;
    for (long i = 0; i < out[0] * out[1] * out[2]; i++) {
        y[i] = b != NULL ? b[i / (out[1] * out[2])] : 0.0;
    }
    for (long ci = 0; ci < in[0]; ci++)
    for (long h = 0; h < in[1]; h++)
    for (long v = 0; v < in[2]; v++)
    for (long co = 0; co < co_n; co++)
    for (long kh = 0; kh < k->kernel[0]; kh++)
    for (long kw = 0; kw < k->kernel[1]; kw++) {
        long oh = h * k->stride[0] + kh * k->dilation[0] - k->pad[0];
        long ow = v * k->stride[1] + kw * k->dilation[1] - k->pad[1];
        if (oh >= 0 && oh < out[1] && ow >= 0 && ow < out[2]) {
            y[((ci / ci_n * co_n + co) * out[1] + oh) * out[2] + ow] +=
                w[((ci * co_n + co) * k->kernel[0] + kh) * k->kernel[1] + kw] *
                x[(ci * in[1] + h) * in[2] + v];
        }
    }
}

static inline void double_pool(const struct double_window *k, const long in[3], const long out[3],
                               bool average, bool exclude_pad, const double *x, double *y)
{
    for (long c = 0; c < out[0]; c++)
    for (long oh = 0; oh < out[1]; oh++)
    for (long ow = 0; ow < out[2]; ow++) {
        double sum = 0.0, best = -HUGE_VAL;
        long counted = 0;
        for (long kh = 0; kh < k->kernel[0]; kh++)
        for (long kw = 0; kw < k->kernel[1]; kw++) {
            long h = oh * k->stride[0] + kh - k->pad[0], v = ow * k->stride[1] + kw - k->pad[1];
            bool inside = h >= 0 && h < in[1] && v >= 0 && v < in[2];
            counted += inside || (!exclude_pad && h < in[1] + k->pad[0] && v < in[2] + k->pad[1]);
            if (inside) {
                double value = x[(c * in[1] + h) * in[2] + v];
                sum += value;
                best = fmax(best, value);
            }
        }
        y[(c * out[1] + oh) * out[2] + ow] = average ? sum / (double)counted : best;
    }
}

static inline void double_global(const long in[3], const double *x, double *y)
{
    for (long c = 0; c < in[0]; c++) {
        y[c] = 0.0;
        for (long i = 0; i < in[1] * in[2]; i++) {
            y[c] += x[c * in[1] * in[2] + i] / (double)(in[1] * in[2]);
        }
    }
}

/* y = layer l of n samples. Returns false when the layer is not of this file's kinds. */
static inline bool double_layer_image(struct double_model *d, const struct uw_layer *l, uint32_t n,
                                      double *y)
{
    const struct double_window k = double_window_of(l->def);
    const double *w = double_tensor(d, l, 0), *b = double_tensor(d, l, 1);
    long in[3], out[3];

    double_axes(l, in, out);
    for (uint32_t s = 0; s < n; s++, y += l->out_n) {
        const double *x = d->value[l->input[0]] + (size_t)s * l->in_n;
        switch (l->def->kind) {
        case UW_LAYER_CONV1D:
            double_conv1d(&k, in, out, x, w, b, y);
            break;
        case UW_LAYER_CONV_TRANSPOSE2D:
            double_conv_transpose2d(&k, in, out, x, w, b, y);
            break;
        case UW_LAYER_MAXPOOL1D:
            double_pool(&k, in, out, false, false, x, y);
            break;
        case UW_LAYER_AVGPOOL1D:
            double_pool(&k, in, out, true, l->def->pool1d.exclude_pad, x, y);
            break;
        case UW_LAYER_AVGPOOL2D:
            double_pool(&k, in, out, true, l->def->pool2d.exclude_pad, x, y);
            break;
        case UW_LAYER_GLOBAL_AVGPOOL:
            double_global(in, x, y);
            break;
        default:
            return false;
        }
    }
    return true;
}

#endif
