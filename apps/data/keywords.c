/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/keywords.h"

#include "uwasa/fmath.h"
#include "uwasa/rng.h"
#include "uwasa/status.h"

#define WORDS 10u
#define OTHER_WORDS 40u
#define SILENCE WORDS
#define UNKNOWN (WORDS + 1u)
#define BUMPS 3u
#define VOCABULARY_SEED 0x6b657977u     /* the same words for all */

/* A word's path of one coefficient. */
struct bump {
    float at, width, height;    /* of the word's length; at 0 .. 1 */
};

struct speech {
    float begin, length;        /* frames */
    float gain, tilt, bend;     /* voice: gain (1 + tilt f + bend f^2) over the coefficients */
    float hurry, phase;         /* uneven pace */
    float noise;
};

static float between(struct uw_rng *r, float low, float high)
{
    return low + (high - low) * uw_rng_uniform(r);
}

static struct bump bump_of(uint32_t word, uint32_t feature, uint32_t i)
{
    struct uw_rng r;
    struct bump b;
    uw_rng_seed(&r, uw_rng_mix(VOCABULARY_SEED, (word * 64u + feature) * 8u + i));
    /* one draw per statement: the order inside an initialiser is not specified */
    b.at = between(&r, 0.05f, 0.95f);
    b.width = between(&r, 0.08f, 0.22f);
    b.height = between(&r, 0.5f, 1.6f);
    b.height *= uw_rng_below(&r, 2) == 0 ? 1.0f : -1.0f;
    return b;
}

static struct speech speak(struct uw_rng *r)
{
    struct speech s = {.length = between(r, 14.0f, 40.0f)};
    s.begin = between(r, 1.0f, (float)UW_KEYWORDS_FRAMES - 1.0f - s.length);
    s.gain = between(r, 0.4f, 1.3f);
    s.tilt = between(r, -0.5f, 0.5f);
    s.bend = between(r, -0.4f, 0.4f);
    s.hurry = between(r, -0.15f, 0.15f);
    s.phase = between(r, 0.0f, 6.2831853f);
    s.noise = between(r, 0.4f, 1.1f);
    return s;
}

static void write_feature(const struct speech *s, uint32_t word, uint32_t feature, float *x)
{
    float f = (float)feature / (float)UW_KEYWORDS_FEATURES - 0.5f;
    float voice = s->gain * (1.0f + s->tilt * f + s->bend * f * f);
    struct bump bumps[BUMPS];

    for (uint32_t i = 0; i < BUMPS; i++) {
        bumps[i] = bump_of(word, feature, i);
    }
    for (uint32_t t = 0; t < UW_KEYWORDS_FRAMES; t++) {
        float u = ((float)t - s->begin) / s->length;
        if (u < 0.0f || u > 1.0f) {
            continue;
        }
        u += s->hurry * uw_sinf(3.1415927f * u) * uw_cosf(s->phase);
        float sum = 0.0f;
        for (uint32_t i = 0; i < BUMPS; i++) {
            float d = (u - bumps[i].at) / bumps[i].width;
            sum += bumps[i].height * uw_expf(-0.5f * d * d);
        }
        x[t * UW_KEYWORDS_FEATURES + feature] += voice * sum;
    }
}

static int read_keywords(struct uw_dataset *base, uint64_t index, float *x, uint32_t *label)
{
    const struct uw_keywords *k = (const struct uw_keywords *)base;
    struct uw_rng r;

    if (!base->endless && index >= base->samples_n) {
        return UW_ERR_INVALID;
    }
    uw_rng_seed(&r, uw_rng_mix(k->key, index));
    *label = uw_rng_below(&r, UW_KEYWORDS_CLASSES);
    struct speech s = speak(&r);
    uint32_t word = *label == UNKNOWN ? WORDS + uw_rng_below(&r, OTHER_WORDS) : *label;
    for (uint32_t i = 0; i < UW_KEYWORDS_FRAMES * UW_KEYWORDS_FEATURES; i++) {
        x[i] = s.noise * uw_rng_normal(&r);
    }
    for (uint32_t f = 0; f < UW_KEYWORDS_FEATURES && *label != SILENCE; f++) {
        write_feature(&s, word, f, x);
    }
    return UW_OK;
}

static const struct uw_dataset_ops keywords_ops = {.name = "keywords", .read = read_keywords};

void uw_keywords_init(struct uw_keywords *k, const struct uw_keywords_config *config)
{
    uint32_t n = config->test ? UW_KEYWORDS_TEST_N : UW_KEYWORDS_TRAIN_N;
    *k = (struct uw_keywords){
        .base = {.ops = &keywords_ops,
                 .channels = 1,
                 .height = UW_KEYWORDS_FRAMES,
                 .width = UW_KEYWORDS_FEATURES,
                 .classes = UW_KEYWORDS_CLASSES,
                 .samples_n = config->samples_n != 0 ? config->samples_n : n,
                 .endless = !config->test},
        .key = uw_rng_mix(config->seed, config->test ? 1 : 0)};
}
