/* SPDX-License-Identifier: Apache-2.0 */
#include "node_work.h"

#include "uwasa/board.h"

#include <time.h>

#define NAP_US 20000u               /* how soon a stop is noticed */

uint64_t uw_node_work_over_us(const struct uw_node_work *r)
{
    return uw_board_now_us() - r->start_us + (uint64_t)(r->o->elapsed * 1e6);
}

bool uw_node_work_time_left(const struct uw_node_work *r)
{
    return r->o->seconds <= 0.0 || (double)uw_node_work_over_us(r) < r->o->seconds * 1e6;
}

void uw_node_work_rest(struct uw_node_work *r, uint64_t since_us)
{
    uint64_t from_us = uw_board_now_us();
    uint64_t until_us = since_us + (uint64_t)(r->o->step_seconds * 1e6);
    uint64_t now_us = from_us;
    while (now_us < until_us && !uw_stop_asked(&r->stop) && uw_node_work_time_left(r)) {
        uint64_t nap_us = until_us - now_us < NAP_US ? until_us - now_us : NAP_US;
        nanosleep(&(struct timespec){.tv_nsec = (long)nap_us * 1000}, NULL);
        now_us = uw_board_now_us();
    }
    if (now_us != from_us) {
        uw_node_trace_part(r, "rest", from_us, now_us);
    }
}
