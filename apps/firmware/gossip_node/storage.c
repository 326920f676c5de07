/* SPDX-License-Identifier: Apache-2.0 */
#include "gossip_node.h"

#include <stdio.h>
#include <string.h>

enum { SETTINGS, BOOTS, MODEL, OBJECTS_N };

/* Settings and the count of starts come first: their places do not depend on the model. */
static struct uw_storage_flash_object objects[OBJECTS_N] = {
    {"settings", UW_SETTINGS_TEXT_BYTES}, {"boots", 16}, {"model", 0}};

static int open_storage(struct uw_firmware *f, uint32_t objects_n)
{
    const struct uw_storage_flash_config c = {.flash = uw_machine.flash, .objects = objects,
                                              .objects_n = objects_n};
    return uw_machine.flash == NULL ? UW_ERR_UNSUPPORTED : uw_storage_flash_init(&f->storage, &c);
}

/* Returns the bytes read, 0: there is no such object. */
static size_t read_object(struct uw_firmware *f, int object, void *buf, size_t cap_bytes)
{
    struct uw_storage *s = &f->storage.base;
    uint64_t bytes = 0;
    if (s->ops->size(s, objects[object].name, &bytes) < 0 || bytes > cap_bytes ||
        s->ops->read(s, objects[object].name, 0, buf, (size_t)bytes) < 0) {
        return 0;
    }
    return (size_t)bytes;
}

static int write_object(struct uw_firmware *f, int object, const void *buf, size_t bytes)
{
    struct uw_storage *s = &f->storage.base;
    int rc = s->ops->begin(s, objects[object].name);
    if (rc < 0) {
        return rc;
    }
    rc = s->ops->append(s, buf, bytes);
    int ended = s->ops->end(s, rc == UW_OK);
    return rc < 0 ? rc : ended;
}

/* The name of the flash's file must be known before the flash is read. */
static int open_flash_file(struct uw_firmware *f, const char *words)
{
    struct uw_settings *s = &f->settings;
    int rc = uw_settings_read(s, words, &f->err);
    if (rc < 0 || s->flash[0] == '\0') {
        return rc;
    }
    rc = uw_machine_flash_file(s->flash);
    return rc < 0 ? uw_error_set(&f->err, rc, "flash=%s: cannot be used", s->flash) : UW_OK;
}

/* Read saved settings. Another program may have saved them, so invalid ones are skipped. */
static void read_kept(struct uw_firmware *f, char *words)
{
    while (*words != '\0') {
        size_t n = strcspn(words, " ");
        char *next = words + n + (words[n] == ' ' ? 1 : 0);
        words[n] = '\0';
        if (uw_settings_read(&f->settings, words, &f->err) < 0) {
            uw_console_line("settings in flash: %s", f->err.text);
        }
        words = next;
    }
}

static int read_settings(struct uw_firmware *f, char words[UW_SETTINGS_TEXT_BYTES],
                         char kept[UW_SETTINGS_TEXT_BYTES])
{
    uw_settings_init(&f->settings);
    int rc = uw_machine_arguments(words, UW_SETTINGS_TEXT_BYTES);
    if (rc < 0) {
        return rc == UW_ERR_TOOBIG
                   ? uw_error_set(&f->err, rc, "arguments: at most %u characters",
                                  UW_SETTINGS_TEXT_BYTES - 1u)
                   : uw_error_set(&f->err, rc, "arguments: @FILE: %s", uw_status_text(rc));
    }
    rc = open_flash_file(f, words);
    if (rc < 0) {
        return rc;
    }
    uw_settings_init(&f->settings);
    if (open_storage(f, MODEL) == UW_OK) {
        size_t n = read_object(f, SETTINGS, kept, UW_SETTINGS_TEXT_BYTES - 1u);
        kept[n] = '\0';
        if (n == 0 && !uw_storage_flash_blank(&f->storage, SETTINGS)) {
            uw_console_line("settings in flash: %s", uw_status_text(UW_ERR_CORRUPT));
        }
        read_kept(f, kept);
    }
    f->kept = f->settings;
    rc = uw_settings_read(&f->settings, words, &f->err);
    return rc < 0 ? rc : uw_settings_check(&f->settings, &f->err);
}

/* Wipes its words: they contain the key. */
int uw_firmware_open_settings(struct uw_firmware *f)
{
    char text[2][UW_SETTINGS_TEXT_BYTES];
    int rc = read_settings(f, text[0], text[1]);
    uw_key_wipe(text, sizeof text);
    return rc;
}

int uw_firmware_save_settings(struct uw_firmware *f)
{
    char words[UW_SETTINGS_TEXT_BYTES];
    if (uw_settings_check(&f->kept, &f->err) < 0) {
        return UW_ERR_INVALID;
    }
    int n = uw_settings_write(&f->kept, words, sizeof words);
    int rc = n < 0 ? n : f->storage.flash == NULL ? UW_ERR_UNSUPPORTED
                                                  : write_object(f, SETTINGS, words, (size_t)n);
    uw_key_wipe(words, sizeof words);
    return rc < 0 ? uw_error_set(&f->err, rc, "settings are not kept: %s", uw_status_text(rc))
                  : UW_OK;
}

static void count_start(struct uw_firmware *f)
{
    uint32_t boots = 0;
    if (f->storage.flash != NULL) {
        (void)read_object(f, BOOTS, &boots, sizeof boots);
        boots++;
        (void)write_object(f, BOOTS, &boots, sizeof boots);
    }
    f->boots = boots != 0 ? boots : 1u;
}

/* While flash is being erased the console must wait: a command could use the flash. */
static void while_erasing(void *arg)
{
    struct uw_firmware *f = arg;
    f->erasing = true;
    uw_firmware_poll(f);
    f->erasing = false;
}

/* A checkpoint in flash: this struct, the parameters, and the velocity if there is one. It has no
 * names of tensors, to keep the code small; the storage checks a CRC over everything. */
struct record {
    char magic[4];
    uint32_t format, vectors_n, step, position, parameters_n, trained_s;
    uint64_t model, epoch;
};

#define MAGIC "uwck"
#define FORMAT 2u

/* Refuse parameters of a run that diverged: no step would succeed with them. */
static int check_finite(const struct uw_firmware *f, const float *x)
{
    const struct uw_model *m = &f->model;
    return m->config.kernels->all_finite(&m->exec, m->params.size_n, x) ? UW_OK
                                                                        : UW_ERR_NONFINITE;
}

static int load(struct uw_firmware *f)
{
    struct uw_storage *s = &f->storage.base;
    const struct uw_params *p = &f->model.params;
    const char *name = objects[MODEL].name;
    struct record r;
    uint64_t bytes = 0;
    int rc = s->ops->size(s, name, &bytes);
    if (rc == UW_OK && bytes == 0) {
        return UW_OK;                   /* forgotten */
    }
    rc = rc < 0 ? rc : s->ops->read(s, name, 0, &r, sizeof r);
    if (rc < 0) {
        return rc;
    }
    size_t vector = (size_t)p->size_n * sizeof(float);
    if (memcmp(r.magic, MAGIC, sizeof r.magic) != 0 || r.format != FORMAT || r.vectors_n == 0 ||
        r.model != p->hash || r.parameters_n != p->size_n ||
        bytes != sizeof r + r.vectors_n * vector) {
        return UW_ERR_MISMATCH;
    }
    rc = s->ops->read(s, name, sizeof r, p->x, vector);
    if (rc == UW_OK && r.vectors_n > 1u && f->model.velocity != NULL) {
        rc = s->ops->read(s, name, sizeof r + vector, f->model.velocity, vector);
        rc = rc == UW_OK ? check_finite(f, f->model.velocity) : rc;
    }
    rc = rc == UW_OK ? check_finite(f, p->x) : rc;
    if (rc == UW_OK) {
        f->step = r.step;
        f->trained_us = r.trained_s * UINT64_C(1000000);
        f->loader.epoch = r.epoch;
        f->loader.position = r.position % f->loader.config.dataset->samples_n;
    }
    return rc;
}

static int store(struct uw_firmware *f)
{
    struct uw_storage *s = &f->storage.base;
    const struct uw_params *p = &f->model.params;
    size_t vector = (size_t)p->size_n * sizeof(float);
    const struct record r = {.magic = MAGIC, .format = FORMAT,
                             .vectors_n = f->model.velocity != NULL ? 2u : 1u, .step = f->step,
                             .position = f->loader.position, .parameters_n = p->size_n,
                             .trained_s = (uint32_t)(uw_firmware_trained_us(f) / 1000000u),
                             .model = p->hash, .epoch = f->loader.epoch};
    int rc = s->ops->begin(s, objects[MODEL].name);
    if (rc < 0) {
        return rc;
    }
    rc = s->ops->append(s, &r, sizeof r);
    rc = rc < 0 ? rc : s->ops->append(s, p->x, vector);
    rc = rc < 0 || f->model.velocity == NULL ? rc : s->ops->append(s, f->model.velocity, vector);
    int ended = s->ops->end(s, rc == UW_OK);
    return rc < 0 ? rc : ended;
}

int uw_firmware_open_checkpoint(struct uw_firmware *f)
{
    count_start(f);
    size_t bytes = sizeof(struct record) + 2u * f->model.params.size_n * sizeof(float);
    objects[MODEL].bytes_max = (uint32_t)bytes;
    f->storage_open = open_storage(f, OBJECTS_N) == UW_OK;
    if (!f->storage_open) {
        uw_console_line("no checkpoints: flash has no room for two of %u bytes", (unsigned)bytes);
        (void)open_storage(f, MODEL);
        return UW_OK;
    }
    uw_machine.flash->idle = while_erasing;
    uw_machine.flash->idle_arg = f;
    int rc = load(f);
    if (rc == UW_ERR_NOTFOUND && !uw_storage_flash_blank(&f->storage, MODEL)) {
        rc = UW_ERR_CORRUPT;            /* in both slots */
    }
    if (rc < 0 && rc != UW_ERR_NOTFOUND) {
        uw_console_line("checkpoint: %s; starting afresh", uw_status_text(rc));
        uw_model_init_weights(&f->model, f->settings.seed);
        if (f->model.velocity != NULL) {
            memset(f->model.velocity, 0, f->model.params.size_n * sizeof(float));
        }
    }
    return UW_OK;
}

int uw_firmware_forget_checkpoint(struct uw_firmware *f)
{
    int rc = f->storage_open ? write_object(f, MODEL, NULL, 0) : UW_ERR_UNSUPPORTED;
    return rc < 0 ? uw_error_set(&f->err, rc, "no checkpoint to forget: %s", uw_status_text(rc))
                  : UW_OK;
}

int uw_firmware_save_checkpoint(struct uw_firmware *f)
{
    int rc = store(f);
    f->saved_us = uw_machine_now_us();
    if (rc < 0) {
        uw_console_line("checkpoint: %s; training goes on", uw_status_text(rc));
    }
    return rc;
}
