// pie auth add|remove|list|token: manages the users who may connect to a server with
// authentication.
#pragma once

#include <string>

namespace pie::cli {

// `file` is a public key in PEM or OpenSSH format; - is standard input. Each function returns an
// exit code.
int AddKey(const std::string& user, const std::string& file, const std::string& name);
int RemoveKey(const std::string& user, const std::string& name);
int ListKeys();
// API keys of HTTP clients.
int CreateToken(const std::string& user, const std::string& name);
int ListTokens();
int RevokeToken(const std::string& name);

}  // namespace pie::cli
