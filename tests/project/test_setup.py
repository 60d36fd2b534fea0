"""The set-up says clearly what a machine lacks."""

import os
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]


def run(script, **environment):
    """Run one of the set-up's scripts with a bare environment."""
    done = subprocess.run(
        ["/bin/sh", str(ROOT / ".ci" / script)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=30,
    )
    return done.returncode, done.stdout, done.stderr


def program(directory, name, script):
    """Put a shell program into a directory and return the directory as text."""
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(directory)


def test_a_python_that_is_new_enough_is_found(tmp_path):
    """The first name on the PATH that is Python 3.11 or later, past older ones."""
    program(tmp_path, "python3", "exit 1")
    program(tmp_path, "python3.12", "exit 0")
    assert run("find-python", PATH=str(tmp_path)) == (0, "python3.12\n", "")


def test_no_python_that_is_new_enough_is_one_clear_line(tmp_path):
    """Nothing is installed or guessed."""
    code, out, err = run("find-python", PATH=program(tmp_path, "python3", "exit 1"))
    assert (code, out) == (1, "")
    assert err.startswith("No Python of 3.11 or later on the PATH")
    assert err.count("\n") == 1


def test_a_named_python_is_taken_or_refused(tmp_path):
    """PYTHON=.. is obeyed; an old one is not replaced by another in silence."""
    path = program(tmp_path, "old", "exit 1")
    program(tmp_path, "new", "exit 0")
    assert run("find-python", PATH=path, PYTHON=f"{path}/new") == (0, f"{path}/new\n", "")
    code, _, err = run("find-python", PATH=path, PYTHON=f"{path}/old")
    assert (code, err) == (1, f"PYTHON={path}/old is not a Python of 3.11 or later.\n")


@pytest.mark.parametrize(
    ("version", "code"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 0),
        ('openjdk version "21" 2023-09-19', 0),
        ('java version "1.8.0_401"', 1),
        ('openjdk version "11.0.2" 2019-01-15', 1),
    ],
)
def test_java_must_be_17_or_later(tmp_path, version, code):
    """The version that Java itself reports decides, from JAVA_HOME before the PATH."""
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin", "java", f"echo '{version}' >&2")
    got, out, err = run("check-java", PATH=os.defpath, JAVA_HOME=str(tmp_path))
    assert (got, out) == (code, "")
    if code:
        assert err == f"Spark needs Java 17 or later, and JAVA_HOME={tmp_path} has {version}.\n"


def test_no_java_is_one_clear_line(tmp_path):
    """Spark's own message would be a long one."""
    code, out, err = run("check-java", PATH=os.defpath, JAVA_HOME=str(tmp_path))
    assert (code, out) == (1, "")
    assert err.startswith("Spark needs Java 17 or later, and there is none at JAVA_HOME=")
    assert err.count("\n") == 1


@pytest.mark.parametrize(("version", "code"), [("v18.0.0", 0), ("v20.20.2", 0), ("v16.20.0", 1)])
def test_node_must_be_18_or_later(tmp_path, version, code):
    """The version that Node.js itself reports decides."""
    program(tmp_path, "npm", "exit 0")
    path = program(tmp_path, "node", f"echo {version}")
    got, out, err = run("check-node", PATH=f"{path}:{os.defpath}")
    assert (got, out) == (code, "")
    if code:
        assert err == f"The tests need Node.js 18 or later, and the PATH has {version}.\n"


@pytest.mark.parametrize("there", [[], ["node"]])
def test_no_node_or_no_npm_is_one_clear_line(tmp_path, there):
    """The compiler of the specification's parser comes by npm and runs in Node.js."""
    for name in there:
        program(tmp_path, name, "echo v20.0.0")
    code, out, err = run("check-node", PATH=str(tmp_path))
    assert (code, out) == (1, "")
    assert err.startswith("The tests need Node.js 18 or later with npm")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        ("exit 0", 0, "No known vulnerability in 1 packages."),
        ("echo 'Found 1 known vulnerability in 1 package'; exit 1", 1, "Found 1 known"),
        ("echo 'x: could not be audited' >&2; exit 1", 2, "Nothing is known about the packages"),
        ("echo 'Traceback' >&2; exit 1", 2, "Nothing is known about the packages"),
    ],
)
def test_an_audit_that_could_not_ask_is_no_good_news(tmp_path, answer, code, said):
    """Vulnerable, sound and unknown are told apart."""
    place = program(tmp_path, "python", f'case "$3" in freeze) echo x==1;; *) {answer};; esac')
    done = subprocess.run(
        [ROOT / ".ci" / "audit", f"{place}/python"], capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert said in done.stdout + done.stderr


@pytest.mark.parametrize("there", [[], ["mvn"], ["javac"], ["mvn", "javac"]])
def test_no_maven_or_no_compiler_is_one_clear_line(tmp_path, there):
    """The tests beside RocketMQ's own classes need both."""
    for name in there:
        program(tmp_path, name, "exit 0")
    code, out, err = run("check-maven", PATH=str(tmp_path))
    missing = [name for name in ("mvn", "javac") if name not in there]
    assert (code, out) == (1 if missing else 0, "")
    assert err.count("\n") == bool(missing)
    assert not missing or f"there is no {missing[0]} on the PATH" in err
