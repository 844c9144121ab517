// Unusual but legal uses of MPI. `edge_cases_mpi NAME[,NAME...] --steps N --log FILE` on three ranks: all
// named cases are set up, each step runs one step of every case, then all end. So each cut meets the states
// of all cases.
#define _GNU_SOURCE
#include <complex.h>
#include <mpi.h>

#include "edge_cases/edge_case.h"

#define WORLD MPI_COMM_WORLD
static int rank, size, next, last;  // the neighbours in a ring

static int sum_of(int value, MPI_Comm comm) {
  int sum = 0;
  EDGE_CHECK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS);
  return sum;
}

static MPI_Comm private_comm(
    void) {  // each case has its own tags or communicator, so that messages do not mix
  MPI_Comm comm;
  MPI_Comm_dup(WORLD, &comm);
  return comm;
}

// --- Communicators ---

static void many_duplicates_step(int k) {
  MPI_Comm comm[10];
  for (int i = 0; i < 10; i++) MPI_Comm_dup(i ? comm[i - 1] : WORLD, &comm[i]);
  for (int i = 9; i >= 0; i--) {
    if (i % 3 == k % 3) EDGE_CHECK(sum_of(k, comm[i]) == 3 * k);
    MPI_Comm_free(&comm[i]);
    EDGE_CHECK(comm[i] == MPI_COMM_NULL);
  }
}

static MPI_Comm half, reversed, shared, edge_one;
static void splits_begin(void) {
  MPI_Comm_split(WORLD, rank == 2 ? MPI_UNDEFINED : 5, -rank, &half);
  MPI_Comm_split(WORLD, 0, size - rank, &reversed);
  MPI_Comm_split_type(WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared);
  MPI_Comm_split(MPI_COMM_SELF, 0, 0, &edge_one);
}
static void splits_step(int k) {
  int me, result;
  EDGE_CHECK((half == MPI_COMM_NULL) == (rank == 2));
  if (rank != 2) {
    MPI_Comm_rank(half, &me);
    EDGE_CHECK(me == 1 - rank && sum_of(k, half) == 2 * k);
  }
  MPI_Comm_rank(reversed, &me);
  EDGE_CHECK(me == size - 1 - rank && sum_of(1, shared) == size && sum_of(k, edge_one) == k);
  MPI_Comm_compare(WORLD, reversed, &result);
  EDGE_CHECK(result == MPI_SIMILAR);
  MPI_Comm_compare(shared, WORLD, &result);
  EDGE_CHECK(result == MPI_CONGRUENT);
}
static void splits_end(void) {
  if (rank != 2) MPI_Comm_free(&half);
  MPI_Comm_free(&reversed), MPI_Comm_free(&shared), MPI_Comm_free(&edge_one);
}

static MPI_Comm of_a_group;
static void some_of_the_group(int tag, MPI_Comm* comm) {
  MPI_Group all, some;
  int members[2] = {2, 0};
  MPI_Comm_group(WORLD, &all);
  MPI_Group_incl(all, 2, members, &some);
  *comm = MPI_COMM_NULL;
  if (rank != 1) MPI_Comm_create_group(WORLD, some, tag, comm);
  MPI_Group_free(&all), MPI_Group_free(&some);
}
static void create_group_begin(void) { some_of_the_group(77, &of_a_group); }
static void create_group_step(int k) {
  MPI_Comm again;
  some_of_the_group(k, &again);
  if (rank == 1) return;
  EDGE_CHECK(sum_of(k + rank, of_a_group) == 2 * k + 2 && sum_of(1, again) == 2);
  MPI_Comm_free(&again);
}
static void create_group_end(void) {
  if (rank != 1) MPI_Comm_free(&of_a_group);
}

static void make_bridge(MPI_Comm* bridge) {  // rank 0 on one side, rank 1 on the other
  *bridge = MPI_COMM_NULL;
  if (rank < 2) EDGE_CHECK(MPI_Intercomm_create(MPI_COMM_SELF, 0, WORLD, 1 - rank, 9, bridge) == MPI_SUCCESS);
}
static void short_lived_intercommunicators_step(int k) {
  MPI_Comm bridge, merged;
  make_bridge(&bridge);
  if (rank == 2) return;
  int there = -1, mine = k + rank, remote;
  MPI_Comm_remote_size(bridge, &remote);
  MPI_Sendrecv(&mine, 1, MPI_INT, 0, 3, &there, 1, MPI_INT, 0, 3, bridge, MPI_STATUS_IGNORE);
  EDGE_CHECK(remote == 1 && there == k + 1 - rank);
  MPI_Intercomm_merge(bridge, rank, &merged);
  MPI_Comm_free(&bridge);
  EDGE_CHECK(sum_of(k, merged) == 2 * k);
  MPI_Comm_free(&merged);
}

static MPI_Comm merged_once;
static void merged_intercommunicator_begin(void) {
  MPI_Comm bridge;
  make_bridge(&bridge);
  merged_once = MPI_COMM_NULL;
  if (rank == 2) return;
  MPI_Intercomm_merge(bridge, 1 - rank, &merged_once);
  MPI_Comm_free(&bridge);
}
static void merged_intercommunicator_step(int k) {
  int me;
  if (rank == 2) return;
  MPI_Comm_rank(merged_once, &me);
  EDGE_CHECK(me == 1 - rank && sum_of(k, merged_once) == 2 * k);
}

static int keyval, self_keyval, copies, deletions;
static int copied(MPI_Comm comm, int key, void* extra, void* value, void* out, int* flag) {
  (void)comm, (void)key;
  copies++;
  *(void**)out = (char*)value + *(int*)extra;
  return *flag = 1, MPI_SUCCESS;
}
static int deleted(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm, (void)key, (void)value, (void)extra;
  deletions++;
  return MPI_SUCCESS;
}
static int distance = 8;
static char attributed[4096];
static MPI_Comm with_attribute;
static void attributes_begin(void) {
  MPI_Comm_create_keyval(copied, deleted, &keyval, &distance);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, deleted, &self_keyval, NULL);
  with_attribute = private_comm();
  MPI_Comm_set_attr(with_attribute, keyval, attributed);
  MPI_Comm_set_attr(MPI_COMM_SELF, self_keyval, attributed);
  int kept = self_keyval;
  MPI_Comm_free_keyval(&kept);  // it lives as long as an attribute uses it
  EDGE_CHECK(kept == MPI_KEYVAL_INVALID);
}
static void attributes_step(int k) {
  MPI_Comm copy;
  void* value = NULL;
  int flag = 0;
  MPI_Comm_dup(with_attribute, &copy);
  EDGE_CHECK(copies == k + 1);
  MPI_Comm_get_attr(copy, keyval, &value, &flag);
  EDGE_CHECK(flag && value == attributed + 8);
  MPI_Comm_free(&copy);
  EDGE_CHECK(deletions == k + 1);
  MPI_Comm_get_attr(with_attribute, keyval, &value, &flag);
  EDGE_CHECK(flag && value == attributed);
}
static void attributes_end(void) {
  MPI_Comm_free_keyval(&keyval);
  int before = deletions;
  MPI_Comm_free(&with_attribute);
  EDGE_CHECK(deletions == before + 1);
}

static int upper_tag, global_clock;
static void predefined_begin(void) {
  int *value, flag;
  MPI_Comm_get_attr(WORLD, MPI_TAG_UB, &value, &flag);
  EDGE_CHECK(flag && *value >= 32767);
  upper_tag = *value;
  MPI_Comm_get_attr(WORLD, MPI_WTIME_IS_GLOBAL, &value, &flag);
  global_clock = flag ? *value : -1;
}
static void predefined_step(int k) {
  int *value, flag, provided, mine;
  (void)k;
  MPI_Comm_get_attr(WORLD, MPI_TAG_UB, &value, &flag);
  EDGE_CHECK(flag && *value == upper_tag);
  MPI_Comm_get_attr(WORLD, MPI_WTIME_IS_GLOBAL, &value, &flag);
  EDGE_CHECK((flag ? *value : -1) == global_clock && MPI_Query_thread(&provided) == MPI_SUCCESS &&
             MPI_Is_thread_main(&mine) == MPI_SUCCESS && mine);
  char name[MPI_MAX_LIBRARY_VERSION_STRING];
  int length;
  EDGE_CHECK(MPI_Get_processor_name(name, &length) == MPI_SUCCESS &&
             MPI_Get_library_version(name, &length) == MPI_SUCCESS && MPI_Pcontrol(3, "x") == MPI_SUCCESS);
}

static MPI_Comm named;
static MPI_Info info;
static MPI_Datatype named_type;
static void names_and_infos_begin(void) {
  named = private_comm();
  MPI_Comm_set_name(named, "odd, \"name\" \xc3\xa4");
  MPI_Type_contiguous(3, MPI_SHORT, &named_type);
  MPI_Type_set_name(named_type, "three");
  MPI_Info_create(&info);
  MPI_Info_set(info, "a key", "a value, with = and \xff");
  MPI_Info_set(info, "second", "2");
}
static void names_and_infos_step(int k) {
  char text[1024];
  int length, flag, keys;
  MPI_Comm_get_name(named, text, &length);
  EDGE_CHECK(!strcmp(text, "odd, \"name\" \xc3\xa4"));
  MPI_Type_get_name(named_type, text, &length);
  EDGE_CHECK(!strcmp(text, "three"));
  MPI_Comm_get_name(WORLD, text, &length);
  EDGE_CHECK(!strcmp(text, "MPI_COMM_WORLD"));
  MPI_Info_get_nkeys(info, &keys);
  MPI_Info_get(info, "a key", 1000, text, &flag);
  EDGE_CHECK(keys == 2 && flag && !strcmp(text, "a value, with = and \xff"));
  MPI_Info copy;
  MPI_Info_dup(info, &copy);
  snprintf(text, sizeof text, "%d", k);
  MPI_Info_set(copy, "second", text);
  MPI_Info_get_nthkey(copy, 1, text);
  EDGE_CHECK(!strcmp(text, "second"));
  MPI_Info_free(&copy);
}
static void names_and_infos_end(void) {
  MPI_Comm_free(&named), MPI_Type_free(&named_type), MPI_Info_free(&info);
}

static MPI_Group kept_group, ring_group;
static void groups_begin(void) {
  MPI_Group world;
  int ranges[1][3] = {{2, 0, -1}};
  MPI_Comm_group(WORLD, &world);
  MPI_Group_range_incl(world, 1, ranges, &kept_group);
  MPI_Group_difference(world, MPI_GROUP_EMPTY, &ring_group);
  MPI_Group_free(&world);
}
static void groups_step(int k) {
  int in[3] = {0, 1, 2}, out[3], result, me;
  (void)k;
  MPI_Group_translate_ranks(kept_group, 3, in, ring_group, out);
  EDGE_CHECK(out[0] == 2 && out[1] == 1 && out[2] == 0);
  MPI_Group_compare(kept_group, ring_group, &result);
  MPI_Group_rank(kept_group, &me);
  EDGE_CHECK(result == MPI_SIMILAR && me == 2 - rank);
  MPI_Group one;
  MPI_Group_excl(kept_group, 2, in, &one);
  MPI_Group_size(one, &result);
  EDGE_CHECK(result == 1);
  MPI_Group_free(&one);
}
static void groups_end(void) { MPI_Group_free(&kept_group), MPI_Group_free(&ring_group); }

static int errors_seen, last_class;
static void on_error(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  errors_seen++;
  MPI_Error_class(*code, &last_class);
}
static MPI_Comm handled;
static int own_code;
static void error_handlers_begin(void) {
  MPI_Errhandler handler;
  int own_class;
  handled = private_comm();
  MPI_Comm_create_errhandler(on_error, &handler);
  MPI_Comm_set_errhandler(handled, handler);
  MPI_Errhandler_free(&handler);  // the communicator still uses it
  MPI_Add_error_class(&own_class);
  MPI_Add_error_code(own_class, &own_code);
  MPI_Add_error_string(own_code, "an odd error");
}
static void error_handlers_step(int k) {
  MPI_Comm copy;
  int length;
  char text[MPI_MAX_ERROR_STRING];
  EDGE_CHECK(MPI_Send(&k, 1, MPI_INT, 500, 1, handled) != MPI_SUCCESS && errors_seen == 3 * k + 1 &&
             last_class == MPI_ERR_RANK);
  MPI_Comm_dup(handled, &copy);  // the duplicate has it too
  EDGE_CHECK(MPI_Recv(&k, -1, MPI_INT, 0, 1, copy, MPI_STATUS_IGNORE) != MPI_SUCCESS &&
             errors_seen == 3 * k + 2 && last_class == MPI_ERR_COUNT);
  MPI_Comm_free(&copy);
  MPI_Comm_call_errhandler(handled, own_code);
  EDGE_CHECK(errors_seen == 3 * k + 3 && MPI_Error_string(own_code, text, &length) == MPI_SUCCESS &&
             !strcmp(text, "an odd error"));
}
static void error_handlers_end(void) { MPI_Comm_free(&handled); }

// --- Messages that are sent in one step and received in the next ---

static MPI_Comm wild;
static void wildcard_probes_begin(void) { wild = private_comm(); }
static void wildcard_probes_step(int k) {
  MPI_Status status;
  int values[8], count, flag = 0;
  for (int i = 0; i < 3 && k; i++) {
    MPI_Message message;
    if (i == 0) {
      MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, wild, &status);
      MPI_Get_count(&status, MPI_INT, &count);
      EDGE_CHECK(count == status.MPI_TAG - 10 * (k - 1));
      MPI_Recv(values, count, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, wild, &status);
    } else if (i == 1) {
      while (!flag) MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, wild, &flag, &message, &status);
      MPI_Get_count(&status, MPI_INT, &count);
      MPI_Mrecv(values, count, MPI_INT, &message, &status);
    } else {
      MPI_Mprobe(last, MPI_ANY_TAG, wild, &message, &status);
      MPI_Request request;
      MPI_Get_count(&status, MPI_INT, &count);
      MPI_Imrecv(values, count, MPI_INT, &message, &request);
      MPI_Wait(&request, &status);
    }
    EDGE_CHECK(status.MPI_SOURCE == last && count == i + 1 && values[count - 1] == k - 1);
  }
  for (int i = 0; i < 8; i++) values[i] = k;
  for (int i = 1; i <= 3; i++) MPI_Send(values, i, MPI_INT, next, 10 * k + i, wild);
}
static void wildcard_probes_end(void) {
  int values[8];
  for (int i = 1; i <= 3; i++)
    MPI_Recv(values, 8, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, wild, MPI_STATUS_IGNORE);
  MPI_Comm_free(&wild);
}

static MPI_Request to_self[2], from_self;
static int self_out[2], self_in;
static void self_messages_step(int k) {
  int got;
  if (k) {
    MPI_Recv(&got, 1, MPI_INT, rank, 4712, WORLD, MPI_STATUS_IGNORE);
    EDGE_CHECK(got == 3 * (k - 1));
    MPI_Recv(&got, 1, MPI_INT, 0, 4711, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    EDGE_CHECK(got == 7 * (k - 1));
    MPI_Waitall(2, to_self, MPI_STATUSES_IGNORE);
    MPI_Send(&k, 1, MPI_INT, rank, 4713, WORLD);
    MPI_Wait(&from_self, MPI_STATUS_IGNORE);
    EDGE_CHECK(self_in == k);
  }
  self_out[0] = 3 * k, self_out[1] = 7 * k;
  MPI_Irecv(&self_in, 1, MPI_INT, rank, 4713, WORLD, &from_self);
  MPI_Isend(&self_out[0], 1, MPI_INT, rank, 4712, WORLD, &to_self[0]);
  MPI_Isend(&self_out[1], 1, MPI_INT, 0, 4711, MPI_COMM_SELF, &to_self[1]);
}
static void self_messages_end(void) {
  int got;
  MPI_Recv(&got, 1, MPI_INT, rank, 4712, WORLD, MPI_STATUS_IGNORE),
      MPI_Recv(&got, 1, MPI_INT, 0, 4711, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  MPI_Send(&got, 1, MPI_INT, rank, 4713, WORLD);
  MPI_Wait(&from_self, MPI_STATUS_IGNORE), MPI_Waitall(2, to_self, MPI_STATUSES_IGNORE);
}

static void empty_messages_and_requests_step(int k) {  // zero sizes, null neighbours, null requests
  MPI_Status status;
  int count = 5, counts[3] = {0, 0, 0}, flag;
  if (k) {
    MPI_Recv(NULL, 0, MPI_DOUBLE, last, 51, WORLD, &status);
    MPI_Get_count(&status, MPI_DOUBLE, &count);
    EDGE_CHECK(count == 0 && status.MPI_SOURCE == last);
  }
  MPI_Send(NULL, 0, MPI_BYTE, next, 51, WORLD);
  MPI_Sendrecv(&k, 1, MPI_INT, MPI_PROC_NULL, 1, &count, 1, MPI_INT, MPI_PROC_NULL, 1, WORLD, &status);
  EDGE_CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Irecv(&count, 1, MPI_INT, MPI_PROC_NULL, 0, WORLD, &requests[0]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  MPI_Test(&requests[1], &flag, &status);
  EDGE_CHECK(flag && requests[0] == MPI_REQUEST_NULL && status.MPI_SOURCE == MPI_ANY_SOURCE);
  MPI_Bcast(NULL, 0, MPI_INT, 1, WORLD), MPI_Allreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, WORLD);
  MPI_Allgatherv(NULL, 0, MPI_INT, NULL, counts, counts, MPI_INT, WORLD);
  MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE);
}
static void empty_messages_and_requests_end(void) {
  MPI_Recv(NULL, 0, MPI_DOUBLE, last, 51, WORLD, MPI_STATUS_IGNORE);
}

static void largest_tags_step(int k) {
  int got, *upper, flag;
  MPI_Comm_get_attr(WORLD, MPI_TAG_UB, &upper, &flag);
  for (int i = 0; i < 3 && k; i++) {
    MPI_Recv(&got, 1, MPI_INT, last, *upper - i, WORLD, MPI_STATUS_IGNORE);
    EDGE_CHECK(got == k - 1 + i);
  }
  for (int i = 2; i >= 0; i--) {
    int value = k + i;
    MPI_Send(&value, 1, MPI_INT, next, *upper - i, WORLD);
  }
}
static void largest_tags_end(void) {
  int got, *upper, flag;
  MPI_Comm_get_attr(WORLD, MPI_TAG_UB, &upper, &flag);
  for (int i = 0; i < 3; i++) MPI_Recv(&got, 1, MPI_INT, last, *upper - i, WORLD, MPI_STATUS_IGNORE);
}

static MPI_Request to_cancel = MPI_REQUEST_NULL;
static int never;
static void cancelled_receives_step(int k) {
  MPI_Status status;
  int flag;
  if (k) {
    MPI_Cancel(&to_cancel);
    MPI_Wait(&to_cancel, &status);
    MPI_Test_cancelled(&status, &flag);
    EDGE_CHECK(flag && never == 0);
  }
  MPI_Irecv(&never, 1, MPI_INT, MPI_ANY_SOURCE, 6000, WORLD, &to_cancel);
}
static void cancelled_receives_end(void) {
  MPI_Cancel(&to_cancel);
  MPI_Wait(&to_cancel, MPI_STATUS_IGNORE);
}

static int forgotten[4];
static void forgotten_sends_step(
    int k) {  // the request is freed at once; the message is received one step later
  int got;
  MPI_Request request;
  if (k) {
    MPI_Recv(&got, 1, MPI_INT, last, 61, WORLD, MPI_STATUS_IGNORE);
    EDGE_CHECK(got == k - 1);
  }
  forgotten[k % 4] = k;
  MPI_Isend(&forgotten[k % 4], 1, MPI_INT, next, 61, WORLD, &request);
  MPI_Request_free(&request);
}
static void forgotten_sends_end(void) {
  int got;
  MPI_Recv(&got, 1, MPI_INT, last, 61, WORLD, MPI_STATUS_IGNORE);
  MPI_Barrier(WORLD);
}

static MPI_Request typed_request;
struct record {
  char letter;
  double number;
  int pair[2];
};
static struct record received[3], to_send[3];
static MPI_Datatype record_type(void) {
  MPI_Datatype type, resized;
  int lengths[3] = {1, 1, 2};
  MPI_Aint at[3] = {offsetof(struct record, letter), offsetof(struct record, number),
                    offsetof(struct record, pair)};
  MPI_Datatype types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
  MPI_Type_create_struct(3, lengths, at, types, &type);
  MPI_Type_create_resized(type, 0, sizeof(struct record), &resized);
  MPI_Type_commit(&resized);
  MPI_Type_free(&type);
  return resized;
}
static void types_freed_in_use_step(
    int k) {  // a receive whose datatype is freed stays pending into the next step
  MPI_Datatype type;
  if (k) {
    MPI_Wait(&typed_request, MPI_STATUS_IGNORE);
    for (int i = 0; i < 3; i++)
      EDGE_CHECK(received[i].letter == 'a' + i && received[i].number == k - 1 + 0.5 &&
                 received[i].pair[1] == i * (k - 1));
  }
  type = record_type();
  MPI_Irecv(received, 3, type, last, 62, WORLD, &typed_request);
  MPI_Type_free(&type);
  for (int i = 0; i < 3; i++)
    to_send[i] = (struct record){.letter = (char)('a' + i), .number = k + 0.5, .pair = {0, i * k}};
  type = record_type();
  MPI_Request request;
  MPI_Isend(to_send, 3, type, next, 62, WORLD, &request);
  MPI_Type_free(&type);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}
static void types_freed_in_use_end(void) { MPI_Wait(&typed_request, MPI_STATUS_IGNORE); }

static char attached[4096];
static void buffered_sends_begin(void) { MPI_Buffer_attach(attached, sizeof attached); }
static void buffered_sends_step(int k) {
  int got;
  if (k) {
    MPI_Recv(&got, 1, MPI_INT, last, 63, WORLD, MPI_STATUS_IGNORE);
    EDGE_CHECK(got == k - 1);
  }
  MPI_Bsend(&k, 1, MPI_INT, next, 63, WORLD);
}
static void buffered_sends_end(void) {
  int got, length;
  void* at;
  MPI_Recv(&got, 1, MPI_INT, last, 63, WORLD, MPI_STATUS_IGNORE);
  MPI_Buffer_detach(&at, &length);
  EDGE_CHECK(at == attached && length == sizeof attached);
}

static void many_unexpected_step(
    int k) {  // fifty messages wait, and are received in reverse order of their tags
  int got;
  for (int i = 49; i >= 0 && k; i--) {
    MPI_Recv(&got, 1, MPI_INT, last, 1000 + i / 2, WORLD, MPI_STATUS_IGNORE);
    EDGE_CHECK(got == (k - 1) * 100 + (i / 2) * 2 + !(i % 2));
  }
  for (int i = 0; i < 50; i++) {
    int value = k * 100 + i;
    MPI_Send(&value, 1, MPI_INT, next, 1000 + i / 2, WORLD);
  }
}
static void many_unexpected_end(void) {
  int got;
  for (int i = 0; i < 50; i++) MPI_Recv(&got, 1, MPI_INT, last, MPI_ANY_TAG, WORLD, MPI_STATUS_IGNORE);
}

static MPI_Request several[6];
static int several_in[6];
static void mixed_requests_step(int k) {  // some of them complete in this step, some in the next
  int count, which[6], seen = 0, index, flag, sent[2];
  MPI_Status statuses[6];
  if (k == 0)
    for (int i = 0; i < 6; i++) several[i] = MPI_REQUEST_NULL;
  for (int i = 0; i < 6; i++)
    if (several[i] == MPI_REQUEST_NULL)
      MPI_Irecv(&several_in[i], 1, MPI_INT, last, 70 + i, WORLD, &several[i]);
  MPI_Request sends[2];
  for (int i = 0; i < 2; i++) {
    sent[i] = k * 10 + i;
    MPI_Isend(&sent[i], 1, MPI_INT, next, 70 + (2 * k + i) % 6, WORLD, &sends[i]);
  }
  while (seen < 2) {
    if (k % 2) {
      MPI_Testsome(6, several, &count, which, statuses);
      EDGE_CHECK(count != MPI_UNDEFINED);
      for (int i = 0; i < count; i++)
        EDGE_CHECK(which[i] / 2 == k % 3 && several_in[which[i]] == k * 10 + which[i] % 2 &&
                   statuses[i].MPI_SOURCE == last);
      seen += count;
    } else {
      MPI_Waitany(6, several, &index, statuses);
      EDGE_CHECK(index / 2 == k % 3 && several_in[index] == k * 10 + index % 2 &&
                 statuses[0].MPI_TAG == 70 + index);
      seen++;
    }
  }
  MPI_Testall(2, sends, &flag, statuses);
  if (!flag) MPI_Waitall(2, sends, statuses);
}
static void mixed_requests_end(void) {
  for (int i = 0; i < 6; i++)
    if (several[i] != MPI_REQUEST_NULL) {
      MPI_Cancel(&several[i]);
      MPI_Wait(&several[i], MPI_STATUS_IGNORE);
    }
}

// --- Types, operations, collectives ---

static MPI_Datatype nested, block;
static void nested_types_begin(void) {
  MPI_Datatype vector, indexed;
  int sizes[2] = {8, 8}, some[2] = {3, 2}, from[2] = {2, 5}, lengths[2] = {2, 1};
  MPI_Aint at[2] = {0, 100};
  MPI_Type_create_hvector(3, 2, 24, MPI_INT, &vector);
  MPI_Type_create_hindexed(2, lengths, at, vector, &indexed);
  MPI_Type_dup(indexed, &nested);
  MPI_Type_commit(&nested);
  MPI_Type_create_subarray(2, sizes, some, from, MPI_ORDER_FORTRAN, MPI_SHORT, &block);
  MPI_Type_commit(&block);
  MPI_Type_free(&vector), MPI_Type_free(&indexed);
}
static void nested_types_step(int k) {
  int bytes, integers, addresses, types, combiner, position = 0;
  MPI_Aint lower, extent;
  short matrix[64], out[64] = {0};
  char packed[1000];
  MPI_Type_size(nested, &bytes);
  MPI_Type_get_extent(nested, &lower, &extent);
  MPI_Type_get_envelope(nested, &integers, &addresses, &types, &combiner);
  EDGE_CHECK(bytes == 72 && lower == 0 && extent == 156 && combiner == MPI_COMBINER_DUP && types == 1);
  MPI_Type_get_envelope(block, &integers, &addresses, &types, &combiner);
  EDGE_CHECK(combiner == MPI_COMBINER_SUBARRAY && integers == 8);
  for (int i = 0; i < 64; i++) matrix[i] = (short)(k * i);
  MPI_Pack_external("external32", matrix, 1, block, packed, sizeof packed, &(MPI_Aint){0});
  MPI_Pack(matrix, 1, block, packed, sizeof packed, &position, WORLD);
  EDGE_CHECK(position >= 12);
  position = 0;
  MPI_Unpack(packed, sizeof packed, &position, out, 1, block, WORLD);
  for (int x = 0; x < 8; x++)
    for (int y = 0; y < 8; y++)
      EDGE_CHECK(out[y * 8 + x] == (x >= 2 && x < 5 && y >= 5 && y < 7 ? k * (y * 8 + x) : 0));
}
static void nested_types_end(void) { MPI_Type_free(&nested), MPI_Type_free(&block); }

static MPI_Op kept_op;
static void combine(void* in, void* inout, int* count, MPI_Datatype* type) {  // not commutative: 2x2 matrices
  (void)type;
  long(*a)[4] = (long(*)[4])in, (*b)[4] = (long(*)[4])inout;
  for (int i = 0; i < *count; i++) {
    long c[4] = {a[i][0] * b[i][0] + a[i][1] * b[i][2], a[i][0] * b[i][1] + a[i][1] * b[i][3],
                 a[i][2] * b[i][0] + a[i][3] * b[i][2], a[i][2] * b[i][1] + a[i][3] * b[i][3]};
    memcpy(b[i], c, sizeof c);
  }
}
static void product_of_matrices(int k, long wanted[4]) {
  long all[3][4];
  for (int r = 0; r < 3; r++) all[r][0] = 1, all[r][1] = k + r, all[r][2] = 2, all[r][3] = r;
  memcpy(wanted, all[2], sizeof all[2]);
  int one = 1;
  combine(all[1], wanted, &one, NULL);
  combine(all[0], wanted, &one, NULL);
}
static void hints_of_some_ranks_step(int k) {
  MPI_Info hints = MPI_INFO_NULL, copy;
  if (rank == 0) {
    MPI_Info_create(&hints);
    MPI_Info_set(hints, "some_hint", "true");
  }
  MPI_Comm made;
  MPI_Comm_dup_with_info(WORLD, hints, &made);
  if (rank == 0) MPI_Info_free(&hints);
  int mine = k + rank, sum;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, made);
  EDGE_CHECK(sum == 3 * k + 3);
  MPI_Comm_free(&made);
  int keys = -1, same = -2;
  MPI_Info_get_nkeys(MPI_INFO_ENV, &keys);
  MPI_Info_dup(MPI_INFO_ENV, &copy);
  MPI_Info_get_nkeys(copy, &same);
  EDGE_CHECK(keys == same);
  MPI_Info_free(&copy);
#if defined(OPEN_MPI)  // a value that does not fit is cut without an error, whichever MPI is underneath
  char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
  for (int n = 0, found = 0; n < keys; n++) {
    MPI_Info_get_nthkey(MPI_INFO_ENV, n, key);
    MPI_Info_get(MPI_INFO_ENV, key, 1, value, &found);
    EDGE_CHECK(found && strlen(value) <= 1);
  }
#endif
}

static void own_operations_begin(void) { MPI_Op_create(combine, 0, &kept_op); }
static void own_operations_step(int k) {
  long mine[4] = {1, k + rank, 2, rank}, result[4], wanted[4];
  MPI_Datatype matrix;
  product_of_matrices(k, wanted);
  MPI_Type_contiguous(4, MPI_LONG, &matrix);
  MPI_Type_commit(&matrix);
  MPI_Allreduce(mine, result, 1, matrix, kept_op, WORLD);
  EDGE_CHECK(!memcmp(result, wanted, sizeof wanted));
  MPI_Op op;
  MPI_Request request;
  MPI_Op_create(combine, 0, &op);
  MPI_Iallreduce(mine, result, 1, matrix, op, WORLD, &request);
  MPI_Op_free(&op);  // both are freed before the operation completes
  MPI_Type_free(&matrix);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  EDGE_CHECK(!memcmp(result, wanted, sizeof wanted));
  memcpy(wanted, mine, sizeof mine);
  MPI_Type_contiguous(4, MPI_LONG, &matrix);
  MPI_Type_commit(&matrix);
  MPI_Reduce_local(mine, wanted, 1, matrix, kept_op);
  MPI_Scan(MPI_IN_PLACE, mine, 1, matrix, kept_op, WORLD);
  EDGE_CHECK(rank || mine[1] == k);
  MPI_Type_free(&matrix);
}
static void own_operations_end(void) { MPI_Op_free(&kept_op); }

static void many_operations_step(int k) {  // over five hundred at the end
  for (int i = 0; i < 40; i++) {
    MPI_Op op;
    MPI_Op_create(combine, 1, &op);
    if (i == 20) {
      long mine[4] = {1, 0, 0, 1}, result[4];
      MPI_Datatype matrix;
      MPI_Type_contiguous(4, MPI_LONG, &matrix);
      MPI_Type_commit(&matrix);
      MPI_Allreduce(mine, result, 1, matrix, op, WORLD);
      EDGE_CHECK(!memcmp(mine, result, sizeof mine) && k >= 0);
      MPI_Type_free(&matrix);
    }
    MPI_Op_free(&op);
  }
}

static void rare_collectives_step(int k) {
  struct {
    double value;
    int where;
  } mine = {(rank * 7 + k) % 3, rank}, best;
  MPI_Allreduce(&mine, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC, WORLD);
  EDGE_CHECK(best.value == 2 && (best.where * 7 + k) % 3 == 2);
  long double sum = 1.25L + rank, total;
  MPI_Allreduce(&sum, &total, 1, MPI_LONG_DOUBLE, MPI_SUM, WORLD);
  EDGE_CHECK(total == 3.75L + 3);
  double complex factor = 1 + rank * I, product;
  MPI_Allreduce(&factor, &product, 1, MPI_C_DOUBLE_COMPLEX, MPI_PROD, WORLD);
  EDGE_CHECK(creal(product) == -1 && cimag(product) == 3);
  int send[3] = {k, k + 1, k + 2}, get[3] = {-1, -1, -1}, counts[3] = {1, 1, 1}, at[3] = {0, 4, 8};
  MPI_Datatype types[3] = {MPI_INT, MPI_INT, MPI_INT};
  MPI_Alltoallw(send, counts, at, types, get, counts, at, types, WORLD);
  EDGE_CHECK(get[0] == k + rank && get[2] == k + rank);
  int value = rank == 1 ? k : -1, part = 0;
  MPI_Bcast(&value, 1, MPI_INT, 1, WORLD);
  MPI_Reduce_scatter_block(send, &part, 1, MPI_INT, MPI_BXOR, WORLD);
  EDGE_CHECK(value == k && part == ((k + rank) ^ (k + rank) ^ (k + rank)));
  MPI_Exscan(&value, &part, 1, MPI_INT, MPI_SUM, WORLD);
  EDGE_CHECK(rank == 0 || part == rank * k);
  MPI_Request requests[2];
  MPI_Ibarrier(WORLD, &requests[0]);
  MPI_Ibcast(&value, 1, MPI_INT, 2, WORLD, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

// --- What a cut refuses ---

static MPI_Request pending;
static int pending_in = 1, pending_out;
static void pending_collective_step(int k) {
  if (k) MPI_Wait(&pending, MPI_STATUS_IGNORE);
  EDGE_CHECK(!k || pending_out == 3);
  MPI_Iallreduce(&pending_in, &pending_out, 1, MPI_INT, MPI_SUM, WORLD, &pending);
}
static void pending_collective_end(void) { MPI_Wait(&pending, MPI_STATUS_IGNORE); }

static MPI_Request persistent[2];
static int persistent_in, persistent_out;
static void persistent_requests_begin(void) {
  MPI_Send_init(&persistent_out, 1, MPI_INT, next, 80, WORLD, &persistent[0]);
  MPI_Recv_init(&persistent_in, 1, MPI_INT, last, 80, WORLD, &persistent[1]);
}
static void persistent_requests_step(int k) {
  persistent_out = k;
  MPI_Startall(2, persistent);
  MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE);
  EDGE_CHECK(persistent_in == k && persistent[0] != MPI_REQUEST_NULL);
}
static void persistent_requests_end(void) {
  MPI_Request_free(&persistent[0]), MPI_Request_free(&persistent[1]);
}

static MPI_Message matched;
static void matched_message_step(int k) {  // the handle from MPI_Mprobe is kept into the next step
  int got;
  if (k) {
    MPI_Mrecv(&got, 1, MPI_INT, &matched, MPI_STATUS_IGNORE);
    EDGE_CHECK(got == k - 1);
  }
  MPI_Send(&k, 1, MPI_INT, next, 81, WORLD);
  MPI_Mprobe(last, 81, WORLD, &matched, MPI_STATUS_IGNORE);
}
static void matched_message_end(void) {
  int got;
  MPI_Mrecv(&got, 1, MPI_INT, &matched, MPI_STATUS_IGNORE);
}

static MPI_Comm grid;
static void topology_begin(void) {
  int extents[1] = {3}, periods[1] = {1};
  MPI_Cart_create(WORLD, 1, extents, periods, 0, &grid);
}
static void topology_step(int k) {
  int from, to, got;
  MPI_Cart_shift(grid, 0, 1, &from, &to);
  MPI_Sendrecv(&k, 1, MPI_INT, to, 1, &got, 1, MPI_INT, from, 1, grid, MPI_STATUS_IGNORE);
  EDGE_CHECK(to == next && from == last && got == k);
}
static void topology_end(void) { MPI_Comm_free(&grid); }

static void query_nothing(void) {}
static int queried(void* extra, MPI_Status* status) {
  (void)extra;
  MPI_Status_set_elements(status, MPI_INT, 3);
  MPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = 2, status->MPI_TAG = 5;
  return MPI_SUCCESS;
}
static int freed_request(void* extra) { return (void)extra, query_nothing(), MPI_SUCCESS; }
static int cancelled_request(void* extra, int complete) { return (void)extra, (void)complete, MPI_SUCCESS; }
static MPI_Request general;
static void generalized_request_step(int k) {
  MPI_Status status;
  int count;
  if (k) {
    MPI_Grequest_complete(general);
    MPI_Wait(&general, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    EDGE_CHECK(count == 3 && status.MPI_TAG == 5);
  }
  MPI_Grequest_start(queried, freed_request, cancelled_request, NULL, &general);
}
static void generalized_request_end(void) {
  MPI_Grequest_complete(general);
  MPI_Wait(&general, MPI_STATUS_IGNORE);
}

static MPI_Win window;
static int* exposed;
static void window_begin(void) { MPI_Win_allocate(64, 4, MPI_INFO_NULL, WORLD, &exposed, &window); }
static void window_step(int k) {
  MPI_Win_fence(0, window);
  MPI_Put(&k, 1, MPI_INT, next, 3, 1, MPI_INT, window);
  MPI_Win_fence(0, window);
  EDGE_CHECK(exposed[3] == k);
}
static void window_end(void) { MPI_Win_free(&window); }

#if MPI_VERSION >= 4
static MPI_Session session;
static MPI_Comm of_session;
static void session_begin(void) {
  MPI_Group group;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, "odd", MPI_INFO_NULL, MPI_ERRORS_RETURN, &of_session);
  MPI_Group_free(&group);
}
static void session_step(int k) { EDGE_CHECK(sum_of(k, of_session) == 3 * k); }
static void session_end(void) {
  MPI_Comm_free(&of_session);
  MPI_Session_finalize(&session);
}
#else  // this MPI has no sessions
static void session_begin(void) {}
static void session_step(int k) { (void)k; }
static void session_end(void) {}
#endif

static void none(void) {}
static const struct {
  const char* name;
  void (*begin)(void);
  void (*step)(int);
  void (*end)(void);
} table[] = {
#define ALL(name) \
  { #name, name##_begin, name##_step, name##_end }
#define STEP(name) \
  { #name, none, name##_step, none }
#define END(name) \
  { #name, none, name##_step, name##_end }
    STEP(many_duplicates),
    ALL(splits),
    ALL(create_group),
    STEP(short_lived_intercommunicators),
    {"merged_intercommunicator", merged_intercommunicator_begin, merged_intercommunicator_step, none},
    ALL(attributes),
    {"predefined", predefined_begin, predefined_step, none},
    ALL(names_and_infos),
    ALL(groups),
    ALL(error_handlers),
    ALL(wildcard_probes),
    END(self_messages),
    END(empty_messages_and_requests),
    END(largest_tags),
    END(cancelled_receives),
    END(forgotten_sends),
    END(types_freed_in_use),
    ALL(buffered_sends),
    END(many_unexpected),
    END(mixed_requests),
    ALL(nested_types),
    STEP(hints_of_some_ranks),
    ALL(own_operations),
    STEP(many_operations),
    STEP(rare_collectives),
    END(pending_collective),
    ALL(persistent_requests),
    END(matched_message),
    ALL(topology),
    END(generalized_request),
    ALL(window),
    ALL(session),
};
enum { count = sizeof table / sizeof *table };

static bool chosen(const char* names, const char* name) {
  size_t length = strlen(name);
  for (const char* at = names; (at = strstr(at, name)); at += length)
    if ((at == names || at[-1] == ',') && (at[length] == ',' || !at[length])) return true;
  return false;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(WORLD, &rank);
  MPI_Comm_size(WORLD, &size);
  next = (rank + 1) % size, last = (rank + size - 1) % size;
  steplog_open(argc, argv, rank);
  EDGE_CHECK(size == 3);
  for (int i = 0; i < count; i++)
    if (chosen(argv[1], table[i].name)) table[i].begin();
  for (int k = 0; edge_more(); k++)
    for (int i = 0; i < count; i++)
      if (chosen(argv[1], table[i].name)) table[i].step(k);
  for (int i = 0; i < count; i++)
    if (chosen(argv[1], table[i].name)) table[i].end();
  steplog_ok();
  MPI_Finalize();
  return 0;
}
