"""The command tree: every verb's words and options. Bodies import their verb, call it and print."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

app = typer.Typer(
    name="agentgym",
    help="Train and evaluate language-model agents in AgentGym-style environments, with frozen runs and honest denominators.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Recipe = Annotated[str, typer.Argument(help="Recipe (YAML), frozen run (JSON) or folder of a run.", show_default=False)]
RecipeFile = Annotated[str, typer.Argument(help="Recipe (YAML).", show_default=False)]
Overrides = Annotated[list[str] | None, typer.Argument(help="Overrides such as profile=gpu or train.learning_rate=5e-7.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the run whose folder is given, from its last checkpoint.")]
RunsDir = Annotated[Path | None, typer.Option("--runs-dir", help="Folder for runs; the recipe's store.runs_dir otherwise.", show_default=False)]
Database = Annotated[Path | None, typer.Option("--store", help="Store file; the recipe's store.database otherwise.", show_default=False)]
AllowDrift = Annotated[
    bool, typer.Option("--allow-drift", help="Go on although files or packages are not as frozen or locked; every report says so.")
]
RayAddress = Annotated[
    str | None, typer.Option("--ray-address", help="HOST:PORT of a running Ray cluster; sets cluster.ray_address.", show_default=False)
]
RayJob = Annotated[
    str | None, typer.Option("--ray-job", help="Train on the cluster whose job server is at this address: http://HEAD:8265.", show_default=False)
]
AllowDegraded = Annotated[bool, typer.Option("--allow-degraded", help="Exit 0 although the infra share is above the recipe's limit.")]


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"agentgym {version('agentgym-cli')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)] = False,
) -> None:
    """Train and evaluate language-model agents in AgentGym-style environments, with frozen runs and honest denominators."""


@app.command(short_help="Check servers, or a policy, before a GPU is paid for.")
def probe(
    recipe: Annotated[str | None, typer.Argument(help="Recipe whose servers, or policy, are probed.", show_default=False)] = None,
    overrides: Overrides = None,
    policy: Annotated[bool, typer.Option("--policy", help="Qualify the recipe's policy by five checks, in place of its servers.")] = False,
    url: Annotated[list[str] | None, typer.Option("--url", help="Probe this running server instead; may be repeated.", show_default=False)] = None,
    dialect: Annotated[str | None, typer.Option("--dialect", help="Dialect the servers at --url should speak.", show_default=False)] = None,
    level: Annotated[Literal["quick", "full", "soak"], typer.Option("--level", help="How much is checked.")] = "quick",
    idle_seconds: Annotated[float, typer.Option("--idle-seconds", help="How long level soak leaves a session alone.")] = 60.0,
    token_variable: Annotated[
        str | None, typer.Option("--token-variable", help="Environment variable with the bearer token for --url.", show_default=False)
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Also write the result to this file, as JSON.", show_default=False)] = None,
    junit: Annotated[Path | None, typer.Option("--junit", help="Also write the result to this file, as JUnit XML.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Check environment servers against their contract, or a policy by five checks, before a GPU is paid for."""
    from agentgym_cli.cli.live import stderr_progress
    from agentgym_cli.cli.show_policy import show_qualification
    from agentgym_cli.cli.show_probe import show_probe
    from agentgym_cli.verbs.probe import ProbeRequest, probe_servers
    from agentgym_cli.verbs.probe_policy import probe_policy

    where = ProbeRequest(recipe=recipe, overrides=overrides or [], urls=url or [], dialect=dialect, token_variable=token_variable)
    request = replace(where, level=level, idle_seconds=idle_seconds, files=[output, junit])
    if policy:
        show_qualification(probe_policy(request), as_json=as_json, output=output)
    else:
        show_probe(probe_servers(request, progress=stderr_progress()), as_json=as_json, output=output, junit=junit)


@app.command(short_help="Train a policy and report on it.")
def train(
    recipe: Recipe,
    overrides: Overrides = None,
    resume: Resume = False,
    show: Annotated[bool, typer.Option("--show", help="Print the resolved run and its horizon stages, and exit.")] = False,
    show_verl: Annotated[bool, typer.Option("--show-verl", help="Print every key that verl would be told, and exit.")] = False,
    ray_address: RayAddress = None,
    ray_job: RayJob = None,
    as_json: AsJson = False,
    runs_dir: RunsDir = None,
    store: Database = None,
    allow_drift: AllowDrift = False,
    allow_degraded: AllowDegraded = False,
) -> None:
    """Train a policy: probe, warm start, scheduled episodes, updates, evaluation, report."""
    from agentgym_cli.cli.show import run_and_report
    from agentgym_cli.cli.show_recipe import show_resolved
    from agentgym_cli.verbs.recipes import show_target
    from agentgym_cli.verbs.request import Request
    from agentgym_cli.verbs.train import train_policy

    request = Request(
        target=recipe,
        overrides=[*(overrides or []), *([] if ray_address is None else [f"cluster.ray_address={json.dumps(ray_address)}"])],
        resume=resume,
        runs_dir=runs_dir,
        database=store,
        allow_degraded=allow_degraded,
        allow_drift=allow_drift,
    )
    if show_verl:
        from agentgym_cli.cli.show_verl import show_settings
        from agentgym_cli.verbs.verl_place import resolved_settings

        show_settings(*resolved_settings(recipe, request.overrides), as_json=as_json)
    elif show:
        show_resolved(show_target(recipe, request.overrides), as_json=as_json)
    elif ray_job is not None:
        from agentgym_cli.cli.live import stderr_progress
        from agentgym_cli.verbs.ray_job import one_place, train_as_job

        one_place(as_json=as_json, ray_address=ray_address)
        raise typer.Exit(train_as_job(request, ray_job, stderr_progress()))
    else:
        run_and_report(train_policy, request, as_json=as_json)


@app.command(name="eval", short_help="Evaluate policies; the same loop without learning.")
def evaluate(
    recipe: Recipe,
    overrides: Overrides = None,
    policy: Annotated[
        str | None,
        typer.Option("--policy", help="oracle, random, scripted, checkpoint or endpoint; evaluation.policy otherwise.", show_default=False),
    ] = None,
    checkpoint: Annotated[
        list[Path] | None,
        typer.Option("--checkpoint", help="Folder of a checkpoint, a run (its last one) or a model; may be repeated.", show_default=False),
    ] = None,
    endpoint: Annotated[
        list[str] | None,
        typer.Option("--endpoint", help="Server of OpenAI's protocol, URL or URL=MODEL; may be repeated.", show_default=False),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Model of --endpoint; the only one that the server has otherwise.", show_default=False)
    ] = None,
    script: Annotated[Path | None, typer.Option("--script", help="JSON lines of {task, actions} for --policy scripted.", show_default=False)] = None,
    tasks: Annotated[
        list[str] | None,
        typer.Option("--tasks", help="Only these: numbers (3,5-9), category=NAME or split=NAME; may be repeated.", show_default=False),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Most tasks per split; stays visible in the report.", show_default=False)
    ] = None,
    samples: Annotated[int | None, typer.Option("--samples", min=1, help="Episodes of each task.", show_default=False)] = None,
    temperature: Annotated[str | None, typer.Option("--temperature", help="Of sampling; 0 is greedy.", show_default=False)] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the evaluation whose folder is given, with its own policy.")] = False,
    as_json: AsJson = False,
    runs_dir: RunsDir = None,
    store: Database = None,
    allow_drift: AllowDrift = False,
    allow_degraded: AllowDegraded = False,
) -> None:
    """Evaluate policies on the recipe's evaluation splits, a run for each; the same loop without learning."""
    from agentgym_cli.cli.show_runs import run_all_and_report
    from agentgym_cli.verbs.evaluate import evaluate_policy
    from agentgym_cli.verbs.request import EvaluationWords, Request, evaluations

    who = EvaluationWords(policy=policy, script=script, checkpoints=checkpoint or [], endpoints=endpoint or [], model=model)
    words = replace(who, tasks=tasks or [], limit=limit, samples=samples, temperature=temperature)
    where = Request(target=recipe, overrides=overrides or [], resume=resume, runs_dir=runs_dir, database=store)
    request = replace(where, allow_degraded=allow_degraded, allow_drift=allow_drift)
    run_all_and_report(evaluate_policy, evaluations(request, words), as_json=as_json)


@app.command(short_help="Say what a run needs, what will be slow and what it costs.")
def capacity(
    recipe: RecipeFile,
    overrides: Overrides = None,
    gpu: Annotated[str | None, typer.Option("--gpu", help="Kind of GPU, e.g. h100-80g; the profile's otherwise.", show_default=False)] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", help="How many; the profile's number otherwise.", show_default=False)] = None,
    run: Annotated[str | None, typer.Option("--from", help="Take times and turns from this run in the store.", show_default=False)] = None,
    store: Annotated[Path, typer.Option("--store", help="Store file that holds the run of --from.")] = Path("results.duckdb"),
    probe: Annotated[
        Path | None, typer.Option("--probe", help="Take the worlds' times from this result of probe --level full.", show_default=False)
    ] = None,
    gpu_price: Annotated[float | None, typer.Option("--gpu-price", help="Price of a GPU-hour, in any currency.", show_default=False)] = None,
    width: Annotated[float | None, typer.Option("--width", help="Plan an evaluation: wanted width of its interval.", show_default=False)] = None,
    gap: Annotated[float | None, typer.Option("--difference", help="Plan one that detects this difference.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Say whether a run fits its devices, what will be slow, what it takes and costs, what to change. Starts nothing. Exit 2: it does not fit."""
    from agentgym_cli.cli.show_capacity import show_answer
    from agentgym_cli.verbs.capacity import Question, answer, require_fit

    asked = Question(recipe=recipe, overrides=overrides or [], gpu=gpu, gpus=gpus, run=run, database=store)
    found = answer(replace(asked, probe=probe, gpu_price=gpu_price, width=width, gap=gap))
    show_answer(found, as_json=as_json)
    require_fit(found)


@app.command(short_help="Report a run, compare runs, or judge one by a gate.")
def report(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Run name, unique beginning of one, or run folder; others are compared with the first.")
    ],
    store: Annotated[Path, typer.Option("--store", help="Store file that holds the runs.")] = Path("results.duckdb"),
    form: Annotated[str, typer.Option("--format", help="terminal, md, json, html or csv (one line an episode).")] = "terminal",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file, not to standard output.", show_default=False)] = None,
    x: Annotated[str | None, typer.Option("--x", help="Draw curves against steps, turns, tokens or seconds.", show_default=False)] = None,
    gate: Annotated[
        Path | None, typer.Option("--gate", help="Judge the run by this file; exit 8 when a rule is not met.", show_default=False)
    ] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Show the tokens of --episode in place of the report.")] = False,
    episode: Annotated[
        str | None, typer.Option("--episode", help="Episode for --tokens, e.g. eval/test/0/textcraft_3/0.", show_default=False)
    ] = None,
    attempt: Annotated[int | None, typer.Option("--attempt", help="Its attempt; the last one with tokens.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Report a run: both denominators, intervals, diagnosis, curves. Compare several runs, or judge one by a gate."""
    from agentgym_cli.cli.show_report import show_answer
    from agentgym_cli.cli.show_tokens import show_tokens
    from agentgym_cli.verbs.report import ReportWords, answer, check_words
    from agentgym_cli.verbs.tokens import one_or_the_other, view_tokens

    one_or_the_other(tokens, episode, attempt, form)
    words = ReportWords(runs=runs, database=store, form="json" if as_json else form, output=output, x=x, gate=gate)
    if tokens:
        check_words(words, tokens=True)
        show_tokens(view_tokens(runs[0], episode, store, attempt=attempt), as_json=words.form == "json")
    else:
        show_answer(answer(words), form=words.form, output=output)


@app.command(short_help="Look at runs and episodes in a browser.")
def view(
    run: Annotated[str | None, typer.Argument(help="Run to begin with: its name or a unique beginning of it.", show_default=False)] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port on loopback; 0 takes a free one.")] = 0,
    store: Annotated[Path, typer.Option("--store", help="Store file to look at.")] = Path("results.duckdb"),
    runs_dir: Annotated[Path, typer.Option("--runs-dir", help="Folder that holds the runs.")] = Path("runs"),
    no_open: Annotated[bool, typer.Option("--no-open", help="Print the address; open no browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Serve pages over the store on loopback, live runs too: runs, episodes, turns, tokens, comparisons. Read-only."""
    from agentgym_cli.cli.show_view import say_address
    from agentgym_cli.verbs.view import ViewRequest, view_store

    request = ViewRequest(run=run, database=store, runs_dir=runs_dir, port=port, browser=not no_open)
    view_store(request, say_address(as_json=as_json))


@app.command(short_help="Write a run's model as a folder.")
def export(
    run: Annotated[str, typer.Argument(help="Run name, unique beginning of one, or run folder.", show_default=False)],
    step: Annotated[int | None, typer.Option("--step", min=0, help="Checkpoint of this step; the last one otherwise.", show_default=False)] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="New folder; export/step-N in the run's otherwise.", show_default=False)
    ] = None,
    runs_dir: Annotated[Path, typer.Option("--runs-dir", help="Folder that holds the runs.")] = Path("runs"),
    store: Annotated[Path, typer.Option("--store", help="Store file that holds the run.")] = Path("results.duckdb"),
    as_json: AsJson = False,
) -> None:
    """Write the model of a checkpoint as a folder that transformers loads, with a card of its run, data and figures."""
    from agentgym_cli.cli.show_export import show_exported_model
    from agentgym_cli.verbs.export import export_model

    show_exported_model(export_model(run, step=step, folder=output, database=store, runs_dir=runs_dir), as_json=as_json)


@app.command(short_help="Make a model folder of a GGUF file.")
def convert(
    file: Annotated[str, typer.Argument(help="GGUF file, or PACKAGE/FILE of an installed package.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="New folder.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Make a model folder, with float32 weights, of a GGUF file."""
    from agentgym_cli.cli.show_export import show_converted
    from agentgym_cli.verbs import convert as verb

    show_converted(verb.convert(file, output), as_json=as_json)


@app.command(short_help="Freeze a recipe and print its digest.")
def freeze(
    recipe: Annotated[str | None, typer.Argument(help="Recipe to freeze.", show_default=False)] = None,
    overrides: Overrides = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the frozen run to this file.", show_default=False)] = None,
    check: Annotated[Path | None, typer.Option("--check", help="Name what has drifted since a run was frozen.", show_default=False)] = None,
    diff: Annotated[tuple[Path, Path] | None, typer.Option("--diff", help="Name what differs between two frozen runs.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Resolve a recipe into its frozen run and print the digest, item by item."""
    from agentgym_cli.cli.show_freeze import show_check, show_diff, show_frozen
    from agentgym_cli.verbs.freeze import check_frozen, compare_frozen, freeze_recipe, only_one

    only_one(recipe, overrides or [], output, check, diff)
    if check is not None:
        show_check(check_frozen(check), as_json=as_json)
    elif diff is not None:
        show_diff(compare_frozen(*diff), as_json=as_json)
    else:
        show_frozen(freeze_recipe(recipe, overrides or [], output), as_json=as_json)


@app.command(
    short_help="Serve a shipped world over HTTP.",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
def serve(context: typer.Context) -> None:
    """Serve one of the shipped worlds, e.g. agentgym serve textcraft --port 36001."""
    from agentgym_cli.verbs.serve import serve_world

    raise typer.Exit(serve_world(context.args))


recipe_app = typer.Typer(help="Look at recipes.", short_help="Look at recipes.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(recipe_app, name="recipe")


@recipe_app.command(name="list")
def recipe_list(as_json: AsJson = False) -> None:
    """List the recipes that ship, with what their source reports."""
    from agentgym_cli.cli.show_recipe import show_recipes
    from agentgym_cli.verbs.recipes import list_recipes

    show_recipes(list_recipes(), as_json=as_json)


@recipe_app.command(name="schema")
def recipe_schema(as_json: AsJson = False) -> None:
    """Print every key of a recipe; with --json, as a JSON Schema that editors use."""
    from agentgym_cli.cli.show_recipe import show_schema

    show_schema(as_json=as_json)


@recipe_app.command(name="pin")
def recipe_pin(
    recipe: RecipeFile,
    overrides: Overrides = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the manifest to this new file.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Ask a recipe's servers for its tasks, and write a manifest."""
    from agentgym_cli.cli.live import stderr_progress
    from agentgym_cli.cli.show_pin import show_pinned
    from agentgym_cli.verbs.pin import pin_tasks

    show_pinned(pin_tasks(recipe, overrides or [], output, progress=stderr_progress()), as_json=as_json)


store_app = typer.Typer(help="Look after the store.", short_help="Look after the store.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(store_app, name="store")


@store_app.command(name="rebuild")
def store_rebuild(
    runs_dir: Annotated[Path, typer.Option("--runs-dir", help="Folder that holds the runs.")] = Path("runs"),
    store: Annotated[Path, typer.Option("--store", help="Store file to make again.")] = Path("results.duckdb"),
    as_json: AsJson = False,
) -> None:
    """Make the store again from the journals of all runs."""
    from agentgym_cli.cli.show import show_rebuilt
    from agentgym_cli.verbs.report import rebuild_store

    show_rebuilt(rebuild_store(runs_dir, store), as_json=as_json)


@store_app.command(name="digest")
def store_digest(
    run: Annotated[str, typer.Argument(help="Run name, unique beginning of one, or run folder.", show_default=False)],
    store: Annotated[Path, typer.Option("--store", help="Store file that holds the run.")] = Path("results.duckdb"),
    as_json: AsJson = False,
) -> None:
    """Digest a run's results: equal for two runs of one frozen run wherever equal bits are promised."""
    from agentgym_cli.cli.show import show_digest
    from agentgym_cli.verbs.report import digest_results

    show_digest(*digest_results(run, store), as_json=as_json)


@store_app.command(name="check")
def store_check(
    runs_dir: Annotated[Path, typer.Option("--runs-dir", help="Folder that holds the runs.")] = Path("runs"),
    store: Annotated[Path, typer.Option("--store", help="Store file to check.")] = Path("results.duckdb"),
    as_json: AsJson = False,
) -> None:
    """Check a store against its journals, its schedule and itself; exit 7 names what is wrong."""
    from agentgym_cli.cli.show_store import show_checked
    from agentgym_cli.verbs.store import check

    show_checked(check(store, runs_dir), store, as_json=as_json)


@store_app.command(name="export")
def store_export(
    parquet: Annotated[Path, typer.Option("--parquet", help="Folder for one Parquet file per table and view.", show_default=False)],
    store: Annotated[Path, typer.Option("--store", help="Store file to export.")] = Path("results.duckdb"),
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write every table and view to a Parquet file of its own."""
    from agentgym_cli.cli.show_store import show_exported
    from agentgym_cli.verbs.store import export

    show_exported(export(store, parquet, force=force), as_json=as_json)


@store_app.command(name="import")
def store_import(
    path: Annotated[Path, typer.Argument(help="Folder of step{N}/{rank}.json, or AgentTraj file or folder.", show_default=False)],
    form: Annotated[Literal["agentgym-rl", "agenttraj"], typer.Option("--format", help="What wrote the files.", show_default=False)],
    run: Annotated[str, typer.Option("--run", help="Name of the new run.", show_default=False)],
    env: Annotated[str | None, typer.Option("--env", help="Dialect; agentgym-rl logs do not name it.", show_default=False)] = None,
    runs_dir: Annotated[Path, typer.Option("--runs-dir", help="Folder that gets the run.")] = Path("runs"),
    store: Annotated[Path, typer.Option("--store", help="Store file that gets the run.")] = Path("results.duckdb"),
    as_json: AsJson = False,
) -> None:
    """Import another program's episodes as a run marked imported; what its files do not say stays unknown."""
    from agentgym_cli.cli.show_store import show_imported
    from agentgym_cli.verbs.store import import_run

    show_imported(import_run(path, form=form, run=run, database=store, runs_dir=runs_dir, env=env), as_json=as_json)


lock_app = typer.Typer(
    help="Compare what is installed with a lock.", short_help="Compare what is installed with a lock.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(lock_app, name="lock")


@lock_app.command(name="check")
def lock_check(
    stack: Annotated[str, typer.Argument(help="Stack, a file of lockfiles/ without its ending.")] = "cpu",
    as_json: AsJson = False,
) -> None:
    """Compare the running interpreter with a stack's lock: versions, and every file that a locked package installed."""
    from agentgym_cli.cli.live import stderr_progress
    from agentgym_cli.cli.show_lock import show_lock
    from agentgym_cli.verbs.lock import check_lock

    show_lock(check_lock(stack, progress=stderr_progress()), as_json=as_json)
