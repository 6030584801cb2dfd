// What nvcc and the emulation spell differently: shared memory. Everything else in a kernel is plain CUDA C++.
#pragma once

#ifdef __CUDACC__

#include <cuda_runtime.h>

// One object in shared memory. `Type` has no constructor; its content is undefined until it is written.
#define CPSPEC_SHARED(Type, name) __shared__ Type name

// The bytes of shared memory that the launch asked for, as an array of `Type`, 16-byte aligned.
#define CPSPEC_DYNAMIC_SHARED(Type, name)             \
    extern __shared__ uint4 cpspec_dynamic_shared[];  \
    Type* const name = reinterpret_cast<Type*>(cpspec_dynamic_shared)

#else

#include "../emulation/language.h"

// The address of a static of the declaring function tells one declaration from another, in templates too.
#define CPSPEC_SHARED(Type, name)        \
    static const char name##_site = 0;   \
    Type& name = *static_cast<Type*>(emulation::current_block->shared_object(&name##_site, sizeof(Type)))

#define CPSPEC_DYNAMIC_SHARED(Type, name) \
    Type* const name = static_cast<Type*>(emulation::current_block->shared().dynamic())

#endif
