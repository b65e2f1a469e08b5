# The CUDA device: kernels compiled by nvcc, linked into pie_backend together with the static
# runtime, which loads the driver when it is first used. So the same pie runs without a GPU.
#
#   PIE_NVCC          the compiler; default: on the PATH, in /usr/local/cuda, or what setup fetched
#   PIE_CUDA_TARGETS  what to compile for
set(PIE_CUDA_TARGETS
  "-gencode=arch=compute_90a,code=sm_90a;-gencode=arch=compute_80,code=compute_80" CACHE STRING
  "nvcc's options for its targets: machine code for Hopper, and PTX for other cards since Ampere")
if(DEFINED ENV{PIE_CACHE})
  set(cuda_cache $ENV{PIE_CACHE})
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(cuda_cache $ENV{XDG_CACHE_HOME}/pie)
else()
  set(cuda_cache $ENV{HOME}/.cache/pie)
endif()
find_program(PIE_NVCC nvcc
  HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin ${cuda_cache}/cuda/13.0/nvidia/cu13/bin)
if(NOT PIE_NVCC)
  message(FATAL_ERROR "PIE_CUDA needs nvcc, version 13 or later: run `make CUDA=1`, which fetches "
    "it, or set PIE_NVCC")
endif()
get_filename_component(nvcc_real ${PIE_NVCC} REALPATH)
get_filename_component(cuda_root ${nvcc_real} DIRECTORY)
get_filename_component(cuda_root ${cuda_root} DIRECTORY)
find_library(PIE_CUDART NAMES libcudart_static.a
  PATHS ${cuda_root}/lib64 ${cuda_root}/lib ${cuda_root}/targets/x86_64-linux/lib NO_DEFAULT_PATH)
if(NOT PIE_CUDART)
  message(FATAL_ERROR "there is no libcudart_static.a beside ${nvcc_real}")
endif()

file(GLOB cuda_kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/backend/cuda/kernels/*.cu)
file(GLOB cuda_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/backend/cuda/kernels/*.h
  ${CMAKE_SOURCE_DIR}/src/backend/cuda/kernels/*.cuh ${CMAKE_SOURCE_DIR}/src/base/random.h)
set(cuda_objects)
foreach(source ${cuda_kernels})
  get_filename_component(name ${source} NAME_WE)
  set(object ${CMAKE_BINARY_DIR}/cuda/${name}.o)
  add_custom_command(OUTPUT ${object}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/cuda
    COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${PIE_NVCC} -ccbin ${CMAKE_CXX_COMPILER} -std=c++20 -O3
      --expt-relaxed-constexpr -Xcompiler=-fPIC,-ffunction-sections ${PIE_CUDA_TARGETS}
      -I${CMAKE_SOURCE_DIR}/src -I${cuda_root}/include -c ${source} -o ${object}
    DEPENDS ${source} ${cuda_headers} COMMENT "nvcc ${name}.cu" COMMAND_EXPAND_LISTS VERBATIM)
  list(APPEND cuda_objects ${object})
endforeach()
file(GLOB cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/backend/cuda/kernels/*.cc
  ${CMAKE_SOURCE_DIR}/src/backend/cuda/device/*.cc)
set(cuda_tests ${cuda_sources})
list(FILTER cuda_tests INCLUDE REGEX "_test\\.cc$")
list(FILTER cuda_sources EXCLUDE REGEX "_test\\.cc$")
target_sources(pie_backend PRIVATE ${cuda_sources} ${cuda_objects})
target_link_libraries(pie_backend PUBLIC ${PIE_CUDART} Threads::Threads ${CMAKE_DL_LIBS} rt)

add_executable(cuda_test ${cuda_tests} tests/smollm2/cuda_test.cc)
target_link_libraries(cuda_test PRIVATE pie_backend GTest::gtest_main nlohmann_json::nlohmann_json)
target_compile_definitions(cuda_test PRIVATE PIE_GOLDEN_DIR="${CMAKE_SOURCE_DIR}/tests/golden")
add_test(NAME cuda COMMAND cuda_test)
add_dependencies(cpp_tests cuda_test)

add_executable(pie-gpu-bench bench/gpu_bench.cc bench/gpu_shapes.cc bench/bare_loop.cc)
target_link_libraries(pie-gpu-bench PRIVATE pie_backend nlohmann_json::nlohmann_json)
set_target_properties(pie-gpu-bench cuda_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PIE_BIN_DIR}")
