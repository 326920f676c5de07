/* SPDX-License-Identifier: Apache-2.0
 *
 * apart.h - threads on processors of their own
 *
 * A woken thread stays on the processor of who wakes it where the others look taken: on virtual
 * machines an idle processor that its host has put to sleep does. Two threads that then wait for
 * each other by looking take turns on one, and the balance comes after milliseconds.
 *
 * Blocking   never
 */
#ifndef UWASA_LINUX_APART_H
#define UWASA_LINUX_APART_H

#include <stdint.h>

/* The processor that this thread is on; -1: the system does not tell. */
int32_t uw_apart_processor(void);

/* Move this thread to a processor that it may use and that is none of taken[0 .. taken_n-1], unless
 * it is on one; where there is none it stays. What it may use does not change. Returns where it is
 * now, as uw_apart_processor. */
int32_t uw_apart_move(const int32_t *taken, uint32_t taken_n);

#endif
