"""The commands. The only reader of the environment and of the command line; turns errors into exit codes."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamiz import __version__
from tamiz.errors import ConfigError, InterruptedRunError, TamizError
from tamiz.kernels import name_kernel_folder

if TYPE_CHECKING:
    from tamiz.config import Config
    from tamiz.run.build import Place
    from tamiz.run.plan import Plan
    from tamiz.store import Folder

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None, help=__doc__
)
app.info.help = "tamiz turns the public web into training tokens, and accounts for every document, byte and token."

ConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG", help="a config, for instance configs/cyber.yaml")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="put a value over the config's (repeatable)")
]
RunDir = Annotated[
    str | None, typer.Option("--run-dir", help="where the run lies, a folder or s3://... [default: runs/<name>]")
]
Run = Annotated[str, typer.Argument(metavar="RUN", help="a run directory, for instance runs/cyber")]


# typer brings its own copy of click or imports it, depending on its version; either way this is click's UsageError.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _print(text: str) -> None:
    """To standard output; in colour on a terminal, unless NO_COLOR is set (no-color.org)."""
    from tamiz.report.console import paint

    print(paint(text) if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else text)


def _load(config_file: Path, overrides: list[str] | None, run_dir: str | None) -> tuple[Config, Place]:
    """The config, and its place: a source other than the file's own gets a run directory of its own."""
    from tamiz.config_file import load_config
    from tamiz.objects import check_url
    from tamiz.run.build import Place

    cache = os.environ.get("TAMIZ_HUB_CACHE")
    own_cache = [f"run.hub_cache.path={json.dumps(cache)}"] if cache else []
    config = load_config(config_file, [*own_cache, *(overrides or [])])
    if run_dir is None:
        own = load_config(config_file).source_names
        suffix = "" if config.source_names == own else "-" + "-".join(config.source_names)
        run_dir = f"runs/{config.name}{suffix}"
    check_url(run_dir, "--run-dir")
    return config, Place(run_dir.rstrip("/"), _cache_dir())


def _cache_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tamiz"


def _open_run(run: str) -> tuple[Config, Folder, Plan]:
    """A finished or unfinished run, with the plan that its own copy of the config makes today."""
    from tamiz.run.plan import make_plan, read_run_config

    folder = _open_folder(run)
    config = read_run_config(folder)
    return config, folder, make_plan(config, folder, _cache_dir())


def _open_folder(run: str) -> Folder:
    from tamiz.store import Folder

    folder = Folder(run)
    if not folder.exists("plan.json"):
        raise ConfigError(f"{run}: not a run directory (no plan.json); `tamiz build CONFIG` makes one under runs/")
    return folder


@app.command()
def build(
    config_file: ConfigFile,
    overrides: Overrides = None,
    workers: Annotated[int | None, typer.Option(min=1, help="worker processes [default: run.workers]")] = None,
    engine: Annotated[str | None, typer.Option(help="where units run: local, ray [default: run.engine]")] = None,
    address: Annotated[
        str | None, typer.Option(help="Ray cluster: auto, ray://host:port, local [default: run.address]")
    ] = None,
    run_dir: RunDir = None,
) -> None:
    """Build a corpus, or go on with one: what is done is not done again."""
    from tamiz.run.build import build_corpus

    overrides = list(overrides or [])
    overrides += [f"run.workers={workers}"] if workers else []
    overrides += [f"run.engine={engine}"] if engine else []
    overrides += [f"run.address={json.dumps(address)}"] if address else []
    config, place = _load(config_file, overrides, run_dir)
    if not Path(os.environ["NUMBA_CACHE_DIR"]).exists():
        _say("compiling the kernels: about a minute, on the first run only")
    summary = build_corpus(config, place, _say)
    _print_end(config_file, config, place, summary)


def _print_end(config_file: Path, config: Config, place: Place, summary: dict[str, Any]) -> None:
    from tamiz.report.console import format_summary

    print(format_summary(summary))
    print(f"\ncorpus  {place.run_dir}/corpus")
    print(f"report  {place.run_dir}/report/index.html")
    print(f"check   tamiz verify {place.run_dir}")
    kinds = {config.sources[name].kind for name in config.source_names}
    hub = [name for name, source in config.sources.items() if source.kind == "hub"]
    if kinds == {"sample"} and hub:
        print(f"This was the bundled sample. The real thing: make corpus CONFIG={config_file.name} SOURCE={hub[0]}")


@app.command()
def plan(
    config_file: ConfigFile,
    overrides: Overrides = None,
    run_dir: RunDir = None,
    simulate: Annotated[
        str | None,
        typer.Option(
            metavar="MACHINES",
            help="predict FineWeb-Edu and FineWeb on nodes=32,cores=16,network=10Gbit[,price_core_hour=..,price_gb=..]",
        ),
    ] = None,
    measured: Annotated[
        str | None, typer.Option("--from", help="the finished run whose costs --simulate takes [default: --run-dir]")
    ] = None,
) -> None:
    """Show what a build would read and which rules it would apply, or what a far larger one would cost."""
    from tamiz.run.plan import describe_plan, make_plan
    from tamiz.run.simulate import describe_predictions, measure_costs, parse_machines
    from tamiz.store import Folder

    config, place = _load(config_file, overrides, run_dir)
    if simulate is not None:
        machines = parse_machines(simulate)
        costs = measure_costs(Folder(measured or place.run_dir), config.pack.shard_tokens, config.dedup.memory_bytes)
        print(describe_predictions(costs, machines))
        return
    print(describe_plan(make_plan(config, Folder(place.run_dir), place.cache_dir)))


@app.command()
def status(run: Run) -> None:
    """Show how far a run is, while it runs and after: stages, rates, time left, what would run again and why."""
    from tamiz.run.status import describe_status

    _, folder, made = _open_run(run)
    _print(describe_status(folder, made))


@app.command()
def report(
    run: Run,
    show: Annotated[bool, typer.Option("--open", help="open the page in a browser")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print the summary as JSON, for scripts")] = False,
) -> None:
    """Make the page of a run anew, finished or not, and print its summary."""
    from tamiz.report.console import format_summary
    from tamiz.run.reporting import gather_facts, publish_page

    folder = _open_folder(run)
    facts = gather_facts(folder)
    page = publish_page(folder, facts)
    if as_json:
        print(json.dumps({"state": facts.state, **facts.summary}, indent=1, ensure_ascii=False))
    else:
        print(format_summary(facts.summary))
        print(f"\nreport  {run}/{page}" + ("" if facts.state == "finished" else f"  (the run is {facts.state})"))
    if show:
        _show_page(folder, page)


def _show_page(folder: Folder, page: str) -> None:
    """In the browser; a page behind a URL is copied to a temporary file first."""
    import tempfile
    import webbrowser

    path = Path(folder.locate(page))
    if not folder.is_local:
        with tempfile.NamedTemporaryFile(suffix=".html", delete=False) as file:
            file.write(folder.read_bytes(page))
        path = Path(file.name)
    webbrowser.open(path.as_uri())


@app.command()
def whatif(
    run: Run,
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="RULE=VALUE", help="another bound (repeatable)")
    ] = None,
    offs: Annotated[
        list[str] | None, typer.Option("--off", metavar="RULE", help="a rule or a recipe switched off (repeatable)")
    ] = None,
    recipes: Annotated[
        list[str] | None, typer.Option("--recipe", metavar="NAME", help="a recipe at its published bounds (repeatable)")
    ] = None,
    examples: Annotated[int, typer.Option(min=0, metavar="N", help="show N documents of each side that changes")] = 0,
    sweep: Annotated[
        str | None, typer.Option(metavar="RULE=A:B:STEP", help="print the curve of one rule from A to B")
    ] = None,
) -> None:
    """What the rules would keep with other bounds, from the verdicts of all documents: no text is read."""
    from tamiz.report.answer_console import format_answer, format_sweep
    from tamiz.run.question import Question
    from tamiz.run.sweep import sweep_rule
    from tamiz.run.whatif import ask

    folder, question = _open_folder(run), Question(sets or [], offs or [], recipes or [])
    if sweep is not None:
        _print(format_sweep(sweep_rule(folder, question, sweep)))
    else:
        _print(format_answer(ask(folder, question, examples)))


@app.command()
def explain(
    run: Run,
    doc_id: Annotated[str | None, typer.Option("--id", help="its doc_id, or the first digits of it")] = None,
    url: Annotated[str | None, typer.Option(help="its URL")] = None,
    near: Annotated[
        str | None, typer.Option(metavar="TEXT", help="find documents that contain (most of) a text")
    ] = None,
) -> None:
    """Tell one document's whole story: its source, every metric and rule, what was changed, where its tokens are."""
    from tamiz.report.story import format_found, format_story
    from tamiz.run.explain import find_document, find_near, tell_story

    if sum(option is not None for option in (doc_id, url, near)) != 1:
        raise ConfigError("explain: give one of --id, --url and --near")
    folder = _open_folder(run)
    if near is not None:
        found = find_near(folder, near)
        print(format_found(found))
        if not found:
            raise typer.Exit(1)
        name = bytes.fromhex(found[0].doc_id)
    else:
        name = find_document(folder, doc_id, url)
    _print(format_story(tell_story(folder, name, _cache_dir())))


@app.command()
def compare(
    run_a: Annotated[str, typer.Argument(metavar="RUN_A", help="the run before")],
    run_b: Annotated[str, typer.Argument(metavar="RUN_B", help="the run after")],
) -> None:
    """What entered and what left between two runs, and why; printed, and as a page in RUN_B's report."""
    from tamiz.report.comparison import format_comparison, render_comparison
    from tamiz.run.compare import compare_runs

    before, folder = _open_folder(run_a), _open_folder(run_b)
    comparison = compare_runs(before, folder)
    print(format_comparison(comparison))
    page = f"report/compared-to-{before.url.rpartition('/')[2]}.html"
    folder.publish_bytes(page, render_comparison(comparison).encode())
    print(f"\npage  {folder.url}/{page}")


@app.command()
def verify(run: Run) -> None:
    """Re-read every shard of a run and check it against the manifest and the texts it was made from."""
    from tamiz.run.verify import verify_corpus

    verified = verify_corpus(_open_folder(run), _cache_dir())
    for problem in verified.problems:
        print(problem)
    print(
        f"{'FAILED' if verified.problems else 'ok'}: {verified.files} files, {verified.documents:,} documents, "
        f"{verified.tokens:,} tokens, {len(verified.problems)} problems"
    )
    if verified.problems:
        raise typer.Exit(1)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"tamiz {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print it")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Entry point: exit 0 done, 1 the run failed, 2 the config or command line is wrong, 130 interrupted."""
    os.environ.setdefault("NUMBA_CACHE_DIR", str(name_kernel_folder(_cache_dir())))  # workers inherit it
    signal.signal(signal.SIGINT, _interrupt)
    signal.signal(signal.SIGTERM, _interrupt)  # how spot machines and schedulers say goodbye
    try:
        sys.exit(app(standalone_mode=False) or 0)  # gives back the code of typer.Exit
    except InterruptedRunError:
        _say("interrupted; the same command goes on from what is published")
        sys.exit(130)
    except _UsageError as error:
        error.show()  # type: ignore[attr-defined]
        sys.exit(2)
    except TamizError as error:
        _say(f"tamiz: {error}")
        sys.exit(2 if isinstance(error, ConfigError) else 1)


def _interrupt(number: int, frame: object) -> None:
    raise InterruptedRunError
