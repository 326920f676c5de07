/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/zephyr.h"

#include <zephyr/kernel.h>

uint64_t uw_zephyr_now_us(void)
{
    return k_ticks_to_us_floor64((uint64_t)k_uptime_ticks());
}
