// Malformed models: those of tests/golden, each with one change.
#include "backend/cpu/weights/weights.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "backend/cpu/testing.h"

namespace pie::cpu {
namespace {

namespace fs = std::filesystem;

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A model in a temporary folder, which is removed at the end of the test.
class Changed {
 public:
  Changed(const std::string& model, bool gguf)
      : folder_(testing::TempDir() + "weights_test" + std::to_string(getpid())), gguf_(gguf) {
    const auto source = GoldenModels() / model;
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    fs::copy(source / "config.json", folder_);
    bytes_ = ReadAll(source / (gguf ? "model.gguf" : "model.safetensors"));
  }
  ~Changed() { fs::remove_all(folder_); }

  const std::string& bytes() const { return bytes_; }
  const fs::path& folder() const { return folder_; }
  // Writes `bytes` as the model's file and loads it. Returns the error, or "" if the model loads.
  std::string Load(const std::string& bytes) const {
    const fs::path file = folder_ / (gguf_ ? "model.gguf" : "model.safetensors");
    std::ofstream(file, std::ios::binary) << bytes;
    const auto files = ModelFiles::Open(gguf_ ? file : folder_);
    if (!files) return files.error().text;
    const auto weights = LoadWeights(*files);
    return weights ? "" : weights.error().text;
  }
  // The names of tensors that must exist. A model without the tensor of rotary factors is a
  // different, complete model.
  std::vector<std::string> Names() const {
    Load(bytes_);
    std::vector<std::string> names;
    const auto files = ModelFiles::Open(gguf_ ? folder_ / "model.gguf" : folder_);
    for (const Tensor& tensor : files->tensors().all()) {
      if (!tensor.name.starts_with("rope_")) names.push_back(tensor.name);
    }
    return names;
  }
  // Returns the bytes with the first occurrence of `from` replaced.
  std::string Replaced(const std::string& from, const std::string& to) const {
    std::string changed = bytes_;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    EXPECT_EQ(from.size(), to.size());
    return changed.replace(at, from.size(), to);
  }
  // Returns a tensor's name as the file writes it.
  std::string Written(const std::string& name) const {
    if (!gguf_) return '"' + name + '"';
    const uint64_t size = name.size();
    return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + name;
  }

 private:
  fs::path folder_;
  bool gguf_;
  std::string bytes_;
};

class WeightsTest : public testing::TestWithParam<std::tuple<const char*, bool>> {
 protected:
  const Changed model_{std::get<0>(GetParam()), std::get<1>(GetParam())};
};

// Together, these models have every kind of tensor.
INSTANTIATE_TEST_SUITE_P(Models, WeightsTest,
                         testing::Combine(testing::Values("qwen2", "gemma3", "phi3", "olmo2",
                                                          "mixtral", "gpt-oss", "gpt-oss-mxfp4"),
                                          testing::Bool()),
                         [](const auto& param) {
                           std::string name = std::get<0>(param.param);
                           std::ranges::replace(name, '-', '_');
                           return name + (std::get<1>(param.param) ? "_gguf" : "");
                         });

TEST_P(WeightsTest, NoTensorCanBeMissing) {
  EXPECT_EQ(model_.Load(model_.bytes()), "");
  for (const std::string& name : model_.Names()) {
    std::string other = name;
    other.back() = other.back() == 'x' ? 'y' : 'x';
    const std::string error =
        model_.Load(model_.Replaced(model_.Written(name), model_.Written(other)));
    // In GGUF, biases and an output layer exist if their tensors do. Without the weight, the error
    // is about the tensor that is left over.
    const bool optional = name.ends_with(".bias") || name == "output.weight";
    const bool gguf = std::get<1>(GetParam());
    // Without blocks, the loader looks for the plain tensor.
    const std::string known = name.substr(0, name.rfind("_blocks"));
    const std::string expected = optional && gguf ? "" : "tensor " + known + " is missing";
    EXPECT_NE(error, "") << name;
    EXPECT_NE(error.find(expected), std::string::npos) << name << ": " << error;
  }
}

TEST_P(WeightsTest, NumbersOfTheWrongTypeAreRefused) {
  if (std::get<1>(GetParam())) return;  // GGUF types have their own tests
  for (const std::string& name : model_.Names()) {
    const std::string key = model_.Written(name) + ":{\"dtype\":\"";
    const size_t type = model_.bytes().find(key) + key.size();
    std::string changed = model_.bytes();
    if (changed.substr(type, 4) == "BF16") {
      changed.replace(type, 5, "I16\" ");
    } else {
      changed[type] = 'I';  // F32, F16, U8
    }
    const std::string error = model_.Load(changed);
    EXPECT_NE(error.find(name + ": "), std::string::npos) << name << ": " << error;
  }
}

void ReplaceAll(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// The text part of a multimodal model, as two versions of transformers name it.
TEST(WeightsFormsTest, LoadsTheLanguageModelOfAMultimodalOne) {
  for (const std::string prefix : {"language_model.model.", "model.language_model."}) {
    const Changed model("gemma3", false);
    uint64_t length = 0;
    std::memcpy(&length, model.bytes().data(), sizeof(length));
    std::string header = model.bytes().substr(sizeof(length), length);
    const std::string data = model.bytes().substr(sizeof(length) + length);
    ReplaceAll(header, "\"model.", "\"" + prefix);
    length = header.size();
    std::string bytes(reinterpret_cast<const char*>(&length), sizeof(length));
    const std::string config = ReadAll(model.folder() / "config.json");
    std::ofstream(model.folder() / "config.json")
        << R"({"model_type": "gemma3", "text_config": )" << config << "}";
    EXPECT_EQ(model.Load(bytes + header + data), "") << prefix;
  }
}

TEST(WeightsErrorsTest, RefusesFoldersThatAreNotModels) {
  const Changed model("llama", false);
  const auto error = [](const fs::path& path) {
    const auto files = ModelFiles::Open(path);
    return files ? "" : files.error().text;
  };
  EXPECT_NE(error(testing::TempDir()).find("has no config.json"), std::string::npos);
  EXPECT_NE(error(testing::TempDir() + "weights_test" + std::to_string(getpid()))
                .find("neither model.safetensors nor"),
            std::string::npos);
  EXPECT_NE(error("/no/such/folder").find("/no/such/folder: cannot be opened"), std::string::npos);
}

TEST(WeightsErrorsTest, ErrorsNameTheShard) {
  const auto source = GoldenModels() / "qwen3";
  const fs::path folder = testing::TempDir() + "weights_test_shards" + std::to_string(getpid());
  fs::remove_all(folder);
  fs::copy(source, folder);
  const std::string config = ReadAll(folder / "config.json");
  std::string other = config;
  const std::string from = "\"intermediate_size\": 36";
  other.replace(other.find(from), from.size(), "\"intermediate_size\": 40");
  std::ofstream(folder / "config.json") << other;
  const auto files = ModelFiles::Open(folder);
  ASSERT_TRUE(files) << files.error().text;
  const auto weights = LoadWeights(*files);
  ASSERT_FALSE(weights);
  EXPECT_NE(weights.error().text.find("-of-"), std::string::npos) << weights.error().text;
  EXPECT_NE(weights.error().text.find(
                "has shape [36, 24], but the model's configuration requires [40, 24]"),
            std::string::npos)
      << weights.error().text;
  fs::remove_all(folder);
}

}  // namespace
}  // namespace pie::cpu
