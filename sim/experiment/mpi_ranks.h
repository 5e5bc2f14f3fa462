#pragma once
// An experiment on the ranks of an mpirun or srun: rank 0 hands runs out one by one, the others compute them. No file
// system needs to be shared: a result travels as the bytes of its run file.
//
// A rank that dies ends the job (that is how MPI launchers work); the finished runs are on rank 0's disk, and --resume,
// under MPI or not, computes the rest.

#include <memory>
#include <string>
#include <vector>

#include "experiment/executor.h"
#include "experiment/experiment.h"

namespace kvtide::experiment {

[[nodiscard]] bool is_built_with_mpi();

class MpiRanks {
 public:
  /// Null when this process was started alone.
  /// @throws EnvironmentError when a launcher started several but this kvtide was built without MPI
  [[nodiscard]] static std::unique_ptr<MpiRanks> join();
  /// Rank 0: tells the others to stop. All: leaves MPI together.
  ~MpiRanks();
  MpiRanks(const MpiRanks&) = delete;
  MpiRanks& operator=(const MpiRanks&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int count() const { return count_; }  ///< >= 2

  /// Rank 0: evaluates a run on a free rank and waits for it; for up to count() - 1 threads at once.
  [[nodiscard]] RunResult hand_out(const Run& run);
  /// Other ranks: evaluates what rank 0 asks for until it says stop. @param experiment  the same as rank 0's
  void serve(const Experiment& experiment, const Evaluate& evaluate);

 private:
  MpiRanks(int rank, int count);
  int rank_, count_;
  struct Free;
  std::unique_ptr<Free> free_;  // ranks without work
};

}  // namespace kvtide::experiment
