"""Tests that the function of every verb returns what the command prints as JSON, figure by figure.

The arguments are those of `test_hostile`, so a new verb is compared without a line here.
"""

import inspect
import json
import re
import warnings

import pytest
from conftest import ROOT
from test_hostile import FUNCTIONS, words  # noqa: F401: a fixture

import forebay
from forebay import _forebay

#: Verbs whose figures differ from run to run, so that only the keys are compared.
MEASURED = {"play", "volume_create"}
#: Verbs that need root, a drive, fio's results or another volume, so that both refuse to run here.
REFUSED = {"capture", "device_fit", "device_probe", "volume_remove"}
#: Arguments that the command reads from a file, or that have another default there.
OTHERS = {"plan_sla", "advise"}
VERBS = [name for name in FUNCTIONS if name in _forebay.VERBS and name not in OTHERS]
#: Figures about the run itself.
OF_A_RUN = {"simulated_requests_per_s", "openings"}


def arguments(words, function, folder):
    """Returns arguments with which the function has an answer, unless it is in `REFUSED`."""
    given = dict(words[function])
    if function in ("convert", "fit", "generate"):
        given["output"] = "new.model" if function == "fit" else "new.csv"
    if function == "retrodict":
        given["trace"] = folder / "timed.csv"
        rows = "".join(f"{n * 20000},read,{n * 7919 % 512 * 4096},4096,5000\n" for n in range(60))
        given["trace"].write_text("at_us,op,offset,len,latency_us\n" + rows)
    if function == "device_validate":
        given["trace"] = folder / "measured.trace"
        given["trace"].write_text("R Hit 10 4 5000.0 2000.0\nW Hit 14 4 900.0 20000.0\n")
    if function == "device_import":
        given["file"] = ROOT / "fuzz" / "seeds" / "disksim" / "hplplus10"
    if function.startswith("volume_") and function != "volume_create":
        called("volume_create", words["volume_create"])
    return given


def called(function, given):
    """Returns the function's answer, or its message."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            answer = getattr(forebay, function)(**given)
        except forebay.Error as error:
            return str(error)
    return answer.to_dict() if hasattr(answer, "to_dict") else answer


def printed(command, function, given):
    """Returns the answer that the command prints, or its message."""
    # Nothing but the verb's words can be separated by `_`.
    verb = function.split("_")
    usage = command(*verb, "--help").stdout
    by_place = [
        name for name, parameter in inspect.signature(getattr(forebay, function)).parameters.items()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and not re.search(rf"--{name}\s", usage)
    ]
    places = [given[name] for name in by_place if name in given]
    words = [word for place in places for word in (place if isinstance(place, list) else [place])]
    for name, value in given.items():
        if name not in by_place:
            words.append("--" + name.rstrip("_").replace("_", "-"))
            words += [] if value is True else [",".join(map(str, value)) if isinstance(value, list) else value]
    ended = command(*verb, *words, "--format", "json")
    if not ended.stdout:
        return ended.stderr.splitlines()[-1].removeprefix("forebay: ")
    answer = json.loads(ended.stdout)
    answer.pop("schema_version")
    return answer


def figures(value, is_measured):
    """Returns an answer without what differs between two runs, with options spelled as in Python."""
    if isinstance(value, dict):
        return {key: figures(of, is_measured) for key, of in value.items() if key not in OF_A_RUN}
    if isinstance(value, (list, tuple)):
        return [figures(of, is_measured) for of in value]
    if isinstance(value, str) and not is_measured:
        return re.sub(r"--([a-z-]+)", lambda name: name[1].replace("-", "_"), value)
    return None if is_measured else value


@pytest.mark.parametrize("function", VERBS)
def test_the_command_prints_what_the_function_returns(words, command, function, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    given = arguments(words, function, tmp_path)
    ours = called(function, given)
    (tmp_path / given.get("output", "none")).unlink(missing_ok=True)
    theirs = printed(command, function, given)
    assert isinstance(ours, str) == isinstance(theirs, str) == (function in REFUSED), (ours, theirs)
    assert figures(ours, function in MEASURED) == figures(theirs, function in MEASURED)
