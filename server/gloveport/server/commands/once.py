"""A request is done once.

Purpose: remember the answer of each changing request in the transaction that did it.
Invariant: the same id with the same content gets the recorded answer; with another content it is refused.
Must never: record an answer of something that was not done.
"""

import hashlib
import json
from dataclasses import dataclass

from pydantic import BaseModel

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.journal.records import REQUEST_ID_CHARS_MAX, ClientRequest, is_name


def fingerprint_of(method: str, params: BaseModel) -> str:
    """SHA-256 of what is asked."""
    body = json.dumps([method, params.model_dump(mode="json")], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()


def checked_id(client_request_id: str) -> str:
    """The id, if it can be recorded. Raises INVALID_PARAMS."""
    if not is_name(client_request_id, REQUEST_ID_CHARS_MAX):
        raise GloveportError(ErrorCode.INVALID_PARAMS, "clientRequestId: printable ASCII without spaces is needed")
    return client_request_id


@dataclass(frozen=True, slots=True)
class Once:
    """The identity of one changing request."""

    client_request_id: str
    fingerprint: str

    def request(self, result: BaseModel) -> ClientRequest:
        """To be written with the doing; `result` is the answer."""
        recorded = {"fingerprint": self.fingerprint, "result": result.model_dump(mode="json")}
        return ClientRequest(self.client_request_id, json.dumps(recorded).encode(), self.fingerprint)

    def recall(self, recorded: bytes, result: type[BaseModel]) -> BaseModel:
        """The answer that was given. Raises CONFLICT when the id was used for something else."""
        plain = json.loads(recorded)
        if plain["fingerprint"] != self.fingerprint:
            raise GloveportError(
                ErrorCode.CONFLICT,
                f"the request id {self.client_request_id!r} was used for another request",
                hint="Use a fresh clientRequestId for each new request.",
            )
        return result.model_validate(plain["result"])
