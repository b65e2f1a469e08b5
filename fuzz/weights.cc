// The target `weights`: loads a model from a file onto a device and runs a step.
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/tiny_llama.h"
#include "files.h"
#include "memory_file.h"

namespace pie::fuzz {

std::string MakeWeights(Dice& dice) {
  static const std::string kFiles[] = {
      cpu::TinyLlama(DType::kQ4_1, DType::kQ8_0, true).Bytes(),
      cpu::TinyLlama(DType::kQ8_0, DType::kF32, false).Bytes(),
      cpu::TinyLlama(DType::kF32, DType::kF32, true).Bytes(),
  };
  std::string bytes = dice.Of(kFiles);
  DamageBytes(bytes, dice);
  return bytes;
}

bool LoadWeights(const std::string& bytes) {
  const MemoryFile file(bytes);
  const auto device = MakeCpuBackend(file.path(), {.total_pages = 4, .threads = 1});
  if (!device) return false;
  const std::vector<SampleSpec> samples = {{.rows = {2}}};
  Batch batch;
  batch.tokens = {1, 2, 3};  // those of the smallest vocabularies are valid, too
  for (uint32_t& token : batch.tokens) token %= (*device)->info().vocab_size;
  batch.positions = {0, 1, 2};
  batch.pages = {PageId{0}};
  batch.members = {{.rows = 3, .pages = 1, .samples = &samples}};
  const auto ticket = (*device)->Submit(batch);
  if (ticket) (void)(*device)->Wait(*ticket);
  return true;
}

}  // namespace pie::fuzz
