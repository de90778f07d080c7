"""The compiled part: every C file below csrc/, against the system's libuv. All else is in pyproject.toml."""

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import NoReturn

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

LIBUV_MIN = (1, 42)

INSTALL_LIBUV = """\
  Debian, Ubuntu:  apt-get install libuv1-dev pkg-config
  Fedora, RHEL:    dnf install libuv-devel pkgconf-pkg-config
  Alpine:          apk add libuv-dev pkgconf
  macOS:           brew install libuv pkg-config
  conda:           conda install -c conda-forge libuv pkg-config
or name its flags in LIBUV_CFLAGS and LIBUV_LIBS."""

# uv_version_string is declared here again so that a header without it still tells its version.
PROBE = """\
#include <stdio.h>
#include <uv.h>
const char *uv_version_string(void);
int main(void) {
  printf("%d.%d.%d %s\\n", UV_VERSION_MAJOR, UV_VERSION_MINOR, UV_VERSION_PATCH, uv_version_string());
  return 0;
}
"""


def fail(message: str) -> NoReturn:
    """End the build with `message` as its last words; of all exceptions only SystemExit brings no traceback."""
    raise SystemExit(f"error: {message}")


def missing_libuv(reason: str) -> NoReturn:
    needed = ".".join(map(str, LIBUV_MIN))
    fail(f"fanwidth needs libuv >= {needed} and its headers: {reason}. Install them with\n{INSTALL_LIBUV}")


def pkg_config(option: str) -> str:
    """What pkg-config answers for libuv; a miss ends the build."""
    program = os.environ.get("PKG_CONFIG") or "pkg-config"
    try:
        answer = subprocess.run([program, option, "libuv"], capture_output=True, text=True)
    except OSError:
        missing_libuv(f"cannot run {program} to find it")
    if answer.returncode != 0:
        missing_libuv(f"{program} does not know libuv")
    return answer.stdout.strip()


def libuv_flags() -> tuple[list[str], list[str]]:
    """Compiler and linker flags: LIBUV_CFLAGS and LIBUV_LIBS where set, else what pkg-config says."""
    cflags = os.environ.get("LIBUV_CFLAGS")
    libs = os.environ.get("LIBUV_LIBS")
    return (
        shlex.split(pkg_config("--cflags") if cflags is None else cflags),
        shlex.split(pkg_config("--libs") if libs is None else libs),
    )


def version_tuple(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


class BuildCore(build_ext):
    """build_ext that finds libuv first, and only when something is compiled: an sdist needs none."""

    def run(self) -> None:
        if sys.platform == "win32":
            fail("fanwidth does not build on Windows: install it inside WSL (wsl --install) by the steps for Linux.")
        super().run()

    def build_extensions(self) -> None:
        if not Path(sysconfig.get_path("include"), "Python.h").exists():
            fail(f"no Python.h for {sys.executable}; on Debian and Ubuntu: apt-get install python3-dev")
        cflags, libs = libuv_flags()
        self.check_libuv(cflags, libs)
        for extension in self.extensions:
            extension.extra_compile_args += cflags
            extension.extra_link_args += libs
        super().build_extensions()

    def check_libuv(self, cflags: list[str], libs: list[str]) -> None:
        """Stop unless a program built as the extension will be runs, and header and library are of one version.

        An older uv.h found first (CPATH, a stray -I) would compile and then use structs of the wrong size.
        """
        compiler = list(self.compiler.compiler)
        include = [f"-I{path}" for path in self.compiler.include_dirs]
        with tempfile.TemporaryDirectory() as folder:
            source, program = Path(folder, "probe.c"), Path(folder, "probe")
            source.write_text(PROBE)
            # The same order as the extension's own: its include folders before the flags of libuv.
            command = [*compiler, *include, *cflags, str(source), "-o", str(program), *libs]
            try:
                built = subprocess.run(command, capture_output=True, text=True)
            except OSError:
                fail(f"fanwidth needs a C compiler: cannot run {compiler[0]} (apt-get install gcc; or name one in CC).")
            if built.returncode != 0:
                missing_libuv(f"a first program with it does not compile ({first_error(built.stderr)})")
            try:
                answer = subprocess.run([str(program)], capture_output=True, text=True)
            except OSError:
                return  # a cross build: the program is not for this machine
        if answer.returncode != 0:
            missing_libuv(f"a first program with it does not start ({first_error(answer.stderr)})")
        header, library = answer.stdout.split()
        if version_tuple(header)[:2] != version_tuple(library)[:2]:
            fail(
                f"the libuv header found first is version {header}, the library is version {library}: "
                "remove the stray uv.h (see CPATH, C_INCLUDE_PATH, CFLAGS, LIBUV_CFLAGS) or point both at one libuv."
            )
        if version_tuple(header) < LIBUV_MIN:
            missing_libuv(f"found version {header}")
        print(f"libuv {library}")


def first_error(stderr: str) -> str:
    """The line of a compiler's or loader's output that says most, without the names of temporary files."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    told = (line for line in lines if "error:" in line or "undefined reference" in line or "cannot find" in line)
    line = next(told, lines[-1] if lines else "no output")
    return re.sub(r"^.*?probe[^\s:]*:[^\s]*\s+", "", line)


compile_args = ["-std=gnu11", "-O2", "-fvisibility=hidden", "-Wall", "-Wextra", "-pthread"]
if os.environ.get("FANWIDTH_WERROR") == "1":  # for CI: a user's newer compiler must not fail over a new warning
    compile_args.append("-Werror")

# Only the init function is exported, even when libuv is linked statically.
if sys.platform == "darwin":
    link_args = ["-Wl,-exported_symbol,_PyInit__core"]
else:
    link_args = ["-pthread", "-Wl,--exclude-libs,ALL"]

root = Path(__file__).parent

setup(
    cmdclass={"build_ext": BuildCore},
    ext_modules=[
        Extension(
            "fanwidth._core",
            sources=sorted(str(path.relative_to(root)) for path in root.glob("csrc/**/*.c")),
            depends=sorted(str(path.relative_to(root)) for path in root.glob("csrc/**/*.h")),
            include_dirs=["csrc"],
            extra_compile_args=compile_args,
            extra_link_args=link_args,
        )
    ],
)
