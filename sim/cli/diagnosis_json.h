#pragma once
// The diagnosis of an outside scan as one JSON object (kvtide diagnose --json).

#include <optional>
#include <string>
#include <vector>

#include "loss/outside_scan.h"
#include "loss/scan_comparison.h"
#include "loss/scan_diagnosis.h"
#include "loss/scan_mitigation.h"
#include "loss/scan_symptom.h"

namespace kvtide::cli {

/// Everything that is said about one scan.
struct DiagnosedScan {
  loss::OutsideScan scan;
  loss::ScanDiagnosis diagnosis;
  std::vector<loss::Mitigation> mitigations;
  std::vector<loss::Symptom> symptoms;
};

/// @param indent  spaces before every line but the first
[[nodiscard]] std::string diagnosis_json(const DiagnosedScan& diagnosed, int indent = 0);
[[nodiscard]] std::string comparison_json(const loss::ScanComparison& comparison);

}  // namespace kvtide::cli
