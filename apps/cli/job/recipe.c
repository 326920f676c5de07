/* SPDX-License-Identifier: Apache-2.0 */
#include "recipe.h"

#include <stdlib.h>
#include <string.h>

const char *uw_recipe_mode_name(enum uw_plan_mode mode)
{
    static const char *const names[] = {[UW_PLAN_IMMEDIATE] = "immediate",
                                        [UW_PLAN_BUCKETS] = "buckets", [UW_PLAN_FULL] = "full",
                                        [UW_PLAN_INFERENCE] = "inference"};
    return names[mode];
}

double uw_recipe_lr(const struct uw_recipe *r)
{
    bool plain = r->optimizer.at == UW_RECIPE_SGD || r->optimizer.at == UW_RECIPE_MOMENTUM;
    return plain ? 0.05 : 0.001;
}

/* A given value as a float; 0 (not given): the optimizer's default. */
static float given(double number)
{
    return number > 0.0 ? (float)number : 0.0f;
}

/* Whether a given value is between 0 and 1 even after rounding to float. */
static bool is_share(double number, float value)
{
    return number < 0.0 || (value > 0.0f && value < 1.0f);
}

static int set_optimizer(const struct uw_recipe *r, struct uw_optimizer *o, struct uw_error *err)
{
    static const enum uw_optimizer_kind kinds[] = {
        [UW_RECIPE_SGD] = UW_OPTIMIZER_SGD, [UW_RECIPE_MOMENTUM] = UW_OPTIMIZER_SGD,
        [UW_RECIPE_ADAM] = UW_OPTIMIZER_ADAM, [UW_RECIPE_ADAMW] = UW_OPTIMIZER_ADAMW,
        [UW_RECIPE_RMSPROP] = UW_OPTIMIZER_RMSPROP};
    bool heavy = r->optimizer.at == UW_RECIPE_MOMENTUM;
    bool adam = r->optimizer.at == UW_RECIPE_ADAM || r->optimizer.at == UW_RECIPE_ADAMW;
    double momentum = r->momentum >= 0.0 ? r->momentum : heavy ? 0.9 : 0.0;

    *o = (struct uw_optimizer){
        .kind = kinds[r->optimizer.at],
        .weight_decay = (float)r->weight_decay,
        .momentum = (float)momentum,
        .nesterov = r->nesterov,
        .beta1 = given(r->beta1),
        .beta2 = given(r->beta2),
        .alpha = given(r->alpha),
        .epsilon = given(r->epsilon),
        .clip_tensor = (float)r->clip_tensor,
        .clip_global = (float)r->clip_norm,
    };
    bool sgd = o->kind == UW_OPTIMIZER_SGD, betas = r->beta1 >= 0.0 || r->beta2 >= 0.0;
    bool shares = is_share(r->beta1, o->beta1) && is_share(r->beta2, o->beta2) &&
                  is_share(r->alpha, o->alpha);
    return uw_rules_check(UW_RULES(
        {momentum > 0.0 && adam, "momentum",
         r->optimizer.at == UW_RECIPE_ADAM ? "adam has none, it has --beta1"
                                           : "adamw has none, it has --beta1"},
        {r->nesterov && !(sgd && momentum > 0.0), "nesterov",
         "needs --optimizer sgd and --momentum above 0"},
        {betas && !adam, "beta1 and --beta2", "need --optimizer adam or adamw"},
        {r->alpha >= 0.0 && o->kind != UW_OPTIMIZER_RMSPROP, "alpha", "needs --optimizer rmsprop"},
        {r->epsilon >= 0.0 && sgd, "epsilon", "needs --optimizer adam, adamw or rmsprop"},
        {!shares, "beta1, --beta2 and --alpha", "need above 0 and below 1"},
        {r->epsilon >= 0.0 && !(o->epsilon > 0.0f), "epsilon", "needs above 0"}), err);
}

/* Take `word` off the front of *text. */
static bool take(const char **text, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(*text, word, n) != 0) {
        return false;
    }
    *text += n;
    return true;
}

/* Read a whole number from 1 at *text and move *text past it. */
static uint32_t take_number(const char **text)
{
    char *end;
    if (**text < '1' || **text > '9') {
        return 0;
    }
    unsigned long n = strtoul(*text, &end, 10);
    *text = end;
    return n <= 65535 ? (uint32_t)n : 0;
}

static int set_adapt(const char *text, struct uw_adapt *a, struct uw_error *err)
{
    const char *rest = text;
    char *end;
    *a = (struct uw_adapt){.bias_only = strcmp(text, "bias") == 0};
    bool good = a->bias_only || strcmp(text, "all") == 0;
    if (take(&rest, "last:")) {
        a->last_n = take_number(&rest);
        good = a->last_n != 0 && *rest == '\0';
    } else if (take(&rest, "lora:")) {
        a->lora_rank = take_number(&rest);
        good = a->lora_rank != 0 && *rest == '\0';
        if (a->lora_rank != 0 && *rest == ':') {
            a->lora_alpha = strtof(rest + 1, &end);
            good = end != rest + 1 && *end == '\0' && a->lora_alpha > 0.0f &&
                   a->lora_alpha < 65536.0f;
        }
    }
    return good ? UW_OK
                : uw_error_set(err, UW_ERR_INVALID, "--train %.40s: needs all, bias, last:N or "
                               "lora:RANK[:ALPHA] with whole N and RANK from 1 and ALPHA above 0",
                               text);
}

/* Immediate needs the least memory; some options need all gradients at once. */
static enum uw_plan_mode best_mode(const struct uw_recipe *r, const struct uw_optimizer *o)
{
    bool accumulates = o->kind == UW_OPTIMIZER_SGD && o->momentum != 0.0f && !o->nesterov &&
                       o->clip_tensor == 0.0f;
    bool full = r->clip_norm > 0.0 || (r->micro_batch != 0 && !accumulates);
    return full ? UW_PLAN_FULL : UW_PLAN_IMMEDIATE;
}

int uw_recipe_apply(const struct uw_recipe *r, struct uw_model_config *config,
                    struct uw_error *err)
{
    int rc = set_optimizer(r, &config->optimizer, err);
    rc = rc < 0 ? rc : set_adapt(r->train, &config->adapt, err);
    if (rc < 0) {
        return rc;
    }
    if (r->micro_batch > config->batch_n) {
        return uw_error_set(err, UW_ERR_INVALID, "--micro-batch %u: needs at most --batch %u",
                            (unsigned)r->micro_batch, (unsigned)config->batch_n);
    }
    config->mode = r->mode.at == UW_RECIPE_MODE_AUTO
                       ? best_mode(r, &config->optimizer)
                       : (enum uw_plan_mode)(r->mode.at - 1 - UW_RECIPE_MODE_AUTO);
    config->micro_n = r->micro_batch;
    config->budget_bytes = r->budget <= SIZE_MAX ? (size_t)r->budget : SIZE_MAX;
    return UW_OK;
}

/* ---- the schedule of the learning rate ---- */

/* A whole number from 1, with an "s" when it counts steps. */
static bool take_count(const char **text, uint64_t *n, bool *by_step)
{
    if (**text < '1' || **text > '9') {
        return false;
    }
    char *end;
    unsigned long long value = strtoull(*text, &end, 10);
    *text = end;
    *n = value;
    *by_step = take(text, "s");
    return value < UINT64_MAX / 2;
}

/* A number from 0 to 1 at the end of the text. */
static bool take_share(const char *text, double *share)
{
    char *end;
    if ((text[0] < '0' || text[0] > '9') && text[0] != '.') {
        return false;
    }
    *share = strtod(text, &end);
    return *end == '\0' && *share >= 0.0 && *share <= 1.0;
}

static bool read_milestones(const char **text, struct uw_schedule *s)
{
    do {
        bool by_step;
        if (s->milestones_n == UW_SCHEDULE_MILESTONES_MAX ||
            !take_count(text, &s->milestone[s->milestones_n], &by_step)) {
            return false;
        }
        if (s->milestones_n > 0 && by_step != s->by_step) {
            return false;
        }
        s->by_step = by_step;
        s->milestones_n++;
    } while (take(text, ","));
    return true;
}

int uw_lr_parse(const char *text, struct uw_schedule *s)
{
    bool unused, good = true;

    *s = (struct uw_schedule){.kind = UW_SCHEDULE_CONSTANT};
    if (take(&text, "warmup:")) {
        good = take_count(&text, &s->warmup, &unused) && take(&text, "+");
    }
    if (!good) {
        return UW_ERR_INVALID;
    }
    bool cosine = take(&text, "cosine");
    if (cosine || take(&text, "linear")) {
        s->kind = cosine ? UW_SCHEDULE_COSINE : UW_SCHEDULE_LINEAR;
        good = *text == '\0' || (take(&text, ":") && take_share(text, &s->end));
    } else if (take(&text, "step:")) {
        s->kind = UW_SCHEDULE_STEP;
        good = take_count(&text, &s->every, &s->by_step) && take(&text, ":") &&
               take_share(text, &s->gamma) && s->gamma > 0.0;
    } else if (take(&text, "multistep:")) {
        s->kind = UW_SCHEDULE_MULTISTEP;
        good = read_milestones(&text, s) && take(&text, ":") && take_share(text, &s->gamma) &&
               s->gamma > 0.0;
    } else {
        good = strcmp(text, "constant") == 0;
    }
    return good ? UW_OK : UW_ERR_INVALID;
}
