/* SPDX-License-Identifier: Apache-2.0
 *
 * import_graph.h - the values of a graph: its input, its constants, the outputs of its nodes
 * (private)
 *
 * Memory     as import.h      Blocking  never      Context  any thread
 */
#ifndef UWASA_CONVERT_IMPORT_GRAPH_H
#define UWASA_CONVERT_IMPORT_GRAPH_H

#include "import.h"

/* Turn im->graph, which has been decoded, into layers. Returns UW_OK or a code with err set. */
int uw_import_graph(struct uw_import *im);

/* Run a node's operator, without computing constants. Returns UW_OK or a code with err set. */
int uw_import_lower_node(struct uw_import *im, const struct uw_onnx_node *n);

/* Add a value for a name; a name may be defined only once. `n` is the node whose output it is.
 * Returns UW_OK, UW_ERR_CORRUPT, UW_ERR_NOMEM, err set. */
int uw_import_declare(struct uw_import *im, const char *name, const struct uw_onnx_node *n,
                      struct uw_value **out);

/* Add values for a graph's constants. */
int uw_import_declare_constants(struct uw_import *im, const struct uw_onnx_graph *g);

/* Add values for the outputs of a graph's nodes, and count the nodes that read each value. */
int uw_import_declare_nodes(struct uw_import *im, const struct uw_onnx_graph *g);

/* Read the graph's nodes, in order. */
int uw_import_run(struct uw_import *im, const struct uw_onnx_graph *g);

/* import_input.c: make these the model's input; several are the columns of one row. */
#define UW_IMPORT_INPUTS_MAX 8u
int uw_import_inputs(struct uw_import *im, const struct uw_onnx_value_info *const *info,
                     uint32_t inputs_n);

/* import_branch.c: an If whose condition is a constant, loops, which are refused, and constants of
 * another type. */
uw_import_op uw_op_if, uw_op_loop, uw_op_cast_like, uw_op_dequantize;

#endif
