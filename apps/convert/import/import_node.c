/* SPDX-License-Identifier: Apache-2.0 */
#include "import_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int uw_import_refuse(struct uw_import *im, const struct uw_onnx_node *n, int code,
                     const char *format, ...)
{
    char text[UW_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (im->batch == UW_BATCH_SYMBOL) {
        uw_import_name_open_sizes(text, sizeof text);
    }
    if (n == NULL) {
        return uw_error_set(im->err, code, "%.60s: %s", im->file, text);
    }
    const char *name = n->name[0] != '\0' ? n->name
                       : n->outputs_n > 0 ? n->output[0]
                                          : "";
    size_t length = strlen(name);
    return uw_error_set(im->err, code, "%.60s: node '%.60s' (%.30s): %s", im->file,
                        length > 60 ? name + length - 60 : name, n->op, text);
}

int uw_import_nomem(struct uw_import *im)
{
    return uw_error_set(im->err, UW_ERR_NOMEM, "%.60s: out of memory", im->file);
}

void uw_import_note(struct uw_import *im, const char *text)
{
    for (uint32_t i = 0; i < im->notes_n; i++) {
        if (strcmp(im->notes[i], text) == 0) {
            return;
        }
    }
    if (im->notes_n < UW_CONVERT_NOTES_MAX) {
        im->notes[im->notes_n++] = text;
    }
}

struct uw_value *uw_import_value(struct uw_import *im, const char *name)
{
    return name[0] != '\0' ? uw_names_slot(&im->values, name)->value : NULL;
}

struct uw_value *uw_import_in(struct uw_import *im, const struct uw_onnx_node *n, uint32_t i)
{
    return i < n->inputs_n ? uw_import_value(im, n->input[i]) : NULL;
}

struct uw_value *uw_import_out(struct uw_import *im, const struct uw_onnx_node *n, uint32_t i)
{
    return i < n->outputs_n ? uw_import_value(im, n->output[i]) : NULL;
}

struct uw_value *uw_import_data(struct uw_import *im, const struct uw_onnx_node *n, uint32_t i)
{
    struct uw_value *v = uw_import_in(im, n, i);
    if (v == NULL) {
        uw_import_refuse(im, n, UW_ERR_CORRUPT, "input %u is missing", (unsigned)i + 1);
    } else if (v->kind == UW_VALUE_CONST && v->t.is_float) {
        return uw_import_make_value(im, v);
    } else if (v->kind == UW_VALUE_CONST) {
        uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "input %u is a constant, not computed from "
                         "the sample", (unsigned)i + 1);
    } else if (v->kind == UW_VALUE_OPAQUE) {
        uw_error_set(im->err, v->code, "%s", v->why);
    } else if (v->kind == UW_VALUE_LIST) {
        uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "input %u is a list of values",
                         (unsigned)i + 1);
    } else {
        return v;
    }
    return NULL;
}

const struct uw_onnx_tensor *uw_import_const(struct uw_import *im, const struct uw_onnx_node *n,
                                             uint32_t i)
{
    const struct uw_value *v = uw_import_in(im, n, i);
    if (v != NULL && v->kind == UW_VALUE_CONST) {
        return &v->t;
    }
    if (v != NULL && v->kind == UW_VALUE_OPAQUE) {
        uw_error_set(im->err, v->code, "%s", v->why);
    } else {
        uw_import_refuse(im, n, UW_ERR_UNSUPPORTED,
                         v == NULL ? "input %u is missing"
                                   : "input %u is computed from the sample, it must be a constant",
                         (unsigned)i + 1);
    }
    return NULL;
}

bool uw_import_opaque_input(struct uw_import *im, const struct uw_onnx_node *n)
{
    for (uint32_t k = 0; k < n->inputs_n; k++) {
        const struct uw_value *v = uw_import_in(im, n, k);
        if (v != NULL && v->kind == UW_VALUE_OPAQUE) {
            uw_error_set(im->err, v->code, "%s", v->why);
            return true;
        }
    }
    return false;
}

int uw_import_opaque(struct uw_import *im, const struct uw_onnx_node *n, int code,
                     const char *why)
{
    const char *copy = uw_pool_text(im->pool, why, strlen(why));
    if (copy == NULL) {
        return uw_import_nomem(im);
    }
    for (uint32_t i = 0; i < n->outputs_n; i++) {
        struct uw_value *y = uw_import_out(im, n, i);
        if (y != NULL) {
            y->kind = UW_VALUE_OPAQUE;
            y->why = copy;
            y->code = code;
        }
    }
    return UW_OK;
}
