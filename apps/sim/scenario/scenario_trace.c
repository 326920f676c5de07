/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/sim_scenario.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 160u
#define ALLOWED "needs node,from,to[,forgets]: a number from 0, seconds, later seconds, 0 or 1"

static int by_node(const void *a, const void *b)
{
    const struct uw_sim_away *x = a, *y = b;
    if (x->node != y->node) {
        return x->node < y->node ? -1 : 1;
    }
    if (x->absence.from_us != y->absence.from_us) {
        return x->absence.from_us < y->absence.from_us ? -1 : 1;
    }
    return x->line < y->line ? -1 : x->line > y->line;
}

/* A number, and the comma or the end behind it. */
static bool take(const char **p, double max, double *value)
{
    char *end;
    *p += strspn(*p, " \t");
    if (strspn(*p, "0123456789.") == 0) {
        return false;
    }
    *value = strtod(*p, &end);
    end += strspn(end, " \t\r");
    bool more = *end == ',' && end[1] != '\0';
    *p = more ? end + 1 : end;
    return *value >= 0.0 && *value <= max && (more || *end == '\0');
}

static bool read_line(const char *p, struct uw_sim_away *a)
{
    double node, from, to, forgets = 0.0;
    if (!take(&p, 4294967294.0, &node) || !take(&p, UW_SIM_SECONDS_MAX, &from) ||
        !take(&p, UW_SIM_SECONDS_MAX, &to)) {
        return false;
    }
    if (*p != '\0' && (!take(&p, 1.0, &forgets) || *p != '\0')) {
        return false;
    }
    a->node = (uint32_t)node;
    a->absence = (struct uw_sim_absence){.from_us = (uint64_t)(from * 1e6 + 0.5),
                                         .to_us = (uint64_t)(to * 1e6 + 0.5),
                                         .forgets = forgets > 0.0};
    return floor(node) == node && (forgets == 0.0 || forgets == 1.0) &&
           a->absence.from_us < a->absence.to_us;
}

static int check_order(const char *file, const struct uw_sim_away *away, uint32_t n,
                       struct uw_error *err)
{
    for (uint32_t i = 1; i < n; i++) {
        if (away[i].node == away[i - 1u].node &&
            away[i].absence.from_us < away[i - 1u].absence.to_us) {
            return uw_error_set(err, UW_ERR_CORRUPT,
                                "%.140s:%u: node %u is away already, since line %u", file,
                                (unsigned)away[i].line, (unsigned)away[i].node,
                                (unsigned)away[i - 1u].line);
        }
    }
    return UW_OK;
}

static int read_lines(const char *file, const char *text, size_t text_bytes,
                      struct uw_sim_away *away, uint32_t *n, struct uw_error *err)
{
    uint32_t number = 0;
    for (size_t at = 0; at < text_bytes; number++) {
        const char *stop = memchr(text + at, '\n', text_bytes - at);
        size_t bytes = stop != NULL ? (size_t)(stop - (text + at)) : text_bytes - at;
        char line[LINE_BYTES];
        snprintf(line, sizeof line, "%.*s", (int)(bytes < LINE_BYTES ? bytes : LINE_BYTES),
                 text + at);
        at += bytes + 1u;
        const char *first = line + strspn(line, " \t\r");
        bool blank = bytes < LINE_BYTES && strlen(line) == bytes && *first == '\0';
        if (blank || *first == '#') {
            continue;
        }
        away[*n].line = number + 1u;
        if (strlen(line) != bytes || !read_line(line, &away[*n])) {
            return uw_error_set(err, UW_ERR_CORRUPT, "%.100s:%u: " ALLOWED, file,
                                (unsigned)number + 1u);
        }
        ++*n;
    }
    return UW_OK;
}

int uw_sim_trace_read(const char *file, const char *text, size_t text_bytes,
                      struct uw_sim_away **away, uint32_t *away_n, struct uw_error *err)
{
    size_t lines = 1;
    for (size_t i = 0; i < text_bytes; i++) {
        lines += text[i] == '\n';
    }
    *away_n = 0;
    *away = calloc(lines, sizeof **away);
    if (*away == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "%.140s: out of memory", file);
    }
    int rc = read_lines(file, text, text_bytes, *away, away_n, err);
    if (rc == UW_OK) {
        qsort(*away, *away_n, sizeof **away, by_node);
        rc = check_order(file, *away, *away_n, err);
    }
    if (rc < 0 || *away_n == 0) {
        free(*away);
        *away = NULL;
        *away_n = 0;
    }
    return rc;
}
