"""Layers over defaults: precedence, sources, sentences of errors, differences, secrets."""

from typing import Annotated

import pytest
from pydantic import BaseModel, ConfigDict, Field

from actors.knobs import Knobs
from supervisor.settings.errors import InvalidSettings
from supervisor.settings.render import Layers, diff, render, validate


class Hook(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = "hook"
    token_env: Annotated[str | None, Field(json_schema_extra={"env_name": True})] = None


class Sample(BaseModel):
    model_config = ConfigDict(extra="forbid")

    key_env: str | None = Field(None, json_schema_extra={"env_name": True})
    hooks: list[Hook] = []


def problems_of(layers, schema=Knobs):
    with pytest.raises(InvalidSettings) as caught:
        render(schema, layers)
    return caught.value.problems


def test_render_nothing_gives_the_defaults():
    rendered = render(Knobs, Layers())
    assert rendered.values == Knobs().model_dump(mode="json")
    assert set(rendered.sources.values()) == {"default"}


def test_render_stronger_layer_wins_and_every_value_tells_its_source():
    layers = Layers(
        file={"progress.window": 70, "progress.stall_turns": 20, "run.port": 1},
        environment={"progress.window": 80, "progress.stall_turns": 21},
        runtime={"progress.window": 90},
    )
    rendered = render(Knobs, layers, version=7)
    assert rendered.version == 7
    progress = rendered.values["progress"]
    assert (progress["window"], progress["stall_turns"], rendered.values["run"]["port"]) == (90, 21, 1)
    assert rendered.sources["progress.window"] == "runtime"
    assert rendered.sources["progress.stall_turns"] == "environment"
    assert rendered.sources["run.port"] == "file"
    assert rendered.sources["progress.mode"] == "default"


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (
            "progress.mode",
            "wran",
            'progress.mode = "wran" must be one of warn, auto_compact, auto_limit_context, auto_recover',
        ),
        ("progress.window", 5, "progress.window = 5 must be an integer from 10 to 1000"),
        ("progress.window", "60", 'progress.window = "60" must be an integer from 10 to 1000'),
        ("progress.window", 60.5, "progress.window = 60.5 must be an integer from 10 to 1000"),
        ("progress.dup_warn", 2, "progress.dup_warn = 2 must be a number above 0 to 1"),
        ("notifications.channels", "x", 'notifications.channels = "x" must be a list'),
        (
            "notifications.channels",
            [{"name": "a", "type": "pager"}],
            'notifications.channels[0].type = "pager" must be one of desktop, webhook, ntfy, slack',
        ),
        (
            "notifications.channels",
            [{"type": "desktop", "nmae": "a"}],
            "notifications.channels[0].nmae is not a knob (allowed: name, type, enabled",
        ),
        ("notifications.channels", [{"name": "a"}], "notifications.channels[0].type is missing"),
        (
            "notifications.channels",
            [{"name": "a", "type": "slack"}],
            "notifications.channels[0].url_env is missing",
        ),
        (
            "notifications.channels",
            [{"name": "a", "type": "slack", "url_env": "https://hooks.slack.com/services/T0/B0/secret"}],
            "notifications.channels[0].url_env must be the name of an environment variable, such as API_KEY; a literal",
        ),
        (
            "notifications.channels",
            [{"name": "a", "type": "desktop", "quiet": {"start": "25:00", "end": "07:00"}}],
            'notifications.channels[0].quiet.start = "25:00" must be text like',
        ),
        (
            "notifications.channels",
            [{"name": "a", "type": "desktop", "quiet": {"start": "22:00", "end": "07:00", "zone": "Mars"}}],
            'notifications.channels[0].quiet.zone = "Mars" must be the name of a time zone',
        ),
        (
            "notifications.channels",
            [{"name": "a", "type": "desktop", "title": "$nobody"}],
            'notifications.channels[0].title = "$nobody" must use only $details',
        ),
        (
            "clients.opencode.urls",
            ["ftp://x"],
            'clients.opencode.urls[0] = "ftp://x" must be an http:// or https:// URL',
        ),
        ("progress.stall_turns", 60, "progress.stall_turns = 60 must be at most progress.loop_turns = 50"),
        ("progress.novelty_targets", 61, "progress.novelty_targets = 61 must be at most progress.novelty_calls = 60"),
        ("no.such", 1, "no.such is not a knob"),
    ],
)
def test_render_bad_value_is_one_sentence_with_field_value_and_allowed_set(path, value, sentence):
    (problem,) = problems_of(Layers(file={path: value}))
    assert problem.startswith(sentence)
    assert problem.endswith(("(from the file)", "a literal secret is refused"))
    assert "services/T0" not in problem


def test_render_channel_names_used_twice_are_refused():
    (problem,) = problems_of(Layers(runtime={"notifications.channels": [{"name": "a", "type": "desktop"}] * 2}))
    assert "name 'a' is used 2 times" in problem


@pytest.mark.parametrize(
    "flat", [{"key_env": "sk-very-secret"}, {"hooks": [{"token_env": "sk-very-secret"}]}, {"key_env": 5}]
)
def test_render_literal_secret_is_refused_and_not_repeated(flat):
    (problem,) = problems_of(Layers(file=flat), Sample)
    assert "the name of an environment variable" in problem
    assert "sk-very-secret" not in problem


def test_render_name_of_a_variable_is_no_secret():
    rendered = render(Sample, Layers(file={"key_env": "API_KEY", "hooks": [{"token_env": "TOKEN_2"}]}))
    assert rendered.values["key_env"] == "API_KEY"


def test_diff_lists_what_differs_and_whether_it_is_hot():
    before = render(Knobs, Layers()).values
    after = render(Knobs, Layers(runtime={"progress.window": 61, "run.port": 1, "progress.mode": "warn"})).values
    assert [(change.path, change.before, change.after, change.hot) for change in diff(Knobs, before, after)] == [
        ("progress.window", 60, 61, True),
        ("run.port", 7717, 1, False),
    ]


def test_validate_gives_the_model():
    assert validate(Knobs, {"progress": {"window": 61}}).progress.window == 61
