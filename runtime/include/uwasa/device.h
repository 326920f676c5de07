/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/device.h - kernels that run beside the processor, and the memory that they see
 *
 * A kernel table with a `device` hands its work to a queue: slots return before the work is done,
 * what stands later in the queue sees the results of what stands before. While a step is open,
 * slots that give numbers write them where the device can (struct uw_device_sums), and a number
 * that is not finite stops the step: nothing behind it changes parameters any more.
 *
 *     d->stage(e, copies, 3);                     the minibatch, from the processor's memory
 *     d->begin(e, &step, &recorded);
 *     if (!recorded) ...                          all the slots of the step
 *     d->end(e, true);
 *     d->result(e, &result);                      waits for the oldest step not yet asked for
 *
 * Outside of a step slots take and give numbers as every table does, and wait for them.
 *
 * Memory     what slots read and write is the device's, the processor must not touch it. Where the
 *            device has `shares_parameters`, parameters, velocity and the optimizer's vectors are
 *            in memory that both see: the processor touches it while the queue is empty
 * Blocking   where it says so      Context  one thread per device
 */
#ifndef UWASA_DEVICE_H
#define UWASA_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uw_exec;

#define UW_DEVICE_STEPS_MAX 2u          /* begun and not yet asked for */
#define UW_DEVICE_FETCHES_MAX 64u
#define UW_DEVICE_SEGMENTS_MAX 128u     /* of one update */

/* What may change from step to step; kernels of a recorded step read it when they run. */
struct uw_device_values {
    uint64_t noise;                     /* of dropout, in place of struct uw_dropout's */
    double loss_limit;                  /* a loss above it skips the step; infinity: none */
    float lr, weight_decay;             /* in place of those in uw_sgd, uw_adam, uw_rmsprop */
    float correction1, correction2;     /* in place of struct uw_adam's */
};

/* Where slots put their numbers while a step is open, in memory of the device. */
struct uw_device_sums {
    double loss[8];                     /* of up to eight heads: what softmax_xent_fw and loss's
                                           forward make of their loss_sum, sum */
    double total;                       /* weighted, of all heads and micro-batches */
    uint32_t correct[8];
    uint32_t correct_total;             /* of the first head */
    uint32_t stopped;                   /* enum uw_device_stop */
    uint32_t where;                     /* UW_DEVICE_STOP_GRADIENT: the first segment's index */
    uint32_t reserved;
};

enum uw_device_stop {
    UW_DEVICE_RUNS = 0,
    UW_DEVICE_STOP_LOSS,                /* not finite; this step and those begun after it */
    UW_DEVICE_STOP_GRADIENT,            /* the same, of a gradient */
    UW_DEVICE_SKIP                      /* above loss_limit; this step only */
};

struct uw_device_step {
    struct uw_device_values values;
    uint64_t key;                       /* steps of one key are the same slots with the same
                                           arguments; 0: do not record */
};

struct uw_device_result {
    double loss;                        /* struct uw_device_sums's total */
    uint32_t correct_n;
    enum uw_device_stop stopped;
    uint32_t where;
};

struct uw_device_copy {
    void *to;                           /* memory of the device */
    const void *from;                   /* the processor's, not changed until the step's result */
    size_t bytes;
};

/* Where a segment stands, counted in floats from the first one of an update. */
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
    float weight;                       /* add_losses's, as the next one */
    uint32_t samples;
};

struct uw_device_kernels {
    bool shares_parameters;
    uint32_t steps_max;                 /* in flight, up to UW_DEVICE_STEPS_MAX */

    /* bytes of x become 0. In the queue. */
    int (*zero)(const struct uw_exec *e, void *x, size_t bytes);
    /* Copy from, and to, the processor's memory. Blocks until done, all in the queue before. */
    int (*write)(const struct uw_exec *e, void *x, const void *host, size_t bytes);
    int (*read)(const struct uw_exec *e, void *host, const void *x, size_t bytes);
    /* Wait until the queue is empty. Returns UW_OK or UW_ERR_IO: the device failed. */
    int (*wait)(const struct uw_exec *e);

    /* Minibatches: copies that may run beside the step before; what they write is not what it
     * reads. */
    int (*stage)(const struct uw_exec *e, const struct uw_device_copy *c, uint32_t n);
    /* Open a step, also one that only evaluates. *recorded: one of this key was recorded, and its
     * slots are in the queue. */
    int (*begin)(const struct uw_exec *e, const struct uw_device_step *s, bool *recorded);
    /* Sums of the open step, as slots take them: addresses in the device's memory. */
    struct uw_device_sums *(*sums)(const struct uw_exec *e);
    /* After the losses' forward slots: total += weight[i] * loss[i], correct_total += correct[0];
     * stops a step whose total is not finite, or above loss_limit * samples. */
    int (*add_losses)(const struct uw_exec *e, const float *weight, uint32_t heads_n,
                      uint32_t samples);
    /* Cross-entropy as a step's only loss: softmax_xent_fw, add_losses and softmax_xent_bw_input in
     * one, with the same results. Inside of a step. */
    int (*xent_step)(const struct uw_exec *e, const struct uw_device_xent *x);
    /* Parameters that the next update slot is about, all of them: its pointers are the first
     * one's, its n counts all. An update that meets a gradient that is not finite leaves that
     * parameter as it is and stops the step, `where` is the segment's index. */
    void (*segments)(const struct uw_exec *e, const struct uw_device_segment *s, uint32_t n);
    /* g *= most / (norm of g + 1e-6) where that is below 1, as PyTorch's clip_grad_norm_. */
    int (*clip)(const struct uw_exec *e, float most, size_t n, float *g);
    /* t[rows][n] = 1 at the labels, 0 elsewhere; *correct_n = rows whose largest z (first of
     * equals) is the label: the device's, or outside of a step the processor's. */
    int (*onehot)(const struct uw_exec *e, uint32_t rows, uint32_t n, const uint32_t *label,
                  const float *z, float *t, uint32_t *correct_n);
    /* Close it. whole: its slots all went well, it may be recorded. There is a result, unless it
     * returns UW_ERR_AGAIN: it could not be recorded, and nothing of it has run. Begun anew it
     * runs as it comes. */
    int (*end)(const struct uw_exec *e, bool whole);
    /* Recorded steps are played no more: keys may be those of others from now on. */
    void (*forget)(const struct uw_exec *e);
    /* Wait for the oldest step that is not asked for yet. Returns UW_OK or UW_ERR_IO. */
    int (*result)(const struct uw_exec *e, struct uw_device_result *r);
    /* After a result with a stop: steps run again. */
    int (*resume)(const struct uw_exec *e);

    /* Gradients for the network. Copy to the processor's memory beside what stands later in the
     * queue; *ticket is what await takes. await blocks until it is there. */
    int (*fetch)(const struct uw_exec *e, void *host, const void *x, size_t bytes,
                 uint32_t *ticket);
    int (*await)(const struct uw_exec *e, uint32_t ticket);
};

#endif
