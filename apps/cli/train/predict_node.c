/* SPDX-License-Identifier: Apache-2.0 */
#include "predict_node.h"

#include "links/keyfile.h"
#include "links/link_stack.h"

#include "uwasa/board.h"
#include "uwasa/query_client.h"

#include <poll.h>
#include <stdlib.h>

#define WAIT_US 50000u

struct uw_predict_node {
    struct uw_predict_node_config config;
    struct uw_keyfile key;
    struct uw_stack stack;
    struct uw_query_client client;
};

int uw_predict_node_check(const struct uw_predict_node_config *c, struct uw_error *err)
{
    bool tcp = c->link.at == UW_STACK_TCP;
    if (!uw_stack_address_ok(c->address, false)) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "--node %.80s: needs HOST:PORT of a node, 10.0.0.9:4433 or "
                            "[fe80::9]:4433", c->address);
    }
    return uw_rules_check(UW_RULES(
        {c->key == NULL && !c->no_tls, "key", "is needed with --node, the key file of the run"},
        {c->run == NULL, "run", "is needed with --node, the name of the run"},
        {c->no_tls && !tcp, "no-tls", "is for --link tcp, udp is always encrypted"}), err);
}

int uw_predict_node_ask(struct uw_predict_node *n, const float *x, float *numbers,
                        struct uw_error *err)
{
    const char *address = n->config.address;
    int rc = UW_ERR_AGAIN;
    while (rc == UW_ERR_AGAIN) {
        uint64_t now_us = uw_board_now_us();
        rc = uw_query_client_step(&n->client, now_us, x, numbers);
        if (rc == UW_ERR_AGAIN) {
            uint64_t wait_us = n->client.next_us > now_us ? n->client.next_us - now_us : 0;
            struct pollfd fd = {.fd = n->stack.top->fd, .events = POLLIN};
            wait_us = wait_us < WAIT_US ? wait_us : WAIT_US;
            poll(&fd, 1, (int)((wait_us + 999u) / 1000u));
        }
    }
    switch (rc) {
    case UW_OK:
        return rc;
    case UW_ERR_TIMEOUT:
        return uw_error_set(err, rc, "%.100s: no answer for %.1f s: check the address, --key, "
                                     "--run, --link and --no-tls", address, n->config.timeout_s);
    case UW_ERR_UNSUPPORTED:
        return uw_error_set(err, rc, "%.100s: this node answers no questions about samples: it is "
                                     "a board, or an earlier version", address);
    case UW_ERR_MISMATCH:
        return uw_error_set(err, rc, "%.100s: the node has another model than before", address);
    case UW_ERR_NOTFOUND:
        return uw_error_set(err, rc, "%.100s: no such host", address);
    default:
        return uw_error_set(err, rc, "%.100s: %s", address, uw_status_text(rc));
    }
}

/* What the node tells of its samples. */
static int take_text(struct uw_predict_node *n, struct uw_job_columns *columns,
                     struct uw_error *err)
{
    n->client.text = calloc(1, (size_t)n->client.text_n + 1u);
    int rc = n->client.text != NULL ? uw_predict_node_ask(n, NULL, NULL, err)
                                    : uw_error_set(err, UW_ERR_NOMEM, "out of memory");
    rc = rc < 0 ? rc : uw_job_columns_read(columns, n->client.text, n->config.address, err);
    free(n->client.text);
    n->client.text = NULL;
    return rc;
}

int uw_predict_node_open(struct uw_predict_node **node,
                         const struct uw_predict_node_config *config, struct uw_answers *answers,
                         struct uw_job_columns *columns, uint32_t *sample_n, float *threshold,
                         struct uw_error *err)
{
    struct uw_predict_node *n = calloc(1, sizeof *n);
    *node = n;
    if (n == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "out of memory");
    }
    n->config = *config;
    int rc = config->no_tls ? UW_OK : uw_keyfile_open(&n->key, config->key, err);
    if (rc == UW_OK) {
        const struct uw_stack_config stack = {
            .carrier = config->link.at == UW_STACK_TCP ? UW_STACK_TCP : UW_STACK_UDP,
            .plain = config->no_tls, .run = config->run,
            .keyfile = config->no_tls ? NULL : &n->key, .peers_n = 2};
        rc = uw_stack_open(&n->stack, &stack, err);
    }
    if (rc == UW_OK) {
        rc = uw_query_client_init(&n->client, n->stack.top, config->address,
                                  (uint32_t)uw_board_now_us());
        n->client.timeout_us = (uint64_t)(config->timeout_s * 1e6);
        rc = rc < 0 ? uw_error_set(err, rc, "%.100s: %s", config->address, uw_status_text(rc))
                    : uw_predict_node_ask(n, NULL, NULL, err);
    }
    rc = rc < 0 || n->client.text_n == 0 || columns == NULL ? rc : take_text(n, columns, err);
    if (rc == UW_OK) {
        *sample_n = n->client.sample_n;
        *threshold = n->client.threshold;
        rc = uw_answers_told(answers, n->client.form, n->client.numbers_n);
        if (rc < 0) {
            uw_error_set(err, rc, "%.100s: the node is a later version", config->address);
        }
    }
    return rc;
}

void uw_predict_node_close(struct uw_predict_node *node)
{
    if (node != NULL) {
        uw_stack_close(&node->stack);
        uw_keyfile_close(&node->key);
        free(node);
    }
}
