/* SPDX-License-Identifier: Apache-2.0
 *
 * control.h - what tests ask of the emulated GPU, and tell it
 *
 * Settings, separated by commas, are those of the environment's UWASA_EMULATED_CUDA:
 *
 *     no-driver, no-gpu       probing finds none
 *     driver=12000            the driver's version
 *     memory=BYTES            all of the GPU's memory; 4 GiB if not said
 *     integrated              one memory with the processor; managed memory is closed to it from
 *                             the first piece of work that is put in until the last one is done
 *     concurrent              with integrated: the processor may touch all of it at any time
 *     no-managed              there is no managed memory
 *     host-memory             kernels see all of the processor's memory, as some cards do
 *     seed=N                  another order of streams, blocks and threads
 *     fail-after=N            from the N-th piece of work on everything fails
 *     engines=N               cuDNN's graph API: 1 lists none, 2 some that do not run, 3 the same
 *                             with other knobs
 *     uuid=N                  of the GPU: processes with one number share it
 *     races                   what threads of a launch touch without order ends the process, see
 *                             races.h (GCC, and no other sanitizer)
 *     no-nccl                 NCCL says nothing of itself
 *     nccl-fails-init         no group is made with this process
 *     nccl-hang-at=N          its N-th sum never ends
 *     nccl-error-at=N         from the N-th on its group has failed
 */
#ifndef UW_EMULATED_CONTROL_H
#define UW_EMULATED_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As if the process began with these; memory that was taken stays. An unknown one aborts. */
void uw_emulated_settings(const char *settings);

/* Pieces of work (kernels, copies, libraries' calls) that ran. */
uint64_t uw_emulated_pieces(void);
/* Blocks of memory that were ever taken, the processor's pinned ones too: none after seal. */
uint64_t uw_emulated_taken(void);
/* Recordings of graphs that have begun. */
uint64_t uw_emulated_recordings(void);
/* Descriptors of cuDNN's graph API that are there. */
uint64_t uw_emulated_descriptors(void);
/* Bytes of device memory in use. */
size_t uw_emulated_used_bytes(void);

#ifdef __cplusplus
}
#endif

#endif
