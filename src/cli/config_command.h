// pie config init|show|set|check, pie check, pie driver list.
#pragma once

#include <string>

namespace pie::cli {

int InitConfig(bool overwrite);
int ShowConfig(const std::string& path);
// `key` is dotted: server.port, model.0.hf_repo. `value` is a TOML value, or a bare text.
int SetConfig(const std::string& path, const std::string& key, const std::string& value);
int CheckConfig(const std::string& path);
int ListDrivers();

}  // namespace pie::cli
