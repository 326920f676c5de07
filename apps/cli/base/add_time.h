/* SPDX-License-Identifier: Apache-2.0
 *
 * add_time.h - how fast this machine adds vectors, for the costs of an all-reduce
 *
 * Context  any thread
 */
#ifndef UWASA_CLI_ADD_TIME_H
#define UWASA_CLI_ADD_TIME_H

#include <stdint.h>

/* Seconds that it takes to add a byte of a vector to another, the best of some times.
 *   x  [n], n 2 or more; its second half is added to its first: zeros stay zeros */
double uw_add_time(float *x, uint32_t n);

#endif
