"""The plan that an agent could declare before it reads anything: the calls of the task, and for each argument where its value will come from.

Plans are drawn from the calls that the task's authors wrote, so figures with plans are upper bounds of what an agent reaches.
"""

import json

from agentdojo.functions_runtime import FunctionsRuntime
from pydantic import TypeAdapter
from world import CONSEQUENTIAL, SERVER_OF

# Arguments that are written freely. Their words are the agent's own; a form says that no link and no address is among them.
TEXTS = {"body", "content", "description"}
NAMES = {"subject", "title", "location"}


def plan_of(suite, task):
    """The steps of one task, as `portcullis__plan` takes them; none if it only reads."""
    environment = task.init_environment(suite.load_and_inject_default_environment({}))
    runtime = FunctionsRuntime(suite.tools)
    returns = {function.name: TypeAdapter(function.return_type) for function in suite.tools}
    reads, steps = [], []
    for call in task.ground_truth(environment.model_copy(deep=True)):
        if call.function in CONSEQUENTIAL:
            step = {"tool": exposed(call.function), "arguments": arguments_of(call, task.PROMPT, reads)}
            same = next((one for one in steps if one["step"] == step), None)
            if same is None:
                steps.append(same := {"step": step, "times": 0})
            same["times"] += 1
        value, _ = runtime.run_function(environment, call.function, dict(call.args))
        shown = returns[call.function].dump_python(value, mode="json")
        reads.append((call.function, list(fields_of(shown)), json.dumps(shown, ensure_ascii=False)))
    return [{**one["step"], "times": one["times"]} for one in steps]


def exposed(tool):
    return f"{SERVER_OF[tool]}__{tool}"


def arguments_of(call, prompt, reads):
    planned = {}
    for path, value in leaves_of(dict(call.args)):
        name = path.split(".")[0].split("[")[0]
        if not isinstance(value, str):
            continue
        field = next((tool for tool, fields, _ in reversed(reads) if value in fields), None)
        inside = next((tool for tool, _, text in reversed(reads) if value in text), None)
        if name in TEXTS:
            planned[path] = {"form": "*"}
        elif value.lower() in prompt.lower() and not path.endswith("_id"):
            planned[path] = "said"
        elif field:
            planned[path] = {"from": exposed(field)}
        elif name in NAMES:
            planned[path] = {"form": "*"}
        elif inside:
            planned[path] = {"from": exposed(inside), "inside": "text"}
    return planned


def leaves_of(value, path=""):
    if isinstance(value, dict):
        for name, one in value.items():
            yield from leaves_of(one, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for one in value:
            yield from leaves_of(one, f"{path}[]")
    else:
        yield path, value


def fields_of(value):
    """Every text of a result that is a field of its own, and the names of its fields."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield name
            yield from fields_of(one)
    elif isinstance(value, list):
        for one in value:
            yield from fields_of(one)
    elif isinstance(value, str):
        yield value
