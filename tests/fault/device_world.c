/* SPDX-License-Identifier: Apache-2.0 */
#include "fault/device_world.h"

struct devices device_world;

static uint32_t version(void *arg)
{
    return ((struct device *)arg)->version;
}

static int make_id(void *arg, uint8_t id[UW_NODE_DIRECT_ID_BYTES])
{
    (void)arg;
    device_world.ids++;
    memset(id, 7, UW_NODE_DIRECT_ID_BYTES);
    memcpy(id, &device_world.ids, sizeof device_world.ids);
    return UW_OK;
}

static struct group *group_of(const struct uw_node_direct_round *r)
{
    struct group *g = device_world.groups;
    while (g->ranks != 0 && memcmp(g->id, r->id, sizeof g->id) != 0) {
        assert_true(++g < device_world.groups + GROUPS);
    }
    memcpy(g->id, r->id, sizeof g->id);
    assert_true(g->ranks == 0 || g->ranks == r->ranks);
    g->ranks = r->ranks;
    return g;
}

static int begin(void *arg, const struct uw_node_direct_round *r)
{
    struct device *d = arg;
    struct group *g = group_of(r);
    d->begins++;
    d->bad = d->flaw != WELL;
    if (d->flaw == FAILS_TO_BEGIN) {
        d->flaw = d->always ? d->flaw : WELL;
        return UW_ERR_IO;
    }
    d->group = g;
    d->rank = r->rank;
    d->unlike += !r->alike;
    if (r->alike) {
        assert_memory_equal(d->node->x, d->node->image, SIZE_N * sizeof(float));
    }
    g->x[r->rank] = g->x[r->rank] != NULL ? g->x[r->rank] : uw_test_floats(SIZE_N);
    memcpy(g->x[r->rank], d->node->image, SIZE_N * sizeof(float));
    g->begun[r->rank]++;
    return UW_OK;
}

static bool all_have_begun(const struct device *d)
{
    const struct group *g = d->group;
    bool all_have = g->left == 0;
    for (uint32_t i = 0; i < g->ranks; i++) {
        all_have = all_have && g->begun[i] >= g->begun[d->rank];
    }
    return all_have;
}

static int poll(void *arg)
{
    struct device *d = arg;
    struct group *g = d->group;
    d->polls++;
    if (d->bad && d->flaw != DIFFERS) {
        bool fails = d->flaw == FAILS;
        d->bad = !fails;
        d->flaw = d->always || !fails ? d->flaw : WELL;
        return fails ? UW_ERR_IO : UW_ERR_AGAIN;
    }
    if (!all_have_begun(d)) {
        return UW_ERR_AGAIN;
    }
    for (uint32_t k = 0; k < SIZE_N; k++) {
        float sum = 0.0f;
        for (uint32_t i = 0; i < g->ranks; i++) {
            sum += g->x[i][k];
        }
        d->result[k] = d->node->image[k] = sum * (1.0f / (float)g->ranks);
    }
    if (d->bad) {
        d->node->image[1] += 0.5f;
        d->flaw = d->always ? d->flaw : WELL;
    }
    return UW_OK;
}

static int settle(void *arg)
{
    struct device *d = arg;
    d->settles++;
    memcpy(d->node->x, d->result, SIZE_N * sizeof(float));
    return UW_OK;
}

static void abort_round(void *arg)
{
    struct device *d = arg;
    d->aborts++;
    if (d->group != NULL) {
        d->group->left++;
    }
    d->group = NULL;
    d->flaw = d->flaw == HANGS && !d->always ? WELL : d->flaw;
}

struct uw_node_config device_world_config(uint32_t i, bool direct)
{
    struct uw_node_config c = world_config(device_world.a->w, i);
    c.direct = direct ? &device_world.of[i].hooks : NULL;
    return c;
}

/* n nodes with a device each; `without` is one that has none. */
struct average_world *device_world_new(uint32_t n)
{
    memset(&device_world, 0, sizeof device_world);
    device_world.a = average_world_new(n, SIZE_N, 1200);
    device_world.a->w->train_us = 20000;         /* five averages a second at most */
    for (uint32_t i = 0; i < n; i++) {
        struct device *d = &device_world.of[i];
        d->hooks = (struct uw_node_direct){.name = "made-up", .device = 7u + i,
                                           .version = version, .make_id = make_id, .begin = begin,
                                           .poll = poll, .settle = settle, .abort = abort_round,
                                           .arg = d};
        d->version = 3;
        d->node = &device_world.a->w->nodes[i];
        d->result = uw_test_floats(SIZE_N);
    }
    return device_world.a;
}

void device_world_start(uint32_t without)
{
    for (uint32_t i = 0; i < device_world.a->w->n; i++) {
        world_up_with(device_world.a->w, i, device_world_config(i, i != without));
    }
}

void device_world_free(void)
{
    for (uint32_t i = 0; i < device_world.a->w->n; i++) {
        uw_test_release(device_world.of[i].result);
    }
    for (struct group *g = device_world.groups; g->ranks != 0; g++) {
        for (uint32_t i = 0; i < g->ranks; i++) {
            if (g->x[i] != NULL) {
                uw_test_release(g->x[i]);
            }
        }
    }
    average_world_free(device_world.a);
}

void device_world_end(void)
{
    assert_int_equal(average_world_split(device_world.a), 0);
    device_world_free();
}
