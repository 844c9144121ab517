// links: cropdl_launch
// A process's place in its launch, from environments as launchers set them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>

#include "interpose/launch/launch.h"

namespace cropdl::launching {
namespace {

using Environment = std::map<std::string, std::string>;

Result<Launch> launch_in(const Environment& environment) {
  ::clearenv();
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  return read_launch("program");
}

void expect_place(const Environment& environment, uint32_t rank, uint32_t ranks, const std::string& flavour) {
  const auto launch = launch_in(environment);
  ASSERT_TRUE(launch) << launch.error().message;
  EXPECT_TRUE(launch->launched);
  EXPECT_EQ(launch->rank, rank);
  EXPECT_EQ(launch->ranks, ranks);
  EXPECT_EQ(launch->flavour, flavour);
}

std::string refusal_in(const Environment& environment) {
  const auto launch = launch_in(environment);
  return launch ? "" : launch.error().message;
}

// The environment of a task of `srun -n 4` in an allocation of 8.
Environment slurm(const std::string& rank) {
  return {{"SLURM_PROCID", rank},       {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_NTASKS", "8"},
          {"SLURM_JOB_ID", "17"},       {"SLURM_STEP_ID", "2"},        {"SLURM_LOCALID", rank},
          {"SLURM_JOB_NODELIST", "n1"}, {"SLURM_NPROCS", "8"}};
}

Environment with(Environment base, const Environment& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

TEST(Launch, WithoutALauncherItIsOneProcess) {
  const auto launch = launch_in({{"PATH", "/bin"}});
  ASSERT_TRUE(launch);
  EXPECT_FALSE(launch->launched);
  EXPECT_EQ(launch->rank, 0u);
  EXPECT_EQ(launch->ranks, 1u);
  EXPECT_EQ(launch->flavour, "none");
}

TEST(Launch, EachLaunchersRankNumberIsFound) {
  expect_place({{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_RANK", "3"}}, 3, 4,
               "openmpi");
  expect_place({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_FD", "6"}}, 1, 2, "mpich");
  expect_place({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"I_MPI_MPIRUN", "mpirun"}, {"MPI_LOCALRANKID", "1"}},
               1, 2, "mpich");
  expect_place({{"MV2_COMM_WORLD_RANK", "5"}, {"MV2_COMM_WORLD_SIZE", "6"}}, 5, 6, "mpich");
  expect_place({{"MVP_COMM_WORLD_RANK", "5"}, {"MVP_COMM_WORLD_SIZE", "6"}}, 5, 6, "mpich");
  expect_place(slurm("3"), 3, 4, "none");
  expect_place(with(slurm("2"), {{"PMIX_RANK", "2"}, {"PMIX_NAMESPACE", "slurm.pmix.17.2"}}), 2, 4, "none");
  expect_place({{"FLUX_TASK_RANK", "1"}, {"FLUX_JOB_SIZE", "2"}, {"FLUX_JOB_ID", "f1"}}, 1, 2, "none");
}

TEST(Launch, WithPmi2OfSlurmTheMpiIsTheProgramsAndWithHydraInItHydras) {
  expect_place(with(slurm("3"), {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}}), 3, 4, "none");
  expect_place(with(slurm("0"), {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}), 1, 2, "mpich");
  expect_place(with(slurm("3"), {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"HYDI_CONTROL_FD", "7"}}), 3, 4,
               "mpich");
}

TEST(Launch, UnderFluxWhichSetsPmisVariablesTooTheMpiIsTheProgramsAndWithHydraInItHydras) {
  const Environment flux{{"FLUX_TASK_RANK", "0"}, {"FLUX_JOB_SIZE", "2"}, {"FLUX_JOB_ID", "f1"}};
  expect_place(with(flux, {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"PMI_FD", "6"}}), 0, 2, "none");
  expect_place(with(flux, {{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}}), 1, 4, "mpich");
  expect_place(with(flux, {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"HYDI_CONTROL_FD", "7"}}), 0, 2, "mpich");
}

TEST(Launch, TheLaunchersOptionsEndBeforeTheProgram) {
  const auto options = [](const std::vector<std::string>& words) {
    return launcher_options(words, "/home/me/train").value_or(std::vector<std::string>{"unknown"});
  };
  using Words = std::vector<std::string>;
  const Words two{"-n", "2"};
  EXPECT_EQ(options({"mpirun", "-n", "2", "/opt/bin/cropdl-run", "./train"}), two);
  EXPECT_EQ(options({"mpirun", "-n", "2", "cropdl", "run", "./train"}), two);
  EXPECT_EQ(options({"mpirun", "-n", "2", "./train", "cropdl"}), two);
  EXPECT_EQ(options({"mpirun", "--output-filename", "out/train", "cropdl-run", "./train"}),
            (Words{"--output-filename", "out/train"}));
  EXPECT_EQ(options({"mpirun", "-n", "2", "bash", "-c", "cd work && exec cropdl-run ./train"}),
            Words{"unknown"});
  EXPECT_EQ(options({"mpirun", "-n", "2", "./wrapper"}), Words{"unknown"});
}

TEST(Launch, TheInnerLauncherCounts) {
  expect_place(with(slurm("0"), {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}), 1, 2,
               "openmpi");
}

TEST(Launch, ABatchScriptIsNoRank) {
  Environment batch{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "17"}};
  const auto launch = launch_in(batch);
  ASSERT_TRUE(launch) << launch.error().message;
  EXPECT_FALSE(launch->launched);
  EXPECT_EQ(launch->ranks, 1u);
  batch["SLURM_PROCID"] = "5";  // but not rank 0 of one rank
  expect_place(batch, 5, 8, "none");
}

TEST(Launch, AllRanksOfALaunchNameItAlikeAndNoOthers) {
  const auto one = launch_in(slurm("0")), two = launch_in(slurm("1"));
  const auto other = launch_in(with(slurm("0"), {{"SLURM_STEP_ID", "3"}}));
  const auto again = launch_in(with(slurm("0"), {{"SLURM_RESTART_COUNT", "1"}}));
  ASSERT_TRUE(one && two && other && again);
  EXPECT_EQ(one->run, two->run);
  EXPECT_NE(one->run, other->run);
  EXPECT_NE(one->run, again->run);
  EXPECT_NE(launch_in({})->run, one->run);
}

// A script of each rank may be between it and the launcher, so the parent does not name the launch.
TEST(Launch, PmisVariablesOfSlurmAndFluxDoNotChangeTheNameOfTheLaunch) {
  const Environment flux{{"FLUX_TASK_RANK", "3"}, {"FLUX_JOB_SIZE", "4"}, {"FLUX_JOB_ID", "f1"}};
  for (const Environment& own : {slurm("3"), flux}) {
    const auto without = launch_in(own);
    const auto pmi = launch_in(with(own, {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"PMI_FD", "6"}}));
    ASSERT_TRUE(without && pmi);
    EXPECT_EQ(pmi->run, without->run);
  }
}

TEST(Launch, AKnownLauncherWithoutARankNumberIsRefusedByName) {
  const std::string advice = "; start it with a launcher that tells its ranks their place, as mpirun does";
  EXPECT_EQ(refusal_in({{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "x"}}),
            "started by a PMIx server, but the number of ranks is unknown: no variable has it" + advice);
  EXPECT_EQ(
      refusal_in({{"OMPI_COMM_WORLD_RANK", "0"}}),
      "started by Open MPI's mpirun, but the number of ranks is unknown (OMPI_COMM_WORLD_SIZE is not set)" +
          advice);
  EXPECT_EQ(
      refusal_in({{"PMI_SIZE", "2"}}),
      "started by Hydra (mpiexec of MPICH, Intel MPI or MVAPICH), but the number of this rank is unknown "
      "(PMI_RANK is not set)" +
          advice);
  EXPECT_EQ(
      refusal_in({{"PMI_RANK", "x"}, {"PMI_SIZE", "2"}}),
      "started by Hydra (mpiexec of MPICH, Intel MPI or MVAPICH), but the number of this rank is unknown: "
      "PMI_RANK=x" +
          advice);
  EXPECT_EQ(
      refusal_in({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}),
      "started by Hydra (mpiexec of MPICH, Intel MPI or MVAPICH), but the number of this rank is unknown: "
      "PMI_RANK=2 and PMI_SIZE=2" +
          advice);
  for (const Environment& unclear :
       {Environment{{"SLURM_PROCID", "1"}, {"SLURM_STEP_ID", "0"}}, Environment{{"ALPS_APP_PE", "1"}},
        Environment{{"PALS_RANKID", "0"}}, Environment{{"MV2_COMM_WORLD_RANK", "1"}},
        Environment{{"PMI_RANK", "1"}, {"PMI_SIZE", "99999999999"}},
        Environment{{"PMI_RANK", "-1"}, {"PMI_SIZE", "2"}}, Environment{{"FLUX_TASK_RANK", "0"}}}) {
    const std::string line = refusal_in(unclear);
    EXPECT_EQ(line.rfind("started by ", 0), 0u) << unclear.begin()->first << ": " << line;
    EXPECT_EQ(line.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace cropdl::launching
