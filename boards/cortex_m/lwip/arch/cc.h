/* SPDX-License-Identifier: Apache-2.0
 *
 * lwIP's settings for the compiler. */
#ifndef UW_LWIP_ARCH_CC_H
#define UW_LWIP_ARCH_CC_H

#include <stdint.h>

uint32_t uw_lwip_random(void);

#define LWIP_RAND() uw_lwip_random()
#define LWIP_PLATFORM_DIAG(x) ((void)0)
#define LWIP_PLATFORM_ASSERT(x) __builtin_trap()
#define LWIP_NO_UNISTD_H 1

#endif
