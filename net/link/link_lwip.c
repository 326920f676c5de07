/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/link_lwip.h"

#include "ip_address.h"

#include "base/number.h"
#include "base/slot_table.h"

#include "uwasa/rng.h"

#include <lwip/etharp.h>
#include <lwip/init.h>
#include <lwip/netif.h>
#include <lwip/sys.h>
#include <lwip/timeouts.h>
#include <lwip/udp.h>
#include <netif/ethernet.h>

#include <stdio.h>
#include <string.h>

#define STATIONS_DEFAULT 16u
#define STATIONS_MAX 1024u
#define MESSAGES_MAX 2u             /* a frame is fetched when no message is left, and has one */
#define CARRIER_US 1000000u         /* interval of carrier checks */
#define FRAMES_MOST 16u             /* processed in one call */
#define LOOPBACK_TEXT "127.0.0.1"

struct station {
    ip4_addr_t address;             /* port 0: the slot is free */
    uint16_t port;
    bool held;
    uint32_t used;                  /* the link's count when it was last heard or sent to */
};

struct message {
    struct pbuf *p;
    ip4_addr_t address;
    uint16_t port;
};

struct uw_link_lwip_state {
    struct netif netif;
    struct udp_pcb *pcb;
    struct uw_ethernet *ethernet;
    uint8_t mac[UW_ETHERNET_MAC_BYTES];
    ip4_addr_t loopback;            /* any: none */
    struct station *stations;
    uint16_t stations_n;
    uint32_t uses_n;
    uint64_t now_us, carrier_us;
    struct uw_rng rng;
    struct message waiting[MESSAGES_MAX];
    uint32_t waiting_n;
    uint64_t dropped_n;
};

/* lwIP calls for time and random numbers without an interface. */
static struct uw_link_lwip_state *the_state;

uint32_t uw_lwip_random(void);
uint32_t uw_lwip_random(void)
{
    return the_state != NULL ? uw_rng_u32(&the_state->rng) : 1u;
}

u32_t sys_now(void)
{
    return the_state != NULL ? (u32_t)(the_state->now_us / 1000u) : 0;
}

/* ---- Ethernet ---- */

static err_t output(struct netif *netif, struct pbuf *p)
{
    struct uw_link_lwip_state *s = netif->state;
    if (p->next != NULL) {
        return ERR_BUF;             /* nothing here makes chains */
    }
    int rc = s->ethernet->ops->send(s->ethernet, (uint8_t *)p->payload + ETH_PAD_SIZE,
                                    p->tot_len - ETH_PAD_SIZE);
    return rc == UW_OK ? ERR_OK : rc == UW_ERR_AGAIN ? ERR_WOULDBLOCK : ERR_IF;
}

static err_t open_netif(struct netif *netif)
{
    const struct uw_link_lwip_state *s = netif->state;
    netif->name[0] = 'e';
    netif->name[1] = 'n';
    netif->output = etharp_output;
    netif->linkoutput = output;
    netif->mtu = 1500;
    netif->hwaddr_len = UW_ETHERNET_MAC_BYTES;
    memcpy(netif->hwaddr, s->mac, UW_ETHERNET_MAC_BYTES);
    netif->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET;
    return ERR_OK;
}

/* Fetch frames until one contains a message. */
static void poll(struct uw_link_lwip_state *s)
{
    for (uint32_t i = 0; i < FRAMES_MOST && s->waiting_n == 0; i++) {
        struct pbuf *p = pbuf_alloc(PBUF_RAW, ETH_PAD_SIZE + UW_ETHERNET_FRAME_MAX, PBUF_POOL);
        if (p == NULL) {
            return;                 /* frames wait in the controller */
        }
        int n = p->next == NULL ? s->ethernet->ops->recv(s->ethernet,
                                                         (uint8_t *)p->payload + ETH_PAD_SIZE,
                                                         UW_ETHERNET_FRAME_MAX)
                                : UW_ERR_NOMEM;
        if (n < 0) {
            pbuf_free(p);
            return;
        }
        pbuf_realloc(p, (u16_t)(ETH_PAD_SIZE + n));
        if (s->netif.input(p, &s->netif) != ERR_OK) {
            pbuf_free(p);
        }
    }
}

static void received(void *arg, struct udp_pcb *pcb, struct pbuf *p, const ip_addr_t *address,
                     u16_t port)
{
    struct uw_link_lwip_state *s = arg;
    (void)pcb;
    if (s->waiting_n == MESSAGES_MAX || port == 0) {
        s->dropped_n++;
        pbuf_free(p);
        return;
    }
    s->waiting[s->waiting_n++] = (struct message){.p = p, .address = *address, .port = port};
}

/* ---- stations ---- */

static struct uw_link_lwip_state *of(struct uw_link *l)
{
    return ((struct uw_link_lwip *)l)->state;
}

static struct station *station_at(struct uw_link_lwip_state *s, uint16_t i)
{
    return i < s->stations_n && s->stations[i].port != 0 ? &s->stations[i] : NULL;
}

static bool is_at(const struct station *t, const struct station *other)
{
    return t->port == other->port && ip4_addr_cmp(&t->address, &other->address);
}

static uint64_t rank(const void *slot, const void *key)
{
    const struct station *t = slot;
    return is_at(t, key) ? UW_SLOT_OWN
           : t->held     ? UW_SLOT_KEPT
                         : UW_SLOT_FREE + t->used;
}

/* The slot of an address; a new one gets a free slot, or the one not held and unused longest. */
static uint16_t enter(struct uw_link_lwip_state *s, const ip4_addr_t *address, uint16_t port)
{
    const struct station key = {.address = *address, .port = port};
    struct station *t = uw_slots_find(s->stations, s->stations_n, sizeof *t, rank, &key);
    if (t == NULL) {
        return UW_LINK_STATION_NONE;
    }
    if (!is_at(t, &key)) {
        *t = key;
    }
    t->used = ++s->uses_n;
    return (uint16_t)(t - s->stations);
}

/* "10.0.2.15": four numbers; lwIP would also accept "10.2". */
static bool parse_ip(const char *text, ip4_addr_t *address)
{
    uint8_t ip[4];
    if (!uw_ip_address_parse_ipv4(text, ip)) {
        return false;
    }
    IP4_ADDR(address, ip[0], ip[1], ip[2], ip[3]);
    return true;
}

/* "10.0.2.15:4433", or with a network "10.0.2.15/24:4433"; prefix NULL: not allowed. */
static bool parse(const char *text, ip4_addr_t *address, uint32_t *prefix, uint16_t *port)
{
    char ip[16];
    uint32_t number;
    size_t n = strcspn(text, "/:");
    const char *end = text + n, *colon = strchr(end, ':');
    if (colon == NULL || n >= sizeof ip ||
        !uw_read_number(colon + 1, colon + strlen(colon), UINT16_MAX, &number) || number == 0 ||
        (end != colon && (prefix == NULL || !uw_read_number(end + 1, colon, 32, prefix)))) {
        return false;
    }
    memcpy(ip, text, n);
    ip[n] = '\0';
    *port = (uint16_t)number;
    return parse_ip(ip, address);
}

static int lwip_resolve(struct uw_link *l, const char *address, uint16_t *station)
{
    struct uw_link_lwip_state *s = of(l);
    ip4_addr_t ip, local;
    uint16_t port;
    if (!parse(address, &ip, NULL, &port)) {
        return UW_ERR_INVALID;
    }
    if (!ip4_addr_isany_val(s->loopback) && parse_ip(LOOPBACK_TEXT, &local) &&
        ip4_addr_cmp(&ip, &local)) {
        ip = s->loopback;
    }
    *station = enter(s, &ip, port);
    if (*station == UW_LINK_STATION_NONE) {
        return UW_ERR_FULL;
    }
    s->stations[*station].held = true;
    return UW_OK;
}

static int lwip_describe(struct uw_link *l, uint16_t station, char text[UW_LINK_ADDRESS_BYTES])
{
    struct uw_link_lwip_state *s = of(l);
    const struct station *t = station_at(s, station);
    if (t == NULL) {
        return UW_ERR_NOTFOUND;
    }
    bool local = !ip4_addr_isany_val(s->loopback) && ip4_addr_cmp(&t->address, &s->loopback);
    char ip[16] = LOOPBACK_TEXT;
    if (!local) {
        (void)ip4addr_ntoa_r(&t->address, ip, sizeof ip);
    }
    (void)snprintf(text, UW_LINK_ADDRESS_BYTES, "%s:%u", ip, (unsigned)t->port);
    return UW_OK;
}

static bool lwip_hold(struct uw_link *l, uint16_t station, bool hold)
{
    struct station *t = station_at(of(l), station);
    if (t == NULL) {
        return false;
    }
    bool before = t->held;
    t->held = hold;
    return before;
}

/* ---- messages ---- */

static int lwip_send_parts(struct uw_link *l, uint16_t to, const void *head, uint32_t head_bytes,
                           const void *body, uint32_t body_bytes)
{
    struct uw_link_lwip_state *s = of(l);
    struct station *t = station_at(s, to);
    if (to == UW_LINK_STATION_BROADCAST) {
        return UW_ERR_UNSUPPORTED;
    }
    if (t == NULL) {
        return UW_ERR_NOTFOUND;
    }
    struct pbuf *p = pbuf_alloc(PBUF_TRANSPORT, (u16_t)(head_bytes + body_bytes), PBUF_RAM);
    if (p == NULL) {
        return UW_ERR_AGAIN;
    }
    if (head_bytes > 0) {
        memcpy(p->payload, head, head_bytes);
    }
    if (body_bytes > 0) {
        memcpy((uint8_t *)p->payload + head_bytes, body, body_bytes);
    }
    t->used = ++s->uses_n;
    err_t rc = udp_sendto(s->pcb, p, &t->address, t->port);
    pbuf_free(p);
    if (rc == ERR_MEM || rc == ERR_WOULDBLOCK) {
        return UW_ERR_AGAIN;
    }
    if (rc != ERR_OK && rc != ERR_RTE) {
        return UW_ERR_IO;
    }
    l->stats.sent_n++;
    l->stats.sent_bytes += head_bytes + body_bytes;
    return UW_OK;                   /* without a route it is lost on the way */
}

static int lwip_send(struct uw_link *l, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    return lwip_send_parts(l, to, buf, buf_bytes, NULL, 0);
}

static int lwip_recv(struct uw_link *l, uint16_t *from, void *buf, uint32_t cap_bytes)
{
    struct uw_link_lwip_state *s = of(l);
    for (;;) {
        poll(s);
        l->stats.dropped_n = s->dropped_n + s->ethernet->dropped_n;
        if (s->waiting_n == 0) {
            return UW_ERR_AGAIN;
        }
        struct message m = s->waiting[0];
        s->waiting_n--;
        s->waiting[0] = s->waiting[1];
        uint32_t bytes = m.p->tot_len;
        uint16_t station = bytes <= l->mtu_bytes ? enter(s, &m.address, m.port)
                                                 : UW_LINK_STATION_NONE;
        bool fits = station != UW_LINK_STATION_NONE && bytes <= cap_bytes;
        if (fits) {
            (void)pbuf_copy_partial(m.p, buf, (u16_t)bytes, 0);
        }
        pbuf_free(m.p);
        if (fits) {
            *from = station;
            l->stats.received_n++;
            l->stats.received_bytes += bytes;
            return (int)bytes;
        }
        s->dropped_n++;
        l->stats.dropped_n++;
        if (station != UW_LINK_STATION_NONE) {
            return UW_ERR_TOOBIG;
        }
    }
}

static uint64_t lwip_step(struct uw_link *l, uint64_t now_us)
{
    struct uw_link_lwip_state *s = of(l);
    s->now_us = now_us;
    if (s->ethernet->ops->carrier != NULL && now_us >= s->carrier_us) {
        s->carrier_us = now_us + CARRIER_US;
        (s->ethernet->ops->carrier(s->ethernet) ? netif_set_link_up
                                                : netif_set_link_down)(&s->netif);
    }
    sys_check_timeouts();
    poll(s);                        /* ARP requests are answered, whatever the caller does */
    u32_t sleep_ms = sys_timeouts_sleeptime();
    return sleep_ms == SYS_TIMEOUTS_SLEEPTIME_INFINITE ? UINT64_MAX
                                                       : now_us + 1000u * (uint64_t)sleep_ms;
}

static void lwip_deinit(struct uw_link *l)
{
    struct uw_link_lwip_state *s = of(l);
    if (s == NULL) {
        return;
    }
    for (uint32_t i = 0; i < s->waiting_n; i++) {
        pbuf_free(s->waiting[i].p);
    }
    udp_remove(s->pcb);
    netif_remove(&s->netif);
    the_state = NULL;
    l->ops = NULL;
}

static const struct uw_link_ops ops = {
    .name = "lwip",
    .resolve = lwip_resolve,
    .describe = lwip_describe,
    .hold = lwip_hold,
    .send = lwip_send,
    .recv = lwip_recv,
    .step = lwip_step,
    .deinit = lwip_deinit,
    .send_parts = lwip_send_parts,
};

static uint16_t stations_of(const struct uw_link_lwip_config *c)
{
    return (uint16_t)(c->stations_n != 0 ? c->stations_n : STATIONS_DEFAULT);
}

size_t uw_link_lwip_bytes(const struct uw_link_lwip_config *config)
{
    if (stations_of(config) > STATIONS_MAX || config->mtu_bytes > UW_LINK_LWIP_MTU_MAX) {
        return SIZE_MAX;
    }
    return sizeof(struct uw_link_lwip_state) + stations_of(config) * sizeof(struct station);
}

static int open_udp(struct uw_link_lwip_state *s, const struct uw_link_lwip_config *config,
                    struct uw_error *err)
{
    ip4_addr_t address, mask, gateway = *IP4_ADDR_ANY4;
    uint32_t prefix = 24;
    uint16_t port;
    if (config->address == NULL || !parse(config->address, &address, &prefix, &port)) {
        return uw_error_set(err, UW_ERR_INVALID, "address \"%s\": needs a form like "
                                                 "10.0.2.15/24:4433",
                            config->address != NULL ? config->address : "");
    }
    if ((config->gateway != NULL && !parse_ip(config->gateway, &gateway)) ||
        (config->loopback != NULL && !parse_ip(config->loopback, &s->loopback))) {
        return uw_error_set(err, UW_ERR_INVALID, "gateway or loopback: needs a form like 10.0.2.2");
    }
    ip4_addr_set_u32(&mask, prefix == 0 ? 0 : lwip_htonl(UINT32_MAX << (32u - prefix)));
    static bool lwip_ready;
    if (!lwip_ready) {
        lwip_init();
        lwip_ready = true;
    }
    if (netif_add(&s->netif, &address, &mask, &gateway, s, open_netif, ethernet_input) == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "lwIP refused the interface");
    }
    netif_set_default(&s->netif);
    netif_set_up(&s->netif);
    netif_set_link_up(&s->netif);
    s->pcb = udp_new();
    if (s->pcb == NULL || udp_bind(s->pcb, IP4_ADDR_ANY, port) != ERR_OK) {
        netif_remove(&s->netif);
        return uw_error_set(err, UW_ERR_NOMEM, "lwIP has no UDP port left");
    }
    udp_recv(s->pcb, received, s);
    return UW_OK;
}

int uw_link_lwip_init(struct uw_link_lwip *l, const struct uw_link_lwip_config *config,
                      struct uw_error *err)
{
    memset(l, 0, sizeof *l);
    size_t need = uw_link_lwip_bytes(config);
    if (need == SIZE_MAX) {
        return uw_error_set(err, UW_ERR_INVALID, "mtu_bytes: %u at most",
                            (unsigned)UW_LINK_LWIP_MTU_MAX);
    }
    if (config->memory == NULL || config->memory_bytes < need) {
        return uw_error_set(err, UW_ERR_NOMEM, "link: needs %u bytes", (unsigned)need);
    }
    if (the_state != NULL) {
        return uw_error_set(err, UW_ERR_FULL, "link: a program has one lwIP link");
    }
    struct uw_link_lwip_state *s = config->memory;
    memset(s, 0, need);
    s->ethernet = config->ethernet;
    s->stations = (struct station *)(s + 1);
    s->stations_n = stations_of(config);
    memcpy(s->mac, config->mac, sizeof s->mac);
    uw_rng_seed(&s->rng, config->seed);
    int rc = s->ethernet->ops->start(s->ethernet, s->mac);
    if (rc < 0) {
        return uw_error_set(err, rc, "Ethernet %s: %s", s->ethernet->ops->name,
                            rc == UW_ERR_NOTFOUND ? "no controller found" : "does not start");
    }
    the_state = s;
    rc = open_udp(s, config, err);
    if (rc < 0) {
        the_state = NULL;
        return rc;
    }
    l->state = s;
    l->link.ops = &ops;
    l->link.mtu_bytes = config->mtu_bytes != 0 ? config->mtu_bytes : UW_LINK_LWIP_MTU_DEFAULT;
    l->link.burst_bytes = s->ethernet->burst_bytes;
    l->link.burst_n = s->ethernet->burst_n;
    l->link.fd = -1;
    return UW_OK;
}
