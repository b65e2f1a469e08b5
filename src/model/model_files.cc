#include "model/model_files.h"

#include <system_error>
#include <utility>

namespace pie {
namespace {

namespace fs = std::filesystem;

Status CheckFolder(const fs::path& folder) {
  std::error_code ignored;
  const auto has = [&](const char* name) { return fs::exists(folder / name, ignored); };
  if (!has("config.json")) {
    return Fail(
        Code::kNotFound,
        "{}: the folder has no config.json; a model is a GGUF file or a Hugging Face folder",
        folder.string());
  }
  if (!has("model.safetensors") && !has("model.safetensors.index.json")) {
    return Fail(
        Code::kNotFound,
        "{}: the folder has neither model.safetensors nor model.safetensors.index.json; weights "
        "in other formats are not supported",
        folder.string());
  }
  return {};
}

}  // namespace

ModelFiles::ModelFiles(std::string name, ModelConfig config,
                       std::variant<Gguf, Safetensors> weights)
    : name_(std::move(name)), config_(std::move(config)), weights_(std::move(weights)) {}

Result<ModelFiles> ModelFiles::Open(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    Gguf gguf = PIE_TRY(Gguf::Open(path));
    ModelConfig config = PIE_TRY(ReadConfig(gguf));
    return ModelFiles(path.string(), std::move(config), std::move(gguf));
  }
  PIE_RETURN_IF_ERROR(CheckFolder(path));
  ModelConfig config = PIE_TRY(OpenConfigJson(path / "config.json"));
  Safetensors weights = PIE_TRY(Safetensors::Open(path));
  return ModelFiles(path.string(), std::move(config), std::move(weights));
}

const TensorTable& ModelFiles::tensors() const {
  return std::visit([](const auto& weights) -> const TensorTable& { return weights.tensors(); },
                    weights_);
}

ModelFiles::Naming ModelFiles::naming() const {
  return std::holds_alternative<Gguf>(weights_) ? Naming::kGguf : Naming::kHuggingFace;
}

const std::string& ModelFiles::FileOf(const Tensor& tensor) const {
  const auto* const folder = std::get_if<Safetensors>(&weights_);
  const auto* const file = folder ? folder->FileOf(tensor.data) : nullptr;
  return file ? file->name : name_;
}

Status ModelFiles::CheckWhole() const {
  const auto truncated = [](const std::string& name) {
    return Fail(Code::kInvalid,
                "{}: the file was truncated while it was read; restore it and load it again", name);
  };
  if (const auto* const gguf = std::get_if<Gguf>(&weights_)) {
    if (gguf->file().lost()) return truncated(name_);
    return {};
  }
  for (const Safetensors::File& file : std::get<Safetensors>(weights_).files()) {
    if (file.mapping.lost()) return truncated(file.name);
  }
  return {};
}

void ModelFiles::Release(std::span<const std::byte> used) const {
  if (const auto* const gguf = std::get_if<Gguf>(&weights_)) return gguf->file().Release(used);
  const auto* const file = std::get<Safetensors>(weights_).FileOf(used);
  if (file != nullptr) file->mapping.Release(used);
}

}  // namespace pie
