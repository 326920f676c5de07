/* SPDX-License-Identifier: Apache-2.0
 *
 * A medium that emulated links share. */
#include "link_emulated_path.h"

#include "uwasa/radio_profile.h"

#include <string.h>

void uw_emulated_medium_join(struct uw_emulated_medium *m, struct uw_link_emulated *e)
{
    e->medium = m;
    e->next = m->first;
    m->first = e;
}

void uw_emulated_medium_part(struct uw_emulated_medium *m, struct uw_link_emulated *e)
{
    for (struct uw_link_emulated **at = &m->first; *at != NULL; at = &(*at)->next) {
        if (*at == e) {
            *at = e->next;
            break;
        }
    }
    m->turn = m->turn == e ? NULL : m->turn;
}

static struct uw_link_emulated *waiting_from(struct uw_link_emulated *e)
{
    while (e != NULL && e->out.waiting_n == 0) {
        e = e->next;
    }
    return e;
}

/* The one that sent last comes last. */
static struct uw_link_emulated *next_in_turn(const struct uw_emulated_medium *m)
{
    struct uw_link_emulated *e = m->turn != NULL ? waiting_from(m->turn->next) : NULL;
    return e != NULL ? e : waiting_from(m->first);
}

/* Access and all the bits. */
static uint64_t time_on_air(struct uw_emulated_medium *m, uint32_t bytes)
{
    if (m->airtime_us != NULL) {
        return m->access_us + m->airtime_us(m->airtime_arg, bytes);
    }
    if (m->rate_bits_per_s == 0) {
        return m->access_us;
    }
    uint64_t work = ((uint64_t)bytes + m->overhead_bytes) * 8000000u + m->rate_rest;
    m->rate_rest = work % m->rate_bits_per_s;
    return m->access_us + work / m->rate_bits_per_s;
}

uint64_t uw_emulated_airtime_us(const struct uw_emulated_medium *m, uint32_t bytes)
{
    struct uw_emulated_medium rest = {.rate_bits_per_s = m->rate_bits_per_s,
                                      .overhead_bytes = m->overhead_bytes,
                                      .access_us = m->access_us,
                                      .airtime_us = m->airtime_us,
                                      .airtime_arg = m->airtime_arg};
    uint64_t us = time_on_air(&rest, bytes);
    return us + (rest.rate_rest != 0);
}

void uw_emulated_medium_run(struct uw_emulated_medium *m, uint64_t now_us)
{
    while (m->free_at_us <= now_us) {
        struct uw_link_emulated *e = next_in_turn(m);
        if (e == NULL) {
            return;
        }
        const struct uw_emulated_slot *s = uw_emulated_path_waiting(&e->out);
        uint64_t start_us = s->due_us > m->free_at_us ? s->due_us : m->free_at_us;
        uint64_t took_us = time_on_air(m, s->bytes);
        m->free_at_us = start_us + took_us;
        m->busy_us += took_us;
        m->messages_n++;
        m->turn = e;
        uw_emulated_path_leave(&e->out, m->free_at_us);
    }
}

static uint64_t medium_airtime_us(const void *arg, uint32_t bytes)
{
    return uw_radio_profile_airtime_us(arg, bytes);
}

void uw_radio_profile_medium(const struct uw_radio_profile *p, struct uw_emulated_medium *m)
{
    memset(m, 0, sizeof *m);
    m->access_us = p->access_us;
    m->airtime_us = medium_airtime_us;
    m->airtime_arg = p;
}
