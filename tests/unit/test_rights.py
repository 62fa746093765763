# SPDX-License-Identifier: Apache-2.0
"""Acting as someone else: all of it, for as long as it lasts, and only for root."""

import os

import pytest

from tracer.rights import acting_as, as_root

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="acts as another user")
SOMEONE, A_GROUP, ANOTHER_GROUP = 65534, 65533, 65532


def who():
    return os.geteuid(), os.getegid(), os.getgroups()


@needs_root
def test_root_is_the_other_user_inside_and_root_again_outside():
    before = who()
    with acting_as(SOMEONE, A_GROUP, (ANOTHER_GROUP,)):
        assert who() == (SOMEONE, A_GROUP, [ANOTHER_GROUP])

    assert who() == before


@needs_root
def test_without_supplementary_groups_those_of_root_do_not_count():
    with acting_as(SOMEONE, A_GROUP):
        assert os.getgroups() == [A_GROUP]


@needs_root
def test_what_fails_inside_leaves_root_as_it_was():
    before = who()
    with pytest.raises(PermissionError), acting_as(SOMEONE, A_GROUP):
        os.listdir("/root" if os.stat("/root").st_mode & 0o007 == 0 else "/proc/1/fd")

    assert who() == before


@pytest.mark.parametrize("uid, gid", [(None, None), (os.geteuid(), os.getegid()), (os.geteuid(), None)])
def test_acting_as_oneself_changes_nothing(uid, gid):
    before = who()
    with acting_as(uid, gid, ()):
        assert who() == before


@needs_root
def test_who_is_not_root_stays_as_it_is():
    with acting_as(SOMEONE, A_GROUP), acting_as(A_GROUP, SOMEONE, (1,)):
        assert who() == (SOMEONE, A_GROUP, [A_GROUP])


def test_the_words_that_give_roots_rights_find_the_program_where_sudo_does_not_look():
    assert as_root("run -- 'a b'") == "sudo \"$(command -v oomtrace)\" run -- 'a b'"
