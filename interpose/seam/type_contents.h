// Finds which of the integers that made a derived datatype (MPI_Type_get_contents) are constants of the MPI
// and not counts (MPI-3.1, 4.1.13). Either half, any thread.
#pragma once

#include "mpi_constants.h"

namespace cropdl::seam {

// Replaces each constant among the `n` integers of a type made by `combiner` (of the seam) by its function's.
template <class Order, class Distribution, class Argument>
void translate_contents(int combiner, int n, int* integers, Order order, Distribution distribution,
                        Argument argument) {
  if (combiner == combiner::k_MPI_COMBINER_SUBARRAY && n > 0) {
    const int at = 3 * integers[0] + 1;  // after the dimensions: sizes, subsizes, starts
    if (at < n) integers[at] = order(integers[at]);
  } else if (combiner == combiner::k_MPI_COMBINER_DARRAY && n > 2) {
    const int dimensions = integers[2];
    // Size, rank, dimensions; then gsizes, distributions, arguments, psizes.
    const int at = 3 + 4 * dimensions;
    if (at >= n) return;
    for (int i = 0; i < dimensions; ++i) {
      int& how = integers[3 + dimensions + i];
      int& with = integers[3 + 2 * dimensions + i];
      how = distribution(how);
      with = argument(with);
    }
    integers[at] = order(integers[at]);
  }
}

}  // namespace cropdl::seam
