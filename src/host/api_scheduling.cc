// pie:core/scheduling. Memory is not auctioned yet: a page costs one credit, nobody pays rent.
#include "host/api.h"

namespace pie::host {

bool SchedulingPrice(void* guest, double* value, Out* out) {
  return Answer(guest, out, [&](Process&) -> Status {
    *value = 1.0;
    return {};
  });
}

bool SchedulingRent(void* guest, uint32_t context, double* value, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PIE_RETURN_IF_ERROR(process.handles().contexts.Get(context));
    *value = 0.0;
    return {};
  });
}

bool SchedulingDividend(void* guest, uint32_t model, double* value, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PIE_RETURN_IF_ERROR(process.handles().models.Get(model));
    *value = 0.0;
    return {};
  });
}

bool SchedulingLatency(void* guest, uint32_t context, double* value, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    Context* asked = PIE_TRY(process.handles().contexts.Get(context));
    *value = process.engine().models()[asked->model()].scheduler->stats().last_step_seconds;
    return {};
  });
}

bool SchedulingBalance(void* guest, uint32_t model, double* value, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PIE_RETURN_IF_ERROR(process.handles().models.Get(model));
    *value = 64.0;  // the default endowment, unspent
    return {};
  });
}

}  // namespace pie::host
