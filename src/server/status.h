// The server's status: its models as JSON, and its metrics in the text format of Prometheus.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "server/service.h"

namespace pie::server {

nlohmann::json ModelStatus(host::Engine& engine);
std::string MetricsText(Service& service);

}  // namespace pie::server
