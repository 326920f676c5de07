/* SPDX-License-Identifier: Apache-2.0 */
#include "libraries.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define TEXT(x) #x
#define NUMBER(x) TEXT(x)
#define COUNT(a) (sizeof(a) / sizeof *(a))

/* The headers' version first: the plain name may be any version. */
static const char *const cublas_names[] = {
    "libcublas.so." NUMBER(CUBLAS_VER_MAJOR), "libcublas.so.13", "libcublas.so.12",
    "libcublas.so", NULL};
static const char *const cudnn_names[] = {
    "libcudnn.so." NUMBER(CUDNN_MAJOR), "libcudnn.so.9", "libcudnn.so.8", "libcudnn.so", NULL};

struct entry {
    const char *name;
    size_t at;                      /* offset in struct uw_cuda_libraries */
};

#define UW_ENTRY(entry) {#entry, offsetof(struct uw_cuda_libraries, entry)},
static const struct entry cublas_entries[] = {UW_CUBLAS_ENTRIES(UW_ENTRY)};
static const struct entry cudnn_entries[] = {UW_CUDNN_ENTRIES(UW_ENTRY)};
static const struct entry graph_entries[] = {UW_CUDNN_GRAPH_ENTRIES(UW_ENTRY)};
#undef UW_ENTRY

/* Load the first of names that loads. why: the error of one that exists but does not load. */
static void *load(const char *const *names, char why[200])
{
    why[0] = '\0';
    for (; *names != NULL; names++) {
        void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (library != NULL) {
            return library;
        }
        const char *text = dlerror();
        if (text != NULL && strncmp(text, *names, strlen(*names)) != 0 && why[0] == '\0') {
            snprintf(why, 200, " (%.190s)", text); /* a dependency is missing */
        }
    }
    return NULL;
}

static int look_up(struct uw_cuda_libraries *l, void *library, const char *what,
                   const struct entry *entries, size_t n, struct uw_error *err)
{
    for (size_t i = 0; i < n; i++) {
        void *found = dlsym(library, entries[i].name);
        if (found == NULL) {
            return uw_error_set(err, UW_ERR_NOTFOUND, "%s has no %s: install the version that this "
                                "program was built with", what, entries[i].name);
        }
        memcpy((unsigned char *)l + entries[i].at, &found, sizeof found);
    }
    return UW_OK;
}

/* Look up all functions of the graph API; if one is missing, all stay NULL. */
static void look_up_graph(struct uw_cuda_libraries *l)
{
    void *found[COUNT(graph_entries)], *none = NULL;
    bool all = true;
    for (size_t i = 0; i < COUNT(graph_entries); i++) {
        found[i] = dlsym(l->cudnn, graph_entries[i].name);
        all = all && found[i] != NULL;
    }
    for (size_t i = 0; i < COUNT(graph_entries); i++) {
        memcpy((unsigned char *)l + graph_entries[i].at, all ? &found[i] : &none, sizeof none);
    }
}

static int check_cudnn(const struct uw_cuda_libraries *l, struct uw_error *err)
{
    size_t version = l->cudnnGetVersion();
    size_t major = version >= 90000 ? version / 10000 : version / 1000;
    if (major == CUDNN_MAJOR) {
        return UW_OK;
    }
    return uw_error_set(err, UW_ERR_NOTFOUND, "cuDNN %zu is in the library path, this program was "
                        "built for cuDNN %d: install cuDNN %d, or build with the headers of %zu",
                        major, CUDNN_MAJOR, CUDNN_MAJOR, major);
}

int uw_cuda_libraries_open(struct uw_cuda_libraries *l, struct uw_error *err)
{
    char why[200];
    *l = (struct uw_cuda_libraries){.cublas = load(cublas_names, why)};
    if (l->cublas == NULL) {
        return uw_error_set(err, UW_ERR_NOTFOUND, "no cuBLAS: %s is not in the library path%s; "
                            "install the CUDA Toolkit (JetPack brings it)", cublas_names[0], why);
    }
    int rc = look_up(l, l->cublas, "cuBLAS", cublas_entries,
                     COUNT(cublas_entries), err);
    if (rc < 0) {
        return rc;
    }
    l->cudnn = load(cudnn_names, why);
    if (l->cudnn == NULL) {
        return uw_error_set(err, UW_ERR_NOTFOUND, "no cuDNN: %s is not in the library path%s; "
                            "install cuDNN %d (JetPack brings it)", cudnn_names[0], why,
                            CUDNN_MAJOR);
    }
    rc = look_up(l, l->cudnn, "cuDNN", cudnn_entries, COUNT(cudnn_entries), err);
    rc = rc < 0 ? rc : check_cudnn(l, err);
    if (rc == UW_OK) {
        look_up_graph(l);
    }
    return rc;
}
