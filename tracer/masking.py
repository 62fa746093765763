# SPDX-License-Identifier: Apache-2.0
"""What in a command line, or in any text, looks like a secret, and how it is masked. Pure; rather masks too much.

The shape of a command is kept (which flags, which script), for roles are told from it; values go.
Every repetition in a pattern is bounded or cannot be tried twice: arguments are hostile as well.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

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
    "token", "pwd", "pass", "authkey", "creds", "auth", "authorization", "bearer", "cookie", "jwt", "dsn", "sas", "sig",
    "signature",
})  # fmt: skip
# Wherever in a name they stand, with or without anything between the words: `MYPASSWORD`, `clientsecret`.
_SECRET_PARTS = re.compile(
    "password|passwd|passphrase|secret|credential|(?:api|access|private|encryption|signing)key|(?:auth|access)token"
)
_KEYS_OF = (
    "api", "access", "secret", "private", "auth", "encryption", "account", "license", "ssh", "signing", "master",
    "wandb", "hf", "openai", "anthropic", "aws", "azure", "gcp", "google", "comet", "neptune", "ngc", "github",
    "gitlab",
)  # fmt: skip
_SECRET_PAIRS = frozenset((first, second) for first in _KEYS_OF for second in ("key", "keys", "token"))
# `--pad-token "<pad>"`, `--token-dim 64`: what a language model means by it.
_TOKEN_OF_A_MODEL = frozenset({
    "pad", "eos", "bos", "unk", "sep", "cls", "mask", "special", "stop", "start", "end", "begin", "image", "audio",
    "video", "text", "num", "max", "min", "per", "next", "last", "first", "prefix", "sub", "de", "pre",
})  # fmt: skip
_ABOUT_A_TOKEN = frozenset({
    "dim", "size", "len", "length", "count", "counts", "limit", "budget", "id", "ids", "type", "types", "embedding",
    "mixing", "dropout", "merging", "pruning", "level", "shift",
})  # fmt: skip
_PLACES = frozenset({"file", "path", "dir", "folder"})
"""As the last word of a name: its value says where a secret lies, if it is a path."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_FLAG = re.compile(r"--?[A-Za-z][A-Za-z0-9_.-]{0,128}")
_NAME = re.compile(r"[-+]{0,2}[A-Za-z_][A-Za-z0-9_.+:/-]{0,128}")
_URL_USER = re.compile(
    # A password may hold a slash or an @ that nobody escaped; HOST:PORT/ is none.
    r"(?P<scheme>\b[A-Za-z][A-Za-z0-9+.-]{0,30}://)"
    r"(?:[^/\s@:?#'\"]{0,128}:(?!\d{1,5}[/?#\s]|\d{1,5}$)[^\s'\"]{1,512}|[^/\s?#'\"]{1,512})@"
)
_QUERY = re.compile(r"[?&;](?P<name>[A-Za-z0-9_.-]{1,64})=(?P<value>[^&;\s#]+)")
_HEADER = re.compile(
    r"\b(?P<name>(?:proxy-)?authorization|x-[a-z-]{0,40}(?:key|token|auth|secret)|cookie)\s{0,8}:\s{0,8}.+",
    re.IGNORECASE | re.DOTALL,
)
_SCHEMES = frozenset({"bearer", "basic", "token"})
"""As a word of its own behind `Authorization:`: the secret comes next."""
_BEARER = re.compile(r"\b(?P<word>bearer)\s{1,8}[^\s'\"]+", re.IGNORECASE)
# What a shell, Python or JSON takes for one value: quoted pieces, escaped characters and plain ones.
_A_VALUE = r"(?:\"(?:[^\"\\]|\\.)*(?:\"|\\?$)|'[^']*(?:'|$)|\\.|[^\s;&|'\"\\])+"
_VALUE = re.compile(_A_VALUE, re.DOTALL)
_ASSIGNED = re.compile(
    # NAME=VALUE, "NAME": "VALUE", environ['NAME'] = VALUE, putenv("NAME", "VALUE")
    r"\b(?P<name>[A-Za-z_][A-Za-z0-9_.-]{0,64})(?:['\"]?\]?\s{0,8}[=:]\s{0,8}|['\"]\s{0,8},\s{0,8}(?=['\"]))"
)
# Horovod gives a shell the whole environment of each rank in its command: `env HOROVOD_RANK=0 HOME=/home/x ... python`.
_ENV = re.compile(r"\s{0,8}(?:exec\s{1,8})?env(?=\s)")
_OF_ENV = re.compile(rf"(?P<before>\s{{1,8}}[A-Za-z_][A-Za-z0-9_]{{0,64}}=)(?:{_A_VALUE})?", re.DOTALL)
_SET = re.compile(r"\b(?:setenv|set\s{1,8}-[a-z]{1,3})\s{1,8}(?P<name>[A-Za-z_][A-Za-z0-9_]{0,64})\s{1,8}")
_FLAGGED = re.compile(r"(?<!\S)(?P<name>--?[A-Za-z][A-Za-z0-9_.-]{0,64})\s{1,8}(?!-)")
# Programs that take a password behind a letter of their own, be it a word by itself or not.
_LETTERS = {
    "sshpass": "-p", "mysql": "-p", "mysqldump": "-p", "mysqladmin": "-p", "mariadb": "-p", "mariadb-dump": "-p",
    "docker": "-p", "podman": "-p", "redis-cli": "-a", "smbclient": "-U", "ldapsearch": "-w",
    "curl": "(?:-[A-Za-z]{0,4}u|--(?:proxy-)?user)",
}  # fmt: skip
_LETTERED = {
    program: re.compile(
        rf"(?P<before>(?<![\w.-]){program}(?:\s{{1,8}}[^\s;|&]{{1,128}}){{0,16}}?\s{{1,8}}{letter}[\s=]{{0,8}}){_A_VALUE}",
        re.DOTALL,
    )
    for program, letter in _LETTERS.items()
}
_MARKED = re.compile(
    # Tokens that carry their own mark: Hugging Face, GitHub, GitLab, OpenAI, Anthropic, Slack, AWS, Google, NGC, JWT,
    # Stripe, npm, Groq, Replicate, W&B, SendGrid, Tailscale.
    r"(?<![A-Za-z0-9])(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|sk-[\w-]{16,}|[srp]k_(?:live|test)_\w{10,}|xox[abeprs]-[\w-]{10,}|xapp-[\w-]{10,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{30,}|ya29\.[\w-]{20,}|nvapi-[\w-]{20,}|npm_[A-Za-z0-9]{30,}"
    r"|gsk_[A-Za-z0-9]{20,}|r8_[A-Za-z0-9]{30,}|wandb_v\d_\w{20,}|SG\.[\w-]{16,}\.[\w-]{16,}|tskey-[\w-]{10,}"
    r"|eyJ[\w-]{10,1024}\.[\w-]{10,1024}[\w.-]*)"
)
_PEM = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*", re.DOTALL)
_HEX = re.compile(
    # W&B keys and their like are bare hex. Hashes are masked with them, which costs nothing; not those in a path.
    r"(?<![0-9A-Za-z/])(?:[0-9a-fA-F]{64}|[0-9a-fA-F]{40}|[0-9a-fA-F]{32})(?![0-9A-Za-z])"
)

_HEX_KEY = re.compile(r"(?<![0-9A-Za-z/])(?:[0-9a-fA-F]{40}|[0-9a-fA-F]{32})(?![0-9A-Za-z])")
_MAY_HOLD_ONE = re.compile(
    # One of these is in every text that the patterns above find something in.
    r"://|key|tok|pas|pwd|phrase|secret|cred|auth|bearer|cookie|jwt|dsn|sig|hf_|gh[pousr]_|glpat|sk-|k_live|k_test"
    r"|xox|xapp|AKIA|ASIA|AIza|ya29|nvapi|npm_|gsk_|r8_|wandb_v|SG\.|eyJ|[0-9a-f]{32}"
    r"|mysql|docker|podman|redis-cli|mariadb|smbclient|ldapsearch|curl",
    re.IGNORECASE,
)
"""A search that most lines of a log end with."""
_OF_PLACES = frozenset({"cgroup", "container", "cpuset", "memcg", "oom_memcg", "task_memcg", "unit"})


def mask_arguments(arguments: Iterable[str]) -> tuple[str, ...]:
    """A command line that can be kept: secrets masked, bounded in length.

    Masked are the value of a flag or variable with a secret-like name (`--token=X`, `--api-key X`,
    `HF_TOKEN=X`, also within `sh -c "..."`), user and password in a URL, and tokens of known shape.
    """
    masked: list[str] = []
    before = letter = ""
    for place, argument in enumerate(arguments):
        if place >= ARGUMENTS:
            masked.append(CUT)
            break
        letter = _LETTERS.get(argument.rpartition("/")[2], letter)
        if (
            (_announces(before) or (letter and re.fullmatch(letter, before)))
            and not _FLAG.fullmatch(argument)
            and not _says_where(before, argument)
        ):
            masked.append(MASK)
            before = "bearer" if argument.lower() in _SCHEMES else ""
        else:
            attached = re.match(f"{letter}=?(?=.)", argument, re.DOTALL) if letter else None
            masked.append(attached[0] + MASK if attached else _masked(argument))
            before = argument
    return tuple(masked)


def _announces(argument: str) -> bool:
    """Whether the next argument is a secret."""
    if argument.lower() == "bearer":
        return True
    if argument.endswith(":"):  # `Authorization: X` that no quotes hold together
        return _NAME.fullmatch(argument) is not None and _is_secret(argument)
    return _FLAG.fullmatch(argument) is not None and _is_secret(argument)


def mask_marked(text: str) -> str:
    """A path or an identifier that can be kept: tokens of known shape and passwords in URLs are masked."""
    text = _URL_USER.sub(lambda found: f"{found['scheme']}{MASK}@", text)
    return _PEM.sub(MASK, _MARKED.sub(MASK, text))


def _masked(argument: str) -> str:
    text = argument[:_LOOKED_AT_CHARS]
    name, equals, value = text.partition("=")
    if equals and _NAME.fullmatch(name) and _is_secret(name):
        return argument if _says_where(name, value) else f"{name}={MASK}"
    text = mask_text(_without_environment(text))
    whole = len(argument) <= _LOOKED_AT_CHARS and len(text) <= ARGUMENT_CHARS
    return text if whole else text[:ARGUMENT_CHARS] + CUT


def _without_environment(text: str) -> str:
    """A command that begins with variables, without their values: those that say something are read elsewhere."""
    begun = _ENV.match(text)
    if begun is None:
        return text
    kept, at = [begun[0]], begun.end()
    while (found := _OF_ENV.match(text, at)) is not None:
        kept.append(found["before"] + MASK)
        at = found.end()
    return "".join((*kept, text[at:]))


def mask_text(text: str) -> str:
    """Anything that somebody wrote: also what stands behind a secret-like name, wherever that is."""
    return _HEX.sub(MASK, _without_named(text))


def mask_line(text: str) -> str:
    """A line of a log, before it is cut to what is kept: as `mask_text`, but for ids of containers (64 hex digits)."""
    return _HEX_KEY.sub(MASK, _without_named(text)) if _MAY_HOLD_ONE.search(text) else text


def mask_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What a line was taken apart to: every text as `mask_line` leaves it, and ids and paths with their digits."""
    return {
        name: (mask_marked if name in _OF_PLACES else mask_line)(value) if isinstance(value, str) else value
        for name, value in fields.items()
    }


def _without_named(text: str) -> str:
    text = _HEADER.sub(lambda found: f"{found['name']}: {MASK}", mask_marked(text))
    text = _BEARER.sub(lambda found: f"{found['word']} {MASK}", text)
    for program, pattern in _LETTERED.items():
        if program in text:
            text = pattern.sub(lambda found: found["before"] + MASK, text)
    text = _QUERY.sub(_without_value, text)
    for pattern in (_ASSIGNED, _SET, _FLAGGED):
        text = _without_values(pattern, text)
    return text


def _without_values(pattern: re.Pattern[str], text: str) -> str:
    """Mask what follows each match with a secret name. A value that is none may hold another: `--env=TOKEN=X`."""
    kept: list[str] = []
    at = 0
    for found in pattern.finditer(text):
        if found.end() <= at or not _is_secret(found["name"]):
            continue
        value = _VALUE.match(text, found.end())
        if value is None or _says_where(found["name"], value[0].strip("'\"")):
            continue
        kept += (text[at : found.end()], MASK)
        at = value.end()
    return "".join((*kept, text[at:]))


def _without_value(found: re.Match[str]) -> str:
    secret = found["name"].lower() == "key" or _is_secret(found["name"])
    return found[0][: -len(found["value"])] + MASK if secret else found[0]


def _is_secret(name: str) -> bool:
    words = [word.lower() for word in _WORDS.findall(name)]
    if _SECRET_PARTS.search("".join(words)) or not _SECRET_PAIRS.isdisjoint(pairwise(words)):
        return True
    return any(_is_secret_word(words, place) for place in range(len(words)))


def _is_secret_word(words: list[str], place: int) -> bool:
    word = words[place]
    if not word.endswith("token"):
        return word in _SECRET_WORDS
    # One word or two: `--hftoken` as `--hf-token`, `--padtoken` as `--pad-token`.
    before = word.removesuffix("token") or (words[place - 1] if place else "")
    after = words[place + 1] if place + 1 < len(words) else ""
    return before not in _TOKEN_OF_A_MODEL and after not in _ABOUT_A_TOKEN


def _says_where(name: str, value: str) -> bool:
    words = _WORDS.findall(name)
    return bool(words) and words[-1].lower() in _PLACES and value.startswith(("/", "./", "../", "~/"))
