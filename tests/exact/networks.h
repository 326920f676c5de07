/* SPDX-License-Identifier: Apache-2.0
 *
 * networks.h - small networks that together take every kernel, optimizer and schedule */
#ifndef UWASA_TEST_EXACT_NETWORKS_H
#define UWASA_TEST_EXACT_NETWORKS_H

#include "uwasa/model.h"
#include "uwasa/schedule.h"

struct exact_network {
    struct uw_model_def def;
    uint32_t batch_n, micro_n;
    enum uw_plan_mode mode;
    struct uw_optimizer optimizer;
    struct uw_schedule schedule;
    uint32_t vocabulary;            /* the input is indices below; 0: it is normal */
};

extern const struct exact_network exact_networks[];
extern const uint32_t exact_networks_n;

#endif
