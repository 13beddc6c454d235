"""A policy qualified by named checks, before a learning run and before weights are loaded. The one check that needs weights is handed in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from agentgym_cli.episode.architecture import read_architecture
from agentgym_cli.episode.qualification.findings import CHEAP, CHECKS, CheckName, Known, NotMet, PolicyCheck
from agentgym_cli.episode.qualification.masks import check_masks
from agentgym_cli.episode.qualification.stop import check_stop
from agentgym_cli.episode.qualification.template import check_template
from agentgym_cli.errors import AgentgymError, PolicyError
from agentgym_cli.recipe.data import find_data, try_find
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.verbs.prepare import Prepared
from agentgym_cli.verbs.progress import Progress
from agentgym_cli.verbs.turns import Turns, rewritten, turns_of

Weigh: TypeAlias = Callable[[Run, Turns, Path, str], str]
"""Compares log-probabilities: run, turns, model folder, system prompt; what was found. Raises NotMet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Qualification:
    """What was found of one policy."""

    recipe: str
    profile: str
    engine: str
    model: str
    checks: tuple[PolicyCheck, ...]

    @property
    def failed(self) -> tuple[PolicyCheck, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.result == "fail")

    def failure(self) -> PolicyError:
        """The first failed check as an error."""
        check, more = self.failed[0], len(self.failed) - 1
        rest = f" (and {more} more failed checks)" if more else ""
        return PolicyError(f"policy {self.model}: {check.name}: {check.detail}{rest}", f"agentgym probe {self.recipe} --policy shows every check")


def qualify(run: Run, *, recipe: str, beside: Sequence[Path], system_prompt: str, weigh: Weigh | None, names: Sequence[CheckName]) -> Qualification:
    """Make the named checks. A model that is bad in whatever way is a result, never an exception.

    Args:
        weigh: check ``logprobs``; None where the engine gives no log-probabilities to compare.
    """
    visit = _Visit(run, beside, system_prompt, weigh)
    checks = tuple(visit.make(name) for name in names)
    return Qualification(recipe=recipe, profile=run.profile, engine=run.engine.kind, model=run.policy.own_model.path, checks=checks)


def require_cheap_checks(prepared: Prepared, progress: Progress) -> None:
    """Qualify a run's policy as far as no weights are needed. Raises PolicyError when a check fails."""
    frozen = prepared.frozen
    found = qualify(prepared.run, recipe=frozen.recipe, beside=frozen.beside, system_prompt=prepared.system_prompt, weigh=None, names=CHEAP)
    if found.failed:
        raise found.failure()
    for check in found.checks:
        if check.result == "known deviation":
            progress.warn(f"policy {found.model}: {check.name}: {check.detail}")
    passed = sum(check.result == "pass" for check in found.checks)
    progress.note("qualified", f"{passed} of {len(found.checks)} checks of the policy pass without weights")


class _Visit:
    """The checks of one policy, in order; each may need what an earlier one found."""

    def __init__(self, run: Run, beside: Sequence[Path], system_prompt: str, weigh: Weigh | None) -> None:
        self._run, self._beside, self._system_prompt, self._weigh = run, beside, system_prompt, weigh
        self._turns: Turns | None = None
        self._failed: list[CheckName] = []

    def make(self, name: CheckName) -> PolicyCheck:
        """One check, whatever comes of it."""
        began = time.monotonic()
        reason = self._not_applicable(name)
        if reason is not None:
            return PolicyCheck(name=name, result="n/a", detail=reason, seconds=0.0)
        checks: dict[CheckName, Callable[[], str]] = {
            "architecture": self._architecture,
            "template": self._template,
            "masks": self._masks,
            "stop": self._stop,
            "logprobs": self._logprobs,
        }
        try:
            detail = checks[name]()
            result: PolicyCheck = PolicyCheck(name=name, result="pass", detail=detail, seconds=time.monotonic() - began)
        except Known as known:
            result = PolicyCheck(name=name, result="known deviation", detail=str(known), seconds=time.monotonic() - began)
        except (NotMet, AgentgymError) as finding:
            self._failed.append(name)
            result = PolicyCheck(name=name, result="fail", detail=str(finding), seconds=time.monotonic() - began)
        return result

    def _not_applicable(self, name: CheckName) -> str | None:
        model, engine = self._run.policy.own_model, self._run.engine.kind
        if engine != "local":
            if try_find(model.tokenizer or model.path, beside=self._beside) is None:
                return f"engine {engine} fetches the model; its files are not on this machine"
            if name in ("architecture", "logprobs"):
                return f"engine {engine} runs the network itself, and compares log-probabilities at every step"
        if name == "logprobs" and self._failed:
            return f"not run, since {self._failed[0]} failed"
        return "not run, since template failed" if name in ("masks", "stop") and self._turns is None else None

    def _architecture(self) -> str:
        found = read_architecture(self._model_folder())
        return f"{found.kind}, {found.settings.get('num_hidden_layers')} layers: engine local computes it"

    def _template(self) -> str:
        turns = turns_of(self._run, beside=self._beside)
        self._turns = turns
        reason = rewritten(self._run, turns)
        return check_template(turns.tokens, turns.template, turns.facts, system_prompt=self._system_prompt, rewritten=reason)

    def _masks(self) -> str:
        assert self._turns is not None
        return asyncio.run(check_masks(self._turns.tokens, system_prompt=self._system_prompt))

    def _stop(self) -> str:
        assert self._turns is not None
        return check_stop(self._turns.tokens, model_folder=self._model_folder())

    def _logprobs(self) -> str:
        assert self._turns is not None and self._weigh is not None
        return self._weigh(self._run, self._turns, self._model_folder(), self._system_prompt)

    def _model_folder(self) -> Path:
        return find_data(self._run.policy.own_model.path, beside=self._beside, where="policy.model.path")


assert set(CHEAP) < set(CHECKS)
