/* SPDX-License-Identifier: Apache-2.0 */
#include "demo.h"

#include "stop.h"

#include "uwasa/link_udp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const names[UW_DEMO_NODES_MAX] = {"kitchen", "garden", "garage", "attic",
                                                     "cellar",  "porch",  "office", "studio",
                                                     "hall",    "shed"};

/* Open a socket on a free port, and tell its address. */
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

/* Free ports, all held at once so that no two are the same; then let go for the nodes. */
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
        size_t used = 0;
        for (uint32_t c = i; c < 10; c += d->nodes_n) {
            used += (size_t)snprintf(n->classes + used, sizeof n->classes - used, "%s%u",
                                     used > 0 ? "," : "", (unsigned)c);
        }
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
    cJSON_AddStringToObject(c, "classes", n->classes);
    cJSON_AddNumberToObject(c, "batch", 20);
    cJSON_AddNumberToObject(c, "lr", 0.05);
    cJSON_AddStringToObject(c, "schedule", "cosine"); /* steady at the end, however few the steps */
    cJSON_AddNumberToObject(c, "period", 10);
    cJSON_AddNumberToObject(c, "seconds", how->seconds);
    path_of(d, n->name, ".safetensors", path);
    cJSON_AddStringToObject(c, "checkpoint", path);
    cJSON_AddNumberToObject(c, "checkpoint_seconds", 2);
    cJSON_AddNumberToObject(c, "eval_seconds", 3);
    cJSON_AddNumberToObject(c, "eval_samples", 500);
    cJSON_AddNumberToObject(c, "consensus_seconds", how->consensus_seconds);
    cJSON_AddNumberToObject(c, "consensus_rounds", how->together ? 12 : 0);
    cJSON_AddNumberToObject(c, "linger_seconds", 2);
    char *text = cJSON_Print(c);
    cJSON_Delete(c);
    FILE *f = fopen(file, "w");
    bool ok = f != NULL && text != NULL && fputs(text, f) >= 0;
    ok = (f == NULL || fclose(f) == 0) && ok;
    cJSON_free(text);
    return ok ? UW_OK : uw_error_set(err, UW_ERR_IO, "%.200s: cannot be written", file);
}

/* The child's side of fork: never returns. */
static void become_node(struct uw_demo *d, const char *config, const char *log, int events_fd,
                        pid_t parent)
{
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
        dup2(log_fd, 2) < 0) {
        _exit(1);
    }
    execl("/proc/self/exe", "uwasa", "node", "--config", config, "--json", "-", (char *)NULL);
    _exit(1);
}

int uw_demo_start(struct uw_demo *d, uint32_t i, const struct uw_demo_start *how,
                  struct uw_error *err)
{
    struct uw_demo_node *n = &d->nodes[i];
    char config[UW_DEMO_PATH_BYTES];
    char log[UW_DEMO_PATH_BYTES];
    int fds[2];
    path_of(d, n->name, ".json", config);
    path_of(d, n->name, ".log", log);
    int rc = write_config(d, n, how, config, err);
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
        become_node(d, config, log, fds[1], parent);
    }
    close(fds[1]);
    if (n->pid < 0) {
        n->pid = 0;
        close(fds[0]);
        return uw_error_set(err, UW_ERR_IO, "no process: %s", strerror(errno));
    }
    n->fd = fds[0];
    n->line_bytes = 0;
    n->done = n->down = false;
    n->earlier_pulled_bytes = n->pulled_bytes;
    n->earlier_sent_bytes = n->sent_bytes;
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

static void take_event(struct uw_demo *d, struct uw_demo_node *n, const char *line)
{
    cJSON *event = cJSON_Parse(line);
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(event, "event"));
    if (kind != NULL) {
        n->step = (uint64_t)number(event, "step", (double)n->step);
        n->loss = number(event, "loss", n->loss);
        n->accuracy = number(event, "test_accuracy", n->accuracy);
        n->samples_per_s = number(event, "samples_per_s", n->samples_per_s);
        n->rss_bytes = number(event, "peak_rss_bytes", n->rss_bytes);
        bool totals = strcmp(kind, "status") == 0 || strcmp(kind, "done") == 0;
        if (totals) {
            n->pulled_bytes = n->earlier_pulled_bytes + number(event, "pulled_bytes", 0.0);
            n->sent_bytes = n->earlier_sent_bytes + number(event, "sent_bytes", 0.0);
        }
        if (strcmp(kind, "status") == 0) {
            count_peers(n, event);
        }
        n->done = n->done || strcmp(kind, "done") == 0;
        cJSON_AddStringToObject(event, "node", n->name);
        cJSON_AddStringToObject(event, "phase", d->phase);
        cJSON *kind_item = cJSON_GetObjectItemCaseSensitive(event, "event");
        if (strcmp(kind, "done") == 0) {
            cJSON_SetValuestring(kind_item, "node");    /* shorter: fits in place */
        }
        uw_events_put(&d->events, event);
        return;
    }
    cJSON_Delete(event);
}

/* Take in what has arrived. A line too long for the buffer is dropped. */
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
static void last_words(const struct uw_demo *d, const struct uw_demo_node *n, char *text,
                       size_t text_bytes)
{
    char path[UW_DEMO_PATH_BYTES];
    char line[256];
    path_of(d, n->name, ".log", path);
    snprintf(text, text_bytes, "no message");
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
    last_words(d, n, words, sizeof words);
    return uw_error_set(err, UW_ERR_CLOSED, "node %s ended too early: %s", n->name, words);
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
    return rc;
}

void uw_demo_kill(struct uw_demo *d, uint32_t i)
{
    struct uw_demo_node *n = &d->nodes[i];
    if (n->pid > 0) {
        kill(n->pid, SIGKILL);
        waitpid(n->pid, NULL, 0);
        n->pid = 0;
    }
    if (n->fd >= 0) {
        close(n->fd);
        n->fd = -1;
    }
    n->down = true;
}

uint32_t uw_demo_running(const struct uw_demo *d)
{
    uint32_t running = 0;
    for (uint32_t i = 0; i < d->nodes_n; i++) {
        running += d->nodes[i].pid > 0 ? 1u : 0u;
    }
    return running;
}
