"""Asks a server that speaks the OpenAI completions interface, one prompt a place of the scan.

The key, where one is needed, comes from the environment (OPENAI_API_KEY, or the variable that is named), never from the command line.
A request that fails for want of the server (connection, time-out, a reply cut short, 408, 429, 5xx) is tried again after a pause that
doubles; other refusals end the scan.
"""

from __future__ import annotations

import http.client
import json
import os
import time
import urllib.error
import urllib.request

from . import texts

LARGEST_REPLY = 64 << 20  # bytes; the log-probabilities of a prompt of 100,000 tokens are a tenth of it
RETRIED = {408, 409, 425, 429, 500, 502, 503, 504}


class EndpointError(OSError):
    """The server could not be asked."""


class Endpoint:
    def __init__(self, url: str, model: str, *, chat: bool = False, timeout: float = 60, retries: int = 4, pause: float = 0.5,
                 key_variable: str = "OPENAI_API_KEY"):
        base = url.rstrip("/")
        self.url = (base if base.endswith("/v1") else base + "/v1") + ("/chat/completions" if chat else "/completions")
        self.model, self.chat, self.timeout, self.retries, self.pause = model, chat, timeout, retries, pause
        self.key = os.environ.get(key_variable, "")
        self.seconds = 0.0  # what the last answer took, without the attempts that failed before it

    def _post(self, body: dict) -> dict:
        if not self.url.startswith(("http://", "https://")):
            raise EndpointError(f"{self.url}: expected a URL that begins with http:// or https://")
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        request = urllib.request.Request(self.url, json.dumps(body).encode(), headers)
        for attempt in range(self.retries + 1):
            began = time.monotonic()
            try:
                told = self._read(request, began + self.timeout)
                self.seconds = time.monotonic() - began
                return json.loads(told)
            except urllib.error.HTTPError as error:
                if error.code not in RETRIED or attempt == self.retries:
                    raise EndpointError(f"{self.url}: {error.code} {error.reason}: {_beginning(error)}") from error
            except (urllib.error.URLError, TimeoutError, ConnectionError, http.client.IncompleteRead) as error:
                if attempt == self.retries:
                    cut = isinstance(error, http.client.IncompleteRead)
                    raise EndpointError(f"{self.url}: {'the reply was cut short' if cut else getattr(error, 'reason', error)} after "
                                        f"{attempt + 1} attempt{'s' if attempt else ''}") from error
            except http.client.HTTPException as error:
                raise EndpointError(f"{self.url}: the reply is not HTTP ({type(error).__name__})") from error
            except ValueError as error:
                raise EndpointError(f"{self.url}: the reply is not JSON") from error
            time.sleep(self.pause * 2 ** attempt)
        raise AssertionError("the last attempt returns or raises")

    def _read(self, request: urllib.request.Request, deadline: float) -> bytes:
        """The whole reply. `timeout` alone is of one wait for the network: a server that sends a byte now and then never exceeds it."""
        with urllib.request.urlopen(request, timeout=self.timeout) as reply:
            told = b""
            while part := reply.read1(1 << 16):
                told += part
                if len(told) > LARGEST_REPLY:
                    raise EndpointError(f"{self.url}: the reply is larger than {LARGEST_REPLY >> 20} MiB")
                if time.monotonic() > deadline:
                    raise TimeoutError(f"no whole reply in {self.timeout:g} s")
            length = reply.headers.get("Content-Length", "")
        if not told or length.isdigit() and len(told) < int(length):
            raise http.client.IncompleteRead(told)
        return told

    def _choice(self, body: dict) -> tuple[dict, dict]:
        reply = self._post(body)
        try:
            choice, usage = reply["choices"][0], reply.get("usage")
        except (KeyError, IndexError, TypeError) as error:
            raise EndpointError(f"{self.url}: the reply has no choices: {str(reply)[:200]}") from error
        if not isinstance(choice, dict):
            raise EndpointError(f"{self.url}: the reply's choice is no object: {str(choice)[:200]}")
        return choice, usage if isinstance(usage, dict) else {}

    def ask(self, prompt: str, lead: str, max_tokens: int) -> tuple[str, int | None]:
        """What follows `lead`, and the prompt's length in tokens where the server tells it."""
        body = {"model": self.model, "max_tokens": max_tokens, "temperature": 0}
        if self.chat:
            body["messages"] = [{"role": "user", "content": f"{prompt}\nBegin your answer with: {lead.strip()}"}]
        else:
            body["prompt"] = prompt + lead
        choice, usage = self._choice(body)
        message = choice.get("message") if self.chat else None
        text = (message.get("content") if isinstance(message, dict) else None) if self.chat else choice.get("text")
        if not isinstance(text, str):
            raise EndpointError(f"{self.url}: the reply holds no text")
        text = text.strip()
        if self.chat and text.startswith(lead.strip()):
            text = text[len(lead.strip()):]
        tokens = usage.get("prompt_tokens")
        return text.strip(), tokens if isinstance(tokens, int) else None

    def logprob(self, text: str, answer: str) -> float | None:
        """Log-probability of `answer` behind `text`: the server repeats the prompt with its log-probabilities. None where it does not."""
        choice, _ = self._choice({"model": self.model, "prompt": text + answer, "max_tokens": 1, "temperature": 0, "echo": True,
                                  "logprobs": 1})
        told = choice.get("logprobs") or {}
        values, tokens = told.get("token_logprobs"), told.get("tokens")
        if not values or not tokens or len(values) != len(tokens) or not all(isinstance(token, str) for token in tokens):
            return None
        # Offsets count a <s> that the server puts in front, or do not: the answer is found from the end, behind the words that lead to it.
        lead = text.rsplit("\n", 1)[-1]
        found = "".join(tokens).rfind(lead + answer)
        if found < 0:
            return None
        begin, inside, at = found + len(lead), [], 0
        for value, token in zip(values, tokens):
            if at < begin + len(answer) and at + len(token) > begin:
                inside.append(value)
            at += len(token)
        return float(sum(inside)) if inside and None not in inside else None


def _beginning(error: urllib.error.HTTPError) -> str:
    """Of what the server says of its refusal; it may break off."""
    try:
        return error.read(300).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException, ValueError):
        return ""


def score(text: str, answer: str) -> float:
    """Share of the answer's characters that are right before the first wrong one. Example: "15x0" for "1560": 0.5."""
    answer, same = answer.strip(), 0
    for got, wanted in zip(text.strip(), answer):
        if got != wanted:
            break
        same += 1
    return same / len(answer)


def written(probe: texts.Probe, text_kind: str, seed: int, characters: int, before: int, prefix: int, control: bool = False) -> str:
    """The text with the fact behind `before` of its characters and `prefix` characters of filler in front, cut exactly; then the
    question."""
    fact = probe.control if control else probe.facts[0]
    free = characters - len(fact) - sum(map(len, probe.facts[1:]))
    body = _cut(texts.pieces(text_kind, seed), free)
    rest, behind = body[before:], ""
    for number, other in enumerate(probe.facts[1:]):
        share = len(rest) // (len(probe.facts) - number)
        behind, rest = behind + rest[:share] + other, rest[share:]
    return _cut(texts.pieces(text_kind, seed + 1_000_000), prefix) + body[:before] + fact + behind + rest + f"\n\n{probe.question}\n"


def _cut(pieces, characters: int) -> str:
    parts, length = [], 0
    while length < characters:
        parts.append(next(pieces))
        length += len(parts[-1])
    return "".join(parts)[:max(0, characters)]
