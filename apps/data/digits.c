/* SPDX-License-Identifier: Apache-2.0
 *
 * Uses only IEEE arithmetic in a fixed order and functions of the runtime, so results have the same
 * bits everywhere. */
#include "uwasa/digits.h"

#include "uwasa/fmath.h"
#include "uwasa/rng.h"
#include "uwasa/status.h"

#include <stddef.h>
#include <string.h>

/* ---- how digits are written ----
 *
 * Points in a box of 100 by 100, y downwards, joined by a Catmull-Rom spline. A corner C ends one
 * spline and starts the next at the same place; UP lifts the pen. */

#define CORNER 128
#define P(x, y) (x), (y)
#define C(x, y) CORNER | (x), (y)
#define UP 254
#define END 255

/* clang-format off */

static const uint8_t zero_oval[] = {
    P(55, 6), P(36, 12), P(25, 32), P(23, 55), P(29, 80), P(47, 95), P(66, 86), P(76, 62),
    P(75, 36), P(67, 14), P(53, 6), END};
static const uint8_t zero_overlap[] = {
    P(64, 14), P(46, 6), P(30, 24), P(25, 55), P(34, 85), P(51, 94), P(68, 80), P(74, 50),
    P(67, 20), P(49, 7), P(36, 15), END};
static const uint8_t one_bar[] = {
    P(52, 5), P(51, 35), P(50, 65), P(49, 95), END};
static const uint8_t one_flag[] = {
    P(34, 27), P(46, 17), C(54, 6), P(53, 35), P(53, 65), P(52, 95), END};
static const uint8_t one_base[] = {
    P(33, 24), P(43, 16), C(52, 6), P(51, 35), P(51, 65), P(51, 94), UP, P(30, 94), P(50, 95),
    P(72, 94), END};
static const uint8_t two_flat[] = {
    P(25, 28), P(33, 11), P(52, 5), P(69, 14), P(71, 32), P(58, 54), P(40, 75), C(23, 94),
    P(50, 93), P(78, 93), END};
static const uint8_t two_loop[] = {
    P(27, 24), P(38, 8), P(57, 6), P(70, 20), P(66, 42), P(50, 66), P(34, 86), P(24, 90),
    P(24, 80), P(36, 78), P(54, 90), P(68, 95), P(80, 88), END};
static const uint8_t two_swan[] = {
    P(24, 20), P(45, 6), P(66, 12), P(70, 30), P(55, 54), P(38, 74), C(22, 92), P(38, 86),
    P(56, 92), P(78, 92), END};
static const uint8_t three_round[] = {
    P(26, 18), P(40, 6), P(60, 8), P(69, 24), P(60, 41), C(44, 47), P(64, 54), P(74, 70),
    P(66, 88), P(46, 95), P(24, 86), END};
static const uint8_t three_flat[] = {
    P(26, 9), P(48, 8), C(72, 8), P(58, 26), C(44, 42), P(64, 48), P(75, 66), P(68, 87),
    P(46, 95), P(24, 87), END};
static const uint8_t three_curl[] = {
    P(25, 18), P(42, 5), P(64, 12), P(66, 32), P(50, 45), P(40, 50), P(48, 53), P(66, 57),
    P(73, 76), P(54, 95), P(26, 88), END};
static const uint8_t four_open[] = {
    P(32, 6), P(28, 30), C(22, 57), P(50, 56), P(80, 54), UP, P(64, 22), P(62, 60), P(60, 96), END};
static const uint8_t four_closed[] = {
    P(62, 96), P(63, 50), C(64, 5), P(42, 34), C(18, 66), P(50, 66), P(84, 64), END};
static const uint8_t four_soft[] = {
    P(30, 10), P(26, 35), P(32, 52), P(50, 55), P(67, 46), UP, P(71, 8), P(67, 50), P(62, 96), END};
static const uint8_t five_hat[] = {
    P(36, 8), P(34, 26), C(32, 43), P(50, 38), P(68, 48), P(74, 66), P(66, 86), P(46, 95),
    P(24, 86), UP, P(36, 8), P(54, 8), P(76, 6), END};
static const uint8_t five_line[] = {
    P(74, 8), P(54, 8), C(34, 10), P(32, 26), C(30, 45), P(48, 38), P(68, 46), P(74, 68),
    P(62, 90), P(42, 95), P(22, 84), END};
static const uint8_t five_snake[] = {
    P(75, 8), P(50, 9), P(36, 20), P(34, 36), P(50, 44), P(68, 54), P(73, 74), P(58, 92),
    P(40, 95), P(24, 88), END};
static const uint8_t six_curve[] = {
    P(66, 6), P(44, 20), P(30, 44), P(25, 70), P(36, 92), P(56, 94), P(70, 78), P(66, 58),
    P(48, 52), P(32, 62), P(27, 74), END};
static const uint8_t six_straight[] = {
    P(58, 4), P(42, 33), P(29, 64), P(32, 88), P(50, 96), P(68, 86), P(68, 66), P(52, 58),
    P(36, 67), P(30, 80), END};
static const uint8_t seven_plain[] = {
    P(22, 9), P(50, 9), C(76, 8), P(60, 40), P(50, 66), P(43, 94), END};
static const uint8_t seven_bar[] = {
    P(22, 9), P(50, 9), C(76, 8), P(60, 40), P(50, 66), P(43, 94), UP, P(34, 51), P(54, 49),
    P(74, 49), END};
static const uint8_t seven_serif[] = {
    P(23, 22), C(25, 9), P(50, 10), C(76, 8), P(62, 38), P(54, 66), P(50, 95), END};
static const uint8_t eight_line[] = {
    P(68, 16), P(50, 5), P(32, 16), P(36, 34), P(54, 46), P(70, 62), P(70, 84), P(50, 95),
    P(30, 84), P(30, 64), P(46, 48), P(64, 34), P(68, 16), END};
static const uint8_t eight_rings[] = {
    P(50, 48), P(34, 38), P(32, 20), P(48, 6), P(66, 14), P(68, 34), P(52, 47), UP, P(50, 48),
    P(30, 60), P(26, 80), P(46, 95), P(70, 86), P(72, 62), P(52, 48), END};
static const uint8_t eight_open[] = {
    P(72, 12), P(52, 5), P(35, 17), P(44, 38), P(62, 55), P(69, 78), P(50, 95), P(30, 82),
    P(36, 62), P(56, 43), P(74, 17), END};
static const uint8_t nine_straight[] = {
    P(70, 20), P(54, 6), P(34, 14), P(27, 34), P(38, 49), P(56, 45), P(67, 29), C(72, 10),
    P(70, 50), P(66, 96), END};
static const uint8_t nine_hook[] = {
    P(70, 24), P(56, 7), P(36, 12), P(28, 32), P(38, 47), P(58, 44), P(70, 22), P(73, 46),
    P(67, 74), P(50, 93), P(30, 88), END};
static const uint8_t nine_ring[] = {
    P(50, 6), P(30, 18), P(30, 40), P(48, 50), P(68, 40), P(70, 18), P(50, 6), UP, P(70, 10),
    P(70, 40), P(66, 68), P(58, 95), END};
/* clang-format on */

#define VARIANTS_MAX 3

static const uint8_t *const templates[UW_DIGITS_CLASSES][VARIANTS_MAX] = {
    {zero_oval, zero_overlap, NULL},       {one_bar, one_flag, one_base},
    {two_flat, two_loop, two_swan},        {three_round, three_flat, three_curl},
    {four_open, four_closed, four_soft},   {five_hat, five_line, five_snake},
    {six_curve, six_straight, NULL},       {seven_plain, seven_bar, seven_serif},
    {eight_line, eight_rings, eight_open}, {nine_straight, nine_hook, nine_ring},
};

/* ---- the hand: from the box to pixels ---- */

struct point {
    float x, y;
};

#define WAVES 2

/* One hand: an affine map after an elastic one (a few long waves), and how much each point of a
 * template wobbles. Box coordinates here run from -1 to 1. */
struct hand {
    float xx, xy, yx, yy, x0, y0;
    struct point push[WAVES], wave[WAVES];
    float phase[WAVES];
    float wobble;
};

/* Uniform in [low, high). */
static float between(struct uw_rng *r, float low, float high)
{
    return low + (high - low) * uw_rng_uniform(r);
}

static float at_most(float x, float limit)
{
    return x > limit ? limit : x < -limit ? -limit : x;
}

static void pick_hand(struct hand *h, struct uw_rng *r)
{
    float turn = at_most(0.13f * uw_rng_normal(r), 0.35f);
    float slant = at_most(0.18f * uw_rng_normal(r), 0.45f);
    float height = between(r, 8.3f, 11.2f);
    float width = height * between(r, 0.78f, 1.2f);
    float c = uw_cosf(turn), s = uw_sinf(turn);

    /* rotate(turn) * shear(slant) * scale(width, height); y points down, so a slant to the right
     * moves small y to the right */
    h->xx = c * width;
    h->xy = (-c * slant - s) * height;
    h->yx = s * width;
    h->yy = (c - s * slant) * height;
    h->x0 = 13.5f + between(r, -2.2f, 2.2f);
    h->y0 = 13.5f + between(r, -1.8f, 1.8f);

    for (int i = 0; i < WAVES; i++) {
        /* one draw per statement: the order inside an initialiser is not specified */
        h->push[i].x = 0.09f * uw_rng_normal(r);
        h->push[i].y = 0.09f * uw_rng_normal(r);
        h->wave[i].x = between(r, -3.0f, 3.0f);
        h->wave[i].y = between(r, -3.0f, 3.0f);
        h->phase[i] = between(r, 0.0f, 6.2831853f);
    }
    h->wobble = between(r, 0.015f, 0.065f);
}

static struct point place(const struct hand *h, struct uw_rng *r, uint8_t box_x, uint8_t box_y)
{
    struct point p = {(float)box_x * 0.02f - 1.0f, (float)box_y * 0.02f - 1.0f};
    struct point q = p;
    for (int i = 0; i < WAVES; i++) {
        float s = uw_sinf(h->wave[i].x * p.x + h->wave[i].y * p.y + h->phase[i]);
        q.x += h->push[i].x * s;
        q.y += h->push[i].y * s;
    }
    q.x += h->wobble * uw_rng_normal(r);
    q.y += h->wobble * uw_rng_normal(r);
    return (struct point){h->xx * q.x + h->xy * q.y + h->x0, h->yx * q.x + h->yy * q.y + h->y0};
}

/* ---- the pen: from lines to ink ---- */

struct pen {
    float *image; /* [28][28] */
    float radius; /* pixels */
    float radius_drift; /* added after each spline segment: pressure changes along a stroke */
    float ink;
};

/* Half the width of the grey edge of a line. */
#define EDGE 0.75f

static uint32_t pixel_floor(float v)
{
    return v <= 0.0f ? 0 : v >= 27.0f ? 27 : (uint32_t)v;
}

/* Darken the pixels near the line from a to b: full ink up to radius - EDGE from it, none from
 * radius + EDGE, linear between. Overlapping lines do not add up. */
static void draw_line(const struct pen *pen, struct point a, struct point b)
{
    float reach = pen->radius + EDGE;
    uint32_t x_first = pixel_floor((a.x < b.x ? a.x : b.x) - reach + 1.0f);
    uint32_t x_last = pixel_floor((a.x > b.x ? a.x : b.x) + reach);
    uint32_t y_first = pixel_floor((a.y < b.y ? a.y : b.y) - reach + 1.0f);
    uint32_t y_last = pixel_floor((a.y > b.y ? a.y : b.y) + reach);
    struct point ab = {b.x - a.x, b.y - a.y};
    float length2 = ab.x * ab.x + ab.y * ab.y;
    float along = length2 > 1e-12f ? 1.0f / length2 : 0.0f;

    for (uint32_t y = y_first; y <= y_last; y++) {
        for (uint32_t x = x_first; x <= x_last; x++) {
            float px = (float)x - a.x, py = (float)y - a.y;
            float t = (px * ab.x + py * ab.y) * along;
            t = t < 0.0f ? 0.0f : t > 1.0f ? 1.0f : t;
            float dx = px - t * ab.x, dy = py - t * ab.y;
            float distance2 = dx * dx + dy * dy;
            if (distance2 >= reach * reach) {
                continue;
            }
            float cover = (reach - uw_sqrtf(distance2)) * (0.5f / EDGE);
            cover = pen->ink * (cover > 1.0f ? 1.0f : cover);
            float *pixel = &pen->image[y * UW_DIGITS_SIDE + x];
            *pixel = cover > *pixel ? cover : *pixel;
        }
    }
}

#define POINTS_MAX 16
#define LINES_A_SPAN 4

/* A smooth line through p[0 .. n-1]. The ends repeat as their own neighbours. */
static void draw_spline(struct pen *pen, const struct point *p, uint32_t n)
{
    for (uint32_t i = 0; i + 1 < n; i++) {
        struct point before = p[i == 0 ? 0 : i - 1], a = p[i], b = p[i + 1];
        struct point after = p[i + 2 < n ? i + 2 : n - 1];
        struct point from = a;
        for (int k = 1; k <= LINES_A_SPAN; k++) {
            float t = (float)k * (1.0f / LINES_A_SPAN);
            float w0 = ((2.0f - t) * t - 1.0f) * t, w1 = (3.0f * t - 5.0f) * t * t + 2.0f;
            float w2 = ((4.0f - 3.0f * t) * t + 1.0f) * t, w3 = (t - 1.0f) * t * t;
            struct point to = {0.5f * (w0 * before.x + w1 * a.x + w2 * b.x + w3 * after.x),
                               0.5f * (w0 * before.y + w1 * a.y + w2 * b.y + w3 * after.y)};
            draw_line(pen, from, to);
            from = to;
        }
        pen->radius += pen->radius_drift;
    }
}

static void write_digit(struct pen *pen, const struct hand *h, struct uw_rng *r,
                        const uint8_t *code)
{
    struct point p[POINTS_MAX];
    uint32_t n = 0;
    while (*code != END) {
        if (*code == UP) {
            draw_spline(pen, p, n);
            n = 0;
            code++;
            continue;
        }
        p[n++] = place(h, r, code[0] & (CORNER - 1), code[1]);
        if ((code[0] & CORNER) != 0) {
            draw_spline(pen, p, n);
            p[0] = p[n - 1];
            n = 1;
        }
        code += 2;
    }
    draw_spline(pen, p, n);
}

/* A short stroke off the centre, like a part of a neighbouring digit or of a form's edge. */
static void stray_stroke(struct pen *pen, struct uw_rng *r)
{
    float side = uw_rng_below(r, 2) == 0 ? 2.5f : 24.5f;
    float run = between(r, 4.0f, 23.0f);
    bool upright = uw_rng_below(r, 2) == 0;
    struct point a = upright ? (struct point){side, run} : (struct point){run, side};
    struct point b = a;
    b.x += between(r, -4.5f, 4.5f);
    b.y += between(r, -4.5f, 4.5f);
    pen->radius = between(r, 0.3f, 0.9f);
    pen->ink = between(r, 0.3f, 0.9f);
    draw_line(pen, a, b);
}

static void add_noise(float *image, struct uw_rng *r)
{
    float level = between(r, 0.0f, 0.12f);
    for (uint32_t i = 0; i < UW_DIGITS_PIXELS_N; i++) {
        image[i] += level * (uw_rng_uniform(r) - 0.5f);
    }
    for (uint32_t i = 0; i < UW_DIGITS_PIXELS_N; i++) { /* a separate loop, to be vectorized */
        float v = image[i] > 0.0f ? image[i] : 0.0f;
        image[i] = v < 1.0f ? v : 1.0f;
    }
}

static int read_digit(struct uw_dataset *base, uint64_t index, float *x, uint32_t *label)
{
    const struct uw_digits *d = (const struct uw_digits *)base;
    if (!base->endless && index >= base->samples_n) {
        return UW_ERR_INVALID;
    }
    struct uw_rng r;
    uw_rng_seed(&r, uw_rng_mix(d->key, index));

    uint32_t class = d->classes[uw_rng_below(&r, d->classes_n)];
    const uint8_t *const *variants = templates[class];
    uint32_t variants_n = variants[VARIANTS_MAX - 1] != NULL ? VARIANTS_MAX : VARIANTS_MAX - 1;
    struct hand hand;
    pick_hand(&hand, &r);

    memset(x, 0, UW_DIGITS_PIXELS_N * sizeof *x);
    struct pen pen = {.image = x};
    pen.radius = between(&r, 0.65f, 1.6f);
    pen.radius_drift = pen.radius * between(&r, -0.03f, 0.03f);
    pen.ink = between(&r, 0.7f, 1.0f);
    write_digit(&pen, &hand, &r, variants[uw_rng_below(&r, variants_n)]);
    if (uw_rng_below(&r, 8) == 0) {
        stray_stroke(&pen, &r);
    }
    add_noise(x, &r);
    *label = class;
    return UW_OK;
}

static const struct uw_dataset_ops digits_ops = {.name = "digits", .read = read_digit};

int uw_digits_init(struct uw_digits *d, const struct uw_digits_config *config)
{
    if (config->classes_mask >> UW_DIGITS_CLASSES != 0) {
        return UW_ERR_INVALID;
    }
    uint32_t nominal_n = config->test ? UW_DIGITS_TEST_N : UW_DIGITS_TRAIN_N;
    *d = (struct uw_digits){
        .base = {.ops = &digits_ops,
                 .channels = 1,
                 .height = UW_DIGITS_SIDE,
                 .width = UW_DIGITS_SIDE,
                 .classes = UW_DIGITS_CLASSES,
                 .samples_n = config->samples_n != 0 ? config->samples_n : nominal_n,
                 .endless = !config->test},
        .key = uw_rng_mix(config->seed, config->test ? 2 : 1),
    };
    for (uint32_t c = 0; c < UW_DIGITS_CLASSES; c++) {
        if (config->classes_mask == 0 || (config->classes_mask >> c & 1u) != 0) {
            d->classes[d->classes_n++] = (uint8_t)c;
        }
    }
    return UW_OK;
}
