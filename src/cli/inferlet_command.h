// pie inferlet list|info|add|remove: the programs installed on this machine.
#pragma once

#include <string>

namespace pie::cli {

int ListInferlets();
int ShowInferlet(const std::string& program);
// If `manifest` is empty, uses the Pie.toml beside the component.
int AddInferlet(const std::string& component, const std::string& manifest, bool overwrite);
int RemoveInferlet(const std::string& program);

}  // namespace pie::cli
