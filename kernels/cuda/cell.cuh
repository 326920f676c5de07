/* SPDX-License-Identifier: Apache-2.0
 *
 * cell.cuh - one unit of a recurrent cell, for sequence.cu (one step) and recurrence.cu (all steps)
 *
 * Equations are those of struct uw_sequence_kernels (uwasa/kernels_layers.h). A unit's values v are
 * its gates in the order of a's blocks; `prev` is the previous state, h for gru, c for lstm.
 */
#ifndef UW_KERNELS_CUDA_CELL_CUH
#define UW_KERNELS_CUDA_CELL_CUH

#include "launch.cuh"

#define UW_CELL_BLOCKS 5u               /* largest `kept` */

static __device__ inline float uw_sigmoid(float x)
{
    float small = expf(-fabsf(x)); /* no overflow on either side */
    return (x < 0.0f ? small : 1.0f) / (1.0f + small);
}

static __device__ inline float uw_at(const float *x, size_t i)
{
    return x != nullptr ? x[i] : 0.0f;
}

/* Gradients that the backward pass gives to the previous step. */
struct uw_cell_past {
    float h;                            /* of h, except through W_hh */
    float c;                            /* lstm: of c; read as that from the later step */
};

/* gates: blocks of W_hh; kept: blocks of a; place(g): the block of a for gate g of W_hh h.
 * forward: v (biases added) becomes the values kept in a; returns h. backward: v becomes gradients;
 * d is the gradient of h. */
struct uw_rnn_unit {
    static constexpr unsigned gates = 1, kept = 1;
    static __device__ unsigned place(unsigned g) { return g; }
    static __device__ float bias(const float *ih, const float *hh, unsigned g, uint32_t k,
                                 uint32_t j)
    {
        return uw_at(ih, g * k + j) + uw_at(hh, g * k + j);
    }
    static __device__ float forward(float *v, float, bool relu)
    {
        return !relu ? tanhf(v[0]) : v[0] <= 0.0f ? 0.0f : v[0]; /* NaN stays */
    }
    static __device__ void backward(float *v, float h, float, float d, bool relu,
                                    struct uw_cell_past &past)
    {
        v[0] = !relu ? d * (1.0f - h * h) : h > 0.0f ? d : 0.0f;
        past.h = 0.0f;
    }
};

struct uw_gru_unit {
    static constexpr unsigned gates = 3, kept = 4;
    static __device__ unsigned place(unsigned g) { return g < 2 ? g : 3; }
    static __device__ float bias(const float *ih, const float *hh, unsigned g, uint32_t k,
                                 uint32_t j)
    {
        return g < 2    ? uw_at(ih, g * k + j) + uw_at(hh, g * k + j)
               : g == 2 ? uw_at(ih, 2 * k + j)
                        : uw_at(hh, 2 * k + j);
    }
    static __device__ float forward(float *v, float prev, bool)
    {
        v[0] = uw_sigmoid(v[0]);
        v[1] = uw_sigmoid(v[1]);
        v[2] = tanhf(v[2] + v[0] * v[3]);
        return (1.0f - v[1]) * v[2] + v[1] * prev;
    }
    static __device__ void backward(float *v, float, float prev, float d, bool,
                                    struct uw_cell_past &past)
    {
        float r = v[0], z = v[1], g = v[2], m = v[3];
        float dg = d * (1.0f - z) * (1.0f - g * g);
        v[0] = dg * m * r * (1.0f - r);
        v[1] = d * (prev - g) * z * (1.0f - z);
        v[2] = dg;
        v[3] = dg * r;
        past.h = d * z;
    }
};

struct uw_lstm_unit {
    static constexpr unsigned gates = 4, kept = 5;
    static __device__ unsigned place(unsigned g) { return g; }
    static __device__ float bias(const float *ih, const float *hh, unsigned g, uint32_t k,
                                 uint32_t j)
    {
        return g < gates ? uw_at(ih, g * k + j) + uw_at(hh, g * k + j) : 0.0f;
    }
    static __device__ float forward(float *v, float prev, bool)
    {
        v[0] = uw_sigmoid(v[0]);
        v[1] = uw_sigmoid(v[1]);
        v[2] = tanhf(v[2]);
        v[3] = uw_sigmoid(v[3]);
        v[4] = v[1] * prev + v[0] * v[2];
        return v[3] * tanhf(v[4]);
    }
    static __device__ void backward(float *v, float, float prev, float d, bool,
                                    struct uw_cell_past &past)
    {
        float i = v[0], f = v[1], g = v[2], o = v[3], t = tanhf(v[4]);
        float dstate = past.c + d * o * (1.0f - t * t);
        v[0] = dstate * g * i * (1.0f - i);
        v[1] = dstate * prev * f * (1.0f - f);
        v[2] = dstate * i * (1.0f - g * g);
        v[3] = d * t * o * (1.0f - o);
        past.h = 0.0f;
        past.c = dstate * f;
    }
};

#endif
