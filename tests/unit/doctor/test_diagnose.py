# SPDX-License-Identifier: Apache-2.0
"""The whole of it over small trees: any tree at all gives an answer, and the document is what it says."""

import json
import platform

import msgspec
import pytest

from tests.strategies_model import HOSTILE
from tests.unit.doctor.trees import WHOLE_UID_MAP, link_namespace, places, status
from tracer.doctor.diagnose import diagnose
from tracer.doctor.gpu import Calls
from tracer.doctor.kernel import Tried
from tracer.doctor.model import DOCTOR_SCHEMA, Diagnosis, HookAnswer
from tracer.doctor.software import Asked
from tracer.errors import KernelUnavailable
from tracer.views import document

HELD = Tried((HookAnswer(name="raw_tracepoint:mark_victim", attached=True, required=True),), 1_000_000)
DENIED = Tried(why_not="cannot load BPF programs", denied=True)
FILES = {
    "/proc/self/status": status(),
    "/proc/self/uid_map": WHOLE_UID_MAP,
    "/proc/kallsyms": "ffffffff81300000 t __oom_kill_process\n",
    "/proc/sys/kernel/osrelease": "6.8.0",
    "/proc/self/cgroup": "4:memory:/job\n",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9",
    "/sys/fs/cgroup/memory/job/memory.memsw.limit_in_bytes": "9",
    "/sys/kernel/btf/vmlinux": "x",
    "/etc/os-release": 'ID=debian\nPRETTY_NAME="Debian 12"\n',
}


def diagnosed(tmp_path, tried=HELD, **changed) -> Diagnosis:
    tree = places(tmp_path, {**FILES, **{f"/{name.replace('__', '/')}": text for name, text in changed.items()}})
    for kind in ("pid", "time", "cgroup"):
        link_namespace(tree, kind)
    return diagnose(
        {},
        places=tree,
        try_programs=lambda: tried,
        ask=lambda: Asked("3.11", "0.26.0"),
        try_cuda=lambda: Calls(loaded=True),
    )


def test_root_with_everything_but_the_log_can_prove_a_kill_at_a_cgroups_limit(tmp_path):
    found = diagnosed(tmp_path)

    assert [kill.verdict for kill in found.here.kills] == ["proved", "likely"]
    assert not found.complete
    assert found.with_root is None
    assert found.distribution == "Debian 12"


def test_for_nobody_there_are_two_answers(tmp_path):
    found = diagnosed(tmp_path, DENIED, proc__self__status=status(uid=1000, effective=0))

    assert (found.uid, found.here.root, found.here.verdict) == (1000, False, "not_seen")
    assert found.with_root.root
    assert [kill.at_best for kill in found.with_root.kills] == ["proved", "proved"]


def test_an_empty_machine_is_diagnosed_too(tmp_path):
    found = diagnose({}, places=places(tmp_path, {}), try_programs=lambda: DENIED, ask=lambda: Asked(None))

    assert found.here.verdict == "not_seen"
    assert {one.ok for one in found.capabilities if one.id in {"btf", "python", "bcc", "bpf_programs"}} == {"no"}


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_files_are_no_error(tmp_path, text):
    hostile = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    names = ("proc__self__status", "proc__sys__kernel__osrelease", "etc__os-release", "proc__version", "proc__kallsyms")
    found = diagnosed(tmp_path, **dict.fromkeys(names, hostile), proc__self__cgroup=f"4:memory:/{hostile}\n")

    assert json.loads(document.render_document(found))["schema"] == DOCTOR_SCHEMA


def test_the_document_reads_back_as_what_it_was(tmp_path):
    found = diagnosed(tmp_path)

    assert msgspec.json.decode(document.render_document(found), type=Diagnosis) == found


def test_every_capability_is_told_once_and_says_what_it_is_for(tmp_path):
    found = diagnosed(tmp_path, DENIED, proc__self__status=status(uid=1000, effective=0)).capabilities

    assert len({one.id for one in found}) == len(found)
    assert all(one.name and one.found and one.meaning for one in found)


def test_what_fails_and_carries_a_proof_comes_with_a_remedy(tmp_path):
    found = diagnose({}, places=places(tmp_path, {}), try_programs=lambda: DENIED, ask=lambda: Asked(None))

    assert [one.id for one in found.capabilities if one.ok == "no" and one.weight == "proof" and not one.remedy] == []


def test_another_system_than_linux_gets_one_clear_line(monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: "Darwin")

    with pytest.raises(KernelUnavailable, match="Darwin: only a Linux kernel"):
        diagnose({})
