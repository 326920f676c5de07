/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands are volatile, so that the compiler does not evaluate the tests itself. */
#include "uwasa/exact.h"

#include "uwasa/backends.h"
#include "uwasa/status.h"

#include <float.h>

const struct uw_kernels *uw_kernels_exact(void)
{
    for (uint32_t i = 0;; i++) {
        const struct uw_kernels *k = uw_kernels_at(i);
        if (k == NULL || k->exact) {
            return k;
        }
    }
}

/* Is the rounding mode to nearest, ties to even, for both signs? */
static bool rounds_to_nearest(void)
{
    volatile float one = 1.0f, odd = 0x1.000002p0f, half = 0x1p-24f;
    volatile double done = 1.0, dhalf = 0x1p-53;
    float a = one + half, b = odd + half, c = -one - half, d = -odd - half;
    double e = done + dhalf, f = -done - dhalf;
    return a == 1.0f && b == 0x1.000004p0f && c == -1.0f && d == -0x1.000004p0f && e == 1.0 &&
           f == -1.0;
}

static bool keeps_subnormals(void)
{
    volatile float least = 0x1p-149f, normal = 0x1p-126f, half = 0.5f, one = 1.0f;
    volatile double small = 0x1p-1022, dhalf = 0.5;
    float a = least * one, b = normal * half, c = least + least;
    double d = small * dhalf;
    return a == 0x1p-149f && b == 0x1p-127f && c == 0x1p-148f && d == 0x1p-1023;
}

/* (1 + 2^-12)^2 is 1 + 2^-11 in float; fused or with excess precision it still has 2^-24. */
static bool rounds_products(void)
{
    volatile float x = 0x1.001p0f, z = -0x1.002p0f, y;
    volatile double dx = 0x1.0000002p0, dz = -0x1.0000004p0, dy;
    float xv = x, zv = z;
    double dxv = dx, dzv = dz;
    y = xv * xv + zv;
    dy = dxv * dxv + dzv;
    return FLT_EVAL_METHOD == 0 && y == 0.0f && dy == 0.0;
}

int uw_exact_check(void)
{
    bool good = sizeof(double) == 8 && rounds_to_nearest() && keeps_subnormals() &&
                rounds_products();
    return good ? UW_OK : UW_ERR_UNSUPPORTED;
}
