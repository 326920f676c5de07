/* SPDX-License-Identifier: Apache-2.0
 *
 * folders.h - samples that are files in a folder a class: DIR[,TESTDIR][,OPTION...] (private)
 *
 *     uw_folders_open(&f, text);          options are read and files listed
 *     uw_folders_number(&f);              classes are numbered, files for testing chosen
 *     uw_folders_wants(&f, i) ...         f.files are those of the set
 *     uw_folders_tell(&f, "");
 *     uw_folders_close(&f);
 *
 * Memory     paths, from the heap      Blocking  reads folders      Context  one thread
 */
#ifndef UWASA_DATA_FOLDERS_H
#define UWASA_DATA_FOLDERS_H

#include "folder_list.h"
#include "notes.h"
#include "table_options.h"
#include "uwasa/data.h"

struct uw_folders {
    /* set by the caller */
    const struct uw_folder_kind *kind;
    const struct uw_data_config *config;
    struct uw_data_columns *columns;    /* classes and counts are filled in */
    struct uw_notes *notes;
    struct uw_error *err;

    struct uw_table_options o;
    char folder[2][UW_FILE_PATH_BYTES + 16];    /* of training and test set; "": none */
    struct uw_folder_list list[2];
    const struct uw_folder_list *files;     /* of the set that is opened */
    bool *test;                     /* [list[0].n] NULL: not split; may be set before numbering */
    bool *out;                      /* [list[0].n] in neither set; NULL: none */
};

/* Read the options and list the files. Returns the codes of uw_data_open. Close in any case. */
int uw_folders_open(struct uw_folders *f, const char *text);

/* Number the classes and, where nothing else says it, choose files for testing. */
int uw_folders_number(struct uw_folders *f);

/* Whether file i of f->files is in the set. */
bool uw_folders_wants(const struct uw_folders *f, uint32_t i);

/* Note what was found.
 *   how  how files for testing were chosen, ", by ..."; "": by a hash, if at all
 *   end  of the sentence */
void uw_folders_tell(struct uw_folders *f, const char *how, const char *end);

/* "no memory". Returns UW_ERR_NOMEM. */
int uw_folders_no_memory(const struct uw_folders *f);

void uw_folders_close(struct uw_folders *f);

#endif
