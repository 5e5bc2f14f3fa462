#pragma once
// Results of `kvtide validate` as netCDF-4, and a picture of them.
//
// /rows over dimension row: one value per measured row; /groups over dimension group: errors by GPU, operation, framework
// and size class (measured only). Errors are in percent of the measured time.

#include <string>
#include <vector>

#include "gpu/validation/dram_reference.h"
#include "gpu/validation/measured_report.h"

namespace kvtide::cli {

// Each writes `path` whole or not at all, then draws the picture of the same name with .png.
// @throws EnvironmentError  path cannot be written, no Python to draw with
void write_validation(const std::string& path, const gpu::MeasuredReport& report);
void write_validation(const std::string& path, const std::vector<gpu::DramRow>& rows);

}  // namespace kvtide::cli
