/* SPDX-License-Identifier: Apache-2.0 */
#include "job_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CHOICES_BYTES_MAX (16 << 20)    /* no file of choices comes near it */

/* $XDG_CACHE_HOME/uwasa/cuda_choices, by default in ~/.cache. If the folder cannot be created or
 * the path is not such a file, every start measures again. */
static void find_choices(char path[512])
{
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int n = -1;
    if (cache != NULL && cache[0] == '/') {
        n = snprintf(path, 400, "%s", cache);
    } else if (home != NULL && home[0] == '/') {
        n = snprintf(path, 400, "%s/.cache", home);
    }
    if (n <= 0 || n >= 400) {
        path[0] = '\0';
        return;
    }
    (void)mkdir(path, 0700);
    snprintf(path + n, 512 - (size_t)n, "/uwasa");
    struct stat st;
    if (mkdir(path, 0777) < 0 && (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))) {
        path[0] = '\0';
        return;
    }
    snprintf(path + n, 512 - (size_t)n, "/uwasa/cuda_choices");
    if (stat(path, &st) == 0 && (!S_ISREG(st.st_mode) || st.st_size > CHOICES_BYTES_MAX)) {
        path[0] = '\0';            /* opening a pipe would block; a huge file takes minutes */
    }
}

static int without(struct uw_job_gpu *g, const struct uw_job_gpu_config *config, bool wanted,
                   const struct uw_error *why, struct uw_error *err)
{
    if (wanted && config->unseen && uw_cuda_open_unseen(&g->cuda, NULL) == UW_OK) {
        g->unseen = true;
        snprintf(g->note, sizeof g->note, "%.140s", why->text);
        return UW_OK;
    }
    if (wanted) {
        g->cuda = NULL;
        return uw_error_set(err, UW_ERR_CLOSED,
                            "--backend cuda: %.180s; with --backend auto the processor computes",
                            why->text);
    }
    if (config->tf32) {
        return uw_error_set(err, UW_ERR_INVALID, "--tf32: is for a GPU: %.200s", why->text);
    }
    if (why->code != UW_ERR_UNSUPPORTED) {
        snprintf(g->note, sizeof g->note, "the processor computes, not a GPU: %.200s", why->text);
    }
    return UW_OK;
}

int uw_job_gpu_open(struct uw_job_gpu *g, const struct uw_job_gpu_config *config,
                    struct uw_error *err)
{
    struct uw_error why = {.text = ""};
    bool wanted = config->backend.at == UW_BACKEND_CUDA;
    *g = (struct uw_job_gpu){.cuda = NULL};
    if (wanted && config->exact) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "--exact: --backend cuda sums in another order; leave it out, or use "
                            "ref");
    }
    if (config->exact || (!wanted && config->backend.at != UW_BACKEND_AUTO)) {
        return config->tf32 ? uw_error_set(err, UW_ERR_INVALID,
                                           "--tf32: is for a GPU, the processor computes in fp32")
                            : UW_OK;
    }
    find_choices(g->choices);
    const struct uw_cuda_config cuda = {.tf32 = config->tf32,
                                        .choices = g->choices[0] != '\0' ? g->choices : NULL};
    if (uw_cuda_open(&g->cuda, &cuda, &why) < 0) {
        g->cuda = NULL;
        return without(g, config, wanted, &why, err);
    }
    uw_cuda_info(g->cuda, &g->info);
    return UW_OK;
}

void uw_job_gpu_leave(struct uw_job_gpu *g, const char *why)
{
    uw_job_gpu_close(g);
    snprintf(g->note, sizeof g->note, "the processor computes, not the GPU: %.200s", why);
}

const char *uw_job_gpu_else(void)
{
    return uw_kernels_best()->name;
}

int uw_job_gpu_error(struct uw_error *err, const char *why, const char *verb)
{
    return uw_error_set(err, UW_ERR_IO, "the GPU failed (%.95s); --backend %s %s on the processor",
                        why, uw_job_gpu_else(), verb);
}

void uw_job_gpu_log(struct uw_job_gpu *g, const char *command)
{
    if (g->note[0] != '\0') {
        fprintf(stderr, "uwasa %s: %s\n", command, g->note);
    }
    g->note[0] = '\0';
}

const char *uw_job_gpu_driver(const struct uw_job_gpu *g, char text[UW_GPU_TEXT_BYTES])
{
    snprintf(text, UW_GPU_TEXT_BYTES, "%u.%u", g->info.driver / 1000u,
             g->info.driver % 1000u / 10u);
    return text;
}

const char *uw_job_gpu_cudnn(const struct uw_job_gpu *g, char text[UW_GPU_TEXT_BYTES])
{
    uint32_t v = g->info.cudnn;
    uint32_t major = v >= 10000u ? v / 10000u : v / 1000u;     /* 91900, and 8907 before 9 */
    uint32_t rest = v >= 10000u ? v % 10000u : v % 1000u;
    snprintf(text, UW_GPU_TEXT_BYTES, "%u.%u.%u", major, rest / 100u, rest % 100u);
    return text;
}

const char *uw_job_gpu_text(const struct uw_job_gpu *g, char text[UW_GPU_TEXT_BYTES])
{
    char driver[UW_GPU_TEXT_BYTES], cudnn[UW_GPU_TEXT_BYTES];
    uw_job_gpu_driver(g, driver);
    uw_job_gpu_cudnn(g, cudnn);
    snprintf(text, UW_GPU_TEXT_BYTES, "%.63s, driver for CUDA %.15s, cuDNN %.15s", g->info.name,
             driver, cudnn);
    return text;
}

void uw_job_gpu_close(struct uw_job_gpu *g)
{
    uw_cuda_close(g->cuda);
    g->cuda = NULL;
}
