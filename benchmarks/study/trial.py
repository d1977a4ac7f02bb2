"""HNPM with choices that the product does not have: what is tried here is kept there only if it wins.

A trial is registered under the name "trial", so that a recipe can name it. With every setting at its default it is
HNPM itself.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from hardpair.losses import dissimilarity, nt_xent
from hardpair.losses.hnpm import SMALLEST_SUM
from hardpair.methods import Method, Pairs
from hardpair.models import Encoder, average_into, averaged_copy, build_head, mlp
from hardpair.models.memory import Queue
from hardpair.views import POLICIES, Draw, augmented_view, plain_view

KEEP_MEAN = 0.9  # of the running mean of the positive distance


def smaller(method: type[Method], size: int) -> type[Method]:
    """The same method with all its views reduced to so many pixels."""

    class Smaller(method):
        def views(self, images: Tensor, draw: Draw) -> list[Tensor]:
            whole = super().views(images, draw)
            return [functional.interpolate(view, (size, size), mode="bilinear", antialias=True) for view in whole]

    return Smaller


def _resized(view: Tensor, size: int) -> Tensor:
    return functional.interpolate(view, (size, size), mode="bilinear", antialias=True) if size else view


class SimCLRSmall(Method):
    """SimCLR with a third view of fewer pixels, which must find either of the others: is a small view all it takes?

    Args:
        encoder: as in SimCLR.
        view: as in SimCLR.
        temperature: as in SimCLR.
        head_hidden: as in SimCLR.
    """

    def __init__(self, encoder: Encoder, *, view: str, temperature: float, head_hidden: int) -> None:
        super().__init__()
        self.encoder, self.head = encoder, mlp(encoder.num_features, head_hidden, 128)
        self.view, self.temperature = view, temperature

    def views(self, images: Tensor, draw: Draw) -> list[Tensor]:
        """Two of 24 px and one of 16."""
        sizes = {"first": 24, "second": 24, "small": 16}
        return [_resized(augmented_view(images, POLICIES[self.view], draw.within(k)), n) for k, n in sizes.items()]

    def forward(self, views: list[Tensor]) -> dict[str, Tensor]:
        """The mean over the three pairs of views."""
        features = [self.encoder(view) for view in views]
        a, b, c = map(self.head, features)
        pairs = (nt_xent(*pair, temperature=self.temperature) for pair in ((a, b), (a, c), (b, c)))
        return {"loss": sum(pairs) / 3, "features": features[0].detach()}


class Trial(Method):
    """HNPM and what might be better.

    Args:
        encoder: the teacher's encoder.
        head_hidden: as in HNPM.
        head_outputs: as in HNPM.
        teacher_view: as in HNPM.
        student_view: as in HNPM.
        alpha_pos: as in HNPM.
        alpha_neg: as in HNPM.
        threshold: as in HNPM; for ``rule="relative"`` in units of the running mean of the positive distance.
        tau: as in HNPM.
        rule: which pairs are mined: within the threshold, the same relative to positives, or the nearest of an anchor.
        share: of the other images an anchor mines, for ``rule="nearest"``.
        guard: of the pairs an anchor mined, this share of the very nearest is let go again (they may be of its class).
        form: minus log of the sum (Eq. 4), the corrected InfoNCE, log d_ii + log sum 1/d_ij, or "soft",
            s log sum exp(-d_ij / s): the nearer, the harder pushed.
        softness: s of the form "soft".
        anchors: the sums run over the candidates of each student output (Eq. 4), of each teacher output, or both.
        queue: student outputs of earlier batches, as further candidates of each teacher output.
        among_teachers: teacher outputs are candidates of each other, too.
        tau_end: tau moves to this by a half cosine over training.
        symmetric: each network sees both views.
        crop_size: side of the teacher's view in pixels; 0 is that of the images.
        student_size: the same of the student's view.
        extra_size: side of one more view of the teacher, from the policy ``extra_view``; 0: none.
        extra_view: its policy.
        extras: how many of them.
        predictor: hidden width of a further network, of the teacher alone, that predicts the student's output; 0: none.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        head_hidden: int = 512,
        head_outputs: int = 128,
        teacher_view: str = "balanced",
        student_view: str = "balanced",
        alpha_pos: float = 1.0,
        alpha_neg: float = 1.0,
        threshold: float = 1.2,
        tau: float = 0.5,
        rule: Literal["threshold", "relative", "nearest"] = "threshold",
        share: float = 0.2,
        guard: float = 0.0,
        form: Literal["log_sum", "infonce", "soft"] = "log_sum",
        softness: float = 0.4,
        anchors: Literal["student", "teacher", "both"] = "student",
        queue: int = 0,
        among_teachers: bool = False,
        tau_end: float = -1.0,
        symmetric: bool = False,
        crop_size: int = 0,
        student_size: int = 0,
        extra_size: int = 0,
        extra_view: str = "balanced",
        extras: int = 1,
        predictor: int = 0,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = build_head(encoder.num_features, hidden=head_hidden, outputs=head_outputs)
        self.student = averaged_copy(nn.Sequential(self.encoder, self.head))
        self.predictor = mlp(head_outputs, predictor, head_outputs) if predictor else nn.Identity()
        self.teacher_view, self.student_view = teacher_view, student_view
        self.alpha_pos, self.alpha_neg, self.threshold, self.tau = alpha_pos, alpha_neg, threshold, tau
        self.rule, self.share, self.guard, self.form, self.anchors = rule, share, guard, form, anchors
        self.softness = softness
        self.queue = Queue(queue, head_outputs) if queue else None
        self.among_teachers, self.tau_end, self.symmetric = among_teachers, tau_end, symmetric
        self.crop_size, self.student_size = crop_size, student_size
        self.extra_size, self.extra_view, self.extras = extra_size, extra_view, extras
        self.register_buffer("mean_positive", torch.ones(()))
        self.mean_positive: Tensor

    def views(self, images: Tensor, draw: Draw) -> list[Tensor]:
        """The teacher's views, then the student's."""
        first = augmented_view(images, POLICIES[self.teacher_view], draw.within("teacher0"))
        teacher = [_resized(first, self.crop_size)]
        for k in range(self.extras if self.extra_size else 0):
            extra = augmented_view(images, POLICIES[self.extra_view], draw.within(f"extra{k}" if k else "extra"))
            teacher.append(_resized(extra, self.extra_size))
        if self.student_view == "plain":
            return [*teacher, _resized(plain_view(images), self.student_size)]
        student = augmented_view(images, POLICIES[self.student_view], draw.within("student"))
        return [*teacher, _resized(student, self.student_size)]

    def forward(self, views: list[Tensor]) -> dict[str, Tensor]:
        """The mean of the loss over the teacher's views."""
        *teacher, student = views
        if self.symmetric:
            teacher.append(student)
        with torch.no_grad():
            # With symmetric, the student of the first teacher view is on the last view and the other way about.
            known = [self.student(view) for view in ([student, teacher[0]] if self.symmetric else [student])]
        parts, features = [], None
        for k, view in enumerate(teacher):
            features = self.encoder(view)
            parts.append(self._loss(self.predictor(self.head(features)), known[k % len(known)]))
        if self.queue is not None:
            self.queue.push(functional.normalize(known[0], dim=1))
        means = {name: torch.stack([part[name] for part in parts]).mean() for name in parts[0]}
        return {**means, "features": features.detach()}

    def _loss(self, u: Tensor, u_prime: Tensor) -> dict[str, Tensor]:
        distance = dissimilarity(u_prime, u, norm="l2")  # (N, N): student, teacher
        own = distance.diagonal()
        positive = own.mean()
        if self.training:
            self.mean_positive.lerp_(positive.detach(), 1 - KEEP_MEAN)
        mined = self._mined(distance)
        blocks = []
        if self.anchors in ("student", "both"):
            blocks.append(self._push(distance, mined, own))
        if self.anchors in ("teacher", "both"):
            wide, wide_mined = distance.T, mined.T
            if self.queue is not None:
                more = dissimilarity(u, self.queue.keys, norm="l2")
                wide = torch.cat([wide, more], 1)
                wide_mined = torch.cat([wide_mined, self._mined(more, own_pairs=False)], 1)
            if self.among_teachers:
                more = dissimilarity(u, u, norm="l2")
                wide, wide_mined = torch.cat([wide, more], 1), torch.cat([wide_mined, self._mined(more)], 1)
            blocks.append(self._push(wide, wide_mined, own))
        negative = torch.stack(blocks).mean()
        pull = own.clamp_min(SMALLEST_SUM).log().mean() if self.form == "infonce" else positive
        pairs = mined.numel() - len(mined)
        return {
            "loss": self.alpha_pos * pull + self.alpha_neg * negative,
            "positive": positive.detach(),
            "negative": negative.detach(),
            "mined": mined.sum() / pairs,
            "empty": 1 - mined.any(1).float().mean(),
        }

    @torch.no_grad()
    def _mined(self, distance: Tensor, *, own_pairs: bool = True) -> Tensor:
        other = distance.detach().clone()
        if own_pairs:
            other.fill_diagonal_(math.inf)
        if self.rule == "nearest":
            limit = other.kthvalue(max(1, round(self.share * (other.shape[1] - 1))), dim=1, keepdim=True).values
        else:
            limit = self.threshold * (self.mean_positive if self.rule == "relative" else 1.0)
        mined = other <= limit
        if self.guard:
            count = (mined.sum(1, keepdim=True) * self.guard).ceil()  # (N, 1)
            rank = torch.where(mined, other, math.inf).argsort(1).argsort(1)
            mined &= rank >= count
        return mined

    def _push(self, distance: Tensor, mined: Tensor, own: Tensor) -> Tensor:
        found = mined.any(1)
        if self.form == "log_sum":
            each = -torch.where(mined, distance, 0).sum(1).clamp_min(SMALLEST_SUM).log()
        elif self.form == "soft":
            nearness = torch.where(mined, -distance / self.softness, -math.inf)
            each = self.softness * torch.where(found[:, None], nearness, 0).logsumexp(1)
        else:
            inverse = torch.where(mined, 1 / distance.clamp_min(SMALLEST_SUM), 0).sum(1)
            each = (inverse + 1 / own.clamp_min(SMALLEST_SUM)).log()
        return torch.where(found, each, 0).mean()

    def after_step(self, progress: float) -> None:
        """The student follows."""
        tau = self.tau
        if self.tau_end >= 0:
            tau = self.tau_end - (self.tau_end - self.tau) * (1 + math.cos(math.pi * progress)) / 2
        average_into(self.student, self.encoder, self.head, keep=tau)

    @torch.no_grad()
    def hard_pairs(self, views: list[Tensor]) -> Pairs:
        """The pairs of the first view."""
        distance = dissimilarity(self.student(views[-1]), self.predictor(self.head(self.encoder(views[0]))), norm="l2")
        mined = self._mined(distance)
        anchor, negative = mined.nonzero(as_tuple=True)
        return Pairs(anchor, negative, distance[mined])
