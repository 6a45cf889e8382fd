"""A key goes into its header and nowhere else: not into errors, tracebacks, logs or reprs."""

import json
import logging
import traceback

import pytest
from tests.contract.test_models_contract import REQUEST, make_adapter, read_all
from tests.kit.model_server import Behaviour, Dialect, ModelServer

from gloveport.server.models.contract import ModelError
from gloveport.server.models.guarded_http import Endpoint
from gloveport.server.models.registry import ModelSettings
from gloveport.server.secrets.detect import Redactor
from gloveport.server.secrets.logs import RedactingFilter
from gloveport.server.secrets.value import Secret

KEY = "sk-test-0123456789"
SAID = {"error": {"message": f"Incorrect API key provided: {KEY}.", "type": "authentication_error"}}
EVENT = {"type": "error", **SAID}
DIALECTS: tuple[Dialect, ...] = ("openai", "anthropic")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "behaviour",
    [
        Behaviour(status=401, body=SAID),
        Behaviour(status=500, body={"detail": [KEY] * 3}),
        Behaviour(error_after=(3, EVENT)),
        Behaviour(raw_body=json.dumps(SAID).encode(), headers={"content-type": "application/json"}),
        Behaviour(raw_body=f"data: {KEY}\n\n".encode()),
        Behaviour(cut_after=3),
        Behaviour(),
    ],
    ids=["refused", "server", "event", "json", "malformed", "cut", "well"],
)
async def test_a_key_that_the_server_quotes_is_not_shown(
    dialect: Dialect, behaviour: Behaviour, caplog: pytest.LogCaptureFixture
) -> None:
    """With the control that the server did see the key."""
    caplog.set_level(logging.DEBUG)
    async with ModelServer([behaviour]) as server:
        provider = make_adapter(dialect, server.base_url(dialect), KEY)
        shown = repr(provider)
        try:
            async with provider.stream(REQUEST) as parts:
                shown += "".join([repr(part) async for part in parts])
        except ModelError as err:
            logging.getLogger("test").exception("the request failed")
            shown += "".join(traceback.format_exception(err)) + repr(err) + repr(err.data) + str(err.hint)
        await provider.close()
        assert KEY in server.requests[0].headers["authorization"]
    if behaviour == Behaviour(error_after=(3, EVENT)):
        assert "Incorrect API key" in shown, "the rest of the words is told"
    assert KEY not in shown
    assert KEY not in caplog.text


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("status", [200, 401])
async def test_a_key_in_the_request_id_is_not_shown_either(
    dialect: Dialect, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The libraries log such headers at their lowest level; the filter for log handlers takes the key out."""
    caplog.set_level(logging.DEBUG)
    echo = {"x-request-id": f"req-{KEY}", "request-id": f"req-{KEY}"}
    async with ModelServer([Behaviour(status=status, body=SAID, headers=echo)]) as server:
        provider = make_adapter(dialect, server.base_url(dialect), KEY)
        parts, err = await read_all(provider)
        await provider.close()
    assert KEY not in repr(parts) + repr(err and err.data)
    assert KEY in caplog.text, "the control: without the filter it is there"
    clean = RedactingFilter(Redactor([KEY]))
    assert all(clean.filter(record) for record in caplog.records)
    assert not [record for record in caplog.records if KEY in logging.Formatter().format(record)]


@pytest.mark.parametrize(
    "key", ["sk-\u00e9\u20ac-0123456789", "sk-line\nbreak-0123456789", "sk-\x00-012345", "two words"]
)
def test_a_key_that_no_header_can_carry_is_refused_at_once(key: str) -> None:
    with pytest.raises(ModelError) as caught:
        make_adapter("openai", "http://127.0.0.1:9/v1", key)
    assert caught.value.error_class.value == "auth"
    assert key not in str(caught.value)


def test_settings_and_endpoints_hide_it() -> None:
    secret = Secret(KEY)
    for holder in (
        secret,
        Endpoint("http://127.0.0.1:9", secret),
        ModelSettings("openai", "m", api_key=secret),
    ):
        assert KEY not in f"{holder} {holder!r}"
