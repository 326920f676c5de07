/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_link.h"

#include "base/events.h"
#include "base/progress.h"
#include "links/link_cost.h"

#include "uwasa/node.h"
#include "uwasa/secure.h"
#include "uwasa/secure_frames.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES 8u
#define HOUR_S 3600.0
#define DAY_S 86400.0
#define PERCENT_TEXT_BYTES 16

enum verdict { GOOD, SLOW, HOPELESS };

static const struct uw_link_ops no_ops = {.name = "planned"};

static size_t secure_bytes(struct uw_link *lower, uint32_t peers_n)
{
    const struct uw_secure_frames_config c = {.lower = lower, .run = "plan",
                                              .peers_n = (uint16_t)peers_n};
    return uw_secure_frames_bytes(&c);
}

/* Memory of a node's network without its model and snapshot: of the node, for so many members with
 * itself, and of secure frames if the link uses them (not TLS).
 *   averages  averages by broadcast; false: pulls
 * Returns what uw_node_measure does, err filled. */
static int network_memory(const struct uw_radio_profile *p, uint32_t floats_n, uint32_t nodes_n,
                          bool averages, size_t *bytes, struct uw_error *err)
{
    struct uw_link lower = {.ops = &no_ops, .mtu_bytes = p->frame_bytes, .fd = -1,
                            .frames = p->frames, .shared = p->shared, .numbered = p->frames};
    struct uw_link top = lower;
    top.mtu_bytes -= p->frames ? UW_SECURE_FRAMES_OVERHEAD : UW_SECURE_OVERHEAD_BYTES;
    top.rate_bits_per_s = p->rate_bits_per_s;
    const struct uw_segment segment = {.name = "x", .size_n = floats_n, .dim = {floats_n},
                                       .rank = 1};
    const struct uw_params params = {.size_n = floats_n, .segments = &segment, .segments_n = 1,
                                     .hash = 1};
    struct uw_snapshot snapshot = {.size_n = floats_n};
    const struct uw_node_config c = {
        .name = "n", .run = "plan", .link = &top, .params = &params, .snapshot = &snapshot,
        .parts = &uw_node_parts_all, .members_max = nodes_n,
        .mode = averages ? UW_NODE_BROADCAST : UW_NODE_GOSSIP};
    int rc = uw_node_measure(&c, bytes, err);
    size_t secure = rc == UW_OK && p->frames ? secure_bytes(&lower, nodes_n) : 0;
    *bytes += secure != SIZE_MAX ? secure : 0;
    return rc;
}

/* Advice for an exchange that takes more than an hour. */
struct instead {
    uint32_t fits_n, slices;        /* floats of a round within the hour; 0: none */
    double slice_s;                 /* round of one slice; may exceed the hour at most slices */
    const char *model;              /* the largest built-in model that fits, else the smallest */
    uint32_t model_n;
    double model_s;
    bool model_fits;
    double sf7_s;                   /* of a round at SF7; 0: not a different link */
    const char *link;               /* that takes at most an hour; NULL: none of those tried */
    double link_s;
};

struct answer {
    struct uw_link_cost_config config;
    struct uw_link_cost cost;
    enum verdict verdict;
    struct instead instead;
    size_t pull_bytes, average_bytes;   /* memory of a node's network; 0: not possible on the link,
                                           or the model has more chunks than frames can count */
};

uint32_t uw_plan_link_nodes(const char *link)
{
    struct uw_radio_profile p;
    return uw_radio_profile_find(link, &p) == UW_OK && p.kind == UW_RADIO_SERIAL ? 2u : NODES;
}

int uw_plan_link_check(const struct uw_plan_link *o, struct uw_error *err)
{
    struct uw_radio_profile p;
    int rc = uw_radio_profile_find(o->link, &p);
    if (rc < 0) {
        return uw_error_set(err, UW_ERR_INVALID, "--link %.40s: needs one of " UW_RADIO_PROFILES,
                            o->link);
    }
    if (p.kind == UW_RADIO_SERIAL && o->nodes > 2) {
        return uw_error_set(err, UW_ERR_INVALID, "--nodes %u: %s is one line between two nodes; "
                            "for more on one line --link bus:%u", (unsigned)o->nodes, p.name,
                            (unsigned)p.rate_bits_per_s);
    }
    if (o->share <= 0.0) {
        return uw_error_set(err, UW_ERR_INVALID, "--share 0: needs more, up to 1");
    }
    return UW_OK;
}

/* Floats that nodes exchange: weights and running statistics, except those in constant memory. */
static uint32_t floats_of(const struct uw_job *job)
{
    return job->need.parameters_n + job->need.statistics_n - job->need.constants_n;
}

static double round_s(struct uw_link_cost_config c, uint32_t floats_n)
{
    struct uw_link_cost cost;
    c.floats_n = floats_n;
    uw_link_cost(&c, &cost);
    return cost.round.seconds;
}

static enum verdict judge(double seconds)
{
    return seconds > DAY_S ? HOPELESS : seconds > HOUR_S ? SLOW : GOOD;
}

/* Choose the number of slices so that a round of one slice, in whole frames, takes at most an hour;
 * else the largest possible number. */
static void choose_slices(const struct uw_link_cost_config *c, const struct uw_link_cost *cost,
                          struct instead *in)
{
    uint32_t most = cost->chunks < UW_NODE_SLICES_MAX ? cost->chunks : UW_NODE_SLICES_MAX;
    uint32_t fit = in->fits_n / cost->chunk_n;
    uint32_t slices = fit != 0 ? (cost->chunks - 1u) / fit + 1u : most;
    in->slices = slices < most ? slices : most;
    uint32_t chunks = (cost->chunks - 1u) / in->slices + 1u;
    in->slice_s = round_s(*c, chunks < cost->chunks ? chunks * cost->chunk_n : c->floats_n);
}

static int choose_model(const struct uw_link_cost_config *c, struct instead *in,
                        struct uw_error *err)
{
    int rc = UW_OK;
    for (uint32_t i = 0; i < uw_model_builtins_n && rc == UW_OK; i++) {
        struct uw_job job = {.pool = NULL};
        const struct uw_job_config config = {.model = uw_model_builtins[i].name,
                                             .backend = {"ref", UW_BACKEND_REF},
                                             .threads = 1, .plan = {.batch_n = 1}};
        rc = uw_job_plan(&job, &config, err);
        uint32_t n = rc == UW_OK ? floats_of(&job) : 0;
        bool fits = n <= in->fits_n;
        bool better = in->model == NULL || (fits ? !in->model_fits || n > in->model_n
                                                 : !in->model_fits && n < in->model_n);
        if (rc == UW_OK && better) {
            in->model = uw_model_builtins[i].name;
            in->model_n = n;
            in->model_fits = fits;
        }
        uw_job_deinit(&job);
    }
    in->model_s = rc == UW_OK ? round_s(*c, in->model_n) : 0.0;
    return rc;
}

/* The slowest link that is fast enough: slow links have the longest range and need little power. */
static void choose_link(const struct uw_link_cost_config *c, struct instead *in)
{
    static const char *const names[] = {"802154", "espnow", "wifi", "ethernet"};
    for (size_t i = 0; i < sizeof names / sizeof names[0] && in->link == NULL; i++) {
        struct uw_link_cost_config other = *c;
        (void)uw_radio_profile_find(names[i], &other.link);
        in->link_s = round_s(other, c->floats_n);
        in->link = judge(in->link_s) == GOOD ? names[i] : NULL;
    }
}

static int advise(const struct uw_link_cost_config *c, const struct uw_link_cost *cost,
                  struct instead *in, struct uw_error *err)
{
    *in = (struct instead){.fits_n = uw_link_cost_fits_n(c, HOUR_S)};
    choose_slices(c, cost, in);
    if (c->link.sf > 7) {
        struct uw_link_cost_config fast = *c;
        (void)uw_radio_profile_find("lora:SF7", &fast.link);
        in->sf7_s = round_s(fast, c->floats_n);
    }
    choose_link(c, in);
    return choose_model(c, in, err);
}

static void measure(struct answer *a)
{
    const struct uw_link_cost_config *c = &a->config;
    struct uw_error why;
    for (int i = 0; i < (c->link.broadcasts ? 2 : 1); i++) {
        size_t *bytes = i == 0 ? &a->pull_bytes : &a->average_bytes;
        int rc = network_memory(&c->link, c->floats_n, c->nodes_n, i != 0, bytes, &why);
        *bytes = rc == UW_OK ? *bytes : 0;
    }
}

static int find_answer(const struct uw_plan_link *o, const struct uw_job *job, struct answer *a,
                       struct uw_error *err)
{
    *a = (struct answer){.config = {.floats_n = floats_of(job), .nodes_n = o->nodes,
                                    .loss = o->loss, .share = o->share}};
    (void)uw_radio_profile_find(o->link, &a->config.link);
    if (a->config.floats_n == 0) {
        return uw_error_set(err, UW_ERR_INVALID, "--model: has no parameters to exchange");
    }
    uw_link_cost(&a->config, &a->cost);
    measure(a);
    a->verdict = judge(a->cost.round.seconds);
    return a->verdict == GOOD ? UW_OK : advise(&a->config, &a->cost, &a->instead, err);
}

static const char *percent_text(double share, char text[PERCENT_TEXT_BYTES])
{
    snprintf(text, PERCENT_TEXT_BYTES, "%.4g %%", 100.0 * share);
    return text;
}

static double period_steps(const struct uw_plan_link *o, const struct answer *a)
{
    return fmax(1.0, ceil(a->cost.period_s * o->steps_per_s - 1e-6));
}

static void add_air(cJSON *root, const char *name, const struct uw_air *air)
{
    if (air->data_frames <= 0.0) {
        cJSON_AddNullToObject(root, name);
        return;
    }
    cJSON *at = cJSON_AddObjectToObject(root, name);
    UW_EVENT_NUMBERS(at, {"data_frames", air->data_frames}, {"want_frames", air->want_frames},
                     {"bytes", air->bytes}, {"airtime_seconds", air->airtime_s},
                     {"seconds", air->seconds});
}

static void add_instead(cJSON *root, const struct instead *in)
{
    cJSON *at = cJSON_AddObjectToObject(root, "instead");
    UW_EVENT_NUMBERS(at, {"slices", in->slices}, {"slice_seconds", in->slice_s},
                     {"fits_floats", in->fits_n});
    cJSON_AddStringToObject(at, "model", in->model);
    UW_EVENT_NUMBERS(at, {"model_floats", in->model_n}, {"model_seconds", in->model_s});
    if (in->sf7_s > 0.0) {
        cJSON_AddNumberToObject(at, "sf7_seconds", in->sf7_s);
    }
    if (in->link != NULL) {
        cJSON_AddStringToObject(at, "link", in->link);
        cJSON_AddNumberToObject(at, "link_seconds", in->link_s);
    }
}

static void print_json(const struct uw_plan_link *o, const struct uw_job *job,
                       const struct answer *a)
{
    static const char *const verdicts[] = {[GOOD] = "good", [SLOW] = "slow",
                                           [HOPELESS] = "hopeless"};
    cJSON *plan = cJSON_CreateObject();
    cJSON_AddStringToObject(plan, "model", job->file.def.name);
    cJSON_AddStringToObject(plan, "link", o->link);
    UW_EVENT_NUMBERS(plan, {"floats", a->config.floats_n}, {"nodes", o->nodes}, {"loss", o->loss},
                     {"share", o->share}, {"chunk_floats", a->cost.chunk_n});
    add_air(plan, "pull", &a->cost.pull);
    add_air(plan, "round", &a->cost.round);
    add_air(plan, "average", &a->cost.average);
    if (a->cost.average.data_frames > 0.0) {
        cJSON_AddBoolToObject(cJSON_GetObjectItem(plan, "average"), "exact", a->cost.exact);
    }
    cJSON_AddNumberToObject(plan, "period_seconds", a->cost.period_s);
    if (a->pull_bytes != 0) {
        cJSON_AddNumberToObject(plan, "network_bytes", (double)a->pull_bytes);
    }
    if (a->average_bytes != 0) {
        cJSON_AddNumberToObject(plan, "average_network_bytes", (double)a->average_bytes);
    }
    if (o->steps_per_s > 0.0) {
        cJSON_AddNumberToObject(plan, "period_steps", period_steps(o, a));
    }
    cJSON_AddStringToObject(plan, "verdict", verdicts[a->verdict]);
    if (a->verdict != GOOD) {
        add_instead(plan, &a->instead);
    }
    uw_event_print(stdout, plan);
}

static void print_air(const char *name, const struct uw_air *air)
{
    char airtime[UW_TEXT_BYTES], seconds[UW_TEXT_BYTES];
    printf("%-32s %12.0f %12s %12s\n", name, air->data_frames + air->want_frames,
           uw_text_duration(air->airtime_s, airtime), uw_text_duration(air->seconds, seconds));
}

/* Mark advice that is not sufficient. */
static const char *still_text(double seconds)
{
    static const char *const texts[] = {[GOOD] = "", [SLOW] = ": slow too",
                                        [HOPELESS] = ": hopeless too"};
    return texts[judge(seconds)];
}

static void print_instead(const struct answer *a)
{
    const struct instead *in = &a->instead;
    char text[UW_TEXT_BYTES], bytes[UW_TEXT_BYTES];
    printf("\n%s\n", a->verdict == HOPELESS ? "hopeless: a round takes more than a day. Instead:"
                                            : "slow: a round takes more than an hour. Instead:");
    printf("  slices  %u%s, one a round, in %s each, the whole model every %s%s\n",
           (unsigned)in->slices, in->slice_s <= HOUR_S ? " of them" : ", the most",
           uw_text_duration(in->slice_s, text), uw_text_duration(in->slices * in->slice_s, bytes),
           still_text(in->slice_s));
    printf("  a smaller model  of %u parameters or less; %s%s, %s, in %s%s\n", (unsigned)in->fits_n,
           in->model_fits ? "" : "none of the built-in ones, of which the smallest is ", in->model,
           uw_text_bytes(4.0 * in->model_n, bytes), uw_text_duration(in->model_s, text),
           still_text(in->model_s));
    if (in->sf7_s > 0.0) {
        printf("  a faster radio  lora:SF7, over shorter distances, in %s%s\n",
               uw_text_duration(in->sf7_s, text), still_text(in->sf7_s));
    }
    if (in->link != NULL) {
        printf("  another link  %s, in %s\n", in->link, uw_text_duration(in->link_s, text));
    }
}

/* Print what limits how often nodes can send. */
static void print_period(const struct uw_plan_link *o, const struct answer *a)
{
    const struct uw_radio_profile *p = &a->config.link;
    char text[UW_TEXT_BYTES], share[PERCENT_TEXT_BYTES], duty[PERCENT_TEXT_BYTES];
    double reached = p->duty_ppm != 0 ? o->nodes * (p->duty_ppm * 1e-6) : 1.0;
    printf("\nperiod: %s from one of a node's pulls to the next",
           uw_text_duration(a->cost.period_s, text));
    if (o->steps_per_s > 0.0) {
        printf(", T = %.0f steps", period_steps(o, a));
    }
    printf("; %s %s of the time", p->shared ? "all nodes together then send for" : "it then takes",
           percent_text(reached < o->share ? reached : o->share, share));
    if (p->duty_ppm != 0) {
        printf(" at most, each for %s", percent_text(p->duty_ppm * 1e-6, duty));
    }
    printf("\n");
}

static void print_memory(const struct answer *a)
{
    char pull[UW_TEXT_BYTES], average[UW_TEXT_BYTES];
    if (a->pull_bytes != 0) {
        printf("memory: %s of a node's network, %u members",
               uw_text_bytes((double)a->pull_bytes, pull), (unsigned)a->config.nodes_n);
        if (a->average_bytes != 0) {
            printf("; %s to average by broadcast",
                   uw_text_bytes((double)a->average_bytes, average));
        }
        printf("%s\n", a->config.link.frames ? "" : ", TLS not counted");
    }
}

static void print_text(const struct uw_plan_link *o, const struct uw_job *job,
                       const struct answer *a)
{
    const struct uw_link_cost *c = &a->cost;
    char bytes[UW_TEXT_BYTES], loss[PERCENT_TEXT_BYTES], name[48];
    printf("%s, %s%s, over %s: %u frames of %u floats\n", job->file.def.name,
           uw_text_bytes(4.0 * a->config.floats_n, bytes),
           job->need.statistics_n != 0 ? " with running statistics" : "", o->link,
           (unsigned)c->chunks, (unsigned)c->chunk_n);
    printf("%u nodes%s, %s of the frames lost\n\n", (unsigned)o->nodes,
           a->config.link.shared                    ? " in range of each other"
           : a->config.link.kind == UW_RADIO_SERIAL ? ", one line between them"
                                                    : "", percent_text(o->loss, loss));
    printf("%-32s %12s %12s %12s\n", "", "frames", "airtime", "time");
    print_air("one pull", &c->pull);
    snprintf(name, sizeof name, "a round of pulls, all %u nodes", (unsigned)o->nodes);
    print_air(name, &c->round);
    if (c->average.data_frames > 0.0) {
        print_air("an average by broadcast", &c->average);
        if (!c->exact) {
            printf("  it ends inexact: four times its model is the most that a node sends\n");
        }
    }
    print_period(o, a);
    print_memory(a);
    if (a->verdict != GOOD) {
        print_instead(a);
    }
}

int uw_plan_link_show(const struct uw_plan_link *o, const struct uw_job *job, bool json,
                      struct uw_error *err)
{
    struct answer a;
    int rc = find_answer(o, job, &a, err);
    if (rc == UW_OK && json) {
        print_json(o, job, &a);
    } else if (rc == UW_OK) {
        print_text(o, job, &a);
    }
    return rc;
}
