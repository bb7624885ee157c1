"""`firesteel run` and `firesteel report`: programs as Python itself would run them, on Firesteel."""

import argparse
import os
import runpy
import sys
from pathlib import Path


def run_program(arguments):
    """`script.py args…` or `-m module args…`, as Python itself would run it, on Firesteel."""
    import firesteel

    firesteel.install()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = str(Path(arguments[0]).resolve().parent)
        runpy.run_path(arguments[0], run_name="__main__")


def show_error(kind, error, trace):
    """An error that nobody has caught, from the program's own frames on, as Python itself would show it."""
    ours = str(Path(__file__).resolve().parents[1]) + os.sep
    first = trace
    while first and first.tb_frame.f_code.co_filename.startswith((ours, "<frozen ")):
        first = first.tb_next
    sys.__excepthook__(kind, error.with_traceback(first or trace), first or trace)


def checked_program(parser, arguments):
    """The program's own command line, or the parser's error."""
    if not arguments:
        parser.error("a script is needed, or -m and a module")
    if arguments[0] == "-m" and len(arguments) == 1:
        parser.error("-m needs a module")
    if arguments[0] != "-m" and not Path(arguments[0]).exists():
        parser.error(f"there is no script {arguments[0]}")
    return arguments


def run(arguments):
    """firesteel run"""
    parser = argparse.ArgumentParser(
        prog="firesteel run",
        usage="firesteel run [--logs KINDS] [--report FILE] [--profile] [--trace FILE] script.py [args…] | "
        "-m module [args…]",
        description="Runs a program with torch.compile, torch.compiler and torch._dynamo's controls served by "
        "Firesteel. The program itself stays as it is.",
        epilog="examples:\n  firesteel run train.py --epochs 3\n  firesteel run --logs breaks,recompiles train.py\n"
        "  firesteel run -m pytest tests",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_options(parser)
    options, program = split(parser, arguments)
    return start(parser, options, program)


def report(arguments):
    """firesteel report"""
    parser = argparse.ArgumentParser(
        prog="firesteel report",
        usage="firesteel report [-o FILE] [--profile] [--logs KINDS] [--trace FILE] script.py [args…] | "
        "-m module [args…]",
        description="Runs a program on Firesteel and writes one HTML file about it when it ends: the source with "
        "captured and broken lines, graphs, kernels, guards, recompiles, times. The file needs no network.",
        epilog="examples:\n  firesteel report train.py\n  firesteel report -o out.html train.py --epochs 1\n"
        "  firesteel report --profile train.py     # with time and memory of each kernel",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-o", "--output", dest="report", default="firesteel-report.html", metavar="FILE",
                        help="where to write it (firesteel-report.html)")  # fmt: skip
    add_options(parser, report=False)
    options, program = split(parser, arguments)
    return start(parser, options, program)


def start(parser, options, program):
    """Runs a program with what was asked for beside it."""
    program = checked_program(parser, program)
    import firesteel

    if options.logs:
        try:
            firesteel.logs(options.logs)
        except ValueError as error:
            parser.error(str(error))
    if options.report:
        firesteel._report.record(options.report)
    if options.trace:
        firesteel._trace.record(options.trace)
    if options.profile:
        firesteel._costs.start()
    run_program(program)
    return 0


def add_options(parser, report=True):
    """What may be asked for beside a program that runs."""
    if report:
        parser.add_argument("--report", metavar="FILE", help="writes a report when the program ends")
    parser.add_argument("--logs", metavar="KINDS", help="switches logs on, as FIRESTEEL_LOGS does: breaks,recompiles")
    parser.add_argument("--profile", action="store_true", help="times each kernel and operator, for the report")
    parser.add_argument("--trace", metavar="FILE", help="writes a Chrome trace of compilations and runs, for Perfetto")


def split(parser, arguments):
    """Our own options stand before the program; what stands behind it is the program's."""
    takes_value = {flag for action in parser._actions if action.nargs != 0 for flag in action.option_strings}
    at = 0
    while at < len(arguments) and arguments[at].startswith("-") and arguments[at] != "-m":
        at += 2 if arguments[at] in takes_value else 1
    return parser.parse_args(arguments[:at]), arguments[at:]
