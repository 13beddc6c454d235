"""``agentgym probe RECIPE --policy``: all checks of a recipe's policy, weights included."""

from __future__ import annotations

from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.episode.qualification.findings import CHECKS
from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.lock import require_engine
from agentgym_cli.recipe.parts import dialect_path
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.verbs.prepare import system_prompt_of
from agentgym_cli.verbs.probe import ProbeRequest
from agentgym_cli.verbs.qualify import Qualification, qualify
from agentgym_cli.verbs.train import load_comparison


def probe_policy(request: ProbeRequest) -> Qualification:
    """Qualify the policy of a recipe.

    Raises:
        RecipeError: no recipe, or words that are for servers.
        LockError: the engine is not installed.
    """
    if request.recipe is None:
        raise RecipeError("probe --policy: expected a recipe, got none", "agentgym probe RECIPE --policy")
    _refuse_words_for_servers(request)
    resolved = resolve(request.recipe, request.overrides)
    run, beside = resolved.run, resolved.folders
    local = run.engine.kind == "local"
    if local:
        require_engine("local")
    dialect = load_dialect(dialect_path(run.env.dialect, beside=beside))
    prompt = system_prompt_of(run, dialect, beside)
    weigh = load_comparison() if local else None
    return qualify(run, recipe=request.recipe, beside=beside, system_prompt=prompt, weigh=weigh, names=tuple(CHECKS))


def _refuse_words_for_servers(request: ProbeRequest) -> None:
    """Nothing that is said is ignored."""
    given = {
        "--url": bool(request.urls),
        "--dialect": request.dialect is not None,
        "--token-variable": request.token_variable is not None,
        "--level": request.level != "quick",
        "--junit": any(request.files[1:]),
    }
    for word, said in given.items():
        if said:
            raise RecipeError(f"probe --policy: expected no {word}, which is for servers, got one", "agentgym probe RECIPE --policy")
