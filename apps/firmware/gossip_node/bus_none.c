/* SPDX-License-Identifier: Apache-2.0 */
#include "gossip_node.h"

const struct uw_node_frames *const uw_firmware_frames;

int uw_firmware_open_bus(struct uw_firmware *f)
{
    return uw_error_set(&f->err, UW_ERR_UNSUPPORTED, "link=bus: built without UWASA_SECURE_FRAMES");
}
