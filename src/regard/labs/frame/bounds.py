"""Thresholds that come from theory: what rounding may do, and how sure a fitted slope is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from regard.labs.frame.values import Text


def rounding(dtype: torch.dtype, terms: int, size: float = 1.0) -> float:
    """How far two orders of the same sum of `terms` numbers, whose result is about `size`, may lie apart: 8·√terms·ε·size,
    which is exceeded with a probability below 1e-13 a number (Higham and Mary 2019, theorem 2.4)."""
    return 8 * math.sqrt(terms) * torch.finfo(dtype).eps * size


ROUNDING = Text(
    en="what rounding may do: 8·√terms·ε·size (Higham and Mary 2019)",
    zh="舍入误差的上界：8·√项数·ε·量级（Higham 与 Mary 2019）",
)
EXACT = Text(en="an identity: no rounding takes part", zh="恒等式：没有舍入")
VISIBLE = Text(en="a tenth of the size of the outputs, far above rounding", zh="输出量级的十分之一，远大于舍入误差")


@dataclass(frozen=True)
class Slope:
    """A straight line through points: its slope, and the slope's standard error."""

    slope: float
    error: float


def fit(x: Sequence[float], y: Sequence[float]) -> Slope:
    """Least squares through three points or more."""
    a, b = (torch.tensor(list(t), dtype=torch.float64) for t in (x, y))
    a = a - a.mean()
    slope = float((a * b).sum() / (a * a).sum())
    rest = b - b.mean() - slope * a
    return Slope(slope, math.sqrt(float((rest * rest).sum()) / (len(a) - 2) / float((a * a).sum())))


def log_fit(x: Sequence[float], y: Sequence[float]) -> Slope:
    """The exponent of a power law y ~ x^slope."""
    return fit([math.log(value) for value in x], [math.log(value) for value in y])


def noise(count: int, share: float = 0.5) -> float:
    """Four standard errors of a share that is measured on `count` answers; 0.5 is where they are largest."""
    return 4 * math.sqrt(share * (1 - share) / count)


def noise_between(count: int) -> float:
    """Four standard errors of the difference of two shares, each measured on `count` answers."""
    return 4 * math.sqrt(0.5 / count)


STUDENT = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Student's t, two-sided at 95 %, for 1 to 9 degrees of freedom."""


def surely(values: Sequence[float]) -> float:
    """The lower end of the 95 % interval of the mean of two to ten values: above 0, they are not so by chance."""
    each = torch.tensor(list(values), dtype=torch.float64)
    return float(each.mean()) - STUDENT[len(each) - 2] * float(each.std()) / math.sqrt(len(each))


BUDGET = Text(en="equal budgets to 5 %", zh="预算相差不超过 5 %")
INTERVAL = Text(en="lower end of the 95 % interval over the seeds (Student)", zh="各种子上 95 % 区间的下端（学生 t）")
