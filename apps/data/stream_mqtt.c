/* SPDX-License-Identifier: Apache-2.0 */
#include "stream_mqtt.h"

#include <errno.h>
#include <fcntl.h>
#include <mosquitto.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PORT 1883
#define PORT_TLS 8883
#define KEEPALIVE_S 60
#define RETRY_S 1u
#define RETRY_MOST_S 4u
#define ANSWER_S 10             /* a broker's first answer takes at most */
#define QOS 1                   /* at least once */

struct uw_mqtt {
    const char *url;
    char user[128], host[256], topic[256];
    int port;
    bool tls, started;
    struct mosquitto *client;
    int out;                    /* the pipe's end that is written */
    time_t opened_s;            /* monotonic */
    pthread_mutex_t lock;       /* of all below */
    bool answered;              /* the broker has, once */
    bool lost, told_lost;
    uint32_t lost_n, told_n;    /* times */
    bool refused;               /* by the broker, since the last connection ... */
    char why[96];               /* ... or why it was lost */
};

/* ---- the address ---- */

static int wrong(const struct uw_mqtt *m, const char *what, struct uw_error *err)
{
    return uw_error_set(err, UW_ERR_INVALID, "%.100s: %s; allowed is "
                        "mqtt://[USER@]HOST[:PORT]/TOPIC, or mqtts:// for TLS", m->url, what);
}

static bool copy(char *to, size_t to_bytes, const char *from, size_t n)
{
    if (n >= to_bytes) {
        return false;
    }
    memcpy(to, from, n);
    to[n] = '\0';
    return true;
}

static int read_port(struct uw_mqtt *m, const char *text, const char *end, struct uw_error *err)
{
    if (text == end) {
        m->port = m->tls ? PORT_TLS : PORT;
        return UW_OK;
    }
    char *after;
    unsigned long port = *text == ':' && text[1] >= '1' && text[1] <= '9'
                             ? strtoul(text + 1, &after, 10) : 0;
    m->port = (int)port;
    bool good = port != 0 && port <= 65535 && after == end;
    return good ? UW_OK : wrong(m, "needs a port from 1 to 65535", err);
}

static int read_url(struct uw_mqtt *m, struct uw_error *err)
{
    m->tls = strncmp(m->url, "mqtts:", 6) == 0;
    const char *p = strstr(m->url, "://");
    p = p != NULL ? p + 3 : m->url;
    const char *slash = strchr(p, '/'), *end = slash != NULL ? slash : p + strlen(p);
    const char *at = memchr(p, '@', (size_t)(end - p));
    if (at != NULL) {
        if (memchr(p, ':', (size_t)(at - p)) != NULL) {
            return wrong(m, "a password would be seen by others, put it in a file: "
                            "mqtt://USER@HOST/TOPIC,password=FILE", err);
        }
        if (at == p || !copy(m->user, sizeof m->user, p, (size_t)(at - p))) {
            return wrong(m, "needs a user of 1 to 127 bytes before @", err);
        }
        p = at + 1;
    }
    bool v6 = *p == '[';
    const char *stop = v6 ? memchr(p, ']', (size_t)(end - p)) : memchr(p, ':', (size_t)(end - p));
    stop = stop != NULL ? stop : end;
    if (!copy(m->host, sizeof m->host, p + v6, (size_t)(stop - p) - v6) || m->host[0] == '\0' ||
        (v6 && stop == end)) {
        return wrong(m, "needs the name or address of a broker", err);
    }
    if (slash == NULL || !copy(m->topic, sizeof m->topic, slash + 1, strlen(slash + 1)) ||
        mosquitto_sub_topic_check(m->topic) != MOSQ_ERR_SUCCESS || m->topic[0] == '\0') {
        return wrong(m, "needs a topic, where + stands for one level and # at the end for all",
                     err);
    }
    return read_port(m, stop + v6, end, err);
}

/* ---- what libmosquitto's thread reports ---- */

static void note(struct uw_mqtt *m, bool lost, bool refused, const char *why)
{
    pthread_mutex_lock(&m->lock);
    m->lost_n += lost && !m->lost ? 1u : 0u;
    m->lost = lost;
    m->refused = refused;
    snprintf(m->why, sizeof m->why, "%s", why);
    pthread_mutex_unlock(&m->lock);
}

static void on_connect(struct mosquitto *client, void *mqtt, int rc)
{
    struct uw_mqtt *m = mqtt;
    pthread_mutex_lock(&m->lock);
    m->answered = true;
    pthread_mutex_unlock(&m->lock);
    if (rc != 0) {
        note(m, true, true, mosquitto_connack_string(rc));
    } else {
        rc = mosquitto_subscribe(client, NULL, m->topic, QOS);
        note(m, rc != MOSQ_ERR_SUCCESS, false, mosquitto_strerror(rc));
    }
}

static void on_subscribe(struct mosquitto *client, void *mqtt, int id, int n, const int *granted)
{
    (void)client;
    (void)id;
    if (n > 0 && granted[0] > 2) {
        note(mqtt, true, true, "the broker does not allow this topic");
    }
}

static void on_disconnect(struct mosquitto *client, void *mqtt, int rc)
{
    struct uw_mqtt *m = mqtt;
    (void)client;
    pthread_mutex_lock(&m->lock);
    bool refused = m->refused;
    pthread_mutex_unlock(&m->lock);
    if (!refused) {
        note(m, true, false, mosquitto_strerror(rc));
    }
}

static bool write_all(int fd, const char *text, size_t n)
{
    while (n > 0) {
        ssize_t sent = write(fd, text, n);      /* SIGPIPE is blocked */
        if (sent < 0 && errno != EINTR) {
            return false;                       /* closing */
        }
        text += sent > 0 ? sent : 0;
        n -= sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

static void on_message(struct mosquitto *client, void *mqtt,
                       const struct mosquitto_message *message)
{
    struct uw_mqtt *m = mqtt;
    (void)client;
    if (message->payloadlen > 0 &&
        write_all(m->out, message->payload, (size_t)message->payloadlen)) {
        write_all(m->out, "\n", 1);
    }
}

/* ---- open and close ---- */

static int set_user(struct uw_mqtt *m, const char *file, struct uw_error *err)
{
    char password[256] = "";
    if (*file != '\0') {
        FILE *f = fopen(file, "r");
        if (f == NULL) {
            return uw_error_set(err, errno == EACCES ? UW_ERR_DENIED : UW_ERR_NOTFOUND,
                                "%.80s: password file %.100s: %s", m->url, file, strerror(errno));
        }
        char *line = fgets(password, sizeof password, f);
        fclose(f);
        password[line != NULL ? strcspn(password, "\r\n") : 0] = '\0';
    }
    if (*file != '\0' && m->user[0] == '\0') {
        return wrong(m, "password=FILE needs a user, mqtt://USER@HOST", err);
    }
    if (m->user[0] != '\0') {
        mosquitto_username_pw_set(m->client, m->user, *file != '\0' ? password : NULL);
    }
    return UW_OK;
}

static int set_tls(struct uw_mqtt *m, const struct uw_mqtt_files *f, struct uw_error *err)
{
    bool any = f->ca[0] != '\0' || f->cert[0] != '\0' || f->key[0] != '\0';
    if (!m->tls) {
        return any ? wrong(m, "ca, cert and key are for mqtts://", err) : UW_OK;
    }
    int rc = f->ca[0] == '\0' ? mosquitto_int_option(m->client, MOSQ_OPT_TLS_USE_OS_CERTS, 1)
                              : MOSQ_ERR_SUCCESS;
    if (rc == MOSQ_ERR_SUCCESS && any) {
        rc = mosquitto_tls_set(m->client, f->ca[0] != '\0' ? f->ca : NULL,
                               f->ca[0] != '\0' ? NULL : "/etc/ssl/certs",
                               f->cert[0] != '\0' ? f->cert : NULL,
                               f->key[0] != '\0' ? f->key : NULL, NULL);
    }
    return rc == MOSQ_ERR_SUCCESS
               ? UW_OK
               : uw_error_set(err, UW_ERR_INVALID, "%.80s: ca=%.60s, cert=%.60s, key=%.60s: a file "
                              "cannot be read, or cert and key are not given together", m->url,
                              f->ca, f->cert, f->key);
}

static time_t now_s(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static int connect_first(struct uw_mqtt *m, struct uw_error *err)
{
    sigset_t all, before;
    mosquitto_connect_callback_set(m->client, on_connect);
    mosquitto_subscribe_callback_set(m->client, on_subscribe);
    mosquitto_disconnect_callback_set(m->client, on_disconnect);
    mosquitto_message_callback_set(m->client, on_message);
    mosquitto_reconnect_delay_set(m->client, RETRY_S, RETRY_MOST_S, true);
    m->opened_s = now_s();
    int rc = mosquitto_connect_async(m->client, m->host, m->port, KEEPALIVE_S);
    if (rc == MOSQ_ERR_SUCCESS) {
        sigfillset(&all);           /* signals are the program's */
        pthread_sigmask(SIG_BLOCK, &all, &before);
        rc = mosquitto_loop_start(m->client);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        m->started = rc == MOSQ_ERR_SUCCESS;
    }
    return rc == MOSQ_ERR_SUCCESS
               ? UW_OK
               : uw_error_set(err, UW_ERR_IO, "%.120s: no broker at %.80s port %d: %s", m->url,
                              m->host, m->port,
                              rc == MOSQ_ERR_ERRNO ? strerror(errno) : mosquitto_strerror(rc));
}

int uw_mqtt_open(struct uw_mqtt **mqtt, const char *url, const struct uw_mqtt_files *files,
                 int *fd, struct uw_error *err)
{
    int pair[2] = {-1, -1}, rc;
    struct uw_mqtt *m = calloc(1, sizeof *m);
    *mqtt = m;
    *fd = -1;
    if (m == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "%.120s: no memory", url);
    }
    mosquitto_lib_init();
    m->url = url;
    m->out = -1;
    pthread_mutex_init(&m->lock, NULL);
    rc = read_url(m, err);
    if (rc == UW_OK && (pipe(pair) != 0 ||
                        (m->client = mosquitto_new(NULL, true, m)) == NULL)) {
        rc = uw_error_set(err, UW_ERR_NOMEM, "%.120s: %s", url, strerror(errno));
    }
    for (int i = 0; i < 2 && pair[i] >= 0; i++) {
        fcntl(pair[i], F_SETFD, FD_CLOEXEC);
    }
    *fd = pair[0];
    m->out = pair[1];
    rc = rc < 0 ? rc : set_user(m, files->password, err);
    rc = rc < 0 ? rc : set_tls(m, files, err);
    rc = rc < 0 ? rc : connect_first(m, err);
    if (rc < 0) {
        if (*fd >= 0) {
            close(*fd);
            *fd = -1;
        }
        uw_mqtt_close(m);
        *mqtt = NULL;
    }
    return rc;
}

bool uw_mqtt_is_refused(struct uw_mqtt *m, char *text, size_t text_bytes)
{
    pthread_mutex_lock(&m->lock);
    bool refused = m->refused, failed = !m->answered && m->lost;
    bool silent = !m->answered && now_s() - m->opened_s >= ANSWER_S;
    if (refused) {
        snprintf(text, text_bytes, "%.120s: %s", m->url, m->why);
    } else if (failed) {
        snprintf(text, text_bytes, "%.100s: no broker at %.60s port %d: %s", m->url, m->host,
                 m->port, m->why);
    } else if (silent) {
        snprintf(text, text_bytes, "%.80s: %.60s port %d has not answered for %d s: is it a "
                 "broker%s?", m->url, m->host, m->port, ANSWER_S,
                 m->tls ? "'s port for TLS, with a certificate that ca=FILE signs" : "");
    }
    pthread_mutex_unlock(&m->lock);
    return refused || failed || silent;
}

bool uw_mqtt_news(struct uw_mqtt *m, char *text, size_t text_bytes)
{
    pthread_mutex_lock(&m->lock);
    bool again = m->told_lost && !m->lost, news = m->lost_n != m->told_n || again;
    if (news && m->lost) {
        snprintf(text, text_bytes, "%.100s: the broker is gone (%s): training goes on with what is "
                                   "kept, a new try follows every %u to %u s", m->url, m->why,
                 RETRY_S, RETRY_MOST_S);
    } else if (news) {
        snprintf(text, text_bytes, "%.100s: the broker %sis there again", m->url,
                 again ? "" : "was gone and ");
    }
    m->told_n = m->lost_n;
    m->told_lost = m->lost;
    pthread_mutex_unlock(&m->lock);
    return news;
}

void uw_mqtt_close(struct uw_mqtt *m)
{
    if (m == NULL) {
        return;
    }
    if (m->started) {
        mosquitto_disconnect(m->client);
        pthread_mutex_lock(&m->lock);
        bool away = !m->answered || m->lost;
        pthread_mutex_unlock(&m->lock);
        mosquitto_loop_stop(m->client, away);       /* at once: it may wait for an answer */
    }
    if (m->client != NULL) {
        mosquitto_destroy(m->client);
    }
    mosquitto_lib_cleanup();
    if (m->out >= 0) {
        close(m->out);
    }
    pthread_mutex_destroy(&m->lock);
    free(m);
}
