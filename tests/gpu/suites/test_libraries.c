/* SPDX-License-Identifier: Apache-2.0
 *
 * What is said where cuBLAS or cuDNN is missing, does not load, or is another one. The loader's
 * functions are replaced in libraries.c: what it finds is said here. */
#include "test_support.h"

#include "cuda/libraries.h"

/* What the loader finds. */
static const char *has_cublas, *has_cudnn, *lacks, *broken;
static size_t version;
static char said[256];
static uint32_t asked_n;

static size_t fake_version(void)
{
    return version;
}

void *uw_test_dlopen(const char *name, int flags);
void *uw_test_dlsym(void *library, const char *name);
char *uw_test_dlerror(void);

void *uw_test_dlopen(const char *name, int flags)
{
    (void)flags;
    snprintf(said, sizeof said, "%s: cannot open shared object file", name);
    if (broken != NULL && strcmp(name, broken) == 0) {
        snprintf(said, sizeof said, "libother.so.1: cannot open shared object file");
        return NULL;
    }
    bool found = (has_cublas != NULL && strcmp(name, has_cublas) == 0) ||
                 (has_cudnn != NULL && strcmp(name, has_cudnn) == 0);
    return found ? said : NULL;
}

char *uw_test_dlerror(void)
{
    return said;
}

void *uw_test_dlsym(void *library, const char *name)
{
    void *found = library;      /* any address: it is not called */
    size_t (*call)(void) = fake_version;
    asked_n++;
    if (strcmp(name, "cudnnGetVersion") == 0) {
        memcpy(&found, &call, sizeof found);
    }
    return lacks != NULL && strcmp(name, lacks) == 0 ? NULL : found;
}

static int all_is_there(void **state)
{
    (void)state;
    has_cublas = "libcublas.so";
    has_cudnn = "libcudnn.so";
    lacks = broken = NULL;
    version = CUDNN_VERSION;
    asked_n = 0;
    return 0;
}

static void assert_refused(const char *sentence)
{
    struct uw_cuda_libraries l;
    struct uw_error err = {.code = UW_OK};
    assert_int_equal(uw_cuda_libraries_open(&l, &err), UW_ERR_NOTFOUND);
    if (strstr(err.text, sentence) == NULL) {
        print_error("'%s' is not in '%s'\n", sentence, err.text);
        fail();
    }
}

static void test_libraries_of_any_name_give_every_function(void **state)
{
    (void)state;
    static const char *const names[] = {"libcublas.so.12", "libcublas.so.13", "libcublas.so"};
    struct uw_cuda_libraries l;
    struct uw_error err;
    for (size_t i = 0; i < 3; i++) {
        has_cublas = names[i];
        asked_n = 0;
        assert_int_equal(uw_cuda_libraries_open(&l, &err), UW_OK);
        assert_int_equal(asked_n * sizeof(void *) + 2 * sizeof(void *), sizeof l);
    }
}

static void test_libraries_missing_ones_are_named(void **state)
{
    (void)state;
    has_cudnn = NULL;
    assert_refused("no cuDNN: libcudnn.so.");
    assert_refused("is not in the library path; install cuDNN");
    has_cublas = NULL;
    assert_refused("no cuBLAS: libcublas.so.");
}

static void test_libraries_that_want_another_one_say_which(void **state)
{
    (void)state;
    has_cudnn = NULL;
    broken = "libcudnn.so.9";
    assert_refused("(libother.so.1: cannot open shared object file)");
}

static void test_libraries_without_a_function_name_it(void **state)
{
    (void)state;
    lacks = "cublasSgemm_v2_64";
    assert_refused("cuBLAS has no cublasSgemm_v2_64");
    lacks = "cudnnConvolutionForward";
    assert_refused("cuDNN has no cudnnConvolutionForward");
}

static void test_libraries_without_all_of_the_graph_api_have_none_of_it(void **state)
{
    (void)state;
    static const char *const names[] = {"cudnnBackendCreateDescriptor", "cudnnBackendGetAttribute",
                                        "cudnnBackendExecute", NULL};
    struct uw_cuda_libraries l;
    struct uw_error err;
    for (size_t i = 0; i < 4; i++) {
        lacks = names[i];
        assert_int_equal(uw_cuda_libraries_open(&l, &err), UW_OK);
        assert_true((l.cudnnBackendCreateDescriptor != NULL) == (lacks == NULL));
        assert_true((l.cudnnBackendExecute != NULL) == (lacks == NULL));
        assert_non_null(l.cudnnConvolutionForward);
    }
}

static void test_libraries_of_another_major_version_are_refused(void **state)
{
    (void)state;
    version = CUDNN_MAJOR == 9 ? 8907 : 91900;
    assert_refused(CUDNN_MAJOR == 9 ? "cuDNN 8 is in the library path"
                                    : "cuDNN 9 is in the library path");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_libraries_of_any_name_give_every_function, all_is_there),
        cmocka_unit_test_setup(test_libraries_missing_ones_are_named, all_is_there),
        cmocka_unit_test_setup(test_libraries_that_want_another_one_say_which, all_is_there),
        cmocka_unit_test_setup(test_libraries_without_a_function_name_it, all_is_there),
        cmocka_unit_test_setup(test_libraries_without_all_of_the_graph_api_have_none_of_it,
                               all_is_there),
        cmocka_unit_test_setup(test_libraries_of_another_major_version_are_refused, all_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
