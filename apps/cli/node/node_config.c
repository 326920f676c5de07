/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads options from file and command line and checks combinations: uw_node_check checks the node's
 * configuration, this file the rest. */
#include "node_config.h"

#include "base/open_file.h"
#include "job/job_gpu.h"
#include "job/recipe.h"

#include "uwasa/node_gradients.h"
#include "uwasa/radio.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_BYTES 12u
#define UDP "udp:"
#define HOST_MTU_MIN 256u
#define CONSENSUS_DEFAULT_US 10000000u

#define ADDRESS "needs HOST:PORT, \"10.0.0.2:4433\", \"gateway:4433\" or \"[fe80::2]:4433\""

/* ---- errors that name an assignment, a line or the file ---- */

/* The value of "key" or "object.key"; NULL: missing. */
static const cJSON *find_key(const cJSON *root, const char *key)
{
    const char *dot = strchr(key, '.');
    char object[32];
    if (root != NULL && dot != NULL) {
        snprintf(object, sizeof object, "%.*s", (int)(dot - key), key);
        root = cJSON_GetObjectItemCaseSensitive(root, object);
        key = dot + 1;
    }
    return root != NULL ? cJSON_GetObjectItemCaseSensitive(root, key) : NULL;
}

/* The last assignment of the key; NULL: none. */
static const struct uw_opt_given *find_set(const struct uw_opt_sets *set, const char *key)
{
    for (uint32_t i = set != NULL ? set->n : 0; i > 0; i--) {
        if (uw_opt_gives(&set->item[i - 1u], key)) {
            return &set->item[i - 1u];
        }
    }
    return NULL;
}

/* Set an error that begins with the key's assignment or, without one, with file and line if the key
 * is in the file; then the key. Returns UW_ERR_INVALID. */
static int fail_key(struct uw_node_file *f, const char *key, const char *sentence,
                    struct uw_error *err)
{
    const cJSON *m = find_key(f->json.root, key);
    const struct uw_opt_given *set = find_set(f->set, key);
    char where[96];
    if (set != NULL) {
        return uw_error_set(err, UW_ERR_INVALID, "%s: \"%s\" %s",
                            uw_opt_given_text(set, where, sizeof where), key, sentence);
    }
    if (m != NULL) {
        return uw_error_set(err, UW_ERR_INVALID, "%.160s:%u: \"%s\" %s", f->json.file,
                            (unsigned)uw_json_line(&f->json, m), key, sentence);
    }
    return f->json.file != NULL ? uw_error_set(err, UW_ERR_INVALID, "%.160s: \"%s\" %s",
                                               f->json.file, key, sentence)
                                : uw_error_set(err, UW_ERR_INVALID, "\"%s\" %s", key, sentence);
}

static int check_rules(struct uw_node_file *f, const struct uw_rule *rules, struct uw_error *err)
{
    struct uw_rule r = uw_rule_broken(rules);
    return !r.broken ? UW_OK : fail_key(f, r.name, r.sentence, err);
}

/* ---- the link, and the addresses that belong to it ---- */

/* Addresses of hosts; on a radio or a bus numbers. */
static int check_list(struct uw_node_file *f, const char *key, const struct uw_opt_list *list,
                      struct uw_error *err)
{
    bool narrow = uw_stack_is_radio(f->o.carrier);
    for (uint32_t i = 0; i < list->n; i++) {
        uint16_t number;
        char sentence[200];
        if (narrow ? uw_link_frame_address(list->item[i], &number) < 0
                   : !uw_stack_address_ok(list->item[i], false)) {
            snprintf(sentence, sizeof sentence, "has \"%.60s\", %s", list->item[i],
                     narrow ? "needs numbers from 0 to 65533 here" : ADDRESS);
            return fail_key(f, key, sentence, err);
        }
    }
    return UW_OK;
}

/* Serial lines and buses. */
static int check_baud(struct uw_node_file *f, struct uw_error *err)
{
    struct uw_node_options *o = &f->o;
    o->link_baud = o->link_baud != 0 ? o->link_baud : 115200;
    return check_rules(f, UW_RULES({!uw_serial_tty_baud_ok(o->link_baud), "link.baud",
                                    "needs a rate that serial lines have, 9600, 115200, 921600"}),
                       err);
}

/* The first given key with addresses of hosts, including "seeds" if asked for; NULL: none. */
static const char *key_of_hosts(const struct uw_node_options *o, bool seeds)
{
    return seeds && o->seeds.n != 0       ? "seeds"
           : o->advertise != NULL         ? "advertise"
           : strcmp(o->listen, ":0") != 0 ? "listen"
                                          : NULL;
}

/* A serial line leads to one node. */
static int check_line(struct uw_node_file *f, struct uw_error *err)
{
    struct uw_node_options *o = &f->o;
    const char *key = key_of_hosts(o, true);
    key = key == NULL && o->emulate_far.n != 0 ? "emulate.far" : key;
    int rc = check_rules(f, UW_RULES(
        {key != NULL, key, "is not for a serial line, which leads to one node"},
        {o->mtu > UW_LINK_SERIAL_MTU_MAX, "mtu", "needs at most 2048 on a serial line"}), err);
    o->seeds.item[0] = "peer";
    o->seeds.n = 1;
    return rc < 0 ? rc : check_baud(f, err);
}

/* Nodes find each other on a channel: seeds are not needed. */
static int check_radio(struct uw_node_file *f, struct uw_error *err)
{
    struct uw_node_options *o = &f->o;
    const char *key = key_of_hosts(o, false);
    bool group = o->carrier != UW_STACK_RADIO ||
                 (strncmp(o->link_radio, UDP, sizeof UDP - 1u) == 0 &&
                  uw_radio_udp_group_ok(o->link_radio + sizeof UDP - 1u));
    int rc = check_rules(f, UW_RULES(
        {key != NULL, key, "is not for a radio or a bus: give \"link.address\""},
        {o->link_address == UW_NODE_ADDRESS_UNSET, "link.address",
         "is missing: a number of this node's own on the radio or the bus"},
        {o->mtu > UW_RADIO_FRAME_MAX, "mtu", "needs at most 1280, a frame of a radio or a bus"},
        {!group, "link.radio", "needs a multicast group, \"udp:239.255.85.87:4785\""}), err);
    rc = rc < 0 || o->carrier != UW_STACK_BUS ? rc : check_baud(f, err);
    rc = rc < 0 ? rc : check_list(f, "seeds", &o->seeds, err);
    return rc < 0 ? rc : check_list(f, "emulate.far", &o->emulate_far, err);
}

/* If "link" is a text that is not a link, make f->json.err list all possible values. */
static void check_kind(struct uw_node_file *f)
{
    const cJSON *m = cJSON_GetObjectItemCaseSensitive(f->json.root, "link");
    const struct uw_opt *row = uw_opt_find(uw_node_keys, "link", 4);
    struct uw_node_options unused;
    bool empty = cJSON_IsObject(m) && m->child == NULL;
    if (empty || (cJSON_IsString(m) && uw_opt_set(row, m->valuestring, &unused) < 0)) {
        uw_json_fail(&f->json, m, "\"link\" needs udp, tcp, mpi, {\"serial\": DEVICE}, {\"bus\": "
                                  "DEVICE, \"address\": N} or {\"radio\": \"udp:GROUP:PORT\", "
                                  "\"address\": N}");
    }
}

/* The same for a value of the command line, refused with rc. err is filled. Returns rc. */
static int refuse_kind(const struct uw_opt_given *given, int rc, struct uw_error *err)
{
    char text[48];
    return !uw_opt_gives(given, "link")
               ? rc : uw_error_set(err, rc, "%s: needs udp, tcp or mpi; or --set link.serial="
                                   "DEVICE; or link.bus=DEVICE or link.radio=udp:GROUP:PORT with "
                                   "--set link.address=N",
                                   uw_opt_given_text(given, text, sizeof text));
}

/* Set o.carrier from what the object "link" has. */
static int choose_link(struct uw_node_file *f, struct uw_error *err)
{
    struct uw_node_options *o = &f->o;
    const struct {
        enum uw_stack_carrier carrier;
        const char *value;
    } kinds[] = {{UW_STACK_SERIAL, o->link_serial}, {UW_STACK_BUS, o->link_bus},
                 {UW_STACK_RADIO, o->link_radio}};
    bool given = o->link.word != NULL;
    o->carrier = given ? (enum uw_stack_carrier)o->link.at : UW_STACK_UDP;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (kinds[i].value != NULL && given) {
            return fail_key(f, "link", "is given twice: one of a serial line, a bus, a radio, "
                                       "udp, tcp and mpi", err);
        }
        given = given || kinds[i].value != NULL;
        o->carrier = kinds[i].value != NULL ? kinds[i].carrier : o->carrier;
    }
    bool serial = o->carrier == UW_STACK_SERIAL || o->carrier == UW_STACK_BUS;
    return check_rules(f, UW_RULES(
        {!serial && o->link_baud != 0, "link.baud", "needs \"link.serial\" or \"link.bus\""},
        {o->carrier != UW_STACK_RADIO && o->link_interface != NULL, "link.interface",
         "needs \"link.radio\""},
        {!uw_stack_is_radio(o->carrier) && o->link_address != UW_NODE_ADDRESS_UNSET,
         "link.address", "needs \"link.radio\" or \"link.bus\""}), err);
}

/* Check the addresses, and keys that the link does not support. */
static int check_link(struct uw_node_file *f, struct uw_error *err)
{
    const struct uw_node_options *o = &f->o;
    if (uw_stack_is_radio(o->carrier)) {
        return check_radio(f, err);
    }
    bool hosts = o->carrier == UW_STACK_UDP || o->carrier == UW_STACK_TCP;
    int rc = check_rules(f, UW_RULES(
        {o->mtu != 0 && o->mtu < HOST_MTU_MIN, "mtu", "needs 256 or more but on a radio or a bus"},
        {hosts && !uw_stack_address_ok(o->listen, true), "listen", ADDRESS " or \":4433\""},
        {hosts && o->advertise != NULL && !uw_stack_address_ok(o->advertise, false), "advertise",
         ADDRESS}), err);
    if (rc < 0 || !hosts) {
        return rc < 0 || o->carrier == UW_STACK_MPI ? rc : check_line(f, err);
    }
    rc = check_list(f, "seeds", &o->seeds, err);
    return rc < 0 ? rc : check_list(f, "emulate.far", &o->emulate_far, err);
}

/* ---- the rest ---- */

static int check_needed(struct uw_node_file *f, struct uw_error *err)
{
    const struct uw_node_options *o = &f->o;
    bool mpi = o->carrier == UW_STACK_MPI, tcp = o->carrier == UW_STACK_TCP;
    bool secret = !mpi && (o->tls || !tcp);
    bool known = mpi && !f->ranked;
    return check_rules(f, UW_RULES(
        {o->name == NULL, "name", "is missing"}, {o->run == NULL, "run", "is missing"},
        {secret && o->key == NULL, "key", "is missing"}, {o->model == NULL, "model", "is missing"},
        {!o->tls && !tcp, "tls",
         "false is for \"link\" tcp: udp, radios and serial lines are always encrypted, mpi never"},
        {known && o->seeds.n != 0, "seeds", "is not for \"link\" mpi: its ranks know each other"},
        {known && o->advertise != NULL, "advertise",
         "is not for \"link\" mpi: its ranks know each other"}), err);
}

/* A key without effect is a mistake. */
static int check_emulated(struct uw_node_file *f, struct uw_error *err)
{
    const struct uw_node_options *o = &f->o;
    bool bad = o->emulate_loss > 0.0 || o->emulate_duplicate > 0.0 || o->emulate_reorder > 0.0 ||
               o->emulate_corrupt > 0.0 || o->emulate_delay_ms > 0.0 ||
               o->emulate_jitter_ms > 0.0 || o->emulate_rate != 0 || o->emulate_mtu != 0;
    bool cuts = o->emulate_cut_seconds > 0.0;
    return check_rules(f, UW_RULES(
        {o->emulate_cut_after > 0.0 && !cuts, "emulate.cut_after",
         "needs \"emulate.cut_seconds\""},
        {o->emulate_far.n != 0 && !bad && !cuts, "emulate.far",
         "needs a fault to emulate: \"emulate.loss\", \"emulate.cut_seconds\" or another"}), err);
}

/* "2/4" into shard 2 of 4; NULL into 0 of 0. */
static int parse_shard(const char *text, uint32_t *shard, uint32_t *shards_n)
{
    char *end;
    *shard = *shards_n = 0;
    if (text == NULL) {
        return UW_OK;
    }
    unsigned long i = text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : UINT32_MAX;
    if (i >= UINT32_MAX || *end != '/' || end[1] < '1' || end[1] > '9') {
        return UW_ERR_INVALID;
    }
    unsigned long k = strtoul(end + 1, &end, 10);
    if (*end != '\0' || k > 65536 || i >= k) {
        return UW_ERR_INVALID;
    }
    *shard = (uint32_t)i;
    *shards_n = (uint32_t)k;
    return UW_OK;
}

static const char *key_of(const struct uw_node_fault *fault)
{
#define FIELD(member) offsetof(struct uw_node_config, member)
    static const struct {
        size_t field;
        const char *key;
    } keys[] = {{FIELD(address), "advertise"}, {FIELD(mode), "exchange"},
                {FIELD(gradients), "average"}, {FIELD(rule), "momentum_rule"},
                {FIELD(schedule), "peer_schedule"}, {FIELD(period_share), "period"},
                {FIELD(slices_n), "slices"}, {FIELD(pulls_n), "pulls"},
                {FIELD(sleep.period_us), "sleep.period"},
                {FIELD(sleep.awake_us), "sleep.awake"}, {FIELD(samples), "shuffle"},
                {FIELD(cell_first_n), "cell_first"}, {FIELD(ranks_max), "ranks"},
                 {FIELD(members_max), "members"}};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (keys[i].field == fault->field) {
            return keys[i].key;
        }
    }
    return fault->name;         /* it is the key */
}

bool uw_node_config_agrees(const struct uw_node_options *o)
{
    bool sleeps = o->sleep_period > 0.0 || o->sleep_awake > 0.0;
    return !uw_stack_is_radio(o->carrier) && !sleeps && o->membership.at != UW_MEMBERSHIP_STATIC;
}

void uw_node_config_fill(const struct uw_node_options *o, struct uw_node_config *c)
{
    c->name = o->name;
    c->run = o->run;
    c->address = o->advertise;
    c->cell = o->cell;
    c->cell_first_n = o->cell_first;
    c->members_max = o->members;
    c->algorithm = o->fixed ? &o->kind : NULL;
    c->pull_peers = o->pull_peers;
    c->code = o->code;
    c->head_weight = o->head_weight;
    c->together = o->together != 0;
    c->gather_us = (uint64_t)(o->gather_seconds * 1e6);
    c->round_us = (uint64_t)(o->round_seconds * 1e6);
    c->loan_us = (uint64_t)(o->shuffle_seconds * 1e6);
    c->window_bytes = (size_t)o->pull_window;
    c->membership_rate = o->membership_rate;
    c->agree = uw_node_config_agrees(o);
    c->sleep = (struct uw_node_sleep){.period_us = (uint64_t)(o->sleep_period * 1e6),
                                      .awake_us = (uint64_t)(o->sleep_awake * 1e6)};
    uw_exchange_fill(&o->exchange, c);
    bool all = o->exchange.ranks == 0 && o->together != UW_NODE_TOGETHER_UNSET &&
               o->together > UW_NODE_RANKS_DEFAULT;
    c->ranks_max = all ? o->together : c->ranks_max;
}

/* Check the options as a node's configuration. */
static int check_node(struct uw_node_file *f, bool unranked, struct uw_error *err)
{
    static struct uw_sample_pool lends;
    static const struct uw_node_gradients_config gradients;
    struct uw_node_options *o = &f->o;
    bool narrow = uw_stack_is_radio(o->carrier), hands_out = o->average.at == UW_AVERAGE_GRADIENTS;
    struct uw_link link = {.frames = narrow, .shared = narrow};
    struct uw_node_config c = {.link = &link, .parts = &uw_node_parts_all,
                               .samples = o->shuffle > 0.0 ? &lends : NULL,
                               .gradients = hands_out ? &gradients : NULL};
    struct uw_node_fault fault;
    const char *sentence;
    uw_exchange_resolve(&o->exchange, hands_out ? &uw_mix_none : &uw_mix_qg);
    const char *key = uw_exchange_wrong(&o->exchange, &sentence);
    if (key != NULL) {
        return fail_key(f, key, sentence, err);
    }
    o->fixed = uw_allreduce_find(o->algorithm.word, &o->kind);
    uw_node_config_fill(o, &c);
    c.cell_first_n = unranked ? 0 : c.cell_first_n;
    bool given = o->carrier == UW_STACK_SERIAL || o->carrier == UW_STACK_MPI;
    c.seeds_n = given ? 1u : o->seeds.n;    /* the link leads to them */
    int rc = o->membership.at == UW_MEMBERSHIP_STATIC ? uw_node_check_listed(&c, &fault)
                                                      : uw_node_check(&c, &fault);
    return rc < 0 ? fail_key(f, key_of(&fault), fault.sentence, err) : UW_OK;
}

static int check(struct uw_node_file *f, struct uw_error *err)
{
    struct uw_node_options *o = &f->o;
    bool unranked = o->carrier == UW_STACK_MPI && !f->ranked;
    int rc = check_needed(f, err);
    if (rc < 0) {
        return rc;
    }
    bool has_cells = o->exchange.mode.at == UW_NODE_HIERARCHICAL ||
                     o->exchange.mode.at == UW_NODE_AUTO;
    if (!unranked) {
        o->together = o->together != UW_NODE_TOGETHER_UNSET ? o->together : 0;
        o->cell_first = o->cell_first == 0 && !has_cells ? o->together : o->cell_first;
    }
    bool per_rank = unranked && o->shard != NULL && strchr(o->shard, '{') != NULL;
    bool no_shard = !per_rank && parse_shard(o->shard, &o->shard_i, &o->shards_n) < 0;
    struct uw_schedule lr;
    bool no_schedule = uw_lr_parse(o->schedule, &lr) < 0;
    bool to_the_end = lr.kind == UW_SCHEDULE_COSINE || lr.kind == UW_SCHEDULE_LINEAR;
    bool endless = o->steps == 0 && o->epochs == 0 && o->seconds <= 0.0;
    bool skewed = o->skew != NULL;
    rc = check_rules(f, UW_RULES(
        {strlen(o->run) > 64, "run", "needs 1 to 64 characters"},
        {!unranked && o->together > o->members, "together", "needs at most \"members\""},
        {no_shard, "shard", "needs I/K with I from 0 to K-1"},
        {no_schedule, "schedule", "needs " UW_LR_ALLOWED},
        {to_the_end && endless, "schedule",
         "cosine and linear need \"steps\", \"epochs\" or \"seconds\""},
        {o->steps != 0 && o->epochs != 0, "steps", "and \"epochs\": give one of them"},
        {o->exact && o->backend.at != UW_BACKEND_AUTO && o->backend.at != UW_BACKEND_REF, "backend",
         "needs auto or ref with \"exact\""},
        {o->elapsed > 0.0 && o->seconds <= 0.0, "elapsed", "needs \"seconds\""},
        {skewed && uw_skew_parse(o->skew, &o->dealt) < 0, "skew", "needs " UW_SKEW_ALLOWED},
        {skewed && o->shard == NULL, "skew", "needs \"shard\", this node's part"}), err);
    rc = rc < 0 ? rc : check_node(f, unranked, err);
    rc = rc < 0 ? rc : check_emulated(f, err);
    return rc < 0 ? rc : check_link(f, err);
}

/* ---- ways in ---- */

/* A list given on the command line replaces the file's; several flags add up. */
static void forget_lists(struct uw_node_file *f, const struct uw_opt_sets *set)
{
    for (uint32_t i = 0; set != NULL && i < set->n; i++) {
        const char *key = set->item[i].key;
        const struct uw_opt *o = uw_opt_find(uw_node_keys, key, strcspn(key, "="));
        if (o != NULL && o->kind == UW_OPT_LIST) {
            struct uw_opt_list *list = (void *)((uint8_t *)&f->o + o->offset);
            list->n = 0;
        }
    }
}

/* Common end of load and parse. */
static int finish(struct uw_node_file *f, int rc, const struct uw_opt_sets *set,
                  struct uw_error *err)
{
    if (rc == UW_OK && f->json.root != NULL) {
        check_kind(f);
        uw_json_options(&f->json, f->json.root, uw_node_keys, &f->o);
        rc = f->json.err.code;
    }
    if (rc < 0) {
        return uw_error_set(err, rc, "%s", f->json.err.text);
    }
    forget_lists(f, set);
    f->set = set;
    for (uint32_t i = 0; set != NULL && i < set->n; i++) {
        rc = uw_opt_assign(uw_node_keys, &set->item[i], &f->o, err);
        if (rc < 0) {
            return refuse_kind(&set->item[i], rc, err);
        }
    }
    rc = choose_link(f, err);
    rc = rc < 0 ? rc : uw_exchange_read(&f->o.exchange, err);
    return rc < 0 ? rc : check(f, err);
}

int uw_node_config_load(struct uw_node_file *f, const char *file, const struct uw_opt_sets *set,
                        struct uw_error *err)
{
    *f = (struct uw_node_file){.o = uw_node_defaults};
    return finish(f, file != NULL ? uw_json_open_file(&f->json, file) : UW_OK, set, err);
}

int uw_node_config_parse(struct uw_node_file *f, const char *file, const char *text,
                         size_t text_bytes, struct uw_error *err)
{
    *f = (struct uw_node_file){.o = uw_node_defaults};
    return finish(f, uw_json_open_text(&f->json, file, text, text_bytes), NULL, err);
}

void uw_node_config_deinit(struct uw_node_file *f)
{
    uw_json_close(&f->json);
    uw_exchange_close(&f->o.exchange);
    while (f->texts_n != 0) {
        free(f->texts[--f->texts_n]);
    }
}

/* ---- ranks of MPI ---- */

/* A text of the rank's own; NULL: no memory. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static char *new_text(struct uw_node_file *f, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = f->texts_n < UW_NODE_RANK_TEXTS ? malloc((size_t)n + 1u) : NULL;
    if (text != NULL) {
        va_start(args, format);
        vsnprintf(text, (size_t)n + 1u, format, args);
        va_end(args);
        f->texts[f->texts_n++] = text;
    }
    return text;
}

/* The text with every {rank} and {size} in numbers; the text itself when it has none. */
static const char *fill(struct uw_node_file *f, const char *text, const char *rank,
                        const char *size)
{
    if (strstr(text, "{rank}") == NULL && strstr(text, "{size}") == NULL) {
        return text;
    }
    size_t cap = 2u * strlen(text) + NUMBER_BYTES, n = 0;   /* a number has less than 12 digits */
    char *out = new_text(f, "%*s", (int)cap, "");
    for (const char *p = text; out != NULL && *p != '\0';) {
        bool is_rank = strncmp(p, "{rank}", 6) == 0, is_size = strncmp(p, "{size}", 6) == 0;
        int k = is_rank || is_size ? snprintf(out + n, cap - n, "%s", is_rank ? rank : size)
                                   : snprintf(out + n, cap - n, "%c", *p);
        n += (size_t)k;
        p += is_rank || is_size ? 6 : 1;
    }
    return out;
}

/* "dir/w.safetensors" and "3" into "dir/w.3.safetensors". */
static const char *own_file(struct uw_node_file *f, const char *file, const char *rank)
{
    const char *base = uw_file_name(file);
    const char *dot = strrchr(base, '.');
    size_t stem = dot != NULL && dot != base ? (size_t)(dot - file) : strlen(file);
    return new_text(f, "%.*s.%s%s", (int)stem, file, rank, file + stem);
}

static const char *own_name(struct uw_node_file *f, const char *name, const char *rank)
{
    return new_text(f, "%s%s", name, rank);
}

/* Make a text the rank's own if it is given and has no {rank} in it. False: out of memory. */
static bool make_own(struct uw_node_file *f, const char **text, const char *rank,
                     const char *(*own)(struct uw_node_file *, const char *, const char *))
{
    if (*text != NULL && strstr(*text, "{rank}") == NULL) {
        *text = own(f, *text, rank);
        return *text != NULL;
    }
    return true;
}

int uw_node_config_rank(struct uw_node_file *f, uint32_t rank, uint32_t size,
                        struct uw_error *err)
{
    struct uw_node_options *o = &f->o;
    if (size > UW_NODE_RANKS_MAX && o->exchange.mode.at == UW_NODE_ALLREDUCE) {
        return uw_error_set(err, UW_ERR_INVALID, "\"exchange\" allreduce: %u ranks, and %u at most "
                            "average exactly; hierarchical has cells", (unsigned)size,
                            UW_NODE_RANKS_MAX);
    }
    const char *number_of = new_text(f, "%u", (unsigned)rank);
    const char *size_of = new_text(f, "%u", (unsigned)size);
    if (number_of == NULL || size_of == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "out of memory");
    }
    bool all = make_own(f, &o->name, number_of, own_name) &&
               (size <= 1 || (make_own(f, &o->checkpoint, number_of, own_file) &&
                              make_own(f, &o->trace, number_of, own_file) &&
                              make_own(f, &o->pcap, number_of, own_file)));
    if (all && size > 1 && o->events != NULL && strcmp(o->events, "-") != 0) {
        all = make_own(f, &o->events, number_of, own_file);
    }
    for (uint32_t i = 0; all && i < uw_node_keys.n; i++) {
        const struct uw_opt *row = &uw_node_keys.row[i];
        const char **text = (void *)((uint8_t *)o + row->offset);
        if (row->kind == UW_OPT_TEXT && *text != NULL) {
            *text = fill(f, *text, number_of, size_of);
            all = *text != NULL;
        }
    }
    o->seeds.n = 0;
    for (uint32_t i = 0; all && i < size && i < UW_OPT_LIST_MAX; i++) {
        o->seeds.item[i] = new_text(f, "%u", (unsigned)i);
        o->seeds.n = i + 1u;
        all = o->seeds.item[i] != NULL;
    }
    if (!all) {
        return uw_error_set(err, UW_ERR_NOMEM, "out of memory");
    }
    o->members = o->members > size + 1u ? o->members : size + 1u;
    o->together = o->together != UW_NODE_TOGETHER_UNSET ? o->together : size;
    f->ranked = true;
    return check(f, err);
}

/* ---- the end ---- */

uint64_t uw_node_consensus_us(const struct uw_node_options *o)
{
    bool given = o->consensus_seconds >= 0.0;
    return given ? (uint64_t)(o->consensus_seconds * 1e6) : CONSENSUS_DEFAULT_US;
}

uint64_t uw_node_consensus_end_us(const struct uw_node_options *o, uint64_t start_us,
                                  uint64_t came_us)
{
    return (o->consensus_seconds >= 0.0 ? start_us : came_us) + uw_node_consensus_us(o);
}
