# SPDX-License-Identifier: Apache-2.0
"""Times as people and programs write them before a line: what is not there stays unknown."""

from typing import NamedTuple

_DAYS_BEFORE = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)

_LANGUAGES = (
    "jan feb mar apr may jun jul aug sep oct nov dec",
    "january february march april may june july august september october november december",
    "jan feb mär apr mai jun jul aug sep okt nov dez",  # German; jän in Austria
    "jän febr märz april mai juni juli aug sept okt nov dez",
    "janv févr mars avr mai juin juil août sept oct nov déc",
    "ene feb mar abr may jun jul ago sep oct nov dic",
    "gen feb mar apr mag giu lug ago set ott nov dic",
    "jan fev mar abr mai jun jul ago set out nov dez",
    "jan feb mrt apr mei jun jul aug sep okt nov dec",
    "jan feb mar apr maj jun jul aug sep okt nov dec",  # Swedish, Danish
    "sty lut mar kwi maj cze lip sie wrz paź lis gru",
    "led úno bře dub kvě čen čec srp zář říj lis pro",
    "oca şub mar nis may haz tem ağu eyl eki kas ara",
    "янв фев мар апр май июн июл авг сен окт ноя дек",
    "янв фев марта апр мая июня июля авг сент окт нояб дек",
    "січ лют бер кві тра чер лип сер вер жов лис гру",  # noqa: RUF001 - these letters are meant
)
MONTHS: dict[str, int] = {name: number for names in _LANGUAGES for number, name in enumerate(names.split(), 1)} | {
    f"{number}{sign}": number for number in range(1, 13) for sign in "月월"
}
"""By the names of locales, in lower case and without a full stop. No two languages mean different months by one."""


class WallTime(NamedTuple):
    """A time of day and its date, as far as they were written."""

    month: int
    day: int
    hour: int
    minute: int
    second: int
    nanosecond: int = 0
    year: int | None = None
    offset_minutes: int | None = None
    """East of UTC; `None`: the zone is unknown."""

    def __str__(self) -> str:
        year = "--" if self.year is None else f"{self.year:04d}-"
        text = f"{year}{self.month:02d}-{self.day:02d}T{self.hour:02d}:{self.minute:02d}:{self.second:02d}"
        if self.nanosecond:
            text += f".{self.nanosecond:09d}".rstrip("0")
        if self.offset_minutes is None:
            return text
        hours, minutes = divmod(abs(self.offset_minutes), 60)
        return f"{text}{'-' if self.offset_minutes < 0 else '+'}{hours:02d}:{minutes:02d}"

    def utc_ns(self, *, year: int | None = None, offset_minutes: int | None = None) -> int | None:
        """Since the epoch; the caller may assume what is unknown here. `None`: the year is unknown all the same."""
        full = self.year if self.year is not None else year
        offset = self.offset_minutes if self.offset_minutes is not None else offset_minutes or 0
        if full is None:
            return None
        before = full - 1
        leap = full % 4 == 0 and (full % 100 != 0 or full % 400 == 0)
        days = before * 365 + before // 4 - before // 100 + before // 400 - 719162
        days += _DAYS_BEFORE[self.month - 1] + (1 if leap and self.month > 2 else 0) + self.day - 1
        seconds = days * 86400 + self.hour * 3600 + (self.minute - offset) * 60 + self.second
        return seconds * 1_000_000_000 + self.nanosecond


def month_of(word: str) -> int | None:
    """The month that a name of it means in one of the languages above; `None`: no such name."""
    name = word.rstrip(".,").lower()
    return MONTHS.get(name) or MONTHS.get(name[:4]) or (MONTHS.get(name[:3]) if name.isalpha() else None)


def wall_time(parts: dict[str, str | None]) -> WallTime | None:
    """From the groups `year month day hour minute second fraction zone`; `None`: that is no time."""
    written = parts.get("month") or ""
    month = int(written) if written.isascii() and written.isdigit() else month_of(written)
    year = parts.get("year")
    day, hour, minute, second = (int(parts[name] or 0) for name in ("day", "hour", "minute", "second"))
    if month is None or not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second <= 60):
        return None
    nanosecond = int(((parts.get("fraction") or "") + "0" * 9)[:9])
    return WallTime(
        month, day, hour, minute, second, nanosecond, None if year is None else int(year), _offset(parts.get("zone"))
    )


def from_epoch_usec(usec: int) -> WallTime | None:
    """As the journal's JSON has it, in UTC."""
    seconds, rest = divmod(usec, 1_000_000)
    if not 0 <= seconds < 1 << 36:
        return None
    days, of_day = divmod(seconds, 86400)
    # Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms": civil_from_days.
    era, day_of_era = divmod(days + 719468, 146097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = year_of_era + era * 400 + (1 if month <= 2 else 0)
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    return WallTime(month, day, of_day // 3600, of_day // 60 % 60, of_day % 60, rest * 1000, year, 0)


def _offset(zone: str | None) -> int | None:
    if zone is None:
        return None
    if zone in ("Z", "UTC", "GMT"):
        return 0
    if zone[0] not in "+-":
        return None  # CEST and the like: several zones share a name
    minutes = int(zone[1:3]) * 60 + (int(zone[-2:]) if len(zone) > 3 else 0)
    return -minutes if zone[0] == "-" else minutes
