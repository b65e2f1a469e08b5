// ModelRef: a model of the engine as the stores of snapshots and adapters know it.
#pragma once

#include <string>

#include "sched/scheduler.h"

namespace pie::host {

struct ModelRef {
  std::string name;
  Scheduler* scheduler = nullptr;
};

}  // namespace pie::host
