/* SPDX-License-Identifier: Apache-2.0
 *
 * fibers.h - stacks of their own that take turns on one thread
 *
 *     struct fiber *f = fiber_new(work);
 *     fiber_enter(f);          until work calls fiber_leave; again from there
 */
#ifndef UW_EMULATED_FIBERS_H
#define UW_EMULATED_FIBERS_H

struct fiber;

/* work never returns. Aborts when there is no memory; lives as long as the process. */
struct fiber *fiber_new(void (*work)(void));
/* From outside of fibers. */
void fiber_enter(struct fiber *f);
/* From within one, to who entered it. */
void fiber_leave(void);

#endif
