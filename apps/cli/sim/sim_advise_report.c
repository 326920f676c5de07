/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_advise.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NEAR 0.01               /* accuracies this close are equal: the cheaper one is better */
#define MORE 1.5                /* ratio of bytes that is worth a sentence */
#define ROWS 24u                /* of the table; the rest is only counted ... */
#define UNJUDGED_ROWS 6u        /* ... and of candidates that were not ranked */

const char *uw_advice_name(const struct uw_advice_try *t, char text[UW_ADVICE_NAME_BYTES])
{
    snprintf(text, UW_ADVICE_NAME_BYTES, "%s, period %u%s%s, %s", t->mode.word, (unsigned)t->period,
             t->peers != NULL ? ", " : "", t->peers != NULL ? t->peers->name : "", t->rule->name);
    return text;
}

static double percent(double share)
{
    return 100.0 * share;
}

/* ---- a paragraph ---- */

struct paragraph {
    char text[4096];
    size_t n;
};

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void add(struct paragraph *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(p->text + p->n, sizeof p->text - p->n, format, args);
    va_end(args);
    p->n += n > 0 ? (size_t)n : 0u;
    p->n = p->n < sizeof p->text ? p->n : sizeof p->text - 1u;
}

/* ---- figures ---- */

/* Half of the 95 % interval of a test's accuracy (Agresti, Coull: two more samples of each kind).
 * All nodes are tested on the same samples, so their number has no influence. */
static double test_error(const struct uw_advice *a, double accuracy)
{
    double n = a->tested_n + 4.0, share = (accuracy * a->tested_n + 2.0) / n;
    return 2.0 * sqrt(share * (1.0 - share) / n);
}

static double reached_s(const struct uw_advice *a, const struct uw_advice_try *t, uint32_t tests)
{
    return uw_advice_reached(a, t, a->target, tests);
}

/* How much a candidate is worse than the best: seconds to the target, or accuracy. */
struct loss {
    bool in_time;
    double seconds, accuracy;
};

static struct loss loss_of(const struct uw_advice *a, const struct uw_advice_try *t)
{
    const struct uw_advice_try *best = &a->tries[a->order[0]];
    uint32_t tests = uw_advice_judged(t);
    double b = reached_s(a, best, tests), s = reached_s(a, t, tests);
    return (struct loss){.in_time = b >= 0.0 && s >= 0.0, .seconds = s - b,
                         .accuracy = best->accuracy[tests] - t->accuracy[tests]};
}

/* ---- the command ---- */

static bool is_flag(const char *arg, const char *name)
{
    size_t n = strlen(name);
    return strncmp(arg, name, n) == 0 && (arg[n] == '\0' || arg[n] == '=');
}

/* Whether the answer's command omits this flag or sets it itself: 2 with a value, 1 without. */
static int left_out(const struct uw_advice_try *best, const char *arg)
{
    static const char *const said[] = {"--advise-seconds", "--advise-runs", "--json", "--exchange",
                                       "--schedule", "--period", "--momentum-rule", "--steps",
                                       "--epochs"};
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        if (is_flag(arg, said[i])) {
            return 2;
        }
    }
    if ((is_flag(arg, "--cell-nodes") && best->mode.at != UW_NODE_HIERARCHICAL) ||
        (is_flag(arg, "--algorithm") && best->mode.at == UW_NODE_GOSSIP)) {
        return 2;
    }
    return is_flag(arg, "--advise") ? 1 : 0;
}

static void add_quoted(struct paragraph *p, const char *arg)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_./:,=+@%";
    bool bare = arg[0] != '\0' && arg[strspn(arg, plain)] == '\0';
    add(p, bare ? " " : " '");
    for (; *arg != '\0'; arg++) {
        add(p, !bare && *arg == '\'' ? "'\\''" : "%c", *arg);
    }
    add(p, bare ? "" : "'");
}

static void add_command(const struct uw_advice *a, struct paragraph *p)
{
    const struct uw_advice_try *best = &a->tries[a->order[0]];
    const struct uw_advice_asked *asked = a->asked;
    add(p, "uwasa sim");
    for (int i = 1; i < asked->argc; i++) {
        int n = left_out(best, asked->argv[i]);
        if (n == 0) {
            add_quoted(p, asked->argv[i]);
        } else if (n == 2 && strchr(asked->argv[i], '=') == NULL) {
            i++;
        }
    }
    add(p, " --exchange %s --period %u", best->mode.word, (unsigned)best->period);
    if (best->peers != NULL) {
        add(p, " --schedule %s", best->peers->name);
    }
    add(p, " --momentum-rule %s", best->rule->name);
    add(p, asked->file_counts ? " --steps 0" : "");
    if (a->o->virtual_seconds == 0.0) {
        add(p, " --virtual-seconds %.15g", a->wanted_s);
    }
}

/* ---- the sentences ---- */

static void add_expected(const struct uw_advice *a, struct paragraph *p)
{
    const struct uw_advice_try *best = &a->tries[a->order[0]];
    uint32_t tests = uw_advice_judged(best);
    char name[UW_ADVICE_NAME_BYTES], bytes[UW_TEXT_BYTES];
    double s = reached_s(a, best, tests);
    bool asked = a->o->until_accuracy > 0.0 && a->target == a->o->until_accuracy;
    add(p, "Use %s.", uw_advice_name(best, name));
    if (s >= 0.0) {
        add(p, " Expect %.1f %%, %s, after %.3g virtual seconds", percent(a->target),
            asked ? "what was asked for" : "98 % of the best accuracy that a candidate came to", s);
        add(p, asked ? "," : ", %.1f %% after %.3g s,", percent(best->accuracy[tests]),
            uw_advice_time(a, tests));
    } else {
        add(p, " Expect %.1f %% after %.3g virtual seconds,", percent(best->accuracy[tests]),
            uw_advice_time(a, tests));
    }
    add(p, " and %s sent by a node. ", uw_text_bytes(best->bytes[tests], bytes));
    if (a->o->until_accuracy > a->target) {
        add(p, "No candidate came to the %.1f %% asked for. ", percent(a->o->until_accuracy));
    }
}

static void add_loss(const struct uw_advice *a, const struct uw_advice_try *t, struct paragraph *p)
{
    struct loss l = loss_of(a, t);
    double best_s = reached_s(a, &a->tries[a->order[0]], uw_advice_judged(t));
    if (l.in_time && l.seconds < 0.005 * best_s) {
        add(p, "is as fast");
    } else if (l.in_time && l.seconds >= best_s && best_s > 0.0) {
        add(p, "needs %.2g times as long", 1.0 + l.seconds / best_s);
    } else if (l.in_time && best_s > 0.0) {
        add(p, "needs %.0f %% longer", percent(l.seconds / best_s));
    } else if (l.accuracy > 0.0005) {
        add(p, "has %.1f points less after %.3g s", percent(l.accuracy),
            uw_advice_time(a, uw_advice_judged(t)));
    } else {
        add(p, "has as much after %.3g s", uw_advice_time(a, uw_advice_judged(t)));
    }
}

/* The best of each other exchange. */
static void add_others(const struct uw_advice *a, struct paragraph *p)
{
    int told[8] = {a->tries[a->order[0]].mode.at};
    uint32_t n = 1;
    for (uint32_t i = 1; i < a->tries_n && n < 8u; i++) {
        const struct uw_advice_try *t = &a->tries[a->order[i]];
        char name[UW_ADVICE_NAME_BYTES];
        bool new = uw_advice_judged(t) != 0;
        for (uint32_t k = 0; k < n; k++) {
            new = new && told[k] != t->mode.at;
        }
        if (new) {
            told[n++] = t->mode.at;
            add(p, "The best with %s (%s) ", t->mode.word,
                uw_advice_name(t, name) + strlen(t->mode.word) + 2u);
            add_loss(a, t, p);
            add(p, ". ");
        }
    }
}

static void add_cheaper(const struct uw_advice *a, struct paragraph *p)
{
    const struct uw_advice_try *best = &a->tries[a->order[0]], *cheap = best;
    uint32_t tests = uw_advice_judged(best);
    for (uint32_t i = 1; i < a->tries_n; i++) {
        const struct uw_advice_try *t = &a->tries[a->order[i]];
        if (uw_advice_judged(t) >= tests && t->bytes[tests] < 0.5 * cheap->bytes[tests] &&
            t->accuracy[tests] >= best->accuracy[tests] - NEAR) {
            cheap = t;
        }
    }
    if (cheap != best) {
        char name[UW_ADVICE_NAME_BYTES];
        add(p, "To send fewer bytes: %s sends %.2g of them and ", uw_advice_name(cheap, name),
            cheap->bytes[tests] / best->bytes[tests]);
        add_loss(a, cheap, p);
        add(p, ". ");
    }
}

bool uw_advice_close(const struct uw_advice *a)
{
    const struct uw_advice_try *best = &a->tries[a->order[0]], *next;
    uint32_t tests = uw_advice_judged(best);
    if (a->tries_n < 2u || uw_advice_judged(next = &a->tries[a->order[1]]) < tests) {
        return false;
    }
    double best_s = reached_s(a, best, tests), next_s = reached_s(a, next, tests);
    next_s = next_s >= 0.0 ? next_s : uw_advice_time(a, tests);     /* not reached: later */
    bool in_time = best_s < 0.0 || next_s - best_s < 0.1 * best_s;
    return in_time && loss_of(a, next).accuracy < test_error(a, best->accuracy[tests]);
}

static void add_uncertain(const struct uw_advice *a, struct paragraph *p)
{
    const struct uw_advice_try *best = &a->tries[a->order[0]];
    uint32_t tests = uw_advice_judged(best);
    double length_s = uw_advice_time(a, tests);
    char name[UW_ADVICE_NAME_BYTES];
    add(p, "Uncertain: this is one seed, --lr %.4g as given, and tests of %u samples, good to "
        "%.1f points.", a->o->lr, (unsigned)a->tested_n,
        percent(test_error(a, best->accuracy[tests])));
    if (length_s < 0.999 * a->wanted_s) {
        add(p, " Runs lasted %.3g of the scenario's %.4g s: a candidate that is ahead early need "
               "not stay ahead.", length_s, a->wanted_s);
    }
    if (a->length_s < 0.999 * a->wanted_s) {
        add(p, " --advise-seconds %.0f would do for all of it here.", ceil(a->enough_s));
    }
    if (isfinite(a->away_s) && a->away_s >= length_s) {
        add(p, " No device was away in them: the first absence begins after %.4g s.", a->away_s);
    }
    if (3.0 * a->pull_s > length_s) {
        add(p, " A model takes %.3g s to arrive, so few did: try --virtual-seconds %.2g or "
               "more.", a->pull_s, 20.0 * a->pull_s);
    }
    if (uw_advice_close(a)) {
        const struct uw_advice_try *next = &a->tries[a->order[1]];
        double times = next->bytes[tests] / fmax(best->bytes[tests], 1.0);
        add(p, " The second, %s, is as good within the precision of these tests",
            uw_advice_name(next, name));
        if (times > MORE || times < 1.0 / MORE) {
            add(p, ", and sends %.2g times as much", times);
        }
        add(p, ".");
    }
    if (a->stopped) {
        add(p, " The search was stopped before its end.");
    }
}

/* ---- the table ---- */

static void print_row(const struct uw_advice *a, const struct uw_advice_try *t)
{
    uint32_t tests = uw_advice_judged(t);
    double s = reached_s(a, t, tests);
    struct loss l = loss_of(a, t);
    char bytes[UW_TEXT_BYTES], to[24] = "", loses[40];
    if (s >= 0.0) {
        snprintf(to, sizeof to, "%.3g s", s);
    }
    if (t == &a->tries[a->order[0]]) {
        snprintf(loses, sizeof loses, "-");
    } else if (l.in_time) {
        snprintf(loses, sizeof loses, "%.2g s", l.seconds);
    } else if (l.accuracy > 0.0) {
        snprintf(loses, sizeof loses, "%.1f points", percent(l.accuracy));
    } else {
        snprintf(loses, sizeof loses, "%s", s < 0.0 ? "not there yet" : "0 points");
    }
    printf("%-12s %6u  %-11s  %-6s  %9s  %6.1f %%  %7.3g s  %10s  %s\n", t->mode.word,
           (unsigned)t->period, t->peers != NULL ? t->peers->name : "-", t->rule->name, to,
           percent(t->accuracy[tests]), uw_advice_time(a, tests),
           uw_text_bytes(t->bytes[tests], bytes), loses);
}

static void print_unjudged(const struct uw_advice *a)
{
    char name[UW_ADVICE_NAME_BYTES];
    uint32_t rows = 0;
    for (uint32_t i = 0; i < a->tries_n; i++) {
        const struct uw_advice_try *t = &a->tries[a->order[i]];
        bool failed = t->end == UW_ADVICE_FAILED;
        if (t->end != UW_ADVICE_RAN && rows++ < UNJUDGED_ROWS) {
            printf("%s: %s: %s\n", failed ? "failed" : "not run", uw_advice_name(t, name), t->why);
        }
    }
    if (rows > UNJUDGED_ROWS) {
        printf("not run, or failed: %u more, see --json\n", (unsigned)(rows - UNJUDGED_ROWS));
    }
}

static void print_table(const struct uw_advice *a)
{
    char to[32];
    uint32_t rows = 0, untried = 0;
    snprintf(to, sizeof to, "to %.1f %%", percent(a->target));
    printf("\n%-12s %6s  %-11s  %-6s  %9s  %8s  %9s  %10s  %s\n", "exchange", "period", "schedule",
           "rule", to, "accuracy", "at", "node sent", "loses");
    for (uint32_t i = 0; i < a->tries_n; i++) {
        const struct uw_advice_try *t = &a->tries[a->order[i]];
        bool judged = uw_advice_judged(t) != 0;
        if (judged && rows++ < ROWS) {
            print_row(a, t);
        }
        untried += !judged && t->end == UW_ADVICE_RAN;
    }
    if (rows > ROWS) {
        printf("and %u more, see --json\n", (unsigned)(rows - ROWS));
    }
    print_unjudged(a);
    if (untried != 0) {
        printf("not run: %u more, the budget was spent\n", (unsigned)untried);
    }
}

/* ---- events ---- */

static void add_flags(cJSON *ev, const struct uw_advice_try *t)
{
    cJSON_AddStringToObject(ev, "exchange", t->mode.word);
    cJSON_AddNumberToObject(ev, "period", t->period);
    cJSON_AddStringToObject(ev, "schedule", t->peers != NULL ? t->peers->name : "");
    cJSON_AddStringToObject(ev, "momentum_rule", t->rule->name);
}

/* What it came to. */
static void add_figures(cJSON *ev, const struct uw_advice *a, const struct uw_advice_try *t)
{
    uint32_t tests = uw_advice_judged(t);
    double s = reached_s(a, t, tests);
    UW_EVENT_NUMBERS(ev, {"virtual_seconds", uw_advice_time(a, tests)},
                     {"test_accuracy", t->accuracy[tests]},
                     {"mean_model_accuracy", t->mean_model[tests]},
                     {"bytes_per_node", t->bytes[tests]});
    if (s >= 0.0) {
        cJSON_AddNumberToObject(ev, "target_seconds", s);
    }
}

static void add_curve(cJSON *ev, const struct uw_advice *a, const struct uw_advice_try *t)
{
    cJSON *curve = cJSON_AddArrayToObject(ev, "curve");
    for (uint32_t k = 1; k <= uw_advice_judged(t); k++) {
        const double point[2] = {uw_advice_time(a, k), t->accuracy[k]};
        cJSON_AddItemToArray(curve, cJSON_CreateDoubleArray(point, 2));
    }
}

static void put_candidate(const struct uw_advice *a, uint32_t rank, struct uw_events *events)
{
    static const char *const ends[] = {[UW_ADVICE_RAN] = "ran", [UW_ADVICE_FAILED] = "failed",
                                       [UW_ADVICE_COSTLY] = "not run"};
    const struct uw_advice_try *t = &a->tries[a->order[rank]];
    cJSON *ev = uw_event("candidate");
    bool judged = uw_advice_judged(t) != 0;
    cJSON_AddNumberToObject(ev, "rank", rank + 1u);
    add_flags(ev, t);
    cJSON_AddStringToObject(ev, "state", judged || t->end != UW_ADVICE_RAN ? ends[t->end]
                                                                           : "not run");
    if (t->end != UW_ADVICE_RAN) {
        cJSON_AddStringToObject(ev, "why", t->why);
    }
    cJSON_AddNumberToObject(ev, "exchange_seconds", t->exchange_s);
    if (judged) {
        struct loss l = loss_of(a, t);
        add_figures(ev, a, t);
        cJSON_AddNumberToObject(ev, "loses_accuracy", l.accuracy);
        if (l.in_time) {
            cJSON_AddNumberToObject(ev, "loses_seconds", l.seconds);
        }
        add_curve(ev, a, t);
    }
    uw_events_put(events, ev);
}

void uw_advice_report_start(const struct uw_advice *a, struct uw_events *events)
{
    cJSON *ev = uw_event("start");
    cJSON_AddNumberToObject(ev, "nodes", a->o->nodes);
    cJSON_AddStringToObject(ev, "model", a->o->model);
    cJSON_AddStringToObject(ev, "data", a->o->data);
    cJSON_AddStringToObject(ev, "skew", a->o->skew);
    UW_EVENT_NUMBERS(ev, {"seed", (double)a->o->seed}, {"step_seconds", a->step_s},
                     {"wanted_seconds", a->wanted_s}, {"virtual_seconds", a->length_s},
                     {"eval_samples", a->o->eval_samples}, {"eval_nodes", a->o->eval_nodes});
    uw_events_put(events, ev);
}

static void put_done(const struct uw_advice *a, struct uw_events *events, const char *advice,
                     const char *command)
{
    cJSON *ev = uw_event("done");
    add_flags(ev, &a->tries[a->order[0]]);
    cJSON_AddNumberToObject(ev, "target_accuracy", a->target);
    add_figures(ev, a, &a->tries[a->order[0]]);
    cJSON_AddStringToObject(ev, "command", command);
    cJSON_AddStringToObject(ev, "advice", advice);
    cJSON_AddBoolToObject(ev, "close", uw_advice_close(a));
    cJSON_AddBoolToObject(ev, "stopped", a->stopped);
    UW_EVENT_NUMBERS(ev, {"runs", a->runs}, {"seconds", a->seconds});
    uw_events_put(events, ev);
}

void uw_advice_report(const struct uw_advice *a, struct uw_events *events)
{
    struct paragraph advice = {.n = 0}, command = {.n = 0};
    add_expected(a, &advice);
    add_others(a, &advice);
    add_cheaper(a, &advice);
    add_uncertain(a, &advice);
    add_command(a, &command);
    for (uint32_t i = 0; i < a->tries_n; i++) {
        put_candidate(a, i, events);
    }
    bool quiet = uw_events_take_stdout(events);
    put_done(a, events, advice.text, command.text);
    if (!quiet) {
        uw_text_print(advice.text);
        printf("\n    %s\n", command.text);
        print_table(a);
    }
}
