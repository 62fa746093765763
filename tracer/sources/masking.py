# SPDX-License-Identifier: Apache-2.0
"""What in a command line looks like a secret, and how it is masked. Pure; rather masks too much.

The shape of a command is kept (which flags, which script), for roles are told from it; values go.
Every repetition in a pattern is bounded or cannot be tried twice: arguments are hostile as well.
"""

import re
from collections.abc import Iterable
from itertools import pairwise

MASK = "***"
ARGUMENT_CHARS = 512
ARGUMENTS = 128
CUT = "…"
"""Ends an argument, or is the last argument, where something was cut."""

_LOOKED_AT_CHARS = 4 * ARGUMENT_CHARS
"""Masking shortens, so a little more is looked at than is kept."""

# As a word of a name: `--hf-token`, `WANDB_API_KEY`, `authToken`, `db.password`; not `--tokenizer`,
# `--max-tokens`, `--keyboard`, `--num-keys`.
_SECRET_WORDS = frozenset({
    "token", "secret", "password", "passwd", "passphrase", "pwd", "pass", "apikey", "accesskey", "secretkey",
    "privatekey", "authkey", "credential", "credentials", "creds", "auth", "authorization", "bearer", "cookie", "jwt",
    "dsn", "sas", "signature",
})  # fmt: skip
_KEYS_OF = ("api", "access", "secret", "private", "auth", "encryption", "account", "license", "ssh", "wandb", "hf")
_SECRET_PAIRS = frozenset((first, second) for first in _KEYS_OF for second in ("key", "keys", "token"))
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_FLAG = re.compile(r"--?[A-Za-z][A-Za-z0-9_.-]{0,128}")
_NAME = re.compile(r"[-+]{0,2}[A-Za-z_][A-Za-z0-9_.+:/-]{0,128}")
_URL_USER = re.compile(r"(?P<scheme>\b[A-Za-z][A-Za-z0-9+.-]{0,30}://)[^/\s@?#]{1,512}@")
_QUERY = re.compile(r"(?P<start>[?&;])(?P<name>[A-Za-z0-9_.-]{1,64})=(?P<value>[^&;\s#]+)")
_HEADER = re.compile(
    r"\b(?P<name>(?:proxy-)?authorization|x-[a-z-]{0,40}(?:key|token)|cookie)\s{0,8}:\s{0,8}.+",
    re.IGNORECASE | re.DOTALL,
)
_VALUE = r"(?P<value>\"[^\"]*\"?|'[^']*'?|[^'\"\s,;)]+)"
_ASSIGNED = re.compile(rf"\b(?P<name>[A-Za-z_][A-Za-z0-9_.-]{{0,64}})(?P<between>['\"]?\s{{0,8}}[=:]\s{{0,8}}){_VALUE}")
_FLAGGED = re.compile(rf"(?<!\S)(?P<name>--?[A-Za-z][A-Za-z0-9_.-]{{0,64}})(?P<between>\s{{1,8}})(?!-){_VALUE}")
_KNOWN = re.compile(
    # Tokens that carry their own mark: Hugging Face, GitHub, GitLab, OpenAI, Anthropic, Slack, AWS, Google, NGC, JWT.
    r"\b(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-[\w-]{16,}"
    r"|xox[abprs]-[\w-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{30,}|nvapi-[\w-]{20,}"
    r"|eyJ[\w-]{10,1024}\.[\w-]{10,1024}[\w.-]*)"
    # W&B keys and their like are bare hex. Hashes are masked with them, which costs nothing; not those in a path.
    r"|(?<![0-9A-Za-z/])(?:[0-9a-fA-F]{64}|[0-9a-fA-F]{40}|[0-9a-fA-F]{32})(?![0-9A-Za-z])"
)


def mask_arguments(arguments: Iterable[str]) -> tuple[str, ...]:
    """A command line that can be kept: secrets masked, bounded in length.

    Masked are the value of a flag or variable with a secret-like name (`--token=X`, `--api-key X`,
    `HF_TOKEN=X`, also within `sh -c "..."`), user and password in a URL, and tokens of known shape.
    """
    masked: list[str] = []
    value_follows = False
    for place, argument in enumerate(arguments):
        if place >= ARGUMENTS:
            masked.append(CUT)
            break
        flag = _FLAG.fullmatch(argument) is not None
        if value_follows and not flag:
            masked.append(MASK)
            value_follows = False
        else:
            value_follows = flag and _is_secret(argument)
            masked.append(_masked(argument))
    return tuple(masked)


def _masked(argument: str) -> str:
    text = argument[:_LOOKED_AT_CHARS]
    name, equals, _ = text.partition("=")
    if equals and _NAME.fullmatch(name) and _is_secret(name):
        return f"{name}={MASK}"
    text = _URL_USER.sub(lambda found: f"{found['scheme']}{MASK}@", text)
    text = _QUERY.sub(lambda found: f"{found['start']}{found['name']}={_value(found)}", text)
    text = _HEADER.sub(lambda found: f"{found['name']}: {MASK}", text)
    for pattern in (_ASSIGNED, _FLAGGED):
        text = pattern.sub(lambda found: f"{found['name']}{found['between']}{_value(found)}", text)
    text = _KNOWN.sub(MASK, text)
    whole = len(argument) <= _LOOKED_AT_CHARS and len(text) <= ARGUMENT_CHARS
    return text if whole else text[:ARGUMENT_CHARS] + CUT


def _value(found: re.Match[str]) -> str:
    return MASK if _is_secret(found["name"]) else found["value"]


def _is_secret(name: str) -> bool:
    words = [word.lower() for word in _WORDS.findall(name)]
    return not _SECRET_WORDS.isdisjoint(words) or not _SECRET_PAIRS.isdisjoint(pairwise(words))
