// The cases, by what they are about. See ../../README.md for what each one does.
#pragma once

#include <inferlet/inferlet.h>

#include <functional>
#include <map>
#include <string>

using inferlet::Json;
using inferlet::Result;
using inferlet::Task;

// The input lives as long as the task.
using Case = std::function<Task<Result<Json>>(const Json& input)>;
using Cases = std::map<std::string, Case>;

Cases AdapterCases();
Cases ModelCases();
Cases ContextCases();
Cases ForwardCases();
Cases GenerationCases();
Cases ChainCases();
Cases ConstraintCases();
Cases SpeculationCases();
Cases MessageCases();
Cases RefusalCases();

// The engine's first model.
inline Result<inferlet::Model> FirstModel() {
  return inferlet::Model::Load(inferlet::runtime::Models().front());
}

template <class T>
Json ToJson(std::span<const T> items) {
  return Json(std::vector<T>(items.begin(), items.end()));
}
