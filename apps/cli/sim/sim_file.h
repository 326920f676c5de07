/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_file.h - scenario files: the devices of a simulated run, and how they learn, as JSON
 *
 * The keys of a file are the flags of uwasa sim, with _ for -, and keys that describe the devices.
 * apps/sim/README.md lists all. An error is one sentence, with file, line and path.
 *
 *     uw_sim_file_load(&f, "fleet.json", opts, &options, &err);
 *     uw_sim_file_flags(&f, &flags, cells, &err);      flags about the devices
 *     uw_sim_draw_open(&draw, &f.scenario, ...);
 *     uw_sim_file_close(&f);
 *
 * Memory     heap; texts in the options live until close      Context  one thread
 */
#ifndef UWASA_CLI_SIM_FILE_H
#define UWASA_CLI_SIM_FILE_H

#include "base/json_read.h"

#include "uwasa/sim_scenario.h"

#define UW_SIM_NODES 16u                /* by default */
#define UW_SIM_BANDWIDTH 1000000000u    /* bits a second */
#define UW_SIM_LATENCY 0.005            /* seconds from node to node */
#define UW_SIM_CELL_NODES 4u
/* Whether it defines cells. */
static inline bool uw_sim_has_cells(const struct uw_sim_cells *c)
{
    return c->nodes != 0 || c->cells != 0 || c->sizes_n != 0;
}

#define UW_SIM_TRACES_MAX (UW_SIM_GROUPS_MAX + 1u)

struct uw_sim_options;

struct uw_sim_file {
    struct uw_sim_scenario scenario;    /* without its seed */
    struct uw_json json;                /* root NULL: no file */
    bool grouped;                       /* the nodes come in groups, each with its count */

    /* private */
    struct uw_sim_away *traces[UW_SIM_TRACES_MAX];
    char *trace_files[UW_SIM_TRACES_MAX];       /* the files they were read from */
    uint32_t traces_n;
};

/* A fleet of equal devices that measure how long a step takes.
 * Returns UW_OK or UW_ERR_NOMEM. Close in every case. */
int uw_sim_file_plain(struct uw_sim_file *f, struct uw_error *err);

/* Read a file: keys of the table into `options`, the devices into f->scenario. Names of other files
 * in it are relative to its folder.
 * Returns UW_OK, an error of uw_json_open_file, UW_ERR_INVALID, UW_ERR_NOMEM; err is filled. Close
 * in every case. */
int uw_sim_file_load(struct uw_sim_file *f, const char *file, struct uw_opts opts, void *options,
                     struct uw_error *err);

/* The same from a text. */
int uw_sim_file_parse(struct uw_sim_file *f, const char *file, const char *text, size_t text_bytes,
                      struct uw_opts opts, void *options, struct uw_error *err);

/* Apply the flags about devices, which override the file. A bandwidth limits what devices send;
 * they receive without limit. Of `flags` these are used: nodes and cell_nodes (0: not given),
 * bandwidth (UINT64_MAX), latency, loss and step_seconds (below 0; step_seconds 0: measured).
 *   cells  the exchange needs some, of UW_SIM_CELL_NODES
 * Returns UW_OK, or UW_ERR_INVALID with err naming a flag that contradicts the file. */
int uw_sim_file_flags(struct uw_sim_file *f, const struct uw_sim_options *flags, bool cells,
                      struct uw_error *err);

/* Check that a file with "link" has no keys about networks, which a radio would ignore.
 * Returns UW_OK, or UW_ERR_INVALID with err naming the first of them. */
int uw_sim_file_check_radio(const struct uw_sim_file *f, struct uw_error *err);

/* The name of an option for messages: "--skew sorted" or, if the file set that value,
 * "fleet.json:3: "skew" sorted".
 *   value  as uw_opt_text writes it
 * Returns text. */
const char *uw_sim_file_where(const struct uw_sim_file *f, const char *flag, const char *value,
                              char *text, size_t text_bytes);

/* Safe on a zeroed struct and twice. */
void uw_sim_file_close(struct uw_sim_file *f);

#endif
