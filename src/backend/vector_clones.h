// PIE_VECTOR_CLONES before a function: it is compiled for several instruction sets, and the right
// one is chosen when the program is loaded. Not under sanitizers, whose start-up comes later than
// that.
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
