// Runs the rows of the reference in C++.
#include "harness.h"

Rows AllRows();

namespace {

Task<Result<Json>> Main(Json input) {
  if (input.IsObject() && input["fail"].IsString()) co_return Error(*input["fail"].As<std::string>());
  const Model model = PIE_TRY(Model::Load(runtime::Models()[0]));
  Json errors = Json::Object();
  for (const auto& [name, run] : AllRows()) {
    const Result<void> done = co_await run(model);
    if (!done) errors[name] = done.error();
  }
  co_return Json::Object({{"errors", std::move(errors)}});
}

}  // namespace

PIE_MAIN(Main)
