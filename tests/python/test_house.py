"""The house itself: the command line, the refusals, what an installation holds, and the wheel."""

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import textwrap
import zipfile
from collections import namedtuple
from pathlib import Path

import pytest

import firesteel
from firesteel import __main__ as command_line
from firesteel import _platform

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/release"
FULL = os.environ.get("FIRESTEEL_FULL") == "1"
CMAKE_PACKAGE = {
    "FiresteelConfig.cmake",
    "FiresteelConfigVersion.cmake",
    "FiresteelTargets.cmake",
    "FiresteelTargets-release.cmake",
    "FiresteelTorch.cmake",
}


def run(*command, **options):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


# --- the command line


def test_help_names_every_option(capsys):
    with pytest.raises(SystemExit) as ended:
        command_line.main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "--version" in text
    assert "--cmake-dir" in text


def test_no_arguments_show_the_help(capsys):
    assert command_line.main([]) == 0
    assert "usage: python -m firesteel" in capsys.readouterr().out


def test_version_names_firesteel_torch_and_python():
    text = run(sys.executable, "-m", "firesteel", "--version")
    torch = importlib.metadata.version("torch")
    assert text.startswith(f"firesteel {firesteel.__version__} (torch {torch.split('+')[0]}")
    assert platform.python_version() in text


def test_cmake_dir_holds_the_package(capsys):
    assert command_line.main(["--cmake-dir"]) == 0
    directory = Path(capsys.readouterr().out.strip())
    assert (directory / "FiresteelConfig.cmake").is_file()
    assert f'"{firesteel.__version__}"' in (directory / "FiresteelConfigVersion.cmake").read_text()


def test_unknown_option_is_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        command_line.main(["--frobnicate"])
    assert ended.value.code == 2
    assert "--frobnicate" in capsys.readouterr().err


# --- the refusals

Version = namedtuple("Version", "major minor micro releaselevel serial")


def refusal():
    with pytest.raises(_platform.UnsupportedPlatformError) as raised:
        _platform.check()
    text = str(raised.value)
    for part in ("found: ", f"supported: {_platform.SUPPORTED}", "try: "):
        assert part in text
    return text


def test_this_machine_is_supported():
    _platform.check()


def test_refusal_is_an_import_error():
    assert issubclass(_platform.UnsupportedPlatformError, ImportError)
    assert firesteel.UnsupportedPlatformError is _platform.UnsupportedPlatformError


@pytest.mark.parametrize(("system", "machine"), [("Darwin", "arm64"), ("Windows", "AMD64"), ("Linux", "aarch64")])
def test_other_machines_are_refused(monkeypatch, system, machine):
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert f"found: {system} on {machine}" in refusal()


@pytest.mark.parametrize("minor", [8, 10, 13, 14])
def test_other_pythons_are_refused(monkeypatch, minor):
    monkeypatch.setattr(sys, "version_info", Version(3, minor, 1, "final", 0))
    monkeypatch.setattr(platform, "python_version", lambda: f"3.{minor}.1")
    assert f"found: CPython 3.{minor}.1" in refusal()


def test_other_implementations_are_refused(monkeypatch):
    monkeypatch.setattr(platform, "python_implementation", lambda: "PyPy")
    assert "found: PyPy" in refusal()


@pytest.mark.parametrize("version", ["1.13.1", "2.12.0", "2.14.0a0+git1234", "3.0", "unknown"])
def test_other_torches_are_refused(monkeypatch, version):
    monkeypatch.setattr(importlib.metadata, "version", lambda package: version)
    text = refusal()
    assert f"found: torch {version}" in text
    assert "try: pip install torch==2.13.0" in text


@pytest.mark.parametrize("version", ["2.13.0", "2.13.1+cpu", "2.11.0+cu128"])
def test_supported_torches_pass(monkeypatch, version):
    monkeypatch.setattr(importlib.metadata, "version", lambda package: version)
    _platform.check()


def test_missing_torch_is_refused(monkeypatch):
    def missing(package):
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert "found: no torch" in refusal()


def test_import_refuses_before_native_code_is_loaded():
    program = """
        import importlib.metadata, sys
        importlib.metadata.version = lambda package: "2.9.0"
        try:
            import firesteel
        except ImportError as error:
            print(type(error).__name__, "torch" in sys.modules, "firesteel._C" in sys.modules)
    """
    assert run(sys.executable, "-c", textwrap.dedent(program)).split() == ["UnsupportedPlatformError", "False", "False"]


def test_a_module_that_does_not_load_is_explained():
    with pytest.raises(_platform.UnsupportedPlatformError, match="make build"):
        _platform.refuse_extension(ModuleNotFoundError("No module named 'firesteel._C'"))
    with pytest.raises(_platform.UnsupportedPlatformError, match="undefined symbol: _ZN2at"):
        _platform.refuse_extension(ImportError("undefined symbol: _ZN2at"))


# --- the version, and the texts


def test_version_is_written_once():
    version = firesteel.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    for name in ("CMakeLists.txt", "pyproject.toml", "src/CMakeLists.txt"):
        assert f'"{version}"' not in (ROOT / name).read_text(), name


def test_pins_agree():
    pins = {}
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        for line in path.read_text().splitlines():
            if line and not line.startswith(("#", "-")):
                name, version = line.split("==")
                assert pins.setdefault(name, version) == version
    build_requires = re.search(r"^requires = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
    for name, version in re.findall(r'"([\w-]+)==([\w.]+)"', build_requires):
        assert pins[name] == version
    dependencies = (ROOT / "docs/dependencies.md").read_text()
    for name in ("nanobind", "scikit-build-core", "pytest", "hypothesis", "ruff", "rich", "numpy", "torch", "scipy"):
        assert pins[name] in dependencies, name


# --- what an installation holds


def test_install_prefix_is_complete(tmp_path):
    run("cmake", "--install", BUILD, "--prefix", tmp_path)
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    headers = {f"include/{path.relative_to(ROOT / 'include')}" for path in (ROOT / "include").rglob("*.h")}
    assert headers
    assert files == headers | {"lib/libfiresteel.so"} | {f"lib/cmake/Firesteel/{name}" for name in CMAKE_PACKAGE}
    for name in CMAKE_PACKAGE:  # a prefix may be moved
        assert str(tmp_path) not in (tmp_path / "lib/cmake/Firesteel" / name).read_text()


def test_library_knows_no_python():
    needed = run("readelf", "-d", BUILD / "lib/libfiresteel.so")
    assert "python" not in "\n".join(line for line in needed.splitlines() if "NEEDED" in line)


PROJECT = """
    cmake_minimum_required(VERSION 3.25)
    project(Consumer LANGUAGES CXX)
    find_package(Firesteel 0.1 REQUIRED)
    add_executable(consumer main.cpp)
    target_link_libraries(consumer PRIVATE Firesteel::firesteel)
"""


def write_consumer(folder, main):
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(textwrap.dedent(PROJECT))
    (folder / "main.cpp").write_text(textwrap.dedent(main))
    return folder


def test_find_package_from_a_prefix(tmp_path):
    """Configures only: quick, and enough to see that the package and torch are found."""
    prefix = tmp_path / "prefix"
    run("cmake", "--install", BUILD, "--prefix", prefix)
    project = write_consumer(tmp_path / "project", "int main() {}")
    run("cmake", "-G", "Ninja", "-S", project, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DPython_EXECUTABLE={sys.executable}")  # fmt: skip


def test_another_torch_is_refused_by_find_package(tmp_path):
    torch = tmp_path / "torch"
    for name in ("share/cmake/Torch/TorchConfig.cmake", "lib/libtorch_cpu.so", "include/torch/version.h"):
        (torch / name).parent.mkdir(parents=True, exist_ok=True)
        (torch / name).touch()
    numbers = {"MAJOR": 2, "MINOR": 9, "PATCH": 1}
    defines = "".join(f"#define TORCH_VERSION_{part} {number}\n" for part, number in numbers.items())
    (torch / "include/torch/version.h").write_text(defines)
    project = write_consumer(tmp_path / "project", "int main() {}")
    result = subprocess.run(
        ["cmake", "-G", "Ninja", "-S", project, "-B", tmp_path / "build",
         f"-DFiresteel_DIR={command_line.cmake_dir()}", f"-DCMAKE_PREFIX_PATH={torch}"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode != 0
    assert "found torch 2.9.1" in re.sub(r"\s+", " ", result.stderr)


def build_example(folder, *options):
    """Builds examples/cmake_project as a user would, and runs its programs."""
    run("cmake", "-G", "Ninja", "-S", ROOT / "examples/cmake_project", "-B", folder, *options)
    run("cmake", "--build", folder)
    run("ctest", "--test-dir", folder, "--output-on-failure")


@pytest.mark.skipif(not FULL, reason="builds C++ programs: only with FIRESTEEL_FULL=1")
def test_example_builds_from_a_prefix(tmp_path):
    prefix = tmp_path / "prefix"
    run("cmake", "--install", BUILD, "--prefix", prefix)
    build_example(tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}", f"-DPython_EXECUTABLE={sys.executable}")


COMPILE_SOMETHING = """
    import firesteel, torch
    compiled = firesteel.compile(lambda x: (x.sin() * 2).sum(), fullgraph=True)
    x = torch.ones(3, requires_grad=True)
    compiled(x).backward()
    assert torch.allclose(x.grad, 2 * torch.ones(3).cos())
    assert firesteel.trace(torch.sin, torch.ones(2))(torch.zeros(2)).sum().item() == 0
    print(firesteel.__file__)
"""


@pytest.mark.skipif(not FULL, reason="builds a wheel: only with FIRESTEEL_FULL=1")
def test_wheel_runs_elsewhere_and_serves_cmake(tmp_path):
    """As a user makes one: built in isolation, installed into a fresh environment beside a torch of its own."""
    source = tmp_path / "source"
    unwanted = shutil.ignore_patterns(".git", ".venv", "build", "dist", "*.so")
    shutil.copytree(ROOT, source, symlinks=True, ignore=unwanted)
    run(sys.executable, "-m", "pip", "wheel", source, "--no-deps", "--wheel-dir", tmp_path)
    (wheel,) = tmp_path.glob("firesteel-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"firesteel/lib/cmake/Firesteel/{name}" for name in CMAKE_PACKAGE} <= names
    assert {"firesteel/__init__.py", "firesteel/lib/libfiresteel.so"} <= names
    assert any(re.fullmatch(r"firesteel/_C\..*\.so", name) for name in names)
    assert any(name.endswith("licenses/THIRD_PARTY_NOTICES.md") for name in names)

    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    torch = importlib.metadata.version("torch").split("+")[0]
    run(python, "-m", "pip", "install", f"torch=={torch}", wheel)
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    place = run(python, "-c", textwrap.dedent(COMPILE_SOMETHING), cwd=tmp_path).strip()
    assert place == str(site / "firesteel/__init__.py")
    directory = run(python, "-m", "firesteel", "--cmake-dir", cwd=tmp_path).strip()
    assert directory == str(site / "firesteel/lib/cmake/Firesteel")
    build_example(tmp_path / "build", f"-DFiresteel_DIR={directory}", f"-DPython_EXECUTABLE={python}")
