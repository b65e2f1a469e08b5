// LoRA overlays on a model. A handle: copies mean the same adapter.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "inferlet/bindings.h"
#include "inferlet/model.h"
#include "inferlet/result.h"

namespace inferlet {

class Adapter {
 public:
  static Result<Adapter> Create(const Model& model, std::string_view name);
  // None when there is no adapter of that name.
  static std::optional<Adapter> Open(const Model& model, std::string_view name);

  Adapter Fork(std::string_view new_name) const;
  // A folder of the PEFT package, below /scratch or /data.
  Result<void> Save(std::string_view path) const;
  Result<void> Load(std::string_view path) const;
  void Destroy() const;

  const raw::Adapter& Inner() const { return *raw_; }

 private:
  explicit Adapter(raw::Adapter raw) : raw_(std::make_shared<raw::Adapter>(std::move(raw))) {}

  std::shared_ptr<raw::Adapter> raw_;
};

// Zeroth-order optimisation: adapters moved by seeds and scores.
namespace zo {

Result<void> Initialize(const Adapter& adapter, uint32_t rank, float alpha,
                        uint32_t population_size, float mu_fraction, float initial_sigma);
Result<void> Update(const Adapter& adapter, std::span<const float> scores,
                    std::span<const int64_t> seeds, float max_sigma);

}  // namespace zo
}  // namespace inferlet
