#pragma once

namespace kvtide {

/// Lets glibc keep up to 128 MiB of freed memory for the next allocation, and take blocks below 32 MiB from there. By itself it
/// hands the matrices of each run back to the system and pays a page fault for every 4 KiB of the next: compressing two thousand
/// positions took 1.6 (pool) to 3.7 times (nothing compressed) as long. For main(), before threads; with another library
/// nothing happens.
void keep_freed_memory();

}  // namespace kvtide
