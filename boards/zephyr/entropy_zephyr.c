/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/zephyr.h"

/* Its name until Zephyr 3.4 is the second one. */
#if __has_include(<zephyr/random/random.h>)
#include <zephyr/random/random.h>
#else
#include <zephyr/random/rand32.h>
#endif

int uw_zephyr_entropy(void *user, uint8_t *buf, size_t bytes)
{
    (void)user;
    return sys_csrand_get(buf, bytes) == 0 ? UW_OK : UW_ERR_IO;
}
