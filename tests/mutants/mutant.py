"""One fault: a line of a function, and what stands in its place.

A mutant is found by its function and the text of its line, so that it outlives moves of both. It is
put into the running process and into the file: tests also start gateways, engines and workers.
"""

import ast
import importlib
import inspect
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType

ROOT = Path(__file__).parents[2]
PACKAGES = ("core/toolgate_core", "backend/toolgate_backend", "proxy/toolgate_proxy")
COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


class Gone(LookupError):
    """The function, or its line, is no longer in the product."""


@dataclass(frozen=True)
class Mutant:
    module: str
    """Dotted name."""
    function: str
    """Qualified name of a function or method that is not nested."""
    old: str
    """The line, without indentation, that the function has once."""
    new: str
    promise: str = ""
    """What it breaks, if it was chosen for that: owner, key, limit, mask, cut, budget, seal."""

    @property
    def path(self):
        package, *rest = self.module.split(".")
        folder = next(each for each in PACKAGES if each.endswith(f"/{package}"))
        path = ROOT.joinpath(folder, *rest)
        return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")

    def source(self):
        """The text of the file with the fault in it. Raises Gone."""
        at = self.line() - 1
        lines = self.path.read_text().splitlines(keepends=True)
        lines[at] = lines[at].replace(self.old, self.new)
        return "".join(lines)

    def is_there(self):
        try:
            return self.line() > 0
        except Gone:
            return False

    def line(self):
        """The number of the line in its file, from 1. Raises Gone."""
        if not self.path.exists():
            raise Gone(f"There is no module {self.module}.")
        text = self.path.read_text()
        node = functions(ast.parse(text)).get(self.function)
        if node is None:
            raise Gone(f"{self.module} has no function {self.function}.")
        lines = text.splitlines()
        inside = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        found = [at for at in inside if lines[at - 1].strip() == self.old]
        if len(found) != 1:
            raise Gone(f"{self.module}:{self.function} has {len(found)} lines `{self.old}`.")
        return found[0]

    def install(self):
        """Put the fault into the function that this process has imported."""
        path, source = self.path, self.source()
        code = _code(compile(source, str(path), "exec"), self.function)
        function = importlib.import_module(self.module)
        for part in self.function.split("."):
            function = inspect.getattr_static(function, part)
        function = getattr(function, "fget", None) or getattr(function, "func", function)
        function = inspect.unwrap(getattr(function, "__func__", function))
        assert isinstance(function, FunctionType), self
        function.__code__ = code


def drawn(count, seed, kept=()):
    """The kept mutants, and others of other functions, with the same chance for each line."""
    possible = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts[1:])
            for name, change in _possible(path.read_text()):
                possible.setdefault((module.removesuffix(".__init__"), name), []).append(change)
    chance = random.Random(seed)
    functions, found = sorted(possible), list[Mutant](kept)
    taken = {(each.module, each.function) for each in kept}
    weights = [0 if each in taken else len(possible[each]) for each in functions]
    while len(found) < count:
        [at] = chance.choices(range(len(functions)), weights)
        weights[at] = 0
        line, node, new = chance.choice(possible[functions[at]])
        found.append(Mutant(*functions[at], line.strip(), _replaced(line, node, new)))
    return sorted(found, key=lambda each: (each.module, each.function))


def _possible(text):
    """The changes that the functions of a file may have, with the function's name."""
    lines = text.splitlines()
    for name, function in functions(ast.parse(text)).items():
        own = Counter(line.strip() for line in lines[function.lineno - 1 : function.end_lineno])
        for node in (each for part in function.body for each in ast.walk(part)):
            for new in _changes(node):
                assert isinstance(node, ast.expr | ast.stmt)
                line = lines[node.lineno - 1]
                if node.lineno == node.end_lineno and own[line.strip()] == 1:
                    yield name, (line, node, new)


def _replaced(line, node, new):
    text = new if isinstance(new, str) else f"({ast.unparse(new)})"
    data = line.encode()  # whose offsets the syntax tree has
    return (data[: node.col_offset] + text.encode() + data[node.end_col_offset :]).decode().strip()


def _changes(node):
    """What may stand in the place of a node."""
    match node:
        case ast.Compare(ops=[operator]):
            yield ast.Compare(node.left, [COMPARISONS[type(operator)]()], node.comparators)
        case ast.BoolOp(op=operator):
            other = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield ast.BoolOp(other, node.values)
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.Raise():
            yield "pass"
        case ast.Return(value=ast.Constant(value=bool(value))):
            yield f"return {not value}"
        case ast.Return(value=ast.expr() as returned) if not isinstance(returned, ast.Constant):
            yield "return None"
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            yield str(number + 1)
        case ast.IfExp():
            yield ast.IfExp(node.test, node.orelse, node.body)


def functions(module):
    """The functions of a module and the methods of its classes, by qualified name."""
    found = {}
    waiting = [("", module)]
    while waiting:
        prefix, node = waiting.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                waiting.append((f"{prefix}{child.name}.", child))
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                found[prefix + child.name] = child
    return found


def _code(code, name):
    waiting = [code]
    while waiting:
        each = waiting.pop()
        if each.co_qualname == name:
            return each
        waiting += [const for const in each.co_consts if isinstance(const, CodeType)]
    raise Gone(f"There is no code of {name}.")
