"""`pie chat`: a conversation in the terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import configuration
from conftest import PIE, ROOT
from raw_client import LIMIT_S


def start(home, *flags: str, config: str = "") -> subprocess.Popen:
    configuration.write(home, config)
    return subprocess.Popen(
        [PIE, "chat", "--dummy", *flags],
        env={**os.environ, "PIE_HOME": str(home)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_turns_and_commands(tmp_path):
    chat = start(tmp_path, "--speed", "--system", "You are brief.")
    said, errors = chat.communicate(
        "Hello\nmore \\\nlines\n/system Be kind.\n/speed\nAgain\n/nonsense\n/help\n/exit\n", LIMIT_S
    )
    assert chat.returncode == 0, errors
    assert said.count("tokens/s after") == 1  # the help
    assert said.count(" tokens, ") == 2  # of the two answers before /speed
    assert "unknown command /nonsense" in said


def test_the_end_of_the_input_ends_it(tmp_path):
    chat = start(tmp_path)
    said, errors = chat.communicate("Hello\n", LIMIT_S)
    assert chat.returncode == 0 and said.strip(), errors


def test_an_unknown_model(tmp_path):
    chat = start(tmp_path, "--model", "nothing")
    _, errors = chat.communicate("Hello\n", LIMIT_S)
    assert chat.returncode == 1 and "nothing" in errors


def test_ctrl_c_without_an_answer_leaves(tmp_path):
    chat = start(tmp_path, "--speed")
    chat.stdin.write("Hello\n")
    chat.stdin.flush()
    while " tokens, " not in chat.stdout.readline():
        assert chat.poll() is None
    chat.send_signal(signal.SIGINT)
    assert chat.wait(LIMIT_S) == 130


def test_conversations_are_saved_and_opened(tmp_path):
    chat = start(tmp_path, "--speed")
    said, errors = chat.communicate("Hello\n/save pies\n/new\n/open pies\nMore\n/save\n", LIMIT_S)
    assert chat.returncode == 0, errors
    assert "saved as pies" in said and "a new conversation" in said
    (tokens,) = re.findall(r"pies goes on: (\d+) tokens", said)
    assert int(tokens) > 0 and said.count(" tokens, ") == 2
    assert "unknown command /save" in said  # it needs a name
    again = start(tmp_path)
    said, errors = again.communicate("/open pies\n/open nothing\nHello\n", LIMIT_S)
    assert again.returncode == 0, errors
    assert f"pies goes on: {tokens} tokens" in said and "nothing" in said


def test_models(tmp_path):
    chat = start(tmp_path)
    said, errors = chat.communicate("/model\n/model nothing\n/model default\nHello\n", LIMIT_S)
    assert chat.returncode == 0, errors
    assert "models: default; this is default" in said
    assert "nothing" in said and "a new conversation with default" in said


HOSTILE = ROOT / "tests/serve/hostile_mcp_server.py"
KITCHEN = f"""
[mcp.kitchen]
command = "{sys.executable}"
args = ["{ROOT / "inferlets/agent/kitchen.py"}"]
"""


def scripted(tmp_path, answers: str) -> str:
    """The config of a dummy model that says these answers."""
    script = tmp_path / "answers.toml"
    script.write_text(answers)
    return DUMMY + f'script = "{script}"\n'


def test_tools_of_the_configuration(tmp_path):
    chat = start(tmp_path, "--speed", config=KITCHEN)
    typed = "/tools\n/tools nothing\n/tools kitchen\nHello\n/tools off\n"
    said, errors = chat.communicate(typed, LIMIT_S)
    assert chat.returncode == 0, errors
    assert "kitchen: price, order" in said
    assert "no server is named 'nothing'" in said
    assert "a new conversation with 2 tools" in said and "with 0 tools" in said
    assert said.count(" tokens, ") == 1
    chat = start(tmp_path / "other")
    said, _ = chat.communicate("/tools\n", LIMIT_S)
    assert "there are no MCP servers" in said


def test_many_tools(tmp_path):
    """The inferlet of the OpenAI API accepts the same number."""
    pages = ROOT / "tests/serve/mcp_pages_server.py"
    server = f'[mcp.NAME]\ncommand = "{sys.executable}"\nargs = ["{pages}", "NUMBER"]\n'
    many, more = (
        server.replace("NAME", name).replace("NUMBER", number)
        for name, number in (("many", "1000"), ("more", "25"))
    )
    chat = start(tmp_path, config=many + more)
    said, errors = chat.communicate("/tools many\n/tools many more\n", LIMIT_S)
    assert chat.returncode == 0, errors
    assert "with 1000 tools" in said
    assert "these servers have more than 1024 tools" in said


ANSWERS = """
[[answer]]
when = "How much"
say = '''Let me see. <tool_call>
{"name": "prise", "arguments": {"pie": "plum"}}
</tool_call>'''

[[answer]]
say = "That is all."
"""


def test_a_call_is_held_by_its_grammar_and_shown_as_a_line(tmp_path):
    """The model would call a tool that does not exist, for a pie that the schema does not have."""
    chat = start(tmp_path / "home", config=KITCHEN + scripted(tmp_path, ANSWERS))
    said, errors = chat.communicate("/tools kitchen\nHow much is it?\n", LIMIT_S)
    assert chat.returncode == 0, errors
    assert "Let me see. " in said and "That is all." in said
    assert re.search(r'→ price\(pie="(apple|cherry|pecan)"\)\n', said), said
    assert "tool_call" not in said and "arguments" not in said


def test_a_bad_tool_leaves_the_others_their_grammar(tmp_path):
    """A server lists a tool with a schema that means nothing, and things that are no tools."""
    odd = KITCHEN.replace(str(ROOT / "inferlets/agent/kitchen.py"), str(HOSTILE))
    odd = odd.replace('.py"]', '.py", "odd"]')
    chat = start(tmp_path / "home", config=odd + scripted(tmp_path, ANSWERS))
    said, errors = chat.communicate("/tools kitchen\nHow much is it?\n", LIMIT_S)
    assert chat.returncode == 0, errors
    assert "with 2 tools" in said
    assert '→ price(pie="plum")\n' in said and "That is all." in said, said


TWINS = KITCHEN + KITCHEN.replace("mcp.kitchen", "mcp.pantry")
BOTH = """
[[answer]]
when = "How much"
say = '''<tool_call>
{"name": "pantry_price", "arguments": {"pie": "pecan"}}
</tool_call>'''

[[answer]]
when = "error"
say = "It failed."

[[answer]]
say = "That is all."
"""


def test_tools_of_one_name_are_told_apart(tmp_path):
    chat = start(tmp_path / "home", config=TWINS + scripted(tmp_path, BOTH))
    said, errors = chat.communicate("/tools kitchen pantry\nHow much is it?\n", LIMIT_S)
    assert chat.returncode == 0, errors
    assert "with 4 tools" in said and '→ pantry_price(pie="pecan")\n' in said
    assert "That is all." in said and "It failed" not in said


DUMMY = """
[[model]]
[model.driver]
type = "dummy"
[model.driver.options]
"""


def test_a_conversation_that_is_too_long(tmp_path):
    """A conversation that is too long cannot go on, but another one can begin."""
    config = DUMMY + "kv_page_size = 16\ntotal_pages = 40\n"
    chat = start(tmp_path, "--speed", config=config)
    said, errors = chat.communicate("x" * 700 + "\n/new\nHello\n", LIMIT_S)
    assert chat.returncode == 0, errors
    assert "error: cannot reserve" in said and "a new conversation" in said
    assert said.count(" tokens, ") == 1


class Terminal:
    """`pie chat` on a terminal, as a person sees it."""

    def __init__(self, home, config: str = "") -> None:
        configuration.write(home, config)
        self.shown = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            env = {**os.environ, "PIE_HOME": str(home), "TERM": "xterm"}
            os.execve(PIE, [PIE, "chat", "--dummy", "--speed"], env)

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def until(self, pattern: str, times: int = 1) -> None:
        end = time.monotonic() + LIMIT_S
        while len(re.findall(pattern, self.shown)) < times:
            assert time.monotonic() < end, self.shown
            if select.select([self.fd], [], [], 1)[0]:
                self.shown += os.read(self.fd, 65536).decode(errors="replace")

    def leave(self) -> int:
        self.type("/exit\r")
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def test_editing_and_history_on_a_terminal(tmp_path):
    terminal = Terminal(tmp_path)
    terminal.until("lists the commands[^>]*>")  # the prompt: keys are now read one by one
    # Three times left, Backspace, right, two letters, left, Delete, and to the end: "world".
    terminal.type("wrold\x1b[D\x1b[D\x1b[D\x7f\x1b[CrX\x1b[D\x1b[3~\x05\r")
    terminal.until(r"tokens/s")
    terminal.type("Grüße\x01/bad \x0b\r")  # Ctrl-A and Ctrl-K leave "/bad "
    terminal.until("unknown command")
    terminal.type("dropped\x03")
    terminal.until(r"\^C")
    terminal.type("\x1b[A\x1b[A\x1b[A\x1b[B\r")  # up to "world", past the first line, and down
    terminal.until("unknown command", times=2)
    assert terminal.leave() == 0
    kept = (tmp_path / "chat_history").read_text().splitlines()
    assert kept[:2] == ["world", "/bad "] and kept[-1] == "/exit"
    assert "dropped" not in kept
    assert (tmp_path / "chat_history").stat().st_mode & 0o077 == 0


def test_pasted_text_is_one_turn(tmp_path):
    terminal = Terminal(tmp_path)
    terminal.until("lists the commands[^>]*>")
    assert "\x1b[?2004h" in terminal.shown  # asks the terminal to mark what is pasted
    terminal.type("Read this: \x1b[200~first\r\nsecond\r\tthird\x1b[3D\n\x1b[201~ Now?\r")
    terminal.until("tokens/s")
    terminal.type("/bad\x1b[200~/paste\x1b[201~\r")  # nothing else was sent
    terminal.until("unknown command /bad/paste")
    assert len(re.findall("tokens/s", terminal.shown)) == 1
    assert terminal.leave() == 0
    kept = (tmp_path / "chat_history").read_text().splitlines()
    assert kept[0] == "Read this: first second \tthird[3D Now?"


def test_ctrl_c_drops_all_lines_of_a_turn(tmp_path):
    terminal = Terminal(tmp_path)
    terminal.until("lists the commands[^>]*>")
    terminal.type("first \\\r")
    terminal.until("…")
    terminal.type("second\x03")
    terminal.until(r"\^C[^>]*>")
    terminal.type("Hello\r")
    terminal.until("tokens/s")
    assert terminal.leave() == 0
    kept = (tmp_path / "chat_history").read_text().splitlines()
    assert kept == ["Hello", "/exit"]


def test_wide_characters_on_a_terminal(tmp_path):
    """The cursor goes to the column where the character is."""
    terminal = Terminal(tmp_path)
    terminal.until("lists the commands[^>]*>")
    terminal.type("한국\x1b[D")
    terminal.until("\x1b\\[4C")  # behind the prompt and the first of the two characters
    terminal.type("\x03")
    terminal.until(r"\^C")
    assert terminal.leave() == 0


def test_no_terminal_codes_where_the_output_is_a_file(tmp_path):
    configuration.write(tmp_path, "")
    keys, terminal = pty.openpty()
    os.write(keys, b"Hello\n/speed\n/exit\n")
    done = subprocess.run(
        [PIE, "chat", "--dummy", "--speed"],
        env={**os.environ, "PIE_HOME": str(tmp_path), "TERM": "xterm"},
        stdin=terminal,
        capture_output=True,
        timeout=LIMIT_S,
        check=True,
    )
    os.close(keys)
    os.close(terminal)
    assert b" tokens/s" in done.stdout and b"\x1b" not in done.stdout


def test_ctrl_c_between_answers_does_not_leave(tmp_path):
    terminal = Terminal(tmp_path)
    terminal.until("lists the commands[^>]*>")
    os.kill(terminal.pid, signal.SIGINT)  # what Ctrl-C sends while the prompt is not yet there
    terminal.type("Hello\r")
    terminal.until("tokens/s")
    terminal.until(r"\x1b\[\?2004h", times=2)  # keys are read one by one again
    os.kill(terminal.pid, signal.SIGTERM)
    terminal.until(r"\x1b\[\?2004l", times=2)  # the terminal is as it was before
    _, status = os.waitpid(terminal.pid, 0)
    os.close(terminal.fd)
    assert os.waitstatus_to_exitcode(status) == 130


def test_ctrl_c_stops_the_answer_and_not_the_program(tmp_path):
    terminal = Terminal(tmp_path)
    terminal.until("lists the commands")
    terminal.type("Tell me everything\r")
    time.sleep(0.5)  # the answer is under way
    terminal.type("\x03")
    terminal.until("tokens/s")
    terminal.type("Again\r")
    terminal.until("tokens/s", times=2)
    assert terminal.leave() == 0


def test_ctrl_c_stops_a_tool_call(tmp_path):
    """The conversation goes on."""
    waited = tmp_path / "waited"
    call = {"name": "log_waits", "arguments": {"path": str(waited), "seconds": 600}}
    answers = f"""
[[answer]]
when = "Wait"
say = '''<tool_call>
{json.dumps(call)}
</tool_call>'''

[[answer]]
say = "Here I am."
"""
    server = json.dumps(str(ROOT / "tests/serve/mcp_server.py"))
    config = f'[mcp.oven]\ncommand = "{sys.executable}"\nargs = [{server}]\ntimeout_secs = 600\n'
    terminal = Terminal(tmp_path / "home", config + scripted(tmp_path, answers))
    terminal.until("lists the commands[^>]*>")
    terminal.type("/tools oven\r")
    terminal.until(r"with \d+ tools")
    terminal.type("Wait\r")
    terminal.until("→ log_waits")
    time.sleep(2)  # the call is under way
    terminal.type("\x03")
    terminal.until("tokens/s")
    end = time.monotonic() + LIMIT_S
    while not waited.exists():  # the server hears of it
        assert time.monotonic() < end
        time.sleep(0.1)
    assert waited.read_text() == "cancelled"
    terminal.type("Hello\r")
    terminal.until("Here I am")
    assert terminal.leave() == 0


def test_thinking_is_switched(tmp_path):
    """The dummy's template has a switch, as Qwen3's, and no levels of thinking."""
    chat = start(tmp_path)
    typed = "/think off\nHello\n/think on\n/think high\n/new\n/think often\nHello\n"
    said, errors = chat.communicate(typed, LIMIT_S)
    assert chat.returncode == 0, errors
    notes = ("no thoughts from the next turn on\n", "\nthoughts from the next turn on\n")
    assert all(note in said for note in notes), said
    assert "this model has no levels of thinking" in said
    assert "/think takes on, off, low, medium or high, not often" in said


def test_thoughts_are_dimmed(tmp_path):
    answers = '[[answer]]\nsay = "<think>\\nhm\\n</think>\\nYes"\n'
    terminal = Terminal(tmp_path / "home", scripted(tmp_path, answers))
    terminal.until("lists the commands[^>]*>")
    terminal.type("Hello\r")
    terminal.until("tokens/s")
    dimmed = "".join(re.findall(r"\x1b\[2m([a-z])\x1b", terminal.shown))
    assert dimmed == "hm" and "think" not in terminal.shown
    assert terminal.leave() == 0
