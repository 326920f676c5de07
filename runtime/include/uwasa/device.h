/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/device.h - kernel tables that run on a device, such as a GPU, and its memory
 *
 * A kernel table with a `device` submits its work to a queue: slots return before the work is done,
 * and work sees the results of earlier work in the queue. While a step is open, slots write their
 * scalar results to the device's memory (struct uw_device_sums). A result that is not finite stops
 * the step: later work changes no parameters.
 *
 *     d->stage(e, copies, 3);                     the minibatch, from the processor's memory
 *     d->begin(e, &step, &recorded);
 *     if (!recorded) ...                          all the slots of the step
 *     d->end(e, true);
 *     d->result(e, &result);                      waits for the oldest step without a result
 *
 * Outside of a step slots pass scalars as every table does, and wait for them.
 *
 * Memory     slots read and write the device's memory, which the processor must not access. If the
 *            device has `shares_parameters`, parameters, velocity and the optimizer's vectors are
 *            in shared memory: the processor may access it while the queue is empty
 * Blocking   where noted      Context  one thread per device
 */
#ifndef UWASA_DEVICE_H
#define UWASA_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uw_exec;

#define UW_DEVICE_STEPS_MAX 2u          /* begun, result not read yet */
#define UW_DEVICE_FETCHES_MAX 64u
#define UW_DEVICE_SEGMENTS_MAX 128u     /* of one update */

/* Values that change between steps; kernels of a recorded step read them when they run. They
 * replace the fields of the same names. */
struct uw_device_values {
    uint64_t noise;                     /* struct uw_dropout */
    double loss_limit;                  /* a loss above it skips the step; infinity: none */
    float lr, weight_decay;             /* struct uw_sgd, uw_adam, uw_rmsprop */
    float correction1, correction2;     /* struct uw_adam */
};

/* Scalar results of slots while a step is open, in the device's memory. */
struct uw_device_sums {
    double loss[8];                     /* loss_sum of softmax_xent_fw or sum of the loss's forward,
                                           for up to eight heads */
    double total;                       /* weighted, of all heads and micro-batches */
    uint32_t correct[8];
    uint32_t correct_total;             /* of the first head */
    uint32_t stopped;                   /* enum uw_device_stop */
    uint32_t where;                     /* UW_DEVICE_STOP_GRADIENT: the first segment's index */
    uint32_t reserved;
};

enum uw_device_stop {
    UW_DEVICE_RUNS = 0,
    UW_DEVICE_STOP_LOSS,                /* loss not finite: stops this and later steps */
    UW_DEVICE_STOP_GRADIENT,            /* gradient not finite: the same */
    UW_DEVICE_SKIP                      /* loss above loss_limit: stops this step only */
};

struct uw_device_step {
    struct uw_device_values values;
    uint64_t key;                       /* steps with equal keys consist of the same slots with the
                                           same arguments; 0: do not record */
};

struct uw_device_result {
    double loss;                        /* struct uw_device_sums's total */
    uint32_t correct_n;
    enum uw_device_stop stopped;
    uint32_t where;
};

struct uw_device_copy {
    void *to;                           /* memory of the device */
    const void *from;                   /* of the processor, unchanged until the step's result */
    size_t bytes;
};

/* Offsets of a segment in floats, from the first segment of an update. */
struct uw_device_segment {
    uint32_t index;
    uint32_t w_n;                       /* in w */
    uint32_t state_n;                   /* in g and the optimizer's vectors */
    uint32_t size_n;
};

struct uw_device_xent {
    uint32_t batch_n, classes;
    const float *logits;                /* [batch_n][classes] */
    const uint32_t *label;              /* [batch_n] */
    float *dlogits;                     /* [batch_n][classes], may be logits */
    float smoothing, scale;
    float weight;                       /* as in add_losses */
    uint32_t samples;                   /* as in add_losses */
};

struct uw_device_kernels {
    bool shares_parameters;
    uint32_t steps_max;                 /* in flight, up to UW_DEVICE_STEPS_MAX */

    /* Fill with zeros. Queued. */
    int (*zero)(const struct uw_exec *e, void *x, size_t bytes);
    /* Copy from, and to, the processor's memory. Blocks until the queue and the copy are done. */
    int (*write)(const struct uw_exec *e, void *x, const void *host, size_t bytes);
    int (*read)(const struct uw_exec *e, void *host, const void *x, size_t bytes);
    /* Wait until the queue is empty. Returns UW_OK or UW_ERR_IO: the device failed. */
    int (*wait)(const struct uw_exec *e);

    /* Copy a minibatch, possibly during the previous step, which must not read the targets. */
    int (*stage)(const struct uw_exec *e, const struct uw_device_copy *c, uint32_t n);
    /* Open a step of training or evaluation. *recorded: a step with this key was recorded and is
     * queued again. */
    int (*begin)(const struct uw_exec *e, const struct uw_device_step *s, bool *recorded);
    /* Sums of the open step, an address in the device's memory, for use by slots. */
    struct uw_device_sums *(*sums)(const struct uw_exec *e);
    /* After the losses' forward slots: total += weight[i] * loss[i], correct_total += correct[0];
     * stops a step whose total is not finite, or above loss_limit * samples. */
    int (*add_losses)(const struct uw_exec *e, const float *weight, uint32_t heads_n,
                      uint32_t samples);
    /* Cross-entropy as a step's only loss, within a step: softmax_xent_fw, add_losses and
     * softmax_xent_bw_input in one, with the same results. */
    int (*xent_step)(const struct uw_exec *e, const struct uw_device_xent *x);
    /* Set the segments of the next update slot: its pointers are those of the first segment, its n
     * is the sum. If a gradient is not finite, the update leaves that parameter unchanged and stops
     * the step; `where` is the segment's index. */
    void (*segments)(const struct uw_exec *e, const struct uw_device_segment *s, uint32_t n);
    /* g *= min(1, most / (norm of g + 1e-6)), as PyTorch's clip_grad_norm_. */
    int (*clip)(const struct uw_exec *e, float most, size_t n, float *g);
    /* t[rows][n] = 1 at the labels, 0 elsewhere. *correct_n = rows whose largest z (first of
     * equals) is the label; it is in the device's memory, outside of a step in the processor's. */
    int (*onehot)(const struct uw_exec *e, uint32_t rows, uint32_t n, const uint32_t *label,
                  const float *z, float *t, uint32_t *correct_n);
    /* Close the step. whole: all its slots succeeded, it may be recorded. Returns UW_ERR_AGAIN if
     * it could not be recorded: nothing of it has run, it has no result; begin it again to run it
     * without a record. */
    int (*end)(const struct uw_exec *e, bool whole);
    /* Drop recorded steps: keys may be reused. */
    void (*forget)(const struct uw_exec *e);
    /* Wait for the oldest step without a result. Returns UW_OK or UW_ERR_IO. */
    int (*result)(const struct uw_exec *e, struct uw_device_result *r);
    /* Run steps again after a result with a stop. */
    int (*resume)(const struct uw_exec *e);

    /* Copy gradients for the network to the processor's memory, concurrently with later work in the
     * queue. await blocks until the copy of a ticket is done. */
    int (*fetch)(const struct uw_exec *e, void *host, const void *x, size_t bytes,
                 uint32_t *ticket);
    int (*await)(const struct uw_exec *e, uint32_t ticket);
};

#endif
