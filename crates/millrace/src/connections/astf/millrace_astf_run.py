# SPDX-License-Identifier: BSD-3-Clause
# Runs a TRex profile, and writes what it describes as JSON.
#
# usage: millrace_astf_run.py PROFILE RESULT [TUNABLE...]
# RESULT gets {"read": {"profile": ..., "notes": [...]}} or {"refused": ...}.
import importlib.util
import inspect
import json
import os
import signal
import sys
import traceback
import types

import millrace_astf_api as api
import millrace_astf_programs as programs

# Modules from which profiles import the classes.
MODULES = [
    "trex.astf.api",
    "trex.astf.trex_astf_profile",
    "trex.astf.trex_astf_client",
    "trex.astf.trex_astf_global_info",
    "trex.astf.topo",
    "trex_astf_lib.api",
    "trex_astf_lib.trex_astf_profile",
    "trex_astf_lib.trex_astf_client",
    "trex_astf_lib.trex_astf_global_info",
]


def end_with_parent():
    """Asks for SIGTERM when the process ends that waits for the result (PR_SET_PDEATHSIG)."""
    try:
        import ctypes
        ctypes.CDLL(None).prctl(1, int(signal.SIGTERM))
    except (ImportError, OSError, AttributeError):
        # A profile that does not end must then be ended by hand.
        pass


def provide_modules():
    """Makes our classes what profiles import, even beside an installed TRex."""
    for name in MODULES:
        parts = name.split(".")
        for length in range(1, len(parts)):
            package = ".".join(parts[:length])
            module = sys.modules.setdefault(package, types.ModuleType(package))
            module.__path__ = []
        sys.modules[name] = api
        for length in range(1, len(parts)):
            child = sys.modules[".".join(parts[:length + 1])]
            setattr(sys.modules[".".join(parts[:length])], parts[length], child)


def load(path):
    folder = os.path.dirname(path)
    sys.path.insert(0, folder)
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def value_of(text):
    """Returns the value of a tunable: a number or a truth value if it looks like one."""
    if text in ("True", "False"):
        return text == "True"
    for read in (lambda text: int(text, 0), float):
        try:
            return read(text)
        except ValueError:
            pass
    return text


def arguments_for(get_profile, tunables):
    """Returns what a profile's get_profile() is called with: options for argparse as `tunables`,
    or one argument for each tunable."""
    parameters = inspect.signature(get_profile).parameters
    named = {}
    for tunable in tunables:
        key, equals, text = tunable.partition("=")
        named[key.replace("-", "_")] = value_of(text) if equals else True
    arguments = {}
    if any(it.kind == it.VAR_KEYWORD for it in parameters.values()):
        arguments.update(named)
    elif "tunables" not in parameters:
        for name in named:
            if name not in parameters:
                raise api.Refusal("there is no tunable {}".format(name), place_of(get_profile))
        arguments.update(named)
    if "tunables" in parameters:
        arguments["tunables"] = ["--" + tunable for tunable in tunables]
    return arguments


def place_of(function):
    code = getattr(function, "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code else ("", 0)


def profile_at(path, tunables):
    module = load(path)
    if not hasattr(module, "register"):
        raise api.Refusal("there is no function register(): this is no TRex profile", (path, 1))
    get_profile = getattr(module.register(), "get_profile", None)
    if get_profile is None:
        text = "register() returns no object with get_profile(): this is no ASTF profile"
        raise api.Refusal(text, place_of(module.register))
    profile = get_profile(**arguments_for(get_profile, tunables))
    if not isinstance(profile, api.ASTFProfile):
        raise api.Refusal("get_profile() returns no ASTFProfile", place_of(get_profile))
    return programs.profile_of(profile)


def fault_of(error, path):
    """Returns the place and the text of an exception that a profile raised."""
    if isinstance(error, SyntaxError):
        return (error.filename or path, error.lineno or 0), "SyntaxError: {}".format(error.msg)
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [(it.filename, it.lineno) for it in frames if not api.is_ours(it.filename)]
    inside = [place for place in theirs if os.path.abspath(place[0]) == path]
    place = (inside or theirs or [(path, 0)])[-1]
    if isinstance(error, SystemExit):
        return place, "the profile ended Python with status {}".format(error.code)
    if isinstance(error, ImportError) and error.name == api.__name__:
        return place, "{}: it is not supported".format(str(error).split(" from ")[0])
    return place, "{}: {}".format(type(error).__name__, error)


def main(given, result, tunables):
    # Standard output belongs to the results of the command.
    os.dup2(2, 1)
    end_with_parent()
    path = os.path.abspath(given)
    sys.argv = [given]

    def entry(place, text):
        file = given if os.path.abspath(place[0]) == path else place[0]
        return {"file": file, "line": place[1], "text": text}

    try:
        if sys.version_info < (3, 7):
            raise api.Refusal("python3 is too old: 3.7 or later is needed", (path, 0))
        provide_modules()
        profile = profile_at(path, tunables)
        notes = [entry(place, text) for place, text in api.NOTES]
        outcome = {"read": {"profile": profile, "notes": notes}}
    except api.Refusal as refusal:
        outcome = {"refused": entry(refusal.place, refusal.text)}
    except (Exception, SystemExit) as error:
        outcome = {"refused": entry(*fault_of(error, path))}
    with open(result, "w", encoding="utf-8") as file:
        json.dump(outcome, file)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
