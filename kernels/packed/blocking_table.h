/* SPDX-License-Identifier: Apache-2.0
 *
 * blocking_table.h - blocks of matrix products for machines that have been measured
 *
 * Written by `uwasa bench kernels --write-table kernels/packed/blocking_table.h`, which keeps the
 * rows of other machines and kernels. Rows of A and columns of B in a block, by the bytes of the
 * first, second and third cache. What is not here has the blocks of its register tile's file. */
static const struct blocking blocking_table[] = {
    {NULL, {0, 0, 0}, 0, 0},
};
