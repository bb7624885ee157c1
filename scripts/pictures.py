"""Makes the pictures of docs/troubleshooting.md and docs/reading-a-report.md from real runs, by headless Chromium."""

import contextlib
import hashlib
import io
import linecache
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PICTURES = DOCS / "pictures"
STAMPS = PICTURES / "problems.txt"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# The script that a report for reading-a-report.md is made of.
EXAMPLE = DOCS / "pictures/example.py"


def kinds():
    """The twelve sections of the page, each as text."""
    text = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    return [part for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:] if part[0].isdigit()]


def stamp(section):
    """What a picture shows of its section: the program and the words about it."""
    code = re.search(r"```python\n.*?```", section, re.DOTALL)[0]
    words = "\n".join(re.findall(r"^> .*|^At `.*", section, re.MULTILINE))
    return hashlib.sha256((code + words).encode()).hexdigest()[:16]


def report(script, out):
    """Runs a script as `firesteel report --profile` does, in this process: torch is loaded once."""
    import firesteel
    from firesteel._report import gather, page

    firesteel.reset()
    firesteel.install()
    linecache.clearcache()  # another program lay there before
    os.chdir(script.parent)
    recorder = gather.Recorder()
    recorder.start()
    try:
        with firesteel.profile(), contextlib.redirect_stdout(io.StringIO()):
            kept = runpy.run_path(str(script), run_name="__main__")
    finally:
        recorder.stop()
        firesteel.uninstall()
    facts = gather.facts(recorder)
    # As of a program of its own in its own folder.
    facts["about"]["command"], facts["about"]["folder"] = "python -m firesteel report train.py", ""
    for file in facts["files"]:
        file["path"] = file["path"].replace(f"{script.parent}/", "")
    out.write_text(page.html(facts, script.name), encoding="utf-8")
    return kept


def shoot(page, picture, width, hidden, script="", most=860):
    """A picture of the page without what the selector `hidden` names; `script` runs in it first."""
    script += f"document.querySelectorAll({hidden!r}).forEach((it) => it.remove());" if hidden else ""
    script += "document.body.dataset.height = document.querySelector('main').getBoundingClientRect().bottom;"
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
    with tempfile.TemporaryDirectory() as profile:
        chromium = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                    "--virtual-time-budget=4000", f"--user-data-dir={profile}"]  # fmt: skip
        size = f"--window-size={width}"
        seen = subprocess.run([*chromium, f"{size},{most}", "--dump-dom", page.as_uri()], check=True,
                              capture_output=True, text=True).stdout  # fmt: skip
        height = min(int(float(re.search(r'data-height="([\d.]+)"', seen)[1])), most)
        # What lies outside the window's first height is not drawn.
        subprocess.run([*chromium, f"{size},{height}", f"--screenshot={picture}", page.as_uri()], check=True,
                       capture_output=True)  # fmt: skip


def problems(folder):
    stamps = []
    for number, section in enumerate(kinds(), 1):
        script = folder / "train.py"
        script.write_text(re.search(r"```python\n(.*?)```", section, re.DOTALL)[1], encoding="utf-8")
        page = folder / "report.html"
        report(script, page)
        # What matters here: the problem and its lines, without the header.
        shoot(
            page,
            PICTURES / f"problem-{number:02}.png",
            900,
            "header, .legend, #graphs, #costs, #guards, #timeline, footer",
        )
        stamps.append(f"{number:02} {stamp(section)}\n")
        print(f"problem-{number:02}.png", flush=True)
    STAMPS.write_text("".join(stamps))


def example(folder):
    script = folder / "train.py"
    shutil.copy(EXAMPLE, script)
    whole = folder / "whole.html"
    report(script, whole)
    gelu = (
        "const p = pieces.findIndex((it) => it.nodes.some((row) => opName(row).includes('gelu')));"
        "const at = pieces[p].parts[1].nodes.findIndex((row) => opName(row).includes('gelu_backward'));"
        "choose({kind: 'node', piece: p, view: 2, node: at});"
    )
    for name, hidden, action in (
        ("report.png", "", ""),
        ("report-graph.png", "#problems, #source, #costs, #guards, #timeline", gelu),
        ("report-costs.png", "header, #problems, #source, #graphs, #guards, #timeline", ""),
        ("report-search.png", "", "$('search').value = 'gelu'; showResults('gelu');"),
    ):
        page = folder / "report.html"
        shutil.copy(whole, page)
        shoot(page, PICTURES / name, 1300, hidden, action)
        print(name, flush=True)


def main():
    if CHROMIUM is None:
        sys.exit("Chromium is not installed: apt install chromium")
    os.environ["FIRESTEEL_WAIT"] = "1"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "--example" not in sys.argv:
            problems(folder)
        example(folder)


if __name__ == "__main__":
    main()
