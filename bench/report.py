"""What a report costs: BERT-base training with and without it, a call of `x + 1`, its size, and how fast Chromium opens
and searches it. By turns, each in a process of its own with empty caches, the least of all rounds."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def train(path):
    """One training step of BERT-base from nothing; prints seconds to compile it, and to write the report."""
    import torch
    from transformers import BertConfig, BertForMaskedLM

    import firesteel

    torch.manual_seed(0)
    if path:
        firesteel._report.record(path)
    model = BertForMaskedLM(BertConfig())
    compiled = firesteel.compile(model, wait=True)
    tokens = torch.randint(0, 30000, (2, 64))
    began = time.perf_counter()
    loss = compiled(tokens, labels=tokens).loss
    loss.backward()
    first = time.perf_counter() - began
    began = time.perf_counter()
    compiled(tokens, labels=tokens).loss.backward()
    step = time.perf_counter() - began
    began = time.perf_counter()
    if path:
        firesteel.report(path)
        firesteel._report._at_exit.clear()
    written = time.perf_counter() - began if path else 0.0
    print(json.dumps({"first": first, "step": step, "written": written, "call": call_of_one_operator()}))


def call_of_one_operator():
    """Microseconds."""
    import torch

    import firesteel

    compiled, x = firesteel.compile(lambda x: x + 1, backend="eager"), torch.ones(8)
    best = 1e9
    for _ in range(30):
        began = time.perf_counter()
        for _ in range(1000):
            compiled(x)
        best = min(best, time.perf_counter() - began)
    return best * 1e3


def run(path, cache):
    shutil.rmtree(cache, ignore_errors=True)
    command = [sys.executable, __file__, "--train", path or "-"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "FIRESTEEL_CACHE_DIR": cache}
    )
    return json.loads(done.stdout.splitlines()[-1])


PROBE = """<script>
addEventListener("load", () => setTimeout(() => {
  const opened = performance.now();
  $("search").value = "gelu encoder.layer.7";
  showResults($("search").value);
  $("results").getBoundingClientRect();
  const answered = performance.now() - opened;
  const text = JSON.stringify({opened, answered, found: search($("search").value).length});
  document.body.replaceChildren(element("pre", {id: "probe"}, text));
}, 0));
</script>"""


def browse(path, folder):
    """Milliseconds from the start until the page is drawn and at rest, and for a search with its list of results."""
    probed = Path(folder) / "probed.html"
    probed.write_text(Path(path).read_text(encoding="utf-8").replace("</body>", PROBE + "</body>"), encoding="utf-8")
    command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom", "--timeout=20000",
               f"--user-data-dir={folder}/profile", probed.as_uri()]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return json.loads(re.search(r'<pre id="probe">(.*?)</pre>', done.stdout)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", help="for processes of its own")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.train:
        return train("" if options.train == "-" else options.train)
    with tempfile.TemporaryDirectory() as folder:
        path, cache = f"{folder}/out.html", f"{folder}/cache"
        without, with_report = [], []
        for _ in range(options.rounds):
            without.append(run("", cache))
            with_report.append(run(path, cache))
        least = [{name: min(it[name] for it in runs) for name in runs[0]} for runs in (without, with_report)]
        plain, recorded = least
        print(f"first training step, compiled: {plain['first']:.2f} s, {recorded['first']:.2f} s recorded,", end=" ")
        added = (recorded["first"] + recorded["written"]) / plain["first"] - 1
        print(f"{recorded['written']:.2f} s to write: {added:+.1%}")
        print(f"second step: {plain['step'] * 1e3:.0f} ms, {recorded['step'] * 1e3:.0f} ms recorded")
        print(f"a call of x + 1: {plain['call']:.2f} µs, {recorded['call']:.2f} µs recorded")
        print(f"size: {os.path.getsize(path) / 1e6:.2f} MB")
        if CHROMIUM:
            for _ in range(options.rounds):
                print("Chromium:", browse(path, folder))
    return None


if __name__ == "__main__":
    main()
