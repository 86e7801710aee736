"""PyG constructors as cases write them: `Sequential(Linear(8, 12), ReLU())` to a name and its arguments. Evaluates nothing."""
import ast
import copy


class Made:
    """A module that a constructor makes: class name, positional and named arguments; arguments may be modules again."""

    def __init__(self, name, args=(), named=None):
        self.name, self.args, self.named = name, list(args), dict(named or {})


class _Put(ast.NodeTransformer):
    """Numbers in the place of a name."""

    def __init__(self, name, node):
        self.name, self.node = name, node

    def visit_Name(self, node):
        return self.node if node.id == self.name else node


def _each(node):
    """[f(a) for a in (8, 6)]"""
    loop, = node.generators
    return [_value(_Put(loop.target.id, item).visit(copy.deepcopy(node.elt))) for item in loop.iter.elts]


def _value(node):
    if isinstance(node, ast.ListComp) and isinstance(node.generators[0].iter, ast.Tuple):
        return _each(node)
    if isinstance(node, ast.List):
        return [_value(item) for item in node.elts]
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
