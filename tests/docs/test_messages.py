"""Compare all error messages and help texts with messages.txt.

After you change a text, run ``python tests/docs/test_messages.py --write`` and review the diff.

Messages are templates from the syntax trees: ``{...}`` is a value, ``[a | b]`` are alternatives,
and ``+ a`` is appended in some cases. ``text:`` marks other sentences.
"""

import ast
import builtins
import difflib
import functools
import inspect
import re
import sys
from pathlib import Path

import click
import pytest

import bandits
import privacy
from privacy.cli.app import found, main

SNAPSHOT = Path(__file__).with_name("messages.txt")
UPDATE = "Run: python tests/docs/test_messages.py --write"
PACKAGES = (privacy, bandits)
PARTS = ("rule", "remedy")  # parameters of a function that builds a message
CHECKS = {
    "expected": ("name", "value", *PARTS),
    "refuse_if": ("wrong", "name", "value", *PARTS),
    "instance": ("name", "value", "kind", *PARTS),
}
"""Functions of privacy.checks that state all parts of a message, and their parameters."""
REPORTS = {"error", "fail", "warn"}  # output.error, context.fail, warnings.warn
EXCEPTIONS = {
    name
    for module in (builtins, click, click.exceptions)
    for name, value in vars(module).items()
    if isinstance(value, type) and issubclass(value, Exception)
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
LEAVING = (ast.Raise, ast.Return, ast.Continue, ast.Break)
DEEPEST = 12  # nested expressions


def last_name(node):
    """Return the name of `f` and of `module.f`."""
    return getattr(node, "attr", getattr(node, "id", None))


def placeholder(node):
    return "{" + ast.unparse(node).replace('"', "'").replace("\n", " ") + "}"


def parameters(function):
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    return [name for name in names if name not in {"self", "cls"}]


def bound(call, names):
    """Return the arguments of a call by the names of the parameters."""
    given = dict(zip(names, call.args, strict=False))
    return given | {word.arg: word.value for word in call.keywords if word.arg}


class Module:
    """The syntax tree of a module, and the values of its names."""

    def __init__(self, path, tree):
        self.path, self.nodes = path, list(ast.walk(tree))
        self.parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}
        self.values, self.functions, self.imported = {}, {}, {}
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom):
                for each in node.names:
                    self.imported[each.asname or each.name] = (node.module, each.name)
            elif isinstance(node, ast.FunctionDef):
                self.functions.setdefault(node.name, node)
            else:
                self._note(node)
        for node in self.nodes:  # loops over a named tuple literal, once the names are known
            if isinstance(node, ast.For) and isinstance(node.iter, ast.Name):
                for _, values in self.candidates(node.iter.id, node.iter):
                    for value in getattr(values, "elts", ()):
                        self._assign(node, node.target, value)

    def _note(self, node):
        """Record the values that a statement assigns to names."""
        match node:
            case ast.Assign(targets=[target], value=value):
                self._assign(node, target, value)
            case ast.AugAssign(op=ast.Add()) | ast.NamedExpr():
                self._assign(node, node.target, node.value)
            case ast.AnnAssign(value=ast.expr() as value):
                self._assign(node, node.target, value)
            case ast.For() | ast.comprehension():
                for value in getattr(node.iter, "elts", ()):
                    self._assign(node, node.target, value)

    def _assign(self, node, target, value):
        if isinstance(target, ast.Name):
            self.values.setdefault((self.owner(node), target.id), []).append((node, value))
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for one, its in zip(target.elts, value.elts, strict=False):
                self._assign(node, one, its)

    def ancestors(self, node):
        while (node := self.parents.get(node)) is not None:
            yield node

    def owner(self, node):
        """Return the function that a node is in, or None."""
        return next((node for node in self.ancestors(node) if isinstance(node, FUNCTIONS)), None)

    def candidates(self, name, at):
        """Return the (statement, value) pairs that can define a name at a node."""
        owner = self.owner(at)
        while owner is not None and (owner, name) not in self.values:
            if any(each.arg == name for each in ast.walk(owner.args) if isinstance(each, ast.arg)):
                return []
            owner = self.owner(owner)
        found = self.values.get((owner, name), [])
        return self._reaching(found, at) if owner is not None else found

    def _reaching(self, found, at):
        """Drop assignments that are later, overwritten, or in a block that leaves."""
        around = {at, *self.ancestors(at)}
        reaching = []
        for node, value in sorted(found, key=lambda pair: pair[1].lineno):
            block = self.parents.get(node)
            if isinstance(node, ast.For) and node in around:
                reaching = [*(pair for pair in reaching if pair[0] is node), (node, value)]
            elif isinstance(node, ast.comprehension | ast.NamedExpr):
                reaching.append((node, value))
            elif value.lineno > at.lineno or node in around:
                continue
            elif block in around and not isinstance(node, ast.For):
                added = isinstance(node, ast.AugAssign)
                reaching = [*reaching * added, (node, value)]
            elif not isinstance(siblings(block, node)[-1], LEAVING):
                reaching.append((node, value))
        return reaching


def siblings(block, node):
    """Return the statements of the list that a statement is in."""
    lists = [value for _, value in ast.iter_fields(block) if isinstance(value, list)]
    return next(each for each in lists if node in each)


class Listing:
    """The messages of all modules."""

    def __init__(self, helps):
        self.modules, self.helps = {}, "\n".join(helps)
        for package in PACKAGES:
            root = Path(package.__file__).parent
            for path in sorted(root.rglob("*.py")):
                shown = path.relative_to(root.parent).as_posix()
                name = shown.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
                tree = ast.parse(path.read_text(encoding="utf-8"))
                self.modules[name] = Module(shown, tree)
        nodes = [node for module in self.modules.values() for node in module.nodes]
        self.exceptions = set(EXCEPTIONS)
        classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
        for _ in range(3):  # exceptions that derive from exceptions
            self.exceptions |= {
                node.name
                for node in classes
                if any(last_name(base) in self.exceptions for base in node.bases)
            }
        self.builders = {
            node.name: parameters(node)
            for node in nodes
            if isinstance(node, ast.FunctionDef)
            and any(each.arg in PARTS for each in ast.walk(node.args) if isinstance(each, ast.arg))
        }

    def text(self, module, node, depth=0):
        """Return the template of an expression."""
        render = getattr(self, f"_{type(node).__name__.lower()}", None)
        found = render(module, node, depth + 1) if render and depth < DEEPEST else ""
        return found or placeholder(node)

    def _constant(self, _module, node, _depth):
        value = node.value
        return value.replace("\n", "\\n") or "nothing" if isinstance(value, str) else repr(value)

    def _joinedstr(self, module, node, depth):
        return "".join(self.text(module, part, depth) for part in node.values)

    def _formattedvalue(self, module, node, depth):
        if node.conversion == -1 and node.format_spec is None:
            inner = self.text(module, node.value, depth)
            if not is_bare(inner):
                return inner
        mark = f"!{chr(node.conversion)}" if node.conversion != -1 else ""
        mark += ":" + self.text(module, node.format_spec, depth) if node.format_spec else ""
        return placeholder(node.value)[:-1] + mark + "}"

    def _binop(self, module, node, depth):
        if not isinstance(node.op, ast.Add):
            return ""
        return self.text(module, node.left, depth) + self.text(module, node.right, depth)

    def _ifexp(self, module, node, depth):
        return self._any(module, [node.body, node.orelse], depth)

    def _boolop(self, module, node, depth):
        return self._any(module, node.values, depth)

    def _subscript(self, module, node, depth, default=()):
        """Return the values of a dict literal."""
        name = getattr(node.value, "id", None)
        found = [value for _, value in module.candidates(name, node)]
        choices = [each for value in found if isinstance(value, ast.Dict) for each in value.values]
        return self._any(module, [*choices, *default], depth)

    def _call(self, module, node, depth):
        name = last_name(node.func)
        if name in CHECKS:
            given = bound(node, CHECKS[name])
            value = given.pop("value")
            shown = repr(value.value) if isinstance(value, ast.Constant) else placeholder(value)
            name, rule, remedy = (self.text(module, given[one], depth) for one in ("name", *PARTS))
            return f"Expected {name}={shown} to be {rule}. {remedy}"
        if name == "get" and isinstance(node.func, ast.Attribute):
            return self._subscript(module, node.func, depth, node.args[1:])
        function = module.functions.get(name)
        if function is None or "str" not in ast.unparse(function.returns or ast.Constant(0)):
            return ""
        ends = [each.value for each in ast.walk(function) if isinstance(each, ast.Return)]
        found = self._any(module, [each for each in ends if each is not None], depth)
        return "" if is_bare(found) else found

    def _name(self, module, node, depth):
        found = module.candidates(node.id, node)
        if not found and node.id in module.imported:
            source, name = module.imported[node.id]
            module = self.modules.get(source)
            found = module.values.get((None, name), []) if module else []
        texts = [
            ("+ " if isinstance(at, ast.AugAssign) else "") + self.text(module, value, depth)
            for at, value in found
        ]
        return joined([text for text in texts if not is_bare(text)])

    def _any(self, module, nodes, depth):
        return joined([self.text(module, node, depth) for node in nodes])

    def messages(self, module):
        """Return the sorted messages of a module."""
        lines = set()
        for node in module.nodes:
            if not isinstance(node, ast.Call):
                continue
            name, raised = last_name(node.func), isinstance(module.parents.get(node), ast.Raise)
            if ast.unparse(node.func) == "super().__init__":
                of = module.parents.get(module.owner(node))
                name = getattr(of, "name", None)
            words = {word.arg: word.value for word in node.keywords}
            if name == "expected":
                if self._is_told(module, node):
                    continue
                lines.add(self.text(module, node))
            elif name in CHECKS:
                kind = "ValueError" if name == "refuse_if" else "TypeError"
                lines.add(f"{kind}: {self.text(module, node)}")
            elif raised or name in self.exceptions or name in REPORTS or "err" in words:
                if name not in self.exceptions | REPORTS | {"echo"}:
                    name = f"{ast.unparse(node.func)}()"
                lines |= {
                    f"{name}: {text}"
                    for text in (self.text(module, each) for each in node.args)
                    if not is_bare(text)
                }
            elif name in self.builders:
                lines |= self._checked(module, node, name)
        shown = "".join(lines) + self.helps
        lines |= {f"text: {text}" for text in self._sentences(module) if text not in shown}
        return sorted(lines)

    def _sentences(self, module):
        """Yield the sentences of module-level values, and those that code returns or passes on."""
        values = [
            each for (owner, _), pairs in module.values.items() if not owner for each in pairs
        ]
        nodes = [node for _, value in values for node in ast.walk(value)]
        for node in module.nodes:
            match node:
                case ast.Return(value=ast.expr() as value):
                    nodes.append(value)
                case ast.Call(args=values) | ast.Dict(values=values):
                    nodes += values
        for node in dict.fromkeys(nodes):
            if isinstance(node, ast.Constant | ast.JoinedStr):
                text = self.text(module, node)
                if text.endswith(".") and " " in text and not is_bare(text):
                    yield text

    def _is_told(self, module, node):
        """Return whether a call of `expected` is an argument of an exception."""
        parent = module.parents.get(node)
        if not isinstance(parent, ast.Call):
            return False
        raised = isinstance(module.parents.get(parent), ast.Raise)
        return raised or last_name(parent.func) in self.exceptions

    def _checked(self, module, node, name):
        """Return the line of a call of a function that has a rule or a remedy."""
        given = bound(node, self.builders[name])
        texts = [self.text(module, given[part]) for part in PARTS if part in given]
        texts = [text for text in texts if not is_bare(text)]
        if not texts:
            return set()
        shown = [self.text(module, given["name"])] if "name" in given else []
        limits = ("above", "at_least", "below", "at_most")
        shown += [f"{key}={ast.unparse(given[key])}" for key in limits if key in given]
        return {f"{name}({', '.join(shown)}): {', '.join(texts)}"}

    def lines(self):
        """Yield the messages of every module."""
        for module in self.modules.values():
            lines = self.messages(module)
            if lines:
                yield from (f"== {module.path}", *lines, "")


def is_bare(text):
    """Return whether a template has no word of its own."""
    before = None
    while text != before:
        before, text = text, re.sub(r"\{[^{}]*\}", "", text)
    return not any(map(str.isalpha, text))


def joined(texts):
    """Return alternatives as ``[a | b]``; equal ones stand once."""
    texts = list(dict.fromkeys(texts))
    return f"[{' | '.join(texts)}]" if texts[1:] else "".join(texts)


def help_texts(command, path):
    """Yield the texts of a command and of its subcommands."""
    yield f"== {path} --help"
    for text in (command.help, command.epilog):
        if text:
            yield from (line.replace("\b", "\\b") for line in inspect.cleandoc(text).splitlines())
    for option in command.params:
        if isinstance(option, click.Option):
            yield f"{', '.join((*option.opts, *option.secondary_opts))}: {option.help}"
    yield ""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if command is not main or is_ours(found()[name].module):
                yield from help_texts(command.get_command(context, name), f"{path} {name}")


def is_ours(module):
    return module.partition(".")[0] in {package.__name__ for package in PACKAGES}


@functools.cache
def listing():
    helps = list(help_texts(main, "dpcalib"))
    return [line.rstrip() for line in (*Listing(helps).lines(), *helps)]


def test_messages_are_those_of_the_snapshot():
    kept, current = SNAPSHOT.read_text(encoding="utf-8").splitlines(), listing()
    if kept != current:
        changes = difflib.unified_diff(kept, current, "messages.txt", "now", lineterm="", n=0)
        pytest.fail("\n".join([UPDATE, *changes]), pytrace=False)


def test_templates_resolve_names_and_alternatives():
    listed = listing()
    assert "ValueError: Pass --delta: the delta at which epsilon holds, such as 1e-5." in listed
    assert "_positive(rho): Pass the rho of zCDP, such as rho=0.1." in listed
    assert "--rho: rho of zCDP." in listed
    assert sum(line.startswith("== ") for line in listed) > 60


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(UPDATE)
    SNAPSHOT.write_text("\n".join(listing()) + "\n", encoding="utf-8")
