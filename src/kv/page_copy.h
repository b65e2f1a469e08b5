// PageCopy: a page that a device must copy before it writes to the copy.
#pragma once

#include "base/ids.h"

namespace pie {

struct PageCopy {
  PageId from;
  PageId to;
};

}  // namespace pie
