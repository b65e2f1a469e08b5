// pie:core/scheduling: the market, read from inside. Numbers may trail the step thread by a step.
#include "host/api.h"

namespace pie::host {
namespace {

Result<Scheduler*> SchedulerOf(Process& process, uint32_t model) {
  const uint32_t* index = PIE_TRY(process.handles().models.Get(model));
  return process.engine().models()[*index].scheduler.get();
}

}  // namespace

bool SchedulingPrice(void* guest, double* value, Out* out) {
  return Answer(guest, out, [&](Process&) -> Status {
    *value = static_cast<double>(kPagePrice) / kCredit;
    return {};
  });
}

bool SchedulingRent(void* guest, uint32_t context, double* value, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    *value = PIE_TRY(process.handles().contexts.Get(context))->scheduler().stats().price;
    return {};
  });
}

bool SchedulingDividend(void* guest, uint32_t model, double* value, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    *value = process.wallet().dividend(*PIE_TRY(SchedulerOf(process, model)));
    return {};
  });
}

bool SchedulingLatency(void* guest, uint32_t context, double* value, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    *value =
        PIE_TRY(process.handles().contexts.Get(context))->scheduler().stats().last_step_seconds;
    return {};
  });
}

bool SchedulingBalance(void* guest, uint32_t model, double* value, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    *value = process.wallet().balance(*PIE_TRY(SchedulerOf(process, model)));
    return {};
  });
}

}  // namespace pie::host
