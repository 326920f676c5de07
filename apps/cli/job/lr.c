/* SPDX-License-Identifier: Apache-2.0 */
#include "lr.h"

#include "uwasa/status.h"

#include <stdlib.h>
#include <string.h>

/* Take `word` off the front of *text. */
static bool take(const char **text, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(*text, word, n) != 0) {
        return false;
    }
    *text += n;
    return true;
}

/* A whole number from 1, with an "s" when it counts steps. */
static bool take_count(const char **text, uint64_t *n, bool *by_step)
{
    if (**text < '1' || **text > '9') {
        return false;
    }
    char *end;
    unsigned long long value = strtoull(*text, &end, 10);
    *text = end;
    *n = value;
    *by_step = take(text, "s");
    return value < UINT64_MAX / 2;
}

/* A number from 0 to 1 at the end of the text. */
static bool take_share(const char *text, double *share)
{
    char *end;
    if ((text[0] < '0' || text[0] > '9') && text[0] != '.') {
        return false;
    }
    *share = strtod(text, &end);
    return *end == '\0' && *share >= 0.0 && *share <= 1.0;
}

static bool read_milestones(const char **text, struct uw_schedule *s)
{
    do {
        bool by_step;
        if (s->milestones_n == UW_SCHEDULE_MILESTONES_MAX ||
            !take_count(text, &s->milestone[s->milestones_n], &by_step)) {
            return false;
        }
        if (s->milestones_n > 0 && by_step != s->by_step) {
            return false;
        }
        s->by_step = by_step;
        s->milestones_n++;
    } while (take(text, ","));
    return true;
}

int uw_lr_parse(const char *text, struct uw_schedule *s)
{
    bool unused, good = true;

    *s = (struct uw_schedule){.kind = UW_SCHEDULE_CONSTANT};
    if (take(&text, "warmup:")) {
        good = take_count(&text, &s->warmup, &unused) && take(&text, "+");
    }
    if (!good) {
        return UW_ERR_INVALID;
    }
    if (take(&text, "step:")) {
        s->kind = UW_SCHEDULE_STEP;
        good = take_count(&text, &s->every, &s->by_step) && take(&text, ":") &&
               take_share(text, &s->gamma) && s->gamma > 0.0;
    } else if (take(&text, "multistep:")) {
        s->kind = UW_SCHEDULE_MULTISTEP;
        good = read_milestones(&text, s) && take(&text, ":") && take_share(text, &s->gamma) &&
               s->gamma > 0.0;
    } else if (take(&text, "cosine")) {
        s->kind = UW_SCHEDULE_COSINE;
        good = *text == '\0' || (take(&text, ":") && take_share(text, &s->end));
    } else if (take(&text, "linear")) {
        s->kind = UW_SCHEDULE_LINEAR;
        good = *text == '\0' || (take(&text, ":") && take_share(text, &s->end));
    } else {
        good = strcmp(text, "constant") == 0;
    }
    return good ? UW_OK : UW_ERR_INVALID;
}
