/* SPDX-License-Identifier: Apache-2.0 */
#include "fault/gossip_world.h"

#define UNSEEN 0x7fc0dead          /* a NaN that nobody computes */

static void world_on_event(void *arg, const struct uw_node_event *e)
{
    struct world_node *n = arg;
    n->events[e->kind]++;
    snprintf(n->text[e->kind], sizeof n->text[e->kind], "%s", e->text);
    if (n->world->talk) {
        printf("%8.3f %s: %s\n", (double)n->world->now_us / 1e6, n->name, e->text);
    }
}

struct world *world_new(uint32_t n, uint32_t size_n, uint32_t mtu_bytes)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->n = n;
    w->size_n = size_n;
    w->seed = uw_test_seed(1);
    w->now_us = 1000000;
    w->train_us = 1000;
    w->incarnation = 100;
    w->seeds[0] = "0";
    w->impairment.delay_us = 500;
    w->talk = getenv("UWASA_TEST_TALK") != NULL;
    uint32_t half = size_n / 2u;
    w->segments[0] = (struct uw_segment){.name = "a", .size_n = half, .rank = 1};
    w->segments[1] =
        (struct uw_segment){.name = "b", .offset_n = half, .size_n = size_n - half, .rank = 1};
    struct uw_loopback_config c = {
        .endpoints_n = (uint16_t)n, .mtu_bytes = mtu_bytes, .queue_n = 1024};
    c.memory_bytes = uw_loopback_hub_bytes(&c);
    c.memory = w->hub_memory = malloc(c.memory_bytes);
    assert_non_null(w->hub_memory);
    assert_int_equal(uw_loopback_hub_init(&w->hub, &c), UW_OK);
    w->config.period_steps = 5;
    w->config.seeds = w->seeds;
    w->config.seeds_n = 1;
    w->config.run = "world";
    for (uint32_t i = 0; i < n; i++) {
        struct world_node *it = &w->nodes[i];
        it->world = w;
        it->place = i;
        it->trains = true;
        snprintf(it->name, sizeof it->name, "%c", (char)('a' + (int)i));
        snprintf(it->address, sizeof it->address, "%u", (unsigned)i);
        it->x = uw_test_floats(size_n);
        it->velocity = uw_test_floats(size_n);
        it->snapshot.data = uw_test_floats(size_n);
        for (uint32_t k = 0; k < size_n; k++) {
            it->x[k] = (float)(i + 1u);
            it->velocity[k] = 0.0f;
        }
        it->snapshot.size_n = size_n;
        atomic_flag_clear(&it->snapshot.busy);
        it->params = (struct uw_params){.x = it->x, .size_n = size_n, .segments = w->segments,
                                        .segments_n = 2, .hash = 0x1234567890abcdefu};
        it->progress = (struct uw_node_progress){.lr = 0.1f, .loss = 1.0f, .accuracy = 0.5f};
    }
    return w;
}

static int fetch(void *arg, uint32_t offset_n, uint32_t count_n)
{
    struct world_node *it = arg;
    assert_true(offset_n <= it->params.size_n && count_n <= it->params.size_n - offset_n);
    memcpy(it->image + offset_n, it->params.x + offset_n, count_n * sizeof(float));
    it->copies++;
    return UW_OK;
}

static int send_image(void *arg, uint32_t offset_n, uint32_t count_n)
{
    struct world_node *it = arg;
    assert_true(offset_n <= it->params.size_n && count_n <= it->params.size_n - offset_n);
    for (uint32_t k = offset_n; k < offset_n + count_n; k++) {
        uint32_t bits;
        memcpy(&bits, &it->image[k], sizeof bits);
        assert_true(bits != UNSEEN);
        it->params.x[k] = it->image[k];
    }
    it->copies++;
    return UW_OK;
}

static int send_velocity(void *arg)
{
    struct world_node *it = arg;
    memcpy(it->velocity, it->image_velocity, it->params.size_n * sizeof(float));
    it->copies++;
    return UW_OK;
}

/* What training does is nowhere to be seen. */
static void forget_image(struct world_node *it)
{
    const uint32_t unseen = UNSEEN;
    for (uint32_t k = 0; it->image != NULL && k < it->params.size_n; k++) {
        memcpy(&it->image[k], &unseen, sizeof unseen);
    }
}

float *world_x(struct world_node *n)
{
    return n->image != NULL && n->averaging ? n->image : n->x;
}

static void make_image(struct world_node *it, struct uw_node_config *c)
{
    uint32_t size_n = c->params->size_n;
    it->params = *c->params;
    it->image = uw_test_floats(size_n);
    it->image_params = *c->params;
    it->image_params.x = it->image;
    c->params = &it->image_params;
    forget_image(it);
    if (c->velocity != NULL) {
        it->image_velocity = uw_test_floats(size_n);
        memcpy(it->image_velocity, c->velocity, size_n * sizeof(float));
        it->velocity = c->velocity;
        c->velocity = it->image_velocity;
    }
    it->hooks = (struct uw_node_image){fetch, send_image, send_velocity, it};
    c->image = &it->hooks;
}

static void drop_image(struct world_node *it)
{
    if (it->image != NULL) {
        uw_test_release(it->image);
    }
    if (it->image_velocity != NULL) {
        uw_test_release(it->image_velocity);
    }
    it->image = it->image_velocity = NULL;
}

void world_narrow(struct world *w, uint32_t i, uint32_t k, uint32_t most_bytes)
{
    w->most_bytes[i][k] = most_bytes;
    if (w->nodes[i].up) {
        int rc = uw_link_emulated_narrow(&w->nodes[i].emulated, (uint16_t)k, most_bytes);
        assert_int_equal(rc, UW_OK);
    }
}

void world_up_with(struct world *w, uint32_t i, struct uw_node_config c)
{
    struct world_node *it = &w->nodes[i];
    struct uw_error err = {0};
    assert_false(it->up);
    assert_int_equal(uw_link_loopback_init(&it->loopback, &w->hub, (uint16_t)i), UW_OK);
    struct uw_link_emulated_config e = {
        .lower = &it->loopback.link, .queue_n = w->queue_n != 0 ? w->queue_n : WORLD_QUEUE,
        .seed = w->seed * 100u + i,
        .send = w->impairment, .receive = w->arriving, .medium = w->medium, .far = w->far,
        .far_arg = it, .mtu_bytes = it->mtu_bytes, .burst_bytes = it->burst_bytes,
        .burst_n = it->burst_n};
    e.memory_bytes = uw_link_emulated_bytes(&e);
    e.memory = it->emulated_memory = malloc(e.memory_bytes);
    assert_int_equal(uw_link_emulated_init(&it->emulated, &e), UW_OK);
    if (it->keeps_burst) {
        it->emulated.link.burst_bytes = it->emulated.link.burst_n = 0;
    }
    c.link = w->above != NULL ? w->above(it) : &it->emulated.link;
    c.incarnation = c.incarnation != 0 ? c.incarnation : w->incarnation++;
    if (getenv("UWASA_TEST_IMAGES") != NULL && c.snapshot != NULL) {
        make_image(it, &c);
    }
    size_t bytes = 0;
    int rc = w->listed ? uw_node_measure_listed(&c, &bytes, &err)
                       : uw_node_measure(&c, &bytes, &err);
    if (rc < 0) {
        fail_msg("%s", err.text);
    }
    struct uw_arena arena;
    it->memory = malloc(bytes + uw_arena_slack_bytes());
    uw_arena_init(&arena, it->memory, bytes + uw_arena_slack_bytes());
    rc = w->listed ? uw_node_bind_listed(&it->node, &c, &arena, &err)
                   : uw_node_bind(&it->node, &c, &arena, &err);
    assert_int_equal(rc, UW_OK);
    uw_arena_seal(&arena);
    assert_true(arena.used_bytes <= bytes);
    it->up = true;
    for (uint32_t k = 0; k < w->n; k++) {
        world_narrow(w, i, k, w->most_bytes[i][k]);
    }
    it->train_at_us = w->now_us;
    it->averaging = false;
}

struct uw_node_config world_config(struct world *w, uint32_t i)
{
    struct world_node *it = &w->nodes[i];
    struct uw_node_config c = w->config;
    c.name = it->name;
    c.address = it->address;
    c.params = &it->params;
    c.snapshot = &it->snapshot;
    c.velocity = it->velocity;
    c.spare = it->spare;
    c.seed = w->seed;
    c.parts = &uw_node_parts_all;
    c.on_event = world_on_event;
    c.event_arg = it;
    return c;
}

void world_up(struct world *w, uint32_t i)
{
    world_up_with(w, i, world_config(w, i));
}

void world_down(struct world *w, uint32_t i)
{
    struct world_node *it = &w->nodes[i];
    assert_true(it->up);
    if (w->above_down != NULL) {
        w->above_down(it);
    }
    uw_link_deinit(&it->emulated.link);
    uw_link_deinit(&it->loopback.link);
    free(it->emulated_memory);
    free(it->memory);
    drop_image(it);
    it->up = false;
}

void world_start(struct world *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        world_up(w, i);
    }
}

static uint64_t w_now(const struct world_node *it)
{
    return it->world->now_us;
}

static void world_train(struct world_node *it)
{
    struct world *w = it->world;
    while (it->trains && w->now_us >= it->train_at_us) {
        it->train_at_us += w->train_us * (it->slowness != 0 ? it->slowness : 1u);
        float lr = it->progress.lr;
        if (it->averaging) {
            it->progress.lr = 0.0f;     /* its parameters are the network's now */
        } else {
            it->progress.step++;
            if (it->train != NULL) {
                it->train(it);
            }
            forget_image(it);
        }
        bool touches = it->progress.lr == 0.0f || uw_node_touches(&it->node);
        uint32_t copies = it->copies;
        int flags = uw_node_after_step(&it->node, &it->progress);
        assert_true(flags >= 0);
        assert_true(touches || it->copies == copies);
        it->progress.lr = lr;
        it->averaging = (flags & UW_NODE_AVERAGING) != 0;
        it->rounds += (flags & UW_NODE_ROUND) != 0;
        if (it->after != NULL) {
            it->after(it, flags);
        }
    }
}

static uint64_t ahead_us(const struct world_node *it)
{
    int64_t gained_us = (int64_t)w_now(it) * it->drift_ppm / 1000000;
    return it->clock_us + (uint64_t)gained_us;
}

/* Its receiver is off. */
static void lose_all(struct world_node *it)
{
    uint8_t buf[2048];
    uint16_t from;
    (void)uw_link_step(&it->emulated.link, w_now(it));
    while (uw_link_recv(&it->emulated.link, &from, buf, sizeof buf) != UW_ERR_AGAIN) {
    }
}

static uint64_t step_node(struct world_node *it)
{
    uint64_t now_us = w_now(it), ahead = ahead_us(it);
    uint64_t node_us = uw_node_step(&it->node, now_us + ahead) - ahead;
    uint64_t asleep_us = uw_node_may_sleep_us(&it->node, now_us + ahead);
    it->deaf_until_us = now_us + asleep_us;
    assert_true(node_us >= now_us && (asleep_us != 0 || node_us <= now_us + 5000u));
    return node_us;
}

static void listen(struct world *w, uint64_t until_us)
{
    for (uint32_t i = 0; i < w->n; i++) {
        struct world_node *it = &w->nodes[i];
        it->on_us += it->up && it->deaf_until_us <= w->now_us ? until_us - w->now_us : 0;
    }
}

void world_tick(struct world *w)
{
    uint64_t next_us = w->now_us + 5000;
    for (uint32_t i = 0; i < w->n; i++) {
        struct world_node *it = &w->nodes[i];
        if (!it->up || it->paused) {
            continue;
        }
        uint64_t node_us = it->step_at_us;
        if (it->deaf_until_us > w->now_us) {
            lose_all(it);
            node_us = it->deaf_until_us;
        } else if (w->now_us >= it->step_at_us) {
            node_us = step_node(it);
            it->step_at_us = w->now_us + it->pause_us;
            node_us = node_us > it->step_at_us ? node_us : it->step_at_us;
        }
        world_train(it);
        next_us = node_us < next_us ? node_us : next_us;
        next_us = it->trains && it->train_at_us < next_us ? it->train_at_us : next_us;
    }
    next_us = next_us > w->now_us + 50u ? next_us : w->now_us + 50u;
    listen(w, next_us);
    w->now_us = next_us;
}

void world_run(struct world *w, uint64_t us)
{
    uint64_t until_us = w->now_us + us;
    while (w->now_us < until_us) {
        world_tick(w);
    }
}

void world_until(struct world *w, bool (*done)(struct world *w), uint64_t limit_us)
{
    uint64_t until_us = w->now_us + limit_us;
    while (!done(w)) {
        if (w->now_us >= until_us) {
            fail_msg("not done after %.1f virtual seconds", (double)limit_us / 1e6);
        }
        world_tick(w);
    }
}

void world_free(struct world *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        struct world_node *it = &w->nodes[i];
        if (it->up) {
            world_down(w, i);
        }
        uw_test_release(it->x);
        uw_test_release(it->velocity);
        uw_test_release(it->snapshot.data);
    }
    free(w->hub_memory);
    free(w);
}

struct uw_node_counters world_counters(struct world *w, uint32_t i)
{
    struct uw_node_counters c;
    (void)uw_node_status(&w->nodes[i].node, w->now_us, NULL, 0, &c);
    return c;
}

bool world_all_know_all(struct world *w)
{
    uint32_t up = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        up += w->nodes[i].up;
    }
    for (uint32_t i = 0; i < w->n; i++) {
        if (w->nodes[i].up &&
            uw_membership_alive(&w->nodes[i].node.state->membership) != up - 1u) {
            return false;
        }
    }
    return true;
}

enum uw_member_state world_state(struct world *w, uint32_t i, const char *name)
{
    struct uw_node_member rows[WORLD_MAX + 4u];
    uint32_t n = uw_node_status(&w->nodes[i].node, w->now_us, rows, WORLD_MAX + 4u, NULL);
    for (uint32_t k = 0; k < n; k++) {
        if (strcmp(rows[k].name, name) == 0) {
            return rows[k].state;
        }
    }
    return UW_MEMBER_UNKNOWN;
}
