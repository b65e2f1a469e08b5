// The functions of cuda_backend.h in builds without the kernels: each says that the kernels are
// missing.
#include "backend/cuda/cuda_backend.h"

namespace pie {
namespace {

constexpr const char* kNotBuilt =
    "this build of pie has no CUDA kernels: build it with `make CUDA=1`, or use the cpu driver";

}  // namespace

CudaStatus FindCudaDevices() {
  return {.built = false, .devices = {}, .problem = kNotBuilt};
}

Result<std::unique_ptr<Backend>> MakeCudaBackend(const std::string&, const CudaOptions&) {
  return Fail(Code::kUnavailable, "{}", kNotBuilt);
}

Result<std::unique_ptr<Backend>> MakeRandomCudaBackend(const ModelConfig&, const CudaOptions&) {
  return Fail(Code::kUnavailable, "{}", kNotBuilt);
}

}  // namespace pie
