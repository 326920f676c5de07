/* SPDX-License-Identifier: Apache-2.0 */
#include "node_net.h"

#include "uwasa/board.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Longest wait: bounds how late the member table and an end are noticed. */
#define WAIT_US 50000u
#define COPY_US 200000u
#define LINGER_US 20000u
#define AWAIT_NS 2000000
#define SPIN_US 100u            /* a call due within this time does not wait */
#define NAP_MAX_US 2000u
#define LOOK_US 200u            /* in an average, before the thread sleeps ... */
#define BUSY_US 2000u           /* ... while messages come that often */

/* Where the node does not fit the link, but would with a shorter name: report how long that may
 * be. */
static int suggest_name(const struct uw_node_config *config, uint32_t mtu_bytes, int rc,
                        struct uw_error *err)
{
    struct uw_node_config shorter = *config;
    struct uw_error unused;
    size_t bytes, name_n = strlen(config->name);
    if (rc != UW_ERR_TOOBIG || mtu_bytes == 0) {
        return rc;
    }
    for (size_t n = name_n - 1u; n > 0; n--) {
        shorter.name = config->name + (name_n - n);
        if (uw_node_measure(&shorter, &bytes, &unused) == UW_OK) {
            return uw_error_set(err, rc,
                                "\"name\" may have at most %zu characters with \"mtu\" %u, has %zu",
                                n, (unsigned)mtu_bytes, name_n);
        }
    }
    return rc;
}

static int open_tables(struct uw_node_net *n, uint32_t members_max, struct uw_error *err)
{
    n->rows_max = members_max != 0 ? members_max : UW_NODE_MEMBERS_DEFAULT;
    size_t bytes = 2u * n->rows_max * sizeof *n->rows;
    void *at;
    int rc = uw_board_memory_take(bytes, &at);
    if (rc < 0) {
        return uw_error_set(err, rc, "the members: %zu bytes cannot be allocated", bytes);
    }
    n->tables = (struct uw_stack_block){at, bytes};
    n->rows = at;
    n->copied = n->rows + n->rows_max;
    return UW_OK;
}

int uw_node_net_open(struct uw_node_net *n, const struct uw_stack_config *stack,
                     const struct uw_node_config *node, bool listed, struct uw_error *err)
{
    struct uw_node_config config = *node;
    struct uw_arena arena;
    size_t bytes;
    memset(n, 0, sizeof *n);
    n->wake[0] = n->wake[1] = -1;
    n->opened = true;
    pthread_mutex_init(&n->lock, NULL);
    pthread_cond_init(&n->stepped, NULL);

    int rc = uw_stack_open(&n->stack, stack, err);
    if (rc < 0) {
        return rc;
    }
    config.link = n->stack.top;
    rc = listed ? uw_node_measure_listed(&config, &bytes, err)
                : uw_node_measure(&config, &bytes, err);
    if (rc < 0) {
        return suggest_name(&config, stack->mtu_bytes, rc, err);
    }
    rc = uw_board_memory_take(bytes, &n->block.at);
    if (rc < 0) {
        return uw_error_set(err, rc, "the network: %zu bytes cannot be allocated", bytes);
    }
    n->block.bytes = bytes;
    uw_arena_init(&arena, n->block.at, bytes);
    rc = listed ? uw_node_bind_listed(&n->node, &config, &arena, err)
                : uw_node_bind(&n->node, &config, &arena, err);
    uw_arena_seal(&arena);
    rc = rc < 0 ? rc : open_tables(n, config.members_max, err);
    if (rc == UW_OK && pipe(n->wake) != 0) {
        rc = uw_error_set(err, UW_ERR_IO, "the network: no pipe can be opened");
    }
    for (int i = 0; rc == UW_OK && i < 2; i++) {
        fcntl(n->wake[i], F_SETFL, O_NONBLOCK);
        fcntl(n->wake[i], F_SETFD, FD_CLOEXEC);
    }
    return rc;
}

static void copy_members(struct uw_node_net *n, uint64_t now_us)
{
    pthread_mutex_lock(&n->lock);
    n->rows_n = uw_node_status(&n->node, now_us, n->rows, n->rows_max, &n->counters);
    pthread_mutex_unlock(&n->lock);
}

/* Poll without sleeping. Returns whether there is something to do. */
static bool look(struct pollfd fds[2], uint64_t until_us)
{
    int ready = poll(fds, 2, 0);
    while (ready == 0 && uw_board_now_us() < until_us) {
        sched_yield();
        ready = poll(fds, 2, 0);
    }
    return ready != 0;
}

static void wait_for_work(struct uw_node_net *n, uint64_t until_us)
{
    uint64_t now_us = uw_board_now_us();
    uint64_t wait_us = until_us > now_us ? until_us - now_us : 0;
    wait_us = wait_us < WAIT_US ? wait_us : WAIT_US;
    bool asleep = uw_node_may_sleep_us(&n->node, now_us) != 0;
    struct pollfd fds[2] = {{.fd = n->wake[0], .events = POLLIN},
                            {.fd = asleep ? -1 : n->stack.top->fd, .events = POLLIN}};
    if (fds[1].fd < 0 && wait_us < NAP_MAX_US) {    /* a link to look at again and again */
        nanosleep(&(struct timespec){.tv_nsec = (long)wait_us * 1000}, NULL);
        wait_us = 0;
    }
    /* The next message of an average comes sooner than a sleeping thread is woken. */
    if (!asleep && uw_node_holds(&n->node) && now_us < n->busy_us + BUSY_US) {
        uint64_t look_us = wait_us < LOOK_US ? wait_us : LOOK_US;
        wait_us = look(fds, now_us + look_us) ? 0 : wait_us - look_us;
    }
    poll(fds, 2, (int)(wait_us < SPIN_US ? 0 : (wait_us + 999u) / 1000u));
    if ((fds[0].revents | fds[1].revents) != 0) {
        n->busy_us = uw_board_now_us();
    }
    if ((fds[0].revents & POLLIN) != 0) {
        char drain[64];
        while (read(n->wake[0], drain, sizeof drain) > 0) {
        }
    }
}

static void *network_thread(void *arg)
{
    struct uw_node_net *n = arg;
    uint64_t copy_us = 0;
    while (!atomic_load(&n->quit)) {
        uint64_t now_us = uw_board_now_us();
        uw_stack_step(&n->stack, now_us);
        uint64_t next_us = uw_node_step(&n->node, now_us);
        if (atomic_load(&n->awaited) && !uw_node_holds(&n->node)) {
            pthread_mutex_lock(&n->lock);
            atomic_store(&n->awaited, false);
            pthread_cond_signal(&n->stepped);
            pthread_mutex_unlock(&n->lock);
        }
        if (now_us >= copy_us) {
            copy_members(n, now_us);
            copy_us = now_us + COPY_US;
        }
        wait_for_work(n, next_us < copy_us ? next_us : copy_us);
    }
    uint64_t now_us = uw_board_now_us();
    while (uw_node_owes(&n->node)) {
        uw_stack_step(&n->stack, now_us);
        wait_for_work(n, uw_node_step(&n->node, now_us));
        now_us = uw_board_now_us();
    }
    uint64_t end_us = now_us + LINGER_US;
    copy_members(n, now_us);
    uw_node_leave(&n->node, now_us);
    while (now_us < end_us) {
        wait_for_work(n, uw_node_step(&n->node, now_us) < end_us ? now_us + 1000u : end_us);
        now_us = uw_board_now_us();
    }
    return NULL;
}

int uw_node_net_start(struct uw_node_net *n, struct uw_error *err)
{
    atomic_store(&n->quit, false);
    if (pthread_create(&n->thread, NULL, network_thread, n) != 0) {
        return uw_error_set(err, UW_ERR_NOMEM, "the network thread could not be started");
    }
    n->running = true;
    return UW_OK;
}

void uw_node_net_wake(struct uw_node_net *n)
{
    if (n->wake[1] >= 0) {
        ssize_t written = write(n->wake[1], "", 1); /* a full pipe wakes as well */
        (void)written;
    }
}

void uw_node_net_wait(struct uw_node_net *n)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += AWAIT_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&n->lock);
    atomic_store(&n->awaited, true);
    pthread_cond_timedwait(&n->stepped, &n->lock, &until);
    pthread_mutex_unlock(&n->lock);
}

uint32_t uw_node_net_members(struct uw_node_net *n, const struct uw_node_member **rows,
                             struct uw_node_counters *counters)
{
    pthread_mutex_lock(&n->lock);
    uint32_t rows_n = n->rows_n;
    if (rows != NULL && rows_n > 0) {
        memcpy(n->copied, n->rows, rows_n * sizeof *n->rows);
    }
    *counters = n->counters;
    pthread_mutex_unlock(&n->lock);
    if (rows != NULL) {
        *rows = n->copied;
    }
    return rows_n;
}

void uw_node_net_stop(struct uw_node_net *n)
{
    if (!n->running) {
        return;
    }
    atomic_store(&n->quit, true);
    uw_node_net_wake(n);
    pthread_join(n->thread, NULL);
    n->running = false;
}

void uw_node_net_close(struct uw_node_net *n)
{
    if (!n->opened) {
        return;
    }
    uw_node_net_stop(n);
    n->opened = false;
    for (int i = 0; i < 2; i++) {
        if (n->wake[i] >= 0) {
            close(n->wake[i]);
            n->wake[i] = -1;
        }
    }
    uw_stack_close(&n->stack);
    uw_board_memory_release(n->block.at, n->block.bytes);
    uw_board_memory_release(n->tables.at, n->tables.bytes);
    n->block = n->tables = (struct uw_stack_block){NULL, 0};
    n->rows = n->copied = NULL;
    n->rows_n = 0;
    pthread_mutex_destroy(&n->lock);
    pthread_cond_destroy(&n->stepped);
}
