/* SPDX-License-Identifier: Apache-2.0
 *
 * zephyr_node.h - the parts of the sample: set-up and the two threads in main.c, output in
 * report_zephyr.c
 *
 * Memory     all static      Context  main thread, unless noted */
#ifndef UW_ZEPHYR_NODE_H
#define UW_ZEPHYR_NODE_H

#include "settings.h"

#include "uwasa/arena.h"
#include "uwasa/digits.h"
#include "uwasa/link_zsock.h"
#include "uwasa/model.h"
#include "uwasa/node.h"
#include "uwasa/secure.h"

struct uw_zephyr_node {
    struct uw_settings settings;
    struct uw_error err;
    struct uw_arena arena;
    struct uw_model model;
    struct uw_link_zsock zsock;
    struct uw_secure_dtls secure;
    struct uw_link *link;               /* the zsock link, or the secure one over it */
    struct uw_node node;
    size_t model_bytes, network_bytes;
    struct uw_digits digits, test;
    struct uw_loader loader;
    uint32_t step;
    double loss;
    float accuracy;                     /* negative: not tested yet */
};

/* Print the node's configuration and its use of memory. */
void uw_zephyr_report_start(const struct uw_zephyr_node *n);
void uw_zephyr_report_test(const struct uw_zephyr_node *n);
void uw_zephyr_report_done(const struct uw_zephyr_node *n);

/* Print the table of members. Network thread. */
void uw_zephyr_report_status(const struct uw_zephyr_node *n, uint64_t now_us);

/* For struct uw_node_config and struct uw_secure_dtls_config. Network thread. */
void uw_zephyr_report_event(void *arg, const struct uw_node_event *e);
void uw_zephyr_report_peer(void *user, const struct uw_secure_event *e);

#endif
