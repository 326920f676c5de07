/* SPDX-License-Identifier: Apache-2.0
 *
 * sounds_lists.h - which clips of a folder of sounds are for testing, and which are in no set
 * (private)
 *
 * Speech Commands, and sets like it, name the clips of the test and the validation set in
 * testing_list.txt and validation_list.txt, as "yes/clip.wav", beside the classes' folders.
 */
#ifndef UWASA_DATA_SOUNDS_LISTS_H
#define UWASA_DATA_SOUNDS_LISTS_H

#include "folders.h"

#include <stddef.h>

/* Read the lists of f->folder[0], if it has them and there is no second folder: set f->test and
 * f->out.
 *   validation  test with validation_list.txt
 *   how         set to how clips for testing are chosen; "": by no list
 * Returns UW_OK, UW_ERR_NOTFOUND (a list is asked for that is not there), or the codes of
 * uw_file_open; err filled. */
int uw_sounds_take_lists(struct uw_folders *f, bool validation, char *how, size_t how_bytes);

/* Leave out clips of UW_FOLDER_OTHERS where they are more than those of any other class. Returns
 * UW_OK or UW_ERR_NOMEM. */
int uw_sounds_thin_others(struct uw_folders *f);

#endif
