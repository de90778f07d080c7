"""Several interpreters in one process: the compiled part keeps all of its state in its module."""

import sys

import pytest

COMMON = """
import fanwidth as fw
import sys

def work():
    assert fw.bounded(fw.delay(0.001), 3, limit=2).counts.ok == 3
    assert fw.bounded(fw.delay(), iter([0.001] * 3), limit=2).counts.ok == 3
    assert fw.bounded(fw.cpu(0.001), 3, limit=2).counts.ok == 3
    assert fw.bounded(fw.delay(fw.exponential(1)), 1000, limit=7, clock="virtual").latency.n == 1000
    try:
        fw.bounded(fw.delay(), ["bad"], limit=1)
    except fw.RunFailed as error:
        assert error.run.counts.failed == 1
"""

# Isolated interpreters with a GIL of their own came with 3.12, under names that changed until 3.14.
INTERPRETERS = """
try:
    import _interpreters as interpreters
    def create(): return interpreters.create("isolated" if sys.version_info >= (3, 13) else None)
    def run(interpreter, code):
        failed = interpreters.exec(interpreter, code)
        assert failed is None, failed
except ImportError:
    import _xxsubinterpreters as interpreters
    def create(): return interpreters.create()
    def run(interpreter, code): interpreters.run_string(interpreter, code)
"""


def has_interpreters() -> bool:
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            __import__(name)
        except ImportError:
            continue
        return True
    return False


needs_interpreters = pytest.mark.skipif(not has_interpreters(), reason="this Python has no subinterpreters")


@needs_interpreters
def test_one_interpreter_after_another(run_child):  # S082
    code = f"""{COMMON}
{INTERPRETERS}
text = {COMMON!r} + "work()\\n"
work()
for _ in range(10):
    interpreter = create()
    run(interpreter, text)
    interpreters.destroy(interpreter)
    work()
print("ok")
"""
    done = run_child("import warnings; warnings.simplefilter('ignore')\n" + code, timeout=50)
    assert (done.returncode, done.stdout.strip()) == (0, "ok"), done.stderr


@needs_interpreters
def test_several_interpreters_at_once(run_child):
    code = f"""{COMMON}
{INTERPRETERS}
import threading
text = {COMMON!r} + "for _ in range(5): work()\\n"
done = []

def one(interpreter):
    run(interpreter, text)
    done.append(interpreter)

made = [create() for _ in range(4)]
threads = [threading.Thread(target=one, args=(interpreter,)) for interpreter in made]
for thread in threads:
    thread.start()
work()
for thread in threads:
    thread.join()
for interpreter in made:
    interpreters.destroy(interpreter)
work()
print(len(done))
"""
    done = run_child("import warnings; warnings.simplefilter('ignore')\n" + code, timeout=50)
    assert (done.returncode, done.stdout.strip()) == (0, "4"), done.stderr


def test_the_module_can_be_loaded_twice(run_child):  # BI-symbols: two copies in one process
    code = f"""{COMMON}
import importlib.util
work()
spec = importlib.util.find_spec("fanwidth._core")
first = sys.modules.pop("fanwidth._core")
second = importlib.util.module_from_spec(spec)
spec.loader.exec_module(second)
assert second is not first and second.CancelToken is not first.CancelToken and second.actions == first.actions
token = second.CancelToken()
try:
    fw.bounded(fw.delay(0.001), 3, limit=1, cancel=token)
except TypeError as error:
    assert "cancel must be" in str(error)
else:
    raise SystemExit("a token of another module was taken")
del second, token
work()
print("ok")
"""
    done = run_child(code)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "ok", "")


@pytest.mark.skipif(not hasattr(sys, "_is_gil_enabled"), reason="needs Python 3.13 or later")
def test_a_free_threaded_build_says_what_it_does_with_the_gil(run_child):  # S083
    done = run_child("import sys, fanwidth; print(sys._is_gil_enabled())")
    assert done.returncode == 0 and done.stdout.strip() in ("True", "False") and done.stderr == ""
