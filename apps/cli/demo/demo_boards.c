/* SPDX-License-Identifier: Apache-2.0 */
#include "demo.h"
#include "links/keyfile.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MACHINE "qemu-system-arm"
#define USER "qemu-aarch64-static"

void uw_demo_add_word(struct uw_demo_command *c, const char *format, ...)
{
    size_t room = sizeof c->text - c->text_bytes;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(c->text + c->text_bytes, room, format, args);
    va_end(args);
    if (n >= 0 && (size_t)n < room && c->words_n + 1u < sizeof c->argv / sizeof c->argv[0]) {
        c->argv[c->words_n++] = c->text + c->text_bytes;
        c->text_bytes += (size_t)n + 1u;
    }
}

static bool is_installed(const char *program)
{
    char path[512];
    const char *at = getenv("PATH");
    while (at != NULL && *at != '\0') {
        int n = (int)strcspn(at, ":");
        if (snprintf(path, sizeof path, "%.*s/%s", n, at, program) < (int)sizeof path &&
            access(path, X_OK) == 0) {
            return true;
        }
        at += n;
        at += *at == ':' ? 1 : 0;
    }
    return false;
}

/* Find a file: named by the user, or in one of the places, which are relative to this program's
 * folder. */
static bool find_file(const char *named, const char *const *places, size_t places_n,
                      char path[UW_DEMO_PATH_BYTES])
{
    char folder[UW_DEMO_PATH_BYTES];
    if (named != NULL) {
        char *whole = realpath(named, NULL);
        bool fits = whole != NULL && strlen(whole) < UW_DEMO_PATH_BYTES;
        snprintf(path, UW_DEMO_PATH_BYTES, "%s", fits ? whole : "");
        free(whole);
        return fits;
    }
    ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1u);
    folder[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(folder, '/');
    for (size_t i = 0; slash != NULL && i < places_n; i++) {
        int length = snprintf(path, UW_DEMO_PATH_BYTES, "%.*s/%s", (int)(slash - folder), folder,
                              places[i]);
        if (length < UW_DEMO_PATH_BYTES && access(path, R_OK) == 0) {
            return true;
        }
    }
    path[0] = '\0';
    return false;
}

static const char *or_environment(const char *named, const char *variable)
{
    const char *value = named != NULL ? named : getenv(variable);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static int find_firmware(struct uw_demo *d, const char *named, struct uw_error *err)
{
    static const char *const places[] = {"cortex-m7/apps/firmware/gossip_node.elf",
                                         "../cortex-m7/apps/firmware/gossip_node.elf",
                                         "../share/uwasa/firmware/mps2_an500.elf"};
    if (!is_installed(MACHINE)) {
        return uw_error_set(err, UW_ERR_NOTFOUND, "--boards needs " MACHINE " and did not find it; "
                            "Debian: apt-get install qemu-system-arm");
    }
    if (find_file(named, places, sizeof places / sizeof places[0], d->firmware)) {
        return UW_OK;
    }
    return named != NULL
               ? uw_error_set(err, UW_ERR_NOTFOUND, "--firmware %.160s: no such file", named)
               : uw_error_set(err, UW_ERR_NOTFOUND, "--boards needs the boards' firmware and did "
                              "not find it; in a clone of uwasa: tools/demo --boards builds it");
}

/* If it is missing, the demo goes on without this node. */
static int find_aarch64(struct uw_demo *d, const char *named, struct uw_error *err)
{
    static const char *const places[] = {"aarch64-static/uwasa", "../aarch64-static/uwasa",
                                         "../share/uwasa/aarch64/uwasa"};
    bool found = find_file(named, places, sizeof places / sizeof places[0], d->aarch64);
    if (!found && named != NULL) {
        return uw_error_set(err, UW_ERR_NOTFOUND, "--aarch64 %.160s: no such file", named);
    }
    if (found && is_installed(USER)) {
        return UW_OK;
    }
    d->aarch64[0] = '\0';
    uw_demo_log(d, found ? "without the aarch64 node: no " USER "; Debian: apt-get install "
                           "qemu-user-static"
                         : "without the aarch64 node: no uwasa for aarch64; in a clone of uwasa: "
                           "tools/demo --boards builds it");
    return UW_OK;
}

int uw_demo_find_boards(struct uw_demo *d, const char *firmware, const char *aarch64,
                        struct uw_error *err)
{
    int rc = find_firmware(d, or_environment(firmware, "UWASA_FIRMWARE"), err);
    rc = rc < 0 ? rc : find_aarch64(d, or_environment(aarch64, "UWASA_AARCH64"), err);
    d->nodes_n = UW_DEMO_BOARDS_N;
    for (uint32_t i = 0; i < UW_DEMO_BOARDS_N; i++) {
        d->nodes[i].kind = UW_DEMO_BOARD;
    }
    if (d->aarch64[0] != '\0') {
        d->nodes[d->nodes_n++].kind = UW_DEMO_AARCH64;
    }
    d->nodes_n++;                       /* and a native one */
    return rc;
}

void uw_demo_numbers(const struct uw_demo *d, const struct uw_demo_start *how,
                     struct uw_demo_number numbers[UW_DEMO_NUMBERS])
{
    const bool boards = d->boards;
    const struct uw_demo_number all[UW_DEMO_NUMBERS] = {
        {"batch", boards ? UW_DEMO_BOARDS_BATCH : 20},
        {"lr", boards ? UW_DEMO_BOARDS_LR : 0.05},
        {"period", boards ? UW_DEMO_BOARDS_PERIOD : 10},
        {"eval_seconds", boards ? UW_DEMO_BOARDS_EVAL_SECONDS : 3},
        {"eval_samples", boards ? UW_DEMO_BOARDS_EVAL_SAMPLES : 500},
        {"consensus_rounds", how->consensus_rounds},
        {"seconds", how->seconds},
        {"elapsed", how->elapsed_seconds},
        {"checkpoint_seconds", 2}};
    memcpy(numbers, all, sizeof all);
}

static int add_key(const struct uw_demo *d, FILE *f, struct uw_error *err)
{
    char path[UW_DEMO_PATH_BYTES];
    char hex[UW_KEY_TEXT_BYTES];
    uint8_t key[UW_KEY_BYTES];
    snprintf(path, sizeof path, "%s/run.key", d->directory.path);
    int rc = uw_keyfile_read(path, key, err);
    if (rc == UW_OK) {
        uw_key_format(key, hex);
        fprintf(f, "key=%s\n", hex);
    }
    uw_key_wipe(key, sizeof key);
    uw_key_wipe(hex, sizeof hex);
    return rc;
}

/* For a board the host is 10.0.2.2: there it finds what others find at 127.0.0.1. */
static void add_network(const struct uw_demo *d, const struct uw_demo_node *n, bool together,
                        FILE *f)
{
    fprintf(f, "gateway=10.0.2.2\nloopback=10.0.2.2\nadvertise=%s\nseeds=", n->address);
    const char *comma = "";
    for (uint32_t i = 0; together && i < d->nodes_n; i++) {
        if (&d->nodes[i] != n) {
            fprintf(f, "%s%s", comma, d->nodes[i].address);
            comma = ",";
        }
    }
    fputc('\n', f);
}

/* A board takes whole seconds; it saves less often than a node. */
static void add_training(const struct uw_demo *d, const struct uw_demo_node *n,
                         const struct uw_demo_start *how, FILE *f)
{
    struct uw_demo_start whole = *how;
    struct uw_demo_number numbers[UW_DEMO_NUMBERS];
    whole.seconds = fmax(1.0, round(how->seconds));
    whole.elapsed_seconds = round(how->elapsed_seconds);
    uw_demo_numbers(d, &whole, numbers);
    fprintf(f, "classes=%s\nmodel=%s\nschedule=cosine\n", n->classes, d->model);
    for (uint32_t i = 0; i < UW_DEMO_NUMBERS - 1u; i++) {
        fprintf(f, "%s=%g\n", numbers[i].key, numbers[i].value);
    }
    fprintf(f, "checkpoint_seconds=%d\n", UW_DEMO_BOARDS_CHECKPOINT_SECONDS);
}

/* A file and no arguments: only the owner may read the key. */
static int write_settings(const struct uw_demo *d, const struct uw_demo_node *n,
                          const struct uw_demo_start *how, struct uw_error *err)
{
    char path[UW_DEMO_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s.settings", d->directory.path, n->name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (f == NULL) {
        int rc = uw_error_set(err, UW_ERR_IO, "%.200s: %s", path, strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return rc;
    }
    fprintf(f, "name=%s\nrun=demo\nevents=json\nflash=%s.flash\n", n->name, n->name);
    add_network(d, n, how->together, f);
    add_training(d, n, how, f);
    int rc = add_key(d, f, err);
    bool written = ferror(f) == 0;
    written = fclose(f) == 0 && written;
    return rc < 0 || written ? rc
                             : uw_error_set(err, UW_ERR_IO, "%.200s: cannot be written", path);
}

int uw_demo_board_command(const struct uw_demo *d, uint32_t i, const struct uw_demo_start *how,
                          struct uw_demo_command *c, struct uw_error *err)
{
    const struct uw_demo_node *n = &d->nodes[i];
    int rc = write_settings(d, n, how, err);
    static const char *const words[] = {MACHINE, "-M", "mps2-an500", "-display", "none", "-monitor",
                                        "none", "-serial", "stdio", "-semihosting-config"};
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
        uw_demo_add_word(c, "%s", words[k]);
    }
    uw_demo_add_word(c, "enable=on,target=native,arg=fw,arg=@%s.settings", n->name);
    uw_demo_add_word(c, "-nic");
    uw_demo_add_word(c, "user,hostfwd=udp:%s-:4433", n->address);
    uw_demo_add_word(c, "-kernel");
    uw_demo_add_word(c, "%s", d->firmware);
    return rc;
}
