// Models in fp8 on the CPU device: the same logits, bit for bit, as the same weights in bfloat16.
#include <gtest/gtest.h>

#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/sequence_testing.h"
#include "backend/cpu/testing.h"
#include "model/fp8_testing.h"

namespace pie::cpu {
namespace {

std::unique_ptr<Backend> Open(const std::filesystem::path& folder) {
  auto backend = MakeCpuBackend(folder.string(), {.total_pages = 64, .threads = 1});
  EXPECT_TRUE(backend) << backend.error().text;
  return backend ? std::move(*backend) : nullptr;
}

TEST(Fp8WeightsTest, AreWorthTheSameAsInBFloat16) {
  for (const char* const name : {"llama", "phi3", "qwen3moe"}) {
    for (const Fp8Form& form : kFp8Forms) {
      const Fp8Model model(GoldenModels() / name, form);
      const auto stored = Open(model.stored());
      const auto plain = Open(model.plain());
      ASSERT_TRUE(stored && plain) << name << ", " << form.name;
      const std::vector<Sequence> sequences = {Sequence(23, 1, 50), Sequence(5, 2, 50)};
      EXPECT_TRUE(AllLogits(*stored, sequences, 8) == AllLogits(*plain, sequences, 8))
          << name << ", " << form.name;
    }
  }
}

}  // namespace
}  // namespace pie::cpu
