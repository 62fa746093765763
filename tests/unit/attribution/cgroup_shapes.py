# SPDX-License-Identifier: Apache-2.0
"""Paths of cgroups as the runtimes, batch systems and systemd make them, each with all that it says."""

from typing import Any

ID = "9c41d07ae2b85f36" * 4
OUTER = "1f0e2d3c4b5a6978" * 4
UID = "5e0b7c92-41aa-4d0f-b3e6-77c1d20f9a48"
UID_ = UID.replace("-", "_")
STATIC = "d41c8f00b204e980a998ecf8427e5a1b"
TASK = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
POD_SLICE = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID_}.slice"
JOB_V1, JOB_V2 = "/slurm/uid_2044/job_51723", "/system.slice/slurmstepd.scope/job_51723"
MANAGER = "/user.slice/user-1007.slice/user@1007.service"

SHAPES: dict[str, dict[str, Any]] = {
    # Docker
    f"/docker/{ID}": {"itself": "container", "container": ID, "runtime": "docker"},
    f"/docker/{ID}/init": {"container": ID, "runtime": "docker"},
    f"/system.slice/docker-{ID}.scope": {
        "itself": "container", "container": ID, "runtime": "docker", "unit": f"docker-{ID}.scope",
        "slice": "system.slice",
    },
    f"{MANAGER}/user.slice/docker-{ID}.scope": {
        "itself": "container", "container": ID, "runtime": "docker", "unit": "user@1007.service",
        "user_unit": f"docker-{ID}.scope", "slice": "user-1007.slice", "uid": 1007,
    },
    f"/docker/{OUTER}/docker/{ID}": {
        "itself": "container", "container": ID, "runtime": "docker", "outer_containers": (OUTER,),
    },
    f"/training/{ID}": {"itself": "container", "container": ID},
    # podman, CRI-O, nerdctl
    f"/machine.slice/libpod-{ID}.scope/container": {
        "container": ID, "runtime": "podman", "unit": f"libpod-{ID}.scope", "slice": "machine.slice",
    },
    f"/libpod_parent/libpod-{ID}": {"itself": "container", "container": ID, "runtime": "podman"},
    f"{MANAGER}/user.slice/libpod-{ID}.scope/container": {
        "container": ID, "runtime": "podman", "unit": "user@1007.service", "user_unit": f"libpod-{ID}.scope",
        "slice": "user-1007.slice", "uid": 1007,
    },
    f"/system.slice/train.service/libpod-payload-{ID}": {
        "itself": "container", "container": ID, "runtime": "podman", "unit": "train.service", "slice": "system.slice",
    },
    # A pod of podman 5.4.2 with crun 1.21, by systemd 257 and by itself (--cgroup-manager cgroupfs)
    f"/machine.slice/machine-libpod_pod_{OUTER}.slice/libpod-{ID}.scope/container": {
        "container": ID, "runtime": "podman", "podman_pod": OUTER, "unit": f"libpod-{ID}.scope",
        "slice": f"machine-libpod_pod_{OUTER}.slice",
    },
    f"/machine.slice/machine-libpod_pod_{OUTER}.slice": {
        "itself": "podman_pod", "podman_pod": OUTER, "slice": f"machine-libpod_pod_{OUTER}.slice",
    },
    f"/libpod_parent/{OUTER}/libpod-{ID}": {
        "itself": "container", "container": ID, "runtime": "podman", "podman_pod": OUTER,
    },
    f"/libpod_parent/{OUTER}": {"itself": "podman_pod", "podman_pod": OUTER},
    f"/machine.slice/libpod-conmon-{ID}.scope": {
        "itself": "unit", "unit": f"libpod-conmon-{ID}.scope", "slice": "machine.slice",
    },
    f"/system.slice/nerdctl-{ID}.scope": {
        "itself": "container", "container": ID, "runtime": "containerd", "unit": f"nerdctl-{ID}.scope",
        "slice": "system.slice",
    },
    # Kubernetes
    f"/kubepods/burstable/pod{UID}/{ID}": {
        "itself": "container", "container": ID, "pod_uid": UID, "qos": "burstable",
    },
    f"/kubepods/besteffort/pod{UID}": {"itself": "pod", "pod_uid": UID, "qos": "besteffort"},
    f"/kubepods/pod{UID}/crio-{ID}": {
        "itself": "container", "container": ID, "runtime": "cri-o", "pod_uid": UID, "qos": "guaranteed",
    },
    f"/kubepods/burstable/pod{STATIC}/{ID}": {
        "itself": "container", "container": ID, "pod_uid": STATIC, "qos": "burstable",
    },
    "/kubepods/burstable": {"itself": "qos", "qos": "burstable"},
    "/kubepods": {"itself": "pods"},
    f"{POD_SLICE}/cri-containerd-{ID}.scope": {
        "itself": "container", "container": ID, "runtime": "containerd", "pod_uid": UID, "qos": "burstable",
        "unit": f"cri-containerd-{ID}.scope", "slice": POD_SLICE.rpartition("/")[2],
    },
    POD_SLICE: {"itself": "pod", "pod_uid": UID, "qos": "burstable", "slice": POD_SLICE.rpartition("/")[2]},
    f"/kubepods.slice/kubepods-pod{UID_}.slice/crio-{ID}.scope/container": {
        "container": ID, "runtime": "cri-o", "pod_uid": UID, "qos": "guaranteed", "unit": f"crio-{ID}.scope",
        "slice": f"kubepods-pod{UID_}.slice",
    },
    f"/kubepods.slice/kubepods-pod{UID_}.slice/crio-conmon-{ID}.scope": {
        "itself": "unit", "pod_uid": UID, "qos": "guaranteed", "unit": f"crio-conmon-{ID}.scope",
        "slice": f"kubepods-pod{UID_}.slice",
    },
    "/kubepods.slice/kubepods-besteffort.slice": {
        "itself": "qos", "qos": "besteffort", "slice": "kubepods-besteffort.slice",
    },
    f"/system.slice/containerd.service/kubepods-burstable-pod{UID_}.slice:cri-containerd:{ID}": {
        "itself": "container", "container": ID, "runtime": "containerd", "pod_uid": UID, "qos": "burstable",
        "unit": "containerd.service", "slice": "system.slice",
    },
    f"/docker/{OUTER}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
    f"kubelet-kubepods-besteffort-pod{UID_}.slice/cri-containerd-{ID}.scope": {
        "itself": "container", "container": ID, "runtime": "containerd", "outer_containers": (OUTER,), "pod_uid": UID,
        "qos": "besteffort", "unit": f"cri-containerd-{ID}.scope",
        "slice": f"kubelet-kubepods-besteffort-pod{UID_}.slice",
    },
    f"/kubelet/kubepods/burstable/pod{UID}/{ID}": {
        "itself": "container", "container": ID, "pod_uid": UID, "qos": "burstable",
    },
    # LXC, LXD, nspawn, virtual machines
    f"/lxc.payload.worker-3/kubepods.slice/kubepods-pod{UID_}.slice/cri-containerd-{ID}.scope": {
        "itself": "container", "container": ID, "runtime": "containerd", "outer_containers": ("worker-3",),
        "pod_uid": UID, "qos": "guaranteed", "unit": f"cri-containerd-{ID}.scope",
        "slice": f"kubepods-pod{UID_}.slice",
    },
    "/lxc.payload.gpu.box/system.slice/ssh.service": {
        "itself": "unit", "container": "gpu.box", "runtime": "lxc", "unit": "ssh.service", "slice": "system.slice",
    },
    "/lxc.payload/web": {"itself": "container", "container": "web", "runtime": "lxc"},
    "/lxc/104/ns/system.slice/cron.service": {
        "itself": "unit", "container": "104", "runtime": "lxc", "unit": "cron.service", "slice": "system.slice",
    },
    r"/machine.slice/systemd-nspawn@deb\x2d12.service/payload/user.slice/user-0.slice/session-c1.scope": {
        "itself": "session", "container": "deb-12", "runtime": "nspawn", "unit": "session-c1.scope", "session": "c1",
        "uid": 0, "slice": "user-0.slice",
    },
    "/machine.slice/systemd-nspawn@deb.service/supervisor": {
        "unit": "systemd-nspawn@deb.service", "slice": "machine.slice",
    },
    r"/machine.slice/machine-old\x2dbox.scope/payload": {
        "itself": "container", "container": "old-box", "runtime": "nspawn", "machine": "old-box",
        "unit": r"machine-old\x2dbox.scope", "slice": "machine.slice",
    },
    r"/machine.slice/machine-qemu\x2d7\x2dwin.scope/libvirt/emulator": {
        "machine": "qemu-7-win", "unit": r"machine-qemu\x2d7\x2dwin.scope", "slice": "machine.slice",
    },
    # Slurm
    JOB_V1: {"itself": "slurm_job", "slurm_job": "51723", "uid": 2044},
    f"{JOB_V1}/step_batch": {"itself": "slurm_step", "slurm_job": "51723", "slurm_step": "batch", "uid": 2044},
    "/slurm_gpu-04.cl/uid_0/job_9/step_extern/task_0": {
        "itself": "slurm_task", "slurm_node": "gpu-04.cl", "slurm_job": "9", "slurm_step": "extern", "slurm_task": "0",
        "uid": 0,
    },
    "/slurm/uid_2044": {"itself": "slurm_user", "uid": 2044},
    "/slurm": {"itself": "slurm"},
    f"{JOB_V2}/step_12/user/task_3": {
        "itself": "slurm_task", "slurm_job": "51723", "slurm_step": "12", "slurm_task": "3",
        "unit": "slurmstepd.scope", "slice": "system.slice",
    },
    f"{JOB_V2}/step_interactive/user": {
        "slurm_job": "51723", "slurm_step": "interactive", "unit": "slurmstepd.scope", "slice": "system.slice",
    },
    f"{JOB_V2}/step_0/slurm": {
        "slurm_job": "51723", "slurm_step": "0", "unit": "slurmstepd.scope", "slice": "system.slice",
    },
    "/system.slice/n17_slurmstepd.scope/job_8/step_extern/user/task_special": {
        "itself": "slurm_task", "slurm_node": "n17", "slurm_job": "8", "slurm_step": "extern", "slurm_task": "special",
        "unit": "n17_slurmstepd.scope", "slice": "system.slice",
    },
    f"{JOB_V1}/step_0/{ID}": {
        "itself": "container", "container": ID, "slurm_job": "51723", "slurm_step": "0", "uid": 2044,
    },
    # Other batch systems
    f"/ecs/{TASK}/{ID}": {"itself": "container", "container": ID, "ecs_task": TASK},
    f"/ecs/{TASK}": {"itself": "ecs_task", "ecs_task": TASK},
    f"/ecs/{UID}/{ID}": {"itself": "container", "container": ID, "ecs_task": UID},
    f"/ecs/{TASK}/{TASK}-2210344115": {
        "itself": "container", "container": f"{TASK}-2210344115", "ecs_task": TASK,
    },
    f"/ecstasks.slice/ecstasks-{TASK}.slice/docker-{ID}.scope": {
        "itself": "container", "container": ID, "runtime": "docker", "ecs_task": TASK, "unit": f"docker-{ID}.scope",
        "slice": f"ecstasks-{TASK}.slice",
    },
    "/lsf/hpc2/job.7731.20411.1764561000": {"itself": "batch_job", "batch": "LSF", "batch_job": "7731"},
    "/pbs_jobs.service/jobid/1204[7].pbs01": {
        "itself": "batch_job", "batch": "PBS", "batch_job": "1204[7].pbs01", "unit": "pbs_jobs.service",
    },
    # systemd
    "/init.scope": {"itself": "unit", "unit": "init.scope"},
    "/system.slice/containerd.service": {"itself": "unit", "unit": "containerd.service", "slice": "system.slice"},
    r"/system.slice/system-systemd\x2dfsck.slice/systemd-fsck@dev-disk-by\x2duuid-9f.service": {
        "itself": "unit", "unit": r"systemd-fsck@dev-disk-by\x2duuid-9f.service",
        "slice": r"system-systemd\x2dfsck.slice",
    },
    "/system.slice/_memory.service": {"itself": "unit", "unit": "memory.service", "slice": "system.slice"},
    "/azure.slice/walinuxagent.service/run": {"unit": "walinuxagent.service", "slice": "azure.slice"},
    "/azure.slice": {"itself": "slice", "slice": "azure.slice"},
    "/user.slice/user-1007.slice/session-41.scope": {
        "itself": "session", "session": "41", "unit": "session-41.scope", "uid": 1007, "slice": "user-1007.slice",
    },
    "/user.slice/user-1007.slice/session-41.scope/oomtrace-run-ab12": {
        "session": "41", "unit": "session-41.scope", "uid": 1007, "slice": "user-1007.slice",
    },
    "/user.slice/user-1007.slice": {"itself": "user", "uid": 1007, "slice": "user-1007.slice"},
    MANAGER: {"itself": "unit", "unit": "user@1007.service", "uid": 1007, "slice": "user-1007.slice"},
    f"{MANAGER}/app.slice/app-gnome-jupyter-9211.scope": {
        "itself": "user_unit", "user_unit": "app-gnome-jupyter-9211.scope", "unit": "user@1007.service", "uid": 1007,
        "slice": "user-1007.slice",
    },
    f"{MANAGER}/init.scope": {
        "itself": "user_unit", "user_unit": "init.scope", "unit": "user@1007.service", "uid": 1007,
        "slice": "user-1007.slice",
    },
    f"/../../docker/{ID}": {"itself": "container", "container": ID, "runtime": "docker"},
}  # fmt: skip
