// LoRA adapters of a model, and tuning them by scores.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inferlet/bindings.h"
#include "inferlet/model.h"
#include "inferlet/result.h"

namespace inferlet {

// The two files of a folder of the PEFT package.
struct AdapterFiles {
  std::string config;            // the text of adapter_config.json
  std::vector<uint8_t> tensors;  // the content of adapter_model.safetensors
};

// A LoRA adapter. It is a handle: copies of it mean the same adapter.
class Adapter {
 public:
  // Creates an adapter without weights. Fails if the user has one of that name.
  static Result<Adapter> Create(const Model& model, std::string_view name);
  // Returns none if there is no adapter of that name. Fails if the adapter cannot be read.
  static Result<std::optional<Adapter>> Open(const Model& model, std::string_view name);

  // The names of your adapters of the model, in alphabetical order.
  static Result<std::vector<std::string>> Names(const Model& model);

  // Copies the adapter under a new name. Fails if the name is taken.
  Result<Adapter> Fork(std::string_view new_name) const;
  // Writes the weights as a folder of the PEFT package, below /scratch or /data.
  Result<void> Save(std::string_view path) const;
  // Reads a folder of the PEFT package, below /scratch or /data.
  Result<void> Load(std::string_view path) const;
  // Returns the files that Save would write, for example to send them to the client.
  Result<AdapterFiles> Export() const;
  // Does what Load does, with files that a client has sent.
  Result<void> Import(std::string_view config, std::span<const uint8_t> tensors) const;
  // Removes the adapter from the engine, even if other inferlets have it open.
  Result<void> Destroy() const;

  const raw::Adapter& Inner() const { return *raw_; }  // the underlying resource

 private:
  explicit Adapter(raw::Adapter raw) : raw_(std::make_shared<raw::Adapter>(std::move(raw))) {}

  std::shared_ptr<raw::Adapter> raw_;
};

// Zeroth-order optimisation: tunes adapters by seeds and scores.
namespace zo {

// Prepares an adapter for tuning. An adapter without weights gets random ones, which do not change
// the model's output yet.
Result<void> Initialize(const Adapter& adapter, uint32_t rank, float alpha,
                        uint32_t population_size, float mu_fraction, float initial_sigma);
// Moves the adapter towards the seeds with the higher scores.
Result<void> Update(const Adapter& adapter, std::span<const float> scores,
                    std::span<const int64_t> seeds, float max_sigma);
inline Result<void> Update(const Adapter& adapter, std::initializer_list<float> scores,
                           std::initializer_list<int64_t> seeds, float max_sigma) {
  return Update(adapter, std::span(scores.begin(), scores.size()),
                std::span(seeds.begin(), seeds.size()), max_sigma);
}

}  // namespace zo
}  // namespace inferlet
