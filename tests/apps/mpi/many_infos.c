// Holds more than 65536 MPI_Info objects with keys during the whole run. Before that, makes as many as
// possible, up to a million: one too many is refused with an error, and nothing else is lost.
#include <mpi.h>

#include "steplog.h"

enum { kKept = 70000, kMost = 1050000 };

static MPI_Info make(void) {
  MPI_Info info = MPI_INFO_NULL;
  int class = MPI_SUCCESS;
  const int code = MPI_Info_create(&info);
  if (code == MPI_SUCCESS) return info;
  MPI_Error_class(code, &class);
  STEPLOG_CHECK(class == MPI_ERR_NO_MEM && info == MPI_INFO_NULL);
  return MPI_INFO_NULL;
}

static void as_many_as_can_be_had(void) {
  MPI_Info* all = malloc(kMost * sizeof *all);
  int count = 0, class = MPI_SUCCESS, keys = -1;
  while (count < kMost && (all[count] = make()) != MPI_INFO_NULL) count++;
  STEPLOG_CHECK(count > kKept);
  if (count < kMost) {
    MPI_Info copy = MPI_INFO_NULL;
    MPI_Error_class(MPI_Info_dup(all[7], &copy), &class);
    STEPLOG_CHECK(class == MPI_ERR_NO_MEM && copy == MPI_INFO_NULL);
    MPI_Error_class(MPI_Comm_get_info(MPI_COMM_WORLD, &copy), &class);
    STEPLOG_CHECK(class == MPI_ERR_NO_MEM && copy == MPI_INFO_NULL);
    STEPLOG_CHECK(!MPI_Info_set(all[7], "key", "value"));
    MPI_Error_class(MPI_Comm_set_info(MPI_COMM_WORLD, all[7]), &class);
    STEPLOG_CHECK(class == MPI_ERR_NO_MEM);
    STEPLOG_CHECK(!MPI_Info_free(&all[5]));
    STEPLOG_CHECK((all[5] = make()) != MPI_INFO_NULL && make() == MPI_INFO_NULL);
    STEPLOG_CHECK(!MPI_Info_get_nkeys(all[5], &keys) && keys == 0);
    STEPLOG_CHECK(!MPI_Info_get_nkeys(all[7], &keys) && keys == 1);
  }
  for (int i = 0; i < count; i++) STEPLOG_CHECK(!MPI_Info_free(&all[i]) && all[i] == MPI_INFO_NULL);
  free(all);
}

int main(int argc, char** argv) {
  static MPI_Info kept[kKept];
  int rank = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  steplog_open(argc, argv, rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  as_many_as_can_be_had();
  char value[32], found[32];
  int flag = 0;
  for (int i = 0; i < kKept; i++) {
    kept[i] = make();
    snprintf(value, sizeof value, "value %d", i);
    STEPLOG_CHECK(kept[i] != MPI_INFO_NULL && !MPI_Info_set(kept[i], "key", value));
  }
  while (steplog_done < steplog_steps) {
    for (int i = (int)steplog_done; i < kKept; i += 97) {
      snprintf(value, sizeof value, "value %d", i);
      STEPLOG_CHECK(!MPI_Info_get(kept[i], "key", sizeof found - 1, found, &flag) && flag);
      STEPLOG_CHECK(!strcmp(found, value));
      if (i % 5) continue;
      STEPLOG_CHECK(!MPI_Info_free(&kept[i]));
      STEPLOG_CHECK((kept[i] = make()) != MPI_INFO_NULL);
      STEPLOG_CHECK(!MPI_Info_get(kept[i], "key", sizeof found - 1, found, &flag) && !flag);
      STEPLOG_CHECK(!MPI_Info_set(kept[i], "key", value));
    }
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  for (int i = 0; i < kKept; i++) STEPLOG_CHECK(!MPI_Info_free(&kept[i]));
  steplog_ok();
  MPI_Finalize();
  return 0;
}
