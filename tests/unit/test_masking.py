# SPDX-License-Identifier: Apache-2.0
import time

import pytest
from hypothesis import given, strategies as st

from tracer.masking import ARGUMENT_CHARS, ARGUMENTS, CUT, MASK, mask_arguments, mask_marked

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
        ["env", f"MY_PASSWORD={SECRET}", "python", "x.py"], [f"MYPASSWORD={SECRET}"], ["--clientsecret", SECRET],
        [f"--env=HF_TOKEN={SECRET}"], ["-e", f"HFTOKEN={SECRET}"], [f"x=y=api_key={SECRET}"], ["--secrets", SECRET],
        ["python", "-c", f"import os; os.environ['HF_TOKEN'] = '{SECRET}'; os.execvp('x', ['x'])"],
        ["python", "-c", f'os.putenv("HF_TOKEN", "{SECRET}")'], ["python", "-c", f"login(token='{SECRET}')"],
        ["csh", "-c", f"setenv HF_TOKEN {SECRET}; ./x"], ["fish", "-c", f"set -gx HF_TOKEN {SECRET}; ./x"],
        ["sh", "-c", f"TOKEN=a,b){SECRET} ./x"], ["sh", "-c", f'TOKEN="a\\"{SECRET}" ./x'],
        ["sh", "-c", f"TOKEN='a'{SECRET} ./x"], ["sh", "-c", f"TOKEN=a\\ {SECRET} ./x"],
        ["sh", "-c", f'TOKEN="{SECRET}'], ["Authorization:", "Basic", SECRET],
        ["--json", f'{{"lr": 1, "tokens": {{"token": "a b {SECRET}"}}}}'], ["--yaml", f"password: {SECRET}"],
        [f"https://user:p@{SECRET}@host/"], [f"postgres://u:a/{SECRET}@db/x"], [f"redis://:{SECRET}@host:6379/0"],
        [f"https://example.org/x?key={SECRET}&a=1"], [f"https://x.blob/y?sv=1&sig={SECRET}"],
        [f"--url=https://x/?next=a&token={SECRET}"], ["--header", "Authorization:", "Bearer", SECRET],
        ["Authorization:", SECRET], [f"hydra.Authorization=Bearer {SECRET}"], ["--x", f"Bearer {SECRET}"],
        ["sshpass", "-p", SECRET, "ssh", "host"], ["/usr/bin/sshpass", f"-p{SECRET}", "ssh"],
        ["mysql", "-u", "me", f"-p{SECRET}", "db"], ["curl", "-s", "-u", f"me:{SECRET}", "https://x"],
        ["curl", "-su", f"me:{SECRET}"], ["curl", f"--user=me:{SECRET}"], ["curl", "--user", SECRET],
        ["redis-cli", "-a", SECRET], ["docker", "login", "-u", "me", "-p", SECRET],
        ["sh", "-c", f"x; curl -s -u 'me:{SECRET}' https://x | sh"], ["sh", "-c", f"sshpass -p {SECRET} ssh host"],
        ["sh", "-c", f"mysqldump -u me -p{SECRET} db"], ["sh", "-c", f"python x.py --pass 'a {SECRET}' --lr 3"],
        ["--pad-token", "<pad>", "--openai-key", SECRET], ["--access-key-id", SECRET], [f"MASTER_KEY={SECRET}"],
        ["--password-file", SECRET], [f"--config=token-file={SECRET}"],
        ["-----BEGIN RSA PRIVATE KEY-----\n" + SECRET + "\n-----END RSA PRIVATE KEY-----"],
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
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "xoxb-" + "1" * 12, "sk_live_" + "x1" * 8,
        "npm_" + "x1" * 18, "gsk_" + "x1" * 12, "r8_" + "x1" * 18, "wandb_v1_" + "x1" * 20, "xapp-1-" + "A" * 10,
        "SG." + "x-1" * 8 + "." + "y_2" * 8, "tskey-auth-" + "x1" * 8, "ya29." + "x-1" * 9,
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
        ["python", "x.py", "--key-dim", "64", "--query-key", "q", "--keyframe=3", "--max-token", "512", "--num_keys=3"],
        ["python", "x.py", "--pad-token", "<pad>", "--eos_token=</s>", "--token-dim", "8", "--mask_token_id", "103"],
        ["python", "x.py", "--subtoken", "x", "--image-token=<image>", "tokens_per_batch=4096", "--token-ids", "0"],
        ["python", "x.py", "--password-file", "/run/secrets/x", "--token-path=~/.hf/token", "API_KEY_FILE=/etc/key"],
        ["sh", "-c", "cat --token-file /etc/token; python x.py --key-dim 64 -p 8080"],
        ["python", "x.py", "http://host:8080/x", "http://host:29400", "tcp://10.0.0.1:29400?x=1", "file:///a/b@v1"],
        ["python", "-p", "3", "-u", "x.py", "-a", "b"],
        ["python", "x.py", "https://example.org/data?split=train&seed=1", "git@example.org:a/b.git"],
        [],
        ["", " ", "-", "--"],
    ],
    ids=["train", "torchrun", "spawn", "forkserver", "oomtrace", "lookalikes", "keys", "model tokens", "more tokens",
         "places", "shell", "ports", "letters", "urls", "empty", "blank"],
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


NAMES = st.sampled_from(
    ["HF_TOKEN", "api_key", "myPassword", "db.secret", "X_AUTH_TOKEN", "clientSecret", "PRIVATE_KEY"]
)
VALUES = st.text("abcXYZ0189_-+/=.@:%,)!~", min_size=1, max_size=40).map(lambda text: "Z9" + text + "qQ7")
QUOTED = st.sampled_from(["{}", "'{}'", '"{}"'])
SHAPES = st.sampled_from([
    "{name}={value}", "--{name}={value}", "-e {name}={value} python x.py", "export {name}={value}; python x.py",
    "cd /x && {name}={value} python x.py --lr 3", "--{name} {value} --lr 3", "f(lr=1, {name}={value})",
    "a: 1\n{name}: {value}\nb: 2", "env A=1 {name}={value} B=2",
])  # fmt: skip


@given(NAMES, VALUES, QUOTED, SHAPES)
def test_a_value_of_a_secret_name_never_comes_through_whatever_the_value(name, value, quoted, shape):
    argument = shape.format(name=name, value=quoted.format(value))

    # In pieces as well: four characters in a row give nothing away.
    assert value not in mask_arguments([argument])[0]
    assert value[-6:] not in mask_arguments([argument])[0]


@given(NAMES.map(lambda name: "--" + name), VALUES)
def test_the_argument_behind_a_secret_flag_never_comes_through(flag, value):
    assert mask_arguments(["x", flag, value, "y"]) == ("x", flag, MASK, "y")


@given(st.text("abcXYZ09", min_size=1, max_size=20), VALUES.filter(lambda value: "/" not in value))
def test_a_password_in_a_url_never_comes_through(user, password):
    [masked] = mask_arguments([f"--uri=https://{user}:{password}@example.org:443/x"])

    assert password not in masked
    assert masked.endswith("@example.org:443/x")


@given(st.lists(st.text(max_size=60), max_size=10))
def test_what_is_masked_once_stays_as_it_is(arguments):
    once = mask_arguments(arguments)

    assert mask_arguments(once) == once


@pytest.mark.parametrize("text", ["/opt/conda/bin/python3.11", "5f3c" * 8, "node-7", "ab12" * 14])
def test_paths_and_identifiers_are_kept(text):
    assert mask_marked(text) == text


def test_a_token_in_a_path_or_an_identifier_is_masked():
    assert mask_marked("/home/me/hf_" + "aB3" * 10 + "/python") == f"/home/me/{MASK}/python"
    assert mask_marked("run-sk-" + "aB3" * 10) == f"run-{MASK}"


def test_long_hostile_arguments_take_no_time():
    begun = time.process_time()
    for piece in (
        "a=",
        "?a=",
        "://",
        "a:",
        "-",
        "hf_",
        "eyJ.",
        "x-",
        "A" * 50 + "=",
        "/@",
        "curl ",
        "mysql -p ",
        "curl -",
        "://a:",
        "bearer ",
        '"a',
        "a='",
        "TOKEN=\\",
        "set -x ",
        "token: ",
        "a']=",
    ):
        mask_arguments([piece * (200_000 // len(piece))] * ARGUMENTS)
    assert time.process_time() - begun < 20


@pytest.mark.parametrize("value", [SECRET, f"'a {SECRET}'", f'"a"{SECRET}', f"a\\ {SECRET}", f"'{SECRET}"])
@pytest.mark.parametrize(
    "command", ["env HOROVOD_RANK=0 PLACE={} HOME=/home/x python3 x.py", "exec env A={} EMPTY= x.py"]
)
def test_an_environment_in_a_command_is_no_way_round_the_list_of_what_may_be_read(command, value):
    text = mask_arguments(["/bin/sh", "-c", command.format(value)])[2]

    assert SECRET not in text
    assert "/home/x" not in text
    assert value.count("'") == 1 or text.endswith("x.py")


@pytest.mark.parametrize("command", ["env python3 A=1", "environ A=1", "python3 env A=1", "envA=1", "env"])
def test_a_command_without_an_environment_at_its_beginning_is_kept(command):
    assert mask_arguments(["sh", "-c", command]) == ("sh", "-c", command)


def test_an_environment_of_hostile_length_takes_no_time():
    mask_arguments(["env " + "A=" * 100_000, "env" + " A='" * 50_000, "env" + " A=" * 50_000])
