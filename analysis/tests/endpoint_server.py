"""A small OpenAI-compatible server around anything that answers: `backend(prompt, max_tokens) -> text`, and optionally
`logprobs(prompt)`."""

from __future__ import annotations

import contextlib
import http.server
import json
import re
import threading
import time


def forgetful(block: int):
    """Answers with the words that follow the last line of the prompt where they stand earlier; a fact that a boundary of `block` characters
    cuts is forgotten."""
    def answer(prompt: str, max_tokens: int) -> str:
        lead = prompt.rsplit("\n", 1)[-1].strip()
        for found in re.finditer(re.escape(lead) + r" ([A-Za-z0-9]+)\.", prompt):
            begin, end = found.span(1)
            return "nobody knows" if begin // block != (end - 1) // block else found.group(1) + ". That is all."
        return "nobody knows"
    return answer


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.seen.append({"path": self.path, "authorization": self.headers.get("Authorization"), **body})
        if server.failures:
            failure = server.failures.pop(0)
            if isinstance(failure, int):
                self._reply(failure, {"error": {"message": "not now"}})
            else:
                self._break_off(failure)
        elif self.path == "/v1/chat/completions":
            asked = body["messages"][-1]["content"]
            prompt, lead = asked.rsplit("Begin your answer with: ", 1)
            text = server.backend(prompt + lead, body["max_tokens"])
            self._reply(200, {"choices": [{"message": {"role": "assistant", "content": f"{lead} {text}"}}],
                              "usage": {"prompt_tokens": server.template + len(asked) // 4}})
        elif self.path == "/v1/completions":
            choice = {"text": server.backend(body["prompt"], body["max_tokens"])}
            if body.get("echo"):
                tokens, values = server.logprobs(body["prompt"])
                offsets = tokens and [sum(map(len, tokens[:index])) for index in range(len(tokens))]
                choice = {"text": body["prompt"], "logprobs": {"tokens": tokens, "text_offset": offsets, "token_logprobs": values}}
            self._reply(200, {"choices": [choice], "usage": {"prompt_tokens": server.template + len(body["prompt"]) // 4}})
        else:
            self._reply(404, {"error": {"message": "no such path"}})

    def _break_off(self, told) -> None:
        """The bytes as they are, or piece by piece every 0.1 s; then the connection ends."""
        try:
            for piece in [told] if isinstance(told, bytes) else told:
                self.wfile.write(piece)
                self.wfile.flush()
                if not isinstance(told, bytes):
                    time.sleep(0.1)
        except OSError:
            pass  # the client has left
        self.close_connection = True

    def _reply(self, code: int, document: dict) -> None:
        content = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving(backend, *, failures=(), logprobs=None, template=0):
    """The server: .url, .seen (requests), .failures (codes or raw replies that come first). template: tokens it counts beside a
    prompt's."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.backend, server.failures, server.seen, server.logprobs, server.template = backend, list(failures), [], logprobs, template
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
