#include "model/fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/random.h"

namespace pie {
namespace {

constexpr size_t kSampleBytes = 256;

class Digest {
 public:
  void Add(uint64_t word) {
    high_ = Mix(high_ ^ word);
    low_ = Mix(low_ + word * 0xD1B54A32D192ED03ULL);
  }
  void Add(std::string_view bytes) {
    Add(bytes.size());
    for (size_t i = 0; i < bytes.size(); i += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data() + i, std::min(sizeof(word), bytes.size() - i));
      Add(word);
    }
  }
  std::string Hex() const { return fmt::format("{:016x}{:016x}", high_, low_); }

 private:
  uint64_t high_ = 1;
  uint64_t low_ = 2;
};

}  // namespace

std::string FingerprintOf(const ModelFiles& files) {
  Digest digest;
  digest.Add(NameOf(files.config().architecture));
  for (const Tensor& tensor : files.tensors().all()) {
    digest.Add(tensor.name);
    digest.Add(static_cast<uint64_t>(tensor.dtype));
    for (uint64_t size : tensor.shape) digest.Add(size);
    const std::string_view data(reinterpret_cast<const char*>(tensor.data.data()),
                                tensor.data.size());
    for (const size_t at : {size_t{0}, data.size() / 3, data.size() / 3 * 2}) {
      digest.Add(data.substr(at, kSampleBytes));
    }
  }
  return digest.Hex();
}

}  // namespace pie
