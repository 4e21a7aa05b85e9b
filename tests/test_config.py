"""The settings: what a file says, which line is wrong, and edits that leave the rest as it was."""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec
import pytest

from sessionpipe import config
from sessionpipe.config import Config, ConfigError, SinkConfig, load, parse, put_sink, remove_sink

FILE = Path("/settings/config.toml")


def sink(**values: object) -> SinkConfig:
    return SinkConfig(**{"name": "board", "kind": "http", "url": "https://board.example", **values})  # type: ignore[arg-type]


def wrong(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text, FILE)
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix(f"{FILE} ")


# --- reading ----------------------------------------------------------------------------------------


def test_no_file_means_the_defaults(tmp_path: Path) -> None:
    assert load(tmp_path) == Config(machine_name=None, retention_days=30, max_mb=None, sinks=())


def test_everything_a_file_can_say() -> None:
    text = """
    [machine]
    name = "studio"
    [retention]
    days = 7
    max_mb = 500
    [[sinks]]
    name = "board"
    kind = "http"
    url = "https://board.example/events"
    tier = 2
    pii = true
    tools = "main"
    token_env = "BOARD_TOKEN"
    secret_file = "~/secret"
    paused = true
    [[sinks]]
    name = "log"
    kind = "file"
    path = "~/agents.ndjson"
    [[sinks]]
    name = "out"
    kind = "stdout"
    """
    assert parse(text, FILE) == Config(
        machine_name="studio",
        retention_days=7,
        max_mb=500,
        sinks=(
            SinkConfig(
                name="board",
                kind="http",
                url="https://board.example/events",
                tier=2,
                pii=True,
                tools="main",
                token_env="BOARD_TOKEN",
                secret_file="~/secret",
                paused=True,
            ),
            SinkConfig(name="log", kind="file", path="~/agents.ndjson"),
            SinkConfig(name="out", kind="stdout"),
        ),
    )


def test_a_sink_is_tier_0_unless_it_says_more() -> None:
    assert parse('[[sinks]]\nname="o"\nkind="stdout"', FILE).sinks[0].tier == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[machine]\nname = = 1", "line 2 is not TOML: invalid value"),
        ("[[sinks]]\nname = 'a", 'line 2 is not TOML: expected "\'"'),
        ("[machin]\nname = 'x'", "line 1: machin is no setting; did you mean machine?"),
        ("\n[machine]\n\nnam = 'x'", "line 4: [machine] has no setting nam; did you mean name?"),
        ("[retention]\ndays = 0", "line 2: days must be a whole number from 1"),
        ("[retention]\ndays = true", "line 2: days must be a whole number from 1"),
        ("[sinks]\nname = 'a'", "line 1: sinks must be [[sinks]] tables, in double brackets"),
        ("machine = 3", "line 1: machine must be a table: [machine]"),
    ],
)
def test_the_message_names_the_line_and_the_remedy(text: str, message: str) -> None:
    assert wrong(text) == message


FIRST = '[[sinks]]\nname = "one"\nkind = "stdout"\n\n'


@pytest.mark.parametrize(
    ("second", "line", "says"),
    [
        ('name = "two"\nkind = "http"\nteir = 2', 8, "did you mean tier?"),
        ('name = "two"\nkind = "http"\nurl = "http://board.example"', 8, "plain http"),
        ('name = "two"\nkind = "http"\nurl = "ftp://board.example"', 8, "not an http or https URL"),
        ('name = "two"\nkind = "http"', 5, "of kind http needs a url"),
        ('name = "two"\nkind = "file"', 5, "of kind file needs a path"),
        ('name = "two"\nkind = "file"\npath = "agents.ndjson"', 8, "absolute"),
        ('name = "two"\nkind = "stdout"\npath = "/x"', 8, "of kind stdout has no path"),
        ('name = "two"\nkind = "carrier pigeon"', 7, "http, file, stdout, otlp, or what a package"),
        ('kind = "stdout"', 5, "needs a name"),
        ('name = "t w o"\nkind = "stdout"', 6, "1 to 64 of the characters"),
        ('name = "one"\nkind = "stdout"', 6, 'two sinks are named "one"'),
        ('name = "two"\nkind = "stdout"\ntier = 4', 8, "tier must be 0, 1, 2 or 3"),
        ('name = "two"\nkind = "stdout"\ntier = true', 8, "tier must be 0, 1, 2 or 3"),
        ('name = "two"\nkind = "stdout"\ntools = "some"', 8, '"all", "main" or "beat"'),
        (
            'name = "two"\nkind = "http"\nurl = "https://b.example"\ntoken = "x"\ntoken_env = "Y"',
            10,
            "keep one",
        ),
    ],
)
def test_what_is_wrong_with_a_sink_is_found_in_its_own_table(second: str, line: int, says: str) -> None:
    message = wrong(f"{FIRST}[[sinks]]\n{second}\n")
    assert message.startswith(f"line {line}: ") and says in message


@pytest.mark.parametrize(
    "line",
    [
        "url = 'https://user:{}@board.example'",
        "url = 'https://board.example'\ntoken = '{} with a space'",
        "url = 'https://board.example'\nsecret = '{}'",
    ],
)
def test_no_message_repeats_a_credential(line: str) -> None:
    credential = "tok" + "e9" * 12
    assert credential not in wrong(f"[[sinks]]\nname='a'\nkind='http'\n{line.format(credential)}")


def test_plain_http_is_for_this_machine_only() -> None:
    for host in ("localhost", "127.0.0.1:8000", "[::1]:8000"):
        assert config.refuse_url(f"http://{host}/x") is None
    for host in ("board.example", "127.0.0.2", "localhost.example", "10.0.0.1", "[::2]"):
        assert "plain http" in str(config.refuse_url(f"http://{host}/x"))


def test_the_origin_of_a_url_is_what_two_spellings_of_it_share() -> None:
    assert config.origin("https://Board.Example:443/a?b") == "https://board.example"
    assert config.origin("http://[::1]:8000/") == "http://[::1]:8000"


def test_a_byte_order_mark_is_named_since_no_editor_shows_it() -> None:
    with pytest.raises(ConfigError, match=r"config\.toml line 1 begins with a byte order mark; save it as"):
        parse("\ufeff[machine]\n", Path("config.toml"))


def test_an_unreadable_or_undecodable_file_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes(b'[machine]\nname = "\xff"')
    with pytest.raises(ConfigError, match=r"config\.toml is not UTF-8 text"):
        load(tmp_path)
    (tmp_path / "config.toml").unlink()
    (tmp_path / "config.toml").mkdir()
    with pytest.raises(ConfigError, match=r"config\.toml can't be read: it is a folder, not a file"):
        load(tmp_path)


def test_the_repr_of_a_sink_holds_no_credential() -> None:
    token, secret = "tok" + "e7" * 10, "whsec_" + "QUJD" * 8
    shown = repr(sink(token=token, secret=secret))
    assert token not in shown and secret not in shown and "board.example" in shown


# --- editing ----------------------------------------------------------------------------------------

HAND_WRITTEN = """# what my agents may tell

[machine]
name = "studio"   # not the hostname

[[sinks]]
# the big screen
name = "board"
kind = "http"
url = "https://board.example"   # ours
tier = 1

# kept for myself
[[sinks]]
name = "log"
kind = "file"
path = "/var/log/agents.ndjson"
tier = 3

# how long
[retention]
days = 7
"""


def written(tmp_path: Path, text: str = HAND_WRITTEN) -> Path:
    (tmp_path / "config.toml").write_text(text)
    return tmp_path / "config.toml"


def test_changing_one_value_changes_one_line(tmp_path: Path) -> None:
    file = written(tmp_path)
    put_sink(tmp_path, sink(tier=2))
    assert file.read_text() == HAND_WRITTEN.replace("tier = 1\n", "tier = 2\n")


def test_a_value_that_is_new_goes_into_its_table_and_one_that_went_leaves_it(tmp_path: Path) -> None:
    file = written(tmp_path)
    put_sink(tmp_path, sink(tier=1, paused=True))
    assert load(tmp_path).sinks[0].paused
    assert "# the big screen" in file.read_text()
    put_sink(tmp_path, sink(tier=1))
    assert file.read_text() == HAND_WRITTEN


def test_a_new_sink_goes_behind_the_others_and_before_what_follows_them(tmp_path: Path) -> None:
    file = written(tmp_path)
    put_sink(tmp_path, SinkConfig(name="out", kind="stdout"))
    added = '[[sinks]]\nname = "out"\nkind = "stdout"\ntier = 0\n\n'
    assert file.read_text() == HAND_WRITTEN.replace("# how long\n", added + "# how long\n")


def test_removing_a_sink_leaves_every_other_line(tmp_path: Path) -> None:
    file = written(tmp_path)
    assert remove_sink(tmp_path, "board")
    start, end = HAND_WRITTEN.index("[[sinks]]"), HAND_WRITTEN.index("# kept for myself")
    assert file.read_text() == HAND_WRITTEN[:start] + HAND_WRITTEN[end:]


def test_adding_and_removing_give_the_file_back(tmp_path: Path) -> None:
    for text in (HAND_WRITTEN, "", "[machine]\nname = 'x'\n", HAND_WRITTEN.replace("\n", "\r\n")):
        file = tmp_path / "config.toml"
        file.write_bytes(text.encode())
        put_sink(tmp_path, SinkConfig(name="out", kind="stdout"))
        assert load(tmp_path).sink("out") is not None
        assert remove_sink(tmp_path, "out")
        assert file.read_bytes().decode().rstrip() == text.rstrip()


def test_removing_what_is_not_there_changes_nothing(tmp_path: Path) -> None:
    file = written(tmp_path)
    before = file.stat()
    assert not remove_sink(tmp_path, "nobody")
    assert file.stat().st_mtime_ns == before.st_mtime_ns


def test_the_file_is_for_its_owner_alone_and_so_is_a_new_folder(tmp_path: Path) -> None:
    put_sink(tmp_path / "new", sink(token="t" * 20))
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "new" / "config.toml").stat().st_mode) == 0o600


def test_a_linked_file_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    real = tmp_path / "dotfiles" / "sessionpipe.toml"
    real.write_text(HAND_WRITTEN)
    (tmp_path / "config.toml").symlink_to(real)
    put_sink(tmp_path, sink(tier=3))
    assert (tmp_path / "config.toml").is_symlink()
    assert "tier = 3" in real.read_text()


@pytest.mark.parametrize(
    "text",
    [
        "[machine]\nnam = 'x'\n",
        "sinks = [{name = 'a', kind = 'stdout'}]\n",
    ],
)
def test_a_file_that_cannot_be_edited_is_left_alone(tmp_path: Path, text: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(ConfigError):
        put_sink(tmp_path, SinkConfig(name="out", kind="stdout"))
    with pytest.raises(ConfigError):
        remove_sink(tmp_path, "a")
    assert file.read_text() == text
    assert [
        path.name
        for path in tmp_path.iterdir()
        if path.name.startswith(".config.toml.") and "lock" not in path.name
    ] == []


# --- kinds and headers ------------------------------------------------------------------------------

OTLP = '[[sinks]]\nname = "fleet"\nkind = "otlp"\nurl = "https://c.example:4318"\n'
PLUGIN = '[[sinks]]\nname = "r"\nkind = "redis"\n'


def test_a_collector_and_a_kind_of_a_packages_own() -> None:
    text = f"""{OTLP}headers = {{x-key = "a b", x-env = {{env = "KEY"}}, x-file = {{file = "~/key"}}}}
    {PLUGIN}url = "redis://cache.example/0"
    token_file = "~/token"
    headers = {{k = "v"}}
    """
    fleet, other = parse(text, FILE).sinks
    assert fleet.headers == {"x-key": "a b", "x-env": {"env": "KEY"}, "x-file": {"file": "~/key"}}
    assert fleet.target == "otlp:https://c.example:4318"
    assert (other.kind, other.target) == ("redis", "redis://cache.example/0")


@pytest.mark.parametrize(
    ("kind", "url", "target", "shown"),
    [
        ("http", "https://b.example/in?key=7", "https://b.example/in?key=7", "https://b.example/in"),
        ("otlp", "https://c.example?key=7", "otlp:https://c.example?key=7", "otlp:https://c.example"),
        ("redis", "redis://c.example/0?key=7", "redis://c.example/0?key=7", "redis://c.example/0"),
        ("paper", "tray 2", "paper:tray 2", "paper:tray 2"),
        ("paper", "https://p.example", "paper:https://p.example", "paper:https://p.example"),
    ],
)
def test_a_target_is_as_it_is_typed_and_shown_without_a_query(
    kind: str, url: str, target: str, shown: str
) -> None:
    found = SinkConfig(name="s", kind=kind, url=url)
    assert (found.target, found.shown) == (target, shown)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (OTLP + 'headers = "a=b"', 5, "headers must be a table of headers"),
        (OTLP + "headers = {a = 7}", 5, "the value of the header a must be text"),
        (OTLP + 'headers = {"a: word@" = "x"}', 5, "a header's name has no spaces and no colon"),
        (OTLP + 'headers = {Host = "x"}', 5, "the header Host can't be set"),
        (OTLP + 'headers = {a = "word@\\ny"}', 5, "the value of the header a must be text"),
        (OTLP + 'headers = {a = {env = "A", file = "B"}}', 5, "the header a is kept in"),
        (OTLP + "headers = {a = {}}", 5, "the header a is kept in"),
        (OTLP + 'headers = {a = {env = "not a name"}}', 5, "the header a is kept in"),
        (OTLP + 'headers = {a = "1", A = "2"}', 5, "a stands there twice"),
        (OTLP + 'token_env = "T"\nheaders = {Authorization = "x"}', 6, "a token is sent as authorization"),
        (OTLP + 'secret_file = "x"', 5, "of kind otlp has no secret_file"),
        (OTLP + 'path = "/x"', 5, "of kind otlp has no path"),
        ('[[sinks]]\nname = "f"\nkind = "otlp"', 1, "of kind otlp needs a url"),
        (
            '[[sinks]]\nname = "f"\nkind = "fiel"\npath = "/x"',
            4,
            "of kind fiel has no path; did you mean file?",
        ),
        ('[[sinks]]\nname = "f"\nkind = "stdot"', 1, "of kind stdot needs a url; did you mean stdout?"),
        (
            '[[sinks]]\nname = "b"\nkind = "http"\nurl = "https://b.example"\nheaders = {a = "b"}',
            5,
            "has no headers",
        ),
        (OTLP.replace("https", "http"), 4, "plain http"),
        (PLUGIN + 'url = "redis://me:word@c.example"', 4, "holds a password"),
    ],
)
def test_what_is_wrong_with_a_kind_or_a_header_is_found(text: str, line: int, says: str) -> None:
    message = wrong(text)
    assert message.startswith(f"line {line}: ") and says in message and "word@" not in message


def test_headers_are_written_on_the_line_of_their_sink(tmp_path: Path) -> None:
    headers: dict[str, config.Header] = {"x-key": 'a "b"', "x-env": {"env": "KEY"}}
    fleet = SinkConfig(name="fleet", kind="otlp", url="https://c.example", headers=headers)
    put_sink(tmp_path, fleet)
    put_sink(tmp_path, sink(name="later"))
    assert load(tmp_path).sinks == (fleet, sink(name="later"))
    text = (tmp_path / config.FILE).read_text("utf-8")
    assert "[sinks.headers]" not in text and "headers = {" in text
    changed = SinkConfig(name="fleet", kind="otlp", url="https://c.example", headers={"y": "1"}, tier=2)
    put_sink(tmp_path, changed)
    assert load(tmp_path).sink("fleet") == changed
    assert remove_sink(tmp_path, "fleet") and load(tmp_path).sinks == (sink(name="later"),)


def test_headers_in_a_table_of_their_own_are_their_sinks(tmp_path: Path) -> None:
    """As a person may write them: the sink's end is behind them."""
    before = f"# mine\n{OTLP}[sinks.headers]\nx-key = 'a'  # why\n\n"
    after = '[[sinks]]\nname = "out"\nkind = "stdout"\ntier = 9\n'
    assert wrong(before + after).startswith("line 12: tier")
    (tmp_path / config.FILE).write_text(before + after.replace("9", "1"))
    put_sink(tmp_path, SinkConfig(name="log", kind="file", path="/x"))
    assert [one.name for one in load(tmp_path).sinks] == ["fleet", "out", "log"]
    assert (tmp_path / config.FILE).read_text().startswith(before)
    assert remove_sink(tmp_path, "fleet")
    assert [one.name for one in load(tmp_path).sinks] == ["out", "log"]
    assert "x-key" not in (tmp_path / config.FILE).read_text()


@pytest.mark.parametrize("opening", ["[sinks.headers]\n{}\n", "headers = {{{}}}  # mine\n"])
def test_a_header_that_is_changed_leaves_the_others_as_they_are_written(tmp_path: Path, opening: str) -> None:
    inline = opening.startswith("headers")
    lines = (
        ["x-key='a'", "x-env = {env='A'}"] if inline else ["x-key='a'  # why", "# and", "x-env = {env='A'}"]
    )
    (tmp_path / config.FILE).write_text(OTLP + opening.format((", " if inline else "\n").join(lines)))
    fleet = load(tmp_path).sinks[0]
    headers: dict[str, config.Header] = {"x-key": "a", "x-env": {"file": "/b"}, "new": "c"}
    put_sink(tmp_path, msgspec.structs.replace(fleet, headers=headers))
    text = (tmp_path / config.FILE).read_text()
    assert load(tmp_path).sinks[0].headers == headers
    assert all(line in text for line in lines[:-1]) and ("# mine" in text) == inline


def test_what_a_sink_looks_like_in_a_log_has_no_headers_value() -> None:
    assert "hush" not in repr(SinkConfig(name="f", kind="otlp", url="https://c", headers={"k": "hush"}))
