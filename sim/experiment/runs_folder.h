#pragma once
// NAME.runs/: the finished runs of an unfinished experiment.

#include <cstdint>
#include <string>

#include "experiment/experiment.h"

namespace kvtide::experiment {

class RunsFolder {
 public:
  /// Creates "<output>.runs", or takes over an existing one.
  ///
  /// @param resume  keep what is there; else earlier run files are removed
  /// @throws InputError        resume, and the folder belongs to another configuration
  /// @throws EnvironmentError  it cannot be created or written
  ///                           or another process is writing there
  RunsFolder(const std::string& output, const Experiment& experiment, bool resume);

  [[nodiscard]] const std::string& path() const { return path_; }

  /// Removes our files and, when nothing else is left in it, the folder.
  void remove() const;

 private:
  /// Held while this process writes; released whichever way it ends.
  class Lock {
   public:
    Lock() = default;
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    void acquire(const std::string& folder);

   private:
    int descriptor_ = -1;
  };

  std::string path_;
  Lock lock_;
};

}  // namespace kvtide::experiment
