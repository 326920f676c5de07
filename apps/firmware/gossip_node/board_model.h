/* SPDX-License-Identifier: Apache-2.0
 *
 * board_model.h - the model that the firmware was built with */
#ifndef UW_FIRMWARE_BOARD_MODEL_H
#define UW_FIRMWARE_BOARD_MODEL_H

#include "uwasa/model.h"

extern const struct uw_model_def uw_board_model;

#endif
