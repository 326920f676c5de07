/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/node_parts.h"

const struct uw_node_parts uw_node_parts_all = {.averages = &uw_node_averages,
                                                .samples = &uw_node_samples,
                                                .answers = &uw_node_answers,
                                                .sentences = &uw_node_sentences};
