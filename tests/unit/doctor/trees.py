# SPDX-License-Identifier: Apache-2.0
"""Small trees in place of /proc, /sys and /dev, and the rights of made-up processes."""

import os
from pathlib import Path

from tracer.doctor.reading import Places
from tracer.doctor.rights import Rights

ALL = (1 << 41) - 1
STATUS = """\
Name:\tpython3
Uid:\t{uid}\t{uid}\t{uid}\t{uid}
CapEff:\t{effective:016x}
CapBnd:\t{bounding:016x}
NoNewPrivs:\t{nnp}
Seccomp:\t{seccomp}
"""
WHOLE_UID_MAP = "         0          0 4294967295\n"


def places(root: Path, files: dict[str, str | bytes]) -> Places:
    """A tree with these files, named by their paths from `/`."""
    for name, text in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    for name in ("proc", "sys", "dev", "etc", "run"):
        (root / name).mkdir(parents=True, exist_ok=True)
    return Places(*(str(root / name) for name in ("proc", "sys", "dev", "etc", "run")))


def status(*, uid=0, effective=ALL, bounding=ALL, nnp=0, seccomp=0) -> str:
    return STATUS.format(uid=uid, effective=effective, bounding=bounding, nnp=nnp, seccomp=seccomp)


def rights(**changed) -> Rights:
    """Root with everything, unless said otherwise."""
    values = {
        "uid": 0, "effective": ALL, "bounding": ALL, "initial_user_namespace": True, "no_new_privileges": False,
        "seccomp": False,
    }  # fmt: skip
    return Rights(**{**values, **changed})


NOBODY = rights(uid=65534, effective=0)


def by_id(capabilities) -> dict:
    """Each once."""
    found = list(capabilities)
    assert len({one.id for one in found}) == len(found)
    return {one.id: one for one in found}


def link_namespace(tree: Places, kind: str) -> None:
    """The real one of this process."""
    folder = Path(tree.proc) / "self" / "ns"
    folder.mkdir(parents=True, exist_ok=True)
    os.symlink(f"/proc/self/ns/{kind}", folder / kind)
