#include "inferlet/adapter.h"

namespace inferlet {

using detail::Lift;

Result<Adapter> Adapter::Create(const Model& model, std::string_view name) {
  return Lift(raw::Adapter::Create(model.Inner(), name),
              [](raw::Adapter adapter) { return Adapter(std::move(adapter)); });
}

std::optional<Adapter> Adapter::Open(const Model& model, std::string_view name) {
  std::optional<raw::Adapter> adapter = raw::Adapter::Open(model.Inner(), name);
  if (!adapter) return std::nullopt;
  return Adapter(*std::move(adapter));
}

Adapter Adapter::Fork(std::string_view new_name) const {
  return Adapter(raw_->Fork(new_name));
}
Result<void> Adapter::Save(std::string_view path) const {
  return Lift(raw_->Save(path));
}
Result<void> Adapter::Load(std::string_view path) const {
  return Lift(raw_->Load(path));
}
void Adapter::Destroy() const {
  raw_->Destroy();
}

namespace zo {

Result<void> Initialize(const Adapter& adapter, uint32_t rank, float alpha,
                        uint32_t population_size, float mu_fraction, float initial_sigma) {
  return Lift(pie::zo::zo::Initialize(adapter.Inner(), rank, alpha, population_size, mu_fraction,
                                      initial_sigma));
}

Result<void> Update(const Adapter& adapter, std::span<const float> scores,
                    std::span<const int64_t> seeds, float max_sigma) {
  return Lift(pie::zo::zo::Update(adapter.Inner(), scores, seeds, max_sigma));
}

}  // namespace zo

}  // namespace inferlet
