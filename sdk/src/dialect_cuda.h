// The dialect of CUDA C++ as NVRTC compiles it, without headers. Options that it needs: --fmad=false, -std=c++17.
#ifndef TC_SDK_SRC_DIALECT_CUDA_H_
#define TC_SDK_SRC_DIALECT_CUDA_H_

#include "tc/cprint.h"

extern const tc_cdialect tc_dialect_cuda;

#endif
