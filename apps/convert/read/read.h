/* SPDX-License-Identifier: Apache-2.0
 *
 * read.h - from the bytes of an ONNX file to a model (private)
 *
 * The file is decoded (file/), its nodes become layers (import/), layers are joined (fuse/), and
 * here the layers that the outputs need get names and become the tables of a model.
 *
 * Memory     the import's pool      Blocking  never      Context  any thread
 */
#ifndef UWASA_CONVERT_READ_H
#define UWASA_CONVERT_READ_H

#include "import/import.h"

static inline bool uw_read_is_recurrent(enum uw_layer_kind kind)
{
    return kind == UW_LAYER_RNN || kind == UW_LAYER_GRU || kind == UW_LAYER_LSTM;
}

/* roles.c: what of the model trains. Give the constants that --constant and --trained name their
 * roles, before the graph becomes layers. */
void uw_read_roles(struct uw_import *im);

/* Whether an embedding gives the index itself, as the import and our own files have it to refuse
 * indices that a tied weight has no row for. */
bool uw_read_is_index(const struct uw_import_layer *l);

/* Let the named layers train, or not: those of constants with a role, and those that --constant and
 * --trained name. Tell of tensors that are no layer's weight. Returns UW_OK, UW_ERR_INVALID (a name
 * that the file does not have), UW_ERR_NOMEM, err set. */
int uw_read_trained(struct uw_import *im);

/* A text that parts are added to while they fit. */
struct uw_read_list {
    char text[300];
    size_t used;
    uint32_t n;                     /* parts, those that did not fit too */
};

/* roles.c */
void uw_read_list_add(struct uw_read_list *l, const char *between, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* origins.c: tell of weights that the exporter computed from parameters in advance, and of
 * parameters of the program that the file does not have. Returns UW_OK or UW_ERR_NOMEM, err set. */
int uw_read_origins(struct uw_import *im);

/* Name the needed layers. Returns UW_OK or UW_ERR_NOMEM, err set. */
int uw_read_names(struct uw_import *im);

/* The parameter of the file that a node of this parameter's module reads in its place, tied or
 * equal so far; NULL: none. */
const char *uw_read_tied(const struct uw_import *im, const char *parameter);

/* torch_names.c: what PyTorch calls the weights, where nodes tell their modules. Before layers are
 * joined: of modules that read another one's parameter. */
void uw_read_module_names(struct uw_import *im);

/* Of recurrent layers. Returns UW_OK or UW_ERR_NOMEM, err set. */
int uw_read_recurrent_names(struct uw_import *im);

/* Each name once, of the needed layers, and names of tied weights. Returns as above. */
int uw_read_torch_names(struct uw_import *im);

/* The module of a node that PyTorch's exporter has named: "layer1.0.conv1" of
 * "/layer1/layer1.0/conv1/Conv"; "" of "/Relu_3". What does not fit is cut off. */
#define UW_READ_MODULE_BYTES 512u
void uw_read_module(const char *node, char module[UW_READ_MODULE_BYTES]);

/* Join layers, and write names, inputs, losses and tensors of all that are needed to the model.
 * Returns UW_OK or a code with err set. */
int uw_read_tables(struct uw_import *im, struct uw_convert_model *m,
                   struct uw_value *const *outputs, uint32_t outputs_n);

#endif
