/* SPDX-License-Identifier: Apache-2.0 */
#include <uwasa/node.h>

int main(void)
{
    return uw_node_mode_find("gossip") == UW_NODE_GOSSIP ? 0 : 1;
}
