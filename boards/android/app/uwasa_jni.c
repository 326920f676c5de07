/* SPDX-License-Identifier: Apache-2.0
 *
 * A starting point for an app that trains a model on its own data. The Java side:
 *
 *     package org.uwasa;
 *     public final class Trainer {
 *         static { System.loadLibrary("uwasa_jni"); }
 *         // file: getFilesDir() + "/model.safetensors"; if it exists, training goes on from it.
 *         // Returns 0 on failure.
 *         public static native long open(String file, int inputs, int classes, int batch);
 *         // inputs: batch x inputs, labels: batch. Returns the loss, NaN on failure.
 *         public static native float step(long trainer, float[] inputs, int[] labels);
 *         public static native boolean save(long trainer);
 *         public static native void close(long trainer);
 *     }
 *
 * Use each trainer from one thread at a time, and not from the UI thread. */
#include "uwasa/backends.h"
#include "uwasa/board.h"
#include "uwasa/checkpoint.h"
#include "uwasa/model.h"
#include "uwasa/storage_file.h"

#include <jni.h>
#include <math.h>
#include <string.h>

#define HIDDEN 64u
#define LAYERS 4u

struct trainer {
    struct uw_layer_def layers[LAYERS];
    struct uw_model_def def;
    struct uw_model model;
    struct uw_storage_file files;
    struct uw_checkpoint state;
    char file[UW_STORAGE_FILE_PATH_BYTES];
    jint batch;
    size_t bytes;                   /* of this struct and the model's memory, which follows it */
};

static struct trainer *self(jlong handle)
{
    return (struct trainer *)(uintptr_t)handle;
}

static struct uw_model_config describe(struct trainer *t, jint inputs, jint classes, jint batch)
{
    const struct uw_layer_def layers[LAYERS] = {
        {.kind = UW_LAYER_FLATTEN, .name = "flatten"},
        {.kind = UW_LAYER_DENSE, .name = "hidden", .dense = {.out = HIDDEN}},
        {.kind = UW_LAYER_RELU, .name = "relu"},
        {.kind = UW_LAYER_DENSE, .name = "out", .dense = {.out = (uint32_t)classes}}};
    memcpy(t->layers, layers, sizeof layers);
    t->def = (struct uw_model_def){.name = "app", .in_channels = (uint32_t)inputs,
                                   .layers = t->layers, .layers_n = LAYERS};
    return (struct uw_model_config){.def = &t->def, .kernels = uw_kernels_best(),
                                    .batch_n = (uint32_t)batch, .input = true,
                                    .optimizer = {.lr = 0.05f, .momentum = 0.9f}};
}

/* Measure the memory, allocate it and set up the trainer in it. */
static struct trainer *open_trainer(jint inputs, jint classes, jint batch)
{
    static uint8_t workspace[UW_MODEL_WORKSPACE_BYTES(LAYERS)];
    struct trainer plan;
    struct uw_model_config config = describe(&plan, inputs, classes, batch);
    struct uw_model_need need;
    struct trainer *t = NULL;
    void *memory;
    config.workspace = workspace;
    config.workspace_bytes = sizeof workspace;
    if (inputs < 1 || classes < 2 || batch < 1 ||
        uw_model_measure(&config, &need, NULL) != UW_OK) {
        return NULL;
    }
    size_t model_bytes = need.total_bytes + uw_arena_slack_bytes() + sizeof workspace;
    if (uw_board_memory_take(sizeof *t + model_bytes, &memory) == UW_OK) {
        t = memory;
        t->bytes = sizeof *t + model_bytes;
        t->batch = batch;
        config = describe(t, inputs, classes, batch);
        if (uw_model_open(&t->model, &config, t + 1, model_bytes, 1, NULL) != UW_OK) {
            uw_board_memory_release(memory, t->bytes);
            t = NULL;
        }
    }
    return t;
}

JNIEXPORT jlong JNICALL Java_org_uwasa_Trainer_open(JNIEnv *env, jclass class, jstring file,
                                                    jint inputs, jint classes, jint batch)
{
    (void)class;
    struct trainer *t = open_trainer(inputs, classes, batch);
    const char *text = (*env)->GetStringUTFChars(env, file, NULL);
    bool fits = t != NULL && text != NULL && strlen(text) < sizeof t->file;
    if (fits) {
        memcpy(t->file, text, strlen(text) + 1u);
        (void)uw_storage_file_init(&t->files, NULL);
        uint64_t bytes = 0;
        int there = t->files.base.ops->size(&t->files.base, t->file, &bytes);
        fits = there == UW_ERR_NOTFOUND ||
               uw_checkpoint_load(&t->model, &t->state, &t->files.base, t->file, NULL) == UW_OK;
    }
    if (text != NULL) {
        (*env)->ReleaseStringUTFChars(env, file, text);
    }
    if (!fits && t != NULL) {
        uw_board_memory_release(t, t->bytes);
        t = NULL;
    }
    return (jlong)(uintptr_t)t;
}

JNIEXPORT jfloat JNICALL Java_org_uwasa_Trainer_step(JNIEnv *env, jclass class, jlong handle,
                                                     jfloatArray inputs, jintArray labels)
{
    (void)class;
    struct trainer *t = self(handle);
    struct uw_model *m = &t->model;
    struct uw_step_result result;
    jsize n = (*env)->GetArrayLength(env, labels);
    uint32_t in = m->input_n;
    if (n < 1 || n > t->batch ||
        (uint32_t)(*env)->GetArrayLength(env, inputs) != (uint32_t)n * in) {
        return NAN;
    }
    (*env)->GetFloatArrayRegion(env, inputs, 0, n * (jsize)in, m->input);
    (*env)->GetIntArrayRegion(env, labels, 0, n, (jint *)m->label);
    int rc = uw_model_train_step(m, &(struct uw_minibatch){.n = (uint32_t)n}, &result, NULL);
    t->state.step += rc == UW_OK ? 1u : 0u;
    return rc == UW_OK ? (jfloat)result.loss : NAN;
}

JNIEXPORT jboolean JNICALL Java_org_uwasa_Trainer_save(JNIEnv *env, jclass class, jlong handle)
{
    (void)env;
    (void)class;
    struct trainer *t = self(handle);
    return uw_checkpoint_save(&t->model, &t->state, &t->files.base, t->file, NULL) == UW_OK;
}

JNIEXPORT void JNICALL Java_org_uwasa_Trainer_close(JNIEnv *env, jclass class, jlong handle)
{
    (void)env;
    (void)class;
    struct trainer *t = self(handle);
    if (t != NULL) {
        uw_storage_file_deinit(&t->files);
        uw_board_memory_release(t, t->bytes);
    }
}
