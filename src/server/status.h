// What the server says about itself: the models as JSON, metrics as Prometheus reads them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "server/service.h"

namespace pie::server {

nlohmann::json ModelStatus(host::Engine& engine);
std::string MetricsText(Service& service);

}  // namespace pie::server
