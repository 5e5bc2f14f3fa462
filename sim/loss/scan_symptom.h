#pragma once
// What a scan shows, in the order in which practitioners look: symptom, likely cause, next check, remedy.

#include <string>
#include <vector>

#include "loss/scan_diagnosis.h"

namespace kvtide::loss {

struct Symptom {
  std::string name;  ///< stable, for scripts: "flips_with_prefix"
  std::string seen;  ///< with this scan's numbers
  std::string cause;
  std::string check;
  std::string remedy;
};

/// Only what this scan shows.
[[nodiscard]] std::vector<Symptom> symptoms_of(const OutsideScan& scan, const ScanDiagnosis& diagnosis);

}  // namespace kvtide::loss
