/* SPDX-License-Identifier: Apache-2.0
 *
 * Names, and checks for fields without an effect, which uw_node_bind ignores: for programs that
 * report to a user; boards need not link it. */
#include "node_optional.h"

#include <string.h>

#include "uwasa/node_check.h"

enum uw_node_mode uw_node_mode_find(const char *name)
{
    size_t n = strlen(name);
    unsigned mode = 0;
    for (const char *word = UW_NODE_MODES; word != NULL; word = strchr(word, '|'), mode++) {
        word += *word == '|' ? 1 : 0;
        if (strncmp(word, name, n) == 0 && strchr(name, '|') == NULL &&
            (word[n] == '|' || word[n] == '\0')) {
            return (enum uw_node_mode)mode;
        }
    }
    return UW_NODE_MODES_N;
}

static int check_averages(const struct uw_node_config *c, struct uw_node_fault *fault)
{
    bool cells = c->mode == UW_NODE_HIERARCHICAL || c->mode == UW_NODE_AUTO;
    uint32_t members = c->members_max != 0 ? c->members_max : UW_NODE_MEMBERS_DEFAULT;
    if (c->cell != NULL && (strchr(c->cell, '~') != NULL || strchr(c->cell, '*') != NULL)) {
        return UW_NODE_FAULT(fault, cell, "needs a name without ~ and *");
    }
    if (c->cell != NULL && c->cell[0] != '\0' && !cells) {
        return UW_NODE_FAULT(fault, cell, "is for exchange hierarchical or auto");
    }
    if (c->cell_first_n > members) {
        return UW_NODE_FAULT(fault, cell_first_n, "must not be above the number of members");
    }
    if (c->schedule != NULL && (c->mode == UW_NODE_ALLREDUCE || c->mode == UW_NODE_BROADCAST)) {
        return UW_NODE_FAULT(fault, schedule, "is not for allreduce or broadcast");
    }
    if (c->schedule == &uw_peer_schedule_graph && (c->graph == NULL || c->graph->edges_n == 0)) {
        return UW_NODE_FAULT(fault, graph, "is needed by its schedule");
    }
    bool many = c->pulls_n > 1u;
    if (many && (c->mode != UW_NODE_GOSSIP || uw_node_pairs_up(c) || c->period_share > 0.0f)) {
        return UW_NODE_FAULT(fault, pulls_n,
                             "above 1 needs gossip, not in pairs, and a fixed period");
    }
    if (c->algorithm != NULL && !c->agree &&
        (c->mode == UW_NODE_GOSSIP || c->mode == UW_NODE_BROADCAST)) {
        return UW_NODE_FAULT(fault, algorithm, "needs exact averages");
    }
    if (c->gradients != NULL && c->algorithm != NULL && *c->algorithm == UW_ALLREDUCE_DOUBLING) {
        return UW_NODE_FAULT(fault, algorithm,
                             "needs tree, halving or ring to average gradients");
    }
    return UW_OK;
}

int uw_node_check(const struct uw_node_config *config, struct uw_node_fault *fault)
{
    const struct uw_node_config *c = config;
    struct uw_node_fault unused;
    fault = fault != NULL ? fault : &unused;
    int rc = uw_node_check_choices(c, fault);
    rc = rc < 0 ? rc : check_averages(c, fault);
    if (rc == UW_OK && c->code && c->mode != UW_NODE_GOSSIP) {
        return UW_NODE_FAULT(fault, code, "needs gossip");
    }
    if (rc == UW_OK && c->code && !c->link->frames) {
        return UW_NODE_FAULT(fault, code, "needs a radio or a bus");
    }
    return rc;
}

int uw_node_check_listed(const struct uw_node_config *config, struct uw_node_fault *fault)
{
    struct uw_node_fault unused;
    fault = fault != NULL ? fault : &unused;
    int rc = uw_node_check_list(config, fault);
    return rc < 0 ? rc : uw_node_check(config, fault);
}
