/* SPDX-License-Identifier: Apache-2.0 */
#include "group_library.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define NAME "libnccl.so.2"
#define VERSION_LEAST 21400         /* the first with nonblocking communicators */

static const struct {
    const char *name;
    size_t at;                      /* offset in struct uw_cuda_group_library */
} entries[] = {
#define UW_ENTRY(entry) {#entry, offsetof(struct uw_cuda_group_library, entry)},
    UW_NCCL_ENTRIES(UW_ENTRY)
#undef UW_ENTRY
};

int uw_cuda_group_library_open(struct uw_cuda_group_library *l, struct uw_error *err)
{
    void *library = dlopen(NAME, RTLD_NOW | RTLD_LOCAL);
    *l = (struct uw_cuda_group_library){.version = 0};
    if (library == NULL) {
        const char *why = dlerror();
        bool there = why != NULL && strncmp(why, NAME, strlen(NAME)) != 0;
        return uw_error_set(err, UW_ERR_NOTFOUND, "no NCCL: " NAME " is not in the library path"
                            "%s%.120s%s; install it (package libnccl2)", there ? " (" : "",
                            there ? why : "", there ? ")" : "");
    }
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        void *found = dlsym(library, entries[i].name);
        if (found == NULL) {
            return uw_error_set(err, UW_ERR_NOTFOUND, "NCCL has no %s: install a newer one "
                                "(package libnccl2)", entries[i].name);
        }
        memcpy((unsigned char *)l + entries[i].at, &found, sizeof found);
    }
    if (l->ncclGetVersion(&l->version) != ncclSuccess || l->version < VERSION_LEAST) {
        return uw_error_set(err, UW_ERR_NOTFOUND, "NCCL is older than 2.14: install a newer one "
                            "(package libnccl2)");
    }
    return UW_OK;
}
