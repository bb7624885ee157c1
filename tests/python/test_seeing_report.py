"""The report: what it tells is true, its parts are linked, and it works in a real browser."""

import functools
import gc
import html
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
import seeing_programs as programs
import torch
from torch import nn
from torch.nn import functional

import firesteel
from firesteel._report import gather, graphs, page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(autouse=True)
def fresh():
    firesteel.reset()
    firesteel.reset_counters()
    torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        h = functional.gelu(self.first(x))
        h = functional.dropout(h, 0.1)
        return self.norm(h) + x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.sum()


def facts_of(page):
    text = re.search(r'<script type="application/json" id="facts">(.*?)</script>', page, re.DOTALL)[1]
    return json.loads(text)


def trained(tmp_path):
    compiled = firesteel.compile(Model(), wait=True)
    compiled(torch.randn(4, 8)).backward()
    path = firesteel.report(tmp_path / "out.html")
    with open(path, encoding="utf-8") as file:
        return file.read()


@pytest.mark.usefixtures("native")
def test_calls_operators_kernels_lines_and_modules_are_linked(tmp_path):
    facts = facts_of(trained(tmp_path))
    (piece,) = [piece for piece in facts["pieces"] if piece["runs"]]
    assert piece["function"] == "Model"
    calls = [facts["ops"][row[1]] for row in piece["nodes"]]
    assert calls.count("torch.nn.functional.layer_norm") == 2
    modules = [facts["modules"][row[6]] for row in piece["nodes"]]
    assert "blocks.0.first" in modules
    assert "blocks.1.norm" in modules
    forward, backward = piece["parts"]
    assert (forward["phase"], forward["tier"]) == ("forward", "native")
    for phase, part in (("forward", forward), ("backward", backward)):
        assert part["phase"] == phase
        for row in part["nodes"]:
            op, call = facts["ops"][row[1]], calls[row[6]] if row[6] >= 0 else ""
            if "layer_norm" in op:
                assert call.endswith("layer_norm"), (op, call)
            if op.startswith("aten.gelu"):
                assert call.endswith("gelu"), (op, call)
            if op in ("aten.mm", "aten.addmm"):
                assert call.endswith("linear"), (op, call)
        assert any(part["kernels"])
        for text, nodes, made, *_ in part["kernels"]:
            assert facts["kernels"][text].startswith("loops [")
            assert nodes
            assert made is True
    names = {facts["files"][row[5][0]]["name"] for part in (forward, backward) for row in part["nodes"] if row[5]}
    assert names == {os.path.basename(__file__)}
    # The two blocks' operators belong to calls of their own, though they come from the same lines.
    norms = {row[6] for row in forward["nodes"] if "layer_norm" in facts["ops"][row[1]]}
    assert len(norms) == 2


def test_module_paths_are_read_from_sources():
    assert graphs.module_path("self._modules['encoder']._modules['layer']._modules['0']") == "encoder.layer.0"
    assert graphs.module_path("") == ""


CASES = {
    # what breaks: the id, a word of the remedy
    "data_dependent_branch": ("FS-DATA-DEPENDENT", "torch.where"),
    "print_inside": ("FS-C-FUNCTION", "print what the call gives back"),
    "item_read": ("FS-DATA-DEPENDENT", ".item()"),
    "numpy_call": ("FS-DATA-DEPENDENT", "torch's own function"),
    "disabled_function": ("FS-DISABLED", "take disable() off"),
    "c_extension_call": ("FS-C-FUNCTION", "custom op"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_break_stands_at_its_line_with_its_cure(name, tmp_path):
    function = getattr(programs, name)
    x = torch.randn(4, 4)
    compiled = firesteel.compile(function)  # a report tells of what is alive
    torch.testing.assert_close(compiled(x), function(x))
    assert firesteel.counters()["captured"] >= 2
    with open(firesteel.report(tmp_path / "out.html"), encoding="utf-8") as file:
        page = file.read()
    reason, word = CASES[name]
    line = programs.marked_line(function)
    assert note_at(page, line, reason, word)


def note_at(page, line, *words):
    """Whether the notes below a line of seeing_programs.py hold the words."""
    found = re.search(rf'id="L\d+-{line}".*?</div>(<div class="notes">.*?</div>)?', page)
    text = html.unescape(found[1] or "") if found else ""
    return all(word in text for word in words)


def recompiled(tmp_path, function, *calls):
    compiled = firesteel.compile(function)
    for call in calls:
        if callable(call):
            call()
        else:
            compiled(*call)
    with open(firesteel.report(tmp_path / "out.html"), encoding="utf-8") as file:
        return file.read()


def test_recompiles_stand_at_their_function_with_guard_and_cure(tmp_path):
    x = torch.randn(4, 4)
    page = recompiled(tmp_path, programs.changing_int, (x, 1), (x, 2))
    assert note_at(page, programs.marked_line(programs.changing_int), "`n` is 2, was 1", "as a tensor")
    page = recompiled(tmp_path, programs.growing_list, (x, [x]), (x, [x, x]))
    assert note_at(page, programs.marked_line(programs.growing_list), "`seen` has 2 items, had 1", "length fixed")
    page = recompiled(tmp_path, programs.dtype_change, (x,), (x.double(),))
    assert note_at(page, programs.marked_line(programs.dtype_change), "dtype is Double, was Float", "one dtype")
    closure = programs.closure_of(2.0)
    change = functools.partial(setattr, closure.__closure__[0], "cell_contents", 3.0)
    page = recompiled(tmp_path, closure, (x,), change, (x,))
    assert note_at(page, programs.marked_line(programs.closure_of), "is 3.0, was 2.0", "as an argument")


def test_a_hook_added_later_stands_in_the_users_file(tmp_path):
    model = programs.Hooked()
    compiled = firesteel.compile(model)
    x = torch.randn(4, 4)
    compiled(x)
    model.inner.register_forward_hook(lambda module, args, result: result * 2)
    torch.testing.assert_close(compiled(x), model(x))
    facts = gather.facts()
    (note,) = facts["recompiles"]
    assert note["function"] == "Hooked"
    assert facts["files"][note["file"]]["path"] == programs.__file__
    assert "_forward_hooks` has 1 items, had 0" in note["guard"]
    assert "add hooks before the first call" in note["remedy"]


PROGRAM = """
import torch, firesteel
import seeing_programs as programs
x = torch.randn(4, 4)
def gone():
    firesteel.compile(programs.print_inside)(x)
gone()
try:
    firesteel.compile(programs.unregistered_class)(x)
except firesteel.Error as error:
    print("refused")
def generator(x):
    yield x + 1
list(firesteel.compile(generator)(x))
space = {"torch": torch}
exec("def made(x):\\n    y = x + 1\\n    print(end='')\\n    return y * 2", space)
firesteel.compile(space["made"])(x)
"""


@pytest.mark.usefixtures("native")
def test_the_variable_tells_of_all_that_happened(tmp_path):
    script = tmp_path / "prögram.py"
    script.write_text(PROGRAM, encoding="utf-8")
    out = tmp_path / "répört.html"
    environment = {**os.environ, "FIRESTEEL_REPORT": str(out), "PYTHONPATH": os.path.dirname(__file__)}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "refused\n"
    assert f"the report is in {out}" in done.stderr
    page = out.read_text(encoding="utf-8")
    assert note_at(page, programs.marked_line(programs.print_inside), "`print`")  # its function is gone
    assert note_at(page, programs.marked_line(programs.unregistered_class), "Unregistered", "register the class")
    facts = facts_of(page)
    assert [(it["function"], it["reason"], it["times"]) for it in facts["eager"]] == [("generator", "FS-GENERATOR", 1)]
    assert "The source of this code is not at hand" in page
    assert any(it["line"] == 3 and facts["files"][it["file"]]["path"] == "<string>" for it in facts["breaks"])


def test_nothing_is_written_where_nothing_was_compiled(tmp_path):
    environment = {**os.environ, "FIRESTEEL_REPORT": str(tmp_path / "out.html")}
    subprocess.run([sys.executable, "-c", "import firesteel"], env=environment, check=True, timeout=120)
    assert not list(tmp_path.iterdir())


def test_a_path_that_cannot_be_written_is_the_callers_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        firesteel.report(tmp_path / "nowhere/out.html")
    with pytest.raises(TypeError, match="needs a path"):
        firesteel.report(3)
    assert not list(tmp_path.iterdir())


def test_what_the_program_writes_cannot_become_part_of_the_page(tmp_path):
    def hostile(x, text):
        return x + len(text)

    compiled = firesteel.compile(hostile)
    compiled(torch.ones(2), "</script><script>alert(1)</script><!--")
    with open(firesteel.report(tmp_path / "out.html", title="<b>&"), encoding="utf-8") as file:
        page = file.read()
    assert "<script>alert" not in page
    assert "<b>&" not in page
    assert any("alert(1)" in guard for piece in facts_of(page)["pieces"] for guard in piece["guards"])


# --- in a browser


def browse(path, script, tmp_path):
    """What `script` gives after the page has run: it is an expression in the page's own scope."""
    with open(path, encoding="utf-8") as file:
        page = file.read()
    probe = f'<script>document.body.append(element("pre", {{id: "probe"}}, JSON.stringify({script})));</script>'
    probed = tmp_path / "probed.html"
    probed.write_text(page.replace("</body>", probe + "</body>"), encoding="utf-8")
    command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000", "--dump-dom",
               f"--user-data-dir={tmp_path / 'profile'}", probed.as_uri()]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    found = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:] + done.stdout[-2000:]
    return json.loads(html.unescape(found[1]))


needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (apt install chromium)")


@needs_browser
def test_the_page_draws_links_folds_and_finds(tmp_path):
    trained(tmp_path)
    found = browse(
        tmp_path / "out.html",
        """(() => {
          const answers = {boxes: boxes.length, edges: drawn.edges.length};
          const words = search("gelu backward").length || search("gelu").length;
          answers.found = search("gelu").map((it) => it.kind);
          answers.nothing = search("no such thing").length;
          const p = 0, norm = views(pieces[p])[0].rows.findIndex((row) => opName(row).includes("layer_norm"));
          choose({kind: "node", piece: p, view: 0, node: norm});
          answers.inspector = $("inspector").textContent;
          answers.chosenLine = document.querySelector(".line.chosen").textContent;
          stepSelect("view-choice", 1);
          $("fold-choice").value = "kernel";
          $("fold-choice").dispatchEvent(new Event("change"));
          answers.kernels = boxes.filter((box) => box.key.startsWith("k:")).length;
          const first = boxes.find((box) => box.group);
          const before = boxes.length;
          first.element.dispatchEvent(new Event("click"));
          answers.unfolded = boxes.length - before - first.nodes.length + 1;
          choose({kind: "kernel", piece: 0, view: 1, kernel: 0});
          answers.loops = document.querySelector("#inspector pre").textContent;
          answers.kernelTitle = document.querySelector("#inspector h3").textContent;
          for (const key of ["/", "?"]) document.dispatchEvent(new KeyboardEvent("keydown", {key}));
          answers.focus = document.activeElement.id;
          answers.help = !$("help").hidden;
          document.querySelector("#guard-room details").open = true;
          return answers;
        })()""",
        tmp_path,
    )
    assert found["boxes"] == 11  # five calls in each block, and the sum
    assert found["edges"] >= found["boxes"] - 1
    assert {"call", "ATen", "kernel", "source"} <= set(found["found"])
    assert found["nothing"] == 0
    assert "aten.native_layer_norm (forward)" in found["inspector"]
    assert "aten.native_layer_norm_backward (backward)" in found["inspector"]
    assert "kernel" in found["inspector"]
    assert "self.norm(h)" in found["chosenLine"]
    assert found["kernels"] >= 2
    assert found["unfolded"] == 0
    assert found["loops"].startswith("loops [")
    assert found["kernelTitle"] == "kernel 1, forward"
    assert found["focus"] == "search"
    assert found["help"]


@needs_browser
def test_a_page_without_graphs_works_too(tmp_path):
    def generator(x):
        yield x + 1

    firesteel.compile(generator)(torch.ones(2))
    with open(firesteel.report(tmp_path / "out.html"), encoding="utf-8") as file:
        assert "Nothing is compiled at this moment" in file.read()
    found = browse(tmp_path / "out.html", "[pieces.length, index.length, $('graph-room').textContent]", tmp_path)
    assert found == [0, 0, "No graph was captured."]


@pytest.mark.parametrize("on", [True, False])
def test_no_garbage_is_looked_for_meanwhile(tmp_path, on):
    collections = []

    def note(phase, info):
        collections.append(phase)

    compiled = firesteel.compile(Model())
    compiled(torch.randn(4, 8))
    before = gc.isenabled(), gc.get_threshold()
    gc.callbacks.append(note)
    try:
        gc.set_threshold(1)
        (gc.enable if on else gc.disable)()
        collections.clear()
        firesteel.report(tmp_path / "out.html")
        seen = list(collections)
        assert gc.isenabled() == on
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*before[1])
        (gc.enable if before[0] else gc.disable)()
    # What lies outside may collect: a handful, where thousands of objects are made.
    assert len(seen) <= 20


@pytest.mark.usefixtures("native")
def test_under_nohup_and_in_a_pipe_nothing_but_the_report(tmp_path):
    """A program that nobody watches: no colours, no bars, and the report all the same."""
    script = tmp_path / "prögram.py"
    script.write_text(
        "import torch\ntorch.compile(lambda x: x.sin() + 1)(torch.ones(3))\nprint('done')\n", encoding="utf-8"
    )
    command = f"nohup {sys.executable} -m firesteel report -o 'öut.html' 'prögram.py' | cat"
    environment = {key: value for key, value in os.environ.items() if key not in ("LANG", "LC_ALL", "TERM")}
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=120)  # fmt: skip
    assert done.stdout == b"done\n", done.stderr
    assert b"\x1b" not in done.stderr
    assert b"the report is in" in done.stderr
    assert "prögram.py" in (tmp_path / "öut.html").read_text(encoding="utf-8")


def test_a_number_that_keeps_changing_is_one_problem():
    def f(x, times):
        for _ in range(times):
            x = x.sin()
        return x

    compiled = firesteel.compile(f)
    for times in range(1, 5):
        compiled(torch.ones(3), times)
    text = page.html(gather.facts(), "a title")
    assert len(re.findall(r'<article class="card recompiled"', text)) == 1
    assert "captured again 3×" in text
    for was in range(1, 4):
        assert f"<code>`times` is {was + 1}, was {was}</code>" in text


def test_an_error_stands_in_the_file_of_the_others(tmp_path, monkeypatch):
    class Pair:
        pass

    opaque = firesteel.nonstrict_trace(lambda pair: torch.ones(3))

    def f(x):
        return opaque(Pair()) + x

    monkeypatch.chdir(os.path.dirname(__file__))
    recorder = gather.Recorder()
    recorder.start()
    try:
        with pytest.raises(firesteel.TraceError):
            firesteel.compile(f)(torch.ones(3))
    finally:
        recorder.stop()
    facts = gather.facts(recorder)
    assert [file["path"] for file in facts["files"]] == [__file__]
