/* SPDX-License-Identifier: Apache-2.0
 *
 * The promise of uwasa/storage.h, run over every implementation in `implementations`. */
#include "test_support.h"

#include "faulty_flash.h"

#include "uwasa/storage_file.h"
#include "uwasa/storage_flash.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* How the suite makes, reopens (as after a restart) and drops one implementation. */
struct implementation {
    const char *name;
    struct uw_storage *(*open)(void);
    void (*close)(struct uw_storage *s);
    bool one_handle;            /* its header allows no second one at a time */
};

/* ---- files ---- */

static char folder[64];

static struct uw_storage *file_open(void)
{
    struct uw_storage_file *s = malloc(sizeof *s);
    assert_int_equal(uw_storage_file_init(s, folder), UW_OK);
    return &s->base;
}

static void file_close(struct uw_storage *s)
{
    uw_storage_file_deinit((struct uw_storage_file *)s);
    uw_storage_file_deinit((struct uw_storage_file *)s);
    free(s);
}

/* ---- flash ---- */

/* In memory that outlives a killed child. */
static struct faulty_flash *flash;

static bool make_flash(void)
{
    size_t bytes = faulty_flash_bytes(256, 32, 8);
    uint8_t *memory = mmap(NULL, sizeof *flash + bytes, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return false;
    }
    flash = (struct faulty_flash *)(void *)memory;
    faulty_flash_init(flash, memory + sizeof *flash, 256, 32, 8, 1);
    return true;
}

static struct uw_storage *flash_open(void)
{
    static const struct uw_storage_flash_object objects[] = {
        {"none", 1}, {"a", 40}, {"ten", 10}, {"kept", 500}, {"one", 1}, {"two", 1}, {"crash", 40}};
    struct uw_storage_flash *s = malloc(sizeof *s);
    struct uw_storage_flash_config config = {.flash = &flash->base, .objects = objects,
                                             .objects_n = sizeof objects / sizeof objects[0]};
    assert_int_equal(uw_storage_flash_init(s, &config), UW_OK);
    return &s->base;
}

static void flash_close(struct uw_storage *s)
{
    assert_int_equal(flash->misused_n, 0);
    free(s);
}

static const struct implementation implementations[] = {
    {.name = "file", .open = file_open, .close = file_close},
    {.name = "flash", .open = flash_open, .close = flash_close, .one_handle = true},
};

static int prepare(void **state)
{
    (void)state;
    if (!make_flash()) {
        return 1;
    }
    strcpy(folder, "/tmp/uwasa_storage_XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    DIR *d = opendir(folder);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        unlinkat(dirfd(d), e->d_name, e->d_type == DT_DIR ? AT_REMOVEDIR : 0);
    }
    if (d != NULL) {
        closedir(d);
    }
    return rmdir(folder);
}

static uint32_t files_in_folder(void)
{
    uint32_t n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    while (readdir(d) != NULL) {
        n++;
    }
    closedir(d);
    return n - 2; /* . and .. */
}

/* ---- helpers over the interface ---- */

static int put(struct uw_storage *s, const char *object, const char *text)
{
    int rc = s->ops->begin(s, object);
    if (rc < 0) {
        return rc;
    }
    for (const char *p = text; *p != '\0'; p++) {
        assert_int_equal(s->ops->append(s, p, 1), UW_OK);
    }
    return s->ops->end(s, 1);
}

static void expect(struct uw_storage *s, const char *object, const char *text)
{
    uint64_t bytes = 0;
    char buf[64];
    assert_int_equal(s->ops->size(s, object, &bytes), UW_OK);
    assert_int_equal(bytes, strlen(text));
    assert_int_equal(s->ops->read(s, object, 0, buf, (size_t)bytes), UW_OK);
    assert_memory_equal(buf, text, (size_t)bytes);
}

#define FOR_EACH_IMPLEMENTATION(i)                                                                 \
    for (const struct implementation *i = implementations;                                         \
         i < implementations + sizeof implementations / sizeof implementations[0]; i++)

/* ---- contract ---- */

static void test_storage_missing_object_is_notfound(void **state)
{
    (void)state;
    FOR_EACH_IMPLEMENTATION(im)
    {
        struct uw_storage *s = im->open();
        uint64_t bytes;
        char c;
        assert_int_equal(s->ops->size(s, "none", &bytes), UW_ERR_NOTFOUND);
        assert_int_equal(s->ops->read(s, "none", 0, &c, 1), UW_ERR_NOTFOUND);
        im->close(s);
    }
}

static void test_storage_write_replaces_whole_object(void **state)
{
    (void)state;
    FOR_EACH_IMPLEMENTATION(im)
    {
        struct uw_storage *s = im->open();
        assert_int_equal(put(s, "a", "a rather long first version"), UW_OK);
        expect(s, "a", "a rather long first version");
        assert_int_equal(put(s, "a", "short"), UW_OK);
        expect(s, "a", "short");
        assert_int_equal(put(s, "a", ""), UW_OK);
        expect(s, "a", "");
        im->close(s);
        s = im->open();
        expect(s, "a", "");
        im->close(s);
    }
}

static void test_storage_read_past_the_end_is_corrupt_at_every_offset(void **state)
{
    (void)state;
    FOR_EACH_IMPLEMENTATION(im)
    {
        struct uw_storage *s = im->open();
        assert_int_equal(put(s, "ten", "0123456789"), UW_OK);
        for (uint64_t offset = 0; offset <= 11; offset++) {
            for (size_t bytes = 0; bytes <= 12; bytes++) {
                uint8_t *buf = uw_test_block(bytes);
                int rc = s->ops->read(s, "ten", offset, buf, bytes);
                if (offset + bytes <= 10) {
                    assert_int_equal(rc, UW_OK);
                    assert_memory_equal(buf, &"0123456789"[offset], bytes);
                } else if (bytes > 0) {
                    assert_int_equal(rc, UW_ERR_CORRUPT);
                }
                uw_test_release(buf);
            }
        }
        char c;
        assert_int_equal(s->ops->read(s, "ten", UINT64_MAX, &c, 1), UW_ERR_CORRUPT);
        im->close(s);
    }
}

static void test_storage_forgotten_write_keeps_the_old_object(void **state)
{
    (void)state;
    FOR_EACH_IMPLEMENTATION(im)
    {
        struct uw_storage *s = im->open();
        assert_int_equal(put(s, "kept", "old"), UW_OK);
        assert_int_equal(s->ops->begin(s, "kept"), UW_OK);
        assert_int_equal(s->ops->append(s, "newer", 5), UW_OK);
        expect(s, "kept", "old");
        assert_int_equal(s->ops->end(s, 0), UW_OK);
        expect(s, "kept", "old");

        assert_int_equal(s->ops->begin(s, "kept"), UW_OK);
        assert_int_equal(s->ops->append(s, "newer", 5), UW_OK);
        im->close(s); /* without end */
        s = im->open();
        expect(s, "kept", "old");
        im->close(s);
    }
}

static void test_storage_append_and_end_without_begin_are_refused(void **state)
{
    (void)state;
    FOR_EACH_IMPLEMENTATION(im)
    {
        struct uw_storage *s = im->open();
        assert_true(s->ops->append(s, "x", 1) < 0);
        assert_true(s->ops->end(s, 1) < 0);
        assert_int_equal(s->ops->begin(s, "one"), UW_OK);
        assert_true(s->ops->begin(s, "two") < 0);
        assert_int_equal(s->ops->end(s, 1), UW_OK);
        expect(s, "one", "");
        im->close(s);
    }
}

static void kill_self_after(const struct implementation *im, int appends, bool commit)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct uw_storage *s = im->open();
        int rc = s->ops->begin(s, "crash");
        for (int i = 0; i < appends && rc == UW_OK; i++) {
            rc = s->ops->append(s, "new", 3);
        }
        if (commit && rc == UW_OK) {
            rc = s->ops->end(s, 1);
        }
        if (rc == UW_OK) {
            kill(getpid(), SIGKILL);
        }
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void test_storage_killed_writer_leaves_old_or_new_and_next_write_works(void **state)
{
    (void)state;
    FOR_EACH_IMPLEMENTATION(im)
    {
        struct uw_storage *s = im->open();
        assert_int_equal(put(s, "crash", "old"), UW_OK);
        for (int appends = 0; appends < 4; appends++) {
            kill_self_after(im, appends, false);
            expect(s, "crash", "old");
        }
        kill_self_after(im, 2, true);
        expect(s, "crash", "newnew");
        kill_self_after(im, 3, false);
        assert_int_equal(put(s, "crash", "after"), UW_OK);
        expect(s, "crash", "after");
        im->close(s);
    }
}

static void test_storage_second_writer_never_tears_the_object(void **state)
{
    (void)state;
    FOR_EACH_IMPLEMENTATION(im)
    {
        if (im->one_handle) {
            continue;
        }
        struct uw_storage *a = im->open(), *b = im->open();
        assert_int_equal(a->ops->begin(a, "shared"), UW_OK);
        assert_int_equal(a->ops->append(a, "from a", 6), UW_OK);
        assert_int_equal(b->ops->begin(b, "shared"), UW_ERR_AGAIN);
        assert_int_equal(a->ops->end(a, 1), UW_OK);
        assert_int_equal(put(b, "shared", "from b"), UW_OK);
        expect(a, "shared", "from b");
        im->close(a);
        im->close(b);
    }
}

/* ---- files only ---- */

static void test_storage_file_reads_stay_with_the_version_that_size_found(void **state)
{
    (void)state;
    struct uw_storage *reader = file_open(), *writer = file_open();
    assert_int_equal(put(writer, "v", "version 1"), UW_OK);
    uint64_t bytes;
    char buf[16];
    assert_int_equal(reader->ops->size(reader, "v", &bytes), UW_OK);
    assert_int_equal(put(writer, "v", "other"), UW_OK);
    assert_int_equal(reader->ops->read(reader, "v", 0, buf, (size_t)bytes), UW_OK);
    assert_memory_equal(buf, "version 1", 9);
    expect(reader, "v", "other");
    file_close(reader);
    file_close(writer);
}

static void test_storage_file_leaves_nothing_beside_the_object(void **state)
{
    (void)state;
    struct uw_storage *s = file_open();
    uint32_t before = files_in_folder();
    assert_int_equal(put(s, "tidy", "x"), UW_OK);
    assert_int_equal(s->ops->begin(s, "tidy"), UW_OK);
    assert_int_equal(s->ops->end(s, 0), UW_OK);
    assert_int_equal(files_in_folder(), before + 1);
    file_close(s);
}

/* What is held stays held while it does not exist, while it is written, and when it is replaced. */
static void test_storage_file_held_is_refused_to_others(void **state)
{
    (void)state;
    struct uw_storage *s = file_open(), *other = file_open();
    struct uw_storage_file *holder = (struct uw_storage_file *)s;
    uint32_t before = files_in_folder();
    uint64_t bytes;
    assert_int_equal(uw_storage_file_hold(holder, "held"), UW_OK);
    assert_int_equal(uw_storage_file_hold(holder, "held"), UW_OK);
    for (uint32_t i = 0; i < 3; i++) {
        struct uw_storage_file *f = (struct uw_storage_file *)other;
        assert_int_equal(uw_storage_file_hold(f, "held"), UW_ERR_AGAIN);
        assert_int_equal(s->ops->begin(s, "held"), UW_OK);
        assert_int_equal(s->ops->append(s, "dropped", 7), UW_OK);
        assert_int_equal(uw_storage_file_hold(f, "held"), UW_ERR_AGAIN);
        assert_int_equal(s->ops->end(s, 0), UW_OK);
        assert_int_equal(uw_storage_file_hold(f, "held"), UW_ERR_AGAIN);
        assert_int_equal(s->ops->begin(s, "held"), UW_OK);
        assert_int_equal(s->ops->append(s, "new", i + 1u), UW_OK);
        assert_int_equal(s->ops->end(s, 1), UW_OK);
        assert_int_equal(uw_storage_file_hold(f, "held"), UW_ERR_AGAIN);
        assert_int_equal(other->ops->size(other, "held", &bytes), UW_OK);
        assert_int_equal(bytes, i + 1u);
        assert_int_equal(files_in_folder(), before + 1u);
        assert_int_equal(uw_storage_file_hold(f, "another"), UW_OK);
        file_close(other);
        other = file_open();
    }
    file_close(s);
    assert_int_equal(uw_storage_file_hold((struct uw_storage_file *)other, "held"), UW_OK);
    file_close(other);
    assert_int_equal(files_in_folder(), before + 1u);
}

static void test_storage_file_held_by_a_process_that_is_killed_is_free(void **state)
{
    (void)state;
    for (uint32_t there = 0; there < 2; there++) {
        int to[2];
        char ready;
        assert_int_equal(pipe(to), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct uw_storage_file *f = (struct uw_storage_file *)file_open();
            bool ok = uw_storage_file_hold(f, "killed") == UW_OK &&
                      (there == 0 || (f->base.ops->begin(&f->base, "killed") == UW_OK &&
                                      f->base.ops->end(&f->base, 1) == UW_OK));
            _exit(ok && write(to[1], "", 1) == 1 ? pause() : 1);
        }
        close(to[1]);
        bool holds = read(to[0], &ready, 1) == 1;
        close(to[0]);
        struct uw_storage *s = file_open();
        int during = uw_storage_file_hold((struct uw_storage_file *)s, "killed");
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        assert_true(holds);
        assert_int_equal(during, UW_ERR_AGAIN);
        assert_int_equal(uw_storage_file_hold((struct uw_storage_file *)s, "killed"), UW_OK);
        file_close(s);
    }
}

static void test_storage_file_bad_places_give_their_codes(void **state)
{
    (void)state;
    struct uw_storage *s = file_open();
    uint64_t bytes;
    assert_int_equal(put(s, "plain", "x"), UW_OK);
    assert_int_equal(s->ops->begin(s, "plain/below"), UW_ERR_NOTFOUND);
    assert_int_equal(s->ops->size(s, "plain/below", &bytes), UW_ERR_NOTFOUND);
    assert_int_equal(s->ops->begin(s, "nofolder/x"), UW_ERR_NOTFOUND);
    assert_int_equal(s->ops->begin(s, "/dev/null"), UW_ERR_INVALID);
    assert_int_equal(s->ops->size(s, "/dev/null", &bytes), UW_ERR_IO);
    assert_int_equal(s->ops->begin(s, "."), UW_ERR_INVALID);
    assert_int_equal(s->ops->size(s, ".", &bytes), UW_ERR_IO);
    assert_int_equal(s->ops->begin(s, ""), UW_ERR_INVALID);
    char longer[UW_STORAGE_FILE_PATH_BYTES + 1];
    memset(longer, 'a', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(s->ops->begin(s, longer), UW_ERR_TOOBIG);
    assert_int_equal(s->ops->size(s, longer, &bytes), UW_ERR_TOOBIG);
    struct uw_storage_file other;
    assert_int_equal(uw_storage_file_init(&other, longer), UW_ERR_TOOBIG);
    uw_storage_file_deinit(&other);
    file_close(s);
}

static void test_storage_file_absolute_name_ignores_the_directory(void **state)
{
    (void)state;
    struct uw_storage_file s;
    char absolute[128];
    snprintf(absolute, sizeof absolute, "%s/absolute", folder);
    assert_int_equal(uw_storage_file_init(&s, "/nonexistent"), UW_OK);
    assert_int_equal(put(&s.base, absolute, "there"), UW_OK);
    expect(&s.base, absolute, "there");
    uw_storage_file_deinit(&s);
    struct uw_storage_file zeroed = {.directory = ""};
    uw_storage_file_deinit(&zeroed);
}

static void test_storage_file_full_device_fails_and_keeps_the_old_object(void **state)
{
    (void)state;
    char name[128];
    struct uw_storage *s = file_open();
    assert_int_equal(put(s, "big", "old"), UW_OK);
    snprintf(name, sizeof name, "%s/big.part", folder);
    assert_int_equal(symlink("/dev/full", name), 0);
    assert_true(s->ops->begin(s, "big") < 0); /* a planted link is not followed */
    assert_int_equal(unlink(name), 0);

    assert_int_equal(s->ops->begin(s, "big"), UW_OK);
    struct uw_storage_file *f = (struct uw_storage_file *)s;
    int full = open("/dev/full", O_RDWR);
    assert_true(full >= 0 && dup2(full, f->write_fd) >= 0);
    close(full);
    assert_int_equal(s->ops->append(s, "new", 3), UW_ERR_FULL);
    assert_int_equal(s->ops->end(s, 1), UW_ERR_IO);
    expect(s, "big", "old");
    assert_int_equal(access(name, F_OK), -1);
    file_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_storage_missing_object_is_notfound),
        cmocka_unit_test(test_storage_write_replaces_whole_object),
        cmocka_unit_test(test_storage_read_past_the_end_is_corrupt_at_every_offset),
        cmocka_unit_test(test_storage_forgotten_write_keeps_the_old_object),
        cmocka_unit_test(test_storage_append_and_end_without_begin_are_refused),
        cmocka_unit_test(test_storage_killed_writer_leaves_old_or_new_and_next_write_works),
        cmocka_unit_test(test_storage_second_writer_never_tears_the_object),
        cmocka_unit_test(test_storage_file_reads_stay_with_the_version_that_size_found),
        cmocka_unit_test(test_storage_file_leaves_nothing_beside_the_object),
        cmocka_unit_test(test_storage_file_held_is_refused_to_others),
        cmocka_unit_test(test_storage_file_held_by_a_process_that_is_killed_is_free),
        cmocka_unit_test(test_storage_file_bad_places_give_their_codes),
        cmocka_unit_test(test_storage_file_absolute_name_ignores_the_directory),
        cmocka_unit_test(test_storage_file_full_device_fails_and_keeps_the_old_object),
    };
    return cmocka_run_group_tests_name("storage", tests, prepare, remove_folder);
}
