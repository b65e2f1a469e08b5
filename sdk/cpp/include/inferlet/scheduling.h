// The market for KV pages, read from inside. Bids are placed by Context::SetBid and by Generators.
#pragma once

#include "inferlet/context.h"
#include "inferlet/model.h"

namespace inferlet::scheduling {

double Price();                          // credits that a new page costs
double Rent(const Context& context);     // the clearing price of the last auction
double Dividend(const Model& model);     // this inferlet's share of the last revenue
double Latency(const Context& context);  // seconds a tick takes
double Balance(const Model& model);      // credits left

}  // namespace inferlet::scheduling
