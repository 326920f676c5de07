/* SPDX-License-Identifier: Apache-2.0 */
#include "demo.h"
#include "base/stop.h"

#include "uwasa/backends.h"
#include "uwasa/board.h"
#include "uwasa/link_udp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const names[UW_DEMO_NODES_MAX] = {"kitchen", "garden", "garage", "attic",
                                                     "cellar",  "porch",  "office", "studio",
                                                     "hall",    "shed"};

/* Open a socket on a free port, and report its address. */
static int hold_port(struct uw_link_udp *udp, void *memory, size_t memory_bytes,
                     struct uw_demo_node *n, struct uw_error *err)
{
    const struct uw_link_udp_config config = {.bind = "127.0.0.1:0",
                                              .memory = memory,
                                              .memory_bytes = memory_bytes,
                                              .stations_n = 1};
    int rc = uw_link_udp_init(udp, &config, err);
    return rc < 0 ? rc : uw_link_udp_local(udp, n->address);
}

/* Find free ports. All are held at the same time, so that they differ, then released. */
static int find_ports(struct uw_demo *d, struct uw_error *err)
{
    struct uw_link_udp udp[UW_DEMO_NODES_MAX];
    size_t bytes = uw_link_udp_bytes(&(struct uw_link_udp_config){.stations_n = 1});
    bytes = (bytes + 63u) / 64u * 64u;
    uint8_t *memory = malloc(UW_DEMO_NODES_MAX * bytes);
    int rc = memory != NULL ? UW_OK : uw_error_set(err, UW_ERR_NOMEM, "out of memory");
    memset(udp, 0, sizeof udp);
    for (uint32_t i = 0; i < d->nodes_n && rc == UW_OK; i++) {
        rc = hold_port(&udp[i], memory + i * bytes, bytes, &d->nodes[i], err);
    }
    for (uint32_t i = 0; i < d->nodes_n; i++) {
        uw_link_deinit(&udp[i].link);
    }
    free(memory);
    return rc;
}

/* Every digit to one node; with boards, which take few steps, to one or two of them. */
static void deal_digits(const struct uw_demo *d, uint32_t i, char *text, size_t bytes)
{
    static const char *const of_three[] = {"0,1,2,3", "3,4,5,6", "6,7,8,9"};
    static const char *const of_four[] = {"0,1,2,3", "2,3,4,5", "5,6,7,8", "0,7,8,9"};
    size_t used = 0;
    if (d->boards) {
        snprintf(text, bytes, "%s", d->nodes_n == 4 ? of_four[i] : of_three[i]);
        return;
    }
    for (uint32_t c = i; c < 10; c += d->nodes_n) {
        used += (size_t)snprintf(text + used, bytes - used, "%s%u", used > 0 ? "," : "",
                                 (unsigned)c);
    }
}

int uw_demo_prepare(struct uw_demo *d, struct uw_error *err)
{
    for (uint32_t i = 0; i < d->nodes_n; i++) {
        struct uw_demo_node *n = &d->nodes[i];
        n->name = names[i];
        n->accuracy = n->alone_accuracy = n->together_accuracy = -1.0;
        n->line = malloc(UW_DEMO_LINE_BYTES);
        if (n->line == NULL) {
            return uw_error_set(err, UW_ERR_NOMEM, "out of memory");
        }
        deal_digits(d, i, n->classes, sizeof n->classes);
    }
    return find_ports(d, err);
}

static void path_of(const struct uw_demo *d, const char *name, const char *suffix,
                    char path[UW_DEMO_PATH_BYTES])
{
    snprintf(path, UW_DEMO_PATH_BYTES, "%s/%s%s", d->directory.path, name, suffix);
}

static int write_config(const struct uw_demo *d, const struct uw_demo_node *n,
                        const struct uw_demo_start *how, const char *file, struct uw_error *err)
{
    char path[UW_DEMO_PATH_BYTES];
    cJSON *c = cJSON_CreateObject();
    cJSON_AddStringToObject(c, "name", n->name);
    cJSON_AddStringToObject(c, "run", "demo");
    path_of(d, "run", ".key", path);
    cJSON_AddStringToObject(c, "key", path);
    cJSON_AddStringToObject(c, "listen", n->address);
    cJSON_AddStringToObject(c, "advertise", n->address);
    cJSON *seeds = cJSON_AddArrayToObject(c, "seeds");
    for (uint32_t i = 0; how->together && i < d->nodes_n; i++) {
        if (&d->nodes[i] != n) {
            cJSON_AddItemToArray(seeds, cJSON_CreateString(d->nodes[i].address));
        }
    }
    cJSON_AddStringToObject(c, "model", d->model);
    cJSON_AddStringToObject(c, "data", d->data);
    if (n->kind != UW_DEMO_AARCH64) {
        cJSON_AddStringToObject(c, "backend", uw_kernels_best()->name); /* do not share one GPU */
    }
    cJSON_AddStringToObject(c, "classes", n->classes);
    cJSON_AddStringToObject(c, "schedule", "cosine"); /* steady at the end, however few the steps */
    path_of(d, n->name, ".safetensors", path);
    cJSON_AddStringToObject(c, "checkpoint", path);
    struct uw_demo_number numbers[UW_DEMO_NUMBERS];
    uw_demo_numbers(d, how, numbers);
    for (uint32_t i = 0; i < UW_DEMO_NUMBERS; i++) {
        cJSON_AddNumberToObject(c, numbers[i].key, numbers[i].value);
    }
    UW_EVENT_NUMBERS(c, {"step_seconds", d->step_seconds},
                     {"final_eval_samples", d->boards ? UW_DEMO_BOARDS_FINAL_SAMPLES : 0},
                     {"consensus_seconds", how->consensus_seconds},
                     {"linger_seconds", d->boards ? UW_DEMO_BOARDS_LINGER_SECONDS
                                                  : UW_DEMO_LINGER_SECONDS});
    char *text = cJSON_Print(c);
    cJSON_Delete(c);
    FILE *f = fopen(file, "w");
    bool ok = f != NULL && text != NULL && fputs(text, f) >= 0;
    ok = (f == NULL || fclose(f) == 0) && ok;
    cJSON_free(text);
    return ok ? UW_OK : uw_error_set(err, UW_ERR_IO, "%.200s: cannot be written", file);
}

/* The command that starts node i; a `uwasa node` gets its configuration file. */
static int make_command(const struct uw_demo *d, uint32_t i, const struct uw_demo_start *how,
                        struct uw_demo_command *c, struct uw_error *err)
{
    const struct uw_demo_node *n = &d->nodes[i];
    char config[UW_DEMO_PATH_BYTES];
    if (n->kind == UW_DEMO_BOARD) {
        return uw_demo_board_command(d, i, how, c, err);
    }
    if (n->kind == UW_DEMO_AARCH64) {
        uw_demo_add_word(c, "qemu-aarch64-static");
        uw_demo_add_word(c, "%s", d->aarch64);
    } else {
        uw_demo_add_word(c, "/proc/self/exe");
    }
    path_of(d, n->name, ".json", config);
    uw_demo_add_word(c, "node");
    uw_demo_add_word(c, "--config");
    uw_demo_add_word(c, "%s", config);
    uw_demo_add_word(c, "--json");
    uw_demo_add_word(c, "-");
    return write_config(d, n, how, config, err);
}

/* In the child of fork; does not return. A board's flash is a file in its working folder. */
static void become_node(struct uw_demo *d, const struct uw_demo_node *n, struct uw_demo_command *c,
                        int events_fd, pid_t parent)
{
    char log[UW_DEMO_PATH_BYTES];
    path_of(d, n->name, ".log", log);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(1);
    }
    setpgid(0, 0);
    uw_stop_release();
    uw_janitor_disown(&d->directory);
    int log_fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int null_fd = open("/dev/null", O_RDONLY);
    if (log_fd < 0 || null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(events_fd, 1) < 0 ||
        dup2(log_fd, 2) < 0 ||
        (n->kind == UW_DEMO_BOARD && chdir(d->directory.path) != 0)) {
        _exit(1);
    }
    execvp(c->argv[0], c->argv);
    fprintf(stderr, "%s: %s\n", c->argv[0], strerror(errno));
    _exit(1);
}

static void mark_started(struct uw_demo_node *n, int events_fd)
{
    n->fd = events_fd;
    n->line_bytes = 0;
    n->returning = n->down;
    n->done = n->down = false;
    n->error[0] = '\0';
    n->started_us = uw_board_now_us();
    n->earlier_pulled_bytes = n->pulled_bytes;
    n->earlier_sent_bytes = n->sent_bytes;
}

int uw_demo_start(struct uw_demo *d, uint32_t i, const struct uw_demo_start *how,
                  struct uw_error *err)
{
    struct uw_demo_node *n = &d->nodes[i];
    struct uw_demo_command command = {.words_n = 0};
    int fds[2];
    int rc = make_command(d, i, how, &command, err);
    if (rc < 0) {
        return rc;
    }
    if (pipe(fds) != 0) {
        return uw_error_set(err, UW_ERR_IO, "no pipe: %s", strerror(errno));
    }
    fcntl(fds[0], F_SETFD, FD_CLOEXEC);
    fcntl(fds[1], F_SETFD, FD_CLOEXEC);
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    fflush(NULL);
    pid_t parent = getpid();
    n->pid = fork();
    if (n->pid == 0) {
        become_node(d, n, &command, fds[1], parent);
    }
    close(fds[1]);
    if (n->pid < 0) {
        n->pid = 0;
        close(fds[0]);
        return uw_error_set(err, UW_ERR_IO, "no process: %s", strerror(errno));
    }
    mark_started(n, fds[0]);
    return UW_OK;
}

static double number(const cJSON *event, const char *key, double fallback)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(event, key);
    return cJSON_IsNumber(v) ? v->valuedouble : fallback;
}

static void count_peers(struct uw_demo_node *n, const cJSON *event)
{
    const cJSON *members = cJSON_GetObjectItemCaseSensitive(event, "members");
    const cJSON *m;
    n->peers = n->peers_n = 0;
    cJSON_ArrayForEach(m, members) {
        const char *state = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(m, "state"));
        n->peers_n++;
        n->peers += state != NULL && strcmp(state, "alive") == 0 ? 1u : 0u;
    }
}

/* Log the first event of a restarted node: where it resumes. */
static void log_back(struct uw_demo *d, struct uw_demo_node *n)
{
    double seconds = uw_seconds_since(n->started_us);
    n->returning = false;
    if (n->step > 0) {
        uw_demo_log(d, "%s is back after %.1f s, from step %llu", n->name, seconds,
                    (unsigned long long)n->step);
    } else {
        uw_demo_log(d, "%s is back after %.1f s as a new node: it adopts the parameters of a "
                       "peer", n->name, seconds);
    }
    cJSON *back = uw_event("back");
    cJSON_AddStringToObject(back, "node", n->name);
    UW_EVENT_NUMBERS(back, {"step", (double)n->step}, {"seconds", seconds});
    uw_events_put(&d->events, back);
}

/* Update a node's figures from its event. */
static void note(struct uw_demo_node *n, const cJSON *event, const char *kind)
{
    const char *sort = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(event, "kind"));
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(event, "text"));
    n->step = (uint64_t)number(event, "step", (double)n->step);
    n->loss = number(event, "loss", n->loss);
    n->accuracy = number(event, "test_accuracy", n->accuracy);
    n->samples_per_s = number(event, "samples_per_s", n->samples_per_s);
    n->rss_bytes = number(event, "peak_rss_bytes", n->rss_bytes);
    if (strcmp(kind, "status") == 0 || strcmp(kind, "done") == 0) {
        n->pulled_bytes = n->earlier_pulled_bytes + number(event, "pulled_bytes", 0.0);
        n->sent_bytes = n->earlier_sent_bytes + number(event, "sent_bytes", 0.0);
    }
    if (strcmp(kind, "status") == 0) {
        count_peers(n, event);
    } else if (strcmp(kind, "plan") == 0) {             /* of a board: all the RAM it takes */
        n->rss_bytes = number(event, "total_bytes", 0.0) + number(event, "network_bytes", 0.0) +
                       number(event, "static_bytes", 0.0) + number(event, "stack_bytes", 0.0);
    } else if (strcmp(kind, "error") == 0 && text != NULL) {
        snprintf(n->error, sizeof n->error, "%s", text);
    }
    n->pulls += sort != NULL && strcmp(sort, "pull_done") == 0 ? 1u : 0u;
    n->done = n->done || strcmp(kind, "done") == 0;
}

static void take_event(struct uw_demo *d, struct uw_demo_node *n, const char *line)
{
    cJSON *event = cJSON_Parse(line);
    cJSON *kind_item = cJSON_GetObjectItemCaseSensitive(event, "event");
    const char *kind = cJSON_GetStringValue(kind_item);
    if (kind == NULL) {
        cJSON_Delete(event);
        return;
    }
    note(n, event, kind);
    if (n->returning && cJSON_HasObjectItem(event, "step")) {
        log_back(d, n);
    }
    cJSON_AddStringToObject(event, "node", n->name);
    cJSON_AddStringToObject(event, "phase", d->phase);
    if (strcmp(kind, "done") == 0) {
        cJSON_SetValuestring(kind_item, "node");    /* shorter: fits in place */
    }
    uw_events_put(&d->events, event);
}

/* Read and process events. A line too long for the buffer is dropped. */
static void read_events(struct uw_demo *d, struct uw_demo_node *n)
{
    for (;;) {
        size_t room = UW_DEMO_LINE_BYTES - 1u - n->line_bytes;
        ssize_t got = read(n->fd, n->line + n->line_bytes, room);
        if (got <= 0) {
            if (got == 0) {
                close(n->fd);
                n->fd = -1;
            }
            return;
        }
        n->line_bytes += (size_t)got;
        n->line[n->line_bytes] = '\0';
        char *start = n->line;
        for (char *end = strchr(start, '\n'); end != NULL; end = strchr(start, '\n')) {
            *end = '\0';
            take_event(d, n, start);
            start = end + 1;
        }
        n->line_bytes -= (size_t)(start - n->line);
        memmove(n->line, start, n->line_bytes);
        if (n->line_bytes == UW_DEMO_LINE_BYTES - 1u) {
            n->line_bytes = 0;
        }
    }
}

/* Last line of a node's log, for the message when it failed. */
static void last_line(const struct uw_demo *d, const struct uw_demo_node *n, char *text,
                      size_t text_bytes)
{
    char path[UW_DEMO_PATH_BYTES];
    char line[256];
    path_of(d, n->name, ".log", path);
    snprintf(text, text_bytes, "%.180s", n->error[0] != '\0' ? n->error : "no message");
    if (n->error[0] != '\0') {
        return;
    }
    FILE *f = fopen(path, "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        snprintf(text, text_bytes, "%.180s", line);
    }
    if (f != NULL) {
        fclose(f);
    }
}

static int reap(struct uw_demo *d, struct uw_demo_node *n, struct uw_error *err)
{
    int status;
    if (n->pid == 0 || waitpid(n->pid, &status, WNOHANG) != n->pid) {
        return UW_OK;
    }
    n->pid = 0;
    n->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (n->fd >= 0) {
        read_events(d, n);
    }
    if (n->exit_code == 0 && n->done) {
        return UW_OK;
    }
    char words[200];
    last_line(d, n, words, sizeof words);
    return uw_error_set(err, UW_ERR_CLOSED, "node %s ended too early: %s", n->name, words);
}

static void end_node(struct uw_demo_node *n)
{
    if (n->pid > 0) {
        kill(n->pid, SIGKILL);
        waitpid(n->pid, NULL, 0);
        n->pid = 0;
    }
    if (n->fd >= 0) {
        close(n->fd);
        n->fd = -1;
    }
}

/* A board serves others for ever, so it is killed when all are done. */
static void switch_off(struct uw_demo *d)
{
    for (uint32_t i = 0; i < d->nodes_n; i++) {
        const struct uw_demo_node *n = &d->nodes[i];
        bool serves = n->kind == UW_DEMO_BOARD && n->done;
        if (n->down || (n->pid > 0 && !serves)) {
            return;
        }
    }
    for (uint32_t i = 0; i < d->nodes_n; i++) {
        end_node(&d->nodes[i]);
    }
}

int uw_demo_poll(struct uw_demo *d, uint64_t wait_us, struct uw_error *err)
{
    struct pollfd fds[UW_DEMO_NODES_MAX];
    int rc = UW_OK;
    for (uint32_t i = 0; i < d->nodes_n; i++) {
        fds[i] = (struct pollfd){.fd = d->nodes[i].fd, .events = POLLIN};
    }
    poll(fds, d->nodes_n, (int)(wait_us / 1000u));
    for (uint32_t i = 0; i < d->nodes_n; i++) {
        if (d->nodes[i].fd >= 0 && fds[i].revents != 0) {
            read_events(d, &d->nodes[i]);
        }
        int ended = reap(d, &d->nodes[i], err);
        rc = rc < 0 ? rc : ended;
    }
    switch_off(d);
    return rc;
}

void uw_demo_kill(struct uw_demo *d, uint32_t i)
{
    end_node(&d->nodes[i]);
    d->nodes[i].down = true;
}

uint32_t uw_demo_running(const struct uw_demo *d)
{
    uint32_t running = 0;
    for (uint32_t i = 0; i < d->nodes_n; i++) {
        running += d->nodes[i].pid > 0 ? 1u : 0u;
    }
    return running;
}
