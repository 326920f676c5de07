/* SPDX-License-Identifier: Apache-2.0
 *
 * recipe.h - options for optimizer, memory and learning rate, of train, plan and node
 *
 * A command embeds a struct uw_recipe in its options, initialises it with UW_RECIPE_DEFAULTS, puts
 * UW_RECIPE_ROWS into its table and converts it to a job's configuration with uw_recipe_apply.
 */
#ifndef UWASA_CLI_RECIPE_H
#define UWASA_CLI_RECIPE_H

#include "base/args.h"

#include "uwasa/model.h"
#include "uwasa/schedule.h"

/* In the order of the choices in UW_RECIPE_ROWS. */
enum uw_recipe_optimizer {
    UW_RECIPE_SGD, UW_RECIPE_MOMENTUM, UW_RECIPE_ADAM, UW_RECIPE_ADAMW, UW_RECIPE_RMSPROP
};

#define UW_RECIPE_MODE_AUTO 0

struct uw_recipe {
    struct uw_choice optimizer;     /* enum uw_recipe_optimizer */
    struct uw_choice mode;          /* UW_RECIPE_MODE_AUTO, then as enum uw_plan_mode */
    const char *train;
    double momentum, beta1, beta2, alpha, epsilon;  /* below 0: not given */
    double weight_decay, clip_tensor, clip_norm;
    bool nesterov;
    uint32_t micro_batch;
    uint64_t budget;
};

#define UW_RECIPE_DEFAULTS                                                                         \
    {.optimizer = {"sgd", UW_RECIPE_SGD}, .mode = {"auto", UW_RECIPE_MODE_AUTO}, .train = "all", \
     .momentum = -1.0, .beta1 = -1.0,                                                              \
     .beta2 = -1.0, .alpha = -1.0, .epsilon = -1.0}

#define UW_RECIPE_ROW(options, flag, kind, field, ...) \
    UW_OPT_ROW(options, flag, kind, recipe.field, __VA_ARGS__)

/* Rows for a struct `options` with a member struct uw_recipe recipe. */
#define UW_RECIPE_ROWS(options)                                                                   \
    UW_RECIPE_ROW(options, "optimizer", UW_OPT_CHOICE, optimizer, 0, 0,                           \
                  "sgd|momentum|adam|adamw|rmsprop", "as in PyTorch (sgd)"),                      \
    UW_RECIPE_ROW(options, "momentum", UW_OPT_REAL, momentum, 0, 1, "X",                          \
                  "of sgd and rmsprop (0; 0.9 with --optimizer momentum)"),                       \
    UW_RECIPE_ROW(options, "weight-decay", UW_OPT_REAL, weight_decay, 0, 0, "X",                   \
                  "weight decay (0)"),                                                            \
    UW_RECIPE_ROW(options, "nesterov", UW_OPT_FLAG, nesterov, 0, 0, NULL, "Nesterov's momentum"), \
    UW_RECIPE_ROW(options, "beta1", UW_OPT_REAL, beta1, 0, 1, "X", "of adam, adamw (0.9)"),       \
    UW_RECIPE_ROW(options, "beta2", UW_OPT_REAL, beta2, 0, 1, "X", "of adam, adamw (0.999)"),     \
    UW_RECIPE_ROW(options, "alpha", UW_OPT_REAL, alpha, 0, 1, "X", "of rmsprop (0.99)"),          \
    UW_RECIPE_ROW(options, "epsilon", UW_OPT_REAL, epsilon, 0, 0, "X",                            \
                  "of adam, adamw, rmsprop (1e-8)"),                                              \
    UW_RECIPE_ROW(options, "clip", UW_OPT_REAL, clip_tensor, 0, 0, "X",                           \
                  "largest norm of one tensor's gradient"),                                       \
    UW_RECIPE_ROW(options, "clip-norm", UW_OPT_REAL, clip_norm, 0, 0, "X",                        \
                  "largest norm of all gradients together"),                                      \
    UW_RECIPE_ROW(options, "train", UW_OPT_TEXT, train, 0, 0, "WHAT",                             \
                  "all, bias, last:N layers with weights, lora:RANK[:ALPHA] on dense (all)"),     \
    UW_RECIPE_ROW(options, "micro-batch", UW_OPT_U32, micro_batch, 1, 0, "N",                     \
                  "samples computed at a time: smaller activations, but all gradients are kept; "  \
                  "a step is still that of the minibatch"),                                       \
    UW_RECIPE_ROW(options, "budget", UW_OPT_BYTES, budget, 1, 0, "BYTES",                         \
                  "largest memory: activations are recomputed where needed")

/* Fill a configuration from a checked recipe: mode, optimizer, what is trained, micro-batch,
 * budget. batch_n must be set already; lr is not changed. Returns UW_OK, or UW_ERR_INVALID with err
 * naming the flag. */
int uw_recipe_apply(const struct uw_recipe *r, struct uw_model_config *config,
                    struct uw_error *err);

/* The default learning rate: 0.05, with adaptive optimizers 0.001. */
double uw_recipe_lr(const struct uw_recipe *r);

/* "immediate" */
const char *uw_recipe_mode_name(enum uw_plan_mode mode);

/* Allowed schedules, for the sentence about a bad one. */
#define UW_LR_ALLOWED \
    "constant, cosine[:END], linear[:END], step:N:FACTOR or multistep:N,M:FACTOR (epochs, or "    \
    "steps as 2000s), with warmup:STEPS+ in front"

/* Read the schedule of a learning rate:
 *
 *   constant             as given
 *   step:N:G             times G after every N epochs; N steps with "step:2000s:0.1"
 *   multistep:N,M,..:G   times G at each of the epochs, or steps: "multistep:4000s,6000s:0.1"
 *   cosine  cosine:E     half a cosine down to 0, or to the fraction E, over the whole run
 *   linear  linear:E     linearly down to 0, or to the fraction E
 *   warmup:N+...         any of these, after a linear rise over the first N steps
 *
 * Returns UW_OK or UW_ERR_INVALID. */
int uw_lr_parse(const char *text, struct uw_schedule *s);

#endif
