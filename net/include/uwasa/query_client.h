/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/query_client.h - ask a node what its model says of samples, without joining the run
 *
 *     uw_query_client_init(&c, link, address);
 *     step until not UW_ERR_AGAIN, with x NULL:        c.sample_n, numbers_n, form, threshold,
 *                                                      text_n
 *     the same with c.text set to text_n bytes:        the text, if it is wanted
 *     step until not UW_ERR_AGAIN, with a sample:      its numbers; again for the next one
 *
 * Between two steps wait until c.next_us or link->fd, as for uwasa/status_client.h.
 *
 * Memory     the link and the address's text are borrowed; samples and numbers are the caller's
 * Blocking   never      Context  one thread
 */
#ifndef UWASA_QUERY_CLIENT_H
#define UWASA_QUERY_CLIENT_H

#include "uwasa/cplusplus.h"
#include "uwasa/link.h"

#include <stdbool.h>
#include <stdint.h>

UW_C_BEGIN

struct uw_query_client {
    struct uw_link *link;
    const char *address;
    uint64_t heard_us, next_us;     /* next_us: call again then at the latest */
    uint64_t timeout_us;            /* 5 s without a reply; may be changed after init */
    uint32_t sample_n, numbers_n;   /* 0: not known yet */
    uint32_t form;                  /* as in struct uw_queries */
    float threshold;
    char *text;                     /* [text_n] of the caller, or NULL: not wanted */
    uint32_t text_n;                /* as in struct uw_queries */
    uint32_t number;                /* of the question */
    uint32_t look_us;               /* until the next look for the answer */
    uint32_t sent_n, got_n;         /* floats of the sample that have arrived; of its numbers, or
                                       bytes of the text */
    uint16_t station;               /* UW_LINK_STATION_NONE until the address is resolved */
    bool started;
};

/* Set up a client. number: where its questions begin, different from an earlier client's.
 * Returns UW_OK, or the error of uw_link_resolve for the address except UW_ERR_AGAIN. */
int uw_query_client_init(struct uw_query_client *c, struct uw_link *link, const char *address,
                         uint32_t number);

/* Send what is due, receive replies.
 *   x        [sample_n] a sample, the same until it is answered; NULL: ask how samples are
 *   numbers  [numbers_n] filled as parts arrive; not used without a sample
 * Returns UW_OK (answered), UW_ERR_AGAIN, UW_ERR_TIMEOUT (no reply for timeout_us),
 * UW_ERR_UNSUPPORTED (the node answers no questions), UW_ERR_MISMATCH (its model is another one
 * than before), or UW_ERR_NOTFOUND and UW_ERR_FULL from uw_link_resolve. */
int uw_query_client_step(struct uw_query_client *c, uint64_t now_us, const float *x,
                         float *numbers);

UW_C_END
#endif
