! A stencil on a Cartesian communicator as Fortran programs write it. Compiled twice: with `use mpi` (handles are integers)
! and with -DWITH_F08 and `use mpi_f08` (handles are derived types). A restart must keep: allocatable module arrays, saved
! variables, a common block, handles, requests that are pending between two steps (also persistent ones), the addresses that
! stand for MPI_IN_PLACE, MPI_BOTTOM, MPI_STATUS_IGNORE and MPI_UNWEIGHTED, groups, attributes of predefined objects, and
! libgfortran's unit buffers.
! Arguments: those of steplog.h; --work DIR: folder of its files; --scratch: opens a unit with status='scratch'.
#ifdef WITH_F08
#define MPI_MODULE mpi_f08
#define COMMUNICATOR type(MPI_Comm)
#define DATATYPE type(MPI_Datatype)
#define GROUP_OF_RANKS type(MPI_Group)
#define OPERATION type(MPI_Op)
#define REQUEST type(MPI_Request)
#define STATUS_OF_ONE type(MPI_Status)
#define SOURCE_IN(status) status%MPI_SOURCE
#else
#define MPI_MODULE mpi
#define COMMUNICATOR integer
#define DATATYPE integer
#define GROUP_OF_RANKS integer
#define OPERATION integer
#define REQUEST integer
#define STATUS_OF_ONE integer, dimension(MPI_STATUS_SIZE)
#define SOURCE_IN(status) status(MPI_SOURCE)
#endif

module steplog
  use, intrinsic :: iso_c_binding
  implicit none
  interface
    subroutine log_open(words, count, length, rank) bind(C, name="fortran_log_open")
      import
      character(kind=c_char), intent(in) :: words(*)
      integer(c_int), value :: count, length, rank
    end subroutine
    integer(c_int) function log_steps() bind(C, name="fortran_log_steps")
      import
    end function
    subroutine log_mix(values, size) bind(C, name="fortran_log_mix")
      import
      real(c_double), intent(in) :: values(*)
      integer(c_int), value :: size
    end subroutine
    subroutine log_step() bind(C, name="fortran_log_step")
    end subroutine
    subroutine log_ok() bind(C, name="fortran_log_ok")
    end subroutine
    subroutine log_fail(text) bind(C, name="fortran_log_fail")
      import
      character(kind=c_char), intent(in) :: text(*)
    end subroutine
  end interface
contains
  subroutine expect(holds, text)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: text
    if (.not. holds) call log_fail(text // c_null_char)
  end subroutine
end module steplog

module grid
  implicit none
  integer, parameter :: nx = 24, ny = 16
  double precision, allocatable, asynchronous :: field(:, :)
  double precision, allocatable, asynchronous :: next(:, :), ring(:)
  double precision, allocatable :: largest_of_steps(:)
contains
  ! The number of calls so far, in a saved variable.
  integer function calls()
    integer, save :: count = 0
    count = count + 1
    calls = count
  end function
end module grid

module operations
  implicit none
contains
  ! A user-defined operation: the larger of two integers.
#ifdef WITH_F08
  subroutine larger(in, inout, length, datatype)
    use mpi_f08
    use, intrinsic :: iso_c_binding
    type(c_ptr), value :: in, inout
    integer :: length
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:), b(:)
    if (datatype /= MPI_INTEGER) return
    call c_f_pointer(in, a, [length])
    call c_f_pointer(inout, b, [length])
    b = max(a, b)
  end subroutine
#else
  subroutine larger(a, b, length, datatype)
    use mpi
    integer :: length, datatype
    integer :: a(length), b(length)
    if (datatype /= MPI_INTEGER) return
    b = max(a, b)
  end subroutine
#endif
end module operations

program stencil
  use MPI_MODULE
  use steplog
  use grid
  use operations
  implicit none
  COMMUNICATOR :: cart, loops
  GROUP_OF_RANKS :: alone
  DATATYPE :: row, absolute
  OPERATION :: maximum
  REQUEST :: requests(4), persistent(2)
  STATUS_OF_ONE :: status
  integer :: rank, ranks, step, steps, error, dims(2), place(2), report, history, scratch
  integer :: west, east, south, north, most, received, i, j, comm_key, type_key
  integer :: shared_integer, sequence_of_shared
  double precision :: shared_value, largest, line(10)
  double precision, allocatable :: read_back(:)
  common /shared/ shared_value, shared_integer, sequence_of_shared
  integer(kind=MPI_ADDRESS_KIND) :: addresses(2)
  integer(kind=8) :: total
  character(len=1024), allocatable :: words(:)
  character(len=1024) :: work
  character(len=16) :: number
  logical :: has_scratch

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  allocate(words(0:command_argument_count()))
  work = '.'
  has_scratch = .false.
  do i = 0, command_argument_count()
    call get_command_argument(i, words(i))
    if (i > 0) then
      if (words(i - 1) == '--work') work = words(i)
    end if
    if (words(i) == '--scratch') has_scratch = .true.
  end do
  do i = 0, command_argument_count()
    words(i) = trim(words(i)) // c_null_char
  end do
  call log_open(words, command_argument_count() + 1, len(words), rank)
  steps = log_steps()

  dims = 0
  call MPI_Dims_create(ranks, 2, dims, error)
  call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.true., .false.], .false., cart, error)
  call MPI_Cart_coords(cart, rank, 2, place, error)
  call MPI_Cart_shift(cart, 0, 1, west, east, error)
  call MPI_Cart_shift(cart, 1, 1, south, north, error)  ! MPI_PROC_NULL at the border
  call MPI_Type_vector(ny, 1, nx + 2, MPI_DOUBLE_PRECISION, row, error)
  call MPI_Type_commit(row, error)
  call MPI_Get_address(shared_value, addresses(1), error)
  call MPI_Get_address(shared_integer, addresses(2), error)
  call MPI_Type_create_struct(2, [1, 2], addresses, [MPI_DOUBLE_PRECISION, MPI_INTEGER], absolute, error)
  call MPI_Type_commit(absolute, error)
  call MPI_Op_create(larger, .true., maximum, error)

  write(number, '(i0)') rank
  open(newunit=report, file=trim(work) // '/report.' // trim(number), status='replace', action='readwrite', form='formatted')
  open(newunit=history, file=trim(work) // '/history.' // trim(number), status='replace', action='readwrite', form='unformatted')
  if (has_scratch) open(newunit=scratch, status='scratch', form='unformatted')

  allocate(field(0:nx + 1, 0:ny + 1), next(nx, ny), ring(nx))
  allocate(largest_of_steps(0))
  field = 0
  do j = 1, ny
    do i = 1, nx
      field(i, j) = sin(0.1d0 * (place(1) * nx + i)) * cos(0.2d0 * (place(2) * ny + j))
    end do
  end do
  next = field(1:nx, 1:ny)
  call MPI_Recv_init(ring, nx, MPI_DOUBLE_PRECISION, west, 5, cart, persistent(1), error)
  call MPI_Send_init(next, nx, MPI_DOUBLE_PRECISION, east, 5, cart, persistent(2), error)
  call make_objects()
  call duplicate_an_old_attribute()
  call exchange_rows()

  do step = 1, steps
    call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE, error)
    call MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE, error)
    call log_mix(ring, 8 * nx)
    call MPI_Sendrecv(field(1, ny), nx, MPI_DOUBLE_PRECISION, north, 1, field(1, 0), nx, MPI_DOUBLE_PRECISION, south, 1, &
                      cart, status, error)
    call expect(SOURCE_IN(status) == south, 'the source in a status')
    call MPI_Get_count(status, MPI_DOUBLE_PRECISION, received, error)
    call expect(received == merge(0, nx, south == MPI_PROC_NULL), 'the count in a status')
    call MPI_Sendrecv(field(1, 1), nx, MPI_DOUBLE_PRECISION, south, 2, field(1, ny + 1), nx, MPI_DOUBLE_PRECISION, north, 2, &
                      cart, MPI_STATUS_IGNORE, error)
    do j = 1, ny
      do i = 1, nx
        next(i, j) = 0.5d0 * field(i, j) + 0.125d0 * (field(i - 1, j) + field(i + 1, j) + field(i, j - 1) + field(i, j + 1))
      end do
    end do
    field(1:nx, 1:ny) = next
    call exchange_rows()

    ! Both results are the same under every MPI: a maximum, and a sum of integers.
    largest = maxval(abs(next))
    call MPI_Allreduce(MPI_IN_PLACE, largest, 1, MPI_DOUBLE_PRECISION, MPI_MAX, cart, error)
    total = int(sum(abs(next)) * 1d6, kind=8)
    call MPI_Allreduce(MPI_IN_PLACE, total, 1, MPI_INTEGER8, MPI_SUM, cart, error)
    call MPI_Allreduce(rank + step, most, 1, MPI_INTEGER, maximum, cart, error)
    call expect(most == ranks - 1 + step, 'an operation of the program''s own')
    if (rank == mod(step, ranks)) then
      shared_value = largest + dble(total)
      shared_integer = step
      sequence_of_shared = -step
    end if
    call MPI_Bcast(MPI_BOTTOM, 1, absolute, mod(step, ranks), cart, error)
    call expect(shared_value == largest + dble(total) .and. shared_integer == step .and. sequence_of_shared == -step, &
                'a broadcast from MPI_BOTTOM')
    call expect(calls() == step, 'a saved variable')
    call check_objects()
    largest_of_steps = [largest_of_steps, largest]
    line = largest * [(dble(i), i = 1, 10)]
    write(report, '(i6, 10es25.17)') step, line
    write(history) step, next(:, 1)
    call log_mix(next, 8 * nx * ny)
    call log_mix([largest, dble(total)], 16)
    call log_step()
  end do
  call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE, error)
  call MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE, error)
  call MPI_Request_free(persistent(1), error)
  call MPI_Request_free(persistent(2), error)

  rewind(report)
  rewind(history)
  allocate(read_back(nx))
  do step = 1, steps
    read(report, *) i, line
    call expect(i == step .and. line(1) == largest_of_steps(step), 'a record of the formatted file')
    read(history) i, read_back
    call expect(i == step, 'a record of the unformatted file')
    call log_mix(line, 80)
    call log_mix(read_back, 8 * nx)
  end do
  close(report, status='delete')
  close(history, status='delete')
  call MPI_Type_free(row, error)
  call MPI_Type_free(absolute, error)
  call MPI_Op_free(maximum, error)
  call MPI_Group_free(alone, error)
  call MPI_Comm_free(loops, error)
  call MPI_Comm_free_keyval(comm_key, error)
  call MPI_Type_free_keyval(type_key, error)
  call MPI_Comm_free(cart, error)
  call log_ok()
  call MPI_Finalize(error)

contains
  ! Starts the exchange of the first and last rows (not contiguous), and passes a column on.
  subroutine exchange_rows()
    call MPI_Irecv(field(0, 1), 1, row, west, 3, cart, requests(1), error)
    call MPI_Irecv(field(nx + 1, 1), 1, row, east, 4, cart, requests(2), error)
    call MPI_Isend(field(nx, 1), 1, row, east, 3, cart, requests(3), error)
    call MPI_Isend(field(1, 1), 1, row, west, 4, cart, requests(4), error)
    call MPI_Startall(2, persistent, error)
  end subroutine

  ! A group of this rank alone, attributes of predefined objects, a graph without weights.
  subroutine make_objects()
    GROUP_OF_RANKS :: everyone, nobody
    integer(kind=MPI_ADDRESS_KIND), parameter :: state = 0, of_world = 11, of_self = 22, of_integer = -33
    call MPI_Comm_group(cart, everyone, error)
    call MPI_Group_incl(everyone, 1, [rank], alone, error)
    call MPI_Group_difference(alone, everyone, nobody, error)
    call expect(nobody == MPI_GROUP_EMPTY, 'an empty group')
    call MPI_Group_free(everyone, error)
    call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, comm_key, state, error)
    call MPI_Comm_set_attr(MPI_COMM_WORLD, comm_key, of_world, error)
    call MPI_Comm_set_attr(MPI_COMM_SELF, comm_key, of_self, error)
    call MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, type_key, state, error)
    call MPI_Type_set_attr(MPI_INTEGER, type_key, of_integer, error)
    call MPI_Dist_graph_create_adjacent(cart, 1, [rank], MPI_UNWEIGHTED, 1, [rank], MPI_UNWEIGHTED, MPI_INFO_NULL, .false., &
                                        loops, error)
  end subroutine

  subroutine check_objects()
    GROUP_OF_RANKS :: again
    integer :: members, own, relation, from(1), to(1), in_degree, out_degree
    integer(kind=MPI_ADDRESS_KIND) :: value
    logical :: found, weighted
    call MPI_Group_size(alone, members, error)
    call MPI_Group_union(alone, MPI_GROUP_EMPTY, again, error)
    call MPI_Group_rank(again, own, error)
    call MPI_Group_compare(alone, again, relation, error)
    call expect(members == 1 .and. own == 0 .and. relation == MPI_IDENT, 'a group of this rank alone')
    call MPI_Group_free(again, error)
    call MPI_Comm_get_attr(MPI_COMM_WORLD, comm_key, value, found, error)
    call expect(found .and. value == 11, 'an attribute of MPI_COMM_WORLD')
    call MPI_Comm_get_attr(MPI_COMM_SELF, comm_key, value, found, error)
    call expect(found .and. value == 22, 'an attribute of MPI_COMM_SELF')
    call MPI_Type_get_attr(MPI_INTEGER, type_key, value, found, error)
    call expect(found .and. value == -33, 'an attribute of MPI_INTEGER')
    call MPI_Type_get_attr(MPI_REAL, type_key, value, found, error)
    call expect(.not. found, 'no attribute of MPI_REAL')
    call MPI_Dist_graph_neighbors_count(loops, in_degree, out_degree, weighted, error)
    call MPI_Dist_graph_neighbors(loops, 1, from, MPI_UNWEIGHTED, 1, to, MPI_UNWEIGHTED, error)
    call expect(in_degree == 1 .and. out_degree == 1 .and. .not. weighted .and. from(1) == rank .and. to(1) == rank, &
                'a graph without weights')
  end subroutine

  ! The copy of an attribute whose callback has integers of MPI 1; mpi_f08 has no such attributes.
  subroutine duplicate_an_old_attribute()
#ifndef WITH_F08
    integer :: key, duplicate
    integer(kind=MPI_ADDRESS_KIND) :: value
    logical :: found
    call MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, key, 0, error)
    call MPI_Attr_put(MPI_COMM_WORLD, key, -5, error)
    call MPI_Comm_dup(MPI_COMM_WORLD, duplicate, error)
    call MPI_Comm_get_attr(duplicate, key, value, found, error)
    call expect(found .and. value == -5, 'a copied attribute of MPI 1')
    call MPI_Comm_free(duplicate, error)
    call MPI_Keyval_free(key, error)
#endif
  end subroutine
end program stencil
