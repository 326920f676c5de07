/* SPDX-License-Identifier: Apache-2.0
 *
 * What each station that said hello is answered, and when the next time.
 *
 * A hello does not prove that somebody is there: its counter is new to this device, but it may have
 * been said long ago under an identity of that time. A join proves it. */
#include "secure_frames_priv.h"

#include "base/backoff.h"
#include "base/slots.h"

#define WELCOME_FIRST_US 220000u        /* doubles while no join comes; less than a device waits
                                           until it asks again, so that all of these are answered */
#define WELCOME_DOUBLINGS 8u
#define WELCOMES_TELL 6u                /* in vain */
#define ANSWERED_N (sizeof((struct uw_secure_frames *)0)->answered / \
                    sizeof((struct uw_secure_frames *)0)->answered[0])

struct uw_frames_answer *uw_frames_answer_to(struct uw_secure_frames *s, uint16_t station)
{
    for (uint32_t i = 0; i < ANSWERED_N; i++) {
        if (s->answered[i].until_us != 0 && s->answered[i].station == station) {
            return &s->answered[i];
        }
    }
    return NULL;
}

/* Who has been welcomed in vain stays longest. */
static uint64_t rank(const void *slot, const void *station)
{
    const struct uw_frames_answer *a = slot;
    return a->until_us != 0 && a->station == *(const uint16_t *)station
               ? UW_SLOT_OWN
               : UW_SLOT_FREE + ((uint64_t)a->in_vain << 56) + a->until_us;
}

static void wait_for_join(struct uw_secure_frames *s, struct uw_frames_answer *a)
{
    a->until_us = s->now_us + uw_backoff_us(WELCOME_FIRST_US, &a->in_vain, WELCOME_DOUBLINGS);
    if (a->in_vain >= WELCOMES_TELL) {
        uw_frames_warn(s, &s->in_vain_tell_us, a->station,
                       "a device says hello and does not follow when it is welcomed: it "
                       "cannot hear this one, or somebody repeats its old hellos");
    }
}

static void pay(struct uw_secure_frames *s, struct uw_frames_answer *a)
{
    const struct uw_frames_peer *p = uw_frames_peer_of(s, a->id);
    bool here = p != NULL && p->station == a->station;
    const struct uw_frames_echo echo = {a->id, a->counter, here ? UW_FRAMES_KNOWS_YOU : 0};
    enum uw_frames_join kind = (enum uw_frames_join)a->owed;
    if (!uw_frames_out_is_free(s)) {
        return;
    }
    a->owed = 0;
    a->until_us = s->now_us;
    if (kind == UW_FRAMES_WELCOME && !uw_frames_may_send(s, &s->welcomes_us, 0)) {
        return;
    }
    if (kind == UW_FRAMES_WELCOME && !here) {
        wait_for_join(s, a);
    }
    uw_frames_send_join(s, a->station, kind, &echo);
}

void uw_frames_answer(struct uw_secure_frames *s, uint16_t to, enum uw_frames_join kind,
                      uint64_t id, uint64_t counter)
{
    struct uw_frames_answer *a = uw_slots_find(s->answered, ANSWERED_N, sizeof *a, rank, &to);
    bool again = a->until_us != 0 && a->station == to && kind == UW_FRAMES_WELCOME;
    uint8_t in_vain = again ? a->in_vain : 0;
    *a = (struct uw_frames_answer){.id = id, .counter = counter, .station = to,
                                   .owed = (uint8_t)kind, .in_vain = in_vain,
                                   .until_us = s->now_us + uw_frames_fresh_tick_us(s)};
    pay(s, a);
}

bool uw_frames_is_in_vain(const struct uw_secure_frames *s, struct uw_frames_answer *a)
{
    uint64_t longest_us = (uint64_t)WELCOME_FIRST_US << WELCOME_DOUBLINGS;
    if (s->now_us > a->until_us + longest_us) {
        a->in_vain = 0;
    }
    return a->owed == 0 && s->now_us < a->until_us;
}

void uw_frames_pay(struct uw_secure_frames *s)
{
    for (uint32_t i = 0; i < ANSWERED_N; i++) {
        struct uw_frames_answer *a = &s->answered[i];
        a->owed = s->now_us < a->until_us ? a->owed : 0;
        if (a->owed != 0) {
            pay(s, a);
        }
    }
}
