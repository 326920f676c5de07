/* SPDX-License-Identifier: Apache-2.0
 *
 * blocking_table.h - block sizes of matrix products, measured on some machines
 *
 * Written by `uwasa bench kernels --write-table kernels/packed/blocking_table.h`, which keeps the
 * rows of other machines and kernels. A row gives the rows of A and columns of B in a block, for
 * the bytes of the L1, L2 and L3 cache. Other machines use the block sizes of struct uw_tile. */
static const struct blocking blocking_table[] = {
    {NULL, {0, 0, 0}, 0, 0},
};
