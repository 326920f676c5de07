/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/cplusplus.h - support for C++ programs that include the headers of this library
 *
 * A header declares its functions between UW_C_BEGIN and UW_C_END. Members that several threads
 * access are atomic in C. In C++ they have the same size and alignment, and only the library may
 * access them.
 */
#ifndef UWASA_CPLUSPLUS_H
#define UWASA_CPLUSPLUS_H

#include <stdint.h>

#ifdef __cplusplus
#define UW_C_BEGIN extern "C" {
#define UW_C_END }
typedef bool uw_atomic_flag;
typedef uint_least32_t uw_atomic_u32;
#else
#include <stdatomic.h>
#define UW_C_BEGIN
#define UW_C_END
typedef atomic_flag uw_atomic_flag;
typedef atomic_uint_least32_t uw_atomic_u32;
#endif

#endif
