// Somebody's scan as CSV, and its diagnosis. Long scans are read and not diagnosed: the search is quadratic by design.

#include "config/csv_table.h"
#include "hostile_input.h"
#include "loss/outside_scan.h"
#include "loss/scan_diagnosis.h"
#include "loss/scan_mitigation.h"
#include "loss/scan_symptom.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kMostPlaces = 64;
  kvtide::fuzz::expect_answer([&] {
    const auto table = kvtide::config::CsvTable::parse({reinterpret_cast<const char*>(data), size}, "hostile.csv");
    const kvtide::loss::OutsideScan scan = kvtide::loss::read_outside_scan(table);
    if (scan.points.size() > kMostPlaces) return;
    const kvtide::loss::ScanDiagnosis diagnosis = kvtide::loss::diagnose(scan);
    (void)kvtide::loss::mitigations_for(scan, diagnosis, {});
    (void)kvtide::loss::symptoms_of(scan, diagnosis);
  });
  return 0;
}
