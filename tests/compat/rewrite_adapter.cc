// pie-rewrite-adapter MODEL ADAPTER OUT: reads an adapter of a Hugging Face model from a folder of
// the PEFT package, and writes it into another as the engine does. For tests/compat/test_peft.py.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "model/adapter/peft.h"
#include "model/config.h"

namespace {

namespace fs = std::filesystem;

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

pie::Status Rewrite(const fs::path& model, const fs::path& adapter, const fs::path& out) {
  const pie::ModelConfig config = PIE_TRY(pie::OpenConfigJson(model / "config.json"));
  const pie::AdapterShape shape = pie::AdapterShapeOf(config);
  const std::string tensors = ReadFile(adapter / pie::kPeftTensorFile);
  const pie::AdapterWeights weights = PIE_TRY(pie::ReadPeft(
      ReadFile(adapter / pie::kPeftConfigFile), std::as_bytes(std::span(tensors)), shape));
  const pie::PeftFiles files = PIE_TRY(pie::WritePeft(weights, shape));
  std::ofstream(out / pie::kPeftConfigFile, std::ios::binary) << files.config;
  std::ofstream(out / pie::kPeftTensorFile, std::ios::binary) << files.tensors;
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: pie-rewrite-adapter MODEL ADAPTER OUT\n");
    return 2;
  }
  const pie::Status done = Rewrite(argv[1], argv[2], argv[3]);
  if (!done) fmt::print(stderr, "pie-rewrite-adapter: {}\n", done.error().text);
  return done ? 0 : 1;
}
