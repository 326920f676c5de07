/* SPDX-License-Identifier: Apache-2.0
 *
 * The sketch of an app's native library, called as Java would. */
#include "test_support.h"

#include <jni.h>
#include <unistd.h>

#define BATCH 8
#define INPUTS 4
#define FILE_NAME "jni_model.safetensors"

struct array {
    jsize n;
    const void *data;
};

static const char *text_of(JNIEnv *env, jstring s, jboolean *copied)
{
    (void)env;
    (void)copied;
    return s;
}

static void release_text(JNIEnv *env, jstring s, const char *text)
{
    (void)env;
    assert_ptr_equal(s, text);
}

static jsize length_of(JNIEnv *env, void *array)
{
    (void)env;
    return ((struct array *)array)->n;
}

static void take(void *array, jsize first, jsize n, void *to)
{
    const struct array *a = array;
    assert_true(first >= 0 && n >= 0 && first + n <= a->n);
    memcpy(to, (const char *)a->data + 4 * first, 4u * (size_t)n);
}

static void take_floats(JNIEnv *env, jfloatArray a, jsize first, jsize n, jfloat *to)
{
    (void)env;
    take(a, first, n, to);
}

static void take_ints(JNIEnv *env, jintArray a, jsize first, jsize n, jint *to)
{
    (void)env;
    take(a, first, n, to);
}

static const struct jni_table table = {text_of, release_text, length_of, take_floats, take_ints};
static JNIEnv env = &table;

static void test_app_trains_saves_and_goes_on(void **state)
{
    (void)state;
    static float x[BATCH * INPUTS];
    static jint y[BATCH];
    struct array inputs = {BATCH * INPUTS, x};
    struct array labels = {BATCH, y};
    char file[] = FILE_NAME;
    for (int i = 0; i < BATCH; i++) {
        y[i] = i % 2;
        x[i * INPUTS + i % INPUTS] = i % 2 == 0 ? 1.0f : -1.0f;
    }
    unlink(FILE_NAME);
    jlong t = Java_org_uwasa_Trainer_open(&env, NULL, file, INPUTS, 2, BATCH);
    assert_true(t != 0);
    float first = Java_org_uwasa_Trainer_step(&env, NULL, t, &inputs, &labels);
    float last = first;
    for (int i = 0; i < 50; i++) {
        last = Java_org_uwasa_Trainer_step(&env, NULL, t, &inputs, &labels);
    }
    assert_true(last < 0.2f * first);
    assert_true(Java_org_uwasa_Trainer_save(&env, NULL, t));
    Java_org_uwasa_Trainer_close(&env, NULL, t);
    t = Java_org_uwasa_Trainer_open(&env, NULL, file, INPUTS, 2, BATCH);
    assert_true(Java_org_uwasa_Trainer_step(&env, NULL, t, &inputs, &labels) <= last);
    for (int i = 0; i < BATCH; i++) {
        y[i] = 1 - y[i];
    }
    assert_true(Java_org_uwasa_Trainer_step(&env, NULL, t, &inputs, &labels) > first);
    Java_org_uwasa_Trainer_close(&env, NULL, t);
    unlink(FILE_NAME);
}

static void test_what_does_not_fit_is_refused(void **state)
{
    (void)state;
    static float x[BATCH * INPUTS];
    static const jint y[BATCH];
    struct array inputs = {BATCH * INPUTS - 1, x};
    struct array labels = {BATCH, y};
    char endless[5000];
    memset(endless, 'x', sizeof endless);
    endless[sizeof endless - 1u] = '\0';
    char file[] = FILE_NAME;
    assert_true(Java_org_uwasa_Trainer_open(&env, NULL, endless, INPUTS, 2, BATCH) == 0);
    assert_true(Java_org_uwasa_Trainer_open(&env, NULL, file, 0, 2, BATCH) == 0);
    assert_true(Java_org_uwasa_Trainer_open(&env, NULL, file, INPUTS, -1, BATCH) == 0);
    jlong t = Java_org_uwasa_Trainer_open(&env, NULL, file, INPUTS, 2, BATCH);
    assert_true(isnan(Java_org_uwasa_Trainer_step(&env, NULL, t, &inputs, &labels)));
    labels.n = 0;
    inputs.n = 0;
    assert_true(isnan(Java_org_uwasa_Trainer_step(&env, NULL, t, &inputs, &labels)));
    Java_org_uwasa_Trainer_close(&env, NULL, t);
    Java_org_uwasa_Trainer_close(&env, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_app_trains_saves_and_goes_on),
        cmocka_unit_test(test_what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
