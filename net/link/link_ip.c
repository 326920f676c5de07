/* SPDX-License-Identifier: Apache-2.0 */
#include "link_ip.h"

#include "ip_errno.h"

#include "uwasa/status.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES (256u * 1024u)      /* enough for the resolver and its plug-ins */
#define FRESH_S 30
#define BACKLOG 1024

enum lookup_state { LOOKUP_FREE, LOOKUP_RUNNING, LOOKUP_DONE };

struct lookup {
    enum lookup_state state;
    enum uw_ip_family family;
    int rc;
    time_t done_s;                      /* monotonic, of the answer */
    char host[UW_IP_HOST_BYTES];
    struct uw_ip_address address;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;    /* of everything below */
static struct lookup lookups[UW_IP_LOOKUPS];
static uw_ip_resolver_fn injected;

static time_t now_s(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

bool uw_ip_address_from(const struct sockaddr_storage *s, struct uw_ip_address *a)
{
    memset(a, 0, sizeof *a);
    if (s->ss_family == AF_INET) {
        struct sockaddr_in in;
        uint8_t ip[4];
        memcpy(&in, s, sizeof in);
        memcpy(ip, &in.sin_addr, sizeof ip);
        uw_ip_address_set_ipv4(a, ip);
        a->port = ntohs(in.sin_port);
        return true;
    }
    if (s->ss_family == AF_INET6) {
        struct sockaddr_in6 in;
        memcpy(&in, s, sizeof in);
        memcpy(a->ip, &in.sin6_addr, 16);
        a->scope = in.sin6_scope_id;
        a->port = ntohs(in.sin6_port);
        return true;
    }
    return false;
}

uint32_t uw_ip_address_to(const struct uw_ip_address *a, bool ipv6, struct sockaddr_storage *s)
{
    memset(s, 0, sizeof *s);
    if (ipv6) {
        struct sockaddr_in6 in = {.sin6_family = AF_INET6, .sin6_port = htons(a->port)};
        in.sin6_scope_id = a->scope;
        memcpy(&in.sin6_addr, a->ip, 16);
        memcpy(s, &in, sizeof in);
        return sizeof in;
    }
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(a->port)};
    memcpy(&in.sin_addr, a->ip + 12, 4);
    memcpy(s, &in, sizeof in);
    return sizeof in;
}

static int ask_system(const char *host, enum uw_ip_family family, int flags,
                      struct uw_ip_address *a)
{
    struct addrinfo hints = {.ai_family = family == UW_IP_V4   ? AF_INET
                                          : family == UW_IP_V6 ? AF_INET6
                                                               : AF_UNSPEC,
                             .ai_socktype = SOCK_DGRAM,
                             .ai_flags = flags};
    struct addrinfo *list = NULL;
    /* Also for machines without /etc/hosts: RFC 6761, section 6.3. */
    bool local = flags == 0 && strcasecmp(host, "localhost") == 0;
    if (getaddrinfo(host, NULL, &hints, &list) != 0 &&
        (!local || getaddrinfo(NULL, "0", &hints, &list) != 0)) {
        return UW_ERR_NOTFOUND;
    }
    int rc = UW_ERR_NOTFOUND;
    for (const struct addrinfo *i = list; i != NULL && rc < 0; i = i->ai_next) {
        struct sockaddr_storage s;
        memset(&s, 0, sizeof s);
        memcpy(&s, i->ai_addr, i->ai_addrlen);
        rc = uw_ip_address_from(&s, a) ? UW_OK : UW_ERR_NOTFOUND;
    }
    freeaddrinfo(list);
    return rc;
}

int uw_ip_host_wait(const char *host, enum uw_ip_family family, struct uw_ip_address *a)
{
    int rc = ask_system(host, family, AI_NUMERICHOST, a);
    return rc == UW_OK ? rc : ask_system(host, family, 0, a);
}

bool uw_ip_address_of(int fd, bool peer, struct uw_ip_address *a)
{
    struct sockaddr_storage s;
    socklen_t bytes = sizeof s;
    memset(&s, 0, sizeof s);
    return (peer ? getpeername : getsockname)(fd, (struct sockaddr *)&s, &bytes) == 0 &&
           uw_ip_address_from(&s, a);
}

/* Returns -1 and keeps errno. */
static int close_failed(int fd)
{
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

int uw_ip_socket(bool ipv6, int type)
{
    int fd = socket(ipv6 ? AF_INET6 : AF_INET, type, 0);
    int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);
    if (fd >= 0 && (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
                    fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)) {
        return close_failed(fd);
    }
    return fd;
}

static int open_bound(const struct uw_ip_address *a, int type, bool ipv6, bool ipv6_only)
{
    struct sockaddr_storage s;
    int on = 1, v6only = ipv6_only, fd = uw_ip_socket(ipv6, type);
    bool listens = type == SOCK_STREAM;
    if (fd >= 0 && listens) {
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    }
    if (fd >= 0 &&
        ((ipv6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof v6only) < 0) ||
         bind(fd, (struct sockaddr *)&s, uw_ip_address_to(a, ipv6, &s)) < 0 ||
         (listens && listen(fd, BACKLOG) < 0))) {
        return close_failed(fd);
    }
    return fd;
}

int uw_ip_open(const char *text, int type, bool *ipv4, bool *ipv6, struct uw_error *err)
{
    char host[UW_IP_HOST_BYTES];
    uint16_t port;
    struct uw_ip_address a = {.ip = {0}};
    text = text != NULL ? text : ":0";
    if (uw_ip_address_split(text, host, &port) < 0) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "\"%s\" is not an address: write 10.0.0.2:4433, [::1]:4433 "
                            "or :4433",
                            text);
    }
    bool any = host[0] == '\0';
    if (!any && uw_ip_host_wait(host, UW_IP_ANY, &a) < 0) {
        return uw_error_set(err, UW_ERR_NOTFOUND, "%s: no such host", text);
    }
    a.port = port;
    *ipv6 = any || !uw_ip_address_is_ipv4(&a);
    *ipv4 = any || !*ipv6;
    int fd = open_bound(&a, type, *ipv6, !any);
    if (fd < 0 && any && errno != EADDRINUSE && errno != EACCES) {
        *ipv6 = false;
        fd = open_bound(&a, type, false, false);
    }
    return fd >= 0 ? fd : uw_error_set(err, UW_ERR_IO, "cannot bind %s: %s", text,
                                       uw_ip_remedy(errno));
}

static void *look_up(void *arg)
{
    struct lookup *l = arg;
    struct lookup mine;
    pthread_mutex_lock(&lock);
    uw_ip_resolver_fn resolver = injected;
    mine = *l;
    pthread_mutex_unlock(&lock);
    int rc = resolver != NULL ? resolver(mine.host, mine.family, &mine.address)
                              : ask_system(mine.host, mine.family, 0, &mine.address);
    pthread_mutex_lock(&lock);
    l->rc = rc;
    l->address = mine.address;
    l->done_s = now_s();
    l->state = LOOKUP_DONE;
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Under the lock. The thread blocks signals, which are for the program's threads. */
static bool start(struct lookup *l)
{
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_t thread;
    if (pthread_attr_init(&attr) != 0) {
        return false;
    }
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    sigfillset(&all);
    bool started = pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED) == 0 &&
                   pthread_sigmask(SIG_SETMASK, &all, &before) == 0;
    if (started) {
        started = pthread_create(&thread, &attr, look_up, l) == 0;
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_attr_destroy(&attr);
    return started;
}

/* Under the lock. The lookup of a host, or a free entry for it; NULL: none. */
static struct lookup *place_for(const char *host, enum uw_ip_family family)
{
    struct lookup *place = NULL;
    time_t fresh_s = now_s() - FRESH_S;
    for (uint32_t i = 0; i < UW_IP_LOOKUPS; i++) {
        struct lookup *l = &lookups[i];
        if (l->state == LOOKUP_DONE && l->done_s < fresh_s) {
            l->state = LOOKUP_FREE;
        }
        if (l->state == LOOKUP_FREE) {
            place = l;
        } else if (l->family == family && strcmp(l->host, host) == 0) {
            return l;
        }
    }
    return place;
}

static int find_host(const char *host, enum uw_ip_family family, struct uw_ip_address *a)
{
    struct uw_ip_address other;
    size_t bytes = strlen(host) + 1u;
    if (ask_system(host, family, AI_NUMERICHOST, a) == UW_OK) {
        return UW_OK;
    }
    /* A numeric address of the other IP version is not a name. */
    if (bytes > UW_IP_HOST_BYTES ||
        ask_system(host, UW_IP_ANY, AI_NUMERICHOST, &other) == UW_OK) {
        return UW_ERR_NOTFOUND;
    }
    int rc = UW_ERR_AGAIN;
    pthread_mutex_lock(&lock);
    struct lookup *l = place_for(host, family);
    if (l != NULL && l->state == LOOKUP_DONE) {
        rc = l->rc;
        *a = l->address;
        l->state = LOOKUP_FREE;
    } else if (l != NULL && l->state == LOOKUP_FREE) {
        memcpy(l->host, host, bytes);
        l->family = family;
        l->state = start(l) ? LOOKUP_RUNNING : LOOKUP_FREE;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

int uw_ip_resolve(const char *address, enum uw_ip_family family, struct uw_ip_address *a)
{
    char host[UW_IP_HOST_BYTES];
    uint16_t port;
    int rc = uw_ip_address_split(address, host, &port);
    if (rc < 0 || host[0] == '\0' || port == 0) {
        return UW_ERR_INVALID;
    }
    rc = find_host(host, family, a);
    if (rc == UW_OK) {
        a->port = port;
    }
    return rc;
}

void uw_ip_set_resolver(uw_ip_resolver_fn resolver)
{
    pthread_mutex_lock(&lock);
    injected = resolver;
    pthread_mutex_unlock(&lock);
}
