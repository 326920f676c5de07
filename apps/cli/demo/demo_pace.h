/* SPDX-License-Identifier: Apache-2.0
 *
 * demo_pace.h - how the demo's nodes train
 *
 * A board in its emulator trains on some 100 samples a second, a native node on many times as
 * many: beside boards a native node rests, or all would lean to the digits that it has seen. And
 * all end together, or who is left trains to its own digits. */
#ifndef UWASA_CLI_DEMO_PACE_H
#define UWASA_CLI_DEMO_PACE_H

#define UW_DEMO_CONSENSUS_SECONDS 4.0
#define UW_DEMO_CONSENSUS_ROUNDS 12
#define UW_DEMO_LINGER_SECONDS 2            /* at most: as long as others train or pull */

#define UW_DEMO_BOARDS_SECONDS 150.0
#define UW_DEMO_BOARDS_BATCH 8
#define UW_DEMO_BOARDS_LR 0.3
#define UW_DEMO_BOARDS_PERIOD 10
#define UW_DEMO_BOARDS_STEP_SECONDS 0.06    /* at least; then as long as the boards' */
#define UW_DEMO_BOARDS_EVAL_SECONDS 10
#define UW_DEMO_BOARDS_EVAL_SAMPLES 200
#define UW_DEMO_BOARDS_FINAL_SAMPLES 500    /* of aarch64 and native nodes, all takes a minute */
#define UW_DEMO_BOARDS_CHECKPOINT_SECONDS 3
#define UW_DEMO_BOARDS_CONSENSUS_SECONDS 30.0
#define UW_DEMO_BOARDS_CONSENSUS_ROUNDS 30
#define UW_DEMO_BOARDS_LINGER_SECONDS 60

#endif
