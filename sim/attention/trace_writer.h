#pragma once
// Writes traces in our own layout ("kvtide-trace-1"), float16.

#include <string>

#include "attention/trace.h"

namespace kvtide::attention {

/// Layer by layer; the file appears under its name when it is complete. Tensors that came from float16 are unchanged by
/// the way through memory; others are rounded to nearest (relative error up to 2^-11).
/// @throws EnvironmentError when the file cannot be written, InputError when a value is beyond float16
void write_trace(const std::string& path, const Trace& trace);

}  // namespace kvtide::attention
