# SPDX-License-Identifier: Apache-2.0
"""Commands that start their work elsewhere."""

import shlex

import pytest
from hypothesis import given, strategies as st

from tracer.job.wrapped import recognise

ELSEWHERE = [
    ("docker run --rm -it img python train.py", "docker run"),
    ("docker --context far run img", "docker run"),
    ("docker --host=tcp://x run img", "docker run"),
    ("docker compose -f a.yml up", "docker compose up"),
    ("docker container exec c sh", "docker container exec"),
    ("docker-compose up", "docker-compose up"),
    ("/usr/bin/podman run img", "podman run"),
    ("nerdctl -n k8s.io run img", "nerdctl run"),
    ("ctr -n moby task exec --exec-id 1 c sh", "ctr task exec"),
    ("srun -N2 python train.py", "srun"),
    ("sbatch job.sh", "sbatch"),
    ("salloc -N1", "salloc"),
    ("qsub job.sh", "qsub"),
    ("bsub -I python train.py", "bsub"),
    ("ray job submit -- python train.py", "ray job submit"),
    ("ray submit cluster.yaml train.py", "ray submit"),
    ("kubectl -n ml apply -f job.yaml", "kubectl apply"),
    ("kubectl exec pod -- python x", "kubectl exec"),
    ("helm install x ./chart", "helm install"),
    ("ssh gpu1 python train.py", "ssh"),
    ("systemd-run --user python train.py", "systemd-run"),
    ("sky launch task.yaml", "sky launch"),
    ("modal run train.py", "modal run"),
    ("tmux -L x new-session -d python train.py", "tmux new-session"),
    ("screen -dm python train.py", "screen"),
    # behind others
    ("A=b docker run img", "docker run"),
    ("env -u X A=b docker run img", "docker run"),
    ("nohup nice -n 5 timeout -k 1 5 stdbuf -oL docker run img", "docker run"),
    ("timeout 5 srun x", "srun"),
    ("sudo -u bob -- docker run img", "docker run"),
    ("taskset 0xff setsid -w srun x", "srun"),
    ("bash -c 'docker run img'", "docker run"),
    ("bash -euo pipefail -c 'cd /x && docker run img'", "docker run"),
    ("bash -lc 'set -e\nfor i in 1 2; do\n  A=$i kubectl apply -f x; done'", "kubectl apply"),
    ("sh -c 'true; exec nohup srun python x > log 2>&1 &'", "srun"),
    ("sh -c \"bash -c 'ssh host x'\"", "ssh"),
]
HERE = [
    "",
    "python train.py",
    "torchrun --nproc-per-node 8 train.py",
    "docker ps",
    "docker",
    "docker --help",
    "docker compose ps",
    "kubectl get pods",
    "kubectl -n run get pods",
    "ray start --head",
    "ray status",
    "helm list",
    "tmux ls",
    "systemd-run --scope python train.py",
    "python docker run",
    "echo docker run",
    "bash -c 'echo \"docker run img\"'",
    "bash docker run",
    "bash train.sh -c 'docker run'",
    "bash -c",
    "sh -c 'python train.py --launcher srun'",
    "env",
    "timeout 5",
    "sudo",
    "singularity exec img.sif python x",
    "bash -c 'never closed \\''",
]


@pytest.mark.parametrize("command, launcher", ELSEWHERE, ids=lambda value: value[:40])
def test_a_launcher_whose_work_runs_elsewhere_is_recognised(command, launcher):
    wrapped = recognise(shlex.split(command))

    assert wrapped is not None
    assert wrapped.launcher == launcher


@pytest.mark.parametrize("command", HERE, ids=lambda value: value[:40])
def test_what_runs_below_us_is_left_alone(command):
    try:
        argv = shlex.split(command)
    except ValueError:
        argv = ["bash", "-c", "never closed '"]

    assert recognise(argv) is None


def test_it_says_why_and_the_command_to_use_instead():
    first, second = recognise(["docker", "run", "img"]).lines

    assert first.startswith("docker run: containerd starts the container's processes")
    assert second.endswith("sudo oomtrace attach --pid \"$(docker inspect -f '{{.State.Pid}}' NAME)\"")


def test_where_nothing_can_be_watched_nothing_is_advised():
    assert len(recognise(["modal", "run", "x.py"]).lines) == 1


@given(
    st.lists(
        st.one_of(
            st.text(max_size=20),
            st.sampled_from(["env", "sh", "-c", "--", "docker", "run", "timeout", "A=b", "-lc", ";"]),
        )
    )
)
def test_any_command_line_is_looked_at_without_an_error(argv):
    wrapped = recognise(argv)

    assert wrapped is None or wrapped.lines


def test_a_command_that_wraps_itself_again_and_again_is_given_up():
    text = "srun x"
    for _ in range(12):
        text = f"sh -c {shlex.quote(text)}"

    assert recognise(shlex.split(text)) is None
