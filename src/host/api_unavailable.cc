// Interfaces whose engine side does not exist in this build: adapters, zo. Every function of them
// answers with an error that says so.
#include "host/api.h"
#include "host/execute.h"

namespace pie::host {
namespace {

std::unexpected<Error> NoAdapter() {
  return Fail(Code::kUnavailable, "adapter: this model's backend applies no LoRA adapters yet");
}
std::unexpected<Error> NoZo() {
  return Fail(Code::kUnavailable,
              "zo: needs adapters, which this model's backend does not apply yet");
}
// The function that sets a part of a pass has no result, so `execute` returns the error.
Status RefusePass(Process& process, uint32_t pass, const Error& error) {
  PIE_TRY(OpenPass(process, pass))->Refuse(error);
  return {};
}

}  // namespace

Status ForwardPassAdapter(Process& process, uint32_t pass, uint32_t) {
  return RefusePass(process, pass, NoAdapter().error());
}
Result<uint32_t> AdapterCreate(Process&, uint32_t, std::string_view) {
  return NoAdapter();
}
Result<std::optional<uint32_t>> AdapterOpen(Process&, uint32_t, std::string_view) {
  return std::nullopt;  // there are none
}
Status AdapterDestroy(Process&, uint32_t) {
  return NoAdapter();
}
Result<uint32_t> AdapterFork(Process&, uint32_t, std::string_view) {
  return NoAdapter();
}
Status AdapterLoad(Process&, uint32_t, std::string_view) {
  return NoAdapter();
}
Status AdapterSave(Process&, uint32_t, std::string_view) {
  return NoAdapter();
}
Status AdapterDrop(Process&, uint32_t) {
  return {};
}

Status ZoAdapterSeed(Process& process, uint32_t pass, int64_t) {
  return RefusePass(process, pass, NoZo().error());
}
Status ZoInitialize(Process&, uint32_t, uint32_t, float, uint32_t, float, float) {
  return NoZo();
}
Status ZoUpdate(Process&, uint32_t, std::span<const float>, std::span<const int64_t>, float) {
  return NoZo();
}

}  // namespace pie::host
