/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"
#include "sim_draw.h"
#include "base/args.h"
#include "base/open_file.h"

#include "uwasa/board.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COLUMNS 79u             /* of a live line, on a terminal of 80 */
#define NODE_NAME "node"        /* sim_world.h: node 7 is "node7" */

/* The fields of a test in events and tables: the key, and its value from a moment m and its score
 * s. */
#define TEST_FIELDS(X)                                              \
    X(epochs, m->epochs)                                            \
    X(steps, (double)m->step)                                       \
    X(virtual_seconds, m->virtual_seconds)                          \
    X(test_accuracy, s->accuracy)                                   \
    X(worst_accuracy, s->worst)                                     \
    X(lower_quartile_accuracy, s->lower_quartile)                   \
    X(upper_quartile_accuracy, s->upper_quartile)                   \
    X(best_accuracy, s->best)                                       \
    X(mean_model_accuracy, s->mean_model_accuracy)                  \
    X(test_loss, s->loss)                                           \
    X(bytes_sent, m->bytes_sent)                                    \
    X(consensus_distance, s->consensus_distance)

static double seconds_at(const struct uw_sim_report *r, uint64_t us)
{
    return us > r->w->start_us ? (double)(us - r->w->start_us) / 1e6 : 0.0;
}

static double virtual_s(const struct uw_sim_report *r)
{
    return seconds_at(r, r->w->now_us);
}

/* ---- the table ---- */

#define COLUMN(key, value) "," #key
#define HEADER "label,nodes" TEST_FIELDS(COLUMN) "\n"

/* Write a text, quoted if necessary (RFC 4180, section 2). */
static void put_text(FILE *file, const char *text)
{
    bool plain = strpbrk(text, "\",\r\n") == NULL;
    if (!plain) {
        fputc('"', file);
    }
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"') {
            fputc('"', file);
        }
        fputc(*c, file);
    }
    if (!plain) {
        fputc('"', file);
    }
}

/* Write a number with the digits that events have. */
static void put_number(FILE *file, double value)
{
    cJSON *number = cJSON_CreateNumber(value);
    char *text = cJSON_PrintUnformatted(number);
    fprintf(file, ",%s", text != NULL ? text : "");
    cJSON_free(text);
    cJSON_Delete(number);
}

/* A row of this run; m NULL: what all its rows begin with. NULL: out of memory. The caller frees
 * it. */
static char *text_of_row(const struct uw_sim_report *r, const struct uw_sim_moment *m)
{
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    if (file == NULL) {
        return NULL;
    }
    put_text(file, r->o->label != NULL ? r->o->label : "");
    put_number(file, (double)r->o->nodes);
    if (m != NULL) {
        const struct uw_sim_score *s = m->score;
#define PUT_COLUMN(key, value) put_number(file, value);
        TEST_FIELDS(PUT_COLUMN)
    }
    fputc(m != NULL ? '\n' : ',', file);
    if (fclose(file) != 0) {
        free(text);
        text = NULL;
    }
    return text;
}

/* Bytes of the row that begins at `row`, with its line end; a label may have several lines. */
static size_t row_bytes(const char *row, bool *whole)
{
    bool quoted = false;
    const char *c = row;
    for (; *c != '\0' && (quoted || *c != '\n'); c++) {
        quoted = quoted != (*c == '"');
    }
    *whole = *c == '\n';
    return (size_t)(c - row) + *whole;
}

/* Bytes of the table without the last rows, if this run wrote them after `seconds` or they are
 * incomplete; -1: not a table. last: the row before them, if it is of this run. */
static off_t bytes_until(const char *text, const char *run, double seconds, const char **last)
{
    const char *row = text + strlen(HEADER), *kept = row;
    bool whole;
    if (strncmp(text, HEADER, strlen(HEADER)) != 0) {
        return -1;
    }
    while (*row != '\0') {
        size_t bytes = row_bytes(row, &whole), n = strlen(run);
        bool own = strncmp(row, run, whole || bytes > n ? n : bytes) == 0;
        double at = -1.0;
        if (own && whole) {
            (void)sscanf(row + n, "%*[^,\n],%*[^,\n],%lf", &at);   /* behind epochs and steps */
        }
        if (!own || (whole && at <= seconds)) {
            kept = row + bytes;
            *last = own ? row : NULL;
        }
        row += bytes;
    }
    return kept - text;
}

/* Remove the rows after the checkpoint, which a resumed run writes again; also the last row of a
 * run that had ended. */
static void drop_rows(struct uw_sim_report *r)
{
    size_t bytes = 0;
    const char *last = NULL;
    bool whole;
    char *run = text_of_row(r, NULL), *text = NULL;
    text = run != NULL ? uw_read_file(r->o->csv, SIZE_MAX - 1u, &bytes) : NULL;
    off_t kept = text != NULL ? bytes_until(text, run, r->resumed_s, &last) : -1;
    if (kept >= 0 && (kept == (off_t)bytes || ftruncate(fileno(r->csv), kept) == 0)) {
        (void)fseek(r->csv, 0, SEEK_END);
        r->csv_last = last != NULL ? strndup(last, row_bytes(last, &whole)) : NULL;
        if (text[kept - 1] != '\n') {
            fputc('\n', r->csv);        /* of another run, cut */
        }
    }
    free(text);
    free(run);
}

/* Write the header. Removes the file's content; if resumed only the rows after the checkpoint. */
static int open_table(struct uw_sim_report *r, struct uw_error *err)
{
    const char *path = r->o->csv;
    r->csv = path != NULL ? uw_open_file_again(path) : NULL;
    if (path == NULL) {
        return UW_OK;
    }
    if (r->csv == NULL) {
        return uw_error_set(err, UW_ERR_IO, "--csv %s: %s", path, strerror(errno));
    }
    if (!r->resumed) {
        uw_empty_file(r->csv);
    } else if (ftell(r->csv) > 0) {
        drop_rows(r);
        return UW_OK;
    }
    fputs(HEADER, r->csv);
    return UW_OK;
}

static void put_row(struct uw_sim_report *r, const struct uw_sim_moment *m)
{
    char *row = r->csv != NULL ? text_of_row(r, m) : NULL;
    if (row != NULL && (r->csv_last == NULL || strcmp(row, r->csv_last) != 0)) {
        fputs(row, r->csv);
        fflush(r->csv);         /* keep the rows if the run is killed */
    }
    r->csv_failed = r->csv_failed || (r->csv != NULL && row == NULL);
    free(row);
    free(r->csv_last);
    r->csv_last = NULL;
}

static int close_table(struct uw_sim_report *r, struct uw_error *err)
{
    bool failed = r->csv_failed || (r->csv != NULL && ferror(r->csv) != 0);
    failed = (r->csv != NULL && fclose(r->csv) != 0) || failed;
    r->csv = NULL;
    free(r->csv_last);
    r->csv_last = NULL;
    return failed ? uw_error_set(err, UW_ERR_IO, "--csv %s: a row could not be written", r->o->csv)
                  : UW_OK;
}

int uw_sim_report_open(struct uw_sim_report *r, struct uw_error *err)
{
    int rc = uw_events_open(&r->events, r->o->json, UW_EVENTS_TIMELESS | UW_EVENTS_KEEP,
                            err);
    rc = rc < 0 ? rc : open_table(r, err);
    if (rc == UW_OK && !r->resumed) {
        uw_events_empty(&r->events);
    }
    return rc;
}

int uw_sim_report_close(struct uw_sim_report *r, struct uw_error *err)
{
    int rc = uw_events_close(&r->events, err);
    int csv_rc = close_table(r, rc < 0 ? NULL : err);
    return rc < 0 ? rc : csv_rc;
}

/* ---- before the first step ---- */

/* Nodes that average exactly with the first one. */
static uint32_t cell_nodes(const struct uw_world *w)
{
    const struct uw_sim_fleet *f = w->config.fleet;
    bool cells = w->config.node.mode == UW_NODE_HIERARCHICAL &&
                 f->devices[0].cell != UW_SIM_NO_CELL;
    uint32_t n = w->config.node.mode == UW_NODE_ALLREDUCE ? f->devices_n : 0;
    for (uint32_t i = 0; cells && i < f->devices_n; i++) {
        n += f->devices[i].cell == f->devices[0].cell;
    }
    return n;
}

/* Add the flags that the event does not have yet, given or default. */
static void add_other_flags(cJSON *ev, const struct uw_sim_options *o)
{
    for (uint32_t i = 0; i < o->flags->n; i++) {
        const struct uw_opt *row = &o->flags->row[i];
        const void *at = (const char *)o + row->offset;
        char key[40];
        uw_opt_key(row->name, key, sizeof key);
        if (uw_sim_flag_is(UW_SIM_FLAG_UNTOLD, row->name) || cJSON_HasObjectItem(ev, key)) {
            continue;
        }
        if (row->kind == UW_OPT_TEXT || row->kind == UW_OPT_CHOICE ||
            row->kind == UW_OPT_CHOICES) {
            const char *text = *(const char *const *)at;
            cJSON_AddStringToObject(ev, key, text != NULL ? text : "");
        } else if (row->kind == UW_OPT_FLAG) {
            cJSON_AddBoolToObject(ev, key, *(const bool *)at);
        } else if (row->kind == UW_OPT_U32 || row->kind == UW_OPT_BYTES_U32) {
            cJSON_AddNumberToObject(ev, key, *(const uint32_t *)at);
        } else if (row->kind == UW_OPT_U64 || row->kind == UW_OPT_BYTES) {
            cJSON_AddNumberToObject(ev, key, (double)*(const uint64_t *)at);
        } else if (row->kind == UW_OPT_REAL) {
            cJSON_AddNumberToObject(ev, key, *(const double *)at);
        }
    }
}

/* The event "start", with the flags' actual values. */
static cJSON *start_event(const struct uw_sim_report *r, uint32_t params_n)
{
    const struct uw_sim_options *o = r->o;
    double step_s = (double)r->w->config.fleet->devices[0].step_us / 1e6;
    cJSON *ev = uw_event("start");
    UW_EVENT_NUMBERS(ev, {"nodes", o->nodes});
    cJSON_AddStringToObject(ev, "model", o->model);
    UW_EVENT_NUMBERS(ev, {"parameters", params_n});
    if (o->label != NULL) {
        cJSON_AddStringToObject(ev, "label", o->label);
    }
    if (o->config != NULL) {
        cJSON_AddStringToObject(ev, "config", o->config);
    }
    cJSON_AddStringToObject(ev, "data", o->data);
    cJSON_AddStringToObject(ev, "skew", o->skew);
    cJSON_AddStringToObject(ev, "exchange", o->exchange.mode.word);
    cJSON_AddStringToObject(ev, "schedule", uw_exchange_peers(&o->exchange)->name);
    cJSON_AddStringToObject(ev, "momentum_rule", o->exchange.rule->name);
    UW_EVENT_NUMBERS(ev, {"cell_nodes", cell_nodes(r->w)});
    if (o->exchange.period.automatic || o->exchange.period.later_n != 0) {
        char period[UW_PHASES_BYTES];
        uw_phases_text(&o->exchange.period, period);
        cJSON_AddStringToObject(ev, "period", period);
    } else {
        cJSON_AddNumberToObject(ev, "period", o->exchange.period.n);
    }
    UW_EVENT_NUMBERS(ev, {"batch", o->batch}, {"lr", o->lr});
    cJSON_AddStringToObject(ev, "lr_schedule", o->lr_schedule);
    uw_event_float(ev, "momentum",
                   o->exchange.rule->frozen ? uw_exchange_momentum_qg(&o->exchange)
                   : o->exchange.momentum > 0.0 ? (float)o->exchange.momentum
                                                : 0.0f);
    cJSON_AddBoolToObject(ev, "nesterov", o->exchange.nesterov);
    UW_EVENT_NUMBERS(ev, {"weight_decay", o->weight_decay},
                     {"steps", r->steps != UW_SIM_STEPS_ENDLESS ? (double)r->steps : 0.0},
                     {"steps_per_epoch", (double)r->per_epoch}, {"step_seconds", step_s},
                     {"start_spread", o->start_spread >= 0.0 ? o->start_spread : step_s},
                     {"bandwidth", (double)o->bandwidth}, {"latency", o->latency},
                     {"loss", o->loss});
    cJSON_AddStringToObject(ev, "algorithm",
                            o->algorithm.word != NULL ? o->algorithm.word : "auto");
    add_other_flags(ev, o);
    if (r->resumed) {
        UW_EVENT_NUMBERS(ev, {"resumed_at", virtual_s(r)});
    }
    return ev;
}

static const char *step_text(const struct uw_sim_fleet *f, char text[64])
{
    uint64_t least_us = UINT64_MAX, most_us = 0;
    for (uint32_t i = 0; i < f->devices_n; i++) {
        uint64_t us = f->devices[i].step_us;
        least_us = us < least_us ? us : least_us;
        most_us = us > most_us ? us : most_us;
    }
    if (least_us == most_us) {
        snprintf(text, 64, "a step takes %.6g s", (double)most_us / 1e6);
    } else {
        snprintf(text, 64, "a step takes %.6g to %.6g s", (double)least_us / 1e6,
                 (double)most_us / 1e6);
    }
    return text;
}

void uw_sim_report_start(struct uw_sim_report *r, uint32_t params_n)
{
    const struct uw_sim_options *o = r->o;
    char step[64], each[48];
    uw_events_put(&r->events, start_event(r, params_n));
    if (r->resumed) {
        uw_progress_print(&r->progress, "%s: resuming after %.6g s of virtual time", o->resume,
                        virtual_s(r));
    }
    if (r->steps == UW_SIM_STEPS_ENDLESS) {
        snprintf(each, sizeof each, "%.6g virtual seconds", o->virtual_seconds);
    } else {
        snprintf(each, sizeof each, "%llu step%s each", (unsigned long long)r->steps,
                 r->steps == 1 ? "" : "s");
    }
    uw_progress_print(&r->progress, "%u nodes, %u parameters, %s, %s of virtual time",
                      (unsigned)o->nodes, (unsigned)params_n, each,
                      step_text(r->w->config.fleet, step));
    r->train_us = uw_board_now_us();
    (void)uw_progress_due(&r->progress, r->train_us);   /* the first steps are not typical */
}

/* ---- the time line ---- */

/* The place of a node by its name; -1 when it is not known. */
static int place_of(const char *name)
{
    unsigned place;
    int end = 0;
    bool named = sscanf(name, NODE_NAME "%7u%n", &place, &end) == 1 && name[end] == '\0';
    return named ? (int)place : -1;
}

void uw_sim_report_exchange(void *arg, uint32_t node, const struct uw_node_event *event)
{
    struct uw_sim_report *r = arg;
    bool pull = event->kind == UW_NODE_PULL_DONE || event->kind == UW_NODE_PULL_CUT;
    bool average = event->kind == UW_NODE_AVERAGED || event->kind == UW_NODE_AVERAGE_CUT;
    if ((!pull && !average) || r->w->start_us == 0) {
        return;
    }
    double from = seconds_at(r, event->now_us - event->duration_us);
    if (from > r->o->timeline || r->exchanges_reported == UW_SIM_TIMELINE_MAX) {
        r->exchanges_left_out++;
        return;
    }
    r->exchanges_reported++;
    int peer = place_of(event->peer);
    bool pair = average && r->o->exchange.rule->over == UW_MIX_OVER_PAIRS &&
                event->chunks_n == 2u && peer >= 0;
    cJSON *ev = uw_event("exchange");
    cJSON_AddStringToObject(ev, "kind", pull ? "pull" : pair ? "pair" : "average");
    UW_EVENT_NUMBERS(ev, {"node", node});
    if (average && !pair) {
        UW_EVENT_NUMBERS(ev, {"nodes", event->chunks_n});
    } else if (peer >= 0) {
        UW_EVENT_NUMBERS(ev, {"peer", peer});
    }
    UW_EVENT_NUMBERS(ev, {"from_seconds", from}, {"to_seconds", seconds_at(r, event->now_us)},
                     {"bytes", (double)event->bytes});
    cJSON_AddBoolToObject(ev, "ok", event->kind == UW_NODE_PULL_DONE ||
                                        event->kind == UW_NODE_AVERAGED);
    uw_events_put(&r->events, ev);
}

void uw_sim_report_trained(struct uw_sim_report *r, uint32_t node, uint64_t step)
{
    r->node_steps++;
    if (r->o->timeline > 0.0 && virtual_s(r) <= r->o->timeline &&
        r->steps_reported < UW_SIM_TIMELINE_MAX) {
        cJSON *ev = uw_event("step");
        r->steps_reported++;
        UW_EVENT_NUMBERS(ev, {"node", node}, {"step", (double)step},
                         {"virtual_seconds", virtual_s(r)});
        uw_events_put(&r->events, ev);
    }
}

/* ---- progress ---- */

/* "9.5", "950", "9.5k", "950k", "9.5M" */
static const char *short_count(double n, char text[UW_TEXT_BYTES])
{
    const char *unit = n >= 999500.0 ? "M" : n >= 999.5 ? "k" : "";
    double of = n >= 999500.0 ? n / 1e6 : n >= 999.5 ? n / 1e3 : n;
    snprintf(text, UW_TEXT_BYTES, of < 9.95 ? "%.1f%s" : "%.0f%s", of, unit);
    return text;
}

/* Write the live line, shortened to a terminal's width: first the total of steps. Steps are the
 * mean over the nodes, as in the ETA; a node that sleeps for long may have done none. */
static void write_line(char *line, size_t line_bytes, const struct uw_sim_report *r, uint64_t step,
                       const char *rest)
{
    char whole[32], brief[UW_TEXT_BYTES + 1], slowest[40] = "", count[UW_TEXT_BYTES];
    double at = virtual_s(r);
    uint64_t mean = r->node_steps / r->o->nodes;
    if (mean > step + step / 10u + 1u) {
        snprintf(slowest, sizeof slowest, ", slowest %llu", (unsigned long long)step);
    }
    bool endless = r->steps == UW_SIM_STEPS_ENDLESS;
    whole[0] = brief[0] = '\0';
    if (!endless) {
        snprintf(whole, sizeof whole, "/%llu", (unsigned long long)r->steps);
        snprintf(brief, sizeof brief, "/%s", short_count((double)r->steps, count));
    }
    const char *total[] = {whole, brief, brief, brief};
    for (int tries = 0; tries < 4; tries++) {
        int n = snprintf(line, line_bytes, "%u nodes  step %llu%s%s  %s%.*f s  %s",
                         (unsigned)r->o->nodes, (unsigned long long)mean, total[tries],
                         tries < 3 ? slowest : "", tries < 2 ? "virtual " : "",
                         at < 100.0 ? 2 : at < 10000.0 ? 1 : 0, at, rest);
        if (n >= 0 && (unsigned)n <= COLUMNS) {
            break;
        }
    }
}

static double share_of(const struct uw_sim_report *r, double steps, double virtual_seconds)
{
    double limit = r->trial != NULL ? r->trial->whole_s : r->o->virtual_seconds;
    double by_steps = r->steps != UW_SIM_STEPS_ENDLESS ? steps / (double)r->steps : 0.0;
    double by_time = limit > 0.0 ? virtual_seconds / limit : 0.0;
    double share = by_steps > by_time ? by_steps : by_time;
    return share < 1.0 ? share : 1.0;
}

double uw_sim_report_share(const struct uw_sim_report *r, double steps)
{
    return share_of(r, steps, virtual_s(r));
}

/* The share of a resumed run that was finished before this process. */
static double resumed_share(const struct uw_sim_report *r)
{
    double steps = (double)r->resumed_steps / (double)r->o->nodes;
    return r->resumed ? share_of(r, steps, r->resumed_s) : 0.0;
}

/* The remaining time is computed from the steps of all nodes, which take the real time; near the
 * end only slow nodes have some left. */
bool uw_sim_report_step(struct uw_sim_report *r, uint64_t step, const struct uw_sim_score *score)
{
    char eta[UW_TEXT_BYTES], speed[UW_TEXT_BYTES], known[32] = "", rest[96], line[192];
    if (r->trial != NULL) {
        return r->trial->on_step(r->trial, virtual_s(r));
    }
    if (!uw_progress_due(&r->progress, uw_board_now_us())) {
        return true;
    }
    if (score != NULL) {
        snprintf(known, sizeof known, "accuracy %.1f %%  ", 100.0 * score->accuracy);
    }
    double took = uw_seconds_since(r->train_us), done = (double)(r->node_steps - r->resumed_steps);
    double nodes = r->o->nodes, share = uw_sim_report_share(r, (double)r->node_steps / nodes);
    double before = resumed_share(r);
    short_count(took > 0.0 ? done / took : 0.0, speed);
    uw_text_time(share > before ? took * (1.0 - share) / (share - before) : -1.0, eta);
    snprintf(rest, sizeof rest, "%s%s node-steps/s  ETA %s", known, speed, eta);
    write_line(line, sizeof line, r, step, rest);
    uw_progress_show(&r->progress, "%s", line);
    return true;
}

/* Count the passed intervals between tests. */
static void count_passed(const struct uw_sim_report *r, uint64_t step,
                         uint64_t passed[UW_SIM_TEST_REASONS])
{
    const struct uw_sim_options *o = r->o;
    passed[0] = o->eval_epochs != 0 ? step / r->per_epoch / o->eval_epochs : 0;
    passed[1] = o->eval_steps != 0 ? step / o->eval_steps : 0;
    passed[2] = o->eval_seconds > 0.0 ? (uint64_t)(virtual_s(r) / o->eval_seconds) : 0;
}

bool uw_sim_report_near(const struct uw_sim_report *r, uint64_t step)
{
    if (r->trial != NULL) {
        return virtual_s(r) >= r->trial->next_s;
    }
    uint32_t due = uw_sim_report_dues(r, step);
    return ((due & 1u) != 0 && step % (r->per_epoch * r->o->eval_epochs) == 0) ||
           ((due & 2u) != 0 && step % r->o->eval_steps == 0) || (due & 4u) != 0;
}

bool uw_sim_report_due(struct uw_sim_report *r, uint64_t step)
{
    bool due = r->trial != NULL ? uw_sim_report_near(r, step) : uw_sim_report_dues(r, step) != 0;
    count_passed(r, step, r->passed);
    return due;
}

uint32_t uw_sim_report_dues(const struct uw_sim_report *r, uint64_t step)
{
    uint64_t passed[UW_SIM_TEST_REASONS];
    uint32_t due = 0;
    count_passed(r, step, passed);
    for (uint32_t i = 0; i < UW_SIM_TEST_REASONS; i++) {
        due |= passed[i] > r->passed[i] ? 1u << i : 0u;
    }
    return due;
}

void uw_sim_report_go_on(struct uw_sim_report *r, uint64_t step)
{
    if (!r->resumed) {
        return;
    }
    count_passed(r, step, r->passed);
    for (uint32_t i = 0; i < UW_SIM_TEST_REASONS; i++) {
        r->passed[i] -= (r->due >> i & 1u) != 0 && r->passed[i] != 0 ? 1u : 0u;
    }
}

/* ---- tests, and the end ---- */

static struct uw_sim_moment moment_of(const struct uw_sim_report *r, uint64_t step,
                                      const struct uw_sim_score *s)
{
    return (struct uw_sim_moment){.epochs = (double)step / (double)r->per_epoch,
                                  .virtual_seconds = virtual_s(r),
                                  .bytes_sent = (double)uw_world_sent_bytes(r->w),
                                  .step = step,
                                  .score = s};
}

/* Add what events of tests and of the end have in common. */
static void put_state(struct uw_sim_report *r, cJSON *ev, uint64_t step,
                      const struct uw_sim_score *s)
{
    const struct uw_sim_moment moment = moment_of(r, step, s), *m = &moment;
#define ADD_FIELD(key, value) cJSON_AddNumberToObject(ev, #key, value);
    TEST_FIELDS(ADD_FIELD)
    UW_EVENT_NUMBERS(ev, {"eval_nodes", s->nodes});
    if (r->o->per_node) {
        cJSON_AddItemToObject(ev, "accuracies",
                              cJSON_CreateDoubleArray(s->accuracies, (int)s->nodes));
    }
    put_row(r, m);
}

bool uw_sim_report_eval(struct uw_sim_report *r, uint64_t step, const struct uw_sim_score *s)
{
    if (r->trial != NULL) {
        const struct uw_sim_moment m = moment_of(r, step, s);
        return r->trial->on_test(r->trial, &m);
    }
    cJSON *ev = uw_event("eval");
    put_state(r, ev, step, s);
    uw_events_put(&r->events, ev);
    uw_progress_print(&r->progress,
                    "epoch %.4g  %.2f s  test accuracy %.2f %% (%.2f to %.2f), mean model %.2f %%",
                      (double)step / (double)r->per_epoch, virtual_s(r), 100.0 * s->accuracy,
                      100.0 * s->worst, 100.0 * s->best, 100.0 * s->mean_model_accuracy);
    return true;
}

void uw_sim_report_last_test(struct uw_sim_report *r)
{
    if (uw_progress_due(&r->progress, uw_board_now_us()) || r->progress.terminal) {
        uw_progress_show(&r->progress, "%u nodes  the steps are done, the last test takes all "
                         "samples", (unsigned)r->o->nodes);
    }
}

void uw_sim_report_absences(struct uw_sim_report *r, const struct uw_sim_draw *d)
{
    uint64_t took_us = r->w->now_us - r->w->start_us;
    uint64_t first_us = uw_sim_fleet_first_away_us(&d->fleet);
    if (first_us != UINT64_MAX && first_us >= took_us) {
        uw_progress_print(&r->progress,
                          "no device was away: the first absence begins after %.6g s, and the run "
                          "took %.6g s", 1e-6 * (double)first_us, 1e-6 * (double)took_us);
    }
    if (took_us > d->until_us) {
        uw_progress_print(&r->progress, "absences were drawn for %.6g s only: then all were there",
                          1e-6 * (double)d->until_us);
    }
}

void uw_sim_report_stopped(struct uw_sim_report *r, uint64_t step, const struct uw_sim_score *s)
{
    const struct uw_sim_moment m = moment_of(r, step, s);
    cJSON *ev = uw_event("stopped");
    UW_EVENT_NUMBERS(ev, {"epochs", m.epochs}, {"steps", (double)step},
                     {"node_steps", (double)r->node_steps},
                     {"virtual_seconds", m.virtual_seconds}, {"bytes_sent", m.bytes_sent});
    if (s != NULL) {        /* of the last test */
        UW_EVENT_NUMBERS(ev, {"test_accuracy", s->accuracy},
                         {"mean_model_accuracy", s->mean_model_accuracy});
    }
    UW_EVENT_NUMBERS(ev, {"seconds", uw_seconds_since(r->start_us)});
    uw_events_put(&r->events, ev);
}

static cJSON *done_event(struct uw_sim_report *r, const struct uw_sim_work *work,
                         const struct uw_sim_score *s, const struct uw_node_counters *c)
{
    cJSON *ev = uw_event("done");
    put_state(r, ev, work->least, s);
    UW_EVENT_NUMBERS(ev, {"node_steps", (double)r->node_steps}, {"mean_steps", work->mean},
                     {"most_steps", (double)work->most},
                     {"mean_epochs", work->mean / (double)r->per_epoch},
                     {"goodput", work->goodput});
    if (r->w->config.radio != NULL) {
        uint64_t busy_us, frames_n;
        uw_world_air(r->w, &busy_us, &frames_n);
        UW_EVENT_NUMBERS(ev, {"air_seconds", 1e-6 * (double)busy_us},
                         {"air_frames", (double)frames_n});
    }
    UW_EVENT_NUMBERS(ev, {"nodes", r->o->nodes}, {"pulls_done", c->pulls_done},
                     {"pulls_cut", c->pulls_cut}, {"pulls_stale", c->pulls_stale});
    if (r->o->exchange.period.automatic) {
        UW_EVENT_NUMBERS(ev, {"period_steps", (double)c->period_steps / r->o->nodes});
    }
    UW_EVENT_NUMBERS(ev, {"averages_done", c->averages_done}, {"averages_cut", c->averages_cut},
                     {"pairs_half", c->pairs_half});
    if (r->o->timeline > 0.0) {
        UW_EVENT_NUMBERS(ev, {"exchanges_told", r->exchanges_reported},
                         {"exchanges_untold", r->exchanges_left_out});
    }
    UW_EVENT_NUMBERS(ev, {"seconds", uw_seconds_since(r->start_us)});
    return ev;
}

/* Print the exchanges; with a radio also if there were none: one may take longer than the run. */
static void print_exchanges(const struct uw_sim_report *r, const struct uw_node_counters *c)
{
    const struct uw_world_config *w = &r->w->config;
    bool radio = w->radio != NULL, averages = w->node.mode == UW_NODE_BROADCAST;
    if (c->pulls_done + c->pulls_cut != 0 || (radio && !averages)) {
        printf("pulls          %u whole, %u cut, %u of nothing new\n", (unsigned)c->pulls_done,
               (unsigned)c->pulls_cut, (unsigned)c->pulls_stale);
    }
    if (r->o->exchange.period.automatic) {
        printf("period         %.1f steps at the end, mean of all nodes\n",
               (double)c->period_steps / r->o->nodes);
    }
    if (c->averages_done + c->averages_cut != 0 || (radio && averages)) {
        printf("averages       %u taken, %u given up\n", (unsigned)c->averages_done,
               (unsigned)c->averages_cut);
    }
    if (radio && c->pulls_done + c->averages_done == 0) {
        uw_sim_radio_print_none(r->o, w->params->size_n);
    }
}

static void print_work(const struct uw_sim_report *r, const struct uw_sim_work *work)
{
    unsigned long long least = work->least, most = work->most;
    printf("virtual time   %.3f s, ", virtual_s(r));
    if (least == most) {
        printf("%llu step%s each\n", least, least == 1 ? "" : "s");
    } else {
        printf("%.1f steps a node (%llu to %llu), %.4g epochs\n", work->mean, least, most,
               work->mean / (double)r->per_epoch);
    }
    printf("goodput        %.1f %% of the time that nodes were there\n", 100.0 * work->goodput);
}

void uw_sim_report_done(struct uw_sim_report *r, const struct uw_sim_work *work,
                        const struct uw_sim_score *s)
{
    struct uw_node_counters c = uw_world_counters(r->w);
    double sent = (double)uw_world_sent_bytes(r->w);
    char text[UW_TEXT_BYTES];
    cJSON *ev = done_event(r, work, s, &c);
    bool quiet = uw_events_take_stdout(&r->events);
    uw_events_put(&r->events, ev);
    uw_progress_clear(&r->progress);
    if (quiet) {
        return;
    }
    printf("test accuracy  %.2f %%, mean of %u nodes", 100.0 * s->accuracy, (unsigned)s->nodes);
    if (s->nodes < r->o->nodes) {
        printf(" of %u", (unsigned)r->o->nodes);
    }
    printf(" (%.2f to %.2f)\n", 100.0 * s->worst, 100.0 * s->best);
    printf("mean model     %.2f %%\n", 100.0 * s->mean_model_accuracy);
    print_work(r, work);
    printf("sent           %s", uw_text_bytes(sent, text));
    printf(", %s a node\n", uw_text_bytes(sent / (double)r->o->nodes, text));
    print_exchanges(r, &c);
}

/* ---- the profile ---- */

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t uw_sim_profile_now(const struct uw_sim_profile *p)
{
    return p->on ? clock_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
}

void uw_sim_profile_start(struct uw_sim_profile *p)
{
    p->start_ns = p->on ? clock_ns(CLOCK_PROCESS_CPUTIME_ID) : 0;
}

void uw_sim_profile_report(const struct uw_sim_profile *p, struct uw_sim_report *r)
{
    enum { TRAINING, NETWORK, TESTS, REST, PARTS };
    static const char *const names[PARTS] = {"training", "network", "tests", "rest"};
    uint64_t node_steps = r->node_steps - r->resumed_steps;
    if (!p->on || node_steps == 0) {
        return;
    }
    double s[PARTS] = {[NETWORK] = 1e-9 * (double)p->network_ns};
    for (uint32_t i = 0; i < UW_BOARD_WORKERS_MAX; i++) {
        s[TRAINING] += 1e-9 * (double)p->threads[i].training_ns;
        s[TESTS] += 1e-9 * (double)p->threads[i].tests_ns;
    }
    double all = 1e-9 * (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - p->start_ns);
    s[REST] = all - s[TRAINING] - s[NETWORK] - s[TESTS];
    cJSON *ev = uw_event("profile");
    UW_EVENT_NUMBERS(ev, {"node_steps", (double)node_steps});
    for (int i = 0; i < PARTS; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s_seconds", names[i]);
        cJSON_AddNumberToObject(ev, key, s[i]);
        fprintf(stderr, "%-10s %9.3f s of processors, %8.2f us a node-step\n", names[i], s[i],
                1e6 * s[i] / (double)node_steps);
    }
    uw_events_put(&r->events, ev);
}
