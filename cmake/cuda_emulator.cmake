# The CUDA device on the emulator (src/backend/cuda/emulator): the same kernels, compiled as C++, so
# that their tests run on machines without a GPU and without nvcc.
file(GLOB emulated_kernels CONFIGURE_DEPENDS src/backend/cuda/kernels/*.cu)
file(GLOB emulated_sources CONFIGURE_DEPENDS src/backend/cuda/emulator/*.cc
  src/backend/cuda/kernels/*.cc src/backend/cuda/device/*.cc)
set(emulated_tests ${emulated_sources})
list(FILTER emulated_tests INCLUDE REGEX "_test\\.cc$")
list(FILTER emulated_sources EXCLUDE REGEX "_test\\.cc$")
set_source_files_properties(${emulated_kernels} PROPERTIES LANGUAGE CXX)

add_library(pie_cuda_emulated STATIC ${emulated_kernels} ${emulated_sources})
target_include_directories(pie_cuda_emulated BEFORE PUBLIC src/backend/cuda/emulator/include)
target_compile_definitions(pie_cuda_emulated PUBLIC PIE_CUDA_EMULATED)
# Kernels are written for nvcc, which reads memory as any type.
target_compile_options(pie_cuda_emulated PRIVATE -U_FORTIFY_SOURCE -fno-strict-aliasing
  -Wno-unknown-pragmas -Wno-strict-aliasing -Wno-shadow -Wno-sign-compare -Wno-unused-parameter)
target_link_libraries(pie_cuda_emulated PUBLIC pie_base pie_model pie_kv)

# The scheduler's tests of everything that can happen to a sequence, and of a device that fails.
add_executable(cuda_emulated_test ${emulated_tests} src/sched/composition_test.cc
  src/sched/failed_device_test.cc)
target_link_libraries(cuda_emulated_test PRIVATE pie_cuda_emulated pie_sched pie_backend
  GTest::gtest_main)
target_compile_definitions(cuda_emulated_test PRIVATE PIE_GOLDEN_DIR="${CMAKE_SOURCE_DIR}/tests/golden")
# A model's longer tests run for some architectures only: a thread of the emulator costs microseconds.
add_test(NAME cuda_emulated COMMAND cuda_emulated_test
  "--gtest_filter=AttentionTest.*:LayerTest.*:ProductTest.*:StreamedProductTest.*:PackedTest.*:CudaWeightsTest.*:CudaKvTest.*:*CudaResident*:SamplingTest.*:CudaFaults*:FailedDeviceTest.*:PageTransfersTest.*:*LogitsAre*:*PagesComeBack*:*/llama:*/olmo2:*/qwen3moe:Emulated/*-*Speed*:*Models/CudaGoldenTest.*gguf:*Carried*:Devices/*")
add_dependencies(cpp_tests cuda_emulated_test)
