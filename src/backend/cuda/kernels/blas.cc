#include "backend/cuda/kernels/blas.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <vector>

#include "backend/cuda/kernels/random_fill.h"

namespace pie::cuda {
namespace {

// The part of cuBLASLt's interface that is used, which has been the same since version 11.
using Handle = void*;
struct Algorithm {
  uint64_t data[8];
};
struct Found {
  Algorithm algorithm;
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};
constexpr int kBf16 = 14;       // CUDA_R_16BF
constexpr int kFloat = 0;       // CUDA_R_32F
constexpr int kCompute = 68;    // CUBLAS_COMPUTE_32F
constexpr int kTransposed = 1;  // CUBLAS_OP_T
constexpr int kTransposeA = 3;  // CUBLASLT_MATMUL_DESC_TRANSA
constexpr int kMaxWorkspace = 1;
constexpr size_t kWorkspaceBytes = 64U << 20;
constexpr int kGuesses = 16;

}  // namespace

struct Blas::Plan {
  Handle operation = nullptr;
  Handle a = nullptr, b = nullptr, c = nullptr;
  std::vector<Found> found;
  size_t best = 0;
};

struct Blas::Library {
  void* file = nullptr;
  Handle handle = nullptr;
  void* workspace = nullptr;
  int (*create)(Handle*) = nullptr;
  int (*destroy)(Handle) = nullptr;
  int (*matmul)(Handle, Handle, const void*, const void*, Handle, const void*, Handle, const void*,
                const void*, Handle, void*, Handle, const Algorithm*, void*, size_t,
                Stream) = nullptr;
  int (*operation_create)(Handle*, int, int) = nullptr;
  int (*operation_set)(Handle, int, const void*, size_t) = nullptr;
  int (*layout_create)(Handle*, int, uint64_t, uint64_t, int64_t) = nullptr;
  int (*preference_create)(Handle*) = nullptr;
  int (*preference_set)(Handle, int, const void*, size_t) = nullptr;
  int (*guess)(Handle, Handle, Handle, Handle, Handle, Handle, Handle, int, Found*, int*) = nullptr;
  Handle preference = nullptr;

  using Key = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t, bool, bool>;
  std::map<Key, Plan> plans;

  ~Library() {
    if (handle != nullptr) destroy(handle);
    if (workspace != nullptr) Free(workspace);
    // The file stays loaded: CUDA may still refer to its kernels.
  }
};

std::unique_ptr<Blas> Blas::Load(std::string* why) {
  auto library = std::make_unique<Library>();
  for (const char* name : {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13",
                           "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so.12"}) {
    library->file = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library->file != nullptr) break;
  }
  if (library->file == nullptr) {
    *why = "libcublasLt.so.13 is not installed";
    return nullptr;
  }
  bool complete = true;
  const auto find = [&](auto& function, const char* name) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library->file, name));
    complete = complete && function != nullptr;
  };
  find(library->create, "cublasLtCreate");
  find(library->destroy, "cublasLtDestroy");
  find(library->matmul, "cublasLtMatmul");
  find(library->operation_create, "cublasLtMatmulDescCreate");
  find(library->operation_set, "cublasLtMatmulDescSetAttribute");
  find(library->layout_create, "cublasLtMatrixLayoutCreate");
  find(library->preference_create, "cublasLtMatmulPreferenceCreate");
  find(library->preference_set, "cublasLtMatmulPreferenceSetAttribute");
  find(library->guess, "cublasLtMatmulAlgoGetHeuristic");
  library->workspace = Allocate(kWorkspaceBytes);
  if (!complete || library->workspace == nullptr || library->create(&library->handle) != 0 ||
      library->preference_create(&library->preference) != 0 ||
      library->preference_set(library->preference, kMaxWorkspace, &kWorkspaceBytes,
                              sizeof kWorkspaceBytes) != 0) {
    *why = "cuBLASLt could not be opened";
    return nullptr;
  }
  return std::unique_ptr<Blas>(new Blas(std::move(library)));
}

Blas::Blas(std::unique_ptr<Library> library) : library_(std::move(library)) {}
Blas::~Blas() = default;

// cuBLASLt stores columns together, so it computes yᵀ = W · xᵀ.
Blas::Plan* Blas::PlanOf(const BlasProduct& p) {
  Library& lib = *library_;
  const auto [at, is_new] =
      lib.plans.try_emplace({p.n, p.k, p.rows, p.y_stride, p.to_float, p.add});
  Plan& plan = at->second;
  if (!is_new) return plan.found.empty() ? nullptr : &plan;
  const int y_type = p.to_float ? kFloat : kBf16;
  if (lib.operation_create(&plan.operation, kCompute, kFloat) != 0 ||
      lib.operation_set(plan.operation, kTransposeA, &kTransposed, sizeof kTransposed) != 0 ||
      lib.layout_create(&plan.a, kBf16, p.k, p.n, p.k) != 0 ||
      lib.layout_create(&plan.b, kBf16, p.k, p.rows, p.k) != 0 ||
      lib.layout_create(&plan.c, y_type, p.n, p.rows, p.y_stride) != 0) {
    return nullptr;
  }
  plan.found.resize(kGuesses);
  int count = 0;
  if (lib.guess(lib.handle, plan.operation, plan.a, plan.b, plan.c, plan.c, lib.preference,
                kGuesses, plan.found.data(), &count) != 0) {
    count = 0;
  }
  plan.found.resize(static_cast<size_t>(count));
  return count == 0 ? nullptr : &plan;
}

bool Blas::RunAlgorithm(const BlasProduct& p, Plan& plan, const void* algorithm, Stream stream) {
  const float one = 1;
  const float beta = p.add ? 1 : 0;
  return library_->matmul(library_->handle, plan.operation, &one, p.w, plan.a, p.x, plan.b, &beta,
                          p.y, plan.c, p.y, plan.c, static_cast<const Algorithm*>(algorithm),
                          library_->workspace, kWorkspaceBytes, stream) == 0;
}

bool Blas::Run(const BlasProduct& product, Stream stream) {
  Plan* const plan = PlanOf(product);
  return plan != nullptr &&
         RunAlgorithm(product, *plan, &plan->found[plan->best].algorithm, stream);
}

// Measures recorded graphs, because a launch by the host takes longer than a small product.
float Blas::Tune(BlasProduct product, std::span<const void* const> matrices, Stream stream) {
  constexpr int kRuns = 2;
  Plan* const plan = PlanOf(product);
  if (plan == nullptr) return -1;
  float best = -1;
  for (size_t i = 0; i < plan->found.size(); ++i) {
    if (!RunAlgorithm(product, *plan, &plan->found[i].algorithm, stream)) continue;  // warms up
    TimedGraph graph(
        [&] {
          for (const void* const matrix : matrices) {
            product.w = matrix;
            RunAlgorithm(product, *plan, &plan->found[i].algorithm, stream);
          }
        },
        stream);
    if (!graph.recorded()) continue;
    float milliseconds = graph.Run();
    for (int run = 1; run < kRuns; ++run) milliseconds = std::min(milliseconds, graph.Run());
    milliseconds /= static_cast<float>(matrices.size());
    if (best < 0 || milliseconds < best) {
      best = milliseconds;
      plan->best = i;
    }
  }
  return best;
}

float Blas::TuneAlike(const BlasProduct& product, std::span<const void* const> matrices,
                      Stream stream) {
  Plan* const plan = PlanOf(product);
  if (plan == nullptr) return -1;
  const uint64_t row_bytes = uint64_t{product.k} * 2;
  auto* const x = static_cast<char*>(const_cast<void*>(product.x));
  FillRandom(x, product.k, 1, 1, stream);
  for (uint32_t row = 1; row < product.rows; ++row) {
    CopyWithin(x + row * row_bytes, x, row_bytes, stream);
  }
  std::erase_if(plan->found, [&](const Found& found) {
    return !ComputesRowsAlike(product, *plan, &found.algorithm, stream);
  });
  return plan->found.empty() ? -1 : Tune(product, matrices, stream);
}

bool Blas::ComputesRowsAlike(const BlasProduct& product, Plan& plan, const void* algorithm,
                             Stream stream) {
  const uint64_t row_bytes = uint64_t{product.y_stride} * (product.to_float ? 4 : 2);
  Fill(product.y, 0, row_bytes * product.rows, stream);
  if (!RunAlgorithm(product, plan, algorithm, stream)) return false;
  std::vector<char> y(row_bytes * product.rows);
  CopyOut(y.data(), product.y, y.size(), stream);
  Synchronize(stream);
  const uint64_t used = uint64_t{product.n} * (product.to_float ? 4 : 2);
  for (uint32_t row = 1; row < product.rows; ++row) {
    if (std::memcmp(y.data(), y.data() + row * row_bytes, used) != 0) return false;
  }
  return true;
}

}  // namespace pie::cuda
