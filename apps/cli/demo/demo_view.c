/* SPDX-License-Identifier: Apache-2.0 */
#include "demo.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *uw_demo_kind_name(enum uw_demo_kind kind)
{
    static const char *const name[] = {"native", "aarch64", "Cortex-M7"};
    return name[kind];
}

static const char *state_of(const struct uw_demo_node *n)
{
    return n->down ? "down" : n->done ? "done" : n->pid > 0 ? "up" : "-";
}

static void go_back(struct uw_demo *d)
{
    if (d->drawn_lines > 0) {
        fprintf(stderr, "\033[%uA\r\033[J", (unsigned)d->drawn_lines);
        d->drawn_lines = 0;
    }
}

/* One line of the live view. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void put_row(struct uw_demo *d, const char *format, ...)
{
    char line[256] = "";
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    uw_progress_fit(line);
    fprintf(stderr, "%s\n", line);
    d->drawn_lines++;
}

/* One row of the live view; pulled bytes are shown only if all nodes are of one kind. */
static void put_columns(struct uw_demo *d, const char *const text[9])
{
    const int kind = d->boards ? 11 : 0, pulled = d->boards ? 0 : 12;
    put_row(d, "%-9s %-*s%-9s %-5s %7s %8s %9s%*s %6s", text[0], kind, d->boards ? text[1] : "",
            text[2], text[3], text[4], text[5], text[6], pulled, d->boards ? "" : text[7], text[8]);
}

static void draw_rows(struct uw_demo *d, double seconds)
{
    char pulled[UW_TEXT_BYTES], accuracy[16], peers[24], pulls[16], loss[16], step[24];
    go_back(d);
    put_row(d, "%.0f s, %s", seconds, d->phase);
    put_columns(d, (const char *const[]){"node", "kind", "digits", "state", "step", "loss",
                                         "accuracy", "pulled", d->boards ? "pulls" : "peers"});
    for (uint32_t i = 0; i < d->nodes_n; i++) {
        const struct uw_demo_node *n = &d->nodes[i];
        snprintf(accuracy, sizeof accuracy, n->accuracy < 0 ? "-" : "%.1f %%",
                 100.0 * n->accuracy);
        snprintf(peers, sizeof peers, "%u/%u", n->peers, n->peers_n);
        snprintf(pulls, sizeof pulls, "%u", n->pulls);
        snprintf(loss, sizeof loss, n->step == 0 ? "-" : "%.4f", n->loss);
        snprintf(step, sizeof step, "%llu", (unsigned long long)n->step);
        put_columns(d, (const char *const[]){n->name, uw_demo_kind_name(n->kind), n->classes,
                                             state_of(n), step, loss, accuracy,
                                             uw_text_bytes(n->pulled_bytes, pulled),
                                             d->boards ? pulls : peers});
    }
}

static void draw_line(struct uw_demo *d, double seconds)
{
    char line[512];
    char pulled[UW_TEXT_BYTES];
    double bytes = 0.0;
    uint32_t pulls = 0;
    int used = snprintf(line, sizeof line, "%4.0f s  %-8s  accuracy", seconds, d->phase);
    for (uint32_t i = 0; i < d->nodes_n; i++) {
        const struct uw_demo_node *n = &d->nodes[i];
        bytes += n->pulled_bytes;
        pulls += n->pulls;
        char accuracy[16];
        snprintf(accuracy, sizeof accuracy, n->accuracy < 0 ? "-" : "%.1f %%",
                 100.0 * n->accuracy);
        used += snprintf(line + used, sizeof line - (size_t)used, "  %s %s", n->name,
                         n->down ? "down" : accuracy);
    }
    if (d->boards) {
        fprintf(stderr, "%s  %u pulls\n", line, (unsigned)pulls);
    } else {
        fprintf(stderr, "%s  pulled %s\n", line, uw_text_bytes(bytes, pulled));
    }
}

void uw_demo_draw(struct uw_demo *d, uint64_t now_us, bool force)
{
    if (!uw_progress_due(&d->progress, now_us) && !force) {
        return;
    }
    double seconds = (double)(now_us - d->start_us) / 1e6;
    if (d->progress.terminal) {
        draw_rows(d, seconds);
    } else {
        draw_line(d, seconds);
    }
}

void uw_demo_log(struct uw_demo *d, const char *format, ...)
{
    va_list args;
    go_back(d);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

/* Print the program as it was started, for the next command to type. */
static void print_program(void)
{
    char path[512];
    const char *search = getenv("PATH");
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1u);
    if (n <= 0) {
        return;
    }
    path[n] = '\0';
    const char *slash = strrchr(path, '/');
    size_t folder_n = slash != NULL ? (size_t)(slash - path) : 0;
    for (const char *p = search; p != NULL; p = strchr(p, ':')) {
        p += *p == ':' ? 1 : 0;
        if (strncmp(p, path, folder_n) == 0 && (p[folder_n] == ':' || p[folder_n] == '\0')) {
            return;
        }
    }
    printf("\nuwasa is %s\n", path);
}

/* The result, at most 80 columns: a node's kind in place of what it sent, as in the live view. */
static void print_table(const struct uw_demo *d)
{
    const int kind = d->boards ? 11 : 0, sent = d->boards ? 0 : 11;
    char text[3][UW_TEXT_BYTES];
    printf("\n%-8s %-*s%-9s %7s %9s %10s%*s %9s %8s\n", "node", kind, d->boards ? "kind" : "",
           "digits", "alone", "together", "pulled", sent, d->boards ? "" : "sent", "samples/s",
           "RAM");
    for (uint32_t i = 0; i < d->nodes_n; i++) {
        const struct uw_demo_node *n = &d->nodes[i];
        printf("%-8s %-*s%-9s %5.1f %% %7.1f %% %10s%*s %9.0f %8s%s\n", n->name, kind,
               d->boards ? uw_demo_kind_name(n->kind) : "", n->classes,
               100.0 * n->alone_accuracy, 100.0 * n->together_accuracy,
               uw_text_bytes(n->pulled_bytes, text[0]), sent,
               d->boards ? "" : uw_text_bytes(n->sent_bytes, text[1]), n->samples_per_s,
               uw_text_bytes(n->rss_bytes, text[2]), n->restarts > 0 ? " *" : "");
    }
}

void uw_demo_print_result(const struct uw_demo *d)
{
    bool came_back = false;
    print_table(d);
    for (uint32_t i = 0; i < d->nodes_n; i++) {
        came_back = came_back || d->nodes[i].restarts > 0;
    }
    if (came_back) {
        printf("* %s in the middle, and came back\n",
               d->boards ? "lost power" : "killed (SIGKILL)");
    }
    printf("\nEach node saw its own digits only; the accuracy is on all ten. No data left\n"
           "a node, only parameters, over UDP with DTLS.\n\n"
           "Try next:\n"
           "  uwasa train --model lenet5 --steps 3000    one device with all digits\n"
           "  uwasa models                               other networks\n"
           "  uwasa plan --model fedavg-cnn --batch 20   memory before flashing\n"
           "  uwasa keygen run.key; uwasa node --help    a run of your own\n");
    print_program();
}
