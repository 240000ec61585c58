"""A package on disk whose nodes reach the same code in as many ways as there are.

Every node adds 1 to 1 at first; the edit makes that a hundred.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: What all nodes reach in the end. The edit makes each ``+ 1`` a ``+ 100``.
LEAF = """
import dataclasses, enum, functools, typing
import borrowed
import pydantic

def f(x):
    return x + 1

@functools.lru_cache
def cached(x):
    return x + 1

def told(x):
    return x

told.inner = lambda x: x + 1

@functools.singledispatch
def dispatched(x):
    return "nobody"

@dispatched.register
def _(x: int):
    return x + 1

class Plain:
    amount = 0
    def apply(self, x):
        return x + 1
    @property
    def one(self):
        return 0 + 1
    @functools.cached_property
    def once(self):
        return 0 + 1
    @functools.singledispatchmethod
    def by_type(self, x):
        return "nobody"
    @by_type.register
    def _(self, x: int):
        return x + 1
    def _both(self, x, more):
        return x + more
    both = functools.partialmethod(_both, more=0 + 1)

class Base:
    pass

class Below(Base):
    def apply(self, x):
        return x + 1

class Made(type):
    def __call__(cls, x):
        return x + 1

class Called(metaclass=Made):
    pass

@dataclasses.dataclass(frozen=True)
class Data:
    by: int = 7
    names: list = dataclasses.field(default_factory=list)
    def apply(self, x):
        return x + 1

@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    by: int = 0 + 1

class Kind(enum.Enum):
    ONE = "one"
    def apply(self, x):
        return x + 1

class Amount(enum.Enum):
    THIS = 0 + 1

class Pair(typing.NamedTuple):
    first: int = 0 + 1
    def apply(self, x):
        return x + self.first

class Table(dict):
    pass

class Model(pydantic.BaseModel):
    by: int = 0 + 1
    def apply(self, x):
        return x + self.by

class Checked(pydantic.BaseModel):
    x: int
    @pydantic.field_validator("x", mode="after")
    @classmethod
    def more(cls, x):
        return x + 1

class Holding(pydantic.BaseModel):
    part: Data = Data()

def mine(function):
    @functools.wraps(function)
    def wrapper(x):
        return function(x) + 1
    return wrapper

data, slotted, pair, model, plain = Data(), Slotted(), Pair(), Model(), Plain()
kind, amount = Kind.ONE, Amount.THIS
table = Table(by=0 + 1)
take = {"by": 0 + 1}.get
functions = {f, len}
decorated = borrowed.plain(f)
wrapped = borrowed.wrapped(f)
lent = mine(borrowed.same)
"""

#: A distribution that is installed, so that only its version counts.
BORROWED = """
import functools

def same(x):
    return x

def plain(function):
    def wrapper(x):
        return function(x)
    return wrapper

def wrapped(function):
    @functools.wraps(function)
    def wrapper(x):
        return function(x)
    return wrapper
"""

#: By what a node reaches the leaf: the lines of its module, and what it returns.
FOLLOWED = {
    "attributes_of_packages": ("import flow.deep.leaf", "flow.deep.leaf.f(x)"),
    "attribute_of_a_package": ("from flow import deep", "deep.leaf.f(x)"),
    "attribute_of_a_module": ("from flow.deep import leaf", "leaf.f(x)"),
    "a_module_under_another_name": ("import flow.deep as other", "other.leaf.f(x)"),
    "in_a_comprehension": ("import flow.deep.leaf", "[flow.deep.leaf.f(y) for y in [x]][0]"),
    "in_a_lambda": ("import flow.deep.leaf", "(lambda y: flow.deep.leaf.f(y))(x)"),
    "an_attribute_that_is_made": ("import flow.lazy", "flow.lazy.leaf.f(x)"),
    "modules_that_import_each_other": ("import flow.ring.one", "flow.ring.one.f(x)"),
    "getattr": ("from flow.deep import leaf", "getattr(leaf, 'f')(x)"),
    "getattr_of_a_package": ("import flow.deep.leaf", "getattr(flow.deep, 'leaf').f(x)"),
    "getattr_with_a_default": ("from flow.deep import leaf", "getattr(leaf, 'f', None)(x)"),
    "getattr_of_what_is_not_there": (
        "from flow.deep import leaf",
        "leaf.f(x) if getattr(leaf, 'other', None) is None else 0",
    ),
    "hasattr": ("from flow.deep import leaf", "hasattr(leaf, 'f') and leaf.f(x)"),
    "a_module_or_none": ("from flow.deep import leaf", "leaf.f(x) if leaf is not None else 0"),
    "dispatched": ("from flow.deep import leaf", "leaf.dispatched(x)"),
    "dispatched_by_name": ("from flow.deep.leaf import dispatched", "dispatched(x)"),
    "registered_elsewhere": (
        "import flow.deep.leaf, flow.registered",
        "flow.deep.leaf.dispatched(float(x))",
    ),
    "cached": ("from flow.deep.leaf import cached", "cached(x)"),
    "function_of_a_function": ("from flow.deep.leaf import told", "told.inner(x)"),
    "functions_in_a_set": (
        "from flow.deep.leaf import functions",
        "sum(each(x) for each in functions if each is not len)",
    ),
    "property": ("from flow.deep.leaf import Plain", "x + Plain().one"),
    "cached_property": ("from flow.deep.leaf import Plain", "x + Plain().once"),
    "cached_property_of_an_object": ("from flow.deep.leaf import plain", "x + plain.once"),
    "dispatched_method": ("from flow.deep.leaf import Plain", "Plain().by_type(x)"),
    "partial_method": ("from flow.deep.leaf import Plain", "Plain().both(x)"),
    "metaclass": ("from flow.deep.leaf import Called", "Called(x)"),
    "method_of_an_object": ("from flow.deep.leaf import plain", "plain.apply(x)"),
    "method_of_data": ("from flow.deep.leaf import data", "data.apply(x)"),
    "class_of_data": ("from flow.deep.leaf import Data", "Data().apply(x)"),
    "data_with_slots": ("from flow.deep.leaf import slotted", "x + slotted.by"),
    "default_of_data": ("from flow.deep.leaf import Slotted", "x + Slotted().by"),
    "method_of_an_enum": ("from flow.deep.leaf import kind", "kind.apply(x)"),
    "value_of_an_enum": ("from flow.deep.leaf import amount", "x + amount.value"),
    "method_of_a_named_tuple": ("from flow.deep.leaf import pair", "pair.apply(x)"),
    "class_of_a_named_tuple": ("from flow.deep.leaf import Pair", "Pair().apply(x)"),
    "own_kind_of_table": ("from flow.deep.leaf import table", "x + table['by']"),
    "method_of_a_model": ("from flow.deep.leaf import model", "model.apply(x)"),
    "class_of_a_model": ("from flow.deep.leaf import Model", "Model().apply(x)"),
    "validator_of_a_model": ("from flow.deep.leaf import Checked", "Checked(x=x).x"),
    "method_of_a_table": ("from flow.deep.leaf import take", "x + take('by')"),
    "method_of_an_input": (
        "from flow.deep.leaf import Data\ngiven = {'x': 1, 'by': [Data()]}",
        "state['by'][0].apply(x)",
    ),
    "method_of_a_models_part": (
        "from flow.deep.leaf import Holding\ngiven = {'x': 1, 'by': Holding()}",
        "state['by'].part.apply(x)",
    ),
    "value_of_an_enum_among_inputs": (
        "from flow.deep.leaf import Amount\ngiven = {'x': 1, 'by': (Amount.THIS,)}",
        "x + state['by'][0].value",
    ),
    "decorator_of_others": ("from flow.deep.leaf import decorated", "decorated(x)"),
    "wrapper_of_others": ("from flow.deep.leaf import wrapped", "wrapped(x)"),
    "own_wrapper_of_others": ("from flow.deep.leaf import lent", "lent(x)"),
}
#: The same for nodes whose lines are their own.
BODIES = {
    "import_inside": """
def node(state):
    import flow.deep.leaf
    return {"out": flow.deep.leaf.f(state["x"])}
""",
    "import_inside_as": """
def node(state):
    import flow.deep.leaf as other
    return {"out": other.f(state["x"])}
""",
    "import_from_inside": """
def node(state):
    from flow.deep.leaf import f
    return {"out": f(state["x"])}
""",
    "import_of_a_module_inside": """
def node(state):
    from flow.deep import leaf as other, more
    return {"out": other.f(state["x"])}
""",
    "relative_import_inside": """
def node(state):
    from ..deep.leaf import f
    return {"out": f(state["x"])}
""",
    "import_inside_a_callee": """
import flow.caller
def node(state):
    return {"out": flow.caller.call(state["x"])}
""",
    "import_inside_an_inner_function": """
def node(state):
    def inner(x):
        from flow.deep import leaf
        return leaf.f(x)
    return {"out": inner(state["x"])}
""",
    "imports_of_others_inside": """
def node(state):
    import json, numpy.linalg, os.path as path
    from borrowed import same
    from flow.deep.leaf import f
    return {"out": json.loads(json.dumps(f(same(state["x"]))))}
""",
    "local_name": """
import flow.deep
def node(state):
    deep = flow.deep
    leaf = deep.leaf
    return {"out": leaf.f(state["x"])}
""",
    "closure": """
def make():
    from flow.deep import leaf
    def node(state):
        return {"out": leaf.f(state["x"])}
    return node
node = make()
""",
    "inner_function_over_an_import": """
def node(state):
    from flow.deep import leaf
    def inner(x):
        return leaf.f(x)
    return {"out": inner(state["x"])}
""",
    "partial_of_others": """
import functools, borrowed
from flow.deep.leaf import f
def out(x):
    return {"out": f(x["x"])}
node = functools.partial(borrowed.plain(out))
""",
}
HANDED_ON = "hands on the module flow.deep.leaf"
HELD = "flow.deep.leaf is held as a value"
#: Ways that the code does not tell, and what is said of them.
UNTOLD = {
    "getattr_by_parts": (
        "from flow.deep import leaf\nEND = ''",
        "getattr(leaf, 'f' + END)(x)",
        HANDED_ON,
    ),
    "getattr_by_a_variable": (
        "from flow.deep import leaf",
        "getattr(leaf, 'F'.lower())(x)",
        HANDED_ON,
    ),
    "attribute_by_vars": ("from flow.deep import leaf", "vars(leaf)['f'](x)", HANDED_ON),
    "attribute_by_dict": (
        "from flow.deep import leaf",
        "leaf.__dict__['f'](x)",
        "flow.deep.leaf.__dict__ is used",
    ),
    "globals_of_a_function": (
        "from flow.deep import leaf",
        "leaf.told.__globals__['f'](x)",
        "__globals__ is used",
    ),
    "classes_below": (
        "from flow.deep.leaf import Base",
        "Base.__subclasses__()[0]().apply(x)",
        "__subclasses__ is used",
    ),
    "module_to_a_call": (
        "import flow.deep.leaf, flow.caller",
        "flow.caller.of(flow.deep.leaf, x)",
        HANDED_ON,
    ),
    "module_in_a_list": ("from flow.deep import leaf\nALL = [leaf]", "ALL[0].f(x)", HELD),
    "import_module": (
        "import importlib",
        "importlib.import_module('flow.deep.leaf').f(x)",
        "importlib.import_module is used",
    ),
    "import_module_by_name": (
        "from importlib import import_module",
        "import_module('flow.deep.leaf').f(x)",
        "importlib.import_module is used",
    ),
    "dunder_import": ("", "__import__('flow.deep.leaf').deep.leaf.f(x)", "__import__ is used"),
    "eval": ("from flow.deep import leaf", "eval('leaf.f(x)')", "eval is used"),
    "globals": ("from flow.deep import leaf", "globals()['leaf'].f(x)", "globals is used"),
    "loaded_modules": (
        "import sys\nimport flow.deep.leaf",
        "sys.modules['flow.deep.leaf'].f(x)",
        "sys.modules is used",
    ),
    "loaded_modules_by_name": (
        "from sys import modules\nimport flow.deep.leaf",
        "modules['flow.deep.leaf'].f(x)",
        "sys.modules is used",
    ),
}
UNTOLD_BODIES = {
    "exec": ("exec is used", """
def node(state):
    table = {}
    exec("from flow.deep.leaf import f", table)
    return {"out": table["f"](state["x"])}
"""),
    "import_module_inside": ("importlib.import_module is used", """
def node(state):
    import importlib as il
    return {"out": il.import_module("flow.deep.leaf").f(state["x"])}
"""),
    "module_in_a_global": (HANDED_ON, """
loaded = None
def load():
    global loaded
    from flow.deep import leaf as loaded
def node(state):
    load()
    return {"out": loaded.f(state["x"])}
"""),
    "module_of_an_object": (HELD, """
from flow.deep import leaf
class Holder:
    pass
holder = Holder()
holder.module = leaf
def node(state):
    return {"out": holder.module.f(state["x"])}
"""),
}  # fmt: skip
#: Where its module is found is known only while it runs.
HIDDEN = """
import sys
from pathlib import Path
def node(state):
    sys.path.insert(0, str(Path(__file__).parents[1] / "aside"))
    try:
        import hidden
    finally:
        del sys.path[0]
    return {"out": hidden.f(state["x"])}
"""


def write_package(root: Path, adds: int) -> None:
    """Write the package and what it borrows; its leaves add so much."""
    installed = root / "site-packages"
    files = {
        "flow/__init__.py": "",
        "flow/deep/__init__.py": "",
        "flow/deep/leaf.py": LEAF,
        "flow/deep/more.py": "",
        "flow/aside/hidden.py": "def f(x):\n    return x + 1\n",
        "flow/lazy/__init__.py": (
            "import importlib\ndef __getattr__(name):\n"
            "    if name.startswith('_'):\n        raise AttributeError(name)\n"
            "    return importlib.import_module(f'flow.lazy.{name}')\n"
        ),
        "flow/lazy/leaf.py": "def f(x):\n    return x + 1\n",
        "flow/ring/__init__.py": "",
        "flow/ring/one.py": "import flow.ring.two\ndef f(x):\n    return flow.ring.two.g(x)\n",
        "flow/ring/two.py": (
            "import flow.ring.one\ndef g(x):\n    return x + 1 if x else flow.ring.one.f(x)\n"
        ),
        "flow/registered.py": (
            "from flow.deep.leaf import dispatched\n"
            "@dispatched.register\ndef _(x: float):\n    return int(x) + 1\n"
        ),
        "flow/caller.py": (
            "def call(x):\n    from flow.deep.leaf import f\n    return f(x)\n"
            "def of(module, x):\n    return module.f(x)\n"
        ),
        "flow/forms/__init__.py": "",
        "flow/forms/hidden_module.py": HIDDEN,
        "site-packages/borrowed.py": BORROWED,
        "site-packages/borrowed-1.0.dist-info/METADATA": "Name: borrowed\nVersion: 1.0\n",
        "site-packages/borrowed-1.0.dist-info/top_level.txt": "borrowed\n",
    }
    simple = {**FOLLOWED, **{name: each[:2] for name, each in UNTOLD.items()}}
    for name, (lines, result) in simple.items():
        body = f"{lines}\ndef node(state):\n    x = state['x']\n    return {{'out': {result}}}\n"
        files[f"flow/forms/{name}.py"] = body
    for name, body in {**BODIES, **{name: each[1] for name, each in UNTOLD_BODIES.items()}}.items():
        files[f"flow/forms/{name}.py"] = body
    for name, text in files.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        is_edited = installed not in place.parents and "forms" not in place.parts
        place.write_text(text.replace("+ 1", f"+ {adds}") if is_edited else text)
