#!/usr/bin/env python3
"""How a CUDA program finds its functions under cropdl-run: by library names, by driver entry points, and in its own code, where nvcc links
the runtime statically by default (programs of tests/takeover)."""

import os
import re
import shutil
import subprocess
import sys

from command_scenarios import refused_here
from cuda_scenarios import LEFT_OUT
from restart_scenarios import wait_for_new_steps
from driver import (BUILD, Log, Place, TooLate, app, as_pattern, check_continued, check_whole, data_of, expect, collects_into, launcher, metadata_of,
                    native, read_proc, scenario_main, tail, take_checkpoint, tool)

PROGRAMS = os.path.join(BUILD, "tests", "takeover", "programs")
SHIMS = os.path.realpath(os.path.join(BUILD, "lib"))
STRIPPED = ("contains NVIDIA's CUDA runtime, as nvcc links it by default, without symbols, and no libcudart_static.a of its version is here "
            "(CUDA_HOME) by which its functions could be told: do not strip it, or link it with nvcc -cudart shared")
SCENARIOS = {}
scenario = collects_into(SCENARIOS)


def program(name):
    return os.path.join(PROGRAMS, name)


def run(place, command, options=("--software-gpu",), environment=None):
    """Runs a short program under cropdl-run. Returns (exit status, output)."""
    shutil.rmtree(place.store, ignore_errors=True)
    status, text, _ = place.ask([tool("cropdl-run"), "--interval", "0", "--dir", place.store, *options, "--", *command],
                                environment=dict({"CROPDL_SOFTWARE_GPU_QUIET": "1"}, **(environment or {})))
    return status, text.replace(place.root, "@")


# --- In the program's own code ------------------------------------------------------------------------------------

for _name, _command in (
        ("static_runtime", ["static"]),
        ("position_dependent", ["static_no_pie"]),
        ("shared_runtime", ["shared"]),
        ("library_opened_later", ["opens", "liblibrary.so"]),
        ("library_linked_with_the_program", ["linked"]),
):
    def _runs(command=tuple(_command)):
        with Place("found") as place:
            status, text = run(place, [program(word) for word in command])
            expect(status == 0 and ("error 0, 0 wrong" in text or "at load 0, run 0, x 7" in text), f"ended with {status}: {text}")
    SCENARIOS[f"cuda.found.{_name}"] = _runs


def goes_on(way, options=("--software-gpu=2",), late=None, arguments=(), devices=2, environment=None, visible=({}, {}, {}), again=((), ())):
    """Kills and restarts the program twice. `late`: a library with its own runtime that the program opens after the first restart.
    `visible`: extra environment variables of the start and of each restart. `again`: options of each restart."""
    with Place("goes_on") as place:
        arguments = [*arguments, "--steps", "120", "--pace", "20000", "--log", place.path("log")]
        if late is not None:
            arguments += ["--library", program("libgoes_on.so"), "--late", str(late)]
        job = place.start([tool("cropdl-run"), "--interval", "0", "--dir", place.store, *options, "--", program("goes_on_" + way), *arguments],
                          environment={**(environment or {}), **visible[0]})
        for step, more, said in ((3, visible[1], again[0]), (30, visible[2], again[1])):
            job.wait_for_step(step)
            _, _, bounds = take_checkpoint(place, job)
            before = Log(job.log)
            if step == 3 and "--begins" in arguments and before.last_step() >= int(arguments[arguments.index("--begins") + 1]) - 1:
                raise TooLate("the device was used before the checkpoint")
            job.kill_running()
            if not options:
                refused_here(place, [tool("cropdl-restart"), "--software-gpu", place.store], " was taken without --software-gpu, on CropDL software device",
                             "; restart it without that option: ")
            job = place.restart(alone=True, options=said, environment={**({"CROPDL_SOFTWARE_GPUS": str(devices)} if environment else {}), **more})
            wait_for_new_steps(job, bounds, 120)
            check_continued(before, Log(job.log), job.started, *bounds[job.log])
        job.finish()
        check_whole(Log(job.log))
        expect(f"on {devices} software devices" in job.output(), job.output())  # the number comes from the image


SCENARIOS["cuda.found.static_runtime_continues"] = lambda: goes_on("static")
SCENARIOS["cuda.found.static_runtime_continues_by_reference"] = lambda: goes_on("static", ["--software-gpu=2", "--by-reference"])
SCENARIOS["cuda.found.shared_runtime_continues"] = lambda: goes_on("shared")
SCENARIOS["cuda.found.library_opened_before_a_restart"] = lambda: goes_on("static", late=1)
SCENARIOS["cuda.found.library_opened_after_a_restart"] = lambda: goes_on("static", late=20)
SCENARIOS["cuda.found.library_opened_after_a_restart_beside_the_shared_runtime"] = lambda: goes_on("shared", late=20)

# The program sets CUDA_VISIBLE_DEVICES itself, after its constructors registered kernels. Tested with a launcher that sets the same value
# in every process, and with a shell that sets none.
SCENARIOS["cuda.found.program_sets_visible_devices"] = lambda: goes_on(
    "static", ["--software-gpu=3"], arguments=("--visible", "2,1", "--devices", "2"), devices=3, visible=({"CUDA_VISIBLE_DEVICES": "0,1,2"}, {"CUDA_VISIBLE_DEVICES": "0,1,2"}, {}))

# The program uses its first device long after its start. Neither a checkpoint nor a restart may initialise the driver earlier; the first
# restart runs where no device exists.
SCENARIOS["cuda.found.device_that_is_first_used_after_a_restart"] = lambda: goes_on(
    "static", ["--software-gpu=3"], arguments=("--begins", "20", "--visible", "2,1", "--devices", "2"), devices=3, visible=({}, {"CUDA_VISIBLE_DEVICES": "-1"}, {}))

# A restart may name the software devices again. Its number of them precedes CROPDL_SOFTWARE_GPUS.
SCENARIOS["cuda.found.software_gpu_named_again_at_a_restart"] = lambda: goes_on(
    "static", ["--software-gpu=3"], devices=3, visible=({}, {}, {"CROPDL_SOFTWARE_GPUS": "1"}), again=(("--software-gpu",), ("--software-gpu=3",)))

# The device's libraries are found by ld.so's search, as NVIDIA's are; only the first run has the search path.
for _way in ("static", "shared"):
    SCENARIOS[f"cuda.found.{_way}_runtime_over_the_libraries_of_ld_library_path"] = lambda way=_way: goes_on(
        way, [], 40, environment={"LD_LIBRARY_PATH": os.path.join(BUILD, "software-gpu"), "CROPDL_SOFTWARE_GPUS": "2"})


def stripped(place, name, how=("-s",)):
    copy = place.path("copy")
    subprocess.run(["strip", *how, "-o", copy, program(name)], check=True)
    return copy


@scenario("cuda.found.stripped_program")
def stripped_programs():
    """The programs contain the code of the toolkit's own libcudart_static.a."""
    with Place("stripped") as place:
        for name in ("static", "static_no_pie"):
            for how in (("-s",), ("-x",)):
                status, text = run(place, [stripped(place, name, how)])
                expect(status == 0 and "error 0, 0 wrong" in text, f"{name}, strip {how}: ended with {status}: {text}")
        status, text = run(place, [stripped(place, "goes_on_shared"), "--steps", "1"])
        expect(status == 0, f"with the shared runtime: ended with {status}: {text}")


@scenario("cuda.found.stripped_library")
def stripped_library():
    with Place("stripped") as place:
        status, text = run(place, [program("opens"), stripped(place, "liblibrary.so")])
        expect(status == 0 and text.count("at load 0, run 0, x 7") == 2, f"ended with {status}: {text}")


def of_another_build(place, name):
    """A stripped copy with one byte of the runtime's code changed, so that it matches no known toolkit."""
    symbols = subprocess.run(["nm", program(name)], check=True, stdout=subprocess.PIPE, text=True).stdout
    sections = subprocess.run(["readelf", "-SW", program(name)], check=True, stdout=subprocess.PIPE, text=True).stdout
    address = int(re.search(r"^([0-9a-f]+) . cudaMalloc$", symbols, re.M).group(1), 16)
    at, offset = (int(number, 16) for number in re.search(r" \.text +PROGBITS +([0-9a-f]+) ([0-9a-f]+) ", sections).groups())
    copy = stripped(place, name)
    with open(copy, "r+b") as file:
        file.seek(address - at + offset)
        file.write(b"\xcc")
    return copy


@scenario("cuda.found.stripped_program_of_another_build_is_refused")
def stripped_otherwise():
    with Place("stripped") as place:
        copy = of_another_build(place, "static")
        status, text = run(place, [copy])
        expect(status == 1 and text == f"cropdl-run: @/copy {STRIPPED}", f"ended with {status}: {text}")


@scenario("cuda.found.stripped_library_of_another_build_prints_a_line")
def stripped_library_otherwise():
    """Only a warning: the program may never call this library's runtime."""
    with Place("stripped") as place:
        copy = of_another_build(place, "libgoes_on.so")
        status, text = run(place, [program("names"), copy])
        expect(status == 0 and f"cropdl: @/copy {STRIPPED}" in text.splitlines(), f"ended with {status}: {text}")


@scenario("cuda.found.runtime_of_another_version_is_refused_on_software_devices")
def other_version():
    with Place("version") as place:
        copy = place.path("copy")
        subprocess.run(["objcopy", "--strip-symbol=cudaMemGetInfo", program("static"), copy], check=True)
        status, text = run(place, [copy])
        expect(status == 1 and re.fullmatch(as_pattern("cropdl-run: the CUDA runtime in @/copy is of another version (it has no "
                                                       "cudaMemGetInfo): build it with CUDA 13"), text), f"ended with {status}: {text}")


# --- By the libraries' names --------------------------------------------------------------------------------------

def files_of(text):
    """{name: file}, as printed by tests/takeover/names"""
    return dict(line.split(": ") for line in text.splitlines() if ": " in line and not line.startswith("cropdl"))


def is_shim(file):
    return os.path.dirname(os.path.realpath(file)) == SHIMS


def fake(folder, *names):
    """A folder of empty libraries, which stand for other versions."""
    os.makedirs(folder, exist_ok=True)
    for name in names:
        subprocess.run(["cc", "-shared", "-o", os.path.join(folder, name), f"-Wl,-soname,{name}", "-xc", "/dev/null"], check=True)


@scenario("cuda.found.shim_is_found_by_every_library_name")
def every_name():
    with Place("names") as place:
        names = ["libcudart.so.13", "libcudart.so", "libcuda.so.1", "libcuda.so", "/nowhere/libcudart.so.13", "/nowhere/libcudart.so.13.0.96",
                 "/nowhere/libcuda.so.580.65.06", "./libcudart.so.13"]
        status, text = run(place, [program("names"), *names])
        found = files_of(text)
        expect(status == 0 and all(is_shim(found[name]) for name in names), text)


@scenario("cuda.found.library_of_another_version_is_not_replaced")
def another_version():
    with Place("names") as place:
        fake(place.path("old"), "libcudart.so.12", "libcudart.so.130", "libcublas.so.12", "libcuda.so.1")
        os.symlink("libcudart.so.12", place.path("old/libcudart.so"))
        there = {"LD_LIBRARY_PATH": place.path("old")}
        for names, ours in ((["libcudart.so.12"], []), (["libcudart.so.130"], []), (["libcudart.so"], []),
                            # after a foreign library, the driver beside it is used too; CropDL's driver stays if it was opened first
                            (["libcublas.so.12", "libcuda.so.1"], []), (["libcuda.so.1", "libcublas.so.12"], ["libcuda.so.1"])):
            status, text = run(place, [program("names"), *names], environment=there)
            found = files_of(text)
            expect(status == 0 and [name for name in names if is_shim(found[name])] == ours, text)


@scenario("cuda.found.missing_driver_stays_missing")
def no_driver():
    """Without software devices, a program finds libcuda.so.1 exactly if the machine has one."""
    with Place("names") as place:
        native = files_of(subprocess.run([program("names"), "libcuda.so.1"], check=True, stdout=subprocess.PIPE, text=True).stdout)
        status, text = run(place, [program("names"), "libcuda.so.1"], options=())
        expect(status == 0 and (files_of(text)["libcuda.so.1"] == "none") == (native["libcuda.so.1"] == "none"), text)
        fake(place.path("driver"), "libcuda.so.1")
        status, text = run(place, [program("names"), "libcuda.so.1"], options=(), environment={"LD_LIBRARY_PATH": place.path("driver")})
        expect(status == 0 and is_shim(files_of(text)["libcuda.so.1"]), text)


# --- Programs without CUDA ----------------------------------------------------------------------------------------

CUDAS = re.compile(r"/software-gpu/|/lib(cuda|cudart|nccl|cublas|cublasLt|curand)\.so|/libcropdl-software-gpu")


def expect_none_of_cuda(job):
    maps = read_proc(job.ranks()[0], "maps").decode()
    expect("/plain/plain" in maps, f"not the program's: {maps}")
    expect(not CUDAS.search(maps), f"mapped: {[line for line in maps.splitlines() if CUDAS.search(line)]}")


@scenario("cuda.found.program_without_cuda_loads_nothing_of_it")
def without_cuda():
    """Also with --software-gpu, before a checkpoint, after one and after a restart. Its image is as without the option."""
    images = []
    for options in ((), ("--software-gpu=2",)):
        with Place("without") as place:
            arguments = ("--steps", "60", "--pace", "20000")
            reference = native(place, "plain/plain", arguments)
            job = place.run("plain/plain", arguments, options=options)
            job.wait_for_step(3)
            expect_none_of_cuda(job)
            version, _, bounds = take_checkpoint(place, job)
            expect_none_of_cuda(job)
            job.kill_running()
            before, image = Log(job.log), place.version_path(version, "rank-0.img")
            metadata = metadata_of(image)
            job = place.restart()
            wait_for_new_steps(job, bounds, 60)
            expect_none_of_cuda(job)
            job.finish()
            check_continued(before, Log(job.log), job.started, *bounds[job.log])
            check_whole(Log(job.log))
            expect(Log(job.log).digest == reference[0].digest, "DIFFERENT")
            expect(metadata["libraries"] == [], f"it has libraries: {metadata['libraries']}")
            expect(not data_of(image, 1) and not data_of(image, 2), "it has memory of a device")
            images.append((sorted(metadata), sorted((region["end"] - region["begin"], region.get("file", {}).get("path", ""), region["flags"])
                                                    for region in metadata["memory"]["regions"])))
    expect(images[0] == images[1], f"the images differ: {images}")


# --- The options ----------------------------------------------------------------------------------------------------

@scenario("cuda.found.number_of_devices_reaches_only_the_lower_half")
def devices():
    with Place("devices") as place:
        command = [program("goes_on_static"), "--steps", "1"]
        for options, said, wanted in ((["--software-gpu=3"], {}, 3), (["--software-gpu"], {}, 1),
                                      (["--software-gpu"], {"CROPDL_SOFTWARE_GPUS": "2"}, 2),
                                      (["--software-gpu=3"], {"CROPDL_SOFTWARE_GPUS": "2"}, 3)):
            environment = dict({"CROPDL_SOFTWARE_GPU_QUIET": "0"}, **said)
            status, text = run(place, command, options, environment)
            expect(status == 0 and f"on {wanted} software device" in text and text.count("software device") == 1, f"{options}, {said}: {text}")
            status, text = run(place, [program("names")], options, environment)
            seen = dict(line.split("=") for line in text.splitlines() if line.startswith("CROPDL_SOFTWARE_GPU"))
            seen.pop("CROPDL_SOFTWARE_GPU_FRESH")  # set by the tests themselves
            expect(status == 0 and seen == environment, f"{options}, {said}: the program sees {seen}")


if "nccl_mpi" not in LEFT_OUT:
    @scenario("cuda.found.options_apply_to_programs_started_by_a_shell")
    def shell():
        with Place("shell") as place:
            job = place.start(launcher("openmpi", 2) + [tool("cropdl-run"), "--interval", "0", "--dir", place.store, "--software-gpu=2",
                                                        "--software-nccl", "sh", "-c", f"exec {app('cuda/static/nccl_mpi.openmpi')}"],
                              environment={"NCCL_DEBUG": "VERSION"})
            job.finish()
            expect(re.search(r"^ok [0-9a-f]+$", job.output(), re.M), job.output())
            for words in ("on 2 software devices", "(CropDL's, over any driver)"):  # by each rank
                expect(job.output().count(words) == 2, job.output())


@scenario("cuda.found.wrong_number_of_devices_is_refused")
def wrong_number():
    with Place("devices") as place:
        for word in ("0", "17", "x", "-1", "1000000"):
            status, text = run(place, [program("names")], [f"--software-gpu={word}"])
            expect(status == 2 and text == f"cropdl-run: --software-gpu: `{word}` is not a number of devices from 1 to 16 (see cropdl-run --help)",
                   tail(text))


if __name__ == "__main__":
    sys.exit(scenario_main(SCENARIOS, at_random=True, quick=("cuda.found.static_runtime",)))
