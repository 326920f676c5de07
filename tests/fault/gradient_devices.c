/* SPDX-License-Identifier: Apache-2.0 */
#include "fault/gradient_devices.h"

struct gradient_devices gradient_devices;

static uint32_t version(void *arg)
{
    (void)arg;
    return 3;
}

static int make_id(void *arg, uint8_t id[UW_NODE_DIRECT_ID_BYTES])
{
    (void)arg;
    gradient_devices.ids++;
    memset(id, 7, UW_NODE_DIRECT_ID_BYTES);
    memcpy(id, &gradient_devices.ids, sizeof gradient_devices.ids);
    return UW_OK;
}

static struct vector *next_of(struct device *it, bool of_gradients)
{
    uint32_t n = it->group->begun[it->rank]++;
    struct vector *v = &it->group->last[it->rank][n % 2u];
    v->of_gradients = of_gradients;
    return v;
}

static int begin(void *arg, const struct uw_node_direct_round *r)
{
    struct device *it = arg;
    struct group *g = gradient_devices.groups;
    while (g->ranks != 0 && memcmp(g->id, r->id, sizeof g->id) != 0) {
        assert_true(++g < gradient_devices.groups + GROUPS);
    }
    memcpy(g->id, r->id, sizeof g->id);
    assert_true(g->ranks == 0 || g->ranks == r->ranks);
    assert_null(it->parts);
    g->ranks = r->ranks;
    it->group = g;
    it->rank = r->rank;
    memcpy(next_of(it, false)->x, it->node->image, GRADIENT_SIZE * sizeof(float));
    return UW_OK;
}

static int add(void *arg, const struct uw_node_direct_part *parts, uint32_t parts_n)
{
    struct device *it = arg;
    uint32_t at = 0;
    assert_true(it->group != NULL && it->parts == NULL);
    it->adds++;
    it->parts = parts;
    it->parts_n = parts_n;
    it->hangs = it->adds == it->hangs_at;
    if (it->hangs) {
        return UW_OK;
    }
    struct vector *v = next_of(it, true);
    for (uint32_t i = 0; i < parts_n; i++) {
        memcpy(v->x + at, parts[i].x, parts[i].size_n * sizeof(float));
        at += parts[i].size_n;
    }
    assert_int_equal(at, GRADIENT_SIZE);
    return UW_OK;
}

static int poll(void *arg)
{
    struct device *it = arg;
    const struct group *g = it->group;
    uint32_t n = g->begun[it->rank], at = 0;
    bool all = !g->left && !it->hangs;
    float mean[GRADIENT_SIZE] = {0};
    if (it->parts != NULL && it->adds == it->fails_at) {
        return UW_ERR_IO;
    }
    for (uint32_t i = 0; i < g->ranks; i++) {
        all = all && g->begun[i] >= n;
    }
    if (!all) {
        return UW_ERR_AGAIN;
    }
    for (uint32_t i = 0; i < g->ranks; i++) {
        const struct vector *v = &g->last[i][(n - 1u) % 2u];
        assert_true(v->of_gradients == (it->parts != NULL));
        for (uint32_t k = 0; k < GRADIENT_SIZE; k++) {
            mean[k] += v->x[k] * (1.0f / (float)g->ranks);
        }
    }
    for (uint32_t i = 0; it->parts != NULL && i < it->parts_n; i++) {
        memcpy(it->parts[i].x, mean + at, it->parts[i].size_n * sizeof(float));
        at += it->parts[i].size_n;
    }
    if (it->parts == NULL) {
        memcpy(it->node->image, mean, sizeof mean);
    }
    it->parts = NULL;
    return UW_OK;
}

static int settle(void *arg)
{
    struct device *it = arg;
    memcpy(it->node->x, it->node->image, GRADIENT_SIZE * sizeof(float));
    return UW_OK;
}

static void abort_round(void *arg)
{
    struct device *it = arg;
    it->aborts++;
    if (it->group != NULL) {
        it->group->left = true;
    }
    it->group = NULL;
    it->parts = NULL;
    it->hangs = false;
}

void gradient_devices_up(uint32_t i, bool newcomer)
{
    struct gradient_world *g = gradient_devices.g;
    struct uw_node_config c = world_config(g->w, i);
    c.direct = &gradient_devices.of[i].hooks;
    c.newcomer = newcomer;
    world_up_with(g->w, i, c);
    gradient_world_forget(g, i);
}

void gradient_devices_down(uint32_t i)
{
    struct gradient_world *g = gradient_devices.g;
    world_down(g->w, i);
    gradient_world_forget(g, i);
    abort_round(&gradient_devices.of[i]);
}

struct gradient_world *gradient_devices_new(uint32_t n)
{
    memset(&gradient_devices, 0, sizeof gradient_devices);
    gradient_devices.g = gradient_world_new(n, 1200);
    for (uint32_t i = 0; i < n; i++) {
        struct device *it = &gradient_devices.of[i];
        it->hooks = (struct uw_node_direct){.name = "made-up", .device = 7u + i,
                                            .version = version, .make_id = make_id, .begin = begin,
                                            .poll = poll, .settle = settle, .abort = abort_round,
                                            .add = add, .arg = it};
        it->node = &gradient_devices.g->w->nodes[i];
    }
    return gradient_devices.g;
}
