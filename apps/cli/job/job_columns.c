/* SPDX-License-Identifier: Apache-2.0 */
#include "job_columns.h"

#include "job_data.h"
#include "job_weights.h"
#include "base/open_file.h"
#include "base/utf8.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES_MAX 100000000u

/* ---- writing ---- */

/* A name as UTF-8: bytes that are none become question marks. */
static cJSON *name_of(const char *name)
{
    char *copy = strdup(name);
    for (char *c = copy; c != NULL && *c != '\0';) {
        size_t n = uw_utf8_bytes(c, 4);
        *c = n == 0 ? '?' : *c;
        c += n == 0 ? 1 : n;
    }
    cJSON *item = copy != NULL ? cJSON_CreateString(copy) : NULL;
    free(copy);
    return item;
}

static void add_names(cJSON *to, const char *key, char *const *names, uint32_t n)
{
    cJSON *list = names != NULL ? cJSON_AddArrayToObject(to, key) : NULL;
    for (uint32_t i = 0; list != NULL && i < n; i++) {
        cJSON_AddItemToArray(list, name_of(names[i]));
    }
}

static void add_numbers(cJSON *to, const char *key, const float *x, uint32_t n)
{
    cJSON *list = x != NULL ? cJSON_AddArrayToObject(to, key) : NULL;
    for (uint32_t i = 0; list != NULL && i < n; i++) {
        char text[32];
        snprintf(text, sizeof text, "%.9g", (double)x[i]);
        cJSON_AddItemToArray(list, cJSON_CreateRaw(text));
    }
}

static void add_places(cJSON *to, const struct uw_data_columns *c)
{
    cJSON *list = c->places != NULL ? cJSON_AddArrayToObject(to, "columns") : NULL;
    for (uint32_t i = 0; list != NULL && i < c->features_n; i++) {
        cJSON_AddItemToArray(list, cJSON_CreateNumber((double)c->places[i] + 1.0));
    }
    if (list != NULL) {
        cJSON_AddNumberToObject(to, "columns_n", c->columns_n);
    }
}

/* The whole numbers of struct uw_sound_config, and how they are called. */
static uint32_t *sound_member(struct uw_sound_config *c, uint32_t i, const char **key)
{
    static const char *const keys[] = {"rate_hz", "window_n", "hop_n", "frames_n", "mels_n",
                                       "cepstra_n"};
    uint32_t *const members[] = {&c->rate_hz, &c->window_n, &c->hop_n, &c->frames_n, &c->mels_n,
                                 &c->cepstra_n};
    if (i == sizeof keys / sizeof keys[0]) {
        return NULL;
    }
    *key = keys[i];
    return members[i];
}

static void add_sound(cJSON *to, struct uw_sound_config *c)
{
    cJSON *sound = c != NULL ? cJSON_AddObjectToObject(to, "sound") : NULL;
    const char *key;
    const uint32_t *n;
    for (uint32_t i = 0; sound != NULL && (n = sound_member(c, i, &key)) != NULL; i++) {
        cJSON_AddNumberToObject(sound, key, *n);
    }
    if (sound != NULL) {
        cJSON_AddNumberToObject(sound, "low_hz", (double)c->low_hz);
        cJSON_AddNumberToObject(sound, "high_hz", (double)c->high_hz);
    }
}

char *uw_job_columns_text(const struct uw_data_columns *c, const char *loss)
{
    cJSON *root = c != NULL ? cJSON_CreateObject() : NULL;
    if (root == NULL) {
        return NULL;
    }
    cJSON_AddNumberToObject(root, "features_n", c->features_n);
    add_names(root, "features", c->features, c->features_n);
    add_names(root, "classes", c->classes, c->classes_n);
    add_names(root, "targets", c->targets, c->targets_n);
    if (c->targets == NULL && c->targets_n != 0) {
        cJSON_AddNumberToObject(root, "targets_n", c->targets_n);
    }
    if (c->label != NULL) {
        cJSON_AddItemToObject(root, "label", name_of(c->label));
    }
    add_numbers(root, "mean", c->mean, c->features_n);
    add_numbers(root, "inverse", c->inverse, c->features_n);
    add_numbers(root, "target_mean", c->target_mean, c->targets_n);
    add_numbers(root, "target_inverse", c->target_inverse, c->targets_n);
    add_places(root, c);
    if (c->indices_from != 0) {
        cJSON_AddNumberToObject(root, "indices_from", c->indices_from - '0');
    }
    add_sound(root, c->sound);
    if (loss != NULL) {
        cJSON_AddStringToObject(root, "loss", loss);
    }
    char *text = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    return text;
}

/* ---- reading ---- */

/* The header of a safetensors file, parsed; NULL: it is none. */
static cJSON *read_header(const char *file)
{
    unsigned char le[8];
    uint64_t bytes = 0;
    FILE *f = uw_open_file(file, false);
    if (f == NULL) {
        return NULL;
    }
    if (fread(le, 1, sizeof le, f) == sizeof le) {
        for (int i = 8; i-- > 0;) {
            bytes = bytes << 8 | le[i];
        }
    }
    char *text = bytes > 1 && bytes <= HEADER_BYTES_MAX ? malloc((size_t)bytes) : NULL;
    cJSON *root = text != NULL && fread(text, 1, (size_t)bytes, f) == bytes
                      ? cJSON_ParseWithLength(text, (size_t)bytes) : NULL;
    free(text);
    fclose(f);
    return root;
}

/* Returns how many, or -1: the list is malformed. */
static int take_names(const cJSON *root, const char *key, char ***names)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, key), *item;
    int n = cJSON_GetArraySize(list), i = 0;
    if (list == NULL || n == 0) {
        return 0;
    }
    *names = cJSON_IsArray(list) ? calloc((size_t)n, sizeof **names) : NULL;
    if (*names == NULL) {
        return -1;
    }
    cJSON_ArrayForEach(item, list) {
        (*names)[i] = strdup(cJSON_IsString(item) ? item->valuestring : "");
        if ((*names)[i++] == NULL) {
            return -1;
        }
    }
    return n;
}

static int take_numbers(const cJSON *root, const char *key, float **x)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, key), *item;
    int n = cJSON_GetArraySize(list), i = 0;
    if (list == NULL || n == 0) {
        return 0;
    }
    *x = cJSON_IsArray(list) ? calloc((size_t)n, sizeof **x) : NULL;
    if (*x == NULL) {
        return -1;
    }
    cJSON_ArrayForEach(item, list) {
        (*x)[i] = (float)item->valuedouble;
        if (!cJSON_IsNumber(item) || !isfinite((*x)[i++])) {
            return -1;
        }
    }
    return n;
}

/* The places of features; a file without them is good. */
static bool take_places(struct uw_data_columns *c, const cJSON *root)
{
    const cJSON *n = cJSON_GetObjectItemCaseSensitive(root, "columns_n"), *item;
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "columns");
    uint32_t i = 0;
    if (list == NULL || n == NULL) {
        return true;
    }
    if (!cJSON_IsArray(list) || !cJSON_IsNumber(n) ||
        (uint32_t)cJSON_GetArraySize(list) != c->features_n || n->valueint < 1) {
        return false;
    }
    c->columns_n = (uint32_t)n->valueint;
    c->places = calloc(c->features_n, sizeof *c->places);
    cJSON_ArrayForEach(item, list) {
        if (c->places == NULL || !cJSON_IsNumber(item) || item->valueint < 1 ||
            item->valueint > n->valueint) {
            return false;
        }
        c->places[i++] = (uint32_t)item->valueint - 1u;
    }
    return true;
}

/* How features were made of sound; a file without it is good. */
static bool take_sound(struct uw_data_columns *c, const cJSON *root)
{
    const cJSON *sound = cJSON_GetObjectItemCaseSensitive(root, "sound");
    const cJSON *low = cJSON_GetObjectItemCaseSensitive(sound, "low_hz");
    const cJSON *high = cJSON_GetObjectItemCaseSensitive(sound, "high_hz");
    const char *key;
    uint32_t *n;
    size_t bytes;
    if (sound == NULL) {
        return true;
    }
    c->sound = calloc(1, sizeof *c->sound);
    if (c->sound == NULL || !cJSON_IsNumber(low) || !cJSON_IsNumber(high)) {
        return false;
    }
    c->sound->low_hz = (float)low->valuedouble;
    c->sound->high_hz = (float)high->valuedouble;
    for (uint32_t i = 0; (n = sound_member(c->sound, i, &key)) != NULL; i++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(sound, key);
        if (!cJSON_IsNumber(item) || item->valueint < 0 || item->valueint > 1000000) {
            return false;
        }
        *n = (uint32_t)item->valueint;
    }
    uint64_t all = (uint64_t)c->sound->frames_n * uw_sound_features_n(c->sound);
    return uw_sound_measure(c->sound, &bytes) == UW_OK && all == c->features_n;
}

/* The words of --loss, if all are known. */
static void take_loss(struct uw_job_columns *out, const cJSON *loss)
{
    int at = cJSON_IsString(loss) ? uw_words_find(UW_LOSS_WORDS, loss->valuestring, 0) : -1;
    uint32_t n = 1;
    while (at > UW_LOSS_AUTO && uw_words_find(UW_LOSS_WORDS, loss->valuestring, n) >= 0) {
        n++;
    }
    if (at > UW_LOSS_AUTO && strlen(loss->valuestring) < sizeof out->words &&
        uw_words_find(UW_LOSS_WORDS, loss->valuestring, n) == UW_WORDS_END) {
        strcpy(out->words, loss->valuestring);
        out->loss = (struct uw_choice){out->words, at};
    }
}

/* The scale of values; a file without it is good. */
static bool take_target_scale(struct uw_data_columns *c, const cJSON *root)
{
    int mean_n = take_numbers(root, "target_mean", &c->target_mean);
    int inverse_n = take_numbers(root, "target_inverse", &c->target_inverse);
    bool good = mean_n == inverse_n && mean_n >= 0 &&
                (mean_n == 0 || c->targets == NULL || mean_n == (int)c->targets_n);
    for (int i = 0; good && i < inverse_n; i++) {
        good = c->target_inverse[i] != 0.0f && isfinite(1.0f / c->target_inverse[i]);
    }
    if (good && mean_n != 0) {
        c->targets_n = (uint32_t)mean_n;
    }
    return good;
}

static bool take_columns(struct uw_job_columns *out, const cJSON *root)
{
    struct uw_data_columns *c = &out->columns;
    const cJSON *n = cJSON_GetObjectItemCaseSensitive(root, "features_n");
    const cJSON *loss = cJSON_GetObjectItemCaseSensitive(root, "loss");
    int classes_n = take_names(root, "classes", &c->classes);
    int targets_n = take_names(root, "targets", &c->targets);
    const cJSON *unnamed = cJSON_GetObjectItemCaseSensitive(root, "targets_n");
    if (targets_n == 0 && cJSON_IsNumber(unnamed) && unnamed->valuedouble >= 1.0 &&
        unnamed->valuedouble <= 1e7) {
        targets_n = (int)unnamed->valuedouble;
    }
    int features_n = take_names(root, "features", &c->features);
    int mean_n = take_numbers(root, "mean", &c->mean);
    int inverse_n = take_numbers(root, "inverse", &c->inverse);
    const cJSON *label = cJSON_GetObjectItemCaseSensitive(root, "label");
    const cJSON *from = cJSON_GetObjectItemCaseSensitive(root, "indices_from");
    double all = cJSON_IsNumber(n) ? n->valuedouble : 0.0;
    c->classes_n = classes_n > 0 ? (uint32_t)classes_n : 0;
    c->targets_n = targets_n > 0 ? (uint32_t)targets_n : 0;
    c->features_n = features_n > 0 ? (uint32_t)features_n : 0;
    bool good = classes_n >= 0 && targets_n >= 0 && features_n >= 0 && mean_n == inverse_n &&
                mean_n >= 0 && all >= 1.0 && all <= 1e7 && all == floor(all) &&
                (features_n == 0 || features_n == (int)all) && (mean_n == 0 || mean_n == (int)all);
    if (good) {
        c->features_n = (uint32_t)all;
        good = take_places(c, root) && take_sound(c, root) && take_target_scale(c, root);
    }
    c->indices_from = !cJSON_IsNumber(from) ? 0 : from->valueint == 0 ? '0' : '1';
    c->label = cJSON_IsString(label) ? strdup(label->valuestring) : NULL;
    take_loss(out, loss);
    return good && (label == NULL || c->label != NULL);
}

int uw_job_columns_read(struct uw_job_columns *c, const char *text, const char *file,
                        struct uw_error *err)
{
    *c = (struct uw_job_columns){.loss = {.at = UW_LOSS_AUTO}};
    cJSON *root = cJSON_Parse(text);
    int rc = UW_OK;
    if (root == NULL || !take_columns(c, root)) {
        uw_job_columns_close(c);
        rc = uw_error_set(err, UW_ERR_CORRUPT, "%.160s: uwasa.data, what it says of the columns "
                          "of its data, is malformed", file);
    }
    cJSON_Delete(root);
    return rc;
}

int uw_job_columns_load(struct uw_job_columns *c, const char *file,
                        const struct uw_convert_model *onnx, struct uw_error *err)
{
    *c = (struct uw_job_columns){.loss = {.at = UW_LOSS_AUTO}};
    char path[UW_JOB_PATH_BYTES];
    cJSON *header = file != NULL ? read_header(uw_job_weights_file(file, path)) : NULL;
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(header, "__metadata__");
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(metadata, UW_CONVERT_DATA);
    const char *of_onnx = onnx != NULL ? uw_convert_entry(onnx, UW_CONVERT_DATA) : NULL;
    const char *text = cJSON_IsString(item) ? item->valuestring : of_onnx;
    int rc = UW_OK;
    if (text != NULL) {
        rc = uw_job_columns_read(c, text, text == of_onnx ? onnx->def.name : file, err);
        c->of_model = text == of_onnx;
        bool cut = c->of_model && onnx->output[0].left_out != NULL;
        c->loss.at = cut ? UW_LOSS_AUTO : c->loss.at;   /* it was one of the whole model */
    }
    cJSON_Delete(header);
    return rc;
}

const char *uw_job_columns_loss(const struct uw_job_columns *c)
{
    return c->loss.at != UW_LOSS_AUTO ? c->words : NULL;
}

void uw_job_columns_close(struct uw_job_columns *c)
{
    uw_data_columns_free(&c->columns);
    c->loss.at = UW_LOSS_AUTO;
}
