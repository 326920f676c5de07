/* SPDX-License-Identifier: Apache-2.0
 *
 * results.h - files for results, which replace what is there, are none of those that are read
 *
 * Memory     none      Blocking   as stat(2)      Context  any thread
 */
#ifndef UWASA_CLI_RESULTS_H
#define UWASA_CLI_RESULTS_H

#include "uwasa/status.h"

#include <stdint.h>

struct uw_named_file {
    const char *flag;           /* "--json" */
    const char *file;           /* NULL: not given; of what is read also "csv:FILE", "idx:A,B" */
    const char *goes_on;        /* of results: "--resume", which may read the same file */
};

/* The files that --model or --data names; NULL: it is built in. */
const char *uw_files_of_model(const char *model);
const char *uw_files_of_data(const char *data);

/* Does no file of results have another one of them, or one that is read, under whatever name? Of
 * "mnist:DIR" all files in DIR are read. "-", pipes and devices do not count.
 * Returns UW_OK, or UW_ERR_INVALID with err naming both flags. */
int uw_check_results(const struct uw_named_file *results, uint32_t results_n,
                     const struct uw_named_file *read, uint32_t read_n, struct uw_error *err);

#endif
