/* SPDX-License-Identifier: Apache-2.0
 *
 * results.h - checks that no output file is also an input file: outputs overwrite
 *
 * Memory     none      Blocking   as stat(2)      Context  any thread
 */
#ifndef UWASA_CLI_RESULTS_H
#define UWASA_CLI_RESULTS_H

#include "uwasa/status.h"

#include <stdint.h>

struct uw_named_file {
    const char *flag;           /* "--json" */
    const char *file;           /* NULL: not given; for inputs also "csv:FILE", "idx:A,B" */
    const char *goes_on;        /* for outputs: "--resume", which may read the same file */
};

/* The files that --model or --data names; NULL: it is built in. */
const char *uw_files_of_model(const char *model);
const char *uw_files_of_data(const char *data);

/* Check that all output files differ from each other and from every input file, even if links give
 * one file two names. "mnist:DIR" and "images:DIR" read all data in DIR and its folders, an ONNX
 * model what is called as it is, with more behind. "-", pipes and devices are not checked.
 * Returns UW_OK, or UW_ERR_INVALID with err naming both flags. */
int uw_check_results(const struct uw_named_file *results, uint32_t results_n,
                     const struct uw_named_file *read, uint32_t read_n, struct uw_error *err);

#endif
