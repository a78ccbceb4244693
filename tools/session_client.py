#!/usr/bin/env python3
"""Talks to `bmoe-cli --session`: an example of a client, with nothing but the standard library.

    tools/session_client.py -- build/release/bin/bmoe-cli --session -m model.gguf --moe-stream

Each line that you type is sent as one message; with --chat in the model's chat template, otherwise as text that is continued.
What was said before is sent again with it; the session decodes only what is new. Ctrl-C cancels an answer, end of input closes
the session. The text goes to stdout, everything else to stderr. The protocol is described in docs/session.md.
"""

import argparse
import json
import queue
import signal
import subprocess
import sys
import threading


class SessionError(Exception):
    """A BMOE_ERROR line, or the end of the program where an answer was expected."""

    def __init__(self, message, code=None):
        super().__init__(message)
        self.code = code


class Session:
    """One bmoe-cli --session. Not for several threads, except for cancel()."""

    def __init__(self, command, on_load=None):
        """Starts the program and waits until the model is loaded. `on_load` is called with 0..1."""
        # Its own process group: Ctrl-C in a terminal is for the client, which cancels.
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8",
                                        start_new_session=True)
        self.lines = queue.Queue()
        self.next_id = 0
        self.running = None
        threading.Thread(target=self._read, daemon=True).start()
        while True:
            word, body = self._next()
            if word == "BMOE_LOAD" and on_load:
                on_load(body["progress"])
            elif word == "BMOE_ERROR":
                raise SessionError(body["message"], body["code"])
            elif word == "BMOE_READY":
                if body["protocol"] != 1:
                    raise SessionError(f"the session speaks protocol {body['protocol']}, this client 1")
                self.ready = body
                return

    def _read(self):
        for line in self.process.stdout:
            word, _, body = line.partition(" ")
            self.lines.put((word, json.loads(body)))
        self.lines.put((None, None))

    def _next(self):
        word, body = self.lines.get()
        if word is None:
            raise SessionError(f"the session has ended with status {self.process.wait()}")
        return word, body

    def _send(self, **request):
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the session has ended: reading says how

    def generate(self, on_text, on_prompt=None, **request):
        """Sends a generate request (prompt= or messages=, max_tokens=, ...) and returns the body of its BMOE_DONE.
        `on_text` gets the text as it comes, `on_prompt` the bodies that say how far the prompt is."""
        self.next_id += 1
        self.running = str(self.next_id)
        self._send(op="generate", id=self.running, **request)
        try:
            while True:
                word, body = self._next()
                if body.get("id") != self.running:
                    continue  # the answer to a cancel that came too late
                if word == "BMOE_PROGRESS" and body["phase"] == "text":
                    on_text(body["delta"])
                elif word == "BMOE_PROGRESS" and on_prompt:
                    on_prompt(body)
                elif word == "BMOE_ERROR" and body["code"] != "not_running":
                    raise SessionError(body["message"], body["code"])
                elif word == "BMOE_DONE":
                    return body
        finally:
            self.running = None

    def cancel(self):
        """Ends what generate() waits for, from another thread or a signal handler."""
        if self.running is not None:
            self._send(op="cancel", id=self.running)

    def reset(self):
        """Forgets the conversation."""
        self._send(op="reset", id="reset")
        while self._next()[0] != "BMOE_DONE":
            pass

    def close(self):
        """Ends the session; returns the program's exit status."""
        self._send(op="close")
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # what could not be sent is still in the buffer
        return self.process.wait()


def main():
    parser = argparse.ArgumentParser(description="Talks to bmoe-cli --session.",
                                     epilog="Example: session_client.py -- bmoe-cli --session -m model.gguf --moe-stream")
    parser.add_argument("--chat", action="store_true", help="send messages for the model's chat template")
    parser.add_argument("-n", "--max-tokens", type=int, help="tokens of an answer; default: the session's")
    parser.add_argument("command", nargs="+", help="the session, after --")
    arguments = parser.parse_args()
    settings = {"max_tokens": arguments.max_tokens} if arguments.max_tokens else {}

    def say(text):
        print(text, end="", flush=True)

    def note(text):
        print(text, file=sys.stderr, flush=True)

    try:
        session = Session(arguments.command)
        note(f"ready: {session.ready['mode']}")
        signal.signal(signal.SIGINT, lambda *_: session.cancel())
        text, messages = "", []
        for line in sys.stdin:
            answer = []

            def hear(delta, answer=answer):
                answer.append(delta)
                say(delta)

            if arguments.chat:
                messages.append({"role": "user", "content": line.rstrip("\n")})
                done = session.generate(hear, messages=messages, **settings)
                messages.append({"role": "assistant", "content": "".join(answer)})
            else:
                text += line.rstrip("\n")
                done = session.generate(hear, prompt=text, **settings)
                text += "".join(answer)
            say("\n")
            note(f"{done['reason']}: {done['generated']['tokens']} tokens, {done['generated']['tok_s']} tok/s; prompt of "
                 f"{done['prompt']['tokens']} tokens, {done['prompt']['reused']} of them reused")
        return session.close()
    except SessionError as error:
        note(f"error: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
