"""The house rules, read off the source with ``ast``; each rule is also shown to catch what it forbids.

A rule takes a module and returns the places that break it. Exceptions are listed below, each with
its reason; an exception that is no longer needed fails too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = "iwb_batch"
ROOT = Path(__file__).resolve().parents[1]

# Packages that a short command must not load, and every import name that stands for them.
HEAVY = {
    *("openai", "httpx", "httpx2", "datasets", "pandas", "numpy", "pyarrow", "sqlite_utils", "matplotlib", "azure"),
    *("jsonschema", "jsonschema_rs", "starlette", "uvicorn", "toktok", "datasette", "jinja2", "playwright"),
}
# Modules that import heavy packages at their top; only function bodies and one another may import them.
LAZY_MODULES = {"emulator.app", "emulator.upstream"}

# Layers from the bottom; a module may import lower layers and its own package.
LAYERS = [
    ("", "errors", "model", "schemas"),
    ("core",),
    ("benchmarks", "emulator", "inputs", "providers", "report", "store"),
    ("workflow",),
    ("cli",),
    ("__main__",),
]
LAYER = {area: depth for depth, areas in enumerate(LAYERS) for area in areas}

MODULE_LINES, MODULE_CAP = 400, 450
FUNCTION_LINES, FUNCTION_CAP = 40, 60
# "path" or "path:function" -> why it may be longer (up to the cap).
LONGER: dict[str, str] = {}

# core/ is pure: these modules read a clock, the environment, a file or a random number.
IMPURE = {
    *("os", "time", "random", "secrets", "uuid", "tempfile", "socket", "sqlite3", "subprocess", "shutil", "threading"),
    "schemas",
}
IMPURE_CALLS = {
    *("open", "read_text", "read_bytes", "write_text", "write_bytes", "now", "today", "utcnow", "default_rng"),
}

SQL = re.compile(
    r"\s*(select\s.+\sfrom\s|insert\s+(or\s+\w+\s+)?into\s|update\s+\w+\s+set\s|delete\s+from\s|pragma\s+\w"
    r"|(create|drop|alter)\s+(table|view|index|trigger|unique|temp)\b)",
    re.IGNORECASE | re.DOTALL,
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One source file: dotted name below the package, path below the repository, text and tree."""

    name: str
    path: str
    text: str

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @property
    def area(self) -> str:
        return self.name.split(".", 1)[0]

    def at(self, node: ast.stmt | ast.expr | ast.excepthandler, what: str) -> str:
        return f"{self.path}:{node.lineno} {what}"


def dotted(path: Path) -> str:
    """``core/lines.py`` -> ``core.lines``; ``cli/__init__.py`` -> ``cli``; ``__init__.py`` -> ````."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def load() -> list[Module]:
    """Every source file of the package, sorted."""
    files = sorted((ROOT / PACKAGE).rglob("*.py"))
    return [
        Module(dotted(f.relative_to(ROOT / PACKAGE)), f.relative_to(ROOT).as_posix(), f.read_text(encoding="utf-8"))
        for f in files
    ]


MODULES = load()
NAMES = frozenset(module.name for module in MODULES)


def statements(body: list[ast.stmt], *, functions: bool) -> Iterator[ast.stmt]:
    """Statements in order of depth; those of functions only when asked; typing-only blocks never."""
    for node in body:
        yield node
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if typing_only or (isinstance(node, Function) and not functions):
            continue
        for name in ("body", "orelse", "finalbody"):
            yield from statements(getattr(node, name, []), functions=functions)
        for handler in getattr(node, "handlers", []) + getattr(node, "cases", []):
            yield from statements(handler.body, functions=functions)


def imported(module: Module, *, functions: bool) -> Iterator[tuple[ast.stmt, str]]:
    """(statement, dotted target) of each import; own modules without the package name, submodules resolved."""
    for node in statements(module.tree.body, functions=functions):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node, f"{'.' * node.level}{node.module}.{alias.name}") for alias in node.names)


def own(target: str) -> str | None:
    """The module of ours behind an import target, None when it is somebody else's."""
    head, _, rest = target.partition(".")
    if head != PACKAGE:
        return None
    while rest and rest not in NAMES:
        rest = rest.rpartition(".")[0]
    return rest


def names_called(module: Module) -> Iterator[tuple[ast.Call, str, bool]]:
    """(call, last name called, True for a method or attribute)."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                yield node, node.func.id, False
            elif isinstance(node.func, ast.Attribute):
                yield node, node.func.attr, True


# --- the rules ---------------------------------------------------------------------------------------


def import_direction(module: Module) -> Iterator[str]:
    """Cli -> workflow -> store, providers, benchmarks, inputs, report, emulator -> core -> model, errors."""
    for node, target in imported(module, functions=True):
        name = own(target)
        area = module.area if name is None else name.split(".", 1)[0]
        if target.startswith("."):
            yield module.at(node, "relative import")
        elif area != module.area and LAYER[area] >= max(LAYER[module.area], 1):
            yield module.at(node, f"{module.area or PACKAGE} imports {area}")


def pure_core(module: Module) -> Iterator[str]:
    """core/ opens no file, reads no clock and no environment, draws no random number by itself."""
    if module.area != "core":
        return
    for node, target in imported(module, functions=True):
        name = own(target) or target
        if name.split(".", 1)[0] in IMPURE:
            yield module.at(node, f"imports {name}")
    for call, called, _ in names_called(module):
        if called in IMPURE_CALLS:
            yield module.at(call, f"calls {called}")


def module_size(module: Module) -> Iterator[str]:
    """A module has at most 400 lines."""
    lines = module.text.count("\n")
    limit = MODULE_CAP if module.path in LONGER else MODULE_LINES
    if lines > limit:
        yield f"{module.path} has {lines} lines"


def function_lengths(module: Module) -> Iterator[tuple[Function, int]]:
    """Lines of each function from ``def`` to its end, the docstring left out."""
    for node in ast.walk(module.tree):
        if isinstance(node, Function):
            first = node.body[0]
            documented = ast.get_docstring(node, clean=False) is not None
            docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
            yield node, (node.end_lineno or 0) - node.lineno + 1 - docstring


def function_size(module: Module) -> Iterator[str]:
    """A function has at most 40 lines of code."""
    for node, lines in function_lengths(module):
        limit = FUNCTION_CAP if f"{module.path}:{node.name}" in LONGER else FUNCTION_LINES
        if lines > limit:
            yield module.at(node, f"{node.name} has {lines} lines")


def docstrings(module: Module) -> Iterator[str]:
    """Modules, and every public class, function and method, say what they are."""
    if module.text.strip() and not ast.get_docstring(module.tree):
        yield f"{module.path} module"

    def inside(body: list[ast.stmt]) -> Iterator[str]:
        for node in statements(body, functions=False):
            if not isinstance(node, Function | ast.ClassDef) or node.name.startswith("_"):
                continue
            decorators = {ast.unparse(d).rpartition(".")[2] for d in node.decorator_list}
            if not ast.get_docstring(node) and not decorators & {"overload", "setter", "override"}:
                yield module.at(node, node.name)

    yield from inside([s for s in module.tree.body if not (isinstance(s, ast.ClassDef) and s.name.startswith("_"))])


def is_broad(node: ast.expr | None) -> bool:
    """A bare except, Exception or BaseException, alone or in a tuple."""
    if isinstance(node, ast.Tuple):
        return any(is_broad(element) for element in node.elts)
    return node is None or (isinstance(node, ast.Name) and node.id in {"Exception", "BaseException"})


def broad_handlers(module: Module) -> Iterator[str]:
    """Every catch-all, also one dressed as ``suppress``."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ExceptHandler) and is_broad(node.type):
            yield module.at(node, "catch-all")
    for call, called, _ in names_called(module):
        if called == "suppress" and any(is_broad(argument) for argument in call.args):
            yield module.at(call, "suppress of everything")


def catch_all(module: Module) -> Iterator[str]:
    """Failures are named; only the CLI has one last handler."""
    if module.area != "cli":
        yield from broad_handlers(module)


def printing_and_leaving(module: Module) -> Iterator[str]:
    """Only the CLI prints, and only the CLI ends the process."""
    if module.area in {"cli", "__main__"}:
        return
    for call, called, attribute in names_called(module):
        whole = ast.unparse(call.func)
        if (called == "print" and not attribute) or whole in {"sys.exit", "os._exit", "exit", "quit", "SystemExit"}:
            yield module.at(call, whole)


def dangerous_calls(module: Module) -> Iterator[str]:
    """eval and exec run data; splitlines cuts JSON at U+2028."""
    for call, called, attribute in names_called(module):
        if called == "splitlines" or (called in {"eval", "exec"} and not attribute):
            yield module.at(call, called)


def opens_text(call: ast.Call, *, attribute: bool) -> bool:
    """True for an ``open`` in text mode; a method without a mode counts when it has no argument at all."""
    words = [node.value for node in [*call.args, *(k.value for k in call.keywords)] if isinstance(node, ast.Constant)]
    modes = [word for word in words if isinstance(word, str) and re.fullmatch(r"[rwax][+bt]*", word)]
    if modes:
        return not any("b" in mode for mode in modes)
    return not attribute or not (call.args or call.keywords)


def encodings(module: Module) -> Iterator[str]:
    """A file opened as text names its encoding."""
    for call, called, attribute in names_called(module):
        open_like = called == "open" and opens_text(call, attribute=attribute)
        reads = called == "read_text" and attribute and not call.args
        writes = called == "write_text" and len(call.args) < 2
        if (open_like or reads or writes) and not any(k.arg in {"encoding", None} for k in call.keywords):
            yield module.at(call, ast.unparse(call.func))


def heavy_imports(module: Module) -> Iterator[str]:
    """Heavy packages, and modules that load them, are imported inside functions."""
    if module.name in LAZY_MODULES:
        return
    for node, target in imported(module, functions=False):
        name = own(target)
        if (name is None and target.split(".", 1)[0] in HEAVY) or name in LAZY_MODULES:
            yield module.at(node, f"imports {target}")


def sql_text(module: Module) -> Iterator[str]:
    """SQL is written in store/ and nowhere else."""
    if module.area == "store":
        return
    tree = module.tree
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in documentation else None
        if isinstance(node, ast.Constant) and isinstance(text, str) and SQL.match(text):
            yield module.at(node, repr(text[:40]))


Rule = Callable[[Module], Iterator[str]]
RULES: list[Rule] = [
    *(import_direction, pure_core, module_size, function_size, docstrings, catch_all, printing_and_leaving),
    *(dangerous_calls, encodings, heavy_imports, sql_text),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.__name__))
def test_the_package_keeps(rule: Rule) -> None:
    assert [place for module in MODULES for place in rule(module)] == []


LONG_BODY = "\n".join(["def f() -> None:", '    """Doc."""', *["    x = 1"] * 41]) + "\n"

BROKEN: list[tuple[str, Rule, str, str]] = [
    ("store imports workflow", import_direction, "store.x", "from iwb_batch.workflow import clock"),
    ("siblings", import_direction, "inputs.x", "def f():\n    from iwb_batch.store import run"),
    ("core imports a sibling", import_direction, "core.x", "import iwb_batch.inputs"),
    ("relative import", import_direction, "core.x", "from . import lines"),
    ("model imports core", import_direction, "model", "from iwb_batch.core import lines"),
    ("core reads the clock", pure_core, "core.x", "import time"),
    ("core reads files through schemas", pure_core, "core.x", "from iwb_batch import schemas"),
    ("core opens a file", pure_core, "core.x", "def f(p):\n    return p.read_text(encoding='utf-8')"),
    ("core makes a generator", pure_core, "core.x", "def f(np):\n    return np.random.default_rng(1)"),
    ("long module", module_size, "store.x", "x = 1\n" * 401),
    ("long function", function_size, "store.x", LONG_BODY),
    ("module without docstring", docstrings, "store.x", "x = 1"),
    ("function without docstring", docstrings, "store.x", '"""Doc."""\ndef f(): ...'),
    ("method without docstring", docstrings, "store.x", '"""Doc."""\nclass A:\n    """Doc."""\n    def f(self): ...'),
    ("bare except", catch_all, "store.x", "try:\n    x = 1\nexcept:\n    x = 2"),
    ("except Exception", catch_all, "store.x", "try:\n    x = 1\nexcept (ValueError, Exception):\n    x = 2"),
    ("suppress Exception", catch_all, "store.x", "with suppress(Exception):\n    x = 1"),
    ("print", printing_and_leaving, "workflow.x", "print(1)"),
    ("sys.exit", printing_and_leaving, "workflow.x", "sys.exit(1)"),
    ("SystemExit", printing_and_leaving, "workflow.x", "raise SystemExit(1)"),
    ("splitlines", dangerous_calls, "store.x", "x = text.splitlines()"),
    ("eval", dangerous_calls, "store.x", "x = eval(text)"),
    ("open without encoding", encodings, "store.x", "open(path)"),
    ("open for writing without encoding", encodings, "store.x", "path.open('w', newline='')"),
    ("open by keyword mode without encoding", encodings, "store.x", "open(path, mode='a')"),
    ("Path.open without arguments", encodings, "store.x", "path.open()"),
    ("read_text without encoding", encodings, "store.x", "path.read_text()"),
    ("write_text without encoding", encodings, "store.x", "path.write_text(text)"),
    ("heavy import at the top", heavy_imports, "store.x", "import sqlite_utils.db"),
    (
        "heavy import in a try",
        heavy_imports,
        "store.x",
        "try:\n    from numpy import array\nexcept ImportError:\n    x = 1",
    ),
    ("SQL in the CLI", sql_text, "cli.x", "q = 'SELECT a\\n FROM item'"),
    ("SQL in an f-string", sql_text, "report.x", "q = f'insert into item values ({a})'"),
]


@pytest.mark.parametrize(("rule", "name", "text"), [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN])
def test_the_rule_catches(rule: Rule, name: str, text: str) -> None:
    assert list(rule(Module(name, "x.py", text)))


ALLOWED: list[tuple[str, Rule, str, str]] = [
    ("workflow imports a sibling", import_direction, "workflow.x", "from iwb_batch.store import run"),
    ("own package", import_direction, "core.x", "from iwb_batch.core import lines"),
    ("the version", import_direction, "providers.x", "from iwb_batch import __version__"),
    ("typing-only heavy import", heavy_imports, "store.x", "if TYPE_CHECKING:\n    import numpy as np"),
    ("heavy import in a function", heavy_imports, "store.x", "def f():\n    import numpy as np"),
    ("open as bytes", encodings, "store.x", "path.open('rb')\nopen(path, 'wb')"),
    ("own open function", encodings, "workflow.x", "store = open_store(path)\nrun = Store.open(path)"),
    ("open with encoding", encodings, "store.x", "path.open(encoding='utf-8')\nopen(path, 'w', encoding='utf-8')"),
    ("catch-all in the CLI", catch_all, "cli.x", "try:\n    x = 1\nexcept Exception:\n    x = 2"),
    ("SQL in a docstring", sql_text, "cli.x", '"""SELECT a FROM b"""'),
    ("English that begins like SQL", sql_text, "cli.x", "x = 'select the rows that count'\ny = 'update the run'"),
]


@pytest.mark.parametrize(("rule", "name", "text"), [a[1:] for a in ALLOWED], ids=[a[0] for a in ALLOWED])
def test_the_rule_allows(rule: Rule, name: str, text: str) -> None:
    assert list(rule(Module(name, "x.py", text))) == []


def test_every_module_has_a_layer() -> None:
    assert {module.area for module in MODULES} <= set(LAYER)


def test_the_cli_has_at_most_one_catch_all() -> None:
    assert len([place for module in MODULES if module.area == "cli" for place in broad_handlers(module)]) <= 1


def test_listed_exceptions_are_needed_and_have_a_reason() -> None:
    needed = {module.path for module in MODULES if module.text.count("\n") > MODULE_LINES}
    for module in MODULES:
        needed |= {f"{module.path}:{f.name}" for f, lines in function_lengths(module) if lines > FUNCTION_LINES}
    assert set(LONGER) <= needed
    assert all(len(reason.split()) >= 4 for reason in LONGER.values())


def test_lazy_modules_exist_and_load_something_heavy() -> None:
    heavy = {
        module.name
        for module in MODULES
        for _, target in imported(module, functions=False)
        if target.split(".", 1)[0] in HEAVY or own(target) in LAZY_MODULES
    }
    assert heavy >= LAZY_MODULES
