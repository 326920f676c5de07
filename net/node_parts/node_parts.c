/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/node_parts.h"

const struct uw_node_parts uw_node_parts_all = {.averages = &uw_node_averages,
                                                .addresses = &uw_node_addresses,
                                                .casts = &uw_node_casts,
                                                .directs = &uw_node_directs,
                                                .frames = &uw_node_frames,
                                                .samples = &uw_node_samples,
                                                .answers = &uw_node_answers,
                                                .queries = &uw_node_queries,
                                                .periods = &uw_node_periods,
                                                .sleeps = &uw_node_sleeps,
                                                .slices = &uw_node_slices,
                                                .lanes = &uw_node_lanes,
                                                .codes = &uw_node_codes,
                                                .guards = &uw_node_guards,
                                                .revokes = &uw_node_revokes,
                                                .sentences = &uw_node_sentences};
