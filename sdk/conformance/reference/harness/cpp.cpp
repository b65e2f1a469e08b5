// Runs the rows of the reference in C++.
#include "harness.h"

Rows AllRows();
Rows RealRows();  // the checks of a row on a real model, where they differ

namespace {

Task<Result<Json>> Main(Json input) {
  if (input.IsObject() && input["fail"].IsString())
    co_return Error(*input["fail"].As<std::string>());
  const Model model = PIE_TRY(Model::Load(runtime::Models()[0]));
  Rows rows = input.IsObject() && input["real"].IsBool() ? RealRows() : Rows{};
  rows.merge(AllRows());
  Json errors = Json::Object();
  for (const auto& [name, run] : rows) {
    const Result<void> done = co_await run(model);
    if (!done) errors[name] = done.error();
  }
  co_return Json::Object({{"errors", std::move(errors)}});
}

}  // namespace

PIE_MAIN(Main)
