// PageCopy: tells a device to copy one page to another before the batch writes to the copy.
#pragma once

#include "base/ids.h"

namespace pie {

struct PageCopy {
  PageId from;
  PageId to;
};

}  // namespace pie
