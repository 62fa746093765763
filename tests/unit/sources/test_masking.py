# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given, strategies as st

from tracer.sources.masking import ARGUMENT_CHARS, ARGUMENTS, CUT, MASK, mask_arguments

SECRET = "s3cr3t-Value_0123456789"


@pytest.mark.parametrize(
    "arguments",
    [
        [f"--token={SECRET}"], ["--token", SECRET], [f"--hf-token={SECRET}"], ["--api-key", SECRET],
        [f"--apiKey={SECRET}"], [f"-password={SECRET}"], ["--wandb_api_key", SECRET], [f"HF_TOKEN={SECRET}"],
        [f"AWS_SECRET_ACCESS_KEY={SECRET}"], [f"trainer.logger.api_key={SECRET}"], [f"+hub.token={SECRET}"],
        [f"https://user:{SECRET}@example.org/x"], [f"s3://{SECRET}@bucket/x"],
        [f"postgres://u:{SECRET}@db:5432/x?sslmode=require"], [f"https://example.org/x?a=1&access_token={SECRET}"],
        ["sh", "-c", f"export WANDB_API_KEY={SECRET}; python train.py"],
        ["sh", "-c", f"HF_TOKEN='{SECRET}' python train.py --lr 1"], ["bash", "-c", f'login --password "{SECRET}"'],
        ["curl", "-H", f"Authorization: Bearer {SECRET}", "https://example.org"], ["-H", f"X-Api-Key: {SECRET}"],
        ["--auth", SECRET], ["--db-dsn", SECRET], ["--config", f'{{"api_key": "{SECRET}"}}'],
        ["x", f"--password={SECRET} with spaces and\nlines"],
    ],
    ids=lambda arguments: " ".join(arguments)[:40].replace(SECRET, "S"),
)  # fmt: skip
def test_what_looks_like_a_secret_is_masked(arguments):
    masked = mask_arguments(arguments)

    assert SECRET not in " ".join(masked)
    assert MASK in " ".join(masked)


@pytest.mark.parametrize(
    "token",
    [
        "hf_" + "aB3" * 10, "ghp_" + "x1" * 18, "github_pat_" + "1A_" * 9, "glpat-" + "x-1" * 6, "sk-" + "proj-aB3" * 4,
        "AKIA" + "Q7" * 8, "AIza" + "x_1" * 11, "nvapi-" + "x1" * 12, "0123456789abcdef" * 2 + "01234567",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "xoxb-" + "1" * 12,
    ],
    ids=lambda token: token[:6],
)  # fmt: skip
def test_tokens_of_a_known_shape_are_masked_wherever_they_stand(token):
    masked = mask_arguments(["run.py", token, f"--tag=x:{token}", f"login {token} now"])

    assert token not in " ".join(masked)


@pytest.mark.parametrize(
    "arguments",
    [
        ["/opt/conda/bin/python", "-u", "train.py", "--tokenizer", "gpt2", "--max-tokens", "4096", "--lr=1e-4"],
        ["torchrun", "--nproc-per-node", "8", "--rdzv-endpoint=host:29400", "train.py", "--num-keys=4"],
        ["python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)",
         "--multiprocessing-fork"],
        ["python", "-c", "from multiprocessing.forkserver import main; main(7, 8, ['__main__'], **{'sys_path': ['']})"],
        ["python", "-m", "tracer", "run", "--memory-max", "64G", "--", "python", "x.py", "--local_rank=3"],
        ["python", "x.py", "--keyboard", "qwerty", "--passes=3", "--compass", "north", "--author", "me"],
        ["python", "x.py", "https://example.org/data?split=train&seed=1", "git@example.org:a/b.git"],
        [],
        ["", " ", "-", "--"],
    ],
    ids=["train", "torchrun", "spawn", "forkserver", "oomtrace", "lookalikes", "urls", "empty", "blank"],
)  # fmt: skip
def test_what_rules_need_is_left_as_it_is(arguments):
    assert mask_arguments(arguments) == tuple(arguments)


def test_the_shape_of_the_command_is_kept():
    assert mask_arguments(["train.py", "--token", SECRET, "--rank", "3", f"--key-token={SECRET}"]) == (
        "train.py", "--token", MASK, "--rank", "3", f"--key-token={MASK}",
    )  # fmt: skip


def test_a_flag_after_a_secret_flag_is_no_value():
    assert mask_arguments(["--use-auth", "--epochs", "3"]) == ("--use-auth", "--epochs", "3")


def test_length_and_number_are_bounded_and_the_cut_is_visible():
    (long,) = mask_arguments(["x" * 100_000])
    many = mask_arguments(["x"] * 100_000)

    assert long == "x" * ARGUMENT_CHARS + CUT
    assert many == ("x",) * ARGUMENTS + (CUT,)


def test_a_secret_is_masked_before_it_is_cut():
    (argument,) = mask_arguments(["x" * (ARGUMENT_CHARS - 10) + f" API_KEY={SECRET}"])

    assert SECRET[:4] not in argument


@given(st.lists(st.text(max_size=60), max_size=10))
def test_no_argument_makes_it_fail_and_none_is_lost(arguments):
    assert len(mask_arguments(arguments)) == len(arguments)


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_secret_flag_hides_its_value_whatever_stands_around(before, after):
    masked = mask_arguments([before, f"--api-key={SECRET}", after])

    assert SECRET not in "".join(masked)
    assert f"--api-key={MASK}" in masked or MASK in masked


@pytest.mark.timeout(20)
def test_long_hostile_arguments_take_no_time():
    for piece in ("a=", "?a=", "://", "a:", "-", "hf_", "eyJ.", "x-", "A" * 50 + "=", "/@"):
        mask_arguments([piece * (200_000 // len(piece))] * ARGUMENTS)
