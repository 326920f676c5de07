/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/link_mpi.h"

#include "base/number.h"

#include <mpi.h>
#include <string.h>

#define SENDS_DEFAULT 32u
#define RECEIVES_DEFAULT 16u
#define LINE_BYTES 64u
#define LOOK_MIN_US 20u                 /* poll interval after a message ... */
#define LOOK_MAX_US 1000u               /* ... and after a long silence */
#define LOOK_SHARE 8u                   /* in between: this fraction of the silence */
#define END_TRIES 1000                  /* polls of a request in flight at deinit */

struct uw_link_mpi_requests {
    MPI_Request barrier;
    MPI_Request of[];                   /* [sends_n + receives_n] */
};

/* ---- the job ---- */

int uw_link_mpi_begin(uint16_t *rank, uint16_t *ranks_n, struct uw_error *err)
{
    int given = MPI_THREAD_SINGLE, number = 0, size = 1, begun = 0;
    *rank = 0;
    *ranks_n = 1;
    if (MPI_Initialized(&begun) != MPI_SUCCESS || begun ||
        MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &given) != MPI_SUCCESS) {
        return uw_error_set(err, UW_ERR_IO, "MPI does not start, or was started before");
    }
    (void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (given < MPI_THREAD_SERIALIZED) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED,
                            "this MPI supports the main thread only: needs MPI_THREAD_SERIALIZED");
    }
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &number);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size > (int)UW_LINK_STATION_BROADCAST) {
        return uw_error_set(err, UW_ERR_TOOBIG, "%d ranks: a link has %u stations at most", size,
                            UW_LINK_STATION_BROADCAST);
    }
    *rank = (uint16_t)number;
    *ranks_n = (uint16_t)size;
    return UW_OK;
}

void uw_link_mpi_end(int status)
{
    int begun = 0, ended = 0;
    (void)MPI_Initialized(&begun);
    (void)MPI_Finalized(&ended);
    if (!begun || ended) {
        return;
    }
    if (status != 0) {
        (void)MPI_Abort(MPI_COMM_WORLD, status);
    } else {
        (void)MPI_Finalize();
    }
}

/* ---- the link ---- */

static MPI_Request *receive_at(const struct uw_link_mpi *l, uint16_t slot)
{
    return &l->requests->of[l->sends_n + slot];
}

static uint8_t *rx_at(const struct uw_link_mpi *l, uint16_t slot)
{
    return l->rx + (size_t)slot * l->slot_bytes;
}

static int post(struct uw_link_mpi *l, uint16_t slot)
{
    return MPI_Irecv(rx_at(l, slot), (int)l->link.mtu_bytes, MPI_BYTE, MPI_ANY_SOURCE, l->channel,
                     MPI_COMM_WORLD, receive_at(l, slot)) == MPI_SUCCESS
               ? UW_OK
               : UW_ERR_IO;
}

/* Size of the oldest message, which stays in its slot, or UW_ERR_AGAIN, UW_ERR_TOOBIG,
 * UW_ERR_IO. */
static int oldest(struct uw_link_mpi *l, uint16_t *from)
{
    MPI_Status status;
    int here = 0, bytes = 0;
    int rc = MPI_Test(receive_at(l, l->oldest), &here, &status);
    if (rc != MPI_SUCCESS) {
        int class = MPI_ERR_OTHER;
        (void)MPI_Error_class(rc, &class);
        return class == MPI_ERR_TRUNCATE ? UW_ERR_TOOBIG : UW_ERR_IO;
    }
    if (!here) {
        return UW_ERR_AGAIN;
    }
    (void)MPI_Get_count(&status, MPI_BYTE, &bytes);
    *from = (uint16_t)status.MPI_SOURCE;
    return bytes;
}

/* Post the receive of the oldest slot again, behind all others. */
static int turn(struct uw_link_mpi *l)
{
    uint16_t slot = l->oldest;
    l->oldest = (uint16_t)((slot + 1u) % l->receives_n);
    l->heard_us = l->now_us;
    return post(l, slot);
}

static int mpi_resolve(struct uw_link *link, const char *address, uint16_t *station)
{
    const struct uw_link_mpi *l = (struct uw_link_mpi *)link;
    uint32_t number;
    if (!uw_read_number(address, address + strlen(address), UINT16_MAX, &number)) {
        return UW_ERR_INVALID;
    }
    if (number >= l->ranks_n) {
        return UW_ERR_NOTFOUND;
    }
    *station = (uint16_t)number;
    return UW_OK;
}

static int mpi_describe(struct uw_link *link, uint16_t station, char text[UW_LINK_ADDRESS_BYTES])
{
    if (station >= ((struct uw_link_mpi *)link)->ranks_n) {
        return UW_ERR_NOTFOUND;
    }
    uw_write_number(station, text);
    return UW_OK;
}

/* Stations are ranks: all are held. */
static bool mpi_hold(struct uw_link *link, uint16_t station, bool hold)
{
    (void)hold;
    return station < ((struct uw_link_mpi *)link)->ranks_n;
}

static bool is_sent(const struct uw_link_mpi *l, uint16_t slot)
{
    MPI_Request *request = &l->requests->of[slot];
    int done = 0;
    return *request == MPI_REQUEST_NULL ||
           (MPI_Test(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done);
}

static bool all_sent(const struct uw_link_mpi *l)
{
    bool all = true;
    for (uint16_t i = 0; i < l->sends_n; i++) {
        all = is_sent(l, i) && all;
    }
    return all;
}

static int mpi_send_parts(struct uw_link *link, uint16_t to, const void *head, uint32_t head_bytes,
                          const void *body, uint32_t body_bytes)
{
    struct uw_link_mpi *l = (struct uw_link_mpi *)link;
    if (to == UW_LINK_STATION_BROADCAST) {
        return UW_ERR_UNSUPPORTED;
    }
    if (to >= l->ranks_n) {
        return UW_ERR_NOTFOUND;
    }
    if (l->leaving) {
        return UW_ERR_CLOSED;
    }
    uint16_t slot = 0;
    while (slot < l->sends_n && !is_sent(l, slot)) {
        slot++;
    }
    if (slot == l->sends_n) {
        return UW_ERR_AGAIN;
    }
    uint8_t *at = l->tx + (size_t)slot * l->slot_bytes;
    if (head_bytes != 0) {
        memcpy(at, head, head_bytes);
    }
    if (body_bytes != 0) {
        memcpy(at + head_bytes, body, body_bytes);
    }
    uint32_t bytes = head_bytes + body_bytes;
    if (MPI_Isend(at, (int)bytes, MPI_BYTE, to, l->channel, MPI_COMM_WORLD,
                  &l->requests->of[slot]) != MPI_SUCCESS) {
        return UW_ERR_IO;
    }
    link->stats.sent_n++;
    link->stats.sent_bytes += bytes;
    l->heard_us = l->now_us;            /* an answer may come */
    return UW_OK;
}

static int mpi_send(struct uw_link *link, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    return mpi_send_parts(link, to, buf, buf_bytes, NULL, 0);
}

static int mpi_recv(struct uw_link *link, uint16_t *from, void *buf, uint32_t cap_bytes)
{
    struct uw_link_mpi *l = (struct uw_link_mpi *)link;
    uint16_t sender = UW_LINK_STATION_NONE;
    int rc = oldest(l, &sender);
    if (rc == UW_ERR_AGAIN || rc == UW_ERR_IO) {
        return rc;
    }
    if (rc == UW_ERR_TOOBIG || (uint32_t)rc > cap_bytes) {
        link->stats.dropped_n++;
        rc = UW_ERR_TOOBIG;
    } else {
        if (rc > 0) {
            memcpy(buf, rx_at(l, l->oldest), (size_t)rc);
        }
        *from = sender;
        link->stats.received_n++;
        link->stats.received_bytes += (uint64_t)rc;
    }
    int posted = turn(l);
    return posted < 0 ? posted : rc;
}

static uint64_t mpi_step(struct uw_link *link, uint64_t now_us)
{
    struct uw_link_mpi *l = (struct uw_link_mpi *)link;
    l->now_us = now_us > l->now_us ? now_us : l->now_us;
    if (!all_sent(l)) {                 /* MPI sends on only while it is called */
        l->heard_us = l->now_us;
    }
    uint64_t wait_us = (l->now_us - l->heard_us) / LOOK_SHARE;
    wait_us = wait_us < LOOK_MIN_US ? LOOK_MIN_US : wait_us;
    return l->now_us + (wait_us < LOOK_MAX_US ? wait_us : LOOK_MAX_US);
}

/* End a request whose partner may have ended: poll it, then leave it to MPI. */
static void drop(MPI_Request *request, bool receives)
{
    int done = *request == MPI_REQUEST_NULL;
    if (!done && receives) {
        (void)MPI_Cancel(request);
    }
    for (int i = 0; i < END_TRIES && !done; i++) {
        if (MPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            return;
        }
    }
    if (!done) {
        (void)MPI_Request_free(request);
    }
}

static void mpi_deinit(struct uw_link *link)
{
    struct uw_link_mpi *l = (struct uw_link_mpi *)link;
    for (uint32_t i = 0; i < (uint32_t)l->sends_n + l->receives_n; i++) {
        drop(&l->requests->of[i], i >= l->sends_n);
    }
    if (l->requests->barrier != MPI_REQUEST_NULL) {
        (void)MPI_Request_free(&l->requests->barrier);
    }
    link->ops = NULL;
}

static const struct uw_link_ops mpi_ops = {
    .name = "mpi",
    .resolve = mpi_resolve,
    .describe = mpi_describe,
    .hold = mpi_hold,
    .send = mpi_send,
    .recv = mpi_recv,
    .step = mpi_step,
    .deinit = mpi_deinit,
    .send_parts = mpi_send_parts,
};

bool uw_link_mpi_leave(struct uw_link_mpi *l)
{
    uint16_t from;
    int rc, done = 0;
    if (l->link.ops == NULL) {
        return true;
    }
    while ((rc = oldest(l, &from)) >= 0 || rc == UW_ERR_TOOBIG) {
        l->link.stats.dropped_n++;
        if (turn(l) < 0) {
            break;
        }
    }
    if (!l->leaving || l->requests->barrier == MPI_REQUEST_NULL) {
        l->leaving = true;
        if (!all_sent(l)) {
            return false;
        }
        (void)MPI_Ibarrier(MPI_COMM_WORLD, &l->requests->barrier);
    }
    return MPI_Test(&l->requests->barrier, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done;
}

/* ---- set-up ---- */

struct sizes {
    uint32_t mtu, slot, sends, receives;
    size_t requests, total;
};

static bool sizes_of(const struct uw_link_mpi_config *c, struct sizes *s)
{
    s->mtu = c->mtu_bytes != 0 ? c->mtu_bytes : UW_LINK_MPI_MTU_DEFAULT;
    s->sends = c->sends_n != 0 ? c->sends_n : SENDS_DEFAULT;
    s->receives = c->receives_n != 0 ? c->receives_n : RECEIVES_DEFAULT;
    if (s->mtu > UW_LINK_MPI_MTU_MAX || c->channel > UW_LINK_MPI_CHANNEL_MAX) {
        return false;
    }
    s->slot = (s->mtu + LINE_BYTES - 1u) / LINE_BYTES * LINE_BYTES;
    s->requests = sizeof(struct uw_link_mpi_requests) +
                  (s->sends + s->receives) * sizeof(MPI_Request);
    s->requests = (s->requests + LINE_BYTES - 1u) / LINE_BYTES * LINE_BYTES;
    size_t slots = (size_t)s->slot * (s->sends + s->receives);
    s->total = s->requests + slots + LINE_BYTES;
    return slots / s->slot == s->sends + s->receives && s->total > slots;
}

size_t uw_link_mpi_bytes(const struct uw_link_mpi_config *config)
{
    struct sizes s;
    return config != NULL && sizes_of(config, &s) ? s.total : SIZE_MAX;
}

int uw_link_mpi_init(struct uw_link_mpi *l, const struct uw_link_mpi_config *config,
                     struct uw_error *err)
{
    struct sizes s;
    int rank = 0, ranks_n = 0;
    memset(l, 0, sizeof *l);
    l->link.fd = -1;
    if (config == NULL || !sizes_of(config, &s)) {
        return uw_error_set(err, UW_ERR_INVALID, "an MPI link carries 1 to %u bytes a message",
                            UW_LINK_MPI_MTU_MAX);
    }
    if (config->memory == NULL || config->memory_bytes < s.total) {
        return uw_error_set(err, UW_ERR_NOMEM, "the MPI link needs %lu bytes of memory",
                            (unsigned long)s.total);
    }
    if (MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS ||
        MPI_Comm_size(MPI_COMM_WORLD, &ranks_n) != MPI_SUCCESS) {
        return uw_error_set(err, UW_ERR_IO, "MPI was not started");
    }
    uint8_t *at = config->memory;
    at += (0u - (uintptr_t)at) % LINE_BYTES;
    l->requests = (struct uw_link_mpi_requests *)(void *)at;
    l->tx = at + s.requests;
    l->rx = l->tx + (size_t)s.sends * s.slot;
    l->slot_bytes = s.slot;
    l->sends_n = (uint16_t)s.sends;
    l->receives_n = (uint16_t)s.receives;
    l->rank = (uint16_t)rank;
    l->ranks_n = (uint16_t)ranks_n;
    l->channel = config->channel;
    l->link.mtu_bytes = s.mtu;
    l->link.reliable = true;
    l->link.ops = &mpi_ops;
    l->requests->barrier = MPI_REQUEST_NULL;
    for (uint32_t i = 0; i < s.sends + s.receives; i++) {
        l->requests->of[i] = MPI_REQUEST_NULL;
    }
    for (uint16_t i = 0; i < l->receives_n; i++) {
        if (post(l, i) < 0) {
            uw_link_deinit(&l->link);
            return uw_error_set(err, UW_ERR_IO, "MPI refused a receive");
        }
    }
    return UW_OK;
}
