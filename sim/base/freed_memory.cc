#include "base/freed_memory.h"

#include <cstdlib>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace kvtide {

void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kMiB = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, 32 * kMiB);  // the highest it takes
  mallopt(M_TRIM_THRESHOLD, 128 * kMiB);
#endif
}

}  // namespace kvtide
