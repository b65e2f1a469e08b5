#include "corpus.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace pie::fuzz {

std::vector<std::string> Corpus(const std::string& target) {
  std::vector<std::filesystem::path> paths;
  std::error_code missing;
  for (const auto& entry :
       std::filesystem::directory_iterator(PIE_FUZZ_CORPUS "/" + target, missing)) {
    paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  std::vector<std::string> files;
  for (const auto& path : paths) {
    std::ifstream in(path, std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return files;
}

}  // namespace pie::fuzz
