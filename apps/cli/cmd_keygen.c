/* SPDX-License-Identifier: Apache-2.0 */
#include "base/commands.h"
#include "links/keyfile.h"

#include <stdio.h>
#include <string.h>

#define PATH_BYTES 1024u

struct options {
    const char *root, *device, *revoke;
    bool force;
};

#define ROW(...) UW_OPT_ROW(struct options, __VA_ARGS__)

static const struct uw_opt rows[] = {
    ROW("root", UW_OPT_TEXT, root, 0, 0, "FILE",
        "the root of a run with a key for each device: alone, make it"),
    ROW("device", UW_OPT_TEXT, device, 0, 0, "NAME",
        "make the key of a device, in FILE or NAME.key; 1 to 31 letters, digits, '.', '_' or '-'"),
    ROW("revoke", UW_OPT_TEXT, revoke, 0, 0, "NAME",
        "put a device on the root's list of revoked ones, ROOT.revoked, for good"),
    ROW("force", UW_OPT_FLAG, force, 0, 0, NULL, "replace the file if there is one"),
};

static const struct uw_args_spec spec = {
    .command = "keygen",
    .summary = "make the key of a run, which all of its nodes share, or a key for each device",
    .usage = "FILE | --root FILE [--device NAME [FILE] | --revoke NAME] [--force]",
    .example = "uwasa keygen run.key",
    .epilogue = "A run key is 64 hex digits, and only the owner of the file can read it. Every "
                "device that has it\ncan join the run. With a root each device has its own key, "
                "which can be taken back:\n"
                "  uwasa keygen --root home.root                    keep it off the devices\n"
                "  uwasa keygen --root home.root --device attic     makes attic.key\n"
                "  uwasa keygen --root home.root --revoke attic     adds to home.root.revoked\n"
                "Copy home.root.revoked to cellar.key.revoked of one device that stays, and send "
                "its node SIGHUP:\nit tells all others. "
                "A key file may have two keys, one after the other, while a run changes its key; "
                "SIGHUP loads it.",
    .opts = {rows, sizeof rows / sizeof rows[0]},
    .positional_max = 1,
};

/* The text of the root, and that of its list, which may not be there. */
static int read_root(const char *root, char *text, char *list, struct uw_error *err)
{
    char path[PATH_BYTES];
    bool exposed;
    list[0] = '\0';
    int rc = uw_keyfile_text(root, text, UW_DEVICE_TEXT_BYTES, &exposed, err);
    if (rc == UW_OK && snprintf(path, sizeof path, "%s.revoked", root) >= (int)sizeof path) {
        rc = uw_error_set(err, UW_ERR_IO, "%.100s...: the name is too long", root);
    }
    if (rc == UW_OK) {
        rc = uw_keyfile_text(path, list, UW_REVOKED_TEXT_BYTES, &exposed, err);
        rc = rc == UW_ERR_NOTFOUND ? UW_OK : rc;
    }
    return rc;
}

static int make_root(const struct options *o, struct uw_error *err)
{
    char text[UW_DEVICE_TEXT_BYTES];
    int rc = uw_root_create(text, err);
    rc = rc < 0 ? rc : uw_keyfile_write(o->root, text, true, o->force, err);
    uw_key_wipe(text, sizeof text);
    return rc;
}

static int make_device(const struct options *o, const char *file, struct uw_error *err)
{
    char root[UW_DEVICE_TEXT_BYTES], list[UW_REVOKED_TEXT_BYTES], text[UW_DEVICE_TEXT_BYTES];
    char named[UW_DEVICE_NAME_BYTES + 4u];
    struct uw_error why = {.text = ""};
    int rc = read_root(o->root, root, list, err);
    if (rc == UW_OK) {
        rc = uw_root_device(root, list, o->device, text, &why);
        if (rc < 0) {
            (void)uw_error_set(err, rc, "--root %.80s --device %.40s: %.120s", o->root, o->device,
                               why.text);
        }
    }
    if (rc == UW_OK) {
        snprintf(named, sizeof named, "%s.key", o->device);
        rc = uw_keyfile_write(file != NULL ? file : named, text, true, o->force, err);
    }
    uw_key_wipe(root, sizeof root);
    uw_key_wipe(text, sizeof text);
    return rc;
}

static int revoke_device(const struct options *o, struct uw_error *err)
{
    char root[UW_DEVICE_TEXT_BYTES], list[UW_REVOKED_TEXT_BYTES], path[PATH_BYTES];
    struct uw_error why = {.text = ""};
    int rc = read_root(o->root, root, list, err);
    if (rc == UW_OK) {
        rc = uw_root_revoke(root, list, o->revoke, &why);
        if (rc < 0) {
            (void)uw_error_set(err, rc, "--root %.80s --revoke %.40s: %.120s", o->root, o->revoke,
                               why.text);
        }
    }
    uw_key_wipe(root, sizeof root);
    if (rc >= 0) {
        int devices_n = rc;
        snprintf(path, sizeof path, "%s.revoked", o->root);
        rc = uw_keyfile_write(path, list, false, true, err);
        if (rc == UW_OK) {
            fprintf(stderr, "%s: %d device%s revoked\n", path, devices_n,
                    devices_n == 1 ? " is" : "s are");
        }
    }
    return rc;
}

/* What does not go together, as a sentence; NULL: nothing. */
static const char *check(const struct options *o, const char *file)
{
    return o->root == NULL && (o->device != NULL || o->revoke != NULL)
               ? "--root: is needed with --device and --revoke, the file that uwasa keygen --root "
                 "FILE makes"
           : o->device != NULL && o->revoke != NULL ? "--device, --revoke: one of them at a time"
           : o->root != NULL && o->device == NULL && file != NULL
               ? "FILE: is for run keys and --device; --root FILE names its own"
           : o->root == NULL && file == NULL ? "FILE: is needed, uwasa keygen run.key"
                                             : NULL;
}

int uw_cmd_keygen(int argc, char **argv)
{
    struct options o = {.force = false};
    struct uw_error err = {.text = ""};
    const char *file = NULL;
    int status = uw_args_parse(&spec, argc, argv, &o, &file);
    if (status >= 0) {
        return status;
    }
    const char *wrong = check(&o, file);
    if (wrong != NULL) {
        return uw_cli_error("keygen", UW_EXIT_USAGE, "%s", wrong);
    }
    int rc = o.device != NULL   ? make_device(&o, file, &err)
             : o.revoke != NULL ? revoke_device(&o, &err)
             : o.root != NULL   ? make_root(&o, &err)
                                : uw_keyfile_create(file, o.force, &err);
    return rc < 0 ? uw_cli_error("keygen", rc == UW_ERR_INVALID ? UW_EXIT_USAGE : UW_EXIT_FAILED,
                                 "%s", err.text)
                  : UW_EXIT_DONE;
}
