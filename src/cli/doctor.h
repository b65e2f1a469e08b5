// pie doctor: is everything here that Pie needs, and if not, what mends it?
#pragma once

namespace pie::cli {

// 0 if all is well, 1 if something needs mending.
int Doctor();

}  // namespace pie::cli
