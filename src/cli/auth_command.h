// pie auth add|remove|list: who may connect to a server that asks.
#pragma once

#include <string>

namespace pie::cli {

// `file` is a public key, PEM or OpenSSH; - is standard input. Exit codes.
int AddKey(const std::string& user, const std::string& file, const std::string& name);
int RemoveKey(const std::string& user, const std::string& name);
int ListKeys();

}  // namespace pie::cli
