/* SPDX-License-Identifier: Apache-2.0
 *
 * Without floating point, which printk does not support by default. */
#include "zephyr_node.h"

#include <zephyr/kernel.h>

#define ROWS 8u

/* A share in tenths of a percent; 0 if unknown. */
static unsigned tenths(float share)
{
    return share > 0.0f ? (unsigned)(share * 1000.0f + 0.5f) : 0;
}

static unsigned thousandths(double x)
{
    return x > 0.0 ? (unsigned)(x * 1000.0 + 0.5) : 0;
}

void uw_zephyr_report_start(const struct uw_zephyr_node *n)
{
    char address[UW_LINK_ADDRESS_BYTES] = "";
    (void)uw_link_zsock_local(&n->zsock, address);
    printk("uwasa node %s of run %s on %s%s\n", n->settings.name, n->settings.run, address,
           n->link->secure ? "" : ", without a key: anyone on the network can read and change "
                                  "messages");
    printk("%s, %u parameters, minibatch %u, kernels %s\n", n->model.config.def->name,
           (unsigned)n->model.params.size_n, (unsigned)n->settings.batch,
           n->model.config.kernels->name);
    printk("memory: model %u, network %u, of %u bytes\n", (unsigned)n->model_bytes,
           (unsigned)n->network_bytes, (unsigned)n->arena.capacity_bytes);
}

void uw_zephyr_report_test(const struct uw_zephyr_node *n)
{
    unsigned loss = thousandths(n->loss), right = tenths(n->accuracy);
    printk("step %u, loss %u.%03u, test %u.%u %%\n", (unsigned)n->step, loss / 1000u,
           loss % 1000u, right / 10u, right % 10u);
}

void uw_zephyr_report_done(const struct uw_zephyr_node *n)
{
    unsigned right = tenths(n->accuracy);
    printk("done after %u steps: %u.%u %%; serving others\n", (unsigned)n->step, right / 10u,
           right % 10u);
}

void uw_zephyr_report_status(const struct uw_zephyr_node *n, uint64_t now_us)
{
    static struct uw_node_member rows[ROWS];
    struct uw_node_counters c;
    uint32_t rows_n = uw_node_status(&n->node, now_us, rows, ROWS, &c);
    for (uint32_t i = 0; i < rows_n; i++) {
        const struct uw_node_member *m = &rows[i];
        unsigned right = tenths(m->accuracy);
        printk("  %s %s, step %u, test %u.%u %%, %u rounds\n", m->name,
               uw_member_state_name(m->state), (unsigned)m->step, right / 10u, right % 10u,
               (unsigned)m->rounds);
    }
    printk("  sent %u KiB, received %u KiB, %u pulls done, %u cut\n",
           (unsigned)(c.sent_bytes / 1024u), (unsigned)(c.received_bytes / 1024u),
           (unsigned)c.pulls_done, (unsigned)c.pulls_cut);
}

void uw_zephyr_report_event(void *arg, const struct uw_node_event *e)
{
    (void)arg;
    if (e->kind != UW_NODE_PULL_STARTED && e->kind != UW_NODE_PULL_DONE) {
        printk("%s\n", e->text);
    }
}

void uw_zephyr_report_peer(void *user, const struct uw_secure_event *e)
{
    (void)user;
    printk("%s\n", e->text);
}
