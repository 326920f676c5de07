/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/sim_cost.h"

#include "uwasa/allreduce_steps.h"

#include <stddef.h>

/* ---- paths ---- */

static void narrow(uint64_t *least, uint64_t bits_per_s)
{
    if (bits_per_s != 0 && (*least == 0 || bits_per_s < *least)) {
        *least = bits_per_s;
    }
}

static const struct uw_sim_cell *cell_of(const struct uw_sim_fleet *fleet, uint32_t device)
{
    uint32_t cell = fleet->devices[device].cell;
    return cell < fleet->cells_n ? &fleet->cells[cell] : NULL;
}

static struct uw_sim_path path_of(uint64_t latency_us, uint64_t bits_per_s, bool shared)
{
    return (struct uw_sim_path){.latency_s = (double)latency_us / 1e6,
                                .byte_s = bits_per_s != 0 ? 8.0 / (double)bits_per_s : 0.0,
                                .shared = shared};
}

/* Latency from a device, through its cell's channel and thin link, to the centre of the network. */
static uint64_t way_out_us(const struct uw_sim_fleet *fleet, uint32_t device, uint64_t *least)
{
    const struct uw_sim_cell *cell = cell_of(fleet, device);
    uint64_t latency_us = fleet->devices[device].latency_us;
    if (cell != NULL) {
        narrow(least, cell->shared ? cell->bits_per_s : 0);
        narrow(least, cell->out_bits_per_s);
        latency_us += cell->out_latency_us;
    }
    return latency_us;
}

struct uw_sim_path uw_sim_path_between(const struct uw_sim_fleet *fleet, uint32_t from,
                                       uint32_t to)
{
    const struct uw_sim_cell *cell = cell_of(fleet, from);
    uint64_t least = 0;
    narrow(&least, fleet->devices[from].up_bits_per_s);
    narrow(&least, fleet->devices[to].down_bits_per_s);
    if (cell != NULL && cell == cell_of(fleet, to)) {
        narrow(&least, cell->bits_per_s);
        return path_of(cell->latency_us, least, cell->shared);
    }
    uint64_t latency_us = way_out_us(fleet, from, &least) + way_out_us(fleet, to, &least);
    return path_of(latency_us, least, false);
}

struct uw_sim_path uw_sim_path_among(const struct uw_sim_fleet *fleet, const uint32_t *members,
                                     uint32_t n)
{
    const struct uw_sim_cell *cell = n != 0 ? cell_of(fleet, members[0]) : NULL;
    uint64_t inside = 0, outside = 0, first_us = 0, second_us = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct uw_sim_device *d = &fleet->devices[members[i]];
        uint64_t us = way_out_us(fleet, members[i], &outside);
        second_us = us > first_us ? first_us : us > second_us ? us : second_us;
        first_us = us > first_us ? us : first_us;
        narrow(&inside, d->up_bits_per_s);
        narrow(&inside, d->down_bits_per_s);
        cell = cell_of(fleet, members[i]) == cell ? cell : NULL;
    }
    if (cell != NULL) {
        narrow(&inside, cell->bits_per_s);
        return path_of(cell->latency_us, inside, cell->shared);
    }
    narrow(&outside, inside);
    return path_of(first_us + second_us, outside, false);
}

/* ---- costs ---- */

double uw_sim_pull_s(const struct uw_sim_path *path, double model_bytes, bool question)
{
    return (question ? 2.0 : 1.0) * path->latency_s + model_bytes * path->byte_s;
}

/* The work of an algorithm's ranks: consecutive steps, models that pass one rank's link in these,
 * models that all ranks send. */
struct shape {
    double steps, models, sent;
};

/* The first 2 r ranks fold in pairs: with butterfly they send whole models, with halving halves. */
static struct shape folded(enum uw_sim_algorithm algorithm, uint32_t ranks)
{
    bool halving = algorithm == UW_SIM_HALVING;
    double power = 1.0, bits = 0.0;
    for (; 2.0 * power <= (double)ranks; power *= 2.0) {
        bits += 1.0;
    }
    double extra = (double)ranks - power, any = extra > 0.0 ? 1.0 : 0.0;
    double kept = 2.0 * (power - 1.0) / power;
    if (halving) {
        return (struct shape){2.0 * bits + 3.0 * any, kept + 2.0 * any,
                              power * kept + 2.5 * extra};
    }
    return (struct shape){bits + 2.0 * any, bits + 2.0 * any, power * bits + 2.0 * extra};
}

static struct shape shape_of(enum uw_sim_algorithm algorithm, uint32_t ranks)
{
    double others = (double)ranks - 1.0, steps;
    switch (algorithm) {
    case UW_SIM_RING:
        return (struct shape){2.0 * others, 2.0 * others / (double)ranks, 2.0 * others};
    case UW_SIM_RING_STUDY:
        return (struct shape){2.0 * others, 2.0 * others, 2.0 * others * (double)ranks};
    case UW_SIM_TREE:
        steps = uw_allreduce_steps_n(UW_ALLREDUCE_TREE, ranks);
        return (struct shape){steps, steps, 2.0 * others};
    case UW_SIM_SWEEP:
        steps = uw_allreduce_steps_n(UW_ALLREDUCE_SWEEP, ranks);
        return (struct shape){steps, steps, steps * (double)ranks};
    default:
        return folded(algorithm, ranks);
    }
}

/* Models sent in a sweep of the Base-2 graph; idle ranks send nothing in a round. */
static double sweep_models(uint32_t ranks)
{
    double sent = 0.0;
    for (uint32_t k = 0; k < uw_allreduce_steps_n(UW_ALLREDUCE_SWEEP, ranks); k++) {
        for (uint32_t i = 0; i < ranks; i++) {
            sent += uw_allreduce_step(UW_ALLREDUCE_SWEEP, ranks, i, 1, k).send_n;
        }
    }
    return sent;
}

double uw_sim_allreduce_s(enum uw_sim_algorithm algorithm, uint32_t ranks,
                          const struct uw_sim_path *path, double model_bytes, double *sent_bytes)
{
    struct shape s = {0.0, 0.0, 0.0};
    if (algorithm == UW_SIM_AUTO) {
        algorithm = uw_sim_cheapest(ranks, path, model_bytes);
    }
    if (ranks > 1) {
        s = shape_of(algorithm, ranks);
        s.sent = algorithm == UW_SIM_SWEEP ? sweep_models(ranks) : s.sent;
    }
    if (sent_bytes != NULL) {
        *sent_bytes = s.sent * model_bytes;
    }
    double models = path->shared ? s.sent : s.models;
    return s.steps * path->latency_s + models * model_bytes * path->byte_s;
}

enum uw_sim_algorithm uw_sim_cheapest(uint32_t ranks, const struct uw_sim_path *path,
                                      double model_bytes)
{
    static const enum uw_sim_algorithm all[] = {UW_SIM_BUTTERFLY, UW_SIM_HALVING, UW_SIM_RING,
                                                UW_SIM_TREE};
    enum uw_sim_algorithm best = all[0];
    double least = uw_sim_allreduce_s(best, ranks, path, model_bytes, NULL);
    for (size_t i = 1; i < sizeof all / sizeof all[0]; i++) {
        double s = uw_sim_allreduce_s(all[i], ranks, path, model_bytes, NULL);
        if (s < least) {
            least = s;
            best = all[i];
        }
    }
    return best;
}
