// pie model list | download | remove
#pragma once

#include <string>

namespace pie::cli {

// Each function returns an exit code.
int ListModels();
int DownloadModelCommand(const std::string& name);
int RemoveModelCommand(const std::string& name);

}  // namespace pie::cli
