/* SPDX-License-Identifier: Apache-2.0
 *
 * The link suite over MPI: started without mpirun, the program starts itself under it as two ranks.
 * Rank 0 runs the tests; the other end's link is rank 1's, whose calls go over a socket and back.
 *
 * usage: test_link_mpi [SANITIZERS]     with any, or without mpirun, it is skipped (77) */
#include "link_pair.h"

#include "uwasa/link_mpi.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define SKIPPED 77
#define DIAL_TRIES 500
#define LARGE (300u * 1024u)

enum call { OPEN, RESOLVE, DESCRIBE, HOLD, SEND, RECV, STEP, DEINIT, LEAVE, QUIT };

/* One call of a link of rank 1, and what became of it. */
struct frame {
    enum call call;
    int rc;
    uint16_t station;
    bool flag;
    uint32_t bytes;                     /* of body */
    uint32_t mtu, channel;
    uint64_t us;
    struct uw_link_stats stats;
    char text[UW_LINK_ADDRESS_BYTES];
    uint8_t body[LARGE];
};

static struct frame frame;
static int line;                        /* to the other rank */
static struct uw_link_mpi own;          /* this rank's end */
static void *own_memory;
static struct uw_link remote;           /* at rank 0: rank 1's end */
static uint16_t channel;

static void move_bytes(bool out, void *bytes, size_t n)
{
    uint8_t *at = bytes;
    for (size_t done = 0; done < n;) {
        ssize_t k = out ? send(line, at + done, n - done, MSG_NOSIGNAL)
                        : recv(line, at + done, n - done, 0);
        if (k == 0 || (k < 0 && errno != EINTR)) {
            fprintf(stderr, "the other rank is gone\n");
            exit(1);
        }
        done += k > 0 ? (size_t)k : 0;
    }
}

static void move(bool out)
{
    move_bytes(out, &frame, offsetof(struct frame, body));
    move_bytes(out, frame.body, frame.bytes);
}

static void open_own(uint16_t on, uint32_t mtu)
{
    struct uw_link_mpi_config c = {.mtu_bytes = mtu, .channel = on, .sends_n = 8,
                                   .receives_n = 4};
    struct uw_error err;
    c.memory_bytes = uw_link_mpi_bytes(&c);
    uw_link_deinit(&own.link);
    free(own_memory);
    c.memory = own_memory = malloc(c.memory_bytes);
    if (own_memory == NULL || uw_link_mpi_init(&own, &c, &err) < 0) {
        fprintf(stderr, "no link\n");
        exit(1);
    }
}

/* ---- rank 1 ---- */

static void serve_one(void)
{
    struct uw_link *l = &own.link;
    switch (frame.call) {
    case OPEN: open_own((uint16_t)frame.channel, frame.mtu); break;
    case RESOLVE: frame.rc = uw_link_resolve(l, frame.text, &frame.station); break;
    case DESCRIBE: frame.rc = uw_link_describe(l, frame.station, frame.text); break;
    case HOLD: frame.flag = uw_link_hold(l, frame.station, frame.flag); break;
    case SEND: frame.rc = uw_link_send(l, frame.station, frame.body, frame.bytes); break;
    case RECV: frame.rc = uw_link_recv(l, &frame.station, frame.body, frame.bytes); break;
    case STEP: frame.us = uw_link_step(l, frame.us); break;
    case LEAVE: frame.flag = uw_link_mpi_leave(&own); break;
    case DEINIT:
    default: uw_link_deinit(l); break;
    }
    frame.mtu = l->mtu_bytes;
    frame.stats = l->stats;
}

static void serve(void)
{
    do {
        move(false);
        serve_one();
        move(true);
    } while (frame.call != QUIT);
}

/* ---- rank 0's view of rank 1's link ---- */

static int call(enum call what)
{
    frame.call = what;
    frame.bytes = what == SEND || what == RECV ? frame.bytes : 0;
    move(true);
    move(false);
    remote.stats = frame.stats;
    return frame.rc;
}

static int far_resolve(struct uw_link *l, const char *address, uint16_t *station)
{
    (void)l;
    frame.station = *station;
    snprintf(frame.text, sizeof frame.text, "%s", address);
    int rc = call(RESOLVE);
    *station = frame.station;
    return rc;
}

static int far_describe(struct uw_link *l, uint16_t station, char text[UW_LINK_ADDRESS_BYTES])
{
    (void)l;
    frame.station = station;
    int rc = call(DESCRIBE);
    memcpy(text, frame.text, UW_LINK_ADDRESS_BYTES);
    return rc;
}

static bool far_hold(struct uw_link *l, uint16_t station, bool hold)
{
    (void)l;
    frame.station = station;
    frame.flag = hold;
    (void)call(HOLD);
    return frame.flag;
}

static int far_send(struct uw_link *l, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    (void)l;
    frame.station = to;
    frame.bytes = buf_bytes;
    if (buf_bytes != 0) {
        memcpy(frame.body, buf, buf_bytes);
    }
    return call(SEND);
}

static int far_recv(struct uw_link *l, uint16_t *from, void *buf, uint32_t cap_bytes)
{
    (void)l;
    frame.station = *from;
    frame.bytes = cap_bytes;
    memcpy(frame.body, buf != NULL ? buf : frame.body, buf != NULL ? cap_bytes : 0);
    int rc = call(RECV);
    *from = frame.station;
    if (buf != NULL) {
        memcpy(buf, frame.body, cap_bytes);     /* also when it must be untouched */
    }
    return rc;
}

static uint64_t far_step(struct uw_link *l, uint64_t now_us)
{
    (void)l;
    frame.us = now_us;
    (void)call(STEP);
    return frame.us;
}

static void far_deinit(struct uw_link *l)
{
    (void)call(DEINIT);
    l->ops = NULL;
}

static const struct uw_link_ops far_ops = {
    .name = "mpi of rank 1", .resolve = far_resolve, .describe = far_describe, .hold = far_hold,
    .send = far_send, .recv = far_recv, .step = far_step, .deinit = far_deinit,
};

static const char *open_with(struct pair *p, uint32_t mtu)
{
    frame.channel = ++channel;
    frame.mtu = mtu;
    (void)call(OPEN);
    remote = (struct uw_link){.ops = &far_ops, .mtu_bytes = frame.mtu, .reliable = true, .fd = -1};
    open_own(channel, mtu);
    p->real_time = true;
    p->link[0] = &own.link;
    p->link[1] = &remote;
    assert_int_equal(uw_link_resolve(p->link[0], "1", &p->to[0]), UW_OK);
    return NULL;
}

static const char *open_mpi(struct pair *p)
{
    return open_with(p, MTU);
}

static void test_mpi_large_messages_arrive_in_order_between_small_ones(void **state)
{
    (void)state;
    struct pair p = {.real_time = true};
    static uint8_t out[LARGE], in[LARGE];
    static const uint32_t sizes[] = {3, LARGE, 0, 70000, 70000, 1, LARGE - 1, 9};
    uint32_t sent = 0, got = 0;
    const uint32_t n = 5 * sizeof sizes / sizeof sizes[0];
    (void)open_with(&p, LARGE);
    for (uint32_t i = 0; i < LARGE; i++) {
        out[i] = (uint8_t)(i * 7u + (i >> 8));
    }
    for (int i = 0; i < 20000 && got < n; i++) {
        uint32_t bytes = sizes[sent % 8];
        out[0] = (uint8_t)sent;
        if (sent < n && uw_link_send(p.link[0], p.to[0], out, bytes) == UW_OK) {
            sent++;
        }
        uint16_t from = 99;
        int rc = uw_link_recv(p.link[1], &from, in, LARGE);
        if (rc >= 0) {
            assert_int_equal(rc, sizes[got % 8]);
            assert_int_equal(from, 0);
            out[0] = (uint8_t)got++;
            assert_memory_equal(in, out, (size_t)rc);
        } else {
            assert_int_equal(rc, UW_ERR_AGAIN);
        }
    }
    assert_int_equal(got, n);
    uw_link_deinit(p.link[0]);
    uw_link_deinit(p.link[1]);
}

static void test_mpi_a_rank_hears_itself(void **state)
{
    (void)state;
    struct pair p = {.real_time = true};
    uint16_t self, from = 99;
    uint8_t byte = 7;
    (void)open_with(&p, MTU);
    assert_int_equal(uw_link_resolve(p.link[0], "0", &self), UW_OK);
    assert_int_equal(uw_link_resolve(p.link[0], "2", &self), UW_ERR_NOTFOUND);
    assert_int_equal(uw_link_send(p.link[0], self, &byte, 1), UW_OK);
    byte = 0;
    int rc = UW_ERR_AGAIN;
    for (int i = 0; i < 1000 && rc == UW_ERR_AGAIN; i++) {
        rc = uw_link_recv(p.link[0], &from, &byte, 1);
    }
    assert_int_equal(rc, 1);
    assert_int_equal(byte, 7);
    assert_int_equal(from, self);
    uw_link_deinit(p.link[0]);
    uw_link_deinit(p.link[1]);
}

static void test_mpi_sizes_that_are_not_allowed_get_a_sentence(void **state)
{
    (void)state;
    struct uw_link_mpi l;
    struct uw_error err = {.text = ""};
    struct uw_link_mpi_config c = {.mtu_bytes = UW_LINK_MPI_MTU_MAX + 1u};
    assert_true(uw_link_mpi_bytes(&c) == SIZE_MAX);
    assert_int_equal(uw_link_mpi_init(&l, &c, &err), UW_ERR_INVALID);
    assert_true(err.text[0] != '\0');
    uw_link_deinit(&l.link);
    c = (struct uw_link_mpi_config){.channel = UW_LINK_MPI_CHANNEL_MAX + 1u};
    assert_int_equal(uw_link_mpi_init(&l, &c, &err), UW_ERR_INVALID);
    c = (struct uw_link_mpi_config){.memory = &l, .memory_bytes = 1};
    assert_int_equal(uw_link_mpi_init(&l, &c, &err), UW_ERR_NOMEM);
    assert_true(uw_link_mpi_leave(&l));
}

/* Last: who has left cannot leave once more. */
static void test_mpi_all_leave_together_and_what_was_sent_is_taken(void **state)
{
    (void)state;
    struct pair p = {.real_time = true};
    static uint8_t out[LARGE];
    uint16_t from;
    bool here = false, there = false;
    (void)open_with(&p, LARGE);
    for (int i = 0; i < 4; i++) {       /* nobody takes them but the end */
        assert_int_equal(uw_link_send(p.link[0], p.to[0], out, LARGE), UW_OK);
    }
    for (int i = 0; i < 50; i++) {
        assert_false(uw_link_mpi_leave(&own));
    }
    assert_int_equal(uw_link_send(p.link[0], p.to[0], out, 1), UW_ERR_CLOSED);
    for (int i = 0; i < 20000 && !(here && there); i++) {
        here = here || uw_link_mpi_leave(&own);
        if (!there) {
            (void)call(LEAVE);
            there = frame.flag;
        }
    }
    assert_true(here);
    assert_true(there);
    assert_int_equal(frame.stats.dropped_n, 4);
    assert_int_equal(uw_link_recv(p.link[0], &from, out, LARGE), UW_ERR_AGAIN);
    uw_link_deinit(p.link[0]);
    uw_link_deinit(p.link[1]);
}

/* ---- both ---- */

/* Both ranks are children of one mpirun: its number is a name that only they know. */
static void join_ranks(uint16_t rank)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), rc = -1;
    snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "uwasa-link-mpi-%ld", (long)getppid());
    if (rank == 0) {
        line = -1;
        if (bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 1) == 0) {
            line = accept(fd, NULL, NULL);
        }
        close(fd);
    } else {
        for (int i = 0; i < DIAL_TRIES && rc < 0; i++) {
            struct timespec t = {.tv_nsec = 10000000};
            rc = connect(fd, (struct sockaddr *)&a, sizeof a);
            if (rc < 0) {
                nanosleep(&t, NULL);
            }
        }
        line = rc == 0 ? fd : -1;
    }
    if (line < 0) {
        fprintf(stderr, "rank %u: no line to the other\n", (unsigned)rank);
        exit(1);
    }
}

static int run_rank(void)
{
    static const struct variant mpi[] = {{"mpi", open_mpi}};
    const struct CMUnitTest more[] = {
        cmocka_unit_test(test_mpi_large_messages_arrive_in_order_between_small_ones),
        cmocka_unit_test(test_mpi_a_rank_hears_itself),
        cmocka_unit_test(test_mpi_sizes_that_are_not_allowed_get_a_sentence),
        cmocka_unit_test(test_mpi_all_leave_together_and_what_was_sent_is_taken),
    };
    uint16_t rank, ranks_n;
    struct uw_error err = {.text = ""};
    int failed = 0;
    if (uw_link_mpi_begin(&rank, &ranks_n, &err) < 0 || ranks_n != 2) {
        fprintf(stderr, "%u ranks: %s\n", (unsigned)ranks_n, err.text);
        return 1;
    }
    join_ranks(rank);
    if (rank == 0) {
        failed = uw_test_link_suite(mpi, 1) + cmocka_run_group_tests_name("mpi, beyond", more,
                                                                          NULL, NULL);
        (void)call(QUIT);
    } else {
        serve();
    }
    uw_link_deinit(&own.link);
    free(own_memory);
    uw_link_mpi_end(0);
    return failed;
}

static int skip_it(const char *why)
{
    printf("skipped: %s\n", why);
    return SKIPPED;
}

int main(int argc, char **argv)
{
    uint16_t rank, ranks_n;
    if (argc > 1 && strcmp(argv[1], "rank") == 0) {
        return run_rank();
    }
    if (argc > 1 && argv[1][0] != '\0') {
        return skip_it("MPI does not pass the sanitizers");
    }
    if (uw_link_mpi_bytes(&(struct uw_link_mpi_config){.channel = 0}) == SIZE_MAX) {
        if (uw_link_mpi_begin(&rank, &ranks_n, NULL) != UW_ERR_UNSUPPORTED) {
            return 1;
        }
        return skip_it("built without MPI");
    }
    pid_t child = fork();
    if (child == 0) {
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
        setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
        execlp("mpirun", "mpirun", "-n", "2", argv[0], "rank", (char *)NULL);
        _exit(SKIPPED);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
        return 1;
    }
    return WEXITSTATUS(status) == SKIPPED ? skip_it("there is no mpirun") : WEXITSTATUS(status);
}
