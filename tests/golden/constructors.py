"""PyG constructors as cases write them: `Sequential(Linear(8, 12), ReLU())` to a name and its arguments. Evaluates nothing."""
import ast


class Made:
    """A module that a constructor makes: class name, positional and named arguments; arguments may be modules again."""

    def __init__(self, name, args=(), named=None):
        self.name, self.args, self.named = name, list(args), dict(named or {})


def _value(node):
    if isinstance(node, ast.Call):
        return Made(node.func.id, [_value(a) for a in node.args], {k.arg: _value(k.value) for k in node.keywords})
    if isinstance(node, ast.Name):  # a class or function by its name
        return node.id
    return ast.literal_eval(node)


def parse(value):
    """A string that spells a call becomes Made; lists are searched; all else stays."""
    if isinstance(value, list):
        return [parse(v) for v in value]
    if not isinstance(value, str) or "(" not in value:
        return value
    return _value(ast.parse(value, mode="eval").body)
