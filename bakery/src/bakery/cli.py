"""The command line: `bakery create`, `bakery build`, `bakery doctor`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import textwrap
from pathlib import Path

from bakery import __version__
from bakery.build import build
from bakery.create import create
from bakery.errors import BakeryError
from bakery.languages import FLAGS, ORDER, language_of, load
from bakery.project import open_project
from bakery.report import Report, Style
from bakery.uses import mark_builds, mark_tools

_INTERRUPTED = 130

_EXAMPLES = """\
examples:
  bakery create my-app                        make a new Rust inferlet in ./my-app
  bakery create my-app --python               make it in Python (also --ts, --js, --cpp)
  bakery create my-app --ts --http            make one that answers HTTP requests
  bakery build my-app -o my-app.wasm          build it into a component
  pie run --path my-app.wasm --manifest my-app/Pie.toml
  bakery doctor                               show which languages can be built here
"""


def main(argv: list[str] | None = None) -> int:
    """Runs one command. Returns 0, or 1 for an error, 2 for wrong usage, 130 for Ctrl-C."""
    signal.signal(signal.SIGTERM, _as_interrupt)
    args, unknown = _parser().parse_known_args(argv)
    if unknown:  # the command's own parser shows the command's usage, and its name
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        return args.command(args)
    except BakeryError as error:
        _print_error(error)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        return 1


def _as_interrupt(*_: object) -> None:
    """Handles SIGTERM like Ctrl-C: removes temporary files and stops the running tool."""
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    called_by_pie = os.environ.get("BAKERY_CALLED_BY") == "pie"
    create_command = "pie new" if called_by_pie else "bakery create"
    build_command = "pie build" if called_by_pie else "bakery build"
    parser = argparse.ArgumentParser(
        prog="bakery",
        description="Builds inferlets: programs that run inside the engine, next to the model.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"bakery {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    creating = commands.add_parser(
        "create",
        prog=create_command,
        help="make a new project from a template",
        description="Makes a project that builds and runs unchanged.",
        epilog=f"examples:\n  {create_command} my-app\n  {create_command} bot --ts -o bots/bot\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    creating.add_argument("name", metavar="NAME", help="lowercase words joined by hyphens")
    creating.add_argument(
        "-o", "--output", metavar="DIR", type=Path, help="folder to create (default: ./NAME)"
    )
    creating.add_argument(
        "--http", action="store_true", help="make an inferlet that answers HTTP requests"
    )
    _add_language_flags(creating, "default: rust")
    creating.set_defaults(command=_create, parser=creating)

    building = commands.add_parser(
        "build",
        prog=build_command,
        help="build a project into a component",
        description="Builds the project in PATH, or the one program whose source file PATH is. The "
        "language is detected from its files.",
        epilog=f"examples:\n  {build_command} my-app -o my-app.wasm\n"
        f"  {build_command} hello.py         build one file, without a project\n"
        f"  {build_command} --debug          keep names, so that backtraces are readable\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    building.add_argument(
        "path",
        metavar="PATH",
        type=Path,
        nargs="?",
        default=Path(),
        help="folder of a project, or the source file to build (default: this folder)",
    )
    building.add_argument(
        "-o", "--output", metavar="OUT.wasm", type=Path, help="file to write (default: ./NAME.wasm)"
    )
    building.add_argument("--debug", action="store_true", help="build without optimisation")
    building.add_argument(
        "-v", "--verbose", action="store_true", help="show the output of the tools"
    )
    building.add_argument("-q", "--quiet", action="store_true", help="show errors only")
    _add_language_flags(building, "default: detected from the files")
    building.set_defaults(command=_build, parser=building)

    doctor = commands.add_parser(
        "doctor", aliases=["check"], help="show which languages can be built here"
    )
    doctor.set_defaults(command=_doctor, parser=doctor)
    return parser


def _add_language_flags(parser: argparse.ArgumentParser, default: str) -> None:
    group = parser.add_argument_group(f"language ({default})")
    choice = group.add_mutually_exclusive_group()
    titles = {"ts": "TypeScript", "js": "JavaScript", "cpp": "C++"}
    for flag in FLAGS:
        choice.add_argument(
            f"--{flag}",
            dest="flag",
            action="store_const",
            const=flag,
            help=titles.get(flag, flag.title()),
        )


def _create(args: argparse.Namespace) -> int:
    _, template = FLAGS[args.flag or "rust"]
    if args.http:
        template += "-http"
    root: Path = args.output or Path(args.name)
    files = create(args.name, template, root)
    style = Style(sys.stdout)
    print(f"{style.green('created')} {root}: {', '.join(str(file) for file in files)}\n")
    print("next:")
    print(f"  {style.bold(f'pie build {root} -o {args.name}.wasm')}")
    manifest = root / "Pie.toml"
    if args.http:
        install = f"pie inferlet add {args.name}.wasm -m {manifest}"
        print(f"  {style.bold(install)}")
        print(f"  {style.bold('pie serve')}")
        ask = f"curl -d 'Tell me about pie.' http://127.0.0.1:8080/apps/{args.name}/"
        print(f"  {style.bold(ask)}    # in another terminal")
    else:
        run = f"pie run --path {args.name}.wasm --manifest {manifest}"
        print(f"  {style.bold(run)}")
    if (root / "tests").is_dir():
        print(f"  {style.bold(f'pie test {root}')}")
    return 0


def _build(args: argparse.Namespace) -> int:
    project = open_project(args.path)
    language = language_of(project, FLAGS[args.flag][0] if args.flag else None)
    out: Path = args.output or Path(f"{project.manifest.name}.wasm")
    report = Report(verbose=args.verbose, quiet=args.quiet)
    try:
        built = build(project, out, language=language, debug=args.debug, report=report)
    except BaseException:
        report.close(failed=True)
        raise
    report.close()
    mark_tools()
    mark_builds(language.NAME)
    if not args.quiet:
        done = Style(sys.stdout).green("built")
        size = _human_size(built.size_bytes)
        print(f"{done} {built.out} ({built.language}, {size}, {built.seconds:.1f} s)")
    return 0


def _doctor(_: argparse.Namespace) -> int:
    style = Style(sys.stdout)
    ready = 0
    for name in ORDER:
        language = load(name)
        absent = language.missing()
        ready += not absent
        state = style.yellow("incomplete") if absent else style.green("ready")
        print(f"{language.TITLE:<24} {state}")
        for part in absent:
            print(f"  {part.tool}: {part.why}\n    {style.bold(part.install)}")
    return 0 if ready == len(ORDER) else 1


def _print_error(error: BakeryError) -> None:
    style = Style(sys.stderr)
    lines = [f"{style.red('error:')} {error.message}"]
    if error.where:
        lines.append(f"  {style.dim('at')} {error.where}")
    if error.hint:
        lines.append(f"  {style.bold('hint:')} " + textwrap.indent(error.hint, " " * 8).lstrip())
    print("\n".join(lines), file=sys.stderr)


def _human_size(size_bytes: int) -> str:
    if size_bytes < 1_000_000:
        return f"{size_bytes / 1000:.0f} KB"
    return f"{size_bytes / 1_000_000:.1f} MB"
