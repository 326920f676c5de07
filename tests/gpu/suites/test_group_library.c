/* SPDX-License-Identifier: Apache-2.0
 *
 * What is said where NCCL is missing, does not load, or is too old. The loader's functions are
 * replaced in group_library.c: what it finds is said here. */
#include "test_support.h"

#include "cuda/group_library.h"

static bool there, works;
static const char *said, *lacks;
static int version;

static ncclResult_t fake_version(int *out)
{
    *out = version;
    return works ? ncclSuccess : ncclSystemError;
}

void *uw_test_dlopen(const char *name, int flags);
void *uw_test_dlsym(void *library, const char *name);
char *uw_test_dlerror(void);

void *uw_test_dlopen(const char *name, int flags)
{
    (void)flags;
    assert_string_equal(name, "libnccl.so.2");
    return there ? &there : NULL;
}

char *uw_test_dlerror(void)
{
    static char text[128];
    snprintf(text, sizeof text, "%s", said);
    return text;
}

void *uw_test_dlsym(void *library, const char *name)
{
    void *found = library;          /* any address: it is not called */
    ncclResult_t (*call)(int *) = fake_version;
    if (strcmp(name, "ncclGetVersion") == 0) {
        memcpy(&found, &call, sizeof found);
    }
    return lacks != NULL && strcmp(name, lacks) == 0 ? NULL : found;
}

static int all_is_well(void **state)
{
    (void)state;
    there = works = true;
    lacks = NULL;
    said = "libnccl.so.2: cannot open shared object file";
    version = 22809;
    return 0;
}

static void assert_refused(const char *sentence)
{
    struct uw_cuda_group_library l;
    struct uw_error err = {.code = UW_OK};
    assert_int_equal(uw_cuda_group_library_open(&l, &err), UW_ERR_NOTFOUND);
    if (strstr(err.text, sentence) == NULL) {
        fail_msg("'%s' is not in '%s'", sentence, err.text);
    }
}

static void test_library_gives_every_function(void **state)
{
    (void)state;
    struct uw_cuda_group_library l;
    struct uw_error err;
    assert_int_equal(uw_cuda_group_library_open(&l, &err), UW_OK);
    assert_int_equal(l.version, 22809);
    assert_true(l.ncclCommAbort != NULL && l.ncclAllReduce != NULL);
}

static void test_missing_library_is_named_with_its_package(void **state)
{
    (void)state;
    there = false;
    assert_refused("no NCCL: libnccl.so.2 is not in the library path; install it (package");
    said = "libibverbs.so.1: cannot open shared object file";
    assert_refused("(libibverbs.so.1: cannot open");
}

static void test_function_that_it_lacks_is_named(void **state)
{
    (void)state;
    lacks = "ncclCommFinalize";
    assert_refused("NCCL has no ncclCommFinalize");
}

static void test_old_one_is_refused(void **state)
{
    (void)state;
    version = 21304;
    assert_refused("older than 2.14");
    version = 22809;
    works = false;
    assert_refused("older than 2.14");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_library_gives_every_function, all_is_well),
        cmocka_unit_test_setup(test_missing_library_is_named_with_its_package, all_is_well),
        cmocka_unit_test_setup(test_function_that_it_lacks_is_named, all_is_well),
        cmocka_unit_test_setup(test_old_one_is_refused, all_is_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
