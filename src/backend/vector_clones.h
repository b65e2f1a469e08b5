// PIE_VECTOR_CLONES before a function compiles it for several instruction sets; the loader picks
// one when the program starts. It does nothing under sanitizers, which are not yet initialised when
// the loader picks.
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PIE_SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PIE_SANITIZED
#endif
#if defined(__x86_64__) && defined(__ELF__) && !defined(PIE_SANITIZED)
#define PIE_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define PIE_VECTOR_CLONES
#endif
