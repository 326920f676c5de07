/* SPDX-License-Identifier: Apache-2.0
 *
 * node_report.h - the reports of a node: events as JSON lines, sentences for people
 *
 * Memory     events use the heap      Blocking  the file's and terminal's
 * Context    uw_node_report_event, _secure and _device: network thread; the rest: training
 *            thread
 */
#ifndef UWASA_CLI_NODE_REPORT_H
#define UWASA_CLI_NODE_REPORT_H

#include "node_net.h"
#include "base/events.h"
#include "base/progress.h"
#include "job/job_score.h"

struct uw_node_report {
    struct uw_events events;
    struct uw_progress progress;
    pthread_mutex_t lock;           /* of progress: both threads write sentences */
    uint64_t status_us;             /* when members were last looked at */
    uint64_t every_us;              /* least time between two events step, status, and pull or
                                       average of a kind; 0: none */
    uint64_t step_us, table_us;     /* last events step and status; 0: none yet */
    uint64_t kind_us[UW_NODE_EVENTS_N];     /* ... pull and average; of the network thread */
    uint64_t alone_us;              /* when to report that no seed answers; 0: done */
    atomic_bool refused;            /* a peer or this node was refused, and that was reported */
    _Atomic uint32_t refused_n;     /* events "refused" */
    const struct uw_opt_list *seeds;    /* borrowed; NULL: not listening yet */
    enum uw_stack_carrier carrier;
    char address[UW_LINK_ADDRESS_BYTES];    /* its own */
    uint32_t unreached[8];          /* hashes of peers that were reported as such, ... */
    uint32_t unreached_n;           /* ... so many */
    uint64_t waiting_us;            /* since when the first average waits; 0: it does not */
    bool waiting_logged;
    bool broadcasts;                /* parameters are received in averages, not pulled */
    uint32_t agreed_n;              /* nodes that ended with one model by broadcast; 0: unknown */
    _Atomic uint32_t averaged_n;    /* nodes of the last average, with this one; 0: none yet */
    double loss, samples_per_s, accuracy;   /* for the live line; accuracy < 0: not known */
};

/* Contents of the done event. */
struct uw_node_summary {
    uint64_t step, samples;
    double samples_per_s, seconds;
    size_t arena_bytes, network_bytes;
    const struct uw_score *score;   /* NULL: never tested */
    bool interrupted;
    uint32_t still_s;               /* it stood still at the end; 0: it did not */
    struct uw_node_counters counters;
};

void uw_node_report_init(struct uw_node_report *r);

/* Start writing events behind what is in the file. Returns UW_OK or UW_ERR_IO, err filled. */
int uw_node_report_open(struct uw_node_report *r, const char *path, const char *name,
                        struct uw_error *err);

/* Begin each line with the name, as several ranks write to one pipe. */
void uw_node_report_rank(struct uw_node_report *r, const char *name);

/* Report the backend of a bound job as an event. */
void uw_node_report_backend(struct uw_node_report *r, const struct uw_job *job);

/* The network is up: report the node's address; later also if no seed answers, or if nothing is
 * received on a line or radio. */
void uw_node_report_listening(struct uw_node_report *r, enum uw_stack_carrier carrier,
                              const char *address, const struct uw_opt_list *seeds);

/* Called while the training waits for the network. If that is the first average of nodes_n nodes,
 * of a cell or of the run: report once, after a moment, how many are missing. */
void uw_node_report_waiting(struct uw_node_report *r, struct uw_node_net *net, uint64_t now_us,
                            uint32_t nodes_n);

/* A sentence for people. */
void uw_node_report_log(struct uw_node_report *r, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

void uw_node_report_step(struct uw_node_report *r, uint64_t step, double loss, double samples,
                         double samples_per_s);
void uw_node_report_eval(struct uw_node_report *r, uint64_t step, const struct uw_score *score,
                         bool final);

/* Once a second: report the member table as an event, and a line for people. left_s: seconds of
 * training left; below 0: unknown. */
void uw_node_report_status(struct uw_node_report *r, struct uw_node_net *net, uint64_t now_us,
                           uint64_t step, uint64_t steps, double left_s);

/* Does a node stand still, idle_us after its last step: for 30 seconds, and for ten usual rounds of
 * period steps, where `steps` took took_us? */
bool uw_node_report_is_still(uint64_t idle_us, uint64_t took_us, uint64_t steps, uint32_t period);

/* It stands still after that step (over: no more), for so long. */
void uw_node_report_still(struct uw_node_report *r, uint64_t step, uint64_t idle_us, bool over);

/* Add a node's counters to an event. */
void uw_node_counters_put(cJSON *ev, const struct uw_node_counters *c);

void uw_node_report_done(struct uw_node_report *r, const struct uw_node_summary *s);

/* Callbacks of the node, of the secure channel and of the links; arg is the report. */
void uw_node_report_event(void *arg, const struct uw_node_event *event);
void uw_node_report_secure(void *arg, const struct uw_secure_event *event);
void uw_node_report_device(void *arg, const char *device, bool gone);
void uw_node_report_narrow(void *arg, const char *address, uint32_t segment_bytes);
void uw_node_report_keys(void *arg, const struct uw_keyfile *f, const struct uw_keyfile_news *news);

/* Report that this node's own device is revoked. */
void uw_node_report_revoked(struct uw_node_report *r, const struct uw_keyfile *f);

/* Finish. Returns UW_OK, or UW_ERR_IO when an event could not be written. */
int uw_node_report_close(struct uw_node_report *r, struct uw_error *err);

#endif
