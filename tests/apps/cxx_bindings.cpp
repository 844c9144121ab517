// Uses the C++ bindings that mpicxx links by default (Open MPI's libmpi_cxx, MPICH's libmpichcxx), and C++
// exceptions, streams and static objects.
#include <mpi.h>

#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "steplog.h"

namespace {
struct Counted {
  static int alive;
  Counted() { alive++; }
  ~Counted() { alive--; }
};
int Counted::alive = 0;
std::map<long, std::string> history;
}  // namespace

int main(int argc, char** argv) {
  MPI::Init(argc, argv);
  const int rank = MPI::COMM_WORLD.Get_rank(), ranks = MPI::COMM_WORLD.Get_size();
  steplog_open(argc, argv, rank);
  MPI::Intracomm duplicate = MPI::COMM_WORLD.Dup();
  MPI::Intracomm half = MPI::COMM_WORLD.Split(rank % 2, rank);
  while (steplog_done < steplog_steps) {
    const long step = steplog_done;
    std::vector<int> mine(100), sum(100);
    std::iota(mine.begin(), mine.end(), static_cast<int>(step) + rank);
    duplicate.Allreduce(mine.data(), sum.data(), 100, MPI::INT, MPI::SUM);
    STEPLOG_CHECK(sum[10] == ranks * (static_cast<int>(step) + 10) + ranks * (ranks - 1) / 2);
    int from_left = -1, right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    MPI::Status status;
    MPI::Request request = MPI::COMM_WORLD.Irecv(&from_left, 1, MPI::INT, left, 2);
    MPI::COMM_WORLD.Send(&rank, 1, MPI::INT, right, 2);
    request.Wait(status);
    STEPLOG_CHECK(from_left == left && status.Get_source() == left && status.Get_count(MPI::INT) == 1);
    int members = 1, total = 0;
    half.Allreduce(&members, &total, 1, MPI::INT, MPI::SUM);
    STEPLOG_CHECK(total == half.Get_size());
    try {
      auto counted = std::make_unique<Counted>();
      STEPLOG_CHECK(Counted::alive == 1);
      throw std::runtime_error("step " + std::to_string(step));
    } catch (const std::exception& e) {
      history[step] = e.what();
    }
    STEPLOG_CHECK(Counted::alive == 0 && history.size() == static_cast<size_t>(step) + 1);
    steplog_mix_bytes(history[step].data(), history[step].size());
    steplog_mix_bytes(sum.data(), sizeof(int) * sum.size());
    steplog_step();
  }
  half.Free();
  duplicate.Free();
  steplog_ok();
  MPI::Finalize();
  return 0;
}
