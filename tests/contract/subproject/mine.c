/* SPDX-License-Identifier: Apache-2.0 */
#include <uwasa/node.h>

int main(void)
{
    return uw_node_mode_find("auto") == UW_NODE_AUTO ? 0 : 1;
}
