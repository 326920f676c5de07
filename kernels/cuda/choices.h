/* SPDX-License-Identifier: Apache-2.0
 *
 * choices.h - the fastest algorithms measured, in memory and in a file (private to kernels/cuda)
 *
 * A text file with one line per choice, so that a shape is measured once on a machine:
 *
 *     uwasa choices 1
 *     conv2d fw batch 64 shape 3 32 32 16 32 32 3 3 1 1 1 1 1 1 1 algorithm 6 us 41.2 on <machine>
 *
 * An algorithm with several engines names one, in hexadecimal: algorithm 2 engine 00c0ffee12345678.
 * The machine is the rest of the line: card, compute capability, driver, cuDNN, fp32 or TF32. Lines
 * of other machines are kept. Other files and damaged lines are ignored. A line is applied only if
 * its algorithm exists and fits.
 *
 * Memory     the caller's, fixed      Blocking   while the file is read or written
 * Context    one thread; programs that write at once each leave a whole file
 */
#ifndef UW_KERNELS_CUDA_CHOICES_H
#define UW_KERNELS_CUDA_CHOICES_H

#include <stdbool.h>
#include <stdint.h>

#define UW_CUDA_CHOICES_MAX 1024u       /* a full table replaces the oldest */
#define UW_CUDA_CHOICES_SHAPE 15u
#define UW_CUDA_CHOICES_ALGORITHMS 64   /* numbers are below */
#define UW_CUDA_CHOICE_GONE (-1)        /* instead of an algorithm: delete the file's line */

struct uw_cuda_choice {
    uint32_t part;                      /* enum uw_conv2d_part; + 3: the same of a dense layer */
    uint32_t batch_n;
    uint32_t shape[UW_CUDA_CHOICES_SHAPE];
    int32_t algorithm;                  /* of conv2d_plan.h; dense: 1 is our own; or _GONE */
    uint64_t engine;                    /* its key; 0: the algorithm has none */
    double us;                          /* time of one call */
};

struct uw_cuda_choices {
    const char *path;                   /* NULL: no file; borrowed */
    char machine[160];
    uint32_t n, next;                   /* next: the entry to replace when the table is full */
    struct uw_cuda_choice at[UW_CUDA_CHOICES_MAX];
};

/* Load the lines of this machine from the file at path; path NULL: empty. */
void uw_cuda_choices_load(struct uw_cuda_choices *h, const char *path, const char *machine);

/* The choice for a convolution; NULL: none. Valid until the next put. */
const struct uw_cuda_choice *uw_cuda_choices_find(const struct uw_cuda_choices *h, uint32_t part,
                                                  uint32_t batch_n, const uint32_t *shape);

/* Store a copy; replaces one for the same convolution. */
void uw_cuda_choices_put(struct uw_cuda_choices *h, const struct uw_cuda_choice *choice);

/* Replace the file atomically: these choices, lines of other machines, and lines that other
 * programs have added since.
 *
 * Returns UW_OK (also without a path) or UW_ERR_IO: the file is unchanged. */
int uw_cuda_choices_save(const struct uw_cuda_choices *h);

#endif
