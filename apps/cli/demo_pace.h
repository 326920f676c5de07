/* SPDX-License-Identifier: Apache-2.0
 *
 * demo_pace.h - how the demo's nodes train
 *
 * A board in its emulator trains on some 40 samples a second, a native node on a hundred times as
 * many: beside boards a native node rests, or all would lean to the digits that it has seen. */
#ifndef UWASA_CLI_DEMO_PACE_H
#define UWASA_CLI_DEMO_PACE_H

#define UW_DEMO_CONSENSUS_ROUNDS 12

#define UW_DEMO_BOARDS_BATCH 4
#define UW_DEMO_BOARDS_LR 0.05
#define UW_DEMO_BOARDS_PERIOD 2
#define UW_DEMO_BOARDS_STEP_SECONDS 0.08    /* at least; then as long as the boards' */
#define UW_DEMO_BOARDS_EVAL_SECONDS 10
#define UW_DEMO_BOARDS_EVAL_SAMPLES 200
#define UW_DEMO_BOARDS_FINAL_SAMPLES 500    /* of aarch64 and native nodes, all takes a minute */
#define UW_DEMO_BOARDS_CHECKPOINT_SECONDS 3

#endif
