// Golden: the reference results that tests/golden/make_smollm2.py wrote, and the path of the model.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace pie {

struct Golden {
  struct Prompt {
    std::vector<uint32_t> ids;
    std::vector<uint32_t> greedy;    // the float32 reference's continuation
    std::vector<float> margins;      // distance between its best two logits at each step
    std::vector<uint32_t> llamacpp;  // llama.cpp's continuation
  };
  struct Place {  // a position whose whole distribution is known
    uint32_t prompt = 0;
    uint32_t step = 0;
    std::vector<double> logprobs;  // [vocab]
  };
  std::vector<Prompt> prompts;
  std::vector<Place> places;

  static Golden Read(const std::filesystem::path& folder) {
    const auto json = nlohmann::json::parse(std::ifstream(folder / "smollm2.json"));
    std::ifstream file(folder / "smollm2.bin", std::ios::binary);
    const std::string codes(std::istreambuf_iterator<char>(file), {});
    Golden golden;
    for (const auto& prompt : json.at("prompts")) {
      golden.prompts.push_back(
          {prompt.at("ids"), prompt.at("greedy"), prompt.at("margins"), prompt.at("llamacpp")});
    }
    size_t at = 0;
    for (const auto& place : json.at("places")) {
      golden.places.push_back({place.at("prompt"), place.at("step"), {}});
      for (uint32_t token = 0; token < json.at("vocab"); ++token, at += 2) {
        const auto low = static_cast<uint8_t>(codes.at(at));
        const auto high = static_cast<uint8_t>(codes.at(at + 1));
        golden.places.back().logprobs.push_back(-(low | high << 8) / json.at("unit").get<double>());
      }
    }
    return golden;
  }
};

// $PIE_TEST_MODEL, or the default model that `make setup` installs.
inline std::optional<std::filesystem::path> FindSmolLm2() {
  const auto env = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string path = env("PIE_TEST_MODEL"); !path.empty()) return path;
  std::filesystem::path cache = env("PIE_CACHE");
  if (cache.empty()) {
    const std::string shared = env("XDG_CACHE_HOME");
    cache = std::filesystem::path(shared.empty() ? env("HOME") + "/.cache" : shared) / "pie";
  }
  std::error_code none;
  for (const auto& file :
       std::filesystem::directory_iterator(cache / "models" / "smollm2-135m-instruct", none)) {
    if (file.path().extension() == ".gguf") return file.path();
  }
  return std::nullopt;
}

// The Kullback-Leibler divergence of the distribution of `logits` from a reference's, whose
// log-probabilities are `reference`.
inline double Divergence(const std::vector<double>& reference, const std::vector<float>& logits) {
  const double top = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - top);
  const double norm = top + std::log(sum);
  double kl = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    kl += std::exp(reference[i]) * (reference[i] - (logits[i] - norm));
  }
  return kl;
}

}  // namespace pie
