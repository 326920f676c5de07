/* SPDX-License-Identifier: Apache-2.0
 *
 * jni.h - of Java's native interface what boards/android/app uses, to compile and call it without a
 * Java machine: types by the JNI specification, a table that has these entries only.
 */
#ifndef UWASA_TEST_JNI_H
#define UWASA_TEST_JNI_H

#include <stdint.h>

#define JNIEXPORT __attribute__((visibility("default")))
#define JNICALL

typedef int32_t jint;
typedef int64_t jlong;
typedef float jfloat;
typedef uint8_t jboolean;
typedef jint jsize;
typedef void *jclass, *jstring, *jfloatArray, *jintArray;

struct jni_table;
typedef const struct jni_table *JNIEnv;

struct jni_table {
    const char *(*GetStringUTFChars)(JNIEnv *, jstring, jboolean *);
    void (*ReleaseStringUTFChars)(JNIEnv *, jstring, const char *);
    jsize (*GetArrayLength)(JNIEnv *, void *);
    void (*GetFloatArrayRegion)(JNIEnv *, jfloatArray, jsize, jsize, jfloat *);
    void (*GetIntArrayRegion)(JNIEnv *, jintArray, jsize, jsize, jint *);
};

/* What Java would find by their names. */
jlong Java_org_uwasa_Trainer_open(JNIEnv *env, jclass class, jstring file, jint inputs,
                                  jint classes, jint batch);
jfloat Java_org_uwasa_Trainer_step(JNIEnv *env, jclass class, jlong handle, jfloatArray inputs,
                                   jintArray labels);
jboolean Java_org_uwasa_Trainer_save(JNIEnv *env, jclass class, jlong handle);
void Java_org_uwasa_Trainer_close(JNIEnv *env, jclass class, jlong handle);

#endif
