/* SPDX-License-Identifier: Apache-2.0 */
#include "folders.h"
#include "sets.h"
#include "sounds_lists.h"
#include "uwasa/fmath.h"
#include "wav.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOISE "_background_noise_"
#define SILENCE "_silence_"
#define TEST_EVERY 6u           /* of clips of noise */
#define TEST_AT 1u
#define MELS_N 40u
#define MELS_FROM 20u           /* fewer features of a frame are cepstra */
#define FRAMES_N 49u
#define WINDOW_MS 30.0
#define HOP_MS 20.0
#define LOW_HZ 20.0

static const struct uw_folder_kind wavs = {.prefix = "sounds", .thing = "clip", .endings = ".wav",
                                           .options = "window, hop, mels, mfcc, low, high, test, "
                                                      "classes and label=none",
                                           .is_name = uw_wav_is_name};

/* What a user says; below 0: nothing. */
struct said {
    double window_ms, hop_ms, mels, mfcc, low, high;
    bool validation;            /* test=validation */
};

struct opening {
    struct uw_sounds *d;
    struct uw_folders f;
    struct said said;
    struct uw_folder_list noise;
    struct uw_sound_config c;
    struct uw_sound s;
    void *memory;
    float *clip;
    uint32_t shorter_n, longer_n;
};

/* ---- options ---- */

static int take_number(const char *part, const char *key, double *value, struct uw_error *err)
{
    char *end;
    size_t n = strlen(key);
    if (strncmp(part, key, n) != 0) {
        return 0;
    }
    *value = strtod(part + n, &end);
    return *end == '\0' && end != part + n && *value >= 0.0 && *value < 1e6
               ? 1
               : uw_error_set(err, UW_ERR_INVALID, "%.60s: needs a number from 0 on", part);
}

/* Take the options of sound; the others go to rest. */
static int split_options(struct said *s, const char *text, char *rest, size_t rest_bytes,
                         struct uw_error *err)
{
    *s = (struct said){-1.0, -1.0, -1.0, -1.0, -1.0, -1.0, false};
    const struct {
        const char *key;
        double *value;
    } keys[] = {{"window=", &s->window_ms}, {"hop=", &s->hop_ms}, {"mels=", &s->mels},
                {"mfcc=", &s->mfcc},        {"low=", &s->low},    {"high=", &s->high}};
    size_t used = 0;
    rest[0] = '\0';
    while (text != NULL) {
        size_t n = strcspn(text, ",");
        char part[64];
        snprintf(part, sizeof part, "%.*s", (int)(n < sizeof part ? n : 0), text);
        int mine = strcmp(part, "test=validation") == 0;
        s->validation = s->validation || mine != 0;
        for (size_t i = 0; i < sizeof keys / sizeof keys[0] && mine == 0; i++) {
            mine = take_number(part, keys[i].key, keys[i].value, err);
        }
        if (mine < 0) {
            return mine;
        }
        if (mine == 0 && used + n + 2u < rest_bytes) {
            used += (size_t)snprintf(rest + used, rest_bytes - used, "%s%.*s",
                                     used != 0 ? "," : "", (int)n, text);
        }
        text = text[n] == ',' ? text + n + 1 : NULL;
    }
    return UW_OK;
}

static uint32_t number_or(double said, double otherwise)
{
    return (uint32_t)lround(said >= 0.0 ? said : otherwise);
}

/* The frames of a clip and the features of a frame that the model takes; 0: not known. */
static void read_shape(const struct uw_data_config *c, uint32_t *frames_n, uint32_t *features_n)
{
    bool last = c->width == 1 && c->channels > 1;       /* [frames][features][1] */
    bool rows = c->height == 0 && c->width != 0;        /* a sequence */
    *frames_n = last || rows ? c->channels : c->height;
    *features_n = last ? c->height : c->width;
}

static int choose_config(struct opening *p, uint32_t rate_hz)
{
    const struct uw_data_columns *like = p->f.config->like;
    const struct said *s = &p->said;
    struct uw_sound_config *c = &p->c;
    uint32_t frames_n, features_n, all_n = p->f.config->channels;
    read_shape(p->f.config, &frames_n, &features_n);
    double ms = (double)rate_hz / 1000.0;
    bool few = features_n != 0 && features_n < MELS_FROM;
    *c = (struct uw_sound_config){
        .rate_hz = rate_hz, .window_n = number_or(-1.0, WINDOW_MS * ms),
        .hop_n = number_or(-1.0, HOP_MS * ms),
        .mels_n = few || features_n == 0 ? MELS_N : features_n,
        .cepstra_n = few ? features_n : 0, .low_hz = (float)LOW_HZ,
        .high_hz = 0.5f * (float)rate_hz};
    if (like != NULL && like->sound != NULL) {
        *c = *like->sound;
        ms = (double)c->rate_hz / 1000.0;
    }
    c->window_n = number_or(s->window_ms >= 0.0 ? s->window_ms * ms : -1.0, c->window_n);
    c->hop_n = number_or(s->hop_ms >= 0.0 ? s->hop_ms * ms : -1.0, c->hop_n);
    bool as_mels = s->mels >= 0.0 && s->mfcc < 0.0 && (double)features_n == s->mels;
    c->cepstra_n = as_mels ? 0 : number_or(s->mfcc, c->cepstra_n);
    c->mels_n = number_or(s->mels, s->mfcc > 0.0 && c->mels_n < MELS_N ? MELS_N : c->mels_n);
    c->low_hz = s->low >= 0.0 ? (float)s->low : c->low_hz;
    c->high_hz = s->high >= 0.0 ? (float)s->high : c->high_hz;
    uint32_t mine = uw_sound_features_n(c);
    bool flat = frames_n == 0 && all_n != 0;
    if (flat && mine != 0 && all_n % mine == 0) {
        frames_n = all_n / mine;
    }
    if ((features_n != 0 && features_n != mine) || (flat && frames_n == 0)) {
        return uw_error_set(p->f.err, UW_ERR_MISMATCH,
                            "sounds:%.80s: a frame has %u features, the model takes %u numbers%s: "
                            "mels=N or mfcc=N gives as many", p->f.o.file, (unsigned)mine,
                            (unsigned)(flat ? all_n : features_n), flat ? "" : " for each");
    }
    c->frames_n = frames_n != 0 ? frames_n : c->frames_n != 0 ? c->frames_n : FRAMES_N;
    return UW_OK;
}

static int open_sound(struct opening *p)
{
    struct uw_wav w;
    size_t bytes;
    int rc = uw_wav_open(&w, p->f.list[0].paths[0], p->f.err);
    rc = rc < 0 ? rc : choose_config(p, w.rate_hz);
    uw_wav_close(&w);
    if (rc < 0) {
        return rc;
    }
    if (uw_sound_measure(&p->c, &bytes) < 0) {
        return uw_error_set(p->f.err, UW_ERR_INVALID,
                            "sounds:%.60s: window, hop and mels must be 1 or more, a window at "
                            "most 8192 samples, mels at most 256, mfcc at most mels, low below "
                            "high, high at most half the rate of %u Hz", p->f.o.file,
                            (unsigned)p->c.rate_hz);
    }
    p->memory = malloc(bytes);
    p->clip = malloc(uw_sound_clip_n(&p->c) * sizeof *p->clip);
    return p->memory == NULL || p->clip == NULL ? uw_folders_no_memory(&p->f)
                                                : uw_sound_init(&p->s, &p->c, p->memory, bytes);
}

/* ---- clips ---- */

/* Check the rate and read a clip of the file.
 *   first  sample; below INT64_MAX: where the clip begins; else it is in the middle */
static int read_clip(struct uw_sound *s, float *clip, const struct uw_wav *w, int64_t first,
                     float *y, struct uw_error *err)
{
    uint32_t n = uw_sound_clip_n(&s->config);
    if (w->rate_hz != s->config.rate_hz) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "%.120s: has %u samples a second, %u are needed; convert it, as with "
                            "sox -r %u or ffmpeg -ar %u", w->file.path, (unsigned)w->rate_hz,
                            (unsigned)s->config.rate_hz, (unsigned)s->config.rate_hz,
                            (unsigned)s->config.rate_hz);
    }
    first = first != INT64_MAX ? first : ((int64_t)w->samples_n - (int64_t)n) / 2;
    int rc = uw_wav_read(w, first, n, clip, err);
    if (rc < 0) {
        return rc;
    }
    uw_sound_clip(s, clip, y);
    size_t all = (size_t)s->config.frames_n * uw_sound_features_n(&s->config);
    return uw_all_finite(y, all)
               ? UW_OK
               : uw_error_set(err, UW_ERR_CORRUPT, "%.160s: a sample is no finite number, or far "
                              "too large", w->file.path);
}

static int add_clip(struct opening *p, const struct uw_wav *w, int64_t first, uint32_t label)
{
    struct uw_sounds *d = p->d;
    uint32_t i = d->base.samples_n;
    int rc = read_clip(&p->s, p->clip, w, first, d->x + (size_t)i * d->columns.features_n,
                       p->f.err);
    d->labels[i] = label;
    d->base.samples_n += rc == UW_OK;
    return rc;
}

static uint32_t find_class(const struct uw_data_columns *c, const char *name)
{
    uint32_t k = 0;
    while (k < c->classes_n && strcmp(c->classes[k], name) != 0) {
        k++;
    }
    return k;
}

static uint32_t noise_clips(const struct opening *p, const struct uw_wav *w)
{
    return (uint32_t)(w->samples_n / uw_sound_clip_n(&p->c));
}

/* Whether a clip of noise is in the set; a second folder brings its own. */
static bool wants_noise(const struct opening *p, uint32_t k)
{
    bool split = p->f.folder[1][0] == '\0' && p->f.test != NULL;
    return split ? (k % TEST_EVERY == TEST_AT) == p->f.config->test : !p->f.config->test;
}

/* Count the clips of noise, or add those of the set. */
static int take_noise(struct opening *p, bool adds, uint32_t *n)
{
    struct uw_data_columns *c = &p->d->columns;
    uint32_t label = find_class(c, SILENCE), k = 0;
    int rc = UW_OK;
    for (uint32_t i = 0; i < p->noise.n && label < c->classes_n && rc == UW_OK; i++) {
        struct uw_wav w;
        rc = uw_wav_open(&w, p->noise.paths[i], p->f.err);
        for (uint32_t t = 0; rc == UW_OK && t < noise_clips(p, &w); t++, k++) {
            if (wants_noise(p, k) && adds) {
                rc = add_clip(p, &w, (int64_t)t * uw_sound_clip_n(&p->c), label);
            }
            *n += wants_noise(p, k);
            c->counts[label] += !adds && (p->f.test == NULL || k % TEST_EVERY != TEST_AT);
        }
        uw_wav_close(&w);
    }
    return rc;
}

static int read_clips(struct opening *p)
{
    struct uw_sounds *d = p->d;
    const struct uw_folder_list *l = p->f.files;
    uint32_t n = 0, none = 0;
    size_t features_n = d->columns.features_n;
    int rc = take_noise(p, false, &n);
    for (uint32_t i = 0; i < l->n; i++) {
        n += uw_folders_wants(&p->f, i);
    }
    d->x = features_n < SIZE_MAX / sizeof *d->x / ((size_t)n + 1u)
               ? malloc(((size_t)n * features_n + 1u) * sizeof *d->x) : NULL;
    d->labels = calloc((size_t)n + 1u, sizeof *d->labels);
    if (d->x == NULL || d->labels == NULL) {
        return uw_folders_no_memory(&p->f);
    }
    for (uint32_t i = 0; i < l->n && rc == UW_OK; i++) {
        struct uw_wav w;
        if (!uw_folders_wants(&p->f, i)) {
            continue;
        }
        rc = uw_wav_open(&w, l->paths[i], p->f.err);
        if (rc == UW_OK) {
            p->shorter_n += w.samples_n < uw_sound_clip_n(&p->c);
            p->longer_n += w.samples_n > uw_sound_clip_n(&p->c);
            rc = add_clip(p, &w, INT64_MAX, l->classes_n != 0 ? l->labels[i] : 0);
            uw_wav_close(&w);
        }
    }
    return rc < 0 ? rc : take_noise(p, true, &none);
}

/* ---- what is told ---- */

static void tell(struct opening *p, const char *how)
{
    const struct uw_sound_config *c = &p->c;
    struct uw_notes *notes = &p->d->notes;
    char cepstra[40] = "";
    uw_folders_tell(&p->f, how, "");
    if (c->cepstra_n != 0) {
        snprintf(cepstra, sizeof cepstra, ", %u cepstra (mfcc)", (unsigned)c->cepstra_n);
    }
    uw_note(notes, "a clip is %u samples of %u Hz: %u frames of %u (window), one every %u (hop), "
                   "each as %u mels from %g to %g Hz%s", (unsigned)uw_sound_clip_n(c),
            (unsigned)c->rate_hz, (unsigned)c->frames_n, (unsigned)c->window_n, (unsigned)c->hop_n,
            (unsigned)c->mels_n, (double)c->low_hz, (double)c->high_hz, cepstra);
    if (p->shorter_n + p->longer_n != 0) {
        uw_note(notes, "%u files are shorter, zeros are added at both ends; of %u longer ones the "
                       "middle is taken", (unsigned)p->shorter_n, (unsigned)p->longer_n);
    }
    uint32_t silence = find_class(&p->d->columns, SILENCE);
    if (p->noise.n != 0 && silence == p->d->columns.classes_n) {
        uw_note(notes, "%s is left out; a class %s in classes=A+B+... is made of it", NOISE,
                SILENCE);
    } else if (p->noise.n != 0) {
        uw_note(notes, "%s is cut into clips of class %s, %u of them for training", NOISE, SILENCE,
                (unsigned)p->d->columns.counts[silence]);
    }
}

/* ---- the dataset ---- */

static int read_sounds(struct uw_dataset *base, uint64_t index, float *x, uint32_t *label)
{
    const struct uw_sounds *d = (const struct uw_sounds *)base;
    size_t n = d->columns.features_n;
    if (index >= base->samples_n) {
        return UW_ERR_INVALID;
    }
    memcpy(x, d->x + index * n, n * sizeof *x);
    *label = d->labels[index];
    return UW_OK;
}

static const struct uw_dataset_ops sounds_ops = {.name = "sounds", .read = read_sounds};

static int open_all(struct opening *p, const char *text)
{
    struct uw_sounds *d = p->d;
    char rest[6 * UW_FILE_PATH_BYTES], how[64] = "";
    int rc = split_options(&p->said, text, rest, sizeof rest, p->f.err);
    rc = rc < 0 ? rc : uw_folders_open(&p->f, rest);
    rc = rc < 0 ? rc : uw_folder_list_drop(&p->f.list[0], NOISE, &p->noise) < 0
                           ? uw_folders_no_memory(&p->f) : UW_OK;
    rc = rc < 0 ? rc : uw_sounds_take_lists(&p->f, p->said.validation, how, sizeof how);
    rc = rc < 0 ? rc : uw_folders_number(&p->f);
    rc = rc < 0 ? rc : uw_sounds_thin_others(&p->f);
    rc = rc < 0 ? rc : open_sound(p);
    if (rc < 0) {
        return rc;
    }
    d->base.channels = 1;
    d->base.height = p->c.frames_n;
    d->base.width = uw_sound_features_n(&p->c);
    d->base.classes = d->columns.classes_n > 2 ? d->columns.classes_n : 2;
    d->columns.features_n = d->base.height * d->base.width;
    d->columns.sound = malloc(sizeof *d->columns.sound);
    if (d->columns.sound == NULL) {
        return uw_folders_no_memory(&p->f);
    }
    *d->columns.sound = p->c;
    rc = read_clips(p);
    if (rc == UW_OK) {
        tell(p, how);
    }
    return rc;
}

int uw_sounds_open(struct uw_sounds *d, const char *text, const struct uw_data_config *config,
                   struct uw_error *err)
{
    *d = (struct uw_sounds){.base = {.ops = &sounds_ops}};
    struct opening *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "sounds:%.100s: no memory", text);
    }
    p->d = d;
    p->f = (struct uw_folders){.kind = &wavs, .config = config, .columns = &d->columns,
                               .notes = &d->notes, .err = err};
    int rc = open_all(p, text);
    uw_folders_close(&p->f);
    uw_folder_list_close(&p->noise);
    free(p->memory);
    free(p->clip);
    free(p);
    if (rc < 0) {
        uw_sounds_close(d);
    }
    return rc;
}

void uw_sounds_close(struct uw_sounds *d)
{
    uw_data_columns_free(&d->columns);
    free(d->x);
    free(d->labels);
    d->x = NULL;
    d->labels = NULL;
}

int uw_data_read_sound(const struct uw_sound_config *c, const char *path, float *x,
                       struct uw_error *err)
{
    struct uw_sound s;
    struct uw_wav w;
    size_t bytes;
    int rc = uw_wav_open(&w, path, err);
    if (rc < 0) {
        return rc;
    }
    rc = uw_sound_measure(c, &bytes);
    void *memory = malloc(bytes);
    float *clip = malloc(uw_sound_clip_n(c) * sizeof *clip);
    if (rc == UW_OK && (memory == NULL || clip == NULL)) {
        rc = uw_error_set(err, UW_ERR_NOMEM, "%.160s: no memory", path);
    }
    rc = rc < 0 ? rc : uw_sound_init(&s, c, memory, bytes);
    rc = rc < 0 ? rc : read_clip(&s, clip, &w, INT64_MAX, x, err);
    free(memory);
    free(clip);
    uw_wav_close(&w);
    return rc;
}
