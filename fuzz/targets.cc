#include "targets.h"

#include "files.h"
#include "model/config.h"
#include "model/dequantize.h"
#include "model/gguf.h"
#include "model/safetensors.h"

namespace pie::fuzz {
namespace {

std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// Reads every byte and unpacks the first block of each tensor, as loading a model does.
void Touch(const TensorTable& tensors) {
  unsigned sum = 0;
  for (const Tensor& tensor : tensors.all()) {
    for (const std::byte byte : tensor.data) sum += std::to_integer<unsigned>(byte);
    const DTypeInfo& info = InfoOf(tensor.dtype);
    std::vector<float> block(info.block_elements);
    if (tensor.data.size() >= info.block_bytes) {
      (void)Dequantize(tensor.dtype, tensor.data.first(info.block_bytes), block);
    }
  }
  asm volatile("" ::"r"(sum));
}

std::string MakeGguf(Dice& dice) {
  std::string bytes = RandomGguf(dice);
  if (!dice.Once(4)) DamageBytes(bytes, dice);
  return bytes;
}

bool ReadGguf(const std::string& bytes) {
  const auto gguf = Gguf::Parse(Bytes(bytes), "fuzz.gguf");
  if (!gguf) return false;
  for (const auto& [key, value] : gguf->metadata()) {
    (void)value.Integer();
    (void)value.Number();
    (void)value.String();
    (void)value.Elements();
    (void)value.Strings();
    (void)value.Numbers();
    (void)value.Bools();
  }
  Touch(gguf->tensors());
  return ReadConfig(*gguf).has_value();
}

std::string MakeSafetensors(Dice& dice) {
  nlohmann::ordered_json header = RandomSafetensorsHeader(dice);
  if (!dice.Once(3)) DamageJson(header, dice);
  std::string bytes = SafetensorsFile(header.dump());
  if (dice.Once(2)) DamageBytes(bytes, dice);
  return bytes;
}

bool ReadSafetensors(const std::string& bytes) {
  const auto read = Safetensors::Parse(Bytes(bytes), "fuzz.safetensors");
  if (read) Touch(read->tensors());
  return read.has_value();
}

std::string MakeConfig(Dice& dice) {
  nlohmann::ordered_json json = RandomConfig(dice);
  if (!dice.Once(4)) DamageJson(json, dice);
  std::string text = json.dump();
  if (dice.Once(4)) DamageBytes(text, dice);
  return text;
}

bool ReadTheConfig(const std::string& text) {
  return ReadConfigJson(text, "config.json").has_value();
}

constexpr Target kTargets[] = {
    {"gguf", MakeGguf, ReadGguf},
    {"safetensors", MakeSafetensors, ReadSafetensors},
    {"config", MakeConfig, ReadTheConfig},
    {"tokenizer", MakeTokenizer, ReadTokenizer},
    {"vocabulary", MakeVocabulary, ReadVocabulary},
    {"weights", MakeWeights, LoadWeights},
    {"frame", MakeFrame, ReadFrame},
    {"template", MakeTemplate, ReadTemplate},
    {"manifest", MakeManifest, ReadTheManifest},
    {"settings", MakeSettings, ReadSettings},
    {"snapshot", MakeSnapshot, ReadSnapshot},
};

}  // namespace

std::span<const Target> Targets() {
  return kTargets;
}

}  // namespace pie::fuzz
