"""What the drivers of this folder share: programs that print JSON lines, and what they took."""
import json
import os
import subprocess


def json_lines_of(command, env=None):
    """The records that a program printed, and the peak resident bytes of its process."""
    with subprocess.Popen(command, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as process:
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\nfailed with {process.returncode}:\n{out[-2000:]}")
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")], usage.ru_maxrss * 1024
