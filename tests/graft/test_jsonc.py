"""Edits of JSON with comments: the result means what was meant, and nothing else has changed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfrag.graft import jsonc
from infra.errors import CfragError

SOURCE = """\
{
  // the name, with "quotes" and a } in a comment
  "name": "shop", /* and
  another */
  "list": [1, {"a": "// no comment"}],
  "vars": {
    "A": "1", // one
  },
  "empty": {},
}
"""


def test_comments_and_trailing_commas_are_read_over() -> None:
    assert jsonc.parse(SOURCE).plain() == {
        "name": "shop",
        "list": [1, {"a": "// no comment"}],
        "vars": {"A": "1"},
        "empty": {},
    }


@pytest.mark.parametrize("path", [(), ("vars",), ("empty",)])
def test_a_member_is_added_at_the_end_of_an_object(path: tuple[str, ...]) -> None:
    edited = jsonc.insert(SOURCE, path, {"x": [1, 2]}, "new")
    node = jsonc.parse(edited).at(*path)
    assert node is not None
    assert list(node.plain())[-1] == "new"
    assert node.plain()["new"] == {"x": [1, 2]}


def test_an_edit_keeps_every_line_that_it_does_not_concern() -> None:
    edited = jsonc.insert(SOURCE, ("vars",), "2", "B")
    lines = SOURCE.splitlines()
    at = lines.index('    "A": "1", // one')
    assert edited.splitlines() == [*lines[: at + 1], '    "B": "2"', *lines[at + 1 :]]


def test_an_item_is_added_to_an_array_on_one_line() -> None:
    edited = jsonc.insert(SOURCE, ("list",), {"b": 2})
    assert '"list": [1, {"a": "// no comment"}, { "b": 2 }],' in edited


def test_a_comma_goes_in_front_of_the_comment_behind_the_last_member() -> None:
    source = '{\n  "a": 1 // one\n}\n'
    assert jsonc.insert(source, (), 2, "b") == '{\n  "a": 1, // one\n  "b": 2\n}\n'


def test_a_value_is_replaced_where_it_is() -> None:
    assert jsonc.replace(SOURCE, ("vars", "A"), "3") == SOURCE.replace('"A": "1"', '"A": "3"')


def test_tabs_stay_tabs() -> None:
    edited = jsonc.insert('{\n\t"a": {}\n}\n', ("a",), "1", "b")
    assert edited == '{\n\t"a": {\n\t\t"b": "1"\n\t}\n}\n'


@pytest.mark.parametrize(
    ("source", "line"), [('{\n"a" 1}', 2), ('{"a": }', 1), ("{} x", 1), ('{"a": 1\n\n"b": 2}', 3), ("{", 1)]
)
def test_what_is_no_jsonc_is_refused_with_its_line(source: str, line: int) -> None:
    with pytest.raises(CfragError, match=f"^line {line}: "):
        jsonc.parse(source)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=4), JSON, st.sampled_from([None, 2, "\t"]))
def test_whatever_is_added_the_rest_means_the_same(
    before: dict[str, object], value: object, indent: int | str | None
) -> None:
    before.pop("new", None)
    edited = jsonc.insert(json.dumps(before, indent=indent), (), value, "new")
    assert jsonc.parse(edited).plain() == {**before, "new": value}
    assert list(jsonc.parse(edited).plain()) == [*before, "new"]
