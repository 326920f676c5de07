/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds without nanopb. */
#include "uwasa/convert.h"

#define ABSENT "this program was built without ONNX (-DUWASA_NET=OFF)"

int uw_convert_read_with(struct uw_convert_model *c, const struct uw_convert_options *o,
                         const void *bytes, size_t bytes_n, const char *name,
                         struct uw_error *err)
{
    (void)o;
    return uw_convert_read(c, bytes, bytes_n, name, err);
}

int uw_convert_load_with(struct uw_convert_model *c, const struct uw_convert_options *o,
                         const char *path, struct uw_error *err)
{
    (void)o;
    return uw_convert_load(c, path, err);
}

int uw_convert_write_onnx_like(const struct uw_model *m, const struct uw_convert_model *like,
                               uw_convert_put put, void *arg, struct uw_error *err)
{
    (void)like;
    return uw_convert_write_onnx(m, put, arg, err);
}

int uw_convert_read(struct uw_convert_model *c, const void *bytes, size_t bytes_n,
                    const char *name, struct uw_error *err)
{
    (void)bytes;
    (void)bytes_n;
    *c = (struct uw_convert_model){.tensors_n = 0};
    return uw_error_set(err, UW_ERR_UNSUPPORTED, "%.120s: " ABSENT, name);
}

int uw_convert_load(struct uw_convert_model *c, const char *path, struct uw_error *err)
{
    return uw_convert_read(c, NULL, 0, path, err);
}

void uw_convert_deinit(struct uw_convert_model *c)
{
    *c = (struct uw_convert_model){.tensors_n = 0};
}

const char *uw_convert_operators(void)
{
    return "none, " ABSENT;
}

int uw_convert_write_onnx(const struct uw_model *m, uw_convert_put put, void *arg,
                          struct uw_error *err)
{
    (void)m;
    (void)put;
    (void)arg;
    return uw_error_set(err, UW_ERR_UNSUPPORTED, ABSENT);
}
