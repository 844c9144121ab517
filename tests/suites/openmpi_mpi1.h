/* Included before Open MPI's mpi.h, so that it declares the parts of MPI-1 that its library still has and
 * the suite uses. */
#define OMPI_OMIT_MPI1_COMPAT_DECLS 0
#define OMPI_REMOVED_USE_STATIC_ASSERT 0
#define __mpi_interface_removed__(function, successor)
/* Values that no datatype's envelope returns. */
#define MPI_COMBINER_HVECTOR_INTEGER 1001
#define MPI_COMBINER_HINDEXED_INTEGER 1002
#define MPI_COMBINER_STRUCT_INTEGER 1003
