/* SPDX-License-Identifier: Apache-2.0 */
#include "job_weights.h"

#include "job_names.h"
#include "base/open_file.h"

#include "uwasa/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HOLD_TRIES 20u
#define HOLD_WAIT_NS 50000000

/* ---- files that are read ---- */

const char *uw_job_weights_file(const char *weights, char file[UW_JOB_PATH_BYTES])
{
    static const char loose[] = ",loose";
    size_t n = weights != NULL ? strlen(weights) : 0, tail = sizeof loose - 1;
    if (n <= tail || !uw_args_ends_in(weights, loose) || n - tail >= UW_JOB_PATH_BYTES) {
        return weights;
    }
    memcpy(file, weights, n - tail);
    file[n - tail] = '\0';
    return file;
}

/* Whether a file is none of safetensors but a PyTorch archive, or an ONNX model: says so. */
static int name_other_format(const char *file, struct uw_error *err)
{
    char head[4] = "";
    FILE *f = uw_open_file(file, false);
    size_t n = f != NULL ? fread(head, 1, sizeof head, f) : 0;
    if (f != NULL) {
        fclose(f);
    }
    if (n == sizeof head && memcmp(head, "PK\003\004", 4) == 0) {
        return uw_error_set(err, UW_ERR_CORRUPT, "%.160s: an archive of PyTorch, not safetensors: "
                            "safetensors.torch.save_file(model.state_dict(), \"NAME.safetensors\") "
                            "writes what is read here", file);
    }
    if (uw_args_ends_in(file, ".onnx")) {
        return uw_error_set(err, UW_ERR_CORRUPT, "%.160s: an ONNX file has its weights inside: "
                            "--model %.160s", file, file);
    }
    return UW_ERR_CORRUPT;
}

int uw_job_load_weights(struct uw_job *j, const char *file, struct uw_error *err)
{
    struct uw_storage_file files;
    char text[UW_JOB_PATH_BYTES];
    const char *name = uw_job_weights_file(file, text);
    int rc = uw_storage_file_init(&files, NULL);
    rc = rc < 0 ? rc : uw_job_take_weights(j, &files.base, name, name != file,
                                           "--weights FILE,loose", err);
    j->weights = file;
    uw_storage_file_deinit(&files);
    return rc == UW_ERR_CORRUPT ? name_other_format(name, err) : rc;
}

int uw_job_take_weights(struct uw_job *j, struct uw_storage *storage, const char *object,
                        bool loose, const char *how, struct uw_error *err)
{
    struct uw_job_names names;
    uint64_t bytes;
    j->weights = object;
    j->loose = loose;
    int rc = uw_job_names_find(&names, j, !loose, storage, object, err);
    if (rc == UW_OK) {
        rc = uw_checkpoint_load_weights(&j->model, loose, &names.names, &j->found, storage, object,
                                        err);
    }
    memcpy(j->named, names.note, sizeof j->named);
    uw_job_names_close(&names);
    bool misfits = rc == UW_ERR_MISMATCH || rc == UW_ERR_NOTFOUND;
    if (misfits && !loose && storage->ops->size(storage, object, &bytes) == UW_OK) {
        struct uw_error why = *err;
        uw_error_set(err, rc, "%.205s; %.25s takes what fits", why.text, how);
    }
    return rc;
}

/* "; 3 tensors of the file are ..., the first NAME" */
static void add_found(char *text, size_t *used, const struct uw_weights_tensors *t,
                      const char *what)
{
    if (t->n > 0 && *used < UW_JOB_NOTE_BYTES) {
        *used += (size_t)snprintf(text + *used, UW_JOB_NOTE_BYTES - *used,
                                  "%s%u tensor%s %s (%s%.100s)", *used > 0 ? "; " : "",
                                  (unsigned)t->n, t->n > 1 ? "s" : "", what,
                                  t->n > 1 ? "first: " : "", t->first);
    }
}

const char *uw_job_note(const struct uw_job *j, uint32_t i, char text[UW_JOB_NOTE_BYTES])
{
    const struct uw_weights_report *f = &j->found;
    if (i < j->onnx.notes_n) {
        snprintf(text, UW_JOB_NOTE_BYTES, "%s: %s", j->file.json.file, j->onnx.notes[i]);
        return text;
    }
    if (i > j->onnx.notes_n || j->weights == NULL) {
        return NULL;
    }
    char all[UW_JOB_NOTE_BYTES] = "", widened[48];
    size_t used = 0;
    if (j->named[0] != '\0') {
        used += (size_t)snprintf(all, sizeof all, "%s", j->named);
    }
    snprintf(widened, sizeof widened, "of %.7s converted to float32", f->type);
    add_found(all, &used, &f->widened, widened);
    add_found(all, &used, &f->unknown, "not in the model, left out");
    if (j->loose) {
        add_found(all, &used, &f->missing, "not in the file, as at the start");
        add_found(all, &used, &f->reshaped, "of another shape than in the model, as at the start");
    }
    snprintf(text, UW_JOB_NOTE_BYTES, "%.200s: %.430s", j->weights, all);
    return used > 0 ? text : NULL;
}

void uw_job_print_notes(const struct uw_job *j)
{
    char text[UW_JOB_NOTE_BYTES];
    for (uint32_t i = 0; uw_job_note(j, i, text) != NULL; i++) {
        uw_tell(j->listener, "%s", text);
    }
}

/* ---- files that are written ---- */

uint64_t uw_job_layers(const struct uw_job *j)
{
    struct uw_model_def def = *j->model.config.def;
    def.name = "";
    def.losses = NULL;
    int n = uw_model_write(&def, NULL, 0);
    char *text = n > 0 ? malloc((size_t)n + 1u) : NULL;
    uint64_t hash = 0;
    if (text != NULL && uw_model_write(&def, text, (size_t)n + 1u) == n) {
        hash = uw_hash64(UW_HASH64_START, text, (size_t)n);
    }
    free(text);
    return hash;
}

int uw_job_check_state(const struct uw_job *j, bool exact, const char *option,
                       const struct uw_checkpoint *state, const char *file, struct uw_error *err)
{
    uint64_t layers = state->layers != 0 ? uw_job_layers(j) : 0;
    if (layers != 0 && state->layers != layers) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "%.120s: was saved by another model, whose layers differ from those of "
                            "%.60s though their shapes are the same; its weights can start a new "
                            "run", file, j->model.config.def->name);
    }
    if (exact && state->exact == 0) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "%s: %.120s was trained without it, so its bits depend on the "
                            "processor; its weights can start a new run", option, file);
    }
    if (!exact && state->exact != 0) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "%.120s was trained with %s: give it again; its weights can start a "
                            "new run", file, option);
    }
    if (exact && (state->mode != j->model.config.mode ||
                  state->micro_n != j->model.config.micro_n)) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "%s: %.120s was trained with another --mode or --micro-batch, which "
                            "sums in another order", option, file);
    }
    return UW_OK;
}

int uw_job_guard_save(const char *what, const char *file, struct uw_error *err)
{
    char head[9];
    FILE *f = file != NULL ? uw_open_file(file, false) : NULL;
    if (f == NULL) {
        return UW_OK;
    }
    size_t n = fread(head, 1, sizeof head, f);
    fclose(f);
    if (n == 0 || (n == sizeof head && head[8] == '{')) {
        return UW_OK;
    }
    return uw_error_set(err, UW_ERR_INVALID,
                        "%s %.160s: exists and holds no weights (safetensors); it is not replaced",
                        what, file);
}

const char *uw_job_why_unsaved(int rc)
{
    return rc == UW_ERR_AGAIN      ? "another process is writing it"
           : rc == UW_ERR_NOTFOUND ? "its folder does not exist"
           : rc == UW_ERR_INVALID  ? "it is not a regular file"
           : rc == UW_ERR_DENIED   ? "permission is missing, or the disk is read-only"
                                   : uw_status_text(rc);
}

int uw_job_hold_save(struct uw_storage_file *files, const char *what, const char *file,
                     struct uw_error *err)
{
    int rc = file != NULL ? uw_storage_file_hold(files, file) : UW_OK;
    for (uint32_t i = 0; rc == UW_ERR_AGAIN && i < HOLD_TRIES; i++) {
        nanosleep(&(struct timespec){.tv_nsec = HOLD_WAIT_NS}, NULL);
        rc = uw_storage_file_hold(files, file);
    }
    if (rc == UW_ERR_AGAIN) {
        return uw_error_set(err, UW_ERR_IO, "%s %.180s: another running program uses this file; "
                            "end that one, or name a file of this one's own", what, file);
    }
    return uw_job_try_save(&files->base, what, file, err);
}

int uw_job_try_save(struct uw_storage *s, const char *what, const char *file,
                    struct uw_error *err)
{
    int rc = file != NULL ? s->ops->begin(s, file) : UW_OK;
    if (rc == UW_OK && file != NULL) {
        rc = s->ops->end(s, 0);
    }
    if (rc < 0) {
        return uw_error_set(err, rc, "%s %.180s: cannot be written: %s", what, file,
                            uw_job_why_unsaved(rc));
    }
    return UW_OK;
}
