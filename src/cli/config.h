// Config: config.toml, which says what an engine runs with. Without a file, the defaults.
#pragma once

#include <cstdint>
#include <string>

#include "backend/dummy/dummy_backend.h"
#include "base/result.h"
#include "host/engine.h"

namespace pie::cli {

struct Config {
  std::string model_name = "default";
  std::string driver;  // "dummy"; empty = none was configured
  DummyOptions dummy;
  wasm::RuntimeOptions runtime;
  bool allow_fs = false;
  std::string scratch_root;
};

// Reads `path`; an empty path means $PIE_HOME/config.toml if that exists, else the defaults.
Result<Config> ReadConfig(const std::string& path);

std::string CacheDir();  // $PIE_CACHE, or pie/ in the user's cache folder
std::string HomeDir();   // $PIE_HOME, or ~/.pie

// The engine that a config describes.
Result<std::unique_ptr<host::Engine>> StartEngine(const Config& config);

}  // namespace pie::cli
