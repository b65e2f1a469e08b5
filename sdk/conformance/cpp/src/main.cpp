// The conformance table in C++.
#include <cmath>

#include "cases.h"

using namespace inferlet;

namespace {

// Floats to 4 places, everywhere.
Json Rounded(const Json& value) {
  if (value.IsNumber() && !value.IsInteger()) return std::round(*value.As<double>() * 1e4) / 1e4;
  if (value.IsArray()) {
    Json items = Json::Array();
    for (const Json& item : value.ItemList()) items.Append(Rounded(item));
    return items;
  }
  if (value.IsObject()) {
    Json object = Json::Object();
    for (const auto& [key, member] : value.MemberList()) object[key] = Rounded(member);
    return object;
  }
  return value;
}

Cases AllCases() {
  Cases all;
  for (Cases group :
       {AdapterCases(), ModelCases(), ContextCases(), ForwardCases(), GenerationCases(),
        ChainCases(), ConstraintCases(), SpeculationCases(), MessageCases(), RefusalCases()}) {
    all.merge(group);
  }
  return all;
}

Task<Result<Json>> Run(const Cases& cases, std::string name, const Json& input) {
  const auto found = cases.find(name);
  if (found == cases.end()) co_return Error("there is no case " + name);
  co_return co_await found->second(input);
}

Task<Result<Json>> Main(Json input) {
  const Cases cases = AllCases();
  Json results = Json::Array();
  for (const Json& entry : input["cases"].ItemList()) {
    const std::string name = PIE_TRY(entry.Get<std::string>("case"));
    Result<Json> answer = co_await Run(cases, name, entry["input"]);
    Json result = Json::Object({{"case", name}});
    if (answer) {
      result["ok"] = Rounded(*answer);
    } else {
      result["error"] = answer.error();
    }
    results.Append(std::move(result));
  }
  co_return Json::Object({{"results", std::move(results)}});
}

}  // namespace

PIE_MAIN(Main)
