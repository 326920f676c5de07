/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/zephyr.h - clock and entropy of Zephyr
 *
 * The libraries never call the kernel; a program passes them what its board provides. Flash is in
 * uwasa/flash_zephyr.h, sockets are in uwasa/link_zsock.h.
 *
 * Units      bytes; _us are microseconds, monotonic
 * Memory     none      Blocking   never, unless said      Context  any thread
 */
#ifndef UWASA_ZEPHYR_H
#define UWASA_ZEPHYR_H

#include "uwasa/cplusplus.h"
#include "uwasa/status.h"

#include <stddef.h>
#include <stdint.h>

UW_C_BEGIN

/* Microseconds since start, as fine as the kernel's tick. Never goes back. */
uint64_t uw_zephyr_now_us(void);

/* Fill buf with random bytes for keys from the kernel's secure generator; a kernel without one
 * (CONFIG_CSPRNG_ENABLED) does not link. May wait for the device's source.
 *
 *   user  not used; it makes this the `entropy` of struct uw_secure_dtls_config
 *
 * Returns UW_OK or UW_ERR_IO (buf is then unspecified). */
int uw_zephyr_entropy(void *user, uint8_t *buf, size_t bytes);

UW_C_END
#endif
