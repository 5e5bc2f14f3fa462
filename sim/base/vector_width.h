#pragma once
// One binary for every x86-64: a function marked so exists once per vector width and the loader picks. Sanitizers start
// before the loader's choice and cannot be built this way.

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__clang__)
#define KVTIDE_EVERY_VECTOR_WIDTH __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define KVTIDE_EVERY_VECTOR_WIDTH
#endif
