/* SPDX-License-Identifier: Apache-2.0
 *
 * What carries a node, and the addresses that belong to it. */
#include "node_config_check.h"

#include "links/link_stack.h"

#include <stdio.h>

#define UDP "udp:"
#define HOST_MTU_MIN 256u
#define CONSENSUS_DEFAULT_US 10000000u

#define ADDRESS "needs HOST:PORT, \"10.0.0.2:4433\", \"gateway:4433\" or \"[fe80::2]:4433\""

static int check_list(struct uw_node_file *f, const char *key, const struct uw_opt_list *list,
                      struct uw_error *err)
{
    for (uint32_t i = 0; i < list->n; i++) {
        if (!uw_stack_address_ok(list->item[i], false)) {
            char sentence[200];
            snprintf(sentence, sizeof sentence, "has \"%.60s\", " ADDRESS, list->item[i]);
            return fail_key(f, key, sentence, err);
        }
    }
    return UW_OK;
}

static int check_baud(struct uw_node_file *f, struct uw_error *err)
{
    struct uw_node_options *o = &f->o;
    o->link_baud = o->link_baud != 0 ? o->link_baud : 115200;
    if (!uw_serial_tty_baud_ok(o->link_baud)) {
        return fail_key(f, "link.baud", "needs a rate that serial lines have, 9600, 115200, 921600",
                        err);
    }
    return UW_OK;
}

/* The first key of addresses that hosts have, "seeds" among them if asked for; NULL: none. */
static const char *key_of_hosts(const struct uw_node_options *o, bool seeds)
{
    return seeds && o->seeds.n != 0       ? "seeds"
           : o->advertise != NULL         ? "advertise"
           : strcmp(o->listen, ":0") != 0 ? "listen"
                                          : NULL;
}

/* A serial line leads to one node. */
static int check_line(struct uw_node_file *f, struct uw_error *err)
{
    struct uw_node_options *o = &f->o;
    const char *key = key_of_hosts(o, true);
    key = key == NULL && o->emulate_far.n != 0 ? "emulate.far" : key;
    if (key != NULL) {
        return fail_key(f, key, "is not for a serial line, which leads to one node", err);
    }
    int rc = check_baud(f, err);
    if (rc < 0) {
        return rc;
    }
    if (o->mtu > UW_LINK_SERIAL_MTU_MAX) {
        return fail_key(f, "mtu", "needs at most 2048 on a serial line", err);
    }
    o->seeds.item[0] = "peer";
    o->seeds.n = 1;
    return UW_OK;
}

static int check_numbers(struct uw_node_file *f, const char *key, const struct uw_opt_list *list,
                         struct uw_error *err)
{
    for (uint32_t i = 0; i < list->n; i++) {
        uint16_t address;
        if (uw_link_frame_address(list->item[i], &address) < 0) {
            char sentence[120];
            snprintf(sentence, sizeof sentence, "has \"%.60s\", needs numbers from 0 to %u here",
                     list->item[i], UW_RADIO_ADDRESS_MAX);
            return fail_key(f, key, sentence, err);
        }
    }
    return UW_OK;
}

/* What needs more than frames carry. */
static int check_narrow(struct uw_node_file *f, struct uw_error *err)
{
    const struct uw_node_options *o = &f->o;
    if (strcmp(o->exchange, "gossip") != 0 && strcmp(o->exchange, "broadcast") != 0) {
        return fail_key(f, "exchange", "needs gossip or broadcast on a radio or a bus", err);
    }
    if (strcmp(o->algorithm, "auto") != 0) {
        return fail_key(f, "algorithm", "is of exact averages: a radio or a bus has none", err);
    }
    if (strcmp(o->momentum_rule, "kgt") == 0) {
        return fail_key(f, "momentum_rule", "kgt is not for a radio or a bus", err);
    }
    return o->shuffle > 0.0 ? fail_key(f, "shuffle", "needs 0 on a radio or a bus", err) : UW_OK;
}

/* Nodes find each other on a channel: seeds are not needed. */
static int check_radio(struct uw_node_file *f, struct uw_error *err)
{
    struct uw_node_options *o = &f->o;
    const char *key = key_of_hosts(o, false);
    if (key != NULL) {
        return fail_key(f, key, "is not for a radio or a bus: give \"link.address\"", err);
    }
    if (o->link_address == UW_NODE_ADDRESS_UNSAID) {
        return fail_key(f, "link.address", "is missing: a number of this node's own on the radio "
                                           "or the bus", err);
    }
    if (o->mtu > UW_RADIO_FRAME_MAX) {
        return fail_key(f, "mtu", "needs at most 1280, a frame of a radio or a bus", err);
    }
    if (is_link(o, "radio") && (strncmp(o->link_radio, UDP, sizeof UDP - 1u) != 0 ||
                                !uw_radio_udp_group_ok(o->link_radio + sizeof UDP - 1u))) {
        return fail_key(f, "link.radio", "needs a multicast group, \"udp:239.255.85.87:4785\"",
                        err);
    }
    int rc = is_link(o, "bus") ? check_baud(f, err) : UW_OK;
    rc = rc < 0 ? rc : check_narrow(f, err);
    rc = rc < 0 ? rc : check_numbers(f, "seeds", &o->seeds, err);
    return rc < 0 ? rc : check_numbers(f, "emulate.far", &o->emulate_far, err);
}

void uw_node_config_check_kind(struct uw_node_file *f)
{
    const cJSON *m = cJSON_GetObjectItemCaseSensitive(f->json.root, "link");
    const struct uw_opt *row = uw_opt_find(uw_node_keys, "link", 4);
    struct uw_node_options unused;
    bool empty = cJSON_IsObject(m) && m->child == NULL;
    if (empty || (cJSON_IsString(m) && uw_opt_set(row, m->valuestring, &unused) < 0)) {
        uw_json_fail(&f->json, m, "\"link\" needs udp, tcp, mpi, {\"serial\": DEVICE}, {\"bus\": "
                                  "DEVICE, \"address\": N} or {\"radio\": \"udp:GROUP:PORT\", "
                                  "\"address\": N}");
    }
}

int uw_node_config_refuse_kind(const char *assignment, int rc, struct uw_error *err)
{
    return strncmp(assignment, "link=", 5) != 0
               ? rc : uw_error_set(err, rc, "--set %.40s: needs udp, tcp or mpi; or --set "
                                            "link.serial=DEVICE; or link.bus=DEVICE or link.radio="
                                            "udp:GROUP:PORT with --set link.address=N", assignment);
}

int uw_node_config_choose_link(struct uw_node_file *f, struct uw_error *err)
{
    struct uw_node_options *o = &f->o;
    const struct {
        const char *name, *value;
    } kinds[] = {{"serial", o->link_serial}, {"bus", o->link_bus}, {"radio", o->link_radio}};
    const char *name = o->link;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (kinds[i].value != NULL && name != NULL) {
            return fail_key(f, "link", "is said twice: one of a serial line, a bus, a radio, udp, "
                                       "tcp and mpi", err);
        }
        name = kinds[i].value != NULL ? kinds[i].name : name;
    }
    o->link = name != NULL ? name : "udp";
    if (!is_link(o, "serial") && !is_link(o, "bus") && o->link_baud != 0) {
        return fail_key(f, "link.baud", "needs \"link.serial\" or \"link.bus\"", err);
    }
    if (!is_link(o, "radio") && o->link_interface != NULL) {
        return fail_key(f, "link.interface", "needs \"link.radio\"", err);
    }
    if (!is_link(o, "radio") && !is_link(o, "bus") && o->link_address != UW_NODE_ADDRESS_UNSAID) {
        return fail_key(f, "link.address", "needs \"link.radio\" or \"link.bus\"", err);
    }
    return UW_OK;
}

int uw_node_config_check_link(struct uw_node_file *f, struct uw_error *err)
{
    const struct uw_node_options *o = &f->o;
    if (is_link(o, "radio") || is_link(o, "bus")) {
        return check_radio(f, err);
    }
    if (strcmp(o->exchange, "broadcast") == 0) {
        return fail_key(f, "exchange", "broadcast needs \"link.radio\" or \"link.bus\": what is "
                                       "sent once reaches all", err);
    }
    if (o->mtu != 0 && o->mtu < HOST_MTU_MIN) {
        return fail_key(f, "mtu", "needs 256 or more but on a radio or a bus", err);
    }
    if (is_link(o, "mpi")) {
        return UW_OK;
    }
    if (is_link(o, "serial")) {
        return check_line(f, err);
    }
    if (!uw_stack_address_ok(o->listen, true)) {
        return fail_key(f, "listen", ADDRESS " or \":4433\"", err);
    }
    if (o->advertise != NULL && !uw_stack_address_ok(o->advertise, false)) {
        return fail_key(f, "advertise", ADDRESS, err);
    }
    int rc = check_list(f, "seeds", &o->seeds, err);
    return rc < 0 ? rc : check_list(f, "emulate.far", &o->emulate_far, err);
}

/* ---- the end ---- */

uint64_t uw_node_consensus_us(const struct uw_node_options *o)
{
    bool said = o->consensus_seconds >= 0.0;
    return said ? (uint64_t)(o->consensus_seconds * 1e6) : CONSENSUS_DEFAULT_US;
}

uint64_t uw_node_consensus_end_us(const struct uw_node_options *o, uint64_t start_us,
                                  uint64_t came_us)
{
    return (o->consensus_seconds >= 0.0 ? start_us : came_us) + uw_node_consensus_us(o);
}
