/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the data and the network of a node by its configuration. */
#include "node_work.h"

#include "links/link_cost.h"

#include "uwasa/board.h"

#include <stdio.h>
#include <string.h>

#define SCRATCH_N 65536u            /* 256 KiB: models up to this may be averaged by doubling */

#define LINE_PEERS 2u               /* the other end, and the session that replaces its old one */
#define ADDED_N 16384u
#define HOUR_S 3600.0

/* ---- the data ---- */

/* With "skew", divide the whole set among the nodes, as the simulator does, and keep one part. */
static int take_share(struct uw_node_work *r)
{
    const struct uw_node_options *o = r->o;
    struct uw_error why = {.text = ""};
    r->own = r->data.base;
    if (o->skew == NULL) {
        return UW_OK;
    }
    int rc = uw_deal_open(&r->deal, r->data.base, &o->dealt, o->shards_n, uw_rng_mix(o->seed, 1),
                          &why);
    if (rc < 0) {
        return uw_error_set(&r->err, rc, "\"shard\" %.30s, \"skew\" %.40s, data %.80s: %.100s",
                            o->shard, o->skew, o->data, why.text);
    }
    uw_share_init(&r->share, r->data.base, &r->deal, o->shard_i);
    r->own = &r->share.base;
    return UW_OK;
}

/* With "shuffle", put a sample pool over the data. *dataset: set to what to train on. */
static int open_pool(struct uw_node_work *r, struct uw_dataset **dataset)
{
    struct uw_dataset *source = r->own;
    *dataset = source;
    if (r->o->shuffle <= 0.0) {
        return UW_OK;
    }
    if (source->targets_n != 0) {
        return uw_error_set(&r->err, UW_ERR_INVALID,
                            "\"shuffle\" %g: lends samples with labels, data %.80s has values",
                            r->o->shuffle, r->o->data);
    }
    uint32_t slots_n = (uint32_t)(r->o->shuffle * source->samples_n);
    if (slots_n == 0) {
        return uw_error_set(&r->err, UW_ERR_INVALID,
                            "\"shuffle\" %g of %u samples: needs a share of one sample or more",
                            r->o->shuffle, (unsigned)source->samples_n);
    }
    const struct uw_sample_pool_config config = {.source = source, .slots_n = slots_n,
                                                 .now_us = uw_board_now_us};
    struct uw_arena arena;
    uw_arena_init(&arena, NULL, 0);
    int rc = uw_sample_pool_bind(&r->pool, &config, &arena);
    size_t bytes = arena.used_bytes;
    rc = rc < 0 ? rc : uw_board_memory_take(bytes, &r->pool_block.at);
    if (rc == UW_OK) {
        r->pool_block.bytes = bytes;
        uw_arena_init(&arena, r->pool_block.at, bytes);
        rc = uw_sample_pool_bind(&r->pool, &config, &arena);
        uw_arena_seal(&arena);
    }
    if (rc < 0) {
        return uw_error_set(&r->err, rc, "\"shuffle\" %g: %zu bytes for borrowed samples: %s",
                            r->o->shuffle, bytes, uw_status_text(rc));
    }
    *dataset = &r->pool.base;
    return UW_OK;
}

bool uw_node_work_has_means(const float *mean, uint32_t n)
{
    bool found = false;
    for (uint32_t k = 0; mean != NULL && k < n; k++) {
        found = found || mean[k] != 0.0f;
    }
    return found;
}

/* A scale that comes from this node's own data is not that of others. */
static void doubt_scale(const struct uw_node_work *r, const char *weights)
{
    const struct uw_data_columns *c = uw_data_columns(&r->data);
    bool own = weights == NULL && r->o->shards_n == 0 &&
               uw_convert_entry(&r->job.onnx, UW_CONVERT_DATA) == NULL;
    if (c != NULL && own && (uw_node_work_has_means(c->mean, c->features_n) ||
                             uw_node_work_has_means(c->target_mean, c->targets_n))) {
        uw_tell(r->job.listener, "WARNING: scale standard is that of this node's data, and models "
                "of nodes with other data do not fit it: scale=255 and target-scale=N are the same "
                "on all, and so is what a file of \"weights\" keeps");
    }
}

/* The file of the weights that the node starts with: what it says of samples holds for a stream,
 * which does not say it again. NULL: there is none. */
static const char *first_weights(struct uw_node_work *r)
{
    const struct uw_node_options *o = r->o;
    uint64_t bytes;
    bool resumes = uw_data_is_live(o->data) && o->weights == NULL && o->checkpoint != NULL &&
                   r->files.base.ops->size(&r->files.base, o->checkpoint, &bytes) == UW_OK;
    return resumes ? o->checkpoint : o->weights;
}

int uw_node_work_open_data(struct uw_node_work *r)
{
    const struct uw_node_options *o = r->o;
    const char *weights = first_weights(r);
    const struct uw_job_data_config config = {
        .spec = o->data, .loss = o->loss, .weights = weights,
        .data = {.seed = o->seed, .classes_mask = o->classes_mask,
                 .shard = o->skew == NULL ? o->shard_i : 0,
                 .shards_n = o->skew == NULL ? o->shards_n : 0, .live = true}};
    int rc = uw_job_open_data(&r->job, &config, &r->data, &r->test, &r->err);
    if (rc == UW_OK) {
        doubt_scale(r, weights);
    }
    rc = rc < 0 ? rc : take_share(r);
    if (rc < 0) {
        return rc;
    }
    struct uw_dataset *dataset;
    rc = open_pool(r, &dataset);
    if (rc < 0) {
        return rc;
    }
    /* With "skew" a node draws the minibatches that it draws in a simulated run. */
    uint64_t stream = o->skew != NULL ? 2u + (uint64_t)o->shard_i : uw_node_work_name(r);
    const struct uw_loader_config loader = {.dataset = dataset, .batch_n = o->batch,
                                            .seed = uw_rng_mix(o->seed, stream)};
    rc = uw_loader_init(&r->loader, &loader);
    uint64_t per_epoch = ((uint64_t)r->own->samples_n + o->batch - 1u) / o->batch;
    r->steps = o->steps != 0 ? o->steps : o->epochs != 0 ? per_epoch * o->epochs : UINT64_MAX;
    return rc;
}

/* ---- the network ---- */

static void on_event(void *arg, const struct uw_node_event *event)
{
    struct uw_node_work *r = arg;
    uw_node_report_event(&r->report, event);
    uw_node_trace_event(r, event);
}

static struct uw_node_config node_config(struct uw_node_work *r)
{
    const struct uw_node_options *o = r->o;
    struct uw_model *m = &r->job.model;
    float zeros[ADDED_N] = {0};
    struct uw_node_config c = {
        .parts = &uw_node_parts_all,
        .seeds = o->seeds.item,
        .seeds_n = o->seeds.n,
        .keys = r->key.file != NULL && !uw_stack_is_radio(o->carrier) ? &r->key.keys : NULL,
        .incarnation = r->incarnation,
        .vitals = r->sends_vitals,
        .params = &m->params,
        .snapshot = &m->snapshot,
        .velocity = m->velocity,
        .image = uw_node_work_image(r),
        .direct = uw_node_work_direct(r),
        .newcomer = (o->weights == NULL || r->first_step != 0) && o->together == 0,
        .trained_steps = (uint32_t)r->first_step,
        .gradients = r->gradients.bucket_n != NULL ? &r->gradients.config : NULL,
        .agree_us = uw_node_work_agree_us(o),
        .add_byte_s = (float)uw_add_time(zeros, ADDED_N),
        .scratch_n = SCRATCH_N,
        .spare = r->spare.at,
        .samples = r->pool_block.at != NULL ? &r->pool : NULL,
        .queries = &r->queries,
        .seed = uw_rng_mix(o->seed, uw_node_work_name(r) + r->incarnation),
        .release = UWASA_RELEASE,
        .kernels = uw_job_backend_text(&r->job, r->kernels),
        .on_event = on_event,
        .event_arg = r};
    uw_node_config_fill(o, &c);
    /* An emulated cut is between addresses: a further one would lead around it. */
    if ((o->carrier == UW_STACK_UDP || o->carrier == UW_STACK_TCP) && o->emulate_far.n == 0 &&
        o->membership.at != UW_MEMBERSHIP_STATIC) {
        c.own_addresses = uw_stack_own_addresses;
        c.addresses_arg = &r->net.stack;
    }
    return c;
}

static int take_spare(struct uw_node_work *r)
{
    const struct uw_exchange *x = &r->o->exchange;
    uint32_t spare_n = uw_node_spare_n((enum uw_node_mode)x->mode.at, x->rule,
                                       r->job.model.params.size_n);
    if (spare_n == 0) {
        return UW_OK;
    }
    r->spare.bytes = spare_n * sizeof(float);
    int rc = uw_board_memory_take(r->spare.bytes, &r->spare.at);
    return rc < 0 ? uw_error_set(&r->err, rc, "momentum rule %s: %zu bytes are not to be had",
                                 x->rule->name, r->spare.bytes)
                  : UW_OK;
}

static int read_key(struct uw_node_work *r, enum uw_stack_carrier carrier)
{
    const struct uw_node_options *o = r->o;
    if (carrier == UW_STACK_MPI) {
        return UW_OK;
    }
    if (carrier == UW_STACK_TCP && !o->tls) {
        uw_node_report_log(&r->report, "without TLS anyone on the network can read and change "
                                       "messages");
        return UW_OK;
    }
    int rc = uw_keyfile_open(&r->key, o->key, &r->err);
    if (rc == UW_OK && r->key.exposed) {
        uw_node_report_log(&r->report, "key %s can be read by others: chmod 600 it", o->key);
    }
    if (rc == UW_OK && uw_secure_keys_is_revoked(&r->key.keys, 0)) {
        uw_node_report_revoked(&r->report, &r->key);
    }
    return rc;
}

static void report_address(struct uw_node_work *r)
{
    char address[UW_LINK_ADDRESS_BYTES];
    if (r->net.stack.base == &r->net.stack.mpi.link) {
        uw_node_report_log(&r->report, "rank %u of %u", (unsigned)r->net.stack.mpi.rank,
                           (unsigned)r->net.stack.mpi.ranks_n);
    } else if (uw_stack_local(&r->net.stack, address) == UW_OK) {
        uw_node_report_listening(&r->report, r->o->carrier, address,
                                 &r->o->seeds);
    }
}

static size_t model_bytes(const struct uw_node_work *r)
{
    return r->job.model.params.size_n * sizeof(float);
}

static uint32_t mtu(const struct uw_node_work *r, enum uw_stack_carrier carrier)
{
    if (r->o->mtu != 0 || (carrier != UW_STACK_TCP && carrier != UW_STACK_MPI)) {
        return r->o->mtu;
    }
    return uw_stack_stream_mtu(model_bytes(r));
}

/* The checked text after "udp:". */
static const char *group(const struct uw_node_options *o)
{
    return o->link_radio != NULL ? strchr(o->link_radio, ':') + 1 : NULL;
}

/* The profile of a link; its rate already includes the medium's own headers and gaps. */
static struct uw_radio_profile profile_of(const struct uw_link *l)
{
    return (struct uw_radio_profile){
        .rate_bits_per_s = l->rate_bits_per_s,
        .frame_bytes = l->mtu_bytes + (l->frames ? UW_SECURE_FRAMES_OVERHEAD
                                                 : UW_SECURE_OVERHEAD_BYTES),
        .byte_bits = 8, .crossings = 1, .broadcasts = l->shared, .shared = l->shared,
        .frames = l->frames};
}

/* Print the time of an exchange by the cost formula of uwasa plan, if the link's rate is known and
 * that time exceeds the run's, or an hour in a run without an end. */
static void print_cost(struct uw_node_work *r)
{
    const struct uw_node_options *o = r->o;
    const struct uw_link *link = r->net.stack.top;
    bool averages = uw_node_work_broadcasts(o), pulls = o->exchange.mode.at == UW_NODE_GOSSIP;
    double left = o->seconds - (double)uw_node_work_over_us(r) / 1e6;
    if (link->rate_bits_per_s == 0 || !(averages || pulls)) {
        return;
    }
    uint32_t slices = o->exchange.slices > 1u ? o->exchange.slices : 1u;
    const struct uw_link_cost_config config = {
        .link = profile_of(link), .floats_n = (r->job.model.params.size_n - 1u) / slices + 1u,
        .nodes_n = 2, .share = 1.0};
    struct uw_link_cost cost;
    uw_link_cost(&config, &cost);
    double seconds = averages ? cost.average.seconds : cost.pull.seconds;
    if (seconds > (o->seconds > 0.0 ? left : HOUR_S)) {
        char text[UW_TEXT_BYTES];
        uw_node_report_log(&r->report, "%s takes about %s here%s",
                           averages ? "an average of two nodes"
                           : slices > 1u ? "a pull of a slice" : "a pull",
                           uw_text_duration(seconds, text),
                           o->seconds > 0.0 ? ", longer than the run" : "");
    }
}

static struct uw_impairment impairment_of(const struct uw_node_options *o)
{
    return (struct uw_impairment){.loss = (float)o->emulate_loss,
                                  .duplicate = (float)o->emulate_duplicate,
                                  .reorder = (float)o->emulate_reorder,
                                  .corrupt = (float)o->emulate_corrupt,
                                  .delay_us = (uint64_t)(o->emulate_delay_ms * 1e3),
                                  .jitter_us = (uint64_t)(o->emulate_jitter_ms * 1e3),
                                  .rate_bits_per_s = o->emulate_rate,
                                  .mtu_bytes = o->emulate_mtu};
}

int uw_node_work_open(struct uw_node_work *r)
{
    const struct uw_node_options *o = r->o;
    const enum uw_stack_carrier carrier = o->carrier;
    int rc = uw_node_work_open_queries(r);
    rc = rc < 0 ? rc : read_key(r, carrier);
    if (rc < 0) {
        return rc;
    }
    const struct uw_impairment bad = impairment_of(o);
    const struct uw_stack_config stack = {.carrier = carrier,
                                          .plain = !o->tls,
                                          .listen = o->listen,
                                          .device = carrier == UW_STACK_BUS ? o->link_bus
                                                                            : o->link_serial,
                                          .baud = o->link_baud,
                                          .group = group(o),
                                          .interface = o->link_interface,
                                          .address = (uint16_t)o->link_address,
                                          .run = o->run,
                                          .keyfile = r->key.file != NULL ? &r->key : NULL,
                                          .mtu_bytes = mtu(r, carrier),
                                          .together = true,
                                          .bulk = model_bytes(r) >= UW_STACK_BULK_BYTES,
                                          .peers_n = (uint16_t)(carrier == UW_STACK_SERIAL
                                                                    ? LINE_PEERS
                                                                    : o->members),
                                          .bad = &bad,
                                          .bad_seed = uw_rng_mix(o->emulate_seed,
                                                                 uw_node_work_name(r)),
                                          .far = o->emulate_far.item,
                                          .far_n = o->emulate_far.n,
                                          .cut_from_us = (uint64_t)(o->emulate_cut_after * 1e6),
                                          .cut_us = (uint64_t)(o->emulate_cut_seconds * 1e6),
                                          .pcap = o->pcap,
                                          .event = uw_node_report_secure,
                                          .on_device = uw_node_report_device,
                                          .narrow = uw_node_report_narrow,
                                          .on_keys = uw_node_report_keys,
                                          .user = &r->report};
    rc = take_spare(r);
    if (rc < 0) {
        return rc;
    }
    const struct uw_node_config node = node_config(r);
    bool listed = r->o->membership.at == UW_MEMBERSHIP_STATIC;
    rc = uw_node_net_open(&r->net, &stack, &node, listed, &r->err);
    if (rc == UW_OK) {
        report_address(r);
        print_cost(r);
    }
    return rc;
}
