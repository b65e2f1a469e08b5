// Manifest: Pie.toml, which names an inferlet and its parameters.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pie::host {

struct Parameter {
  // kAny is a type that the manifest does not name, or that is not known here. Every value fits it.
  enum class Type { kString, kInt, kFloat, kBool, kAny };
  std::string name;
  Type type = Type::kString;
  bool optional = false;
  std::string description;
};

// Returns the type as a manifest spells it, such as "int".
std::string_view NameOf(Parameter::Type type);

struct Manifest {
  std::string name;
  std::string version;
  std::string description;
  std::vector<Parameter> parameters;
  // Notices about keys and types that are unknown and have no effect, each with its line.
  std::vector<std::string> notices;

  std::string id() const { return name + "@" + version; }
  // Lists where the input differs from the manifest: parameters that are missing, unknown, or of
  // another type. The program decides what to do about them.
  std::vector<std::string> Warnings(const nlohmann::json& input) const;
};

// `path` is used in errors, which also name the line.
Result<Manifest> ParseManifest(std::string_view text, std::string_view path);
Result<Manifest> ReadManifest(const std::string& path);

}  // namespace pie::host
