/* SPDX-License-Identifier: Apache-2.0 */
#include "stream_source.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define UNIX "stream:unix:"
#define TCP "stream:tcp:127.0.0.1:"

static int take_sender(struct uw_source *s, int fd)
{
    struct uw_sender *free_one = NULL;
    for (uint32_t i = 0; i < UW_SOURCE_SENDERS; i++) {
        free_one = s->sender[i].fd < 0 ? &s->sender[i] : free_one;
    }
    if (free_one == NULL) {
        return UW_ERR_FULL;
    }
    char *text = free_one->text != NULL ? free_one->text : malloc(UW_SOURCE_LINE_BYTES);
    if (text == NULL) {
        return UW_ERR_NOMEM;
    }
    *free_one = (struct uw_sender){.fd = fd, .text = text};
    return UW_OK;
}

static int listen_at(struct uw_source *s, const struct sockaddr *address, socklen_t bytes,
                     const char *name, struct uw_error *err)
{
    int on = 1;
    s->listener = socket(address->sa_family, SOCK_STREAM, 0);
    if (s->listener >= 0 && address->sa_family == AF_INET) {
        setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    }
    if (s->listener < 0 || bind(s->listener, address, bytes) != 0 || listen(s->listener, 4) != 0) {
        return uw_error_set(err, UW_ERR_IO, "%.120s: %s", name, strerror(errno));
    }
    fcntl(s->listener, F_SETFL, O_NONBLOCK);
    fcntl(s->listener, F_SETFD, FD_CLOEXEC);
    return UW_OK;
}

/* Remove a socket's file that a program left behind. */
static void remove_stale(const struct sockaddr_un *a)
{
    struct stat st;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd >= 0 && stat(a->sun_path, &st) == 0 && S_ISSOCK(st.st_mode) &&
        connect(fd, (const struct sockaddr *)a, sizeof *a) != 0 && errno == ECONNREFUSED) {
        unlink(a->sun_path);
    }
    if (fd >= 0) {
        close(fd);
    }
}

static int open_unix(struct uw_source *s, const char *name, const char *path,
                     struct uw_error *err)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (*path == '\0' || strlen(path) >= sizeof a.sun_path) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "%.120s: needs a path of 1 to %zu bytes", name,
                            sizeof a.sun_path - 1u);
    }
    memcpy(a.sun_path, path, strlen(path) + 1u);
    remove_stale(&a);
    int rc = listen_at(s, (const struct sockaddr *)&a, sizeof a, name, err);
    s->path = rc == UW_OK ? path : NULL;
    return rc;
}

static int open_tcp(struct uw_source *s, const char *name, const char *port, struct uw_error *err)
{
    char *end;
    unsigned long number = *port >= '1' && *port <= '9' ? strtoul(port, &end, 10) : 0;
    if (number == 0 || number > 65535 || *end != '\0') {
        return uw_error_set(err, UW_ERR_INVALID, "%.120s: needs a port from 1 to 65535", name);
    }
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)number),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return listen_at(s, (const struct sockaddr *)&a, sizeof a, name, err);
}

static int open_mqtt(struct uw_source *s, const char *address, const struct uw_mqtt_files *files,
                     struct uw_error *err)
{
    int fd, rc = uw_mqtt_open(&s->mqtt, address, files, &fd, err);
    if (rc == UW_OK && (rc = take_sender(s, fd)) < 0) {
        close(fd);
        uw_error_set(err, rc, "%.120s: no memory for a line", address);
    }
    return rc;
}

int uw_source_open(struct uw_source *s, const char *address, const struct uw_mqtt_files *files,
                   struct uw_error *err)
{
    *s = (struct uw_source){.listener = -1};
    for (uint32_t i = 0; i < UW_SOURCE_SENDERS; i++) {
        s->sender[i].fd = -1;
    }
    if (strncmp(address, "mqtt", 4) == 0) {
        return open_mqtt(s, address, files, err);
    }
    if (strcmp(address, "stream:-") == 0) {
        int rc = take_sender(s, STDIN_FILENO);
        return rc < 0 ? uw_error_set(err, rc, "stream:-: no memory for a line") : rc;
    }
    if (strncmp(address, UNIX, sizeof UNIX - 1u) == 0) {
        return open_unix(s, address, address + sizeof UNIX - 1u, err);
    }
    if (strncmp(address, TCP, sizeof TCP - 1u) == 0) {
        return open_tcp(s, address, address + sizeof TCP - 1u, err);
    }
    return uw_error_set(err, UW_ERR_INVALID,
                        "%.100s: allowed are stream:-, stream:unix:PATH, "
                        "stream:tcp:127.0.0.1:PORT and mqtt://HOST/TOPIC", address);
}

void uw_source_close(struct uw_source *s)
{
    for (uint32_t i = 0; i < UW_SOURCE_SENDERS; i++) {
        if (s->sender[i].fd > STDIN_FILENO) {
            close(s->sender[i].fd);
        }
        free(s->sender[i].text);
    }
    uw_mqtt_close(s->mqtt);
    if (s->listener >= 0) {
        close(s->listener);
    }
    if (s->path != NULL) {
        unlink(s->path);
    }
    *s = (struct uw_source){.listener = -1};
    for (uint32_t i = 0; i < UW_SOURCE_SENDERS; i++) {
        s->sender[i].fd = -1;
    }
}

void uw_source_wait(const struct uw_source *s, int wait_ms)
{
    struct pollfd fds[UW_SOURCE_SENDERS + 1u];
    for (uint32_t i = 0; i < UW_SOURCE_SENDERS; i++) {
        fds[i] = (struct pollfd){.fd = s->sender[i].fd, .events = POLLIN};
    }
    fds[UW_SOURCE_SENDERS] = (struct pollfd){.fd = s->listener, .events = POLLIN};
    poll(fds, UW_SOURCE_SENDERS + 1u, wait_ms);
}

static void accept_all(struct uw_source *s)
{
    int fd = s->listener >= 0 ? accept(s->listener, NULL, NULL) : -1;
    for (; fd >= 0; fd = accept(s->listener, NULL, NULL)) {
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        if (take_sender(s, fd) < 0) {
            close(fd);
        }
    }
}

/* Read what has arrived behind the text that is there. */
static void read_more(struct uw_sender *p)
{
    if (p->line_at > 0) {
        memmove(p->text, p->text + p->line_at, p->used - p->line_at);
        p->used -= p->line_at;
        p->line_at = 0;
    }
    struct pollfd fd = {.fd = p->fd, .events = POLLIN};     /* the descriptor itself may block */
    if (poll(&fd, 1, 0) <= 0) {
        return;
    }
    ssize_t n = read(p->fd, p->text + p->used, UW_SOURCE_LINE_BYTES - 1u - p->used);
    p->used += n > 0 ? (size_t)n : 0;
    p->ended = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* Cut off the next line. A last line without an end counts on standard input only: a sender that is
 * gone may have sent half of it. Returns as uw_source_take. */
static int cut_line(struct uw_sender *p, char **text, uint64_t *line_n)
{
    char *start = p->text + p->line_at, *end = memchr(start, '\n', p->used - p->line_at);
    bool was_long = p->too_long;
    if (end == NULL && p->line_at == 0 && p->used == UW_SOURCE_LINE_BYTES - 1u) {
        p->used = 0;            /* a piece of a line that is too long: drop it and what follows */
        p->too_long = true;
        *line_n = p->line_n + 1u;
        return was_long ? 0 : UW_ERR_TOOBIG;
    }
    if (end == NULL && !(p->ended && p->used > p->line_at && p->fd == STDIN_FILENO)) {
        return 0;
    }
    p->line_at = end != NULL ? (size_t)(end - p->text) + 1u : p->used;
    *(end != NULL ? end : p->text + p->used) = '\0';
    p->too_long = false;
    ++p->line_n;
    *line_n = p->line_n;
    *text = start;
    return was_long ? cut_line(p, text, line_n) : 1;
}

static int take_of(struct uw_source *s, struct uw_sender *p, char **text, uint64_t *line_n)
{
    int rc = cut_line(p, text, line_n);
    if (rc == 0 && !p->ended) {
        read_more(p);
        rc = cut_line(p, text, line_n);
    }
    if (rc == 0 && p->ended) {
        s->over = s->over || p->fd == STDIN_FILENO;
        if (p->fd > STDIN_FILENO) {
            close(p->fd);
        }
        p->fd = -1;
    }
    return rc;
}

int uw_source_take(struct uw_source *s, char **text, uint64_t *line_n, uint32_t *from)
{
    int rc = 0;
    accept_all(s);
    for (uint32_t i = 0; i < UW_SOURCE_SENDERS && rc == 0; i++) {
        rc = s->sender[i].fd >= 0 ? take_of(s, &s->sender[i], text, line_n) : 0;
        *from = i;
    }
    return rc;
}
