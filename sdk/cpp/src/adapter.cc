#include "inferlet/adapter.h"

namespace inferlet {

using detail::Lift;
namespace adapters = pie::plus::adapters;

Result<Adapter> Adapter::Create(const Model& model, std::string_view name) {
  return Lift(raw::Adapter::Create(model.Inner(), name),
              [](raw::Adapter adapter) { return Adapter(std::move(adapter)); });
}

Result<std::optional<Adapter>> Adapter::Open(const Model& model, std::string_view name) {
  return Lift(adapters::Open(model.Inner(), name), [](std::optional<raw::Adapter> adapter) {
    return adapter ? std::optional(Adapter(*std::move(adapter))) : std::nullopt;
  });
}

Result<std::vector<std::string>> Adapter::Names(const Model& model) {
  return Lift(adapters::Names(model.Inner()),
              [](const auto& names) { return detail::Texts(names); });
}

Result<Adapter> Adapter::Fork(std::string_view new_name) const {
  return Lift(adapters::Fork(*raw_, new_name),
              [](raw::Adapter adapter) { return Adapter(std::move(adapter)); });
}
Result<void> Adapter::Save(std::string_view path) const {
  return Lift(raw_->Save(path));
}
Result<void> Adapter::Load(std::string_view path) const {
  return Lift(raw_->Load(path));
}
Result<AdapterFiles> Adapter::Export() const {
  return Lift(adapters::ExportFiles(*raw_), [](const adapters::Files& files) {
    return AdapterFiles{detail::Text(files.config), detail::List(files.tensors)};
  });
}
Result<void> Adapter::Import(std::string_view config, std::span<const uint8_t> tensors) const {
  return Lift(adapters::ImportFiles(*raw_, config, tensors));
}
Result<void> Adapter::Destroy() const {
  return Lift(adapters::Destroy(*raw_));
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
