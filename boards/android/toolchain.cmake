# SPDX-License-Identifier: Apache-2.0
# Android 9 and later with the NDK in ANDROID_NDK (a variable of CMake or of the environment):
# Android's own C library, for Termux and for apps.

if(NOT ANDROID_NDK)
  set(ANDROID_NDK $ENV{ANDROID_NDK})
endif()
if(NOT EXISTS ${ANDROID_NDK}/build/cmake/android.toolchain.cmake)
  message(FATAL_ERROR "ANDROID_NDK: needs the folder of an NDK, with "
                      "build/cmake/android.toolchain.cmake; without one see boards/android/static.cmake")
endif()
if(NOT ANDROID_ABI)
  set(ANDROID_ABI arm64-v8a)
endif()
if(NOT ANDROID_PLATFORM)
  set(ANDROID_PLATFORM android-28)      # the first one with getrandom
endif()
include(${ANDROID_NDK}/build/cmake/android.toolchain.cmake)

# `boards/android/build ndk` puts the libraries there.
get_filename_component(libraries ${CMAKE_CURRENT_LIST_DIR}/../../.cache/android-ndk ABSOLUTE)
list(APPEND CMAKE_FIND_ROOT_PATH ${libraries})
