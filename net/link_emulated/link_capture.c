/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/link_capture.h"

#include "base/bytes.h"

#include <string.h>

#define MAGIC 0xa1b2c3d4u
#define VERSION_MAJOR 2u
#define VERSION_MINOR 4u
#define HEADS_BYTES (UW_CAPTURE_RECORD_HEAD_BYTES + UW_CAPTURE_PSEUDO_BYTES)

struct parts {
    const void *head, *body;
    uint32_t head_bytes, body_bytes;
};

static struct uw_link_capture *self(struct uw_link *l)
{
    return (struct uw_link_capture *)l; /* link is the first member */
}

/* Public fields are the lower link's, after each message and step. */
static void keep_in_step(struct uw_link_capture *c)
{
    c->link = *c->lower;
    c->link.ops = &c->ops;
}

static uint8_t flags_of(const struct uw_link_capture *c)
{
    const struct uw_link *l = c->lower;
    return (uint8_t)((l->reliable ? UW_CAPTURE_RELIABLE : 0) |
                     (l->secure ? UW_CAPTURE_SECURE : 0) | (l->frames ? UW_CAPTURE_FRAMES : 0) |
                     (l->shared ? UW_CAPTURE_SHARED : 0) | (c->gap ? UW_CAPTURE_GAP : 0));
}

static uint32_t put_part(uint8_t *to, uint32_t room, const void *part, uint32_t bytes)
{
    uint32_t n = bytes < room ? bytes : room;
    if (n != 0) {
        memcpy(to, part, n);
    }
    return n;
}

static void write_record(struct uw_link_capture *c, enum uw_capture_kind kind, uint16_t station,
                         const struct parts *p)
{
    uint8_t *at = c->record, *pseudo = at + UW_CAPTURE_RECORD_HEAD_BYTES;
    uint64_t us = c->epoch_us + c->now_us;
    uint32_t bytes = p->head_bytes + p->body_bytes;
    if (c->failure != UW_OK) {
        c->missed_n++;
        return;
    }
    uint32_t kept = put_part(at + HEADS_BYTES, c->snap_bytes, p->head, p->head_bytes);
    kept += put_part(at + HEADS_BYTES + kept, c->snap_bytes - kept, p->body, p->body_bytes);
    uw_put_u32(at, (uint32_t)(us / 1000000u));
    uw_put_u32(at + 4, (uint32_t)(us % 1000000u));
    uw_put_u32(at + 8, UW_CAPTURE_PSEUDO_BYTES + kept);
    uw_put_u32(at + 12, UW_CAPTURE_PSEUDO_BYTES + bytes);
    pseudo[0] = 1;
    pseudo[1] = UW_CAPTURE_PSEUDO_BYTES;
    pseudo[2] = (uint8_t)kind;
    pseudo[3] = flags_of(c);
    uw_put_u16(pseudo + 4, station);
    uw_put_u16(pseudo + 6, c->lower->numbered ? c->lower->own : UW_LINK_STATION_NONE);
    uw_put_u32(pseudo + 8, bytes);
    int rc = c->write(c->arg, at, HEADS_BYTES + kept);
    c->gap = rc != UW_OK;
    c->records_n += rc == UW_OK;
    c->missed_n += rc != UW_OK;
    c->failure = rc == UW_ERR_AGAIN ? UW_OK : rc;
}

/* ---- the link ---- */

static int capture_resolve(struct uw_link *link, const char *address, uint16_t *station)
{
    return uw_link_resolve(self(link)->lower, address, station);
}

static int capture_describe(struct uw_link *link, uint16_t station,
                            char text[UW_LINK_ADDRESS_BYTES])
{
    return uw_link_describe(self(link)->lower, station, text);
}

static bool capture_hold(struct uw_link *link, uint16_t station, bool hold)
{
    return uw_link_hold(self(link)->lower, station, hold);
}

static int sent(struct uw_link_capture *c, int rc, uint16_t to, const struct parts *p)
{
    if (rc == UW_OK) {
        write_record(c, UW_CAPTURE_SENT, to, p);
    }
    keep_in_step(c);
    return rc;
}

static int capture_send(struct uw_link *link, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    struct uw_link_capture *c = self(link);
    int rc = uw_link_send(c->lower, to, buf, buf_bytes);
    return sent(c, rc, to, &(struct parts){.head = buf, .head_bytes = buf_bytes});
}

static int capture_send_parts(struct uw_link *link, uint16_t to, const void *head,
                              uint32_t head_bytes, const void *body, uint32_t body_bytes)
{
    struct uw_link_capture *c = self(link);
    int rc = uw_link_send_parts(c->lower, to, head, head_bytes, body, body_bytes, NULL);
    return sent(c, rc, to, &(struct parts){head, body, head_bytes, body_bytes});
}

static int received(struct uw_link_capture *c, int rc, const uint16_t *from, const void *buf)
{
    if (rc >= 0) {
        c->viewed_from = *from;
        write_record(c, UW_CAPTURE_RECEIVED, *from,
                     &(struct parts){.head = buf, .head_bytes = (uint32_t)rc});
    }
    keep_in_step(c);
    return rc;
}

static int capture_recv(struct uw_link *link, uint16_t *from, void *buf, uint32_t cap_bytes)
{
    struct uw_link_capture *c = self(link);
    int rc = uw_link_recv(c->lower, from, buf, cap_bytes);
    return received(c, rc, from, buf);
}

static int capture_recv_view(struct uw_link *link, uint16_t *from, void **view)
{
    struct uw_link_capture *c = self(link);
    int rc = uw_link_recv_view(c->lower, from, NULL, 0, view);
    return received(c, rc, from, rc >= 0 ? *view : NULL);
}

static int capture_defer(struct uw_link *link)
{
    struct uw_link_capture *c = self(link);
    int rc = uw_link_defer(c->lower);
    if (rc == UW_OK) {
        write_record(c, UW_CAPTURE_PUT_BACK, c->viewed_from, &(struct parts){.head = NULL});
    }
    keep_in_step(c);
    return rc;
}

static void capture_resume(struct uw_link *link)
{
    uw_link_resume(self(link)->lower);
}

static uint64_t capture_step(struct uw_link *link, uint64_t now_us)
{
    struct uw_link_capture *c = self(link);
    c->now_us = now_us > c->now_us ? now_us : c->now_us;
    uint64_t next_us = uw_link_step(c->lower, now_us);
    keep_in_step(c);
    return next_us;
}

static void capture_forget(struct uw_link *link, uint16_t station)
{
    uw_link_forget(self(link)->lower, station);
}

static void capture_deinit(struct uw_link *link)
{
    self(link)->lower = NULL;
    link->ops = NULL;
}

/* ---- set-up ---- */

static uint32_t snap_of(const struct uw_link_capture_config *c)
{
    uint32_t mtu = c->lower->mtu_bytes;
    return c->snap_bytes != 0 ? c->snap_bytes
           : mtu < UW_CAPTURE_SNAP_MAX ? mtu : UW_CAPTURE_SNAP_MAX;
}

size_t uw_link_capture_bytes(const struct uw_link_capture_config *config)
{
    bool allowed = config != NULL && config->lower != NULL && config->lower->ops != NULL &&
                   snap_of(config) <= UW_CAPTURE_SNAP_MAX;
    return allowed ? HEADS_BYTES + (size_t)snap_of(config) : SIZE_MAX;
}

/* Each capture has its own table, with the optional entries that the lower link has. */
static void fill_ops(struct uw_link_ops *ops, const struct uw_link_ops *lower)
{
    *ops = (struct uw_link_ops){
        .name = lower->name,
        .resolve = capture_resolve,
        .describe = capture_describe,
        .hold = capture_hold,
        .send = capture_send,
        .recv = capture_recv,
        .step = capture_step,
        .deinit = capture_deinit,
        .forget = lower->forget != NULL ? capture_forget : NULL,
        .send_parts = lower->send_parts != NULL ? capture_send_parts : NULL,
        .recv_view = lower->recv_view != NULL ? capture_recv_view : NULL,
        .defer = lower->defer != NULL ? capture_defer : NULL,
        .resume = lower->resume != NULL ? capture_resume : NULL,
    };
}

int uw_link_capture_init(struct uw_link_capture *c, const struct uw_link_capture_config *config)
{
    uint8_t head[UW_CAPTURE_FILE_HEAD_BYTES] = {0};
    size_t need = uw_link_capture_bytes(config);
    memset(c, 0, sizeof *c);
    c->link.fd = -1;
    if (need == SIZE_MAX || config->write == NULL) {
        return UW_ERR_INVALID;
    }
    if (config->memory == NULL || config->memory_bytes < need) {
        return UW_ERR_NOMEM;
    }
    c->snap_bytes = snap_of(config);
    uw_put_u32(head, MAGIC);
    uw_put_u16(head + 4, VERSION_MAJOR);
    uw_put_u16(head + 6, VERSION_MINOR);
    uw_put_u32(head + 16, UW_CAPTURE_PSEUDO_BYTES + c->snap_bytes);
    uw_put_u32(head + 20, UW_CAPTURE_LINKTYPE);
    int rc = config->write(config->arg, head, sizeof head);
    if (rc != UW_OK) {
        return rc;
    }
    c->lower = config->lower;
    c->write = config->write;
    c->arg = config->arg;
    c->record = config->memory;
    c->epoch_us = config->epoch_us;
    fill_ops(&c->ops, c->lower->ops);
    keep_in_step(c);
    return UW_OK;
}
